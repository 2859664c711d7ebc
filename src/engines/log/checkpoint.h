/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Checkpoints: the state at a place of the log, so that a start reads only what came behind it.
 *
 * The copy is taken under one hold of state and stage, at the seal of a group or while nobody commits; it
 * is written by the housekeeper, and has its name only once it is on disk and the log is, up to where it
 * stands: it never describes more than the durable log. The newest two are kept, so that a damaged one
 * costs time, no event.
 */
#ifndef DBK_ENGINES_LOG_CHECKPOINT_H
#define DBK_ENGINES_LOG_CHECKPOINT_H

#include "base/os.h"
#include "engines/log/sections.h"

struct dbk_log;

enum { DBK_CHECKPOINTS_KEPT = 2 };

/* How far the one under way is. */
enum dbk_checkpoint_phase {
    DBK_CHECKPOINT_NONE,
    DBK_CHECKPOINT_WANTED, /* the next seal takes the copy */
    DBK_CHECKPOINT_SHORT,  /* it did not fit its memory */
    DBK_CHECKPOINT_TAKEN   /* to be written */
};

/* What a handle knows of its checkpoints and indexes. */
struct dbk_checkpoints {
    enum dbk_checkpoint_phase phase; /* [stage] */
    struct dbk_image image;          /* [stage] while WANTED; else the housekeeper's */
    uint64_t lsn;                    /* likewise: where the copy stands */
    uint64_t taken_frames;           /* likewise: frames written up to there */
    uint64_t taken_bytes;
    void *memory; /* housekeeper: of the image */
    /* housekeeper, or whoever opens and closes */
    uint64_t kept[DBK_CHECKPOINTS_KEPT]; /* LSN of valid ones, the newest first; 0: none */
    uint64_t kept_bytes[DBK_CHECKPOINTS_KEPT];
    uint64_t frames;    /* that the newest one covers */
    uint64_t bytes;     /* likewise */
    int64_t written_us; /* monotonic, of the last one, or of the opening */
    int64_t failed_us;  /* monotonic; DAYBOOK_TIME_UNSET: the last one did not */
    bool hurried;       /* due as soon as anything changed: room is needed */
    int64_t index_failed_us;
    _Atomic uint32_t bad_checkpoints; /* found at the opening */
    _Atomic uint32_t bad_indexes;     /* likewise, missing ones not counted */
    _Atomic uint64_t resumed_lsn; /* of the one that the opening used; 0: the whole log was read */
};

void dbk_checkpoints_init(struct dbk_log *log);
void dbk_checkpoints_release(struct dbk_log *log);

/* [state+stage] Takes the copy, if one is wanted: everything before `lsn` is applied and nothing else. */
void dbk_checkpoint_take(struct dbk_log *log, uint64_t lsn);
/* Memory for a copy, and the wish for one: the next seal takes it. False: no memory. Housekeeper. */
bool dbk_checkpoint_want(struct dbk_log *log);
/* One step of what is due. Returns whether anything was done. Housekeeper. */
bool dbk_checkpoint_round(struct dbk_log *log);
/* Writes two of them behind what stands in the log now, so that dbk_checkpoint_covers all that is sealed.
 * Whoever writes them is the housekeeper, who waits for nothing else meanwhile. */
void dbk_checkpoint_twice(struct dbk_log *log);
/* Busy, everything synced, nobody else there: writes one if anything changed since the last. A failure
 * costs time at the next opening and nothing else. */
void dbk_checkpoint_at_close(struct dbk_log *log);
/* Whether everything in a segment is older than the older of the two that are kept, so that no start that
 * may still be asked for needs its frames. Housekeeper. */
bool dbk_checkpoint_covers(const struct dbk_log *log, uint32_t segment_no);

/* A checkpoint file in memory, decoded. */
struct dbk_checkpoint_file {
    uint64_t lsn; /* as in its name */
    uint8_t *bytes;
    size_t len;
    struct dbk_checkpoint decoded;
};
void dbk_checkpoint_file_free(struct dbk_checkpoint_file *file);
/* The LSN in the name of a checkpoint. False: it is none. */
bool dbk_checkpoint_lsn(const char *name, uint64_t *ret);
/* Reads one and checks everything in it. DAMAGED, NOT_FOUND (it is gone), BACKEND (the device gives an error),
 * NEWER_FORMAT, NO_MEMORY. `uuid` of the journal. */
enum daybook_code dbk_checkpoint_read(const struct dbk_os *os, const char *path, uint64_t lsn,
                                      const uint8_t uuid[16], struct dbk_checkpoint_file *ret,
                                      struct daybook_error *err);
/* LSNs of the checkpoints in a directory, the highest first, at most `max`. Returns how many there are,
 * or -errno. */
int dbk_checkpoints_list(const struct dbk_os *os, const char *path, uint64_t *ret, uint32_t max);

/* Ends a new file: `rc` below 0 gives it up, else it is made durable and gets its name. Returns 0 or
 * -errno. */
int dbk_file_finish(const struct dbk_log *log, int file, int rc, const char *temporary,
                    const char *name);

#endif
