/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Log lines: one event of the program's life, one line, text or JSON, on standard error.
 *
 * Values are quoted where they could break a line. Nobody may hand in a secret: there is no field for
 * bodies, headers or environment. Threads: any; set up once before threads start.
 */
#ifndef DBK_APP_LOGLINE_H
#define DBK_APP_LOGLINE_H

#include "app/config.h"

struct dbk_log_field {
    const char *name;
    const char *text; /* NULL: `number` */
    int64_t number;
};

#define DBK_LOG_TEXT_FIELD(field, value) ((struct dbk_log_field){field, value, 0})
#define DBK_LOG_NUMBER(field, value) ((struct dbk_log_field){field, NULL, (int64_t)(value)})

/* Where and how; `fd` stays the caller's. Before it is called: info, text, standard error. */
void dbk_log_setup(int fd, enum dbk_log_level level, enum dbk_log_format format);
bool dbk_log_wants(enum dbk_log_level level);

void dbk_log_fields(enum dbk_log_level level, const char *message,
                    const struct dbk_log_field *fields, size_t count);

/* dbk_log(DBK_LOG_INFO, "journal opened", DBK_LOG_NUMBER("events", n)); */
#define dbk_log(level, message, ...)                                                               \
    dbk_log_fields(level, message, (const struct dbk_log_field[]){__VA_ARGS__},                    \
                   sizeof((const struct dbk_log_field[]){__VA_ARGS__}) /                           \
                       sizeof(struct dbk_log_field))
#define dbk_log_bare(level, message) dbk_log_fields(level, message, NULL, 0)

struct dbk_text;
/* One line as it is written, with its newline. Pure: for the tests. */
void dbk_log_write_line(struct dbk_text *text, enum dbk_log_format format, int64_t now_us,
                        enum dbk_log_level level, const char *message,
                        const struct dbk_log_field *fields, size_t count);

#endif
