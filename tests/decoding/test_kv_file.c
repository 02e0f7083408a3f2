/* Caches in files: rows, options and lengths come back, and attention with the same bits; every change of
   a byte is found.
   Covers: kv_file.c.
   SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>
#include <stdlib.h>

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

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(a_loaded_cache_is_the_saved_one, folder_enter, folder_leave),
        cmocka_unit_test_setup_teardown(damage_is_found, folder_enter, folder_leave),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
