#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The golden directories: journals that a version wrote, which every later one has to read. For each: what
`daybook export` prints and with which exit status is as recorded; an independent reader (read.py) prints the
same; reading changes nothing; an upgrade (opening a copy for writing) answers as recorded, and what is
repaired and backed up holds the same events.

usage: golden_test.py DAYBOOK [--record]"""
import filecmp
import json
import os
import shutil
import subprocess
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
BINARY = os.path.abspath(sys.argv[1])
ANSWERS = os.path.join(HERE, "answers.json")
KINDS = {"EVENT", "CLAIM", "SETTLE", "QUARANTINE", "ADMIN", "FORGET", "RELOCATE", "STATE", "TRIM", "LINK"}
FLAGS = {"HAS_EVENTS", "SYNC_REQUIRED", "LINK", "OPEN", "NOTE", "CLEAN"}


def run(*command, stdin=b""):
    return subprocess.run(command, input=stdin, stdout=subprocess.PIPE, stderr=subprocess.PIPE, check=False)


def names():
    return sorted(n for n in os.listdir(HERE) if os.path.exists(os.path.join(HERE, n, "FORMAT")))


def recorded(name):
    with open(os.path.join(HERE, name + ".ndjson"), "rb") as file:
        return file.read()


def ask(name):
    """What this version says of a directory, with a copy of it opened for writing."""
    directory = os.path.join(HERE, name)
    with tempfile.TemporaryDirectory() as scratch:
        copy = os.path.join(scratch, "copy")
        shutil.copytree(directory, copy)
        events = [json.loads(line) for line in run(BINARY, "export", "--data", copy).stdout.splitlines()]
        again = run(BINARY, "append", "--data", copy, "-", stdin=run(BINARY, "export", "--data", copy).stdout)
        after = run(BINARY, "export", "--data", copy).stdout
        return {"events": len(events), "export": run(BINARY, "export", "--data", directory).returncode,
                "verify": run(BINARY, "verify", directory).returncode, "append": again.returncode,
                "outcome": again.stdout.decode().strip(), "same_after": after == recorded(name)}


def test_answers(name):
    with open(ANSWERS, encoding="utf-8") as file:
        answers = json.load(file)
    done = run(BINARY, "export", "--data", os.path.join(HERE, name))
    assert done.stdout == recorded(name), done
    assert ask(name) == answers[name], (ask(name), answers[name])


def test_independent_reader(name):
    reader = run(sys.executable, os.path.join(HERE, "read.py"), os.path.join(HERE, name))
    export = run(BINARY, "export", "--data", os.path.join(HERE, name))
    assert reader.stdout == export.stdout, (reader, export)
    assert reader.returncode == export.returncode, (reader, export)


def test_repaired_and_backed_up(name):
    directory = os.path.join(HERE, name)
    with tempfile.TemporaryDirectory() as scratch:
        new, copy = os.path.join(scratch, "new"), os.path.join(scratch, "copy")
        whole = run(BINARY, "export", "--data", directory)
        repaired = run(BINARY, "repair", directory, "--out", new, "--json")
        kept = run(BINARY, "export", "--data", new).stdout.splitlines()
        assert repaired.returncode == (0 if whole.returncode == 0 else 3), repaired
        if whole.stdout:
            assert kept == whole.stdout.splitlines(), name
        else:
            assert len(kept) == 3, (name, kept)  # one of four is damaged
        backed = run(BINARY, "backup", "--data", directory, "--out", copy)
        assert backed.returncode == whole.returncode, backed
        if backed.returncode == 0:
            assert run(BINARY, "export", "--data", copy).stdout == whole.stdout
            first = "seg-0000000000000001.dbl"
            if os.path.exists(os.path.join(directory, first)):
                assert os.path.exists(os.path.join(copy, first))


def place(text):
    return tuple(int(n) for n in text.split(":"))


def test_dump_of_indexes_and_checkpoints():
    """An index lists what stands in its segment, in order; a checkpoint says what is stored, and of whom."""
    rows = [json.loads(line) for line in run(BINARY, "dump", os.path.join(HERE, "moved"), "--json").stdout.splitlines()]
    stands = []
    for row in rows:
        if row["kind"] == "frame" and "events" in row:
            segment, offset = place(row["at"])
            stands.append((segment, offset + (32 if row["type"] == "RELOCATE" else 24), row["events"][0]["position"]))
    indexed = [row["segment"] for row in rows if row["kind"] == "index"]
    listed = [(*place(row["at"]), row["position"]) for row in rows if row["kind"] == "entry"]
    assert len(indexed) == 3 and listed == [s for s in stands if s[0] in indexed], (listed, stands)
    relocated = [row["position"] for row in rows if row["kind"] == "entry" and row["relocated"]]
    assert {1, 2, 3} < set(relocated), relocated
    older, newest = [row for row in rows if row["kind"] == "checkpoint"]
    events = len(recorded("moved").splitlines())
    assert (older["stored"], newest["stored"]) == (events - 1, events), (older, newest)
    assert newest["relocated"] == newest["by_checkpoint"] == newest["operations"] == newest["quarantines"] == 1, newest
    ledger, archive = newest["consumers"]
    assert (ledger["name"], ledger["quarantined"], ledger["discarded"]) == ("ledger", 1, 0), ledger
    assert (archive["name"], archive["quarantined"], archive["discarded"]) == ("archive", 0, 1), archive
    assert os.path.exists(os.path.join(HERE, "moved", "ckpt-%08x%08x.dbc" % place(newest["at"])))


def flip(path):
    with open(path, "r+b") as file:
        data = file.read()
        file.seek(len(data) // 2)
        file.write(bytes([data[len(data) // 2] ^ 4]))


def test_indexes_and_checkpoints_that_rot():
    """One costs no event, and is named. Both checkpoints are refused where only they know; a repair goes on without."""
    helpers = sorted(n for n in os.listdir(os.path.join(HERE, "moved")) if n.endswith((".dbi", ".dbc")))
    checkpoints = [n for n in helpers if n.endswith(".dbc")]
    for hurt in [[n] for n in helpers] + [checkpoints]:
        with tempfile.TemporaryDirectory() as scratch:
            copy, new = os.path.join(scratch, "copy"), os.path.join(scratch, "new")
            shutil.copytree(os.path.join(HERE, "moved"), copy)
            for name in hurt:
                flip(os.path.join(copy, name))
            dumped = run(BINARY, "dump", copy, "--json")
            named = [row for row in map(json.loads, dumped.stdout.splitlines()) if row["kind"] == "damage"]
            assert dumped.returncode == 3 and len(named) == len(hurt), (hurt, named)
            assert run(BINARY, "verify", copy).returncode == 1, hurt
            export = run(BINARY, "export", "--data", copy)
            reader = run(sys.executable, os.path.join(HERE, "read.py"), copy)
            whole = recorded("moved") if hurt != checkpoints else b""
            assert export.stdout == reader.stdout == whole, (hurt, export.stderr, reader.stderr)
            assert export.returncode == reader.returncode == (0 if whole else 1), hurt
            repaired = run(BINARY, "repair", copy, "--out", new, "--json")
            assert repaired.returncode == (3 if hurt[0] in checkpoints else 0), (hurt, repaired)
            assert run(BINARY, "export", "--data", new).stdout == recorded("moved"), hurt


def delete(path):
    os.remove(path)


def overwrite(offset, data):
    def act(path):
        with open(path, "r+b") as file:
            file.seek(offset)
            file.write(data)
    return act


WOUNDS = {"file deleted": delete, "a byte of its LINK": overwrite(4170, b"\xff"),
          "a byte of its header": overwrite(2000, b"\xff"), "its first group zeroed": overwrite(4096, bytes(4096)),
          "three blocks zeroed": overwrite(5 * 4096, bytes(3 * 4096))}


def test_wounds_of_a_journal_of_many_segments(name):
    """Each segment hurt in each way: repaired, it opens; what a bookkeeping block held costs no event."""
    source = os.path.join(HERE, name)
    reference = recorded(name).splitlines()
    for segment in sorted(n for n in os.listdir(source) if n.endswith(".dbl")):
        for wound, act in WOUNDS.items():
            with tempfile.TemporaryDirectory() as scratch:
                hurt, new = os.path.join(scratch, "hurt"), os.path.join(scratch, "new")
                shutil.copytree(source, hurt)
                act(os.path.join(hurt, segment))
                where = f"{segment}, {wound}"
                verified = run(BINARY, "verify", hurt).returncode
                repaired = run(BINARY, "repair", hurt, "--out", new, "--json")
                rows = [json.loads(line) for line in repaired.stdout.splitlines()]
                assert repaired.returncode == (3 if verified else 0), (where, verified, repaired)
                kept = run(BINARY, "export", "--data", new)
                lines = kept.stdout.splitlines()
                gone = len([line for line in reference if line not in lines])
                told = rows[-1]["events_lost"] + rows[-1]["records_damaged"] + sum(
                    row["end"] - row["first"] for row in rows if row["kind"] == "missing")
                assert gone <= told, (where, gone, rows)
                if "deleted" not in wound and "blocks" not in wound:
                    assert gone == 0, (where, gone, rows)
                opened = run(BINARY, "append", "--data", new, "-", stdin=kept.stdout)
                assert opened.returncode == 0, (where, opened)


def test_every_kind_is_there():
    seen, flags = set(), set()
    for name in names():
        for line in run(BINARY, "dump", os.path.join(HERE, name), "--json").stdout.splitlines():
            row = json.loads(line)
            seen.update([row["type"]] if row["kind"] == "frame" else [])
            flags.update(row["flags"].split("|") if row["kind"] == "group" else [])
    assert seen == KINDS, seen ^ KINDS
    assert FLAGS <= flags, FLAGS - flags


def test_reading_writes_nothing():
    for name in names():
        with tempfile.TemporaryDirectory() as scratch:
            copy = os.path.join(scratch, "copy")
            shutil.copytree(os.path.join(HERE, name), copy)
            for command in (("export", "--data"), ("verify",), ("dump",)):
                run(BINARY, *command, copy)
            compared = filecmp.dircmp(os.path.join(HERE, name), copy)
            assert not (compared.left_only or compared.right_only or compared.diff_files), name


def record():
    answers = {}
    for name in names():
        with open(os.path.join(HERE, name + ".ndjson"), "wb") as file:
            file.write(run(BINARY, "export", "--data", os.path.join(HERE, name)).stdout)
        answers[name] = ask(name)
    with open(ANSWERS, "w", encoding="utf-8") as file:
        json.dump(answers, file, indent=1)
        file.write("\n")


def main():
    tests = [(f"{test.__name__} {name}", lambda t=test, n=name: t(n)) for name in names()
             for test in (test_answers, test_independent_reader, test_repaired_and_backed_up)]
    tests += [(test.__name__, test) for test in (test_every_kind_is_there, test_reading_writes_nothing,
                                               test_dump_of_indexes_and_checkpoints,
                                               test_indexes_and_checkpoints_that_rot)]
    wounds = test_wounds_of_a_journal_of_many_segments
    tests += [(f"{wounds.__name__} {name}", lambda n=name: wounds(n)) for name in ("trimmed", "moved")]
    print(f"1..{len(tests)}")
    failed = 0
    for title, test in tests:
        try:
            test()
            print(f"ok - {title}")
        except (AssertionError, OSError, ValueError, KeyError) as error:
            failed += 1
            print(f"# {error}"[:2000].replace("\n", "\n# "))
            print(f"not ok - {title}")
    return 1 if failed else 0


if "--record" in sys.argv:
    record()
else:
    sys.exit(main())
