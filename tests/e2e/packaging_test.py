#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""packaging/: the service manager's protocol and unit, alert rules and dashboard, by the programs that read
them (systemd-analyze, promtool, a real Prometheus that scrapes a real daemon).

usage: packaging_test.py DAYBOOK SLOW_DISK [TEST...]"""
import functools
import json
import os
import re
import shutil
import socket
import subprocess
import sys
import tempfile
import time
import urllib.parse
import urllib.request

import daybook_process as dp
from daybook_process import Daemon, event, until

BINARY = os.path.abspath(sys.argv[1])
ROOT = os.path.abspath(os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", ".."))
RULES = os.path.join(ROOT, "packaging", "prometheus", "daybook.rules.yaml")
DASHBOARD = os.path.join(ROOT, "packaging", "grafana", "daybook.json")
daemon = functools.partial(Daemon, BINARY)


def has(program):
    if shutil.which(program) is None:
        print(f"# {program} is not installed: what it reads is not looked at", flush=True)
        return False
    return True


def read(path):
    with open(path, encoding="utf-8") as file:
        return file.read()


class Manager:
    """The side of a service manager: the socket that NOTIFY_SOCKET names."""

    def __init__(self, directory):
        self.path = os.path.join(directory, "notify")
        self.socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self.socket.bind(self.path)
        self.socket.settimeout(20)

    def __enter__(self):
        os.environ.update(NOTIFY_SOCKET=self.path, WATCHDOG_USEC="900000")
        return self

    def __exit__(self, *_):
        for name in ("NOTIFY_SOCKET", "WATCHDOG_USEC"):
            os.environ.pop(name, None)
        self.socket.close()

    def next(self, wanted):
        """The next message that has this line."""
        end = time.monotonic() + 30
        while True:
            assert time.monotonic() < end, f"the manager was not told {wanted}"
            lines = self.socket.recv(4096).decode().split("\n")
            if wanted in lines:
                return lines


def test_the_service_manager_is_told():
    with daemon() as d, Manager(d.directory) as manager:
        d.launch()
        manager.next("STATUS=opening the journal")
        assert "STATUS=serving" in manager.next("READY=1")
        d.is_up()  # ready is: it listens, and answers
        assert d.get("/readyz")[0] == 200
        begin = time.monotonic()
        for _ in range(4):
            manager.next("WATCHDOG=1")
        seconds = time.monotonic() - begin
        assert 0.6 < seconds < 5, seconds  # every 300 ms
        d.kill()
        lines = manager.next("STOPPING=1")
        assert any(re.fullmatch(r"EXTEND_TIMEOUT_USEC=\d+", line) for line in lines), lines
        assert d.wait() == 0
        dp.promise("READY=1 once it serves, a sign of life three times within WATCHDOG_USEC, STOPPING=1 at a stop",
                   f"four signs in {seconds:.1f} s for WATCHDOG_USEC=900000")


def test_a_manager_that_is_not_there_is_no_trouble():
    for path in ("/nowhere/notify", "@nobody-listens", "relative", "/" + "x" * 200):
        os.environ.update(NOTIFY_SOCKET=path, WATCHDOG_USEC="rubbish")
        try:
            with daemon() as d:
                d.start()
                assert d.post(event("a"))[0] == 201 and d.stop()[0] == 0
        finally:
            os.environ.pop("NOTIFY_SOCKET")
            os.environ.pop("WATCHDOG_USEC")


def test_the_unit_is_one():
    unit = read(os.path.join(ROOT, "packaging", "systemd", "daybook.service.in"))
    for line in ("Type=notify", "WatchdogSec=60", "NoNewPrivileges=yes", "ProtectSystem=strict",
                 "ExecStart=@bindir@/daybook serve -c /etc/daybook/daybook.yaml"):
        assert line in unit.splitlines(), line
    if not has("systemd-analyze"):
        return
    with tempfile.TemporaryDirectory() as directory:
        os.symlink(BINARY, os.path.join(directory, "daybook"))
        path = os.path.join(directory, "daybook.service")
        with open(path, "w", encoding="utf-8") as file:
            file.write(unit.replace("@bindir@", directory))
        done = subprocess.run(["systemd-analyze", "verify", "--man=no", path], stdout=subprocess.PIPE,
                              stderr=subprocess.STDOUT, check=False)
        about = [l for l in done.stdout.decode().splitlines() if "daybook" in l]
        assert about == [], about


def alerts():
    return re.findall(r"- alert: (\w+)", read(RULES))


def test_every_alert_is_explained():
    page = read(os.path.join(ROOT, "docs", "OPERATING.md"))
    named = re.findall(r"runbook: docs/OPERATING\.md#(\w+)", read(RULES))
    assert [a.lower() for a in alerts()] == named and len(named) == len(set(named)) >= 15
    for alert in alerts():
        assert f"\n### {alert}\n" in page, f"docs/OPERATING.md does not say what {alert} means"


def test_promtool_reads_the_rules():
    if not has("promtool"):
        return
    for arguments in (["check", "rules", RULES],
                      ["test", "rules", os.path.join(os.path.dirname(RULES), "daybook.rules.test.yaml")]):
        done = subprocess.run(["promtool", *arguments], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False)
        assert done.returncode == 0 and b"SUCCESS" in done.stdout, done.stdout.decode()


def expressions():
    panels = json.loads(read(DASHBOARD))["panels"]
    found = [(p["title"], t["expr"]) for p in panels for t in p.get("targets", [])]
    assert len(found) > 30
    return found


class Prometheus:
    def __init__(self, directory, target):
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self.port = free.getsockname()[1]
        config = {"global": {"scrape_interval": "500ms", "evaluation_interval": "500ms"}, "rule_files": [RULES],
                  "scrape_configs": [{"job_name": "daybook", "static_configs": [{"targets": [target]}]}]}
        with open(os.path.join(directory, "prometheus.yml"), "w", encoding="utf-8") as file:
            json.dump(config, file)
        self.log = open(os.path.join(directory, "prometheus.log"), "wb")
        self.process = subprocess.Popen(
            ["prometheus", "--config.file=prometheus.yml", "--storage.tsdb.path=tsdb",
             f"--web.listen-address=127.0.0.1:{self.port}"], cwd=directory, stdout=self.log, stderr=self.log)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.kill()
        self.process.wait()
        self.log.close()

    def get(self, path):
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{self.port}/api/v1/{path}", timeout=10) as answer:
                return json.load(answer)["data"]
        except OSError:
            assert self.process.poll() is None, "prometheus has ended"
            return None

    def query(self, text):
        return (self.get("query?query=" + urllib.parse.quote(text)) or {}).get("result", [])


def test_a_real_prometheus_loads_rules_and_dashboard():
    if not has("prometheus"):
        return
    with daemon() as d:
        d.start()
        d.post([event(f"e{i}") for i in range(20)])
        d.drained()
        with Prometheus(d.directory, d.url.removeprefix("http://")) as prometheus:
            until("it has scraped", lambda: prometheus.query('daybook_stored_events{job="daybook"}'), 60)
            def rules():
                groups = (prometheus.get("rules") or {}).get("groups", [])
                found = groups[0]["rules"] if groups else []
                return found if found and all(r["health"] != "unknown" for r in found) else None
            found = until("the rules have been evaluated", rules, 60)
            assert [r["name"] for r in found] == alerts()
            assert all(r["health"] == "ok" for r in found), [r for r in found if r["health"] != "ok"]
            names = set(prometheus.get("label/__name__/values"))
            used = set(re.findall(r"\bdaybook_[a-z_]+", read(RULES) + "".join(e for _, e in expressions())))
            wrong = {n for n in used if n not in names and not n.startswith("daybook_rules")}
            assert not wrong, f"nothing on /metrics has these names: {wrong}"
            for title, expression in expressions():
                expression = expression.replace("$job", ".*").replace("$instance", ".*").replace("$__rate_interval", "5m")
                answer = prometheus.get("query?query=" + urllib.parse.quote(expression))
                assert answer is not None, f"{title}: {expression}"
            # A destination that is away is seen: the alert waits for its five minutes.
            lock = d.lock_ledger()
            d.post(event("later"))
            def pending():
                active = (prometheus.get("alerts") or {}).get("alerts", [])
                return "DaybookDestinationDown" in [a["labels"]["alertname"] for a in active]
            until("the alert is pending", pending, 60)
            lock.release()
            until("it is gone", lambda: not pending(), 60)
        dp.promise("every rule healthy in a real Prometheus, every metric of rules and dashboard there",
                   f"{len(found)} rules, {len(used)} metrics, {len(expressions())} queries of the dashboard")


sys.exit(dp.run_tests(globals(), sys.argv[3:]))
