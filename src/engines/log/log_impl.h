/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The log engine's handle and the parts that its files share. Who does what:
 *
 *   log.c       open, close, and the operations of the journal interface
 *   append.c    submit, append, append queues: from an event to a staged frame to an answer
 *   commit.c    the stage and the group commit: what is staged is written, synced, published
 *   delivery.c  claims, verdicts, registration: decided, staged and applied under one hold
 *   operators.c start, release, discard, retire, rewind, their trail, what is quarantined
 *   segment.c   files: preparation ahead, the table of open files, trimming
 *   housekeep.c what happens on its own time: preparation, the 100 ms sync, the NOTE, trimming
 *   checkpoint.c, segment_index.c  the state at a place, and what stands in a sealed segment
 *   relocate.c  what is needed of a segment that holds little is copied to the end of the log
 *   scan.c      reading a directory's log group by group, and the rule of the tail
 *   recovery.c  from what scan.c reads to a state, and the first write of a new epoch
 *   resume.c    from a checkpoint and indexes to a state
 *   verify.c    every byte checked, nothing written
 *   state.c ... the memory (see state.h); format.c the bytes (see format.h)
 *
 * Locks: state -> stage -> segments -> queue (docs/THREADS.md). Fields stand under the lock that
 * guards them. `busy` is no lock: whoever set it owns the tail until it is cleared or handed on.
 */
#ifndef DBK_ENGINES_LOG_LOG_IMPL_H
#define DBK_ENGINES_LOG_LOG_IMPL_H

#include <stdatomic.h>

#include <daybook/log.h>

#include "base/os.h"
#include "base/thread.h"
#include "engines/log/checkpoint.h"
#include "engines/log/format.h"
#include "engines/log/places.h"
#include "engines/log/state.h"
#include "journal/engine.h"

enum {
    DBK_LOG_PATH_MAX = 4096,
    DBK_STAGED_MAX = 8192,        /* events in one stage buffer */
    DBK_FORGET_RANGES_MAX = 8192, /* chosen at one seal */
    DBK_ORPHANS_MAX = 4096,
    DBK_PRUNE_AT_APPEND = 64,  /* P3 */
    DBK_SYNC_LAZY_US = 100000, /* K7: written delivery state is synced at most this later */
    DBK_OPEN_FILES_MAX = 128,
    DBK_SETTLE_STEP = 256, /* verdicts decided under one hold */
    DBK_READ_STEP = DAYBOOK_CLAIM_EVENTS_MAX,
    DBK_WALKS_MAX = 4 /* kept ready for claims side by side */
};

/* How far a group has come. Only grows; FAILED is final. */
enum dbk_group_phase { DBK_PHASE_STAGED, DBK_PHASE_WRITTEN, DBK_PHASE_DONE, DBK_PHASE_FAILED };

/* What waiters hold on to: outlives the buffer, until the last of them has read its answer. */
struct dbk_group {
    _Atomic uint32_t written; /* futex: a phase, for those who wait for WRITTEN */
    _Atomic uint32_t done;    /* futex: a phase, for those who wait for DONE */
    _Atomic uint32_t refs;
    _Atomic uint32_t written_waiters;
    uint64_t cut_from;           /* positions from here on were cut: at_capacity */
    uint64_t retained;           /* with a cut */
    struct dbk_group *next_free; /* [stage] */
};

/* An event in a stage buffer. */
struct dbk_staged {
    uint64_t position;
    uint64_t id_hash;
    uint64_t key_hash;
    int64_t observed_at_us;
    int64_t accepted_at_us;
    uint32_t offset; /* of the entry in the event area */
    uint32_t entry_bytes;
    uint32_t payload_bytes;
    uint16_t row_version;
};

/* One of the two stage buffers; the open one is filled under the stage lock, the frozen one belongs to
 * whoever is busy. */
struct dbk_stage {
    uint8_t *memory;   /* a whole group: header, delivery area, event area */
    uint8_t *delivery; /* frames other than events, in order of decision */
    size_t delivery_len;
    size_t events_len;
    struct dbk_staged *staged;
    uint32_t staged_count;
    uint32_t number_base;   /* staged number in the id index: base + i */
    uint32_t forget_needed; /* events that fit only if a delivered one is given up */
    int64_t now_us;         /* of the last event staged */
    uint64_t first_lsn;     /* of the event area, once sealed */
    bool sync_required;
    bool has_records; /* frames whose places are noted: QUARANTINE, ADMIN */
    struct dbk_group *group;
    struct daybook_submission *submissions; /* whose events are in it, or who wait for its end */
    struct daybook_submission **submissions_tail;
};

/* A segment file that is part of the log, or prepared to become so. */
struct dbk_segment {
    uint32_t segment_no;
    uint32_t size_bytes;
    int file;                     /* -1: not open for reading now */
    uint32_t end;                 /* where the log goes on in its successor; 0: not sealed */
    uint64_t index_bytes;         /* of its index; 0: there is none */
    bool no_index;                /* none can be made: the segment is damaged */
    bool bad_index;               /* what an opening found: to be made again */
    uint32_t pins;                /* it may not be removed */
    uint32_t readers;             /* its file may not be closed */
    uint64_t used;                /* for closing the least recently used */
    int64_t leave_alone_until_us; /* monotonic: not relocated before */
};

/* Everything about where the next group goes. Owned by whoever is busy. */
struct dbk_tail {
    int file;
    uint32_t segment_no;
    uint32_t segment_bytes;
    uint32_t offset;
    uint64_t salt;
    uint64_t group_no; /* of the last group */
    uint32_t prev_hcrc;
    uint64_t durable_lsn;
    int64_t first_unsynced_us; /* monotonic; DAYBOOK_NO_DEADLINE: nothing unsynced */
    int64_t last_sync_us;
    bool noted;      /* a NOTE stands behind the last synced group */
    uint64_t events; /* in this segment */
    uint64_t frames;
};

/* A prepared segment behind the tail. */
struct dbk_spare {
    int file; /* -1: none */
    uint32_t segment_no;
    uint32_t segment_bytes;
    uint64_t salt;
};

/* Which threads are to end. */
enum dbk_stop { DBK_STOP_NONE, DBK_STOP_HOUSEKEEPER, DBK_STOP_ALL };

/* Why there is no spare. */
enum dbk_space {
    DBK_SPACE_OK,
    DBK_SPACE_MAKING, /* there was no room, and some is being made */
    DBK_SPACE_NO_BYTES,
    DBK_SPACE_NO_DISK
};

struct dbk_log {
    struct daybook_journal head;
    const struct dbk_os *os;
    char path[DBK_LOG_PATH_MAX];
    enum daybook_log_threads threads;
    bool read_only;
    bool append_only; /* nothing is delivered: no segment ahead of need, no reserve of its own */
    uint64_t read_end_lsn; /* read only: the log is read up to here; 0: to its end */
    uint64_t bytes_max;
    uint64_t free_disk_min;
    uint32_t segment_bytes; /* full size */
    uint32_t group_max;
    uint32_t delivery_area; /* bytes of a group for frames that are not events */
    uint32_t event_area;
    uint32_t young_bytes; /* size of segment 1 */
    struct dbk_identity identity;
    int lock_file;
    uint32_t epoch;
    _Atomic uint32_t failed; /* 1: FAILED; `failure` is complete then */
    struct daybook_error failure;

    struct dbk_mutex state_lock;
    struct dbk_state *state;
    uint64_t next_token;
    struct dbk_places places;
    struct dbk_walk *walks[DBK_WALKS_MAX];
    struct dbk_since_opening {
        uint32_t consumer; /* 0: free */
        int64_t at_us;     /* DAYBOOK_TIME_UNSET: none */
        uint64_t quarantined[DAYBOOK_QUARANTINE_REASONS];
    } since_opening[DAYBOOK_CONSUMERS_MAX]; /* what is known of consumers since the opening */
    _Atomic uint64_t read_errors;           /* of claims, since the opening */
    _Atomic int64_t read_error_at_us;       /* of the newest; DAYBOOK_TIME_UNSET: none */
    int64_t brake_base_us;                  /* P3: newest acceptance when .. */
    int64_t brake_base_mono_us;             /* .. the monotonic clock stood here */
    int64_t brake_since_mono_us; /* when now first stood beyond; DAYBOOK_NO_DEADLINE: it does not */
    struct dbk_forget_list forget; /* scratch of a seal or a maintenance step */
    struct dbk_orphan *orphans;
    struct dbk_histogram_pair {
        struct daybook_histogram commit_us;
        struct daybook_histogram batch;
    } histograms;

    struct dbk_mutex compare_lock;
    uint8_t *compare_buffer; /* a stored entry, for a repeated id */

    struct dbk_mutex stage_lock;
    struct dbk_stage stages[2];
    struct dbk_stage *open_stage;
    struct dbk_stage *frozen; /* in flight, NULL: none */
    bool busy;
    uint64_t next_position;
    uint16_t row_version; /* of what is appended; tests play a newer build */
    int64_t newest_accepted_at_us;
    uint32_t staged_total;    /* staged and not published */
    uint32_t tail_room;       /* bytes of the tail segment that no sealed group has taken */
    uint32_t tail_segment_no; /* where the newest sealed group goes */
    uint32_t tail_segment_bytes;
    struct dbk_spare spare;
    enum dbk_space space;
    bool disk_low; /* less than free_disk_min is left: no appends */
    struct dbk_group *free_groups;
    struct daybook_submission *stalled; /* wait for space */
    _Atomic uint32_t space_word;        /* futex: changes with spare, space, tail_room */

    struct dbk_tail tail; /* busy */
    uint8_t *link_memory; /* busy: the LINK group of a switch */

    struct dbk_mutex segments_lock;
    struct dbk_segment *segments; /* ascending */
    uint32_t segment_count;
    uint32_t segment_room;
    uint32_t open_files;
    uint64_t use_counter;
    uint32_t trim_lowest;      /* housekeeper: named by the newest durable TRIM */
    uint32_t uncached_to;      /* housekeeper: segments up to here have left the page cache */
    bool making_room;          /* housekeeper: max_bytes is reached */
    int64_t trail_retry_us;    /* housekeeper: a record of the trail could not be read until then */
    int64_t prepare_failed_us; /* housekeeper: monotonic; DAYBOOK_TIME_UNSET: it did not */
    int64_t last_unlink_us;    /* housekeeper: monotonic; DAYBOOK_TIME_UNSET: never */
    int64_t disk_watched_us;   /* housekeeper: monotonic */
    struct dbk_trim_memory {   /* [stage] what the newest TRIM of the log says, durable or not */
        uint32_t lowest;
        bool by_checkpoint;
    } trim;
    bool relocated;    /* [stage] events were relocated: the log alone may not tell the state */
    bool whole_replay; /* read only: of checkpoints only counts what they prove */
    struct dbk_checkpoints checkpoints;
    struct dbk_relocation *relocation;                /* housekeeper, owned; NULL: none yet */
    struct dbk_relocation *_Atomic relocation_handed; /* the same, once there was a batch */
    _Atomic uint64_t file_bytes;

    _Atomic uint64_t frames;      /* written by this handle, or replayed behind the checkpoint */
    _Atomic uint64_t log_bytes;   /* likewise */
    _Atomic uint64_t durable_lsn; /* the tail's, for who is not busy */
    _Atomic uint64_t groups;
    _Atomic uint64_t syncs;

    _Atomic uint32_t changes; /* futex: an event may have become claimable */
    _Atomic uint32_t committer_word;
    _Atomic uint32_t housekeeper_word;
    _Atomic uint32_t stop; /* enum dbk_stop */
    bool committer_started;
    bool housekeeper_started;
    struct dbk_thread committer;
    struct dbk_thread housekeeper;
};

static inline struct dbk_log *dbk_log_of(struct daybook_journal *journal)
{
    return (struct dbk_log *)journal;
}

static inline int64_t dbk_log_mono(const struct dbk_log *log)
{
    return log->os->monotonic_us(log->os);
}

/* ---- commit.c ---------------------------------------------------------------------------------- */

enum daybook_code dbk_stages_init(struct dbk_log *log);
void dbk_stages_release(struct dbk_log *log);

/* Ends the handle (2.4): set once; every waiter is told. Takes the stage lock; no lock held. */
void dbk_log_fail(struct dbk_log *log, int os_errno, const char *what);
/* Fills in `err` from the failure. Returns BACKEND. */
enum daybook_code dbk_log_failed(struct dbk_log *log, struct daybook_error *err);
static inline bool dbk_log_has_failed(struct dbk_log *log)
{
    return atomic_load_explicit(&log->failed, memory_order_acquire) != 0;
}

/* [stage] Whether `bytes` more of the delivery area and `event_bytes` of the event area fit and a
 * place for the group is certain. */
enum dbk_fit { DBK_FIT_OK, DBK_FIT_GROUP_FULL, DBK_FIT_WAIT_SPACE, DBK_FIT_NO_SPACE };
/* Whose they are: what only housekeeping may take is left for the FORGET that makes room again, and the
 * last block for the TRIM, so that a full journal can always be emptied. */
enum dbk_whose { DBK_OF_CALLERS, DBK_OF_HOUSEKEEPING, DBK_OF_TRIM };
enum dbk_fit dbk_stage_fit(const struct dbk_log *log, size_t delivery_bytes, size_t event_bytes,
                           enum dbk_whose whose);

/* [stage] Takes a reference on the group that what is staged now will go with. */
struct dbk_group *dbk_group_ref_open(struct dbk_log *log);
/* [stage] The newest group under way: the open one where anything is staged, else the frozen one; NULL:
 * nothing is under way. Referenced. What rests on a frame that is not complete yet waits for it. */
struct dbk_group *dbk_group_ref_newest(struct dbk_log *log);
enum dbk_wait_for { DBK_WAIT_WRITTEN, DBK_WAIT_SYNCED };
void dbk_group_unref(struct dbk_log *log, struct dbk_group *group);

/* After staging, the stage lock released: commits inline where the journal was idle and the caller may,
 * else waits for the group. Takes the reference. Returns OK, BACKEND or TIMED_OUT. */
enum daybook_code dbk_commit_wait(struct dbk_log *log, struct dbk_group *group,
                                  enum dbk_wait_for level, int64_t deadline_us);
/* The same until the group is synced, for who was told under the stage lock whether it is busy now (`mine`: it
 * commits inline). Keeps the reference. */
enum daybook_code dbk_commit_wait_synced(struct dbk_log *log, struct dbk_group *group, bool mine,
                                         int64_t deadline_us);
/* Sees to it that what is staged is committed, without waiting. */
void dbk_commit_kick(struct dbk_log *log);
/* [stage] Whether max_events was lowered so far that more has to be given up than the seal of an append
 * can: it is given up in steps before the append is staged. */
bool dbk_needs_steps(const struct dbk_log *log);
enum dbk_give_up { DBK_GIVE_UP_DELIVERED, DBK_GIVE_UP_DROPPABLE };
/* [stage] Bytes of the delivery area that a step may take. */
size_t dbk_give_up_bytes(const struct dbk_log *log);
/* [state+stage] One step, into the open stage: prunes, gives up, and drops what the policy lets it (P3 to
 * P5), as far as one more event would exceed the limit. False: there was nothing. */
bool dbk_give_up(struct dbk_log *log, int64_t now_us, enum dbk_give_up what);
/* An append was refused by max_events: it is told the time as any other, and where delivered events are
 * stored (more than a lowered limit allows) they are pruned and given up as for it, which does not help it
 * but stays so (P3, P4). No lock held. */
void dbk_append_refused(struct dbk_log *log, int64_t now_us);
/* Waits until there may be space (dbk_stage_fit said WAIT_SPACE); inline: makes it. `seen` was read
 * from space_word under the stage lock. False: the deadline. */
bool dbk_space_wait(struct dbk_log *log, uint32_t seen, int64_t deadline_us);
/* Sees to it that space is made, without waiting. */
void dbk_space_kick(struct dbk_log *log);

/* Owner's part: true when the caller is now busy (nobody was). */
bool dbk_busy_try(struct dbk_log *log);
/* Gives busy back; commits first what was staged meanwhile (inline) or hands on to the committer. */
void dbk_busy_end(struct dbk_log *log);
/* Busy: syncs the tail file. False: failed. */
bool dbk_tail_sync(struct dbk_log *log);
/* Busy: writes one group without frames (NOTE, CLEAN, OPEN). False: failed. */
bool dbk_tail_write_mark(struct dbk_log *log, uint16_t flags);
/* Busy: writes the LINK group of a segment that becomes the tail. `predecessor` describes the old one.
 * Takes the state lock. False: failed. */
bool dbk_tail_link(struct dbk_log *log, const struct dbk_link_frame *link,
                   const struct dbk_spare *to);
/* Busy: the tail moves to the prepared segment, if there is one and `bytes` do not fit where it is; what was
 * written is synced, and so is its LINK. No lock held. False: failed. */
bool dbk_tail_make_room(struct dbk_log *log, size_t bytes, bool *ret_moved);
/* [state] Encodes LINK and STATE into link_memory. Returns the bytes of the frames. */
size_t dbk_link_encode(struct dbk_log *log, const struct dbk_link_frame *link);
/* Busy: what the LINK of segment `to` says of the tail. */
struct dbk_link_frame dbk_tail_describe(const struct dbk_log *log, uint32_t to);
/* Busy: writes a group of these frames, `frames_len` bytes behind room for its header. False: failed. */
bool dbk_tail_write_frames(struct dbk_log *log, uint8_t *group, size_t frames_len);
void *dbk_committer_run(void *arg);
void dbk_log_space_changed(struct dbk_log *log);

/* Whether a segment of this size takes a LINK and the largest group; one that was prepared under other
 * limits may not. */
bool dbk_segment_suffices(const struct dbk_log *log, uint32_t segment_bytes);
/* Leases of dropped events that the journal can restate in a LINK group. */
uint32_t dbk_orphans_cap(const struct dbk_log *log);

/* The braked clock of P3. [state] */
int64_t dbk_log_prune_now(struct dbk_log *log, int64_t now_us);

/* ---- append.c ---------------------------------------------------------------------------------- */

enum daybook_code dbk_log_append_batch(struct daybook_journal *j,
                                       const struct daybook_event *events, size_t count,
                                       int64_t now_us, int64_t deadline_us,
                                       struct daybook_append_result *ret_results,
                                       struct daybook_error *err);
enum daybook_code dbk_log_queue_new(struct daybook_journal *j, struct daybook_append_queue **ret,
                                    struct daybook_error *err);
void dbk_log_submit(struct daybook_journal *j, struct daybook_append_queue *queue,
                    struct daybook_submission *submission, int64_t now_us);
/* The group of these submissions has ended: hands them to their queues. No lock held. */
void dbk_submissions_end(struct daybook_submission *list, const struct dbk_group *group);
/* They may go on: hands them to their queues without an outcome. */
void dbk_submissions_resume(struct daybook_submission *list);
/* Fingerprints of an id and of an ordering key, keyed for this journal. */
uint64_t dbk_identity_id_hash(const struct dbk_identity *identity, struct daybook_bytes request_id);
uint64_t dbk_identity_key_hash(const struct dbk_identity *identity, struct daybook_bytes name_space,
                               struct daybook_bytes subject);

/* ---- delivery.c -------------------------------------------------------------------------------- */

/* Takes state and stage so that `bytes` of delivery frames fit, waiting where they do not. On OK both
 * are held. */
enum daybook_code dbk_stage_lock_with_room(struct dbk_log *log, size_t bytes, enum dbk_whose whose,
                                           int64_t deadline_us, struct daybook_error *err);
/* [state+stage] Where the next delivery frame goes. */
uint8_t *dbk_stage_frame_room(struct dbk_log *log);
/* [state+stage] The frames there are `bytes` long. */
void dbk_stage_frame_staged(struct dbk_log *log, size_t bytes, enum dbk_wait_for level);
void dbk_stage_unlock(struct dbk_log *log);
/* Releases both locks and waits for the newest group: the frame just staged is in it, or what an answer
 * without a frame rests on. */
enum daybook_code dbk_stage_unlock_and_wait(struct dbk_log *log, enum dbk_wait_for level,
                                            int64_t deadline_us, struct daybook_error *err);
void dbk_log_bump_changes(struct dbk_log *log);
/* Between two holds of something long (P7): whoever waits for the locks gets them. They are not fair: a
 * thread that takes them again at once can keep others out for as long as it goes on. No lock held. */
void dbk_log_let_others(struct dbk_log *log);

extern const struct dbk_engine_ops dbk_log_ops; /* log.c */
enum daybook_code dbk_log_claim(struct daybook_journal *j, const struct daybook_claim *claim,
                                int64_t now_us, int64_t deadline_us, struct daybook_batch *batch,
                                struct daybook_error *err);
enum daybook_code dbk_log_settle(struct daybook_journal *j, const char *consumer,
                                 enum dbk_settle_op op, uint32_t lease_ms,
                                 const struct daybook_hand_out *set, size_t count, int64_t now_us,
                                 int64_t deadline_us, enum daybook_code *ret_codes,
                                 struct daybook_error *err);
enum daybook_code dbk_log_quarantine(struct daybook_journal *j, const char *consumer,
                                     struct daybook_hand_out hand_out,
                                     enum daybook_quarantine_reason reason,
                                     struct daybook_bytes words, int64_t now_us,
                                     int64_t deadline_us, struct daybook_error *err);
enum daybook_code dbk_log_maintain(struct daybook_journal *j, int64_t now_us, int64_t deadline_us,
                                   uint64_t *ret_pruned, struct daybook_error *err);
/* [state+stage] Registers a consumer that is not registered and stages the frame that says so; the caller waits
 * for its sync. `no`: of the operation that does it; 0: a claim, which is none of the trail, with an empty `by`.
 * Returns OK; BUSY; NO_MEMORY. */
enum daybook_code dbk_log_register(struct dbk_log *log, const char *consumer,
                                   struct daybook_start start, uint64_t no,
                                   const struct daybook_operator *by, int64_t now_us,
                                   uint32_t *ret_id, struct daybook_error *err);
/* [state] Remembers when a consumer claimed last, for its figures. */
void dbk_log_note_claim(struct dbk_log *log, uint32_t consumer, int64_t now_us);
/* [state] Events that this consumer quarantined, durably (S4). */
void dbk_log_note_quarantines(struct dbk_log *log, uint32_t consumer,
                              enum daybook_quarantine_reason reason, uint64_t count);
/* Encodes what `list` holds as FORGET frames, one a reason. Returns the bytes. */
size_t dbk_forget_frames(struct dbk_log *log, uint8_t *out, const struct dbk_forget_list *list,
                         const struct dbk_orphan *orphans, uint32_t orphan_count);
/* [state+stage] What a discard, an acknowledgement or a retirement has ended is forgotten without a list of
 * its own, because the replay of that frame does the same; but the count has to stand even where the
 * event's own segment is gone by then (S5). A FORGET with the counters alone. Returns its bytes. */
size_t dbk_discarded_frame(struct dbk_log *log, uint8_t *out);
size_t dbk_forget_frames_bytes(const struct dbk_forget_list *list, uint32_t orphan_count);

enum dbk_payload {
    DBK_PAYLOAD_OK,
    DBK_PAYLOAD_MALFORMED,  /* its bytes are not what was written (C7) */
    DBK_PAYLOAD_UNREADABLE, /* an error of reading: no verdict */
    DBK_PAYLOAD_NO_ROOM     /* in the batch */
};
/* Whether an entry is that of the event with this hash and acceptance. A block of the log that came to stand at
 * another one's place may hold a whole entry there, whose checksums are right and which is another event's. */
bool dbk_entry_is_of(const struct dbk_log *log, const struct dbk_entry *entry, uint64_t id_hash,
                     int64_t accepted_at_us);
/* Reads one stored entry into the batch's bytes and makes a delivery of it; the caller counts it. No lock
 * held, its segment pinned. */
enum dbk_payload dbk_log_read_entry(struct dbk_log *log, const struct dbk_stored *stored,
                                    struct daybook_batch *batch, struct daybook_delivery *ret);

/* ---- operators.c ------------------------------------------------------------------------------- */

enum daybook_code dbk_log_release(struct daybook_journal *j, const char *consumer,
                                  struct daybook_bytes request_id,
                                  const struct daybook_operator *by, int64_t now_us,
                                  int64_t deadline_us, struct daybook_error *err);
enum daybook_code dbk_log_discard(struct daybook_journal *j, const char *consumer,
                                  struct daybook_bytes request_id,
                                  const struct daybook_operator *by, int64_t now_us,
                                  int64_t deadline_us, struct daybook_error *err);
enum daybook_code dbk_log_retire(struct daybook_journal *j, const char *consumer,
                                 enum daybook_force force, const struct daybook_operator *by,
                                 int64_t now_us, int64_t deadline_us, struct daybook_error *err);
enum daybook_code dbk_log_rewind(struct daybook_journal *j, const char *consumer,
                                 const struct daybook_operator *by, int64_t now_us,
                                 int64_t deadline_us, struct daybook_error *err);
enum daybook_code dbk_log_note_lift(struct daybook_journal *j, const char *consumer,
                                    const struct daybook_operator *by, int64_t now_us,
                                    int64_t deadline_us, struct daybook_error *err);
enum daybook_code dbk_log_start(struct daybook_journal *j, const char *consumer,
                                struct daybook_start start, const struct daybook_operator *by,
                                int64_t now_us, int64_t deadline_us, struct daybook_error *err);
enum daybook_code dbk_log_quarantine_list(struct daybook_journal *j, const char *consumer,
                                          uint64_t after_position,
                                          enum daybook_quarantine_reason reason,
                                          struct daybook_batch *batch,
                                          struct daybook_quarantine_entry *ret_entries,
                                          uint64_t *ret_last, struct daybook_error *err);
enum daybook_code dbk_log_find(struct daybook_journal *j, struct daybook_bytes request_id,
                               int64_t now_us, struct daybook_batch *batch,
                               struct daybook_event_standing *ret_standings, size_t max,
                               size_t *ret_count, struct daybook_error *err);
enum daybook_code dbk_log_operations(struct daybook_journal *j, uint64_t before_no,
                                     struct daybook_operation *ret, size_t max, size_t *ret_count,
                                     struct daybook_error *err);
/* Copies the trail's records out of segments below `lowest` into the tail, durably. False: not now. */
bool dbk_trail_move(struct dbk_log *log, uint32_t lowest);

/* ---- segment.c --------------------------------------------------------------------------------- */

/* Writes "<path>/seg-<16 hex>.dbl" and the like. */
void dbk_segment_path(const struct dbk_log *log, uint32_t segment_no, const char *suffix,
                      char *ret);
uint32_t dbk_segment_size(const struct dbk_log *log, uint32_t segment_no);
/* Makes a zero-filled segment under its final name, durable. Returns 0 or -errno. */
int dbk_segment_create(struct dbk_log *log, uint32_t segment_no, struct dbk_spare *ret);
/* Adds to the table and to the state's. No lock held. NO_MEMORY. */
enum daybook_code dbk_segment_add(struct dbk_log *log, uint32_t segment_no, uint32_t size_bytes);
/* Where the log went on in its successor. */
void dbk_segment_sealed(struct dbk_log *log, uint32_t segment_no, uint32_t end);
/* Its index has so many bytes; 0: there is none any more. */
void dbk_segment_indexed(struct dbk_log *log, uint32_t segment_no, uint64_t bytes);
/* It was found to be bad: made again. */
void dbk_segment_index_bad(struct dbk_log *log, uint32_t segment_no);
bool dbk_segment_index_is_bad(struct dbk_log *log, uint32_t segment_no);
/* About what the indexes take that are not made yet. */
uint64_t dbk_segment_indexes_to_come(struct dbk_log *log);
/* None can be made. */
void dbk_segment_index_impossible(struct dbk_log *log, uint32_t segment_no);
void dbk_segment_resized(struct dbk_log *log, uint32_t segment_no, uint32_t size_bytes);
/* Reads the bytes of a place, which may span several entries. [no lock needed, but the segment pinned or
 * the state held]. Returns the bytes read or -errno. */
int64_t dbk_segment_read(struct dbk_log *log, struct dbk_place place, void *buf);
void dbk_segment_pin(struct dbk_log *log, uint32_t segment_no);
/* For places that trimming does not wait for. False: the segment is gone. */
bool dbk_segment_pin_if_there(struct dbk_log *log, uint32_t segment_no);
void dbk_segment_unpin(struct dbk_log *log, uint32_t segment_no);
/* Whether nobody reads in it. Nobody can begin to, once no event is stored in it. */
bool dbk_segment_is_free(struct dbk_log *log, uint32_t segment_no);
/* Takes a segment out of the table; no while it is pinned. */
bool dbk_segment_forget(struct dbk_log *log, uint32_t segment_no);
/* 0: none. *ret_second: the one after it. */
uint32_t dbk_segment_lowest(struct dbk_log *log, uint32_t *ret_second);
/* A sealed segment and what is needed of it. */
struct dbk_segment_use {
    uint32_t segment_no;
    uint32_t size_bytes;  /* of its file */
    uint64_t event_bytes; /* stored events whose entries stand in it */
    int64_t leave_alone_until_us;
};
/* All of them, ascending; the caller frees. NULL: no memory. No lock held. */
struct dbk_segment_use *dbk_segment_uses(struct dbk_log *log, uint32_t *ret_count);
/* The place of a segment in such a list; `count`: it is not in it. */
uint32_t dbk_segment_use_find(const struct dbk_segment_use *uses, uint32_t count,
                              uint32_t segment_no);
void dbk_segment_leave_alone(struct dbk_log *log, uint32_t segment_no, int64_t until_us);
/* The lowest sealed segment whose index is made and that has not left the page cache, the newest `keep` files
 * apart; 0: none. Housekeeper. */
uint32_t dbk_segment_next_cached(struct dbk_log *log, uint32_t keep);
/* [state] Stored events in higher segments. */
uint64_t dbk_segment_events_behind(struct dbk_log *log, uint32_t segment_no);
/* Has the page cache forget a segment. Advice: cannot fail. Housekeeper. */
void dbk_segment_uncache(struct dbk_log *log, uint32_t segment_no);
void dbk_segments_close(struct dbk_log *log);
/* fdatasync, repeated where a signal came between (which reports no error and loses none). */
int dbk_sync_data(const struct dbk_os *os, int file);
int dbk_write_all(const struct dbk_os *os, int file, const void *data, size_t len, uint64_t offset);

/* ---- housekeep.c ------------------------------------------------------------------------------- */

bool dbk_prepare_spare(struct dbk_log *log);
/* Looks how much of the disk is left: below free_disk_min appends are refused. */
void dbk_watch_disk(struct dbk_log *log);
/* Between two pieces of a segment that is being filled, so far `filled` of its `bytes`: what is due is done,
 * and the disk is left to the commits for a moment unless they use up the tail faster than it is filled.
 * False: the journal is closing. */
bool dbk_fill_pause(struct dbk_log *log, uint32_t filled, uint32_t bytes);
/* Between two pieces of longer work of the housekeeper: what is due is done, a segment that is needed
 * meanwhile is prepared (or appends would wait for it behind that work), and the disk is left to the commits
 * for a moment. False: the journal is closing. */
bool dbk_work_pause(struct dbk_log *log);
/* The log leaves no memory of the system behind: a segment that nobody is about to read (no consumer, or no more
 * events wait than stand in higher segments) leaves the page cache, one a call. The pages serve the segments to
 * come, and are not taken from what others keep there. */
bool dbk_uncache_round(struct dbk_log *log);
void *dbk_housekeeper_run(void *arg);

/* ---- relocate.c -------------------------------------------------------------------------------- */

enum dbk_relocate_why { DBK_RELOCATE_IN_BACKGROUND, DBK_RELOCATE_FOR_ROOM };
/* One batch of what is due. Returns whether there was one. Housekeeper. */
bool dbk_relocate_round(struct dbk_log *log);
/* There is no room for a segment: copies what is needed of the lowest ones, if that gains a tenth of a segment.
 * Returns whether it did. Housekeeper. */
bool dbk_relocate_for_room(struct dbk_log *log);
/* It gained no room after all: not done again for a while. */
void dbk_relocate_gained_nothing(struct dbk_log *log);
/* Whether the words of a quarantine that stands are read from a segment. Housekeeper. */
bool dbk_segment_has_evidence(struct dbk_log *log, uint32_t segment_no);
/* Busy: writes the batch that is ready, if one is. */
void dbk_relocation_if_ready(struct dbk_log *log);
void dbk_relocation_release(struct dbk_log *log);

/* ---- recovery.c -------------------------------------------------------------------------------- */

/* A log that is being replayed into the memory of a handle. */
struct dbk_replay {
    struct dbk_log *log;
    bool has_state;    /* its first STATE was met */
    uint64_t from_lsn; /* of a checkpoint that is loaded: frames below are in it; 0: none is */
};
/* Each event entry of a frame, if it is an EVENT or relocates one (*ret_relocated). False: one cannot be
 * decoded. */
typedef void dbk_event_visit(void *user, const struct dbk_event_meta *meta,
                             const struct dbk_entry *entry);
bool dbk_frame_events(const struct dbk_identity *identity, const struct dbk_frame *frame,
                      bool *ret_relocated, dbk_event_visit *visit, void *user);
/* Makes true what a frame says: the path of every opening. NEWER_FORMAT: it cannot be read; NO_MEMORY. */
enum daybook_code dbk_replay_frame(struct dbk_replay *replay, const struct dbk_frame *frame,
                                   struct daybook_error *err);
/* From a locked directory to a handle that is ready, or a verdict. */
enum daybook_code dbk_log_recover(struct dbk_log *log, const struct daybook_log_options *options,
                                  struct daybook_error *err);

#endif
