/* Codes in blocks of rows are the codes of single rows, for both widths.
   Bugs tried and caught: offset of a block counted in rows, widths mixed up at 16 bits.
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
    static float x[N * D], unit[CODES_ROWS * LD], norm[CODES_ROWS];
    size_t bytes = codes_size(&hashing, N);
    assert_true(bytes == N * M * (hash_bits > 16 ? 4 : 2));
    void *all = malloc(bytes), *one = malloc(codes_size(&hashing, 1));
    float *planes = aligned_alloc(64, planes_size(YOSO_PLANES_GAUSSIAN, M, hash_bits, D));
    random_normals(1, 0, x, N * D);
    planes_draw(YOSO_PLANES_GAUSSIAN, M, hash_bits, D, 2, planes);
    codes_hash(kernels, all, &hashing, x, D, N, D, planes, unit, LD, norm);
    struct codes codes = codes_at(&hashing, all, N), single = codes_at(&hashing, one, 1);
    for (size_t i = 0; i < N; i++) {
        codes_hash(kernels, one, &hashing, x + i * D, D, 1, D, planes, unit, LD, norm);
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

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(blocks_are_rows)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
