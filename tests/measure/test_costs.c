/* Medians, and the costs of a layer, a step and the machine as this floor measures them; test_layer_cost.c
   has more of a layer, and tests/api/test_measure.c and test_peak.c test the public calls. A fake clock makes
   times and rates exact. The codes of the hashing loop and the loss of the steps are compared with those of a
   second computation.
   Planted and caught: the upper of two middle values as the median; a layer with the mechanism of another
   layer of the model; a layer with dropout in evaluation; an error that leaks blocks; a profile that includes
   the step that warms up; a forward pass in the workspace of the steps.
   Covers: layer_cost.c step_cost.c peak.c
   SPDX-License-Identifier: Apache-2.0 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/memory.h"
#include "base/random.h"
#include "kernels/product.h"
#include "measure/layer_cost.h"
#include "measure/peak.h"
#include "measure/step_cost.h"
#include "parts/hashing/codes.h"
#include "parts/hashing/planes.h"
#include "support/check.h"
#include "support/fake_clock.h"
#include "support/keeping_host.h"
#include "support/small_run.h"
#include "train/step.h"

static void medians_are_in_the_middle(void **state)
{
    (void)state;
    double odd[] = {5, 1, 9}, even[] = {4, 1, 2, 9}, one[] = {7};
    check_near(clock_median(odd, 3), 5, 0, "of three");
    check_near(clock_median(even, 4), 3, 0, "of four");
    check_near(clock_median(one, 1), 7, 0, "of one");
}

static void costs_are_those_of_the_shape(void **state)
{
    (void)state;
    struct small_run small;
    struct pool *pool;
    small_run_init(&small, "softmax", 32, 4);
    check_status(&small.host, pool_new(&small.host, 2, &pool), HASHATTN_OK, NULL);
    const struct train_setup setup = {.kernels = kernels_all()[0], .pool = pool};
    const struct model_config *model = &small.config.model;
    struct layer_cost forward, both;
    check_status(&small.host, layer_cost(&small.host, &setup, model, 500, 1, false, 3, &forward), HASHATTN_OK,
                 NULL);
    check_status(&small.host, layer_cost(&small.host, &setup, model, 500, 1, true, 3, &both), HASHATTN_OK,
                 NULL);
    assert_true(isnan(forward.backward_ms) && both.backward_ms > 0 && forward.forward_ms > 0);
    assert_true(forward.repeats == 3 && forward.saved_bytes == both.saved_bytes);
    assert_true(both.workspace_bytes > forward.workspace_bytes);
    check_near(forward.product_operations, 500 * 2.0 * (4 * 16 * 16 + 2 * 16 * 24), 0, "operations");
    struct step_cost step;
    check_status(&small.host, step_cost(&small.host, &setup, &small.config, 4, &step), HASHATTN_OK, NULL);
    assert_true(step.steps == 4 && step.sequences == 20 && step.tokens == 20 * 32 && step.longest == 32);
    assert_true(step.loss > 0 && step.step_ms > 0 && step.workspace_bytes > 0);
    assert_true(step.forward_ms > 0 && step.forward_bytes > 0 && step.forward_bytes < step.workspace_bytes);
    struct model_config odd = *model;
    odd.heads = 3;
    check_status(&small.host, layer_cost(&small.host, &setup, &odd, 500, 1, true, 3, &both), HASHATTN_INVALID,
                 "not a multiple of heads");
    struct peak peak;
    check_status(&small.host, peak_measure(&small.host, setup.kernels, pool, 0.01, &peak), HASHATTN_OK, NULL);
    assert_true(peak.float32_gflops > 0 && peak.hash_gflops > 0 && peak.memory_gbytes_per_s > 0);
    pool_free(&small.host, pool);
    small_run_free(&small);
}

/* The profile has the measured steps, without the first one, which is not measured. */
static void the_profile_is_of_the_measured_steps(void **state)
{
    (void)state;
    struct small_run small;
    struct pool *pool;
    struct profile *profile;
    struct step_cost step;
    small_run_init(&small, "softmax", 32, 4);
    check_status(&small.host, pool_new(&small.host, 1, &pool), HASHATTN_OK, NULL);
    check_status(&small.host, profile_new(&small.host, pool, &profile), HASHATTN_OK, NULL);
    const struct train_setup setup = {.kernels = kernels_all()[0], .pool = pool, .profile = profile};
    check_status(&small.host, step_cost(&small.host, &setup, &small.config, 1, &step), HASHATTN_OK, NULL);
    double seconds = 0;
    for (int part = 0; part < PROFILE_PARTS; part++)
        seconds += profile->wall[part];
    assert_true(seconds > 0 && seconds <= 1.001e-3 * step.step_ms);
    profile_free(&small.host, profile);
    pool_free(&small.host, pool);
    small_run_free(&small);
}

/* Pairs of documents of several lengths. The steps are those of a stepper. */
static void steps_are_those_of_a_training(void **state)
{
    (void)state;
    enum { STEPS = 4 };
    static const char text[] = "no\tthe longest document\tone\nyes\ttwo\tthree\nno\tfour\t\n";
    struct small_run small;
    small_run_init(&small, "softmax", 32, 4);
    struct host *host = &small.host;
    struct run_config *config = &small.config;
    char path[80];
    small_run_path(&small, "data/train.tsv", path);
    FILE *file = fopen(path, "w");
    assert_true(file != NULL && fputs(text, file) >= 0 && fclose(file) == 0);
    task_facts_free(host, &config->facts);
    memory_free(host, config->task_options);
    config->task = task_find("retrieval");
    check_status(host,
                 memory_new_zeroed(host, config->task->options_size, 1, "options", &config->task_options),
                 HASHATTN_OK, NULL);
    options_preset(config->task->options, config->task_options);
    check_status(host, config->task->facts(host, config->task_options, small.data, NULL, &config->facts),
                 HASHATTN_OK, NULL);
    check_status(host, run_config_take_facts(host, config), HASHATTN_OK, NULL);
    small_run_set(&small, "batch", "1");
    small_run_set(&small, "accumulate", "3");
    const struct train_setup setup = {.kernels = kernels_all()[0]};
    struct step_cost cost;
    fake_clock_tick = 0.125;
    check_status(host, step_cost(host, &setup, config, STEPS, &cost), HASHATTN_OK, NULL);
    fake_clock_tick = 0;
    struct stepper stepper;
    struct step_outcome outcome;
    double sums[MODEL_SUMS] = {0};
    check_status(host, stepper_open(host, &setup, config, &stepper), HASHATTN_OK, NULL);
    params_start(stepper.params, (uint64_t)stepper.options->seed, stepper.values);
    check_status(host, stepper_run(&stepper, 0, sums, &outcome), HASHATTN_OK, NULL); /* warms up */
    size_t tokens = 0, saved = 0, most = 0;
    for (int step = 0; step < STEPS; step++) {
        check_status(host, stepper_run(&stepper, step, sums, &outcome), HASHATTN_OK, NULL);
        tokens += outcome.tokens;
        saved = outcome.saved_bytes > saved ? outcome.saved_bytes : saved;
    }
    for (size_t i = 0; i < dataset_sequences(&stepper.train); i++)
        most = dataset_length(&stepper.train, i) > most ? dataset_length(&stepper.train, i) : most;
    assert_int_equal(cost.steps, STEPS);
    assert_int_equal(cost.sequences, STEPS * 3 * 2);
    assert_int_equal(cost.tokens, tokens);
    assert_int_equal(cost.longest, most);
    assert_int_equal(cost.saved_bytes, saved);
    assert_int_equal(cost.workspace_bytes, stepper.session.space.pass.size);
    check_near(cost.loss, outcome.loss, 0, "loss of the last step");
    check_near(cost.step_ms, 125, 0, "median"); /* the clock is read before and after a step */
    check_near(cost.tokens_per_second, (double)tokens / (STEPS * 0.125), 1e-9, "rate");
    stepper_close(&stepper);
    small_run_free(&small);
}

/* Three passes of each candidate, one tick each; on two threads, pool_run reads the clock, too. The loop of
   multiply-adds has the most operations in a pass: 1,024 rounds of them, 1.5 times those of the largest
   product. */
static void peaks_are_operations_over_time(void **state)
{
    (void)state;
    enum { ROWS = 4096, DIM = 64, NUM_HASHES = 32, HASH_BITS = 9 };
    const char *why;
    const struct kernels *kernels = kernels_named("auto", &why);
    const struct hashing hashing = {.num_hashes = NUM_HASHES,
                                    .hash_bits = HASH_BITS,
                                    .projection = hash_projection_of(kernels, HASH_AUTO)};
    const struct planes_form form = {
        .kind = PLANES_ORTHOGONAL, .num_hashes = NUM_HASHES, .hash_bits = HASH_BITS, .dim = DIM};
    size_t bytes = codes_size(&hashing, ROWS), lanes = planes_rotated_count(&form);
    float *x = aligned_zeros(ROWS * DIM), *planes = aligned_zeros(lanes), *rotated = aligned_zeros(lanes),
          *sign = aligned_zeros(DIM), *rows = aligned_zeros(CODES_ROWS * unit_padded(DIM)),
          *squares = aligned_zeros(CODES_ROWS);
    void *work = aligned_zeros(planes_work_size(&form, 1)), *codes = aligned_zeros(bytes),
         *permutation = aligned_zeros(DIM);
    uint64_t key = random_key(0, RANDOM_BENCH, 0);
    random_normals(key, 0, x, ROWS * DIM);
    planes_draw(kernels, NULL, &form, key, planes, work);
    planes_rotate(kernels, hashing.projection, rotated, planes, &form, key, permutation, sign);
    codes_hash(kernels, codes, &hashing, x, DIM, ROWS, DIM, rotated, rows, unit_padded(DIM), squares);
    for (int threads = 1; threads <= 2; threads++) {
        struct keeping_host keeping;
        struct host host;
        struct pool *pool;
        struct peak peak;
        host_init(&host);
        keeping_host_init(&keeping);
        check_status(&host, pool_new(&host, threads, &pool), HASHATTN_OK, NULL);
        fake_clock_tick = 0.25;
        check_status(&keeping.host, peak_measure(&keeping.host, kernels, pool, 0.6, &peak), HASHATTN_OK,
                     NULL);
        fake_clock_tick = 0;
        pool_free(&host, pool);
        const double most = 1024.0 * FUSED_LOOP_OPERATIONS,
                     hashed = 2.0 * ROWS * DIM * NUM_HASHES * HASH_BITS;
        check_near(peak.float32_gflops, threads * most / 0.25 * 1e-9, 1e-12, "float32");
        check_near(peak.bf16_gflops, threads * most / 0.25 * 1e-9, 1e-12, "bf16");
        check_near(peak.hash_gflops, threads * hashed / 0.25 * 1e-9, 1e-12, "hashing");
        size_t floats = (size_t)32 << 20, wrong = 0;
        check_near(peak.memory_gbytes_per_s, 12.0 * (double)floats / (threads == 1 ? 0.25 : 0.75) * 1e-9,
                   1e-12, "memory");
        assert_int_equal(keeping.count, 3); /* memory, products, hashing */
        assert_int_equal(keeping.blocks[0].bytes, 3 * floats * sizeof(float));
        assert_int_equal(keeping.blocks[1].bytes, (size_t)threads * PRODUCT_PEAK_FLOATS * sizeof(float));
        const float *arrays = keeping.blocks[0].block;
        for (size_t i = 0; i < floats; i++)
            wrong += arrays[i] != 1 || arrays[floats + i] != 1 || arrays[2 * floats + i] != 2;
        assert_int_equal(wrong, 0);
        /* The block of hashing begins with the rows and ends with the codes of the threads. */
        const char *block = keeping.blocks[2].block, *end = block + keeping.blocks[2].bytes;
        check_same_bits(block, x, ROWS * DIM * sizeof *x, "rows to hash");
        for (int i = 1; i <= threads; i++)
            check_same_bits(end - (size_t)i * bytes, codes, bytes, "codes");
        keeping_host_free(&keeping);
    }
    void *const all[] = {x, planes, rotated, sign, rows, squares, work, codes, permutation};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        free(all[i]);
}

static void failing_allocations_are_survived(void **state)
{
    (void)state;
    struct small_run small;
    struct pool *pool;
    small_run_init(&small, "softmax", 16, 4);
    check_status(&small.host, pool_new(&small.host, 1, &pool), HASHATTN_OK, NULL);
    const struct train_setup setup = {.kernels = kernels_all()[0], .pool = pool};
    hashattn_status status = HASHATTN_NO_MEMORY;
    for (long fail = 0; status != HASHATTN_OK; fail++) {
        struct failing_host failing;
        struct layer_cost cost;
        failing_host_init(&failing, fail);
        status = layer_cost(&failing.host, &setup, &small.config.model, 20, 1, true, 3, &cost);
        assert_true(status == HASHATTN_OK ? fail > 5 : status == HASHATTN_NO_MEMORY);
        assert_int_equal(failing.outstanding, 0);
    }
    status = HASHATTN_NO_MEMORY;
    for (long fail = 0; status != HASHATTN_OK; fail++) {
        struct failing_host failing;
        struct step_cost cost;
        failing_host_init(&failing, fail);
        status = step_cost(&failing.host, &setup, &small.config, 1, &cost);
        assert_true(status == HASHATTN_OK ? fail > 5 : status == HASHATTN_NO_MEMORY);
        assert_true(status == HASHATTN_OK || (cost.step_ms == 0 && cost.steps == 0));
        assert_int_equal(failing.outstanding, 0);
    }
    pool_free(&small.host, pool);
    small_run_free(&small);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(medians_are_in_the_middle),
        cmocka_unit_test(costs_are_those_of_the_shape),
        cmocka_unit_test(the_profile_is_of_the_measured_steps),
        cmocka_unit_test(steps_are_those_of_a_training),
        cmocka_unit_test(peaks_are_operations_over_time),
        cmocka_unit_test(failing_allocations_are_survived),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
