/* Profiles, and the measurements of a layer and of a step: real passes, repeated, and the median of their
   times. SPDX-License-Identifier: Apache-2.0 */
#include "hashattn/measure.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "api/setup.h"
#include "api/versions.h"
#include "base/clock.h"
#include "base/memory.h"
#include "base/random.h"
#include "kernels/product.h"
#include "models/layer.h"
#include "train/step.h"

enum { LEAST_REPEATS = 3, MOST_REPEATS = 25 };

/* ---- profiles ------------------------------------------------------------------------------------------ */

hashattn_status hashattn_profile_start(hashattn_context *context)
{
    if (context == NULL)
        return HASHATTN_INVALID;
    if (context->profile == NULL)
        return profile_new(&context->host, context->pool, &context->profile);
    profile_clear(context->profile);
    return HASHATTN_OK;
}

void hashattn_profile_stop(hashattn_context *context)
{
    if (context == NULL)
        return;
    profile_free(&context->host, context->profile);
    context->profile = NULL;
}

int hashattn_profile_get(const hashattn_context *context, size_t index, hashattn_profile_part *part)
{
    if (context == NULL || context->profile == NULL || index >= PROFILE_PARTS)
        return 0;
    const hashattn_profile_part own = {.name = profile_names[index],
                                       .wall_seconds = context->profile->wall[index],
                                       .thread_seconds = context->profile->thread[index]};
    version_give(part, &own, sizeof own);
    return 1;
}

/* ---- medians ------------------------------------------------------------------------------------------- */

static int compare(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* Sorts them. */
static double median(double *values, size_t count)
{
    qsort(values, count, sizeof *values, compare);
    return count % 2 == 1 ? values[count / 2] : 0.5 * (values[count / 2 - 1] + values[count / 2]);
}

/* ---- one layer ----------------------------------------------------------------------------------------- */

enum { PART_LAY, PART_FORWARD, PART_BACKWARD, PARTS };

/* x, y and the gradient of y, which backward turns into that of x; a copy of it; parameters and gradients. */
struct layer_blocks {
    void *x, *y, *stream, *dy, *values, *room, *gradients, *workspace, *times;
};

static void free_blocks(struct host *host, struct layer_blocks *blocks)
{
    void *const all[] = {blocks->x,    blocks->y,         blocks->stream,    blocks->dy,   blocks->values,
                         blocks->room, blocks->gradients, blocks->workspace, blocks->times};
    for (size_t i = 0; i < sizeof all / sizeof all[0]; i++)
        memory_free(host, all[i]);
}

static hashattn_status make_blocks(struct host *host, struct layer_pass *pass, size_t repeats,
                                   struct layer_blocks *blocks)
{
    size_t floats = size_product(pass->rows.padded, pass->layer->block.dim);
    size_t total = pass->layer->params.total;
    void **const rows[] = {&blocks->x, &blocks->y, &blocks->stream, &blocks->dy};
    for (size_t i = 0; i < (pass->training ? 4 : 2); i++) {
        TRY(memory_new_zeroed(host, floats, sizeof(float), "rows of the layer", rows[i]));
    }
    TRY(memory_new(host, total, sizeof(float), "parameters", &blocks->values));
    TRY(memory_new(host, params_room(&pass->layer->params), sizeof(float), "weights laid for products",
                   &blocks->room));
    TRY(memory_new_zeroed(host, total, sizeof(float), "gradients", &blocks->gradients));
    TRY(memory_new(host, size_product(PARTS, repeats), sizeof(double), "times", &blocks->times));
    TRY(memory_new(host, layer_workspace_size(pass), 1, "workspace of the layer", &blocks->workspace));
    size_t used = pass->rows.count * pass->layer->block.dim;
    random_normals(random_key(pass->random_key, RANDOM_BENCH, 0), 0, blocks->x, used);
    if (pass->training)
        random_normals(random_key(pass->random_key, RANDOM_BENCH, 1), 0, blocks->dy, used);
    params_start(&pass->layer->params, pass->random_key, blocks->values);
    pass->workspace = blocks->workspace;
    return HASHATTN_OK;
}

/* Lays the weights, as is done once per step or evaluation; its seconds. */
static double run_lay(struct layer_pass *pass, const struct layer_blocks *blocks)
{
    double start = clock_seconds();
    profile_begin(pass->rows.profile);
    pass->values = params_lay(&pass->layer->params, pass->rows.kernels, pass->rows.pool, blocks->values,
                              pass->training, blocks->room);
    profile_lap(pass->rows.profile, PROFILE_LAYING);
    return clock_seconds() - start;
}

/* One forward; in training with laying before it, which belongs to each step, and one backward. */
static void run_layer(struct layer_pass *pass, const struct layer_blocks *blocks, double seconds[PARTS])
{
    if (pass->training)
        seconds[PART_LAY] = run_lay(pass, blocks);
    double start = clock_seconds();
    profile_begin(pass->rows.profile);
    layer_forward(pass, blocks->y, blocks->x);
    seconds[PART_FORWARD] = clock_seconds() - start;
    if (!pass->training)
        return;
    seconds[PART_FORWARD] += seconds[PART_LAY];
    memcpy(blocks->stream, blocks->dy, pass->rows.padded * pass->layer->block.dim * sizeof(float));
    start = clock_seconds();
    profile_begin(pass->rows.profile);
    layer_backward(pass, blocks->stream, blocks->gradients, blocks->x);
    seconds[PART_BACKWARD] = clock_seconds() - start;
}

/* The library alone: every thread its share of the rows, by the shapes of the layer. */
struct library_job {
    enum precision precision;
    size_t rows, dim, wide, size; /* size: bytes of a thread's block */
    double *seconds;              /* of each thread, for all products; infinite where the library refuses */
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

static hashattn_status library_rate(struct host *host, const struct layer_pass *pass, double *gflops)
{
    const struct block *block = &pass->layer->block;
    size_t threads = (size_t)pool_threads(pass->rows.pool),
           share = (pass->rows.count + threads - 1) / threads;
    size_t narrow = product_library_size(share, block->dim, block->dim),
           wide = product_library_size(share, block->wide, block->dim);
    struct library_job job = {.precision = pass->layer->params.precision,
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
        if (job.size > 0)
            pool_run(pass->rows.pool, measure_library, &job, threads);
        for (size_t i = 0; i < threads && job.size > 0; i++)
            *gflops += layer_operations(pass->layer) * (double)share * 1e-9 / job.seconds[i];
        memory_free(host, seconds);
    }
    memory_free(host, blocks);
    return status;
}

static hashattn_status measure_layer(struct host *host, struct layer_pass *pass, size_t repeats,
                                     hashattn_layer_cost *cost)
{
    struct layer_blocks blocks = {0};
    double seconds[PARTS] = {0};
    hashattn_status status;
    TRY_DONE(make_blocks(host, pass, repeats > 0 ? repeats : MOST_REPEATS, &blocks));
    double library;
    TRY_DONE(library_rate(host, pass, &library));
    run_lay(pass, &blocks); /* warms up */
    seconds[PART_LAY] = run_lay(pass, &blocks);
    run_layer(pass, &blocks, seconds);
    if (repeats == 0) {
        double fit = 2 / (seconds[PART_FORWARD] + seconds[PART_BACKWARD]);
        repeats = fit < LEAST_REPEATS ? LEAST_REPEATS : fit > MOST_REPEATS ? MOST_REPEATS : (size_t)fit;
    }
    if (pass->rows.profile != NULL)
        profile_clear(pass->rows.profile);
    double *times[PARTS];
    for (int part = 0; part < PARTS; part++)
        times[part] = (double *)blocks.times + (size_t)part * repeats;
    for (size_t i = 0; i < repeats; i++) {
        run_layer(pass, &blocks, seconds);
        for (int part = 0; part < PARTS; part++)
            times[part][i] = seconds[part] * 1e3;
    }
    *cost = (hashattn_layer_cost){
        .forward_ms = median(times[PART_FORWARD], repeats),
        .backward_ms = pass->training ? median(times[PART_BACKWARD], repeats) : NAN,
        .lay_ms = median(times[PART_LAY], repeats),
        .library_gflops = library,
        .product_operations = layer_operations(pass->layer) * (double)pass->rows.count,
        .repeats = repeats,
        .saved_bytes = layer_saved_size(pass),
        .workspace_bytes = layer_workspace_size(pass),
    };
done:
    free_blocks(host, &blocks);
    return status;
}

hashattn_status hashattn_measure_layer(hashattn_setup *setup, size_t seq_len, int backward, size_t repeats,
                                       hashattn_layer_cost *cost)
{
    if (setup == NULL)
        return HASHATTN_INVALID;
    struct hashattn_context *context = setup->context;
    struct host *host = &context->host;
    FAIL_IF(cost == NULL, host, HASHATTN_INVALID, "cost is NULL");
    FAIL_IF(seq_len < 1 || seq_len > (size_t)1 << 31, host, HASHATTN_INVALID,
            "seq_len is %zu, allowed are 1 to 2147483648", seq_len);
    FAIL_IF(repeats > 1000000, host, HASHATTN_INVALID, "repeats is %zu, allowed are 0 to 1000000", repeats);
    struct encoder_config model = setup->config.model; /* with the least of what a layer does not have */
    model.vocab_size = 2;
    model.num_classes = 1;
    model.max_len = (int64_t)seq_len;
    struct encoder *checked;
    TRY(encoder_new(host, &model, &checked));
    encoder_free(host, checked);
    struct layer layer;
    TRY(layer_new(host, &model, &layer));
    const size_t offsets[] = {0, seq_len};
    const uint64_t sample = 0;
    struct layer_pass pass = {.layer = &layer,
                              .rows = rows_of(context->kernels, context->pool, 1, offsets, &sample),
                              .random_key = (uint64_t)setup->config.training.seed,
                              .training = backward != 0};
    pass.rows.profile = context->profile;
    hashattn_layer_cost own;
    hashattn_status status = measure_layer(host, &pass, repeats, &own);
    layer_free(host, &layer);
    if (status == HASHATTN_OK)
        version_give(cost, &own, sizeof own);
    return status;
}

/* ---- one step ------------------------------------------------------------------------------------------ */

static hashattn_status measure_steps(struct stepper *stepper, size_t steps, double *times,
                                     hashattn_step_cost *cost)
{
    struct metrics metrics = {0};
    struct step_outcome outcome;
    double total = 0;
    for (size_t i = 0; i < dataset_sequences(&stepper->train); i++) {
        size_t length = dataset_length(&stepper->train, i);
        cost->longest = length > cost->longest ? length : cost->longest;
    }
    params_start(stepper->params, (uint64_t)stepper->options->seed, stepper->values);
    TRY(stepper_run(stepper, 0, &metrics, &outcome));
    if (stepper->setup->profile != NULL)
        profile_clear(stepper->setup->profile);
    for (size_t i = 0; i < steps; i++) {
        double start = clock_seconds();
        TRY(stepper_run(stepper, (int64_t)i, &metrics, &outcome));
        times[i] = (clock_seconds() - start) * 1e3;
        total += times[i];
        cost->tokens += outcome.tokens;
        cost->saved_bytes = outcome.saved_bytes > cost->saved_bytes ? outcome.saved_bytes : cost->saved_bytes;
    }
    cost->steps = steps;
    cost->sequences = steps * (size_t)(stepper->options->batch * stepper->options->accumulate) *
                      (stepper->train.pairs ? 2 : 1);
    cost->loss = outcome.loss;
    cost->workspace_bytes = stepper->workspace.size;
    cost->tokens_per_second = (double)cost->tokens / total * 1e3;
    cost->step_ms = median(times, steps);
    return HASHATTN_OK;
}

hashattn_status hashattn_measure_step(hashattn_setup *setup, const char *data, size_t steps,
                                      hashattn_step_cost *cost)
{
    if (setup == NULL)
        return HASHATTN_INVALID;
    struct host *host = &setup->context->host;
    const struct train_options *options = &setup->config.training;
    FAIL_IF(data == NULL || cost == NULL, host, HASHATTN_INVALID, "%s is NULL",
            data == NULL ? "data" : "cost");
    FAIL_IF(steps < 1 || steps > (size_t)options->steps, host, HASHATTN_INVALID,
            "steps is %zu, allowed are 1 to the %lld of the training", steps, (long long)options->steps);
    TRY(setup_take_data(setup, data));
    const struct train_setup down = {
        .kernels = setup->context->kernels, .pool = setup->context->pool, .profile = setup->context->profile};
    struct stepper stepper;
    hashattn_step_cost own = {0};
    void *times = NULL;
    hashattn_status status;
    TRY_DONE(stepper_open(host, &down, &setup->config, &stepper));
    TRY_DONE(memory_new(host, steps, sizeof(double), "times", &times));
    TRY_DONE(measure_steps(&stepper, steps, times, &own));
    version_give(cost, &own, sizeof own);
done:
    memory_free(host, times);
    stepper_close(&stepper);
    return status;
}
