/* Backward: the stages of decoder_stack.c in reverse.
   SPDX-License-Identifier: Apache-2.0 */
#include <assert.h>
#include <string.h>

#include "models/stacks/decoder_stack_parts.h"

/* y = LN(x): stream, the gradient of y, becomes that of x. */
static void norm_back(const struct decoder_run *run, const struct block_scratch *scratch,
                      const struct norm *norm, struct slice gradients, float *stream, const float *x)
{
    float *normed = scratch->narrow[1], *dnormed = scratch->narrow[2];
    size_t bytes = ROW_TILE * run->dim * sizeof *stream;
    norm_forward(norm, run->rows.kernels, run->pass->values, normed, scratch->statistics, x, ROW_TILE);
    memcpy(dnormed, stream, bytes);
    memset(stream, 0, bytes);
    norm_backward(norm, run->rows.kernels, run->pass->values, gradients, stream, dnormed, x,
                  scratch->statistics, ROW_TILE);
    watch_lap(scratch->watch, PROFILE_NORM);
}

/* Backward of join_tile: the stream, the gradient of `after`, becomes that of x; writes dmixed. */
static void join_back(const struct decoder_run *run, const struct block_scratch *scratch,
                      enum decoder_site site, const struct dense *output, const struct norm *norm,
                      struct slice gradients, const float *before, const float *mixed, float *dmixed,
                      size_t first)
{
    size_t at = first * run->dim;
    float *stream = run->space.dstream + at, *dbranch = scratch->narrow[0];
    norm_back(run, scratch, norm, gradients, stream, before + at);
    dropout_rows(&run->dropout, decoder_site_key(run, site), &run->rows, dbranch, stream, first, ROW_TILE,
                 run->dim);
    watch_lap(scratch->watch, PROFILE_DROPOUT);
    dense_backward(output, run->rows.kernels, run->pass->values, gradients, dmixed + at, false, dbranch,
                   mixed + at, ROW_TILE);
    watch_lap(scratch->watch, PROFILE_PRODUCTS);
}

static void last_back(const struct decoder_run *run, const struct block_scratch *scratch,
                      struct slice gradients, size_t first)
{
    size_t at = first * run->dim;
    norm_back(run, scratch, &run->decoder->norm, gradients, run->space.dstream + at, run->space.last + at);
}

static void leave_back(const struct decoder_run *run, const struct block_scratch *scratch,
                       struct slice gradients, size_t first)
{
    const struct decoder_layer s = decoder_run_space(run, run->layer);
    const struct decoder_block *block = decoder_run_block(run);
    const struct dropout none = dropout_of(0);
    size_t at = first * run->dim;
    float *stream = run->space.dstream + at, *dbranch = scratch->narrow[0], *dasked = scratch->narrow[1];
    norm_back(run, scratch, &block->ffn_norm, gradients, stream, s.sum + at);
    dropout_rows(&run->dropout, decoder_site_key(run, SITE_FFN), &run->rows, dbranch, stream, first, ROW_TILE,
                 run->dim);
    watch_lap(scratch->watch, PROFILE_DROPOUT);
    ffn_backward(&block->ffn, &run->rows, run->pass->values, gradients, &none, 0, dasked, scratch->wide,
                 scratch->slope, dbranch, s.before + first * run->decoder->trunk->wide, s.asked + at, first,
                 ROW_TILE, scratch->watch);
    run->rows.kernels->rows.axpy(stream, 1, dasked, ROW_TILE * run->dim);
    join_back(run, scratch, SITE_CROSS, &block->cross.output, &block->cross_norm, gradients, s.joined,
              s.cross.mixed, run->space.cross.mixed, first);
    memset(run->space.cross.query + at, 0, ROW_TILE * run->dim * sizeof(float));
}

static void keys_back(const struct decoder_run *run, const struct block_scratch *scratch,
                      struct slice gradients, size_t first)
{
    const struct decoder_block *block = decoder_run_block(run);
    size_t at = first * run->dim;
    const float *encoded = run->pass->encoded + at;
    (void)scratch;
    dense_backward(&block->cross.key, run->rows.kernels, run->pass->values, gradients, run->dencoded + at,
                   true, run->space.cross.key + at, encoded, ROW_TILE);
    dense_backward(&block->cross.value, run->rows.kernels, run->pass->values, gradients, run->dencoded + at,
                   true, run->space.cross.value + at, encoded, ROW_TILE);
}

static void meet_back(const struct decoder_run *run, const struct block_scratch *scratch,
                      struct slice gradients, size_t first)
{
    const struct decoder_layer s = decoder_run_space(run, run->layer);
    const struct decoder_block *block = decoder_run_block(run);
    size_t at = first * run->dim, bytes = ROW_TILE * run->dim * sizeof(float);
    dense_backward(&block->cross.query, run->rows.kernels, run->pass->values, gradients,
                   run->space.dstream + at, true, run->space.cross.query + at, s.met + at, ROW_TILE);
    join_back(run, scratch, SITE_OWN, &block->own.output, &block->own_norm, gradients, s.middle, s.own.mixed,
              run->space.own.mixed, first);
    memset(run->space.own.query + at, 0, bytes);
    memset(run->space.own.key + at, 0, bytes);
    memset(run->space.own.value + at, 0, bytes);
}

static void enter_back(const struct decoder_run *run, const struct block_scratch *scratch,
                       struct slice gradients, size_t first)
{
    const struct decoder_layer s = decoder_run_space(run, run->layer);
    size_t at = first * run->dim;
    float *dx = scratch->narrow[0];
    self_attention_enter_backward(&decoder_run_block(run)->own, run->rows.kernels, run->pass->values,
                                  gradients, dx, run->space.own.query + at, run->space.own.key + at,
                                  run->space.own.value + at, s.x + at, ROW_TILE);
    run->rows.kernels->rows.axpy(run->space.dstream + at, 1, dx, ROW_TILE * run->dim);
}

static void input_back(const struct decoder_run *run, const struct block_scratch *scratch,
                       struct slice gradients, size_t first)
{
    const struct input_rows given = decoder_run_input(run);
    float *stream = run->space.dstream + first * run->dim;
    (void)scratch;
    decoder_drop_input(run, stream, first);
    input_backward_tile(&run->decoder->input, &run->rows, run->pass->values, gradients, stream, &given, first,
                        ROW_TILE);
}

/* A chunk of tiles, in order, into a partial gradient of its own. */
static void chunk_back(void *argument, size_t chunk, int worker)
{
    const struct decoder_run *run = argument;
    struct block_scratch scratch = decoder_run_scratch(run, worker);
    struct slice gradients = {run->space.partials + chunk * run->count, run->first};
    memset(gradients.floats, 0, run->count * sizeof(float));
    size_t tile, end;
    for (rows_chunk(run->over->tiles, run->chunks, chunk, &tile, &end); tile < end; tile++)
        run->tile(run, &scratch, gradients, tile * ROW_TILE);
    watch_lap(scratch.watch, PROFILE_PRODUCTS);
}

/* One stage, whose parameters are floats [first, end) of the block. */
static void stage_back(struct decoder_run *run, const struct rows *over, size_t first, size_t end,
                       void (*tile)(const struct decoder_run *, const struct block_scratch *, struct slice,
                                    size_t),
                       float *gradients)
{
    run->tile = tile;
    run->over = over;
    run->first = first;
    run->count = end - first;
    run->chunks = rows_chunks(over->tiles, run->count);
    pool_run(over->pool, chunk_back, run, run->chunks);
    rows_reduce(over, gradients + first, run->space.partials, run->chunks, run->count);
    profile_lap(run->rows.profile, PROFILE_SUMS);
}

static void layer_back(struct decoder_run *run, float *gradients, const struct own_loss *own, size_t num_own)
{
    const struct decoder_pass *pass = run->pass;
    const struct decoder_block *b = decoder_run_block(run);
    const struct decoder_layer s = decoder_run_space(run, run->layer);
    const struct decoder_space *space = &run->space;
    const struct slice whole = {gradients, 0};
    stage_back(run, &run->rows, b->leave, b->end, leave_back, gradients);
    memset(space->cross.key, 0, space->encoded * sizeof(float));
    memset(space->cross.value, 0, space->encoded * sizeof(float));
    self_attention_mix_backward(&b->cross, &run->cross, pass->values, whole, &s.cross, &space->cross,
                                decoder_mix_key(run, SITE_CROSS));
    stage_back(run, &pass->plan->encoder, b->keys, b->cross_mix, keys_back, gradients);
    stage_back(run, &run->rows, b->meet, b->keys, meet_back, gradients);
    self_attention_mix_backward(&b->own, &run->rows, pass->values, whole, &s.own, &space->own,
                                decoder_mix_key(run, SITE_OWN));
    for (size_t i = 0; i < num_own; i++)
        decoder_own_loss(run, own[i].mechanism, whole, own[i].weight);
    stage_back(run, &run->rows, b->enter, b->own_mix, enter_back, gradients);
}

void decoder_backward(const struct decoder_pass *pass, float *gradients, float *dencoded,
                      const struct own_loss *own, size_t num_own)
{
    assert(pass->plan->training);
    struct decoder_run run = decoder_run_open(pass);
    const struct decoder *decoder = run.decoder;
    const struct input_rows given = decoder_run_input(&run);
    run.dencoded = dencoded;
    memset(dencoded, 0, run.space.encoded * sizeof *dencoded);
    stage_back(&run, &run.rows, decoder->norm.gain, decoder->end, last_back, gradients);
    for (run.layer = decoder->layers; run.layer-- > 0;)
        layer_back(&run, gradients, own, num_own);
    run.layer = 0;
    stage_back(&run, &run.rows, decoder->input.first, decoder->input.end, input_back, gradients);
    input_backward(&decoder->input, &run.rows, pass->values, (struct slice){gradients, 0}, run.space.dstream,
                   &given);
    profile_lap(run.rows.profile, PROFILE_EMBEDDING);
}
