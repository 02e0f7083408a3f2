/* The exact cache against double precision: both types, every instruction set, groups, odd widths, windows,
   ragged sequences, several query rows, spans; truncated and reordered caches against fresh ones, bit for
   bit; threads. Bugs tried and caught: keys of all blocks in the first; the weight beside an odd last row not
   0; a window or the future one row too long; window_step ignored; spans added without their factors; query
   heads of a group taken as if they were interleaved; the first tile's queries for all tiles; sums of a span
   not rescaled, or not cleared; masked rows appended, or searched for NaN; the limit of keys for values; one
   worker's scratch for all; memory allocated for each token; pages of the first sequences kept after an
   append that fails.
   Covers: kv_exact.c kv_cache.c.
   SPDX-License-Identifier: Apache-2.0 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "support/cache_case.h"

static size_t outputs(const struct cache_case *c, size_t rows)
{
    return c->cache.pages.num_sequences * c->cache.options.num_heads * rows * c->cache.options.head_dim;
}

static void check_attend(struct cache_case *c, size_t rows, const char *what)
{
    double bound;
    float *query = cache_case_query(c, rows), *out = cache_case_attend(c, rows, query);
    double *exact = cache_case_exact(c, rows, query, &bound);
    check_near_all(out, exact, outputs(c, rows), bound, what);
    free(query);
    free(out);
    free(exact);
}

static void it_is_softmax_attention(void **state)
{
    (void)state;
    static const size_t widths[] = {64, 1, 7, 80, 128, 256};
    for (const struct kernels *const *table = kernels_all(); *table != NULL; table++)
        for (size_t w = 0; w < sizeof widths / sizeof widths[0]; w++)
            for (int dtype = 0; dtype < 2; dtype++) {
                struct cache_case c;
                struct kv_options options = cache_case_options();
                char what[100];
                options.head_dim = widths[w];
                options.dtype = (enum dtype)dtype;
                options.scale = 1 / sqrtf((float)widths[w]);
                cache_case_new(&c, (*table)->name, 2, "softmax", &options);
                snprintf(what, sizeof what, "%s, type %d, width %zu", (*table)->name, dtype, widths[w]);
                check_attend(&c, 2, what); /* without rows: zeros */
                cache_case_append(&c, 1, NULL);
                check_attend(&c, 1, what);
                cache_case_append(&c, 62, NULL);
                check_attend(&c, 3, what);
                cache_case_append(&c, 240, NULL);
                check_attend(&c, 1, what);
                check_attend(&c, 35, what); /* more than a tile */
                cache_case_free(&c);
            }
}

static void groups_windows_and_spans(void **state)
{
    (void)state;
    static const size_t forms[][4] = {/* heads, kv_heads, window, window_step */
                                      {8, 1, 0, 1},   {3, 3, 0, 1},   {6, 2, 1, 1},     {6, 2, 100, 1},
                                      {4, 2, 300, 1}, {4, 2, 96, 32}, {4, 4, 768, 256}, {70, 1, 50, 1}};
    for (size_t f = 0; f < sizeof forms / sizeof forms[0]; f++) {
        struct cache_case c;
        struct kv_options options = cache_case_options();
        char what[100];
        options.head_dim = 16;
        options.num_heads = forms[f][0];
        options.kv_heads = forms[f][1];
        options.window = forms[f][2];
        options.window_step = forms[f][3];
        options.dtype = f % 2 == 1 ? DTYPE_BFLOAT16 : DTYPE_FLOAT32;
        snprintf(what, sizeof what, "form %zu", f);
        cache_case_new(&c, "auto", 2, "softmax", &options);
        for (size_t n = 0; n < 3; n++) {
            cache_case_append(&c, n == 2 ? 4300 : 333, NULL);
            check_attend(&c, 1, what);
            check_attend(&c, 20, what);
        }
        cache_case_free(&c);
    }
}

static void sequences_have_their_own_lengths(void **state)
{
    (void)state;
    struct cache_case c;
    struct kv_options options = cache_case_options();
    options.num_sequences = 3;
    options.head_dim = 8;
    cache_case_new(&c, "auto", 3, "softmax", &options);
    uint8_t mask[3 * 300];
    for (size_t i = 0; i < sizeof mask; i++)
        mask[i] = i < 300 || (i < 600 ? i >= 590 : i % 3 == 0); /* all, the last 10, every third */
    cache_case_append(&c, 300, mask);
    assert_int_equal(c.cache.pages.sequences[1].length, 10);
    check_attend(&c, 300, "left padding");
    cache_case_append(&c, 1, NULL);
    check_attend(&c, 1, "one row each");
    cache_case_truncate(&c, 1, 0);
    check_attend(&c, 2, "an empty sequence");
    cache_case_free(&c);
}

/* Fails unless the caches give the same bits. */
static void check_equal(struct cache_case *a, struct cache_case *b, size_t rows, const char *what)
{
    float *query = cache_case_query(a, rows);
    float *first = cache_case_attend(a, rows, query), *second = cache_case_attend(b, rows, query);
    check_same_bits(first, second, outputs(a, rows) * sizeof *first, what);
    free(query);
    free(first);
    free(second);
}

/* Gives `to`, which is empty, the rows that `from` has. */
static void give_rows(struct cache_case *to, const struct cache_case *from)
{
    size_t d = from->cache.options.head_dim, size = from->cache.options.kv_heads * d, longest = 0;
    size_t sequences = from->cache.pages.num_sequences;
    for (size_t s = 0; s < sequences; s++)
        longest = from->length[s] > longest ? from->length[s] : longest;
    float *key = calloc(sequences * longest * size + 1, sizeof *key);
    float *value = calloc(sequences * longest * size + 1, sizeof *value);
    uint8_t *mask = calloc(sequences * longest + 1, 1);
    for (size_t s = 0; s < sequences; s++) {
        size_t bytes = from->length[s] * size * sizeof *key;
        memcpy(key + s * longest * size, from->key[s], bytes);
        memcpy(value + s * longest * size, from->value[s], bytes);
        memset(mask + s * longest, 1, from->length[s]);
        to->length[s] = from->length[s];
    }
    struct kv_rows keys = {key, DTYPE_FLOAT32, longest * size, size, d}, values = keys;
    values.data = value;
    check_status(&to->host.host, kv_cache_append(&to->cache, longest, keys, values, mask), HASHATTN_OK, NULL);
    free(key);
    free(value);
    free(mask);
}

static void a_changed_cache_equals_a_fresh_one(void **state)
{
    (void)state;
    for (int dtype = 0; dtype < 2; dtype++) {
        struct cache_case c, fresh;
        struct kv_options options = cache_case_options();
        const size_t beams[] = {1, 0, 1};
        options.num_sequences = 2;
        options.dtype = (enum dtype)dtype;
        cache_case_new(&c, "auto", 2, "softmax", &options);
        cache_case_append(&c, 700, NULL);
        cache_case_truncate(&c, 0, 301);
        cache_case_append(&c, 5, NULL);
        cache_case_reorder(&c, beams, 3);
        cache_case_append(&c, 3, NULL);
        cache_case_truncate(&c, 2, 400);
        cache_case_append(&c, 200, NULL);
        options.num_sequences = 3;
        cache_case_new(&fresh, "auto", 1, "softmax", &options);
        give_rows(&fresh, &c);
        check_equal(&c, &fresh, 1, "one row");
        check_equal(&c, &fresh, 33, "33 rows");
        check_attend(&c, 33, "exact");
        cache_case_free(&c);
        cache_case_free(&fresh);
    }
}

static void threads_do_not_change_bits(void **state)
{
    (void)state;
    struct cache_case c[3];
    struct kv_options options = cache_case_options();
    options.dtype = DTYPE_BFLOAT16;
    for (int t = 0; t < 3; t++) {
        cache_case_new(&c[t], "auto", 1 + 2 * t, "softmax", &options);
        cache_case_append(&c[t], 8500, NULL);
    }
    for (size_t rows = 1; rows < 50; rows += 47) {
        check_equal(&c[0], &c[1], rows, "3 threads");
        check_equal(&c[0], &c[2], rows, "5 threads");
    }
    for (int t = 0; t < 3; t++)
        cache_case_free(&c[t]);
}

/* Large scores and values, as in models without norms: differences of scores decide, not their size. */
static void large_numbers(void **state)
{
    (void)state;
    struct cache_case c;
    struct kv_options options = cache_case_options();
    options.head_dim = 4;
    options.num_heads = options.kv_heads = 1;
    options.scale = 1;
    cache_case_new(&c, "auto", 1, "softmax", &options);
    float key[5000 * 4] = {0}, value[5000 * 4], query[4] = {1e15f, 0, 0, 0};
    for (size_t j = 0; j < 5000; j++) {
        key[4 * j] = j == 4321 ? 1e15f : -1e15f;
        for (size_t k = 0; k < 4; k++)
            value[4 * j + k] = j == 4321 ? 1e30f : -1e30f;
    }
    struct kv_rows keys = {key, DTYPE_FLOAT32, 0, 4, 0}, values = keys;
    values.data = value;
    check_status(&c.host.host, kv_cache_append(&c.cache, 5000, keys, values, NULL), HASHATTN_OK, NULL);
    float *out = cache_case_attend(&c, 1, query);
    for (size_t k = 0; k < 4; k++)
        assert_true(out[k] == 1e30f);
    free(out);
    key[8] = INFINITY;
    check_status(&c.host.host, kv_cache_append(&c.cache, 3, keys, values, NULL), HASHATTN_INVALID,
                 "key holds NaN or infinity at sequence 0, row 2, head 0");
    key[8] = 0;
    value[1] = -2e30f;
    check_status(&c.host.host, kv_cache_append(&c.cache, 3, keys, values, NULL), HASHATTN_INVALID,
                 "value holds 2e+30 at sequence 0, row 0, head 0; the limit is 1e+30");
    assert_int_equal(c.cache.pages.sequences[0].length, 5000);
    cache_case_free(&c);
}

/* Pages have room for 512 rows, and scratch memory for as many. */
static void decoding_allocates_nothing(void **state)
{
    (void)state;
    struct kv_options options = cache_case_options();
    options.num_sequences = 3;
    for (const char *const *name = kv_mechanism_names; *name != NULL; name++) {
        struct cache_case c;
        uint8_t mask[3 * 300];
        cache_case_new(&c, "auto", 2, *name, &options);
        for (size_t i = 0; i < sizeof mask; i++)
            mask[i] = i % 7 != 0;
        cache_case_append(&c, 300, mask);
        float *query = cache_case_query(&c, 1);
        free(cache_case_attend(&c, 1, query));
        long calls = c.host.calls;
        for (int i = 0; i < 100; i++) {
            cache_case_append(&c, 1, NULL);
            free(cache_case_attend(&c, 1, query));
        }
        if (c.host.calls != calls)
            fail_msg("%s: %ld allocations in 100 tokens", *name, c.host.calls - calls);
        free(query);
        cache_case_free(&c);
    }
}

static void a_failed_append_changes_nothing(void **state)
{
    (void)state;
    struct kv_options options = cache_case_options();
    options.num_sequences = 3;
    hashattn_status status = HASHATTN_NO_MEMORY;
    long n = 0;
    for (; status != HASHATTN_OK; n++) {
        struct cache_case c;
        static float zeros[3000 * 128];
        const struct kv_rows rows = {zeros, DTYPE_FLOAT32, 0, 128, 64};
        cache_case_new(&c, "auto", 1, "softmax", &options);
        size_t pages = c.cache.pages.allocated;
        c.host.until_failure = c.host.calls + n;
        status = kv_cache_append(&c.cache, 3000, rows, rows, NULL);
        for (size_t s = 0; s < 3; s++)
            assert_int_equal(c.cache.pages.sequences[s].length, status == HASHATTN_OK ? 3000 : 0);
        if (status != HASHATTN_OK)
            check_status(&c.host.host, status, HASHATTN_NO_MEMORY, "memory");
        assert_true(status == HASHATTN_OK || c.cache.pages.allocated == pages);
        cache_case_free(&c);
        assert_true(n < 100);
    }
    assert_true(n > 5); /* also after the first sequence has its pages */
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(it_is_softmax_attention),
        cmocka_unit_test(groups_windows_and_spans),
        cmocka_unit_test(sequences_have_their_own_lengths),
        cmocka_unit_test(a_changed_cache_equals_a_fresh_one),
        cmocka_unit_test(threads_do_not_change_bits),
        cmocka_unit_test(large_numbers),
        cmocka_unit_test(decoding_allocates_nothing),
        cmocka_unit_test(a_failed_append_changes_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
