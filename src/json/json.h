/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The JSON scanner (P): bytes in, tokens out; no tree, no recursion, no copy.
 *
 * It takes RFC 8259 in valid UTF-8 and nothing else, and tells two kinds of fault apart:
 * *malformed* (not RFC 8259, or not UTF-8) and *refused* (JSON that rule E4 does not take: a member
 * name twice in one object, U+0000, a lone surrogate, nesting deeper than 64, a top level that is
 * no object). A refusal does not end the scan, because malformed bytes further on are the graver
 * answer; only too deep a nesting does. Offsets are of the first byte at fault, from 0.
 *
 * Everywhere below a string token is its raw bytes with both quotes. Functions that say "scanned"
 * take text that this scanner has passed; on other text they return something, and never read
 * outside it. Threads: any; a handle by one at a time.
 */
#ifndef DBK_JSON_JSON_H
#define DBK_JSON_JSON_H

#include <daybook/base.h>

#define DBK_JSON_DEPTH_MAX 64u        /* levels of objects and arrays; the outermost is level 1 */
#define DBK_JSON_NAMES_FIXED 512u     /* member names open at once that need no allocation */
#define DBK_JSON_BYTES_MAX UINT32_MAX /* of one text */

enum dbk_json_token {
    DBK_JSON_FAULT, /* malformed, too deep, or no memory: dbk_json_verdict says which */
    DBK_JSON_END,   /* the whole text was scanned */
    DBK_JSON_OBJECT_BEGIN,
    DBK_JSON_OBJECT_END,
    DBK_JSON_ARRAY_BEGIN,
    DBK_JSON_ARRAY_END,
    DBK_JSON_NAME, /* of a member; its colon has been read too */
    DBK_JSON_STRING,
    DBK_JSON_NUMBER,
    DBK_JSON_TRUE,
    DBK_JSON_FALSE,
    DBK_JSON_NULL
};

enum dbk_json_fault {
    DBK_JSON_FINE,
    /* malformed */
    DBK_JSON_UNEXPECTED, /* a byte that cannot stand here */
    DBK_JSON_TRUNCATED,  /* the text ends too early */
    DBK_JSON_BAD_ESCAPE,
    DBK_JSON_CONTROL, /* a raw control character in a string */
    DBK_JSON_BAD_UTF8,
    DBK_JSON_BAD_NUMBER,
    DBK_JSON_TRAILING, /* bytes after the value */
    DBK_JSON_BOM,      /* a byte order mark before the value */
    /* refused */
    DBK_JSON_NUL,
    DBK_JSON_SURROGATE, /* \uD800 to \uDFFF without its other half */
    DBK_JSON_DUPLICATE,
    DBK_JSON_NOT_OBJECT,
    DBK_JSON_TOO_DEEP,
    /* neither */
    DBK_JSON_TOO_LONG, /* over DBK_JSON_BYTES_MAX */
    DBK_JSON_OUT_OF_MEMORY
};

struct dbk_json_name {
    uint32_t hash;
    uint32_t offset; /* of the opening quote */
};

/* The member names of the objects that are open, to find those that stand twice. */
struct dbk_json_names {
    struct dbk_json_name *open; /* `fixed`, or allocated */
    uint32_t count;
    uint32_t room;
    uint32_t base[DBK_JSON_DEPTH_MAX]; /* where the names of each level begin */
    struct dbk_json_name fixed[DBK_JSON_NAMES_FIXED];
};

void dbk_json_names_init(struct dbk_json_names *names);
void dbk_json_names_release(struct dbk_json_names *names);
/* Adds a name that stands at `offset` of the text; `hash` is its dbk_json_string_hash. False: no
 * memory, and nothing was added. */
bool dbk_json_names_add(struct dbk_json_names *names, uint32_t hash, size_t offset);
/* Sorts the names from `base` on, so that dbk_json_names_find finds among them. */
void dbk_json_names_sort(struct dbk_json_names *names, uint32_t base, struct daybook_bytes text);
/* The name from `base` on that equals `token`, a scanned string of this or another text; NULL when
 * there is none. */
const struct dbk_json_name *dbk_json_names_find(const struct dbk_json_names *names, uint32_t base,
                                                struct daybook_bytes text,
                                                struct daybook_bytes token);

struct dbk_json {
    const char *text; /* borrowed */
    size_t len;
    size_t at; /* next byte to read */

    /* The token that was returned last. */
    size_t token_begin;
    size_t token_end; /* exclusive; of a name: before its colon */
    bool escaped;     /* a name or string that holds an escape */

    unsigned depth; /* levels open, after the token */

    /* The scanner's own. */
    unsigned expect;
    uint64_t objects; /* bit d - 1: level d is an object */
    struct dbk_json_names *names;
    enum dbk_json_fault fault;
    size_t fault_at;
    enum dbk_json_fault refusal; /* the first one */
    size_t refusal_at;
};

/* Begins to scan one JSON text with optional white space around it. `text` is borrowed for as long
 * as the scan. `names`: initialised scratch, borrowed; NULL: names that stand twice are not looked
 * for. */
void dbk_json_init(struct dbk_json *json, struct daybook_bytes text, struct dbk_json_names *names);

/* The next token. After FAULT or END the same again. */
enum dbk_json_token dbk_json_next(struct dbk_json *json);

/* The bytes of the last token, borrowed from the text. */
struct daybook_bytes dbk_json_token_bytes(const struct dbk_json *json);

/* Notes a refusal of the caller's own (DBK_JSON_NOT_OBJECT); the first one counts. */
void dbk_json_refuse(struct dbk_json *json, enum dbk_json_fault fault, size_t at);

/* After FAULT or END: OK, MALFORMED_JSON, INVALID_EVENT, TOO_LARGE or NO_MEMORY, with the offset
 * and the reason in `err` (optional). */
enum daybook_code dbk_json_verdict(const struct dbk_json *json, struct daybook_error *err);

/* Scans a whole text as E4 wants a record, its size apart. Codes as dbk_json_verdict. */
enum daybook_code dbk_json_check_object(struct daybook_bytes text, struct daybook_error *err);

/* --- strings ---------------------------------------------------------------------------------- */

/* The bytes of a scanned string token after unescaping, one after the other. */
struct dbk_json_chars {
    const char *at;
    const char *end;
    unsigned char pending[4]; /* the rest of an escape, last byte first */
    unsigned pending_count;
};

void dbk_json_chars_init(struct dbk_json_chars *chars, struct daybook_bytes token);
/* The next byte of UTF-8, -1 at the end. A lone surrogate comes as three bytes, as if it were
 * one. */
int dbk_json_chars_next(struct dbk_json_chars *chars);

/* Unescapes a scanned string token into `buf` (not NUL-terminated). Returns the number of bytes
 * that it takes; when that is more than `room`, `buf` holds the first `room` of them. */
size_t dbk_json_string_decode(struct daybook_bytes token, char *buf, size_t room);

/* Orders two scanned string tokens by code point after unescaping: < 0, 0, > 0. */
int dbk_json_string_compare(struct daybook_bytes a, struct daybook_bytes b);

/* Whether a scanned string token unescapes to these bytes. */
bool dbk_json_string_is(struct daybook_bytes token, struct daybook_bytes plain);

/* A hash of the unescaped bytes of a scanned string token. Not for storage, not against attack. */
uint32_t dbk_json_string_hash(struct daybook_bytes token);

/* The most that n bytes become in dbk_json_escape. */
#define DBK_JSON_ESCAPED_MAX(n) (6u * (n) + 2u)
/* Writes `text` as a JSON string with its quotes. What is not UTF-8 becomes U+FFFD, so that the
 * result is always JSON. Returns the number of bytes that it takes; when that is more than `room`,
 * `buf` holds what fits (not NUL-terminated). */
size_t dbk_json_escape(struct daybook_bytes text, char *buf, size_t room);

/* The length of the valid UTF-8 sequence at `at` (1 to 4), 0 when there is none. `at` < `end`. */
unsigned dbk_utf8_length(const char *at, const char *end);

/* --- numbers ---------------------------------------------------------------------------------- */

/* Whether two scanned number tokens have the same exact decimal value, whatever their length. */
bool dbk_json_number_equal(struct daybook_bytes a, struct daybook_bytes b);

/* The value of a scanned number token, if it is exactly an integer of 64 bits (`5.0` and `1e3`
 * are). `ret_value` is untouched when it is not. */
bool dbk_json_number_int64(struct daybook_bytes token, int64_t *ret_value);

/* --- walking scanned text --------------------------------------------------------------------- */

/* One member of an object, or one element of an array (then `name` is empty). Borrowed. */
struct dbk_json_item {
    struct daybook_bytes name;  /* a string token */
    struct daybook_bytes value; /* its raw bytes, without white space around them */
    enum dbk_json_token kind;   /* OBJECT_BEGIN and ARRAY_BEGIN for those two */
};

/* A walk over the members or elements of one object or array, its inner levels skipped. */
struct dbk_json_walk {
    const char *at;
    const char *end;
    bool object;
};

/* `container`: scanned text of an object or array, white space around it allowed. Returns whether
 * it is one. */
bool dbk_json_walk_init(struct dbk_json_walk *walk, struct daybook_bytes container);
/* The next one; false when there is none left. */
bool dbk_json_walk_next(struct dbk_json_walk *walk, struct dbk_json_item *ret_item);

/* Checks a whole text as an array whose elements are judged one by one later: OK or MALFORMED_JSON
 * with the offset, TOO_LARGE. What E4 refuses inside an element passes here (of an element that
 * nests too deep only strings and brackets are counted), so that the fault is that element's alone.
 * After OK the elements come from dbk_json_walk_next. */
enum daybook_code dbk_json_check_array(struct daybook_bytes text, struct daybook_error *err);

/* Copies a scanned value so that it is one line: LF and CR, which stand only between tokens, become
 * spaces; nothing else changes. `buf` takes as many bytes as `value` has. */
void dbk_json_one_line(struct daybook_bytes value, char *buf);

#endif
