#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The command, as a person and a script use it: every verb, its output, its exit status.

usage: command_test.py DAYBOOK SLOW_DISK [TEST...]"""
import functools
import http.server
import json
import os
import pty
import re
import shutil
import socket
import sqlite3
import subprocess
import sys
import tempfile
import threading
import time

import daybook_process as dp
from daybook_process import Daemon, event, ndjson, until

BINARY, SLOW_DISK = os.path.abspath(sys.argv[1]), sys.argv[2]
ROOT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..")
NDJSON = "application/x-ndjson"
CONSUMER, JOURNAL, LEDGER = dp.ONE_TRY, dp.ONE_TRY_JOURNAL, dp.LEDGER
daemon = functools.partial(Daemon, BINARY, journal=JOURNAL, consumers=[CONSUMER])


def run(d, *arguments, status=0, stdin=b""):
    """Runs a command; what it printed, when it ended as it should."""
    done = d.run(*arguments, stdin=stdin)
    assert done.returncode == status, (arguments, done)
    out, err = done.stdout.decode(), done.stderr.decode()
    if status in (1, 2):
        assert err.startswith("daybook: ") or err.count("\n") > 0, err
    return out + err


def alone(*arguments, status=0, cwd="/", stdin=b""):
    done = subprocess.run([BINARY, *arguments], cwd=cwd, input=stdin, stdout=subprocess.PIPE,
                          stderr=subprocess.PIPE, check=False)
    assert done.returncode == status, (arguments, done)
    return done.stdout.decode() + done.stderr.decode()


def objects(text):
    return [json.loads(line) for line in text.splitlines()]


def quarantined(d, count):
    d.start()
    d.post(event("first"))
    d.drained()
    d.reject("bad")
    d.post(ndjson([event(f"bad-{i}", subject=f"s{i}", model="bad", text="\x1b[31m") for i in range(count)]), NDJSON)
    until("they are quarantined", lambda: d.consumer()["quarantined"] == count)


def test_quarantine():
    with daemon() as d:
        quarantined(d, 6)
        out = run(d, "quarantine", "list")
        assert out.splitlines()[0].split()[:3] == ["consumer", "reason", "attempts"]
        assert [line.split()[4] for line in out.splitlines()[1:]] == [f"bad-{i}" for i in range(6)], out
        lines = objects(run(d, "quarantine", "list", "--json"))
        assert [e["request_id"] for e in lines] == [f"bad-{i}" for i in range(6)]
        assert lines[0]["consumer"] == "billing" and lines[0]["record"]["model"] == "bad"
        reason = lines[0]["reason"]
        assert len(run(d, "quarantine", "list", "--consumer", "billing", "--reason", reason).splitlines()) == 7
        assert len(run(d, "quarantine", "list", "--reason", "malformed").splitlines()) == 1
        out = run(d, "quarantine", "show", "bad-1")
        for word in ("request_id", "bad-1", "reason", reason, "words", "attempts", "quarantined_at", "record"):
            assert word in out, out
        assert "\x1b" not in out, "a record steers the terminal"
        assert json.loads(run(d, "quarantine", "show", "bad-1", "--json"))["consumer"] == "billing"
        assert "not_found" in run(d, "quarantine", "show", "first", status=1)
        run(d, "quarantine", "show", "bad-1", "first", status=3)
        d.mend("bad")
        assert run(d, "quarantine", "release", "bad-0", "bad-1") == "released 2, not released 0\n"
        out = run(d, "quarantine", "release", "bad-2", "other", status=3)
        assert "released 1, not released 1" in out and "other: not_found" in out, out
        assert "released 0" in run(d, "quarantine", "release", "other", status=1)
        out = run(d, "quarantine", "discard", "bad-3", "--why", "a test")
        assert out == "discarded 1, not discarded 0\n"
        assert json.loads(run(d, "quarantine", "release", "--reason", reason, "--why", "x", "--json")) == {
            "consumer": "billing", "released": 2, "failed": 0}
        assert run(d, "quarantine", "release", "--all") == "released 0, not released 0\n"
        d.drained()
        assert sorted(r[0] for r in d.rows()) == ["bad-0", "bad-1", "bad-2", "bad-4", "bad-5", "first"]
        out = run(d, "operations", "-n", "2")
        assert len(out.splitlines()) == 2 and "release" in out and "127.0.0.1" in out and ": x" in out, out
        ops = objects(run(d, "operations", "--json"))
        assert [o["kind"] for o in ops] == ["release", "release", "discard", "release", "release", "release"]
        assert re.match(r"\S+ \(127\.0\.0\.1\)$", ops[0]["who"]) and ops[2]["why"] == "a test", ops[0]
        dp.promise("list, show, release and discard by id, by reason and all; exit 3 for a part, 1 for none",
                   f"{len(ops)} operations in the trail, all with who")


def test_quarantine_usage():
    with daemon() as d:
        d.start()
        for arguments in (["quarantine"], ["quarantine", "look"], ["quarantine", "show"], ["quarantine", "release"],
                          ["quarantine", "release", "a", "--all"], ["quarantine", "discard", "a"],
                          ["quarantine", "discard", "--all", "--why", ""], ["quarantine", "list", "a"],
                          ["quarantine", "list", "--reason", "worse"], ["consumers"], ["consumers", "retire"],
                          ["consumers", "list", "billing"], ["consumers", "start"],
                          ["consumers", "rewind", "billing", "--from", "now"], ["consumers", "rewind", "billing", "--force"],
                          ["operations", "-n", "0"], ["stats", "--what"], ["stats", "--json=yes"],
                          ["check", "--config"], ["mint", "-n", "x"], ["completion"], ["completion", "fish"],
                          ["help", "nothing"], ["nothing"], ["mint", "one"], []):
            out = alone(*arguments, status=2)
            assert arguments == [] or len(out.splitlines()) == 1, out


def test_more_consumers_than_one():
    with daemon(consumers=[CONSUMER, {**CONSUMER, "name": "second", "sinks": [
            {**LEDGER, "name": "l2", "path": "second.db"}]}]) as d:
        d.start()
        out = run(d, "quarantine", "release", "--all", status=2)
        assert "--consumer" in out and "2 consumers" in out
        assert run(d, "quarantine", "release", "--all", "--consumer", "second") == "released 0, not released 0\n"
        assert "not_found" in run(d, "quarantine", "release", "--all", "--consumer", "third", status=1)
        assert len(run(d, "quarantine", "list").splitlines()) == 1


def test_consumers():
    with daemon(consumers=[CONSUMER, {**CONSUMER, "name": "old", "sinks": [
            {**LEDGER, "name": "l2", "path": "second.db"}]}]) as d:
        d.start()
        d.post([event(f"e{i}") for i in range(5)])
        until("all is delivered", lambda: all(c["drained"] for c in d.stats()["consumers"]))
        out = run(d, "consumers", "list").splitlines()
        assert out[0].split()[:2] == ["consumer", "runs"] and [l.split()[:2] for l in out[1:]] == [
            ["billing", "yes"], ["old", "yes"]], out
        assert "configuration" in run(d, "consumers", "retire", "old", status=1)
        with sqlite3.connect(d.path("usage.db")) as database:
            database.execute("delete from usage")
        assert run(d, "consumers", "rewind", "billing", "--why", "restored") == "rewound billing\n"
        until("they are back", lambda: len(d.rows()) == 5)
        assert d.stop()[0] == 0
        d.config["consumers"] = [CONSUMER]
        d.start()
        d.post(event("later"))
        until("billing has it", lambda: d.consumer()["drained"])
        out = run(d, "stats")
        assert "warning: this daemon does not run old, and 1 events (" in out, out
        row = next(l for l in run(d, "consumers", "list").splitlines() if l.startswith("old"))
        assert row.split()[1] == "NO" and row.split()[5] == "1", row
        assert json.loads(run(d, "consumers", "list", "--json"))["consumers"][1]["held_events"] == 1
        assert run(d, "consumers", "retire", "old", "--why", "gone") == "retired old\n"
        assert "warning" not in run(d, "stats")
        assert "not_found" in run(d, "consumers", "retire", "old", status=1)
        assert json.loads(run(d, "consumers", "rewind", "billing", "--json"))["status"] == "rewound"
        assert run(d, "consumers", "start", "new", "--from", "2", "--why", "soon") == "started new at 2\n"
        assert run(d, "consumers", "start", "wait", "--from", "2099-01-01T00:00:00Z").startswith(
            "started wait at 2099-01-01T00:00:00")
        rows = {l.split()[0]: l.split()[-1] for l in run(d, "consumers", "list").splitlines()[1:]}
        assert rows["billing"] == "1" and rows["new"] == "2" and rows["wait"].startswith("2099-01-01T"), rows
        assert "conflict" in run(d, "consumers", "start", "new", status=1)
        assert "no start" in run(d, "consumers", "start", "more", "--from", "then", status=1)


def test_stats_watch():
    with daemon() as d:
        d.start()
        watch = subprocess.Popen([BINARY, "stats", "--watch", "--json", "--url", d.url], stdout=subprocess.PIPE)
        first, second = (json.loads(watch.stdout.readline()) for _ in range(2))
        assert first["journal"]["state"] == second["journal"]["state"] == "open"
        assert d.stop()[0] == 0
        watch.stdout.read()
        assert watch.wait(timeout=20) == 1  # it fails when the daemon is gone


def on_terminal(*arguments, cwd="/", stdin=b""):
    """(what was seen on the terminal that is standard error, standard output, exit status)"""
    main, side = pty.openpty()
    with tempfile.TemporaryFile() as given:
        given.write(stdin)
        given.seek(0)
        process = subprocess.Popen([BINARY, *arguments], cwd=cwd, stdin=given, stderr=side, stdout=subprocess.PIPE)
    os.close(side)
    seen = b""
    while True:
        try:
            part = os.read(main, 65536)
        except OSError:  # the other side is closed
            break
        if not part:
            break
        seen += part
    os.close(main)
    return seen, process.stdout.read(), process.wait()


def test_append_progress_and_refused_lines():
    with daemon() as d:
        d.start()
        lines = [json.dumps(event(f"e{i}", text="x" * 400)) for i in range(8000)]
        lines[4000] = '{"request_id":"broken"'
        lines[6000] = json.dumps({"request_id": "half"})
        with open(d.path("events"), "w", encoding="utf-8") as file:
            file.write("\n".join(lines) + "\n")
        seen, out, status = on_terminal("append", "events", "--url", d.url, cwd=d.directory)
        assert (out, status) == (b"accepted 7998, already present 0, refused 2\n", 3)
        assert re.search(rb"\[#* *\] +\d+%  \d+ events", seen), seen[:400]
        assert b"line 4001: malformed_json" in seen and b"line 6001: invalid_event" in seen, seen[-400:]
        # Not a terminal: no bar, no colour.
        out = run(d, "append", "events", status=3)
        assert "%" not in out and "\x1b" not in out and "already present 7998" in out, out


class Listener:
    """A server that answers each request as told, and remembers what it was asked: for what no daemon does at will."""

    def __init__(self, answers):
        self.answers, self.asked = list(answers), []  # (status, headers, body)
        listener = self

        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def answer(self):
                self.rfile.read(int(self.headers.get("Content-Length") or 0))
                listener.asked.append((time.monotonic(), self.headers.get("Authorization")))
                status, headers, body = listener.answers.pop(0) if len(listener.answers) > 1 else listener.answers[0]
                self.send_response(status)
                for name, value in {**headers, "Content-Length": str(len(body))}.items():
                    self.send_header(name, value)
                self.end_headers()
                self.wfile.write(body)

            do_GET = do_POST = do_DELETE = answer

            def log_message(self, *_):
                pass

        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.server.handle_error = lambda *_: None  # a client that was killed
        self.url = f"http://127.0.0.1:{self.server.server_port}"

    def __enter__(self):
        threading.Thread(target=self.server.serve_forever, daemon=True).start()
        return self

    def __exit__(self, *_):
        self.server.shutdown()
        self.server.server_close()


def problem(status, code, **headers):
    body = json.dumps({"status": status, "code": code, "title": "x", "detail": "not now"}).encode()
    return (status, {"Content-Type": "application/problem+json", **headers}, body)


STORED = (200, {"Content-Type": "application/json"},
          b'{"accepted":1,"already_present":0,"failed":0,"errors":[]}')
LINE = ndjson([event("a")])


def test_append_waits_for_a_daemon_that_takes_nothing_now():
    held = []
    with daemon(listen={"address": "127.0.0.1:0", "max_connections": 10}) as d:
        d.start()
        held += [socket.create_connection(d.address(), timeout=20) for _ in range(10)]
        until("they are there", lambda: d.metric('daybook_http_connections{state="open"}') >= 11)
        assert "too_many_connections" in run(d, "append", "--wait", "0", status=1, stdin=LINE)
        process = subprocess.Popen([BINARY, "append", "--url", d.url], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                   stderr=subprocess.PIPE)
        process.stdin.write(LINE)
        process.stdin.close()
        until("it was sent away", lambda: d.metric('daybook_http_limited_total{limit="connections"}') >= 2)
        for connection in held:
            connection.close()
        assert (process.stdout.read(), process.stderr.read(), process.wait()) == (
            b"accepted 1, already present 0, refused 0\n", b"", 0)
    for status, code in ((503, "too_many_connections"), (503, "usage_not_durable"), (429, "slow_down"), (502, "x")):
        with Listener([problem(status, code, **{"Retry-After": "1"}), STORED]) as l:
            assert alone("append", "--url", l.url, stdin=LINE) == "accepted 1, already present 0, refused 0\n"
            assert l.asked[1][0] - l.asked[0][0] >= 1, "Retry-After is not honoured"
    with Listener([problem(503, "usage_not_durable", **{"Retry-After": "1"}), STORED]) as l:
        seen, out, status = on_terminal("append", "--url", l.url, stdin=LINE)
        assert b"waiting 1 s: usage_not_durable: not now" in seen and status == 0 and out.startswith(b"accepted 1"), seen
    # The wait has a bound, and a wait beyond it is not begun.
    with Listener([problem(503, "usage_not_durable", **{"Retry-After": "100"})]) as l:
        out = alone("append", "--url", l.url, stdin=LINE, status=1)
        assert "line 1" in out and "not now (it asks to wait 100 s)" in out and len(l.asked) == 1, out
    with Listener([problem(503, "usage_not_durable")]) as l:
        assert "line 1" in alone("append", "--wait", "1", "--url", l.url, stdin=LINE, status=1)
        assert len(l.asked) > 1
    with Listener([problem(404, "not_found")]) as l:  # does not speak of the moment
        alone("append", "--url", l.url, stdin=LINE, status=1)
        assert len(l.asked) == 1


def test_append_json():
    with daemon() as d:
        d.start()
        lines = LINE + b"{\n" + ndjson([{"request_id": "b"}]) + ndjson([event("c")])
        for more in ([], ["--data", "store"]):
            done = d.run("append", "--json", *more, stdin=lines)
            told = objects(done.stdout.decode())
            assert done.returncode == 3 and done.stderr == b"", done
            assert [(t["kind"], t["line"], t["code"]) for t in told[:-1]] == [
                ("refused", 2, "malformed_json"), ("refused", 3, "invalid_event")], told
            assert told[1]["request_id"] == "b" and told[1]["message"] and told[0]["request_id"] is None
            assert told[-1] == {"kind": "counts", "accepted": 2, "already_present": 0, "refused": 2}


def test_the_token_is_shown_and_never_told():
    secret = "s3cr3t-of-the-test"
    stats = (200, {"Content-Type": "application/json"}, b'{"journal":{},"consumers":[]}')
    with tempfile.TemporaryDirectory() as directory:
        def file(name, content):
            with open(os.path.join(directory, name), "wb") as f:
                f.write(content)
            return os.path.join(directory, name)

        good = file("token", secret.encode() + b"\n")
        with Listener([stats]) as l:
            alone("stats", "--json", "--url", l.url)
            alone("stats", "--json", "--url", l.url, "--token-file", good)
            alone("stats", "--json", "--url", l.url, "--token-file", file("crlf", secret.encode() + b"\r\n"))
            os.environ["DAYBOOK_TOKEN_FILE"] = good
            try:
                alone("stats", "--json", "--url", l.url)
                alone("consumers", "rewind", "billing", "--url", l.url)
                l.answers = [STORED]
                alone("append", "--url", l.url, stdin=LINE)
            finally:
                del os.environ["DAYBOOK_TOKEN_FILE"]
            assert [header for _, header in l.asked] == [None] + [f"Bearer {secret}"] * 5, l.asked
            # What is refused says nothing of it.
            l.answers = [(401, {}, b"")]
            out = alone("stats", "--url", l.url, "--token-file", good, status=1)
            assert "--token-file" in out and secret not in out, out
        with Listener([problem(503, "usage_not_durable")]) as l:
            waits = subprocess.Popen([BINARY, "append", "--url", l.url, "--token-file", good], stdin=subprocess.PIPE,
                                     stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
            waits.stdin.write(LINE)
            waits.stdin.close()
            until("it has asked", lambda: l.asked)
            for name in ("cmdline", "environ", "comm"):
                with open(f"/proc/{waits.pid}/{name}", "rb") as f:
                    assert secret.encode() not in f.read(), name
            waits.kill()
            assert secret.encode() not in waits.stdout.read() and waits.wait()
        for path, words in ((os.path.join(directory, "nowhere"), "No such file"), (directory, "Is a directory"),
                            (file("empty", b"\n"), "is empty"), (file("two", b"zwei\ndrei\n"), "several lines"),
                            (file("blank", b"zwei drei\n"), "a blank"), (file("long", b"zwei" * 2000), "longer")):
            out = alone("stats", "--token-file", path, status=2)
            assert len(out.splitlines()) == 1 and path in out and words in out, out
            assert "zwei" not in out and "drei" not in out, out
        dp.promise("the token of the file in every request, never in what is printed or in the process's title",
                   f"{len(l.asked)} and 5 requests with it, six files that hold none told with the mend")


def test_append_and_export_without_a_daemon():
    with daemon() as d:
        events = ndjson([event(f"e{i}") for i in range(50)] + [{"request_id": "no"}])
        out = alone("append", "--data", d.path("store"), cwd=d.directory, stdin=events, status=3)
        assert "accepted 50, already present 0, refused 1" in out and "line 51: invalid_event" in out, out
        out = alone("append", "-", "--data", d.path("store"), cwd=d.directory, stdin=events, status=3)
        assert "accepted 0, already present 50" in out
        assert len(objects(alone("export", "--data", d.path("store")))) == 50
        # A daemon over it delivers them; then the directory is not ours.
        d.config["journal"] = {**JOURNAL, "path": d.path("store")}
        d.start()
        d.drained()
        assert len(d.rows()) == 50
        out = alone("append", "--data", d.path("store"), stdin=events, cwd=d.directory, status=1)
        assert "busy" in out or "held" in out or "lock" in out, out


def test_check():
    with daemon() as d:
        d.launch()
        d.is_up = lambda: "curl" in d.out()
        until("it is up", d.is_up)
        assert d.stop()[0] == 0
        out = alone("check", "-c", "daybook.yaml", cwd=d.directory)
        assert [l.split()[0] for l in out.splitlines()] == ["ok", "ok", "ok"] and "ledger of consumer billing" in out
        lock = d.lock_ledger()
        out = alone("check", "-c", "daybook.yaml", cwd=d.directory, status=1)
        assert "FAILED  destination ledger of consumer billing" in out and "SQLITE_BUSY" in out, out
        what = objects(alone("check", "-c", "daybook.yaml", "--json", cwd=d.directory, status=1))
        assert [w["what"] for w in what] == ["configuration", "data directory", "destination"], what
        assert what[2]["code"] != "ok" and what[2]["message"]
        lock.release()
        with open(d.path("bad.yaml"), "w", encoding="utf-8") as file:
            file.write("journal:\n  paht: x\n")
        out = alone("check", "-c", "bad.yaml", cwd=d.directory, status=2)
        assert "bad.yaml:2:" in out and "paht" in out, out
        with open(d.path("nowhere.yaml"), "w", encoding="utf-8") as file:
            file.write("journal: { path: no/such/place/data }\n")
        assert "cannot be made" in alone("check", "-c", "nowhere.yaml", cwd=d.directory, status=2)
        # The defaults, in an empty directory: nothing is made.
        os.mkdir(d.path("empty"))
        out = alone("check", cwd=d.path("empty"))
        assert "made with the data directory" in out and os.listdir(d.path("empty")) == [], out


def test_mint():
    ids = alone("mint", "-n", "1000").split()
    assert len(set(ids)) == 1000
    assert all(re.fullmatch(r"req_[0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}", i) for i in ids)
    assert [i[:16] for i in ids] == sorted(i[:16] for i in ids)  # by their milliseconds
    assert len(alone("mint").split()) == 1 and alone("mint", "-n", "0") == ""
    with daemon(journal={**JOURNAL, "identity": "uuidv7"}) as d:
        d.start()
        assert d.post(event(ids[0]))[0] == 201


def test_bench():
    with tempfile.TemporaryDirectory() as directory:
        out = alone("bench", "nothing", status=2, cwd=directory) if os.path.exists(
            os.path.join(os.path.dirname(BINARY), "bench", "bench-daybook")) else None
        if out is None:  # a build without it says how to get it
            assert "-Dbench=true" in alone("bench", "caller", status=1, cwd=directory)
            raise dp.Skip("this build has no load generator (-Dbench=true)")
        assert "no such suite" in out, out
        lines = objects(alone("bench", "--json", "--quick", "caller", "http", cwd=directory))
        assert {line["suite"] for line in lines} == {"caller", "http"} and len(lines) > 4, lines
        for line in lines:
            assert set(line) == {"suite", "name", "value", "unit", "bound", "ratio"}, line
        assert any(line["bound"] and line["ratio"] for line in lines) and os.listdir(directory) == []


def commands():
    out = alone("help")
    return re.findall(r"^  ([a-z]+) ", out, re.M)


def flags_of(command):
    return re.findall(r"^  (?:-\w, )?(-{1,2}[a-z-]+)", alone("help", command).split("\nexamples\n")[0], re.M)


def test_help_and_the_man_page():
    with open(os.path.join(ROOT, "packaging", "daybook.1"), encoding="utf-8") as file:
        man = file.read().replace("\\-", "-")
    assert len(commands()) >= 12
    for command in commands():
        out = alone("help", command)
        assert out.startswith(f"usage: daybook {command}"), out
        assert f"daybook {command}" in out.split("\nexamples\n")[1], out
        assert alone(command, "--help") == out == alone(command, "-h")
        assert f"\n.B daybook {command}\n" in man and f".TP\n.B {command}\n" in man, f"{command} is not in the man page"
        for flag in flags_of(command):
            assert flag in man, f"{command} {flag} is not in the man page"
    assert alone("--version").startswith("daybook ")
    for status in ("0", "1", "2", "3"):
        assert f".TP\n.B {status}\n" in man
    if shutil.which("man"):
        done = subprocess.run(["man", "--warnings", "-l", os.path.join(ROOT, "packaging", "daybook.1")],
                              stdout=subprocess.PIPE, stderr=subprocess.PIPE, check=False)
        assert done.returncode == 0 and done.stderr == b"", done.stderr


def complete(script, *words):
    shell = ('source /dev/stdin <<<"$SCRIPT"; COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); _daybook; '
             'printf "%s\\n" "${COMPREPLY[@]}"')
    return subprocess.run(["bash", "-c", shell, "bash", *words], env={**os.environ, "SCRIPT": script}, check=True,
                          stdout=subprocess.PIPE).stdout.decode().split()


def test_completion():
    script = alone("completion", "bash")
    bash = functools.partial(complete, script)
    assert set(commands()) <= set(bash("daybook", ""))
    assert bash("daybook", "qu") == ["quarantine"]
    assert bash("daybook", "quarantine", "") == ["list", "show", "release", "discard"]
    assert bash("daybook", "quarantine", "list", "--reason", "re") == ["rejected"]
    assert bash("daybook", "export", "--where", "") == ["all", "pending", "quarantined"]
    assert bash("daybook", "help", "mi") == ["migrate", "mint"]
    for command in commands():
        assert set(flags_of(command)) <= set(bash("daybook", command, "-") or flags_of(command)), command
    assert "/etc/passwd" in bash("daybook", "append", "/etc/pass")
    if shutil.which("zsh") is None:
        print("# zsh is not installed: its completion is not looked at", flush=True)
        return
    script = alone("completion", "zsh")
    shell = ('compdef() { :; }; compadd() { [[ $1 == -- ]] && shift; print -l -- "$@"; }; eval "$SCRIPT"; '
             'words=("$@"); CURRENT=$#; _daybook')
    def zsh(*words):
        return subprocess.run(["zsh", "-fc", shell, "zsh", *words], env={**os.environ, "SCRIPT": script}, check=True,
                              stdout=subprocess.PIPE).stdout.decode().split()
    assert set(commands()) <= set(zsh("daybook", ""))
    assert zsh("daybook", "quarantine", "list", "--reason", "") == ["malformed", "rejected", "attempts_exhausted"]
    assert zsh("daybook", "consumers", "") == ["list", "start", "retire", "rewind", "lift"]
    assert "--json" in zsh("daybook", "stats", "-")


sys.exit(dp.run_tests(globals(), sys.argv[3:]))
