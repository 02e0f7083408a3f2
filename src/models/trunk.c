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

struct space {
    bool training;
    struct dropout attention_dropout;
    size_t narrow, wide;                       /* floats of a (padded, dim) and of a (padded, ffn) array */
    size_t saved_bytes[PLAN_LISTS], num_lists; /* saved by attention in a layer of each list of heads */
    float *given;  /* the input of the first block if the caller owns it, otherwise NULL */
    float *stream; /* (layers + 1) inputs of the blocks and of the last norm; one in evaluation */
    float *middle, *query, *key, *value, *context, *mixed; /* (layers) (padded, dim) */
    float *sum;           /* (layers) (padded, dim), post-LN; none in evaluation */
    float *before;        /* (layers) (padded, ffn); none in evaluation */
    unsigned char *saved; /* (layers) */
    void *mix_scratch;
    float *normed; /* (padded, dim) output of the last norm */
    float *tiles;  /* (threads) scratch of tiles */
    size_t tile_floats;
    /* backward */
    float *dstream;               /* (padded, dim) */
    struct attention_gradients d; /* (padded, dim) */
    float *partials;              /* (chunks, floats of the largest stage) */
};

/* Bytes that attention saves in the layers before this one. */
static size_t saved_before(const struct space *s, size_t layer)
{
    size_t bytes = 0;
    for (size_t i = 0; i < layer; i++)
        bytes = size_sum(bytes, s->saved_bytes[i < s->num_lists ? i : s->num_lists - 1]);
    return bytes;
}

/* Bytes that attention saves in all layers; in evaluation, where layers share the memory, the largest of
   them. */
static size_t saved_of_all(const struct space *s, size_t layers)
{
    size_t most = 0;
    for (size_t i = 0; i < s->num_lists; i++)
        most = s->saved_bytes[i] > most ? s->saved_bytes[i] : most;
    return s->training ? saved_before(s, layers) : most;
}

static void lay_training(const struct trunk_pass *pass, struct space *s, struct arena *arena)
{
    const struct trunk *trunk = pass->trunk;
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
        partials = size_max(partials, rows_chunks(pass->rows.tiles, stage.count) * stage.count);
    }
    s->partials = arena_take(arena, partials, sizeof(float));
}

/* Cuts the memory into arrays; on NULL it only counts bytes. */
static struct space lay(const struct trunk_pass *pass, void *memory, size_t *bytes)
{
    const struct trunk *trunk = pass->trunk;
    const struct rows *rows = &pass->rows;
    struct arena arena = arena_on(memory);
    size_t layers = trunk->layers, kept = pass->training ? layers : 1, align = MEMORY_ALIGNMENT;
    bool given = trunk->input.kind == INPUT_GIVEN;
    struct space s = {
        .training = pass->training,
        .attention_dropout = pass->training ? trunk->attention_dropout : dropout_of(0),
        .narrow = size_product(rows->padded, trunk->dim),
        .wide = size_product(rows->padded, trunk->wide),
        .num_lists = trunk->num_lists,
        .given = given ? (float *)(uintptr_t)pass->input.floats : NULL, /* only read */
        .tile_floats = block_scratch_size(&trunk->blocks[0], pass->training),
    };
    size_t narrow = size_product(kept, s.narrow), streams = pass->training ? layers + !given : 1,
           mix_bytes = 0;
    s.stream = arena_take(&arena, size_product(streams, s.narrow), sizeof(float));
    float **const arrays[] = {&s.query, &s.key, &s.value, &s.context};
    for (size_t i = 0; i < sizeof arrays / sizeof *arrays; i++)
        *arrays[i] = arena_take(&arena, narrow, sizeof(float));
    for (size_t i = 0; i < s.num_lists; i++) {
        const struct self_attention *attention = &trunk->blocks[i].attention;
        mix_bytes = size_max(mix_bytes, self_attention_scratch_size(attention, rows));
        s.saved_bytes[i] = size_sum(self_attention_saved_size(attention, rows), align - 1) / align * align;
    }
    s.saved = arena_take(&arena, saved_of_all(&s, layers), 1);
    s.mix_scratch = arena_take(&arena, mix_bytes, 1);
    s.tiles =
        arena_take(&arena, size_product((size_t)pool_threads(rows->pool), s.tile_floats), sizeof(float));
    s.middle = s.stream;
    s.mixed = s.context;
    s.normed = s.query;
    if (pass->training)
        lay_training(pass, &s, &arena);
    *bytes = arena.used;
    return s;
}

size_t trunk_memory_size(const struct trunk_pass *pass)
{
    size_t bytes;
    lay(pass, NULL, &bytes);
    return bytes;
}

size_t trunk_saved_size(const struct trunk_pass *pass)
{
    size_t bytes;
    struct space s = lay(pass, NULL, &bytes);
    return saved_of_all(&s, pass->trunk->layers);
}

float *trunk_gradient(const struct trunk_pass *pass)
{
    size_t bytes;
    assert(pass->training);
    return lay(pass, pass->memory, &bytes).dstream;
}

/* ---- a pass ------------------------------------------------------------------------------------------- */

/* One forward or backward pass; the argument of every unit of work. */
struct run {
    const struct trunk_pass *pass;
    const struct trunk *trunk;
    struct rows rows;
    struct space space;
    struct dropout dropout;
    size_t stage;
    size_t chunks; /* of the current stage, in backward */
};

static struct run open_run(const struct trunk_pass *pass)
{
    size_t bytes;
    struct run run = {
        .pass = pass,
        .trunk = pass->trunk,
        .rows = pass->rows,
        .space = lay(pass, pass->memory, &bytes),
        .dropout = pass->training ? pass->trunk->dropout : dropout_of(0),
    };
    assert((run.dropout.threshold == 0 && run.space.attention_dropout.threshold == 0) ||
           pass->rows.sample_ids != NULL);
    return run;
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

static float *stream_of(const struct space *s, size_t layer)
{
    if (s->given != NULL && layer == 0)
        return s->given;
    return s->stream + (s->training ? (layer - (s->given != NULL)) * s->narrow : 0);
}

static struct block_space space_of(const struct space *s, size_t layer)
{
    size_t at = s->training ? layer : 0, narrow = at * s->narrow, wide = at * s->wide;
    return (struct block_space){
        .x = stream_of(s, layer),
        .middle = s->middle + narrow,
        .sum = s->sum == NULL ? NULL : s->sum + narrow,
        .before = s->before == NULL ? NULL : s->before + wide,
        .attention =
            {
                .dropout = s->attention_dropout,
                .query = s->query + narrow,
                .key = s->key + narrow,
                .value = s->value + narrow,
                .context = s->context + narrow,
                .mixed = s->mixed + narrow,
                .saved = s->saved + saved_before(s, at),
                .scratch = s->mix_scratch,
            },
    };
}

static struct block_scratch scratch_of(const struct run *run, int worker)
{
    return block_scratch_on(&run->trunk->blocks[0], run->pass->training,
                            run->space.tiles + (size_t)worker * run->space.tile_floats,
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
    float *tile = stream_of(&run->space, 0) + first * trunk->dim;
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

static const float *last_rows(const struct trunk *trunk, const struct space *s)
{
    return has_last_norm(trunk) ? s->normed : stream_of(s, trunk->layers);
}

static void forward_tile(void *argument, size_t tile, int worker)
{
    const struct run *run = argument;
    const struct trunk *trunk = run->trunk;
    const struct space *s = &run->space;
    struct block_scratch scratch = scratch_of(run, worker);
    size_t first = tile * ROW_TILE, at = first * trunk->dim, stage = run->stage;
    float *stream = stream_of(s, stage);
    if (stage == 0) {
        enter_tile(run, &scratch, first);
    } else {
        struct block_pass block = block_pass_of(run, stage - 1);
        struct block_space space = space_of(s, stage - 1);
        block_leave(&trunk->blocks[stage - 1], &block, &space, &scratch, stream, first);
    }
    if (stage < trunk->layers) {
        struct block_pass block = block_pass_of(run, stage);
        struct block_space space = space_of(s, stage);
        block_enter(&trunk->blocks[stage], &block, &space, &scratch, first);
    } else if (has_last_norm(trunk)) {
        norm_forward(&trunk->norm, run->rows.kernels, run->pass->values, s->normed + at, scratch.statistics,
                     stream + at, ROW_TILE);
        watch_lap(scratch.watch, PROFILE_NORM);
    }
}

const float *trunk_forward(const struct trunk_pass *pass, struct own_loss *own, size_t num_own)
{
    struct run run = open_run(pass);
    const struct trunk *trunk = pass->trunk;
    for (run.stage = 0; run.stage <= trunk->layers; run.stage++) {
        if (run.stage > 0) {
            const struct block *block = &trunk->blocks[run.stage - 1];
            struct block_pass block_pass = block_pass_of(&run, run.stage - 1);
            struct block_space space = space_of(&run.space, run.stage - 1);
            run.rows.layer = trunk->first_layer + run.stage - 1;
            block_mix(block, &block_pass, &space);
            for (size_t i = 0; pass->training && i < num_own; i++)
                own[i].sum +=
                    block_auxiliary(block, &block_pass, &space, own[i].mechanism, (struct slice){NULL, 0}, 0);
        }
        pool_run(run.rows.pool, forward_tile, &run, run.rows.tiles);
        profile_lap(run.rows.profile, PROFILE_PRODUCTS);
    }
    return last_rows(trunk, &run.space);
}

const float *trunk_rows(const struct trunk_pass *pass)
{
    size_t bytes;
    struct space s = lay(pass, pass->memory, &bytes);
    return last_rows(pass->trunk, &s);
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
    const struct space *s = &run->space;
    size_t at = first * trunk->dim, stage = run->stage;
    float *dstream = s->dstream;
    if (stage < trunk->layers) {
        struct block_pass block = block_pass_of(run, stage);
        struct block_space space = space_of(s, stage);
        block_enter_backward(&trunk->blocks[stage], &block, &space, scratch, gradients, dstream, &s->d,
                             first);
    } else if (has_last_norm(trunk)) {
        norm_tile_backward(run, scratch, gradients, stream_of(s, stage) + at, dstream + at);
    }
    if (stage > 0) {
        struct block_pass block = block_pass_of(run, stage - 1);
        struct block_space space = space_of(s, stage - 1);
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
    struct slice gradients = {run->space.partials + chunk * stage.count, stage.first};
    memset(gradients.floats, 0, stage.count * sizeof(float));
    watch_lap(scratch.watch, PROFILE_SUMS);
    size_t tile, end;
    for (rows_chunk(run->rows.tiles, run->chunks, chunk, &tile, &end); tile < end; tile++) {
        backward_tile(run, &scratch, gradients, tile * ROW_TILE);
        if (worker == 0 && run->rows.listener != NULL) { /* the calling thread */
            run->rows.listener->tick(run->rows.listener->argument);
            watch_lap(scratch.watch, PROFILE_RANKS);
        }
    }
}

/* Gradients from element `first` on are known. */
static void tell(const struct run *run, size_t first)
{
    if (run->rows.listener != NULL)
        run->rows.listener->known(run->rows.listener->argument, first);
}

void trunk_backward(const struct trunk_pass *pass, float *gradients, const struct own_loss *own,
                    size_t num_own)
{
    assert(pass->training);
    struct run run = open_run(pass);
    const struct trunk *trunk = pass->trunk;
    const struct space *s = &run.space;
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
            struct block_space space = space_of(s, run.stage - 1);
            block_mix_backward(block, &block_pass, &space, whole, &s->d);
            for (size_t i = 0; i < num_own; i++)
                block_auxiliary(block, &block_pass, &space, own[i].mechanism, whole, own[i].weight);
        }
    }
    input_backward(&trunk->input, &run.rows, pass->values, whole, s->dstream, &pass->input);
    profile_lap(run.rows.profile, PROFILE_EMBEDDING);
}
