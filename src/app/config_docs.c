/* SPDX-License-Identifier: Apache-2.0 */
/* docs/configuration.md, written from the table of keys. See config_keys.h. */
#include "app/config_keys.h"

/* ---- documentation --------------------------------------------------------------------------- */

/* A size or duration in the largest unit that divides it. */
static void write_number(FILE *out, enum dbk_config_type type, uint64_t value)
{
    static const struct {
        uint64_t factor;
        const char *unit;
    } sizes[] = {{UINT64_C(1) << 40, "TiB"},
                 {DBK_GIB, "GiB"},
                 {DBK_MIB, "MiB"},
                 {1024, "KiB"},
                 {1, "B"}},
      durations[] = {{DBK_DAY_MS, "d"}, {DBK_HOUR_MS, "h"}, {60000, "m"}, {1000, "s"}, {1, "ms"}};
    if (type == DBK_KEY_COUNT || value == 0) {
        fprintf(out, "%llu", (unsigned long long)value);
        return;
    }
    for (size_t i = 0; i < 5; i++) {
        uint64_t factor = type == DBK_KEY_SIZE ? sizes[i].factor : durations[i].factor;
        if (value % factor == 0) {
            fprintf(out, "%llu%s", (unsigned long long)(value / factor),
                    type == DBK_KEY_SIZE ? sizes[i].unit : durations[i].unit);
            return;
        }
    }
}

static void write_values(FILE *out, const struct dbk_config_key *key)
{
    switch (key->type) {
    case DBK_KEY_CHOICE:
        for (int i = 0; key->choices[i] != NULL; i++) {
            fprintf(out, "%s`%s`", i > 0 ? ", " : "", key->choices[i]);
        }
        break;
    case DBK_KEY_COUNT:
    case DBK_KEY_SIZE:
    case DBK_KEY_DURATION:
        fputs(key->type == DBK_KEY_COUNT  ? "number, "
              : key->type == DBK_KEY_SIZE ? "size, "
                                          : "duration, ",
              out);
        write_number(out, key->type, key->least);
        fputs(" to ", out);
        write_number(out, key->type, key->most);
        break;
    case DBK_KEY_LIST:
        fprintf(out, "list of %llu to %llu", (unsigned long long)key->least,
                (unsigned long long)key->most);
        break;
    case DBK_KEY_TEXT:
        fputs("text", out);
        break;
    case DBK_KEY_TEXT_OR_NULL:
        fputs("text or null", out);
        break;
    case DBK_KEY_NAME:
        fputs("name", out);
        break;
    case DBK_KEY_BOOL:
        fputs("`true`, `false`", out);
        break;
    case DBK_KEY_START:
        fputs("`oldest`, `now`, position, time", out);
        break;
    case DBK_KEY_SECTION:
        break;
    }
}

/* Which kinds of destination, or engines, have the key, where not all do. */
static void write_kinds(FILE *out, const struct dbk_config_key *key)
{
    const char *decides = key->scope == DBK_OF_CONFIG ? "journal.backend" : DBK_SINK_PREFIX "kind";
    const char *const *kinds = dbk_config_keys[dbk_config_key_index(decides)].choices;
    const char *before = "Of ";
    for (unsigned i = 0; key->kinds != 0 && kinds[i] != NULL; i++) {
        if ((key->kinds & 1u << i) != 0) {
            fprintf(out, "%s`%s`", before, kinds[i]);
            before = ", ";
        }
    }
    fputs(key->kinds != 0 ? ": " : "", out);
}

void dbk_config_write_docs(FILE *out)
{
    fputs(
        "# Configuration\n\n"
        "`daybook serve -c FILE` reads one YAML document. This page is written from the table of "
        "keys that the\nreader itself uses (`daybook help --configuration`); a test compares the "
        "two. An unknown key, a value of the\nwrong type and a value that cannot work are refused "
        "at the start with file, line and column.\n\n"
        "Durations carry a unit (`ms`, `s`, `m`, `h`, `d`), sizes too (`B`, `KiB`, `MiB`, `GiB`, "
        "`TiB`). Relative paths start\nat the directory in which the daemon was started.\n\n"
        "| key | values | default | what it does |\n|---|---|---|---|\n",
        out);
    for (size_t i = 0; i < dbk_config_key_count; i++) {
        const struct dbk_config_key *key = &dbk_config_keys[i];
        if (key->type == DBK_KEY_SECTION) {
            fprintf(out, "| **`%s`** | | | %s |\n", key->path, key->about);
            continue;
        }
        fprintf(out, "| `%s` | ", key->path);
        write_values(out, key);
        bool optional = key->type == DBK_KEY_LIST && key->scope == DBK_OF_CONFIG;
        const char *fallback = key->fallback != NULL ? key->fallback : optional ? "" : "required";
        const char *quote = key->fallback != NULL && fallback[0] != '\0' ? "`" : "";
        fprintf(out, " | %s%s%s | ", quote, fallback[0] != '\0' ? fallback : "see right", quote);
        write_kinds(out, key);
        fprintf(out, "%s |\n", key->about);
    }
}
