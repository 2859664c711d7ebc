#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What operators do, over real HTTP: one event and its state, quarantine, consumers, the trail.

usage: operators_test.py DAYBOOK SLOW_DISK [TEST...]"""
import functools
import json
import sqlite3
import sys
import threading
import time
import urllib.parse

import daybook_process as dp
from daybook_process import Daemon, event, ndjson, until

BINARY, SLOW_DISK = sys.argv[1], sys.argv[2]
NDJSON = "application/x-ndjson"
CONSUMER, JOURNAL, LEDGER = dp.ONE_TRY, dp.ONE_TRY_JOURNAL, dp.LEDGER
daemon = functools.partial(Daemon, BINARY, journal=JOURNAL, consumers=[CONSUMER])


def quoted(text):
    return urllib.parse.quote(text, safe="")


def lines(answer):
    status, headers, body = answer
    assert status == 200 and headers["Content-Type"] == NDJSON, answer
    return [json.loads(line) for line in body.splitlines()]


def problem(answer, status, code):
    got, headers, body = answer
    assert (got, body.get("code")) == (status, code), answer
    assert headers["Content-Type"] == "application/problem+json" and body["detail"]
    return body


def quarantine(d, query=""):
    return lines(d.get("/v1/consumers/billing/quarantine" + query))


def act(d, path, body=None, **headers):
    if body is None:
        return d.request("POST", path, headers=headers)
    return d.request("POST", path, json.dumps(body), {"Content-Type": "application/json", **headers})


def with_quarantined(d, count, prefix="bad"):
    """Starts, and gets `count` events quarantined, each of a key of its own."""
    d.start()
    assert d.post(event("first"))[0] == 201
    d.drained()
    d.reject("bad")
    events = [event(f"{prefix}-{i}", subject=f"{prefix}{i}", model="bad", n=i) for i in range(count)]
    assert d.post(ndjson(events), NDJSON)[0] == 200
    until("they are quarantined", lambda: d.consumer()["quarantined"] == count)
    return d


def test_an_event_and_what_it_is_to_each_consumer():
    with daemon() as d:
        d.start()
        odd = 'a/b?c#d%20e"f\\'
        raw = b'{"request_id":' + json.dumps(odd).encode() + b',"namespace":"n","subject":"s",\n "x":1.0e0}'
        assert d.post(event("done"))[0] == 201
        d.drained()
        lock = d.lock_ledger()
        assert d.post(raw)[0] == 201
        status, headers, body = d.get("/v1/events/" + quoted(odd))
        assert status == 200 and headers["Content-Type"] == "application/json", headers
        assert body["request_id"] == odd and body["position"] == 2 and body["record"]["x"] == 1.0
        assert body["consumers"][0]["name"] == "billing"
        assert body["consumers"][0]["state"] in ("pending", "in_flight"), body
        body = d.get("/v1/events/done")[2]
        assert body["consumers"] == [{"name": "billing", "state": "acknowledged", "attempt": 0, "hand_outs": 0}]
        lock.release()
        d.drained()
        assert d.get("/v1/events/" + quoted(odd))[2]["consumers"][0]["state"] == "acknowledged"
        # E4: the record's bytes as they came.
        import http.client
        connection = http.client.HTTPConnection(*d.address(), timeout=20)
        connection.request("GET", "/v1/events/" + quoted(odd))
        assert b'"record":' + raw + b',"consumers"' in connection.getresponse().read()
        connection.close()
        problem(d.get("/v1/events/other"), 404, "not_found")
        problem(d.get("/v1/events/%zz"), 400, "bad_argument")
        problem(d.get("/v1/events/" + "x" * 300), 400, "bad_argument")
        problem(d.get("/v1/events/a/b"), 404, "not_found")
        answer = d.request("DELETE", "/v1/events/done")
        problem(answer, 405, "method_not_allowed")
        assert answer[1]["Allow"] == "GET, HEAD"


def test_quarantine_is_listed_and_shown():
    with daemon() as d:
        with_quarantined(d, 5)
        entries = quarantine(d)
        assert [e["request_id"] for e in entries] == [f"bad-{i}" for i in range(5)]
        first = entries[0]
        assert first["position"] == 2 and first["namespace"] == "team" and first["subject"] == "bad0"
        assert first["reason"] == "rejected" and first["attempts"] == 1, first
        assert first["words"]["sink"] and "no bad here" in first["words"]["message"], first
        assert first["quarantined_at"].endswith("Z")
        assert first["record"] == event("bad-0", subject="bad0", model="bad", n=0)
        status, headers, body = d.get("/v1/consumers/billing/quarantine?after=2&limit=2")
        assert (headers["Daybook-Last-Position"], headers["Daybook-More"]) == ("4", "yes")
        assert [json.loads(l)["request_id"] for l in body.splitlines()] == ["bad-1", "bad-2"]
        assert len(quarantine(d, "?reason=" + first["reason"])) == 5
        assert quarantine(d, "?reason=malformed") == []
        assert d.get("/v1/consumers/billing/quarantine/bad-3")[2]["request_id"] == "bad-3"
        problem(d.get("/v1/consumers/billing/quarantine/first"), 404, "not_found")
        problem(d.get("/v1/consumers/billing/quarantine/none"), 404, "not_found")
        problem(d.get("/v1/consumers/other/quarantine"), 404, "not_found")
        problem(d.get("/v1/consumers/Other/quarantine"), 400, "bad_argument")
        for query in ("?reason=bad", "?limit=0", "?after=x", "?after=%zz"):
            problem(d.get("/v1/consumers/billing/quarantine" + query), 400, "bad_argument")
        assert d.get("/v1/events/bad-0")[2]["consumers"][0]["state"] == "quarantined"


def test_release_of_one_and_the_order_it_brings_back():
    with daemon(consumers=[{**CONSUMER, "lease": "4s"}]) as d:
        d.start()
        assert d.post(event("first"))[0] == 201
        d.drained()
        d.reject("bad")
        # One caller: its later events wait until the bad ones are quarantined, and go on then.
        batch = [event(f"k{i}", model="bad" if i in (1, 3) else "good") for i in range(5)]
        assert d.post(ndjson(batch), NDJSON)[0] == 200
        until("two are quarantined, the rest delivered",
              lambda: d.consumer()["quarantined"] == 2 and d.consumer()["drained"])
        assert [r[0] for r in d.rows()] == ["first", "k0", "k2", "k4"]
        problem(act(d, "/v1/consumers/billing/quarantine/k0/release"), 404, "not_found")
        d.mend("bad")
        lock = d.lock_ledger()
        # While their caller's newest is under way nothing of it is claimed: both are released meanwhile.
        assert d.post(event("k5"))[0] == 201
        until("it waits for its lease", lambda: d.consumer()["in_flight"] == 1 and
              not d.consumer()["destinations"][0]["up"])
        for i in (3, 1):  # in any order: they come in the order of acceptance
            status, _, body = act(d, f"/v1/consumers/billing/quarantine/k{i}/release?why=mended+it")
            assert (status, body["status"], body["request_id"]) == (200, "released", f"k{i}"), body
        lock.release()
        d.drained()
        assert [r[0] for r in d.rows()] == ["first", "k0", "k2", "k4", "k1", "k3", "k5"]
        assert d.consumer()["quarantined"] == 0
        problem(act(d, "/v1/consumers/billing/quarantine/k1/release"), 404, "not_found")
        dp.promise("k1 before k3 before k5, though k3 was released first and k5 was under way", "rows " + " ".join(r[0] for r in d.rows()))


def test_release_of_many():
    with daemon() as d:
        with_quarantined(d, 250)
        path = "/v1/consumers/billing/quarantine/release"
        d.mend("bad")
        body = act(d, path, {"request_ids": ["bad-0", "first", "bad-1"], "why": "two of them"})[2]
        assert (body["released"], body["failed"], body["handled"], body["more"]) == (2, 1, 3, False), body
        assert [(e["request_id"], e["code"]) for e in body["errors"]] == [("first", "not_found")]
        assert act(d, path, {"reason": "malformed"})[2]["released"] == 0
        reason = quarantine(d, "?limit=1")[0]["reason"]
        assert act(d, path, {"reason": reason, "after": 200})[2]["released"] == 51
        status, _, body = act(d, path, {"all": True})
        assert (status, body["released"], body["failed"], body["more"]) == (200, 197, 0, False), body
        d.drained()
        assert len(d.rows()) == 251 and d.consumer()["quarantined"] == 0
        for bad in ({}, {"all": False}, {"all": True, "reason": "rejected"}, {"reason": "worse"}, {"ids": []},
                    {"request_ids": "bad-0"}, [], {"why": 1, "all": True}, {"request_ids": [], "all": True}):
            problem(act(d, path, bad), 400, "invalid_event" if bad == [] else "bad_argument")
        problem(d.request("POST", path, "{", {"Content-Type": "application/json"}), 400, "malformed_json")
        problem(d.request("POST", path, "all", {"Content-Type": "text/plain"}), 415, "unsupported_media_type")
        assert act(d, path, {"request_ids": [7]})[2]["errors"][0]["code"] == "bad_argument"
        problem(act(d, "/v1/consumers/other/quarantine/release", {"all": True}), 404, "not_found")


def test_discard():
    with daemon() as d:
        with_quarantined(d, 6)
        path = "/v1/consumers/billing/quarantine/"
        body = problem(d.request("DELETE", path + "bad-0"), 400, "bad_argument")
        assert "why" in body["detail"]
        assert d.consumer()["quarantined"] == 6
        status, _, body = d.request("DELETE", path + "bad-0?why=a%20test%26more")
        assert (status, body["status"]) == (200, "discarded")
        # The only consumer: it is forgotten at once, and counted (S5).
        problem(d.request("DELETE", path + "bad-0?why=x"), 404, "not_found")
        assert d.stats()["journal"]["counters"]["discarded"] == 1
        problem(d.request("DELETE", path + "first?why=x"), 409, "already_acknowledged")
        problem(act(d, path + "discard", {"all": True}), 400, "bad_argument")
        body = act(d, path + "discard", {"request_ids": ["bad-1", "bad-2"], "why": "tests"})[2]
        assert (body["discarded"], body["failed"]) == (2, 0)
        assert act(d, path + "discard", {"all": True, "why": "tests"})[2]["discarded"] == 3
        assert d.consumer()["quarantined"] == 0 and d.stats()["journal"]["counters"]["discarded"] == 6
        assert d.metric('daybook_discarded_total{journal="main"}') == 6
        whys = [o["why"] for o in d.get("/v1/operations")[2]["operations"]]
        assert whys == ["tests"] * 5 + ["a test&more"], whys


def test_an_id_that_is_also_a_word():
    with daemon() as d:
        d.start()
        d.reject("bad")
        d.post([event(w, subject=w, model="bad") for w in ("release", "discard", "quarantine")])
        until("they are quarantined", lambda: d.consumer()["quarantined"] == 3)
        path = "/v1/consumers/billing/quarantine/"
        assert d.get(path + "release")[2]["request_id"] == "release"
        d.mend("bad")
        assert act(d, path + "release/release")[2]["request_id"] == "release"
        assert d.request("DELETE", path + "discard?why=x")[2]["request_id"] == "discard"
        d.drained()
        assert d.rows() == [("release",)]


def test_consumers_rewind_and_retire():
    with daemon(consumers=[CONSUMER, {**CONSUMER, "name": "second", "sinks": [{**LEDGER, "name": "l2",
                                                                              "path": "second.db"}]}]) as d:
        d.start()
        d.post([event(f"e{i}", subject=f"s{i % 3}") for i in range(30)])
        until("all is delivered", lambda: all(c["drained"] for c in d.stats()["consumers"]))
        body = d.get("/v1/consumers/second")[2]
        assert body["running"] and body["registered"] and body["held_events"] == 0 and body["start"] == 1, body
        problem(d.get("/v1/consumers/third"), 404, "not_found")
        # Rewind: what the ledger lost is there again, in order.
        with sqlite3.connect(d.path("usage.db")) as database:
            database.execute("delete from usage where request_id <> 'e7'")
        assert act(d, "/v1/consumers/billing/rewind?why=restored")[2]["status"] == "rewound"
        until("they are back", lambda: len(d.rows()) == 30)
        back = [r[0] for r in d.rows() if r[0] != "e7"]
        for key in range(3):
            of_key = [e for e in back if int(e[1:]) % 3 == key]
            assert of_key == sorted(of_key, key=lambda e: int(e[1:])), of_key
        problem(act(d, "/v1/consumers/third/rewind"), 404, "not_found")
        # A consumer that this daemon runs is not retired.
        answer = d.request("DELETE", "/v1/consumers/second")
        assert "configuration" in problem(answer, 409, "busy")["detail"] and int(answer[1]["Retry-After"]) > 0
        assert d.stop()[0] == 0
        d.config["consumers"] = [CONSUMER]
        d.start()
        d.post(event("later"))
        until("billing has it", lambda: d.consumer()["drained"])
        body = d.get("/v1/consumers/second")[2]
        assert not body["running"] and body["held_events"] == 1 and body["destinations"] == [], body
        problem(d.request("DELETE", "/v1/consumers/second?force=maybe"), 400, "bad_argument")
        assert d.request("DELETE", "/v1/consumers/second?why=gone")[2]["status"] == "retired"
        problem(d.request("DELETE", "/v1/consumers/second"), 404, "not_found")
        problem(d.get("/v1/consumers/second"), 404, "not_found")
        assert [c["name"] for c in d.get("/v1/consumers")[2]["consumers"]] == ["billing"]


def test_C1_a_consumer_is_started_ahead_of_its_daemon():
    with daemon() as d:
        d.start()
        d.post([event(f"e{i}", subject=f"s{i}") for i in range(4)])
        d.drained()
        answer = act(d, "/v1/consumers/warehouse/start?from=3&why=new", **{"Daybook-Operator": "ada"})
        assert answer[0] == 200 and answer[2] == {"status": "started", "consumer": "warehouse", "start": 3,
                                                  "start_at": None}, answer
        body = d.get("/v1/consumers/warehouse")[2]
        assert body["registered"] and not body["running"] and body["pending"] == 2 and body["start"] == 3, body
        assert act(d, "/v1/consumers/all/start")[2]["start"] == 1
        assert act(d, "/v1/consumers/new/start?from=now")[2]["start"] == 5
        body = act(d, "/v1/consumers/later/start?from=2099-01-01T00%3A00%3A00Z")[2]
        assert body["start"] is None and body["start_at"].startswith("2099-01-01T00:00:00"), body
        assert d.get("/v1/consumers/later")[2]["start_at"] == body["start_at"]
        # Only for one that the journal does not know.
        for name in ("warehouse", "billing"):
            problem(act(d, f"/v1/consumers/{name}/start?from=now"), 409, "conflict")
        problem(act(d, "/v1/consumers/x/start?from=yesterday"), 400, "bad_argument")
        problem(act(d, "/v1/consumers/X/start"), 400, "bad_argument")
        answer = d.get("/v1/consumers/x/start")
        assert problem(answer, 405, "method_not_allowed") and answer[1]["Allow"] == "POST"
        for name in ("all", "new", "later"):
            assert d.request("DELETE", f"/v1/consumers/{name}?why=tried")[2]["status"] == "retired"
        # Its daemon comes: it begins where it was started, not where the configuration says.
        assert d.stop()[0] == 0
        d.config["consumers"] = [CONSUMER, {**CONSUMER, "name": "warehouse", "start": "now", "sinks": [
            {**LEDGER, "name": "w", "path": "warehouse.db"}]}]
        d.start()
        until("all is delivered", lambda: all(c["drained"] for c in d.stats()["consumers"]))
        with sqlite3.connect(d.path("warehouse.db")) as database:
            assert sorted(database.execute("select request_id from usage")) == [("e2",), ("e3",)]
        ops = d.get("/v1/operations")[2]["operations"]
        assert [(o["kind"], o["consumer"]) for o in ops if o["kind"] == "start"] == [
            ("start", "later"), ("start", "new"), ("start", "all"), ("start", "warehouse")], ops
        assert (ops[-1]["who"], ops[-1]["why"]) == ("ada (127.0.0.1)", "new"), ops


def test_O1_the_trail_says_who_when_and_why():
    with daemon() as d:
        with_quarantined(d, 3)
        path = "/v1/consumers/billing/quarantine/"
        act(d, path + "bad-0/release?why=r", **{"Daybook-Operator": "ada"})
        act(d, path + "release", {"request_ids": ["bad-1"], "why": "one"}, **{"Daybook-Operator": "ada"})
        d.request("DELETE", path + "bad-2?why=d")
        act(d, "/v1/consumers/billing/rewind")
        assert d.stop()[0] == 0
        d.start()
        body = d.get("/v1/operations")[2]
        ops = body["operations"]
        assert [(o["kind"], o["request_id"], o["who"], o["why"]) for o in ops] == [
            ("rewind", None, "127.0.0.1", ""), ("discard", "bad-2", "127.0.0.1", "d"),
            ("release", "bad-1", "ada (127.0.0.1)", "one"), ("release", "bad-0", "ada (127.0.0.1)", "r")], ops
        assert ops[0]["no"] > ops[1]["no"] and ops[0]["position"] is None and ops[3]["position"] == 2
        assert all(o["consumer"] == "billing" and o["at"].endswith("Z") for o in ops) and body["more"] is False
        page = d.get(f"/v1/operations?before={ops[0]['no']}&limit=2")[2]
        assert [o["no"] for o in page["operations"]] == [ops[1]["no"], ops[2]["no"]] and page["more"] is True
        problem(d.get("/v1/operations?before=x"), 400, "bad_argument")
        problem(d.get("/v1/operations?limit=x"), 400, "bad_argument")
        dp.promise("four operations with time, who and why, after a restart", f"{len(ops)} operations, newest first")


def test_a_page_of_another_origin_operates_nothing():
    with daemon() as d:
        d.start()
        for origin in ("http://evil.example", "null"):
            problem(act(d, "/v1/consumers/billing/rewind", **{"Origin": origin}), 403, "other_origin")
        assert act(d, "/v1/consumers/billing/rewind", **{"Origin": d.url})[0] == 200
        assert act(d, "/v1/consumers/billing/rewind")[0] == 200
        assert len(d.get("/v1/operations")[2]["operations"]) == 2


def test_a_slow_disk_holds_up_nobody_else():
    with daemon(slow_disk=SLOW_DISK) as d:
        with_quarantined(d, 2)
        d.disk("slow 3000")
        answers = []
        threads = [threading.Thread(target=lambda i=i: answers.append(
            act(d, f"/v1/consumers/billing/quarantine/bad-{i}/release"))) for i in range(2)]
        begin = time.monotonic()
        for thread in threads:
            thread.start()
        longest = 0
        while any(thread.is_alive() for thread in threads):
            before = time.monotonic()
            assert d.get("/healthz")[0] == 200
            assert d.stats()["consumers"][0]["name"] == "billing"
            longest = max(longest, time.monotonic() - before)
        waited = time.monotonic() - begin
        d.disk("")
        # The answer is the truth whenever it comes: after its sync, or that it is not known.
        assert all(a[0] == 200 or a[2]["code"] == "timed_out" for a in answers), answers
        assert waited > 2 > longest, (waited, longest)
        dp.promise("while a release waits for its sync, /healthz and /v1/stats together within 2 s",
                   f"{longest * 1000:.0f} ms, the release {waited:.1f} s")


def test_a_stop_ends_what_waits_for_the_disk():
    with daemon(slow_disk=SLOW_DISK, journal={**JOURNAL, "operation_timeout": "2s"}) as d:
        with_quarantined(d, 1)
        d.disk("slow 500")
        answers = []
        thread = threading.Thread(target=lambda: answers.append(
            act(d, "/v1/consumers/billing/quarantine/bad-0/release")))
        thread.start()
        until("it has begun", lambda: thread.is_alive())
        status, seconds = d.stop()
        thread.join()
        assert seconds < 40 and answers[0][0] in (200, 503) and status == 0, (status, seconds, answers)


sys.exit(dp.run_tests(globals(), sys.argv[3:]))
