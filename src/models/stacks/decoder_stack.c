/* Forward. Stages of tiles alternate with mixings of the whole batch, as in trunk.c; a stage is one function
   here, and runs by itself.
   SPDX-License-Identifier: Apache-2.0 */
#include "models/stacks/decoder_stack.h"

#include <assert.h>

#include "models/stacks/decoder_stack_parts.h"

/* The input of the layer after this one, or of the last norm. */
static float *next_of(const struct decoder_run *run)
{
    return run->layer + 1 < run->decoder->layers ? decoder_run_space(run, run->layer + 1).x : run->space.last;
}

static void enter_tile(void *argument, size_t tile, int worker)
{
    const struct decoder_run *run = argument;
    const struct decoder_layer s = decoder_run_space(run, run->layer);
    const struct decoder_block *block = decoder_run_block(run);
    struct block_scratch scratch = decoder_run_scratch(run, worker);
    size_t first = tile * ROW_TILE, at = first * run->dim;
    if (run->layer == 0) {
        const struct input_rows given = decoder_run_input(run);
        input_forward(&run->decoder->input, &run->rows, run->pass->values, s.x + at, &given, first, ROW_TILE);
        watch_lap(scratch.watch, PROFILE_EMBEDDING);
        decoder_drop_input(run, s.x + at, first);
        watch_lap(scratch.watch, PROFILE_DROPOUT);
    }
    self_attention_enter(&block->own, run->rows.kernels, run->pass->values, s.own.query + at, s.own.key + at,
                         s.own.value + at, s.x + at, ROW_TILE, scratch.halves);
    watch_lap(scratch.watch, PROFILE_PRODUCTS);
}

/* after = LN(before), before = x + drop(output(mixed)): the residual around one of the two attentions. */
static void join_tile(const struct decoder_run *run, const struct block_scratch *scratch,
                      enum decoder_site site, const struct dense *output, const struct norm *norm,
                      float *before, float *after, const float *x, const float *mixed, size_t first)
{
    size_t at = first * run->dim;
    float *branch = scratch->narrow[0];
    dense_forward(output, run->rows.kernels, run->pass->values, branch, mixed + at, ROW_TILE);
    watch_lap(scratch->watch, PROFILE_PRODUCTS);
    dropout_add_rows(&run->dropout, decoder_site_key(run, site), &run->rows, before + at, x + at, branch,
                     first, ROW_TILE, run->dim);
    watch_lap(scratch->watch, PROFILE_DROPOUT);
    norm_forward(norm, run->rows.kernels, run->pass->values, after + at, scratch->statistics, before + at,
                 ROW_TILE);
    watch_lap(scratch->watch, PROFILE_NORM);
}

static void meet_tile(void *argument, size_t tile, int worker)
{
    const struct decoder_run *run = argument;
    const struct decoder_layer s = decoder_run_space(run, run->layer);
    const struct decoder_block *block = decoder_run_block(run);
    struct block_scratch scratch = decoder_run_scratch(run, worker);
    size_t first = tile * ROW_TILE, at = first * run->dim;
    join_tile(run, &scratch, SITE_OWN, &block->own.output, &block->own_norm, s.middle, s.met, s.x,
              s.own.mixed, first);
    dense_forward(&block->cross.query, run->rows.kernels, run->pass->values, s.cross.query + at, s.met + at,
                  ROW_TILE);
    watch_lap(scratch.watch, PROFILE_PRODUCTS);
}

/* A tile of the encoder's rows. */
static void keys_tile(void *argument, size_t tile, int worker)
{
    const struct decoder_run *run = argument;
    const struct decoder_layer s = decoder_run_space(run, run->layer);
    const struct decoder_block *block = decoder_run_block(run);
    struct block_scratch scratch = decoder_run_scratch(run, worker);
    size_t at = tile * ROW_TILE * run->dim;
    dense_forward(&block->cross.key, run->rows.kernels, run->pass->values, s.cross.key + at,
                  run->pass->encoded + at, ROW_TILE);
    dense_forward(&block->cross.value, run->rows.kernels, run->pass->values, s.cross.value + at,
                  run->pass->encoded + at, ROW_TILE);
    watch_lap(scratch.watch, PROFILE_PRODUCTS);
}

static void leave_tile(void *argument, size_t tile, int worker)
{
    const struct decoder_run *run = argument;
    const struct decoder_layer s = decoder_run_space(run, run->layer);
    const struct decoder_block *block = decoder_run_block(run);
    struct block_scratch scratch = decoder_run_scratch(run, worker);
    const struct dropout none = dropout_of(0);
    size_t first = tile * ROW_TILE, at = first * run->dim;
    float *branch = scratch.narrow[0], *before = s.before + first * run->decoder->trunk->wide;
    join_tile(run, &scratch, SITE_CROSS, &block->cross.output, &block->cross_norm, s.joined, s.asked, s.met,
              s.cross.mixed, first);
    ffn_forward(&block->ffn, &run->rows, run->pass->values, &none, 0, branch, before, scratch.wide,
                s.asked + at, first, ROW_TILE, scratch.halves, scratch.watch);
    dropout_add_rows(&run->dropout, decoder_site_key(run, SITE_FFN), &run->rows, s.sum + at, s.asked + at,
                     branch, first, ROW_TILE, run->dim);
    watch_lap(scratch.watch, PROFILE_DROPOUT);
    norm_forward(&block->ffn_norm, run->rows.kernels, run->pass->values, next_of(run) + at,
                 scratch.statistics, s.sum + at, ROW_TILE);
    watch_lap(scratch.watch, PROFILE_NORM);
}

static void last_tile(void *argument, size_t tile, int worker)
{
    const struct decoder_run *run = argument;
    struct block_scratch scratch = decoder_run_scratch(run, worker);
    size_t at = tile * ROW_TILE * run->dim;
    norm_forward(&run->decoder->norm, run->rows.kernels, run->pass->values, run->space.normed + at,
                 scratch.statistics, run->space.last + at, ROW_TILE);
    watch_lap(scratch.watch, PROFILE_NORM);
}

const float *decoder_forward(const struct decoder_pass *pass, struct own_loss *own, size_t num_own)
{
    struct decoder_run run = decoder_run_open(pass);
    struct pool *pool = pass->plan->rows.pool;
    assert(pass->plan->rows.num_sequences == pass->plan->encoder.num_sequences);
    for (; run.layer < run.decoder->layers; run.layer++) {
        const struct decoder_block *block = decoder_run_block(&run);
        const struct decoder_layer s = decoder_run_space(&run, run.layer);
        run.rows.layer = block->list;
        run.cross.layer = block->list + 1;
        pool_run(pool, enter_tile, &run, run.rows.tiles);
        self_attention_mix(&block->own, &run.rows, pass->values, &s.own, decoder_mix_key(&run, SITE_OWN));
        pool_run(pool, meet_tile, &run, run.rows.tiles);
        pool_run(pool, keys_tile, &run, pass->plan->encoder.tiles);
        self_attention_mix(&block->cross, &run.cross, pass->values, &s.cross,
                           decoder_mix_key(&run, SITE_CROSS));
        for (size_t i = 0; pass->plan->training && i < num_own; i++)
            own[i].sum += decoder_own_loss(&run, own[i].mechanism, (struct slice){NULL, 0}, 0);
        pool_run(pool, leave_tile, &run, run.rows.tiles);
    }
    pool_run(pool, last_tile, &run, run.rows.tiles);
    profile_lap(run.rows.profile, PROFILE_PRODUCTS);
    return run.space.normed;
}
