/* Every index runs once for any number of threads, in each of many runs, and in a forked child. Bugs tried
   and caught: counter not reset between runs; return before the workers are done; a worker with the caller's
   worker number; a forked child waiting for workers that it does not have; threads left running when one
   cannot be started; a diagonal of a grid that begins a row too early; a run that waits for the thread that
   works aside; that thread not joining the next run; work aside done twice or not at all; a worker that
   receives a signal that ends the program; the caller's mask changed; workers with the stack
   that the C library gives.
   SPDX-License-Identifier: Apache-2.0 */
#include "base/pool.h"

#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "support/check.h"

enum { MOST = 4000, THREADS = 8 };

struct work {
    atomic_int times[MOST];     /* runs of each index */
    atomic_int inside[THREADS]; /* threads now using each worker number */
    atomic_int workers;         /* bits: worker numbers seen */
    atomic_int faults;
    int threads;
    bool slow;
};

static void run_one(void *argument, size_t index, int worker)
{
    struct work *work = argument;
    if (worker < 0 || worker >= work->threads || atomic_fetch_add(&work->inside[worker], 1) != 0)
        atomic_fetch_add(&work->faults, 1);
    atomic_fetch_or(&work->workers, 1 << worker);
    if (work->slow)
        for (int i = 0; i < 3; i++)
            sched_yield();
    atomic_fetch_add(&work->times[index], 1);
    atomic_fetch_sub(&work->inside[worker], 1);
}

static void check_run(struct pool *pool, struct work *work, size_t count)
{
    memset(work->times, 0, sizeof work->times);
    work->threads = pool_threads(pool);
    pool_run(pool, run_one, work, count);
    for (size_t i = 0; i < MOST; i++)
        if (work->times[i] != (i < count))
            fail_msg("index %zu of %zu ran %d times", i, count, work->times[i]);
    assert_int_equal(work->faults, 0);
    for (int i = 0; i < THREADS; i++)
        assert_int_equal(work->inside[i], 0);
}

static void every_index_runs_once(void **state)
{
    (void)state;
    static struct work work;
    for (int threads = 1; threads <= THREADS; threads++) {
        struct failing_host failing;
        failing_host_init(&failing, -1);
        struct pool *pool;
        check_status(&failing.host, pool_new(&failing.host, threads, &pool), HASHATTN_OK, NULL);
        assert_int_equal(pool_threads(pool), threads);
        static const size_t counts[] = {0, 1, 2, 3, 7, 8, 9, 100, MOST};
        for (int slow = 0; slow < 2; slow++)
            for (size_t i = 0; i < sizeof counts / sizeof counts[0]; i++) {
                work.slow = slow;
                check_run(pool, &work, counts[i]);
            }
        for (size_t i = 0; i < 500;
             i++) /* the next run begins while workers may still be leaving the last one */
            check_run(pool, &work, i % 5);
        pool_free(&failing.host, pool);
        assert_int_equal(failing.outstanding, 0);
    }
}

struct cells {
    size_t rows, cols;
    atomic_bool done[30 * 20];
    atomic_size_t count, too_early;
};

static void fill_cell(void *argument, size_t row, size_t col, int worker)
{
    struct cells *cells = argument;
    (void)worker;
    bool above = row == 0 || cells->done[(row - 1) * cells->cols + col];
    bool before = col == 0 || cells->done[row * cells->cols + col - 1];
    atomic_fetch_add(&cells->too_early, !above || !before);
    for (int i = 0; i < 3; i++)
        sched_yield();
    cells->done[row * cells->cols + col] = true;
    atomic_fetch_add(&cells->count, 1);
}

static void cells_of_a_grid_wait_for_their_neighbours(void **state)
{
    (void)state;
    static const size_t sizes[][2] = {{0, 3}, {3, 0}, {1, 1}, {1, 20}, {20, 1}, {7, 7}, {4, 19}, {30, 20}};
    struct host host;
    host_init(&host);
    for (int threads = 1; threads <= THREADS; threads += 2) {
        struct pool *pool;
        check_status(&host, pool_new(&host, threads, &pool), HASHATTN_OK, NULL);
        for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
            static struct cells cells;
            memset(&cells, 0, sizeof cells);
            cells.rows = sizes[i][0];
            cells.cols = sizes[i][1];
            pool_run_grid(pool, fill_cell, &cells, cells.rows, cells.cols);
            assert_int_equal(cells.count, cells.rows * cells.cols);
            assert_int_equal(cells.too_early, 0);
        }
        pool_free(&host, pool);
    }
}

struct mask {
    pthread_t caller;
    atomic_int looked, blocked; /* by workers, one bit per signal */
};

static const int ending[] = {SIGHUP, SIGINT, SIGQUIT, SIGTERM};
enum { ENDING = sizeof ending / sizeof *ending };

static int blocked_here(void)
{
    sigset_t set;
    int bits = 0;
    assert_int_equal(pthread_sigmask(SIG_BLOCK, NULL, &set), 0);
    for (int i = 0; i < ENDING; i++)
        bits |= sigismember(&set, ending[i]) == 1 ? 1 << i : 0;
    return bits;
}

static void look_at_mask(void *argument, size_t index, int worker)
{
    struct mask *mask = argument;
    (void)index;
    (void)worker;
    if (!pthread_equal(pthread_self(), mask->caller)) {
        atomic_store(&mask->blocked, blocked_here());
        atomic_store(&mask->looked, 1);
    }
}

static void signals_that_end_a_program_are_the_callers(void **state)
{
    (void)state;
    struct host host;
    struct pool *pool;
    host_init(&host);
    sigset_t none, before;
    sigemptyset(&none);
    pthread_sigmask(SIG_SETMASK, &none, &before);
    check_status(&host, pool_new(&host, 2, &pool), HASHATTN_OK, NULL);
    assert_int_equal(blocked_here(), 0);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    struct mask mask = {.caller = pthread_self()};
    while (!mask.looked)
        pool_run(pool, look_at_mask, &mask, 100);
    assert_int_equal(mask.blocked, (1 << ENDING) - 1);
    pool_free(&host, pool);
}

struct meeting {
    pthread_barrier_t all;
    atomic_int numbers;
};

static void meet(void *argument, size_t index, int worker)
{
    struct meeting *meeting = argument;
    (void)index;
    atomic_fetch_or(&meeting->numbers, 1 << worker);
    pthread_barrier_wait(&meeting->all);
}

/* As many indices as threads, and none returns before all have begun: hangs unless all threads work. */
static void all_threads_take_part(void **state)
{
    (void)state;
    struct host host;
    host_init(&host);
    for (int threads = 1; threads <= THREADS; threads++) {
        struct pool *pool;
        check_status(&host, pool_new(&host, threads, &pool), HASHATTN_OK, NULL);
        struct meeting meeting = {.numbers = 0};
        pthread_barrier_init(&meeting.all, NULL, (unsigned)threads);
        for (int round = 0; round < 20; round++) {
            meeting.numbers = 0;
            pool_run(pool, meet, &meeting, (size_t)threads);
            assert_int_equal(meeting.numbers, (1 << threads) - 1);
        }
        pthread_barrier_destroy(&meeting.all);
        pool_free(&host, pool);
    }
}

struct aside {
    struct pool *pool;
    struct meeting meeting;
    struct work work;
    atomic_int runs_done, times, too_early;
    bool waits; /* for the end of a run of the caller */
};

static void do_aside(void *argument)
{
    struct aside *aside = argument;
    for (int i = 0; aside->waits && aside->runs_done == 0 && i < 5000; i++)
        usleep(1000);
    atomic_fetch_add(&aside->too_early, aside->waits && aside->runs_done == 0);
    atomic_fetch_add(&aside->times, 1);
}

/* Runs continue without the thread that works aside, and it joins the next run when it is done; otherwise the
   meeting hangs. */
static void work_aside_goes_on_beside_runs(void **state)
{
    (void)state;
    struct host host;
    host_init(&host);
    static struct aside aside;
    double start = 0;
    for (int threads = 1; threads <= THREADS; threads += threads < 3 ? 1 : 5)
        for (int round = 0; round < 20; round++) {
            if (round == 0) {
                start = clock_seconds();
                check_status(&host, pool_new(&host, threads, &aside.pool), HASHATTN_OK, NULL);
            }
            aside.waits = threads > 1 && round % 2;
            aside.runs_done = aside.times = aside.meeting.numbers = 0;
            pool_begin_aside(aside.pool, do_aside, &aside);
            if (aside.waits)
                usleep(500); /* usually a worker has taken it; otherwise the caller runs it */
            check_run(aside.pool, &aside.work, 50);
            aside.runs_done = 1;
            if (round % 3) {
                pthread_barrier_init(&aside.meeting.all, NULL, (unsigned)threads);
                pool_run(aside.pool, meet, &aside.meeting, (size_t)threads);
                assert_int_equal(aside.meeting.numbers, (1 << threads) - 1);
                pthread_barrier_destroy(&aside.meeting.all);
            }
            pool_end_aside(aside.pool);
            assert_int_equal(aside.times, 1);
            assert_int_equal(aside.too_early, 0);
            if (round == 19) {
                double helping = pool_times(aside.pool).helping;
                assert_true(helping >= 0 && helping <= threads * (clock_seconds() - start));
                pool_free(&host, aside.pool);
            }
        }
    aside.waits = false;
    pool_begin_aside(NULL, do_aside, &aside);
    pool_end_aside(NULL);
    assert_int_equal(aside.times, 2);
}

static void a_forked_child_works_on_one_thread(void **state)
{
    (void)state;
    static struct work work;
    struct host host;
    host_init(&host);
    struct pool *pool;
    check_status(&host, pool_new(&host, 4, &pool), HASHATTN_OK, NULL);
    check_run(pool, &work, 100);
    pid_t child = fork();
    if (child == 0) {
        alarm(20); /* kills a child that waits for workers */
        memset(work.times, 0, sizeof work.times);
        work.workers = 0;
        pool_run(pool, run_one, &work, 100);
        for (int i = 0; i < 100; i++)
            if (work.times[i] != 1)
                _exit(1);
        if (work.workers != 1 || work.faults != 0)
            _exit(2);
        static struct aside aside;
        pool_begin_aside(pool, do_aside, &aside);
        pool_end_aside(pool);
        if (aside.times != 1)
            _exit(3);
        pool_free(&host, pool);
        _exit(0);
    }
    int code;
    waitpid(child, &code, 0);
    assert_true(WIFEXITED(code));
    assert_int_equal(WEXITSTATUS(code), 0);
    check_run(pool, &work, 100); /* the parent's pool still works */
    pool_free(&host, pool);
}

static void absurd_numbers_are_refused(void **state)
{
    (void)state;
    struct host host;
    host_init(&host);
    struct pool *pool;
    check_status(&host, pool_new(&host, 0, &pool), HASHATTN_INVALID, "threads is 0, allowed are 1 to 1024");
    assert_null(pool);
    check_status(&host, pool_new(&host, -1, &pool), HASHATTN_INVALID, "threads is -1");
    check_status(&host, pool_new(&host, 1025, &pool), HASHATTN_INVALID, "threads is 1025");
    pool_free(&host, NULL);
}

static int threads_of_this_process(void)
{
    char line[200];
    int threads = -1;
    FILE *status = fopen("/proc/self/status", "r");
    while (status != NULL && fgets(line, sizeof line, status) != NULL)
        if (sscanf(line, "Threads: %d", &threads) == 1)
            break;
    fclose(status);
    return threads;
}

static void failing_allocations_are_survived(void **state)
{
    (void)state;
    int before = threads_of_this_process();
    for (long n = 0;; n++) {
        struct failing_host failing;
        failing_host_init(&failing, n);
        struct pool *pool;
        hashattn_status status = pool_new(&failing.host, 3, &pool);
        if (status == HASHATTN_OK)
            pool_free(&failing.host, pool);
        assert_int_equal(failing.outstanding, 0);
        assert_int_equal(threads_of_this_process(), before);
        if (status == HASHATTN_OK) {
            assert_int_equal(n, 2);
            return;
        }
        assert_null(pool);
        check_status(&failing.host, status, HASHATTN_NO_MEMORY, "no memory for thread");
    }
}

/* A child that may not map more memory cannot allocate a thread's stack. This test runs first, because the C
   library keeps and reuses the stacks of earlier threads. */
static void threads_that_cannot_be_started_are_reported(void **state)
{
    (void)state;
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
    print_message(
        "SKIPPED: threads_that_cannot_be_started_are_reported: sanitizers map memory of their own\n");
    skip();
#endif
    pid_t child = fork();
    if (child == 0) {
        struct failing_host failing;
        failing_host_init(&failing, -1);
        struct rlimit none = {.rlim_cur = 1 << 20, .rlim_max = RLIM_INFINITY};
        setrlimit(RLIMIT_AS, &none);
        struct pool *pool;
        hashattn_status status = pool_new(&failing.host, 4, &pool);
        if (status != HASHATTN_NO_MEMORY || pool != NULL || failing.outstanding != 0)
            _exit(1);
        _exit(strstr(failing.host.message, "cannot start thread 2 of 4") == NULL ? 2 : 0);
    }
    int code;
    waitpid(child, &code, 0);
    assert_true(WIFEXITED(code));
    assert_int_equal(WEXITSTATUS(code), 0);
}

static void spin_two_milliseconds(void *argument, size_t index, int worker)
{
    (void)argument, (void)index, (void)worker;
    for (double end = clock_seconds() + 0.002; clock_seconds() < end;)
        ;
}

/* However the indices are assigned, the computing time is at least the work and at most the time of all
   threads. (The share of waiting cannot be tested on a busy machine: a caller that lost its processor waits
   too.) */
static void times_are_those_of_the_work(void **state)
{
    (void)state;
    struct host host;
    struct pool *pool;
    host_init(&host);
    assert_int_equal(pool_new(&host, 3, &pool), HASHATTN_OK);
    double start = clock_seconds();
    pool_run(pool, spin_two_milliseconds, NULL, 9);
    double passed = clock_seconds() - start;
    struct pool_times times = pool_times(pool);
    double busy = passed - times.waiting + times.helping;
    assert_true(times.waiting >= 0 && times.waiting <= passed && times.helping <= 2 * passed);
    assert_true(busy >= 9 * 0.002 && busy <= 3 * passed);
    for (int i = 0; i < 10; i++) /* times add up over runs and helpers */
        pool_run(pool, spin_two_milliseconds, NULL, 9);
    times = pool_times(pool);
    passed = clock_seconds() - start;
    assert_true(passed - times.waiting + times.helping >= 11 * 9 * 0.002);
    pool_run(pool, spin_two_milliseconds, NULL, 1); /* on the caller only */
    struct pool_times later = pool_times(pool);
    assert_true(later.waiting == times.waiting && later.helping == times.helping);
    assert_true(pool_times(NULL).waiting == 0 && pool_times(NULL).helping == 0);
    pool_free(&host, pool);
}

static void note_stack(void *argument, size_t index, int worker)
{
    _Atomic size_t *smallest = argument;
    pthread_attr_t attributes;
    size_t size = 0;
    (void)index;
    if (worker == 0) {
        sched_yield();
        return;
    }
    pthread_getattr_np(pthread_self(), &attributes);
    pthread_attr_getstacksize(&attributes, &size);
    pthread_attr_destroy(&attributes);
    for (size_t before = *smallest; size < before && !atomic_compare_exchange_weak(smallest, &before, size);)
        ;
}

/* A small default, as musl has and as `ulimit -s` sets, does not reach the workers. */
static void workers_have_a_stack_of_their_own(void **state)
{
    (void)state;
    struct pool *pool;
    struct host host;
    host_init(&host);
    _Atomic size_t smallest = SIZE_MAX;
    pthread_attr_t before, small;
    assert_int_equal(pthread_getattr_default_np(&before), 0);
    assert_int_equal(pthread_getattr_default_np(&small), 0);
    pthread_attr_setstacksize(&small, (size_t)128 << 10);
    assert_int_equal(pthread_setattr_default_np(&small), 0);
    check_status(&host, pool_new(&host, 3, &pool), HASHATTN_OK, NULL);
    assert_int_equal(pthread_setattr_default_np(&before), 0);
    while (smallest == SIZE_MAX)
        pool_run(pool, note_stack, &smallest, 64);
    assert_true(smallest != SIZE_MAX && smallest >= (size_t)512 << 10);
    pthread_attr_destroy(&before);
    pthread_attr_destroy(&small);
    pool_free(&host, pool);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(threads_that_cannot_be_started_are_reported),
        cmocka_unit_test(every_index_runs_once),
        cmocka_unit_test(cells_of_a_grid_wait_for_their_neighbours),
        cmocka_unit_test(all_threads_take_part),
        cmocka_unit_test(work_aside_goes_on_beside_runs),
        cmocka_unit_test(a_forked_child_works_on_one_thread),
        cmocka_unit_test(signals_that_end_a_program_are_the_callers),
        cmocka_unit_test(workers_have_a_stack_of_their_own),
        cmocka_unit_test(absurd_numbers_are_refused),
        cmocka_unit_test(failing_allocations_are_survived),
        cmocka_unit_test(times_are_those_of_the_work),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
