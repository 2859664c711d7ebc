#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What an operator has beside the daemon: dump, verify, repair and backup, on real directories.

usage: tools_test.py DAYBOOK SLOW_DISK [TEST...]"""
import functools
import json
import os
import shutil
import sys
import threading

import daybook_process as dp
from daybook_process import Daemon, event, until

BINARY, SLOW_DISK = sys.argv[1], sys.argv[2]
daemon = functools.partial(Daemon, BINARY)
SEGMENT = "seg-0000000000000001.dbl"
DONE, FAILED, USAGE, PARTLY = 0, 1, 2, 3


def json_lines(done):
    return [json.loads(line) for line in done.stdout.decode().splitlines()]


def exported(d, name):
    done = d.run("export", "--data", name)
    return [json.loads(line) for line in done.stdout.decode().splitlines()]


def filled(d, events=40):
    """A stopped journal with deliveries, its events as export writes them."""
    d.start()
    for i in range(0, events, 4):
        d.post([event(f"e{j}", subject=f"k{j % 7}") for j in range(i, i + 4)])
    d.drained()
    assert d.stop()[0] == 0
    return exported(d, "data")


def change(d, name, offset, data):
    with open(d.path(os.path.join(name, SEGMENT)), "r+b") as file:
        file.seek(offset)
        file.write(data)


def offset_of(d, name, text):
    with open(d.path(os.path.join(name, SEGMENT)), "rb") as file:
        return file.read().index(text)


def content(d, name):
    """Every byte of a directory."""
    found = {}
    for folder, _, files in os.walk(d.path(name)):
        for file in files:
            with open(os.path.join(folder, file), "rb") as opened:
                found[os.path.join(folder, file)] = opened.read()
    return found


def test_dump_shows_every_frame_and_goes_on_behind_damage():
    with daemon() as d:
        events = filled(d)
        whole = d.run("dump", "data", "--json")
        assert whole.returncode == DONE, whole
        rows = json_lines(whole)
        shown = [e for row in rows for e in row.get("events", [])]
        assert [e["request_id"] for e in shown] == [e["request_id"] for e in events]
        kinds = {row["type"] for row in rows if row["kind"] == "frame"}
        assert {"LINK", "STATE", "ADMIN", "EVENT", "CLAIM", "SETTLE"} <= kinds, kinds
        assert rows[-1] == {"kind": "verdict", "end": "closed in order", "at": rows[-1]["at"]}
        assert d.run("dump", "data").stdout.count(b"\n    event position=") == len(events)
        before = content(d, "data")
        change(d, "data", offset_of(d, "data", b"e17"), b"E")
        damaged = d.run("dump", "data", "--json")
        assert damaged.returncode == PARTLY
        rows = json_lines(damaged)
        shown = [e["position"] for row in rows for e in row.get("events", [])]
        assert shown == [e["position"] for e in events if e["request_id"] != "e17"]
        assert [(row["type"], row["position"]) for row in rows
                if row["kind"] == "damage"] == [("EVENT", 18)]
        assert rows[-1]["refused"] == "damaged"
        change(d, "data", offset_of(d, "data", b"E17"), b"e")
        assert content(d, "data") == before  # neither of them wrote anything
        assert d.run("dump", "nowhere").returncode == FAILED
        assert d.run("dump").returncode == USAGE


def test_repair_keeps_what_is_whole_and_says_what_is_missing():
    with daemon() as d:
        events = filled(d)
        change(d, "data", offset_of(d, "data", b"e17"), b"E")
        before = content(d, "data")
        assert d.run("verify", "data").returncode == FAILED
        assert d.run("export", "--data", "data").returncode == FAILED
        done = d.run("repair", "data", "--out", "new", "--json")
        assert done.returncode == PARTLY, done
        rows = json_lines(done)
        assert [r for r in rows if r["kind"] == "missing"] == [
            {"kind": "missing", "first": 18, "end": 19, "behind_newest": False}]
        assert rows[-1]["events"] == len(events) - 1 and rows[-1]["events_lost"] == 1
        assert content(d, "data") == before
        assert d.run("verify", "new").returncode == DONE
        assert exported(d, "new") == [e for e in events if e["request_id"] != "e17"]
        assert d.run("repair", "data", "--out", "new").returncode == USAGE  # it is there
        # The repaired journal takes the place of the old one: what was delivered is not delivered again, the
        # position is not given out again, and the loss is counted (S5).
        os.rename(d.path("data"), d.path("old"))
        os.rename(d.path("new"), d.path("data"))
        d.start()
        journal = d.stats()["journal"]["counters"]
        assert journal["accepted"] == len(events) and journal["damaged"] == 1, journal
        assert d.post(event("after"))[2]["position"] == len(events) + 1
        d.drained()
        assert len(d.rows()) == len(events) + 1
        assert d.stop()[0] == 0 and d.run("verify", "data").returncode == DONE


def test_damage_repair_starts_with_what_is_whole_and_says_so():
    ledger = {"kind": "sqlite", "name": "ledger", "path": "data/usage.db"}  # beside the journal, as without a file
    with daemon(consumers=[{"name": "billing", "sinks": [ledger]}]) as d:
        events = filled(d)
        change(d, "data", offset_of(d, "data", b"e17"), b"E")
        before = content(d, "data")
        journal = {**dp.DEFAULTS["journal"], "path": "data/"}  # a slash changes nothing
        d.config["journal"] = {**journal, "damage": "refuse"}
        d.launch()
        assert d.wait() == FAILED and "damaged at offset" in d.log(), d.log()
        assert {k: v for k, v in content(d, "data").items() if not k.endswith("LOCK")} == {
            k: v for k, v in before.items() if not k.endswith("LOCK")}
        d.config["journal"] = {**journal, "damage": "repair"}
        d.start()
        assert d.log().count("missing") == 1 and "first_position=18" in d.log(), d.log()
        stats = d.stats()
        assert stats["repaired"] is True and stats["journal"]["counters"]["damaged"] == 1, stats
        assert d.metric('daybook_journal_repaired{journal="main"}') == 1
        assert "warning: the journal was damaged and was repaired" in d.run("stats").stdout.decode()
        # What was delivered stays so, the ledger is where it was, and what is whole is there.
        assert d.post(event("after"))[2]["position"] == len(events) + 1
        d.drained()
        assert len(d.rows(name="data/usage.db")) == len(events) + 1
        assert d.post(event("e17", subject="k3"))[0] == 201  # sent again, it is stored again
        # The old directory is there, byte for byte, without what is not the journal's.
        aside = [n for n in os.listdir(d.directory) if n.startswith("data.damaged-")]
        assert len(aside) == 1 and not os.path.exists(d.path("data.repaired")), os.listdir(d.directory)
        def journals(files, name):
            return {os.path.relpath(k, d.path(name)): v for k, v in files.items() if k.endswith((".dbl", "FORMAT"))}
        assert journals(content(d, aside[0]), aside[0]) == journals(before, "data")
        assert not [n for n in os.listdir(d.path(aside[0])) if n.startswith("usage.db")]
        with open(d.path("data/REPAIRED"), encoding="utf-8") as file:
            said = file.read()
        assert aside[0] in said and "events lost, at most: 1" in said and "damaged at offset" in said, said
        # The flag outlives a restart, which repairs nothing any more, and goes with the file.
        assert d.stop()[0] == 0
        d.start()
        assert d.stats()["repaired"] is True and "is repaired" not in d.log()
        assert d.log().count("this journal was damaged and was repaired") == 1, d.log()
        os.remove(d.path("data/REPAIRED"))
        until("the flag is down", lambda: d.stats()["repaired"] is False)
        assert d.metric('daybook_journal_repaired{journal="main"}') == 0
        assert d.stop()[0] == 0 and d.run("verify", "data").returncode == DONE
        dp.promise(f"one damaged event of {len(events)}: it starts, the others are there, the ledger too, the loss is said",
                   f"{len(d.rows(name='data/usage.db'))} rows in the ledger, 1 lost at most, set aside in {aside[0].split('-')[0]}-…")
        # What an earlier try has left is in the way, and nothing is changed.
        for name in os.listdir(d.path("data")):
            if name.startswith("ckpt-"):  # so that the start reads all of the log
                os.remove(d.path(os.path.join("data", name)))
        change(d, "data", offset_of(d, "data", b"e18"), b"E")
        os.mkdir(d.path("data.repaired"))
        before = content(d, "data")
        d.launch()
        assert d.wait() == FAILED and "it cannot be repaired" in d.log() and "data.repaired" in d.log(), d.log()
        assert content(d, "data") == before


def test_damage_repair_where_the_path_is_a_link():
    with daemon() as d:
        filled(d)
        os.mkdir(d.path("disk"))
        os.rename(d.path("data"), d.path("disk/journal"))
        os.symlink("disk/journal", d.path("data"))
        change(d, "data", offset_of(d, "data", b"e17"), b"E")
        d.config["journal"] = {**dp.DEFAULTS["journal"], "damage": "repair"}
        d.start()
        assert d.stats()["repaired"] is True and os.path.islink(d.path("data"))
        beside = sorted(n.split("-")[0] for n in os.listdir(d.path("disk")))
        assert beside == ["journal", "journal.damaged"], beside
        assert d.stop()[0] == 0 and d.run("verify", "data").returncode == DONE


def test_repair_without_format_without_header_and_at_the_end():
    with daemon() as d:
        events = filled(d)
        for name, wound in (("format", lambda: os.remove(d.path("format/FORMAT"))),
                            ("header", lambda: change(d, "header", 0, b"\xff" * 4096)),
                            ("salt", lambda: change(d, "salt", 60, b"\x55")),
                            ("link", lambda: change(d, "link", 4096, b"\xff" * 64))):
            shutil.copytree(d.path("data"), d.path(name))
            wound()
            assert d.run("verify", name).returncode == FAILED
            done = d.run("repair", name, "--out", name + ".new")
            assert done.returncode == PARTLY, (name, done)
            assert exported(d, name + ".new") == events, name
            assert d.run("verify", name + ".new").returncode == DONE
        whole = d.run("repair", "data", "--out", "whole")
        assert whole.returncode == DONE and exported(d, "whole") == events, whole


def test_repair_and_backup_refuse_what_they_may_not_touch():
    with daemon() as d:
        d.start()
        d.post(event("a"))
        busy = d.run("repair", "data", "--out", "new")
        assert busy.returncode == FAILED and b"stop it first" in busy.stderr, busy
        assert d.stop()[0] == 0
        assert not os.path.exists(d.path("new")) and not os.path.exists(d.path("new.partial"))
        os.mkdir(d.path("half.partial"))
        for command in (("repair", "data"), ("backup", "--data", "data")):
            left = d.run(*command, "--out", "half")
            assert left.returncode == USAGE and b"remove it first" in left.stderr, left
            assert d.run(*command, "--out", "data").returncode == USAGE
        change(d, "data", offset_of(d, "data", b'{"request_id"'), b"X")
        rotten = d.run("backup", "--data", "data", "--out", "rotten")
        assert rotten.returncode == FAILED and not os.path.exists(d.path("rotten")), rotten


class Writers:
    """Appends until it is told to stop; remembers what was answered."""

    def __init__(self, d, count):
        self.answered, self.over = [], False
        self.threads = [threading.Thread(target=self.write, args=(d, n)) for n in range(count)]
        for thread in self.threads:
            thread.start()

    def write(self, d, n):
        i = 0
        while not self.over:
            name = f"w{n}-{i}"
            body = json.dumps({**event(name, subject=f"k{n}"), "pad": "x" * (i * 97 % 3000)}).encode()
            if d.post(body)[0] == 201:
                self.answered.append(name)
            i += 1

    def stop(self):
        self.over = True
        for thread in self.threads:
            thread.join()


def test_backup_and_verify_beside_a_daemon_that_is_written_to():
    with daemon() as d:
        d.start()
        writers = Writers(d, 4)
        try:
            for n in range(6):
                dp.until("more is answered", lambda: len(writers.answered) > 200 * (n + 1))
                before = list(writers.answered)
                done = d.run("backup", "--data", "data", "--out", f"copy{n}", "--json")
                assert done.returncode == DONE, done
                got = {e["request_id"] for e in exported(d, f"copy{n}")}
                assert set(before) <= got, "an answered event is not in the copy"
                beside = d.run("verify", "data")
                assert beside.returncode == DONE, beside
        finally:
            writers.stop()
        answered = set(writers.answered)
        assert d.stop()[0] == 0
        stopped = d.run("backup", "-c", "daybook.yaml", "--out", "last")
        assert stopped.returncode == DONE, stopped
        assert exported(d, "last") == exported(d, "data")
        assert {e["request_id"] for e in exported(d, "last")} == answered
        # A copy is a journal: the daemon goes on from it.
        shutil.rmtree(d.path("data"))
        os.rename(d.path("copy3"), d.path("data"))
        d.start()
        assert d.post(event("after"))[0] == 201
        assert d.stop()[0] == 0 and d.run("verify", "data").returncode == DONE


sys.exit(dp.run_tests(globals(), sys.argv[3:]))
