/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The embedded engine: a journal in a directory of the local disk, owned by one process.
 */
#ifndef DAYBOOK_LOG_H
#define DAYBOOK_LOG_H

#include <daybook/journal.h>

#ifdef __cplusplus
extern "C" {
#endif

/** What to do with a tail that unwritten sectors cannot explain (docs/FORMAT.md, the tail rule). */
enum daybook_tail_policy {
    DAYBOOK_TAIL_REFUSE, /**< refuse to open, change nothing */
    DAYBOOK_TAIL_ACCEPT  /**< set it aside like a torn one: an operator's decision */
};

/** Who commits and keeps house. */
enum daybook_log_threads {
    DAYBOOK_LOG_THREADED, /**< a committer and a housekeeper thread of the journal's own */
    DAYBOOK_LOG_INLINE    /**< none: every operation does its own part (one owner; tests, tools) */
};

/** Zero means the default everywhere. */
struct daybook_log_options {
    const char *path; /**< directory, made if it is missing; borrowed for the call */
    struct daybook_capacity capacity;
    uint64_t bytes_max;     /**< of real file bytes; default 16 GiB; at least 8 segments */
    uint64_t free_disk_min; /**< appends are refused below it; default 256 MiB */
    uint64_t segment_bytes; /**< full segment size, a power of two; default: 1/16 of
                                         bytes_max within 1 MiB and 64 MiB; at least 64 KiB */
    enum daybook_tail_policy tail;
    enum daybook_log_threads threads;
    bool
        append_only; /**< nothing will be delivered by this handle: no segment is prepared before it
                           is needed; what deliveries need is left free under bytes_max */
    bool
        existing_only; /**< a directory that holds no journal is refused and left as it is, not made one:
                             for who opens a journal again, under which a file system may be gone */
    int64_t now_us; /**< the caller's clock at the opening, for records of it */
};

/** Opens a journal for writing; recovers first where the last owner did not close.
 * @param options borrowed. @param ret_journal owned: release with `daybook_journal_close`.
 * Returns OK; retry: BUSY (another process holds the directory), NO_MEMORY; broken: DAMAGED (says
 * file, offset and positions; changed nothing), BACKEND (an I/O error); refused: NEWER_FORMAT,
 * BAD_CONFIG, NOT_FOUND (existing_only, and there is none). Durable: the directory and its files. Threads: any. */
DAYBOOK_API DAYBOOK_MUST_CHECK enum daybook_code daybook_log_open(
    const struct daybook_log_options *options, struct daybook_journal **ret_journal,
    struct daybook_error *err);

/** Opens a journal for reading only: stats, read; writes nothing and takes no lock, so the owner must
 * be stopped. Appends, claims and verdicts answer BACKEND. Otherwise as `daybook_log_open`. */
DAYBOOK_API DAYBOOK_MUST_CHECK enum daybook_code daybook_log_open_readonly(
    const struct daybook_log_options *options, struct daybook_journal **ret_journal,
    struct daybook_error *err);

/** One thing that `daybook_log_verify` found. */
struct daybook_log_finding {
    uint64_t segment_no; /**< 0: the directory itself */
    uint64_t offset;
    bool harmless; /**< e.g. a torn tail that the next opening sets aside */
    char message[256];
};

struct daybook_log_report {
    uint64_t segments;
    uint64_t groups;
    uint64_t frames;
    uint64_t events;
    uint64_t bytes;
    uint64_t damaged; /**< findings that are not harmless */
    bool live;        /**< the journal was being written: its end is not judged */
};

/** Checks every byte of a data directory: each checksum, the chain, contiguity, padding, replay.
 * Writes nothing and takes no lock. Of a journal that a process is writing it checks everything up to where
 * the log had come, and says so (`live`).
 * @param found called for each finding, in order; may be NULL. @param user passed to it.
 * Returns OK (nothing damaged); broken: DAMAGED, BACKEND (unreadable); NOT_FOUND; NEWER_FORMAT.
 * Threads: any. */
DAYBOOK_API DAYBOOK_MUST_CHECK enum daybook_code daybook_log_verify(
    const char *path, void (*found)(void *user, const struct daybook_log_finding *f), void *user,
    struct daybook_log_report *ret_report, struct daybook_error *err);

/** Positions that a damaged journal had, or may have had, and that no surviving frame holds. */
struct daybook_log_missing {
    uint64_t first;
    uint64_t end;       /**< exclusive */
    bool behind_newest; /**< behind the newest position that anything names: the damaged bytes could
                             have held so many, perhaps none; they are never given out again */
};

/** What a repair tells while it goes; each may be NULL. */
struct daybook_log_repair_hooks {
    void (*found)(void *user, const struct daybook_log_finding *finding);
    void (*missing)(void *user, const struct daybook_log_missing *missing);
    void *user;
};

struct daybook_log_repair_report {
    uint64_t segments; /**< read */
    uint64_t frames;   /**< kept */
    uint64_t events;   /**< kept: what of them is stored still, the new journal holds */
    uint64_t stored;   /**< in the new journal */
    uint64_t
        records_damaged;  /**< of those: only the record rotted; quarantined when claimed (C7) */
    uint64_t damaged;     /**< places that are not what was written */
    uint64_t events_lost; /**< at most; counted as `damaged` in the new journal (S5) */
    uint64_t bytes;       /**< of the new journal */
};

/** Reads everything in `path` that its own checksums vouch for, on both sides of what is damaged, and
 * makes a new journal of it in `new_path`: positions, order, delivery state, quarantines and the trail are
 * kept; positions and tokens that may have been given out are never given out again. What was lost of
 * delivery state costs redeliveries. `path` is only read. The new directory has its name once it is whole,
 * verified and durable; until then it is `new_path`.partial.
 * @param hooks borrowed; may be NULL. @param ret_report filled in as far as it came.
 * Returns OK (read the report: something may be lost); refused: BAD_ARGUMENT (`new_path` exists, or its
 * .partial), NEWER_FORMAT; NOT_FOUND; retry: BUSY (a process has it open), NO_MEMORY; broken: BACKEND,
 * DAMAGED (what was made does not verify). Threads: any. */
DAYBOOK_API DAYBOOK_MUST_CHECK enum daybook_code daybook_log_repair(
    const char *path, const char *new_path, const struct daybook_log_repair_hooks *hooks,
    struct daybook_log_repair_report *ret_report, struct daybook_error *err);

struct daybook_log_backup_report {
    uint64_t segments;
    uint64_t events; /**< whose bytes are in it, those given up since included */
    uint64_t bytes;
    bool live; /**< the journal was being written meanwhile */
};

/** Copies a journal into `new_path`, also while a process writes it, which it does not hold up: everything
 * that was answered before the call is in the copy. `path` is only read. The copy has its name once it is
 * whole, verified (`daybook_log_verify`) and durable; until then it is `new_path`.partial.
 * Returns OK; refused: BAD_ARGUMENT (`new_path` exists, or its .partial), NEWER_FORMAT; NOT_FOUND; broken:
 * DAMAGED (the journal, or what was copied: nothing has the name), BACKEND; retry: NO_MEMORY. Threads:
 * any. */
DAYBOOK_API DAYBOOK_MUST_CHECK enum daybook_code daybook_log_backup(
    const char *path, const char *new_path, struct daybook_log_backup_report *ret_report,
    struct daybook_error *err);

#ifdef __cplusplus
}
#endif
#endif
