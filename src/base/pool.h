/* A fixed pool of POSIX threads that runs f over 0 .. count-1. Which thread runs which index is free; what an
   index computes must not depend on it, so results never depend on the number of threads. Sleeps between
   runs, keeps no global state, and falls back to the calling thread in a forked child.
   SPDX-License-Identifier: Apache-2.0 */
#ifndef BASE_POOL_H
#define BASE_POOL_H

#include "base/host.h"

struct pool;

/* threads >= 1 counts the caller: threads - 1 are started. They leave signals that end a program to it. */
hashattn_status pool_new(struct host *host, int threads, struct pool **pool);
void pool_free(struct host *host, struct pool *pool); /* NULL is allowed */
int pool_threads(const struct pool *pool);            /* NULL: 1 */

/* Calls run(argument, index, worker) once for every index < count, in parallel, indices handed out in rising
   order; worker < pool_threads names the thread's own scratch. Returns when all are done. Not re-entrant: who
   is called by a run and may itself have something to spread is given NULL, which computes on the calling
   thread, as worker 0. */
void pool_run(struct pool *pool, void (*run)(void *argument, size_t index, int worker), void *argument,
              size_t count);

/* Calls run(argument, row, col, worker) once for every cell of a grid, after the cell above it and the one
   before it have returned: sums along rows and along columns both keep their order. Cells of one diagonal run
   in parallel, so at most `cols` rows are under way at once. */
void pool_run_grid(struct pool *pool, void (*run)(void *argument, size_t row, size_t col, int worker),
                   void *argument, size_t rows, size_t cols);

/* Between the two calls one thread of the pool runs `run`, while the caller goes on and may call pool_run,
   which the others share; that thread joins them when it is done. So what is made ahead takes its turn on the
   threads that compute, and no more threads want a processor than the pool has. One at a time. Where the
   caller is the only thread it runs at once. */
void pool_begin_aside(struct pool *pool, void (*run)(void *argument), void *argument);
void pool_end_aside(struct pool *pool); /* returns when it has run */

/* Seconds since the pool was made, for profiles; read between runs. While a caller does not wait it computes,
   so the threads together were busy for (time passed - waiting + helping). */
struct pool_times {
    double waiting; /* of callers, for the last thread of their run */
    double helping; /* of the other threads, inside runs and aside, summed */
};
struct pool_times pool_times(const struct pool *pool);

#endif
