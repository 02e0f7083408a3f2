/* Caches in files: rows, options and lengths come back, and attention with the same bits; every change of
   a byte is found; many short sequences cannot ask for memory out of proportion to the file.
   Planted and caught: pages not compared with the size of the file, when reading and when writing; compared
   with the share alone, or with the fixed part alone; empty sequences counted as a page.
   Covers: kv_file.c.
   SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/file.h"
#include "base/memory.h"
#include "decoding/kv_cache_mechanism.h"
#include "decoding/kv_file.h"
#include "support/cache_case.h"
#include "support/folder.h"

static const char *const names[] = {"softmax", "hashed", "hamming"};

/* A cache of two sequences of different lengths. */
static void begin(struct cache_case *c, size_t form)
{
    struct kv_options options = cache_case_options();
    options.num_sequences = 2;
    options.head_dim = 17;
    options.dtype = form / 3 == 0 ? DTYPE_FLOAT32 : DTYPE_BFLOAT16;
    options.seed = 9;
    options.budget = 60;
    options.window = form % 3 == 0 ? 50 : 0;
    cache_case_new(c, "auto", 2, names[form % 3], &options);
    cache_case_append(c, 400, NULL);
    cache_case_truncate(c, 1, 131);
}

static void a_loaded_cache_is_the_saved_one(void **state)
{
    char path[100];
    snprintf(path, sizeof path, "%s/cache", ((const struct folder *)*state)->path);
    for (size_t form = 0; form < 6; form++) {
        struct cache_case c;
        struct kv_cache loaded;
        begin(&c, form);
        check_status(&c.host.host, kv_cache_save(&c.cache, path), HASHATTN_OK, NULL);
        check_status(&c.host.host, kv_cache_load(&c.host.host, c.cache.kernels, c.pool, path, &loaded),
                     HASHATTN_OK, NULL);
        assert_memory_equal(&loaded.options, &c.cache.options, sizeof loaded.options);
        assert_ptr_equal(loaded.mechanism, c.cache.mechanism);
        assert_int_equal(loaded.pages.sequences[1].length, 131);
        float *query = cache_case_query(&c, 3), *out = cache_case_attend(&c, 3, query);
        struct kv_cache saved = c.cache;
        c.cache = loaded;
        float *again = cache_case_attend(&c, 3, query);
        check_same_bits(again, out, 2 * 4 * 3 * 17 * sizeof *out, names[form % 3]);
        kv_cache_free(&c.cache);
        c.cache = saved;
        free(query);
        free(out);
        free(again);
        cache_case_free(&c);
    }
}

static void damage_is_found(void **state)
{
    char path[100];
    snprintf(path, sizeof path, "%s/cache", ((const struct folder *)*state)->path);
    struct cache_case c;
    struct kv_cache loaded;
    char *bytes;
    size_t size;
    begin(&c, 4);
    check_status(&c.host.host, kv_cache_save(&c.cache, path), HASHATTN_OK, NULL);
    check_status(&c.host.host, file_read(&c.host.host, path, SIZE_MAX / 2, &bytes, &size), HASHATTN_OK, NULL);
    for (size_t i = 0; i < size; i += i < 200 ? 1 : 997) {
        bytes[i] = (char)(bytes[i] ^ 4);
        check_status(&c.host.host, kv_cache_parse(&c.host.host, c.cache.kernels, NULL, bytes, size, &loaded),
                     HASHATTN_BAD_FILE, "cache");
        bytes[i] = (char)(bytes[i] ^ 4);
        check_status(&c.host.host, kv_cache_parse(&c.host.host, c.cache.kernels, NULL, bytes, i, &loaded),
                     HASHATTN_BAD_FILE, "cache");
    }
    memory_free(&c.host.host, bytes);
    cache_case_free(&c);
}

/* The bytes of a cache of float32 rows of one number: `empty` sequences, then `single` ones of one row. */
static char *short_sequences(uint64_t empty, uint64_t single, uint64_t bits, size_t *size)
{
    const uint64_t numbers[] = {empty + single, 1, 1, 1, 0, 1, bits, 4, 32, 1}, one = 1;
    const double choice[] = {0.02, 0};
    const float scales[] = {1, 0.5f};
    size_t lengths = 136 + empty * sizeof one, rows = lengths + single * sizeof one;
    *size = rows + single * 2 * sizeof(float) + 8;
    char *bytes = calloc(*size, 1);
    memcpy(bytes, "HACACHE1hashed", 14);
    memcpy(bytes + 24, numbers, sizeof numbers);
    memcpy(bytes + 104, choice, sizeof choice);
    memcpy(bytes + 120, scales, sizeof scales);
    for (size_t s = 0; s < single; s++)
        memcpy(bytes + lengths + s * sizeof one, &one, sizeof one);
    uint64_t hash = 14695981039346656037u;
    for (size_t i = 0; i + 8 < *size; i++)
        hash = (hash ^ (unsigned char)bytes[i]) * 1099511628211u;
    memcpy(bytes + *size - 8, &hash, 8);
    return bytes;
}

static void many_short_sequences_are_refused(void **state)
{
    char path[100];
    snprintf(path, sizeof path, "%s/cache", ((const struct folder *)*state)->path);
    static const struct {
        uint64_t empty, single, bits;
        const char *refused;
    } cases[] = {
        {0, 64, 128, NULL},
        {0, 30000, 16, NULL}, /* 3,136 bytes a page: 94 MB */
        {4000, 100, 1024, NULL},
        {0, 3800, 1024,
         "a cache that needs too much memory: 3800 sequences take 3800 pages of 256 "
         "rows, 134489600 bytes; a file of 60944 bytes may ask for 134217728"},
        {0, 600000, 16, "1881600000 bytes; a file of 9600144 bytes may ask for 307204608"},
    };
    const struct kernels *kernels = kernels_named(NULL, &(const char *){0});
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct failing_host failing;
        struct kv_cache cache;
        size_t size;
        char *bytes = short_sequences(cases[i].empty, cases[i].single, cases[i].bits, &size);
        failing_host_init(&failing, -1);
        hashattn_status status = kv_cache_parse(&failing.host, kernels, NULL, bytes, size, &cache);
        check_status(&failing.host, status, cases[i].refused == NULL ? HASHATTN_OK : HASHATTN_BAD_FILE,
                     cases[i].refused);
        assert_true(cases[i].refused == NULL || failing.calls == 0);
        if (status == HASHATTN_OK) {
            assert_true(kv_cache_nbytes(&cache) < KV_FILE_PAGES + 16 * size + (18 << 20));
            check_status(&failing.host, kv_cache_save(&cache, path), HASHATTN_OK, NULL);
            kv_cache_free(&cache);
        }
        assert_int_equal(failing.outstanding, 0);
        free(bytes);
    }
}

/* What cannot be read is not written. */
static void a_cache_that_cannot_be_read_is_not_written(void **state)
{
    struct folder *folder = *state;
    char path[100];
    snprintf(path, sizeof path, "%s/cache", folder->path);
    enum { SEQUENCES = 260 };
    struct kv_options options = cache_case_options();
    options.head_dim = KV_WIDEST;
    options.num_sequences = SEQUENCES;
    struct kv_cache cache;
    const struct kernels *kernels = kernels_named(NULL, &(const char *){0});
    float *rows = calloc(SEQUENCES * options.kv_heads, KV_WIDEST * sizeof *rows);
    const struct kv_rows zeros = {rows, DTYPE_FLOAT32, options.kv_heads * KV_WIDEST, KV_WIDEST, KV_WIDEST};
    check_status(&folder->host,
                 kv_cache_new(&folder->host, kernels, NULL, kv_mechanism_find("softmax"), &options, &cache),
                 HASHATTN_OK, NULL);
    check_status(&folder->host, kv_cache_append(&cache, 1, zeros, zeros, NULL), HASHATTN_OK, NULL);
    check_status(&folder->host, kv_cache_save(&cache, path), HASHATTN_REFUSED, "may ask for 134217728");
    assert_int_equal(access(path, F_OK), -1);
    for (size_t s = 120; s < SEQUENCES; s++)
        kv_cache_truncate(&cache, s, 0);
    check_status(&folder->host, kv_cache_save(&cache, path), HASHATTN_OK, NULL);
    kv_cache_free(&cache);
    check_status(&folder->host, kv_cache_load(&folder->host, kernels, NULL, path, &cache), HASHATTN_OK, NULL);
    kv_cache_free(&cache);
    free(rows);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(a_loaded_cache_is_the_saved_one, folder_enter, folder_leave),
        cmocka_unit_test_setup_teardown(damage_is_found, folder_enter, folder_leave),
        cmocka_unit_test_setup_teardown(many_short_sequences_are_refused, folder_enter, folder_leave),
        cmocka_unit_test_setup_teardown(a_cache_that_cannot_be_read_is_not_written, folder_enter,
                                        folder_leave),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
