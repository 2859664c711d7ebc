#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What comes in over real HTTP: gzip, CloudEvents in their three modes, NDJSON as it is found in the wild.

usage: ingest_test.py DAYBOOK SLOW_DISK [TEST...]"""
import functools
import gzip
import json
import socket
import sys
import threading
import time

import daybook_process as dp
from daybook_process import Daemon, event, ndjson, until

BINARY = sys.argv[1]
daemon = functools.partial(Daemon, BINARY)
NDJSON = "application/x-ndjson"
CLOUDEVENT = "application/cloudevents+json"
BATCH = "application/cloudevents-batch+json"


def problem(answer, status, code):
    got, headers, body = answer
    assert (got, body.get("code")) == (status, code), answer
    assert headers["Content-Type"] == "application/problem+json"
    return body


def cloudevent(request_id, **more):
    return {"specversion": "1.0", "type": "usage", "source": "/gateway", "id": request_id, "subject": "key-1", **more}


def listed(d):
    return [json.loads(line) for line in d.get("/v1/events?limit=4096")[2].splitlines()]


def test_gzip():
    with daemon(listen={"address": "127.0.0.1:0", "max_body_bytes": "1MiB"}) as d:
        d.start()
        events = [event(f"e{i}", text="x" * 100) for i in range(2000)]
        packed = gzip.compress(ndjson(events))
        assert d.post(packed, NDJSON, Content_Encoding="gzip")[2]["accepted"] == 2000
        # In chunks, without a length in front; x-gzip is its old name.
        pieces = [packed[i:i + 1000] for i in range(0, len(packed), 1000)]
        assert d.request("POST", "/v1/events", iter(pieces), {"Content-Type": NDJSON, "Content-Encoding": "x-gzip"}
                         )[2]["already_present"] == 2000
        assert d.post(gzip.compress(json.dumps(event("one")).encode()), Content_Encoding="gzip")[0] == 201
        for cut in (0, 1, 9, 10, 50, len(packed) - 1):
            body = problem(d.post(packed[:cut], NDJSON, Content_Encoding="gzip"), 400, "malformed_json")
            assert body["offset"] == cut and "ends too early" in body["detail"], body
        broken = packed[:-8] + bytes(8)
        assert problem(d.post(broken, NDJSON, Content_Encoding="gzip"), 400, "malformed_json")["offset"] > 0
        problem(d.post(ndjson(events[:1]), NDJSON, Content_Encoding="gzip"), 400, "malformed_json")
        problem(d.post(packed + b"more", NDJSON, Content_Encoding="gzip"), 400, "malformed_json")
        answer = d.post(packed, NDJSON, Content_Encoding="deflate")
        problem(answer, 415, "unsupported_media_type")
        assert "gzip" in answer[1]["Accept-Encoding"]
        problem(d.post(packed, NDJSON, Content_Encoding="gzip, gzip"), 415, "unsupported_media_type")
        # The limit is that of what it becomes; a bomb is refused when it reaches it, and costs no memory.
        before = peak_kib(d)
        bomb = gzip.compress(b" " * (900 * 1024 * 1024), 9)
        for _ in range(4):
            body = problem(d.post(bomb, NDJSON, Content_Encoding="gzip"), 413, "too_large")
            assert "expanded" in body["detail"], body
        grown = peak_kib(d) - before
        assert grown < 32 * 1024, grown  # a sanitizer keeps what was freed for a while
        assert d.stats()["journal"]["stored_events"] == 2001
        dp.promise("a gzip body of 900 MiB is refused at 1 MiB: less than 32 MiB of memory more; truncated at any byte: "
                   "400 with that offset", f"413, {grown} KiB more; offsets right")


def peak_kib(d):
    with open(f"/proc/{d.process.pid}/status", encoding="ascii") as file:
        return int(next(line.split()[1] for line in file if line.startswith("VmHWM")))


def test_cloudevents_structured_and_batch():
    with daemon() as d:
        d.start()
        raw = json.dumps(cloudevent("a", time="2026-03-04T05:06:07.5Z", data={"input_tokens": 12}))
        assert d.post(raw, CLOUDEVENT)[0] == 201
        assert d.post(raw, CLOUDEVENT + "; charset=UTF-8")[0] == 200
        # Its time is left out of E6, as observed_at is.
        assert d.post(cloudevent("a", time="2026-03-05T05:06:07Z", data={"input_tokens": 12.0}), CLOUDEVENT)[0] == 200
        problem(d.post(cloudevent("a", data={"input_tokens": 13}), CLOUDEVENT), 409, "conflict")
        assert d.post([cloudevent("b"), cloudevent("c", namespace="team")], BATCH)[2]["accepted"] == 2
        status, _, body = d.post([cloudevent("d"), cloudevent("e", subject=None), event("f")], BATCH)
        assert status == 207 and [e["index"] for e in body["errors"]] == [1, 2], body
        assert [e["request_id"] for e in body["errors"]] == ["e", "f"]
        assert d.post([], BATCH)[0] == 200
        problem(d.post([cloudevent("g")], CLOUDEVENT), 422, "invalid_event")
        problem(d.post(cloudevent("g"), BATCH), 400, "malformed_json")
        problem(d.post(cloudevent("g", specversion="0.3"), CLOUDEVENT), 422, "invalid_event")
        problem(d.post(b"\0", "application/cloudevents+avro"), 415, "unsupported_media_type")
        lines = listed(d)
        assert [(l["request_id"], l["namespace"], l["subject"]) for l in lines] == [
            ("a", "/gateway", "key-1"), ("b", "/gateway", "key-1"), ("c", "team", "key-1"), ("d", "/gateway", "key-1")]
        assert lines[0]["observed_at"] == "2026-03-04T05:06:07.500000Z"
        # E4: as sent.
        assert json.dumps(lines[0]["record"]) == raw
        # What was exported is taken again, as records too.
        records = d.run("export", "--records").stdout
        assert d.run("append", stdin=records).stdout == b"accepted 0, already present 4, refused 0\n"
        # Copied elsewhere they still say when they happened (E5), also where the record did not.
        exported = d.run("export").stdout
        d.stop()
        d.config["journal"] = {"path": "copy", "min_free_disk": "1MiB"}
        d.start()
        assert d.run("append", stdin=exported).stdout == b"accepted 4, already present 0, refused 0\n"
        assert [l["observed_at"] for l in listed(d)] == [l["observed_at"] for l in lines]
        assert d.run("append", stdin=records).stdout == b"accepted 0, already present 4, refused 0\n"


def test_cloudevents_binary():
    with daemon() as d:
        d.start()
        attributes = {"ce-specversion": "1.0", "ce-type": "usage", "ce-source": "/gateway", "CE-ID": "a",
                      "ce-subject": "M%C3%BCller%20%22x%22", "ce-namespace": '"team \\"a\\""',
                      "ce-time": "2026-03-04T05:06:07Z"}
        answer = d.post({"input_tokens": 12}, "application/json", **attributes)
        assert answer[0] == 201, answer
        line = listed(d)[0]
        assert (line["namespace"], line["subject"]) == ('team "a"', 'Müller "x"')
        assert line["observed_at"] == "2026-03-04T05:06:07.000000Z"
        structured = {"specversion": "1.0", "type": "usage", "source": "/gateway", "id": "a", "subject": 'Müller "x"',
                      "namespace": 'team "a"', "datacontenttype": "application/json", "data": {"input_tokens": 12}}
        assert {k: v for k, v in line["record"].items() if k != "time"} == structured
        # One event in two modes is one fact.
        assert d.post(structured, CLOUDEVENT)[0] == 200
        attributes["CE-ID"] = "b"
        assert d.post(b"\x00\xff", "application/octet-stream", **attributes)[0] == 201
        assert listed(d)[1]["record"]["data_base64"] == "AP8="
        attributes["CE-ID"] = "c"
        packed = gzip.compress(b'{"n":1}')
        assert d.post(packed, "application/json", **attributes, Content_Encoding="gzip")[0] == 201
        assert listed(d)[2]["record"]["data"] == {"n": 1}
        attributes["CE-ID"] = "d"
        body = problem(d.post('1,"subject":"other"', "application/json", **attributes), 400, "malformed_json")
        assert body["offset"] == 1
        attributes["ce-subject"] = "%zz"
        body = problem(d.post({}, "application/json", **attributes), 422, "invalid_event")
        assert "ce-subject" in body["detail"]
        del attributes["ce-specversion"]
        attributes["ce-subject"] = "k"
        problem(d.post({}, "application/json", **attributes), 422, "invalid_event")


def test_ndjson_as_it_is_found():
    with daemon() as d:
        d.start()
        one, two, three = (json.dumps(event(i)) for i in "abc")
        cases = [
            (f"\ufeff{one}\r\n\r\n  \n{two}\r\n{three}", 200, []),               # BOM, CRLF, blank lines, no last newline
            (f"{one}\n{two}{three}\n", 207, [(1, 2, "malformed_json")]),         # two objects on a line
            (f"{one}\r{two}\r{three}\r", 422, [(0, 1, "malformed_json")]),       # CR alone ends nothing
            (f"{one}\n\ufeff{two}\n", 207, [(1, 2, "malformed_json")]),          # a BOM further on
            (f"{one}\n[{two}]\n", 207, [(1, 2, "invalid_event")]),
            (f"{one}\n{two[:-3]}", 207, [(1, 2, "malformed_json")]),             # cut off
            ("\r\n\n \t\n", 200, []),
        ]
        for text, status, errors in cases:
            answer = d.post(text.encode(), NDJSON)
            assert answer[0] == status, (text, answer)
            assert [(e["index"], e["line"], e["code"]) for e in answer[2]["errors"]] == errors, (text, answer)
        problem(d.post(("\ufeff" + one).encode()), 400, "malformed_json")  # only NDJSON may begin with one
        assert d.stats()["journal"]["stored_events"] == 3
        dp.promise(f"{len(cases)} bodies, each with exactly its bad lines refused", f"{len(cases)} answered so")


def limited(d, limit):
    return d.metric(f'daybook_http_limited_total{{limit="{limit}"}}')


def read_all(connection):
    """Everything until the other side closes, and how long that took."""
    begin, data = time.monotonic(), b""
    try:
        while part := connection.recv(65536):
            data += part
    except ConnectionResetError:
        pass
    connection.close()
    return data, time.monotonic() - begin


HEAD = b"POST /v1/events HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n"


def drip(connection, data, ending):
    """Sends a byte now and then, so that something always moves."""
    try:
        for byte in data:
            if ending.wait(0.2):
                return
            connection.send(bytes([byte]))
    except OSError:
        pass  # cut


def test_slow_clients_are_cut():
    """By silence, a byte now and then, or an answer that is not read: each ends within its time, is told where
    that is possible, is counted, and stores nothing."""
    with daemon(listen={"address": "127.0.0.1:0", "idle_timeout": "1s"}) as d:
        d.start()
        cases = [
            ("idle", b"", b"", b""),
            ("idle", b"POST /v1/ev", b"", b""),
            ("slow_request", HEAD, b"", b"408"),
            ("slow_request", HEAD, b"X-Slow: " + b"x" * 1000, b"408"),
            ("slow_request", HEAD + b"Content-Length: 500\r\n\r\n", b"", b"408"),
            ("slow_request", HEAD + b"Content-Length: 500\r\n\r\n", b" " * 499, b"408"),
            ("slow_request", HEAD + b"Transfer-Encoding: chunked\r\n\r\n", b"1\r\n \r\n" * 90, b"408"),
        ]
        worst = 0
        for limit, at_once, slowly, answer in cases:
            before, ending = limited(d, limit), threading.Event()
            connection = socket.create_connection(d.address(), timeout=30)
            connection.sendall(at_once)
            dripping = threading.Thread(target=drip, args=(connection, slowly, ending))
            dripping.start()
            data, seconds = read_all(connection)
            ending.set()
            dripping.join()
            assert 0.5 < seconds < 8, (limit, at_once, seconds)
            assert data.startswith(b"HTTP/1.1 408") if answer else data == b"", (limit, at_once, data)
            if answer:
                body = json.loads(data.split(b"\r\n\r\n", 1)[1])
                assert (body["status"], body["code"]) == (408, "too_slow")
            assert limited(d, limit) == before + 1, (limit, at_once)
            worst = max(worst, seconds)
        # An answer that nobody reads.
        assert d.post([event(f"e{i}", text="x" * 4000) for i in range(1500)])[0] == 200
        connection = socket.socket()
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        connection.connect(d.address())
        connection.sendall(b"GET /v1/events?limit=4096 HTTP/1.1\r\nHost: x\r\n\r\n" * 3)
        until("it is cut", lambda: limited(d, "slow_answer") == 1, 60)
        connection.close()
        assert d.post(event("after"))[0] == 201
        # A slow one that keeps the pace is served: 64 KiB within each second and more.
        connection = socket.create_connection(d.address(), timeout=30)
        body = json.dumps(event("paced", text="x" * 250_000)).encode()
        connection.sendall(HEAD + b"Content-Length: %d\r\n\r\n" % len(body))
        for at in range(0, len(body), 50_000):
            connection.sendall(body[at:at + 50_000])
            threading.Event().wait(0.4)
        assert connection.recv(65536).startswith(b"HTTP/1.1 201")
        connection.close()
        dp.promise("seven kinds of slow requests with an idle_timeout of 1 s: cut within 8 s, 408 once a head has begun, "
                   "each counted; an answer that is not read is cut too", f"all cut, the last after {worst:.1f} s")


def test_headers_have_a_limit():
    with daemon() as d:
        d.start()
        # Beyond what a connection has memory for the HTTP library answers with a page of its own: the status
        # stands, the problem document does not. A request line alone that is so long is 414.
        heads = [(b"GET /v1/stats HTTP/1.1\r\nHost: x\r\nX-Long: " + b"x" * 17_000, b"431", True),
                 (b"GET /v1/stats HTTP/1.1\r\nHost: x\r\nX-Long: " + b"x" * 100_000, b"431", False),
                 (b"GET /v1/stats?" + b"x" * 17_000 + b" HTTP/1.1\r\nHost: x", b"431", True),
                 (b"GET /v1/stats?" + b"x" * 100_000 + b" HTTP/1.1\r\nHost: x", b"414", False)]
        for number, (head, status, ours) in enumerate(heads, 1):
            connection = socket.create_connection(d.address(), timeout=20)
            connection.sendall(head + b"\r\n\r\n")
            data, _ = read_all(connection)
            assert data.startswith(b"HTTP/1.1 " + status) and b"onnection: close" in data, data[:200]
            assert (b"application/problem+json" in data) == ours, data[:200]
            until("it is counted", lambda: limited(d, "headers") == number)
        assert d.request("GET", "/v1/stats", headers={"X-Long": "x" * 15_000})[0] == 200
        status, _, body = d.request("GET", "/v1/stats", headers={"X-Long": "x" * 17_000})
        assert (status, body["code"]) == (431, "headers_too_large")


def test_connections_have_a_limit():
    with daemon(listen={"address": "127.0.0.1:0", "max_connections": 20}) as d:
        d.start()
        held = [socket.create_connection(d.address(), timeout=20) for _ in range(20)]
        # Whoever asks has a connection too.
        until("they are there", lambda: d.metric('daybook_http_connections{state="open"}') >= 21)
        answer = d.post(event("a"))
        body = problem(answer, 503, "too_many_connections")
        assert answer[1]["Retry-After"] == "1" and answer[1]["Connection"] == "close", body
        # Figures are served meanwhile.
        assert d.get("/healthz")[0] == 200 and d.get("/readyz")[0] == 200
        assert d.stats()["journal"]["stored_events"] == 0 and limited(d, "connections") == 1
        for connection in held:
            connection.close()
        until("there is room", lambda: d.metric('daybook_http_connections{state="open"}') <= 1)
        assert d.post(event("a"))[0] == 201


def test_a_body_has_a_limit_that_is_counted():
    with daemon(listen={"address": "127.0.0.1:0", "max_body_bytes": "64KiB"}) as d:
        d.start()
        problem(d.post(b" " * 70_000), 413, "too_large")
        assert limited(d, "body") == 1 and limited(d, "bodies") == 0
        assert d.metric('daybook_appends_total{journal="main",outcome="invalid"}') == 1


def test_openmeter_answers():
    """Its clients take any 2xx for a success and read nothing of it."""
    with daemon(journal={"path": "data", "min_free_disk": "1MiB", "max_events": 3}) as d:
        d.start()

        def post(body, kind=CLOUDEVENT):
            return d.request("POST", "/api/v1/events", json.dumps(body), {"Content-Type": kind})

        for _ in range(2):
            status, headers, body = post(cloudevent("a"))
            assert (status, body) == (204, b"") and headers["Content-Type"] is None
        assert post([cloudevent("a"), cloudevent("b")], BATCH)[0] == 204
        body = problem(post([cloudevent("b"), cloudevent("c", subject=None)], BATCH), 422, "some_refused")
        assert body["already_present"] == 1 and body["errors"][0]["index"] == 1
        problem(post(cloudevent("a", data=1)), 409, "conflict")
        lock = d.lock_ledger()
        d.drained()
        for i in range(3):
            post(cloudevent(f"full{i}"))
        answer = post([cloudevent("full0"), cloudevent("over")], BATCH)
        problem(answer, 503, "usage_not_durable")
        assert "some events" in answer[2]["detail"] and answer[1]["Retry-After"], answer
        lock.release()
        problem(d.get("/api/v1/events"), 405, "method_not_allowed")


sys.exit(dp.run_tests(globals(), sys.argv[3:]))
