/* Three passes forward and three back. Memory in training, floats per row: 6 dim + ffn, beside what
   attention saves, and 4 dim for gradients. SPDX-License-Identifier: Apache-2.0 */
#include "models/layer.h"

#include <string.h>

#include "base/memory.h"
#include "base/random.h"

hashattn_status layer_new(struct host *host, const struct encoder_config *config, struct layer *layer)
{
    struct head_group groups[HEAD_GROUPS];
    const struct block_shape shape = {
        .dim = (size_t)config->dim,
        .heads = (size_t)config->heads,
        .wide = (size_t)config->ffn,
        .taps = (size_t)config->conv_window,
        .norm = (enum block_norm)config->norm,
        .groups = groups,
        .num_groups = head_plan_groups(&config->plan, 0, (size_t)config->heads, groups),
        .causal = config->next_token,
    };
    memset(layer, 0, sizeof *layer);
    layer->dropout = dropout_of(config->dropout);
    layer->params.precision = (enum precision)config->precision;
    hashattn_status status = block_describe(host, &layer->params, "encoder.layer.0", &shape, &layer->block);
    if (status != HASHATTN_OK)
        layer_free(host, layer);
    return status;
}

void layer_free(struct host *host, struct layer *layer)
{
    params_free(host, &layer->params);
}

double layer_operations(const struct layer *layer)
{
    double dim = (double)layer->block.dim, wide = (double)layer->block.wide;
    return 2 * dim * (4 * dim + 2 * wide);
}

/* ---- the workspace ---- */

struct space {
    struct block_space block;
    struct attention_gradients d;
    float *tiles, *partials;
    size_t tile_floats;
};

/* Parameters before mixing and after it. */
struct range {
    size_t first, count;
};
static struct range range_of(const struct block *block, bool leave)
{
    return leave ? (struct range){block->leave, block->end - block->leave}
                 : (struct range){block->first, block->mix - block->first};
}

static struct space lay(const struct layer_pass *pass, size_t *bytes)
{
    const struct block *block = &pass->layer->block;
    const struct rows *rows = &pass->rows;
    struct arena arena = arena_on(pass->workspace);
    size_t narrow = size_product(rows->padded, block->dim), wide = size_product(rows->padded, block->wide);
    struct space s = {.tile_floats = block_scratch_size(block, pass->training)};
    struct attention_space *a = &s.block.attention;
    float **const arrays[] = {&a->query, &a->key, &a->value, &a->context, &s.block.middle};
    for (size_t i = 0; i < sizeof arrays / sizeof arrays[0]; i++)
        *arrays[i] = arena_take(&arena, narrow, sizeof(float));
    a->saved = arena_take(&arena, self_attention_saved_size(&block->attention, rows), 1);
    a->scratch = arena_take(&arena, self_attention_scratch_size(&block->attention, rows), 1);
    size_t threads = (size_t)pool_threads(rows->pool);
    s.tiles = arena_take(&arena, size_product(threads, s.tile_floats), sizeof(float));
    a->mixed = a->context;
    if (pass->training) {
        if (block->attention.convolution.taps > 0)
            a->mixed = arena_take(&arena, narrow, sizeof(float));
        s.block.before = arena_take(&arena, wide, sizeof(float));
        if (block->norm == BLOCK_POST_NORM)
            s.block.sum = arena_take(&arena, narrow, sizeof(float));
        float **const gradients[] = {&s.d.query, &s.d.key, &s.d.value, &s.d.mixed};
        for (size_t i = 0; i < 4; i++)
            *gradients[i] = arena_take(&arena, narrow, sizeof(float));
        size_t floats = 0;
        for (int leave = 0; leave < 2; leave++) {
            size_t count = range_of(block, leave != 0).count, sum = rows_chunks(rows->tiles, count) * count;
            floats = sum > floats ? sum : floats;
        }
        s.partials = arena_take(&arena, floats, sizeof(float));
    }
    *bytes = arena.used;
    return s;
}

size_t layer_workspace_size(const struct layer_pass *pass)
{
    struct layer_pass counting = *pass;
    size_t bytes;
    counting.workspace = NULL;
    lay(&counting, &bytes);
    return bytes;
}

size_t layer_saved_size(const struct layer_pass *pass)
{
    return self_attention_saved_size(&pass->layer->block.attention, &pass->rows);
}

/* ---- passes ---- */

struct run {
    const struct layer_pass *pass;
    const struct block *block;
    struct block_pass block_pass;
    struct space space;
    float *y, *stream;
    bool leave; /* the passes over tiles: after attention, or before it */
    size_t chunks;
};

static struct run open_run(const struct layer_pass *pass, float *x)
{
    size_t bytes;
    struct run run = {
        .pass = pass,
        .block = &pass->layer->block,
        .block_pass = {.rows = &pass->rows,
                       .values = pass->values,
                       .dropout = pass->training ? pass->layer->dropout : dropout_of(0),
                       .random_key = random_key(pass->random_key, RANDOM_LAYER, 0)},
        .space = lay(pass, &bytes),
    };
    run.space.block.x = x;
    return run;
}

static struct block_scratch scratch_of(const struct run *run, int worker)
{
    return block_scratch_on(run->block, run->pass->training,
                            run->space.tiles + (size_t)worker * run->space.tile_floats,
                            profile_watch(run->pass->rows.profile, worker));
}

static void forward_tile(void *argument, size_t tile, int worker)
{
    const struct run *run = argument;
    struct block_scratch scratch = scratch_of(run, worker);
    size_t first = tile * ROW_TILE;
    if (run->leave)
        block_leave(run->block, &run->block_pass, &run->space.block, &scratch, run->y, first);
    else
        block_enter(run->block, &run->block_pass, &run->space.block, &scratch, first);
}

void layer_forward(const struct layer_pass *pass, float *y, float *x)
{
    struct run run = open_run(pass, x);
    run.y = y;
    pool_run(pass->rows.pool, forward_tile, &run, pass->rows.tiles);
    profile_lap(pass->rows.profile, PROFILE_PRODUCTS);
    block_mix(run.block, &run.block_pass, &run.space.block);
    run.leave = true;
    pool_run(pass->rows.pool, forward_tile, &run, pass->rows.tiles);
    profile_lap(pass->rows.profile, PROFILE_PRODUCTS);
}

static void backward_chunk(void *argument, size_t chunk, int worker)
{
    const struct run *run = argument;
    struct range range = range_of(run->block, run->leave);
    struct block_scratch scratch = scratch_of(run, worker);
    struct slice gradients = {run->space.partials + chunk * range.count, range.first};
    memset(gradients.floats, 0, range.count * sizeof(float));
    watch_lap(scratch.watch, PROFILE_SUMS);
    size_t tile, end;
    for (rows_chunk(run->pass->rows.tiles, run->chunks, chunk, &tile, &end); tile < end; tile++)
        if (run->leave)
            block_leave_backward(run->block, &run->block_pass, &run->space.block, &scratch, gradients,
                                 run->stream, &run->space.d, tile * ROW_TILE);
        else
            block_enter_backward(run->block, &run->block_pass, &run->space.block, &scratch, gradients,
                                 run->stream, &run->space.d, tile * ROW_TILE);
}

static void backward_tiles(struct run *run, bool leave, float *gradients)
{
    const struct rows *rows = &run->pass->rows;
    struct range range = range_of(run->block, leave);
    run->leave = leave;
    run->chunks = rows_chunks(rows->tiles, range.count);
    pool_run(rows->pool, backward_chunk, run, run->chunks);
    profile_lap(rows->profile, PROFILE_PRODUCTS);
    rows_reduce(rows, gradients + range.first, run->space.partials, run->chunks, range.count);
    profile_lap(rows->profile, PROFILE_SUMS);
}

void layer_backward(const struct layer_pass *pass, float *stream, float *gradients, float *x)
{
    struct run run = open_run(pass, x);
    run.stream = stream;
    backward_tiles(&run, true, gradients);
    block_mix_backward(run.block, &run.block_pass, &run.space.block, (struct slice){gradients, 0},
                       &run.space.d);
    backward_tiles(&run, false, gradients);
}
