/* All parameters of a model in one block, described by rows {name, shape, offset, start}. Values, gradients
   and both moments of the optimiser are blocks with the same description, so init, step, clip, save, load,
   count and gradient check are one loop each.
   SPDX-License-Identifier: Apache-2.0 */
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
    /* By weight decay. Vectors (biases, and gains of norms) are not; a mechanism's tensors say it in their
       row (decays of struct parameter_row). */
    bool decayed;
    bool of_own_loss; /* a mechanism's own loss trains it, and nothing else */
    /* For the weights of a dense layer, (out, in): distance in floats before the values at which they are
       packed, transposed for forward, as stored for backward. 0: not packed. */
    size_t packed, packed_backward;
};

/* Grows while a model is described. Owned by the model. */
struct params {
    struct param *rows;
    size_t num_rows, capacity;
    size_t total; /* floats of one block, a multiple of 16 */
    /* Set before anything is described: the precision of products with weights, and the standard deviation of
       the initial weights of dense layers, whose biases then start at 0. 0: both start uniform within
       1 / sqrt(inputs), as in PyTorch. */
    enum precision precision;
    float initial_std;
    /* Floats of the weights packed for products, a multiple of 16. They precede the values, so a layer knows
       their offset while the model is still being described; see params_pack. */
    size_t packed_weights;
};

/* Parameters by their place in a block, in floats. */
struct param_range {
    size_t first, count;
};

/* A range of a block: floats[0] is float number `first` of the block. Layers write gradients into a slice, so
   a partial sum needs memory for the parameters of a few layers only. A whole block is {block, 0}. */
struct slice {
    float *floats;
    size_t first;
};
static inline float *slice_at(struct slice slice, size_t offset)
{
    return slice.floats + (offset - slice.first);
}

/* Adds a row and returns its offset. A name or block that is too long is INVALID. */
hashattn_status params_add(struct host *host, struct params *params, enum param_start start, float scale,
                           size_t *offset, int rank, const size_t *shape, const char *format, ...)
    __attribute__((format(printf, 8, 9)));
void params_free(struct host *host, struct params *params);
/* True for a tensor that a mechanism learns, such as a hash ("encoder.layer.0.attention.own.query"). */
bool param_is_own(const struct param *row);
/* Initialises a block: (seed, i) determines row i; zeros between rows. */
void params_start(const struct params *params, uint64_t seed, float *values);
/* Reserves memory for packed weights (k, n). Returns their distance in floats before the values. */
size_t params_reserve(struct params *params, size_t k, size_t n);
/* Floats of the block that params_pack fills; 0: nothing is packed. */
size_t params_packed_floats(const struct params *params);
/* Prepares values for the layers. Returns a copy in `block`, after the packed weights, valid until the values
   change (one step, or a whole session); if nothing is packed, returns the values themselves. Weights that
   no product reads unpacked are not copied, nor is anything if the values lie there already, at block +
   packed_weights. backward: packs for backward passes too. */
const float *params_pack(const struct params *params, const struct kernels *kernels, struct pool *pool,
                         const float *values, bool backward, float *block);
/* Packs anew, for both passes, what has changed of values that lie in the block: the tensors of these ranges;
   NULL: all. */
void params_repack(const struct params *params, const struct kernels *kernels, struct pool *pool,
                   const struct param_range *ranges, size_t num_ranges, float *values);
/* The same for one row from floats of its own, with the values of the block, which may be packed row by
   row. */
void params_pack_row(const struct params *params, const struct kernels *kernels, size_t index,
                     const float *from, bool backward, float *values);
/* The number of parameters, without the padding between rows. */
size_t params_count(const struct params *params);

#endif
