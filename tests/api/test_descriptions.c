/* What was read of data, alone and at the beginning of a training. Planted and caught: the name of the
   training set for every part; the longest sequence one too short; numbers left standardised; sets of labels
   not counted, or that of the first document for all.
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
    const struct CMUnitTest tests[] = {cmocka_unit_test_setup_teardown(parts_are_described, enter, leave)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
