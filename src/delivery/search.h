/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One pass as a search (contract section 5, W3 to W7, W12, W12b, W14, W15): given the answers of the
 * destinations so far, what is written next, and in the end what becomes of every row.
 *
 * The destinations are asked one after the other, those that are away or braked first; what one has taken goes on
 * to the next. At each the rows are cut into ranges, first in, first out: a refused range is halved and
 * its halves stand at the end, so that the search is breadth first. Ranges of several keys are cut
 * between keys; of a range of one key the first half is written, and the second waits until all before
 * it has landed. A row that is refused alone is blamed once the destination accepts something after it:
 * another row, or the control. A suspect is a range of its own from the beginning.
 *
 * What a pass learns about events and destinations for the next one stands in the memory (recall.h).
 *
 * Pure: no clock, no I/O. Threads: one at a time per search.
 */
#ifndef DBK_DELIVERY_SEARCH_H
#define DBK_DELIVERY_SEARCH_H

#include <daybook/journal.h>
#include <daybook/sink.h>

#include "delivery/recall.h"

#define DBK_PROBES_MAX 32u  /* W4: refused writes while nothing was accepted */
#define DBK_ABSENCES_MAX 3u /* W12b: unavailable writes in a row before the control is asked */
#define DBK_NO_ROW SIZE_MAX

enum dbk_row_state {
    /* At the destination at hand: */
    DBK_ROW_READY,   /* in a range that will be written */
    DBK_ROW_WAITING, /* behind a range of its key */
    DBK_ROW_HELD,    /* behind a refused one of its key: not written in this pass */
    DBK_ROW_TAKEN,   /* accepted; the next destination's turn */
    DBK_ROW_REFUSED, /* alone, and nothing was accepted since */
    DBK_ROW_BLAMED,  /* refused on its own account */
    /* For good: */
    DBK_ROW_LANDED,    /* every destination has it: acknowledged */
    DBK_ROW_SPENT,     /* refused on its own account: its attempt stays spent (W6) */
    DBK_ROW_CONDEMNED, /* the same at its last attempt, and once more alone: quarantined (W6) */
    DBK_ROW_UNWRITTEN, /* did not land, and nobody blames it: its attempt is given back (W7) */
    DBK_ROW_LEFT /* its lease could not be held: out of the pass (W11), its attempt given back */
};

/* How a pass ended. */
enum dbk_search_end {
    DBK_SEARCH_FINE,   /* the destinations answered for rows */
    DBK_SEARCH_OUTAGE, /* one is not there, or may not be: told or found (W4) */
    DBK_SEARCH_BRAKED, /* one refuses whatever is new (W6b) */
    DBK_SEARCH_STOPPED /* cut off by a stop */
};

/* What is to be written next. */
enum dbk_ask {
    DBK_ASK_NOTHING, /* the pass is over */
    DBK_ASK_ROWS,    /* `write` to `sink` */
    DBK_ASK_CONTROL  /* the row `control_row` again, DBK_NO_ROW: the event that the worker keeps */
};

struct dbk_search_row {
    enum dbk_row_state state;
    uint8_t taken;   /* by how many destinations, in the order of the pass */
    bool suspect;    /* at the destination at hand: a range of its own */
    bool cut_behind; /* what waits behind it in its key is another range */
    bool confirmed;  /* the one more write at its last attempt was made */
    bool failed;     /* that write found nobody: condemned if something is accepted after it */
    uint8_t sink;    /* that blamed it; its words are in `words` */
    uint32_t key;    /* number of its key */
    uint32_t place;  /* in `order` */
    uint32_t range;  /* that it belongs to while READY */
};

/* Rows between two places of `order`. */
struct dbk_search_range {
    uint32_t begin;
    uint32_t end;
    bool searched; /* W12b: unavailable is not taken as an outage */
};

struct dbk_search {
    /* Set by `dbk_search_init`. */
    struct dbk_recall *recall; /* borrowed */
    size_t rows_max;
    size_t sink_count;
    uint32_t attempts_max;

    /* The answer to `dbk_search_next`, and to the whole. */
    size_t sink;
    uint32_t *write; /* rows, in order of position */
    size_t write_count;
    size_t control_row;
    enum dbk_search_end end;
    int64_t retry_after_us;      /* with OUTAGE, 0: not said */
    struct dbk_search_row *rows; /* `count` */
    struct daybook_words *words; /* of rows that were refused alone or named; owned */
    size_t count;

    /* The pass. */
    const struct daybook_delivery *deliveries; /* borrowed */
    bool control_known;
    bool over;
    bool grouped; /* `order` is by key */
    uint8_t sinks[DAYBOOK_WORKER_SINKS_MAX];
    uint32_t *order; /* rows by place */
    uint32_t *table; /* keys by hash: 1 + the first row */
    size_t table_mask;
    uint32_t *starts; /* of keys, in `order` */

    /* The destination at hand. */
    size_t stage; /* sinks[stage] */
    enum dbk_ask asked;
    size_t confirming; /* the row that is written once more; DBK_NO_ROW: a range */
    uint32_t current;  /* number of the range that is written */
    bool wrote;        /* it was asked for anything in this pass */
    bool accepted;     /* a row, in this pass */
    size_t last_taken; /* the last such row */
    uint32_t refused;  /* probes */
    uint32_t absences;
    bool control_due;
    size_t pending; /* rows whose blame waits for an acceptance */
    bool gone;      /* it is away, or may be: nothing more is written to it */
    bool deferred;  /* a range waits for something to land (W12b) */
    int64_t deferred_retry_after_us;
    struct dbk_search_range deferred_range;
    struct dbk_search_range *ranges; /* a ring of `ring` entries, by number */
    uint32_t ring;
    uint32_t first; /* number of the first one in line */
    uint32_t next;  /* and of the one behind the last */
};

/* `attempts_max` is max_delivery_attempts. False: no memory; release it all the same. */
bool dbk_search_init(struct dbk_search *s, struct dbk_recall *recall, size_t rows_max,
                     size_t sink_count, uint32_t attempts_max);
void dbk_search_release(struct dbk_search *s);

/* Begins a pass over `count` deliveries in order of position, borrowed until its end.
 * @param control_known the worker keeps an event that has landed. */
void dbk_search_begin(struct dbk_search *s, const struct daybook_delivery *deliveries, size_t count,
                      bool control_known);

/* What is written next. With NOTHING every row has its state for good. */
enum dbk_ask dbk_search_next(struct dbk_search *s);
/* What the destination said of it. */
void dbk_search_answer(struct dbk_search *s, const struct daybook_answer *answer);

/* Before an answer: the lease of this row, of the write or of what waits, could not be held. Ask
 * `dbk_search_next` again. */
void dbk_search_leave(struct dbk_search *s, size_t row);
/* Ends the pass: what has not landed is unwritten. */
void dbk_search_stop(struct dbk_search *s);

/* How many rows are in this state. */
size_t dbk_search_count(const struct dbk_search *s, enum dbk_row_state state);
/* How many rows this destination has taken in the pass. */
size_t dbk_search_taken(const struct dbk_search *s, size_t sink);

#endif
