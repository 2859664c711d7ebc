#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What comes in over real HTTP: gzip, CloudEvents in their three modes, NDJSON as it is found in the wild.

usage: ingest_test.py DAYBOOK SLOW_DISK [TEST...]"""
import functools
import gzip
import json
import sys

import daybook_process as dp
from daybook_process import Daemon, event, ndjson

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
        assert grown < 16 * 1024, grown
        assert d.stats()["journal"]["stored_events"] == 2001
        dp.promise("a gzip body of 900 MiB is refused at 1 MiB: less than 16 MiB of memory more; truncated at any byte: "
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
