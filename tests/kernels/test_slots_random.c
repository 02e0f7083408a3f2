/* The slots chance.normals and reflect on every table, by bits: normals against base/random.h, reflect
   against fma in the order of its contract. Bugs planted and caught: the last block of normals written whole;
   blocks of words counted wrongly; the column before the first reflected too.
   SPDX-License-Identifier: Apache-2.0 */
#include "kernels/slots.h"

static void normals_are_those_of_random(void **state)
{
    (void)state;
    FOR_EACH_TABLE(kernels)
    for (size_t n = 0; n < 300; n += n < 140 ? 1 : 31) {
        float *out = guard_floats(n), *want = guard_floats(n);
        char text[128];
        kernels->chance.normals(out, 0x123456789abcdef0u + n, n);
        random_normals(0x123456789abcdef0u + n, 0, want, n);
        check_same_bits(out, want, n * sizeof *out, of(text, "normals", kernels, n, 0));
        guard_free(out, n), guard_free(want, n);
    }
}

/* Every quarter of the circle and radii of every size: 400,000 pairs, whose least u is about 2.5e-6. */
static void many_normals_are_those_of_random(void **state)
{
    (void)state;
    enum { COUNT = 800000 };
    static float out[COUNT], want[COUNT];
    random_normals(7, 0, want, COUNT);
    FOR_EACH_TABLE(kernels)
    {
        kernels->chance.normals(out, 7, COUNT);
        check_same_bits(out, want, sizeof out, kernels->name);
    }
}

static void check_reflect(const struct kernels *kernels, size_t ld, size_t first, size_t dim)
{
    static double rows[WIDEST * 80], want[WIDEST * 80], axis[WIDEST];
    static float noise[WIDEST * 80];
    char text[128];
    random_normals(ld + first, 0, noise, dim * ld);
    for (size_t i = 0; i < dim * ld; i++)
        rows[i] = want[i] = (double)noise[i] / 3;
    random_normals(dim, 0, noise, dim);
    for (size_t c = 0; c < dim; c++)
        axis[c] = (double)noise[c] / 7;
    for (size_t l = first; l < ld; l++) {
        double dot = 0;
        for (size_t c = 0; c < dim; c++)
            dot = fma(axis[c], want[c * ld + l], dot);
        for (size_t c = 0; c < dim; c++)
            want[c * ld + l] = fma(-dot, axis[c], want[c * ld + l]);
    }
    kernels->chance.reflect(rows, ld, first, axis, dim);
    check_same_bits(rows, want, dim * ld * sizeof *rows, of(text, "reflect", kernels, ld, first));
}

static void columns_are_reflected(void **state)
{
    (void)state;
    FOR_EACH_TABLE(kernels)
    for (size_t ld = 16; ld <= 80; ld += 16) {
        for (size_t first = 0; first <= ld; first++)
            check_reflect(kernels, ld, first, 5);
        for (size_t w = 0; w < NUM_WIDTHS; w++)
            check_reflect(kernels, ld, w, widths[w]);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(normals_are_those_of_random),
                                       cmocka_unit_test(many_normals_are_those_of_random),
                                       cmocka_unit_test(columns_are_reflected)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
