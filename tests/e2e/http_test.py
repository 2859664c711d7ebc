#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The interface over real HTTP: each status with its exact code, batches, limits, listings.

usage: http_test.py DAYBOOK SLOW_DISK [TEST...]"""
import functools
import json
import os
import signal
import socket
import sys
import time

import daybook_process as dp
from daybook_process import Daemon, event, ndjson, until

BINARY, SLOW_DISK = sys.argv[1], sys.argv[2]
daemon = functools.partial(Daemon, BINARY)
NDJSON = "application/x-ndjson"
PROBLEMS_SEEN = {}  # "status code", in the order seen


def expect_problem(answer, status, code):
    got, headers, body = answer
    PROBLEMS_SEEN[f"{got} {body.get('code')}"] = True
    assert (got, body.get("code")) == (status, code), answer
    assert headers["Content-Type"] == "application/problem+json"
    assert body["status"] == status and body["title"] and body["detail"]
    return body


def test_one_event_each_status():
    PROBLEMS_SEEN.clear()
    with daemon() as d:
        d.start()
        status, headers, body = d.post(event("a", cost_microdollars=5))
        assert status == 201 and headers["Content-Type"] == "application/json"
        assert body == {"status": "accepted", "request_id": "a", "position": 1}, body
        assert d.post(event("a", cost_microdollars=5.0))[0::2] == (
            200, {"status": "already_present", "request_id": "a", "position": 1})
        body = expect_problem(d.post(event("a", cost_microdollars=6)), 409, "conflict")
        assert body["request_id"] == "a"
        body = expect_problem(d.post({"request_id": "b", "namespace": "n"}), 422, "invalid_event")
        assert "subject" in body["detail"]
        expect_problem(d.post('{"request_id":"b","request_id":"c","namespace":"n","subject":"s"}'),
                       422, "invalid_event")
        assert expect_problem(d.post('{"request_id":"b",'), 400, "malformed_json")["offset"] == 18
        expect_problem(d.post(b'{"request_id":"\xff"}'), 400, "malformed_json")
        expect_problem(d.post(b""), 400, "malformed_json")
        expect_problem(d.post(event("big", text="x" * 300_000)), 413, "too_large")
        expect_problem(d.post(event("b"), kind="text/plain"), 415, "unsupported_media_type")
        expect_problem(d.post(event("b"), Content_Encoding="br"), 415, "unsupported_media_type")
        expect_problem(d.get("/v1/nothing"), 404, "not_found")
        answer = d.request("DELETE", "/v1/events")
        expect_problem(answer, 405, "method_not_allowed")
        assert answer[1]["Allow"] == "GET, HEAD, POST"
        assert d.stats()["journal"]["stored_events"] == 1
        assert d.metric('daybook_appends_total{journal="main",outcome="conflict"}') == 1
        dp.promise("409 conflict, 422 invalid_event, 400 malformed_json, 413 too_large, 415 unsupported_media_type, "
                   "404 not_found, 405 method_not_allowed", ", ".join(PROBLEMS_SEEN))


def test_body_limit():
    with daemon(listen={"address": "127.0.0.1:0", "max_body_bytes": "64KiB"}) as d:
        d.start()
        big = ndjson([event(f"e{i}", text="x" * 1000) for i in range(70)])
        expect_problem(d.post(big, NDJSON), 413, "too_large")
        # Without a length in front the limit holds too.
        expect_problem(d.request("POST", "/v1/events", iter([big[:40000], big[40000:]]),
                                 {"Content-Type": NDJSON}), 413, "too_large")
        # One that asks first is answered before it sends.
        connection = socket.create_connection(d.address(), timeout=20)
        connection.sendall(b"POST /v1/events HTTP/1.1\r\nHost: x\r\nContent-Type: " + NDJSON.encode() +
                           b"\r\nExpect: 100-continue\r\nContent-Length: 99999999\r\n\r\n")
        assert dp.read_status(connection) == 413
        assert d.stats()["journal"]["stored_events"] == 0
        assert d.post(ndjson([event("small")]), NDJSON)[0] == 200


def test_E4_stored_byte_for_byte():
    raw = b' { "request_id" : "a","namespace":"n", "subject":"s","x":1.0e0,\n"y":18446744073709551617 } '
    with daemon() as d:
        d.start()
        assert d.post(raw)[0] == 201
        d.drained()
        assert d.rows("select record from usage") == [(raw.strip().decode(),)]
        line = d.get("/v1/events")[2].splitlines()
        assert len(line) == 1 and raw.strip().replace(b"\n", b" ") in line[0]


def test_many():
    with daemon() as d:
        d.start()
        status, _, body = d.post([event("a"), event("b")])
        assert (status, body) == (200, {"accepted": 2, "already_present": 0, "failed": 0, "errors": []})
        assert d.post([])[0] == 200
        assert d.post(b"", NDJSON)[0] == 200
        expect_problem(d.post(b'[{"request_id":"c","namespace":"n","subject":"s"},]'), 400, "malformed_json")
        body = expect_problem(d.post([event("a", x=1), {"request_id": "z"}]), 422, "all_refused")
        assert [e["code"] for e in body["errors"]] == ["conflict", "invalid_event"]
        assert body["failed"] == 2 and not any(e["retry"] for e in body["errors"])
        # A6: one id twice in a batch resolves as if appended one by one.
        assert d.post([event("d"), event("d"), event("d", x=1)])[2]["already_present"] == 1


def test_A6_mixed_lines_store_exactly_the_good_ones():
    lines = [json.dumps(event(f"good-{i}", subject=f"k{i % 7}")) for i in range(200)]
    bad = {3: "{", 50: '{"request_id":"x"}', 51: "[1]", 120: json.dumps(event("good-1", other=1)),
           199: json.dumps(event("y")) + json.dumps(event("z")), 77: "\x00"}
    good = set()
    for index, text in bad.items():
        lines[index] = text
    for index in range(200):
        if index not in bad:
            good.add(f"good-{index}")
    body = "\ufeff" + "\r\n\r\n".join(lines)
    with daemon() as d:
        d.start()
        status, _, answer = d.post(body.encode(), NDJSON)
        assert status == 207 and answer["accepted"] == len(good), answer
        assert {(e["index"], e["line"]) for e in answer["errors"]} == {(i, 2 * i + 1) for i in bad}
        codes = {e["index"]: e["code"] for e in answer["errors"]}
        assert codes == {3: "malformed_json", 50: "invalid_event", 51: "invalid_event", 120: "conflict",
                         199: "malformed_json", 77: "malformed_json"}, codes
        d.drained()
        assert {row[0] for row in d.rows()} == good
        dp.promise("194 of 200 lines are good: exactly those stored", f"{len(good)} stored")
        # C11: order in the body is order of position.
        listed = [json.loads(l)["request_id"] for l in d.get("/v1/events?limit=4096")[2].splitlines()]
        assert listed == [f"good-{i}" for i in range(200) if i not in bad]


def test_a_body_that_does_not_arrive_whole_stores_nothing():
    with daemon() as d:
        d.start()
        connection = socket.create_connection(d.address(), timeout=20)
        connection.sendall(b"POST /v1/events HTTP/1.1\r\nHost: x\r\nContent-Type: " + NDJSON.encode() +
                           b"\r\nContent-Length: 100000\r\n\r\n" + ndjson([event("a"), event("b")]))
        connection.close()
        assert d.post(event("c"))[2]["position"] == 1
        assert d.stats()["journal"]["stored_events"] == 1


def test_a_silent_client_is_cut():
    with daemon(listen={"address": "127.0.0.1:0", "idle_timeout": "1s"}) as d:
        d.start()
        connection = socket.create_connection(d.address(), timeout=20)
        connection.sendall(b"POST /v1/events HTTP/1.1\r\nHost: x\r\n")
        begin = time.monotonic()
        assert connection.recv(65536)[:12] in (b"", b"HTTP/1.1 408")
        assert 0.5 < time.monotonic() - begin < 10
        connection.close()
        assert d.post(event("a"))[0] == 201


def test_A4_at_capacity():
    with daemon(journal={"path": "data", "min_free_disk": "1MiB", "max_events": 5}) as d:
        d.start()
        assert d.post(event("e0"))[0] == 201
        d.drained()
        lock = d.lock_ledger()
        # The delivered one is given up for room (P4); then the journal is full of what nobody has.
        for i in range(1, 6):
            assert d.post(event(f"e{i}"))[0] == 201
        answer = d.post(event("e6"))
        body = expect_problem(answer, 503, "usage_not_durable")
        assert (body["reason"], body["limit"], body["retained"]) == ("at_capacity", "events", 5), body
        assert int(answer[1]["Retry-After"]) > 0
        # A3: what is decided by look-up is decided at a full journal too.
        assert d.post(event("e5"))[0] == 200
        assert d.post(event("e5", x=1))[0] == 409
        assert d.post(ndjson([event("e5"), event("e7")]), NDJSON)[2]["errors"][0]["retry"] is True
        expect_problem(d.post(ndjson([event("e8"), event("e7")]), NDJSON), 503, "usage_not_durable")
        lock.release()
        d.drained()
        assert d.post(event("e6"))[0] == 201
        d.drained()
        assert [row[0] for row in d.rows()] == [f"e{i}" for i in range(7)]
        dp.promise("503 usage_not_durable with its reason and Retry-After",
                   f"{answer[0]} {body['code']}, reason {body['reason']}, Retry-After {answer[1]['Retry-After']}")


def test_A4_disk():
    with daemon() as d:
        d.start()
        for number in range(5):
            assert d.post(event(f"e{number}", text="x" * 100_000))[0] == 201
        assert d.stop()[0] == 0
        # Below its limit from the start: refused at once, whatever stands prepared.
        d.config["journal"] = dict(d.config["journal"], min_free_disk="900TiB")
        d.start()
        body = expect_problem(d.post(event("more")), 503, "usage_not_durable")
        assert (body["reason"], body["limit"]) == ("at_capacity", "disk"), body
        # Delivery and what is decided by look-up go on; what is delivered may have been given up for room.
        again = d.post(event("e0", text="x" * 100_000))[0]
        assert again == 200 or (again == 503 and d.stats()["journal"]["counters"]["reclaimed"] > 0), again
        d.drained()
        assert len(d.rows()) == 5
        assert d.stop()[0] == 0
        # It ends with room: the same directory, another limit.
        d.config["journal"] = dict(d.config["journal"], min_free_disk="1MiB")
        d.start()
        assert d.post(event("more"))[0] == 201


def test_J1_timed_out_then_already_present():
    with daemon(slow_disk=SLOW_DISK, journal={"path": "data", "min_free_disk": "1MiB",
                                              "operation_timeout": "150ms"}) as d:
        d.start()
        d.disk("slow 20000")
        answer = d.post(event("a"))
        body = expect_problem(answer, 503, "usage_not_durable")
        assert body["reason"] == "timed_out" and answer[1]["Retry-After"] and "unknown" in body["detail"]
        body = expect_problem(d.post(ndjson([event("a"), event("b")]), NDJSON), 503, "usage_not_durable")
        assert body["reason"] == "timed_out" and body["failed"] == 2
        d.disk("")
        until("the commit ends", lambda: d.stats()["journal"]["stored_events"] == 2)
        assert d.post(event("a"))[0::2] == (
            200, {"status": "already_present", "request_id": "a", "position": 1})
        assert d.metric('daybook_appends_total{journal="main",outcome="timed_out"}') == 3


def test_M2_a_refusal_that_nobody_hears_is_counted():
    with daemon(slow_disk=SLOW_DISK, journal={"path": "data", "min_free_disk": "1MiB",
                                              "operation_timeout": "1s"}) as d:
        d.start()
        d.disk("slow 20000")
        connection = dp.open_post(d.address(), json.dumps(event("a")).encode())
        until("it is in flight",
              lambda: d.metric('daybook_appends_in_flight{journal="main"}') == 1)
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
        connection.close()  # with a reset
        until("it is counted",
              lambda: d.metric('daybook_lost_total{journal="main",reason="unheard"}') == 1)
        d.disk("")


def test_reading():
    with daemon() as d:
        d.start()
        d.post([event(f"e{i}", subject="s\"\\") for i in range(5)])
        status, headers, body = d.get("/v1/events?after=1&limit=2")
        assert status == 200 and headers["Content-Type"] == NDJSON
        lines = [json.loads(line) for line in body.splitlines()]
        assert [l["position"] for l in lines] == [2, 3]
        assert list(lines[0]) == ["position", "request_id", "namespace", "subject", "observed_at",
                                  "accepted_at", "record"]
        assert (headers["Daybook-Last-Position"], headers["Daybook-More"]) == ("3", "yes")
        assert d.get("/v1/events?after=5")[2] == b""
        for query in ("after=x", "limit=0", "limit=-1", "where=lost"):
            expect_problem(d.get("/v1/events?" + query), 400, "bad_argument")
        d.drained()
        assert d.get("/v1/events?where=pending")[2] == b""
        stats = d.stats()
        assert stats["journal"]["counters"]["accepted"] == 5 and stats["journal"]["state"] == "open"
        assert [c["name"] for c in d.get("/v1/consumers")[2]["consumers"]] == ["billing"]
        assert stats["consumers"][0]["destinations"][0]["up"] is True
        assert d.get("/healthz")[0] == 200 and d.get("/readyz")[0] == 200
        status, headers, body = d.request("HEAD", "/v1/stats")
        assert status == 200 and int(headers["Content-Length"]) > 100 and body == b""
        assert d.get("/metrics")[1]["Content-Type"].startswith("text/plain; version=0.0.4")


def test_unix_socket():
    with daemon(listen={"address": None, "unix": "d.sock"}) as d:
        d.config["listen"]["unix"] = d.path("d.sock")
        d.is_up = lambda: "curl" in d.out()
        d.start()
        curl = d.out().strip().splitlines()[-1].strip()
        assert b'"accepted"' in os.popen(curl).read().encode()
        run = d.run("stats", "--url", "unix:" + d.path("d.sock"))
        assert run.returncode == 0 and b"billing" in run.stdout, run
        assert d.stop()[0] == 0
        assert not os.path.exists(d.path("d.sock"))


def test_the_printed_line_works_when_pasted():
    with daemon() as d:
        d.start()
        line = d.out().strip().splitlines()[-1]
        assert "accepted" in os.popen(line).read()
        assert "already_present" in os.popen(line).read()
        assert d.path("data") in d.out()
        assert d.stop(signal.SIGINT)[0] == 0


sys.exit(dp.run_tests(globals(), sys.argv[3:]))
