/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a worker remembers of events from one pass to the next (W6, W6b, W12b): which ones a destination
 * refused on their own account, which ones were in a write that it called unavailable, and of each
 * destination how often something has landed there, whether it is away, and its brake.
 *
 * A memory of fixed size: an old entry gives way to a new one. What is forgotten costs another search,
 * never an event. Nothing of it survives a restart.
 *
 * Pure: no clock, no I/O. Threads: one at a time per memory.
 */
#ifndef DBK_DELIVERY_RECALL_H
#define DBK_DELIVERY_RECALL_H

#include <daybook/sink.h>
#include <daybook/worker.h>

struct dbk_recall_entry {
    uint64_t position;     /* 0: empty */
    uint64_t landings;     /* of `trouble_sink` at that write */
    uint8_t suspect_sinks; /* a bit for each that refused it on its own account */
    uint8_t trouble_sink;  /* 1 + the one that last called a write with it unavailable; 0: none */
};

struct dbk_recall_sink {
    uint64_t landings; /* writes that it accepted, of controls too */
    bool away;         /* its last pass ended as an outage */
    bool braked;       /* W6b */
    uint32_t
        in_a_row; /* different events refused on their own account since it accepted a fresh one */
    struct daybook_words words; /* of the last refusal of one event: the reason of a brake */
};

struct dbk_recall {
    uint32_t brake;                   /* reject_brake; 0: never */
    struct dbk_recall_entry *entries; /* owned */
    size_t mask;                      /* entries - 1: their number is a power of two */
    size_t used;                      /* entries that are not empty */
    struct dbk_recall_sink sinks[DAYBOOK_WORKER_SINKS_MAX];
};

/* Remembers at least `events_min` events. False: no memory. */
bool dbk_recall_init(struct dbk_recall *recall, size_t events_min, uint32_t brake);
void dbk_recall_release(struct dbk_recall *recall);

/* Whether this destination refused the event on its own account: it is written alone there (W6). */
bool dbk_recall_is_suspect(const struct dbk_recall *recall, uint64_t position, size_t sink);
/* Whether other writes have landed there since one with this event was unavailable: *unavailable* no
 * longer speaks for the destination (W12b). */
bool dbk_recall_is_searched(const struct dbk_recall *recall, uint64_t position, size_t sink);

void dbk_recall_suspect(struct dbk_recall *recall, uint64_t position, size_t sink);
void dbk_recall_trouble(struct dbk_recall *recall, uint64_t position, size_t sink);
/* It is resolved. */
void dbk_recall_forget(struct dbk_recall *recall, uint64_t position);

/* The destination has accepted a fresh event: the row of refusals ends, the brake is off. */
void dbk_recall_landed(struct dbk_recall *recall, size_t sink);
/* It has accepted the control: it is there, no more. */
void dbk_recall_control(struct dbk_recall *recall, size_t sink);
/* It refused an event on its own account that was no suspect there. */
void dbk_recall_refused(struct dbk_recall *recall, size_t sink);
/* An operator lets every brake go. */
void dbk_recall_lift(struct dbk_recall *recall);

#endif
