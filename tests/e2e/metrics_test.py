#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""/metrics of a real daemon against the list in docs/CONTRACT.md, section 7.

usage: metrics_test.py DAYBOOK SLOW_DISK [TEST...]"""
import functools
import json
import os
import re
import shutil
import subprocess
import sys

import daybook_process as dp
from daybook_process import Daemon, event, until

BINARY = os.path.abspath(sys.argv[1])
ROOT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..")
CONSUMER, JOURNAL, LEDGER = dp.ONE_TRY, dp.ONE_TRY_JOURNAL, dp.LEDGER
daemon = functools.partial(Daemon, BINARY, journal=JOURNAL, consumers=[CONSUMER])
# What stands in the list with a name of the configuration instead of a closed set.
REASONS = ["malformed", "rejected", "attempts_exhausted"]


class Wanted:
    def __init__(self, name, kind, labels, values):
        self.name, self.kind, self.labels, self.values = name, kind, labels, values


def promised():
    """The list as the contract has it, and the values of labels that it says this version lacks."""
    with open(os.path.join(ROOT, "docs", "CONTRACT.md"), encoding="utf-8") as file:
        text = file.read()
    text = text[text.index("\n## 7. Metrics"):text.index("\n## 8. ")]
    text, _, lacking = text.partition("**Not in this version:**")
    found = []
    for word, kind in (("Counters", "counter"), ("Gauges", "gauge"), ("Histograms", "histogram")):
        part = next(p for p in text.split("\n\n") if p.startswith(word))
        of_consumer = part.find("Of a destination") if kind == "gauge" else -1
        for match in re.finditer(r"`(daybook_[a-z_]+)(?:\{([a-z,]+)\})?`(?:\s\(([a-z_, ]+)\))?", part):
            labels = match.group(2).split(",") if match.group(2) else []
            values = match.group(3).split(", ") if match.group(3) and "both" not in match.group(3) else []
            if kind == "gauge" and match.start() < of_consumer:
                labels = ["journal", "consumer"]
            found.append(Wanted(match.group(1), kind, labels, values))
    return found, [word for word in re.findall(r"`([a-z_]+)`", lacking) if not word.startswith("daybook_")]


def page(d):
    """(types, {name: [labels]}) of the page; a histogram by its base name."""
    text = d.get("/metrics")[2].decode()
    types = dict(re.findall(r"^# TYPE (\S+) (\S+)$", text, re.M))
    series = {}
    for name, labels in re.findall(r"^(daybook_[a-z_]+)\{(.*)\} \S+$", text, re.M):
        base = re.sub(r"_(bucket|sum|count)$", "", name)
        base = base if types.get(base) == "histogram" else name
        series.setdefault(base, []).append(dict(re.findall(r'(\w+)="([^"]*)"', labels)))
    return types, series


def test_every_metric_of_the_contract():
    wanted, lacking = promised()
    assert len(wanted) >= 27, [w.name for w in wanted]
    with daemon() as d:
        d.start()
        d.post(event("a"))
        d.drained()
        types, series = page(d)
    for w in wanted:
        assert types.get(w.name) == w.kind, f"{w.name} is {types.get(w.name)}, not a {w.kind}"
        rows = series.get(w.name, [])
        assert rows or w.name == "daybook_advisory_events_total", f"{w.name} has no series"
        for row in rows:
            assert set(w.labels) <= set(row), f"{w.name} lacks a label of {w.labels}: {row}"
            assert set(row) <= {"journal", "consumer", "sink", "outcome", "reason", "le"}, row
        label = next((l for l in w.labels if l in ("outcome", "reason")), None)
        values = w.values or (REASONS if w.name == "daybook_quarantined_total" else [])
        if label and rows and values:
            seen = {row[label] for row in rows}
            assert seen == set(values) - set(lacking), f"{w.name}: {seen}, the list has {values}"
    dp.promise("every metric of docs/CONTRACT.md, section 7, with its type, labels and closed sets",
               f"{len(wanted)} metrics; words of labels not in this version: {', '.join(lacking) or 'none'}")


def test_every_metric_on_the_page_has_help():
    with daemon() as d:
        d.start()
        text = d.get("/metrics")[2].decode()
        types, series = page(d)
        for name in types:
            assert re.search(rf"^# HELP {name} \S+", text, re.M), name
            assert name in series or name == "daybook_advisory_events_total", f"{name} is headed and never there"
        if shutil.which("promtool") is None:
            print("# promtool is not installed: its reading of the page is left out", flush=True)
            return
        done = subprocess.run(["promtool", "check", "metrics"], input=text.encode(), stdout=subprocess.PIPE,
                              stderr=subprocess.STDOUT, check=False)
        assert done.returncode == 0, done.stdout.decode()


def test_quarantines_and_lost():
    with daemon() as d:
        d.start()
        d.post(event("first"))
        d.drained()
        d.reject("bad")
        def counted():
            return sum(d.metric('daybook_quarantined_total{journal="main",consumer="billing",reason="%s"}' % r)
                       for r in REASONS)
        assert counted() == 0
        d.post([event(f"bad-{i}", subject=f"s{i}", model="bad") for i in range(3)])
        until("they are quarantined", lambda: d.consumer()["quarantined"] == 3)
        until("they are counted", lambda: counted() == 3)
        assert d.metric('daybook_quarantined_events{journal="main",consumer="billing"}') == 3
        assert d.metric('daybook_held_events{journal="main",consumer="billing"}') == 3
        d.request("DELETE", "/v1/consumers/billing/quarantine/bad-0?why=x")
        assert counted() == 3 and d.metric('daybook_quarantined_events{journal="main",consumer="billing"}') == 2
        assert d.metric('daybook_undeliverable_total{journal="main",reason="corrupt"}') == 0
        for reason in ("at_capacity", "backend", "draining", "unheard", "dropped"):
            assert d.metric('daybook_lost_total{journal="main",reason="%s"}' % reason) == 0


def test_a_consumer_that_nobody_runs_is_named():
    with daemon(consumers=[CONSUMER, {**CONSUMER, "name": "old", "sinks": [
            {**LEDGER, "name": "l2", "path": "second.db"}]}]) as d:
        d.start()
        d.post(event("a"))
        until("all is delivered", lambda: all(c["drained"] for c in d.stats()["consumers"]))
        assert d.metric('daybook_consumer_running{journal="main",consumer="old"}') == 1
        assert d.stop()[0] == 0
        d.config["consumers"] = [{**CONSUMER, "maintain_interval": "1s"}]
        d.start()
        d.post(event("b"))
        until("billing has it", lambda: d.consumer()["drained"])
        assert d.metric('daybook_consumer_running{journal="main",consumer="old"}') == 0
        assert d.metric('daybook_consumer_running{journal="main",consumer="billing"}') == 1
        assert d.metric('daybook_held_events{journal="main",consumer="old"}') == 1
        assert d.metric('daybook_held_events{journal="main",consumer="billing"}') == 0
        record = len(json.dumps(event("b")))
        kept = record + len("b") + len("team") + len("key-1")
        assert d.metric('daybook_held_bytes{journal="main",consumer="old"}') == kept
        assert d.metric('daybook_held_bytes{journal="main",consumer="billing"}') == 0
        assert d.metric('daybook_newer_version_events{journal="main",consumer="billing"}') == 0
        until("the log warns", lambda: "names=old" in d.log() and "WARN" in d.log().upper())
        stats = next(c for c in d.stats()["consumers"] if c["name"] == "old")
        assert stats["running"] is False and stats["held_events"] == 1 and stats["held_bytes"] == kept


sys.exit(dp.run_tests(globals(), sys.argv[3:]))
