/* The training options: every default is legal and comes back from its own text, presets set the documented
   values, and ranges are refused with the numbers.
   Bugs planted and caught: a row that points at its neighbour's field; the lra preset without cycling; steps
   changed before the warm-up is scaled; a warm-up that was set scaled all the same; a refused value accepted;
   a default one off; epochs
   rounded down; gradients accumulated without a smaller number of steps; a warm-up or evaluations that were
   set replaced by epochs; epochs settled again after reading a run.
   SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>
#include <string.h>

#include "support/check.h"
#include "support/option_range.h"
#include "train/trainer.h"

static const struct task_preset preset = {
    .steps = 5000, .batch = 8, .eval_every = 50, .warmup = 1000, .learning_rate = 1e-4};
static const struct task_preset lra = {.steps = 5000,
                                       .batch = 8,
                                       .eval_every = 50,
                                       .warmup = 1000,
                                       .learning_rate = 1e-4,
                                       .training = LRA_TRAINING};

static void defaults_come_back_from_their_text(void **state)
{
    (void)state;
    struct host host;
    host_init(&host);
    struct train_options options, copy;
    memset(&options, 0xff, sizeof options);
    options_preset(train_rows, &options);
    memset(&copy, 0xff, sizeof copy);
    for (const struct option_row *row = train_rows; row->name != NULL; row++) {
        char text[64];
        option_text(row, &options, text, sizeof text);
        check_status(&host, option_set(&host, train_rows, "training", &copy, row->name, text), HASHATTN_OK,
                     NULL);
    }
    check_same_bits(&options.steps, &copy.steps, offsetof(struct train_options, schedule), "options");
    assert_int_equal(options.schedule, copy.schedule);
    assert_int_equal(options.gradient_precision, copy.gradient_precision);
    assert_int_equal(options.cycle_momentum, copy.cycle_momentum);
}

/* A config.json of an older run relies on the defaults of the options it lacks. */
static void defaults_and_ranges_are_as_documented(void **state)
{
    (void)state;
    static const struct option_range want[] = {
        {"steps", OPTION_INT, 1000, 1, 1e9},
        {"epochs", OPTION_REAL, 0, 0, 1e6},
        {"batch", OPTION_INT, 32, 1, 65536},
        {"accumulate", OPTION_INT, 1, 1, 65536},
        {"shards", OPTION_INT, 0, 0, 256},
        {"sequence_parallel", OPTION_INT, 1, 1, 4096},
        {"gradient_precision", OPTION_CHOICE, 0, 0, 0},
        {"warmup", OPTION_INT, 100, 0, 1e9},
        {"eval_every", OPTION_INT, 200, 1, 1e9},
        {"eval_examples", OPTION_INT, 0, 0, 1e9},
        {"best", OPTION_TEXT, 0, 1, 63},
        {"patience", OPTION_INT, 0, 0, 1e9},
        {"class_weight", OPTION_CHOICE, 0, 0, 0},
        {"save_every", OPTION_INT, 200, 1, 1e9},
        {"seed", OPTION_INT, 1, 0, 0x1p53},
        {"learning_rate", OPTION_REAL, 1e-3, 0, 10},
        {"beta1", OPTION_REAL, 0.9, 0, 0.9999},
        {"beta2", OPTION_REAL, 0.999, 0, 0.999999},
        {"epsilon", OPTION_REAL, 1e-6, 1e-12, 1},
        {"weight_decay", OPTION_REAL, 0, 0, 10},
        {"clip", OPTION_REAL, 1, 0, 1e6},
        {"schedule", OPTION_CHOICE, 0, 0, 0},
        {"cycle_momentum", OPTION_FLAG, 0, 0, 1},
        {"train_last", OPTION_INT, 0, 0, 256},
        {"extend_positions", OPTION_CHOICE, 0, 0, 0},
        {.name = NULL},
    };
    check_option_ranges(train_rows, want);
}

static void names_stand_for_their_fields(void **state)
{
    (void)state;
    struct host host;
    host_init(&host);
    struct train_options o;
    static const char *const names[] = {
        "steps",         "batch", "warmup", "eval_every", "eval_examples", "save_every", "seed", "accumulate",
        "learning_rate", "beta1", "beta2",  "epsilon",    "weight_decay",  "clip",       NULL};
    options_preset(train_rows, &o);
    for (size_t i = 0; names[i] != NULL; i++) {
        char text[32];
        snprintf(text, sizeof text, i < 8 ? "%zu" : "0.%02zu", i + 11);
        check_status(&host, option_set(&host, train_rows, "training", &o, names[i], text), HASHATTN_OK, NULL);
    }
    const double got[] = {(double)o.steps,
                          (double)o.batch,
                          (double)o.warmup,
                          (double)o.eval_every,
                          (double)o.eval_examples,
                          (double)o.save_every,
                          (double)o.seed,
                          (double)o.accumulate,
                          o.learning_rate,
                          o.beta1,
                          o.beta2,
                          o.epsilon,
                          o.weight_decay,
                          o.clip};
    for (size_t i = 0; names[i] != NULL; i++)
        check_near(got[i], i < 8 ? (double)(i + 11) : (double)(i + 11) / 100, 1e-16, names[i]);
}

static void presets_set_what_they_say(void **state)
{
    (void)state;
    struct train_options options;
    train_options_preset(&preset, &options);
    assert_int_equal(options.steps, 5000);
    assert_int_equal(options.batch, 8);
    assert_int_equal(options.warmup, 1000);
    assert_int_equal(options.eval_every, 50);
    assert_int_equal(options.save_every, 50);
    assert_true(options.learning_rate == 1e-4 && options.clip == 1 && options.cycle_momentum == 0);
    train_options_preset(&lra, &options);
    assert_true(options.clip == 0 && options.cycle_momentum == 1);
    /* The other settings of the reference runs. */
    assert_true(options.beta2 == 0.999 && options.epsilon == 1e-6 && options.weight_decay == 0);
}

static void set(struct host *host, struct train_options *options, const char *name, const char *text)
{
    check_status(host, train_options_set(host, options, name, text), HASHATTN_OK, NULL);
}

static void a_warmup_follows_the_steps_until_it_is_set(void **state)
{
    (void)state;
    struct host host;
    struct train_options options, before;
    host_init(&host);
    memset(&options, 0xff, sizeof options);
    train_options_preset(&preset, &options);
    set(&host, &options, "steps", "500");
    assert_true(options.steps == 500 && options.warmup == 100);
    set(&host, &options, "batch", "3");
    set(&host, &options, "steps", "1000");
    assert_true(options.batch == 3 && options.steps == 1000 && options.warmup == 200);
    set(&host, &options, "warmup", "7");
    set(&host, &options, "steps", "2000");
    assert_true(options.steps == 2000 && options.warmup == 7);
    before = options;
    check_status(&host, train_options_set(&host, &options, "steps", "0"), HASHATTN_INVALID, "steps is 0");
    check_status(&host, train_options_set(&host, &options, "pace", "0"), HASHATTN_INVALID, "pace");
    check_same_bits(&options, &before, sizeof options, "options after a refusal");
    train_options_preset(&preset, &options); /* a preset follows again */
    set(&host, &options, "steps", "500");
    assert_int_equal(options.warmup, 100);
}

/* 10 examples in batches of 2 x 2 are 2.5 steps. */
static void steps_follow_from_epochs(void **state)
{
    (void)state;
    struct host host;
    struct train_options options;
    host_init(&host);
    train_options_preset(&preset, &options);
    set(&host, &options, "epochs", "3");
    set(&host, &options, "batch", "2");
    set(&host, &options, "accumulate", "2");
    const struct train_options before = options;
    check_status(&host, train_options_settle(&host, &options, 10), HASHATTN_OK, NULL);
    assert_true(options.steps == 8 && options.warmup == 2 && options.eval_every == 3); /* 7.5, 1.6, 2.5 */
    options.settled = true; /* as read from a run */
    check_status(&host, train_options_settle(&host, &options, 100), HASHATTN_OK, NULL);
    assert_int_equal(options.steps, 8);

    options = before;
    set(&host, &options, "epochs", "0.01");
    set(&host, &options, "warmup", "1");
    set(&host, &options, "eval_every", "7");
    check_status(&host, train_options_settle(&host, &options, 10), HASHATTN_OK, NULL);
    assert_true(options.steps == 1 && options.warmup == 1 && options.eval_every == 7);

    options = before;
    set(&host, &options, "epochs", "0"); /* as if never set */
    set(&host, &options, "steps", "5");
    check_status(&host, train_options_settle(&host, &options, 10), HASHATTN_OK, NULL);
    assert_int_equal(options.steps, 5);
    check_status(&host, train_options_set(&host, &options, "epochs", "4"), HASHATTN_INVALID,
                 "steps is 5 and epochs 4");
    assert_true(options.epochs == 0);
    options = before;
    check_status(&host, train_options_set(&host, &options, "steps", "5"), HASHATTN_INVALID,
                 "steps is 5 and epochs 3");
    set(&host, &options, "epochs", "1e6");
    check_status(&host, train_options_settle(&host, &options, 1000000), HASHATTN_INVALID,
                 "1e+06 epochs of 1000000 examples are 2.5e+11 steps of 4, at most 1e9");
}

static void ranges_are_refused_with_numbers(void **state)
{
    (void)state;
    struct host host;
    host_init(&host);
    struct train_options options;
    options_preset(train_rows, &options);
    check_status(&host, option_set(&host, train_rows, "training", &options, "batch", "0"), HASHATTN_INVALID,
                 "batch is 0, allowed are 1 to 65536");
    check_status(&host, option_set(&host, train_rows, "training", &options, "beta1", "1"), HASHATTN_INVALID,
                 "beta1 is 1");
    check_status(&host, option_set(&host, train_rows, "training", &options, "learning_rate", "nan"),
                 HASHATTN_INVALID, "learning_rate");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(defaults_come_back_from_their_text),
        cmocka_unit_test(defaults_and_ranges_are_as_documented),
        cmocka_unit_test(names_stand_for_their_fields),
        cmocka_unit_test(presets_set_what_they_say),
        cmocka_unit_test(a_warmup_follows_the_steps_until_it_is_set),
        cmocka_unit_test(steps_follow_from_epochs),
        cmocka_unit_test(ranges_are_refused_with_numbers),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
