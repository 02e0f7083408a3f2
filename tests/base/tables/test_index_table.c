/* Names are found under their index, and no others; two tables have different keys; texts that differ in
   size, in one byte or in zeros have different hashes. Covers: hash_key.c.

   Planted and caught: a table that loses names when it grows; the last bytes of a text not hashed; texts that
   differ in the zeros at their end hashed alike; one key for all tables.
   SPDX-License-Identifier: Apache-2.0 */
#include "base/tables/index_table.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "support/check.h"

enum { NAMES = 20000, NAME = 16 };

static char names[NAMES][NAME];

static bool find(const struct index_table *table, const char *name, uint32_t *index)
{
    uint64_t hash = hash_bytes(&table->key, name, strlen(name));
    for (size_t probes = 0; index_table_next(table, hash, &probes, index);)
        if (strcmp(names[*index], name) == 0)
            return true;
    return false;
}

static void names_are_found(void **state)
{
    (void)state;
    struct host host;
    host_init(&host);
    struct index_table table = {.slots = NULL};
    uint32_t index;
    assert_false(find(&table, "n0", &index));
    for (uint32_t i = 0; i < NAMES; i++) {
        snprintf(names[i], NAME, "n%u", i);
        assert_int_equal(index_table_grow(&host, &table), HASHATTN_OK);
        index_table_add(&table, hash_bytes(&table.key, names[i], strlen(names[i])), i);
    }
    for (uint32_t i = 0; i < NAMES; i++)
        assert_true(find(&table, names[i], &index) && index == i);
    assert_false(find(&table, "n20000", &index));
    assert_int_equal(table.count, NAMES);
    index_table_free(&host, &table);
}

static int compare(const void *a, const void *b)
{
    const uint64_t *x = a, *y = b;
    return (*x > *y) - (*x < *y);
}

static void texts_that_differ_have_other_hashes(void **state)
{
    (void)state;
    enum { SIZES = 40, EACH = 9, HASHES = SIZES * EACH };
    const struct hash_key key = hash_key_new(), other = hash_key_new();
    uint64_t hashes[HASHES + 1];
    size_t count = 0;
    char text[SIZES] = "";
    for (size_t size = 0; size < SIZES; size++)
        for (size_t bit = 0; bit < EACH; bit++) {
            if (bit > 0 && size == 0)
                continue;
            memset(text, 0, sizeof text);
            if (bit > 0)
                text[(size * 5 + bit) % size] = (char)(1 << (bit - 1));
            hashes[count++] = hash_bytes(&key, text, size);
            assert_true(hashes[count - 1] == hash_bytes(&key, text, size));
            assert_true(hashes[count - 1] != hash_bytes(&other, text, size));
        }
    qsort(hashes, count, sizeof *hashes, compare);
    for (size_t i = 1; i < count; i++)
        assert_true(hashes[i] != hashes[i - 1]);
    assert_true(hash_pair(&key, 1, 2) != hash_pair(&key, 2, 1));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(names_are_found),
        cmocka_unit_test(texts_that_differ_have_other_hashes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
