/* Workers wait on a condition variable; a generation number identifies a run. A worker joins a run when it
   wakes, after 10 to 50 us, and no thread waits for a sleeping worker: if the run is over by then, the worker
   misses it. Indices come from one atomic counter. Units of work take hundreds of microseconds (a head, a
   tile of rows), so the counter and the two clock readings per thread and run cost nothing measurable.
   SPDX-License-Identifier: Apache-2.0 */
#include "base/pool.h"

#include <assert.h>
#include <fenv.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/memory.h"
#include "base/signal_mask.h"

/* Bytes of stack of a worker. Work needs at most the 256 KiB that a caller has, more with sanitizers. */
enum { STACK = 1 << 20 };

struct worker {
    struct pool *pool;
    pthread_t thread;
    int number;
};

struct pool {
    pthread_mutex_t lock;
    pthread_cond_t work, idle;
    unsigned long generation; /* number of runs so far */
    int busy;                 /* workers inside the current run */
    bool open;                /* workers may join the current run */
    enum { NOTHING, WAITING, TAKEN } aside;
    void (*run_aside)(void *);
    void *aside_argument;
    bool leaving;
    void (*run)(void *, size_t, int);
    void *argument;
    size_t count;
    atomic_size_t next;
    int threads, started;
    pid_t owner; /* a forked child has no workers */
    struct pool_times times;
    struct worker *workers;
};

/* The lock checks its owner, so that a test sees a lock that is missing. */
static void acquire(struct pool *pool)
{
    int error = pthread_mutex_lock(&pool->lock);
    assert(error == 0);
    (void)error;
}

static void release(struct pool *pool)
{
    int error = pthread_mutex_unlock(&pool->lock);
    assert(error == 0);
    (void)error;
}

static void await(struct pool *pool, pthread_cond_t *condition)
{
    int error = pthread_cond_wait(condition, &pool->lock);
    assert(error == 0);
    (void)error;
}

static void drain(struct pool *pool, int worker)
{
    for (;;) {
        size_t index = atomic_fetch_add_explicit(&pool->next, 1, memory_order_relaxed);
        if (index >= pool->count)
            return;
        pool->run(pool->argument, index, worker);
    }
}

/* Called by a worker that holds the lock; returns with the lock held. */
static void run_aside(struct pool *pool)
{
    pool->aside = TAKEN;
    release(pool);
    double start = clock_seconds();
    pool->run_aside(pool->aside_argument);
    double helped = clock_seconds() - start;
    acquire(pool);
    pool->times.helping += helped;
    pool->aside = NOTHING;
    pthread_cond_signal(&pool->idle);
}

static void *worker_main(void *argument)
{
    struct worker *worker = argument;
    struct pool *pool = worker->pool;
    unsigned long seen = 0;
    fesetenv(FE_DFL_ENV); /* not that of the thread that made the pool */
    acquire(pool);
    for (;;) {
        while (!pool->leaving && pool->aside != WAITING && (!pool->open || pool->generation == seen))
            await(pool, &pool->work);
        if (pool->leaving)
            break;
        if (pool->aside == WAITING) {
            run_aside(pool);
            continue;
        }
        seen = pool->generation;
        pool->busy++;
        release(pool);
        double start = clock_seconds();
        drain(pool, worker->number);
        double helped = clock_seconds() - start;
        acquire(pool);
        pool->times.helping += helped;
        if (--pool->busy == 0)
            pthread_cond_signal(&pool->idle);
    }
    release(pool);
    return NULL;
}

hashattn_status pool_new(struct host *host, int threads, struct pool **out)
{
    *out = NULL;
    FAIL_IF(threads < 1 || threads > 1024, host, HASHATTN_INVALID, "`threads` is %d, allowed are 1 to 1024",
            threads);
    struct pool *pool;
    void *block;
    TRY(memory_new_zeroed(host, 1, sizeof *pool, "thread pool", &block));
    pool = block;
    pthread_mutexattr_t checked;
    pthread_mutexattr_init(&checked);
    pthread_mutexattr_settype(&checked, PTHREAD_MUTEX_ERRORCHECK);
    pthread_mutex_init(&pool->lock, &checked);
    pthread_mutexattr_destroy(&checked);
    pthread_cond_init(&pool->work, NULL);
    pthread_cond_init(&pool->idle, NULL);
    pool->threads = threads;
    pool->owner = getpid();
    hashattn_status status =
        memory_new_zeroed(host, (size_t)threads, sizeof *pool->workers, "threads", &block);
    pool->workers = block;
    /* A handler that ran in a worker would interrupt the other threads at any point. */
    sigset_t before;
    signal_mask_ending(&before);
    pthread_attr_t attributes;
    pthread_attr_init(&attributes);
    pthread_attr_setstacksize(&attributes, STACK);
    for (int i = 1; status == HASHATTN_OK && i < threads; i++) {
        pool->workers[i] = (struct worker){.pool = pool, .number = i};
        if (pthread_create(&pool->workers[i].thread, &attributes, worker_main, &pool->workers[i]) != 0)
            status = host_fail(host, HASHATTN_NO_MEMORY, "cannot start thread %d of %d", i + 1, threads);
        else
            pool->started++;
    }
    pthread_attr_destroy(&attributes);
    signal_mask_restore(&before);
    if (status != HASHATTN_OK) {
        pool_free(host, pool);
        return status;
    }
    *out = pool;
    return HASHATTN_OK;
}

void pool_free(struct host *host, struct pool *pool)
{
    if (pool == NULL)
        return;
    if (pool->owner == getpid()) {
        acquire(pool);
        pool->leaving = true;
        pthread_cond_broadcast(&pool->work);
        release(pool);
        for (int i = 1; i <= pool->started; i++)
            pthread_join(pool->workers[i].thread, NULL);
        pthread_cond_destroy(&pool->idle);
        pthread_cond_destroy(&pool->work);
        pthread_mutex_destroy(&pool->lock);
    }
    memory_free(host, pool->workers);
    memory_free(host, pool);
}

int pool_threads(const struct pool *pool)
{
    return pool == NULL ? 1 : pool->threads;
}

void pool_run(struct pool *pool, void (*run)(void *, size_t, int), void *argument, size_t count)
{
    if (count == 0)
        return;
    if (pool == NULL || count == 1 || pool->started == 0 || pool->owner != getpid()) {
        for (size_t i = 0; i < count; i++)
            run(argument, i, 0);
        return;
    }
    acquire(pool);
    pool->run = run;
    pool->argument = argument;
    pool->count = count;
    atomic_store_explicit(&pool->next, 0, memory_order_relaxed);
    pool->open = true;
    pool->generation++;
    pthread_cond_broadcast(&pool->work);
    release(pool);
    drain(pool, 0);
    double start = clock_seconds();
    acquire(pool);
    pool->open = false;
    while (pool->busy > 0)
        await(pool, &pool->idle);
    pool->times.waiting += clock_seconds() - start;
    release(pool);
}

void pool_begin_aside(struct pool *pool, void (*run)(void *), void *argument)
{
    if (pool == NULL || pool->started == 0 || pool->owner != getpid()) {
        run(argument);
        return;
    }
    acquire(pool);
    pool->run_aside = run;
    pool->aside_argument = argument;
    pool->aside = WAITING;
    pthread_cond_signal(&pool->work);
    release(pool);
}

void pool_end_aside(struct pool *pool)
{
    if (pool == NULL || pool->started == 0 || pool->owner != getpid())
        return;
    double start = clock_seconds();
    acquire(pool);
    bool own = pool->aside == WAITING; /* no worker has woken */
    if (own)
        pool->aside = NOTHING;
    while (pool->aside != NOTHING)
        await(pool, &pool->idle);
    if (!own)
        pool->times.waiting += clock_seconds() - start;
    release(pool);
    if (own)
        pool->run_aside(pool->aside_argument);
}

struct pool_times pool_times(const struct pool *pool)
{
    return pool == NULL ? (struct pool_times){0, 0} : pool->times;
}

struct grid {
    void (*run)(void *, size_t, size_t, int);
    void *argument;
    size_t diagonal, first_row;
};

static void run_cell(void *argument, size_t index, int worker)
{
    const struct grid *grid = argument;
    size_t row = grid->first_row + index;
    grid->run(grid->argument, row, grid->diagonal - row, worker);
}

void pool_run_grid(struct pool *pool, void (*run)(void *, size_t, size_t, int), void *argument, size_t rows,
                   size_t cols)
{
    if (pool_threads(pool) == 1) {
        for (size_t row = 0; row < rows; row++)
            for (size_t col = 0; col < cols; col++)
                run(argument, row, col, 0);
        return;
    }
    struct grid grid = {.run = run, .argument = argument};
    for (; rows > 0 && cols > 0 && grid.diagonal < rows + cols - 1; grid.diagonal++) {
        size_t end = grid.diagonal < rows ? grid.diagonal + 1 : rows;
        grid.first_row = grid.diagonal < cols ? 0 : grid.diagonal - cols + 1;
        pool_run(pool, run_cell, &grid, end - grid.first_row);
    }
}
