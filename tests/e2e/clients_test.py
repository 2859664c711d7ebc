#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Clients that nobody here wrote: curl, the SDKs of CloudEvents and OpenMeter, payloads of LiteLLM.

usage: clients_test.py DAYBOOK SLOW_DISK [TEST...]

The SDKs are installed from npm into build/clients, as tests/clients/package-lock.json pins them; where that
cannot be done (no node, no network) their tests are skipped and say so."""
import functools
import hashlib
import json
import os
import shutil
import subprocess
import sys

import daybook_process as dp
from daybook_process import Daemon, event, ndjson

BINARY = sys.argv[1]
ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
CLIENTS = os.path.join(ROOT, "tests", "clients")
daemon = functools.partial(Daemon, BINARY)


def shell(command, stdin=b"", **environment):
    run = subprocess.run(["bash", "-c", "set -euo pipefail\n" + command], input=stdin, stdout=subprocess.PIPE,
                         stderr=subprocess.PIPE, check=False, env={**os.environ, **environment}, timeout=120)
    assert run.returncode == 0, (command, run)
    return run.stdout.decode()


def installed():
    """The directory in which the SDKs are installed, once for each lock file."""
    for tool in ("node", "npm"):
        if shutil.which(tool) is None:
            raise dp.Skip(f"{tool} is not installed")
    with open(os.path.join(CLIENTS, "package-lock.json"), "rb") as lock:
        name = hashlib.sha256(lock.read()).hexdigest()[:16]
    directory = os.path.join(ROOT, "build", "clients", name)
    done = os.path.join(directory, "installed")
    if not os.path.exists(done):
        os.makedirs(directory, exist_ok=True)
        for file in ("package.json", "package-lock.json"):
            shutil.copy(os.path.join(CLIENTS, file), directory)
        try:
            run = subprocess.run(["npm", "ci", "--ignore-scripts", "--no-audit", "--no-fund"], cwd=directory,
                                 stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                                 check=False, timeout=180)
        except subprocess.TimeoutExpired:
            raise dp.Skip("npm did not answer within 180 s") from None
        if run.returncode != 0:
            raise dp.Skip(f"npm ci failed: {run.stdout.decode().strip().splitlines()[:1]}")
        open(done, "wb").close()
    for file in os.listdir(CLIENTS):
        if file.endswith(".mjs"):
            shutil.copy(os.path.join(CLIENTS, file), directory)
    return directory


def node(script, d):
    run = subprocess.run(["node", script, d.url], cwd=installed(), stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                         stderr=subprocess.PIPE, check=False, timeout=120)
    assert run.returncode == 0, run
    return [json.loads(line) for line in run.stdout.splitlines()]


def listed(d):
    return {e["request_id"]: e for e in map(json.loads, d.get("/v1/events?limit=4096")[2].splitlines())}


def test_curl():
    with daemon() as d:
        d.start()
        url = d.url + "/v1/events"
        lines = ndjson([event(f"e{i}", subject=f"k{i % 5}", cost_microdollars=i) for i in range(2000)])
        send = "curl -sS --fail-with-body \"$URL\" -H 'Content-Type: application/x-ndjson' "
        answer = json.loads(shell(send + "--data-binary @-", lines, URL=url))
        assert answer["accepted"] == 2000, answer
        packed = "gzip -c | " + send + "-H 'Content-Encoding: gzip' --data-binary @-"
        assert json.loads(shell(packed, lines, URL=url))["already_present"] == 2000
        # Sent while it is read, without a length in front.
        chunked = send + "-H 'Transfer-Encoding: chunked' -T - -X POST"
        assert json.loads(shell(chunked, lines, URL=url))["already_present"] == 2000
        answer = shell("curl -sS -w '\\n%{http_code}' \"$URL\" -H 'Content-Type: application/json' -d '{\"request_id\":'",
                       URL=url)
        assert answer.endswith("\n400") and "malformed_json" in answer, answer
        answer = shell("curl -sS -w '\\n%{http_code}' \"$URL\" -H 'Content-Type: application/json' -H 'ce-id: c' "
                       "-H 'ce-specversion: 1.0' -H 'ce-source: /s' -H 'ce-type: t' -H 'ce-subject: k%20%C3%BC' "
                       "-d '{\"n\":1}'", URL=url)
        assert answer.endswith("\n201"), answer
        assert listed(d)["c"]["subject"] == "k ü"
        d.drained()
        assert d.rows("select count(*), sum(cost_microdollars) from usage") == [(2001, sum(range(2000)))]


def test_the_sdk_of_openmeter():
    with daemon() as d:
        d.start()
        told = {line["what"]: line for line in node("openmeter.mjs", d)}
        assert [told[what]["done"] for what in ("one", "again", "many")] == [True] * 3, told
        # What is not durable is an error there, too.
        assert (told["conflict"]["done"], told["conflict"]["status"]) == (False, 422), told
        assert told["one bad of two"]["status"] == 422, told
        events = listed(d)
        assert sorted(events) == ["om-1", "om-2", "om-many-1", "om-many-2", "om-many-3"]
        assert (events["om-1"]["namespace"], events["om-1"]["subject"]) == ("gateway", "customer-1")
        assert events["om-1"]["observed_at"] == "2026-03-04T05:06:07.000000Z"
        dp.promise("OpenMeter's SDK: one, a repeat and a batch succeed; a conflict and a batch with a bad event do not",
                   f"{sum(line['done'] for line in told.values())} succeed, "
                   f"{sum(not line['done'] for line in told.values())} do not; {len(events)} stored")


def test_the_sdk_of_cloudevents():
    with daemon() as d:
        d.start()
        told = node("cloudevents.mjs", d)
        status = [(line["mode"], line["id"], line["body"].get("status")) for line in told if "id" in line]
        assert status == [("binary", "ce-binary", "accepted"), ("binary", "ce-binary", "already_present"),
                          ("binary", "ce-both", "accepted"), ("binary", "ce-binary-name", 422),
                          # Sent in both modes, it is one fact.
                          ("structured", "ce-structured", "accepted"), ("structured", "ce-structured", "already_present"),
                          ("structured", "ce-both", "already_present"), ("structured", "ce-structured-name", "accepted")], status
        assert [(line["mode"], line.get("status")) for line in told if "id" not in line] == [("text", 201), ("batch", 200)]
        events = listed(d)
        assert events["ce-binary"]["record"]["data"] == {"input_tokens": 12, "text": "ü"}
        assert events["ce-text"]["record"]["data"] == "plain ü"
        assert {e["namespace"] for e in events.values()} == {"team"}
        assert {e["observed_at"] for e in events.values()} == {"2026-03-04T05:06:07.123000Z"}
        dp.promise("CloudEvents' SDK: binary, structured and batch are taken; one event in two modes is one fact",
                   f"{len(events)} events of {len(told)} requests")


def test_payloads_of_litellm():
    mapping = os.path.join(ROOT, "examples", "litellm", "to-ndjson")
    payloads = os.path.join(ROOT, "examples", "litellm", "payloads.json")
    with daemon() as d:
        d.start()
        lines = shell(f"python3 {mapping} {payloads}").encode()
        # One a line is taken as well, and says the same.
        with open(payloads, encoding="utf-8") as file:
            each = "".join(json.dumps(payload) + "\n" for payload in json.load(file))
        assert shell(f"python3 {mapping}", each.encode()).encode() == lines
        assert d.post(lines, "application/x-ndjson")[2]["accepted"] == 3
        assert d.post(lines, "application/x-ndjson")[2]["already_present"] == 3
        d.drained()
        rows = d.rows("select request_id, namespace, subject, observed_at, model, target_provider, status, input_tokens, "
                      "output_tokens, cost_microdollars, latency_ms from usage order by request_id")
        assert rows == [
            ("chatcmpl-8f2b1c", "acme", "88dc28d0f0", "2026-03-04T05:06:07.500000Z", "chat-large", "openai", "success",
             374, 44, 1375, 1250),
            ("chatcmpl-8f2b1d", "t-2", "customer-8", "2026-03-04T05:06:10.125000Z", "chat-large", "anthropic", "success",
             1000, 200, 6000, 2125),
            ("chatcmpl-8f2b1e", "litellm", "unknown", "2026-03-04T05:06:11.500000Z", "gpt-4o-2024-08-06", "openai",
             "failure", 0, 0, 0, 500)], rows
        assert b"left out" not in lines and '"left"' not in d.rows("select record from usage")[0][0]


sys.exit(dp.run_tests(globals(), sys.argv[3:]))
