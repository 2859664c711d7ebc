/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The empty committer: the least that a group commit can do, and so the bound of the log engine. The
 * stage lock, a copy of the same bytes, one write, one fdatasync, one wake; nothing is checked, hashed,
 * indexed or answered. Its shape is the engine's: two stage buffers, a committer thread of its own, an
 * inline path for a caller that finds it idle, groups of whole blocks into a zero-filled file.
 */
#ifndef DBK_BENCH_EMPTY_COMMITTER_H
#define DBK_BENCH_EMPTY_COMMITTER_H

#include <stddef.h>
#include <stdint.h>

struct empty_committer;

/* Makes the file and starts the thread. @param stage_bytes most that is ever staged at once. */
struct empty_committer *empty_committer_open(const char *path, size_t stage_bytes);
/* Stages `count` frames, each a copy of `frame`, and waits until they are durable. Threads: any. */
void empty_committer_append(struct empty_committer *empty, const void *frame, size_t frame_bytes,
                            size_t count);
/* Groups so far. Nobody appends meanwhile. */
uint64_t empty_committer_syncs(const struct empty_committer *empty);
void empty_committer_close(struct empty_committer *empty);

/* The bare disk: one write after the other, each synced before the next; one block a write at first. */
struct bare_disk;
struct bare_disk *bare_disk_open(const char *path);
/* From now on a write carries so many bytes: what is in flight, all of it on one sync. */
void bare_disk_carry(struct bare_disk *disk, size_t bytes);
/* Returns writes a second. `user` is a bare disk: of the shape of bench_side.run. */
double bare_disk_run(void *user, double seconds);
void bare_disk_close(struct bare_disk *disk);

#endif
