/* BERT's transform of the rows before the output of a masked language model: Linear(dim -> dim), GELU, layer
   norm (Devlin et al. 2019, released code). Forward keeps the rows before GELU; backward recomputes the rest.
   SPDX-License-Identifier: Apache-2.0 */
#ifndef NN_TRANSFORM_H
#define NN_TRANSFORM_H

#include "nn/dense.h"
#include "nn/norm.h"

struct transform {
    struct dense dense; /* "NAME.dense" */
    struct norm norm;   /* "NAME.layer_norm" */
    size_t first, end;  /* the range of its parameters */
};
hashattn_status transform_describe(struct host *host, struct params *params, const char *name, size_t dim,
                                   double epsilon, struct transform *transform);

/* Floats of scratch per row of a tile. */
size_t transform_scratch(const struct transform *transform);
/* Computes y (n, dim) from x (n, dim). before (n, dim): the rows before GELU. */
void transform_forward(const struct transform *transform, const struct kernels *kernels, const float *values,
                       float *y, float *before, float *scratch, const float *x, size_t n);
/* Writes dx (n, dim); adds the gradients of the layers to gradients. */
void transform_backward(const struct transform *transform, const struct kernels *kernels, const float *values,
                        struct slice gradients, float *dx, float *scratch, const float *dy,
                        const float *before, const float *x, size_t n);

#endif
