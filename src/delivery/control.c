/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The control (W5): a copy of the last event that landed, written again where blame hangs on it. It is a
 * copy because the batch that it came in is used again; its room is taken when the worker is made.
 *
 * Threads: the worker's.
 */
#include "delivery/delivery.h"

#include <stdlib.h>
#include <string.h>

#include "base/fault.h"
#include "journal/engine.h"

bool dbk_control_init(struct dbk_control *control, size_t bytes_max)
{
    *control = (struct dbk_control){.bytes_max = bytes_max};
    control->bytes = malloc(bytes_max);
    return control->bytes != NULL;
}

void dbk_control_release(struct dbk_control *control)
{
    free(control->bytes);
}

static struct daybook_bytes copy(char **at, struct daybook_bytes bytes)
{
    struct daybook_bytes copied = {*at, bytes.len};

    if (bytes.len > 0) {
        memcpy(*at, bytes.data, bytes.len);
        *at += bytes.len;
    }
    return copied;
}

void dbk_control_keep(struct dbk_control *control, const struct daybook_row *row, int64_t at_us)
{
    const struct daybook_event *event = &row->event;
    char *at = control->bytes;

    if (event->request_id.len + event->name_space.len + event->subject.len + event->record.len >
        control->bytes_max) {
        return; /* from before a limit was lowered: the one before it will do */
    }
    control->known = true;
    control->at_us = at_us;
    control->row = *row;
    control->row.event.request_id = copy(&at, event->request_id);
    control->row.event.name_space = copy(&at, event->name_space);
    control->row.event.subject = copy(&at, event->subject);
    control->row.event.record = copy(&at, event->record);
}

bool dbk_control_is_known(const struct dbk_control *control, int64_t now_us, int64_t retain_us)
{
    return control->known &&
           (now_us - control->at_us <= retain_us || dbk_fault(DBK_FAULT_CONTROL_OF_ANY_AGE));
}

void dbk_control_look_up(struct daybook_worker *w)
{
    if (w->control.looked) {
        return;
    }
    w->control.looked = true;
    /* What fails leaves the control unknown: then nobody is blamed until something lands. */
    if (dbk_journal_newest_acknowledged(w->journal, w->consumer, dbk_worker_now_us(w), w->batch,
                                        NULL) != DAYBOOK_OK ||
        w->batch->count == 0) {
        return;
    }
    struct daybook_row row = dbk_worker_row(&w->batch->deliveries[0]);
    dbk_control_keep(&w->control, &row, row.accepted_at_us);
}
