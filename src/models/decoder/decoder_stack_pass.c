/* The memory of a pass, and what its stages find there.
   SPDX-License-Identifier: Apache-2.0 */
#include <assert.h>

#include "base/memory.h"
#include "base/random.h"
#include "models/decoder/decoder_stack_parts.h"

/* ---- memory ------------------------------------------------------------------------------------------- */

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

static struct decoder_space lay(const struct decoder_pass *pass, void *memory)
{
    const struct decoder *decoder = pass->decoder;
    const struct trunk *trunk = decoder->trunk;
    struct arena arena = arena_on(memory);
    struct rows cross = cross_rows(pass);
    struct decoder_space s = {.narrow = size_product(pass->rows.padded, trunk->dim),
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
    struct decoder_space s = lay(pass, NULL);
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

struct decoder_run decoder_run_open(const struct decoder_pass *pass)
{
    const struct trunk *trunk = pass->decoder->trunk;
    return (struct decoder_run){
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

const struct decoder_block *decoder_run_block(const struct decoder_run *run)
{
    return &run->decoder->blocks[run->layer];
}

struct decoder_layer decoder_run_space(const struct decoder_run *run, size_t layer)
{
    const struct decoder_space *s = &run->space;
    size_t at = run->pass->training ? layer : 0;
    float *a[NARROW_ARRAYS], *encoded = s->arrays[1] + at * ENCODED_ARRAYS * s->encoded;
    for (size_t i = 0; i < NARROW_ARRAYS; i++)
        a[i] = s->arrays[0] + (at * NARROW_ARRAYS + i) * s->narrow;
    unsigned char *saved = s->saved + at * s->saved_bytes;
    return (struct decoder_layer){
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
static uint64_t key_of(const struct decoder_run *run)
{
    return random_key(run->pass->random_key, RANDOM_LAYER, run->decoder->first_layer + run->layer);
}

uint64_t decoder_site_key(const struct decoder_run *run, enum decoder_site site)
{
    return random_key(key_of(run), RANDOM_DROPOUT, site);
}

uint64_t decoder_mix_key(const struct decoder_run *run, enum decoder_site site)
{
    return random_key(key_of(run), RANDOM_LAYER, site);
}

struct block_scratch decoder_run_scratch(const struct decoder_run *run, int worker)
{
    return block_scratch_on(&run->decoder->trunk->blocks[0], run->pass->training,
                            run->space.tiles + (size_t)worker * run->space.tile_floats,
                            profile_watch(run->rows.profile, worker));
}

struct input_rows decoder_run_input(const struct decoder_run *run)
{
    return (struct input_rows){.floats = run->pass->floats};
}

void decoder_drop_input(const struct decoder_run *run, float *tile, size_t first)
{
    uint64_t key = random_key(run->pass->random_key, RANDOM_DROPOUT, 1); /* 0: the encoder's */
    dropout_rows(&run->dropout, key, &run->rows, tile, tile, first, ROW_TILE, run->dim);
}

double decoder_own_loss(const struct decoder_run *run, const struct mechanism *mechanism,
                        struct slice gradients, double weight)
{
    const struct decoder_layer s = decoder_run_space(run, run->layer);
    const struct decoder_block *block = decoder_run_block(run);
    return self_attention_auxiliary(&block->own, &run->rows, run->pass->values, mechanism, gradients, weight,
                                    &s.own, decoder_mix_key(run, SITE_OWN)) +
           self_attention_auxiliary(&block->cross, &run->cross, run->pass->values, mechanism, gradients,
                                    weight, &s.cross, decoder_mix_key(run, SITE_CROSS));
}
