/* Codes in blocks of rows are the codes of single rows, for both widths; no length changes a code, except
   that a row shorter than 1e-12 has code 0.
   Bugs tried and caught: offset of a block counted in rows, widths mixed up at 16 bits, short rows hashed,
   huge rows left to overflow.
   SPDX-License-Identifier: Apache-2.0 */
#include "parts/codes.h"

#include <stdlib.h>
#include <string.h>

#include "base/random.h"
#include "parts/planes.h"
#include "parts/yoso_options.h"
#include "support/check.h"

enum { N = 2 * CODES_ROWS + 5, D = 6, LD = 16, M = 19 };

static uint32_t code_at(const struct codes *codes, size_t row, size_t hash)
{
    size_t at = row * codes->num_hashes + hash;
    return codes->wide ? ((const uint32_t *)codes->data)[at] : ((const uint16_t *)codes->data)[at];
}

static void check_blocks(size_t hash_bits)
{
    const struct hashing hashing = {.num_hashes = M, .hash_bits = hash_bits};
    const struct kernels *kernels = kernels_named(NULL, &(const char *){0});
    static float x[N * D], rows[CODES_ROWS * LD], squares[CODES_ROWS];
    size_t bytes = codes_size(&hashing, N);
    assert_true(bytes == N * M * (hash_bits > 16 ? 4 : 2));
    void *all = malloc(bytes), *one = malloc(codes_size(&hashing, 1));
    float *planes = aligned_alloc(64, planes_size(YOSO_PLANES_GAUSSIAN, M, hash_bits, D));
    random_normals(1, 0, x, N * D);
    planes_draw(YOSO_PLANES_GAUSSIAN, M, hash_bits, D, 2, planes);
    codes_hash(kernels, all, &hashing, x, D, N, D, planes, rows, LD, squares);
    struct codes codes = codes_at(&hashing, all, N), single = codes_at(&hashing, one, 1);
    for (size_t i = 0; i < N; i++) {
        codes_hash(kernels, one, &hashing, x + i * D, D, 1, D, planes, rows, LD, squares);
        for (size_t h = 0; h < M; h++) {
            assert_int_equal(code_at(&codes, i, h), code_at(&single, 0, h));
            assert_true(code_at(&codes, i, h) < (uint32_t)1 << hash_bits);
        }
    }
    free(all), free(one), free(planes);
}

static void blocks_are_rows(void **state)
{
    (void)state;
    check_blocks(1);
    check_blocks(16);
    check_blocks(17);
    check_blocks(24);
}

static void lengths_change_no_code(void **state)
{
    (void)state;
    enum { LENGTHS = 6, ROWS = 40, BITS = 10 };
    static const float length[LENGTHS] = {1, 0x1p-30f, 0x1p55f, 0x1p126f, 0x1p-45f, 0x1p-90f};
    const struct hashing hashing = {.num_hashes = M, .hash_bits = BITS};
    static float rows[CODES_ROWS * LD], squares[CODES_ROWS];
    float *planes = aligned_alloc(64, planes_size(YOSO_PLANES_GAUSSIAN, M, BITS, D)), x[ROWS * D];
    uint16_t want[ROWS * M], got[ROWS * M];
    static const uint16_t zeros[ROWS * M];
    planes_draw(YOSO_PLANES_GAUSSIAN, M, BITS, D, 2, planes);
    for (const struct kernels *const *kernels = kernels_all(); *kernels != NULL; kernels++)
        for (size_t l = 0; l < LENGTHS; l++) {
            random_normals(1, 0, x, ROWS * D);
            for (size_t i = 0; i < ROWS * D; i++)
                x[i] *= length[l];
            codes_hash(*kernels, got, &hashing, x, D, ROWS, D, planes, rows, LD, squares);
            if (l == 0 && kernels == kernels_all())
                memcpy(want, got, sizeof want);
            bool is_short = l >= 4; /* 2^-45 is 3e-14 */
            check_same_bits(got, is_short ? zeros : want, sizeof want, "codes of scaled rows");
        }
    free(planes);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(blocks_are_rows),
                                       cmocka_unit_test(lengths_change_no_code)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
