/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The contract as arrays and linear searches (P): what is stored, what each consumer has done with it,
 * and every rule of sections 3 and 4 spelled out the plain way. It is what the other engines are
 * compared with, so it shares nothing with them and nothing here is clever: a key is busy when a look
 * through all events finds a live lease of it.
 *
 * No I/O, no threads, no clock of its own: `now_us` is the caller's clock, `mono_us` the monotonic one.
 * Every function needs the owner's lock.
 */
#ifndef DBK_ENGINES_MEMORY_MODEL_H
#define DBK_ENGINES_MEMORY_MODEL_H

#include <stdint.h>

#include <daybook/journal.h>

struct dbk_model;

/* What a test makes of a stored event. */
enum dbk_model_fitness {
    DBK_MODEL_SOUND,    /* of this build's row version and readable */
    DBK_MODEL_NEWER,    /* of a newer row version (C9) */
    DBK_MODEL_MALFORMED /* not decodable (C7) */
};

enum daybook_code dbk_model_new(const struct daybook_capacity *capacity, struct dbk_model **ret);
void dbk_model_free(struct dbk_model *model);
/* A new process over the same storage: what is not durable starts anew (A7, P3). */
void dbk_model_restarted(struct dbk_model *model, const struct daybook_capacity *capacity,
                         int64_t mono_us);

/* Tests: a copy with storage of its own; NULL: no memory. */
struct dbk_model *dbk_model_copy(const struct dbk_model *from);
/* Tests: tokens go on behind those that `newer` has given out (C2). */
void dbk_model_tokens_behind(struct dbk_model *model, const struct dbk_model *newer);

/* Tests: positions below are not given out any more. Returns how many that are. */
uint64_t dbk_model_skip_positions(struct dbk_model *model, uint64_t next_position);

/* Tests: gives up at most `count` delivered events, oldest first, as P4 does. Returns how many. */
uint64_t dbk_model_reclaim(struct dbk_model *model, uint64_t count);

void dbk_model_append(struct dbk_model *model, const struct daybook_event *event, int64_t now_us,
                      int64_t mono_us, struct daybook_append_result *ret);

enum daybook_code dbk_model_claim(struct dbk_model *model, const struct daybook_claim *claim,
                                  int64_t now_us, struct daybook_batch *batch,
                                  struct daybook_error *err);
enum daybook_code dbk_model_ack(struct dbk_model *model, const char *consumer,
                                struct daybook_hand_out hand_out);
enum daybook_code dbk_model_relinquish(struct dbk_model *model, const char *consumer,
                                       struct daybook_hand_out hand_out);
enum daybook_code dbk_model_extend(struct dbk_model *model, const char *consumer,
                                   struct daybook_hand_out hand_out, uint32_t lease_ms,
                                   int64_t now_us);
enum daybook_code dbk_model_quarantine(struct dbk_model *model, const char *consumer,
                                       struct daybook_hand_out hand_out,
                                       enum daybook_quarantine_reason reason,
                                       struct daybook_bytes words, int64_t now_us);

uint64_t dbk_model_prune(struct dbk_model *model, int64_t now_us, int64_t mono_us,
                         uint64_t events_max);

void dbk_model_stats(const struct dbk_model *model, int64_t now_us,
                     struct daybook_journal_stats *ret);
void dbk_model_consumer_stats(const struct dbk_model *model, const char *consumer, int64_t now_us,
                              struct daybook_consumer_stats *ret);
size_t dbk_model_consumers(const struct dbk_model *model,
                           char (*names)[DAYBOOK_CONSUMER_NAME_MAX + 1], size_t max);
void dbk_model_read(struct dbk_model *model, uint64_t after_position, enum daybook_where where,
                    struct daybook_batch *batch, uint64_t *ret_last, uint64_t *ret_damaged);
/* False: the event does not fit the batch. */
bool dbk_model_newest_acknowledged(const struct dbk_model *model, const char *consumer,
                                   int64_t now_us, struct daybook_batch *batch);

enum daybook_code dbk_model_release(struct dbk_model *model, const char *consumer,
                                    struct daybook_bytes request_id,
                                    const struct daybook_operator *by, int64_t now_us,
                                    struct daybook_error *err);
enum daybook_code dbk_model_discard(struct dbk_model *model, const char *consumer,
                                    struct daybook_bytes request_id,
                                    const struct daybook_operator *by, int64_t now_us,
                                    struct daybook_error *err);
enum daybook_code dbk_model_retire(struct dbk_model *model, const char *consumer,
                                   enum daybook_force force, const struct daybook_operator *by,
                                   int64_t now_us, struct daybook_error *err);
enum daybook_code dbk_model_rewind(struct dbk_model *model, const char *consumer,
                                   const struct daybook_operator *by, int64_t now_us,
                                   struct daybook_error *err);
enum daybook_code dbk_model_note_lift(struct dbk_model *model, const char *consumer,
                                      const struct daybook_operator *by, int64_t now_us,
                                      struct daybook_error *err);
enum daybook_code dbk_model_start(struct dbk_model *model, const char *consumer,
                                  struct daybook_start start, const struct daybook_operator *by,
                                  int64_t now_us, struct daybook_error *err);
enum daybook_code dbk_model_quarantine_list(const struct dbk_model *model, const char *consumer,
                                            uint64_t after_position,
                                            enum daybook_quarantine_reason reason,
                                            struct daybook_batch *batch,
                                            struct daybook_quarantine_entry *ret_entries,
                                            uint64_t *ret_last, struct daybook_error *err);
enum daybook_code dbk_model_find(const struct dbk_model *model, struct daybook_bytes request_id,
                                 int64_t now_us, struct daybook_batch *batch,
                                 struct daybook_event_standing *ret_standings, size_t max,
                                 size_t *ret_count, struct daybook_error *err);
size_t dbk_model_operations(const struct dbk_model *model, uint64_t before_no,
                            struct daybook_operation *ret, size_t max);

/* Tests: false when the position is not stored. */
bool dbk_model_set_fitness(struct dbk_model *model, uint64_t position,
                           enum dbk_model_fitness fitness);

#endif
