/* Runs the trunk. Forward alternates between stages, which work on tiles of rows, and mixings of the whole
   batch; backward passes through the same in reverse. A tile goes from the end of one block to the beginning
   of the next while it is in cache.
   SPDX-License-Identifier: Apache-2.0 */
#include <assert.h>
#include <string.h>

#include "base/random.h"
#include "models/stacks/trunk_parts.h"

struct trunk_pass trunk_open(const struct trunk_plan *plan, struct input_rows input, const float *values,
                             uint64_t random_key, void *memory)
{
    size_t bytes;
    struct trunk_pass pass = {.plan = plan,
                              .input = input,
                              .values = values,
                              .random_key = random_key,
                              .space = trunk_space_on(plan, memory, &bytes)};
    if (plan->trunk->input.kind == INPUT_GIVEN)
        pass.space.given = (float *)(uintptr_t)input.floats; /* only read */
    return pass;
}

float *trunk_gradient(const struct trunk_pass *pass)
{
    assert(pass->plan->training);
    return pass->space.dstream;
}

/* ---- a pass ------------------------------------------------------------------------------------------- */

/* One forward or backward pass; the argument of every unit of work. */
struct run {
    const struct trunk_pass *pass;
    const struct trunk *trunk;
    struct rows rows, cross;
    struct dropout dropout;
    size_t stage;
    /* In backward: the parts of the stage that are summed now, the rows that these parts are of, and the
       chunks of those. */
    unsigned parts;
    const struct rows *over;
    size_t chunks;
};

static struct run open_run(const struct trunk_pass *pass)
{
    const struct trunk_plan *plan = pass->plan;
    const struct trunk *trunk = plan->trunk;
    assert(!plan->training || (trunk->dropout.threshold == 0 && trunk->attention_dropout.threshold == 0) ||
           plan->rows.sample_ids != NULL);
    return (struct run){.pass = pass,
                        .trunk = trunk,
                        .rows = plan->rows,
                        .cross = plan->cross,
                        .dropout = plan->training ? trunk->dropout : dropout_of(0)};
}

static struct block_pass block_pass_of(const struct run *run, size_t layer)
{
    return (struct block_pass){
        .rows = &run->rows,
        .values = run->pass->values,
        .dropout = run->dropout,
        .random_key = random_key(run->pass->random_key, RANDOM_LAYER, run->trunk->first_layer + layer),
        .sinusoids = run->trunk->input.embed.sinusoids,
        .cross_rows = &run->cross,
        .encoded_rows = &run->pass->plan->encoded,
        .encoded = run->pass->encoded,
        .dencoded = run->pass->dencoded,
    };
}

/* A block and what its functions take. */
struct place {
    const struct block *block;
    struct block_pass pass;
    struct block_space space;
};

static struct place place_of(const struct run *run, size_t layer)
{
    return (struct place){&run->trunk->blocks[layer], block_pass_of(run, layer),
                          trunk_block_space(run->pass, layer)};
}

static struct block_scratch scratch_of(const struct run *run, int worker)
{
    return block_scratch_on(&run->trunk->blocks[0], run->pass->plan->training,
                            run->pass->space.tiles + (size_t)worker * run->pass->space.tile_floats,
                            profile_watch(run->rows.profile, worker));
}

/* ---- forward ------------------------------------------------------------------------------------------ */

/* Applies the dropout of the input to a tile of rows or gradients. Its key is a sibling of the layers'
   keys. */
static void drop_input(const struct run *run, const struct block_scratch *scratch, float *tile, size_t first)
{
    uint64_t key = random_key(run->pass->random_key, RANDOM_DROPOUT, run->trunk->crosses ? 1 : 0);
    dropout_rows(&run->dropout, key, &run->rows, tile, tile, first, rows_of_tile(&run->rows, first),
                 run->trunk->dim);
    watch_lap(scratch->watch, PROFILE_DROPOUT);
}

static void enter_tile(const struct run *run, const struct block_scratch *scratch, size_t first)
{
    const struct trunk *trunk = run->trunk;
    size_t n = rows_of_tile(&run->rows, first);
    float *tile = trunk_stream(run->pass, 0) + first * trunk->dim;
    if (trunk->input.kind == INPUT_GIVEN)
        return;
    input_forward(&trunk->input, &run->rows, run->pass->values, tile, &run->pass->input, first, n);
    watch_lap(scratch->watch, PROFILE_EMBEDDING);
    if (!trunk->norm_last) {
        float *words = scratch->narrow[0];
        memcpy(words, tile, n * trunk->dim * sizeof *words);
        norm_forward(&trunk->norm, run->rows.kernels, run->pass->values, tile, scratch->statistics, words, n);
        watch_lap(scratch->watch, PROFILE_NORM);
    }
    drop_input(run, scratch, tile, first);
}

static void last_norm_tile(const struct run *run, const struct block_scratch *scratch, size_t first)
{
    const struct trunk *trunk = run->trunk;
    size_t at = first * trunk->dim;
    if (!trunk_has_last_norm(trunk))
        return;
    norm_forward(&trunk->norm, run->rows.kernels, run->pass->values, run->pass->space.normed + at,
                 scratch->statistics, trunk_stream(run->pass, trunk->layers) + at,
                 rows_of_tile(&run->rows, first));
    watch_lap(scratch->watch, PROFILE_NORM);
}

/* A stage between the two attentions of a block. */
static bool is_inside(const struct run *run)
{
    return run->trunk->crosses && run->stage % 2 == 1;
}

/* The block that begins after the current stage, or in which it is; the number of layers: none. */
static size_t layer_of(const struct run *run)
{
    return run->trunk->crosses ? run->stage / 2 : run->stage;
}

static void forward_tile(void *argument, size_t tile, int worker)
{
    const struct run *run = argument;
    struct block_scratch scratch = scratch_of(run, worker);
    size_t first = tile * run->rows.tile_rows, layer = layer_of(run);
    if (is_inside(run)) {
        struct place p = place_of(run, layer);
        block_cross_enter(p.block, &p.pass, &p.space, &scratch, first);
        return;
    }
    if (layer == 0) {
        enter_tile(run, &scratch, first);
    } else {
        struct place p = place_of(run, layer - 1);
        block_leave(p.block, &p.pass, &p.space, &scratch, trunk_stream(run->pass, layer), first);
    }
    if (layer < run->trunk->layers) {
        struct place p = place_of(run, layer);
        block_enter(p.block, &p.pass, &p.space, &scratch, first);
    } else {
        last_norm_tile(run, &scratch, first);
    }
}

/* A tile of the encoder's rows. */
static void keys_tile(void *argument, size_t tile, int worker)
{
    const struct run *run = argument;
    struct block_scratch scratch = scratch_of(run, worker);
    struct place p = place_of(run, layer_of(run));
    block_cross_keys(p.block, &p.pass, &p.space, &scratch, tile * p.pass.encoded_rows->tile_rows);
}

/* The mixing after the current stage. */
static void mix(struct run *run, struct own_loss *own, size_t num_own)
{
    const struct trunk_plan *plan = run->pass->plan;
    struct place p = place_of(run, layer_of(run));
    run->rows.layer = run->cross.layer = run->trunk->first_layer + run->stage;
    if (is_inside(run)) {
        pool_run(run->rows.pool, keys_tile, run, plan->encoded.tiles);
        block_cross_mix(p.block, &p.pass, &p.space);
    } else {
        block_mix(p.block, &p.pass, &p.space);
    }
    if (run->trunk->crosses && !is_inside(run))
        return; /* the own losses follow the last mixing of a block */
    for (size_t i = 0; plan->training && i < num_own; i++)
        own[i].sum +=
            block_auxiliary(p.block, &p.pass, &p.space, own[i].mechanism, (struct slice){NULL, 0}, 0);
}

const float *trunk_forward(const struct trunk_pass *pass, struct own_loss *own, size_t num_own)
{
    struct run run = open_run(pass);
    for (run.stage = 0; run.stage <= trunk_mixings(run.trunk); run.stage++) {
        pool_run(run.rows.pool, forward_tile, &run, run.rows.tiles);
        profile_lap(run.rows.profile, PROFILE_PRODUCTS);
        if (run.stage < trunk_mixings(run.trunk))
            mix(&run, own, num_own);
    }
    return trunk_rows(pass);
}

const float *trunk_rows(const struct trunk_pass *pass)
{
    const struct trunk *trunk = pass->plan->trunk;
    return trunk_has_last_norm(trunk) ? pass->space.normed : trunk_stream(pass, trunk->layers);
}

/* ---- backward ----------------------------------------------------------------------------------------- */

/* Backward pass of a norm with input x, n rows: dstream, the gradient of its output, becomes that of x. */
static void norm_tile_backward(const struct run *run, const struct block_scratch *scratch,
                               struct slice gradients, const float *x, float *dstream, size_t n)
{
    const struct trunk *trunk = run->trunk;
    size_t bytes = n * trunk->dim * sizeof(float);
    float *unused = scratch->narrow[1], *dnormed = scratch->narrow[2];
    norm_forward(&trunk->norm, run->rows.kernels, run->pass->values, unused, scratch->statistics, x, n);
    memcpy(dnormed, dstream, bytes);
    memset(dstream, 0, bytes);
    norm_backward(&trunk->norm, run->rows.kernels, run->pass->values, gradients, dstream, dnormed, x,
                  scratch->statistics, n);
    watch_lap(scratch->watch, PROFILE_NORM);
}

static void enter_tile_backward(const struct run *run, const struct block_scratch *scratch,
                                struct slice gradients, float *dstream, size_t first)
{
    const struct trunk *trunk = run->trunk;
    const struct input *input = &trunk->input;
    size_t n = rows_of_tile(&run->rows, first);
    if (input->kind == INPUT_GIVEN)
        return;
    drop_input(run, scratch, dstream, first);
    if (!trunk->norm_last) { /* recomputes the rows before the norm */
        float *words = scratch->narrow[0];
        input_forward(input, &run->rows, run->pass->values, words, &run->pass->input, first, n);
        watch_lap(scratch->watch, PROFILE_EMBEDDING);
        norm_tile_backward(run, scratch, gradients, words, dstream, n);
    }
    input_backward_tile(input, &run->rows, run->pass->values, gradients, dstream, &run->pass->input, first,
                        n);
    watch_lap(scratch->watch, PROFILE_EMBEDDING);
}

/* What precedes the next mixing, or the last norm. */
static void beginning_backward(const struct run *run, const struct block_scratch *scratch,
                               struct slice gradients, size_t first)
{
    const struct trunk_space *s = &run->pass->space;
    size_t at = first * run->trunk->dim, layer = layer_of(run);
    if (layer < run->trunk->layers) {
        struct place p = place_of(run, layer);
        block_enter_backward(p.block, &p.pass, &p.space, scratch, gradients, s->dstream, &s->d, first);
    } else if (trunk_has_last_norm(run->trunk)) {
        norm_tile_backward(run, scratch, gradients, trunk_stream(run->pass, layer) + at, s->dstream + at,
                           rows_of_tile(&run->rows, first));
    }
}

/* What follows the mixing before, or the input. */
static void end_backward(const struct run *run, const struct block_scratch *scratch, struct slice gradients,
                         size_t first)
{
    const struct trunk_space *s = &run->pass->space;
    size_t layer = layer_of(run);
    if (layer > 0) {
        struct place p = place_of(run, layer - 1);
        block_leave_backward(p.block, &p.pass, &p.space, scratch, gradients, s->dstream, &s->d, first);
    } else {
        enter_tile_backward(run, scratch, gradients, s->dstream + first * run->trunk->dim, first);
    }
}

static void backward_tile(const struct run *run, const struct block_scratch *scratch, struct slice gradients,
                          size_t first)
{
    const struct trunk_space *s = &run->pass->space;
    if (is_inside(run)) {
        struct place p = place_of(run, layer_of(run));
        if (run->parts == STAGE_KEYS)
            block_cross_keys_backward(p.block, &p.pass, scratch, gradients, &s->d, first);
        else
            block_cross_enter_backward(p.block, &p.pass, &p.space, scratch, gradients, s->dstream, &s->d,
                                       first);
        return;
    }
    if (run->parts & STAGE_BEGINS)
        beginning_backward(run, scratch, gradients, first);
    if (run->parts & STAGE_ENDS)
        end_backward(run, scratch, gradients, first);
}

/* A chunk of tiles, in order, into a partial gradient of its own. */
static void backward_chunk(void *argument, size_t chunk, int worker)
{
    const struct run *run = argument;
    struct stage stage = trunk_stage(run->trunk, run->stage, run->parts);
    struct block_scratch scratch = scratch_of(run, worker);
    struct slice gradients = {run->pass->space.partials + chunk * stage.count, stage.first};
    memset(gradients.floats, 0, stage.count * sizeof(float));
    watch_lap(scratch.watch, PROFILE_SUMS);
    size_t tile, end;
    for (rows_chunk(run->over->tiles, run->chunks, chunk, &tile, &end); tile < end; tile++) {
        backward_tile(run, &scratch, gradients, tile * run->over->tile_rows);
        if (worker == 0 && run->pass->listener != NULL) { /* the calling thread */
            run->pass->listener->tick(run->pass->listener->argument);
            watch_lap(scratch.watch, PROFILE_RANKS);
        }
    }
}

/* Gradients from element `first` on are known. */
static void tell(const struct run *run, size_t first)
{
    if (run->pass->listener != NULL)
        run->pass->listener->known(run->pass->listener->argument, first);
}

/* These parts of the current stage, on all rows. */
static void parts_backward(struct run *run, unsigned parts, float *gradients)
{
    struct stage stage = trunk_stage(run->trunk, run->stage, parts);
    run->parts = parts;
    run->over = parts == STAGE_KEYS ? &run->pass->plan->encoded : &run->rows;
    run->chunks = rows_chunks(run->over->tiles, stage.count);
    pool_run(run->rows.pool, backward_chunk, run, run->chunks);
    profile_lap(run->rows.profile, PROFILE_PRODUCTS);
    rows_reduce(&run->rows, gradients + stage.first, run->pass->space.partials, run->chunks, stage.count);
    profile_lap(run->rows.profile, PROFILE_SUMS);
}

static void own_backward(const struct place *p, struct slice gradients, const struct own_loss *own,
                         size_t num_own)
{
    for (size_t i = 0; i < num_own; i++)
        block_auxiliary(p->block, &p->pass, &p->space, own[i].mechanism, gradients, own[i].weight);
}

/* The mixing after the current stage. */
static void mix_backward(const struct run *run, struct slice gradients, const struct own_loss *own,
                         size_t num_own)
{
    const struct block_gradients *d = &run->pass->space.d;
    struct place p = place_of(run, layer_of(run));
    if (is_inside(run)) {
        block_cross_mix_backward(p.block, &p.pass, &p.space, gradients, d);
        return;
    }
    block_mix_backward(p.block, &p.pass, &p.space, gradients, d);
    own_backward(&p, gradients, own, num_own);
}

/* The gradients of own losses. They need no gradients of rows, so a step that tunes the hashes of a MiniLM
   takes 0.45 of the time, with the same bits (Zen 1, 450 rows). */
static void only_own_backward(struct run *run, struct slice gradients, const struct own_loss *own,
                              size_t num_own)
{
    for (size_t left = trunk_mixings(run->trunk); left > 0; left--) {
        run->stage = left - 1;
        if (is_inside(run))
            continue;
        struct place p = place_of(run, layer_of(run));
        own_backward(&p, gradients, own, num_own);
        tell(run, trunk_stage(run->trunk, run->stage, STAGE_ENDS | STAGE_BEGINS).first);
    }
}

/* The offset after the parameters of the current stage and its mixing. */
static size_t end_of_stage(const struct run *run)
{
    return run->stage == trunk_mixings(run->trunk)
               ? run->trunk->end
               : trunk_stage(run->trunk, run->stage + 1, STAGE_ENDS).first;
}

/* True if nothing below needs a gradient. A trunk with cross attention computes all: its encoder does. */
static bool is_enough(const struct run *run, size_t end)
{
    return !run->trunk->crosses && run->pass->first_trained >= end;
}

void trunk_backward(const struct trunk_pass *pass, float *gradients, const struct own_loss *own,
                    size_t num_own)
{
    assert(pass->plan->training);
    struct run run = open_run(pass);
    const struct trunk *trunk = run.trunk;
    struct slice whole = {gradients, 0};
    if (pass->own_losses_only) {
        tell(&run, trunk->end);
        only_own_backward(&run, whole, own, num_own);
        return;
    }
    if (trunk->crosses)
        memset(pass->dencoded, 0, pass->space.encoded * sizeof(float));
    tell(&run, trunk->end); /* after it are those of the objectives */
    for (size_t left = trunk_mixings(trunk) + 1; left > 0; left--) {
        run.stage = left - 1;
        if (is_enough(&run, end_of_stage(&run))) {
            tell(&run, 0);
            return;
        }
        if (run.stage < trunk_mixings(trunk))
            mix_backward(&run, whole, own, num_own);
        if (is_enough(&run, trunk_stage(trunk, run.stage, STAGE_BEGINS).first)) {
            parts_backward(&run, STAGE_BEGINS, gradients);
            tell(&run, 0);
            return;
        }
        for (const unsigned *parts = trunk_sums(trunk, run.stage); *parts != 0; parts++)
            parts_backward(&run, *parts, gradients);
        tell(&run, trunk_stage(trunk, run.stage, STAGE_ENDS | STAGE_BEGINS).first);
    }
    input_backward(&trunk->input, &run.rows, pass->values, whole, pass->space.dstream, &pass->input);
    profile_lap(run.rows.profile, PROFILE_EMBEDDING);
}
