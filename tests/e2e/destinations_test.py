#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Destinations beneath the real daemon: files of lines and standard output.

usage: destinations_test.py DAYBOOK SLOW_DISK [TEST...]"""
import functools
import glob
import json
import os
import signal
import subprocess
import sys
import threading

import daybook_process as dp
from daybook_process import Daemon, event, ndjson, until

BINARY = sys.argv[1]
daemon = functools.partial(Daemon, BINARY)
NDJSON = "application/x-ndjson"


def file_sink(**more):
    return [{"name": "billing", "lease": "300ms", "write_timeout": "100ms", "poll_interval": "10ms",
             "sinks": [{"kind": "file", "path": "usage.ndjson", **more}]}]


def lines_of(d, pattern="usage.ndjson*"):
    """Every line of the files, oldest file first; each has to be whole."""
    lines = []
    names = sorted(glob.glob(d.path(pattern)), key=lambda name: (name == d.path("usage.ndjson"), name))
    for name in names:
        with open(name, "rb") as file:
            data = file.read()
        assert data == b"" or data.endswith(b"\n"), (name, data[-80:])
        lines += [json.loads(line) for line in data.splitlines()]
    return lines


def test_W1_file_lines_are_as_exported():
    with daemon(consumers=file_sink()) as d:
        d.start()
        d.post([event(f"e{i}", subject=f"k{i % 3}", text="ü\n") for i in range(500)])
        d.drained()
        exported = [json.loads(line) for line in d.run("export").stdout.splitlines()]
        assert sorted(lines_of(d), key=lambda l: l["position"]) == exported
        assert os.stat(d.path("usage.ndjson")).st_mode & 0o777 == 0o600
        # Put aside by somebody else, or removed: made anew.
        os.rename(d.path("usage.ndjson"), d.path("usage.ndjson.1"))
        d.post(event("after"))
        d.drained()
        assert [l["request_id"] for l in lines_of(d, "usage.ndjson")] == ["after"]
        os.unlink(d.path("usage.ndjson"))
        d.post(event("later"))
        d.drained()
        assert [l["request_id"] for l in lines_of(d, "usage.ndjson")] == ["later"]
        # A directory that is missing is an outage: nothing is condemned.
        assert d.stop()[0] == 0


def test_W12_a_file_that_cannot_be_written_is_an_outage():
    with daemon(consumers=file_sink(path="there/usage.ndjson")) as d:
        d.start()
        assert d.post(event("a"))[0] == 201
        until("it is told", lambda: d.consumer()["destinations"][0]["up"] is False)
        assert "No such file or directory" in d.consumer()["destinations"][0]["reason"]
        os.mkdir(d.path("there"))
        d.drained()
        assert d.consumer()["quarantined"] == 0
        assert [l["request_id"] for l in lines_of(d, "there/usage.ndjson")] == ["a"]


def test_W1_check_reaches_without_sending():
    sinks = [{"name": "billing", "sinks": [{"kind": "file", "path": "usage.ndjson"}, {"kind": "stdout"},
                                           {"kind": "file", "name": "device", "path": "/dev/null"},
                                           {"kind": "file", "name": "nowhere", "path": "missing/usage.ndjson"}]}]
    with daemon(consumers=sinks) as d:
        with open(d.path("daybook.yaml"), "w", encoding="utf-8") as file:
            json.dump(d.config, file)
        run = d.run("check", "-c", "daybook.yaml")
        told = run.stdout.decode().splitlines()
        assert run.returncode == 2 and len([line for line in told if line.startswith("ok")]) == 4, run
        failed = [line for line in told if line.startswith("FAILED")]
        assert "no regular file" in failed[0] and "use kind stdout" in failed[0], failed
        assert "missing/usage.ndjson: No such file or directory" in failed[1], failed
        assert os.path.getsize(d.path("usage.ndjson")) == 0
        # A daemon that runs holds its file, and its configuration is fine all the same.
        with daemon(consumers=file_sink()) as other:
            other.start()
            run = other.run("check", "-c", "daybook.yaml")
            assert run.returncode == 0 and b"(held by a daemon that runs)" in run.stdout, run
        # What cannot work as it is configured is refused at the start.
        run = d.run("serve", "-c", "daybook.yaml")
        assert run.returncode == 2 and b"no regular file" in run.stderr, run


def test_rotation():
    with daemon(consumers=file_sink(rotate_bytes="20KiB", format="record")) as d:
        d.config["consumers"][0]["claim_batch"] = 20
        d.start()
        d.post(ndjson([event(f"e{i}", text="x" * 200) for i in range(400)]), NDJSON)
        d.drained()
        assert [l["request_id"] for l in lines_of(d)] == [f"e{i}" for i in range(400)]
        names = glob.glob(d.path("usage.ndjson.*"))
        assert len(names) >= 4 and max(map(os.path.getsize, names)) <= 20 * 1024, names


def write_until(d, ending, key, sent):
    """One writer of one key: the next event after the answer to the last one or after repeating it."""
    number = 0
    while not ending.is_set():
        try:
            status = d.post(event(f"{key}-{number}", key, text="x" * 700))[0]
        except OSError:
            ending.wait(0.01)  # the daemon is down; it comes back
            continue
        if status in (200, 201):
            sent.append(f"{key}-{number}")
            number += 1


def test_W1_kills_leave_whole_lines_and_lose_nothing():
    """SIGKILL under load: each time the daemon is back the file has whole lines alone; in the end every
    answered event is there, in order within its key once repetitions are taken out."""
    kills = 6
    with daemon(consumers=file_sink(rotate_bytes="200KiB")) as d:
        d.config["listen"] = {"address": "127.0.0.1:0"}
        d.start()
        d.config["listen"] = {"address": d.url.removeprefix("http://")}
        ending, sent = threading.Event(), {f"k{n}": [] for n in range(8)}
        writers = [threading.Thread(target=write_until, args=(d, ending, key, sent[key])) for key in sent]
        for writer in writers:
            writer.start()
        for _ in range(kills):
            before = sum(map(len, sent.values()))
            until("writers go on", lambda: sum(map(len, sent.values())) > before + 300, 60)
            d.stop(signal.SIGKILL)
            d.start()
            until("it delivers", lambda: d.consumer()["last_claim_at"])
        ending.set()
        for writer in writers:
            writer.join(60)
        d.drained()
        assert d.stop()[0] == 0
        lines = lines_of(d)
        for key, ids in sent.items():
            mine = list(dict.fromkeys(l["request_id"] for l in lines if l["subject"] == key))
            assert mine[:len(ids)] == ids, (key, len(mine), len(ids))
        answered = sum(map(len, sent.values()))
        dp.promise(f"{kills} kills under load: whole lines alone, every answered event there, in order within its key",
                   f"{answered} answered, {len(lines)} lines in {len(glob.glob(d.path('usage.ndjson*')))} files, all "
                   "whole, all there")


def test_W1_standard_output():
    sinks = [{"name": "billing", "poll_interval": "10ms",
              "sinks": [{"kind": "stdout", "name": "pipe", "format": "record"}]}]
    with daemon(consumers=sinks) as d:
        d.is_up = lambda: "paste this line" in d.log()
        d.start()
        d.url = d.log().split("listening", 1)[1].split()[0]
        d.post([event(f"e{i}", text="x" * 3000) for i in range(300)])
        d.drained()
        lines = d.out().splitlines()
        assert [json.loads(line)["request_id"] for line in lines] == [f"e{i}" for i in range(300)]
        assert "acknowledgement means no more than that a line was written" in d.log()
        assert d.stop()[0] == 0


def test_T6_a_reader_that_does_not_read():
    """Nothing is acknowledged that was not written, a stop keeps its bound, and lines stay whole."""
    sinks = [{"name": "billing", "lease": "300ms", "write_timeout": "100ms", "poll_interval": "10ms",
              "sinks": [{"kind": "stdout"}]}]
    with daemon(consumers=sinks, shutdown={"flush_timeout": "300ms"}) as d:
        with open(d.path("daybook.yaml"), "w", encoding="utf-8") as file:
            json.dump(d.config, file)
        with open(d.path("err"), "wb") as err:
            d.process = subprocess.Popen([d.binary, "serve", "-c", "daybook.yaml"], cwd=d.directory,
                                         stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=err)
        until("it serves", lambda: "paste this line" in d.log(), 30)
        d.url = d.log().split("listening", 1)[1].split()[0]
        d.post([event(f"e{i}", text="x" * 3000) for i in range(200)])
        until("the pipe is full", lambda: d.consumer()["destinations"][0]["up"] is False)
        assert "does not go on" in d.consumer()["destinations"][0]["reason"]
        assert not d.consumer()["drained"]
        chunks = []
        reader = threading.Thread(target=lambda: chunks.extend(iter(lambda: d.process.stdout.read1(65536), b"")))
        reader.start()
        d.drained()
        assert d.stop()[0] == 0
        reader.join(20)
        d.process.stdout.close()
        ids = list(dict.fromkeys(json.loads(line)["request_id"] for line in b"".join(chunks).splitlines()))
        assert ids == [f"e{i}" for i in range(200)]


sys.exit(dp.run_tests(globals(), sys.argv[3:]))
