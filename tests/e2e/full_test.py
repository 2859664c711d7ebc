#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A real daemon on a real, small file system (ext4 in a file, mounted by a loop device), full, failing, and under
a limit of file size. The file system needs root; without it those tests are skipped.

usage: full_test.py DAYBOOK SLOW_DISK [TEST...]"""
import contextlib
import errno
import fcntl
import os
import resource
import subprocess
import sys

import daybook_process as dp
from daybook_process import Daemon, Skip, event, ndjson, until

BINARY = sys.argv[1]
NDJSON = "application/x-ndjson"
MIB = 1 << 20
EXT4_SHUTDOWN = 0x8004587D  # EXT4_IOC_SHUTDOWN: from now on the file system answers EIO
NO_LOG_FLUSH = (2).to_bytes(4, "little")


def run(*command):
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False)
    if done.returncode != 0:
        raise Skip(f"{' '.join(command[:2])}: {done.stdout.decode(errors='replace').strip()}")


class SmallDisk:
    """`size` bytes of ext4 at `path`, which nothing but the test uses."""

    def __init__(self, directory, size):
        self.image = os.path.join(directory, "image")
        self.path = os.path.join(directory, "disk")
        os.mkdir(self.path)
        with open(self.image, "wb") as file:
            file.truncate(size)
        run("mkfs.ext4", "-q", "-m", "0", self.image)
        self.mount()

    def mount(self):
        run("mount", "-o", "loop", self.image, self.path)

    def unmount(self):
        subprocess.run(["umount", "-l", self.path], stderr=subprocess.DEVNULL, check=False)

    def fill(self, leave=0):
        """Takes what is free but for `leave` bytes; given back with `empty`."""
        free = os.statvfs(self.path).f_bavail * os.statvfs(self.path).f_frsize
        with open(os.path.join(self.path, "ballast"), "ab") as file:
            with contextlib.suppress(OSError):
                os.posix_fallocate(file.fileno(), file.tell(), max(free - leave, 4096))
            while True:  # to the last block, which fallocate may leave
                free = os.statvfs(self.path).f_bavail * os.statvfs(self.path).f_frsize
                if free <= leave:
                    return
                try:
                    file.write(b"x" * 4096)
                    file.flush()
                except OSError as error:
                    assert error.errno == errno.ENOSPC, error
                    return

    def empty(self):
        os.remove(os.path.join(self.path, "ballast"))

    def shut_down(self):
        descriptor = os.open(self.path, os.O_RDONLY)
        try:
            fcntl.ioctl(descriptor, EXT4_SHUTDOWN, NO_LOG_FLUSH)
        except OSError as error:
            raise Skip(f"this kernel does not shut ext4 down: {error}") from None
        finally:
            os.close(descriptor)


@contextlib.contextmanager
def on_small_disk(size=24 * MIB):
    """A daemon whose journal is on a small file system; its destination is not."""
    if os.geteuid() != 0:
        raise Skip("mounting a small file system needs root")
    with Daemon(BINARY, journal={"path": "disk/data", "min_free_disk": "64KiB", "max_bytes": "64MiB"}) as d:
        disk = SmallDisk(d.directory, size)
        try:
            yield d, disk
        finally:
            if d.process is not None and d.process.poll() is None:
                d.process.kill()
                d.process.wait()
            disk.unmount()


def batch(first, count=50):
    return ndjson([event(f"e{i}", f"key-{i % 16}", text="x" * 2000) for i in range(first, first + count)])


def append_until_refused(d, first):
    """Returns how many events were answered yes, from `first` on, and the answer that refused the next."""
    n = first
    while True:
        status, _, body = d.post(batch(n), NDJSON)
        if status != 200:
            assert status in (207, 503), body
            good = body["accepted"] + body["already_present"] if "accepted" in body else 0
            return n + good - first, body
        n += 50
        assert n < 100000


def first(d):
    """Fifty events, taken."""
    status, _, body = d.post(batch(0), NDJSON)
    assert (status, body["accepted"]) == (200, 50), (status, body)


def prepared(d):
    until("the next segment stands prepared", lambda: d.stats()["journal"]["file_bytes"] > 4 * MIB)


def refused_for(body, limit):
    text = str(body)
    return "at_capacity" in text and limit in text


def appends(d, n):
    return d.post(event(f"again-{n}"))[0] in (200, 201)


def test_A4_a_full_file_system():
    with on_small_disk() as (d, disk):
        d.start()
        ledger = d.lock_ledger()  # nothing is delivered while the disk fills
        stored, body = append_until_refused(d, 0)
        assert stored > 1000 and refused_for(body, "disk"), (stored, body)
        assert d.get("/readyz")[0] == 200
        disk.fill()
        ledger.release()
        d.drained()  # out of the reserve, with not a block left on the disk
        assert len(d.rows()) == stored == len(set(d.rows()))
        # P4: what was delivered is given up for it, ahead of its window.
        until("room is made", lambda: appends(d, 1), 10)
        assert d.metric('daybook_reclaimed_total{journal="main"}') > 0


def test_A4_ends_without_a_restart():
    with on_small_disk() as (d, disk):
        d.start()
        first(d)
        prepared(d)
        disk.fill()
        stored, body = append_until_refused(d, 50)
        assert refused_for(body, "disk"), body
        d.drained()
        disk.empty()
        until("appends are taken again", lambda: appends(d, 1), 10)
        d.drained()
        assert len(d.rows()) >= stored + 51


def test_A4_a_start_on_a_full_file_system():
    with on_small_disk() as (d, disk):
        d.start()
        first(d)
        d.drained()
        prepared(d)
        d.kill(9)
        d.wait()
        names = sorted(os.listdir(os.path.join(disk.path, "data")))
        assert "seg-0000000000000002.dbl" in names, names
        os.remove(os.path.join(disk.path, "data", "seg-0000000000000002.dbl"))  # as if it had never been prepared
        disk.fill()
        d.start()
        assert d.get("/readyz")[0] == 503, d.log()
        assert d.post(event("late"))[0] == 503
        disk.empty()
        until("the journal opens without a restart", lambda: d.get("/readyz")[0] == 200, 60)
        assert d.post(event("late"))[0] in (200, 201)
        d.drained()
        assert len(d.rows()) == 51


def test_A7_a_file_system_that_dies_and_comes_back():
    with on_small_disk() as (d, disk):
        d.start()
        first(d)
        d.drained()
        disk.shut_down()
        status, _, body = d.post(event("unknown"))
        assert status == 503, body
        until("the journal has failed", lambda: d.get("/readyz")[0] == 503)
        disk.unmount()
        until("nobody makes a new journal of an empty directory", lambda: "is not there any more" in d.log(), 60)
        assert os.listdir(disk.path) == []
        disk.mount()
        until("the journal is reopened", lambda: d.get("/readyz")[0] == 200, 60)
        assert d.post(event("unknown"))[0] in (200, 201)
        assert d.post(batch(0), NDJSON)[2]["already_present"] == 50
        d.drained()
        assert len(d.rows()) == 51


def test_A4_a_limit_of_file_size():
    with Daemon(BINARY) as d:
        soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
        resource.setrlimit(resource.RLIMIT_FSIZE, (5 * MIB, hard))  # the third segment has 8 MiB
        try:
            d.start()
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
        stored, body = append_until_refused(d, 0)
        assert stored > 300 and refused_for(body, "disk"), (stored, body)
        d.drained()
        assert d.process.poll() is None  # not killed by SIGXFSZ
        assert len(d.rows()) == stored
        # What the operator does: lifts the limit. It is looked at again without a restart.
        resource.prlimit(d.process.pid, resource.RLIMIT_FSIZE, (soft, hard))
        until("appends are taken again", lambda: appends(d, 1), 10)


sys.exit(dp.run_tests(globals(), sys.argv[3:]))
