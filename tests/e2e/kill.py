#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""SIGKILL at random moments under load: what was answered is delivered exactly once, and in order.

Each of the writers (kill_writers.c) owns its keys, and sends the next event after the answer to the last one,
or after repeating it until there is an answer. One kill in five strikes while the daemon starts.

usage: kill.py DAYBOOK WRITERS [--rounds N] [--seed S] [--ready SECONDS] [--retained SECONDS] [--round SECONDS] [--falls]
--round: the longest round. --falls: in the end the number of segment files has to fall, not to return (a file goes
each second, and each kill leaves one behind)."""
import argparse
import http.client
import json
import os
import random
import signal
import subprocess
import sys
import time

import daybook_process as dp
from daybook_process import Daemon, free_port, until

WRITERS = 16
KEYS_EACH = 8
ROUND_S = 1.7  # the longest; the shortest is a sixth of it
EARLY_KILLS = 0.2
EARLY_KILL_S = 0.06
READY_ALLOWED_S = 1.0
READY_POLL_S = 0.01
STORED_MAX = 300_000
RETAINED_S = 40  # as long as most of a run of 50 rounds: the journal fills up to its limit
DRAIN_S = 300

CONFIG = {
    "journal": {"path": "data", "min_free_disk": "1MiB", "max_events": STORED_MAX,
                "retain_acknowledged": None},
    # What a killed process had in hand comes back when its lease ends (C5): sooner than the next kill.
    "consumers": [{"name": "billing", "lease": "900ms", "write_timeout": "300ms",
                   "maintain_interval": "200ms",
                   "sinks": [{"kind": "sqlite", "name": "ledger", "path": "usage.db"}]}],
}


def is_ready(port):
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=10)
    try:
        connection.request("GET", "/readyz")
        return connection.getresponse().status == 200
    except (OSError, http.client.HTTPException):
        return False
    finally:
        connection.close()


def start(daemon, port):
    """Returns the seconds from the start of the process until /readyz says 200, and those of them in which
    its main thread, which recovers the journal, could have run and others had the processors."""
    begin = time.monotonic()
    daemon.launch()
    while not is_ready(port):
        assert daemon.process.poll() is None, daemon.log()
        assert time.monotonic() - begin < dp.START_S, daemon.log()
        time.sleep(READY_POLL_S)
    seconds = time.monotonic() - begin
    with open(f"/proc/{daemon.process.pid}/schedstat", encoding="ascii") as file:
        waited = int(file.read().split()[1]) / 1e9
    until("the daemon says where it listens", daemon.is_up)
    return seconds - waited, waited


def segment_files(daemon):
    return sum(name.startswith("seg-") and name.endswith(".dbl") for name in os.listdir(daemon.path("data")))


def check(daemon):
    """Every answered event once, in order within its key; nothing else. Returns how many."""
    answered = {}
    with open(daemon.path("answered"), encoding="ascii") as file:
        for line in file:
            key, request_id = line.split()
            answered.setdefault(key, []).append(request_id)
    delivered = {}
    rows = daemon.rows("select request_id, subject, record from usage order by rowid")
    for request_id, subject, record in rows:
        delivered.setdefault(subject, []).append(request_id)
        assert json.loads(record)["n"] > 0, f"{request_id} has the content that was refused"
    for key in answered.keys() | delivered.keys():
        sent, got = answered.get(key, []), delivered.get(key, [])
        if sent != got:
            first = next((i for i, (a, b) in enumerate(zip(sent, got)) if a != b), min(len(sent), len(got)))
            raise AssertionError(
                f"{key}: {len(sent)} answered and {len(got)} delivered; from place {first} on "
                f"{sent[first:first + 5]} and {got[first:first + 5]}; missing {sorted(set(sent) - set(got))[:5]}, "
                f"too many {sorted(set(got) - set(sent))[:5]}")
    return len(rows)


class Worst:
    """The slowest start, and how much was stored at most; how often it was killed."""

    def __init__(self):
        self.seconds, self.stored_then, self.stored, self.by_the_clock, self.kills = 0, 0, 0, 0, 0

    def take(self, daemon, started):
        seconds, waited = started
        stored = daemon.stats()["journal"]["stored_events"]
        assert stored <= STORED_MAX
        self.stored = max(self.stored, stored)
        self.by_the_clock = max(self.by_the_clock, seconds + waited)
        if seconds > self.seconds:
            self.seconds, self.stored_then = seconds, stored


def kill(daemon, worst):
    status, _ = daemon.stop(signal.SIGKILL)
    worst.kills += 1
    assert status == -signal.SIGKILL, f"it ended by itself with {status}: {daemon.log()}"


def kill_and_start(daemon, port, dice, writers, worst, longest):
    time.sleep(dice.uniform(longest / 6, longest))
    assert writers.poll() is None, "a writer ended: see above"
    kill(daemon, worst)
    if dice.random() < EARLY_KILLS:
        daemon.launch()
        time.sleep(dice.uniform(0, EARLY_KILL_S))
        kill(daemon, worst)
    worst.take(daemon, start(daemon, port))


def read_options():
    parser = argparse.ArgumentParser()
    parser.add_argument("daybook")
    parser.add_argument("writers")
    parser.add_argument("--rounds", type=int, default=50)
    parser.add_argument("--seed", type=int, default=int(time.time()))
    parser.add_argument("--ready", type=float, default=READY_ALLOWED_S)
    parser.add_argument("--retained", type=int, default=RETAINED_S)
    parser.add_argument("--falls", action="store_true")
    parser.add_argument("--round", type=float, default=ROUND_S)
    return parser.parse_args()


def test_kills_under_load():
    options = read_options()
    dice = random.Random(options.seed)
    print(f"# seed {options.seed}", flush=True)
    port = free_port()
    CONFIG["journal"]["retain_acknowledged"] = f"{options.retained}s"
    with Daemon(options.daybook, listen={"address": f"127.0.0.1:{port}"}, **CONFIG) as daemon:
        worst = Worst()
        worst.take(daemon, start(daemon, port))
        until("the next segment is prepared", lambda: segment_files(daemon) > 1)
        files_before = segment_files(daemon)
        files_most = files_before
        with subprocess.Popen([options.writers, str(port), str(WRITERS), str(KEYS_EACH), daemon.path("answered")],
                              stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as writers:
            try:
                for _ in range(options.rounds):
                    kill_and_start(daemon, port, dice, writers, worst, options.round)
                    files_most = max(files_most, segment_files(daemon))
                counts, _ = writers.communicate(timeout=dp.START_S + DRAIN_S)
            finally:
                writers.kill()  # nobody may answer them any more
        assert writers.returncode == 0, "a writer was answered what must not be: see above"
        accepted, present, refused, repeats = map(int, counts.split())
        until("everything is delivered", lambda: daemon.consumer()["drained"], DRAIN_S)
        assert daemon.consumer()["quarantined"] == 0
        rows = check(daemon)
        assert rows == accepted + present
        files_allowed = max(files_before, segment_files(daemon) - 10) if options.falls else files_before
        until("the number of segment files returns", lambda: segment_files(daemon) <= files_allowed,
              options.retained + 60 + files_most)
        files_after = segment_files(daemon)
        status, _ = daemon.stop()
        assert status == 0, daemon.log()
        assert daemon.run("verify", "data").returncode == 0
        print(f"# {worst.kills} SIGKILLs", flush=True)
        dp.promise(f"{options.rounds} kills: every answered event once and in order, nothing refused; ready within "
                   f"{options.ready} s, waits for a processor apart, at most {STORED_MAX} stored; {files_allowed} "
                   "segment files in the end",
                   f"{accepted} accepted and {present} already present are {rows} rows, in order; {refused} refused, "
                   f"none there; {repeats} repeats; slowest start {worst.seconds:.2f} s at {worst.stored_then} "
                   f"stored (most {worst.stored}), by the clock, with such waits, {worst.by_the_clock:.2f} s; "
                   f"{files_most} segment files at most, {files_after} in the end")
        assert worst.seconds <= options.ready, "a start took too long"


sys.exit(dp.run_tests(globals(), []))
