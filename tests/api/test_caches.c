/* Public caches: what is refused, with the place; an error changes nothing; types and strides of arrays;
   failing allocations. Bugs tried and caught: out over the query; its type or its layout not checked; more
   rows kept than there are; rows counted by an append that fails; a cache that leaks when it cannot be made;
   options that can be saved and not be read.
   Covers: caches.c.
   SPDX-License-Identifier: Apache-2.0 */
#include <float.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "support/api_context.h"
#include "support/folder.h"

enum { HEADS = 4, KV = 2, D = 8, ROWS = 20 };

static hashattn_cache_options options_of(void)
{
    hashattn_cache_options options;
    hashattn_cache_options_default(&options);
    options.num_heads = HEADS;
    options.kv_heads = KV;
    options.head_dim = D;
    return options;
}

static hashattn_cache *cache_of(hashattn_context *context, hashattn_cache_options options)
{
    hashattn_cache *cache;
    check_ok(context, hashattn_cache_new(context, &options, &cache));
    return cache;
}

static void options_are_checked(void **state)
{
    (void)state;
    hashattn_context *context = context_with(1, NULL);
    hashattn_cache *cache;
    hashattn_cache_options bad[12];
    static const char *const messages[] = {"num_sequences is 0",
                                           "num_heads is 0",
                                           "kv_heads is 3, which does not divide num_heads 4",
                                           "kv_heads is 0",
                                           "head_dim is 0, allowed are 1 to 256",
                                           "head_dim is 257",
                                           "element is 1",
                                           "scale is -1",
                                           "window_step is 9, allowed are 1 to window, which is 8",
                                           "a cache has no mechanism \"sotfmax\"; there are: softmax hashed",
                                           "struct_size is 8",
                                           "scale is 1e-31, allowed are 1e-30 to 1000, and 0"};
    for (size_t i = 0; i < 12; i++)
        bad[i] = options_of();
    bad[0].num_sequences = 0;
    bad[1].num_heads = 0;
    bad[2].kv_heads = 3;
    bad[3].kv_heads = 0;
    bad[4].head_dim = 0;
    bad[5].head_dim = 257;
    bad[6].element = HASHATTN_BYTE;
    bad[7].scale = -1;
    bad[8].window = 8;
    bad[8].window_step = 9;
    bad[9].mechanism = "sotfmax";
    bad[10].struct_size = 8;
    bad[11].scale = 1e-31;
    for (size_t i = 0; i < 12; i++) {
        check_call(context, hashattn_cache_new(context, &bad[i], &cache), HASHATTN_INVALID, messages[i]);
        assert_null(cache);
    }
    hashattn_context_free(context);
}

/* What can be saved can be read: the ends of the ranges. */
static void extreme_options_come_back(void **state)
{
    char path[100];
    snprintf(path, sizeof path, "%s/cache", ((const struct folder *)*state)->path);
    hashattn_context *context = context_with(1, NULL);
    hashattn_cache_options options = options_of(), again = {.struct_size = sizeof again};
    options.mechanism = "hashed";
    options.window = options.window_step = SIZE_MAX;
    options.first_rows = options.last_rows = SIZE_MAX / 64;
    options.scale = 1e-30;
    options.budget = DBL_MIN;
    options.tolerance = DBL_MIN;
    options.sharpness = 0.05;
    hashattn_cache *cache = cache_of(context, options), *loaded;
    check_ok(context, hashattn_cache_save(cache, path));
    check_ok(context, hashattn_cache_load(context, path, &loaded));
    hashattn_cache_get_options(loaded, &again);
    assert_true(again.window == SIZE_MAX && again.window_step == SIZE_MAX);
    assert_true(again.budget == DBL_MIN && again.tolerance == DBL_MIN);
    assert_true(again.scale == (double)1e-30f);
    hashattn_cache_free(loaded);
    hashattn_cache_free(cache);
    hashattn_context_free(context);
}

static void calls_are_checked(void **state)
{
    (void)state;
    hashattn_context *context = context_with(1, NULL);
    hashattn_cache *cache = cache_of(context, options_of());
    float x[HEADS * ROWS * D] = {0}, y[HEADS * ROWS * D];
    hashattn_array rows = hashattn_array_of_heads(x, KV, ROWS, D),
                   out = hashattn_array_of_heads(y, HEADS, 2, D);
    hashattn_array queries = hashattn_array_of_heads(x, HEADS, 2, D), bad = rows;
    uint8_t mask[ROWS] = {1, 1, 2};
    check_ok(context, hashattn_cache_append(cache, 5, HASHATTN_FLOAT32, &rows, &rows, NULL));
    bad.row_stride = D - 1;
    check_call(context, hashattn_cache_append(cache, 5, HASHATTN_FLOAT32, &rows, &bad, NULL),
               HASHATTN_INVALID, "value: row_stride is 7, at least 8 is needed");
    bad.data = NULL;
    check_call(context, hashattn_cache_append(cache, 5, HASHATTN_FLOAT32, &bad, &rows, NULL),
               HASHATTN_INVALID, "key is NULL for 5 rows");
    check_call(context, hashattn_cache_append(cache, 5, HASHATTN_BYTE, &rows, &rows, NULL), HASHATTN_INVALID,
               "element is 1");
    check_call(context, hashattn_cache_append(cache, ROWS, HASHATTN_FLOAT32, &rows, &rows, mask),
               HASHATTN_INVALID, "key_mask is 2 at sequence 0, row 2");
    check_call(context, hashattn_cache_attend(cache, 2, HASHATTN_FLOAT32, &queries, &queries),
               HASHATTN_INVALID, "out overlaps query");
    out.head_stride = D;
    check_call(context, hashattn_cache_attend(cache, 2, HASHATTN_FLOAT32, &queries, &out), HASHATTN_INVALID,
               "out: head_stride is 8");
    size_t longer[] = {6}, shorter[] = {3}, from[] = {0, 1};
    check_call(context, hashattn_cache_truncate(cache, longer), HASHATTN_INVALID,
               "sequence 0 has 5 rows, so 6 cannot be kept");
    check_call(context, hashattn_cache_reorder(cache, from, 2), HASHATTN_INVALID,
               "from is 1 at 1, allowed are 0 to 0");
    check_call(context, hashattn_cache_reorder(cache, from, 0), HASHATTN_INVALID, "count is 0");
    assert_int_equal(hashattn_cache_length(cache, 0), 5);
    assert_int_equal(hashattn_cache_length(cache, 1), 0);
    check_ok(context, hashattn_cache_truncate(cache, shorter));
    assert_int_equal(hashattn_cache_length(cache, 0), 3);
    check_ok(context, hashattn_cache_append(cache, 0, HASHATTN_FLOAT32, NULL, NULL, NULL));
    check_ok(context, hashattn_cache_reorder(cache, (size_t[]){0, 0}, 2));
    assert_int_equal(hashattn_cache_num_sequences(cache), 2);
    size_t full = hashattn_cache_nbytes(cache);
    hashattn_cache_clear(cache);
    assert_int_equal(hashattn_cache_length(cache, 1), 0);
    assert_true(hashattn_cache_nbytes(cache) < full);
    hashattn_cache_free(cache);
    hashattn_cache_free(NULL);
    hashattn_context_free(context);
}

/* A cache gives what attention of the whole sequence gives, from arrays of either type in any layout. */
static void it_equals_the_operator(void **state)
{
    (void)state;
    hashattn_context *context = context_with(2, NULL);
    hashattn_attention *attention;
    float q[ROWS * HEADS * D], k[ROWS * HEADS * D], v[ROWS * HEADS * D], want[ROWS * HEADS * D];
    uint16_t halves[3][ROWS * HEADS * D], got[ROWS * HEADS * D];
    float *inputs[] = {q, k, v};
    for (uint64_t i = 0; i < 3; i++) {
        hashattn_fill_normal(3, i, inputs[i], ROWS * HEADS * D);
        hashattn_bf16_round(context, inputs[i], halves[i], ROWS * HEADS * D);
        hashattn_bf16_widen(context, halves[i], inputs[i], ROWS * HEADS * D);
    }
    hashattn_problem problem;
    hashattn_problem_default(&problem);
    problem.num_heads = HEADS;
    problem.num_queries = problem.num_keys = ROWS;
    problem.head_dim = problem.value_dim = D;
    problem.causal = 1;
    hashattn_array query = hashattn_array_of_rows(q, HEADS, ROWS, D), key = query, value = query, out = query;
    key.data = k;
    value.data = v;
    out.data = want;
    check_ok(context, hashattn_attention_new(context, "softmax", &attention));
    check_ok(context,
             hashattn_attention_forward(attention, &problem, &query, &key, &value, &out, NULL, NULL));
    hashattn_cache_options options = options_of();
    options.kv_heads = HEADS;
    hashattn_cache *cache = cache_of(context, options);
    query.data = halves[0];
    key.data = halves[1];
    value.data = halves[2];
    out.data = got;
    check_ok(context, hashattn_cache_append(cache, ROWS, HASHATTN_BF16, &key, &value, NULL));
    check_ok(context, hashattn_cache_attend(cache, ROWS, HASHATTN_BF16, &query, &out));
    for (size_t i = 0; i < ROWS * HEADS * D; i++) {
        float widened;
        hashattn_bf16_widen(context, &got[i], &widened, 1);
        check_near(widened, want[i], 0x1p-8 * fabs((double)want[i]) + 1e-5, "out");
    }
    hashattn_cache_free(cache);
    hashattn_attention_free(attention);
    hashattn_context_free(context);
}

static hashattn_status make_and_use(hashattn_context *context, void *user)
{
    (void)user;
    hashattn_cache_options options = options_of();
    hashattn_cache *cache;
    hashattn_status status = hashattn_cache_new(context, &options, &cache);
    if (status != HASHATTN_OK)
        return status;
    float *x = calloc(600 * HEADS * D, sizeof *x), y[HEADS * D];
    hashattn_array rows = hashattn_array_of_heads(x, KV, 600, D),
                   one = hashattn_array_of_heads(x, HEADS, 1, D);
    hashattn_array out = hashattn_array_of_heads(y, HEADS, 1, D);
    status = hashattn_cache_append(cache, 600, HASHATTN_FLOAT32, &rows, &rows, NULL);
    assert_int_equal(hashattn_cache_length(cache, 0), status == HASHATTN_OK ? 600 : 0);
    if (status == HASHATTN_OK)
        status = hashattn_cache_attend(cache, 1, HASHATTN_FLOAT32, &one, &out);
    if (status == HASHATTN_OK)
        status = hashattn_cache_reorder(cache, (size_t[]){0, 0}, 2);
    free(x);
    hashattn_cache_free(cache);
    return status;
}

static void failing_allocations(void **state)
{
    (void)state;
    check_every_failing_allocation(make_and_use, NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(options_are_checked),
        cmocka_unit_test_setup_teardown(extreme_options_come_back, folder_enter, folder_leave),
        cmocka_unit_test(calls_are_checked),
        cmocka_unit_test(it_equals_the_operator),
        cmocka_unit_test(failing_allocations),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
