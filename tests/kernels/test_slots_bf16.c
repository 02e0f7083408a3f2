/* bfloat16 on every table: rounding and widening by bits for every kind of number, the interleaved layout,
   and the product against double precision.
   Bugs planted and caught: half rounded up in a tie; a NaN rounded to infinity, or left signalling; the
   last row paired with what follows it; a partial vector of B read whole (guard page); add ignored in blocks
   of two rows; columns of the last vectors taken from half their place; a last block of three vectors
   computed as two; its whole vectors masked like the last; the sign lost in odd rows. With tiles: the second
   slab of depth without the first; NaN beside the last pairs; the second rows from the first; columns of the
   edge read whole; another body for few rows; the last pairs of the first columns for all; add ignored.
   SPDX-License-Identifier: Apache-2.0 */
#include "kernels/slots.h"

static uint32_t bits_of(float a)
{
    uint32_t bits;
    memcpy(&bits, &a, sizeof bits);
    return bits;
}

static float number_of(uint32_t bits)
{
    float a;
    memcpy(&a, &bits, sizeof a);
    return a;
}

static double value_of(bf16 a)
{
    return (double)number_of((uint32_t)a << 16);
}

/* The nearest bfloat16, by comparing the two neighbours; no arithmetic on the bits of a. a is not NaN. */
static bf16 nearest(float a)
{
    bf16 down = (bf16)(bits_of(a) >> 16), up = (bf16)(down + 1);
    if (value_of(down) == (double)a)
        return down;
    /* The step above the largest finite number is infinity; 2^128 replaces it in the distance. */
    double above = isinf(value_of(up)) ? copysign(ldexp(1, 128), (double)a) : value_of(up);
    double low = fabs((double)a - value_of(down)), high = fabs(above - (double)a);
    return low < high || (low == high && down % 2 == 0) ? down : up;
}

/* Numbers that are hard to round, then normals, then random bits. */
static float *hard_numbers(size_t count)
{
    static const uint32_t hard[] = {
        0x00000000, 0x80000000, 0x3f800000, 0x3f808000, 0x3f818000, 0x3f808001, 0x3f807fff, 0x00000001,
        0x00008000, 0x00018000, 0x007fffff, 0x7f7fffff, 0x7f7f8000, 0x7f7f7fff, 0xff7fffff, 0x7f800000,
        0xff800000, 0x7fc00000, 0xffc12345, 0x7f800001, 0xff80ffff, 0x7fffffff, 0xffffffff, 0x3fffffff,
    };
    enum { HARD = sizeof hard / sizeof hard[0] };
    float *x = normals(7, count);
    for (size_t i = 0; i < count; i++) {
        uint32_t bits = i % 3 == 0 ? hard[i / 3 % HARD] : (uint32_t)i * 2654435761u;
        if (i % 3 != 1)
            memcpy(&x[i], &bits, sizeof bits);
    }
    return x;
}

static bf16 wanted(float a)
{
    uint32_t bits = bits_of(a);
    return isnan(a) ? (bf16)(bits >> 16 | 0x40) : nearest(a);
}

static bf16 *guard_bf16(size_t count)
{
    return (bf16 *)(void *)(guard_floats((count + 1) / 2)) + count % 2;
}

static void guard_free_bf16(bf16 *x, size_t count)
{
    guard_free((float *)(void *)(x - count % 2), (count + 1) / 2);
}

static void bf16_round_is_to_nearest_even(void **state)
{
    (void)state;
    char text[128];
    FOR_EACH_TABLE(kernels)
    for (size_t w = 0; w < NUM_WIDTHS; w++) {
        size_t rows = 1 + w % 5, cols = widths[w], ld_in = cols + 1, ld_out = cols + 3;
        size_t size_in = rows * ld_in - 1, size_out = rows * ld_out - 3;
        float *in = hard_numbers(size_in);
        bf16 *out = guard_bf16(size_out);
        memset(out, 0x5a, size_out * sizeof *out);
        kernels->bf16.round(out, ld_out, in, ld_in, rows, cols);
        of(text, "bf16.round", kernels, rows, cols);
        for (size_t i = 0; i < rows; i++)
            for (size_t c = 0; c < ld_out && i * ld_out + c < size_out; c++) {
                bf16 want = c < cols ? wanted(in[i * ld_in + c]) : 0x5a5a;
                check_same_bits(&out[i * ld_out + c], &want, sizeof want, text);
            }
        guard_free(in, size_in);
        guard_free_bf16(out, size_out);
    }
}

static void bf16_widen_is_exact(void **state)
{
    (void)state;
    char text[128];
    FOR_EACH_TABLE(kernels)
    for (size_t w = 0; w < NUM_WIDTHS; w++) {
        size_t rows = 1 + w % 4, cols = widths[w], ld_in = cols + 1, ld_out = cols + 2;
        size_t size_in = rows * ld_in - 1, size_out = rows * ld_out - 2;
        bf16 *in = guard_bf16(size_in);
        float *out = normals(1, size_out), *want = copy_of(out, size_out);
        for (size_t i = 0; i < size_in; i++)
            in[i] = (bf16)(i * 40503u);
        for (size_t i = 0; i < rows; i++)
            for (size_t c = 0; c < cols; c++)
                want[i * ld_out + c] = number_of((uint32_t)in[i * ld_in + c] << 16);
        kernels->bf16.widen(out, ld_out, in, ld_in, rows, cols);
        check_same_bits(out, want, size_out * sizeof *out, of(text, "bf16.widen", kernels, rows, cols));
        guard_free_bf16(in, size_in);
        guard_free(out, size_out);
        guard_free(want, size_out);
    }
}

static void bf16_interleave_puts_two_rows_side_by_side(void **state)
{
    (void)state;
    char text[128];
    FOR_EACH_TABLE(kernels)
    for (size_t w = 0; w < NUM_WIDTHS; w++) {
        size_t rows = 1 + w % 6, pairs = (rows + 1) / 2, cols = widths[w], ld_in = cols + 1;
        size_t ld_out = 2 * cols + 2, size_in = rows * ld_in - 1, size_out = pairs * ld_out - 2;
        float *in = hard_numbers(size_in);
        bf16 *out = guard_bf16(size_out);
        memset(out, 0x5a, size_out * sizeof *out);
        kernels->bf16.interleave(out, ld_out, in, ld_in, rows, cols);
        of(text, "bf16.interleave", kernels, rows, cols);
        for (size_t k = 0; k < 2 * pairs; k++)
            for (size_t j = 0; j < cols; j++) {
                bf16 want = k < rows ? wanted(in[k * ld_in + j]) : 0;
                check_same_bits(&out[k / 2 * ld_out + 2 * j + k % 2], &want, sizeof want, text);
            }
        for (size_t k = 0; k + 1 < pairs; k++)
            assert_int_equal(out[k * ld_out + 2 * cols], 0x5a5a);
        guard_free(in, size_in);
        guard_free_bf16(out, size_out);
    }
}

static bf16 *random_bf16(uint64_t seed, size_t count)
{
    bf16 *x = guard_bf16(count);
    float *floats = normals(seed, count);
    for (size_t i = 0; i < count; i++)
        x[i] = nearest(floats[i]);
    guard_free(floats, count);
    return x;
}

static void check_product(const struct kernels *kernels, size_t rows, size_t cols, size_t pairs, bool add)
{
    char text[128];
    size_t ld_a = 2 * pairs + 3, ld_b = 2 * cols + 2, ld_c = cols + 1;
    size_t size_a = rows * pairs == 0 ? 0 : (rows - 1) * ld_a + 2 * pairs;
    size_t size_b = pairs == 0 ? 0 : (pairs - 1) * ld_b + 2 * cols, size_c = rows == 0 ? 0 : rows * ld_c - 1;
    bf16 *a = random_bf16(rows, size_a), *b = random_bf16(cols, size_b);
    float *c = normals(pairs, size_c), *before = copy_of(c, size_c), *alone = copy_of(c, size_c);
    kernels->bf16.product(c, ld_c, a, ld_a, b, ld_b, rows, cols, pairs, add);
    of(text, "bf16.product", kernels, rows * 1000 + cols, pairs);
    for (size_t i = 0; i < rows; i++) {
        for (size_t j = 0; j < cols; j++) {
            double sum = add ? (double)before[i * ld_c + j] : 0, size = fabs(sum);
            for (size_t k = 0; k < 2 * pairs; k++) {
                double term = value_of(a[i * ld_a + k]) * value_of(b[k / 2 * ld_b + 2 * j + k % 2]);
                sum += term;
                size += fabs(term);
            }
            /* Products of bfloat16 are exact in float32; one rounding per term, and possibly one per pair. */
            check_near((double)c[i * ld_c + j], sum, (double)(3 * pairs + 1) * ROUNDING * size, text);
        }
        if (i + 1 < rows)
            check_same_bits(&c[i * ld_c + cols], &before[i * ld_c + cols], sizeof *c, "beside the row");
        kernels->bf16.product(alone + i * ld_c, ld_c, a + i * ld_a, ld_a, b, ld_b, 1, cols, pairs, add);
    }
    check_same_bits(alone, c, size_c * sizeof *c, "the rows one by one");
    guard_free_bf16(a, size_a);
    guard_free_bf16(b, size_b);
    guard_free(c, size_c);
    guard_free(before, size_c);
    guard_free(alone, size_c);
}

static void bf16_product_is_the_product(void **state)
{
    (void)state;
    static const size_t rows[] = {0, 1, 2, 3, 4, 5, 6, 7, 11, 12, 64};
    /* Around tiles of 16 rows and 16 pairs, blocks of two tiles, and slabs of 128 pairs. */
    static const size_t tall[] = {1, 15, 16, 17, 31, 32, 33, 49}, deep[] = {8, 15, 16, 17, 31, 33, 128, 150};
    FOR_EACH_TABLE(kernels)
    {
        for (size_t r = 0; r < 11; r++)
            for (size_t w = 0; w < NUM_WIDTHS; w++)
                check_product(kernels, rows[r], widths[w], 1 + (r + w) % 9, (r + w) % 3 == 0);
        check_product(kernels, 5, 0, 3, false);
        check_product(kernels, 5, 20, 0, false);
        check_product(kernels, 5, 20, 0, true);
        check_product(kernels, 64, 64, 32, false);
        check_product(kernels, 70, 72, 100, true);
        for (size_t d = 0; d < 8; d++)
            for (size_t t = 0; t < 8; t++)
                check_product(kernels, tall[t], widths[(3 * d + 5 * t) % NUM_WIDTHS], deep[d], (d + t) % 2);
        check_product(kernels, 33, 300, 21, false); /* more columns than pass a block of rows at once */
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(bf16_round_is_to_nearest_even),
        cmocka_unit_test(bf16_widen_is_exact),
        cmocka_unit_test(bf16_interleave_puts_two_rows_side_by_side),
        cmocka_unit_test(bf16_product_is_the_product),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
