/* SPDX-License-Identifier: Apache-2.0 */
/* The structured form of cloudevents.h: HTTP binding and JSON format of CloudEvents 1.0. */
#include "daemon/cloudevents.h"

#include <string.h>
#include <strings.h>

#include "base/error.h"
#include "daemon/target.h"
#include "json/json.h"

#define PREFIX "ce-"
#define PREFIX_BYTES 3u
#define NAME_BYTES_MAX 128u
#define VALUE_BYTES_MAX (16u * 1024u) /* no header is longer */

static struct daybook_bytes bytes_of(const char *text)
{
    return (struct daybook_bytes){text, strlen(text)};
}

bool dbk_cloudevent_is_header(const char *name)
{
    return strncasecmp(name, PREFIX, PREFIX_BYTES) == 0;
}

/* ---- attributes ------------------------------------------------------------------------------- */

/* The name of an attribute, in lower case; false where it can be none. */
static bool attribute_name(const char *header, char name[static NAME_BYTES_MAX])
{
    size_t len = strlen(header + PREFIX_BYTES);
    if (len == 0 || len >= NAME_BYTES_MAX) {
        return false;
    }
    for (size_t i = 0; i < len; i++) {
        char c = header[PREFIX_BYTES + i];
        c = c >= 'A' && c <= 'Z' ? (char)(c - 'A' + 'a') : c;
        if (!((c >= 'a' && c <= 'z') || (c >= '0' && c <= '9'))) {
            return false;
        }
        name[i] = c;
    }
    name[len] = '\0';
    return strcmp(name, "data") != 0 && strcmp(name, "datacontenttype") != 0;
}

/* Takes a value out of its quotes (RFC 9110 5.6.4), if it stands in some. `buf` has room for it. */
static struct daybook_bytes unquote(const char *value, char *buf)
{
    size_t len = strlen(value);
    size_t out = 0;
    if (len < 2 || value[0] != '"' || value[len - 1] != '"') {
        memcpy(buf, value, len);
        return (struct daybook_bytes){buf, len};
    }
    for (size_t i = 1; i + 1 < len; i++) {
        i += value[i] == '\\' && i + 2 < len ? 1 : 0;
        buf[out++] = value[i];
    }
    return (struct daybook_bytes){buf, out};
}

static bool is_utf8(struct daybook_bytes text)
{
    for (size_t i = 0; i < text.len;) {
        unsigned n = dbk_utf8_length(text.data + i, text.data + text.len);
        if (n == 0) {
            return false;
        }
        i += n;
    }
    return true;
}

void dbk_cloudevent_attribute(struct dbk_cloudevent *event, const char *name, const char *value)
{
    char attribute[NAME_BYTES_MAX];
    char quoted[VALUE_BYTES_MAX];
    char decoded[VALUE_BYTES_MAX];
    if (event->err.code != DAYBOOK_OK) {
        return;
    }
    if (!attribute_name(name, attribute)) {
        (void)dbk_fail(
            &event->err, DAYBOOK_INVALID_EVENT,
            "the header %.80s names no attribute of a CloudEvent: a to z and 0 to 9, not "
            "data, and Content-Type says the type of the data",
            name);
        return;
    }
    if (strlen(value) >= sizeof quoted) {
        (void)dbk_fail(&event->err, DAYBOOK_INVALID_EVENT, "the header %.80s is too long", name);
        return;
    }
    struct daybook_bytes text = unquote(value, quoted);
    if (!dbk_percent_decode(text.data, text.len, decoded, sizeof decoded) ||
        !is_utf8(bytes_of(decoded))) {
        (void)dbk_fail(
            &event->err, DAYBOOK_INVALID_EVENT,
            "the header %.80s is not percent-encoded UTF-8: write %% as %%25 and what is "
            "not ASCII as its UTF-8 bytes",
            name);
        return;
    }
    dbk_text_printf(&event->text, "%s\"%s\":", event->text.len == 0 ? "{" : ",", attribute);
    dbk_text_json_str(&event->text, decoded);
}

/* ---- data ------------------------------------------------------------------------------------- */

enum data_kind { DATA_JSON, DATA_TEXT, DATA_BINARY };

/* Whether a parameter `charset` is there and names anything but UTF-8 or its part ASCII. */
static bool has_foreign_charset(const char *content_type)
{
    const char *charset = strcasestr(content_type, "charset=");
    if (charset == NULL) {
        return false;
    }
    charset += strlen("charset=");
    charset += *charset == '"' ? 1 : 0;
    return strncasecmp(charset, "utf-8", 5) != 0 && strncasecmp(charset, "us-ascii", 8) != 0;
}

static enum data_kind kind_of(const char *content_type, struct daybook_bytes body)
{
    if (content_type == NULL) {
        return DATA_BINARY;
    }
    size_t len = strcspn(content_type, "; \t");
    if ((len >= 5 && (strncasecmp(content_type + len - 5, "/json", 5) == 0 ||
                      strncasecmp(content_type + len - 5, "+json", 5) == 0))) {
        return DATA_JSON;
    }
    bool text = strncasecmp(content_type, "text/", 5) == 0 && !has_foreign_charset(content_type);
    return text && is_utf8(body) && memchr(body.data, '\0', body.len) == NULL ? DATA_TEXT
                                                                              : DATA_BINARY;
}

/* One JSON value and nothing behind it, so that data cannot add attributes. */
static enum daybook_code check_value(struct daybook_bytes body, struct daybook_error *err)
{
    struct dbk_json json;
    enum dbk_json_token token;
    dbk_json_init(&json, body, NULL);
    do {
        token = dbk_json_next(&json);
    } while (token != DBK_JSON_FAULT && token != DBK_JSON_END);
    return dbk_json_verdict(&json, err);
}

static void put_base64(struct dbk_text *text, struct daybook_bytes body)
{
    static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    if (!dbk_text_reserve(text, (body.len + 2) / 3 * 4)) {
        return;
    }
    for (size_t i = 0; i < body.len; i += 3) {
        size_t left = body.len - i;
        uint32_t bits = (uint32_t)(unsigned char)body.data[i] << 16;
        bits |= left > 1 ? (uint32_t)(unsigned char)body.data[i + 1] << 8 : 0;
        bits |= left > 2 ? (uint32_t)(unsigned char)body.data[i + 2] : 0;
        char four[4] = {digits[bits >> 18], digits[bits >> 12 & 63u],
                        left > 1 ? digits[bits >> 6 & 63u] : '=',
                        left > 2 ? digits[bits & 63u] : '='};
        dbk_text_put(text, four, sizeof four);
    }
}

static enum daybook_code put_data(struct dbk_text *text, const char *content_type,
                                  struct daybook_bytes body, struct daybook_error *err)
{
    enum daybook_code code = DAYBOOK_OK;
    switch (kind_of(content_type, body)) {
    case DATA_JSON:
        code = check_value(body, err);
        dbk_text_str(text, ",\"data\":");
        dbk_text_put(text, body.data, body.len);
        break;
    case DATA_TEXT:
        dbk_text_str(text, ",\"data\":");
        dbk_text_json(text, body);
        break;
    case DATA_BINARY:
        dbk_text_str(text, ",\"data_base64\":\"");
        put_base64(text, body);
        dbk_text_char(text, '"');
        break;
    }
    return code;
}

enum daybook_code dbk_cloudevent_end(struct dbk_cloudevent *event, const char *content_type,
                                     struct daybook_bytes body, struct daybook_error *err)
{
    enum daybook_code code = DAYBOOK_OK;
    struct dbk_text *text = &event->text;
    if (event->err.code != DAYBOOK_OK) {
        return dbk_fail(err, event->err.code, "%s", event->err.message);
    }
    if (text->len == 0) {
        return dbk_fail(err, DAYBOOK_INVALID_EVENT, "the CloudEvent has no attributes");
    }
    if (content_type != NULL) {
        dbk_text_str(text, ",\"datacontenttype\":");
        dbk_text_json(text, bytes_of(content_type));
    }
    if (body.len > 0) {
        code = put_data(text, content_type, body, err);
    }
    dbk_text_char(text, '}');
    if (code == DAYBOOK_OK && text->failed) {
        code = dbk_fail(err, DAYBOOK_NO_MEMORY, "no memory for the event: repeat the request");
    }
    return code;
}
