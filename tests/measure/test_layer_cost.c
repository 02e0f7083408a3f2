/* The cost of a layer. A fake clock makes times and rates exact, and the blocks that layer_cost leaves are
   compared with those of a second computation: real passes over random rows are timed.
   Planted and caught: a layer without its input rows.
   SPDX-License-Identifier: Apache-2.0 */
#include "measure/layer_cost.h"

#include <stdlib.h>
#include <string.h>

#include "base/random.h"
#include "kernels/product.h"
#include "models/stacks/trunk.h"
#include "support/check.h"
#include "support/fake_clock.h"
#include "support/keeping_host.h"
#include "support/small_run.h"

/* A layer made as layer_cost makes it, and what its passes compute. */
struct made_layer {
    struct params params;
    struct trunk trunk;
    struct mix_plan list;
    struct trunk_plan plan;
    struct trunk_pass pass;
    void *plans, *workspace;
    size_t floats, bytes; /* of the rows; of the workspace */
    float *x, *dy, *values, *room, *gradients;
};

/* rows: how layer_cost cuts them. runs: passes, all of which add to the gradients. */
static void make_layer(struct host *host, const struct model_config *config, struct rows rows, uint64_t seed,
                       bool training, int runs, struct made_layer *made)
{
    memset(made, 0, sizeof *made);
    made->params.precision = (enum precision)config->precision;
    check_status(host, trunk_describe_layer(host, &made->params, config, &made->trunk), HASHATTN_OK, NULL);
    size_t dim = made->trunk.dim, used = rows.count * dim, total = made->params.total;
    made->floats = rows.padded * dim;
    made->x = aligned_zeros(made->floats);
    made->dy = aligned_zeros(made->floats);
    made->values = aligned_zeros(total);
    made->room = aligned_zeros(params_packed_floats(&made->params));
    made->gradients = aligned_zeros(total);
    random_normals(random_key(seed, RANDOM_BENCH, 0), 0, made->x, used);
    random_normals(random_key(seed, RANDOM_BENCH, 1), 0, made->dy, used);
    params_start(&made->params, seed, made->values);
    size_t plans = trunk_num_plans(&made->trunk);
    made->plans = aligned_zeros(plan_set_bytes(plans, 1) / sizeof(float));
    struct plan_set set = plan_set_on(made->plans, plans, 1);
    assert_int_equal(made->trunk.num_lists, 1);
    check_status(host,
                 trunk_plan_make(host, &made->trunk, &rows, NULL, training, &set, &made->list, &made->plan),
                 HASHATTN_OK, NULL);
    made->bytes = made->plan.memory_bytes;
    made->workspace = aligned_zeros(made->bytes / sizeof(float) + 1);
    made->pass =
        trunk_open(&made->plan, (struct input_rows){.floats = made->x},
                   params_pack(&made->params, rows.kernels, rows.pool, made->values, training, made->room),
                   seed, made->workspace);
    for (int i = 0; i < runs; i++) {
        trunk_forward(&made->pass, NULL, 0);
        if (training) {
            memcpy(trunk_gradient(&made->pass), made->dy, made->floats * sizeof(float));
            trunk_backward(&made->pass, made->gradients, NULL, 0);
        }
    }
}

static void free_layer(struct host *host, struct made_layer *made)
{
    void *const all[] = {made->x,         made->dy,    made->values,   made->room,
                         made->gradients, made->plans, made->workspace};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        free(all[i]);
    trunk_free(host, &made->trunk);
    params_free(host, &made->params);
}

/* The blocks of layer_cost, in the order of their allocation, end those of the host. */
static void a_layer_computes_real_passes(void **state)
{
    (void)state;
    enum { ROWS = 500, SEED = 7, REPEATS = 3 };
    struct small_run small;
    struct pool *pool;
    small_run_init(&small, "softmax", 32, 4);
    check_status(&small.host, pool_new(&small.host, 1, &pool), HASHATTN_OK, NULL);
    const struct train_setup setup = {.kernels = kernels_all()[0], .pool = pool};
    const size_t offsets[] = {0, ROWS};
    const uint64_t sample = 0;
    const struct rows rows = rows_of(setup.kernels, pool, 1, offsets, &sample);
    for (int run = 0; run < 4; run++) {
        bool training = run % 2 == 1;
        struct keeping_host keeping;
        struct layer_cost cost;
        struct made_layer made;
        small.config.model.precision = run / 2 == 1 ? PRECISION_BF16 : PRECISION_FLOAT32;
        keeping_host_init(&keeping);
        check_status(
            &keeping.host,
            layer_cost(&keeping.host, &setup, &small.config.model, ROWS, SEED, training, REPEATS, &cost),
            HASHATTN_OK, NULL);
        struct model_config config = small.config.model;
        config.max_len = ROWS;
        make_layer(&small.host, &config, rows, SEED, training, 1 + REPEATS, &made); /* one warms up */
        size_t narrow = made.floats * sizeof(float), total = made.params.total * sizeof(float);
        size_t packed = made.params.packed_weights * sizeof(float),
               library = product_library_size(ROWS, 24, 16);
        const size_t sizes[] = {
            narrow,  training ? narrow : 0, packed + total, total, 3 * REPEATS * sizeof(double), made.bytes,
            library, sizeof(double)};
        const void *found[sizeof sizes / sizeof *sizes] = {NULL};
        size_t at = keeping.count;
        for (size_t i = sizeof sizes / sizeof *sizes; i-- > 0;)
            if (sizes[i] > 0) {
                found[i] = keeping.blocks[--at].block;
                assert_int_equal(keeping.blocks[at].bytes, sizes[i]);
            }
        check_same_bits(found[0], made.x, narrow, "input rows");
        check_same_bits((const char *)found[2] + packed, made.values, total, "parameters");
        check_same_bits(found[3], made.gradients, total, "gradients");
        const char *y = (const char *)trunk_rows(&made.pass);
        check_same_bits((const char *)found[5] + (y - (const char *)made.workspace), y, narrow, "rows out");
        if (training)
            check_same_bits(found[1], made.dy, narrow, "gradient of the rows");
        assert_int_equal(cost.workspace_bytes, made.bytes);
        assert_int_equal(cost.saved_bytes, made.plan.saved_bytes);
        free_layer(&small.host, &made);
        keeping_host_free(&keeping);
    }
    pool_free(&small.host, pool);
    small_run_free(&small);
}

static void a_layer_is_timed_part_by_part(void **state)
{
    (void)state;
    struct small_run small;
    struct pool *pool;
    struct profile *profile;
    struct layer_cost cost;
    small_run_init(&small, "softmax", 32, 4);
    struct host *host = &small.host;
    const struct model_config *model = &small.config.model;
    check_status(host, pool_new(host, 1, &pool), HASHATTN_OK, NULL);
    check_status(host, profile_new(host, pool, &profile), HASHATTN_OK, NULL);
    struct train_setup setup = {.kernels = kernels_all()[0], .pool = pool};
    /* Each part reads the clock before and after, which is one tick; forward includes packing. Without a
       number of repeats, they take two seconds, but there are 3 to 25. */
    static const struct {
        double tick;
        size_t forward, both;
    } repeats[] = {{1, 3, 3}, {0.125, 16, 5}, {1.0 / 64, 25, 25}};
    for (size_t i = 0; i < sizeof repeats / sizeof *repeats; i++) {
        fake_clock_tick = repeats[i].tick;
        check_status(host, layer_cost(host, &setup, model, 20, 1, false, 0, &cost), HASHATTN_OK, NULL);
        assert_int_equal(cost.repeats, repeats[i].forward);
        check_near(cost.lay_ms, 1e3 * fake_clock_tick, 0, "packing");
        check_near(cost.forward_ms, 1e3 * fake_clock_tick, 0, "forward in evaluation");
        check_status(host, layer_cost(host, &setup, model, 20, 1, true, 0, &cost), HASHATTN_OK, NULL);
        assert_int_equal(cost.repeats, repeats[i].both);
        check_near(cost.lay_ms, 1e3 * fake_clock_tick, 0, "packing");
        check_near(cost.forward_ms, 2e3 * fake_clock_tick, 0, "forward");
        check_near(cost.backward_ms, 1e3 * fake_clock_tick, 0, "backward");
    }
    /* A profile reads the clock when it begins and at its laps. It covers the measured passes, each from the
       reading after the first to the one before the last; packing has one lap. */
    fake_clock_tick = 0.125;
    setup.profile = profile;
    check_status(host, layer_cost(host, &setup, model, 20, 1, true, 4, &cost), HASHATTN_OK, NULL);
    assert_int_equal(cost.repeats, 4);
    check_near(cost.lay_ms, 3e3 * fake_clock_tick, 0, "packing with a profile");
    check_near(profile->wall[PROFILE_LAYING], 4 * fake_clock_tick, 0, "packing in the profile");
    double wall = 0;
    for (int part = 0; part < PROFILE_PARTS; part++)
        wall += profile->wall[part];
    check_near(wall, 4e-3 * (cost.forward_ms + cost.backward_ms) - 4 * 6 * fake_clock_tick, 1e-9,
               "all parts");
    fake_clock_tick = 0;
    profile_free(host, profile);
    pool_free(host, pool);
    small_run_free(&small);
}

/* Each thread takes six ticks for the products of its share: four of dim x dim, two of the FFN. */
static void the_library_is_timed_on_the_shapes_of_the_layer(void **state)
{
    (void)state;
    struct small_run small;
    struct pool *pool;
    struct layer_cost cost;
    small_run_init(&small, "softmax", 32, 4);
    check_status(&small.host, pool_new(&small.host, 2, &pool), HASHATTN_OK, NULL);
    const struct train_setup setup = {.kernels = kernels_all()[0], .pool = pool};
    for (size_t rows = 500; rows <= 501; rows++) {
        struct keeping_host keeping;
        keeping_host_init(&keeping);
        fake_clock_tick = 0.125;
        check_status(&keeping.host,
                     layer_cost(&keeping.host, &setup, &small.config.model, rows, 1, false, 1, &cost),
                     HASHATTN_OK, NULL);
        fake_clock_tick = 0;
        size_t share = rows - 250, bytes = product_library_size(share, 24, 16);
        double operations = bytes > 0 ? 2.0 * (double)share * (4 * 16 * 16 + 2 * 16 * 24) : 0;
        check_near(cost.library_gflops, 2 * operations / (6 * 0.125) * 1e-9, 1e-12, "rate of the library");
        if (bytes > 0)
            assert_int_equal(keeping.blocks[keeping.count - 2].bytes, 2 * bytes);
        keeping_host_free(&keeping);
    }
    pool_free(&small.host, pool);
    small_run_free(&small);
}

/* A layer takes rows of its own, whatever the model's input and length. */
static void a_layer_does_not_depend_on_the_input(void **state)
{
    (void)state;
    struct small_run small;
    struct layer_cost cost;
    small_run_init(&small, "softmax", 32, 4);
    const struct train_setup setup = {.kernels = kernels_all()[0]};
    struct model_config config = small.config.model;
    config.vocab_size = 0;
    config.row_width = 5;
    config.num_segments = 300;
    config.max_len = 0;
    config.objectives[0].weight = -1;
    check_status(&small.host, layer_cost(&small.host, &setup, &config, 20, 1, true, 1, &cost), HASHATTN_OK,
                 NULL);
    assert_int_equal(cost.repeats, 1);
    small_run_free(&small);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_layer_computes_real_passes),
        cmocka_unit_test(a_layer_is_timed_part_by_part),
        cmocka_unit_test(the_library_is_timed_on_the_shapes_of_the_layer),
        cmocka_unit_test(a_layer_does_not_depend_on_the_input),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
