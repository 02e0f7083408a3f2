/* Mean, first row, maximum and unit length, beside values computed by hand. Planted and caught: the first row
   left out of a mean; the maximum of absolute values; a zero vector divided by zero.
   SPDX-License-Identifier: Apache-2.0 */
#include "models/sentences/sentence_vector.h"

#include "support/check.h"

static const float rows[] = {1, -5, 3, 2, -7, 0, 6, -3, -6};

static void rows_become_a_vector(void **state)
{
    (void)state;
    static const float want[][3] = {{3, -5, -1}, {1, -5, 3}, {6, -3, 3}};
    static const enum sentence_pooling poolings[] = {SENTENCE_MEAN, SENTENCE_FIRST, SENTENCE_MAX};
    double sums[3];
    float vector[3];
    for (size_t p = 0; p < 3; p++) {
        sentence_vector(poolings[p], rows, 3, 3, sums, vector);
        check_same_bits(vector, want[p], sizeof vector, "vector");
        sentence_vector(poolings[p], rows, 1, 3, sums, vector);
        check_same_bits(vector, rows, sizeof vector, "one row");
    }
}

static void unit_length_divides_by_the_norm(void **state)
{
    (void)state;
    float vector[] = {3, -4}, none[] = {0, 0};
    sentence_normalize(vector, 2);
    check_near((double)vector[0], 0.6, 1e-7, "first");
    check_near((double)vector[1], -0.8, 1e-7, "second");
    sentence_normalize(none, 2);
    assert_true(none[0] == 0 && none[1] == 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(rows_become_a_vector),
        cmocka_unit_test(unit_length_divides_by_the_norm),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
