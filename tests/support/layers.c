/* Helpers for tests of layers.
   SPDX-License-Identifier: Apache-2.0 */
#include "support/layers.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/random.h"
#include "support/check.h"

void layer_test_open(struct layer_test *test, int threads)
{
    memset(test, 0, sizeof *test);
    host_init(&test->host);
    check_status(&test->host, pool_new(&test->host, threads, &test->pool), HASHATTN_OK, NULL);
    for (const struct kernels *const *all = kernels_all(); *all != NULL; all++)
        test->kernels = *all;
}

void layer_test_shift(struct layer_test *test)
{
    size_t offset, count = 20;
    check_status(&test->host,
                 params_add(&test->host, &test->params, START_NORMAL, 1, &offset, 1, &count, "other"),
                 HASHATTN_OK, NULL);
}

void layer_test_start(struct layer_test *test, uint64_t seed)
{
    const struct params *params = &test->params;
    test->values = new_zeros(params->total);
    test->gradients = new_zeros(params->total);
    params_start(params, seed, test->values);
    for (size_t i = 0; i < params->num_rows; i++) {
        const struct param *row = &params->rows[i];
        float *moved = new_normals(seed + 1000 + i, row->count, 0.2);
        for (size_t k = 0; row->rank == 1 && k < row->count; k++)
            test->values[row->offset + k] += moved[k];
        free(moved);
    }
    test->exact = new_doubles(test->values, params->total);
}

/* The buffer is filled with NaN, so that reading before writing is noticed. */
const float *layer_test_pack(struct layer_test *test, bool backward)
{
    size_t bytes = params_packed_floats(&test->params) * sizeof(float);
    free(test->packed);
    test->packed = aligned_alloc(64, (bytes + 127) / 64 * 64);
    memset(test->packed, 0xff, bytes);
    return params_pack(&test->params, test->kernels, test->pool, test->values, backward, test->packed);
}

void layer_test_close(struct layer_test *test)
{
    pool_free(&test->host, test->pool);
    free(test->values), free(test->packed);
    params_free(&test->host, &test->params);
    free(test->gradients);
    free(test->exact);
}

struct slice whole_gradient(const struct layer_test *test)
{
    return (struct slice){test->gradients, 0};
}

const struct param *param_named(const struct params *params, const char *name)
{
    for (size_t i = 0; i < params->num_rows; i++)
        if (strcmp(params->rows[i].name, name) == 0)
            return &params->rows[i];
    fail_msg("there is no parameter '%s'", name);
    return NULL;
}

float *new_zeros(size_t n)
{
    float *x = calloc(n > 0 ? n : 1, sizeof *x);
    assert_non_null(x);
    return x;
}

float *new_normals(uint64_t seed, size_t n, double scale)
{
    float *x = new_zeros(n);
    random_normals(seed, 0, x, n);
    for (size_t i = 0; i < n; i++)
        x[i] = (float)((double)x[i] * scale);
    return x;
}

double *new_doubles(const float *from, size_t n)
{
    double *x = calloc(n > 0 ? n : 1, sizeof *x);
    assert_non_null(x);
    for (size_t i = 0; i < n; i++)
        x[i] = (double)from[i];
    return x;
}

double largest(const float *x, size_t n)
{
    double most = 1e-30;
    for (size_t i = 0; i < n; i++)
        most = fmax(most, fabs((double)x[i]));
    return most;
}

double inner(const float *g, const double *y, size_t n)
{
    double sum = 0;
    for (size_t i = 0; i < n; i++)
        sum += (double)g[i] * y[i];
    return sum;
}

void check_derivatives(const float *got, double *x, size_t n, double (*f)(void *), void *user, double bound,
                       const char *what)
{
    for (size_t i = 0; i < n; i++) {
        double kept = x[i], step = 1e-5 * fmax(1, fabs(kept));
        x[i] = kept + step;
        double above = f(user);
        x[i] = kept - step;
        double below = f(user);
        x[i] = kept;
        double want = (above - below) / (2 * step);
        if (!(fabs((double)got[i] - want) <= bound + 1e-9 * (1 + fabs(want))))
            fail_msg("%s, derivative %zu of %zu: got %.9g, want %.9g, difference %.3g, allowed %.3g", what, i,
                     n, (double)got[i], want, fabs((double)got[i] - want), bound);
    }
}
