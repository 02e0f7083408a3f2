/* Masks: counting rows, gathering and scattering them, for every mask of up to eight keys. Bugs planted
   and caught: a mask with a hole taken for a prefix; a prefix not recognized; a query that does not see
   its own key; one stride used for another; rows scattered one place too far.
   SPDX-License-Identifier: Apache-2.0 */
#include "attention/driver/kept.h"

#include <string.h>

#include "support/check.h"

static void every_small_mask(void **state)
{
    (void)state;
    enum { COLS = 3, STRIDE = 5, MOST = 8 };
    for (size_t n = 0; n <= MOST; n++)
        for (unsigned bits = 0; bits < 1u << n; bits++) {
            uint8_t mask[MOST];
            size_t count = 0;
            for (size_t i = 0; i < n; i++) {
                mask[i] = bits >> i & 1;
                count += mask[i];
            }
            struct kept kept = kept_count(mask, n);
            assert_int_equal(kept.count, count);
            assert_true(kept.prefix == (bits == (1u << count) - 1));
            size_t visible[MOST], seen = 0;
            kept_visible(mask, n, visible);
            for (size_t i = 0; i < n; i++)
                assert_int_equal(visible[i], seen += mask[i]);

            float rows[MOST * STRIDE], before[MOST * STRIDE];
            for (size_t i = 0; i < MOST * STRIDE; i++)
                rows[i] = before[i] = (float)i;
            struct view view = {.data = rows, .rows = n, .cols = COLS, .stride = STRIDE};
            float *block = guard_floats(count * COLS);
            const struct kernels *kernels = kernels_all()[0];
            struct view gathered = kept_gather(kernels, view, mask, kept, block);
            assert_int_equal(gathered.rows, count);
            assert_int_equal(gathered.cols, COLS);
            size_t at = 0;
            for (size_t i = 0; i < n; i++)
                if (mask[i])
                    check_same_bits((float *)gathered.data + at++ * gathered.stride, rows + i * STRIDE,
                                    COLS * sizeof(float), "gathered row");
            for (size_t i = 0; i < count * COLS; i++)
                block[i] += 1000;
            kept_put_back(kernels, gathered, mask, view);
            for (size_t i = 0; i < MOST * STRIDE; i++) {
                bool moved = i / STRIDE < n && mask[i / STRIDE] && i % STRIDE < COLS;
                assert_true(rows[i] == before[i] + (moved ? 1000 : 0));
            }
            /* The same rows as bfloat16: small integers, which are exact. */
            bf16 halves[MOST * STRIDE];
            for (size_t i = 0; i < MOST * STRIDE; i++)
                rows[i] = (float)i;
            kernels->bf16.round(halves, STRIDE, rows, STRIDE, MOST, STRIDE);
            struct view stored = {
                .data = halves, .dtype = DTYPE_BFLOAT16, .rows = n, .cols = COLS, .stride = STRIDE};
            gathered = kept_gather(kernels, stored, mask, kept, block);
            at = 0;
            for (size_t i = 0; i < n; i++)
                if (mask[i])
                    check_same_bits((float *)gathered.data + at++ * gathered.stride, before + i * STRIDE,
                                    COLS * sizeof(float), "widened row");
            for (size_t i = 0; i < count * COLS; i++)
                block[i] += 100;
            kept_put_back(kernels, gathered, mask, stored);
            kernels->bf16.widen(rows, STRIDE, halves, STRIDE, MOST, STRIDE);
            for (size_t i = 0; i < MOST * STRIDE; i++) {
                bool moved = i / STRIDE < n && mask[i / STRIDE] && i % STRIDE < COLS;
                assert_true(rows[i] == before[i] + (moved ? 100 : 0));
            }
            guard_free(block, count * COLS);
        }
}

static void no_mask_keeps_all(void **state)
{
    (void)state;
    struct kept kept = kept_count(NULL, 7);
    assert_true(kept.prefix && kept.count == 7);
    size_t visible[7];
    kept_visible(NULL, 7, visible);
    for (size_t i = 0; i < 7; i++)
        assert_int_equal(visible[i], i + 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_small_mask),
        cmocka_unit_test(no_mask_keeps_all),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
