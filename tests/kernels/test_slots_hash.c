/* hash.unit, hash.unit_backward and hash.codes on every table.
   Bugs planted and caught: the tail of a row read whole (guard page); >= for > in the bit; a product rounded
   before it is added; the sum begun at the second coordinate; the bits of a later block of planes put at the
   start; surplus lanes of the last group written; the third group written over the first; padding not zeroed;
   no floor of the length; no second look at a norm in double; the root forgotten; a gradient for a zero row;
   the permutation the wrong way round; the wrong half of the row looked up.
   SPDX-License-Identifier: Apache-2.0 */
#include <stdlib.h>

#include "kernels/slots.h"

/* The oracle: x permuted and divided, in double. */
static double unit_at(const float *x, size_t dim, const uint32_t *permutation, const float *sign, size_t c,
                      double *norm)
{
    double sum = 0;
    for (size_t k = 0; k < dim; k++)
        sum += (double)x[k] * (double)x[k];
    *norm = sqrt(sum);
    double value =
        (double)x[permutation == NULL ? c : permutation[c]] * (sign == NULL ? 1.0 : (double)sign[c]);
    return value / fmax(*norm, 1e-12);
}

static void check_unit(const struct kernels *kernels, size_t n, size_t dim, size_t pad, bool turn, float size)
{
    char text[128];
    size_t ld_x = dim + 3, ld_out = dim + pad;
    float *x = normals(dim, n * ld_x - 3), *out = guard_floats(n * ld_out), *norm = guard_floats(n);
    uint32_t permutation[WIDEST];
    float *sign = guard_floats(dim);
    random_permutation(dim, permutation, dim);
    random_signs(dim, sign, dim);
    for (size_t i = 0; i < n * ld_x - 3; i++)
        x[i] *= size;
    for (size_t c = 0; c < dim && n > 1; c++)
        x[ld_x + c] = 0; /* the second row */
    kernels->hash.unit(out, ld_out, norm, x, ld_x, n, dim, turn ? permutation : NULL, turn ? sign : NULL);
    of(text, "hash.unit", kernels, n, dim);
    for (size_t i = 0; i < n; i++) {
        double length = 0;
        for (size_t c = 0; c < ld_out; c++) {
            double want = c < dim ? unit_at(x + i * ld_x, dim, turn ? permutation : NULL, turn ? sign : NULL,
                                            c, &length)
                                  : 0;
            /* Half the roundings of the sum of squares (its root), the root, the quotient. */
            check_near((double)out[i * ld_out + c], want,
                       ((double)dim / 2 + 4) * ROUNDING * fabs(want) + 1e-44, text);
        }
        check_near((double)norm[i], length, ((double)dim / 2 + 3) * ROUNDING * length + 1e-44, text);
        float alone[2 * WIDEST], alone_norm;
        kernels->hash.unit(alone, ld_out, &alone_norm, x + i * ld_x, ld_x, 1, dim, turn ? permutation : NULL,
                           turn ? sign : NULL);
        check_same_bits(alone, out + i * ld_out, ld_out * sizeof *out, "a row alone");
        check_same_bits(&alone_norm, &norm[i], sizeof *norm, "its norm");
    }
    guard_free(x, n * ld_x - 3);
    guard_free(out, n * ld_out);
    guard_free(norm, n);
    guard_free(sign, dim);
}

static void unit_rows_have_length_one(void **state)
{
    (void)state;
    static const float sizes[] = {1.0f, 1e-30f, 1e25f, 3e-14f};
    FOR_EACH_TABLE(kernels)
    for (size_t w = 0; w < NUM_WIDTHS; w++)
        for (size_t s = 0; s < 4; s++) {
            check_unit(kernels, 5, widths[w], 0, false, sizes[s]);
            check_unit(kernels, 3, widths[w], s, true, sizes[s]);
        }
}

static void check_unit_backward(const struct kernels *kernels, size_t n, size_t dim, bool turn)
{
    char text[128];
    size_t ld = dim + 1, ld_dx = dim + 2;
    float *u = normals(1, n * ld), *g = normals(2, n * ld), *norm = guard_floats(n);
    float *dx = normals(3, n * ld_dx), *before = copy_of(dx, n * ld_dx);
    uint32_t permutation[WIDEST];
    float sign[WIDEST];
    random_permutation(dim, permutation, dim);
    random_signs(dim, sign, dim);
    for (size_t i = 0; i < n; i++)
        norm[i] = i == 1 ? 9e-13f : 0.5f + (float)i;
    kernels->hash.unit_backward(dx, ld_dx, g, u, ld, norm, n, dim, turn ? permutation : NULL,
                                turn ? sign : NULL);
    of(text, "hash.unit_backward", kernels, n, dim);
    for (size_t i = 0; i < n; i++) {
        double dot = 0, size = 0;
        for (size_t c = 0; c < dim; c++) {
            dot += (double)u[i * ld + c] * (double)g[i * ld + c];
            size += fabs((double)u[i * ld + c] * (double)g[i * ld + c]);
        }
        for (size_t c = 0; c < dim; c++) {
            size_t at = i * ld_dx + (turn ? permutation[c] : c);
            double step = ((double)g[i * ld + c] - (double)u[i * ld + c] * dot) / (double)norm[i];
            double parts =
                (fabs((double)g[i * ld + c]) + fabs((double)u[i * ld + c]) * size) / (double)norm[i];
            double want = (double)before[at] + (i == 1 ? 0 : turn ? step * (double)sign[c] : step);
            check_near((double)dx[at], want,
                       i == 1 ? 0 : ((double)dim + 5) * ROUNDING * (parts + fabs((double)before[at])), text);
        }
        check_same_bits(dx + i * ld_dx + dim, before + i * ld_dx + dim, 2 * sizeof *dx, "beside the row");
    }
    guard_free(u, n * ld);
    guard_free(g, n * ld);
    guard_free(norm, n);
    guard_free(dx, n * ld_dx);
    guard_free(before, n * ld_dx);
}

static void unit_rows_backward_is_the_projection(void **state)
{
    (void)state;
    FOR_EACH_TABLE(kernels)
    for (size_t w = 0; w < NUM_WIDTHS; w++) {
        check_unit_backward(kernels, 4, widths[w], false);
        check_unit_backward(kernels, 3, widths[w], true);
    }
}

/* The contract, literally and in its order. */
static uint32_t code_of(const float *x, size_t dim, const float *planes, size_t groups, size_t h, size_t bits)
{
    uint32_t code = 0;
    for (size_t b = 0; b < bits; b++) {
        float sum = 0;
        for (size_t c = 0; c < dim; c++)
            sum = fmaf(x[c], planes[((b * groups + h / 16) * dim + c) * 16 + h % 16], sum);
        if (sum > 0)
            code += (uint32_t)1 << b;
    }
    return code;
}

static void check_codes(const struct kernels *kernels, size_t n, size_t dim, size_t num_hashes, size_t bits,
                        bool odd)
{
    char text[128];
    size_t groups = (num_hashes + 15) / 16, ld = dim + 1, size = bits * groups * dim * 16;
    size_t rows = n == 0 ? 0 : n * ld - 1, words = (n * num_hashes + 1) / 2;
    float *x = odd ? oddities(n + dim, rows) : normals(n + dim, rows), *planes = normals(bits, size);
    for (size_t c = 0; c < dim && n > 2; c++)
        x[2 * ld + c] = 0; /* code 0 */
    /* uint16_t codes in float memory: the guard page follows an even number of them directly. */
    float *narrow = guard_floats(words), *wide = guard_floats(n * num_hashes);
    if (bits <= 16)
        kernels->hash.codes((char *)narrow + (n * num_hashes % 2) * sizeof(uint16_t), false, x, ld, n, dim,
                            planes, num_hashes, bits);
    kernels->hash.codes(wide, true, x, ld, n, dim, planes, num_hashes, bits);
    of(text, "hash.codes", kernels, n, num_hashes);
    for (size_t i = 0; i < n; i++)
        for (size_t h = 0; h < num_hashes; h++) {
            uint32_t want = code_of(x + i * ld, dim, planes, groups, h, bits), got;
            memcpy(&got, wide + i * num_hashes + h, sizeof got);
            if (got != want)
                fail_msg("%s, dim %zu, bits %zu: row %zu hash %zu has %x, want %x", text, dim, bits, i, h,
                         got, want);
            if (bits <= 16) {
                uint16_t small;
                memcpy(&small, (char *)narrow + (n * num_hashes % 2 + i * num_hashes + h) * sizeof small,
                       sizeof small);
                assert_int_equal(small, want);
            }
        }
    guard_free(x, rows);
    guard_free(planes, size);
    guard_free(narrow, words);
    guard_free(wide, n * num_hashes);
}

static void codes_are_exact(void **state)
{
    (void)state;
    static const size_t tokens[] = {0, 1, 3, 7, 8, 9, 65, 130};
    static const size_t hashes[] = {1, 8, 15, 16, 17, 33};
    FOR_EACH_TABLE(kernels)
    {
        for (size_t t = 0; t < 8; t++)
            for (size_t h = 0; h < 6; h++)
                check_codes(kernels, tokens[t], 19, hashes[h], 4, false);
        for (size_t bits = 1; bits <= 24; bits++)
            check_codes(kernels, 9, 8, 16, bits, false);
        for (size_t w = 0; w < NUM_WIDTHS; w++)
            check_codes(kernels, 11, widths[w], 20, 5, w % 2 == 0);
    }
}

static void a_row_has_its_codes_wherever_it_stands(void **state)
{
    (void)state;
    enum { N = 70, DIM = 24, HASHES = 18, BITS = 7 };
    float *x = normals(5, N * DIM), *planes = normals(6, BITS * 2 * DIM * 16);
    static uint16_t all[N * HASHES], alone[HASHES];
    FOR_EACH_TABLE(kernels)
    {
        kernels->hash.codes(all, false, x, DIM, N, DIM, planes, HASHES, BITS);
        for (size_t i = 0; i < N; i++) {
            kernels->hash.codes(alone, false, x + i * DIM, DIM, 1, DIM, planes, HASHES, BITS);
            check_same_bits(alone, all + i * HASHES, sizeof alone, "codes of a row alone");
        }
    }
    guard_free(x, N * DIM);
    guard_free(planes, BITS * 2 * DIM * 16);
}

/* The last coordinate of each row cancels the sum before it for one of its hashes, exactly in the order and
   with the roundings of the contract, so that bit must be 0. Any other order or rounding leaves a small
   remainder of either sign. */
static void sums_are_in_the_order_of_the_contract(void **state)
{
    (void)state;
    enum { N = 200, DIM = 40, HASHES = 16 };
    float *x = normals(7, N * DIM), *planes = normals(8, DIM * HASHES);
    for (size_t h = 0; h < HASHES; h++)
        planes[(DIM - 1) * HASHES + h] = 1;
    for (size_t i = 0; i < N; i++) {
        float sum = 0;
        for (size_t c = 0; c < DIM - 1; c++)
            sum = fmaf(x[i * DIM + c], planes[c * HASHES + i % HASHES], sum);
        x[i * DIM + DIM - 1] = -sum;
    }
    static uint16_t codes[N * HASHES];
    FOR_EACH_TABLE(kernels)
    {
        kernels->hash.codes(codes, false, x, DIM, N, DIM, planes, HASHES, 1);
        for (size_t i = 0; i < N; i++)
            assert_int_equal(codes[i * HASHES + i % HASHES], 0);
    }
    guard_free(x, N * DIM);
    guard_free(planes, DIM * HASHES);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(unit_rows_have_length_one),
        cmocka_unit_test(unit_rows_backward_is_the_projection),
        cmocka_unit_test(codes_are_exact),
        cmocka_unit_test(a_row_has_its_codes_wherever_it_stands),
        cmocka_unit_test(sums_are_in_the_order_of_the_contract),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
