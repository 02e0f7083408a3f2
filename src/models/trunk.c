/* Runs the trunk. Forward alternates between stages, which work on tiles of rows, and mixings of the whole
   batch; backward passes through the same in reverse. A tile goes from the end of one block to the beginning
   of the next while it is in cache. In training every block has its own activations; in evaluation all blocks
   share one set, and rows are overwritten in place.
   SPDX-License-Identifier: Apache-2.0 */
#include "models/trunk.h"

#include <assert.h>
#include <string.h>

#include "base/memory.h"
#include "base/random.h"

/* Stage k of 0 .. layers is what happens to a tile of rows between mixing k - 1 and mixing k: the end of a
   block (or the input) and the beginning of the next (or the last norm). Its parameters are contiguous. */
struct stage {
    size_t first, count; /* floats in the parameter block */
};

static struct stage stage_of(const struct trunk *trunk, size_t stage)
{
    const struct block *blocks = trunk->blocks;
    assert(stage <= trunk->layers);
    /* The norm of the embedding and the layer of float rows are stored just before the first block. */
    size_t first = stage == 0 ? trunk->input.first : blocks[stage - 1].leave;
    size_t end = stage == trunk->layers ? trunk->end : blocks[stage].mix;
    return (struct stage){first, end - first};
}

/* ---- memory ------------------------------------------------------------------------------------------- */

static size_t list_of(const struct trunk *trunk, size_t layer)
{
    return size_min(layer, trunk->num_lists - 1);
}

/* Bytes that attention saves in the layers before this one. */
static size_t saved_before(const struct trunk_plan *plan, size_t layer)
{
    size_t bytes = 0;
    for (size_t i = 0; i < layer; i++)
        bytes = size_sum(bytes, plan->lists[list_of(plan->trunk, i)].saved_bytes);
    return bytes;
}

/* Bytes that attention saves in all layers; in evaluation, where layers share the memory, the largest of
   them. */
static size_t saved_of_all(const struct trunk_plan *plan)
{
    size_t most = 0;
    for (size_t i = 0; i < plan->trunk->num_lists; i++)
        most = size_max(most, plan->lists[i].saved_bytes);
    return plan->training ? saved_before(plan, plan->trunk->layers) : most;
}

static void lay_training(const struct trunk_plan *plan, struct trunk_space *s, struct arena *arena)
{
    const struct trunk *trunk = plan->trunk;
    size_t layers = trunk->layers, narrow = size_product(layers, s->narrow), partials = 0;
    s->middle = arena_take(arena, narrow, sizeof(float));
    s->mixed = trunk->taps > 0 ? arena_take(arena, narrow, sizeof(float)) : s->context;
    if (trunk->post)
        s->sum = arena_take(arena, narrow, sizeof(float));
    s->before = arena_take(arena, size_product(layers, s->wide), sizeof(float));
    float **const gradients[] = {&s->dstream, &s->d.query, &s->d.key, &s->d.value, &s->d.mixed};
    for (size_t i = 0; i < sizeof gradients / sizeof *gradients; i++)
        *gradients[i] = arena_take(arena, s->narrow, sizeof(float));
    s->normed = s->d.mixed; /* unused until backward has left the last block */
    for (size_t k = 0; k <= layers; k++) {
        struct stage stage = stage_of(trunk, k);
        partials = size_max(partials, rows_chunks(plan->rows.tiles, stage.count) * stage.count);
    }
    s->partials = arena_take(arena, partials, sizeof(float));
}

/* Cuts the memory into arrays; on NULL it only counts bytes. */
static struct trunk_space lay(const struct trunk_plan *plan, void *memory, size_t *bytes)
{
    const struct trunk *trunk = plan->trunk;
    const struct rows *rows = &plan->rows;
    struct arena arena = arena_on(memory);
    size_t layers = trunk->layers, kept = plan->training ? layers : 1, mix_bytes = 0;
    bool given = trunk->input.kind == INPUT_GIVEN;
    struct trunk_space s = {
        .narrow = size_product(rows->padded, trunk->dim),
        .wide = size_product(rows->padded, trunk->wide),
        .tile_floats = block_scratch_size(&trunk->blocks[0], plan->training),
    };
    size_t narrow = size_product(kept, s.narrow), streams = plan->training ? layers + !given : 1;
    s.stream = arena_take(&arena, size_product(streams, s.narrow), sizeof(float));
    float **const arrays[] = {&s.query, &s.key, &s.value, &s.context};
    for (size_t i = 0; i < sizeof arrays / sizeof *arrays; i++)
        *arrays[i] = arena_take(&arena, narrow, sizeof(float));
    for (size_t i = 0; i < trunk->num_lists; i++)
        mix_bytes = size_max(mix_bytes, plan->lists[i].scratch_bytes);
    s.saved = arena_take(&arena, saved_of_all(plan), 1);
    s.mix_scratch = arena_take(&arena, mix_bytes, 1);
    s.tiles =
        arena_take(&arena, size_product((size_t)pool_threads(rows->pool), s.tile_floats), sizeof(float));
    s.middle = s.stream;
    s.mixed = s.context;
    s.normed = s.query;
    if (plan->training)
        lay_training(plan, &s, &arena);
    *bytes = arena.used;
    return s;
}

size_t trunk_num_plans(const struct trunk *trunk)
{
    size_t count = 0;
    for (size_t i = 0; i < trunk->num_lists; i++)
        count += trunk->blocks[i].attention.num_groups;
    return count;
}

hashattn_status trunk_plan_make(struct host *host, const struct trunk *trunk, const struct rows *rows,
                                bool training, struct plan_set *set, struct mix_plan *lists,
                                struct trunk_plan *plan)
{
    *plan = (struct trunk_plan){.trunk = trunk, .rows = *rows, .training = training, .lists = lists};
    for (size_t i = 0; i < trunk->num_lists; i++)
        TRY(self_attention_plan(host, &trunk->blocks[i].attention, rows, set, &lists[i]));
    plan->saved_bytes = saved_of_all(plan);
    lay(plan, NULL, &plan->memory_bytes);
    return HASHATTN_OK;
}

struct trunk_pass trunk_open(const struct trunk_plan *plan, struct input_rows input, const float *values,
                             uint64_t random_key, void *memory)
{
    size_t bytes;
    struct trunk_pass pass = {.plan = plan,
                              .input = input,
                              .values = values,
                              .random_key = random_key,
                              .space = lay(plan, memory, &bytes)};
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
    struct rows rows;
    struct dropout dropout;
    size_t stage;
    size_t chunks; /* of the current stage, in backward */
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
    };
}

static float *stream_of(const struct trunk_pass *pass, size_t layer)
{
    const struct trunk_space *s = &pass->space;
    if (s->given != NULL && layer == 0)
        return s->given;
    return s->stream + (pass->plan->training ? (layer - (s->given != NULL)) * s->narrow : 0);
}

static struct block_space space_of(const struct trunk_pass *pass, size_t layer)
{
    const struct trunk_plan *plan = pass->plan;
    const struct trunk_space *s = &pass->space;
    size_t at = plan->training ? layer : 0, narrow = at * s->narrow, wide = at * s->wide;
    return (struct block_space){
        .x = stream_of(pass, layer),
        .middle = s->middle + narrow,
        .sum = s->sum == NULL ? NULL : s->sum + narrow,
        .before = s->before == NULL ? NULL : s->before + wide,
        .attention =
            {
                .plan = &plan->lists[list_of(plan->trunk, layer)],
                .dropout = plan->training ? plan->trunk->attention_dropout : dropout_of(0),
                .query = s->query + narrow,
                .key = s->key + narrow,
                .value = s->value + narrow,
                .context = s->context + narrow,
                .mixed = s->mixed + narrow,
                .saved = s->saved + saved_before(plan, at),
                .scratch = s->mix_scratch,
            },
    };
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
    uint64_t key = random_key(run->pass->random_key, RANDOM_DROPOUT, 0);
    dropout_rows(&run->dropout, key, &run->rows, tile, tile, first, ROW_TILE, run->trunk->dim);
    watch_lap(scratch->watch, PROFILE_DROPOUT);
}

static void enter_tile(const struct run *run, const struct block_scratch *scratch, size_t first)
{
    const struct trunk *trunk = run->trunk;
    float *tile = stream_of(run->pass, 0) + first * trunk->dim;
    if (trunk->input.kind == INPUT_GIVEN)
        return;
    input_forward(&trunk->input, &run->rows, run->pass->values, tile, &run->pass->input, first, ROW_TILE);
    watch_lap(scratch->watch, PROFILE_EMBEDDING);
    if (!trunk->norm_last) {
        float *words = scratch->narrow[0];
        memcpy(words, tile, ROW_TILE * trunk->dim * sizeof *words);
        norm_forward(&trunk->norm, run->rows.kernels, run->pass->values, tile, scratch->statistics, words,
                     ROW_TILE);
        watch_lap(scratch->watch, PROFILE_NORM);
    }
    drop_input(run, scratch, tile, first);
}

static bool has_last_norm(const struct trunk *trunk)
{
    return trunk->normed && trunk->norm_last;
}

static void forward_tile(void *argument, size_t tile, int worker)
{
    const struct run *run = argument;
    const struct trunk *trunk = run->trunk;
    struct block_scratch scratch = scratch_of(run, worker);
    size_t first = tile * ROW_TILE, at = first * trunk->dim, stage = run->stage;
    float *stream = stream_of(run->pass, stage);
    if (stage == 0) {
        enter_tile(run, &scratch, first);
    } else {
        struct block_pass block = block_pass_of(run, stage - 1);
        struct block_space space = space_of(run->pass, stage - 1);
        block_leave(&trunk->blocks[stage - 1], &block, &space, &scratch, stream, first);
    }
    if (stage < trunk->layers) {
        struct block_pass block = block_pass_of(run, stage);
        struct block_space space = space_of(run->pass, stage);
        block_enter(&trunk->blocks[stage], &block, &space, &scratch, first);
    } else if (has_last_norm(trunk)) {
        norm_forward(&trunk->norm, run->rows.kernels, run->pass->values, run->pass->space.normed + at,
                     scratch.statistics, stream + at, ROW_TILE);
        watch_lap(scratch.watch, PROFILE_NORM);
    }
}

const float *trunk_forward(const struct trunk_pass *pass, struct own_loss *own, size_t num_own)
{
    struct run run = open_run(pass);
    const struct trunk *trunk = run.trunk;
    for (run.stage = 0; run.stage <= trunk->layers; run.stage++) {
        if (run.stage > 0) {
            const struct block *block = &trunk->blocks[run.stage - 1];
            struct block_pass block_pass = block_pass_of(&run, run.stage - 1);
            struct block_space space = space_of(pass, run.stage - 1);
            run.rows.layer = trunk->first_layer + run.stage - 1;
            block_mix(block, &block_pass, &space);
            for (size_t i = 0; pass->plan->training && i < num_own; i++)
                own[i].sum +=
                    block_auxiliary(block, &block_pass, &space, own[i].mechanism, (struct slice){NULL, 0}, 0);
        }
        pool_run(run.rows.pool, forward_tile, &run, run.rows.tiles);
        profile_lap(run.rows.profile, PROFILE_PRODUCTS);
    }
    return trunk_rows(pass);
}

const float *trunk_rows(const struct trunk_pass *pass)
{
    const struct trunk *trunk = pass->plan->trunk;
    return has_last_norm(trunk) ? pass->space.normed : stream_of(pass, trunk->layers);
}

/* ---- backward ----------------------------------------------------------------------------------------- */

/* Backward pass of a norm with input x: dstream, the gradient of its output, becomes that of x. */
static void norm_tile_backward(const struct run *run, const struct block_scratch *scratch,
                               struct slice gradients, const float *x, float *dstream)
{
    const struct trunk *trunk = run->trunk;
    size_t bytes = ROW_TILE * trunk->dim * sizeof(float);
    float *unused = scratch->narrow[1], *dnormed = scratch->narrow[2];
    norm_forward(&trunk->norm, run->rows.kernels, run->pass->values, unused, scratch->statistics, x,
                 ROW_TILE);
    memcpy(dnormed, dstream, bytes);
    memset(dstream, 0, bytes);
    norm_backward(&trunk->norm, run->rows.kernels, run->pass->values, gradients, dstream, dnormed, x,
                  scratch->statistics, ROW_TILE);
    watch_lap(scratch->watch, PROFILE_NORM);
}

static void enter_tile_backward(const struct run *run, const struct block_scratch *scratch,
                                struct slice gradients, float *dstream, size_t first)
{
    const struct trunk *trunk = run->trunk;
    const struct input *input = &trunk->input;
    if (input->kind == INPUT_GIVEN)
        return;
    drop_input(run, scratch, dstream, first);
    if (!trunk->norm_last) { /* recomputes the rows before the norm */
        float *words = scratch->narrow[0];
        input_forward(input, &run->rows, run->pass->values, words, &run->pass->input, first, ROW_TILE);
        watch_lap(scratch->watch, PROFILE_EMBEDDING);
        norm_tile_backward(run, scratch, gradients, words, dstream);
    }
    input_backward_tile(input, &run->rows, run->pass->values, gradients, dstream, &run->pass->input, first,
                        ROW_TILE);
    watch_lap(scratch->watch, PROFILE_EMBEDDING);
}

static void backward_tile(const struct run *run, const struct block_scratch *scratch, struct slice gradients,
                          size_t first)
{
    const struct trunk *trunk = run->trunk;
    const struct trunk_space *s = &run->pass->space;
    size_t at = first * trunk->dim, stage = run->stage;
    float *dstream = s->dstream;
    if (stage < trunk->layers) {
        struct block_pass block = block_pass_of(run, stage);
        struct block_space space = space_of(run->pass, stage);
        block_enter_backward(&trunk->blocks[stage], &block, &space, scratch, gradients, dstream, &s->d,
                             first);
    } else if (has_last_norm(trunk)) {
        norm_tile_backward(run, scratch, gradients, stream_of(run->pass, stage) + at, dstream + at);
    }
    if (stage > 0) {
        struct block_pass block = block_pass_of(run, stage - 1);
        struct block_space space = space_of(run->pass, stage - 1);
        block_leave_backward(&trunk->blocks[stage - 1], &block, &space, scratch, gradients, dstream, &s->d,
                             first);
    } else {
        enter_tile_backward(run, scratch, gradients, dstream + at, first);
    }
}

/* A chunk of tiles, in order, into a partial gradient of its own. */
static void backward_chunk(void *argument, size_t chunk, int worker)
{
    const struct run *run = argument;
    struct stage stage = stage_of(run->trunk, run->stage);
    struct block_scratch scratch = scratch_of(run, worker);
    struct slice gradients = {run->pass->space.partials + chunk * stage.count, stage.first};
    memset(gradients.floats, 0, stage.count * sizeof(float));
    watch_lap(scratch.watch, PROFILE_SUMS);
    size_t tile, end;
    for (rows_chunk(run->rows.tiles, run->chunks, chunk, &tile, &end); tile < end; tile++) {
        backward_tile(run, &scratch, gradients, tile * ROW_TILE);
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

void trunk_backward(const struct trunk_pass *pass, float *gradients, const struct own_loss *own,
                    size_t num_own)
{
    assert(pass->plan->training);
    struct run run = open_run(pass);
    const struct trunk *trunk = run.trunk;
    const struct trunk_space *s = &pass->space;
    struct slice whole = {gradients, 0};
    tell(&run, trunk->end); /* after it are those of the objectives */
    for (size_t left = trunk->layers + 1; left > 0; left--) {
        run.stage = left - 1;
        struct stage stage = stage_of(trunk, run.stage);
        run.chunks = rows_chunks(run.rows.tiles, stage.count);
        pool_run(run.rows.pool, backward_chunk, &run, run.chunks);
        profile_lap(run.rows.profile, PROFILE_PRODUCTS);
        rows_reduce(&run.rows, gradients + stage.first, s->partials, run.chunks, stage.count);
        profile_lap(run.rows.profile, PROFILE_SUMS);
        tell(&run, stage.first);
        if (run.stage > 0) {
            const struct block *block = &trunk->blocks[run.stage - 1];
            struct block_pass block_pass = block_pass_of(&run, run.stage - 1);
            struct block_space space = space_of(pass, run.stage - 1);
            block_mix_backward(block, &block_pass, &space, whole, &s->d);
            for (size_t i = 0; i < num_own; i++)
                block_auxiliary(block, &block_pass, &space, own[i].mechanism, whole, own[i].weight);
        }
    }
    input_backward(&trunk->input, &run.rows, pass->values, whole, s->dstream, &pass->input);
    profile_lap(run.rows.profile, PROFILE_EMBEDDING);
}
