/* list_add on every table: the bits of plain loops; list_pairs against double precision, and cut anywhere, to
   the same bits.
   Bugs planted and caught: joined rows added one by one; biases by place instead of by row; the own bias
   forgotten; LIST_JOINED taken for a part of the row's number; the second block with the list of the first;
   the tail of a row dropped. SPDX-License-Identifier: Apache-2.0 */
#include "kernels/slots.h"

enum { ROWS = 50, MOST = 150 };

/* `count` entries, joined here and there, never at the end. */
static void draw_list(uint32_t list[MOST], size_t count, uint64_t seed)
{
    struct random random = random_open(seed);
    for (size_t k = 0; k < count; k++) {
        list[k] = random_below(&random, ROWS);
        if (k + 1 < count && random_below(&random, 3) == 0)
            list[k] |= LIST_JOINED;
    }
}

static void check_add(const struct kernels *kernels, size_t count, size_t dim, size_t ld)
{
    uint32_t list[MOST];
    char text[128];
    size_t size = (ROWS - 1) * ld + dim;
    float *rows = oddities(1, size), *out = oddities(2, dim), *want = copy_of(out, dim);
    draw_list(list, count, 100 * count + dim);
    kernels->list_add(out, rows, ld, list, count, dim);
    for (size_t c = 0; c < dim; c++)
        for (size_t k = 0; k < count; k++) {
            float part = rows[(list[k] & ~LIST_JOINED) * ld + c];
            while (list[k] & LIST_JOINED)
                part += rows[(list[++k] & ~LIST_JOINED) * ld + c];
            want[c] += part;
        }
    check_same_bits(out, want, dim * sizeof *out, of(text, "list_add", kernels, count, dim));
    guard_free(rows, size);
    guard_free(out, dim);
    guard_free(want, dim);
}

static void sums_are_exact(void **state)
{
    (void)state;
    static const size_t counts[] = {0, 1, 2, 3, 7, 20, MOST};
    FOR_EACH_TABLE(kernels)
    for (size_t w = 0; w < NUM_WIDTHS; w++)
        for (size_t k = 0; k < sizeof counts / sizeof *counts; k++)
            check_add(kernels, counts[k], widths[w], widths[w] + w % 3);
    FOR_EACH_TABLE(kernels) check_add(kernels, 9, 1, 0); /* one row for all */
}

static void check_pairs(const struct kernels *kernels, size_t count, size_t dim, size_t value_dim,
                        bool biased)
{
    uint32_t list[MOST];
    char text[128];
    size_t ld = (dim > value_dim ? dim : value_dim) + 3, units = (ROWS - 1) * ld + dim,
           values = (ROWS - 1) * ld + value_dim;
    float *unit = normals(1, units), *value = normals(2, values), *own = normals(3, value_dim),
          *gradient = normals(4, dim), *before = copy_of(gradient, dim), *biases = normals(5, ROWS);
    draw_list(list, count, 100 * count + dim);
    struct list_pairs pairs = {.value = own,
                               .units = unit,
                               .values = value,
                               .gradient = gradient,
                               .list = list,
                               .count = count,
                               .ld = ld,
                               .dim = dim,
                               .value_dim = value_dim,
                               .bias = biased ? 0.4f : 0,
                               .scale = 0.37f,
                               .biases = biased ? biases : NULL};
    kernels->list_pairs(&pairs);
    double want[WIDEST + 3], room[WIDEST + 3];
    for (size_t c = 0; c < dim; c++) {
        want[c] = (double)before[c];
        room[c] = fabs(want[c]) * (double)count;
    }
    for (size_t k = 0; k < count; k++) {
        size_t row = list[k] & ~LIST_JOINED;
        double score = (double)pairs.bias + (biased ? (double)biases[row] : 0), size = fabs(score) + 1;
        for (size_t c = 0; c < value_dim; c++) {
            double term = (double)own[c] * (double)value[row * ld + c];
            score += term;
            size += fabs(term);
        }
        for (size_t c = 0; c < dim; c++) {
            double x = (double)unit[row * ld + c] * (double)pairs.scale;
            want[c] += score * x;
            /* The sum of the score, and a rounding of the running sum for each term. */
            room[c] += ((double)value_dim + 5 + (double)count) * size * fabs(x);
        }
    }
    of(text, "list_pairs", kernels, count, dim);
    for (size_t c = 0; c < dim; c++)
        check_near((double)gradient[c], want[c], ROUNDING * room[c] * 2, text);

    float *again = copy_of(before, dim);
    pairs.gradient = again;
    for (size_t k = 0; k < count; k += pairs.count) {
        pairs.list = list + k;
        pairs.count = count - k < 3 ? count - k : 3;
        kernels->list_pairs(&pairs);
    }
    check_same_bits(again, gradient, dim * sizeof *again, text);
    guard_free(unit, units);
    guard_free(value, values);
    guard_free(own, value_dim);
    guard_free(gradient, dim);
    guard_free(before, dim);
    guard_free(again, dim);
    guard_free(biases, ROWS);
}

static void pairs_add_up(void **state)
{
    (void)state;
    static const size_t counts[] = {0, 1, 2, 3, 4, 5, 20, 63, 64, 65, MOST};
    FOR_EACH_TABLE(kernels)
    {
        for (size_t w = 0; w < NUM_WIDTHS; w++)
            for (size_t k = 0; k < sizeof counts / sizeof *counts; k++) {
                check_pairs(kernels, counts[k], widths[w], widths[NUM_WIDTHS - 1 - w], (w + k) % 2 == 0);
                check_pairs(kernels, counts[k], widths[w], widths[w], (w + k) % 2 == 1);
            }
        check_pairs(kernels, 21, 32, 32, true); /* whole vectors in registers */
        check_pairs(kernels, 21, 16, 16, true);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(sums_are_exact), cmocka_unit_test(pairs_add_up)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
