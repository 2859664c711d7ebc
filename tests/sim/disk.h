/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A simulated disk behind the seam (`struct dbk_os`), with the fault model that the log engine is
 * built for: what was not synced may be lost, in part, in any mixture.
 *
 * Each file has two images: the *cache*, which every process sees, and the *medium*, which survives
 * power. A write changes the cache and is remembered as unsynced; fdatasync and fsync move what is
 * remembered (data and size) to the medium. Names have the same two sides: create, rename, unlink and
 * mkdir change what is seen at once and what survives only after fsync_dir of that directory; fsync of
 * a new file does not make its name durable.
 *
 * Every call that a kernel would do I/O for is a *step*. From step `crash_at` on the process is dead:
 * every call fails with EIO and changes nothing, until `sim_kill` (the cache stays) or `sim_power_cut`
 * (only the medium and what the profile keeps of the rest stays) brings the machine back.
 *
 * A failed sync behaves as ext4 and xfs do (Rebello et al., USENIX ATC 2020): the pages are marked
 * clean, the cache keeps the new content (or, where `failed_sync_reverts`, shows the old one), the medium has
 * the old one, and the next sync returns 0. A sync
 * that was interrupted (EINTR) changes nothing.
 *
 * Memory that runs out ends the test. Threads: one at a time per disk.
 */
#ifndef SIM_DISK_H
#define SIM_DISK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "base/os.h"

#define SIM_SECTOR_BYTES 512u

/* The kinds of step. */
enum sim_call {
    SIM_ANY,
    SIM_OPEN,
    SIM_CLOSE,
    SIM_PWRITE,
    SIM_PREAD,
    SIM_FDATASYNC,
    SIM_FSYNC,
    SIM_FSYNC_DIR,
    SIM_FALLOCATE,
    SIM_FTRUNCATE,
    SIM_DROP_CACHE,
    SIM_RENAME,
    SIM_UNLINK,
    SIM_MKDIR,
    SIM_LIST,
    SIM_STAT,
    SIM_STATFS,
    SIM_LOCK,
    SIM_CALL_COUNT
};

/* What a power cut keeps of what was not synced. The sectors of a write are judged one by one and each
 * file for itself; size changes and the operations of a directory are kept as a prefix in order, but for
 * SIM_KEEP_ANY. */
enum sim_profile {
    SIM_KEEP_NOTHING,
    SIM_KEEP_ALL,
    SIM_KEEP_LAST_WRITE, /* of each file; names and sizes are kept */
    SIM_KEEP_SUBSET,     /* drawn from the seed */
    SIM_KEEP_PREFIX,     /* of all changes of the disk in order; the last write is torn */
    SIM_KEEP_PAGES,      /* as SUBSET, in units of 4 KiB */
    SIM_KEEP_ANY,        /* as SUBSET, size changes and names too in any mixture */
    SIM_PROFILE_COUNT
};

enum sim_trouble {
    SIM_FAIL_ONCE,    /* the call fails with `os_errno` and does nothing (a sync: see above) */
    SIM_FAIL_STICKY,  /* so does every later one that matches */
    SIM_SHORT_STICKY, /* as SHORT_ONCE, each time */
    SIM_SHORT_ONCE /* a pwrite or pread does `short_bytes` less than it could (a pread at least 1) */
};

/* Trouble for the nth matching call, counted from the moment it is injected (1: the next one). */
struct sim_injection {
    enum sim_trouble trouble;
    enum sim_call call;    /* SIM_ANY: every kind */
    const char *name_part; /* only files whose name has this in it; NULL: all; borrowed */
    uint64_t nth;
    int os_errno; /* positive */
    size_t short_bytes;
};

/* Which side of the disk. */
enum sim_side { SIM_CACHE, SIM_MEDIUM };

struct sim_store;

/* Fields above `store_` are the test's to set and read. */
struct sim_disk {
    struct dbk_os os;               /* give &disk->os to the engine */
    int64_t realtime_us;            /* moved by the test, and by sleep */
    int64_t monotonic_us;           /* likewise */
    uint64_t space_bytes;           /* of the whole disk; beyond it ENOSPC */
    uint64_t steps;                 /* so far */
    uint64_t crash_at;              /* this step and all after it fail; 0: none */
    uint64_t syncs_failed;          /* that took unsynced data with them */
    uint64_t troubles;              /* that were injected and came */
    bool beside;                    /* the test itself looks: no steps, no trouble */
    bool failed_sync_reverts;       /* the cache shows the medium again after it, as on btrfs */
    bool dead;                      /* crash_at was reached */
    uint64_t calls[SIM_CALL_COUNT]; /* steps by kind */
    FILE *trace;                    /* NULL, or where each step is printed */
    struct sim_store *store_;
};

/* Makes an empty disk with a root directory. Owned: release with sim_disk_free. */
struct sim_disk *sim_disk_new(uint64_t seed);
void sim_disk_free(struct sim_disk *disk);
/* A second disk in the same state, open files, locks and armed trouble included. Owned. */
struct sim_disk *sim_disk_clone(const struct sim_disk *disk);

/* The process is gone: files are closed, locks are free, the cache stays. The disk works again, and
 * nothing is armed any more. */
void sim_kill(struct sim_disk *disk);
/* Power is gone and back: as sim_kill, and of what was not synced stays what the profile says. */
void sim_power_cut(struct sim_disk *disk, enum sim_profile profile, uint64_t seed);
/* Forgets what the cache holds of every file, as far as it is clean. */
void sim_drop_caches(struct sim_disk *disk);

/* Arms one trouble more (at most 8). */
void sim_inject(struct sim_disk *disk, struct sim_injection injection);
/* Disarms all. */
void sim_calm(struct sim_disk *disk);

/* Rot: changes the medium under everybody; seen when the cache was dropped or lost. The path must
 * exist on the medium and the place lie in the file, else the test is wrong and ends. */
void sim_flip_bit(struct sim_disk *disk, const char *path, uint64_t offset, unsigned bit);
void sim_zero_sector(struct sim_disk *disk, const char *path, uint64_t sector);
void sim_copy_sector(struct sim_disk *disk, const char *path, uint64_t to, uint64_t from);

/* Beside the engine, without steps. The bytes of a file as one side has them, borrowed until the disk
 * is used again; NULL when it is not there. */
const uint8_t *sim_bytes(const struct sim_disk *disk, enum sim_side side, const char *path,
                         uint64_t *ret_size);
/* Makes or replaces a file on both sides, durable, with its name; its directory must exist. */
void sim_put_file(struct sim_disk *disk, const char *path, const void *bytes, size_t len);
/* Takes a file away on both sides. */
void sim_remove_file(struct sim_disk *disk, const char *path);
/* Calls `visit` with the whole path of every file and directory of one side. */
void sim_each(const struct sim_disk *disk, enum sim_side side,
              void (*visit)(void *user, const char *path, enum dbk_file_kind kind), void *user);
/* Whether one side of two disks differs in a name, a size or a byte; where, for people. */
bool sim_differs(const struct sim_disk *a, const struct sim_disk *b, enum sim_side side,
                 char *ret_where, size_t size);

/* A number from *state, which moves on (splitmix64): for tests that draw. */
uint64_t sim_draw(uint64_t *state);

#endif
