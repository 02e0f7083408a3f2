/* Features of pairs against their definition, and their gradient against differences, which are exact because
   every feature is linear in each row. Bugs planted and caught: b - a; the product's gradient with its own
   row; the second pair's rows from the first.
   SPDX-License-Identifier: Apache-2.0 */
#include "nn/outputs/pair.h"

#include "support/check.h"

enum { PAIRS = 2, DIM = 3 };

static void features_are_both_their_product_and_difference(void **state)
{
    (void)state;
    const float x[2 * PAIRS * DIM] = {1, 2, 3, 10, 20, 30, 4, 5, 6, 0.5f, -1, 2};
    const float want[PAIRS * PAIR_WIDTH * DIM] = {1, 2, 3, 10,   20, 30, 10, 40, 90, -9,   -18, -27,
                                                  4, 5, 6, 0.5f, -1, 2,  2,  -5, 12, 3.5f, 6,   4};
    float y[PAIRS * PAIR_WIDTH * DIM];
    pair_forward(y, x, PAIRS, DIM);
    check_same_bits(y, want, sizeof y, "features");
}

static float weighed(const float *x, const float *g)
{
    float y[PAIRS * PAIR_WIDTH * DIM], sum = 0;
    pair_forward(y, x, PAIRS, DIM);
    for (int i = 0; i < PAIRS * PAIR_WIDTH * DIM; i++)
        sum += g[i] * y[i];
    return sum;
}

static void gradient_is_that_of_the_features(void **state)
{
    (void)state;
    float x[2 * PAIRS * DIM], g[PAIRS * PAIR_WIDTH * DIM], dx[2 * PAIRS * DIM];
    for (int i = 0; i < 2 * PAIRS * DIM; i++) /* small integers: every sum is exact */
        x[i] = (float)(i * 5 % 7 - 3);
    for (int i = 0; i < PAIRS * PAIR_WIDTH * DIM; i++)
        g[i] = (float)(i * 3 % 11 - 5);
    pair_backward(dx, g, x, PAIRS, DIM);
    for (int i = 0; i < 2 * PAIRS * DIM; i++) {
        float kept = x[i];
        x[i] = kept + 1;
        float up = weighed(x, g);
        x[i] = kept - 1;
        check_near((double)dx[i], (double)(up - weighed(x, g)) / 2, 0, "gradient");
        x[i] = kept;
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(features_are_both_their_product_and_difference),
        cmocka_unit_test(gradient_is_that_of_the_features),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
