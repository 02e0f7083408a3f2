/* The slot layers.dropout of every table, bit for bit against random_words: sizes around the blocks, indices
   around 2^32, in place and with a residual. Bugs tried and caught: halves of a word swapped; key words
   swapped; the high word of the index forgotten, or that of a group's first block taken for all; a group that
   begins where the one before did; nine rounds; threshold taken as inclusive; the last vector written in
   full; residual multiplied too.
   SPDX-License-Identifier: Apache-2.0 */
#include "kernels/slots.h"

static float wanted(uint64_t key, uint64_t first, size_t i, unsigned threshold, float scale, float residual,
                    float x)
{
    uint32_t words[4];
    random_words(key, first + i / 8, words);
    uint16_t pieces[8];
    for (int p = 0; p < 8; p++)
        pieces[p] = (uint16_t)(words[p / 2] >> (p % 2 == 0 ? 0 : 16));
    float kept = pieces[i % 8] >= threshold ? scale * x : 0.0f * x;
    return residual + kept;
}

static void check_case(const struct kernels *kernels, size_t n, uint64_t key, uint64_t first,
                       unsigned threshold)
{
    float scale = 1.25f, *x = normals(1, n), *residual = normals(2, n);
    float *want[2] = {guard_floats(n), guard_floats(n)};
    char text[128];
    of(text, "dropout", kernels, n, threshold);
    for (size_t i = 0; i < n; i++) {
        want[0][i] = wanted(key, first, i, threshold, scale, -0.0f, x[i]);
        want[1][i] = wanted(key, first, i, threshold, scale, residual[i], x[i]);
    }
    float *y = guard_floats(n), *copy = copy_of(x, n);
    kernels->layers.dropout(y, NULL, x, n, key, first, threshold, scale);
    check_same_bits(y, want[0], n * sizeof *y, text);
    kernels->layers.dropout(copy, NULL, copy, n, key, first, threshold, scale);
    check_same_bits(copy, want[0], n * sizeof *y, text);
    kernels->layers.dropout(y, residual, x, n, key, first, threshold, scale);
    check_same_bits(y, want[1], n * sizeof *y, text);
    kernels->layers.dropout(residual, residual, x, n, key, first, threshold, scale);
    check_same_bits(residual, want[1], n * sizeof *y, text);
    guard_free(x, n), guard_free(residual, n), guard_free(y, n), guard_free(copy, n);
    guard_free(want[0], n), guard_free(want[1], n);
}

/* Value and slope with the factors of dropout have the bits of the separate slots. */
static void check_gelu(const struct kernels *kernels, size_t n, uint64_t first, unsigned threshold)
{
    const uint64_t key = 0xfedcba9876543210u;
    const float scale = 1.25f;
    float *x = normals(3, n), *want = guard_floats(n), *want_slope = guard_floats(n), *y = guard_floats(n);
    float *slope = guard_floats(n);
    char text[128];
    of(text, "layers.gelu_again", kernels, n, threshold);
    kernels->layers.gelu_again(want, want_slope, x, n, 0, 0, 0, 1);
    kernels->layers.dropout(want, NULL, want, n, key, first, threshold, scale);
    kernels->layers.dropout(want_slope, NULL, want_slope, n, key, first, threshold, scale);
    kernels->layers.gelu_again(y, slope, x, n, key, first, threshold, scale);
    check_same_bits(y, want, n * sizeof *y, text);
    check_same_bits(slope, want_slope, n * sizeof *y, text);
    kernels->layers.gelu_again(x, slope, x, n, key, first, threshold, scale);
    check_same_bits(x, want, n * sizeof *y, "in place");
    guard_free(x, n), guard_free(y, n), guard_free(slope, n), guard_free(want, n), guard_free(want_slope, n);
}

static void gelu_again_drops_as_dropout(void **state)
{
    (void)state;
    FOR_EACH_TABLE(kernels)
    {
        for (size_t i = 0; i < NUM_WIDTHS; i++)
            check_gelu(kernels, widths[i], 3 * i, 6554);
        check_gelu(kernels, 0, 1, 2);
        check_gelu(kernels, 1000, 0xffffffffu - 60, 30000);
    }
}

static void dropout_draws_as_random_words(void **state)
{
    (void)state;
    FOR_EACH_TABLE(kernels)
    {
        for (size_t i = 0; i < NUM_WIDTHS; i++)
            check_case(kernels, widths[i], 0x123456789abcdef0u + i, 5 * i, 6554);
        check_case(kernels, 0, 1, 2, 3);
        check_case(kernels, 1000, UINT64_MAX, 0xffffffffu - 7, 30000);
        check_case(kernels, 1000, 7, UINT64_MAX - 50, 65535);
        check_case(kernels, 1000, 8, 1, 1);
        /* The low word of the index wraps at every position of every group of blocks. */
        for (uint64_t before = 0; before < 64; before++)
            check_case(kernels, 600, 11, 0xffffffffu - before, 20000);
        /* A threshold equal to one of the draws, which is then kept. */
        uint32_t words[4];
        random_words(9, 0, words);
        check_case(kernels, 16, 9, 0, words[0] & 0xffff);
        check_case(kernels, 16, 9, 0, (words[0] & 0xffff) + 1);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(dropout_draws_as_random_words),
                                       cmocka_unit_test(gelu_again_drops_as_dropout)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
