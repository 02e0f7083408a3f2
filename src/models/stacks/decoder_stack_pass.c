/* The memory of a pass, and what its stages find there.
   SPDX-License-Identifier: Apache-2.0 */
#include <assert.h>

#include "base/memory.h"
#include "base/random.h"
#include "models/stacks/decoder_stack_parts.h"

/* ---- memory ------------------------------------------------------------------------------------------- */

enum { NARROW_ARRAYS = 12, ENCODED_ARRAYS = 2 };

static size_t partial_floats(const struct decoder_plan *plan)
{
    const struct decoder *decoder = plan->decoder;
    size_t most = 0;
    for (size_t i = 0; i < decoder->layers; i++) {
        const struct decoder_block *b = &decoder->blocks[i];
        const size_t counts[] = {b->own_mix - b->enter, b->keys - b->meet, b->end - b->leave};
        for (size_t k = 0; k < 3; k++)
            most = size_max(most, rows_chunks(plan->rows.tiles, counts[k]) * counts[k]);
        size_t keys = b->cross_mix - b->keys;
        most = size_max(most, rows_chunks(plan->encoder.tiles, keys) * keys);
    }
    const size_t ends[] = {decoder->input.end - decoder->input.first, decoder->end - decoder->norm.gain};
    for (size_t k = 0; k < 2; k++)
        most = size_max(most, rows_chunks(plan->rows.tiles, ends[k]) * ends[k]);
    return most;
}

/* memory: NULL counts bytes. */
static struct decoder_space lay(const struct decoder_plan *plan, void *memory)
{
    const struct decoder *decoder = plan->decoder;
    const struct trunk *trunk = decoder->trunk;
    struct arena arena = arena_on(memory);
    struct decoder_space s = {.narrow = size_product(plan->rows.padded, trunk->dim),
                              .wide = size_product(plan->rows.padded, trunk->wide),
                              .encoded = size_product(plan->encoder.padded, trunk->dim),
                              .kept = plan->training ? decoder->layers : 1,
                              .tile_floats = block_scratch_size(&trunk->blocks[0], plan->training)};
    size_t mix_bytes = 0, cross_bytes = 0;
    for (size_t i = 0; i < decoder->layers; i++) {
        const struct mix_plan *own = &plan->own[i], *met = &plan->met[i];
        s.own_bytes = size_max(s.own_bytes, own->saved_bytes);
        cross_bytes = size_max(cross_bytes, met->saved_bytes);
        mix_bytes = size_max(mix_bytes, size_max(own->scratch_bytes, met->scratch_bytes));
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
        arena_take(&arena, size_product((size_t)pool_threads(plan->rows.pool), s.tile_floats), sizeof(float));
    if (plan->training) {
        float **const narrow[] = {&s.dstream,   &s.own.query,   &s.own.key,    &s.own.value,
                                  &s.own.mixed, &s.cross.query, &s.cross.mixed};
        for (size_t i = 0; i < sizeof narrow / sizeof *narrow; i++)
            *narrow[i] = arena_take(&arena, s.narrow, sizeof(float));
        s.cross.key = arena_take(&arena, s.encoded, sizeof(float));
        s.cross.value = arena_take(&arena, s.encoded, sizeof(float));
        s.partials = arena_take(&arena, partial_floats(plan), sizeof(float));
    }
    s.bytes = arena.used;
    return s;
}

struct decoder_plan decoder_plan_on(const struct decoder *decoder, struct arena *arena)
{
    struct decoder_plan plan = {.decoder = decoder};
    plan.own = arena_take(arena, decoder->layers, sizeof *plan.own);
    plan.met = arena_take(arena, decoder->layers, sizeof *plan.met);
    return plan;
}

size_t decoder_num_plans(const struct decoder *decoder)
{
    size_t count = 0;
    for (size_t i = 0; i < decoder->layers; i++)
        count += decoder->blocks[i].own.num_groups + decoder->blocks[i].cross.num_groups;
    return count;
}

hashattn_status decoder_plan_make(struct host *host, const struct rows *rows, const struct rows *encoder,
                                  bool training, struct plan_set *set, struct decoder_plan *plan)
{
    plan->rows = plan->cross = *rows;
    plan->encoder = *encoder;
    plan->cross.key_offsets = encoder->offsets;
    plan->training = training;
    for (size_t i = 0; i < plan->decoder->layers; i++) {
        const struct decoder_block *block = &plan->decoder->blocks[i];
        TRY(self_attention_plan(host, &block->own, &plan->rows, set, &plan->own[i]));
        TRY(self_attention_plan(host, &block->cross, &plan->cross, set, &plan->met[i]));
    }
    const struct decoder_space space = lay(plan, NULL);
    plan->memory_bytes = space.bytes;
    plan->saved_bytes = size_product(space.kept, space.saved_bytes);
    return HASHATTN_OK;
}

float *decoder_gradient(const struct decoder_pass *pass)
{
    assert(pass->plan->training);
    return lay(pass->plan, pass->memory).dstream;
}

const float *decoder_rows(const struct decoder_pass *pass)
{
    return lay(pass->plan, pass->memory).normed;
}

/* ---- a pass ------------------------------------------------------------------------------------------- */

struct decoder_run decoder_run_open(const struct decoder_pass *pass)
{
    const struct decoder_plan *plan = pass->plan;
    const struct trunk *trunk = plan->decoder->trunk;
    return (struct decoder_run){
        .pass = pass,
        .decoder = plan->decoder,
        .dim = trunk->dim,
        .rows = plan->rows,
        .cross = plan->cross,
        .space = lay(plan, pass->memory),
        .dropout = plan->training ? trunk->dropout : dropout_of(0),
        .attention_dropout = plan->training ? trunk->attention_dropout : dropout_of(0),
    };
}

const struct decoder_block *decoder_run_block(const struct decoder_run *run)
{
    return &run->decoder->blocks[run->layer];
}

struct decoder_layer decoder_run_space(const struct decoder_run *run, size_t layer)
{
    const struct decoder_space *s = &run->space;
    const struct decoder_plan *plan = run->pass->plan;
    size_t at = plan->training ? layer : 0;
    float *a[NARROW_ARRAYS], *encoded = s->arrays[1] + at * ENCODED_ARRAYS * s->encoded;
    for (size_t i = 0; i < NARROW_ARRAYS; i++)
        a[i] = s->arrays[0] + (at * NARROW_ARRAYS + i) * s->narrow;
    unsigned char *saved = s->saved + at * s->saved_bytes;
    return (struct decoder_layer){
        .x = a[0],
        .own = {&plan->own[layer], run->attention_dropout, a[1], a[2], a[3], a[4], a[4], saved,
                s->mix_scratch},
        .cross = {&plan->met[layer], run->attention_dropout, a[5], encoded, encoded + s->encoded, a[6], a[6],
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
    return block_scratch_on(&run->decoder->trunk->blocks[0], run->pass->plan->training,
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
