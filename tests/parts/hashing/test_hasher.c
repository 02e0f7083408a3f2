/* Codes of both sides, computed in blocks on any number of threads, are those of the rows one by one, for
   both maps and both kinds of element; a number that is not finite is reported. Bugs planted and caught: a
   block of keys counted from the blocks of queries; codes of a block written at the beginning; keys mapped
   as queries; the length M of the options ignored; threads sharing scratch memory; the hyperplanes not
   rotated; the pool's codes of one thread written over those of another.
   SPDX-License-Identifier: Apache-2.0 */
#include "parts/hashing/hasher.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/random.h"
#include "parts/hashing/hadamard.h"
#include "parts/hashing/planes.h"
#include "parts/hashing/unit_map.h"
#include "support/check.h"

enum { N_Q = 9 * CODES_ROWS + 3, N_K = 5 * CODES_ROWS + 70, D = 7, LD = 11 };

/* The codes of n rows, one by one, from the parts of hasher. */
static void codes_alone(const struct kernels *kernels, const struct yoso_options *options, const float *drawn,
                        const float *x, size_t n, bool of_keys, void *codes)
{
    const struct hashing hashing = hashing_of(options);
    const struct planes_form form = hasher_form(options, D);
    size_t width = unit_map_width(options, D), ld = unit_padded(width);
    float *planes = malloc(hasher_planes(options, D) * sizeof *planes);
    float *rows = malloc(codes_work(&hashing, width) * sizeof *rows), *mapped = malloc(ld * sizeof *mapped);
    float sign[D + 2], squares[CODES_ROWS], norm;
    uint32_t permutation[D + 2];
    if (hadamard_is(hashing.planes))
        hadamard_rotate(&hashing, width, (uint32_t *)(void *)planes, drawn, 99, permutation, sign);
    else
        planes_rotate(kernels, hashing.projection, planes, drawn, &form, 99, permutation, sign);
    for (size_t i = 0; i < n; i++) {
        const float *row = x + i * LD;
        if (!unit_map_is_l2(options)) {
            unit_map_take(mapped, ld, &norm, row, LD, 1, D, options->max_norm, of_keys);
            row = mapped;
        }
        codes_hash(kernels, (char *)codes + codes_size(&hashing, i), &hashing, row, LD, 1, width, planes,
                   rows, ld, squares);
    }
    free(planes), free(rows), free(mapped);
}

static void check_codes(const struct yoso_options *options, struct pool *pool, enum dtype dtype, size_t n_q,
                        size_t n_k)
{
    const struct kernels *kernels = kernels_named(NULL, &(const char *){0});
    const struct hashing hashing = hashing_of(options);
    size_t workers = (size_t)pool_threads(pool);
    static float query[N_Q * LD], key[N_K * LD];
    random_normals(1, 0, query, N_Q * LD);
    random_normals(2, 0, key, N_K * LD);
    static bf16 query_half[N_Q * LD], key_half[N_K * LD];
    bool half = dtype == DTYPE_BFLOAT16;
    if (half) {
        kernels->bf16.round(query_half, LD, query, LD, N_Q, LD);
        kernels->bf16.round(key_half, LD, key, LD, N_K, LD);
        kernels->bf16.widen(query, LD, query_half, LD, N_Q, LD);
        kernels->bf16.widen(key, LD, key_half, LD, N_K, LD);
    }
    const struct planes_form which = hasher_form(options, D);
    float *drawn = malloc(hasher_planes(options, D) * sizeof *drawn);
    void *work = aligned_alloc(64, planes_work_size(&which, 1) / 64 * 64 + 64);
    if (hadamard_is(which.kind))
        hadamard_draw(&which, 5, drawn);
    else
        planes_draw(kernels, NULL, &which, 5, drawn, work);
    free(work);

    struct hasher hasher;
    struct arena size = arena_on(NULL);
    hasher_init(&hasher, &size, options, D, workers);
    float *block = guard_floats(size.used / sizeof(float));
    memset(block, 0xff, size.used);
    struct arena arena = arena_on(block);
    hasher_init(&hasher, &arena, options, D, workers);
    hasher.planes = malloc(hasher_planes(options, D) * sizeof(float));
    hasher_turn(kernels, &hasher, drawn, 99);

    char *codes[2][2];
    const size_t bytes[2] = {codes_size(&hashing, n_q), codes_size(&hashing, n_k)};
    for (int side = 0; side < 2; side++)
        for (int form = 0; form < 2; form++)
            codes[side][form] = calloc(1, bytes[side] + 1);
    const struct view queries = {half ? (void *)query_half : query, n_q, D, LD, dtype};
    const struct view keys = {half ? (void *)key_half : key, n_k, D, LD, dtype};
    assert_true(hasher_codes(kernels, pool, &hasher, queries, keys, codes[0][0], codes[1][0]));
    codes_alone(kernels, options, drawn, query, n_q, false, codes[0][1]);
    codes_alone(kernels, options, drawn, key, n_k, true, codes[1][1]);
    check_same_bits(codes[0][0], codes[0][1], bytes[0] + 1, "codes of queries");
    check_same_bits(codes[1][0], codes[1][1], bytes[1] + 1, "codes of keys");

    if (n_k > 0) { /* one bad number, in the last element that is read */
        key[(n_k - 1) * LD + D - 1] = NAN;
        key_half[(n_k - 1) * LD + D - 1] = 0xff80;
        assert_false(hasher_codes(kernels, pool, &hasher, queries, keys, codes[0][0], codes[1][0]));
    }
    for (int i = 0; i < 4; i++)
        free(codes[i / 2][i % 2]);
    free(hasher.planes), free(drawn);
    guard_free(block, size.used / sizeof(float));
}

static void blocks_have_the_codes_of_rows(void **state)
{
    (void)state;
    struct host host;
    host_init(&host);
    for (int form = 0; form < 48; form++) {
        struct yoso_options options;
        options_preset(yoso_sampled_rows, &options);
        options.num_hashes = 5;
        options.plane_pool = form < 24 ? 0 : 3; /* fewer than bits: any number will do here */
        options.planes = form % 12 < 8 ? PLANES_ORTHOGONAL : PLANES_HADAMARD + form / 12 % 2;
        options.hash_bits = form % 2 ? 17 : 4;
        options.map = form / 2 % 2 ? YOSO_MAP_NEYSHABUR : YOSO_MAP_L2;
        options.max_norm = options.map == YOSO_MAP_L2 ? 0 : 6;
        struct pool *pool;
        check_status(&host, pool_new(&host, 1 + form / 4 % 3, &pool), HASHATTN_OK, NULL);
        enum dtype dtype = form / 12 % 2 ? DTYPE_BFLOAT16 : DTYPE_FLOAT32;
        check_codes(&options, pool, dtype, N_Q, N_K);
        check_codes(&options, pool, dtype, 0, CODES_ROWS + 1);
        check_codes(&options, pool, dtype, 1, 0);
        pool_free(&host, pool);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(blocks_have_the_codes_of_rows)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
