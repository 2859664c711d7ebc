/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Advisory destinations (W9): told once a pass of what landed, each through a bounded queue and a thread of
 * its own. What one answers and how long it takes changes nothing but what is told of it.
 *
 * A queue is a ring of rows and a ring of their bytes, both taken when the worker is made. The worker's
 * thread alone adds, the advisory's alone takes out; they share three counters, no lock. When it is full
 * the newest is dropped.
 *
 * Lifetime (T7): the thread of an advisory holds the worker, and comes through its gate to tell anything;
 * the last holder closes the destination.
 */
#ifndef DBK_DELIVERY_ADVISORY_H
#define DBK_DELIVERY_ADVISORY_H

#include <daybook/worker.h>

#include "base/thread.h"

struct daybook_worker;

enum dbk_advisory_phase {
    DBK_ADVISORY_OPEN,
    DBK_ADVISORY_CLOSING, /* ends once its queue is empty */
    DBK_ADVISORY_CUT      /* ends now; what waits is dropped */
};

struct dbk_advisory_entry {
    struct daybook_row row; /* its bytes stand in the ring */
    uint64_t bytes_end;     /* where they end, counted from the beginning of time */
    bool ends_pass;
};

struct dbk_advisory {
    struct daybook_worker *worker;
    struct daybook_sink *sink;
    struct dbk_advisory_entry *entries;
    uint64_t entries_max;
    char *bytes;
    uint64_t bytes_max;

    /* The worker's thread alone. */
    uint64_t added; /* the next entry; those from `tail` on are of the pass at hand */
    uint64_t bytes_added;
    uint64_t dropped; /* of the pass at hand */

    /* The advisory's thread alone (without one: whoever calls dbk_advisory_write). */
    struct daybook_row *rows; /* of the write at hand */
    uint64_t rows_max;
    struct daybook_answer answer;

    _Atomic uint64_t head;       /* the oldest entry that is not done with */
    _Atomic uint64_t tail;       /* behind the newest that may be taken */
    _Atomic uint64_t bytes_head; /* bytes before it are free again */
    _Atomic uint32_t phase;      /* enum dbk_advisory_phase; only ever upwards */
    _Atomic uint32_t word;       /* changes with `tail` and `phase` */

    bool threaded; /* [worker's lock] */
    bool ended; /* [worker's lock] its thread touches nothing but the worker's holders any more */
    struct dbk_thread thread;
};

/* Makes the queues of a worker whose options are filled in, `sinks` not yet its own. Returns OK or NO_MEMORY;
 * in both cases dbk_advisories_release takes back what was made. */
enum daybook_code dbk_advisories_init(struct daybook_worker *w, struct daybook_error *err);
/* The sinks are the worker's from now on. */
void dbk_advisories_own(struct daybook_worker *w, struct daybook_sink *const *sinks);
/* Starts their threads. Returns OK or NO_MEMORY; called again it starts those that are missing. */
enum daybook_code dbk_advisories_start(struct daybook_worker *w, struct daybook_error *err);
/* Closes the sinks that the worker owns and frees the queues. Nobody runs any more. */
void dbk_advisories_release(struct daybook_worker *w);

/* One row that landed, copied into every queue; then, once a pass, what was offered may be taken. Inside the
 * gate, the worker's thread. */
void dbk_advisories_offer(struct daybook_worker *w, const struct daybook_row *row);
void dbk_advisories_publish(struct daybook_worker *w);

/* Writes what the oldest pass in the queue left, at most `rows_max` rows. Outside the gate. False: the queue is
 * empty, or the gate was shut. */
bool dbk_advisory_write(struct dbk_advisory *a);

/* Moves every advisory of the worker on to this phase; CUT interrupts their destinations too. */
void dbk_advisories_set(struct daybook_worker *w, enum dbk_advisory_phase phase);
/* Whether every thread of an advisory is at its end, or there never was one. */
bool dbk_advisories_ended(struct daybook_worker *w);
/* The owner's last act: threads that are at their end are joined, the others left alone (T7). */
void dbk_advisories_leave(struct daybook_worker *w);

#endif
