# SPDX-License-Identifier: Apache-2.0
"""A real daemon in a directory of its own, and what tests ask of it. Standard library only."""
import http.client
import json
import os
import re
import shutil
import signal
import socket
import sqlite3
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "harness"))
from free_port import free_port  # noqa: E402,F401: for the tests

START_S = int(os.environ.get("DAYBOOK_START_S", "30"))  # longer where a process may be stopped meanwhile
DEFAULTS = {
    "listen": {"address": "127.0.0.1:0"},
    "journal": {"path": "data", "min_free_disk": "1MiB"},
    "consumers": [{"name": "billing", "sinks": [{"kind": "sqlite", "name": "ledger", "path": "usage.db"}]}],
}

# A consumer whose destination refuses a row once, and the row is quarantined.
LEDGER = {"kind": "sqlite", "name": "ledger", "path": "usage.db"}
ONE_TRY = {"name": "billing", "lease": "600ms", "write_timeout": "200ms", "max_hand_outs": 1, "reject_brake": 1000,
           "sinks": [LEDGER]}
ONE_TRY_JOURNAL = {"path": "data", "min_free_disk": "1MiB", "max_delivery_attempts": 1}


def event(request_id, subject="key-1", **more):
    return {"request_id": request_id, "namespace": "team", "subject": subject, **more}


def ndjson(events):
    return "".join(json.dumps(e) + "\n" for e in events).encode()


def until(what, test, seconds=20):
    """Waits for a condition of another process; there is no event to wait for."""
    end = time.monotonic() + seconds
    while True:
        value = test()
        if value:
            return value
        if time.monotonic() > end:
            raise AssertionError(f"not within {seconds} s: {what}")
        time.sleep(0.01)


class Daemon:
    def __init__(self, binary, slow_disk=None, directory=None, environment=None, **sections):
        self.binary = os.path.abspath(binary)
        self.environment = environment or {}
        self.slow_disk = slow_disk
        self.directory = directory or tempfile.mkdtemp(prefix="daybook-life-")
        self.config = {**DEFAULTS, **sections}
        self.process = None
        self.url = ""

    def __enter__(self):
        return self

    def __exit__(self, *_):
        if self.process is not None and self.process.poll() is None:
            self.process.kill()
            self.process.wait()
        shutil.rmtree(self.directory, ignore_errors=True)

    # ---- life --------------------------------------------------------------------------------

    def path(self, name):
        return os.path.join(self.directory, name)

    def launch(self):
        """Starts the process and waits for nothing."""
        # JSON is YAML.
        with open(self.path("daybook.yaml"), "w", encoding="utf-8") as file:
            json.dump(self.config, file)
        environment = {**os.environ, **self.environment}
        if self.slow_disk:
            environment["LD_PRELOAD"] = os.path.abspath(self.slow_disk)
            environment["DAYBOOK_TEST_DISK"] = self.path("disk")
            environment["ASAN_OPTIONS"] = "verify_asan_link_order=0:" + environment.get("ASAN_OPTIONS", "")
        with open(self.path("out"), "wb") as out, open(self.path("err"), "wb") as err:
            self.process = subprocess.Popen(
                [self.binary, "serve", "-c", "daybook.yaml"], cwd=self.directory, env=environment,
                stdin=subprocess.DEVNULL, stdout=out, stderr=err)

    def start(self):
        self.launch()
        until("the daemon serves", self.is_up, START_S)
        return self

    def is_up(self):
        if self.process.poll() is not None:
            raise AssertionError(f"the daemon ended with {self.process.returncode}: {self.log()}")
        out = self.out()
        match = re.search(r"listening +(http://\S+)", out)
        if match and "curl" in out and out.endswith("\n"):
            self.url = match.group(1)
            return True
        return False

    def disk(self, order):
        """What the disk below the journal does from now on."""
        with open(self.path("disk.new"), "w", encoding="utf-8") as file:
            file.write(order)
        os.rename(self.path("disk.new"), self.path("disk"))

    def kill(self, number=signal.SIGTERM):
        self.process.send_signal(number)

    def stop(self, number=signal.SIGTERM, seconds=60):
        """Returns exit status and how long it took."""
        begin = time.monotonic()
        self.kill(number)
        return self.wait(seconds), time.monotonic() - begin

    def wait(self, seconds=60):
        return self.process.wait(timeout=seconds)

    def out(self):
        with open(self.path("out"), encoding="utf-8") as file:
            return file.read()

    def log(self):
        with open(self.path("err"), encoding="utf-8") as file:
            return file.read()

    def threads(self):
        """The daemon's threads, without the one that the thread sanitizer runs beside them."""
        with open(f"/proc/{self.process.pid}/status", encoding="ascii") as file:
            count = int(re.search(r"Threads:\s+(\d+)", file.read()).group(1))
        with open(f"/proc/{self.process.pid}/maps", encoding="utf-8") as file:
            return count - ("libtsan" in file.read())

    def run(self, *arguments, stdin=b""):
        """Runs another command of the same binary."""
        return subprocess.run([self.binary, *arguments], cwd=self.directory, input=stdin,
                              stdout=subprocess.PIPE, stderr=subprocess.PIPE, check=False,
                              env={**os.environ, **self.environment, "DAYBOOK_URL": self.url})

    # ---- HTTP --------------------------------------------------------------------------------

    def address(self):
        host, port = self.url.removeprefix("http://").rsplit(":", 1)
        return host, int(port)

    def request(self, method, path, body=None, headers=None, timeout=60):
        """Returns status, headers, body (parsed where it is JSON)."""
        connection = http.client.HTTPConnection(*self.address(), timeout=timeout)
        try:
            connection.request(method, path, body=body, headers=headers or {})
            answer = connection.getresponse()
            data = answer.read()
            if answer.getheader("Content-Type") in ("application/json", "application/problem+json") and data:
                data = json.loads(data)
            return answer.status, answer.headers, data
        finally:
            connection.close()

    def post(self, body, kind="application/json", **headers):
        if isinstance(body, (dict, list)):
            body = json.dumps(body)
        return self.request("POST", "/v1/events", body,
                            {"Content-Type": kind, **{k.replace("_", "-"): v for k, v in headers.items()}})

    def get(self, path):
        return self.request("GET", path)

    def stats(self):
        return self.get("/v1/stats")[2]

    def consumer(self, name="billing"):
        return next(c for c in self.stats()["consumers"] if c["name"] == name)

    def metric(self, line):
        """The value of a metric, named with its labels."""
        text = self.get("/metrics")[2].decode()
        match = re.search(r"^" + re.escape(line) + r" (\S+)$", text, re.M)
        assert match, f"no metric {line}"
        return float(match.group(1))

    def drained(self):
        until("everything is delivered", lambda: self.consumer()["drained"], 60)

    # ---- the ledger --------------------------------------------------------------------------

    def rows(self, query="select request_id from usage order by rowid", name="usage.db"):
        with sqlite3.connect(self.path(name), timeout=30) as database:
            return database.execute(query).fetchall()

    def reject(self, model, name="usage.db"):
        """From now on the ledger rejects rows of this model; `mend` ends it."""
        with sqlite3.connect(self.path(name), timeout=30) as database:
            database.execute(f"create trigger no_{model} before insert on usage when new.model = '{model}' "
                             f"begin select raise(abort, 'no {model} here'); end")

    def mend(self, model, name="usage.db"):
        with sqlite3.connect(self.path(name), timeout=30) as database:
            database.execute(f"drop trigger no_{model}")

    def lock_ledger(self):
        """BEGIN EXCLUSIVE by another process; what is returned is ended with `release`."""
        return LedgerLock(self.path("usage.db"))


class LedgerLock:
    def __init__(self, path):
        script = ("import sqlite3, sys\n"
                  "d = sqlite3.connect(sys.argv[1], isolation_level=None, timeout=30)\n"
                  "d.execute('PRAGMA locking_mode=NORMAL')\n"
                  "d.execute('BEGIN EXCLUSIVE')\n"
                  "print('locked', flush=True)\n"
                  "sys.stdin.read()\n"
                  "d.execute('ROLLBACK')\n")
        self.process = subprocess.Popen(["python3", "-c", script, path], stdin=subprocess.PIPE,
                                        stdout=subprocess.PIPE)
        assert self.process.stdout.readline() == b"locked\n"

    def release(self):
        self.process.stdin.close()
        self.process.stdout.close()
        self.process.wait()


def open_post(address, body, kind="application/json"):
    """A request that is sent and whose answer is not read yet."""
    connection = socket.create_connection(address, timeout=60)
    connection.sendall(b"POST /v1/events HTTP/1.1\r\nHost: x\r\nContent-Type: " + kind.encode() +
                       b"\r\nContent-Length: " + str(len(body)).encode() + b"\r\n\r\n" + body)
    return connection


def read_status(connection):
    """The status of the answer; the connection is closed."""
    data = b""
    while b"\r\n" not in data:
        part = connection.recv(65536)
        if not part:
            break
        data += part
    connection.close()
    return int(data.split(b" ", 2)[1]) if data else 0


def promise(allowed, measured):
    """What docs/PROMISES.md asks for, as a line of TAP; tools/promise/daemon reads it."""
    print(f"# allowed: {allowed}\n# measured: {measured}", flush=True)


class Skip(Exception):
    """Raised by a test that cannot be run here; says why."""


def run_tests(names, wanted):
    """Runs the test functions of a module, or those that are wanted, and prints TAP; returns the exit
    status."""
    tests = [test for name, test in sorted(names.items())
             if name.startswith("test_") and (not wanted or name in wanted)]
    print(f"1..{len(tests)}", flush=True)
    failed = 0
    for number, test in enumerate(tests, 1):
        try:
            begin = time.monotonic()
            test()
            print(f"ok {number} - {test.__name__}", flush=True)
            print(f"# {time.monotonic() - begin:.1f} s", flush=True)
        except Skip as why:
            print(f"ok {number} - {test.__name__} # SKIP {why}", flush=True)
        except Exception as error:  # whatever it is, the test has failed
            failed += 1
            import traceback
            for line in traceback.format_exc().splitlines():
                print("# " + line)
            print(f"not ok {number} - {test.__name__}: {type(error).__name__}", flush=True)
    return 1 if failed else 0
