/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Verdicts (P): what an acknowledgement, a refund, an extension or a quarantine comes to (K1 to K4,
 * R1, X1), and making it so.
 *
 * Threads: the caller's state lock.
 */
#include "engines/log/state_impl.h"

#include "base/fault.h"

/* Whether the token speaks of a hand-out of this event to this consumer that still counts (K2, K3). */
static bool handed_out(const struct dbk_state *s, const struct dbk_consumer *c, uint32_t slot,
                       uint64_t token)
{
    if ((c->handed[dbk_slot_entry(s, slot)] & dbk_slot_mask(slot)) == 0) {
        return false;
    }
    return token >= c->token_floor || (c->lease_of[slot] != 0 && token != 0 &&
                                       c->leases[c->lease_of[slot]].kept_token == token);
}

enum standing {
    STANDS_UNHELD,   /* the event is not stored */
    STANDS_STRANGER, /* consumer unknown, or the event lies before its start */
    STANDS_ENDED,    /* acknowledged or discarded */
    STANDS_QUARANTINED,
    STANDS_UNHANDED, /* never handed out to it */
    STANDS_OPEN
};

/* The order of evaluation that all verdicts share (K2). */
static enum standing stand(const struct dbk_state *s, const struct dbk_consumer *c, uint32_t slot,
                           struct daybook_hand_out hand_out)
{
    uint64_t mask = dbk_slot_mask(slot);
    uint32_t entry = 0;

    if (slot == 0) {
        return STANDS_UNHELD;
    }
    if (c == NULL || hand_out.position < c->start) {
        return STANDS_STRANGER;
    }
    entry = dbk_slot_entry(s, slot);
    if (((c->acknowledged[entry] | c->discarded[entry]) & mask) != 0) {
        return STANDS_ENDED;
    }
    if ((c->quarantined[entry] & mask) != 0) {
        return STANDS_QUARANTINED;
    }
    return handed_out(s, c, slot, hand_out.token) ? STANDS_OPEN : STANDS_UNHANDED;
}

/* Whether the verdict speaks of the lease of a dropped event (P5). */
static bool ends_orphan(const struct dbk_consumer *c, struct daybook_hand_out hand_out)
{
    uint32_t orphan = c == NULL ? 0 : dbk_orphan_find(c, hand_out.position);

    return orphan != 0 && c->leases[orphan].token == hand_out.token;
}

static struct dbk_decision answer(enum daybook_code code)
{
    return (struct dbk_decision){.code = code};
}

static struct dbk_decision effect(enum daybook_code code)
{
    return (struct dbk_decision){.code = code, .effect = true};
}

static struct dbk_decision decide_ack(enum standing standing)
{
    switch (standing) {
    case STANDS_UNHELD:
    case STANDS_ENDED:
        return answer(DAYBOOK_OK);
    case STANDS_QUARANTINED:
        return answer(dbk_fault(DBK_FAULT_ACK_ENDS_QUARANTINE) ? DAYBOOK_OK : DAYBOOK_QUARANTINED);
    case STANDS_OPEN:
        return effect(DAYBOOK_OK);
    case STANDS_UNHANDED:
        if (dbk_fault(DBK_FAULT_ACKS_UNHANDED)) {
            return effect(DAYBOOK_OK);
        }
        return answer(DAYBOOK_NOT_OUTSTANDING);
    case STANDS_STRANGER:
    default:
        return answer(DAYBOOK_NOT_OUTSTANDING);
    }
}

static struct dbk_decision decide_refund(enum standing standing, const struct dbk_lease *lease,
                                         uint64_t token)
{
    struct dbk_decision decision = answer(DAYBOOK_OK);

    switch (standing) {
    case STANDS_UNHELD:
    case STANDS_ENDED:
    case STANDS_QUARANTINED:
        return decision;
    case STANDS_OPEN:
        if (dbk_fault(DBK_FAULT_FORGETS_REFUND)) {
            return decision;
        }
        if (lease->token == token && lease->kind == DBK_LEASE_EVENT &&
            (lease->refunded == 0 || dbk_fault(DBK_FAULT_REFUNDS_TWICE))) {
            decision.effect = true;
            decision.attempt_after = lease->attempt > 0 ? lease->attempt - 1 : 0;
        }
        return decision;
    case STANDS_STRANGER:
    case STANDS_UNHANDED:
    default:
        return answer(DAYBOOK_NOT_OUTSTANDING);
    }
}

static struct dbk_decision decide_extend(enum standing standing, const struct dbk_lease *lease,
                                         uint64_t token, int64_t now_us)
{
    if (standing != STANDS_OPEN || lease->kind != DBK_LEASE_EVENT || lease->token != token ||
        lease->refunded != 0 ||
        (!dbk_lease_is_live(lease, now_us) && !dbk_fault(DBK_FAULT_EXTENDS_THE_DEAD))) {
        return answer(DAYBOOK_NOT_OUTSTANDING);
    }
    return effect(DAYBOOK_OK);
}

struct dbk_decision dbk_state_decide(const struct dbk_state *state, uint32_t consumer,
                                     enum dbk_settle_op op, struct daybook_hand_out hand_out,
                                     int64_t now_us, uint32_t lease_ms,
                                     enum dbk_settle_op *ret_op_effect)
{
    const struct dbk_consumer *c = dbk_consumer_find(state, consumer);
    uint32_t slot = dbk_slot_find(state, hand_out.position);
    enum standing standing = stand(state, c, slot, hand_out);
    static const struct dbk_lease none = {0};
    const struct dbk_lease *lease =
        slot != 0 && c != NULL && c->lease_of[slot] != 0 ? &c->leases[c->lease_of[slot]] : &none;
    struct dbk_decision decision = {0};

    *ret_op_effect = op;
    switch (op) {
    case DBK_SETTLE_ACK:
        decision = decide_ack(standing);
        break;
    case DBK_SETTLE_REFUND:
        decision = decide_refund(standing, lease, hand_out.token);
        break;
    case DBK_SETTLE_EXTEND:
        decision = decide_extend(standing, lease, hand_out.token, now_us);
        if (decision.effect &&
            dbk_time_add(now_us, (int64_t)lease_ms * 1000) <= lease->expires_at_us) {
            decision.effect = false; /* it would end no later than it stands (X1) */
        }
        return decision; /* whoever asks for more time may be writing: an orphan goes on (P5) */
    case DBK_SETTLE_GIVE_UP:
        decision = decide_extend(standing, lease, hand_out.token, now_us);
        break;
    }
    if (standing == STANDS_UNHELD && ends_orphan(c, hand_out)) {
        decision.effect = true;
        *ret_op_effect = DBK_SETTLE_GIVE_UP;
    }
    return decision;
}

struct dbk_decision dbk_state_decide_quarantine(const struct dbk_state *state, uint32_t consumer,
                                                struct daybook_hand_out hand_out)
{
    const struct dbk_consumer *c = dbk_consumer_find(state, consumer);
    uint32_t slot = dbk_slot_find(state, hand_out.position);

    switch (stand(state, c, slot, hand_out)) {
    case STANDS_ENDED:
        return answer(DAYBOOK_ALREADY_ACKNOWLEDGED);
    case STANDS_QUARANTINED:
        return answer(DAYBOOK_OK);
    case STANDS_OPEN:
        return effect(DAYBOOK_OK);
    case STANDS_UNHELD:
        if (ends_orphan(c, hand_out)) {
            return effect(DAYBOOK_NOT_OUTSTANDING);
        }
        return answer(DAYBOOK_NOT_OUTSTANDING);
    case STANDS_STRANGER:
    case STANDS_UNHANDED:
    default:
        return answer(DAYBOOK_NOT_OUTSTANDING);
    }
}

uint32_t dbk_state_attempts(const struct dbk_state *state, uint32_t consumer, uint64_t position)
{
    const struct dbk_consumer *c = dbk_consumer_find(state, consumer);
    uint32_t slot = dbk_slot_find(state, position);

    return c == NULL || slot == 0 ? 0 : c->leases[c->lease_of[slot]].attempt;
}

/* ---- making it so ----------------------------------------------------------------------------------------- */

static void settle_unheld(struct dbk_state *s, struct dbk_consumer *c, enum dbk_settle_op op,
                          const struct dbk_settle_entry *entry)
{
    uint32_t orphan = dbk_orphan_find(c, entry->position);

    if (op == DBK_SETTLE_GIVE_UP && orphan != 0 && c->leases[orphan].token == entry->token) {
        uint32_t key = c->leases[orphan].key;

        dbk_lease_remove(s, c, orphan);
        dbk_key_release(s, key);
    }
}

static void settle_one(struct dbk_state *s, struct dbk_consumer *c, uint32_t slot,
                       enum dbk_settle_op op, int64_t granted_at_us, int64_t expires_at_us,
                       const struct dbk_settle_entry *entry)
{
    uint32_t lease = c->lease_of[slot];
    struct dbk_lease *l = &c->leases[lease];

    if (op == DBK_SETTLE_ACK) {
        c->acknowledged[dbk_slot_entry(s, slot)] |= dbk_slot_mask(slot);
        dbk_event_resolved(s, c, slot);
        return;
    }
    if (lease == 0 || l->token != entry->token) {
        return;
    }
    if (op == DBK_SETTLE_REFUND) {
        l->attempt = entry->attempt_after;
        l->refunded = 1;
    } else if (op == DBK_SETTLE_GIVE_UP) {
        dbk_lease_off(s, c, lease);
    } else if (l->phase != DBK_LEASE_OFF && expires_at_us > l->expires_at_us) {
        dbk_lease_run(s, c, lease, granted_at_us, expires_at_us);
    }
}

void dbk_state_apply_settle(struct dbk_state *state, uint32_t consumer, enum dbk_settle_op op,
                            uint32_t lease_ms, int64_t now_us,
                            const struct dbk_settle_entry *entries, size_t count)
{
    struct dbk_consumer *c = dbk_consumer_find(state, consumer);
    int64_t expires_at_us = dbk_time_add(now_us, (int64_t)lease_ms * 1000);

    for (size_t i = 0; c != NULL && i < count; i++) {
        uint32_t slot = dbk_slot_find(state, entries[i].position);

        if (slot == 0) {
            settle_unheld(state, c, op, &entries[i]);
        } else if (dbk_consumer_unresolved(state, c, slot)) {
            settle_one(state, c, slot, op, now_us, expires_at_us, &entries[i]);
        }
    }
}

void dbk_state_apply_quarantine(struct dbk_state *state, uint32_t consumer, uint64_t position,
                                enum daybook_quarantine_reason reason)
{
    struct dbk_consumer *c = dbk_consumer_find(state, consumer);
    uint32_t slot = dbk_slot_find(state, position);

    (void)reason; /* it stands in the frame */
    if (c == NULL || slot == 0 || !dbk_consumer_unresolved(state, c, slot)) {
        return;
    }
    c->quarantined[dbk_slot_entry(state, slot)] |= dbk_slot_mask(slot);
    dbk_event_resolved(state, c, slot);
}
