/* The linear Transformer against its kernel, elu(q) + 1 times elu(k) + 1, in double precision over all pairs.
   Bugs planted and caught: the slope of positive rows not 1; max(x, 0) left out; gradients written instead of
   added.
   SPDX-License-Identifier: Apache-2.0 */
#include <math.h>

#include "support/check.h"
#include "support/kernel_case.h"

static double elu_kernel(const void *self, const double *query, const double *key, size_t d, double *dquery,
                         double *dkey)
{
    (void)self;
    double sum = 0;
    for (size_t c = 0; c < d; c++) {
        double f = query[c] > 0 ? query[c] + 1 : exp(query[c]), g = key[c] > 0 ? key[c] + 1 : exp(key[c]);
        dquery[c] = (query[c] > 0 ? 1 : f) * g;
        dkey[c] = (key[c] > 0 ? 1 : g) * f;
        sum += f * g;
    }
    return sum;
}

/* Sums of up to 2,000 terms of float32: 1e-5 of the largest number. */
static const struct case_kernel elu = {elu_kernel, NULL, (double)1e-6f, 1e-5};

static void the_oracle_is_its_own_derivative(void **state)
{
    (void)state;
    kernel_case_check_derivative(&elu, 3);
}

static void check_shape(size_t n_q, size_t n_k, size_t d, size_t d_v, bool causal)
{
    struct attention_case data = kernel_case_new("linear", NULL, n_q, n_k, d, d_v, causal);
    kernel_case_check(&data, &elu);
    attention_case_free(&data);
}

static void linear_is_its_kernel(void **state)
{
    (void)state;
    check_shape(1, 1, 1, 1, false);
    check_shape(70, 130, 5, 7, false);
    check_shape(1100, 65, 3, 2, false);
    check_shape(65, 2100, 4, 3, false);
    check_shape(64, 64, 64, 64, false);
}

static void causal_linear_is_its_kernel(void **state)
{
    (void)state;
    check_shape(1, 1, 2, 1, true);
    check_shape(63, 63, 5, 7, true);
    check_shape(200, 200, 16, 8, true);
    check_shape(1500, 1500, 3, 2, true);
    check_shape(2200, 2200, 2, 3, true);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_oracle_is_its_own_derivative),
        cmocka_unit_test(linear_is_its_kernel),
        cmocka_unit_test(causal_linear_is_its_kernel),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
