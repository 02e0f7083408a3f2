/* hash.codes_dense and hash.pooled_codes on every table. The oracles are hash.codes and hash.codes_dp with
   the same planes in their own layout, and the formula of the contract. Bugs planted and caught: the signs of
   a second block of 16 planes shifted the wrong way; the third block of 24-bit codes left out; a run of 16
   hashes that starts at the wrong block; the start values of int8-dp skipped; a surplus row written; the low
   instead of the high lanes of a block taken; the step of c = 1 for all c; bit 0 that starts at c; the second
   copy of a row of the pool left out; the last row of the pool read past its end; a later block of rows read
   from the first; whole codes copied for c = 1; the last vector of a row stored whole. With AVX-512: indices
   not reduced modulo r, the c of the first lane for all, a row of the pool read past its end, the last vector
   of a row stored whole.
   SPDX-License-Identifier: Apache-2.0 */
#include <stdlib.h>

#include "kernels/slots.h"

enum { PROJECTIONS = 4 };
static const enum hash_projection projections[PROJECTIONS] = {HASH_F32, HASH_INT16_DP, HASH_BF16_DP,
                                                              HASH_INT8_DP};

/* Codes at the end of a guarded block: size bytes each. */
struct codes {
    float *block;
    size_t floats;
    char *data;
};

static struct codes codes_new(size_t count, size_t size)
{
    struct codes codes = {.floats = (count * size + 3) / 4};
    codes.block = guard_floats(codes.floats);
    codes.data = (char *)codes.block + (4 - count * size % 4) % 4;
    memset(codes.block, 0x5a, codes.floats * 4);
    return codes;
}

static void codes_free(struct codes *codes)
{
    guard_free(codes->block, codes->floats);
}

static size_t words_of(enum hash_projection projection, size_t dim)
{
    return projection == HASH_F32 ? dim : projection == HASH_INT8_DP ? (dim + 3) / 4 : (dim + 1) / 2;
}

/* The same random planes in both layouts, packed for a projection. */
struct planes {
    float *usual, *dense;
    size_t usual_floats, dense_floats;
};

static struct planes planes_new(const struct kernels *kernels, enum hash_projection projection, size_t m,
                                size_t bits, size_t dim)
{
    size_t groups = (m + 15) / 16, blocks = (m * bits + 15) / 16;
    size_t packed = 16 * (words_of(projection, dim) + (projection == HASH_INT8_DP));
    struct planes p = {.usual_floats = bits * groups * packed, .dense_floats = blocks * packed};
    float *usual = calloc(bits * groups * dim * 16, sizeof *usual);
    float *dense = calloc(blocks * dim * 16, sizeof *dense), *x = normals(m + bits, m * bits * dim);
    uint32_t *permutation = malloc(dim * sizeof *permutation);
    float *sign = malloc(dim * sizeof *sign);
    for (size_t h = 0; h < m; h++)
        for (size_t b = 0; b < bits; b++)
            for (size_t c = 0; c < dim; c++) {
                size_t plane = h * bits + b;
                float value = x[plane * dim + c] / sqrtf((float)dim) / 3;
                usual[((b * groups + h / 16) * dim + c) * 16 + h % 16] = value;
                dense[(plane / 16 * dim + c) * 16 + plane % 16] = value;
            }
    random_permutation(1, permutation, dim);
    random_signs(2, sign, dim);
    p.usual = guard_floats(p.usual_floats);
    p.dense = guard_floats(p.dense_floats);
    kernels->hash.pack_planes(p.usual, projection, usual, bits * groups, dim, permutation, sign);
    kernels->hash.pack_planes(p.dense, projection, dense, blocks, dim, permutation, sign);
    guard_free(x, m * bits * dim);
    free(usual), free(dense), free(permutation), free(sign);
    return p;
}

static void planes_free(struct planes *p)
{
    guard_free(p->usual, p->usual_floats);
    guard_free(p->dense, p->dense_floats);
}

static void check_dense(const struct kernels *kernels, enum hash_projection projection, size_t n, size_t dim,
                        size_t m, size_t bits)
{
    char text[128];
    size_t ld = (dim + 15) / 16 * 16 + 2, words = words_of(projection, dim), size = bits > 16 ? 4 : 2;
    struct planes planes = planes_new(kernels, projection, m, bits, dim);
    float *x = normals(n + dim, n * ld), *rows = guard_floats(n * ld), *squares = guard_floats(n);
    struct codes got = codes_new(n * m, size), want = codes_new(n * m, size);
    if (projection == HASH_F32) {
        memcpy(rows, x, n * ld * sizeof *x);
        kernels->hash.codes(want.data, size == 4, rows, ld, n, dim, planes.usual, m, bits);
    } else {
        kernels->hash.pack_rows((uint32_t *)(void *)rows, ld, squares, projection, x, ld, n, dim);
        kernels->hash.codes_dp(want.data, size == 4, projection, (const uint32_t *)(const void *)rows, ld, n,
                               words, (const uint32_t *)(const void *)planes.usual, m, bits);
    }
    kernels->hash.codes_dense(got.data, size == 4, projection, rows, ld, n, words, planes.dense, m, bits);
    snprintf(text, sizeof text, "hash.codes_dense of %s, projection %d, n %zu dim %zu m %zu bits %zu",
             kernels->name, (int)projection, n, dim, m, bits);
    check_same_bits(got.data, want.data, n * m * size, text);
    guard_free(x, n * ld);
    guard_free(rows, n * ld);
    guard_free(squares, n);
    codes_free(&got), codes_free(&want), planes_free(&planes);
}

static void dense_planes_have_the_same_codes(void **state)
{
    (void)state;
    static const size_t tokens[] = {0, 1, 7, 9, 16, 17, 63, 65, 130};
    static const size_t hashes[] = {1, 2, 7, 16, 17, 31, 37};
    FOR_EACH_TABLE(kernels)
    for (size_t p = 0; p < PROJECTIONS; p++) {
        for (size_t t = 0; t < sizeof tokens / sizeof *tokens; t++)
            check_dense(kernels, projections[p], tokens[t], 19, 17, 9);
        for (size_t h = 0; h < sizeof hashes / sizeof *hashes; h++)
            for (size_t bits = 1; bits <= 24; bits++)
                check_dense(kernels, projections[p], 18, 8, hashes[h], bits);
        for (size_t w = 0; w < NUM_WIDTHS; w++)
            check_dense(kernels, projections[p], 11, widths[w], 20, 5);
    }
}

static uint32_t read_code(const char *data, size_t size, size_t at)
{
    uint32_t code = 0;
    memcpy(&code, data + at * size, size); /* little-endian, as codes are on every machine that is tested */
    return code;
}

static void check_share(const struct kernels *kernels, size_t n, size_t r, size_t m, size_t bits)
{
    size_t size = bits > 16 ? 4 : 2, words = 2 * POOL_ROWS * (r + HASH_LANES);
    struct codes pool = codes_new(n * r, size), codes = codes_new(n * m, size), row = codes_new(m, size);
    float *work = guard_floats(words);
    for (size_t i = 0; i < n * r; i++) {
        uint32_t code = (uint32_t)random_key(n + r, RANDOM_BENCH, i) & (((uint32_t)1 << bits) - 1);
        memcpy(pool.data + i * size, &code, size);
    }
    kernels->hash.pooled_codes(codes.data, size == 4, pool.data, n, r, m, bits, (uint32_t *)(void *)work);
    for (size_t i = 0; i < n; i++) {
        for (size_t h = 0; h < m; h++) {
            uint32_t want = 0, got = read_code(codes.data, size, i * m + h);
            for (size_t b = 0; b < bits; b++)
                want |= read_code(pool.data, size, i * r + (h % r + b * (h / r)) % r) & (uint32_t)1 << b;
            if (got != want)
                fail_msg(
                    "hash.pooled_codes of %s: row %zu of %zu, r %zu m %zu bits %zu: hash %zu has %x, want %x",
                    kernels->name, i, n, r, m, bits, h, got, want);
        }
        kernels->hash.pooled_codes(row.data, size == 4, pool.data + i * r * size, 1, r, m, bits,
                                   (uint32_t *)(void *)work);
        check_same_bits(row.data, codes.data + i * m * size, m * size, "a row alone");
    }
    codes_free(&pool), codes_free(&codes), codes_free(&row);
    guard_free(work, words);
}

static void shared_codes_are_the_formula(void **state)
{
    (void)state;
    static const size_t rows[] = {0, 1, 3, 4, 5, 31, 32, 33, 70};
    static const size_t pools[] = {1, 2, 3, 11, 13, 16, 17, 31, 32, 37, 61};
    FOR_EACH_TABLE(kernels)
    {
        for (size_t t = 0; t < sizeof rows / sizeof *rows; t++)
            check_share(kernels, rows[t], 17, 64, 9);
        for (size_t p = 0; p < sizeof pools / sizeof *pools; p++)
            for (size_t m = 1; m < 140; m += 1 + m / 4)
                for (size_t bits = 1; bits <= 24; bits += 5)
                    check_share(kernels, 6, pools[p], m, bits);
        check_share(kernels, 5, 17, 289, 16);
        check_share(kernels, 5, 29, 841, 24);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(dense_planes_have_the_same_codes),
        cmocka_unit_test(shared_codes_are_the_formula),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
