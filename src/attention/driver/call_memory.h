/* How the scratch of a call is laid out, by its plan: for all units, and for one.
   SPDX-License-Identifier: Apache-2.0 */
#ifndef ATTENTION_CALL_MEMORY_H
#define ATTENTION_CALL_MEMORY_H

#include "attention/driver/plan.h"

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
