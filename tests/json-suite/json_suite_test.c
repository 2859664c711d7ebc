/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The scanner held against a public conformance suite, every file by name (README.md, LICENSE).
 *
 * y_ files are JSON: they are taken, or stand in the table of what E4 refuses, with the reason. n_
 * files are not JSON: they are malformed, or stand in the table. i_ files and those of
 * test_transform may go either way by RFC 8259: what they do here stands in the table. A file that
 * is not in the suite, or is not met, fails the test.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "json/json.h"

#define FILES_PARSING 318u
#define FILES_TRANSFORM 22u
#define FILE_BYTES_MAX (512u * 1024u)

struct expectation {
    const char *file;
    enum dbk_json_fault record; /* the file as a record */
    enum dbk_json_fault member; /* the file as the value of a member, {"v":<file>} */
};

/* All files but the y_ that are fine and the n_ that are malformed in both forms. */
static const struct expectation expectations[] = {
    {"i_number_double_huge_neg_exp.json", DBK_JSON_NOT_OBJECT, DBK_JSON_FINE},
    {"i_number_huge_exp.json", DBK_JSON_NOT_OBJECT, DBK_JSON_FINE},
    {"i_number_neg_int_huge_exp.json", DBK_JSON_NOT_OBJECT, DBK_JSON_FINE},
    {"i_number_pos_double_huge_exp.json", DBK_JSON_NOT_OBJECT, DBK_JSON_FINE},
    {"i_number_real_neg_overflow.json", DBK_JSON_NOT_OBJECT, DBK_JSON_FINE},
    {"i_number_real_pos_overflow.json", DBK_JSON_NOT_OBJECT, DBK_JSON_FINE},
    {"i_number_real_underflow.json", DBK_JSON_NOT_OBJECT, DBK_JSON_FINE},
    {"i_number_too_big_neg_int.json", DBK_JSON_NOT_OBJECT, DBK_JSON_FINE},
    {"i_number_too_big_pos_int.json", DBK_JSON_NOT_OBJECT, DBK_JSON_FINE},
    {"i_number_very_big_negative_int.json", DBK_JSON_NOT_OBJECT, DBK_JSON_FINE},
    {"i_object_key_lone_2nd_surrogate.json", DBK_JSON_SURROGATE, DBK_JSON_SURROGATE},
    {"i_string_1st_surrogate_but_2nd_missing.json", DBK_JSON_NOT_OBJECT, DBK_JSON_SURROGATE},
    {"i_string_1st_valid_surrogate_2nd_invalid.json", DBK_JSON_NOT_OBJECT, DBK_JSON_SURROGATE},
    {"i_string_UTF-16LE_with_BOM.json", DBK_JSON_UNEXPECTED, DBK_JSON_UNEXPECTED},
    {"i_string_UTF-8_invalid_sequence.json", DBK_JSON_BAD_UTF8, DBK_JSON_BAD_UTF8},
    {"i_string_UTF8_surrogate_U+D800.json", DBK_JSON_BAD_UTF8, DBK_JSON_BAD_UTF8},
    {"i_string_incomplete_surrogate_and_escape_valid.json", DBK_JSON_NOT_OBJECT,
     DBK_JSON_SURROGATE},
    {"i_string_incomplete_surrogate_pair.json", DBK_JSON_NOT_OBJECT, DBK_JSON_SURROGATE},
    {"i_string_incomplete_surrogates_escape_valid.json", DBK_JSON_NOT_OBJECT, DBK_JSON_SURROGATE},
    {"i_string_invalid_lonely_surrogate.json", DBK_JSON_NOT_OBJECT, DBK_JSON_SURROGATE},
    {"i_string_invalid_surrogate.json", DBK_JSON_NOT_OBJECT, DBK_JSON_SURROGATE},
    {"i_string_invalid_utf-8.json", DBK_JSON_BAD_UTF8, DBK_JSON_BAD_UTF8},
    {"i_string_inverted_surrogates_U+1D11E.json", DBK_JSON_NOT_OBJECT, DBK_JSON_SURROGATE},
    {"i_string_iso_latin_1.json", DBK_JSON_BAD_UTF8, DBK_JSON_BAD_UTF8},
    {"i_string_lone_second_surrogate.json", DBK_JSON_NOT_OBJECT, DBK_JSON_SURROGATE},
    {"i_string_lone_utf8_continuation_byte.json", DBK_JSON_BAD_UTF8, DBK_JSON_BAD_UTF8},
    {"i_string_not_in_unicode_range.json", DBK_JSON_BAD_UTF8, DBK_JSON_BAD_UTF8},
    {"i_string_overlong_sequence_2_bytes.json", DBK_JSON_BAD_UTF8, DBK_JSON_BAD_UTF8},
    {"i_string_overlong_sequence_6_bytes.json", DBK_JSON_BAD_UTF8, DBK_JSON_BAD_UTF8},
    {"i_string_overlong_sequence_6_bytes_null.json", DBK_JSON_BAD_UTF8, DBK_JSON_BAD_UTF8},
    {"i_string_truncated-utf-8.json", DBK_JSON_BAD_UTF8, DBK_JSON_BAD_UTF8},
    {"i_string_utf16BE_no_BOM.json", DBK_JSON_UNEXPECTED, DBK_JSON_UNEXPECTED},
    {"i_string_utf16LE_no_BOM.json", DBK_JSON_UNEXPECTED, DBK_JSON_UNEXPECTED},
    {"i_structure_500_nested_arrays.json", DBK_JSON_TOO_DEEP, DBK_JSON_TOO_DEEP},
    {"i_structure_UTF-8_BOM_empty_object.json", DBK_JSON_BOM, DBK_JSON_UNEXPECTED},
    {"n_structure_100000_opening_arrays.json", DBK_JSON_TOO_DEEP, DBK_JSON_TOO_DEEP},
    {"n_structure_open_array_object.json", DBK_JSON_TOO_DEEP, DBK_JSON_TOO_DEEP},
    {"y_array_arraysWithSpaces.json", DBK_JSON_NOT_OBJECT, DBK_JSON_FINE},
    {"y_array_empty-string.json", DBK_JSON_NOT_OBJECT, DBK_JSON_FINE},
    {"y_array_empty.json", DBK_JSON_NOT_OBJECT, DBK_JSON_FINE},
    {"y_array_ending_with_newline.json", DBK_JSON_NOT_OBJECT, DBK_JSON_FINE},
    {"y_array_false.json", DBK_JSON_NOT_OBJECT, DBK_JSON_FINE},
    {"y_array_heterogeneous.json", DBK_JSON_NOT_OBJECT, DBK_JSON_FINE},
    {"y_array_null.json", DBK_JSON_NOT_OBJECT, DBK_JSON_FINE},
    {"y_array_with_1_and_newline.json", DBK_JSON_NOT_OBJECT, DBK_JSON_FINE},
    {"y_array_with_leading_space.json", DBK_JSON_NOT_OBJECT, DBK_JSON_FINE},
    {"y_array_with_several_null.json", DBK_JSON_NOT_OBJECT, DBK_JSON_FINE},
    {"y_array_with_trailing_space.json", DBK_JSON_NOT_OBJECT, DBK_JSON_FINE},
    {"y_number.json", DBK_JSON_NOT_OBJECT, DBK_JSON_FINE},
    {"y_number_0e+1.json", DBK_JSON_NOT_OBJECT, DBK_JSON_FINE},
    {"y_number_0e1.json", DBK_JSON_NOT_OBJECT, DBK_JSON_FINE},
    {"y_number_after_space.json", DBK_JSON_NOT_OBJECT, DBK_JSON_FINE},
    {"y_number_double_close_to_zero.json", DBK_JSON_NOT_OBJECT, DBK_JSON_FINE},
    {"y_number_int_with_exp.json", DBK_JSON_NOT_OBJECT, DBK_JSON_FINE},
    {"y_number_minus_zero.json", DBK_JSON_NOT_OBJECT, DBK_JSON_FINE},
    {"y_number_negative_int.json", DBK_JSON_NOT_OBJECT, DBK_JSON_FINE},
    {"y_number_negative_one.json", DBK_JSON_NOT_OBJECT, DBK_JSON_FINE},
    {"y_number_negative_zero.json", DBK_JSON_NOT_OBJECT, DBK_JSON_FINE},
    {"y_number_real_capital_e.json", DBK_JSON_NOT_OBJECT, DBK_JSON_FINE},
    {"y_number_real_capital_e_neg_exp.json", DBK_JSON_NOT_OBJECT, DBK_JSON_FINE},
    {"y_number_real_capital_e_pos_exp.json", DBK_JSON_NOT_OBJECT, DBK_JSON_FINE},
    {"y_number_real_exponent.json", DBK_JSON_NOT_OBJECT, DBK_JSON_FINE},
    {"y_number_real_fraction_exponent.json", DBK_JSON_NOT_OBJECT, DBK_JSON_FINE},
    {"y_number_real_neg_exp.json", DBK_JSON_NOT_OBJECT, DBK_JSON_FINE},
    {"y_number_real_pos_exponent.json", DBK_JSON_NOT_OBJECT, DBK_JSON_FINE},
    {"y_number_simple_int.json", DBK_JSON_NOT_OBJECT, DBK_JSON_FINE},
    {"y_number_simple_real.json", DBK_JSON_NOT_OBJECT, DBK_JSON_FINE},
    {"y_object_duplicated_key.json", DBK_JSON_DUPLICATE, DBK_JSON_DUPLICATE},
    {"y_object_duplicated_key_and_value.json", DBK_JSON_DUPLICATE, DBK_JSON_DUPLICATE},
    {"y_object_escaped_null_in_key.json", DBK_JSON_NUL, DBK_JSON_NUL},
    {"y_string_1_2_3_bytes_UTF-8_sequences.json", DBK_JSON_NOT_OBJECT, DBK_JSON_FINE},
    {"y_string_accepted_surrogate_pair.json", DBK_JSON_NOT_OBJECT, DBK_JSON_FINE},
    {"y_string_accepted_surrogate_pairs.json", DBK_JSON_NOT_OBJECT, DBK_JSON_FINE},
    {"y_string_allowed_escapes.json", DBK_JSON_NOT_OBJECT, DBK_JSON_FINE},
    {"y_string_backslash_and_u_escaped_zero.json", DBK_JSON_NOT_OBJECT, DBK_JSON_FINE},
    {"y_string_backslash_doublequotes.json", DBK_JSON_NOT_OBJECT, DBK_JSON_FINE},
    {"y_string_comments.json", DBK_JSON_NOT_OBJECT, DBK_JSON_FINE},
    {"y_string_double_escape_a.json", DBK_JSON_NOT_OBJECT, DBK_JSON_FINE},
    {"y_string_double_escape_n.json", DBK_JSON_NOT_OBJECT, DBK_JSON_FINE},
    {"y_string_escaped_control_character.json", DBK_JSON_NOT_OBJECT, DBK_JSON_FINE},
    {"y_string_escaped_noncharacter.json", DBK_JSON_NOT_OBJECT, DBK_JSON_FINE},
    {"y_string_in_array.json", DBK_JSON_NOT_OBJECT, DBK_JSON_FINE},
    {"y_string_in_array_with_leading_space.json", DBK_JSON_NOT_OBJECT, DBK_JSON_FINE},
    {"y_string_last_surrogates_1_and_2.json", DBK_JSON_NOT_OBJECT, DBK_JSON_FINE},
    {"y_string_nbsp_uescaped.json", DBK_JSON_NOT_OBJECT, DBK_JSON_FINE},
    {"y_string_nonCharacterInUTF-8_U+10FFFF.json", DBK_JSON_NOT_OBJECT, DBK_JSON_FINE},
    {"y_string_nonCharacterInUTF-8_U+FFFF.json", DBK_JSON_NOT_OBJECT, DBK_JSON_FINE},
    {"y_string_null_escape.json", DBK_JSON_NOT_OBJECT, DBK_JSON_NUL},
    {"y_string_one-byte-utf-8.json", DBK_JSON_NOT_OBJECT, DBK_JSON_FINE},
    {"y_string_pi.json", DBK_JSON_NOT_OBJECT, DBK_JSON_FINE},
    {"y_string_reservedCharacterInUTF-8_U+1BFFF.json", DBK_JSON_NOT_OBJECT, DBK_JSON_FINE},
    {"y_string_simple_ascii.json", DBK_JSON_NOT_OBJECT, DBK_JSON_FINE},
    {"y_string_space.json", DBK_JSON_NOT_OBJECT, DBK_JSON_FINE},
    {"y_string_surrogates_U+1D11E_MUSICAL_SYMBOL_G_CLEF.json", DBK_JSON_NOT_OBJECT, DBK_JSON_FINE},
    {"y_string_three-byte-utf-8.json", DBK_JSON_NOT_OBJECT, DBK_JSON_FINE},
    {"y_string_two-byte-utf-8.json", DBK_JSON_NOT_OBJECT, DBK_JSON_FINE},
    {"y_string_u+2028_line_sep.json", DBK_JSON_NOT_OBJECT, DBK_JSON_FINE},
    {"y_string_u+2029_par_sep.json", DBK_JSON_NOT_OBJECT, DBK_JSON_FINE},
    {"y_string_uEscape.json", DBK_JSON_NOT_OBJECT, DBK_JSON_FINE},
    {"y_string_uescaped_newline.json", DBK_JSON_NOT_OBJECT, DBK_JSON_FINE},
    {"y_string_unescaped_char_delete.json", DBK_JSON_NOT_OBJECT, DBK_JSON_FINE},
    {"y_string_unicode.json", DBK_JSON_NOT_OBJECT, DBK_JSON_FINE},
    {"y_string_unicodeEscapedBackslash.json", DBK_JSON_NOT_OBJECT, DBK_JSON_FINE},
    {"y_string_unicode_2.json", DBK_JSON_NOT_OBJECT, DBK_JSON_FINE},
    {"y_string_unicode_U+10FFFE_nonchar.json", DBK_JSON_NOT_OBJECT, DBK_JSON_FINE},
    {"y_string_unicode_U+1FFFE_nonchar.json", DBK_JSON_NOT_OBJECT, DBK_JSON_FINE},
    {"y_string_unicode_U+200B_ZERO_WIDTH_SPACE.json", DBK_JSON_NOT_OBJECT, DBK_JSON_FINE},
    {"y_string_unicode_U+2064_invisible_plus.json", DBK_JSON_NOT_OBJECT, DBK_JSON_FINE},
    {"y_string_unicode_U+FDD0_nonchar.json", DBK_JSON_NOT_OBJECT, DBK_JSON_FINE},
    {"y_string_unicode_U+FFFE_nonchar.json", DBK_JSON_NOT_OBJECT, DBK_JSON_FINE},
    {"y_string_unicode_escaped_double_quote.json", DBK_JSON_NOT_OBJECT, DBK_JSON_FINE},
    {"y_string_utf8.json", DBK_JSON_NOT_OBJECT, DBK_JSON_FINE},
    {"y_string_with_del_character.json", DBK_JSON_NOT_OBJECT, DBK_JSON_FINE},
    {"y_structure_lonely_false.json", DBK_JSON_NOT_OBJECT, DBK_JSON_FINE},
    {"y_structure_lonely_int.json", DBK_JSON_NOT_OBJECT, DBK_JSON_FINE},
    {"y_structure_lonely_negative_real.json", DBK_JSON_NOT_OBJECT, DBK_JSON_FINE},
    {"y_structure_lonely_null.json", DBK_JSON_NOT_OBJECT, DBK_JSON_FINE},
    {"y_structure_lonely_string.json", DBK_JSON_NOT_OBJECT, DBK_JSON_FINE},
    {"y_structure_lonely_true.json", DBK_JSON_NOT_OBJECT, DBK_JSON_FINE},
    {"y_structure_string_empty.json", DBK_JSON_NOT_OBJECT, DBK_JSON_FINE},
    {"y_structure_trailing_newline.json", DBK_JSON_NOT_OBJECT, DBK_JSON_FINE},
    {"y_structure_true_in_array.json", DBK_JSON_NOT_OBJECT, DBK_JSON_FINE},
    {"y_structure_whitespace_array.json", DBK_JSON_NOT_OBJECT, DBK_JSON_FINE},
    {"number_-9223372036854775808.json", DBK_JSON_NOT_OBJECT, DBK_JSON_FINE},
    {"number_-9223372036854775809.json", DBK_JSON_NOT_OBJECT, DBK_JSON_FINE},
    {"number_1.0.json", DBK_JSON_NOT_OBJECT, DBK_JSON_FINE},
    {"number_1.000000000000000005.json", DBK_JSON_NOT_OBJECT, DBK_JSON_FINE},
    {"number_1000000000000000.json", DBK_JSON_NOT_OBJECT, DBK_JSON_FINE},
    {"number_10000000000000000999.json", DBK_JSON_NOT_OBJECT, DBK_JSON_FINE},
    {"number_1e-999.json", DBK_JSON_NOT_OBJECT, DBK_JSON_FINE},
    {"number_1e6.json", DBK_JSON_NOT_OBJECT, DBK_JSON_FINE},
    {"number_9223372036854775807.json", DBK_JSON_NOT_OBJECT, DBK_JSON_FINE},
    {"number_9223372036854775808.json", DBK_JSON_NOT_OBJECT, DBK_JSON_FINE},
    {"object_key_nfc_nfd.json", DBK_JSON_FINE, DBK_JSON_FINE},
    {"object_key_nfd_nfc.json", DBK_JSON_FINE, DBK_JSON_FINE},
    {"object_same_key_different_values.json", DBK_JSON_DUPLICATE, DBK_JSON_DUPLICATE},
    {"object_same_key_same_value.json", DBK_JSON_DUPLICATE, DBK_JSON_DUPLICATE},
    {"object_same_key_unclear_values.json", DBK_JSON_DUPLICATE, DBK_JSON_DUPLICATE},
    {"string_1_escaped_invalid_codepoint.json", DBK_JSON_NOT_OBJECT, DBK_JSON_SURROGATE},
    {"string_1_invalid_codepoint.json", DBK_JSON_BAD_UTF8, DBK_JSON_BAD_UTF8},
    {"string_2_escaped_invalid_codepoints.json", DBK_JSON_NOT_OBJECT, DBK_JSON_SURROGATE},
    {"string_2_invalid_codepoints.json", DBK_JSON_BAD_UTF8, DBK_JSON_BAD_UTF8},
    {"string_3_escaped_invalid_codepoints.json", DBK_JSON_NOT_OBJECT, DBK_JSON_SURROGATE},
    {"string_3_invalid_codepoints.json", DBK_JSON_BAD_UTF8, DBK_JSON_BAD_UTF8},
    {"string_with_escaped_NULL.json", DBK_JSON_NOT_OBJECT, DBK_JSON_NUL},
};
#define EXPECTATIONS (sizeof expectations / sizeof expectations[0])

static bool met[EXPECTATIONS];

static const struct expectation *expectation_of(const char *file)
{
    for (size_t i = 0; i < EXPECTATIONS; i++) {
        if (strcmp(expectations[i].file, file) == 0) {
            met[i] = true;
            return &expectations[i];
        }
    }
    return NULL;
}

static char *read_file(const char *folder, const char *file, size_t *ret_len)
{
    const char *root = getenv("DAYBOOK_SOURCE_ROOT");
    char path[1024];
    (void)snprintf(path, sizeof path, "%s/tests/json-suite/%s/%s", root != NULL ? root : ".",
                   folder, file);
    FILE *in = fopen(path, "rb");
    assert_non_null(in);
    char *buf = malloc(FILE_BYTES_MAX);
    assert_non_null(buf);
    *ret_len = fread(buf, 1, FILE_BYTES_MAX, in);
    assert_true(feof(in) != 0);
    (void)fclose(in);
    char *exact = realloc(buf, *ret_len > 0 ? *ret_len : 1); /* so that a sanitizer sees its end */
    assert_non_null(exact);
    return exact;
}

static bool is_malformed(enum dbk_json_fault fault)
{
    return fault >= DBK_JSON_UNEXPECTED && fault <= DBK_JSON_BOM;
}

/* The outcome as a record, by the scanner's own words; the public verdict has to agree with it. */
static enum dbk_json_fault outcome_of(struct daybook_bytes text)
{
    struct dbk_json_names names;
    struct dbk_json json;
    dbk_json_names_init(&names);
    dbk_json_init(&json, text, &names);
    enum dbk_json_token token = dbk_json_next(&json);
    if (token != DBK_JSON_OBJECT_BEGIN && token != DBK_JSON_FAULT) {
        dbk_json_refuse(&json, DBK_JSON_NOT_OBJECT, 0);
    }
    while (token != DBK_JSON_FAULT && token != DBK_JSON_END) {
        token = dbk_json_next(&json);
    }
    dbk_json_names_release(&names);
    enum dbk_json_fault fault = json.fault != DBK_JSON_FINE ? json.fault : json.refusal;
    struct daybook_error err = {0};
    enum daybook_code code = dbk_json_check_object(text, &err);
    assert_int_equal(code, fault == DBK_JSON_FINE ? DAYBOOK_OK
                           : is_malformed(fault)  ? DAYBOOK_MALFORMED_JSON
                                                  : DAYBOOK_INVALID_EVENT);
    assert_true(err.offset <= text.len);
    return fault;
}

static bool is_expected(const char *file, enum dbk_json_fault record, enum dbk_json_fault member)
{
    const struct expectation *expected = expectation_of(file);
    if (expected != NULL) {
        return record == expected->record && member == expected->member;
    }
    if (strncmp(file, "y_", 2) == 0) {
        return record == DBK_JSON_FINE && member == DBK_JSON_FINE;
    }
    return strncmp(file, "n_", 2) == 0 && is_malformed(record) && is_malformed(member);
}

static void check_file(const char *folder, const char *file)
{
    size_t len = 0;
    char *bytes = read_file(folder, file, &len);
    enum dbk_json_fault record = outcome_of((struct daybook_bytes){bytes, len});
    char *wrapped = malloc(len + 6);
    assert_non_null(wrapped);
    memcpy(wrapped, "{\"v\":", 5);
    memcpy(wrapped + 5, bytes, len);
    wrapped[5 + len] = '}';
    enum dbk_json_fault member = outcome_of((struct daybook_bytes){wrapped, len + 6});
    free(wrapped);
    free(bytes);
    bool right = is_expected(file, record, member);
    if (!right) {
        print_error("%s: as a record fault %d, as a member fault %d\n", file, (int)record,
                    (int)member);
    }
    assert_true(right);
}

static unsigned walk(const char *folder)
{
    const char *root = getenv("DAYBOOK_SOURCE_ROOT");
    char path[1024];
    (void)snprintf(path, sizeof path, "%s/tests/json-suite/%s", root != NULL ? root : ".", folder);
    DIR *dir = opendir(path);
    assert_non_null(dir);
    unsigned files = 0;
    for (struct dirent *entry = readdir(dir); entry != NULL; entry = readdir(dir)) {
        if (entry->d_name[0] != '.') {
            check_file(folder, entry->d_name);
            files++;
        }
    }
    (void)closedir(dir);
    return files;
}

static void test_E4_every_file_of_the_suite_by_name(void **state)
{
    (void)state;
    assert_int_equal(walk("test_parsing"), FILES_PARSING);
    assert_int_equal(walk("test_transform"), FILES_TRANSFORM);
    for (size_t i = 0; i < EXPECTATIONS; i++) {
        if (!met[i]) {
            print_error("%s is not there\n", expectations[i].file);
        }
        assert_true(met[i]);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_E4_every_file_of_the_suite_by_name),
    };
    return cmocka_run_group_tests_name("json suite", tests, NULL, NULL);
}
