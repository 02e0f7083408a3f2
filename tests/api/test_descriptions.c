/* What was read of data, alone and at the beginning of a training. Planted and caught: the name of the
   training set for every part; the longest sequence one too short; numbers left standardised; sets of labels
   not counted, or that of the first document for all; a table that is not described, or described twice in
   a training.
   SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "support/tiny_run.h"

struct told {
    char text[600];
    int stop_after;
};

static int tell(void *user, const hashattn_data_part *part)
{
    struct told *told = user;
    size_t used = strlen(told->text);
    used +=
        (size_t)snprintf(told->text + used, sizeof told->text - used, "%s%s %zu/%zu<%zu cut %zu", part->split,
                         part->drawn ? "*" : "", part->examples, part->tokens, part->longest, part->num_cut);
    for (size_t i = 0; i < part->num_labels; i++)
        used += (size_t)snprintf(told->text + used, sizeof told->text - used, " %s=%zu", part->labels[i],
                                 part->label_counts[i]);
    if (part->numbers)
        used += (size_t)snprintf(told->text + used, sizeof told->text - used, " %g..%g", part->least,
                                 part->greatest);
    snprintf(told->text + used, sizeof told->text - used, "; ");
    return --told->stop_after == 0;
}

static void write_file(const char *path, const char *line, int times)
{
    FILE *file = fopen(path, "wb");
    assert_non_null(file);
    for (int i = 0; i < times; i++)
        for (const char *c = line; *c != '\0'; c++) /* # becomes a digit */
            fputc(*c == '#' ? '0' + i % 10 : *c, file);
    fclose(file);
}

static hashattn_setup *text_setup(hashattn_context *context)
{
    static const char *const options[][2] = {{"steps", "2"},   {"batch", "8"},     {"layers", "1"},
                                             {"dim", "16"},    {"heads", "2"},     {"ffn", "16"},
                                             {"max_len", "8"}, {"tokens", "bytes"}};
    hashattn_setup *setup;
    check_ok(context, hashattn_setup_new(context, "text", &setup));
    for (size_t i = 0; i < sizeof options / sizeof options[0]; i++)
        check_ok(context, hashattn_setup_set(setup, options[i][0], options[i][1]));
    return setup;
}

static void parts_are_described(void **state)
{
    (void)state;
    hashattn_context *context = context_with(1, NULL);
    struct told told = {.stop_after = 0};
    write_file("one.tsv", "ham\tab#\nspam\tabcdefghijk\n", 20);
    hashattn_setup *setup = text_setup(context);
    check_ok(context, hashattn_setup_describe(setup, "one.tsv", tell, &told));
    assert_string_equal(told.text, "train* 32/176<8 cut 16 ham=16 spam=16; valid* 4/22<8 cut 2 ham=2 spam=2; "
                                   "test* 4/22<8 cut 2 ham=2 spam=2; ");
    told = (struct told){.stop_after = 1};
    check_call(context, hashattn_setup_describe(setup, "one.tsv", tell, &told), HASHATTN_INTERRUPTED,
               "stopped after reading the train set");
    told = (struct told){.stop_after = 0};
    hashattn_setup_watch_data(setup, tell, &told);
    check_ok(context, hashattn_train(setup, "one.tsv", "run1", NULL, NULL));
    assert_string_equal(told.text,
                        "train* 32/176<8 cut 16 ham=16 spam=16; valid* 4/22<8 cut 2 ham=2 spam=2; ");
    told = (struct told){.stop_after = 0};
    hashattn_setup_watch_data(setup, NULL, NULL);
    check_ok(context, hashattn_train(setup, "one.tsv", "run2", NULL, NULL));
    assert_string_equal(told.text, "");
    assert_int_equal(mkdir("dir", 0777), 0);
    write_file("dir/train.tsv", "ham\tab#\nspam\tb\n", 3);
    write_file("dir/valid.tsv", "spam\tab#\n", 1);
    check_ok(context, hashattn_setup_describe(setup, "dir", tell, &told));
    assert_string_equal(told.text, "train 6/12<3 cut 0 ham=3 spam=3; valid 1/3<3 cut 0 ham=0 spam=1; ");
    hashattn_setup_free(setup);
    setup = text_setup(context);
    check_ok(context, hashattn_setup_set(setup, "label_type", "number"));
    write_file("dir/train.tsv", "#\tab\n", 30);
    write_file("dir/valid.tsv", "4\tab#\n", 1);
    told = (struct told){.stop_after = 0};
    check_ok(context, hashattn_setup_describe(setup, "dir", tell, &told));
    assert_string_equal(told.text, "train 30/60<2 cut 0 0..9; valid 1/3<3 cut 0 4..4; ");
    hashattn_setup_free(setup);
    setup = text_setup(context);
    check_ok(context, hashattn_setup_set(setup, "multi_label", "true"));
    write_file("dir/train.tsv", "ham,spam\tab\nspam,spam\tab\n", 3);
    write_file("dir/valid.tsv", "spam\tab#\n", 1);
    told = (struct told){.stop_after = 0};
    check_ok(context, hashattn_setup_describe(setup, "dir", tell, &told));
    assert_string_equal(told.text, "train 6/12<2 cut 0 ham=3 spam=6; valid 1/3<3 cut 0 ham=0 spam=1; ");
    hashattn_setup_free(setup);
    hashattn_context_free(context);
}

static int keep_columns(void *user, const hashattn_data_part *part)
{
    char *columns = user;
    snprintf(columns, 200, "%s", part->columns == NULL ? "none" : part->columns);
    return 0;
}

static void tables_are_described(void **state)
{
    (void)state;
    hashattn_context *context = context_with(1, NULL);
    hashattn_setup *setup;
    char columns[200] = "", date[40];
    FILE *file = fopen("days.csv", "wb");
    assert_non_null(file);
    fputs("date,x\n", file);
    for (int i = 0; i < 80; i++) {
        snprintf(date, sizeof date, "2020-%02d-%02d", 1 + i / 28, 1 + i % 28);
        if (i != 5)
            fprintf(file, "%s,%d\n", date, i % 7);
    }
    fclose(file);
    check_ok(context, hashattn_setup_new(context, "forecast", &setup));
    static const char *const options[][2] = {
        {"missing", "interpolate"}, {"model", "last"}, {"seq_len", "6"}, {"horizon", "2"}, {"steps", "1"}};
    for (size_t i = 0; i < sizeof options / sizeof options[0]; i++)
        check_ok(context, hashattn_setup_set(setup, options[i][0], options[i][1]));
    check_ok(context, hashattn_setup_describe(setup, "days.csv", keep_columns, columns));
    if (strstr(columns, "/days.csv: 84 rows, every D, 2020-01-01 to 2020-03-24, 1 column; 5 missing rows") ==
        NULL)
        fail_msg("read %s", columns);
    hashattn_setup_watch_data(setup, keep_columns, columns);
    check_ok(context, hashattn_train(setup, "days.csv", "days", NULL, NULL));
    assert_string_equal(columns, "none"); /* the first report says it */
    hashattn_setup_free(setup);
    hashattn_context_free(context);
}

static int enter(void **state)
{
    (void)state;
    tiny_enter();
    return 0;
}

static int leave(void **state)
{
    (void)state;
    tiny_leave();
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test_setup_teardown(parts_are_described, enter, leave),
                                       cmocka_unit_test_setup_teardown(tables_are_described, enter, leave)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
