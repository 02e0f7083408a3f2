/* Memory of one head of yoso: what forward saves for backward, and the scratch of each.
   SPDX-License-Identifier: Apache-2.0 */
#ifndef ATTENTION_YOSO_MEMORY_H
#define ATTENTION_YOSO_MEMORY_H

#include "attention/mechanism.h"
#include "attention/yoso/yoso_ranks.h"
#include "parts/collisions/hash_tables.h"
#include "parts/collisions/pairs.h"
#include "parts/hashing/hasher.h"

struct yoso_saved {
    void *query_codes, *key_codes; /* with recompute these are in scratch */
    float *row_norms;              /* (n_q) of the normalisation */
};

struct yoso_scratch {
    size_t ld_value; /* stride of value rows */
    struct tables tables;
    struct yoso_ranks ranks;       /* of shapes with ranks; then tables are for causal ones only */
    struct hasher hasher;          /* no memory in backward without recompute */
    void *query_codes, *key_codes; /* with recompute only */
    union {
        struct {
            float *value, *x; /* (n_k, ld_value), (n_q, ld_value) */
        } forward;
        struct {
            struct pair_rows queries, keys; /* unit rows, their gradients, and rows of dX or V */
            float *query_norm, *key_norm, *bias;
            struct pair_work pairs;
        } backward;
    };
};

/* Lay the parts out on a block, or on NULL to learn the size. Return the bytes. */
size_t yoso_lay_out_saved(struct yoso_saved *saved, const struct yoso_options *options,
                          const struct problem_shape *shape, void *block);
size_t yoso_lay_out_scratch(struct yoso_scratch *scratch, const struct yoso_options *options,
                            const struct problem_shape *shape, bool backward, void *block);

/* Slots of the mechanism. */
size_t yoso_saved_size(const void *options, const struct problem_shape *shape);
size_t yoso_scratch_size(const void *options, const struct problem_shape *shape);

/* Slots of its preparation: the planes of a call, and the memory that drawing them takes. */
size_t yoso_planes_size(const void *options, size_t head_dim);
size_t yoso_planes_work_size(const void *options, size_t head_dim, size_t workers);

#endif
