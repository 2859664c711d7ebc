/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The file destination: NDJSON appended to a local file, synced once a batch; and standard output.
 */
#ifndef DAYBOOK_FILE_H
#define DAYBOOK_FILE_H

#include <daybook/sink.h>

#ifdef __cplusplus
extern "C" {
#endif

/** What a line holds. Line breaks between the tokens of a record are written as spaces. */
enum daybook_line_format {
    DAYBOOK_LINE_EVENT, /**< as `daybook export` writes it: position, names, times, record */
    DAYBOOK_LINE_RECORD /**< the record alone */
};

/** When a file is put aside, besides by its size. */
enum daybook_rotate {
    DAYBOOK_ROTATE_NONE,
    DAYBOOK_ROTATE_DAILY /**< before the first write of another day (UTC) */
};

struct daybook_file_options {
    const char *name; /**< metrics label; NULL: `"file"` */
    const char *path; /**< file, made if it is missing, for its owner alone */
    enum daybook_line_format format;
    /** A file that a batch would make larger than so many bytes is put aside first as
     * `PATH.YYYYMMDDThhmmssZ`; 0: never. A batch is never divided. */
    uint64_t rotate_bytes;
    enum daybook_rotate rotate;
};

/** Opens the destination; the file is made at the first write or check. Accepted means that the
 * lines were synced. Whatever crash comes, a file holds whole lines once it is opened again: what a
 * crash left unfinished at its end is cut. A file that was moved away or removed is made anew. A row that
 * is delivered again is there again: readers take one of each request_id.
 * @param options borrowed for the call. @param ret_sink owned: release with `ops->close`.
 * Returns OK; NO_MEMORY; BAD_CONFIG (no path, or too long a one). Threads: any. */
DAYBOOK_API DAYBOOK_MUST_CHECK enum daybook_code daybook_file_open(
    const struct daybook_file_options *options, struct daybook_sink **ret_sink,
    struct daybook_error *err);

struct daybook_stdout_options {
    const char *name; /**< metrics label; NULL: `"stdout"` */
    enum daybook_line_format format;
};

/** Opens standard output as a destination; the process should ignore SIGPIPE, or a reader that goes ends
 * it. Accepted means that the lines were written, no more: whoever
 * reads them may lose them, so an acknowledgement promises less than with any other destination. Lines
 * stay whole when a write is cut off: the rest of its last line comes first in the next write.
 * @param options borrowed for the call; NULL: the defaults. @param ret_sink owned: release with
 * `ops->close`, which leaves standard output open.
 * Returns OK; NO_MEMORY. Threads: any. */
DAYBOOK_API DAYBOOK_MUST_CHECK enum daybook_code daybook_stdout_open(
    const struct daybook_stdout_options *options, struct daybook_sink **ret_sink,
    struct daybook_error *err);

#ifdef __cplusplus
}
#endif
#endif
