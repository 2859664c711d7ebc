#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Consumers and their destinations in a real daemon: several of each, advisory ones, what is refused at the
start, the modes that are no billing grade.

usage: consumers_test.py DAYBOOK SLOW_DISK [TEST...]"""
import functools
import json
import re
import socket
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
        dp.promise("70 events acknowledged, told of every one", f"{len(ids(d, 'board'))} told")


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
        dp.promise("while its file is locked 30 events are delivered", f"{len(ids(d, 'ledger')) - 1} delivered")
        until("it is counted", lambda: d.metric(
            'daybook_advisory_events_total{sink="board",outcome="failed"}') > 0)
        assert d.consumer()["advisory"][0]["up"] is False
        assert d.metric('daybook_destination_up{sink="board"}') == 0
        assert d.metric('daybook_destination_up{sink="ledger"}') == 1
        assert d.consumer()["destinations"][0]["up"] is True
        assert d.log().count("advisory destination did not take what it was told") == 1, d.log()
        lock.release()
        assert d.stop()[0] == 0


def test_W9_the_queue_is_as_long_as_the_configuration_says():
    with daemon(consumers=[consumer("billing", sqlite("ledger"), advisory=[sqlite("board")], advisory_events=10)]) as d:
        d.start()
        assert d.post(event("a"))[0] == 201
        until("the board is told", lambda: d.metric(
            'daybook_advisory_events_total{sink="board",outcome="accepted"}') == 1)
        assert d.metric('daybook_destination_up{sink="board"}') == 1
        lock = dp.LedgerLock(d.path("board.db"))
        d.post([event(f"e{i}", subject=f"k{i}") for i in range(200)])
        d.drained()
        until("what the queue has no room for is dropped", lambda: d.metric(
            'daybook_advisory_events_total{sink="board",outcome="dropped"}') >= 190 - 10)
        lock.release()
        assert d.stop()[0] == 0


# ---- the brake --------------------------------------------------------------------------------


def test_W6b_O1_an_operator_lifts_the_brake():
    with daemon(journal={"path": "data", "min_free_disk": "1MiB", "max_delivery_attempts": 1},
                consumers=[consumer("billing", sqlite("ledger"), lease="600ms", write_timeout="200ms",
                                    reject_brake=3, claim_batch=2)]) as d:
        d.start()
        path = "/v1/consumers/billing/lift"
        assert d.post(event("first"))[0] == 201
        d.drained()
        assert d.request("POST", path)[0] == 404  # nothing is braked
        d.reject("bad", name="ledger.db")
        d.post([event(f"bad{i}", subject=f"k{i}", model="bad") for i in range(12)])
        until("it is braked", lambda: d.metric('daybook_destination_braked{sink="ledger"}') == 1)
        held = d.consumer()["quarantined"]
        assert held < 12, held
        status, _, body = d.request("POST", path + "?why=they+are+bad", headers={"Daybook-Operator": "ada"})
        assert (status, body) == (200, {"status": "lifted", "consumer": "billing"}), body
        # It is tried at once, and condemns again, until the brake falls anew.
        until("some more are set aside", lambda: d.consumer()["quarantined"] > held)
        op = d.get("/v1/operations")[2]["operations"][0]
        assert (op["kind"], op["consumer"], op["who"], op["why"]) == (
            "lift", "billing", "ada (127.0.0.1)", "they are bad"), op
        until("it is braked again", lambda: d.metric('daybook_destination_braked{sink="ledger"}') == 1)
        answer = d.run("consumers", "lift", "billing", "--why", "once more")
        assert (answer.returncode, answer.stdout) == (0, b"lifted billing\n"), answer
        assert d.run("consumers", "lift", "other").returncode == 1
        ops = d.get("/v1/operations")[2]["operations"]
        assert [o["kind"] for o in ops] == ["lift", "lift"], ops
        dp.promise("a brake that an operator lets go: tried at once, set aside again, in the trail twice",
                   f"{held} set aside before, {d.consumer()['quarantined']} after, {len(ops)} in the trail")
        assert d.stop()[0] == 0


# ---- several of each -------------------------------------------------------------------------


def test_W15_an_event_waits_until_every_destination_has_it():
    with daemon(consumers=[consumer("billing", sqlite("ledger"), sqlite("archive"))]) as d:
        d.start()
        assert d.post(event("a"))[0] == 201
        d.drained()
        lock = dp.LedgerLock(d.path("archive.db"))
        d.post([event(f"e{i}") for i in range(20)])
        until("the archive is seen to be away",
              lambda: not d.metric('daybook_destination_up{sink="archive"}'))
        assert d.consumer()["pending"] + d.consumer()["in_flight"] == 20
        assert d.metric('daybook_deliveries_total{journal="main",consumer="billing",outcome="acknowledged"}') == 1
        lock.release()
        d.drained()
        wanted = ["a"] + [f"e{i}" for i in range(20)]
        assert ids(d, "ledger") == wanted and ids(d, "archive") == wanted
        assert d.stop()[0] == 0


def test_W1_each_consumer_has_its_own_worker():
    with daemon(consumers=[consumer("billing", sqlite("ledger")), consumer("audit", sqlite("archive"))]) as d:
        d.start()
        d.post([event("a"), event("b")])
        for name in ("billing", "audit"):
            until(f"{name} has them", lambda: d.consumer(name)["drained"])
        lock = dp.LedgerLock(d.path("ledger.db"))
        d.post([event(f"e{i}") for i in range(30)])
        until("audit goes on", lambda: d.consumer("audit")["drained"])
        assert d.consumer("billing")["drained"] is False and len(ids(d, "archive")) == 32
        lock.release()
        until("billing follows", lambda: d.consumer("billing")["drained"])
        assert ids(d, "ledger") == ids(d, "archive")


def test_T8_consumers_are_drained_side_by_side():
    names = ["one", "two", "three"]
    with daemon(consumers=[consumer(n, sqlite(n)) for n in names],
                shutdown={"deadline": "1s", "flush_timeout": "2s"}) as d:
        d.start()
        d.post(event("a"))
        for name in names:
            until(f"{name} has it", lambda: d.consumer(name)["drained"])
        locks = [dp.LedgerLock(d.path(name + ".db")) for name in names]
        d.post([event(f"e{i}") for i in range(5)])
        until("all are away", lambda: all(not d.metric(f'daybook_destination_up{{sink="{n}"}}') for n in names))
        status, seconds = d.stop()
        assert status == 0 and seconds < 2 + 1.5, seconds  # one budget, not three
        for name in names:
            assert f"drain consumer={name} drained=no delivered=1 failed=" in d.log(), d.log()
        assert d.log().count("undelivered=5 quarantined=0") == 3
        for lock in locks:
            lock.release()


def test_W1_a_consumer_that_nobody_answers_for_is_refused_at_the_start():
    cases = [({"name": "billing", "sinks": []}, b"consumers[].sinks: has 0 entries: write 1 to 8"),
             ({"name": "billing", "sinks": [], "advisory": [sqlite("board")]}, b"consumers[].sinks: has 0"),
             ({"name": "billing", "advisory": [sqlite("board")]}, b"consumers[].sinks: is missing")]
    for wrong, said in cases:
        with daemon(consumers=[wrong]) as d:
            d.launch()
            assert d.wait() == 2
            assert said.decode() in d.log() and d.log().count("\n") == 1, d.log()


def test_L2_consumers_that_nobody_runs_are_named():
    three = [consumer(name, sqlite(name + "-db"), maintain_interval="100ms") for name in ("one", "two", "old")]
    with daemon(consumers=three, log={"level": "debug"}) as d:
        d.start()
        d.post(event("a"))
        until("all were maintained", lambda: all(f"maintained consumer={n}" in d.log() for n in ("one", "two", "old")))
        assert d.stop()[0] == 0
        assert "does not run" not in d.log(), d.log()
        d.config["consumers"] = three[:2]
        d.start()
        until("both were maintained", lambda: d.log().count("maintained consumer=two") > 2)
        said = re.findall(r"warning consumers are registered that this daemon does not run; .* count=1 names=(\S+)$",
                          d.log(), re.M)
        # By one worker, not by each.
        assert set(said) == {"old"} and len(said) <= d.log().count("maintained consumer=one"), d.log()
        assert d.consumer("old")["running"] is False and d.consumer("one")["running"] is True


# ---- what is no billing grade ----------------------------------------------------------------


def journal(**more):
    return {"path": "data", "min_free_disk": "1MiB", **more}


def lost(d, reason):
    return d.metric(f'daybook_lost_total{{journal="main",reason="{reason}"}}')


def test_M1_billing_grade_is_said_and_nothing_else():
    with daemon() as d:
        d.start()
        assert d.stats()["journal"]["mode"] == "billing_grade"
        assert "telemetry" not in d.log()
        for reason in ("at_capacity", "backend", "draining", "unheard", "dropped"):
            assert lost(d, reason) == 0


def test_P5_M1_drop_oldest_is_telemetry_grade():
    with daemon(journal=journal(max_events=5, capacity_policy="drop_oldest")) as d:
        d.start()
        assert "warning this journal is telemetry grade" in d.log() and "drop_oldest" in d.log(), d.log()
        stats = d.stats()["journal"]
        assert (stats["mode"], stats["capacity"]["policy"]) == ("telemetry_grade", "drop_oldest"), stats
        assert d.post(event("first"))[0] == 201
        d.drained()
        lock = d.lock_ledger()
        for i in range(8):
            assert d.post(event(f"e{i}", subject=f"k{i}"))[0] == 201
        assert d.stats()["journal"]["counters"]["dropped"] == 3
        assert lost(d, "dropped") == 3
        dp.promise("8 events into a full journal of 5 whose ledger is locked: all accepted, 3 dropped and in lost",
                   f"{lost(d, 'dropped'):.0f} in lost, mode {stats['mode']}")
        lock.release()
        d.drained()
        got = [row[0] for row in d.rows()]
        # A dropped event's write may still have been out (P5).
        assert set(got) >= {"first"} | {f"e{i}" for i in range(3, 8)} and len(got) == len(set(got)), got
        assert d.stop()[0] == 0


def test_M2_serve_answers_202_and_counts_the_loss():
    with daemon(journal=journal(max_events=5, on_undurable="serve")) as d:
        d.start()
        assert "warning this journal is telemetry grade" in d.log() and "serve" in d.log(), d.log()
        assert d.stats()["journal"]["mode"] == "telemetry_grade"
        assert d.post(event("first"))[0] == 201
        d.drained()
        lock = d.lock_ledger()
        for i in range(5):
            assert d.post(event(f"e{i}"))[0] == 201
        status, headers, body = d.post(event("over"))
        assert (status, body) == (202, {"status": "not_durable", "request_id": "over", "reason": "at_capacity",
                                        "limit": "events", "retained": 5}), body
        assert headers["Retry-After"] is None and lost(d, "at_capacity") == 1
        # What is the event's own fault is refused as ever, and what is stored is known.
        assert d.post(event("e1"))[0] == 200 and d.post(event("e1", x=1))[0] == 409
        status, _, body = d.post([event("e1"), event("over2")])
        assert status == 202 and body["already_present"] == 1 and body["errors"][0]["code"] == "at_capacity", body
        assert d.post([event("e1", x=1), event("over3")])[0] == 207
        assert lost(d, "at_capacity") == 3
        dp.promise("3 events that a full journal did not store are answered 202 and 207, and are 3 in lost",
                   f"{lost(d, 'at_capacity'):.0f} in lost, mode {d.stats()['journal']['mode']}")
        assert d.metric('daybook_appends_total{journal="main",outcome="at_capacity"}') == 3
        lock.release()
        d.drained()
        assert d.post(event("over"))[0] == 201
        d.drained()
        assert len(d.rows()) == 7 and d.stop()[0] == 0


def test_M2_serve_while_the_disk_is_slow_failing_or_the_daemon_stops():
    with daemon(slow_disk=SLOW_DISK, journal=journal(on_undurable="serve", operation_timeout="300ms"),
                shutdown={"deadline": "20s", "flush_timeout": "1s"}) as d:
        d.start()
        d.disk("slow 20000")
        assert d.post(event("slow"))[0::2] == (202, {"status": "not_durable", "request_id": "slow",
                                                    "reason": "timed_out"})
        assert lost(d, "backend") == 1
        d.disk("")
        until("the commit ends", lambda: d.stats()["journal"]["stored_events"] == 1)
        d.disk("fail")
        assert d.post(event("failing"))[2]["reason"] == "backend"
        until("readiness fails", lambda: d.get("/readyz")[2].get("code") == "journal_failed")
        assert d.post(event("failed"))[0] == 202
        assert lost(d, "backend") == 3
        d.disk("")
        until("it is reopened", lambda: d.get("/readyz")[0] == 200)
        # A request that has begun keeps the daemon serving while it refuses new ones.
        held = socket.create_connection(d.address(), timeout=20)
        held.sendall(b"POST /v1/events HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n"
                     b"Content-Length: 1000\r\n\r\n{")
        until("it has begun", lambda: d.get("/readyz")[0] == 200)
        d.kill()
        until("it drains", lambda: d.get("/readyz")[2].get("code") == "draining")
        answer = d.post(event("late"))
        assert answer[0::2] == (202, {"status": "not_durable", "request_id": "late", "reason": "draining"}), answer
        assert lost(d, "draining") == 1
        dp.promise("202 for a slow disk, a failed one, a failed journal and a stop: 4 in lost",
                   f"{lost(d, 'backend') + lost(d, 'draining'):.0f} in lost")
        held.close()
        assert d.wait() == 0


def test_M2_who_has_gone_is_counted_once():
    with daemon(slow_disk=SLOW_DISK, journal=journal(on_undurable="serve", operation_timeout="1s")) as d:
        d.start()
        d.disk("slow 20000")
        connection = dp.open_post(d.address(), json.dumps(event("a")).encode())
        until("it is in flight", lambda: d.metric('daybook_appends_in_flight{journal="main"}') == 1)
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
        connection.close()  # with a reset
        until("it is counted", lambda: lost(d, "unheard") + lost(d, "backend") == 1)
        d.disk("")
        until("the commit ends", lambda: d.stats()["journal"]["stored_events"] == 1)
        assert d.post(event("a"))[0] == 200
        assert lost(d, "unheard") + lost(d, "backend") == 1


sys.exit(dp.run_tests(globals(), sys.argv[3:]))
