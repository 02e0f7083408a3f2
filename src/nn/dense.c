/* Three products and two passes over a bias. Weights of float32 are packed in advance if one of their sides
   exceeds SMALL: there the library that product() would call was slower on one tile of rows (183 GF/s against
   199 at 192 x 768 x 768, 181 and 191 at 192 x 3072 x 768, 174 and 194 at 192 x 768 x 3072). Smaller ones are
   transposed in the first-level cache.
   SPDX-License-Identifier: Apache-2.0 */
#include "nn/dense.h"

#include <math.h>

#include "base/memory.h"
#include "kernels/product.h"

enum { SMALL = 256 }; /* at most those of product.c that our tiles compute, for which rows.h relies on them */

static float start_scale(const struct params *params, size_t in)
{
    return params->initial_std > 0 ? params->initial_std : (float)(1 / sqrt((double)in));
}

hashattn_status dense_describe_plain(struct host *host, struct params *params, const char *name, size_t in,
                                     size_t out, struct dense *dense)
{
    bool normal = params->initial_std > 0;
    float scale = start_scale(params, in);
    *dense = (struct dense){.in = in, .out = out, .plain = true, .precision = params->precision};
    TRY(params_add(host, params, normal ? START_NORMAL : START_UNIFORM, scale, &dense->weight, 2,
                   (size_t[]){out, in}, "%s.weight", name));
    if (dense->precision == PRECISION_BF16 || in > SMALL || out > SMALL)
        dense->packed = params_reserve(params, in, out);
    if (dense->precision == PRECISION_BF16)
        dense->packed_backward = params_reserve(params, out, in);
    params->rows[params->num_rows - 1].packed = dense->packed;
    params->rows[params->num_rows - 1].packed_backward = dense->packed_backward;
    return HASHATTN_OK;
}

hashattn_status dense_describe(struct host *host, struct params *params, const char *name, size_t in,
                               size_t out, struct dense *dense)
{
    TRY(dense_describe_plain(host, params, name, in, out, dense));
    dense->plain = false;
    return params_add(host, params, params->initial_std > 0 ? START_ZEROS : START_UNIFORM,
                      start_scale(params, in), &dense->bias, 1, &out, "%s.bias", name);
}

const void *dense_left(const struct dense *dense, const struct kernels *kernels, bf16 *halves, const float *x,
                       size_t n)
{
    return weights_left(kernels, dense->precision, halves, x, n, dense->in);
}

static void forward_range(const struct dense *dense, const struct kernels *kernels, const float *values,
                          float *y, const void *left, size_t n, size_t first, size_t count)
{
    const float *bias = dense->plain ? NULL : values + dense->bias + first;
    size_t in = dense->in, out = dense->out;
    if (dense->packed > 0) {
        const float *weights = values - dense->packed + weights_from(dense->precision, in, first);
        product_left(kernels, dense->precision, y + first, out, left, weights, n, count, in, bias);
        return;
    }
    product(kernels, y + first, out, left, in, false, values + dense->weight + first * in, in, true, n, count,
            in, false);
    if (!dense->plain)
        kernels->layers.add_bias(y + first, out, bias, n, count);
}

/* A pass over weights, shared by threads. */
struct shared_pass {
    const struct dense *dense;
    const struct kernels *kernels;
    const float *values;
    float *y;
    const void *left;
    size_t n, first, end; /* rows; range of columns */
    size_t wide;          /* columns of a unit */
};

static void forward_columns(void *argument, size_t index, int worker)
{
    (void)worker;
    const struct shared_pass *pass = argument;
    size_t first = pass->first + index * pass->wide;
    forward_range(pass->dense, pass->kernels, pass->values, pass->y, pass->left, pass->n, first,
                  size_min(pass->wide, pass->end - first));
}

/* Columns of a unit: a share for each thread, but at least UNIT_FLOATS of weights, so that it takes longer
   than handing it to a thread (about 10 us). */
static size_t unit_columns(const struct dense *dense, const struct pool *pool, size_t count)
{
    enum { UNIT_FLOATS = 1 << 16 };
    size_t threads = (size_t)pool_threads(pool);
    if (threads == 1 || dense->packed == 0)
        return count;
    size_t share = (count + threads - 1) / threads, least = UNIT_FLOATS / dense->in;
    return (size_max(share, least) + WEIGHTS_PANEL - 1) / WEIGHTS_PANEL * WEIGHTS_PANEL;
}

void dense_forward_left(const struct dense *dense, const struct kernels *kernels, struct pool *pool,
                        const float *values, float *y, const void *left, size_t n, size_t first, size_t count)
{
    struct shared_pass pass = {
        dense, kernels, values, y, left, n, first, first + count, unit_columns(dense, pool, count)};
    if (count > 0)
        pool_run(pool, forward_columns, &pass, (count + pass.wide - 1) / pass.wide);
}

void dense_forward(const struct dense *dense, const struct kernels *kernels, const float *values, float *y,
                   const float *x, size_t n)
{
    if (dense->precision == PRECISION_FLOAT32) {
        dense_forward_left(dense, kernels, NULL, values, y, x, n, 0, dense->out);
        return;
    }
    product_weights(kernels, dense->precision, y, dense->out, x, dense->in, values - dense->packed, n,
                    dense->out, dense->in, false);
    if (!dense->plain)
        kernels->layers.add_bias(y, dense->out, values + dense->bias, n, dense->out);
}

void dense_forward_shared(const struct dense *dense, const struct kernels *kernels, struct pool *pool,
                          const float *values, float *y, const float *x, size_t n, bf16 *halves)
{
    const void *left = dense_left(dense, kernels, halves, x, n);
    dense_forward_left(dense, kernels, pool, values, y, left, n, 0, dense->out);
}

void dense_backward(const struct dense *dense, const struct kernels *kernels, const float *values,
                    struct slice gradients, float *dx, bool add, const float *dy, const float *x, size_t n)
{
    /* The gradients of the parameters come first, because dx may overwrite x. */
    float *dweight = slice_at(gradients, dense->weight);
    if (dense->precision == PRECISION_BF16)
        product_transposed_bf16(kernels, dweight, dense->in, dy, dense->out, x, dense->in, dense->out,
                                dense->in, n);
    else
        product(kernels, dweight, dense->in, dy, dense->out, true, x, dense->in, false, dense->out, dense->in,
                n, true);
    if (!dense->plain)
        kernels->layers.add_bias_backward(slice_at(gradients, dense->bias), dy, n, dense->out);
    if (dx != NULL && dense->packed_backward > 0)
        product_weights(kernels, dense->precision, dx, dense->in, dy, dense->out,
                        values - dense->packed_backward, n, dense->in, dense->out, add);
    else if (dx != NULL)
        product(kernels, dx, dense->in, dy, dense->out, false, values + dense->weight, dense->in, false, n,
                dense->in, dense->out, add);
}
