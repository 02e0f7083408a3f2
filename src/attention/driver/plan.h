/* The plan of a call: everything that follows from a mechanism, its options and the shapes of a batch. It is
   made once, before any array is read (FFTW's idea), and is const while calls run: forward, backward, the own
   loss and inspection of a batch, in every layer with this group of heads. It holds the sizes of both memory
   blocks, where each sequence's part of them begins, and the order of the units of work; nothing computes
   them a second time. Cost: what the mechanism's `refuse`, `saved_size` and `scratch_size` take for each
   length, and a sort of the sequences.
   SPDX-License-Identifier: Apache-2.0 */
#ifndef ATTENTION_PLAN_H
#define ATTENTION_PLAN_H

#include "attention/mechanism.h"
#include "base/pool.h"

/* What a plan is made from. */
struct attention_shape {
    const struct kernels *kernels;
    struct pool *pool;
    const struct mechanism *mechanism;
    const void *options;
    size_t num_sequences, num_heads, head_dim, value_dim;
    size_t max_len;    /* longest sequence that learned tensors are sized for; 0: unknown */
    size_t first_head; /* number of the first head, part of the heads' keys; 0 unless mechanisms are mixed */
    const size_t *query_offsets,
        *key_offsets; /* (num_sequences + 1) rising, first 0; the same array for self-attention */
    /* Element type of every array of a call. Most mechanisms take only floats: bfloat16 rows are widened into
       a worker's memory, and results are rounded to nearest (gradients once, after all were added). See
       struct hashing_facet. */
    enum dtype dtype;
    enum precision precision; /* see struct problem_shape */
    bool masked;              /* a call has a key_mask */
    bool causal;
    bool inspects; /* attention_inspect will be called: scratch includes it */
    /* NULL, or the ranks that share every sequence (comm/row_ranks.h). The rows of a call are then this
       rank's spans, totals (num_sequences) the rows of the whole sequences. Self-attention of floats, without
       mask, out_of_range, inspects and large. A call is collective. */
    struct row_ranks *ranks;
    const size_t *totals;
    /* NULL, or the device that computes the call, through the mechanism's device implementation
       (driver/device_batch.h). Then neither ranks nor inspects, and the pool is not used. */
    struct device *device;
    bool alike; /* with a device: calls have no sample_ids */
};

struct attention_plan {
    struct attention_shape shape;
    size_t param_count;  /* learned floats of a head */
    size_t shared_bytes; /* of what all units share, at the start of `saved` */
    size_t *order;       /* (num_sequences) most expensive first */
    size_t *start;       /* (num_sequences + 1) where the heads of a sequence begin in `saved` */
    size_t num_spread;   /* the first units of the order, each on all threads */
    size_t worker_bytes; /* scratch of a unit on one thread */
    size_t worker_area;  /* of all workers, or of one spread unit */
    /* Bytes of the two blocks. saved lives from forward to backward; scratch is free in between. */
    size_t saved_bytes, scratch_bytes;
    size_t staging_bytes; /* with a device: host memory, see struct device_blocks */
};

/* Bytes of a plan's own arrays. */
size_t attention_plan_bytes(size_t num_sequences);
/* Makes the plan of a shape, whose arrays of numbers must stay. block: attention_plan_bytes, which *plan
   points into; it may move to another plan with it. key_mask: as in a call, for refusals that depend on the
   kept keys; NULL: none.
   INVALID: a width is 0, or a causal sequence has unequal numbers. REFUSED: the mechanism cannot do it, with
   the numbers. NO_MEMORY: the sizes overflow. Offsets must start at 0 and never fall: the API checks that. */
hashattn_status attention_plan_make(struct host *host, const struct attention_shape *shape,
                                    const uint8_t *key_mask, void *block, struct attention_plan *plan);

/* What the mechanism refuses of these shapes, for every sequence: a part of attention_plan_make, for the next
   mask of a plan. Cost: at most 2 us per sequence whose length differs from the previous one's; with a mask,
   a pass over it. */
hashattn_status attention_check_shapes(struct host *host, const struct attention_shape *shape,
                                       const uint8_t *key_mask);

#endif
