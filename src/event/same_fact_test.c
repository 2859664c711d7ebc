/* SPDX-License-Identifier: Apache-2.0 */
/*
 * E6 as properties: the comparison is an equivalence; order, white space, spelling of numbers and
 * escapes keep it; any change of a value breaks it. Values are made and spelled at random from a
 * seed that is printed (DAYBOOK_TEST_SEED chooses it). And many members, and no memory.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <daybook/event.h>

#include "json/json.h"

#define NODES_MAX 160u
#define CHILDREN_MAX 12u
#define TEXT_MAX (64u * 1024u)
#define ROUNDS 600u

/* --- memory that runs out --------------------------------------------------------------------- */

void *__real_malloc(size_t bytes);
void *__wrap_malloc(size_t bytes);

static bool memory_is_out;
static unsigned allocations;

void *__wrap_malloc(size_t bytes)
{
    allocations++;
    return memory_is_out ? NULL : __real_malloc(bytes);
}

/* --- chance ----------------------------------------------------------------------------------- */

static uint64_t chance_state;

static uint64_t chance(void) /* splitmix64 */
{
    uint64_t z = chance_state += UINT64_C(0x9e3779b97f4a7c15);
    z = (z ^ z >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
    z = (z ^ z >> 27) * UINT64_C(0x94d049bb133111eb);
    return z ^ z >> 31;
}

static unsigned below(unsigned n)
{
    return (unsigned)(chance() % n);
}

/* --- values ----------------------------------------------------------------------------------- */

enum node_kind { NODE_OBJECT, NODE_ARRAY, NODE_STRING, NODE_NUMBER, NODE_WORD };

struct node {
    enum node_kind kind;
    unsigned children[CHILDREN_MAX];
    unsigned count;     /* of children */
    uint32_t name[4];   /* code points, ended by 0; unique among its neighbours */
    uint32_t string[6]; /* ended by 0 */
    bool negative;      /* number: digits times ten to exponent */
    char digits[8];     /* no zero at either end; empty: 0 */
    int exponent;
    unsigned word; /* of words[] */
};

static const char *const words[] = {"null", "true", "false"};

struct tree {
    struct node nodes[NODES_MAX];
    unsigned count;
};

static const uint32_t alphabet[] = {'a',  'b',  'z',  '"',    '\\',    '/',
                                    '\n', 0x7f, 0xe9, 0x20ac, 0x1f600, 0xffff};

static uint32_t any_character(void)
{
    return alphabet[below(sizeof alphabet / sizeof alphabet[0])];
}

static void make_number(struct node *node)
{
    unsigned n = below(sizeof node->digits);
    memset(node->digits, 0, sizeof node->digits);
    for (unsigned i = 0; i < n; i++) {
        bool edge = i == 0 || i + 1 == n;
        node->digits[i] = (char)('0' + (edge ? 1 + below(9) : below(10)));
    }
    node->negative = below(4) == 0;
    node->exponent = (int)below(40) - 20;
}

/* Children are made breadth first from a list, so no recursion is needed. */
static void make_tree(struct tree *tree)
{
    memset(tree, 0, sizeof *tree);
    tree->count = 1;
    for (unsigned at = 0; at < tree->count; at++) {
        struct node *node = &tree->nodes[at];
        node->kind = at == 0 ? NODE_OBJECT : (enum node_kind)below(5);
        for (unsigned i = 0; i < 5; i++) {
            node->string[i] = below(3) == 0 ? 0 : any_character();
        }
        make_number(node);
        node->word = below(3);
        if (node->kind > NODE_ARRAY) {
            continue;
        }
        unsigned wanted = below(CHILDREN_MAX + 1);
        while (node->count < wanted && tree->count < NODES_MAX) {
            struct node *child = &tree->nodes[tree->count];
            child->name[0] = any_character();
            child->name[1] = 'A' + node->count; /* unique */
            child->name[2] = any_character();
            node->children[node->count++] = tree->count++;
        }
    }
}

/* --- spelling --------------------------------------------------------------------------------- */

struct spelling {
    char *text;
    size_t len;
};

static void put(struct spelling *out, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

static void put(struct spelling *out, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    int n = vsnprintf(out->text + out->len, TEXT_MAX - out->len, format, args);
    va_end(args);
    assert_true(n >= 0 && out->len + (size_t)n < TEXT_MAX);
    out->len += (size_t)n;
}

static void spell_space(struct spelling *out)
{
    static const char *const spaces[] = {"", "", "", " ", "\n", "\t\r\n "};
    put(out, "%s", spaces[below(6)]);
}

static void spell_character(struct spelling *out, uint32_t c)
{
    bool must = c < 0x20 || c == '"' || c == '\\';
    if (must || below(3) == 0) {
        if (c < 0x80 && strchr("\"\\/", (int)c) != NULL && below(2) == 0) {
            put(out, "\\%c", (int)c);
        } else if (c == '\n' && below(2) == 0) {
            put(out, "\\n");
        } else if (c >= 0x10000) {
            put(out, below(2) == 0 ? "\\u%04x\\u%04X" : "\\u%04X\\u%04x",
                0xd800 + ((c - 0x10000) >> 10), 0xdc00 + (c & 0x3ff));
        } else {
            put(out, below(2) == 0 ? "\\u%04x" : "\\u%04X", c);
        }
    } else if (c < 0x80) {
        put(out, "%c", (int)c);
    } else if (c < 0x800) {
        put(out, "%c%c", (int)(0xc0 | c >> 6), (int)(0x80 | (c & 63)));
    } else if (c < 0x10000) {
        put(out, "%c%c%c", (int)(0xe0 | c >> 12), (int)(0x80 | (c >> 6 & 63)),
            (int)(0x80 | (c & 63)));
    } else {
        put(out, "%c%c%c%c", (int)(0xf0 | c >> 18), (int)(0x80 | (c >> 12 & 63)),
            (int)(0x80 | (c >> 6 & 63)), (int)(0x80 | (c & 63)));
    }
}

static void spell_string(struct spelling *out, const uint32_t *characters)
{
    put(out, "\"");
    for (; *characters != 0; characters++) {
        spell_character(out, *characters);
    }
    put(out, "\"");
}

/* digits times ten to exponent, with the point at a random place and the exponent to match. */
static void spell_number(struct spelling *out, const struct node *node)
{
    int len = (int)strlen(node->digits);
    bool minus = len == 0 ? below(2) == 0 : node->negative;
    put(out, "%s", minus ? "-" : "");
    if (len == 0) {
        put(out, "0%s%s", below(2) == 0 ? ".00" : "",
            below(2) == 0 ? "e+12345678901234567890" : "");
        return;
    }
    int whole = (int)below(8) - 2; /* digits before the point; more than there are: zeros follow */
    int exponent = node->exponent + len - whole;
    if (whole <= 0) {
        put(out, "0.%.*s%s", -whole, "00", node->digits);
    } else if (whole >= len) {
        put(out, "%s%.*s", node->digits, whole - len, "00000000");
        put(out, "%s", below(2) == 0 ? ".000" : "");
    } else {
        put(out, "%.*s.%s%s", whole, node->digits, node->digits + whole, below(2) == 0 ? "0" : "");
    }
    if (exponent != 0 || below(2) == 0) {
        put(out, "%c%s%s%d", below(2) == 0 ? 'e' : 'E',
            exponent < 0    ? "-"
            : below(2) == 0 ? "+"
                            : "",
            below(3) == 0 ? "000" : "", abs(exponent));
    }
}

static void spell_observed_at(struct spelling *out)
{
    static const char *const values[] = {"1", "\"2026-01-31T00:00:00Z\"", "{\"a\":[1,2]}", "null"};
    put(out, "%s:%s", below(2) == 0 ? "\"observed_at\"" : "\"observed\\u005Fat\"",
        values[below(4)]);
}

struct open_node {
    unsigned node;
    unsigned next;
    unsigned order[CHILDREN_MAX];
    unsigned observed_before; /* the child before which observed_at is put in; beyond: nowhere */
};

static void open_node(struct open_node *open, const struct tree *tree, unsigned at, bool shuffle)
{
    const struct node *node = &tree->nodes[at];
    memset(open, 0, sizeof *open);
    open->node = at;
    open->observed_before = at == 0 ? below(2 * CHILDREN_MAX) : UINT32_MAX;
    for (unsigned i = 0; i < node->count; i++) {
        unsigned j = shuffle && node->kind == NODE_OBJECT ? below(i + 1) : i;
        open->order[i] = open->order[j];
        open->order[j] = node->children[i];
    }
}

static void spell_scalar(struct spelling *out, const struct node *node)
{
    if (node->kind == NODE_STRING) {
        spell_string(out, node->string);
    } else if (node->kind == NODE_NUMBER) {
        spell_number(out, node);
    } else {
        put(out, "%s", words[node->word]);
    }
}

/* Spells a tree anew. */
static struct spelling spell(const struct tree *tree)
{
    struct spelling out = {malloc(TEXT_MAX), 0};
    assert_non_null(out.text);
    struct open_node stack[NODES_MAX];
    unsigned depth = 0;
    bool shuffle = below(2) == 0;
    open_node(&stack[depth++], tree, 0, shuffle);
    put(&out, "{");
    while (depth > 0) {
        struct open_node *open = &stack[depth - 1];
        const struct node *node = &tree->nodes[open->node];
        bool comma = open->next > 0;
        spell_space(&out);
        if (open->observed_before == open->next) {
            put(&out, "%s", comma ? "," : "");
            spell_observed_at(&out);
            open->observed_before = UINT32_MAX;
            comma = true;
        }
        if (open->next == node->count) {
            put(&out, "%s", node->kind == NODE_OBJECT ? "}" : "]");
            depth--;
            continue;
        }
        put(&out, "%s", comma ? "," : "");
        spell_space(&out);
        unsigned at = open->order[open->next++];
        const struct node *child = &tree->nodes[at];
        if (node->kind == NODE_OBJECT) {
            spell_string(&out, child->name);
            spell_space(&out);
            put(&out, ":");
            spell_space(&out);
        }
        if (child->kind <= NODE_ARRAY) {
            put(&out, "%s", child->kind == NODE_OBJECT ? "{" : "[");
            open_node(&stack[depth++], tree, at, shuffle);
        } else {
            spell_scalar(&out, child);
        }
    }
    return out;
}

/* Changes one thing that counts. */
static void change(struct tree *tree)
{
    unsigned at = tree->count > 1 ? 1 + below(tree->count - 1) : 0;
    struct node *node = &tree->nodes[at];
    if (at == 0) { /* an empty record: it gets a member */
        node->children[node->count++] = tree->count++;
        tree->nodes[1].kind = NODE_WORD;
        tree->nodes[1].name[0] = 'x';
        return;
    }
    switch (node->kind) {
    case NODE_OBJECT:
    case NODE_ARRAY:
        if (node->count > 0) {
            node->count--;
        } else {
            node->kind = node->kind == NODE_OBJECT ? NODE_ARRAY : NODE_OBJECT;
        }
        break;
    case NODE_STRING:
        node->string[0] = node->string[0] == 'a' ? 'b' : 'a';
        break;
    case NODE_NUMBER:
        if (node->digits[0] == '\0') {
            node->digits[0] = '1';
        } else if (below(3) == 0) {
            node->exponent++;
        } else if (below(2) == 0) {
            node->negative = !node->negative;
        } else {
            node->digits[0] = node->digits[0] == '9' ? '1' : (char)(node->digits[0] + 1);
        }
        break;
    case NODE_WORD:
    default:
        node->word = (node->word + 1) % 3;
        break;
    }
}

/* --- properties ------------------------------------------------------------------------------- */

static bool same(struct spelling a, struct spelling b)
{
    struct daybook_event x = {.name_space = {"n", 1}, .subject = {"s", 1}};
    struct daybook_event y = x;
    x.record = (struct daybook_bytes){a.text, a.len};
    y.record = (struct daybook_bytes){b.text, b.len};
    return daybook_event_same_fact(&x, &y);
}

static void expect(struct spelling a, struct spelling b, bool wanted)
{
    if (same(a, b) != wanted || same(b, a) != wanted) {
        print_error("wanted %s:\n%.*s\n%.*s\n", wanted ? "the same" : "different", (int)a.len,
                    a.text, (int)b.len, b.text);
    }
    assert_int_equal(same(a, b), wanted);
    assert_int_equal(same(b, a), wanted);
}

static void expect_record(struct spelling a)
{
    struct daybook_error err = {0};
    if (dbk_json_check_object((struct daybook_bytes){a.text, a.len}, &err) != DAYBOOK_OK) {
        print_error("%s\n%.*s\n", err.message, (int)a.len, a.text);
    }
    assert_int_equal(dbk_json_check_object((struct daybook_bytes){a.text, a.len}, NULL),
                     DAYBOOK_OK);
}

static void test_E6_equivalence_kept_by_spelling_broken_by_change(void **state)
{
    (void)state;
    static struct tree tree;
    for (unsigned round = 0; round < ROUNDS; round++) {
        make_tree(&tree);
        struct spelling a1 = spell(&tree);
        struct spelling a2 = spell(&tree);
        struct spelling a3 = spell(&tree);
        change(&tree);
        struct spelling b1 = spell(&tree);
        struct spelling b2 = spell(&tree);
        expect_record(a1);
        expect_record(b1);
        expect(a1, a1, true); /* reflexive */
        expect(a1, a2, true);
        expect(a2, a3, true);
        expect(a1, a3, true); /* transitive; each is tried both ways: symmetric */
        expect(b1, b2, true);
        expect(a1, b1, false);
        expect(a2, b2, false);
        expect(a3, b1, false);
        free(a1.text);
        free(a2.text);
        free(a3.text);
        free(b1.text);
        free(b2.text);
    }
}

/* The digit of a long number that is flipped, wherever it stands, counts. */
static void test_E6_any_flipped_digit_of_a_long_number_counts(void **state)
{
    (void)state;
    for (unsigned round = 0; round < ROUNDS; round++) {
        char digits[64];
        unsigned n = 1 + below(60);
        for (unsigned i = 0; i < n; i++) {
            digits[i] = (char)('0' + (i == 0 || i + 1 == n ? 1 + below(9) : below(10)));
        }
        char a[128];
        char b[128];
        unsigned point = below(n);
        int len_a = snprintf(a, sizeof a, "%.*se%u", (int)n, digits, 7u);
        int len_b = snprintf(b, sizeof b, "%.*s.%.*s000e%d", (int)(point + 1), digits,
                             (int)(n - point - 1), digits + point + 1, (int)(7 + n - point - 1));
        struct daybook_bytes x = {a, (size_t)len_a};
        struct daybook_bytes y = {b, (size_t)len_b};
        assert_int_equal(dbk_json_number_equal(x, y), true);
        unsigned flipped = below(n);
        a[flipped] = a[flipped] == '9' ? '1' : (char)(a[flipped] + 1);
        assert_int_equal(dbk_json_number_equal(x, y), false);
        assert_int_equal(dbk_json_number_equal(y, x), false);
    }
}

/* --- many members ----------------------------------------------------------------------------- */

/* {"m<i>":<i>,...}, i from 0 up, or from the last down. */
static struct spelling many(unsigned count, bool down)
{
    size_t room = (size_t)count * 24 + 16;
    struct spelling out = {malloc(room), 1};
    assert_non_null(out.text);
    out.text[0] = '{';
    for (unsigned i = 0; i < count; i++) {
        unsigned m = down ? count - 1 - i : i;
        out.len += (size_t)snprintf(out.text + out.len, room - out.len, "%s\"m%u\":%u",
                                    i == 0 ? "" : ",", m, m);
    }
    out.text[out.len++] = '}';
    return out;
}

static int64_t now_ms(void)
{
    struct timespec t;
    (void)clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
    return (int64_t)t.tv_sec * 1000 + t.tv_nsec / 1000000;
}

static void test_E6_many_members_in_another_order_are_not_quadratic(void **state)
{
    (void)state;
    struct spelling up = many(60000, false);
    struct spelling down = many(60000, true);
    int64_t before = now_ms();
    assert_true(same(up, down));
    up.text[up.len - 2] ^= 1; /* the last digit of the last member */
    assert_false(same(up, down));
    int64_t took = now_ms() - before;
    print_message("# 60,000 members compared twice in %" PRId64 " ms\n", took);
    /* Quadratic would be 7.2e9 comparisons, tens of seconds; sanitizers and a busy machine fit. */
    assert_true(took < 5000);
    free(up.text);
    free(down.text);
}

static void test_E4_up_to_512_names_nothing_is_allocated(void **state)
{
    (void)state;
    struct spelling up = many(512, false);
    struct spelling down = many(512, true);
    allocations = 0;
    assert_int_equal(dbk_json_check_object((struct daybook_bytes){up.text, up.len}, NULL),
                     DAYBOOK_OK);
    assert_true(same(up, down));
    assert_int_equal(allocations, 0);
    free(up.text);
    free(down.text);
    up = many(513, false);
    assert_int_equal(dbk_json_check_object((struct daybook_bytes){up.text, up.len}, NULL),
                     DAYBOOK_OK);
    assert_int_equal(allocations, 1 + 1); /* and the text */
    free(up.text);
}

static void test_E4_no_memory_is_said_and_nothing_else(void **state)
{
    (void)state;
    struct spelling up = many(513, false);
    struct daybook_error err = {0};
    memory_is_out = true;
    enum daybook_code code = dbk_json_check_object((struct daybook_bytes){up.text, up.len}, &err);
    memory_is_out = false;
    assert_int_equal(code, DAYBOOK_NO_MEMORY);
    assert_int_equal(err.code, DAYBOOK_NO_MEMORY);
    free(up.text);
}

static void test_E6_is_right_without_memory(void **state)
{
    (void)state;
    struct spelling up = many(1200, false);
    struct spelling down = many(1200, true);
    memory_is_out = true;
    bool equal = same(up, down);
    up.text[up.len - 2] ^= 1;
    bool changed = same(up, down);
    memory_is_out = false;
    struct spelling fewer = many(1199, false);
    memory_is_out = true;
    bool missing = same(fewer, down);
    bool added = same(down, fewer);
    memory_is_out = false;
    assert_true(equal);
    assert_false(changed);
    assert_false(missing);
    assert_false(added);
    free(up.text);
    free(down.text);
    free(fewer.text);
}

int main(void)
{
    const char *seed = getenv("DAYBOOK_TEST_SEED");
    chance_state = seed != NULL ? strtoull(seed, NULL, 0) : (uint64_t)time(NULL);
    print_message("# DAYBOOK_TEST_SEED=%" PRIu64 "\n", chance_state);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_E6_equivalence_kept_by_spelling_broken_by_change),
        cmocka_unit_test(test_E6_any_flipped_digit_of_a_long_number_counts),
        cmocka_unit_test(test_E6_many_members_in_another_order_are_not_quadratic),
        cmocka_unit_test(test_E4_up_to_512_names_nothing_is_allocated),
        cmocka_unit_test(test_E4_no_memory_is_said_and_nothing_else),
        cmocka_unit_test(test_E6_is_right_without_memory),
    };
    return cmocka_run_group_tests_name("same fact", tests, NULL, NULL);
}
