/* One step: micro-batches and shards against one large batch, weights of their targets, memory, and a
   profile, which changes nothing. Bugs planted and caught: the loss divided by the micro-batch, or by the
   examples of the shard if targets have weights; every part with the first part's examples; positions that do
   not count parts; gradients cleared between parts; tokens of the last part only; a step that allocates; no
   workspace before the first step; predictions counted by a step that fails; the schedule one step ahead.
   SPDX-License-Identifier: Apache-2.0 */
#include "train/step.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "support/check.h"
#include "support/named_metric.h"
#include "support/small_run.h"
#include "train/schedule.h"

struct step_test {
    struct small_run small;
    struct train_setup setup;
    struct stepper stepper;
    double sums[MODEL_SUMS];
};

/* Needles of 3 to 24 tokens instead of the generated ones. */
static void vary_lengths(const struct small_run *small)
{
    char path[120];
    snprintf(path, sizeof path, "%s/train.tsv", small->data);
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    for (int i = 0; i < 23; i++)
        fprintf(file, "b\t?%.*s\n", 2 + i * 7 % 22 + (i == 22), "abBdefBhijklmnopabcdefgh");
    fclose(file);
}

static void open_step(struct step_test *t, struct host *host, const char *mechanism, int threads,
                      const char *batch, const char *accumulate, const char *shards)
{
    const char *why;
    memset(t, 0, sizeof *t);
    small_run_init(&t->small, mechanism, 24, 3);
    small_run_set(&t->small, "batch", batch);
    small_run_set(&t->small, "accumulate", accumulate);
    small_run_set(&t->small, "shards", shards);
    if (host != NULL)
        vary_lengths(&t->small);
    t->setup.kernels = kernels_named("auto", &why);
    host = host == NULL ? &t->small.host : host;
    check_status(host, pool_new(host, threads, &t->setup.pool), HASHATTN_OK, NULL);
    check_status(host, stepper_open(host, &t->setup, &t->small.config, &t->stepper), HASHATTN_OK, NULL);
    params_start(t->stepper.params, 1, t->stepper.values);
}

static void close_step(struct step_test *t)
{
    struct host *host = t->stepper.host;
    stepper_close(&t->stepper);
    profile_free(host, t->setup.profile);
    pool_free(host, t->setup.pool);
    small_run_free(&t->small);
}

static struct step_outcome run(struct step_test *t, int64_t step)
{
    struct step_outcome outcome;
    check_status(t->stepper.host, stepper_run(&t->stepper, step, t->sums, &outcome), HASHATTN_OK, NULL);
    return outcome;
}

static double sum(const struct step_test *t, const char *name)
{
    return sum_named(t->stepper.model, t->sums, name);
}

/* Targets have weights 0, 1/2, 1, 3/2 and 2, so the parts of a step have different sums of weights. */
static void weigh(struct step_test *t)
{
    struct target_set *set = &t->stepper.train.targets[0];
    for (size_t i = 0; i < t->stepper.train.count; i++)
        set->weights[i] = 0.5f * (float)(i % 5);
}

/* The largest element of a gradient. */
static float most(const float *x, size_t n)
{
    float largest = 0;
    for (size_t i = 0; i < n; i++)
        largest = fabsf(x[i]) > largest ? fabsf(x[i]) : largest;
    return largest;
}

static void check_parts(bool weighted)
{
    static const char *const mechanisms[] = {"softmax", "yoso"};
    static const char *const parts[][3] = {
        {"6", "2", "1"}, {"4", "3", "1"}, {"1", "12", "1"}, {"12", "1", "5"}, {"6", "2", "8"}};
    for (int m = 0; m < 2; m++)
        for (int p = 0; p < 5; p++) {
            struct step_test whole, cut;
            open_step(&whole, NULL, mechanisms[m], 2, "12", "1", "1");
            open_step(&cut, NULL, mechanisms[m], 2, parts[p][0], parts[p][1], parts[p][2]);
            if (weighted)
                weigh(&whole), weigh(&cut);
            /* Not the first step: positions must continue too. */
            struct step_outcome a = run(&whole, 3), b = run(&cut, 3);
            size_t total = whole.stepper.params->total;
            assert_true(a.tokens == b.tokens && a.rate == b.rate && b.saved_bytes < a.saved_bytes);
            assert_true(sum(&whole, "count") == sum(&cut, "count"));
            assert_true((sum(&whole, "count") == 12) == !weighted);
            assert_true(sum(&whole, "correct") == sum(&cut, "correct"));
            check_near(a.loss, sum(&whole, "loss") / sum(&whole, "count"), 1e-14 * a.loss, "mean loss");
            /* The same examples, dropout and hashes, so the same terms: sums over 12 x 24 rows in float32,
               cut at other places. The loss is a sum of 12 doubles of float32 logits that have the same
               bits. */
            check_near(b.loss, a.loss, 1e-14 * a.loss, "loss");
            check_near(b.norm, a.norm, 12 * 24 * 6e-8 * a.norm, "norm");
            float bound = 12 * 24 * 6e-8f * most(whole.stepper.gradients, total);
            for (size_t i = 0; i < total; i++)
                check_near(cut.stepper.gradients[i], whole.stepper.gradients[i], bound, "gradient");
            close_step(&whole), close_step(&cut);
        }
}

static void parts_add_up_to_the_large_batch(void **state)
{
    (void)state;
    check_parts(false);
}

static void a_step_is_divided_by_all_its_weights(void **state)
{
    (void)state;
    check_parts(true);
}

static void threads_and_profiles_change_no_bit(void **state)
{
    (void)state;
    struct step_test one, three;
    open_step(&one, NULL, "yoso", 1, "5", "2", "1");
    open_step(&three, NULL, "yoso", 3, "5", "2", "1");
    check_status(three.stepper.host, profile_new(three.stepper.host, three.setup.pool, &three.setup.profile),
                 HASHATTN_OK, NULL);
    size_t bytes = one.stepper.params->total * sizeof(float);
    for (int step = 0; step < 3; step++) {
        struct step_outcome a = run(&one, step), b = run(&three, step);
        assert_true(a.loss == b.loss && a.norm == b.norm);
        check_same_bits(one.stepper.values, three.stepper.values, bytes, "values");
    }
    for (int p = 0; p < PROFILE_PARTS; p++) {
        bool of_a_step =
            p != PROFILE_EVALUATION && p != PROFILE_SAVING && p != PROFILE_CONVOLUTION && p != PROFILE_RANKS;
        if ((three.setup.profile->wall[p] > 0) != of_a_step)
            fail_msg("%s: %g s", profile_names[p], three.setup.profile->wall[p]);
    }
    close_step(&one), close_step(&three);
}

/* Sequences of many lengths, so batches of many sizes. */
static void steps_allocate_nothing(void **state)
{
    (void)state;
    static const char *const mechanisms[] = {"softmax", "yoso", "yoso-e", "none"};
    for (int m = 0; m < 4; m++) {
        struct failing_host failing;
        struct step_test t;
        failing_host_init(&failing, -1);
        open_step(&t, &failing.host, mechanisms[m], 2, "5", "2", "1");
        long before = failing.calls;
        size_t most = 0, least = SIZE_MAX;
        for (int step = 0; step < 10; step++) { /* epochs end in between */
            size_t tokens = run(&t, step).tokens;
            most = tokens > most ? tokens : most;
            least = tokens < least ? tokens : least;
        }
        assert_int_equal(failing.calls, before);
        assert_true(most > least + 20);
        close_step(&t);
        assert_int_equal(failing.outstanding, 0);
    }
}

static void a_step_that_fails_counts_nowhere(void **state)
{
    (void)state;
    struct step_test t;
    open_step(&t, NULL, "softmax", 1, "4", "2", "1");
    run(&t, 0);
    for (size_t i = 0; i < t.stepper.params->total; i++)
        t.stepper.values[i] = INFINITY;
    struct step_outcome outcome;
    check_status(t.stepper.host, stepper_run(&t.stepper, 1, t.sums, &outcome), HASHATTN_FAILED,
                 "in step 2 of 10: try a lower learning_rate");
    assert_true(sum(&t, "count") == 8);
    close_step(&t);
}

static void the_rate_is_that_of_the_schedule(void **state)
{
    (void)state;
    struct step_test t;
    open_step(&t, NULL, "none", 1, "4", "1", "1");
    const struct train_options *o = &t.small.config.training;
    const struct schedule schedule = {.kind = (enum schedule_kind)o->schedule,
                                      .steps = o->steps,
                                      .warmup = o->warmup,
                                      .peak = o->learning_rate,
                                      .beta1 = o->beta1,
                                      .cycle_beta1 = o->cycle_momentum != 0};
    size_t total = t.stepper.params->total;
    float *before = malloc(total * sizeof *before), most_moved = 0;
    assert_non_null(before);
    memcpy(before, t.stepper.values, total * sizeof *before);
    assert_true(o->cycle_momentum != 0 && o->clip > 0);
    for (int step = 0; step < 4; step++) {
        struct step_outcome outcome = run(&t, step);
        assert_true(outcome.rate == schedule_at(&schedule, step).rate);
        /* The first moments are (1 - beta1) times the clipped gradient; beta1 cycles from 0.95. */
        double largest = fmin(1, o->clip / outcome.norm) * (double)most(t.stepper.gradients, total) * 0.05;
        if (step == 0)
            check_near((double)most(t.stepper.optim.m, total), largest, 1e-5 * largest, "first moments");
        for (size_t i = 0; step == 0 && i < total; i++)
            most_moved = fmaxf(most_moved, fabsf(t.stepper.values[i] - before[i]));
    }
    /* The first step of Adam moves a value by the rate, unless its gradient is tiny. */
    check_near((double)most_moved, schedule_at(&schedule, 0).rate, 1e-2 * schedule_at(&schedule, 0).rate,
               "first step");
    const struct param *words = &t.stepper.params->rows[0]; /* of the embedding; no token has id 0 */
    for (int64_t i = 0; i < t.small.config.model.dim; i++)
        assert_true(t.stepper.gradients[words->offset + (size_t)i] == 0);
    free(before);
    close_step(&t);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(parts_add_up_to_the_large_batch),
        cmocka_unit_test(a_step_is_divided_by_all_its_weights),
        cmocka_unit_test(threads_and_profiles_change_no_bit),
        cmocka_unit_test(steps_allocate_nothing),
        cmocka_unit_test(a_step_that_fails_counts_nowhere),
        cmocka_unit_test(the_rate_is_that_of_the_schedule),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
