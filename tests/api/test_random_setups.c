/* Whatever set-up begins to train leaves a run that can be loaded: random options of every owner, of tasks
   with generated data, texts and tables, with random mechanisms. A set-up may be refused, but then before the
   run has a directory. Planted and caught: the attention dropout of a model without attention (forecast
   --model last) checked against the mechanism that config.json names in its place, with and without
   run_config_check, which turns a run that cannot be loaded into a refusal.
   SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/random.h"
#include "support/tiny_run.h"

enum { SETUPS = 60 }; /* of each task */

static uint64_t drawn;

static uint32_t draw(uint32_t below)
{
    return (uint32_t)(random_key(7, RANDOM_SAMPLE, drawn++) % below);
}

/* A random value of an option, small enough that a step takes a moment. */
static void draw_value(const hashattn_option *option, char *text, size_t size)
{
    size_t choices = 0;
    double range = option->maximum - option->minimum;
    switch (option->type) {
    case HASHATTN_OPTION_INT:
        snprintf(text, size, "%.0f", option->minimum + (double)draw((uint32_t)(range < 12 ? range : 12) + 1));
        break;
    case HASHATTN_OPTION_REAL:
        snprintf(text, size, "%.3g", option->minimum + (draw(3) == 0 ? 0 : range * draw(1000) / 1000));
        break;
    case HASHATTN_OPTION_CHOICE:
        while (option->choices[choices] != NULL)
            choices++;
        snprintf(text, size, "%s", option->choices[draw((uint32_t)choices)]);
        break;
    case HASHATTN_OPTION_FLAG:
        snprintf(text, size, "%s", draw(2) == 0 ? "true" : "false");
        break;
    case HASHATTN_OPTION_TEXT:
        snprintf(text, size, "%s", strcmp(option->name, "cutoffs") == 0 ? "3,5" : option->preset);
        break;
    }
}

/* Sets about a fifth of the options; what is refused keeps its value. */
static void draw_options(hashattn_setup *setup)
{
    static const char *const small[][2] = {
        {"layers", "1"}, {"dim", "8"}, {"heads", "2"}, {"ffn", "8"}, {"batch", "2"}};
    /* What would refuse most set-ups, or take long. */
    static const char *const last[][2] = {{"steps", "1"},  {"eval_every", "1"},        {"eval_examples", "2"},
                                          {"warmup", "0"}, {"sequence_parallel", "1"}, {"dim", "24"}};
    hashattn_option option = {.struct_size = sizeof option};
    hashattn_status status = HASHATTN_OK;
    for (size_t i = 0; i < sizeof small / sizeof *small; i++)
        status |= hashattn_setup_set(setup, small[i][0], small[i][1]);
    for (size_t i = 0; hashattn_setup_option(setup, i, &option); i++) {
        char text[80];
        if (draw(5) != 0 || strcmp(option.name, "epochs") == 0)
            continue;
        draw_value(&option, text, sizeof text);
        status |= hashattn_setup_set(setup, option.name, text);
    }
    for (size_t i = 0; i < sizeof last / sizeof *last; i++)
        status |= hashattn_setup_set(setup, last[i][0], last[i][1]);
    (void)status;
}

static const char *draw_mechanism(void)
{
    hashattn_mechanism_info info = {.struct_size = sizeof info};
    hashattn_mechanism_get(draw((uint32_t)hashattn_mechanism_count()), &info);
    return info.name;
}

/* Trains one step of random set-ups; returns how many left a run. */
static size_t check_setups(hashattn_context *context, const char *task, const char *data)
{
    size_t runs = 0;
    for (size_t i = 0; i < SETUPS; i++) {
        char run[40], config[60];
        hashattn_setup *setup;
        hashattn_model *model;
        snprintf(run, sizeof run, "%s-%zu", task, i);
        snprintf(config, sizeof config, "%s/config.json", run);
        check_ok(context, hashattn_setup_new(context, task, &setup));
        check_ok(context, hashattn_setup_mechanism(setup, draw(2) == 0 ? "softmax" : draw_mechanism()));
        draw_options(setup);
        hashattn_status status = hashattn_train(setup, data, run, NULL, NULL);
        hashattn_setup_free(setup);
        if (access(config, F_OK) != 0) {
            assert_int_not_equal(status, HASHATTN_OK);
            continue;
        }
        runs++;
        status = hashattn_model_load(context, run, &model);
        if (status != HASHATTN_OK)
            fail_msg("%s has trained and cannot be loaded: %s", run, hashattn_context_message(context));
        hashattn_model_free(model);
    }
    return runs;
}

static void generated_data(void **state)
{
    (void)state;
    hashattn_context *context = context_with(1, NULL);
    static const char *const tasks[] = {"needle", "listops"};
    const size_t counts[] = {8, 4, 4};
    for (size_t t = 0; t < sizeof tasks / sizeof *tasks; t++) {
        hashattn_setup *setup;
        check_ok(context, hashattn_setup_new(context, tasks[t], &setup));
        check_ok(context, hashattn_setup_generate(setup, tasks[t], counts, 1));
        hashattn_setup_free(setup);
        assert_true(check_setups(context, tasks[t], tasks[t]) > SETUPS / 10);
    }
    hashattn_context_free(context);
}

static void put(const char *path, const char *line, int count)
{
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    for (int i = 0; i < count; i++)
        fprintf(file, line, i % 2, i);
    fclose(file);
}

static void texts(void **state)
{
    (void)state;
    hashattn_context *context = context_with(1, NULL);
    assert_int_equal(system("mkdir text lm"), 0);
    put("text/train.tsv", "label%d\ta document number %d\n", 12);
    put("text/valid.tsv", "label%d\ta document number %d\n", 4);
    put("lm/train.txt", "word%d is number %d of the list\n", 60);
    put("lm/valid.txt", "word%d is number %d of the list\n", 20);
    assert_true(check_setups(context, "text", "text") > SETUPS / 10);
    assert_true(check_setups(context, "lm", "lm") > SETUPS / 10);
    hashattn_context_free(context);
}

static void tables(void **state)
{
    (void)state;
    hashattn_context *context = context_with(1, NULL);
    FILE *file = fopen("table.csv", "w");
    assert_non_null(file);
    fprintf(file, "date,load,price\n");
    for (int i = 0; i < 28 * 96; i++) /* a row every quarter of an hour */
        fprintf(file, "2024-01-%02d %02d:%02d:00,%d,%d\n", 1 + i / 96, i / 4 % 24, i % 4 * 15, i * 7 % 96,
                i % 96);
    fclose(file);
    assert_true(check_setups(context, "forecast", "table.csv") > SETUPS / 10);
    hashattn_context_free(context);
}

/* The pair of options that was found first. */
static void a_model_without_attention_drops_nothing(void **state)
{
    (void)state;
    hashattn_context *context = context_with(1, NULL);
    hashattn_setup *setup;
    hashattn_model *model;
    check_ok(context, hashattn_setup_new(context, "forecast", &setup));
    check_ok(context, hashattn_setup_mechanism(setup, "softmax"));
    static const char *const options[][2] = {{"model", "last"}, {"attention_dropout", "0.5"},
                                             {"steps", "1"},    {"seq_len", "24"},
                                             {"horizon", "12"}, {"eval_every", "1"}};
    for (size_t i = 0; i < sizeof options / sizeof *options; i++)
        check_ok(context, hashattn_setup_set(setup, options[i][0], options[i][1]));
    check_ok(context, hashattn_train(setup, "table.csv", "naive", NULL, NULL));
    check_ok(context, hashattn_model_load(context, "naive", &model));
    hashattn_model_free(model);
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
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(generated_data),
        cmocka_unit_test(texts),
        cmocka_unit_test(tables),
        cmocka_unit_test(a_model_without_attention_drops_nothing),
    };
    return cmocka_run_group_tests(tests, enter, leave);
}
