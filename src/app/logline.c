/* SPDX-License-Identifier: Apache-2.0 */
/* The log lines of logline.h. A line is written with one write, so lines of threads never mix. */
#include "app/logline.h"

#include <string.h>
#include <unistd.h>

#include <daybook/event.h>

#include "app/text.h"
#include "base/os.h"

static struct {
    int fd;
    enum dbk_log_level level;
    enum dbk_log_format format;
} setup = {STDERR_FILENO, DBK_LOG_INFO, DBK_LOG_TEXT};

static const char *level_name(enum dbk_log_level level)
{
    switch (level) {
    case DBK_LOG_DEBUG:
        return "debug";
    case DBK_LOG_INFO:
        return "info";
    case DBK_LOG_WARNING:
        return "warning";
    case DBK_LOG_ERROR:
        break;
    }
    return "error";
}

void dbk_log_setup(int fd, enum dbk_log_level level, enum dbk_log_format format)
{
    setup.fd = fd;
    setup.level = level;
    setup.format = format;
}

bool dbk_log_wants(enum dbk_log_level level)
{
    return level >= setup.level;
}

/* Bare where nothing in it can be taken for something else. */
static bool is_plain(const char *s)
{
    if (*s == '\0') {
        return false;
    }
    for (; *s != '\0'; s++) {
        if (*s <= ' ' || *s == '"' || *s == '=' || *s == '\\' || *s == 0x7F) {
            return false;
        }
    }
    return true;
}

static void write_text(struct dbk_text *text, const char *time, enum dbk_log_level level,
                       const char *message, const struct dbk_log_field *fields, size_t count)
{
    dbk_text_printf(text, "%s %s %s", time, level_name(level), message);
    for (size_t i = 0; i < count; i++) {
        dbk_text_printf(text, " %s=", fields[i].name);
        if (fields[i].text == NULL) {
            dbk_text_printf(text, "%lld", (long long)fields[i].number);
        } else if (is_plain(fields[i].text)) {
            dbk_text_str(text, fields[i].text);
        } else {
            dbk_text_json_str(text, fields[i].text);
        }
    }
}

static void write_json(struct dbk_text *text, const char *time, enum dbk_log_level level,
                       const char *message, const struct dbk_log_field *fields, size_t count)
{
    dbk_text_printf(text, "{\"time\":\"%s\",\"level\":\"%s\",\"message\":", time,
                    level_name(level));
    dbk_text_json_str(text, message);
    for (size_t i = 0; i < count; i++) {
        dbk_text_printf(text, ",\"%s\":", fields[i].name);
        if (fields[i].text == NULL) {
            dbk_text_printf(text, "%lld", (long long)fields[i].number);
        } else {
            dbk_text_json_str(text, fields[i].text);
        }
    }
    dbk_text_char(text, '}');
}

void dbk_log_write_line(struct dbk_text *text, enum dbk_log_format format, int64_t now_us,
                        enum dbk_log_level level, const char *message,
                        const struct dbk_log_field *fields, size_t count)
{
    char time[DAYBOOK_TIME_TEXT_MAX];
    (void)daybook_time_format(now_us, time);
    if (format == DBK_LOG_JSON) {
        write_json(text, time, level, message, fields, count);
    } else {
        write_text(text, time, level, message, fields, count);
    }
    dbk_text_char(text, '\n');
}

void dbk_log_fields(enum dbk_log_level level, const char *message,
                    const struct dbk_log_field *fields, size_t count)
{
    if (!dbk_log_wants(level)) {
        return;
    }
    const struct dbk_os *os = dbk_os_posix();
    struct dbk_text text = {0};
    dbk_log_write_line(&text, setup.format, os->realtime_us(os), level, message, fields, count);
    if (!text.failed) {
        /* Standard error that cannot be written leaves nobody to tell. */
        ssize_t ignored = write(setup.fd, text.data, text.len);
        (void)ignored;
    }
    dbk_text_release(&text);
}
