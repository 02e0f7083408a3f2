/* What the heads of one group of a layer hold of the tokens so far, for one query per token:
   - a mechanism with a state of constant size (struct stream_facet) holds one per head;
   - a mechanism whose last query sees the last keys only through their rows (last_keys of struct mechanism)
     holds keys and values, 2 head_dim floats per head and token, and reads those that it sees;
   - others hold nothing, and the model has to be computed again.
   Sequences are independent; all start with the tokens that the first has absorbed.
   SPDX-License-Identifier: Apache-2.0 */
#ifndef MODELS_HELD_H
#define MODELS_HELD_H

#include "nn/self_attention.h"

enum held_kind { HELD_STATE, HELD_KEYS, HELD_NOTHING };
enum held_kind held_kind(const struct mechanism *mechanism, const void *options);

struct held_shape {
    const struct kernels *kernels;
    struct pool *pool;
    const struct self_attention *attention;
    const struct mixing *mixing; /* one of its groups */
    const float *values;         /* parameters, for the mechanism's own */
    uint64_t call_key;           /* as of the calls of this layer */
    size_t sequences, context;   /* tokens of each, at most */
};
struct held;
/* The mechanism holds something. REFUSED: it cannot handle a context of this length. NO_MEMORY, with the
   bytes. */
hashattn_status held_new(struct host *host, const struct held_shape *shape, struct held **held);
void held_free(struct host *host, struct held *held); /* NULL is allowed */
/* Forgets all tokens. */
void held_clear(struct held *held);
/* Adds the keys and values of a call of this group with one sequence to the first sequence. */
void held_absorb(struct held *held, const struct attention_call *call);
/* Gives all other sequences the tokens of the first. */
void held_spread(struct held *held);
/* Adds one token to every sequence and writes the output of its query. Rows (sequences, dim) of the layer. */
void held_mix(struct held *held, const float *query, const float *key, const float *value, float *out);

#endif
