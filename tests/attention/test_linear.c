/* The linear Transformer against its kernel, elu(q) + 1 times elu(k) + 1, in double precision over all pairs.
   Bugs planted and caught: the slope of positive rows not 1; max(x, 0) left out; gradients written instead of
   added. SPDX-License-Identifier: Apache-2.0 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "attention/driver/attention.h"
#include "base/random.h"
#include "oracle/oracle_kernel.h"
#include "support/attention_case.h"
#include "support/check.h"

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

static void to_double(double *to, const float *from, size_t count)
{
    for (size_t i = 0; i < count; i++)
        to[i] = (double)from[i];
}

/* visible: the caller's; NULL: all keys. */
static struct oracle_kernel oracle_of(const struct attention_case *data, size_t *visible)
{
    size_t n_q = data->queries[0], n_k = data->keys[0], d = data->head_dim, d_v = data->value_dim;
    struct oracle_kernel o = oracle_kernel_new(n_q, n_k, d, d_v);
    o.epsilon = (double)1e-6f;
    o.kernel = elu_kernel;
    o.visible = visible;
    to_double(o.query, data->query, n_q * d);
    to_double(o.key, data->key, n_k * d);
    to_double(o.value, data->value, n_k * d_v);
    to_double(o.dout, data->dout, n_q * d_v);
    return o;
}

/* Sums of up to 2,000 terms of float32: 1e-5 of the largest number. */
static void check_array(const float *got, const double *want, size_t count, double start, const char *what)
{
    double largest = 0;
    for (size_t i = 0; i < count; i++)
        largest = fmax(largest, fabs(want[i]));
    for (size_t i = 0; i < count; i++)
        check_near((double)got[i], start + want[i], 1e-5 * (largest + start), what);
}

static void the_oracle_is_its_own_derivative(void **state)
{
    (void)state;
    struct oracle_kernel o = oracle_kernel_new(3, 4, 2, 3);
    double *inputs[] = {o.query, o.key, o.value, o.dout}, *gradients[] = {o.dquery, o.dkey, o.dvalue};
    size_t counts[] = {6, 8, 12, 9};
    float x[12];
    o.kernel = elu_kernel;
    o.epsilon = 0.5;
    for (size_t a = 0; a < 4; a++) {
        random_normals(1, 100 * a, x, counts[a]);
        to_double(inputs[a], x, counts[a]);
    }
    for (size_t a = 0; a < 3; a++)
        for (size_t i = 0; i < counts[a]; i++) {
            double before = inputs[a][i], step = 1e-5, want;
            inputs[a][i] = before + step;
            want = oracle_kernel_run(&o);
            inputs[a][i] = before - step;
            want = (want - oracle_kernel_run(&o)) / (2 * step);
            inputs[a][i] = before;
            oracle_kernel_run(&o);
            check_near(gradients[a][i], want, 1e-8, "gradient of the oracle");
        }
    oracle_kernel_free(&o);
}

static void check_shape(size_t n_q, size_t n_k, size_t d, size_t d_v, bool causal)
{
    struct attention_case data = {.mechanism = attention_find("linear"),
                                  .num_sequences = 1,
                                  .num_heads = 1,
                                  .head_dim = d,
                                  .value_dim = d_v,
                                  .causal = causal,
                                  .start = 0.25f,
                                  .queries = {n_q},
                                  .keys = {n_k}};
    attention_case_fill(&data, n_q + n_k, false);
    size_t *visible = malloc(n_q * sizeof *visible);
    for (size_t i = 0; i < n_q; i++)
        visible[i] = causal ? i + 1 : n_k;
    struct oracle_kernel o = oracle_of(&data, visible);
    oracle_kernel_run(&o);
    for (const struct kernels *const *kernels = kernels_all(); *kernels != NULL; kernels++) {
        data.kernels = *kernels;
        struct attention_result result = attention_case_run(&data);
        check_array(result.out, o.out, n_q * d_v, 0, "out");
        check_array(result.dquery, o.dquery, n_q * d, 0.25, "dquery");
        check_array(result.dkey, o.dkey, n_k * d, 0.25, "dkey");
        check_array(result.dvalue, o.dvalue, n_k * d_v, 0.25, "dvalue");
        attention_result_free(&result);
    }
    free(visible);
    oracle_kernel_free(&o);
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
