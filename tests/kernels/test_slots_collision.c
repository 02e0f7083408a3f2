/* tiles.collisions on every table against atan2 and pow in double.
   Bugs planted and caught: u and v exchanged; a zero vector taken for a unit vector; p^(bits - 1) as power; a
   wrong power; slope without hash_bits, written where it is NULL, or given to near pairs; near pairs of
   missing lanes counted, opposite ones not; u^2 below 0; a wrong coefficient of the angle.
   SPDX-License-Identifier: Apache-2.0 */
#include "kernels/slots.h"

#define PI 3.14159265358979323846

enum { MOST_ROWS = 6 };

static void fill(float *x, float *norm2_query, float *norm2_key, size_t ld, size_t rows, size_t cols)
{
    for (size_t i = 0; i < rows; i++)
        norm2_query[i] = i % 5 == 3 ? 0.0f : 1.0f;
    for (size_t j = 0; j < cols; j++)
        norm2_key[j] = j % 7 == 6 ? 0.0f : 1.0f;
    for (size_t i = 0; i < rows; i++)
        for (size_t j = 0; j < cols; j++) {
            float *at = x + i * ld + j;
            size_t kind = (i * cols + j) % 11;
            if (norm2_query[i] * norm2_key[j] == 0)
                *at = 0;
            else if (kind == 4)
                *at = 1.0f + 1e-7f; /* rounded past 1 */
            else if (kind == 5)
                *at = -1.0f - 1e-7f;
            else if (kind == 6)
                *at = 0.9995f;
            else if (kind == 7)
                *at = -0.9985f;
            else
                *at = tanhf(*at);
        }
}

static void check_tile(const struct kernels *kernels, size_t rows, size_t cols, unsigned bits)
{
    char text[128];
    size_t ld = cols + 2, size = rows * ld - 2, near = 0;
    float *x = normals(cols, size), *norm2_query = guard_floats(rows), *norm2_key = guard_floats(cols);
    fill(x, norm2_query, norm2_key, ld, rows, cols);
    float *power = copy_of(x, size), *slope = guard_floats(size), *place = copy_of(x, size);
    size_t counted = kernels->tiles.collisions(power, slope, x, ld, rows, cols, norm2_query, norm2_key, bits);
    size_t in_place =
        kernels->tiles.collisions(place, NULL, place, ld, rows, cols, norm2_query, norm2_key, bits);
    of(text, "tiles.collisions", kernels, rows * 1000 + cols, bits);
    for (size_t i = 0; i < rows; i++)
        for (size_t j = 0; j < cols; j++) {
            size_t at = i * ld + j;
            double norms = (double)norm2_query[i] + (double)norm2_key[j];
            /* 2 - 2 x is rounded in float32, by up to an eps of 2, so it is computed here as the slot
               computes it. */
            double u2 = fmax((double)((float)norms - 2 * x[at]), 0),
                   v2 = fmax((double)((float)norms + 2 * x[at]), 0);
            bool is_near = u2 < (double)COLLISION_NEAR || v2 < (double)COLLISION_NEAR;
            near += is_near;
            double p = u2 + v2 == 0 ? 1 : 1 - 2 * atan2(sqrt(u2), sqrt(v2)) / PI;
            /* Twelve roundings in p (the polynomial damps its own), each times bits, and the powers. If the
               slot computes asin from only one of u^2 and v^2, the rounding of their sum away from 4 changes
               the angle by at most one rounding. */
            double want = pow(p, bits), room = (double)bits * 14 * ROUNDING;
            check_near((double)power[at], want, room * pow(p, bits - 1.0), text);
            double s = sqrt(u2 * v2) / 2, steep = is_near ? 0 : bits * pow(p, bits - 1.0) / (PI * s);
            check_near(
                (double)slope[at], steep,
                is_near ? 0 : (room + 6 * ROUNDING) * bits * pow(p, bits < 2 ? 0.0 : bits - 2.0) / (PI * s),
                text);
        }
    assert_int_equal(counted, near);
    assert_int_equal(in_place, near);
    for (size_t i = 0; i < rows; i++)
        check_same_bits(place + i * ld, power + i * ld, cols * sizeof *power, "in place");
    guard_free(x, size);
    guard_free(norm2_query, rows);
    guard_free(norm2_key, cols);
    guard_free(power, size);
    guard_free(slope, size);
    guard_free(place, size);
}

static void collisions_have_their_probability(void **state)
{
    (void)state;
    FOR_EACH_TABLE(kernels)
    for (size_t w = 0; w < NUM_WIDTHS; w++) {
        check_tile(kernels, 1 + w % MOST_ROWS, widths[w], 9);
        check_tile(kernels, 5, widths[w], 1 + (unsigned)w);
        check_tile(kernels, 4, widths[w], 24);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(collisions_have_their_probability),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
