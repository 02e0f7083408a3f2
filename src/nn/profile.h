/* Where the time of a step goes, part by part. Time is taken in laps, as with a stop-watch: whoever has done
   a part of the work charges the time since the lap before to it. The calling thread does so between passes;
   inside a pass over tiles, where several parts run on several threads at once, every worker does so on a
   watch of its own, and the time of the whole pass is shared out in proportion. A lap is one look at the
   clock, some 25 ns: about a thousandth of a small step. Everywhere NULL is no profile and costs one test.
   SPDX-License-Identifier: Apache-2.0 */
#ifndef NN_PROFILE_H
#define NN_PROFILE_H

#include "base/pool.h"

enum profile_part {
    PROFILE_DATA,
    PROFILE_EMBEDDING,
    PROFILE_NORM,
    PROFILE_LAYING, /* weights, for products */
    PROFILE_PRODUCTS,
    PROFILE_ATTENTION,
    PROFILE_ATTENTION_BACKWARD,
    PROFILE_CONVOLUTION,
    PROFILE_GELU,
    PROFILE_DROPOUT, /* and the sum with the residual, which is the same pass */
    PROFILE_HEAD,    /* pooling, classifier, loss, both ways */
    PROFILE_SUMS,    /* clearing and adding up gradients */
    PROFILE_OPTIMISER,
    PROFILE_EVALUATION,
    PROFILE_SAVING, /* and the log */
    PROFILE_PARTS
};
extern const char *const profile_names[]; /* "layer norm", ..., ended by NULL */

/* One worker's, in cache lines of its own. */
struct watch {
    _Alignas(64) double last;
    double seconds[PROFILE_PARTS]; /* since the calling thread's last lap */
};

struct profile {
    struct pool *pool;
    struct watch *watches; /* (pool_threads) */
    double last;
    struct pool_times times;      /* at `last` */
    double wall[PROFILE_PARTS];   /* seconds that passed */
    double thread[PROFILE_PARTS]; /* seconds that threads computed: at most wall * pool_threads */
};

hashattn_status profile_new(struct host *host, struct pool *pool, struct profile **profile);
void profile_free(struct host *host, struct profile *profile);
void profile_clear(struct profile *profile);

/* The calling thread, outside of runs of the pool. What passed before `begin` belongs to nobody; `lap`
   charges the time since to the parts that workers have lapped meanwhile, or to `part` where none did. */
void profile_begin(struct profile *profile);
void profile_lap(struct profile *profile, enum profile_part part);

/* A worker inside a run: begin, then a lap after each part of its work. */
struct watch *profile_watch(struct profile *profile, int worker);
void watch_lap(struct watch *watch, enum profile_part part);

#endif
