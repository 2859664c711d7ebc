#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A private PostgreSQL for tests: made in a directory of its own, run by an unprivileged user on a port of its own, with
TLS (a certificate that it signs itself) and scram passwords, and gone when the test ends. Standard library only.

usage: postgres_server.py [--set NAME=VALUE]... COMMAND [ARG...]
Runs COMMAND beside a fresh server, with DAYBOOK_TEST_DSN (a superuser's) in its environment; exits 77 where there is no
PostgreSQL."""
import glob
import os
import pwd
import shutil
import signal
import subprocess
import sys
import tempfile

from free_port import free_port

PASSWORD = "superuser-of-the-test"
START_S = 60
NOBODY_HAS_IT = 77
# Where ./dev puts it, if nobody has installed it.
UNPACKED = os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../build/packages/postgresql/usr")
# Durability as it comes; only the sizes are those of a test.
SETTINGS = {"shared_buffers": "256MB", "max_connections": "60", "max_wal_size": "4GB", "autovacuum_naptime": "5s",
            "password_encryption": "scram-sha-256", "log_min_messages": "warning"}


class NoServer(Exception):
    """There is no PostgreSQL on this machine."""


def programs():
    """The directory of initdb and postgres, the newest version that is there."""
    for root in ("/usr", UNPACKED):
        for place in sorted(glob.glob(f"{root}/lib/postgresql/*/bin"), key=lambda p: int(p.split("/")[-2]), reverse=True):
            if os.access(os.path.join(place, "initdb"), os.X_OK):
                return place
    raise NoServer("no PostgreSQL server here: apt-get install postgresql-15")


def unprivileged():
    """Whom the server runs as: initdb refuses root. None: whoever we are."""
    if os.geteuid() != 0:
        return None
    for name in ("postgres", "nobody"):
        try:
            return pwd.getpwnam(name)
        except KeyError:
            pass
    raise NoServer("no unprivileged user to run PostgreSQL as")


def quoted(value):
    """A value of a connection string."""
    return "'" + str(value).replace("\\", "\\\\").replace("'", "\\'") + "'"


class PostgresServer:
    def __init__(self, settings=None):
        self.bin = programs()
        self.user = unprivileged()
        self.settings = {**SETTINGS, **(settings or {})}
        self.directory = tempfile.mkdtemp(prefix="daybook-pg-")
        self.data = os.path.join(self.directory, "data")
        self.port = 0
        self.started = False
        if self.user:
            os.chown(self.directory, self.user.pw_uid, self.user.pw_gid)
        os.chmod(self.directory, 0o755)
        if self.as_server("test", "-x", f"{self.bin}/initdb", check=False) != 0:
            self.copy_programs()

    def copy_programs(self):
        """A checkout that the server's user may not enter; the programs find their files by their own place."""
        usr = os.path.abspath(os.path.join(self.bin, "../../../.."))
        for part in ("lib/postgresql", "share/postgresql"):
            shutil.copytree(os.path.join(usr, part), os.path.join(self.directory, "usr", part))
        self.bin = os.path.join(self.directory, "usr", os.path.relpath(self.bin, usr))

    def __enter__(self):
        try:
            self.make()
            self.start()
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_):
        if self.started:
            self.control("stop", "-m", "immediate", check=False)
        shutil.rmtree(self.directory, ignore_errors=True)

    # ---- the cluster -------------------------------------------------------------------------

    def as_server(self, *command, check=True):
        who = {"user": self.user.pw_uid, "group": self.user.pw_gid, "extra_groups": []} if self.user else {}
        # pg_ctl leaves the server behind, which would hold a pipe open: a file takes what is said.
        log = os.path.join(self.directory, "commands.log")
        with open(log, "ab") as out:
            done = subprocess.run(command, cwd="/", stdin=subprocess.DEVNULL, stdout=out, stderr=out, check=False,
                                  env={"PATH": os.environ["PATH"], "LC_ALL": "C.UTF-8"}, **who)
        if check and done.returncode != 0:
            with open(log, encoding="utf-8", errors="replace") as file:
                raise AssertionError(f"{command}: {done.returncode}: {file.read()[-3000:]}\n{self.log()[-3000:]}")
        return done.returncode

    def make(self):
        password = os.path.join(self.directory, "password")
        with open(password, "w", encoding="ascii") as file:
            file.write(PASSWORD)
        if self.user:
            os.chown(password, self.user.pw_uid, self.user.pw_gid)
        self.as_server(f"{self.bin}/initdb", "-D", self.data, "-U", "postgres", "-E", "UTF8", "--locale=C.UTF-8",
                       "--auth=scram-sha-256", f"--pwfile={password}", "--no-sync")
        self.as_server("openssl", "req", "-new", "-x509", "-days", "30", "-nodes", "-subj", "/CN=localhost",
                       "-addext", "subjectAltName=DNS:localhost,IP:127.0.0.1",
                       "-out", f"{self.data}/server.crt", "-keyout", f"{self.data}/server.key")
        os.chmod(f"{self.data}/server.key", 0o600)
        self.port = free_port()
        with open(f"{self.data}/pg_hba.conf", "w", encoding="ascii") as file:
            file.write("local all all scram-sha-256\nhostssl all all 127.0.0.1/32 scram-sha-256\n"
                       "hostssl replication all 127.0.0.1/32 scram-sha-256\n")
        with open(f"{self.data}/postgresql.auto.conf", "a", encoding="ascii") as file:
            for name, value in {**self.settings, "port": self.port, "listen_addresses": "127.0.0.1", "ssl": "on",
                                "unix_socket_directories": self.directory}.items():
                file.write(f"{name} = {quoted(value)}\n")

    def control(self, *arguments, check=True):
        return self.as_server(f"{self.bin}/pg_ctl", "-D", self.data, "-w", "-t", str(START_S),
                              "-l", f"{self.directory}/server.log", *arguments, check=check)

    def start(self):
        self.control("start")
        self.started = True

    def stop(self, mode="fast"):
        self.control("stop", "-m", mode)
        self.started = False

    def restart(self, mode="fast"):
        self.control("restart", "-m", mode)

    def log(self):
        try:
            with open(f"{self.directory}/server.log", encoding="utf-8", errors="replace") as file:
                return file.read()
        except OSError:
            return ""

    # ---- asking it ---------------------------------------------------------------------------

    def dsn(self, user="postgres", password=PASSWORD, database="postgres", **more):
        """Over TCP: TLS, the certificate checked, scram."""
        parts = {"host": "localhost", "hostaddr": "127.0.0.1", "port": self.port, "user": user, "password": password,
                 "dbname": database, "sslmode": "verify-full", "sslrootcert": f"{self.data}/server.crt", **more}
        shutil.copyfile(f"{self.data}/server.crt", f"{self.directory}/server.crt")
        parts["sslrootcert"] = f"{self.directory}/server.crt"
        return " ".join(f"{name}={quoted(value)}" for name, value in parts.items())

    def sql(self, statements, dsn=None, check=True):
        """What psql prints, unaligned, a row a line; the connection string goes by the environment, so that no
        password stands in a command line."""
        script = "\\set ON_ERROR_STOP 1\n\\set VERBOSITY terse\n" + statements
        done = subprocess.run([f"{self.bin}/psql", "-XAtq", "-F", "|", "-f", "-"], input=script, text=True, check=False,
                              stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=self.psql_environment(dsn))
        if check and done.returncode != 0:
            raise AssertionError(f"psql: {done.stdout}{done.stderr}")
        return done.stdout.rstrip("\n")

    def psql_environment(self, dsn=None):
        """A connection string as libpq's own variables."""
        names = {"host": "PGHOST", "hostaddr": "PGHOSTADDR", "port": "PGPORT", "user": "PGUSER",
                 "password": "PGPASSWORD", "dbname": "PGDATABASE", "sslmode": "PGSSLMODE",
                 "sslrootcert": "PGSSLROOTCERT"}
        environment = {"PATH": os.environ["PATH"], "PGCONNECT_TIMEOUT": "20", "PGOPTIONS": "-c client_min_messages=warning"}
        for part in (dsn or self.dsn()).split("' "):
            name, value = part.split("='", 1)
            environment[names[name]] = value.rstrip("'")
        return environment


def main():
    settings = {}
    arguments = sys.argv[1:]
    while len(arguments) > 1 and arguments[0] == "--set":
        name, value = arguments[1].split("=", 1)
        settings[name] = value
        arguments = arguments[2:]
    if not arguments:
        sys.exit(__doc__)
    try:
        server = PostgresServer(settings)
    except NoServer as why:
        print(f"postgres_server.py: {why}", file=sys.stderr)
        return NOBODY_HAS_IT
    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, lambda *_: sys.exit(1))
    with server:
        return subprocess.run(arguments, check=False, env={**os.environ, "DAYBOOK_TEST_DSN": server.dsn()}).returncode


if __name__ == "__main__":
    sys.exit(main())
