/* A crowded bucket by matrix products against slot pairs.bucket, with sizes around the row blocks, with
   and without bias; and the choice between the two.
   Bugs planted and caught: the second block of keys overwriting the product of the first, the bias left
   out of one side, the scale applied to both sides, gradients written instead of added, rows read in order
   instead of by number, a size limit below which no bucket is crowded that is too large.
   SPDX-License-Identifier: Apache-2.0 */
#include "parts/collisions/dense_bucket.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/random.h"
#include "support/check.h"

#define EPS 0x1p-24

enum { MOST = 300 };

static float *normals(size_t count, uint64_t key)
{
    float *x = malloc(count * sizeof *x);
    assert_non_null(x);
    random_normals(key, 0, x, count);
    return x;
}

static void check_size(const struct kernels *kernels, size_t num_queries, size_t num_keys, size_t dim,
                       size_t value_dim, bool biased)
{
    uint32_t queries[MOST], keys[MOST];
    size_t ld = dim + 3, ld_value = value_dim + 1, unit = MOST * ld, value = MOST * ld_value;
    float *query = normals(unit, 1), *key = normals(unit, 2), *v = normals(value, 3), *g = normals(value, 4),
          *bias = normals(MOST, 5);
    float *dquery[2], *dkey[2];
    for (int way = 0; way < 2; way++) {
        dquery[way] = normals(unit, 6);
        dkey[way] = normals(unit, 7);
    }
    random_permutation(8, queries, MOST);
    random_permutation(9, keys, MOST);
    struct bucket_pairs bucket = {.queries = queries,
                                  .keys = keys,
                                  .num_queries = num_queries,
                                  .num_keys = num_keys,
                                  .query = query,
                                  .key = key,
                                  .value = v,
                                  .dout = g,
                                  .ld_query = ld,
                                  .ld_key = ld,
                                  .ld_value = ld_value,
                                  .ld_dout = ld_value,
                                  .dim = dim,
                                  .value_dim = value_dim,
                                  .bias = biased ? bias : NULL,
                                  .dquery = dquery[0],
                                  .dkey = dkey[0],
                                  .scale = 0.7f};
    kernels_named("ref", &(const char *){0})->pairs.bucket(&bucket);
    struct dense_scratch dense;
    struct arena arena = arena_on(NULL);
    dense_scratch_init(&dense, &arena, dim, value_dim);
    void *block = aligned_alloc(64, arena.used);
    memset(block, 0xA5, arena.used);
    arena = arena_on(block);
    dense_scratch_init(&dense, &arena, dim, value_dim);
    bucket.dquery = dquery[1];
    bucket.dkey = dkey[1];
    dense_pairs(kernels, &dense, &bucket);
    /* Every element is a sum of (partners * columns) terms g v k, each of size about 1; this also holds
       for each partial sum, in both directions. */
    double terms = (double)(num_queries + num_keys) * (double)(value_dim + 1);
    double bound = 4 * EPS * terms * sqrt((double)(num_queries + num_keys + value_dim));
    for (size_t i = 0; i < unit; i++) {
        check_near((double)dquery[1][i], (double)dquery[0][i], bound, "dquery");
        check_near((double)dkey[1][i], (double)dkey[0][i], bound, "dkey");
    }
    free(query), free(key), free(v), free(g), free(bias), free(block);
    free(dquery[0]), free(dquery[1]), free(dkey[0]), free(dkey[1]);
}

static void equals_pairs(void **state)
{
    (void)state;
    static const size_t sizes[][4] = {{1, 1, 1, 1},       {3, 2, 5, 4},    {127, 129, 8, 3}, {128, 128, 3, 8},
                                      {300, 257, 16, 16}, {1, 300, 2, 17}, {290, 5, 33, 1}};
    for (const struct kernels *const *kernels = kernels_all(); *kernels != NULL; kernels++)
        for (size_t s = 0; s < sizeof sizes / sizeof *sizes; s++)
            for (int biased = 0; biased < 2; biased++)
                check_size(*kernels, sizes[s][0], sizes[s][1], sizes[s][2], sizes[s][3], biased);
}

static void takes_the_cheaper_way(void **state)
{
    (void)state;
    struct bucket_pairs bucket = {.num_queries = 8, .num_keys = 8, .dim = 64, .value_dim = 64};
    assert_false(dense_is_cheaper(&bucket));
    bucket.num_queries = bucket.num_keys = 200;
    assert_true(dense_is_cheaper(&bucket));
    bucket.num_queries = 1;
    bucket.num_keys = 100000;
    assert_false(dense_is_cheaper(&bucket));
    bucket.num_queries = bucket.num_keys = (size_t)1 << 31;
    assert_true(dense_is_cheaper(&bucket));
    bucket.weight = PAIR_TANGENT;
    assert_false(dense_is_cheaper(&bucket));
}

/* Below the size limit no bucket is crowded; with one row more it can be. */
static void few_rows_are_never_a_crowd(void **state)
{
    (void)state;
    for (size_t dim = 1; dim < 200; dim += 7)
        for (size_t value_dim = 1; value_dim < 200; value_dim += 11) {
            struct bucket_pairs bucket = {
                .num_queries = (size_t)1 << 30, .dim = dim, .value_dim = value_dim, .weight = PAIR_CONSTANT};
            bucket.num_keys = dense_never(dim, value_dim);
            assert_false(dense_is_cheaper(&bucket));
            bucket.num_keys++;
            assert_true(dense_is_cheaper(&bucket));
        }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(equals_pairs),
                                       cmocka_unit_test(takes_the_cheaper_way),
                                       cmocka_unit_test(few_rows_are_never_a_crowd)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
