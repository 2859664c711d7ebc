#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Four daemons on one database, and everything goes wrong at random: daemons are killed, stopped for longer than a lease and
continued, restarted; the server is restarted (`pg_ctl restart -m immediate`), made read-only, its connections all used up or
ended. Every answered event arrives once, in order within its key; no event and no key is ever held by two at once (a
trigger in the database looks at every hand-out); none is quarantined.

usage: postgres_chaos.py DAYBOOK [--seconds N] [--seed S]"""
import argparse
import http.client
import json
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time

import daybook_process as dp
from daybook_process import Daemon, event, free_port, ndjson, until
from postgres_database import JOURNAL, Database

DAEMONS = 4
PRODUCERS = 8
KEYS_EACH = 12
LEASE_S = 2
DRAIN_S = 120

# Each row that is handed out is looked at: was the event, or another of its key, still leased to somebody else? What the same
# transaction wrote is of the same claim.
WATCH = """
CREATE TABLE public.violation (what text, pos bigint, key_id bigint, old_token bigint, new_token bigint, left_us bigint);
CREATE TABLE public.hand_out (n bigint);
INSERT INTO public.hand_out VALUES (0);
CREATE FUNCTION public.now_us() RETURNS bigint LANGUAGE sql VOLATILE AS
  $$ SELECT (extract(epoch FROM clock_timestamp()) * 1000000)::bigint $$;
CREATE FUNCTION public.look_at_update() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER AS $$
BEGIN
  INSERT INTO public.violation
    SELECT 'event', n.pos, n.key_id, o.token, n.token, o.lease_expires - public.now_us()
      FROM new_rows n JOIN old_rows o ON o.consumer_id = n.consumer_id AND o.pos = n.pos
     WHERE n.token <> o.token AND o.resolution = 0 AND o.lease_expires > public.now_us();
  INSERT INTO public.violation
    SELECT 'key', n.pos, n.key_id, m.token, n.token, m.lease_expires - public.now_us()
      FROM new_rows n JOIN old_rows o ON o.consumer_id = n.consumer_id AND o.pos = n.pos
      JOIN daybook.mark m ON m.consumer_id = n.consumer_id AND m.key_id = n.key_id AND m.resolution = 0
     WHERE n.token <> o.token AND m.lease_expires > public.now_us()
       AND NOT EXISTS (SELECT 1 FROM new_rows x WHERE x.consumer_id = m.consumer_id AND x.pos = m.pos)
       AND m.xmin::text <> (pg_current_xact_id()::text::numeric % 4294967296)::text;
  RETURN NULL;
END $$;
CREATE FUNCTION public.look_at_insert() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER AS $$
BEGIN
  INSERT INTO public.violation
    SELECT 'key', n.pos, n.key_id, m.token, n.token, m.lease_expires - public.now_us()
      FROM new_rows n
      JOIN daybook.mark m ON m.consumer_id = n.consumer_id AND m.key_id = n.key_id AND m.resolution = 0
     WHERE n.lease_expires IS NOT NULL AND m.lease_expires > public.now_us()
       AND NOT EXISTS (SELECT 1 FROM new_rows x WHERE x.consumer_id = m.consumer_id AND x.pos = m.pos)
       AND m.xmin::text <> (pg_current_xact_id()::text::numeric % 4294967296)::text;
  UPDATE public.hand_out SET n = n + (SELECT count(*) FROM new_rows);
  RETURN NULL;
END $$;
CREATE TRIGGER look_at_update AFTER UPDATE ON daybook.mark REFERENCING OLD TABLE AS old_rows NEW TABLE AS new_rows
  FOR EACH STATEMENT EXECUTE FUNCTION public.look_at_update();
CREATE TRIGGER look_at_insert AFTER INSERT ON daybook.mark REFERENCING NEW TABLE AS new_rows
  FOR EACH STATEMENT EXECUTE FUNCTION public.look_at_insert();
"""


class Producer:
    """Owns its keys. A batch holds at most one event of a key, and is sent to one daemon or another until all of it is
    answered: only then come the next events of these keys."""

    def __init__(self, fleet, number, seed):
        self.fleet, self.number, self.dice = fleet, number, random.Random(seed)
        self.sent = [0] * KEYS_EACH
        self.answered = {}
        self.repeats, self.trouble, self.ending = 0, None, threading.Event()
        self.thread = threading.Thread(target=self.run)
        self.thread.start()

    def batch(self):
        keys = self.dice.sample(range(KEYS_EACH), self.dice.randint(1, KEYS_EACH))
        return [event(f"p{self.number}-{key}-{self.sent[key]}", subject=f"p{self.number}-{key}", n=self.sent[key])
                for key in keys], keys

    def send(self, body):
        """Whether all of it is durable."""
        daemon = self.dice.choice(self.fleet)
        connection = http.client.HTTPConnection("127.0.0.1", daemon.port, timeout=8)
        try:
            connection.request("POST", "/v1/events", body, {"Content-Type": "application/x-ndjson"})
            answer = connection.getresponse()
            text = answer.read()
        except (OSError, http.client.HTTPException):
            return False
        finally:
            connection.close()
        if answer.status == 200:
            return True
        if answer.status not in (207, 503):
            raise AssertionError(f"{answer.status} {text[:300]}")
        for error in json.loads(text).get("errors", []):
            if error["code"] not in ("backend", "timed_out", "usage_not_durable", "draining", "at_capacity"):
                raise AssertionError(f"{error}")
        return False

    def run(self):
        try:
            while not self.ending.is_set():
                events, keys = self.batch()
                body = ndjson(events)
                while not self.send(body):
                    self.repeats += 1
                    time.sleep(self.dice.uniform(0.01, 0.1))
                for one, key in zip(events, keys):
                    self.answered.setdefault(one["subject"], []).append(one["request_id"])
                    self.sent[key] += 1
        except Exception as trouble:  # told by whoever joins
            self.trouble = trouble

    def end(self):
        self.ending.set()
        self.thread.join()
        if self.trouble:
            raise self.trouble
        return self.answered


def is_up(daemon):
    connection = http.client.HTTPConnection("127.0.0.1", daemon.port, timeout=5)
    try:
        connection.request("GET", "/readyz")
        return connection.getresponse().status == 200
    except (OSError, http.client.HTTPException):
        return False
    finally:
        connection.close()


class Chaos:
    """One trouble after the other; what it did is counted."""

    def __init__(self, database, fleet, dice):
        self.database, self.fleet, self.dice = database, fleet, dice
        self.done = {}
        self.later = []  # (when, what): the ends of troubles

    def count(self, name):
        self.done[name] = self.done.get(name, 0) + 1

    def soon(self, seconds, act):
        self.later.append((time.monotonic() + seconds, act))

    def running(self):
        return [d for d in self.fleet if d.process.poll() is None and not d.stopped]

    def kill(self):
        daemon = self.dice.choice(self.running())
        daemon.kill(signal.SIGKILL)
        daemon.wait()
        self.soon(self.dice.uniform(0, 2), daemon.launch)

    def stop_and_continue(self):
        daemon = self.dice.choice(self.running())
        daemon.kill(signal.SIGSTOP)
        daemon.stopped = True

        def go_on():
            daemon.stopped = False
            daemon.kill(signal.SIGCONT)
        self.soon(self.dice.uniform(0.5, 3) * LEASE_S, go_on)

    def restart(self):
        daemon = self.dice.choice(self.running())
        daemon.kill(signal.SIGTERM)
        status = daemon.wait(40)
        # -15: it had not begun to wait for signals yet.
        assert status in (0, 1, -signal.SIGTERM), (status, daemon.log())
        self.soon(self.dice.uniform(0, 1), daemon.launch)

    def restart_server(self):
        self.database.server.restart("immediate")

    def read_only(self):
        server = self.database.server
        server.sql("ALTER SYSTEM SET default_transaction_read_only = on; SELECT pg_reload_conf()")
        self.soon(self.dice.uniform(0.5, 2), lambda: server.sql(
            "BEGIN READ WRITE; COMMIT; SET default_transaction_read_only = off; "
            "ALTER SYSTEM RESET default_transaction_read_only; SELECT pg_reload_conf()"))

    def no_connections(self):
        server = self.database.server
        for _ in range(50):
            subprocess.Popen([f"{server.bin}/psql", "-XAtq", "-c", "SELECT pg_sleep(2)"], stdout=subprocess.DEVNULL,
                             stderr=subprocess.DEVNULL, env=server.psql_environment(self.database.dsn()))
        self.database.terminate()

    def terminate(self):
        self.database.terminate()

    def step(self):
        now = time.monotonic()
        for entry in [e for e in self.later if e[0] <= now]:
            self.later.remove(entry)
            entry[1]()
        names, weights = zip(("kill", 6), ("stop_and_continue", 5), ("restart", 4), ("terminate", 3), ("restart_server", 1),
                             ("read_only", 1), ("no_connections", 1))
        name = self.dice.choices(names, weights)[0]
        if name in ("kill", "stop_and_continue", "restart") and not self.running():
            return
        try:
            getattr(self, name)()
            self.count(name)
        except AssertionError as why:
            # psql finds no place either, or the server is in the middle of a restart.
            if "psql" not in str(why):
                raise

    def calm(self):
        """Ends every trouble."""
        deadline = time.monotonic() + 30
        while self.later and time.monotonic() < deadline:
            _, act = self.later[0]
            try:
                act()
                self.later.pop(0)
            except AssertionError:
                time.sleep(0.2)
        for daemon in self.fleet:
            if daemon.process.poll() is not None:
                daemon.launch()


def check(ledger, answered):
    """Every answered event once, in order within its key. Returns how many rows there are."""
    rows = ledger.rows("select request_id, subject from usage order by rowid")
    delivered = {}
    for request_id, subject in rows:
        delivered.setdefault(subject, []).append(request_id)
    for subject, got in delivered.items():
        numbers = [int(i.rsplit("-", 1)[1]) for i in got]
        assert numbers == list(range(len(numbers))), (subject, [n for i, n in enumerate(numbers) if i != n][:5])
    for subject, sent in answered.items():
        got = delivered.get(subject, [])
        assert got[:len(sent)] == sent, (subject, len(sent), len(got), sorted(set(sent) - set(got))[:5])
    return len(rows)


def options():
    parser = argparse.ArgumentParser()
    parser.add_argument("daybook")
    parser.add_argument("--seconds", type=float, default=600)
    parser.add_argument("--seed", type=int, default=int(time.time()))
    return parser.parse_args()


def test_chaos():
    given = options()
    dice = random.Random(given.seed)
    print(f"# seed {given.seed}", flush=True)
    place = tempfile.mkdtemp(prefix="daybook-chaos-")
    ledger = os.path.join(place, "usage.db")
    consumer = {"name": "billing", "lease": f"{LEASE_S}s", "write_timeout": "600ms", "poll_interval": "100ms",
                "sinks": [{"kind": "sqlite", "name": "ledger", "path": ledger}]}
    with Database(max_connections="60") as database:
        fleet = []
        try:
            for _ in range(DAEMONS):
                port = free_port()
                daemon = Daemon(given.daybook, environment=database.environment(), consumers=[consumer],
                                listen={"address": f"127.0.0.1:{port}"}, journal=JOURNAL | {"connections": 6})
                daemon.port, daemon.stopped = port, False
                fleet.append(daemon)
            database.migrate(fleet[0])
            database.sql(WATCH)
            for daemon in fleet:
                daemon.launch()
            until("all are ready", lambda: all(is_up(d) for d in fleet), dp.START_S)
            measure(given, dice, database, fleet, ledger)
        finally:
            for daemon in fleet:
                daemon.__exit__()
            shutil.rmtree(place, ignore_errors=True)


def measure(given, dice, database, fleet, ledger):
    producers = [Producer(fleet, n, given.seed + n) for n in range(PRODUCERS)]
    chaos = Chaos(database, fleet, dice)
    try:
        end = time.monotonic() + given.seconds
        while time.monotonic() < end:
            time.sleep(dice.uniform(0.1, 1.2))
            assert not any(p.trouble for p in producers), [p.trouble for p in producers]
            chaos.step()
    finally:
        chaos.calm()
        for producer in producers:
            producer.ending.set()
    answered = {}
    for producer in producers:
        answered.update(producer.end())
    until("all are ready", lambda: all(is_up(d) for d in fleet), 60)
    for daemon in fleet:
        daemon.url = f"http://127.0.0.1:{daemon.port}"
    first = fleet[0]
    until("everything is delivered", lambda: first.consumer()["drained"], DRAIN_S)
    count = sum(len(ids) for ids in answered.values())
    first.path = lambda name, own=first.path: ledger if name == "usage.db" else own(name)
    rows = check(first, answered)
    stats = first.stats()["journal"]["counters"]
    violations = database.sql("SELECT * FROM public.violation LIMIT 5")
    hand_outs = int(database.sql("SELECT n FROM public.hand_out"))
    assert violations == "", f"held by two at once: {violations}"
    assert hand_outs >= rows, "the trigger saw fewer hand-outs than events"
    assert first.consumer()["quarantined"] == 0
    assert stats["accepted"] == rows, (stats, rows)
    statuses = [d.stop()[0] for d in fleet]
    assert statuses == [0] * len(fleet), statuses
    dp.promise(f"{given.seconds:.0f} s, {DAEMONS} daemons on one database: every answered event once and in order within its key; none "
               "held by two at once, none quarantined",
               f"{count} answered, {rows} accepted and in the ledger; {sum(p.repeats for p in producers)} batches repeated; "
               f"{hand_outs} hand-outs looked at, none beside a live lease; " +
               ", ".join(f"{name} {n}" for name, n in sorted(chaos.done.items())))


sys.exit(dp.run_tests(globals(), []))
