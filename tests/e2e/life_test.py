#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The daemon's life with real processes: starts, kills, stops, a locked ledger, a failing disk, many
connections; and the commands beside it.

usage: life_test.py DAYBOOK SLOW_DISK [TEST...]"""
import functools
import http.client
import json
import os
import re
import resource
import selectors
import signal
import sys
import threading
import time

import daybook_process as dp
from daybook_process import Daemon, event, ndjson, until

BINARY, SLOW_DISK = sys.argv[1], sys.argv[2]
daemon = functools.partial(Daemon, BINARY)
NDJSON = "application/x-ndjson"
# What a killed or failed process had in hand comes back when its lease ends (C5).
SHORT_LEASE = [{"name": "billing", "lease": "3s", "write_timeout": "1s",
                "sinks": [{"kind": "sqlite", "name": "ledger", "path": "usage.db"}]}]
IN_FLIGHT = 'daybook_appends_in_flight{journal="main"}'


def drain_line(log):
    """The last lines of the log: one for the consumer, then the end."""
    lines = log.strip().splitlines()
    assert lines[-1].endswith(" shutdown complete"), log
    match = re.search(r" drain consumer=billing drained=(\w+) delivered=(\w+) failed=(\w+) "
                      r"undelivered=(\w+) quarantined=(\w+)$", lines[-2])
    assert match, log
    return match.groups()


def test_starts_and_stops():
    with daemon() as d:
        d.start()
        d.post([event(f"e{i}") for i in range(10)])
        d.drained()
        status, seconds = d.stop()
        assert status == 0 and seconds < 2, seconds
        assert drain_line(d.log()) == ("yes", "10", "0", "0", "0")


def listens(d):
    try:
        return d.get("/healthz")[0] == 200
    except OSError:
        return False


def test_starting():
    """While the journal is being opened the daemon answers, and says so."""
    with daemon(slow_disk=SLOW_DISK, listen={"address": f"127.0.0.1:{dp.free_port()}"}) as d:
        d.url = "http://" + d.config["listen"]["address"]
        d.disk("slow 60000")
        d.launch()
        until("it listens", lambda: listens(d))
        assert d.get("/readyz")[0::2] == (503, {**d.get("/readyz")[2], "code": "starting"})
        status, _, body = d.post(event("a"))
        assert (status, body["reason"]) == (503, "backend")
        assert d.get("/v1/stats")[2]["journal"]["state"] == "starting"
        assert d.get("/v1/events")[0] == 503 and d.get("/metrics")[0] == 200
        d.disk("")
        until("it is ready", lambda: d.get("/readyz")[0] == 200)
        assert d.post(event("a"))[0] == 201
        assert d.stop()[0] == 0


def test_a_destination_that_is_not_there():
    """What is sent is kept, and the person who started it is told."""
    sinks = [{"kind": "sqlite", "name": "ledger", "path": "not-yet/usage.db"}]
    with daemon(consumers=[{**SHORT_LEASE[0], "sinks": sinks}]) as d:
        d.start()
        assert "DOES NOT ANSWER" in d.out() and "not-yet" in d.log()
        assert d.post(event("a"))[0] == 201
        assert d.consumer()["destinations"][0]["up"] is False
        os.mkdir(d.path("not-yet"))
        d.drained()
        assert d.rows(name="not-yet/usage.db") == [("a",)]
        assert d.consumer()["destinations"][0]["up"] is True


def test_kill_9_and_restart():
    with daemon(consumers=SHORT_LEASE) as d:
        ids = []
        for round_no in range(5):
            d.start()
            for i in range(20):
                ids.append(f"r{round_no}-{i}")
                assert d.post(event(ids[-1], subject=f"k{i % 3}"))[0] == 201
            d.stop(signal.SIGKILL)
        d.start()
        d.drained()
        assert sorted(row[0] for row in d.rows()) == sorted(ids)
        for key in range(3):
            got = [r[0] for r in d.rows(f"select request_id from usage where subject='k{key}' order by rowid")]
            assert got == [i for i in ids if int(i.split("-")[1]) % 3 == key]
        assert d.post(event(ids[0], subject="k0"))[0] == 200
        assert d.stop()[0] == 0


def test_an_append_in_flight_holds_no_thread():
    count = 1000
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(hard, max(soft, count + 200)), hard))
    with daemon(slow_disk=SLOW_DISK) as d:
        d.start()
        d.disk("slow 60000")
        connections = [dp.open_post(d.address(), json.dumps(event(f"e{i}", subject=f"k{i}")).encode())
                       for i in range(count)]
        until("all are in flight", lambda: d.metric(IN_FLIGHT) == count)
        threads = d.threads()
        # Whoever asks is answered meanwhile.
        assert d.get("/readyz")[0] == 200 and d.get("/v1/stats")[0] == 200
        d.disk("")
        selector = selectors.DefaultSelector()
        for connection in connections:
            selector.register(connection, selectors.EVENT_READ)
        left = count
        while left > 0:
            for key, _ in selector.select(timeout=30) or [(None, None)]:
                assert key is not None, f"{left} answers are missing"
                selector.unregister(key.fileobj)
                assert dp.read_status(key.fileobj) == 201
                left -= 1
        assert threads <= 8, f"{threads} threads"
        dp.promise("at most 8 threads with 1000 appends in flight",
                   f"{threads} threads with {count} (their fdatasync held back)")
        d.drained()
        assert d.stop()[0] == 0


def test_draining():
    with daemon(slow_disk=SLOW_DISK) as d:
        d.start()
        d.disk("slow 60000")
        begun = dp.open_post(d.address(), json.dumps(event("begun")).encode())
        until("it is in flight", lambda: d.metric(IN_FLIGHT) == 1)
        d.kill()
        until("readiness fails", lambda: d.get("/readyz")[2].get("code") == "draining")
        assert d.get("/readyz")[0] == 503 and d.get("/healthz")[0] == 200
        status, headers, body = until("admission is closed", lambda: refused(d))
        assert (status, body["code"], body["reason"]) == (503, "usage_not_durable", "draining")
        assert int(headers["Retry-After"]) > 0
        d.disk("")
        assert dp.read_status(begun) == 201
        assert d.wait() == 0
        drained, delivered = drain_line(d.log())[:2]
        assert (drained, delivered) == ("yes", "1")


def refused(d):
    answer = d.post(event("late"))
    return answer if answer[2].get("reason") == "draining" else None


def test_drain_grace():
    with daemon(shutdown={"drain_grace": "30s"}) as d:
        d.start()
        d.kill()
        until("readiness fails", lambda: d.get("/readyz")[0] == 503)
        assert d.post(event("a"))[0] == 201
        # A second signal closes admission at once.
        status, seconds = d.stop()
        assert status == 0 and seconds < 5, seconds
        assert drain_line(d.log())[1] == "1"


def test_deadline_of_requests():
    """J1: what does not end within shutdown.deadline is answered, and the stop goes on."""
    with daemon(slow_disk=SLOW_DISK, shutdown={"deadline": "300ms", "flush_timeout": "300ms"}) as d:
        d.start()
        d.disk("slow 60000")
        begun = dp.open_post(d.address(), json.dumps(event("begun")).encode())
        until("it is in flight", lambda: d.metric(IN_FLIGHT) == 1)
        d.kill()
        assert dp.read_status(begun) == 503
        d.disk("")
        assert d.wait() == 0
        d.start()
        assert d.post(event("begun"))[0] == 200
        d.drained()
        assert d.rows() == [("begun",)]


def test_locked_ledger():
    with daemon(consumers=SHORT_LEASE) as d:
        d.start()
        assert d.post(event("first"))[0] == 201
        d.drained()
        lock = d.lock_ledger()
        for i in range(50):
            assert d.post(event(f"e{i}", subject=f"k{i % 5}"))[0] == 201
        until("the destination is seen to be down",
              lambda: d.metric('daybook_destination_up{sink="ledger"}') == 0, 40)
        consumer = d.consumer()
        assert consumer["pending"] + consumer["in_flight"] == 50, consumer
        assert consumer["quarantined"] == 0 and consumer["oldest_unresolved_age_seconds"] > 0
        assert consumer["destinations"][0]["up"] is False and consumer["destinations"][0]["reason"]
        labels = '{journal="main",consumer="billing"}'
        measured = [d.metric("daybook_" + name + labels)
                    for name in ("pending", "in_flight", "quarantined_events", "oldest_unresolved_age_seconds")]
        assert measured[0] + measured[1] == 50 and measured[2] == 0 and measured[3] > 0, measured
        lock.release()
        until("it drains by itself", lambda: d.consumer()["drained"], 60)
        assert len(d.rows()) == 51
        assert d.metric('daybook_quarantined_events{journal="main",consumer="billing"}') == 0
        dp.promise("a backlog of 50 in stats and metrics, 0 quarantined, 51 rows after the lock",
                   f"{consumer['pending'] + consumer['in_flight']} in stats, {measured[0] + measured[1]:.0f} in "
                   f"metrics, {consumer['quarantined']} quarantined, {len(d.rows())} rows")


def test_W12_a_rejected_row_is_named_in_the_log_and_its_neighbours_land():
    with daemon(consumers=SHORT_LEASE) as d:
        d.start()
        assert d.post(event("good-1", subject="a"))[0] == 201
        assert d.post(event("bad", subject="b", input_tokens="many"))[0] == 201
        assert d.post(event("good-2", subject="c"))[0] == 201
        until("the good ones are in the table", lambda: len(d.rows()) == 2)
        until("the log says why", lambda: "destination rejected a row" in d.log())
        line = next(l for l in d.log().splitlines() if "destination rejected a row" in l)
        assert "input_tokens" in line, line
        assert d.consumer()["quarantined"] == 0


def send_until_refused(d, name, accepted):
    """A producer that a stop surprises."""
    count = 0
    try:
        while d.post(event(f"{name}-{count}", subject=name))[0] == 201:
            accepted.append(f"{name}-{count}")
            count += 1
    except (OSError, http.client.HTTPException):
        pass  # the daemon has gone


def stop_while_locked(flush_s):
    """Stops a daemon whose write waits for the lock, while producers send. Returns how long after the end
    of flush_timeout the process ended, how many events were accepted, and what the log says of them."""
    accepted = []
    with daemon(shutdown={"deadline": "1s", "flush_timeout": f"{flush_s}s"}) as d:
        d.start()
        assert d.post([event(f"first-{i}", subject=f"k{i}") for i in range(100)])[2]["accepted"] == 100
        d.drained()
        lock = d.lock_ledger()
        assert d.post([event(f"left-{i}", subject=f"k{i % 5}") for i in range(50)])[2]["accepted"] == 50
        until("a write waits for the lock", lambda: d.consumer()["in_flight"] > 0)
        producers = [threading.Thread(target=send_until_refused, args=(d, f"p{i}", accepted))
                     for i in range(4)]
        for producer in producers:
            producer.start()
        until("they send", lambda: len(accepted) > 20)
        status, seconds = d.stop()
        for producer in producers:
            producer.join()
        assert status == 0, d.log()
        drained, delivered, failed, undelivered, quarantined = drain_line(d.log())
        # Also those whose answer nobody heard.
        stored = d.run("export", "--data", "data").stdout.count(b"\n")
        assert stored >= 150 + len(accepted), (stored, len(accepted))
        assert (drained, delivered, quarantined) == ("no", "100", "0"), d.log()
        assert int(delivered) + int(undelivered) + int(quarantined) == stored, (stored, d.log())
        # The write was not given up before its time.
        assert seconds >= flush_s, seconds
        lock.release()
        d.start()
        d.drained()
        assert len(d.rows()) == stored
        return seconds - flush_s, stored, f"{delivered} delivered, {undelivered} left, {quarantined} quarantined"


def test_T1_stop_while_the_ledger_is_locked():
    flush_s, cut_s, tries = 1, 0.1, 5
    # What comes behind the cut counts here too, and so does a machine that has other things to do: a cut
    # that is late by itself is late every time.
    late = []
    while not late or (late[-1] > cut_s and len(late) < tries):
        seconds, stored, said = stop_while_locked(flush_s)
        late.append(seconds)
        assert seconds < 1, f"T2: {seconds:.2f} s behind flush_timeout"
    assert min(late) <= cut_s, late
    dp.promise(f"exit within flush_timeout ({flush_s} s) + 1 s, the write cut within 100 ms of it in one of {tries} "
               "tries at most; all accepted are accounted for",
               f"exit 0 within {', '.join(f'{1000 * s:.0f}' for s in late)} ms behind it, the cut included; {stored} "
               f"accepted: {said}")


def test_A7_a_failed_journal_is_reopened():
    with daemon(slow_disk=SLOW_DISK, consumers=SHORT_LEASE) as d:
        d.start()
        assert d.post(event("before"))[0] == 201
        d.disk("fail")
        status, _, body = d.post(event("lost"))
        assert (status, body["reason"]) == (503, "backend")
        until("readiness fails", lambda: d.get("/readyz")[2].get("code") == "journal_failed")
        assert d.get("/healthz")[0] == 200
        assert d.get("/v1/stats")[2]["journal"]["state"] == "failed"
        status, _, body = d.post(event("meanwhile"))
        assert (status, body["reason"]) == (503, "backend")
        d.disk("")
        until("it is reopened", lambda: d.get("/readyz")[0] == 200)
        # Whether it is there was unknown; repeating says so, and it is there once.
        assert d.post(event("lost"))[0] in (200, 201)
        assert d.post(event("meanwhile"))[0] == 201
        d.drained()
        assert sorted(row[0] for row in d.rows()) == ["before", "lost", "meanwhile"]
        assert d.stop()[0] == 0
        assert drain_line(d.log())[0::2] == ("yes", drain_line(d.log())[2], "0")
        assert d.run("verify", "data").returncode == 0


def test_C7_readiness_says_that_events_cannot_be_read():
    with daemon(slow_disk=SLOW_DISK, consumers=SHORT_LEASE) as d:
        d.start()
        assert d.post(event("a"))[0] == 201
        d.drained()
        assert d.get("/readyz")[0] == 200 and d.metric('daybook_read_errors_total{journal="main"}') == 0
        d.disk("unread")
        assert d.post(event("b"))[0] == 201  # it is durable all the same
        answer = until("readiness says so", lambda: [a for a in [d.get("/readyz")] if a[0] == 503])[0]
        assert answer[2]["code"] == "read_errors" and answer[1]["Retry-After"] == "1", answer
        assert d.metric('daybook_read_errors_total{journal="main"}') > 0
        assert d.stats()["journal"]["state"] == "open" and d.consumer()["quarantined"] == 0
        d.disk("")
        d.drained()  # the key is tried again, and nobody was condemned
        until("it is ready again", lambda: d.get("/readyz")[0] == 200, 30)
        assert d.stop()[0] == 0


def write_until(d, ending, key, sent, wrong):
    """One writer: the next event of its key after the answer to the last one, or after repeating it."""
    while not ending.is_set() and not wrong:
        request_id = f"{key}-{len(sent)}"
        status = 503
        while status == 503:
            status = d.post(event(request_id, key))[0]
        if status not in (200, 201):
            wrong.append(f"{request_id}: {status}")
        sent.append(request_id)


def test_A7_failures_under_load():
    """The disk fails again and again under writers: nothing answered is lost, doubled or out of order."""
    failures = 4
    with daemon(slow_disk=SLOW_DISK, consumers=SHORT_LEASE) as d:
        d.start()
        ending, wrong = threading.Event(), []
        sent = {f"k{n}": [] for n in range(8)}
        writers = [threading.Thread(target=write_until, args=(d, ending, key, sent[key], wrong))
                   for key in sent]
        for writer in writers:
            writer.start()
        for number in range(failures):
            answered = sum(map(len, sent.values()))
            until("writers go on", lambda: sum(map(len, sent.values())) > answered + 20)
            d.disk("fail")
            until("it fails", lambda: d.log().count("the journal failed") > number)
            d.disk("")
            until("it is reopened", lambda: d.get("/readyz")[0] == 200)
        ending.set()
        for writer in writers:
            writer.join(60)
        d.drained()
        assert not wrong, wrong
        for key, ids in sent.items():
            assert [r[0] for r in d.rows(f"select request_id from usage where subject='{key}' order by rowid")] == ids
        assert d.stop()[0] == 0 and d.run("verify", "data").returncode == 0


def test_T5_stop_while_the_journal_cannot_be_opened():
    """Nothing is claimed that is not known, and the stop is no overrun."""
    with daemon(slow_disk=SLOW_DISK, shutdown={"deadline": "1s", "flush_timeout": "1s"}) as d:
        d.start()
        assert d.post(event("a"))[0] == 201
        d.drained()
        d.disk("fail")
        assert d.post(event("b"))[0] == 503
        until("it is tried again and again", lambda: d.log().count("cannot be reopened yet") >= 2)
        status, seconds = d.stop()
        assert status == 0 and seconds < 2, (status, seconds)
        assert drain_line(d.log()) == ("unknown", "1", "0", "unknown", "unknown")


def test_one_daemon_a_directory():
    with daemon() as d:
        d.start()
        run = d.run("serve", "-c", "daybook.yaml")
        assert run.returncode == 1 and run.stderr.count(b"\n") == 1 and b"data" in run.stderr, run
        run = d.run("append", "-", "--data", "data", stdin=ndjson([event("a")]))
        assert run.returncode == 1, run


def test_wrong_configuration():
    with daemon(listen={"adress": "127.0.0.1:1"}) as d:
        with open(d.path("daybook.yaml"), "w", encoding="utf-8") as file:
            json.dump(d.config, file)
        run = d.run("serve", "-c", "daybook.yaml")
        assert run.returncode == 2 and b"daybook.yaml:1:13: unknown key" in run.stderr, run
        run = d.run("serve", "-c", "missing.yaml")
        assert run.returncode == 2 and run.stderr.count(b"\n") == 1
        for arguments in ([], ["fly"], ["append", "--fly"], ["append", "a", "b"], ["stats", "--url"],
                          ["export", "--after", "x"], ["verify"], ["help", "fly"]):
            assert d.run(*arguments).returncode == 2, arguments
        assert d.run("help").returncode == 0 and d.run("--version").stdout.startswith(b"daybook ")


def test_commands_over_http():
    events = [event(f"e{i}", subject=f"k{i % 9}", n=i) for i in range(5000)]
    with daemon() as d:
        d.start()
        run = d.run("append", "-", stdin=ndjson(events))
        assert (run.returncode, run.stdout) == (0, b"accepted 5000, already present 0, refused 0\n"), run
        lines = ndjson(events).splitlines(keepends=True)
        lines[1234] = b"{oops\n"
        lines[4321] = json.dumps(event("e7", other=1)).encode() + b"\n"
        run = d.run("append", stdin=b"".join(lines))
        assert (run.returncode, run.stdout) == (3, b"accepted 0, already present 4998, refused 2\n"), run
        told = run.stderr.decode().splitlines()
        assert told[0].startswith("line 1235: malformed_json: ") and told[1].startswith("line 4322: conflict: ")
        assert "e7" in told[1] and len(told) == 2
        run = d.run("export")
        exported = [json.loads(line) for line in run.stdout.splitlines()]
        assert [e["request_id"] for e in exported] == [f"e{i}" for i in range(5000)]
        assert d.run("export", "--records").stdout == ndjson(events)
        assert d.run("export", "--after", "4990").stdout.count(b"\n") == 10
        stats = d.run("stats")
        assert stats.returncode == 0 and b"billing" in stats.stdout and b"5000 of 1000000" in stats.stdout
        assert json.loads(d.run("stats", "--json").stdout)["journal"]["stored_events"] == 5000
        d.drained()
        assert d.run("export", "--where", "pending").stdout == b""
        d.stop()
        for command in (["stats"], ["export"], ["append", "-"]):
            run = d.run(*command, stdin=ndjson(events[:1]))
            assert run.returncode == 1 and b"no daemon answers" in run.stderr, run


def test_a_directory_moves_to_another():
    """Exported lines are appended elsewhere: over HTTP and straight into a directory."""
    events = [event(f"e{i}", n=i) for i in range(300)]
    events[0]["observed_at"] = "2025-05-05T05:05:05Z"
    with daemon() as d:
        d.start()
        d.post(ndjson(events), NDJSON)
        d.stop()
        exported = d.run("export", "--data", "data").stdout
        assert exported.count(b"\n") == 300
        run = d.run("append", "--data", "copy", stdin=exported)
        assert (run.returncode, run.stdout) == (0, b"accepted 300, already present 0, refused 0\n"), run
        assert d.run("verify", "copy").returncode == 0
        copied = d.run("export", "--data", "copy").stdout
        for one, two in zip(exported.splitlines(), copied.splitlines()):
            one, two = json.loads(one), json.loads(two)
            one.pop("accepted_at"), two.pop("accepted_at")
            assert one == two
        assert d.run("export", "--data", "copy", "--records").stdout == ndjson(events)
        # E6: the same facts again, plain this time.
        run = d.run("append", "--data", "copy", stdin=ndjson(events))
        assert run.stdout == b"accepted 0, already present 300, refused 0\n", run
        d.config["journal"] = {"path": "third", "min_free_disk": "1MiB"}
        d.start()
        run = d.run("append", stdin=exported)
        assert (run.returncode, run.stdout) == (0, b"accepted 300, already present 0, refused 0\n"), run
        third = [json.loads(line) for line in d.get("/v1/events?limit=4096")[2].splitlines()]
        # E5: when the usage happened survives, also where the record did not say.
        assert [e["observed_at"] for e in third] == [json.loads(l)["observed_at"] for l in exported.splitlines()]
        assert third[0]["record"] == events[0]


def test_bodies_too_large_for_the_daemon_are_halved():
    with daemon(listen={"address": "127.0.0.1:0", "max_body_bytes": "4KiB"}) as d:
        d.start()
        events = [event(f"e{i}", text="x" * 300) for i in range(100)]
        events[50]["text"] = "x" * 5000
        run = d.run("append", stdin=ndjson(events))
        assert (run.returncode, run.stdout) == (3, b"accepted 99, already present 0, refused 1\n"), run
        assert run.stderr.startswith(b"line 51: too_large"), run
        ids = [json.loads(l)["request_id"] for l in d.run("export").stdout.splitlines()]
        assert ids == [f"e{i}" for i in range(100) if i != 50]


sys.exit(dp.run_tests(globals(), sys.argv[3:]))
