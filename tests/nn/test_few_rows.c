/* A block on a few rows that are alone has the bits that these rows have in a tile: pre-LN and post-LN, both
   precisions, packed and unpacked weights, any number of rows and threads. Bugs planted and caught: the norm
   before attention left out; the two norms swapped; biases left out for few rows; the last panel of a layer
   not computed.
   SPDX-License-Identifier: Apache-2.0 */
#include "nn/few_rows.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "attention/driver/attention.h"
#include "support/check.h"
#include "support/layers.h"

enum { DIM = 48, HEADS = 3, WIDE = 1500 };

struct few_case {
    struct layer_test base;
    struct block block;
    const float *values;
    float *x; /* (ROW_TILE, DIM) */
};

static void open_case(struct few_case *c, enum block_norm norm, enum precision precision, size_t wide,
                      int threads)
{
    const struct head_group group = {attention_find("none"), NULL, HEADS};
    const struct block_shape shape = {.dim = DIM,
                                      .heads = HEADS,
                                      .wide = wide,
                                      .norm = norm,
                                      .norm_epsilon = 1e-5,
                                      .groups = &group,
                                      .num_groups = 1,
                                      .causal = true,
                                      .activation = norm == BLOCK_PRE_NORM ? FFN_GELU : FFN_RELU};
    memset(c, 0, sizeof *c);
    layer_test_open(&c->base, threads);
    layer_test_shift(&c->base);
    c->base.params.precision = precision;
    check_status(&c->base.host, block_describe(&c->base.host, &c->base.params, "block", &shape, &c->block),
                 HASHATTN_OK, NULL);
    layer_test_start(&c->base, 4);
    c->values = layer_test_pack(&c->base, false);
    c->x = new_normals(7, ROW_TILE * DIM, 1);
}

static void close_case(struct few_case *c)
{
    free(c->x);
    layer_test_close(&c->base);
}

/* out, query, key, value (ROW_TILE, DIM): those of the tile, with the values as output of the mechanism. */
static void run_tile(struct few_case *c, float *query, float *key, float *value, float *out)
{
    const size_t offsets[] = {0, ROW_TILE};
    const struct rows rows = rows_of(c->base.kernels, c->base.pool, 1, offsets, NULL);
    const struct block_pass pass = {.rows = &rows, .values = c->values, .dropout = dropout_of(0)};
    const struct block_space space = {
        .x = c->x, .middle = c->x, .attention = {.query = query, .key = key, .value = value, .mixed = value}};
    float *scratch = new_zeros(block_scratch_size(&c->block, false));
    const struct block_scratch laid = block_scratch_on(&c->block, false, scratch, NULL);
    float *before = new_zeros(ROW_TILE * DIM);
    memcpy(before, c->x, ROW_TILE * DIM * sizeof *before);
    block_enter(&c->block, &pass, &space, &laid, 0);
    block_leave(&c->block, &pass, &space, &laid, out, 0);
    memcpy(c->x, before, ROW_TILE * DIM * sizeof *before);
    free(before);
    free(scratch);
}

static void rows_have_the_bits_of_a_tile(void **state)
{
    (void)state;
    static const size_t widths[] = {96, WIDE};
    float *query = new_zeros(ROW_TILE * DIM), *key = new_zeros(ROW_TILE * DIM),
          *value = new_zeros(ROW_TILE * DIM), *out = new_zeros(ROW_TILE * DIM);
    for (int way = 0; way < 16; way++) {
        struct few_case c;
        open_case(&c, way & 1 ? BLOCK_POST_NORM : BLOCK_PRE_NORM,
                  way & 2 ? PRECISION_BF16 : PRECISION_FLOAT32, widths[way >> 2 & 1], way & 8 ? 3 : 1);
        run_tile(&c, query, key, value, out);
        struct arena arena = arena_on(NULL);
        few_space_take(&c.block, &arena);
        void *block = aligned_alloc(64, (arena.used + 63) / 64 * 64);
        memset(block, 0xff, arena.used);
        arena = arena_on(block);
        const struct few_space space = few_space_take(&c.block, &arena);
        for (size_t first = 0, count = 1; count <= FEW_ROWS; first += count++) {
            const struct few_rows rows = {c.base.kernels, c.base.pool, c.values, count};
            size_t at = first * DIM, bytes = count * DIM * sizeof(float);
            float x[FEW_ROWS * DIM];
            memcpy(x, c.x + at, bytes);
            few_rows_enter(&c.block, &rows, &space, x, NULL);
            check_same_bits(space.query, query + at, bytes, "query");
            check_same_bits(space.key, key + at, bytes, "key");
            check_same_bits(space.value, value + at, bytes, "value");
            memcpy(space.mixed, space.value, bytes);
            few_rows_leave(&c.block, &rows, &space, x);
            check_same_bits(x, out + at, bytes, "output");
        }
        free(block);
        close_case(&c);
    }
    free(query);
    free(key);
    free(value);
    free(out);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(rows_have_the_bits_of_a_tile),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
