/* The time of a step, part by part. Time is taken in laps: code that has finished a part charges the time
   since the previous lap to it. The calling thread does so between passes. Inside a pass over tiles, where
   several parts run on several threads at once, every worker laps a watch of its own, and the time of the
   whole pass is divided in proportion. A lap reads the clock once, about 25 ns: a thousandth of a small step.
   A NULL profile is allowed everywhere and costs one test.
   SPDX-License-Identifier: Apache-2.0 */
#ifndef NN_PROFILE_H
#define NN_PROFILE_H

#include "base/pool.h"

enum profile_part {
    PROFILE_DATA,
    PROFILE_EMBEDDING,
    PROFILE_NORM,
    PROFILE_LAYING, /* packing of weights for products */
    PROFILE_PRODUCTS,
    PROFILE_ATTENTION,
    PROFILE_ATTENTION_BACKWARD,
    PROFILE_CONVOLUTION,
    PROFILE_GELU,
    PROFILE_DROPOUT, /* and the addition of the residual, which is the same pass */
    PROFILE_HEAD,    /* pooling, classifier and loss, forward and backward */
    PROFILE_SUMS,    /* clearing and summing gradients */
    PROFILE_RANKS,   /* sums over ranks, and waiting for them */
    PROFILE_OPTIMISER,
    PROFILE_EVALUATION,
    PROFILE_SAVING, /* and writing the log */
    PROFILE_PARTS
};
extern const char *const profile_names[]; /* "layer norm", ..., ended by NULL */

/* The watch of one worker, in cache lines of its own. */
struct watch {
    _Alignas(64) double last;
    double seconds[PROFILE_PARTS]; /* since the calling thread's last lap */
};

struct profile {
    struct pool *pool;
    struct watch *watches; /* (pool_threads) */
    double last;
    struct pool_times times;      /* at the time `last` */
    double wall[PROFILE_PARTS];   /* elapsed seconds */
    double thread[PROFILE_PARTS]; /* seconds of computation over all threads: at most wall * pool_threads */
};

hashattn_status profile_new(struct host *host, struct pool *pool, struct profile **profile);
void profile_free(struct host *host, struct profile *profile);
void profile_clear(struct profile *profile);

/* For the calling thread, outside of runs of the pool. The time before `begin` is not charged. `lap` charges
   the time since the previous lap to the parts that workers have lapped meanwhile, or to `part` if none
   have. */
void profile_begin(struct profile *profile);
void profile_lap(struct profile *profile, enum profile_part part);

/* For a worker inside a run: begin, then a lap after each part of its work. */
struct watch *profile_watch(struct profile *profile, int worker);
void watch_lap(struct watch *watch, enum profile_part part);

#endif
