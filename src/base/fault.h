/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Deliberate faults: each breaks one promise, so that the tests can show that they would notice.
 *
 * Chosen at run time in builds with the option `faults` (the test builds), by the environment variable
 * DAYBOOK_FAULT or by dbk_fault_set; in every other build `dbk_fault` is a constant no and the faulty
 * branches do not exist. Which test has to catch which stands in tests/canary/table.
 */
#ifndef DBK_BASE_FAULT_H
#define DBK_BASE_FAULT_H

#include <stdbool.h>

/* X(in C, in tables): the rule that it breaks and how. */
#define DBK_FAULT_LIST(X)                                                                          \
    X(NO_FDATASYNC, "no_fdatasync")               /* A1: the log is never synced */                \
    X(ANSWER_BEFORE_SYNC, "answer_before_sync")   /* A1: appends are answered when written */      \
    X(NO_DIR_FSYNC, "no_dir_fsync")               /* A1: a new segment's name is never synced */   \
    X(SHORT_WRITE_IGNORED, "short_write_ignored") /* A1: what it left out counts as written */     \
    X(CRC_WITHOUT_PLACE, "crc_without_place")     /* D2: checksums are not bound to their place */ \
    X(APPEND_INTO_CRASHED, "append_into_crashed") /* D8: what a crash left is written on */        \
    X(TRUNCATE_DAMAGE, "truncate_damage")         /* D7: damage below a proof is cut off */        \
    X(RETRY_FAILED_SYNC, "retry_failed_sync")     /* A7: a failed sync is repeated and believed */ \
    X(RENAME_BEFORE_FSYNC,                                                                         \
      "rename_before_fsync")                  /* D1: a file has its name before it is on disk */   \
    X(CHECKPOINT_AHEAD, "checkpoint_ahead")   /* D1: it describes more than the durable log */     \
    X(INDEX_WITHOUT_CRC, "index_without_crc") /* D7: an index is believed as it is */              \
    X(TRIM_BY_NEWEST, "trim_by_newest")       /* D7: a segment goes one checkpoint too early */    \
    X(CHECKPOINT_UNPROVEN,                                                                         \
      "checkpoint_unproven") /* D7: the log may end before what a checkpoint describes */          \
    X(CHECKPOINT_LOSES_DISCARDS, "checkpoint_loses_discards") /* O1: discards are not in it */     \
    X(RELOCATE_UNSYNCED,                                                                           \
      "relocate_unsynced") /* D1: a segment goes before its copies are durable */                  \
    X(RELOCATE_REORDERS, "relocate_reorders") /* C4: what is relocated goes behind its key */      \
    X(FULL_TAIL_UNNOTED, "full_tail_unnoted") /* D7: nothing proves the last group of a segment */ \
    X(ACCEPTED_AT_GOES_BACK, "accepted_at_goes_back")                                              \
    X(OBSERVED_BY_US, "observed_by_us")                                                            \
    X(NUMBERS_AS_DOUBLES, "numbers_as_doubles")                                                    \
    X(DUPLICATE_NAMES_TAKEN, "duplicate_names_taken")                                              \
    X(CONFLICT_IS_PRESENT, "conflict_is_present")                                                  \
    X(BAD_SPOILS_BATCH, "bad_spoils_batch")                                                        \
    X(REGISTERS_ON_ACK, "registers_on_ack")                                                        \
    X(TOKENS_AGAIN, "tokens_again")                                                                \
    X(REFUND_UNDOES_REDELIVERY, "refund_undoes_redelivery")                                        \
    X(KEY_NEVER_BUSY, "key_never_busy")                                                            \
    X(RUN_TOO_LONG, "run_too_long")                                                                \
    X(ORDER_BEHIND_POISON, "order_behind_poison")                                                  \
    X(LEASE_BY_WALL_CLOCK, "lease_by_wall_clock")                                                  \
    X(HAND_OUTS_LOST, "hand_outs_lost")                                                            \
    X(CLAIMS_NEWER, "claims_newer")                                                                \
    X(NEIGHBOURS_UNREADABLE, "neighbours_unreadable")                                              \
    X(ENTRY_OF_ANOTHER, "entry_of_another") /* C7: any sound entry is taken for the one meant */   \
    X(ACK_ENDS_QUARANTINE, "ack_ends_quarantine")                                                  \
    X(ACKS_UNHANDED, "acks_unhanded")                                                              \
    X(ACKS_ACCEPTED_ANEW, "acks_accepted_anew")                                                    \
    X(OLD_TOKENS_AFTER_REWIND, "old_tokens_after_rewind")                                          \
    X(QUARANTINE_UNSYNCED, "quarantine_unsynced")                                                  \
    X(FORGETS_REFUND, "forgets_refund")                                                            \
    X(REFUNDS_TWICE, "refunds_twice")                                                              \
    X(EXTENDS_THE_DEAD, "extends_the_dead")                                                        \
    X(UNRESOLVED_WITHOUT_LEASED, "unresolved_without_leased")                                      \
    X(RELEASE_KEEPS_BUDGET, "release_keeps_budget")                                                \
    X(RETIRE_KEEPS_RETENTION, "retire_keeps_retention")                                            \
    X(REWIND_LOSES_QUARANTINE, "rewind_loses_quarantine")                                          \
    X(CAPACITY_OFF_BY_ONE, "capacity_off_by_one")                                                  \
    X(ONE_CONSUMER_SUFFICES, "one_consumer_suffices")                                              \
    X(PRUNES_UNDELIVERED, "prunes_undelivered")                                                    \
    X(WINDOW_FROM_OBSERVATION, "window_from_observation")                                          \
    X(CLOCK_BRAKE_OFF, "clock_brake_off")                                                          \
    X(RESERVE_IGNORED, "reserve_ignored")                                                          \
    X(RECLAIMS_ONLY_THE_FRONT, "reclaims_only_the_front")                                          \
    X(RECLAIMS_QUARANTINED, "reclaims_quarantined")                                                \
    X(DROPS_QUARANTINED, "drops_quarantined")                                                      \
    X(DROPPED_LEASE_FORGOTTEN, "dropped_lease_forgotten")                                          \
    X(BLAMES_WITHOUT_ACCEPTANCE, "blames_without_acceptance")                                      \
    X(BLAMES_IN_AN_OUTAGE, "blames_in_an_outage")                                                  \
    X(CONDEMNS_AT_ONCE, "condemns_at_once")                                                        \
    X(BRAKE_OFF, "brake_off")                                                                      \
    X(ROLLED_BACK_LANDED, "rolled_back_landed")                                                    \
    X(OTHER_ROW_ACCEPTED, "other_row_accepted")                                                    \
    X(UNAVAILABLE_IS_OUTAGE, "unavailable_is_outage")                                              \
    X(BEATS_ON, "beats_on")                                                                        \
    X(WRITES_BEHIND_REFUSED, "writes_behind_refused")                                              \
    X(AWAY_ASKED_LAST, "away_asked_last")                                                          \
    X(MAINTAINS_AFTER_STOP, "maintains_after_stop")                                                \
    X(ZEROS_FOR_UNKNOWN, "zeros_for_unknown")                                                      \
    X(ACKS_UNWRITTEN, "acks_unwritten")                                                            \
    X(ACK_NOT_REPEATED, "ack_not_repeated")                                                        \
    X(OUTAGE_SPENDS_ATTEMPTS, "outage_spends_attempts")                                            \
    X(COUNTS_EACH_WRITE, "counts_each_write")                                                      \
    X(ADVISES_UNLANDED, "advises_unlanded")                                                        \
    X(STOP_KEEPS_LEASES, "stop_keeps_leases")                                                      \
    X(LEASE_NOT_EXTENDED, "lease_not_extended")                                                    \
    X(HOLDS_NOTHING, "holds_nothing")                                                              \
    X(CONTROL_OF_ANY_AGE, "control_of_any_age")                                                    \
    X(PRESENT_IN_FLIGHT, "present_in_flight")                                                      \
    X(CLAIM_BEFORE_WRITTEN, "claim_before_written")                                                \
    X(VERDICTS_BEFORE_WRITTEN, "verdicts_before_written")                                          \
    X(CACHE_BELIEVED, "cache_believed")                                                            \
    X(UNREADABLE_IS_NOTHING, "unreadable_is_nothing")                                              \
    X(TRAIL_LOST, "trail_lost")                                                                    \
    X(TRIM_UNSYNCED, "trim_unsynced")                                                              \
    X(SEGMENT_UNSYNCED, "segment_unsynced")                                                        \
    X(FORGET_UNLOGGED, "forget_unlogged")                                                          \
    X(COUNTERS_NOT_RESTATED, "counters_not_restated")                                              \
    X(PROOF_TOO_HIGH, "proof_too_high")                                                            \
    X(COPY_UNSYNCED, "copy_unsynced")

#define DBK_FAULT_ENUM(id, name) DBK_FAULT_##id,
enum dbk_fault { DBK_FAULT_NONE, DBK_FAULT_LIST(DBK_FAULT_ENUM) DBK_FAULT_COUNT };

#ifdef DBK_FAULTS
/* Threads: any. */
bool dbk_fault(enum dbk_fault fault);
/* Switches one fault on, DBK_FAULT_NONE: all off. Before threads start. */
void dbk_fault_set(enum dbk_fault fault);
/* The name used in tables and by DAYBOOK_FAULT: `"no_fdatasync"`. */
const char *dbk_fault_name(enum dbk_fault fault);
#else
static inline bool dbk_fault(enum dbk_fault fault)
{
    (void)fault;
    return false;
}
#endif

#endif
