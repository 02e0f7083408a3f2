/* The staircase of a causal bucket against its pairs one by one, with few rows and with enough that matrix
   products are cheaper.
   Bugs planted and caught: the rectangle with all keys; the keys that only later queries see left out, or
   given to all; the key at the edge seen.
   SPDX-License-Identifier: Apache-2.0 */
#include "parts/collisions/causal_pairs.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/random.h"
#include "support/check.h"

#define EPS 0x1p-24

enum { MOST = 1200, DIM = 7, VALUE_DIM = 5 };

struct side {
    uint32_t rows[MOST];
    float unit[MOST * DIM], value[MOST * VALUE_DIM], gradient[MOST * DIM], want[MOST * DIM];
};

/* `count` ascending row numbers below MOST, unit rows, values and gradients. */
static void fill(struct side *side, size_t count, uint64_t key)
{
    struct random random = random_open(key);
    for (size_t i = 0, row = 0; i < count; i++, row++)
        side->rows[i] = (uint32_t)(row += random_below(&random, (uint32_t)((MOST - count) / count + 1)));
    random_normals(key + 1, 0, side->unit, MOST * DIM);
    for (size_t i = 0; i < MOST; i++) {
        float square = 0;
        for (size_t c = 0; c < DIM; c++)
            square += side->unit[i * DIM + c] * side->unit[i * DIM + c];
        for (size_t c = 0; c < DIM; c++)
            side->unit[i * DIM + c] /= sqrtf(square);
    }
    random_normals(key + 2, 0, side->value, MOST * VALUE_DIM);
    random_normals(key + 3, 0, side->gradient, MOST * DIM);
    memcpy(side->want, side->gradient, sizeof side->want);
}

static void check(const struct kernels *kernels, size_t num_queries, size_t num_keys, bool tangent)
{
    struct side *queries = malloc(sizeof *queries), *keys = malloc(sizeof *keys);
    static size_t visible[MOST];
    static float bias[MOST];
    fill(queries, num_queries, 10 + num_queries);
    fill(keys, num_keys, 20 + num_keys);
    random_normals(1, 0, bias, MOST);
    for (size_t i = 0, seen = 0; i < MOST; i++) /* of all rows, not only the bucket's */
        visible[i] = seen += i % 3 == 0 ? 2 : i % 7 == 0;
    struct bucket_pairs bucket = {.queries = queries->rows,
                                  .keys = keys->rows,
                                  .num_queries = num_queries,
                                  .num_keys = num_keys,
                                  .query = queries->unit,
                                  .key = keys->unit,
                                  .value = keys->value,
                                  .dout = queries->value,
                                  .ld_query = DIM,
                                  .ld_key = DIM,
                                  .ld_value = VALUE_DIM,
                                  .ld_dout = VALUE_DIM,
                                  .dim = DIM,
                                  .value_dim = VALUE_DIM,
                                  .bias = bias,
                                  .dquery = queries->want,
                                  .dkey = keys->want,
                                  .scale = 0.7f,
                                  .weight = tangent ? PAIR_TANGENT : PAIR_CONSTANT,
                                  .hash_bits = 3};
    const struct kernels *plain = kernels_named("ref", &(const char *){0});
    for (size_t i = 0; i < num_queries; i++)
        for (size_t j = 0; j < num_keys; j++) {
            struct bucket_pairs one = bucket;
            one.queries += i;
            one.keys += j;
            one.num_queries = one.num_keys = 1;
            if (keys->rows[j] < visible[queries->rows[i]])
                plain->pairs.bucket(&one);
        }
    struct dense_scratch dense;
    struct arena arena = arena_on(NULL);
    dense_scratch_init(&dense, &arena, DIM, VALUE_DIM);
    void *block = aligned_alloc(64, arena.used);
    memset(block, 0xA5, arena.used);
    arena = arena_on(block);
    dense_scratch_init(&dense, &arena, DIM, VALUE_DIM);
    bucket.dquery = queries->gradient;
    bucket.dkey = keys->gradient;
    causal_pairs(kernels, &dense, &bucket, visible);
    /* As in test_dense_bucket.c; a tangent weight is at most 3 / (p pi s) if the units are not nearly
     * opposite. */
    double terms = (double)(num_queries + num_keys) * (VALUE_DIM + 1);
    double bound = (tangent ? 400 : 4) * EPS * terms * sqrt((double)(num_queries + num_keys + VALUE_DIM));
    for (size_t i = 0; i < MOST * DIM; i++) {
        check_near((double)queries->gradient[i], (double)queries->want[i], bound, "dquery");
        check_near((double)keys->gradient[i], (double)keys->want[i], bound, "dkey");
    }
    free(queries), free(keys), free(block);
}

static void equals_pairs_one_by_one(void **state)
{
    (void)state;
    static const size_t sizes[][2] = {{1, 1}, {1, 9}, {9, 1}, {3, 4}, {8, 8}, {40, 33}, {300, 600}};
    for (const struct kernels *const *kernels = kernels_all(); *kernels != NULL; kernels++)
        for (size_t s = 0; s < sizeof sizes / sizeof *sizes; s++) {
            check(*kernels, sizes[s][0], sizes[s][1], false);
            if (s < 6)
                check(*kernels, sizes[s][0], sizes[s][1], true);
        }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(equals_pairs_one_by_one)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
