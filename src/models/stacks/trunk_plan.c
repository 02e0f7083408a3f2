/* The plan of a trunk: its stages, the plans of its attentions, and the memory of a pass. In training every
   block has its own activations; in evaluation all blocks use one set, and rows are overwritten in place.
   SPDX-License-Identifier: Apache-2.0 */
#include <assert.h>

#include "base/memory.h"
#include "models/stacks/trunk_parts.h"

/* ---- stages ------------------------------------------------------------------------------------------- */

static struct stage between(size_t first, size_t end)
{
    return (struct stage){first, end - first};
}

static struct stage end_of(const struct trunk *trunk, size_t stage)
{
    if (stage == 0)
        return between(trunk->input.first, trunk->input.end);
    if (!trunk->crosses)
        return between(trunk->blocks[stage - 1].leave, trunk->blocks[stage - 1].end);
    const struct block *block = &trunk->blocks[(stage - 1) / 2];
    return stage % 2 == 0 ? between(block->cross.leave, block->end)
                          : between(block->leave, block->cross.attention.query.weight);
}

static struct stage beginning_of(const struct trunk *trunk, size_t stage)
{
    if (stage == trunk_mixings(trunk))
        return between(trunk_has_last_norm(trunk) ? trunk->norm.gain : trunk->end, trunk->end);
    if (!trunk->crosses)
        return between(trunk->blocks[stage].first, trunk->blocks[stage].mix);
    const struct block *block = &trunk->blocks[stage / 2];
    return stage % 2 == 0 ? between(block->first, block->mix)
                          : between(block->cross.attention.query.weight, block->cross.keys);
}

struct stage trunk_stage(const struct trunk *trunk, size_t stage, unsigned parts)
{
    assert(stage <= trunk_mixings(trunk));
    if (parts == STAGE_KEYS) {
        const struct block_cross *cross = &trunk->blocks[stage / 2].cross;
        return between(cross->keys, cross->mix);
    }
    const struct stage end = end_of(trunk, stage), beginning = beginning_of(trunk, stage);
    if (parts == STAGE_ENDS)
        return end;
    return parts == STAGE_BEGINS ? beginning : between(end.first, beginning.first + beginning.count);
}

/* The number of partial sums follows from the number of parameters (rows_chunks), so other lists would change
   the bits of trained models. */
const unsigned *trunk_sums(const struct trunk *trunk, size_t stage)
{
    static const unsigned together[] = {STAGE_ENDS | STAGE_BEGINS, 0},
                          apart[] = {STAGE_BEGINS, STAGE_ENDS, 0},
                          keys[] = {STAGE_KEYS, STAGE_ENDS | STAGE_BEGINS, 0};
    return !trunk->crosses ? together : stage % 2 == 0 ? apart : keys;
}

/* ---- the plans of attention --------------------------------------------------------------------------- */

/* The list of heads of a mixing: the last one is that of all later ones. */
static const struct mix_plan *list_of(const struct trunk_plan *plan, size_t mixing)
{
    return &plan->lists[size_min(mixing, plan->trunk->num_lists - 1)];
}

static const struct attention_layer *attention_at(const struct trunk *trunk, size_t mixing)
{
    if (!trunk->crosses)
        return &trunk->blocks[mixing].attention;
    const struct block *block = &trunk->blocks[mixing / 2];
    return mixing % 2 == 0 ? &block->attention : &block->cross.attention;
}

size_t trunk_num_plans(const struct trunk *trunk)
{
    size_t count = 0;
    for (size_t i = 0; i < trunk->num_lists; i++)
        count += attention_at(trunk, i)->num_groups;
    return count;
}

/* ---- memory ------------------------------------------------------------------------------------------- */

/* Bytes that attention saves in the mixings before this one. */
static size_t saved_before(const struct trunk_plan *plan, size_t mixing)
{
    size_t bytes = 0;
    for (size_t i = 0; i < mixing; i++)
        bytes = size_sum(bytes, list_of(plan, i)->saved_bytes);
    return bytes;
}

/* Bytes that attention saves in all mixings; in evaluation, where they use the same memory, the largest of
   them. */
static size_t saved_of_all(const struct trunk_plan *plan)
{
    size_t most = 0;
    for (size_t i = 0; i < plan->trunk->num_lists; i++)
        most = size_max(most, plan->lists[i].saved_bytes);
    return plan->training ? saved_before(plan, trunk_mixings(plan->trunk)) : most;
}

static size_t partial_floats(const struct trunk_plan *plan)
{
    size_t most = 0;
    for (size_t k = 0; k <= trunk_mixings(plan->trunk); k++)
        for (const unsigned *parts = trunk_sums(plan->trunk, k); *parts != 0; parts++) {
            size_t tiles = *parts == STAGE_KEYS ? plan->encoded.tiles : plan->rows.tiles;
            struct stage stage = trunk_stage(plan->trunk, k, *parts);
            most = size_max(most, rows_chunks(tiles, stage.count) * stage.count);
        }
    for (size_t k = 0; k <= trunk_mixings(plan->trunk); k++) { /* where backward ends early */
        size_t count = trunk_stage(plan->trunk, k, STAGE_BEGINS).count;
        most = size_max(most, rows_chunks(plan->rows.tiles, count) * count);
    }
    return most;
}

static void take_training(const struct trunk_plan *plan, struct trunk_space *s, struct arena *arena)
{
    const struct trunk *trunk = plan->trunk;
    size_t layers = trunk->layers, narrow = size_product(layers, s->narrow);
    s->middle = arena_take(arena, narrow, sizeof(float));
    s->mixed = trunk->taps > 0 ? arena_take(arena, narrow, sizeof(float)) : s->context;
    if (trunk->post)
        s->sum = arena_take(arena, narrow, sizeof(float));
    s->before = arena_take(arena, size_product(layers, s->wide), sizeof(float));
    struct attention_gradients *d = &s->d.attention;
    float **const gradients[] = {&s->dstream, &d->query, &d->key, &d->value, &d->mixed};
    for (size_t i = 0; i < sizeof gradients / sizeof *gradients; i++)
        *gradients[i] = arena_take(arena, s->narrow, sizeof(float));
    s->normed = d->mixed; /* unused until backward has left the last block */
    if (trunk->crosses) {
        s->cross.middle = arena_take(arena, narrow, sizeof(float));
        s->d.cross.query = d->query; /* read before these are cleared */
        s->d.cross.mixed = d->mixed;
        s->d.cross.key = arena_take(arena, s->encoded, sizeof(float));
        s->d.cross.value = arena_take(arena, s->encoded, sizeof(float));
    }
    s->partials = arena_take(arena, partial_floats(plan), sizeof(float));
}

struct trunk_space trunk_space_on(const struct trunk_plan *plan, void *memory, size_t *bytes)
{
    const struct trunk *trunk = plan->trunk;
    const struct rows *rows = &plan->rows;
    struct arena arena = arena_on(memory);
    size_t layers = trunk->layers, copies = plan->training ? layers : 1, mix_bytes = 0;
    bool given = trunk->input.kind == INPUT_GIVEN;
    struct trunk_space s = {
        .narrow = size_product(rows->padded, trunk->dim),
        .wide = size_product(rows->padded, trunk->wide),
        .encoded = size_product(plan->encoded.padded, trunk->dim),
        .tile_floats = block_scratch_size(&trunk->blocks[0], plan->training),
    };
    size_t narrow = size_product(copies, s.narrow), streams = plan->training ? layers + !given : 1;
    s.stream = arena_take(&arena, size_product(streams, s.narrow), sizeof(float));
    float **const arrays[] = {&s.query,   &s.key,         &s.value,        &s.context,
                              &s.cross.x, &s.cross.query, &s.cross.context};
    for (size_t i = 0; i < (trunk->crosses ? 7 : 4); i++)
        *arrays[i] = arena_take(&arena, narrow, sizeof(float));
    if (trunk->crosses) {
        s.cross.key = arena_take(&arena, size_product(copies, s.encoded), sizeof(float));
        s.cross.value = arena_take(&arena, size_product(copies, s.encoded), sizeof(float));
    }
    for (size_t i = 0; i < trunk->num_lists; i++)
        mix_bytes = size_max(mix_bytes, plan->lists[i].scratch_bytes);
    s.saved = arena_take(&arena, saved_of_all(plan), 1);
    s.mix_scratch = arena_take(&arena, mix_bytes, 1);
    s.tiles =
        arena_take(&arena, size_product((size_t)pool_threads(rows->pool), s.tile_floats), sizeof(float));
    s.middle = s.stream;
    s.cross.middle = s.cross.x;
    s.mixed = s.context;
    s.normed = s.query;
    if (plan->training)
        take_training(plan, &s, &arena);
    *bytes = arena.used;
    return s;
}

hashattn_status trunk_plan_make(struct host *host, const struct trunk *trunk, const struct rows *rows,
                                const struct rows *encoded, bool training, struct plan_set *set,
                                struct mix_plan *lists, struct trunk_plan *plan)
{
    size_t bytes;
    *plan = (struct trunk_plan){
        .trunk = trunk, .rows = *rows, .cross = *rows, .training = training, .lists = lists};
    assert(trunk->crosses == (encoded != NULL));
    if (encoded != NULL) {
        assert(encoded->num_sequences == rows->num_sequences);
        plan->encoded = *encoded;
        plan->cross.key_offsets = encoded->offsets;
    }
    for (size_t i = 0; i < trunk->num_lists; i++) {
        const struct rows *mixed = trunk->crosses && i % 2 == 1 ? &plan->cross : &plan->rows;
        TRY(attention_layer_plan(host, attention_at(trunk, i), mixed, set, &lists[i]));
    }
    plan->saved_bytes = saved_of_all(plan);
    trunk_space_on(plan, NULL, &bytes);
    plan->memory_bytes = bytes;
    return HASHATTN_OK;
}

/* ---- the arrays of a block ---------------------------------------------------------------------------- */

float *trunk_stream(const struct trunk_pass *pass, size_t layer)
{
    const struct trunk_space *s = &pass->space;
    if (s->given != NULL && layer == 0)
        return s->given;
    return s->stream + (pass->plan->training ? (layer - (s->given != NULL)) * s->narrow : 0);
}

struct block_space trunk_block_space(const struct trunk_pass *pass, size_t layer)
{
    const struct trunk_plan *plan = pass->plan;
    const struct trunk_space *s = &pass->space;
    const struct dropout dropout = plan->training ? plan->trunk->attention_dropout : dropout_of(0);
    size_t per_block = plan->trunk->crosses ? 2 : 1, mixing = layer * per_block;
    size_t at = plan->training ? layer : 0, narrow = at * s->narrow, wide = at * s->wide;
    struct block_space space = {
        .x = trunk_stream(pass, layer),
        .middle = s->middle + narrow,
        .sum = s->sum == NULL ? NULL : s->sum + narrow,
        .before = s->before == NULL ? NULL : s->before + wide,
        .attention =
            {
                .plan = list_of(plan, mixing),
                .dropout = dropout,
                .query = s->query + narrow,
                .key = s->key + narrow,
                .value = s->value + narrow,
                .context = s->context + narrow,
                .mixed = s->mixed + narrow,
                .saved = s->saved + saved_before(plan, plan->training ? mixing : 0),
                .scratch = s->mix_scratch,
            },
    };
    if (!plan->trunk->crosses)
        return space;
    size_t encoded = at * s->encoded;
    space.cross.x = s->cross.x + narrow;
    space.cross.middle = s->cross.middle + narrow;
    space.cross.attention = (struct attention_space){
        .plan = list_of(plan, mixing + 1),
        .dropout = dropout,
        .query = s->cross.query + narrow,
        .key = s->cross.key + encoded,
        .value = s->cross.value + encoded,
        .context = s->cross.context + narrow,
        .mixed = s->cross.context + narrow,
        .saved = s->saved + saved_before(plan, plan->training ? mixing + 1 : 0),
        .scratch = s->mix_scratch,
    };
    return space;
}
