/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A new log in one go, out of the frames of an old one: groups as large as they may be, segments one
 * behind the other, each with its LINK and STATE, a CLEAN at the end. Nothing reads the directory before
 * it is whole, so that it is synced segment by segment. Threads: owner.
 */
#ifndef DBK_ENGINES_LOG_REWRITE_H
#define DBK_ENGINES_LOG_REWRITE_H

#include "engines/log/log_impl.h"

struct dbk_rewrite {
    struct dbk_log *log; /* whose memory the STATEs restate; its path is the old directory's */
    const char *path;    /* the new directory */
    uint32_t epoch;
    struct dbk_tail tail;
    uint8_t *group; /* under way */
    size_t used;    /* bytes of frames in it */
    uint32_t group_events;
    uint64_t bytes; /* written */
};

/* FORMAT and the first segment. `log`: identity, segment_bytes, group_max and state are set. */
enum daybook_code dbk_rewrite_begin(struct dbk_rewrite *rewrite, struct daybook_error *err);
/* Adds a frame as it stands (header and body). To be called before the log's memory has taken it in: a
 * segment that begins here restates what was before. */
enum daybook_code dbk_rewrite_put(struct dbk_rewrite *rewrite, const uint8_t *frame,
                                  struct daybook_error *err);
/* CLEAN; everything is on disk. */
enum daybook_code dbk_rewrite_end(struct dbk_rewrite *rewrite, struct daybook_error *err);
/* Whenever begin was called. */
void dbk_rewrite_release(struct dbk_rewrite *rewrite);

/* Makes a file with this content, durable; its name is not. Returns 0 or -errno. */
int dbk_write_new(const struct dbk_os *os, const char *path, const uint8_t *bytes, size_t len);

/* A directory that has its name only once it is whole. */
struct dbk_new_directory {
    const struct dbk_os *os;
    const char *path; /* borrowed */
    char partial[DBK_LOG_PATH_MAX];
};
/* Makes `path`.partial. BAD_ARGUMENT: one of the two is there; BACKEND. */
enum daybook_code dbk_new_directory_begin(struct dbk_new_directory *fresh, const struct dbk_os *os,
                                          const char *path, struct daybook_error *err);
/* Its files are on disk: makes their names durable, and gives it its own. */
enum daybook_code dbk_new_directory_end(const struct dbk_new_directory *fresh,
                                        struct daybook_error *err);

#endif
