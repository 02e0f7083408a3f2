/* Stages of tiles alternate with mixings of the whole batch, as in trunk.c; a stage is one function here, and
   runs by itself. SPDX-License-Identifier: Apache-2.0 */
#include "models/decoder_stack.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>

#include "base/memory.h"
#include "base/random.h"

/* ---- memory ------------------------------------------------------------------------------------------- */

/* Activations of one layer, (padded, dim) unless said otherwise; in evaluation all layers share them. */
struct layer_space {
    float *x;                          /* input */
    struct attention_space own, cross; /* cross: key and value are rows of the encoder */
    float *middle, *met;               /* before and after own_norm */
    float *joined, *asked;             /* before and after cross_norm */
    float *before, *sum;               /* (padded, wide) of the ffn; before ffn_norm */
};

struct space {
    size_t narrow, wide,
        encoded;      /* floats of (padded, dim), (padded, wide) and of the encoder's (padded, dim) */
    size_t kept;      /* layers with arrays of their own */
    float *arrays[2]; /* (kept) of the decoder's rows; of the encoder's */
    float *before;
    float *last, *normed; /* input of the last norm, and its output */
    unsigned char *saved;
    size_t saved_bytes; /* of one layer, both mixings: own first */
    size_t own_bytes;
    void *mix_scratch;
    float *tiles;
    size_t tile_floats;
    float *dstream; /* backward */
    struct attention_gradients own, cross;
    float *partials;
    size_t bytes;
};

enum { NARROW_ARRAYS = 12, ENCODED_ARRAYS = 2 };

static size_t aligned(size_t bytes)
{
    return size_sum(bytes, MEMORY_ALIGNMENT - 1) / MEMORY_ALIGNMENT * MEMORY_ALIGNMENT;
}

/* Rows of queries that meet keys of the encoder. */
static struct rows cross_rows(const struct decoder_pass *pass)
{
    struct rows rows = pass->rows;
    rows.key_offsets = pass->encoder.offsets;
    return rows;
}

static size_t partial_floats(const struct decoder_pass *pass)
{
    const struct decoder *decoder = pass->decoder;
    size_t most = 0;
    for (size_t i = 0; i < decoder->layers; i++) {
        const struct decoder_block *b = &decoder->blocks[i];
        const size_t counts[] = {b->own_mix - b->enter, b->keys - b->meet, b->end - b->leave};
        for (size_t k = 0; k < 3; k++)
            most = size_max(most, rows_chunks(pass->rows.tiles, counts[k]) * counts[k]);
        size_t keys = b->cross_mix - b->keys;
        most = size_max(most, rows_chunks(pass->encoder.tiles, keys) * keys);
    }
    const size_t ends[] = {decoder->input.end - decoder->input.first, decoder->end - decoder->norm.gain};
    for (size_t k = 0; k < 2; k++)
        most = size_max(most, rows_chunks(pass->rows.tiles, ends[k]) * ends[k]);
    return most;
}

static struct space lay(const struct decoder_pass *pass, void *memory)
{
    const struct decoder *decoder = pass->decoder;
    const struct trunk *trunk = decoder->trunk;
    struct arena arena = arena_on(memory);
    struct rows cross = cross_rows(pass);
    struct space s = {.narrow = size_product(pass->rows.padded, trunk->dim),
                      .wide = size_product(pass->rows.padded, trunk->wide),
                      .encoded = size_product(pass->encoder.padded, trunk->dim),
                      .kept = pass->training ? decoder->layers : 1,
                      .tile_floats = block_scratch_size(&trunk->blocks[0], pass->training)};
    size_t mix_bytes = 0, cross_bytes = 0;
    for (size_t i = 0; i < decoder->layers; i++) {
        const struct decoder_block *b = &decoder->blocks[i];
        s.own_bytes = size_max(s.own_bytes, aligned(self_attention_saved_size(&b->own, &pass->rows)));
        cross_bytes = size_max(cross_bytes, aligned(self_attention_saved_size(&b->cross, &cross)));
        mix_bytes = size_max(mix_bytes, self_attention_scratch_size(&b->own, &pass->rows));
        mix_bytes = size_max(mix_bytes, self_attention_scratch_size(&b->cross, &cross));
    }
    s.saved_bytes = size_sum(s.own_bytes, cross_bytes);
    s.arrays[0] = arena_take(&arena, size_product(s.kept * NARROW_ARRAYS, s.narrow), sizeof(float));
    s.arrays[1] = arena_take(&arena, size_product(s.kept * ENCODED_ARRAYS, s.encoded), sizeof(float));
    s.before = arena_take(&arena, size_product(s.kept, s.wide), sizeof(float));
    s.last = arena_take(&arena, s.narrow, sizeof(float));
    s.normed = arena_take(&arena, s.narrow, sizeof(float));
    s.saved = arena_take(&arena, size_product(s.kept, s.saved_bytes), 1);
    s.mix_scratch = arena_take(&arena, mix_bytes, 1);
    s.tiles =
        arena_take(&arena, size_product((size_t)pool_threads(pass->rows.pool), s.tile_floats), sizeof(float));
    if (pass->training) {
        float **const narrow[] = {&s.dstream,   &s.own.query,   &s.own.key,    &s.own.value,
                                  &s.own.mixed, &s.cross.query, &s.cross.mixed};
        for (size_t i = 0; i < sizeof narrow / sizeof *narrow; i++)
            *narrow[i] = arena_take(&arena, s.narrow, sizeof(float));
        s.cross.key = arena_take(&arena, s.encoded, sizeof(float));
        s.cross.value = arena_take(&arena, s.encoded, sizeof(float));
        s.partials = arena_take(&arena, partial_floats(pass), sizeof(float));
    }
    s.bytes = arena.used;
    return s;
}

size_t decoder_memory_size(const struct decoder_pass *pass)
{
    return lay(pass, NULL).bytes;
}

size_t decoder_saved_size(const struct decoder_pass *pass)
{
    struct space s = lay(pass, NULL);
    return size_product(s.kept, s.saved_bytes);
}

float *decoder_gradient(const struct decoder_pass *pass)
{
    assert(pass->training);
    return lay(pass, pass->memory).dstream;
}

const float *decoder_rows(const struct decoder_pass *pass)
{
    return lay(pass, pass->memory).normed;
}

/* ---- a pass ------------------------------------------------------------------------------------------- */

/* One forward or backward pass; the argument of every unit of work. */
struct run {
    const struct decoder_pass *pass;
    const struct decoder *decoder;
    size_t dim;
    struct rows rows, cross;
    struct space space;
    struct dropout dropout, attention_dropout;
    size_t layer;
    float *dencoded;
    /* of the current stage of a backward pass */
    void (*tile)(const struct run *run, const struct block_scratch *scratch, struct slice gradients,
                 size_t first);
    const struct rows *over;
    size_t first, count, chunks;
};

static struct run open_run(const struct decoder_pass *pass)
{
    const struct trunk *trunk = pass->decoder->trunk;
    return (struct run){
        .pass = pass,
        .decoder = pass->decoder,
        .dim = trunk->dim,
        .rows = pass->rows,
        .cross = cross_rows(pass),
        .space = lay(pass, pass->memory),
        .dropout = pass->training ? trunk->dropout : dropout_of(0),
        .attention_dropout = pass->training ? trunk->attention_dropout : dropout_of(0),
    };
}

static const struct decoder_block *block_of(const struct run *run)
{
    return &run->decoder->blocks[run->layer];
}

static struct layer_space space_of(const struct run *run, size_t layer)
{
    const struct space *s = &run->space;
    size_t at = run->pass->training ? layer : 0;
    float *a[NARROW_ARRAYS], *encoded = s->arrays[1] + at * ENCODED_ARRAYS * s->encoded;
    for (size_t i = 0; i < NARROW_ARRAYS; i++)
        a[i] = s->arrays[0] + (at * NARROW_ARRAYS + i) * s->narrow;
    unsigned char *saved = s->saved + at * s->saved_bytes;
    return (struct layer_space){
        .x = a[0],
        .own = {run->attention_dropout, a[1], a[2], a[3], a[4], a[4], saved, s->mix_scratch},
        .cross = {run->attention_dropout, a[5], encoded, encoded + s->encoded, a[6], a[6],
                  saved + s->own_bytes, s->mix_scratch},
        .middle = a[7],
        .met = a[8],
        .joined = a[9],
        .asked = a[10],
        .before = s->before + at * s->wide,
        .sum = a[11],
    };
}

/* Keys of a layer's random numbers are siblings of the encoder's layers. */
static uint64_t key_of(const struct run *run)
{
    return random_key(run->pass->random_key, RANDOM_LAYER, run->decoder->trunk->layers + run->layer);
}

/* Sites of dropout in a block; and of the two mixings. */
enum site { SITE_OWN, SITE_CROSS, SITE_FFN };

static uint64_t site_key(const struct run *run, enum site site)
{
    return random_key(key_of(run), RANDOM_DROPOUT, site);
}

static uint64_t mix_key(const struct run *run, enum site site)
{
    return random_key(key_of(run), RANDOM_LAYER, site);
}

static struct block_scratch scratch_of(const struct run *run, int worker)
{
    return block_scratch_on(&run->decoder->trunk->blocks[0], run->pass->training,
                            run->space.tiles + (size_t)worker * run->space.tile_floats,
                            profile_watch(run->rows.profile, worker));
}

/* The input of the layer after this one, or of the last norm. */
static float *next_of(const struct run *run)
{
    return run->layer + 1 < run->decoder->layers ? space_of(run, run->layer + 1).x : run->space.last;
}

static struct input_rows input_of(const struct run *run)
{
    return (struct input_rows){.floats = run->pass->floats};
}

/* ---- forward ------------------------------------------------------------------------------------------ */

static void drop_input(const struct run *run, float *tile, size_t first)
{
    uint64_t key = random_key(run->pass->random_key, RANDOM_DROPOUT, 1); /* 0: the encoder's */
    dropout_rows(&run->dropout, key, &run->rows, tile, tile, first, ROW_TILE, run->dim);
}

static void enter_tile(void *argument, size_t tile, int worker)
{
    const struct run *run = argument;
    const struct layer_space s = space_of(run, run->layer);
    const struct decoder_block *block = block_of(run);
    struct block_scratch scratch = scratch_of(run, worker);
    size_t first = tile * ROW_TILE, at = first * run->dim;
    if (run->layer == 0) {
        const struct input_rows given = input_of(run);
        input_forward(&run->decoder->input, &run->rows, run->pass->values, s.x + at, &given, first, ROW_TILE);
        drop_input(run, s.x + at, first);
    }
    self_attention_enter(&block->own, run->rows.kernels, run->pass->values, s.own.query + at, s.own.key + at,
                         s.own.value + at, s.x + at, ROW_TILE, scratch.halves);
    watch_lap(scratch.watch, PROFILE_PRODUCTS);
}

/* after = LN(before), before = x + drop(output(mixed)): the residual around one of the two attentions. */
static void join_tile(const struct run *run, const struct block_scratch *scratch, enum site site,
                      const struct dense *output, const struct norm *norm, float *before, float *after,
                      const float *x, const float *mixed, size_t first)
{
    size_t at = first * run->dim;
    float *branch = scratch->narrow[0];
    dense_forward(output, run->rows.kernels, run->pass->values, branch, mixed + at, ROW_TILE);
    dropout_add_rows(&run->dropout, site_key(run, site), &run->rows, before + at, x + at, branch, first,
                     ROW_TILE, run->dim);
    norm_forward(norm, run->rows.kernels, run->pass->values, after + at, scratch->statistics, before + at,
                 ROW_TILE);
}

static void meet_tile(void *argument, size_t tile, int worker)
{
    const struct run *run = argument;
    const struct layer_space s = space_of(run, run->layer);
    const struct decoder_block *block = block_of(run);
    struct block_scratch scratch = scratch_of(run, worker);
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
    const struct run *run = argument;
    const struct layer_space s = space_of(run, run->layer);
    const struct decoder_block *block = block_of(run);
    struct block_scratch scratch = scratch_of(run, worker);
    size_t at = tile * ROW_TILE * run->dim;
    dense_forward(&block->cross.key, run->rows.kernels, run->pass->values, s.cross.key + at,
                  run->pass->encoded + at, ROW_TILE);
    dense_forward(&block->cross.value, run->rows.kernels, run->pass->values, s.cross.value + at,
                  run->pass->encoded + at, ROW_TILE);
    watch_lap(scratch.watch, PROFILE_PRODUCTS);
}

static void leave_tile(void *argument, size_t tile, int worker)
{
    const struct run *run = argument;
    const struct layer_space s = space_of(run, run->layer);
    const struct decoder_block *block = block_of(run);
    struct block_scratch scratch = scratch_of(run, worker);
    const struct dropout none = dropout_of(0);
    size_t first = tile * ROW_TILE, at = first * run->dim;
    float *branch = scratch.narrow[0], *before = s.before + first * run->decoder->trunk->wide;
    join_tile(run, &scratch, SITE_CROSS, &block->cross.output, &block->cross_norm, s.joined, s.asked, s.met,
              s.cross.mixed, first);
    ffn_forward(&block->ffn, &run->rows, run->pass->values, &none, 0, branch, before, scratch.wide,
                s.asked + at, first, ROW_TILE, scratch.halves, scratch.watch);
    dropout_add_rows(&run->dropout, site_key(run, SITE_FFN), &run->rows, s.sum + at, s.asked + at, branch,
                     first, ROW_TILE, run->dim);
    norm_forward(&block->ffn_norm, run->rows.kernels, run->pass->values, next_of(run) + at,
                 scratch.statistics, s.sum + at, ROW_TILE);
    watch_lap(scratch.watch, PROFILE_PRODUCTS);
}

static void last_tile(void *argument, size_t tile, int worker)
{
    const struct run *run = argument;
    struct block_scratch scratch = scratch_of(run, worker);
    size_t at = tile * ROW_TILE * run->dim;
    norm_forward(&run->decoder->norm, run->rows.kernels, run->pass->values, run->space.normed + at,
                 scratch.statistics, run->space.last + at, ROW_TILE);
    watch_lap(scratch.watch, PROFILE_NORM);
}

/* The own loss of a mechanism in both attentions of the layer; adds `weight` times its gradient. */
static double own_loss_of(const struct run *run, const struct mechanism *mechanism, struct slice gradients,
                          double weight)
{
    const struct layer_space s = space_of(run, run->layer);
    const struct decoder_block *block = block_of(run);
    return self_attention_auxiliary(&block->own, &run->rows, run->pass->values, mechanism, gradients, weight,
                                    &s.own, mix_key(run, SITE_OWN)) +
           self_attention_auxiliary(&block->cross, &run->cross, run->pass->values, mechanism, gradients,
                                    weight, &s.cross, mix_key(run, SITE_CROSS));
}

const float *decoder_forward(const struct decoder_pass *pass, struct own_loss *own, size_t num_own)
{
    struct run run = open_run(pass);
    struct pool *pool = pass->rows.pool;
    assert(pass->rows.num_sequences == pass->encoder.num_sequences);
    for (; run.layer < run.decoder->layers; run.layer++) {
        const struct decoder_block *block = block_of(&run);
        const struct layer_space s = space_of(&run, run.layer);
        pool_run(pool, enter_tile, &run, run.rows.tiles);
        self_attention_mix(&block->own, &run.rows, pass->values, &s.own, mix_key(&run, SITE_OWN));
        pool_run(pool, meet_tile, &run, run.rows.tiles);
        pool_run(pool, keys_tile, &run, pass->encoder.tiles);
        self_attention_mix(&block->cross, &run.cross, pass->values, &s.cross, mix_key(&run, SITE_CROSS));
        for (size_t i = 0; pass->training && i < num_own; i++)
            own[i].sum += own_loss_of(&run, own[i].mechanism, (struct slice){NULL, 0}, 0);
        pool_run(pool, leave_tile, &run, run.rows.tiles);
    }
    pool_run(pool, last_tile, &run, run.rows.tiles);
    profile_lap(run.rows.profile, PROFILE_PRODUCTS);
    return run.space.normed;
}

/* ---- backward ----------------------------------------------------------------------------------------- */

/* y = LN(x): stream, the gradient of y, becomes that of x. */
static void norm_back(const struct run *run, const struct block_scratch *scratch, const struct norm *norm,
                      struct slice gradients, float *stream, const float *x)
{
    float *normed = scratch->narrow[1], *dnormed = scratch->narrow[2];
    size_t bytes = ROW_TILE * run->dim * sizeof *stream;
    norm_forward(norm, run->rows.kernels, run->pass->values, normed, scratch->statistics, x, ROW_TILE);
    memcpy(dnormed, stream, bytes);
    memset(stream, 0, bytes);
    norm_backward(norm, run->rows.kernels, run->pass->values, gradients, stream, dnormed, x,
                  scratch->statistics, ROW_TILE);
}

/* Backward of join_tile: the stream, the gradient of `after`, becomes that of x; writes dmixed. */
static void join_back(const struct run *run, const struct block_scratch *scratch, enum site site,
                      const struct dense *output, const struct norm *norm, struct slice gradients,
                      const float *before, const float *mixed, float *dmixed, size_t first)
{
    size_t at = first * run->dim;
    float *stream = run->space.dstream + at, *dbranch = scratch->narrow[0];
    norm_back(run, scratch, norm, gradients, stream, before + at);
    dropout_rows(&run->dropout, site_key(run, site), &run->rows, dbranch, stream, first, ROW_TILE, run->dim);
    dense_backward(output, run->rows.kernels, run->pass->values, gradients, dmixed + at, false, dbranch,
                   mixed + at, ROW_TILE);
}

static void last_back(const struct run *run, const struct block_scratch *scratch, struct slice gradients,
                      size_t first)
{
    size_t at = first * run->dim;
    norm_back(run, scratch, &run->decoder->norm, gradients, run->space.dstream + at, run->space.last + at);
}

static void leave_back(const struct run *run, const struct block_scratch *scratch, struct slice gradients,
                       size_t first)
{
    const struct layer_space s = space_of(run, run->layer);
    const struct decoder_block *block = block_of(run);
    const struct dropout none = dropout_of(0);
    size_t at = first * run->dim;
    float *stream = run->space.dstream + at, *dbranch = scratch->narrow[0], *dasked = scratch->narrow[1];
    norm_back(run, scratch, &block->ffn_norm, gradients, stream, s.sum + at);
    dropout_rows(&run->dropout, site_key(run, SITE_FFN), &run->rows, dbranch, stream, first, ROW_TILE,
                 run->dim);
    ffn_backward(&block->ffn, &run->rows, run->pass->values, gradients, &none, 0, dasked, scratch->wide,
                 scratch->slope, dbranch, s.before + first * run->decoder->trunk->wide, s.asked + at, first,
                 ROW_TILE, scratch->watch);
    run->rows.kernels->rows.axpy(stream, 1, dasked, ROW_TILE * run->dim);
    join_back(run, scratch, SITE_CROSS, &block->cross.output, &block->cross_norm, gradients, s.joined,
              s.cross.mixed, run->space.cross.mixed, first);
    memset(run->space.cross.query + at, 0, ROW_TILE * run->dim * sizeof(float));
}

static void keys_back(const struct run *run, const struct block_scratch *scratch, struct slice gradients,
                      size_t first)
{
    const struct decoder_block *block = block_of(run);
    size_t at = first * run->dim;
    const float *encoded = run->pass->encoded + at;
    (void)scratch;
    dense_backward(&block->cross.key, run->rows.kernels, run->pass->values, gradients, run->dencoded + at,
                   true, run->space.cross.key + at, encoded, ROW_TILE);
    dense_backward(&block->cross.value, run->rows.kernels, run->pass->values, gradients, run->dencoded + at,
                   true, run->space.cross.value + at, encoded, ROW_TILE);
}

static void meet_back(const struct run *run, const struct block_scratch *scratch, struct slice gradients,
                      size_t first)
{
    const struct layer_space s = space_of(run, run->layer);
    const struct decoder_block *block = block_of(run);
    size_t at = first * run->dim, bytes = ROW_TILE * run->dim * sizeof(float);
    dense_backward(&block->cross.query, run->rows.kernels, run->pass->values, gradients,
                   run->space.dstream + at, true, run->space.cross.query + at, s.met + at, ROW_TILE);
    join_back(run, scratch, SITE_OWN, &block->own.output, &block->own_norm, gradients, s.middle, s.own.mixed,
              run->space.own.mixed, first);
    memset(run->space.own.query + at, 0, bytes);
    memset(run->space.own.key + at, 0, bytes);
    memset(run->space.own.value + at, 0, bytes);
}

static void enter_back(const struct run *run, const struct block_scratch *scratch, struct slice gradients,
                       size_t first)
{
    const struct layer_space s = space_of(run, run->layer);
    size_t at = first * run->dim;
    float *dx = scratch->narrow[0];
    self_attention_enter_backward(&block_of(run)->own, run->rows.kernels, run->pass->values, gradients, dx,
                                  run->space.own.query + at, run->space.own.key + at,
                                  run->space.own.value + at, s.x + at, ROW_TILE);
    run->rows.kernels->rows.axpy(run->space.dstream + at, 1, dx, ROW_TILE * run->dim);
}

static void input_back(const struct run *run, const struct block_scratch *scratch, struct slice gradients,
                       size_t first)
{
    const struct input_rows given = input_of(run);
    float *stream = run->space.dstream + first * run->dim;
    (void)scratch;
    drop_input(run, stream, first);
    input_backward_tile(&run->decoder->input, &run->rows, run->pass->values, gradients, stream, &given, first,
                        ROW_TILE);
}

/* A chunk of tiles, in order, into a partial gradient of its own. */
static void chunk_back(void *argument, size_t chunk, int worker)
{
    const struct run *run = argument;
    struct block_scratch scratch = scratch_of(run, worker);
    struct slice gradients = {run->space.partials + chunk * run->count, run->first};
    memset(gradients.floats, 0, run->count * sizeof(float));
    size_t tile, end;
    for (rows_chunk(run->over->tiles, run->chunks, chunk, &tile, &end); tile < end; tile++)
        run->tile(run, &scratch, gradients, tile * ROW_TILE);
    watch_lap(scratch.watch, PROFILE_PRODUCTS);
}

/* One stage, whose parameters are floats [first, end) of the block. */
static void stage_back(struct run *run, const struct rows *over, size_t first, size_t end,
                       void (*tile)(const struct run *, const struct block_scratch *, struct slice, size_t),
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

static void layer_back(struct run *run, float *gradients, const struct own_loss *own, size_t num_own)
{
    const struct decoder_pass *pass = run->pass;
    const struct decoder_block *b = block_of(run);
    const struct layer_space s = space_of(run, run->layer);
    const struct space *space = &run->space;
    const struct slice whole = {gradients, 0};
    stage_back(run, &run->rows, b->leave, b->end, leave_back, gradients);
    memset(space->cross.key, 0, space->encoded * sizeof(float));
    memset(space->cross.value, 0, space->encoded * sizeof(float));
    self_attention_mix_backward(&b->cross, &run->cross, pass->values, whole, &s.cross, &space->cross,
                                mix_key(run, SITE_CROSS));
    stage_back(run, &pass->encoder, b->keys, b->cross_mix, keys_back, gradients);
    stage_back(run, &run->rows, b->meet, b->keys, meet_back, gradients);
    self_attention_mix_backward(&b->own, &run->rows, pass->values, whole, &s.own, &space->own,
                                mix_key(run, SITE_OWN));
    for (size_t i = 0; i < num_own; i++)
        own_loss_of(run, own[i].mechanism, whole, own[i].weight);
    stage_back(run, &run->rows, b->enter, b->own_mix, enter_back, gradients);
}

void decoder_backward(const struct decoder_pass *pass, float *gradients, float *dencoded,
                      const struct own_loss *own, size_t num_own)
{
    assert(pass->training);
    struct run run = open_run(pass);
    const struct decoder *decoder = run.decoder;
    const struct input_rows given = input_of(&run);
    run.dencoded = dencoded;
    memset(dencoded, 0, run.space.encoded * sizeof *dencoded);
    stage_back(&run, &run.rows, decoder->norm.gain, decoder->end, last_back, gradients);
    for (run.layer = decoder->layers; run.layer-- > 0;)
        layer_back(&run, gradients, own, num_own);
    run.layer = 0;
    stage_back(&run, &run.rows, decoder->input.first, decoder->input.end, input_back, gradients);
    input_backward(&decoder->input, &run.rows, (struct slice){gradients, 0}, run.space.dstream, &given);
    profile_lap(run.rows.profile, PROFILE_EMBEDDING);
}
