/* One run of the oracle serves all instruction sets. The tolerance is `room` times the largest number of an
   array.
   SPDX-License-Identifier: Apache-2.0 */
#include "support/kernel_case.h"

#include <math.h>
#include <stdlib.h>

#include "base/random.h"
#include "support/check.h"

enum { CALL_KEY = 77, MOST = 64 };

struct attention_case kernel_case_new(const char *mechanism, const void *options, size_t n_q, size_t n_k,
                                      size_t d, size_t d_v, bool causal)
{
    struct attention_case data = {.mechanism = attention_find(mechanism),
                                  .options = options,
                                  .num_sequences = 1,
                                  .num_heads = 1,
                                  .head_dim = d,
                                  .value_dim = d_v,
                                  .causal = causal,
                                  .start = 0.25f,
                                  .call_key = CALL_KEY,
                                  .queries = {n_q},
                                  .keys = {n_k}};
    attention_case_fill(&data, n_q + n_k, false);
    return data;
}

static void to_double(double *to, const float *from, size_t count)
{
    for (size_t i = 0; i < count; i++)
        to[i] = (double)from[i];
}

static void check_array(const float *got, const double *want, size_t count, double start, double room,
                        const char *what)
{
    double largest = 0;
    for (size_t i = 0; i < count; i++)
        largest = fmax(largest, fabs(want[i]));
    for (size_t i = 0; i < count; i++)
        check_near((double)got[i], start + want[i], room * (largest + start), what);
}

void kernel_case_check(struct attention_case *data, const struct case_kernel *kernel)
{
    size_t n_q = data->queries[0], n_k = data->keys[0], d = data->head_dim, d_v = data->value_dim;
    double start = (double)data->start;
    struct oracle_kernel o = oracle_kernel_new(n_q, n_k, d, d_v);
    size_t *visible = malloc(n_q * sizeof *visible);
    for (size_t i = 0; i < n_q; i++)
        visible[i] = data->causal ? i + 1 : n_k;
    o.epsilon = kernel->epsilon;
    o.kernel = kernel->kernel;
    o.self = kernel->self;
    o.visible = visible;
    to_double(o.query, data->query, n_q * d);
    to_double(o.key, data->key, n_k * d);
    to_double(o.value, data->value, n_k * d_v);
    to_double(o.dout, data->dout, n_q * d_v);
    oracle_kernel_run(&o);
    for (const struct kernels *const *kernels = kernels_all(); *kernels != NULL; kernels++) {
        data->kernels = *kernels;
        struct attention_result result = attention_case_run(data);
        check_array(result.out, o.out, n_q * d_v, 0, kernel->room, "out");
        check_array(result.dquery, o.dquery, n_q * d, start, kernel->room, "dquery");
        check_array(result.dkey, o.dkey, n_k * d, start, kernel->room, "dkey");
        check_array(result.dvalue, o.dvalue, n_k * d_v, start, kernel->room, "dvalue");
        attention_result_free(&result);
    }
    free(visible);
    oracle_kernel_free(&o);
}

void kernel_case_check_derivative(const struct case_kernel *k, size_t d)
{
    float x[2 * MOST];
    double row[2 * MOST], gradient[2 * MOST], spare[2 * MOST];
    assert_true(d <= MOST);
    random_normals(2, 0, x, 2 * d);
    to_double(row, x, 2 * d);
    k->kernel(k->self, row, row + d, d, gradient, gradient + d);
    for (size_t i = 0; i < 2 * d; i++) {
        double before = row[i], step = 1e-5, want;
        row[i] = before + step;
        want = k->kernel(k->self, row, row + d, d, spare, spare + d);
        row[i] = before - step;
        want = (want - k->kernel(k->self, row, row + d, d, spare, spare + d)) / (2 * step);
        row[i] = before;
        check_near(gradient[i], want, k->room * (1 + fabs(want)), "gradient of the kernel");
    }
}

void kernel_case_check_mean(struct attention_case *data, const double *want, size_t seeds)
{
    double sum[MOST] = {0}, squares[MOST] = {0}, count = (double)seeds;
    assert_true(data->value_dim <= MOST);
    for (size_t seed = 0; seed < seeds; seed++) {
        data->call_key = seed;
        struct attention_result result = attention_case_run(data);
        for (size_t c = 0; c < data->value_dim; c++) {
            sum[c] += (double)result.out[c];
            squares[c] += pow((double)result.out[c], 2);
        }
        attention_result_free(&result);
    }
    for (size_t c = 0; c < data->value_dim; c++) {
        double mean = sum[c] / count, error = sqrt((squares[c] / count - mean * mean) / count);
        assert_true(error < 0.02);
        check_near(mean, want[c], 5 * error, "mean of the estimates");
    }
}
