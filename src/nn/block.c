/* The two residual branches, tile by tile. SPDX-License-Identifier: Apache-2.0 */
#include "nn/block.h"

#include <stdio.h>
#include <string.h>

#include "base/random.h"

/* Places where a block drops; indices of RANDOM_DROPOUT under the block's key. */
enum site { SITE_ATTENTION, SITE_WIDE, SITE_FFN };

static uint64_t site_key(const struct block_pass *pass, enum site site)
{
    return random_key(pass->random_key, RANDOM_DROPOUT, site);
}

hashattn_status block_describe(struct host *host, struct params *params, const char *name,
                               const struct block_shape *shape, struct block *block)
{
    char text[PARAM_NAME], attention[PARAM_NAME];
    snprintf(attention, sizeof attention, "%s.attention", name);
    block->dim = shape->dim;
    block->wide = shape->wide;
    block->first = params->total;
    snprintf(text, sizeof text, "%s.layernorm_before", name);
    TRY(norm_describe(host, params, text, shape->dim, &block->before));
    TRY(self_attention_describe_enter(host, params, attention, shape->dim, shape->heads, &block->attention));
    block->mix = params->total;
    TRY(self_attention_describe_mix(host, params, attention, shape->taps, shape->mechanism, shape->options,
                                    &block->attention));
    block->leave = params->total;
    TRY(self_attention_describe_leave(host, params, attention, &block->attention));
    snprintf(text, sizeof text, "%s.layernorm_after", name);
    TRY(norm_describe(host, params, text, shape->dim, &block->after));
    TRY(ffn_describe(host, params, name, shape->dim, shape->wide, &block->ffn));
    block->end = params->total;
    return HASHATTN_OK;
}

/* ---- into attention ----------------------------------------------------------------------------------- */

void block_enter(const struct block *block, const struct block_pass *pass, const struct block_space *space,
                 const struct block_scratch *scratch, size_t first)
{
    const struct kernels *kernels = pass->rows->kernels;
    const struct attention_space *a = &space->attention;
    size_t at = first * block->dim;
    float *normed = scratch->narrow[0];
    norm_forward(&block->before, kernels, pass->values, normed, scratch->statistics, space->x + at, ROW_TILE);
    watch_lap(scratch->watch, PROFILE_NORM);
    self_attention_enter(&block->attention, kernels, pass->values, a->query + at, a->key + at, a->value + at,
                         normed, ROW_TILE);
    watch_lap(scratch->watch, PROFILE_PRODUCTS);
}

void block_enter_backward(const struct block *block, const struct block_pass *pass,
                          const struct block_space *space, const struct block_scratch *scratch,
                          struct slice gradients, float *stream, const struct attention_gradients *d,
                          size_t first)
{
    const struct kernels *kernels = pass->rows->kernels;
    size_t at = first * block->dim;
    float *normed = scratch->narrow[0], *dnormed = scratch->narrow[1];
    norm_forward(&block->before, kernels, pass->values, normed, scratch->statistics, space->x + at, ROW_TILE);
    watch_lap(scratch->watch, PROFILE_NORM);
    self_attention_enter_backward(&block->attention, kernels, pass->values, gradients, dnormed, d->query + at,
                                  d->key + at, d->value + at, normed, ROW_TILE);
    watch_lap(scratch->watch, PROFILE_PRODUCTS);
    norm_backward(&block->before, kernels, pass->values, gradients, stream + at, dnormed, space->x + at,
                  scratch->statistics, ROW_TILE);
    watch_lap(scratch->watch, PROFILE_NORM);
}

/* ---- mixing ------------------------------------------------------------------------------------------- */

void block_mix(const struct block *block, const struct block_pass *pass, const struct block_space *space)
{
    self_attention_mix(&block->attention, pass->rows, pass->values, &space->attention, pass->random_key);
}

void block_mix_backward(const struct block *block, const struct block_pass *pass,
                        const struct block_space *space, struct slice gradients,
                        const struct attention_gradients *d)
{
    self_attention_mix_backward(&block->attention, pass->rows, pass->values, gradients, &space->attention, d,
                                pass->random_key);
}

double block_auxiliary(const struct block *block, const struct block_pass *pass,
                       const struct block_space *space, struct slice gradients, double weight)
{
    return self_attention_auxiliary(&block->attention, pass->rows, pass->values, gradients, weight,
                                    &space->attention, pass->random_key);
}

/* ---- after attention ---------------------------------------------------------------------------------- */

void block_leave(const struct block *block, const struct block_pass *pass, const struct block_space *space,
                 const struct block_scratch *scratch, float *y, size_t first)
{
    const struct rows *rows = pass->rows;
    size_t at = first * block->dim, dim = block->dim;
    float *branch = scratch->narrow[0], *normed = scratch->narrow[1];
    float *middle = space->middle + at;
    float *before = space->before == NULL ? scratch->wide : space->before + first * block->wide;
    float *after = space->after == NULL ? scratch->wide : space->after + first * block->wide;

    dense_forward(&block->attention.output, rows->kernels, pass->values, branch, space->attention.mixed + at,
                  ROW_TILE);
    watch_lap(scratch->watch, PROFILE_PRODUCTS);
    dropout_add_rows(&pass->dropout, site_key(pass, SITE_ATTENTION), rows, middle, space->x + at, branch,
                     first, ROW_TILE, dim);
    watch_lap(scratch->watch, PROFILE_DROPOUT);

    norm_forward(&block->after, rows->kernels, pass->values, normed, scratch->statistics, middle, ROW_TILE);
    watch_lap(scratch->watch, PROFILE_NORM);
    ffn_forward(&block->ffn, rows, pass->values, &pass->dropout, site_key(pass, SITE_WIDE), branch, before,
                after, normed, first, ROW_TILE, scratch->watch);
    dropout_add_rows(&pass->dropout, site_key(pass, SITE_FFN), rows, y + at, middle, branch, first, ROW_TILE,
                     dim);
    watch_lap(scratch->watch, PROFILE_DROPOUT);
}

void block_leave_backward(const struct block *block, const struct block_pass *pass,
                          const struct block_space *space, const struct block_scratch *scratch,
                          struct slice gradients, float *stream, const struct attention_gradients *d,
                          size_t first)
{
    const struct rows *rows = pass->rows;
    size_t at = first * block->dim, dim = block->dim, bytes = ROW_TILE * dim * sizeof(float);
    float *dbranch = scratch->narrow[0], *normed = scratch->narrow[1], *dnormed = scratch->narrow[2];
    const float *middle = space->middle + at;

    dropout_rows(&pass->dropout, site_key(pass, SITE_FFN), rows, dbranch, stream + at, first, ROW_TILE, dim);
    watch_lap(scratch->watch, PROFILE_DROPOUT);
    norm_forward(&block->after, rows->kernels, pass->values, normed, scratch->statistics, middle, ROW_TILE);
    watch_lap(scratch->watch, PROFILE_NORM);
    ffn_backward(&block->ffn, rows, pass->values, gradients, &pass->dropout, site_key(pass, SITE_WIDE),
                 dnormed, scratch->wide, dbranch, space->before + first * block->wide,
                 space->after + first * block->wide, normed, first, ROW_TILE, scratch->watch);
    norm_backward(&block->after, rows->kernels, pass->values, gradients, stream + at, dnormed, middle,
                  scratch->statistics, ROW_TILE);
    watch_lap(scratch->watch, PROFILE_NORM);

    dropout_rows(&pass->dropout, site_key(pass, SITE_ATTENTION), rows, dbranch, stream + at, first, ROW_TILE,
                 dim);
    watch_lap(scratch->watch, PROFILE_DROPOUT);
    dense_backward(&block->attention.output, rows->kernels, pass->values, gradients, d->mixed + at, false,
                   dbranch, space->attention.mixed + at, ROW_TILE);
    watch_lap(scratch->watch, PROFILE_PRODUCTS);

    memset(d->query + at, 0, bytes);
    memset(d->key + at, 0, bytes);
    memset(d->value + at, 0, bytes);
    watch_lap(scratch->watch, PROFILE_SUMS);
}
