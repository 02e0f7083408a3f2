/* All parameters of a model in one block, described by rows {name, shape, offset, start}. Values, gradients
   and both moments of the optimiser are blocks with the same description, so init, step, clip, save, load,
   count and gradient check are one loop. SPDX-License-Identifier: Apache-2.0 */
#ifndef NN_PARAMS_H
#define NN_PARAMS_H

#include <stdbool.h>
#include <stdint.h>

#include "base/host.h"
#include "base/pool.h"
#include "base/start.h"
#include "kernels/product_weights.h"

enum { PARAM_NAME = 96, PARAM_RANK = 4 };

struct param {
    char name[PARAM_NAME]; /* as in model.safetensors: "encoder.layer.0.attention.query.weight" */
    size_t shape[PARAM_RANK];
    int rank;
    size_t offset, count; /* in floats; offsets are multiples of 16 */
    enum param_start start;
    float scale;
    /* Of the weights of a dense layer, (out, in): they are laid this many floats before the values, turned
       for forward, as they are for backward; 0: not laid. */
    size_t laid, laid_backward;
};

/* Grows while a model is described; owned by the model. */
struct params {
    struct param *rows;
    size_t num_rows, capacity;
    size_t total;             /* floats of one block, a multiple of 16 */
    enum precision precision; /* of the products with weights; set before anything is described */
    /* Floats of the weights as they are laid for products, a multiple of 16. They stand BEFORE the values, so
       that a layer knows its place while the model is still being described; see params_lay. */
    size_t laid;
};

/* A stretch of a block: floats[0] is the block's float number `first`. Layers write gradients into a slice,
   so that a partial sum needs room for the parameters of a few layers only; a whole block is {block, 0}. */
struct slice {
    float *floats;
    size_t first;
};
static inline float *slice_at(struct slice slice, size_t offset)
{
    return slice.floats + (offset - slice.first);
}

/* Adds a row and gives its offset. A name or a block too long to be described is INVALID. */
hashattn_status params_add(struct host *host, struct params *params, enum param_start start, float scale,
                           size_t *offset, int rank, const size_t *shape, const char *format, ...)
    __attribute__((format(printf, 8, 9)));
void params_free(struct host *host, struct params *params);
/* Fills a block: row i from (seed, i) alone, zeros between rows. */
void params_start(const struct params *params, uint64_t seed, float *values);
/* The next place for laid weights of (k, n): so many floats before the values. */
size_t params_place(struct params *params, size_t k, size_t n);
/* The floats of the room that params_lay fills; 0: nothing is laid. */
size_t params_room(const struct params *params);
/* What the layers are given for these values: a copy in `room`, behind the laid weights, good until the
   values change, that is for a step or a whole evaluation; where nothing is laid, the values themselves.
   Weights that no product reads as they stand are not copied. backward: for backward passes too. */
const float *params_lay(const struct params *params, const struct kernels *kernels, struct pool *pool,
                        const float *values, bool backward, float *room);
/* Sum of the counts (without the padding between rows). */
size_t params_count(const struct params *params);

#endif
