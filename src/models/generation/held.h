/* What the heads of one group of a layer hold of the tokens so far, for one query per token:
   - a mechanism with a state of constant size (struct stream_facet) holds one per head;
   - softmax attention, over all keys or a window, holds keys and values in a cache (decoding/kv_cache.h);
   - a mechanism whose rows do not mix needs nothing of other tokens;
   - for others the model has to be computed again.
   Sequences are independent; all start with the tokens that the first has absorbed.
   SPDX-License-Identifier: Apache-2.0 */
#ifndef MODELS_HELD_H
#define MODELS_HELD_H

#include "nn/attention_layer.h"

enum held_kind { HELD_STATE, HELD_KEYS, HELD_ROW, HELD_NOTHING };
/* HELD_NOTHING: the model has to be computed again. */
enum held_kind held_kind(const struct mechanism *mechanism, const void *options, size_t head_dim);

struct held_shape {
    const struct kernels *kernels;
    struct pool *pool;
    const struct attention_layer *attention;
    const struct mixing *mixing; /* one of its groups, not HELD_NOTHING */
    const float *values;         /* parameters, for the mechanism's own */
    uint64_t call_key;           /* as of the calls of this layer */
    size_t sequences;
};
struct held;
/* Without tokens. REFUSED: the mechanism cannot handle tokens that come one by one. NO_MEMORY, with the
   bytes. */
hashattn_status held_new(struct host *host, const struct held_shape *shape, struct held **held);
void held_free(struct host *host, struct held *held); /* NULL is allowed */
/* Forgets all tokens. */
hashattn_status held_clear(struct held *held);
/* After a clear: adds the keys and values of a call of this group with one sequence to the first sequence.
   INVALID: a cache refuses the numbers. */
hashattn_status held_absorb(struct held *held, const struct attention_call *call);
/* After that: gives all other sequences the tokens of the first. */
hashattn_status held_spread(struct held *held);
/* Adds one token to every sequence and writes the output of its query. Rows (sequences, dim) of the layer.
   INVALID: as for held_absorb. */
hashattn_status held_mix(struct held *held, const float *query, const float *key, const float *value,
                         float *out);

#endif
