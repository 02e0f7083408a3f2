/* The forward formulas of block.h on rows that are alone.
   SPDX-License-Identifier: Apache-2.0 */
#include "nn/few_rows.h"

#include <assert.h>
#include <string.h>

struct few_space few_space_take(const struct block *block, struct arena *arena)
{
    struct few_space space;
    float **const narrow[] = {&space.query, &space.key,    &space.value,
                              &space.mixed, &space.normed, &space.branch};
    for (size_t i = 0; i < sizeof narrow / sizeof *narrow; i++)
        *narrow[i] = arena_take(arena, size_product(FEW_ROWS, block->dim), sizeof(float));
    space.wide = arena_take(arena, size_product(FEW_ROWS, block->wide), sizeof(float));
    space.statistics = arena_take(arena, 2 * FEW_ROWS, sizeof(float));
    space.halves = NULL;
    if (block->ffn.first.precision == PRECISION_BF16)
        space.halves =
            arena_take(arena, size_product(FEW_ROWS, weights_left_width(size_max(block->dim, block->wide))),
                       sizeof(bf16));
    return space;
}

static void dense(const struct dense *layer, const struct few_rows *rows, const struct few_space *space,
                  float *y, const float *x)
{
    dense_forward_shared(layer, rows->kernels, rows->pool, rows->values, y, x, rows->count, space->halves);
}

static void norm(const struct norm *norm, const struct few_rows *rows, const struct few_space *space,
                 float *y, const float *x)
{
    norm_forward(norm, rows->kernels, rows->values, y, space->statistics, x, rows->count);
}

void few_rows_enter(const struct block *block, const struct few_rows *rows, const struct few_space *space,
                    const float *x, const float *places)
{
    const struct attention_layer *attention = &block->attention;
    assert(rows->count >= 1 && rows->count <= FEW_ROWS);
    assert(!block->cross.present && attention->convolution.taps == 0);
    if (block->norm == BLOCK_PRE_NORM) {
        norm(&block->first_norm, rows, space, space->normed, x);
        x = space->normed;
    }
    attention_layer_enter(attention, rows->kernels, rows->pool, rows->values, space->query, space->key,
                          space->value, x, rows->count, space->halves);
    if (attention->placed.columns > 0)
        attention_layer_place(attention, rows->kernels, rows->values, space->query, space->key, places,
                              rows->count, space->branch, space->halves);
}

void few_rows_leave(const struct block *block, const struct few_rows *rows, const struct few_space *space,
                    float *x)
{
    const struct kernels *kernels = rows->kernels;
    const struct ffn *ffn = &block->ffn;
    size_t narrow = rows->count * block->dim;
    bool post = block->norm == BLOCK_POST_NORM;
    dense(&block->attention.output, rows, space, space->branch, space->mixed);
    kernels->rows.axpy(x, 1.0f, space->branch, narrow);
    norm(post ? &block->first_norm : &block->second_norm, rows, space, space->normed, x);
    dense(&ffn->first, rows, space, space->wide, space->normed);
    ffn_activate(ffn, kernels, space->wide, space->wide, rows->count * block->wide);
    dense(&ffn->second, rows, space, space->branch, space->wide);
    kernels->rows.axpy(post ? space->normed : x, 1.0f, space->branch, narrow);
    if (post)
        norm(&block->second_norm, rows, space, x, space->normed);
}
