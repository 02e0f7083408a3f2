/* Codes of a device and of the processor (projection int16-dp) are equal, bit for bit, for every width,
   number of hashes and bits, and for rows of 0, tiny and huge ones; read from the block that forward saves.
   Also the layout of that block.
   Covers: yoso_gpu.c yoso_gpu_memory.c.
   SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "api/handles.h"
#include "attention/driver/device_batch.h"
#include "base/random.h"
#include "gpu/yoso_gpu_memory.h"
#include "parts/hashing/hasher.h"
#include "support/gpu_case.h"

enum { HEADS = 2, TAG = 64 };

struct shape {
    size_t queries, keys, dim;
    const char *options;
};

static const struct shape shapes[] = {
    {40, 33, 16, "num_hashes=1 hash_bits=1"},
    {257, 100, 64, "num_hashes=16 hash_bits=6"},
    {65, 70, 33, "num_hashes=13 hash_bits=7"},
    {20, 31, 128, "num_hashes=20 hash_bits=9"},
    {40, 40, 100, "num_hashes=9 hash_bits=12"},
    {9, 12, 32, "num_hashes=256 hash_bits=3"},
    {50, 50, 64, "num_hashes=32 hash_bits=9 planes=gaussian"},
};

/* Normal rows among rows of 0, and rows near both ends of float. */
static void fill(float *rows, size_t n, size_t dim, uint64_t stream)
{
    static const float scales[] = {1, 0, 1e-13f, 1e-11f, 1e-20f, 1e16f, 1e30f, 1};
    hashattn_fill_normal(3, stream, rows, n * dim);
    for (size_t i = 0; i < n * dim; i++)
        rows[i] *= scales[i / dim % 8];
}

/* codes (n, m) of the processor. */
static void host_codes(hashattn_attention *attention, size_t dim, struct view queries, struct view keys,
                       size_t head, uint16_t *query_codes, uint16_t *key_codes)
{
    const struct yoso_options *options = attention->options;
    const struct kernels *kernels = attention->context->kernels;
    struct planes_form form = hasher_form(options, dim);
    uint64_t call_key = random_key(5, RANDOM_EVALUATION, 0);
    struct hasher hasher = {.options = options};
    struct arena arena = arena_on(NULL);
    hasher_init(&hasher, &arena, options, dim, 1);
    void *block = aligned_alloc(64, arena.used + 64),
         *work = aligned_alloc(64, planes_work_size(&form, 1) + 64);
    arena = arena_on(block);
    hasher_init(&hasher, &arena, options, dim, 1);
    float *shared = malloc(planes_count(&form) * sizeof *shared);
    hasher.planes = aligned_alloc(64, hasher_planes(options, dim) * sizeof(float) / 64 * 64 + 64);
    planes_draw(kernels, NULL, &form, call_key, shared, work);
    hasher_turn(kernels, &hasher, shared, random_key(call_key, RANDOM_HEAD, head));
    assert_true(hasher_codes(kernels, NULL, &hasher, queries, keys, query_codes, key_codes));
    free(hasher.planes);
    free(shared);
    free(work);
    free(block);
}

/* Differences between codes (n, m) and device codes (m, n rounded up to 8). */
static size_t differences(const uint16_t *host, const unsigned char *saved, size_t n, size_t m)
{
    const uint16_t *device = (const uint16_t *)(const void *)saved;
    size_t ld = (n + 7) / 8 * 8, count = 0;
    for (size_t i = 0; i < n; i++)
        for (size_t h = 0; h < m; h++)
            count += host[i * m + h] != device[h * ld + i];
    return count;
}

static void *on_device(hashattn_context *context, const float *rows, size_t bytes)
{
    void *block;
    assert_int_equal(hashattn_device_allocate(context, bytes, &block), HASHATTN_OK);
    if (rows != NULL)
        assert_int_equal(hashattn_device_write(context, block, rows, bytes), HASHATTN_OK);
    return block;
}

static size_t compare(const struct shape *shape)
{
    size_t d = shape->dim, q_floats = HEADS * shape->queries * d, k_floats = HEADS * shape->keys * d;
    hashattn_context *context = gpu_context("cuda");
    hashattn_attention *attention = gpu_attention(context, shape->options);
    assert_int_equal(hashattn_attention_set(attention, "normalize", "none"), HASHATTN_OK);
    const struct yoso_options *options = attention->options;
    size_t m = (size_t)options->num_hashes;
    float *q = malloc(q_floats * sizeof *q), *k = malloc(k_floats * sizeof *k);
    fill(q, HEADS * shape->queries, d, 0);
    fill(k, HEADS * shape->keys, d, 1);
    hashattn_problem p;
    hashattn_problem_default(&p);
    p.num_heads = HEADS, p.num_queries = shape->queries, p.num_keys = shape->keys, p.seed = 5;
    p.head_dim = p.value_dim = d;
    size_t saved_bytes, scratch_bytes;
    assert_int_equal(hashattn_attention_sizes(attention, &p, &saved_bytes, &scratch_bytes), HASHATTN_OK);
    void *blocks[] = {on_device(context, q, q_floats * sizeof *q),
                      on_device(context, k, k_floats * sizeof *k),
                      on_device(context, NULL, q_floats * sizeof *q), on_device(context, NULL, saved_bytes)};
    hashattn_array query = hashattn_array_of_heads(blocks[0], HEADS, shape->queries, d),
                   key = hashattn_array_of_heads(blocks[1], HEADS, shape->keys, d),
                   out = hashattn_array_of_heads(blocks[2], HEADS, shape->queries, d);
    /* The values are the keys, which are finite. */
    assert_int_equal(hashattn_attention_forward(attention, &p, &query, &key, &key, &out, blocks[3], NULL),
                     HASHATTN_OK);
    assert_int_equal(hashattn_context_wait(context), HASHATTN_OK);
    unsigned char *saved = malloc(saved_bytes);
    assert_int_equal(hashattn_device_read(context, saved, blocks[3], saved_bytes), HASHATTN_OK);

    struct device_batch batch = attention_device_batch(&attention->cached.plan.shape);
    struct yoso_gpu_layout layout = yoso_gpu_lay_out(&batch);
    size_t of_head = yoso_gpu_codes_bytes(&layout.sizes, shape->queries, shape->keys), differ = 0;
    size_t of_queries = yoso_gpu_codes_bytes(&layout.sizes, shape->queries, 0);
    assert_int_equal(saved_bytes, TAG + HEADS * of_head);
    uint16_t *codes[2] = {malloc(shape->queries * m * 2), malloc(shape->keys * m * 2)};
    for (size_t head = 0; head < HEADS; head++) {
        const unsigned char *of = saved + TAG + head * of_head;
        struct view queries = {q + head * shape->queries * d, shape->queries, d, d, DTYPE_FLOAT32},
                    keys = {k + head * shape->keys * d, shape->keys, d, d, DTYPE_FLOAT32};
        host_codes(attention, d, queries, keys, head, codes[0], codes[1]);
        differ += differences(codes[0], of, shape->queries, m);
        differ += differences(codes[1], of + of_queries, shape->keys, m);
    }
    free(codes[0]);
    free(codes[1]);
    free(saved);
    for (size_t i = 0; i < 4; i++)
        hashattn_device_release(context, blocks[i]);
    free(q);
    free(k);
    hashattn_attention_free(attention);
    hashattn_context_free(context);
    return differ;
}

static void test_equal(void **state)
{
    (void)state;
    for (size_t s = 0; s < sizeof shapes / sizeof *shapes; s++) {
        size_t differ = compare(&shapes[s]);
        if (differ > 0)
            fail_msg("%s, head_dim %zu: %zu codes differ", shapes[s].options, shapes[s].dim, differ);
    }
}

/* A million tokens of one head, forward and backward, take less than 2 GiB beyond the arrays of the call. */
static void test_million(void **state)
{
    (void)state;
    hashattn_context *context = gpu_context("cuda");
    hashattn_attention *attention = gpu_attention(context, "num_hashes=32 hash_bits=9");
    hashattn_problem p;
    hashattn_problem_default(&p);
    p.num_queries = p.num_keys = (size_t)1 << 20;
    p.head_dim = p.value_dim = 64;
    size_t saved_bytes, scratch_bytes;
    assert_int_equal(hashattn_attention_sizes(attention, &p, &saved_bytes, &scratch_bytes), HASHATTN_OK);
    printf("1048576 rows: %zu MiB saved, %zu MiB of scratch\n", saved_bytes >> 20, scratch_bytes >> 20);
    assert_true(saved_bytes + scratch_bytes < (size_t)2 << 30);
    p.num_heads = 16; /* waves share the scratch */
    assert_int_equal(hashattn_attention_sizes(attention, &p, &saved_bytes, &scratch_bytes), HASHATTN_OK);
    assert_true(scratch_bytes < (size_t)2 << 30);
    hashattn_attention_free(attention);
    hashattn_context_free(context);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_equal), cmocka_unit_test(test_million)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
