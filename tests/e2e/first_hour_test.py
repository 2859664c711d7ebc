#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""docs/FIRST-HOUR.md, as a new user walks it: each block of the page is run, and says what the page says.

usage: first_hour_test.py DAYBOOK SLOW_DISK [TEST...]"""
import os
import re
import subprocess
import sys

import daybook_process as dp
from daybook_process import Daemon

BINARY = os.path.abspath(sys.argv[1])
ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))


def blocks():
    """(command, what it says) of each block that has an answer."""
    with open(os.path.join(ROOT, "docs", "FIRST-HOUR.md"), encoding="utf-8") as page:
        return re.findall(r"```sh\n(.*?)```\n\n```text\n(.*?)```", page.read(), re.S)


def test_every_block_of_the_page():
    page = blocks()
    sinks = [{"name": "billing", "sinks": [{"kind": "sqlite", "name": "ledger", "path": "daybook-data/usage.db"}]}]
    with Daemon(BINARY, journal={"path": "daybook-data", "min_free_disk": "1MiB"}, consumers=sinks) as d:
        d.start()
        # A checkout as the page sees it.
        os.symlink(os.path.join(ROOT, "examples"), d.path("examples"))
        os.makedirs(d.path("build"))
        os.symlink(os.path.dirname(BINARY), d.path("build/release"))
        for command, said in page:
            if "sqlite3" in command:  # a moment later, says the page
                d.drained()
            run = subprocess.run(["bash", "-c", command.replace("http://127.0.0.1:8377", d.url)], cwd=d.directory,
                                 stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, check=False,
                                 env={**os.environ, "DAYBOOK_URL": d.url}, timeout=120)
            assert run.stdout.decode() == said, f"{command}\nsays:\n{run.stdout.decode()}\n{run.stderr.decode()}"
        assert len(page) >= 9, len(page)
        dp.promise("every block of docs/FIRST-HOUR.md says what the page says", f"{len(page)} of {len(page)} do")


sys.exit(dp.run_tests(globals(), sys.argv[3:]))
