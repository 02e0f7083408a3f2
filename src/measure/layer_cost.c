/* Times one block of a trunk (models/trunk.h).
   SPDX-License-Identifier: Apache-2.0 */
#include "measure/layer_cost.h"

#include <math.h>
#include <string.h>

#include "base/clock.h"
#include "base/memory.h"
#include "base/random.h"
#include "kernels/product.h"
#include "models/stacks/trunk.h"

enum { LEAST_REPEATS = 3, MOST_REPEATS = 25 };

/* A layer and a pass over it. */
struct layer {
    struct params params;
    struct trunk trunk;
    struct trunk_plan plan;
    struct trunk_pass pass;
    uint64_t seed;
};

enum { PART_LAY, PART_FORWARD, PART_BACKWARD, PARTS };

/* x, and the gradient of the output rows; packed weights with the parameters after them; gradients. */
struct layer_blocks {
    void *x, *dy, *values, *gradients, *plans, *workspace, *times;
};

static void free_blocks(struct host *host, struct layer_blocks *blocks)
{
    void *const all[] = {blocks->x,     blocks->dy,        blocks->values, blocks->gradients,
                         blocks->plans, blocks->workspace, blocks->times};
    for (size_t i = 0; i < sizeof all / sizeof all[0]; i++)
        memory_free(host, all[i]);
}

/* As in a training, the parameters lie after their packed weights, and are not copied. */
static float *values_of(const struct layer *layer, const struct layer_blocks *blocks)
{
    return (float *)blocks->values + layer->params.packed_weights;
}

/* Plans the layer for these rows. */
static hashattn_status make_plan(struct host *host, struct layer *layer, const struct rows *rows,
                                 bool training, struct layer_blocks *blocks)
{
    size_t plans = trunk_num_plans(&layer->trunk), set_bytes = plan_set_bytes(plans, rows->num_sequences);
    size_t lists_bytes = size_product(layer->trunk.num_lists, sizeof(struct mix_plan));
    TRY(memory_new(host, size_sum(set_bytes, lists_bytes), 1, "plans", &blocks->plans));
    struct plan_set set = plan_set_on(blocks->plans, plans, rows->num_sequences);
    void *lists = (unsigned char *)blocks->plans + set_bytes;
    return trunk_plan_make(host, &layer->trunk, rows, NULL, training, &set, lists, &layer->plan);
}

static hashattn_status make_blocks(struct host *host, struct layer *layer, size_t repeats,
                                   struct layer_blocks *blocks)
{
    const struct trunk_plan *plan = &layer->plan;
    size_t floats = size_product(plan->rows.padded, layer->trunk.dim), total = layer->params.total;
    TRY(memory_new_zeroed(host, floats, sizeof(float), "rows of the layer", &blocks->x));
    if (plan->training)
        TRY(memory_new_zeroed(host, floats, sizeof(float), "rows of the layer", &blocks->dy));
    TRY(memory_new(host, size_sum(layer->params.packed_weights, total), sizeof(float),
                   "parameters and packed weights", &blocks->values));
    TRY(memory_new_zeroed(host, total, sizeof(float), "gradients", &blocks->gradients));
    TRY(memory_new(host, size_product(PARTS, repeats), sizeof(double), "times", &blocks->times));
    TRY(memory_new(host, plan->memory_bytes, 1, "workspace of the layer", &blocks->workspace));
    size_t used = plan->rows.count * layer->trunk.dim;
    random_normals(random_key(layer->seed, RANDOM_BENCH, 0), 0, blocks->x, used);
    if (plan->training)
        random_normals(random_key(layer->seed, RANDOM_BENCH, 1), 0, blocks->dy, used);
    params_start(&layer->params, layer->seed, values_of(layer, blocks));
    layer->pass =
        trunk_open(plan, (struct input_rows){.floats = blocks->x}, NULL, layer->seed, blocks->workspace);
    return HASHATTN_OK;
}

/* Packs the weights for products, as is done once per step or evaluation. Returns its seconds. */
static double run_lay(struct layer *layer, const struct layer_blocks *blocks)
{
    const struct rows *rows = &layer->plan.rows;
    double start = clock_seconds();
    profile_begin(rows->profile);
    layer->pass.values = params_pack(&layer->params, rows->kernels, rows->pool, values_of(layer, blocks),
                                     layer->plan.training, blocks->values);
    profile_lap(rows->profile, PROFILE_LAYING);
    return clock_seconds() - start;
}

/* One forward, in training preceded by packing, which belongs to each step, and one backward. */
static void run_layer(struct layer *layer, const struct layer_blocks *blocks, double seconds[PARTS])
{
    const struct trunk_pass *pass = &layer->pass;
    const struct rows *rows = &layer->plan.rows;
    if (layer->plan.training)
        seconds[PART_LAY] = run_lay(layer, blocks);
    double start = clock_seconds();
    profile_begin(rows->profile);
    trunk_forward(pass, NULL, 0);
    seconds[PART_FORWARD] = clock_seconds() - start;
    if (!layer->plan.training)
        return;
    seconds[PART_FORWARD] += seconds[PART_LAY];
    memcpy(trunk_gradient(pass), blocks->dy, rows->padded * layer->trunk.dim * sizeof(float));
    start = clock_seconds();
    profile_begin(rows->profile);
    trunk_backward(pass, blocks->gradients, NULL, 0);
    seconds[PART_BACKWARD] = clock_seconds() - start;
}

/* The product library by itself: every thread computes its share of the rows, in the shapes of the layer. */
struct library_job {
    enum precision precision;
    size_t rows, dim, wide, size; /* size: bytes of a thread's block */
    double *seconds;              /* per thread, for all products; infinite if the library refuses */
    char *blocks;
};

static void measure_library(void *argument, size_t index, int worker)
{
    (void)worker;
    const struct library_job *job = argument;
    const struct {
        size_t n, k, times;
    } shapes[] = {{job->dim, job->dim, 4}, {job->wide, job->dim, 1}, {job->dim, job->wide, 1}};
    job->seconds[index] = 0;
    for (size_t i = 0; i < sizeof shapes / sizeof shapes[0]; i++) {
        double rate = product_library_rate(job->precision, job->rows, shapes[i].n, shapes[i].k, 0.05,
                                           job->blocks + index * job->size);
        double operations = 2.0 * (double)job->rows * (double)shapes[i].n * (double)shapes[i].k;
        job->seconds[index] += (double)shapes[i].times * operations * 1e-9 / rate;
    }
}

static hashattn_status library_rate(struct host *host, const struct layer *layer, double *gflops)
{
    const struct trunk *block = &layer->trunk;
    const struct rows *rows = &layer->plan.rows;
    size_t threads = (size_t)pool_threads(rows->pool), share = (rows->count + threads - 1) / threads;
    size_t narrow = product_library_size(share, block->dim, block->dim),
           wide = product_library_size(share, block->wide, block->dim);
    struct library_job job = {.precision = layer->params.precision,
                              .rows = share,
                              .dim = block->dim,
                              .wide = block->wide,
                              .size = narrow > wide ? narrow : wide};
    void *blocks, *seconds;
    *gflops = 0;
    TRY(memory_new(host, size_product(threads, job.size), 1, "operands of the library's products", &blocks));
    hashattn_status status = memory_new(host, threads, sizeof(double), "times", &seconds);
    if (status == HASHATTN_OK) {
        job.blocks = blocks;
        job.seconds = seconds;
        pool_run(rows->pool, measure_library, &job, threads);
        for (size_t i = 0; i < threads; i++)
            *gflops += trunk_operations(block) * (double)share * 1e-9 / job.seconds[i];
        memory_free(host, seconds);
    }
    memory_free(host, blocks);
    return status;
}

static hashattn_status measure_layer(struct host *host, struct layer *layer, const struct rows *rows,
                                     bool training, size_t repeats, struct layer_cost *cost)
{
    struct layer_blocks blocks = {0};
    double seconds[PARTS] = {0};
    hashattn_status status;
    TRY_DONE(make_plan(host, layer, rows, training, &blocks));
    TRY_DONE(make_blocks(host, layer, repeats > 0 ? repeats : MOST_REPEATS, &blocks));
    double library;
    TRY_DONE(library_rate(host, layer, &library));
    run_lay(layer, &blocks); /* warm-up */
    seconds[PART_LAY] = run_lay(layer, &blocks);
    run_layer(layer, &blocks, seconds);
    if (repeats == 0) {
        double fit = 2 / (seconds[PART_FORWARD] + seconds[PART_BACKWARD]);
        repeats = fit < LEAST_REPEATS ? LEAST_REPEATS : fit > MOST_REPEATS ? MOST_REPEATS : (size_t)fit;
    }
    if (rows->profile != NULL)
        profile_clear(rows->profile);
    double *times[PARTS];
    for (int part = 0; part < PARTS; part++)
        times[part] = (double *)blocks.times + (size_t)part * repeats;
    for (size_t i = 0; i < repeats; i++) {
        run_layer(layer, &blocks, seconds);
        for (int part = 0; part < PARTS; part++)
            times[part][i] = seconds[part] * 1e3;
    }
    *cost = (struct layer_cost){
        .forward_ms = clock_median(times[PART_FORWARD], repeats),
        .backward_ms = training ? clock_median(times[PART_BACKWARD], repeats) : NAN,
        .lay_ms = clock_median(times[PART_LAY], repeats),
        .library_gflops = library,
        .product_operations = trunk_operations(&layer->trunk) * (double)rows->count,
        .repeats = repeats,
        .saved_bytes = layer->plan.saved_bytes,
        .workspace_bytes = layer->plan.memory_bytes,
    };
done:
    free_blocks(host, &blocks);
    return status;
}

hashattn_status layer_cost(struct host *host, const struct train_setup *setup,
                           const struct model_config *config, size_t seq_len, uint64_t seed, bool backward,
                           size_t repeats, struct layer_cost *cost)
{
    struct model_config own = *config; /* smallest vocabulary, no objectives */
    own.vocab_size = 2;
    own.row_width = own.num_segments = 0;
    own.num_objectives = 0;
    own.max_len = (int64_t)seq_len;
    TRY(model_config_check(host, &own));
    if (backward)
        TRY(head_plan_check_backward(host, &own.plan));
    const size_t offsets[] = {0, seq_len};
    const uint64_t sample = 0;
    struct layer layer = {.params.precision = (enum precision)own.precision, .seed = seed};
    struct rows rows = rows_of(setup->kernels, setup->pool, 1, offsets, &sample);
    rows.profile = setup->profile;
    if (!backward)
        rows_share(&rows);
    hashattn_status status;
    TRY_DONE(trunk_describe_layer(host, &layer.params, &own, &layer.trunk));
    TRY_DONE(measure_layer(host, &layer, &rows, backward, repeats, cost));
done:
    trunk_free(host, &layer.trunk);
    params_free(host, &layer.params);
    return status;
}
