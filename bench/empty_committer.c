/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The empty committer and the bare disk of empty_committer.h. Appends come from any thread; exactly one
 * at a time commits, whoever set `busy`.
 */
#include "empty_committer.h"

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/thread.h"
#include "bench.h"

enum {
    BLOCK_BYTES = 4096,
    FILE_BYTES = 64 * 1024 * 1024,
    ZERO_BYTES = 1024 * 1024,
    BARE_BYTES_MAX = 4 * 1024 * 1024
};

/* A zero-filled file: every block of it is there, so that a sync writes data and no metadata. */
static int make_file(const char *path)
{
    void *zeros = calloc(1, ZERO_BYTES);
    int file = open(path, O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);

    if (file < 0 || zeros == NULL) {
        bench_die("%s: cannot be made", path);
    }
    for (off_t at = 0; at < FILE_BYTES; at += ZERO_BYTES) {
        if (pwrite(file, zeros, ZERO_BYTES, at) != ZERO_BYTES) {
            bench_die("%s: cannot be filled", path);
        }
    }
    if (fsync(file) != 0) {
        bench_die("%s: cannot be synced", path);
    }
    free(zeros);
    return file;
}

/* One of two buffers. A waiter of its n-th group waits until `done` is n: a later group of the same
 * buffer cannot be mistaken, and one of the other buffer wakes nobody here. */
struct stage {
    char *memory;
    size_t len;
    uint32_t group;        /* the number of the group that it holds or will hold */
    _Atomic uint32_t done; /* the number of the last group of it that is durable */
};

struct empty_committer {
    int file;
    off_t offset;
    uint64_t syncs;
    struct dbk_mutex lock;
    struct stage stages[2];
    struct stage *open;
    bool busy;
    size_t stage_bytes;
    _Atomic uint32_t word;
    _Atomic uint32_t stop;
    struct dbk_thread committer;
};

/* Busy. False: nothing is staged. */
static bool commit_once(struct empty_committer *empty)
{
    dbk_mutex_lock(&empty->lock);
    struct stage *stage = empty->open;
    if (stage->len == 0) {
        dbk_mutex_unlock(&empty->lock);
        return false;
    }
    empty->open = stage == &empty->stages[0] ? &empty->stages[1] : &empty->stages[0];
    dbk_mutex_unlock(&empty->lock);

    size_t len = (stage->len + BLOCK_BYTES - 1) / BLOCK_BYTES * BLOCK_BYTES;
    if (empty->offset + (off_t)len > FILE_BYTES) {
        empty->offset = 0;
    }
    if (pwrite(empty->file, stage->memory, len, empty->offset) != (ssize_t)len ||
        fdatasync(empty->file) != 0) {
        bench_die("the empty committer cannot write");
    }
    empty->offset += (off_t)len;
    empty->syncs++;
    stage->len = 0; /* nobody stages in it before it is the open one again */
    uint32_t group = stage->group++;
    atomic_store(&stage->done, group);
    dbk_futex_wake_all(&stage->done);
    return true;
}

static bool give_busy_back(struct empty_committer *empty)
{
    dbk_mutex_lock(&empty->lock);
    bool empty_now = empty->open->len == 0;
    if (empty_now) {
        empty->busy = false;
    }
    dbk_mutex_unlock(&empty->lock);
    return empty_now;
}

static void *committer_run(void *arg)
{
    struct empty_committer *empty = arg;
    uint32_t seen = 0;
    for (;;) {
        uint32_t word = atomic_load(&empty->word);
        if (word == seen) {
            if (atomic_load(&empty->stop) != 0) {
                return NULL;
            }
            dbk_futex_wait(&empty->word, seen, -1);
            continue;
        }
        seen = word;
        do {
            (void)commit_once(empty);
        } while (!give_busy_back(empty));
    }
}

void empty_committer_append(struct empty_committer *empty, const void *frame, size_t frame_bytes,
                            size_t count)
{
    dbk_mutex_lock(&empty->lock);
    struct stage *stage = empty->open;
    if (stage->len + frame_bytes * count > empty->stage_bytes) {
        bench_die("the stage of the empty committer is too small");
    }
    for (size_t i = 0; i < count; i++) {
        memcpy(stage->memory + stage->len, frame, frame_bytes);
        stage->len += frame_bytes;
    }
    uint32_t group = stage->group;
    bool mine = !empty->busy;
    empty->busy = true;
    dbk_mutex_unlock(&empty->lock);

    if (mine) {
        (void)commit_once(empty);
        if (!give_busy_back(empty)) {
            atomic_fetch_add(&empty->word, 1);
            dbk_futex_wake_one(&empty->word);
        }
    }
    for (;;) {
        uint32_t done = atomic_load(&stage->done);
        if ((int32_t)(done - group) >= 0) {
            return;
        }
        dbk_futex_wait(&stage->done, done, -1);
    }
}

struct empty_committer *empty_committer_open(const char *path, size_t stage_bytes)
{
    struct empty_committer *empty = calloc(1, sizeof *empty);
    size_t room = (stage_bytes / BLOCK_BYTES + 1) * BLOCK_BYTES;

    if (empty == NULL || room > FILE_BYTES) {
        bench_die("no memory for the empty committer");
    }
    empty->file = make_file(path);
    empty->stage_bytes = stage_bytes;
    dbk_mutex_init(&empty->lock, DBK_RANK_STAGE);
    for (unsigned i = 0; i < 2; i++) {
        empty->stages[i].memory = calloc(1, room);
        empty->stages[i].group = 1;
        if (empty->stages[i].memory == NULL) {
            bench_die("no memory for the empty committer");
        }
    }
    empty->open = &empty->stages[0];
    if (dbk_thread_start(&empty->committer, "empty", committer_run, empty) != 0) {
        bench_die("no thread for the empty committer");
    }
    return empty;
}

uint64_t empty_committer_syncs(const struct empty_committer *empty)
{
    return empty->syncs;
}

void empty_committer_close(struct empty_committer *empty)
{
    atomic_store(&empty->stop, 1);
    atomic_fetch_add(&empty->word, 1);
    dbk_futex_wake_one(&empty->word);
    dbk_thread_join(&empty->committer);
    (void)close(empty->file);
    dbk_mutex_release(&empty->lock);
    free(empty->stages[0].memory);
    free(empty->stages[1].memory);
    free(empty);
}

struct bare_disk {
    int file;
    off_t offset;
    size_t bytes; /* of one write */
    char *memory;
};

struct bare_disk *bare_disk_open(const char *path)
{
    struct bare_disk *disk = calloc(1, sizeof *disk);

    if (disk == NULL || (disk->memory = malloc(BARE_BYTES_MAX)) == NULL) {
        bench_die("no memory for the bare disk");
    }
    memset(disk->memory, 'x', BARE_BYTES_MAX);
    disk->bytes = BLOCK_BYTES;
    disk->file = make_file(path);
    return disk;
}

void bare_disk_carry(struct bare_disk *disk, size_t bytes)
{
    disk->bytes = (bytes + BLOCK_BYTES - 1) / BLOCK_BYTES * BLOCK_BYTES;
    if (disk->bytes > BARE_BYTES_MAX) {
        bench_die("the bare disk carries at most %d bytes a write", BARE_BYTES_MAX);
    }
}

double bare_disk_run(void *user, double seconds)
{
    struct bare_disk *disk = user;
    double began = bench_now_s();
    double now;
    uint64_t done = 0;

    do {
        if (disk->offset + (off_t)disk->bytes > FILE_BYTES) {
            disk->offset = 0;
        }
        if (pwrite(disk->file, disk->memory, disk->bytes, disk->offset) != (ssize_t)disk->bytes ||
            fdatasync(disk->file) != 0) {
            bench_die("the bare disk cannot be written");
        }
        disk->offset += (off_t)disk->bytes;
        done++;
        now = bench_now_s();
    } while (now - began < seconds);
    return (double)done / (now - began);
}

void bare_disk_close(struct bare_disk *disk)
{
    (void)close(disk->file);
    free(disk->memory);
    free(disk);
}
