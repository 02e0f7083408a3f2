/* Options to and from text, at both ends of their ranges. Bugs tried and caught: minimum exclusive; maximum
   exclusive; letters after a number accepted; overflow of a whole number accepted; infinity accepted; choice
   found by its prefix; flag "1" accepted; real written with too few digits; a refused text changing the
   field; real numbers read or written with the decimal point of the caller's locale; a sentence filled past
   its end; an option found by the beginning of its name in braces; a hexadecimal real, and one that is too
   small to be told from 0.
   SPDX-License-Identifier: Apache-2.0 */
#include "base/options.h"

#include <math.h>
#include <string.h>

#include "support/check.h"
#include "support/locales.h"

struct values {
    int64_t whole, wide;
    double real;
    int choice, flag;
};

static const char *const choices[] = {"l2", "sum", "none", NULL};
static const struct option_row rows[] = {
    OPTION_ROW("num_hashes", OPTION_INT, offsetof(struct values, whole), 32, 1, 4096, NULL,
               "number of hashes"),
    OPTION_ROW("seed", OPTION_INT, offsetof(struct values, wide), 1, -0x1p62, 0x1p62, NULL, "seed"),
    OPTION_ROW("dropout", OPTION_REAL, offsetof(struct values, real), 0.1, 0, 0.75, NULL, "dropout"),
    OPTION_ROW("normalize", OPTION_CHOICE, offsetof(struct values, choice), 1, 0, 0, choices, "kind of norm"),
    OPTION_ROW("causal", OPTION_FLAG, offsetof(struct values, flag), 1, 0, 0, NULL, "mask the future"),
    {.name = NULL},
};

static void presets_fill_every_field(void **state)
{
    (void)state;
    struct values values;
    memset(&values, 0xff, sizeof values);
    options_preset(rows, &values);
    assert_int_equal(values.whole, 32);
    assert_int_equal(values.wide, 1);
    assert_true(values.real == 0.1);
    assert_int_equal(values.choice, 1);
    assert_int_equal(values.flag, 1);
}

static void rows_are_found_by_their_whole_name(void **state)
{
    (void)state;
    assert_ptr_equal(option_find(rows, "dropout"), &rows[2]);
    assert_null(option_find(rows, "drop"));
    assert_null(option_find(rows, "dropout2"));
    assert_null(option_find(rows, ""));
}

static void good_text_is_taken(void **state)
{
    (void)state;
    struct host host;
    host_init(&host);
    struct values values;
    options_preset(rows, &values);
    static const struct {
        const char *name, *text;
    } good[] = {{"num_hashes", "1"}, {"num_hashes", "4096"}, {"seed", "-4611686018427387904"},
                {"dropout", "0"},    {"dropout", "0.75"},    {"dropout", "1e-3"},
                {"normalize", "l2"}, {"normalize", "none"},  {"causal", "true"},
                {"causal", "false"}};
    for (size_t i = 0; i < sizeof good / sizeof good[0]; i++)
        check_status(&host, option_set(&host, rows, "yoso", &values, good[i].name, good[i].text), HASHATTN_OK,
                     NULL);
    assert_int_equal(values.whole, 4096);
    assert_true(values.wide == -4611686018427387904);
    assert_true(values.real == 1e-3);
    assert_int_equal(values.choice, 2);
    assert_int_equal(values.flag, 0);
}

static void bad_text_is_refused_and_changes_nothing(void **state)
{
    (void)state;
    struct host host;
    host_init(&host);
    static const struct {
        const char *name, *text, *message;
    } bad[] = {
        {"num_hashes", "0", "yoso: num_hashes is 0, allowed are 1 to 4096"},
        {"num_hashes", "4097", "num_hashes is 4097, allowed are 1 to 4096"},
        {"num_hashes", "-1", "num_hashes is -1"},
        {"num_hashes", "", "num_hashes is '', a whole number from 1 to 4096"},
        {"num_hashes", "12x", "'12x', a whole number"},
        {"num_hashes", "1.5", "'1.5', a whole number"},
        {"num_hashes", "1 ", "'1 ', a whole number"},
        {"num_hashes", "99999999999999999999", "a whole number"},
        {"num_hashes", "many", "'many'"},
        {"dropout", "0.7500001", "allowed are 0 to 0.75"},
        {"dropout", "-1e-9", "dropout is -1e-09, allowed are 0 to 0.75"},
        {"dropout", "nan", "'nan', a number from 0 to 0.75"},
        {"dropout", "inf", "'inf', a number"},
        {"dropout", "1e999", "a number"},
        {"dropout", "0.1.2", "'0.1.2', a number"},
        {"dropout", "0x1p-3", "dropout is '0x1p-3', a number from 0 to 0.75"},
        {"dropout", "0X0", "'0X0', a number"},
        {"dropout", "1e-400",
         "dropout is '1e-400', which is too small and would be read as 0; allowed are 0 to"},
        {"dropout", "-1e-400", "'-1e-400', which is too small"},
        {"dropout", "", "a number"},
        {"normalize", "l", "normalize is 'l', allowed are l2, sum, none"},
        {"normalize", "l22", "allowed are l2, sum, none"},
        {"normalize", "", "allowed are l2, sum, none"},
        {"causal", "1", "causal is '1', allowed are true, false"},
        {"causal", "True", "allowed are true, false"},
        {"hashes", "1", "yoso has no option 'hashes'"},
    };
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        struct values values, before;
        memset(&values, 0, sizeof values);
        options_preset(rows, &values);
        before = values;
        check_status(&host, option_set(&host, rows, "yoso", &values, bad[i].name, bad[i].text),
                     HASHATTN_INVALID, bad[i].message);
        check_same_bits(&values, &before, sizeof values, bad[i].text);
    }
}

static void text_comes_back_as_the_same_value(void **state)
{
    (void)state;
    struct host host;
    host_init(&host);
    static const double reals[] = {0, 0.1, 1.0 / 3, 0.75, 5e-324, 0.7499999999999999};
    static const int64_t wholes[] = {-4611686018427387904, -1, 0, 4611686018427387904};
    struct values values, back;
    memset(&values, 0, sizeof values);
    memset(&back, 0, sizeof back);
    for (size_t i = 0; i < 24; i++) {
        options_preset(rows, &values);
        options_preset(rows, &back);
        values.whole = 1 + (int64_t)i;
        values.wide = wholes[i % 4];
        values.real = reals[i % 6];
        values.choice = (int)(i % 3);
        values.flag = (int)(i % 2);
        for (const struct option_row *row = rows; row->name != NULL; row++) {
            char text[40];
            option_text(row, &values, text, sizeof text);
            check_status(&host, option_set(&host, rows, "yoso", &back, row->name, text), HASHATTN_OK, NULL);
        }
        check_same_bits(&values, &back, sizeof values, "values");
    }
    char small[4];
    option_text(&rows[3], &(struct values){.choice = 2}, small, sizeof small);
    assert_string_equal(small, "non");
}

static void real_numbers_have_a_dot_in_every_locale(void **state)
{
    (void)state;
    struct host host;
    host_init(&host);
    struct values values;
    char text[40];
    for (const char *const *locale = foreign_locales; *locale != NULL; locale++) {
        locales_set(*locale);
        options_preset(rows, &values);
        check_status(&host, option_set(&host, rows, "yoso", &values, "dropout", "0.625"), HASHATTN_OK, NULL);
        assert_true(values.real == 0.625);
        option_text(&rows[2], &values, text, sizeof text);
        assert_string_equal(text, "0.625");
        static const char *const pointed[] = {"0,25", "0\xd9\xab"
                                                      "25"};
        for (size_t i = 0; i < 2; i++)
            check_status(&host, option_set(&host, rows, "yoso", &values, "dropout", pointed[i]),
                         HASHATTN_INVALID, "a number from 0 to 0.75 is needed");
        check_status(&host, option_set(&host, rows, "yoso", &values, "dropout", "1.5"), HASHATTN_INVALID,
                     "dropout is 1.5, allowed are 0 to 0.75");
        assert_true(values.real == 0.625);
        locales_set("C");
    }
}

static void sentences_are_filled(void **state)
{
    (void)state;
    static const struct {
        const char *sentence, *want;
        size_t size;
    } cases[] = {
        {"no braces", "no braces", 60},
        {"{num_hashes} hashes of {normalize}", "32 hashes of sum", 60},
        {"{num_hashes}{dropout}", "320.1", 60},
        {"{num_hash} {num_hashes2} {", "{num_hash} {num_hashes2} {", 60},
        {"a {causal} one", "a tr", 5},
        {"abcdef", "abc", 4},
    };
    struct values values;
    options_preset(rows, &values);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char text[60];
        memset(text, 'x', sizeof text);
        options_fill(rows, &values, cases[i].sentence, text, cases[i].size);
        assert_string_equal(text, cases[i].want);
        if (cases[i].size < sizeof text)
            assert_int_equal(text[cases[i].size], 'x');
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(presets_fill_every_field),
        cmocka_unit_test(rows_are_found_by_their_whole_name),
        cmocka_unit_test(good_text_is_taken),
        cmocka_unit_test(bad_text_is_refused_and_changes_nothing),
        cmocka_unit_test(text_comes_back_as_the_same_value),
        cmocka_unit_test(sentences_are_filled),
        cmocka_unit_test(real_numbers_have_a_dot_in_every_locale),
    };
    locales_make();
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    locales_remove();
    return failed;
}
