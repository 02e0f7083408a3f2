/* A setup by name: every option of every task and mechanism, presets, the scaled warm-up. Planted and caught:
   the warm-up scaled although it was set; the task's hash_bits lost with another mechanism; the preset's
   pooling ignored; options of the model listed with the defaults of another task; the old mechanism's options
   kept; an unknown option attributed to the last owner; numbers in the caller's locale; the number of layers
   of a task's preset ignored (only lm differs from the model's default); presets of other tasks listed.
   SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tasks/task.h"

#include "support/api_context.h"
#include "support/locales.h"

static void check_value(hashattn_context *context, hashattn_setup *setup, const char *name, const char *want)
{
    char text[64];
    check_ok(context, hashattn_setup_get(setup, name, text, sizeof text));
    assert_string_equal(text, want);
}

static void every_option_takes_its_own_text(void **state)
{
    (void)state;
    hashattn_context *context = context_with(1, NULL);
    hashattn_task_info task = {.struct_size = sizeof task};
    assert_true(hashattn_task_count() >= 3);
    for (size_t t = 0; hashattn_task_get(t, &task); t++) {
        hashattn_setup *setup;
        check_ok(context, hashattn_setup_new(context, task.name, &setup));
        hashattn_option row = {.struct_size = sizeof row}, shown = {.struct_size = sizeof shown};
        size_t count = 0, of_task = 0, of_mechanism = 0, unread = 0, words = 1;
        char text[64];
        for (; hashattn_setup_option(setup, count, &row); count++) {
            assert_true(row.help[0] != '\0');
            of_mechanism += strcmp(row.owner, "attention") == 0;
            check_value(context, setup, row.name, row.preset);
            check_ok(context, hashattn_setup_set(setup, row.name, row.preset));
            check_value(context, setup, row.name, row.preset);
        }
        for (; hashattn_task_option(t, of_task, &shown); of_task++) {
            assert_string_not_equal(shown.owner, "attention");
            check_ok(context, hashattn_setup_get(setup, shown.name, text, sizeof text));
            assert_string_equal(text, shown.preset);
            unread += shown.unread == 1;
            assert_true(shown.unread == 0 || strcmp(shown.owner, "model") == 0 ||
                        strcmp(shown.owner, "training") == 0);
        }
        for (const char *c = task_find(task.name)->unread; *c != '\0'; c++)
            words += *c == ' ';
        assert_int_equal(unread, words); /* every word is an option */
        assert_int_equal(count, of_task + of_mechanism);
        assert_true(of_mechanism >= 4);
        hashattn_setup_free(setup);
    }
    hashattn_option row = {.struct_size = sizeof row};
    assert_int_equal(hashattn_task_get(0, &task), 1);
    assert_int_equal(hashattn_task_option(0, 0, &row), 1);
    assert_int_equal(hashattn_task_option(hashattn_task_count(), 0, &row), 0);
    assert_int_equal(hashattn_task_get(hashattn_task_count(), &task), 0);
    assert_int_equal(hashattn_setup_option(NULL, 0, &row), 0);
    hashattn_context_free(context);
}

static void numbers_have_a_dot_in_every_locale(void **state)
{
    (void)state;
    hashattn_context *context = context_with(1, NULL);
    for (const char *const *locale = foreign_locales; *locale != NULL; locale++) {
        locales_set(*locale);
        hashattn_setup *setup;
        check_ok(context, hashattn_setup_new(context, "listops", &setup));
        check_value(context, setup, "beta2", "0.999");
        check_ok(context, hashattn_setup_set(setup, "learning_rate", "0.001"));
        check_value(context, setup, "learning_rate", "0.001");
        check_ok(context, hashattn_setup_set(setup, "clip", "1.5"));
        check_value(context, setup, "clip", "1.5");
        check_call(context, hashattn_setup_set(setup, "clip", "-0.5"), HASHATTN_INVALID, "clip is -0.5,");
        hashattn_option row = {.struct_size = sizeof row};
        for (size_t i = 0; hashattn_setup_option(setup, i, &row); i++)
            if (strcmp(row.name, "clip") == 0)
                assert_string_equal(row.preset, "1.5");
        hashattn_setup_free(setup);
        locales_set("C");
    }
    hashattn_context_free(context);
}

static void known_tasks_are_listed(void **state)
{
    (void)state;
    static const struct {
        const char *name;
        int generates, predicts, has_lra;
        const char *attention;
    } want[] = {{"needle", 1, 0, 0, "yoso.hash_bits=8 yoso-e.hash_bits=8"},
                {"listops", 1, 1, 1, "yoso.hash_bits=9 yoso-e.hash_bits=9"},
                {"text", 0, 1, 1, "yoso.hash_bits=5 yoso-e.hash_bits=5"},
                {"image", 0, 1, 1, "yoso.hash_bits=8 yoso-e.hash_bits=8"},
                {"pathfinder", 1, 1, 1, "yoso.hash_bits=8 yoso-e.hash_bits=8"}};
    for (size_t i = 0; i < sizeof want / sizeof *want; i++) {
        hashattn_task_info task = {.struct_size = sizeof task};
        size_t t = 0;
        while (hashattn_task_get(t, &task) && strcmp(task.name, want[i].name) != 0)
            t++;
        assert_true(t < hashattn_task_count());
        assert_int_equal(task.generates, want[i].generates);
        assert_int_equal(task.predicts, want[i].predicts);
        assert_int_equal(task.has_lra, want[i].has_lra);
        assert_string_equal(task.attention, want[i].attention);
    }
}

/* The values of `train TASK`, with and without --preset lra, including those that are the model's
   defaults. */
static void every_task_brings_its_own_model(void **state)
{
    (void)state;
    enum { FIGURES = 13 };
    static const char *const names[FIGURES] = {
        "steps", "batch", "eval_every", "warmup",  "learning_rate", "layers",        "dim",
        "heads", "ffn",   "hash_bits",  "pooling", "dropout",       "cycle_momentum"};
    static const struct {
        const char *task, *preset, *want[FIGURES];
    } rows[] = {
        {"needle",
         NULL,
         {"1000", "32", "100", "50", "0.001", "2", "64", "2", "128", "8", "first", "0.1", "false"}},
        {"listops",
         NULL,
         {"2000", "32", "100", "100", "0.0005", "2", "64", "2", "128", "9", "mean", "0.1", "false"}},
        {"listops",
         "lra",
         {"5000", "32", "50", "1000", "0.0001", "2", "64", "2", "128", "11", "mean-padded", "0.1", "true"}},
        {"text",
         NULL,
         {"1000", "32", "100", "100", "0.003", "1", "64", "2", "128", "5", "mean", "0.3", "false"}},
        {"text",
         "lra",
         {"20000", "32", "500", "8000", "0.0001", "2", "64", "2", "128", "12", "mean-padded", "0.1", "true"}},
        {"retrieval",
         NULL,
         {"2000", "8", "100", "100", "0.001", "2", "64", "2", "128", "9", "mean", "0.1", "false"}},
        {"retrieval",
         "lra",
         {"30000", "32", "300", "800", "0.0001", "2", "64", "2", "128", "12", "mean-padded", "0.1", "true"}},
        {"lm",
         NULL,
         {"2000", "16", "200", "100", "0.002", "4", "128", "4", "512", "6", "mean", "0.1", "false"}},
    };
    hashattn_context *context = context_with(1, NULL);
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        hashattn_setup *setup;
        check_ok(context, hashattn_setup_new(context, rows[i].task, &setup));
        if (rows[i].preset != NULL)
            check_ok(context, hashattn_setup_preset(setup, rows[i].preset));
        for (size_t k = 0; k < FIGURES; k++)
            check_value(context, setup, names[k], rows[i].want[k]);
        hashattn_setup_free(setup);
    }
    hashattn_context_free(context);
}

static void preset_is_that_of_the_released_runs(void **state)
{
    (void)state;
    hashattn_context *context = context_with(1, NULL);
    hashattn_setup *setup;
    check_ok(context, hashattn_setup_new(context, "listops", &setup));
    check_ok(context, hashattn_setup_set(setup, "warmup", "7"));
    check_ok(context, hashattn_setup_set(setup, "dim", "32"));
    check_ok(context, hashattn_setup_preset(setup, "lra"));
    static const char *const want[][2] = {
        {"steps", "5000"},
        {"warmup", "1000"},
        {"batch", "32"},
        {"eval_every", "50"},
        {"learning_rate", "0.0001"},
        {"beta1", "0.9"},
        {"beta2", "0.999"},
        {"epsilon", "1e-06"},
        {"weight_decay", "0"},
        {"clip", "0"},
        {"cycle_momentum", "true"},
        {"layers", "2"},
        {"dim", "64"},
        {"heads", "2"},
        {"ffn", "128"},
        {"dropout", "0.1"},
        {"hash_bits", "11"},
        {"conv_window", "0"},
    };
    for (size_t i = 0; i < sizeof want / sizeof want[0]; i++)
        check_value(context, setup, want[i][0], want[i][1]);
    check_ok(context, hashattn_setup_mechanism(setup, "yoso-e"));
    check_value(context, setup, "hash_bits", "11");
    check_ok(context, hashattn_setup_set(setup, "steps", "500")); /* the warm-up scales in proportion */
    check_value(context, setup, "warmup", "100");
    check_call(context, hashattn_setup_preset(setup, "imagenet"), HASHATTN_INVALID,
               "listops has no preset 'imagenet', there are: lra");
    check_call(context, hashattn_setup_preset(setup, "bert"), HASHATTN_INVALID,
               "listops has no preset 'bert', there are: lra");
    check_call(context, hashattn_setup_preset(setup, NULL), HASHATTN_INVALID, "no preset 'NULL'");
    hashattn_setup_free(setup);
    check_ok(context, hashattn_setup_new(context, "text", &setup));
    check_value(context, setup, "tokens", "bpe");
    check_value(context, setup, "text_column", "text");
    check_ok(context, hashattn_setup_preset(setup, "lra"));
    check_value(context, setup, "tokens", "bytes");
    check_value(context, setup, "conv_window", "0");
    check_value(context, setup, "hash_bits", "12");
    hashattn_setup_free(setup);
    check_ok(context, hashattn_setup_new(context, "needle", &setup));
    check_call(context, hashattn_setup_preset(setup, "lra"), HASHATTN_INVALID,
               "needle has no preset 'lra', nor any other");
    check_value(context, setup, "pooling", "first");
    check_value(context, setup, "hash_bits", "8");
    hashattn_setup_free(setup);
    hashattn_context_free(context);
    hashattn_context_options rough;
    hashattn_context_options_default(&rough);
    rough.precision = "bf16"; /* not part of a preset */
    check_ok(NULL, hashattn_context_new(&rough, NULL, 0, &context));
    check_ok(context, hashattn_setup_new(context, "listops", &setup));
    check_value(context, setup, "precision", "bf16");
    check_ok(context, hashattn_setup_preset(setup, "lra"));
    check_value(context, setup, "precision", "bf16");
    hashattn_setup_free(setup);
    hashattn_context_free(context);
}

static void sizes_are_those_of_bert(void **state)
{
    (void)state;
    static const struct {
        const char *size, *want[4];
    } rows[] = {{"tiny", {"2", "128", "2", "512"}},
                {"mini", {"4", "256", "4", "1024"}},
                {"small", {"4", "512", "8", "2048"}},
                {"base", {"12", "768", "12", "3072"}}};
    static const char *const names[4] = {"layers", "dim", "heads", "ffn"};
    hashattn_context *context = context_with(1, NULL);
    hashattn_setup *setup;
    check_ok(context, hashattn_setup_new(context, "lm", &setup));
    for (size_t i = 0; i < 4; i++) {
        check_ok(context, hashattn_setup_size(setup, rows[i].size));
        for (size_t k = 0; k < 4; k++)
            check_value(context, setup, names[k], rows[i].want[k]);
    }
    check_call(context, hashattn_setup_size(setup, "huge"), HASHATTN_INVALID,
               "no size 'huge', there are: tiny, mini, small, base");
    check_call(context, hashattn_setup_size(setup, NULL), HASHATTN_INVALID, "no size 'NULL'");
    check_value(context, setup, "dim", "768");
    assert_int_equal(hashattn_setup_size(NULL, "tiny"), HASHATTN_INVALID);
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        assert_string_equal(hashattn_size_name(i), rows[i].size);
    assert_null(hashattn_size_name(sizeof rows / sizeof *rows));
    assert_null(hashattn_size_name(SIZE_MAX));
    hashattn_setup_free(setup);
    hashattn_context_free(context);
}

static void steps_move_the_warm_up_until_it_is_set(void **state)
{
    (void)state;
    hashattn_context *context = context_with(1, NULL);
    hashattn_setup *setup;
    check_ok(context, hashattn_setup_new(context, "needle", &setup));
    char steps[64], warmup[64], text[64];
    check_ok(context, hashattn_setup_get(setup, "steps", steps, sizeof steps));
    check_ok(context, hashattn_setup_get(setup, "warmup", warmup, sizeof warmup));
    snprintf(text, sizeof text, "%ld", 10 * atol(steps));
    check_ok(context, hashattn_setup_set(setup, "steps", text));
    snprintf(text, sizeof text, "%ld", 10 * atol(warmup));
    check_value(context, setup, "warmup", text);
    check_ok(context, hashattn_setup_set(setup, "warmup", "3"));
    check_ok(context, hashattn_setup_set(setup, "steps", "77"));
    check_value(context, setup, "warmup", "3");
    check_value(context, setup, "steps", "77");
    hashattn_setup_free(setup);
    hashattn_context_free(context);
}

static void mechanisms_bring_their_own_options(void **state)
{
    (void)state;
    hashattn_context *context = context_with(1, NULL);
    hashattn_setup *setup;
    check_ok(context, hashattn_setup_new(context, "needle", &setup));
    check_ok(context, hashattn_setup_set(setup, "num_hashes", "5"));
    check_ok(context, hashattn_setup_mechanism(setup, "softmax"));
    check_call(context, hashattn_setup_set(setup, "num_hashes", "6"), HASHATTN_INVALID,
               "needle with softmax has no option 'num_hashes'");
    char text[64];
    check_call(context, hashattn_setup_get(setup, "num_hashes", text, sizeof text), HASHATTN_INVALID,
               "needle with softmax has no option 'num_hashes'");
    check_ok(context, hashattn_setup_mechanism(setup, "yoso"));
    check_value(context, setup, "num_hashes", "32");
    check_call(context, hashattn_setup_mechanism(setup, "yosso"), HASHATTN_INVALID, "no mechanism 'yosso'");
    check_value(context, setup, "num_hashes", "32"); /* still yoso */
    hashattn_setup_free(setup);
    hashattn_context_free(context);
}

/* With several mechanisms an option is set in all that have it, or in one. */
static void mixed_heads_have_options_of_each(void **state)
{
    (void)state;
    hashattn_context *context = context_with(1, NULL);
    hashattn_setup *setup;
    check_ok(context, hashattn_setup_new(context, "needle", &setup));
    check_ok(context, hashattn_setup_mechanism(setup, "lsh*1,lha*1/yoso"));
    check_ok(context, hashattn_setup_set(setup, "num_buckets", "6"));
    check_ok(context, hashattn_setup_set(setup, "lha.num_buckets", "7"));
    check_value(context, setup, "num_buckets", "6"); /* from the first that has it */
    check_value(context, setup, "lsh.num_buckets", "6");
    check_value(context, setup, "lha.num_buckets", "7");
    check_value(context, setup, "hash_bits", "8"); /* the task's value, for yoso */
    check_call(context, hashattn_setup_set(setup, "lha.num_hashes", "7"), HASHATTN_INVALID,
               "needle with lsh*1,lha*1/yoso has no option 'lha.num_hashes'");
    check_call(context, hashattn_setup_set(setup, "needle.marks", "7"), HASHATTN_INVALID,
               "has no option 'needle.marks'");
    char text[64];
    check_call(context, hashattn_setup_get(setup, "softmax.num_buckets", text, sizeof text), HASHATTN_INVALID,
               "has no option 'softmax.num_buckets'");
    hashattn_option row = {.struct_size = sizeof row};
    size_t buckets = 0;
    for (size_t i = 0; hashattn_setup_option(setup, i, &row); i++)
        buckets += strcmp(row.name, "num_buckets") == 0;
    assert_int_equal(buckets, 2);
    check_call(context, hashattn_setup_mechanism(setup, "lsh*1,lha*"), HASHATTN_INVALID,
               "gives lha '' heads");
    check_value(context, setup, "lha.num_buckets", "7"); /* unchanged */
    hashattn_setup_free(setup);
    hashattn_context_free(context);
}

static void mistakes_are_named(void **state)
{
    (void)state;
    hashattn_context *context = context_with(1, NULL);
    hashattn_setup *setup = (void *)context;
    check_call(context, hashattn_setup_new(context, "neddle", &setup), HASHATTN_INVALID, "no task 'neddle'");
    assert_string_equal(hashattn_context_message(context),
                        "no task 'neddle', there are: needle, listops, text, retrieval, lm, mlm, glue, "
                        "image, pathfinder, forecast");
    assert_null(setup);
    check_call(context, hashattn_setup_new(context, NULL, &setup), HASHATTN_INVALID, "no task 'NULL'");
    check_ok(context, hashattn_setup_new(context, "needle", &setup));
    check_call(context, hashattn_train(setup, "no/data", "run", NULL, NULL), HASHATTN_BAD_FILE,
               "cannot open no/data: No such file or directory");
    check_call(context, hashattn_setup_set(setup, "steps", "0"), HASHATTN_INVALID,
               "training: steps is 0, allowed are 1 to ");
    check_call(context, hashattn_setup_set(setup, "heads", "many"), HASHATTN_INVALID,
               "model: heads is 'many'");
    check_call(context, hashattn_setup_set(setup, "marks", "-1"), HASHATTN_INVALID, "needle: marks is -1");
    check_call(context, hashattn_setup_set(setup, "hash_bits", "25"), HASHATTN_INVALID,
               "yoso: hash_bits is 25");
    check_call(context, hashattn_setup_set(setup, "stepz", "1"), HASHATTN_INVALID,
               "needle with yoso has no option 'stepz'");
    check_call(context, hashattn_setup_set(setup, NULL, "1"), HASHATTN_INVALID, "name");
    check_call(context, hashattn_setup_set(setup, "steps", NULL), HASHATTN_INVALID, "text");
    char text[3] = "xx";
    check_call(context, hashattn_setup_get(setup, "steps", text, 3), HASHATTN_INVALID,
               "the text of steps needs 5 chars, there is room for 3");
    char exact[5];
    check_call(context, hashattn_setup_get(setup, "steps", exact, 4), HASHATTN_INVALID, "needs 5 chars");
    check_ok(context, hashattn_setup_get(setup, "steps", exact, 5));
    assert_string_equal(exact, "1000");
    assert_string_equal(text, "xx");
    check_call(context, hashattn_setup_get(setup, NULL, text, 3), HASHATTN_INVALID, "name");
    check_call(context, hashattn_setup_get(setup, "steps", NULL, 3), HASHATTN_INVALID, "buffer");
    assert_int_equal(hashattn_setup_new(NULL, "needle", &setup), HASHATTN_INVALID);
    assert_int_equal(hashattn_setup_new(context, "needle", NULL), HASHATTN_INVALID);
    assert_int_equal(hashattn_setup_set(NULL, "a", "b"), HASHATTN_INVALID);
    assert_int_equal(hashattn_setup_get(NULL, "a", text, 3), HASHATTN_INVALID);
    assert_int_equal(hashattn_setup_mechanism(NULL, "a"), HASHATTN_INVALID);
    assert_int_equal(hashattn_setup_preset(NULL, "a"), HASHATTN_INVALID);
    hashattn_setup_free(setup);
    hashattn_setup_free(NULL);
    hashattn_context_free(context);
}

static hashattn_status make_one(hashattn_context *context, void *user)
{
    (void)user;
    hashattn_setup *setup;
    hashattn_status status = hashattn_setup_new(context, "needle", &setup);
    if (status == HASHATTN_OK)
        status = hashattn_setup_mechanism(setup, "yoso-e");
    hashattn_setup_free(setup);
    return status;
}

static void every_failing_allocation_is_survived(void **state)
{
    (void)state;
    check_every_failing_allocation(make_one, NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_option_takes_its_own_text),
        cmocka_unit_test(numbers_have_a_dot_in_every_locale),
        cmocka_unit_test(known_tasks_are_listed),
        cmocka_unit_test(every_task_brings_its_own_model),
        cmocka_unit_test(preset_is_that_of_the_released_runs),
        cmocka_unit_test(sizes_are_those_of_bert),
        cmocka_unit_test(steps_move_the_warm_up_until_it_is_set),
        cmocka_unit_test(mechanisms_bring_their_own_options),
        cmocka_unit_test(mixed_heads_have_options_of_each),
        cmocka_unit_test(mistakes_are_named),
        cmocka_unit_test(every_failing_allocation_is_survived),
    };
    locales_make();
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    locales_remove();
    return failed;
}
