/* Shared by the tests of layers: a host with a pool, a block of parameters with its gradients and a copy in
   double, random arrays, and the comparison of float gradients with central differences of a function in
   double.
   SPDX-License-Identifier: Apache-2.0 */
#ifndef TESTS_SUPPORT_LAYERS_H
#define TESTS_SUPPORT_LAYERS_H

#include "kernels/kernels.h"
#include "nn/params.h"
#include "nn/rows.h"

#define EPSILON 5.97e-8 /* of one float operation rounded to nearest, with a small margin */

struct layer_test {
    struct host host;
    struct pool *pool;
    const struct kernels *kernels; /* the widest table that runs here */
    struct params params;
    float *values, *gradients; /* (params.total); gradients start as zeros */
    float *packed;             /* of layer_test_pack */
    double *exact;             /* values in double */
};
void layer_test_open(struct layer_test *test, int threads);
/* Describes a tensor before those of the layer, so that no offset of the layer is 0. */
void layer_test_shift(struct layer_test *test);
/* Call after the layer is described. Sets initial values from the seed, then moves biases and gains away from
   0 and 1, so that no term of a gradient vanishes. */
void layer_test_start(struct layer_test *test, uint64_t seed);
/* The current values as params_pack packs them for the layers. */
const float *layer_test_pack(struct layer_test *test, bool backward);
void layer_test_close(struct layer_test *test);
struct slice whole_gradient(const struct layer_test *test);
/* The row of that name; fails the test if there is none. */
const struct param *param_named(const struct params *params, const char *name);

/* n normals times scale; free with free(). */
float *new_normals(uint64_t seed, size_t n, double scale);
double *new_doubles(const float *from, size_t n);
float *new_zeros(size_t n);
double largest(const float *x, size_t n); /* largest |x|, at least 1e-30 */

/* Compares d f(user) / d x[i] by central differences with got[i], to `bound`, for every i. Restores x. */
void check_derivatives(const float *got, double *x, size_t n, double (*f)(void *user), void *user,
                       double bound, const char *what);
double inner(const float *g, const double *y, size_t n); /* sum of g y */

#endif
