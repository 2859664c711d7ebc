#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A ledger of somebody's own: an SQLite table with a constraint, and rows that break it.

usage: ledger_test.py DAYBOOK SLOW_DISK [TEST...]"""
import functools
import json
import signal
import sqlite3
import sys

import daybook_process as dp
from daybook_process import Daemon, event, ndjson, until

BINARY = sys.argv[1]
daemon = functools.partial(Daemon, BINARY)
NDJSON = "application/x-ndjson"
BILLING = [{"name": "billing", "lease": "300ms", "write_timeout": "100ms", "poll_interval": "10ms",
            "sinks": [{"kind": "sqlite", "name": "ledger", "path": "usage.db"}]}]
COLUMNS = ("trace_id TEXT, model TEXT, target_provider TEXT, target_model TEXT, status TEXT, input_tokens INTEGER, "
           "output_tokens INTEGER, cache_read_tokens INTEGER, cache_write_tokens INTEGER, reasoning_tokens INTEGER, "
           "cost_microdollars INTEGER, latency_ms INTEGER, attempts INTEGER, record TEXT NOT NULL")


def make_ledger(d, constraint):
    with sqlite3.connect(d.path("usage.db")) as database:
        database.execute(
            "CREATE TABLE usage (request_id TEXT NOT NULL PRIMARY KEY, namespace TEXT NOT NULL, subject TEXT NOT NULL, "
            "schema_version INTEGER NOT NULL, observed_at TEXT NOT NULL, delivered_at TEXT NOT NULL, "
            f"{COLUMNS}, {constraint})")


def quarantined(d):
    return [json.loads(line) for line in d.get("/v1/consumers/billing/quarantine")[2].splitlines()]


def test_W3_bad_rows_at_the_edges_of_every_half():
    """64 events on 64 keys, bad ones at places 1, 32, 33 and 64: exactly those are quarantined, with the name of
    the constraint; the others are in the table once; what comes later flows."""
    bad = {1, 32, 33, 64}
    events = [event(f"e{i}", subject=f"k{i}", cost_microdollars=-1 if i in bad else i) for i in range(1, 65)]
    with daemon(consumers=BILLING,
                journal={"path": "data", "min_free_disk": "1MiB", "max_delivery_attempts": 2}) as d:
        make_ledger(d, "CONSTRAINT cost_is_not_negative CHECK (cost_microdollars >= 0)")
        d.start()
        assert d.post(ndjson(events), NDJSON)[2]["accepted"] == 64
        until("the bad ones are set aside", lambda: d.consumer()["quarantined"] == len(bad), 60)
        # Later traffic flows, of the same keys too.
        later = [event(f"later{i}", subject=f"k{i}", cost_microdollars=5) for i in range(1, 65)]
        assert d.post(later)[2]["accepted"] == 64
        d.drained()
        entries = quarantined(d)
        assert {e["request_id"] for e in entries} == {f"e{i}" for i in bad}, entries
        for entry in entries:
            assert entry["reason"] == "rejected", entry
            assert entry["words"]["constraint"] == "cost_is_not_negative", entry
            assert entry["words"]["code"] == "SQLITE_CONSTRAINT_CHECK", entry
            assert entry["attempts"] == 2, entry
        rows = d.rows()
        want = [f"e{i}" for i in range(1, 65) if i not in bad] + [f"later{i}" for i in range(1, 65)]
        assert sorted(row[0] for row in rows) == sorted(want)
        assert d.consumer()["quarantined"] == len(bad)
        dp.promise("exactly 4 of 64 quarantined as rejected, each with the constraint's name; 60 and 64 later ones in the "
                   "table once", f"{len(entries)} quarantined ({entries[0]['words']['constraint']}), {len(rows)} rows")


def test_K4_a_destinations_words_outlive_a_kill():
    with daemon(consumers=BILLING,
                journal={"path": "data", "min_free_disk": "1MiB", "max_delivery_attempts": 1}) as d:
        make_ledger(d, "CONSTRAINT cost_is_not_negative CHECK (cost_microdollars >= 0)")
        d.start()
        d.post([event("good", subject="k1", cost_microdollars=1), event("bad", subject="k2", cost_microdollars=-1)])
        until("it is set aside", lambda: d.consumer()["quarantined"] == 1, 60)
        before = quarantined(d)
        assert before[0]["words"] == {"sink": "ledger", "code": "SQLITE_CONSTRAINT_CHECK",
                                      "constraint": "cost_is_not_negative", "column": None,
                                      "message": "CHECK constraint failed: cost_is_not_negative"}, before
        d.stop(signal.SIGKILL)
        d.start()
        assert quarantined(d) == before
        assert d.get("/v1/consumers/billing/quarantine/bad")[2]["words"] == before[0]["words"]
        assert d.stop()[0] == 0


sys.exit(dp.run_tests(globals(), sys.argv[3:]))
