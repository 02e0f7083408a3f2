/* The plan of a call: everything that follows from a mechanism, its options and the shapes of a batch. It is
   made once, before any array is read (FFTW's idea), and is const while calls run: forward, backward, the own
   loss and inspection of a batch, in every layer with this group of heads. It holds the sizes of both memory
   blocks, where each sequence's part of them begins, and the order of the units of work; nothing computes
   them a second time. Cost: what the mechanism's `refuse`, `saved_size` and `scratch_size` take for each
   length, and a sort of the sequences.
   SPDX-License-Identifier: Apache-2.0 */
#ifndef ATTENTION_PLAN_H
#define ATTENTION_PLAN_H

#include "attention/driver/attention_shape.h"

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

/* ---- how the scratch of a call is laid out ------------------------------------------------------------- */

struct call_memory {
    double *losses;         /* (sequences, heads); NULL: the mechanism has no own loss */
    float *slices;          /* (sequences, heads, parameters) gradients */
    unsigned char *workers; /* (threads, worker_bytes), or one spread unit */
    size_t bytes;
};

/* scratch: NULL counts bytes. */
struct call_memory call_memory(const struct attention_plan *plan, void *scratch);

/* One unit, on of->workers threads: copies of rows that cannot be read in place, because they are bfloat16 or
   between masked rows; then the mechanism's own scratch. */
struct worker_memory {
    size_t *visible;
    float *query, *key, *value, *out, *dout, *dquery, *dkey, *dvalue; /* NULL: the caller's rows are used */
    void *mechanism;
    size_t bytes;
};

/* block: NULL counts bytes. */
struct worker_memory worker_memory(const struct attention_shape *shape, const struct problem_shape *of,
                                   void *block);

#endif
