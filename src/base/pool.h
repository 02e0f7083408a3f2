/* A fixed pool of POSIX threads that runs a function for the indices 0 .. count-1. Any thread may run any
   index. The work of an index must not depend on its thread, so that results do not depend on the number of
   threads. The pool sleeps between runs and has no global state; in a forked child the calling thread does
   all work.
   SPDX-License-Identifier: Apache-2.0 */
#ifndef BASE_POOL_H
#define BASE_POOL_H

#include "base/host.h"

struct pool;

/* threads >= 1 includes the caller, so threads - 1 are started. They block signals that end a program, and
   have the default floating-point environment and 1 MiB of stack, whatever the C library gives. */
hashattn_status pool_new(struct host *host, int threads, struct pool **pool);
void pool_free(struct host *host, struct pool *pool); /* NULL is allowed */
int pool_threads(const struct pool *pool);            /* NULL: 1 */

/* Calls run(argument, index, worker) once for every index < count, in parallel, and returns when all are
   done. Indices are assigned in ascending order; worker < pool_threads selects the thread's scratch memory.
   Not re-entrant: pass NULL as the pool to code inside a run, which then computes on its own thread as worker
   0. But a run of one index is a plain call, in which the pool may be used. */
void pool_run(struct pool *pool, void (*run)(void *argument, size_t index, int worker), void *argument,
              size_t count);

/* Calls run(argument, row, col, worker) once for every cell of a grid, after the cells above and to the left
   have returned, so that sums along rows and along columns keep their order. The cells of a diagonal run in
   parallel, so at most `cols` rows are in progress. */
void pool_run_grid(struct pool *pool, void (*run)(void *argument, size_t row, size_t col, int worker),
                   void *argument, size_t rows, size_t cols);

/* Between the two calls one thread of the pool runs `run`, while the caller continues and may call pool_run
   on the other threads; that thread joins them when `run` returns. Work ahead thus uses the pool's threads,
   and no more threads than the pool's compete for processors. Only one at a time. If the caller is the only
   thread, `run` runs at once. */
void pool_begin_aside(struct pool *pool, void (*run)(void *argument), void *argument);
void pool_end_aside(struct pool *pool); /* returns when `run` has returned */

/* Seconds since the pool was made, for profiles; read them between runs. A caller computes unless it waits,
   so the busy time of all threads is (elapsed time - waiting + helping). */
struct pool_times {
    double waiting; /* callers waiting for the last thread of their run */
    double helping; /* the other threads computing in runs and aside, summed */
};
struct pool_times pool_times(const struct pool *pool);

#endif
