/* One row drawn from each stretch: ascending, all equally likely, and all rows if the sample is that
   large; and what is copied for them. Bugs planted and caught: a stretch that begins one late; the last
   row never drawn; rows of one sample for another; the groups of row s for those of the s-th row of the
   sample; weights of the next stretch.
   SPDX-License-Identifier: Apache-2.0 */
#include "parts/targets/row_sample.h"

#include <math.h>
#include <stdlib.h>

#include "base/random.h"
#include "support/check.h"

static void rows_rise_and_are_as_likely(void **state)
{
    (void)state;
    static const struct {
        size_t n, count;
    } cases[] = {{10, 3}, {64, 64}, {7, 1}, {100, 99}, {33, 8}};
    enum { DRAWS = 20000 };
    for (size_t k = 0; k < sizeof cases / sizeof *cases; k++) {
        size_t n = cases[k].n, count = cases[k].count, times[100] = {0};
        for (uint64_t draw = 0; draw < DRAWS; draw++) {
            uint32_t rows[100];
            float weights[100];
            row_sample_draw(random_key(draw, RANDOM_DATA, k), n, count, rows, weights);
            for (size_t s = 0; s < count; s++) {
                double length = (double)(n / count + (s < n % count));
                check_near((double)weights[s], length * (double)count / (double)n, 1e-6, "weight");
                assert_true(n % count != 0 || weights[s] == 1);
                assert_true(rows[s] < n && (s == 0 || rows[s] > rows[s - 1]));
                times[rows[s]]++;
            }
        }
        for (size_t i = 0; i < n; i++) {
            size_t begin = 0, length = 0; /* of the stretch of row i */
            for (size_t s = 0; s < count && begin + length <= i; s++) {
                begin += length;
                length = n / count + (s < n % count);
            }
            double p = 1 / (double)length;
            check_near((double)times[i] / DRAWS, p, 5 * sqrt(p * (1 - p) / DRAWS),
                       "how often a row is drawn");
        }
    }
}

static void what_is_copied_is_of_the_sample(void **state)
{
    (void)state;
    enum { N = 6, DIM = 3, LD = 5, COUNT = 3 };
    static const uint32_t rows[COUNT] = {1, 2, 5};
    float x[N * LD], got[COUNT * DIM];
    for (size_t i = 0; i < N * LD; i++)
        x[i] = (float)i;
    row_sample_copy(got, (struct view){x, N, DIM, LD, DTYPE_FLOAT32}, 0, DIM, rows, COUNT);
    for (size_t s = 0; s < COUNT; s++)
        for (size_t c = 0; c < DIM; c++)
            assert_true(got[s * DIM + c] == (float)(rows[s] * LD + c));
    uint32_t start[N + 1] = {0, 1, 1, 3, 4, 4, 6}, group[6] = {9, 7, 3, 4, 2, 8}, to_start[COUNT + 1],
                       to_group[6];
    struct token_groups from = {start, group}, to = {to_start, to_group};
    row_sample_groups(&to, &from, rows, COUNT);
    static const uint32_t want_start[] = {0, 0, 2, 4}, want_group[] = {7, 3, 2, 8};
    assert_memory_equal(to_start, want_start, sizeof want_start);
    assert_memory_equal(to_group, want_group, sizeof want_group);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(rows_rise_and_are_as_likely),
        cmocka_unit_test(what_is_copied_is_of_the_sample),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
