/* Feature maps on every table. Bugs planted and caught: sine and cosine exchanged; the last piece of pi left
   out; the scale left out of the cosine; the sign of a number without digits not bounded; elu without its 1,
   or its exponential of positive numbers; a slope above 1.
   SPDX-License-Identifier: Apache-2.0 */
#include "kernels/slots.h"

static void elu_is_its_definition(void **state)
{
    (void)state;
    char text[128];
    FOR_EACH_TABLE(kernels)
    for (size_t w = 0; w < NUM_WIDTHS; w++) {
        size_t rows = 1 + w % 4, cols = widths[w], ld = cols + 2, size = rows * ld - 2;
        float *x = normals(1, size), *y = guard_floats(size), *alone = guard_floats(cols);
        for (size_t i = 0; i < size; i++)
            x[i] *= i % 5 == 0 ? 40.0f : i % 7 == 0 ? 1e-6f : 1.0f;
        kernels->features.elu(y, ld, x, ld, rows, cols);
        for (size_t i = 0; i < rows; i++) {
            for (size_t c = 0; c < cols; c++) {
                double from = (double)x[i * ld + c], want = from > 0 ? from + 1 : exp(from);
                check_near((double)y[i * ld + c], want, 6 * ROUNDING * want + 1e-37,
                           of(text, "features.elu", kernels, rows, cols));
            }
            kernels->features.elu(alone, cols, x + i * ld, ld, 1, cols);
            check_same_bits(alone, y + i * ld, cols * sizeof *alone, "a row alone");
        }
        float *dy = normals(2, size), *dx = normals(3, size), *before = copy_of(dx, size);
        kernels->features.elu_backward(dx, ld, dy, y, ld, rows, cols);
        for (size_t i = 0; i < rows; i++)
            for (size_t c = 0; c < cols; c++) {
                size_t at = i * ld + c;
                double add = (double)dy[at] * fmin((double)y[at], 1);
                check_near((double)dx[at], (double)before[at] + add,
                           4 * ROUNDING * (fabs((double)before[at]) + fabs(add)),
                           of(text, "features.elu_backward", kernels, rows, cols));
            }
        guard_free(dy, size);
        guard_free(dx, size);
        guard_free(before, size);
        kernels->features.elu(x, ld, x, ld, rows, cols);
        for (size_t i = 0; i < rows; i++)
            check_same_bits(x + i * ld, y + i * ld, cols * sizeof *x, "in place");
        guard_free(x, size);
        guard_free(y, size);
        guard_free(alone, cols);
    }
}

static void sines_are_sines(void **state)
{
    (void)state;
    char text[128];
    FOR_EACH_TABLE(kernels)
    for (size_t w = 0; w < NUM_WIDTHS; w++) {
        size_t rows = 1 + w % 4, cols = widths[w], ld = cols + 3, size = rows * ld - 3;
        float *x = normals(1, size), *sine = guard_floats(size), *cosine = guard_floats(size), scale = 0.125f;
        float *alone = guard_floats(2 * cols);
        for (size_t i = 0; i < size; i++)
            x[i] *= i % 5 == 0 ? 2000.0f : i % 7 == 0 ? 1e-4f : 3.0f;
        x[0] = 3.14159274f;
        kernels->features.sines(sine, cosine, ld, x, ld, rows, cols, scale);
        for (size_t i = 0; i < rows; i++) {
            for (size_t c = 0; c < cols; c++) {
                double from = (double)x[i * ld + c], room = 3e-7 * (double)scale;
                of(text, "features.sines", kernels, rows, cols);
                check_near((double)sine[i * ld + c], (double)scale * sin(from), room, text);
                check_near((double)cosine[i * ld + c], (double)scale * cos(from), room, text);
            }
            kernels->features.sines(alone, alone + cols, cols, x + i * ld, ld, 1, cols, scale);
            check_same_bits(alone, sine + i * ld, cols * sizeof *alone, "a row alone");
            check_same_bits(alone + cols, cosine + i * ld, cols * sizeof *alone, "a row alone");
        }
        kernels->features.sines(sine, x, ld, x, ld, rows, cols, scale);
        for (size_t i = 0; i < rows; i++)
            check_same_bits(x + i * ld, cosine + i * ld, cols * sizeof *x, "in place");
        guard_free(x, size);
        guard_free(sine, size);
        guard_free(cosine, size);
        guard_free(alone, 2 * cols);
    }
}

static void sines_of_any_number_are_bounded(void **state)
{
    (void)state;
    static const float odd[] = {1e5f, -1e9f, 1e20f, -3e38f, FLT_MAX, INFINITY, -INFINITY, NAN, 0.0f, 1e-40f};
    enum { COUNT = sizeof odd / sizeof *odd };
    FOR_EACH_TABLE(kernels)
    {
        float sine[COUNT], cosine[COUNT];
        kernels->features.sines(sine, cosine, COUNT, odd, COUNT, 1, COUNT, 2);
        for (size_t i = 0; i < COUNT; i++)
            if (!(fabsf(sine[i]) <= 2.002f && fabsf(cosine[i]) <= 2.002f))
                fail_msg("%s: sine %g, cosine %g of %g", kernels->name, (double)sine[i], (double)cosine[i],
                         (double)odd[i]);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(elu_is_its_definition),
        cmocka_unit_test(sines_are_sines),
        cmocka_unit_test(sines_of_any_number_are_bounded),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
