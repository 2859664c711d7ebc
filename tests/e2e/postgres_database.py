# SPDX-License-Identifier: Apache-2.0
"""A database for journals, set up as docs/POSTGRES.md says, and daemons on it. Standard library only."""
import os
import re
import sys

import daybook_process as dp

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
sys.path.insert(0, os.path.join(ROOT, "tests", "harness"))
from postgres_server import NoServer, PostgresServer  # noqa: E402

OWNER, DAEMON = "owner-of-the-test", "daemon-of-the-test"
VARIABLE, OWNER_VARIABLE = "DAYBOOK_JOURNAL_DSN", "DAYBOOK_OWNER_DSN"
JOURNAL = {"backend": "postgres", "dsn_env": VARIABLE}
LEDGER = {"kind": "sqlite", "name": "ledger", "path": "usage.db"}
PAGE = os.path.join(ROOT, "docs", "POSTGRES.md")


def page_blocks():
    """The SQL of the page, in its order: roles and database, grants, autovacuum."""
    with open(PAGE, encoding="utf-8") as file:
        return re.findall(r"```sql\n(.*?)```", file.read(), re.S)


class Database:
    """One server with one database, its owner and the daemons' role."""

    def __init__(self, **settings):
        try:
            self.server = PostgresServer(settings)
        except NoServer as why:
            raise dp.Skip(str(why)) from None
        self.roles, self.grants, self.vacuum = page_blocks()

    def __enter__(self):
        self.server.__enter__()
        self.server.sql(self.roles + f"ALTER ROLE daybook_owner PASSWORD '{OWNER}'; ALTER ROLE daybook PASSWORD '{DAEMON}';")
        return self

    def __exit__(self, *_):
        self.server.__exit__()

    def dsn(self, **more):
        return self.server.dsn(**{"user": "daybook", "password": DAEMON, "database": "journal", **more})

    def owner_dsn(self):
        return self.dsn(user="daybook_owner", password=OWNER)

    def environment(self, **more):
        return {VARIABLE: self.dsn(**more), OWNER_VARIABLE: self.owner_dsn()}

    def sql(self, statements):
        """As a superuser, in the database of the journal."""
        return self.server.sql(statements, self.server.dsn(database="journal"))

    def migrate(self, daemon):
        """Schema and grants, as the page says."""
        with open(daemon.path("daybook.yaml"), "w", encoding="utf-8") as file:
            dp.json.dump(daemon.config, file)
        done = daemon.run("migrate", "-c", "daybook.yaml", "--apply", "--dsn-env", OWNER_VARIABLE)
        assert done.returncode == 0, done.stderr.decode()
        self.server.sql(self.grants + self.vacuum, self.owner_dsn())

    def terminate(self):
        """Ends every connection of a daemon; returns how many."""
        return int(self.sql("SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity "
                            "WHERE application_name = 'daybook'"))
