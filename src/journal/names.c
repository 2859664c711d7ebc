/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Names of the journal's vocabulary: consumers, reasons of a quarantine, operations. Pure; threads: any.
 */
#include "journal/names.h"

#include <daybook/journal.h>

bool dbk_consumer_name_valid(const char *name, size_t len)
{
    if (len == 0 || len > DAYBOOK_CONSUMER_NAME_MAX) {
        return false;
    }
    for (size_t i = 0; i < len; i++) {
        char c = name[i];

        if (!(c >= 'a' && c <= 'z') && !(c >= '0' && c <= '9') && c != '_' && c != '-') {
            return false;
        }
    }
    return true;
}

const char *daybook_quarantine_reason_name(enum daybook_quarantine_reason reason)
{
    switch (reason) {
    case DAYBOOK_REASON_MALFORMED:
        return "malformed";
    case DAYBOOK_REASON_REJECTED:
        return "rejected";
    case DAYBOOK_REASON_ATTEMPTS_EXHAUSTED:
        return "attempts_exhausted";
    }
    return "unknown_reason";
}

const char *daybook_standing_name(enum daybook_standing standing)
{
    switch (standing) {
    case DAYBOOK_STANDING_PENDING:
        return "pending";
    case DAYBOOK_STANDING_IN_FLIGHT:
        return "in_flight";
    case DAYBOOK_STANDING_ACKNOWLEDGED:
        return "acknowledged";
    case DAYBOOK_STANDING_QUARANTINED:
        return "quarantined";
    case DAYBOOK_STANDING_DISCARDED:
        return "discarded";
    }
    return "unknown_standing";
}

const char *daybook_operation_kind_name(enum daybook_operation_kind kind)
{
    switch (kind) {
    case DAYBOOK_OPERATION_START:
        return "start";
    case DAYBOOK_OPERATION_RELEASE:
        return "release";
    case DAYBOOK_OPERATION_DISCARD:
        return "discard";
    case DAYBOOK_OPERATION_RETIRE:
        return "retire";
    case DAYBOOK_OPERATION_REWIND:
        return "rewind";
    case DAYBOOK_OPERATION_LIFT:
        return "lift";
    }
    return "unknown_operation";
}
