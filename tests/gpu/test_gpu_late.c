/* A busy GPU, which does nothing before somebody waits (CUEMU_LATE of the emulator): what a call or a write
   uploads is the host's to change or free when it returns; more writes are under way than there is memory
   for; a context ends while its stream works; and the driver's library stays when its last device is gone.
   Planted and caught: copies from memory of the caller, no wait for the event of an earlier copy, an event
   recorded before its copy, pieces of a write from one place, no wait before memory is freed, calls outside
   the context, a driver that goes with its last device.
   Covers: driver.c.
   SPDX-License-Identifier: Apache-2.0 */
#include <dlfcn.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "support/gpu_case.h"

enum { ROWS = 10, DIM = 32, COUNT = ROWS * DIM, CALLS = 24 };

static void *block(hashattn_context *context, size_t bytes)
{
    void *made;
    assert_int_equal(hashattn_device_allocate(context, bytes, &made), HASHATTN_OK);
    return made;
}

/* CALLS forwards of one input, each with a seed of its own. */
struct calls {
    hashattn_context *context;
    hashattn_attention *attention;
    hashattn_problem problem;
    hashattn_array input[3];
    void *saved, *scratch, *out;
};

static struct calls calls_open(void)
{
    struct calls c = {.context = gpu_context("cuda")};
    float *rows = malloc(COUNT * sizeof *rows);
    size_t saved_bytes, scratch_bytes;
    c.attention = gpu_attention(c.context, "num_hashes=4 hash_bits=3");
    hashattn_problem_default(&c.problem);
    c.problem.num_queries = c.problem.num_keys = ROWS;
    c.problem.head_dim = c.problem.value_dim = DIM;
    for (uint64_t i = 0; i < 3; i++) {
        hashattn_fill_normal(2, i, rows, COUNT);
        void *there = block(c.context, COUNT * sizeof *rows);
        assert_int_equal(hashattn_device_write(c.context, there, rows, COUNT * sizeof *rows), HASHATTN_OK);
        c.input[i] = hashattn_array_of_rows(there, 1, ROWS, DIM);
    }
    free(rows);
    assert_int_equal(hashattn_attention_sizes(c.attention, &c.problem, &saved_bytes, &scratch_bytes),
                     HASHATTN_OK);
    c.saved = block(c.context, saved_bytes);
    c.scratch = block(c.context, scratch_bytes);
    c.out = block(c.context, CALLS * COUNT * sizeof(float));
    return c;
}

static void forward(struct calls *c, size_t call)
{
    hashattn_array out = hashattn_array_of_rows((float *)c->out + call * COUNT, 1, ROWS, DIM);
    c->problem.seed = call;
    assert_int_equal(hashattn_attention_forward(c->attention, &c->problem, &c->input[0], &c->input[1],
                                                &c->input[2], &out, c->saved, c->scratch),
                     HASHATTN_OK);
}

static void calls_close(struct calls *c)
{
    void *const blocks[] = {c->input[0].data, c->input[1].data, c->input[2].data,
                            c->saved,         c->scratch,       c->out};
    for (size_t i = 0; i < sizeof blocks / sizeof *blocks; i++)
        hashattn_device_release(c->context, blocks[i]);
    hashattn_attention_free(c->attention);
    hashattn_context_free(c->context);
}

/* The outputs of all calls, after each or after the last of which somebody waits. */
static float *outputs(bool late)
{
    float *all = malloc(CALLS * COUNT * sizeof *all);
    if (late)
        setenv("CUEMU_LATE", "1", 1);
    struct calls c = calls_open();
    for (size_t call = 0; call < CALLS; call++)
        forward(&c, call);
    assert_int_equal(hashattn_device_read(c.context, all, c.out, CALLS * COUNT * sizeof *all), HASHATTN_OK);
    assert_int_equal(hashattn_context_wait(c.context), HASHATTN_OK);
    calls_close(&c);
    unsetenv("CUEMU_LATE");
    return all;
}

static void test_calls(void **state)
{
    (void)state;
    float *at_once = outputs(false), *late = outputs(true);
    assert_memory_equal(at_once, late, CALLS * COUNT * sizeof *late);
    assert_memory_not_equal(late, late + COUNT, COUNT * sizeof *late);
    free(at_once);
    free(late);
}

static void test_found(void **state)
{
    (void)state;
    const float bad = NAN, good = 1;
    setenv("CUEMU_LATE", "1", 1);
    struct calls c = calls_open();
    hashattn_device_write(c.context, c.input[0].data, &bad, sizeof bad);
    forward(&c, 0);
    assert_int_equal(hashattn_context_wait(c.context), HASHATTN_INVALID);
    hashattn_device_write(c.context, c.input[0].data, &good, sizeof good);
    forward(&c, 0);
    assert_int_equal(hashattn_context_wait(c.context), HASHATTN_OK);
    calls_close(&c);
    unsetenv("CUEMU_LATE");
}

/* 18.5 MiB: more than is under way at once. */
static void test_long_write(void **state)
{
    (void)state;
    const size_t bytes = ((size_t)37 << 19) + 3;
    unsigned char *from = malloc(bytes), *to = malloc(bytes);
    for (size_t i = 0; i < bytes; i++)
        from[i] = (unsigned char)(i * 2654435761u >> 13);
    setenv("CUEMU_LATE", "1", 1);
    hashattn_context *context = gpu_context("cuda");
    void *there = block(context, bytes);
    assert_int_equal(hashattn_device_write(context, there, from, bytes), HASHATTN_OK);
    memset(from, 0, bytes);
    assert_int_equal(hashattn_device_read(context, to, there, bytes), HASHATTN_OK);
    for (size_t i = 0; i < bytes; i++)
        if (to[i] != (unsigned char)(i * 2654435761u >> 13))
            fail_msg("byte %zu of %zu is another", i, bytes);
    hashattn_device_release(context, there);
    hashattn_context_free(context);
    unsetenv("CUEMU_LATE");
    free(from);
    free(to);
}

/* Memory that programs share with the context outlives it; what is the context's is freed when its work is
 * done. */
static void test_end(void **state)
{
    (void)state;
    setenv("CUEMU_LATE", "1", 1);
    struct calls c = calls_open();
    hashattn_context *other = gpu_context("cuda"); /* waits, so it is opened before the call */
    forward(&c, 0);
    hashattn_attention_free(c.attention);
    hashattn_context_free(c.context);
    void *const blocks[] = {c.input[0].data, c.input[1].data, c.input[2].data, c.saved, c.scratch, c.out};
    float number = NAN;
    assert_int_equal(hashattn_device_read(other, &number, c.out, sizeof number), HASHATTN_OK);
    assert_true(isfinite(number));
    for (size_t i = 0; i < sizeof blocks / sizeof *blocks; i++)
        hashattn_device_release(other, blocks[i]);
    hashattn_context_free(other);
    unsetenv("CUEMU_LATE");
}

/* Before kernels run: afterwards the emulator stays for their threads' sake. */
static void test_stays(void **state)
{
    (void)state;
    size_t count;
    assert_int_equal(hashattn_device_count(NULL, 0, &count), HASHATTN_OK);
    void *stays = dlopen("libcuda.so.1", RTLD_NOW | RTLD_NOLOAD);
    assert_non_null(stays);
    dlclose(stays);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_stays),      cmocka_unit_test(test_calls), cmocka_unit_test(test_found),
        cmocka_unit_test(test_long_write), cmocka_unit_test(test_end),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
