/* Everything that can fail on the way to a device, each a status and a sentence: no driver, one that is too
   old, no GPU, an old GPU, a library without kernels, a number past the last device, names that are none, no
   memory, no pinned memory, a stream of another device, rows at odd addresses, a kernel that fails, NaN,
   results beyond float32, a block `saved` of another call, mechanisms and options that a device does not
   compute. After each the device's memory is free. The faults are those of the emulator (FAKE_CUDA).
   Planted and caught: a write that hides that pinned memory failed; a forward that goes on after it.
   Covers: driver.c yoso_gpu.c devices.c device_batch.c device_blocks.c.
   SPDX-License-Identifier: Apache-2.0 */
#include <dlfcn.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "support/gpu_case.h"

enum { ROWS = 12, DIM = 32, COUNT = ROWS * DIM, ARRAYS = 8 };

/* A function of the emulator. */
static size_t ask(const char *name)
{
    void *library = dlopen("libcuda.so.1", RTLD_NOW), *found = dlsym(library, name);
    size_t (*call)(void);
    memcpy(&call, &found, sizeof call);
    size_t answer = call();
    dlclose(library);
    return answer;
}

static hashattn_status open_with(const char *fault, const char *device, char message[600])
{
    hashattn_context_options options;
    hashattn_context *context;
    hashattn_context_options_default(&options);
    options.device = device;
    options.threads = 1;
    message[0] = '\0';
    if (fault != NULL)
        setenv("FAKE_CUDA", fault, 1);
    hashattn_status status = hashattn_context_new(&options, message, 600, &context);
    unsetenv("FAKE_CUDA");
    hashattn_context_free(context);
    return status;
}

static void test_opening(void **state)
{
    (void)state;
    static const struct {
        const char *fault, *device;
        hashattn_status status;
        const char *sentence;
    } rows[] = {
        {NULL, "cuda", HASHATTN_OK, ""},
        {NULL, "cuda:0", HASHATTN_OK, ""},
        {NULL, "cpu", HASHATTN_OK, ""},
        {"devices=3", "cuda:2", HASHATTN_OK, ""},
        {"version=11040", "cuda", HASHATTN_FAILED,
         "the NVIDIA driver is too old: it is for CUDA 11.4, at least 12.0 is needed"},
        {"devices=0", "cuda", HASHATTN_FAILED, "the NVIDIA driver finds no GPU"},
        {NULL, "cuda:1", HASHATTN_INVALID, "device is 'cuda:1', the NVIDIA driver finds 1, cuda:0 to 0"},
        {NULL, "gpu", HASHATTN_INVALID, "device is 'gpu', allowed are cpu, cuda and cuda:N"},
        {NULL, "cuda:", HASHATTN_INVALID, "device is 'cuda:', allowed are cpu, cuda and cuda:N"},
        {NULL, "cuda:-1", HASHATTN_INVALID, "device is 'cuda:-1', allowed are cpu, cuda and cuda:N"},
        {NULL, "cuda:1x", HASHATTN_INVALID, "device is 'cuda:1x', allowed are cpu, cuda and cuda:N"},
        {NULL, "cudamon", HASHATTN_INVALID, "device is 'cudamon', allowed are cpu, cuda and cuda:N"},
        {"major=7", "cuda", HASHATTN_REFUSED, "emulator has compute capability 7.0, at least 8.0 is needed"},
        {"kernels=0", "cuda", HASHATTN_REFUSED,
         "this library was built without kernels for GPUs; `make GPU=1` builds it with them"},
        {"memory=4", "cuda", HASHATTN_NO_MEMORY,
         "memory for findings: the NVIDIA driver says: out of memory (error 2)"},
    };
    char message[600];
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        assert_int_equal(open_with(rows[i].fault, rows[i].device, message), rows[i].status);
        assert_string_equal(message, rows[i].sentence);
        assert_int_equal(ask("fake_cuda_bytes"), 0);
        assert_int_equal((int)ask("fake_cuda_contexts"), 0);
    }
}

static void test_devices(void **state)
{
    (void)state;
    char message[600];
    size_t count = 9;
    hashattn_device_info info = {.struct_size = sizeof info};
    assert_int_equal(hashattn_device_count(message, sizeof message, &count), HASHATTN_OK);
    assert_int_equal(count, 1);
    assert_true(hashattn_device_get(0, &info));
    assert_string_equal(info.name, "emulator");
    assert_int_equal(info.major, 9);
    assert_int_equal(info.memory_bytes, (uint64_t)1 << 30);
    assert_false(hashattn_device_get(1, &info));
    assert_int_equal(hashattn_device_count(NULL, 0, NULL), HASHATTN_INVALID);
    setenv("FAKE_CUDA", "devices=0", 1);
    assert_int_equal(hashattn_device_count(message, sizeof message, &count), HASHATTN_OK);
    assert_int_equal(count, 0);
    setenv("FAKE_CUDA", "version=11040", 1);
    assert_int_equal(hashattn_device_count(message, sizeof message, &count), HASHATTN_FAILED);
    assert_non_null(strstr(message, "too old"));
    unsetenv("FAKE_CUDA");
}

/* ---- calls --------------------------------------------------------------------------------------------- */

struct call {
    hashattn_context *context;
    hashattn_attention *attention;
    hashattn_problem problem;
    hashattn_array array[ARRAYS]; /* query, key, value, out, dout, dquery, dkey, dvalue */
    void *saved;
};

static struct call call_open(const char *options)
{
    struct call c = {.context = gpu_context("cuda")};
    float rows[COUNT];
    size_t saved_bytes, scratch_bytes;
    c.attention = gpu_attention(c.context, options);
    hashattn_problem_default(&c.problem);
    c.problem.num_queries = c.problem.num_keys = ROWS;
    c.problem.head_dim = c.problem.value_dim = DIM;
    for (uint64_t i = 0; i < ARRAYS; i++) {
        void *block;
        hashattn_fill_normal(1, i, rows, COUNT);
        assert_int_equal(hashattn_device_allocate(c.context, sizeof rows, &block), HASHATTN_OK);
        assert_int_equal(hashattn_device_write(c.context, block, rows, sizeof rows), HASHATTN_OK);
        c.array[i] = hashattn_array_of_rows(block, 1, ROWS, DIM);
    }
    assert_int_equal(hashattn_attention_sizes(c.attention, &c.problem, &saved_bytes, &scratch_bytes),
                     HASHATTN_OK);
    assert_int_equal(hashattn_device_allocate(c.context, saved_bytes, &c.saved), HASHATTN_OK);
    return c;
}

static hashattn_status forward(struct call *c)
{
    return hashattn_attention_forward(c->attention, &c->problem, &c->array[0], &c->array[1], &c->array[2],
                                      &c->array[3], c->saved, NULL);
}

static hashattn_status backward(struct call *c)
{
    return hashattn_attention_backward(c->attention, &c->problem, &c->array[0], &c->array[1], &c->array[2],
                                       &c->array[3], &c->array[4], &c->array[5], &c->array[6], &c->array[7],
                                       c->saved, NULL);
}

static void call_close(struct call *c)
{
    for (size_t i = 0; i < ARRAYS; i++)
        hashattn_device_release(c->context, c->array[i].data);
    hashattn_device_release(c->context, c->saved);
    hashattn_attention_free(c->attention);
    hashattn_context_free(c->context);
    assert_int_equal(ask("fake_cuda_bytes"), 0);
}

/* Writes a number into an array of the device. */
static void put(struct call *c, size_t array, size_t at, float number)
{
    assert_int_equal(
        hashattn_device_write(c->context, (float *)c->array[array].data + at, &number, sizeof number),
        HASHATTN_OK);
}

static const char options[] = "num_hashes=4 hash_bits=3";

static void test_numbers(void **state)
{
    (void)state;
    static const char *const names[] = {"query", "key", "value"};
    struct call c = call_open(options);
    for (size_t array = 0; array < 3; array++) {
        char sentence[100];
        put(&c, array, 5 * DIM + 3, array == 1 ? INFINITY : NAN);
        snprintf(sentence, sizeof sentence, "%s holds NaN or infinity at sequence 0, head 0, row 5",
                 names[array]);
        assert_int_equal(forward(&c), HASHATTN_INVALID); /* waits, because it has no scratch */
        assert_string_equal(hashattn_context_message(c.context), sentence);
        put(&c, array, 5 * DIM + 3, 1);
        assert_int_equal(forward(&c), HASHATTN_OK); /* the finding is told once */
    }
    put(&c, 4, 7 * DIM, NAN);
    assert_int_equal(backward(&c), HASHATTN_INVALID);
    assert_non_null(strstr(hashattn_context_message(c.context), "dout holds NaN or infinity"));
    put(&c, 4, 7 * DIM, 1);
    assert_int_equal(backward(&c), HASHATTN_OK);
    for (size_t row = 0; row < ROWS; row++)
        put(&c, 2, row * DIM, 3e38f);
    hashattn_attention_set(c.attention, "hash_bits", "1");
    assert_int_equal(forward(&c), HASHATTN_REFUSED);
    assert_non_null(strstr(hashattn_context_message(c.context), "a result is beyond float32"));
    call_close(&c);
}

static void test_saved(void **state)
{
    (void)state;
    struct call c = call_open(options);
    assert_int_equal(backward(&c), HASHATTN_INVALID); /* nothing was saved */
    assert_non_null(strstr(hashattn_context_message(c.context), "saved was not written"));
    assert_int_equal(forward(&c), HASHATTN_OK);
    c.problem.seed = 1;
    assert_int_equal(backward(&c), HASHATTN_INVALID);
    assert_non_null(strstr(hashattn_context_message(c.context), "saved was not written"));
    c.problem.seed = 0;
    assert_int_equal(backward(&c), HASHATTN_OK);
    void *saved = c.saved;
    c.saved = NULL;
    assert_int_equal(backward(&c), HASHATTN_INVALID);
    assert_string_equal(hashattn_context_message(c.context),
                        "saved is NULL: backward needs what forward saved");
    c.saved = saved;
    call_close(&c);
}

static void test_memory(void **state)
{
    (void)state;
    struct call c = call_open(options);
    setenv("FAKE_CUDA", "memory=16000", 1);
    assert_int_equal(forward(&c), HASHATTN_NO_MEMORY);
    assert_non_null(
        strstr(hashattn_context_message(c.context), "no memory on the GPU for attention's scratch ("));
    unsetenv("FAKE_CUDA");
    assert_int_equal(forward(&c), HASHATTN_OK);
    void *block = &c;
    assert_int_equal(hashattn_device_allocate(c.context, 0, &block), HASHATTN_INVALID);
    assert_null(block);
    call_close(&c);
}

static void test_pinned(void **state)
{
    (void)state;
    struct call c = call_open(options); /* has not written UPLOADS pieces yet */
    float number = 2, found = 0;
    setenv("FAKE_CUDA", "pinned=0", 1);
    assert_int_equal(hashattn_device_write(c.context, c.array[0].data, &number, sizeof number),
                     HASHATTN_NO_MEMORY);
    assert_string_equal(hashattn_context_message(c.context),
                        "writing to the GPU: the NVIDIA driver says: out of memory (error 2)");
    assert_int_equal(forward(&c), HASHATTN_NO_MEMORY);
    unsetenv("FAKE_CUDA");
    assert_int_equal(forward(&c), HASHATTN_OK);
    assert_int_equal(hashattn_device_write(c.context, c.array[0].data, &number, sizeof number), HASHATTN_OK);
    assert_int_equal(hashattn_device_read(c.context, &found, c.array[0].data, sizeof found), HASHATTN_OK);
    assert_true(found == number);
    call_close(&c);
}

static void test_misaligned(void **state)
{
    (void)state;
    struct call c = call_open(options);
    void *const data = c.array[1].data;
    c.array[1].data = (char *)data + 2;
    assert_int_equal(forward(&c), HASHATTN_INVALID);
    assert_string_equal(hashattn_context_message(c.context),
                        "key.data is not aligned to 4 bytes, the size of an element");
    c.array[1].data = data;
    assert_int_equal(forward(&c), HASHATTN_OK);
    call_close(&c);
}

static void test_kernel_fails(void **state)
{
    (void)state;
    struct call c = call_open(options);
    assert_int_equal(forward(&c), HASHATTN_OK);
    setenv("FAKE_CUDA", "fail=sort", 1);
    assert_int_equal(backward(&c), HASHATTN_FAILED);
    assert_non_null(
        strstr(hashattn_context_message(c.context), "an illegal memory access was encountered (error 700)"));
    assert_int_equal(hashattn_context_wait(c.context), HASHATTN_FAILED);
    assert_non_null(strstr(hashattn_context_message(c.context), "illegal memory access"));
    unsetenv("FAKE_CUDA");
    ask("fake_cuda_mend");
    call_close(&c);
}

static void test_stream(void **state)
{
    (void)state;
    struct call c = call_open(options);
    assert_int_equal(hashattn_context_set_stream(c.context, (void *)2), HASHATTN_INVALID);
    assert_string_equal(hashattn_context_message(c.context),
                        "the stream belongs to another device or context than this one, cuda:0");
    assert_int_equal(hashattn_context_set_stream(c.context, (void *)16), HASHATTN_OK);
    assert_int_equal(forward(&c), HASHATTN_OK);
    assert_int_equal(hashattn_context_set_stream(c.context, NULL), HASHATTN_OK);
    assert_int_equal(hashattn_context_wait(c.context), HASHATTN_OK);
    call_close(&c);
    hashattn_context *context = gpu_context(NULL);
    void *block;
    assert_int_equal(hashattn_context_set_stream(context, NULL), HASHATTN_INVALID);
    assert_int_equal(hashattn_device_allocate(context, 4, &block), HASHATTN_INVALID);
    assert_int_equal(hashattn_device_write(context, &c, &c, 1), HASHATTN_INVALID);
    assert_int_equal(hashattn_device_read(context, &c, &c, 1), HASHATTN_INVALID);
    assert_string_equal(hashattn_context_message(context),
                        "the context computes on the processor; its options name no device");
    assert_int_equal(hashattn_context_wait(context), HASHATTN_OK);
    hashattn_context_free(context);
}

static void test_refusals(void **state)
{
    (void)state;
    static const char *const rows[][3] = {
        {"num_hashes", "257", "num_hashes is 257; a device computes 1 to 256"},
        {"hash_bits", "13", "hash_bits is 13; a device computes 1 to 12"},
        {"planes", "hadamard", "planes is hadamard; a device computes orthogonal and gaussian"},
        {"plane_pool", "3",
         "plane_pool is 3; a device computes hashes with planes of their own, plane_pool 0"},
        {"map", "neyshabur", "map is neyshabur; a device computes l2"},
        {"projection", "f32", "projection is f32; a device computes int16-dp, which auto means there"},
        {"tables", "int16", "tables is int16; a device adds in 32 bits, auto or f32"},
        {"max_partners", "3", "max_partners is 3; a device uses all partners of a row, max_partners 0"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct call c = call_open(options);
        assert_int_equal(hashattn_attention_set(c.attention, "gradient", "true"), HASHATTN_OK);
        assert_int_equal(hashattn_attention_set(c.attention, rows[i][0], rows[i][1]), HASHATTN_OK);
        assert_int_equal(forward(&c), HASHATTN_REFUSED);
        assert_non_null(strstr(hashattn_context_message(c.context), rows[i][2]));
        call_close(&c);
    }
    struct call c = call_open(options);
    c.problem.head_dim = 15;
    assert_int_equal(forward(&c), HASHATTN_REFUSED);
    assert_non_null(strstr(hashattn_context_message(c.context), "a device computes a head_dim of 16 to 128"));
    hashattn_attention *softmax;
    size_t saved_bytes, scratch_bytes;
    assert_int_equal(hashattn_attention_new(c.context, "softmax", &softmax), HASHATTN_OK);
    assert_int_equal(hashattn_attention_sizes(softmax, &c.problem, &saved_bytes, &scratch_bytes),
                     HASHATTN_REFUSED);
    assert_string_equal(hashattn_context_message(c.context),
                        "softmax is not computed on a device, only: yoso");
    hashattn_attention_free(softmax);
    call_close(&c);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_opening),    cmocka_unit_test(test_devices),
        cmocka_unit_test(test_numbers),    cmocka_unit_test(test_saved),
        cmocka_unit_test(test_memory),     cmocka_unit_test(test_pinned),
        cmocka_unit_test(test_misaligned), cmocka_unit_test(test_kernel_fails),
        cmocka_unit_test(test_stream),     cmocka_unit_test(test_refusals),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
