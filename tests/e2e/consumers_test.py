#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Consumers and their destinations in a real daemon: several of each, advisory ones, what is refused at the
start, the modes that are no billing grade.

usage: consumers_test.py DAYBOOK SLOW_DISK [TEST...]"""
import functools
import sys

import daybook_process as dp
from daybook_process import Daemon, event, until

BINARY, SLOW_DISK = sys.argv[1], sys.argv[2]
daemon = functools.partial(Daemon, BINARY)


def sqlite(name, **more):
    return {"kind": "sqlite", "name": name, "path": name + ".db", **more}


def consumer(name, *sinks, **more):
    """Short leases, so that what a destination held up comes back soon."""
    return {"name": name, "lease": "3s", "write_timeout": "1s", "sinks": list(sinks), **more}


def ids(d, name):
    return [row[0] for row in d.rows(name=name + ".db")]


def test_W9_advisory_destinations_are_told_of_what_landed():
    with daemon(consumers=[consumer("billing", sqlite("ledger"), advisory=[sqlite("board")])]) as d:
        d.start()
        d.post([event(f"e{i}", subject=f"k{i}") for i in range(50)])
        d.drained()
        until("the board is told", lambda: d.metric(
            'daybook_advisory_events_total{sink="board",outcome="accepted"}') == 50)
        assert sorted(ids(d, "board")) == sorted(ids(d, "ledger")) and len(ids(d, "board")) == 50
        told = d.consumer()["advisory"]
        assert told == [{"name": "board", "kind": "sqlite", "up": True, "accepted": 50, "failed": 0,
                         "dropped": 0}], told
        # What waits in a queue at the stop is told within its bound.
        d.post([event(f"late{i}") for i in range(20)])
        assert d.stop()[0] == 0
        assert len(ids(d, "ledger")) == 70 == len(ids(d, "board")), d.log()


def test_W9_one_that_is_away_holds_nothing_up():
    with daemon(consumers=[consumer("billing", sqlite("ledger"), advisory=[sqlite("board")])]) as d:
        d.start()
        assert d.post(event("a"))[0] == 201
        until("the board is told", lambda: d.metric(
            'daybook_advisory_events_total{sink="board",outcome="accepted"}') == 1)
        lock = dp.LedgerLock(d.path("board.db"))
        d.post([event(f"e{i}") for i in range(30)])
        d.drained()
        assert len(ids(d, "ledger")) == 31
        until("it is counted", lambda: d.metric(
            'daybook_advisory_events_total{sink="board",outcome="failed"}') > 0)
        assert d.consumer()["advisory"][0]["up"] is False
        assert d.consumer()["destinations"][0]["up"] is True
        assert d.log().count("advisory destination did not take what it was told") == 1, d.log()
        lock.release()
        assert d.stop()[0] == 0


sys.exit(dp.run_tests(globals(), sys.argv[3:]))
