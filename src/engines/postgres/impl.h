/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the files of the PostgreSQL engine share: the handle, its connections, and the ways to say something to the
 * server. SQL fetches, locks and writes whole sets; what becomes of an event is decided here, in C, between the two.
 *
 * A transaction's statements go out together (pipeline mode). Nothing of a session is relied upon: time-outs are
 * set in each transaction, and the plans that last are those of the schema's own functions.
 */
#ifndef DBK_ENGINES_POSTGRES_IMPL_H
#define DBK_ENGINES_POSTGRES_IMPL_H

#include <libpq-fe.h>

#include "base/os.h"
#include "base/thread.h"
#include "engines/postgres/postgres.h"
#include "engines/postgres/schema.h"
#include "journal/engine.h"

#define PG_ROW_VERSION 1
#define PG_SLOTS 32u                /* rows of the table of counters */
#define PG_ARGS_MAX 24u             /* of one statement */
#define PG_STEPS_MAX 8u             /* statements that go out together */
#define PG_BATCH_EVENTS 256u        /* in one append statement */
#define PG_TRIES_MAX 10u            /* of a transaction that was chosen to end a deadlock */
#define PG_AGAIN DAYBOOK_CODE_COUNT /* internal: nothing happened, try again */

enum pg_resolution {
    PG_OPEN,
    PG_ACKNOWLEDGED,
    PG_DISCARDED,
    PG_QUARANTINED,
    PG_DROPPED /* the event is gone, its lease is not (P5) */
};

/* ---- connections ------------------------------------------------------------------------------- */

struct pg_conn {
    PGconn *pg;  /* NULL: not connected */
    bool taken;  /* under the pool's mutex */
    bool in_txn; /* a transaction is open */
    unsigned slot;
};

struct pg_pool {
    struct dbk_mutex mutex;
    _Atomic uint32_t word; /* bumped when a connection is given back */
    struct pg_conn conns[DAYBOOK_POSTGRES_CONNECTIONS_MAX];
    unsigned count;
};

/* ---- the handle --------------------------------------------------------------------------------- */

/* What this process knows of a consumer since the opening. */
struct pg_local {
    char name[DAYBOOK_CONSUMER_NAME_MAX + 1];
    int32_t id;
    int64_t last_claim_at_us;
    uint64_t quarantined_total[DAYBOOK_QUARANTINE_REASONS];
};

struct pg_appenders;

struct pg_journal {
    struct daybook_journal head;
    const struct dbk_os *os;
    char *dsn; /* the secret */
    char schema[DAYBOOK_POSTGRES_SCHEMA_MAX + 1];
    enum daybook_postgres_clock clock;
    uint32_t connect_timeout_ms;
    uint32_t statement_timeout_ms;
    uint32_t lock_timeout_ms;
    bool fsync; /* the server's */
    int server_version;
    int32_t row_version; /* of appended events; tests change it */
    struct pg_pool delivery;
    struct pg_pool query;
    struct pg_appenders *appenders;
    _Atomic uint32_t changes;
    _Atomic int64_t until_us; /* nothing waits for the server any longer (dbk_journal_hurry) */

    struct dbk_mutex mutex; /* guards what follows */
    struct pg_local consumers[DAYBOOK_CONSUMERS_MAX];
    size_t consumer_count;
    int64_t newest_now_us; /* the latest now of a claim */
    uint64_t undeliverable_total;
    int64_t clock_ahead_of_mono_us; /* CLOCK_STORE: what to add to the monotonic clock */
    int64_t trusted_us;             /* P3, as in the oracle */
    int64_t trusted_mono_us;
    bool leapt;
    int64_t leapt_since_us;
    int64_t swept_key; /* where the sweep of keys goes on */
    uint64_t groups;
    struct daybook_histogram commit_us;
    struct daybook_histogram commit_batch_events;
};

static inline struct pg_journal *pg_of(struct daybook_journal *j)
{
    return (struct pg_journal *)j;
}
static inline int64_t pg_mono_us(const struct pg_journal *p)
{
    return p->os->monotonic_us(p->os);
}
void dbk_pg_changed(struct pg_journal *p);

/* ---- saying something (connection.c) ------------------------------------------------------------- */

/* An array of one dimension in PostgreSQL's binary form. Zeroed: empty, of nothing yet. */
enum pg_type { PG_INT4 = 23, PG_INT8 = 20, PG_TEXT = 25, PG_BYTEA = 17, PG_BOOL = 16 };
struct pg_array {
    enum pg_type type;
    uint8_t *bytes;
    size_t len;
    size_t room;
    uint32_t count;
    bool failed; /* no memory */
};
void dbk_pg_array_start(struct pg_array *array, enum pg_type type); /* keeps its memory */
void dbk_pg_array_int(struct pg_array *array, int64_t value);       /* INT4 or INT8 */
void dbk_pg_array_null(struct pg_array *array);
void dbk_pg_array_bytes(struct pg_array *array, const void *bytes, size_t len); /* TEXT or BYTEA */
void dbk_pg_array_release(struct pg_array *array);

/* The arguments of a statement; ranges and arrays are borrowed until it has been sent. */
struct pg_args {
    int count;
    bool failed;
    Oid types[PG_ARGS_MAX];
    const char *values[PG_ARGS_MAX];
    int lengths[PG_ARGS_MAX];
    int formats[PG_ARGS_MAX];
    uint8_t small[PG_ARGS_MAX][8];
};
void dbk_pg_arg_int(struct pg_args *args, enum pg_type type,
                    int64_t value); /* INT4, INT8 or BOOL */
void dbk_pg_arg_null(struct pg_args *args, enum pg_type type);
void dbk_pg_arg_bytes(struct pg_args *args, enum pg_type type, struct daybook_bytes bytes);
void dbk_pg_arg_array(struct pg_args *args, struct pg_array *array);
/* The caller's now, or null where the store's clock decides. */
void dbk_pg_arg_now(struct pg_args *args, const struct pg_journal *p, int64_t now_us);
struct daybook_bytes dbk_pg_text(const char *s);

/* Values of a result, all of them binary. Null: 0 or an empty range. */
int64_t dbk_pg_int(const PGresult *r, int row, int column);
bool dbk_pg_is(const PGresult *r, int row, int column);
struct daybook_bytes dbk_pg_bytes(const PGresult *r, int row, int column);

/* PG_DURABLE: what writes among the steps sees to synchronous_commit itself. */
enum pg_ends { PG_BEGIN = 1, PG_COMMIT = 2, PG_DURABLE = 4 };
struct pg_step {
    const char *sql;            /* `@` stands for the quoted schema */
    const struct pg_args *args; /* NULL: none */
};

/* Sends steps and reads what they return. With BEGIN it opens the transaction, with COMMIT it ends it. Whatever the
 * deadline, it waits no longer than the server may take (statement_timeout) and a little: a server that hangs keeps no
 * time-out of its own. BACKEND then.
 * @param count 0: only the ends.
 * @param ret_results `count` entries; owned on success, NULL on failure.
 * Returns OK; PG_AGAIN (rolled back: deadlock, serialisation, a unique index); BACKEND, TIMED_OUT (rolled back, or the connection
 * is lost: unknown if COMMIT was among them); after a failure no transaction is open. */
enum daybook_code dbk_pg_run(struct pg_journal *p, struct pg_conn *conn, unsigned ends,
                             const struct pg_step *steps, unsigned count, int64_t deadline_us,
                             PGresult **ret_results, struct daybook_error *err);
/* Connects if it is not. Returns OK or BACKEND, TIMED_OUT, BAD_CONFIG. */
enum daybook_code dbk_pg_connect(struct pg_journal *p, struct pg_conn *conn, int64_t deadline_us,
                                 struct daybook_error *err);
void dbk_pg_disconnect(struct pg_conn *conn);

void dbk_pg_pool_init(struct pg_pool *pool, unsigned count, unsigned first_slot);
void dbk_pg_pool_release(struct pg_pool *pool);
/* Takes a connection out of a pool, connected. Returns as dbk_pg_connect. */
enum daybook_code dbk_pg_take(struct pg_journal *p, struct pg_pool *pool, int64_t deadline_us,
                              struct pg_conn **ret, struct daybook_error *err);
/* Rolls back what is open and gives it back. NULL is accepted. */
void dbk_pg_give(struct pg_journal *p, struct pg_pool *pool, struct pg_conn *conn);
/* One statement in a transaction of its own, repeated where it was chosen to end a deadlock. */
enum daybook_code dbk_pg_once(struct pg_journal *p, struct pg_pool *pool, const char *sql,
                              const struct pg_args *args, int64_t deadline_us, PGresult **ret,
                              struct daybook_error *err);

/* ---- the parts ------------------------------------------------------------------------------------ */

/* append.c */
enum daybook_code dbk_pg_appenders_new(struct pg_journal *p, unsigned count, unsigned first_slot,
                                       struct daybook_error *err);
void dbk_pg_appenders_free(struct pg_journal *p); /* what waits is answered first */
enum daybook_code dbk_pg_append_batch(struct daybook_journal *j, const struct daybook_event *events,
                                      size_t count, int64_t now_us, int64_t deadline_us,
                                      struct daybook_append_result *ret_results,
                                      struct daybook_error *err);
enum daybook_code dbk_pg_queue_new(struct daybook_journal *j, struct daybook_append_queue **ret,
                                   struct daybook_error *err);
void dbk_pg_submit(struct daybook_journal *j, struct daybook_append_queue *queue,
                   struct daybook_submission *submission, int64_t now_us);

/* batch.c: one append statement */
struct pg_entry {
    void *ticket;               /* whose it is; NULL: it left */
    size_t index;               /* in the ticket */
    struct daybook_event event; /* of the arena */
    bool answered;
    struct daybook_append_result result;
};
struct pg_batch {
    struct pg_entry entries[PG_BATCH_EVENTS];
    size_t count;
    uint8_t *arena;
    size_t used;
    size_t room;
    int64_t now_us;
    struct pg_array ids, spaces, subjects, observed, records, bytes, checksums;
    size_t sent[PG_BATCH_EVENTS]; /* the i-th row of the statement is this entry */
};
void dbk_pg_batch_clear(struct pg_batch *batch);
void dbk_pg_batch_release(struct pg_batch *batch);
/* Copies an event. False: no memory, it is full, or its id is in it already. */
bool dbk_pg_batch_add(struct pg_batch *batch, const struct daybook_event *event, void *ticket,
                      size_t index);
/* Sends what is not answered yet. With PG_COMMIT in `ends` it is committed; else the transaction stays open.
 * @param ret owned on success: what dbk_pg_batch_answer wants once it is committed; NULL: nothing was unanswered.
 * Returns OK, PG_AGAIN, or what all that is left is to be answered with. */
enum daybook_code dbk_pg_batch_send(struct pg_journal *p, struct pg_conn *conn,
                                    struct pg_batch *batch, uint64_t others, unsigned ends,
                                    PGresult **ret, struct daybook_error *err);
/* Writes the answers that came; look for what is left. *ret_alone: some need nobody else to append. */
void dbk_pg_batch_answer(struct pg_journal *p, struct pg_batch *batch, const PGresult *r,
                         int64_t took_us, bool *ret_alone);
uint32_t dbk_pg_checksum(const struct daybook_event *event);

/* claim.c */
enum daybook_code dbk_pg_claim(struct daybook_journal *j, const struct daybook_claim *claim,
                               int64_t now_us, int64_t deadline_us, struct daybook_batch *batch,
                               struct daybook_error *err);
/* The handle's entry of a consumer; under the mutex; NULL: there is no place. */
struct pg_local *dbk_pg_local(struct pg_journal *p, const char *name, int32_t id);
void dbk_pg_count_quarantine(struct pg_journal *p, const char *name, int32_t id,
                             enum daybook_quarantine_reason reason);

/* verdicts.c */
struct pg_mark {
    uint64_t position;
    bool held;
    int64_t key;
    int64_t accepted_at_us;
    enum pg_resolution resolution;
    bool handed;
    bool refunded;
    uint32_t attempt;
    uint32_t hand_outs;
    uint64_t token;
    uint64_t survivor;
    bool leased;
    int64_t granted_us;
    int64_t expires_us;
    int32_t reason;
    uint32_t attempts_then;
    int64_t quarantined_at_us;
    struct daybook_bytes words;
    bool changed;
    bool acked; /* by this set */
    bool ended; /* the lease of a dropped event, by this set */
    bool damaged;
};
/* Marks of a consumer, fetched and locked. */
struct pg_standing {
    int32_t consumer; /* 0: not registered */
    uint64_t start;
    uint64_t token_floor;
    int64_t now_us;
    struct pg_mark *marks;
    size_t count;
};
bool dbk_pg_lease_live(const struct pg_mark *mark, int64_t now_us);
/* Fetches the marks of `count` positions, each once, and opens the transaction. `standing->marks` has room. */
enum daybook_code dbk_pg_standing(struct pg_journal *p, struct pg_conn *conn, unsigned ends,
                                  const char *consumer, int64_t now_us, bool by_operator,
                                  struct pg_standing *standing, int64_t deadline_us,
                                  struct daybook_error *err);
/* The arguments of settle_1. Zeroed before the first use. */
struct pg_settle {
    struct pg_array lanes, acked, acked_lane, acked_at, pos, lane, resolution, handed, refunded,
        attempt, hand_outs, token, survivor, granted, expires, reason, attempts_then,
        quarantined_at, words, damaged, ended;
    struct pg_args args;
    int64_t *keys; /* a hash table: keys of the lanes */
    uint32_t *places;
    size_t table;
    bool any;
};
#define PG_SETTLE_SQL                                                                              \
    "SELECT "                                                                                      \
    "@.settle_1($1,$2,$3,$4,$5,$6,$7,$8,$9,$10,$11,$12,$13,$14,$15,$16,$17,$18,$19,$20,$21,$22,$"  \
    "23)"
/* What has changed among the marks. False: no memory. */
bool dbk_pg_settle_fill(struct pg_settle *settle, int32_t consumer, unsigned slot,
                        const struct pg_mark *marks, size_t count);
void dbk_pg_settle_release(struct pg_settle *settle);

enum daybook_code dbk_pg_ack(struct daybook_journal *j, const char *consumer,
                             const struct daybook_hand_out *set, size_t count, int64_t now_us,
                             int64_t deadline_us, enum daybook_code *ret_codes,
                             struct daybook_error *err);
enum daybook_code dbk_pg_relinquish(struct daybook_journal *j, const char *consumer,
                                    const struct daybook_hand_out *set, size_t count,
                                    int64_t now_us, int64_t deadline_us,
                                    enum daybook_code *ret_codes, struct daybook_error *err);
enum daybook_code dbk_pg_extend(struct daybook_journal *j, const char *consumer,
                                const struct daybook_hand_out *set, size_t count, uint32_t lease_ms,
                                int64_t now_us, int64_t deadline_us, enum daybook_code *ret_codes,
                                struct daybook_error *err);
enum daybook_code dbk_pg_quarantine(struct daybook_journal *j, const char *consumer,
                                    struct daybook_hand_out hand_out,
                                    enum daybook_quarantine_reason reason,
                                    struct daybook_bytes words, int64_t now_us, int64_t deadline_us,
                                    struct daybook_error *err);

/* retention.c */
/* Under the handle's mutex: the now that pruning may use (P3). */
int64_t dbk_pg_braked(struct pg_journal *p, int64_t now_us);
/* What is pruned is what was accepted up to here; under the handle's mutex. False: nothing may be. */
bool dbk_pg_prune_until(struct pg_journal *p, int64_t now_us, int64_t *ret_us);
/* The now of the store's clock, as far as it is known here, or the caller's. */
int64_t dbk_pg_now(struct pg_journal *p, int64_t now_us);
void dbk_pg_note_now(struct pg_journal *p, int64_t store_now_us);
enum daybook_code dbk_pg_maintain(struct daybook_journal *j, int64_t now_us, int64_t deadline_us,
                                  uint64_t *ret_pruned, struct daybook_error *err);

/* read.c */
/* The columns of an event that is read, in all functions that return one. */
enum pg_event_column {
    PG_COL_POS,
    PG_COL_VERSION,
    PG_COL_BYTES,
    PG_COL_CHECKSUM,
    PG_COL_OBSERVED,
    PG_COL_ACCEPTED,
    PG_COL_ID,
    PG_COL_SPACE,
    PG_COL_SUBJECT,
    PG_COL_RECORD
};
/* Whether one more event of `bytes` fits; the first does where there is room for it at all. */
bool dbk_pg_fits(const struct daybook_batch *batch, uint64_t bytes_max, uint64_t bytes);
struct daybook_delivery *dbk_pg_put(struct daybook_batch *batch,
                                    const struct daybook_delivery *delivery);
enum daybook_code dbk_pg_read(struct daybook_journal *j, uint64_t after_position,
                              enum daybook_where where, struct daybook_batch *batch,
                              uint64_t *ret_last, uint64_t *ret_damaged, struct daybook_error *err);
enum daybook_code dbk_pg_newest_acknowledged(struct daybook_journal *j, const char *consumer,
                                             int64_t now_us, struct daybook_batch *batch,
                                             struct daybook_error *err);
enum daybook_code dbk_pg_find(struct daybook_journal *j, struct daybook_bytes request_id,
                              int64_t now_us, struct daybook_batch *batch,
                              struct daybook_event_standing *ret_standings, size_t max,
                              size_t *ret_count, struct daybook_error *err);
enum daybook_code dbk_pg_quarantine_list(struct daybook_journal *j, const char *consumer,
                                         uint64_t after_position,
                                         enum daybook_quarantine_reason reason,
                                         struct daybook_batch *batch,
                                         struct daybook_quarantine_entry *ret_entries,
                                         uint64_t *ret_last, struct daybook_error *err);

/* figures.c */
enum daybook_code dbk_pg_stats(struct daybook_journal *j, int64_t now_us,
                               struct daybook_journal_stats *ret, struct daybook_error *err);
enum daybook_code dbk_pg_consumer_stats(struct daybook_journal *j, const char *consumer,
                                        int64_t now_us, struct daybook_consumer_stats *ret,
                                        struct daybook_error *err);
enum daybook_code dbk_pg_consumers(struct daybook_journal *j,
                                   char (*names)[DAYBOOK_CONSUMER_NAME_MAX + 1], size_t max,
                                   size_t *ret_count, struct daybook_error *err);
void dbk_pg_count_group(struct pg_journal *p, int64_t took_us, uint64_t events);

/* operate.c */
enum daybook_code dbk_pg_release(struct daybook_journal *j, const char *consumer,
                                 struct daybook_bytes request_id, const struct daybook_operator *by,
                                 int64_t now_us, int64_t deadline_us, struct daybook_error *err);
enum daybook_code dbk_pg_discard(struct daybook_journal *j, const char *consumer,
                                 struct daybook_bytes request_id, const struct daybook_operator *by,
                                 int64_t now_us, int64_t deadline_us, struct daybook_error *err);
enum daybook_code dbk_pg_retire(struct daybook_journal *j, const char *consumer,
                                enum daybook_force force, const struct daybook_operator *by,
                                int64_t now_us, int64_t deadline_us, struct daybook_error *err);
enum daybook_code dbk_pg_rewind(struct daybook_journal *j, const char *consumer,
                                const struct daybook_operator *by, int64_t now_us,
                                int64_t deadline_us, struct daybook_error *err);
enum daybook_code dbk_pg_start(struct daybook_journal *j, const char *consumer,
                               struct daybook_start start, const struct daybook_operator *by,
                               int64_t now_us, int64_t deadline_us, struct daybook_error *err);
enum daybook_code dbk_pg_note_lift(struct daybook_journal *j, const char *consumer,
                                   const struct daybook_operator *by, int64_t now_us,
                                   int64_t deadline_us, struct daybook_error *err);
enum daybook_code dbk_pg_operations(struct daybook_journal *j, uint64_t before_no,
                                    struct daybook_operation *ret, size_t max, size_t *ret_count,
                                    struct daybook_error *err);

#endif
