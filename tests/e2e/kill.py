#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""SIGKILL at random moments under load: what was answered is delivered exactly once, and in order.

Each of the writers owns its keys, and sends the next event of a key after the answer to the last one, or
after repeating it until there is an answer.

usage: kill.py DAYBOOK [--rounds N] [--seed S]"""
import argparse
import http.client
import json
import random
import signal
import sys
import threading
import time

import daybook_process as dp
from daybook_process import Daemon, event, until

WRITERS = 16
KEYS_EACH = 4
ROUND_S = (0.3, 1.5)
READY_ALLOWED_S = 1.0
REFUSED_EVERY = 50

CONFIG = {
    "journal": {"path": "data", "min_free_disk": "1MiB", "retain_acknowledged": "2s"},
    "consumers": [{"name": "billing", "lease": "1500ms", "write_timeout": "500ms",
                   "maintain_interval": "200ms",
                   "sinks": [{"kind": "sqlite", "name": "ledger", "path": "usage.db"}]}],
}


class Writer(threading.Thread):
    def __init__(self, daemon, number, ending):
        super().__init__(daemon=True)
        self.daybook, self.number, self.ending = daemon, number, ending
        self.sent = {f"w{number}-k{k}": [] for k in range(KEYS_EACH)}  # answered, in order
        self.refused = []
        self.repeats = 0
        self.connection = None
        self.error = None

    def ask(self, body):
        """One request; None when there was no answer."""
        try:
            if self.connection is None:
                self.connection = http.client.HTTPConnection(*self.daybook.address(), timeout=10)
            self.connection.request("POST", "/v1/events", body, {"Content-Type": "application/json"})
            answer = self.connection.getresponse()
            answer.read()
            return answer.status
        except (OSError, http.client.HTTPException):
            if self.connection is not None:
                self.connection.close()
            self.connection = None
            return None

    def send(self, body, wanted):
        while True:
            status = self.ask(body)
            if status in wanted:
                return status
            if status not in (None, 503):
                self.error = f"{status} for {body}"
                return status
            self.repeats += 1
            time.sleep(0.005)

    def run(self):
        count = 0
        while not self.ending.is_set() and self.error is None:
            for key, sent in self.sent.items():
                count += 1
                request_id = f"{key}-{count}"
                self.send(json.dumps(event(request_id, key, n=count)), (200, 201))
                sent.append(request_id)
                if count % REFUSED_EVERY == 0:
                    bad = event(f"{request_id}-bad", key)
                    del bad["namespace"]
                    self.send(json.dumps(bad), (422,))
                    self.send(json.dumps(event(request_id, key, n=-1)), (409,))


def segment_files(daemon):
    return daemon.stats()["journal"]["segment_files"]


def check(daemon, writers):
    """Every answered event once, in order within its key; nothing else."""
    rows = daemon.rows("select request_id, subject, record from usage order by rowid")
    by_key = {}
    for request_id, subject, record in rows:
        by_key.setdefault(subject, []).append(request_id)
        assert json.loads(record)["n"] > 0, f"{request_id} has the content that was refused"
    for writer in writers:
        assert writer.error is None, writer.error
        for key, sent in writer.sent.items():
            assert by_key.pop(key, []) == sent, f"key {key}: not what was sent, in order"
    assert not by_key, f"rows of nobody: {by_key}"
    return len(rows)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("daybook")
    parser.add_argument("--rounds", type=int, default=50)
    parser.add_argument("--seed", type=int, default=int(time.time()))
    options = parser.parse_args()
    dice = random.Random(options.seed)
    print(f"# seed {options.seed}", flush=True)
    with Daemon(options.daybook, **CONFIG) as daemon:
        daemon.start()
        files_before = segment_files(daemon)
        ending = threading.Event()
        writers = [Writer(daemon, n, ending) for n in range(WRITERS)]
        for writer in writers:
            writer.start()
        slowest = 0
        for _ in range(options.rounds):
            time.sleep(dice.uniform(*ROUND_S))
            daemon.stop(signal.SIGKILL)
            daemon.start()
            slowest = max(slowest, daemon.ready_s)
        ending.set()
        for writer in writers:
            writer.join(30)
        daemon.drained()
        rows = check(daemon, writers)
        until("the number of segment files returns",
              lambda: segment_files(daemon) <= files_before, 30)
        files_after = segment_files(daemon)
        status, _ = daemon.stop()
        assert status == 0, daemon.log()
        assert daemon.run("verify", "data").returncode == 0
        repeats = sum(writer.repeats for writer in writers)
        dp.promise(f"after {options.rounds} kills every answered event once and in order, each start ready "
                   f"within {READY_ALLOWED_S} s, {files_before} segment files",
                   f"{rows} events once and in order ({repeats} repeats), the slowest start "
                   f"{slowest:.2f} s, {files_after} segment files")
        return 0 if slowest <= READY_ALLOWED_S else 1


if __name__ == "__main__":
    sys.exit(main())
