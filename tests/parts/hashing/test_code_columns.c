/* Columns of narrow and wide codes, for the first hashes and later ones, against the codes themselves.
   Bugs planted and caught: the wrong first hash; a block not written to its end; wide codes read as
   narrow.
   SPDX-License-Identifier: Apache-2.0 */
#include "parts/hashing/code_columns.h"

#include <stdlib.h>

#include "base/random.h"
#include "support/check.h"

static void check_columns(size_t n, size_t num_hashes, size_t hash_bits)
{
    const struct hashing hashing = {.num_hashes = num_hashes, .hash_bits = hash_bits};
    size_t bytes = codes_size(&hashing, n);
    unsigned char *data = malloc(bytes);
    struct random random = random_open(n);
    for (size_t i = 0; i < bytes; i++)
        data[i] = (unsigned char)random_below(&random, 256);
    struct codes codes = codes_at(&hashing, data, n);
    struct code_columns columns;
    struct arena arena = arena_on(NULL);
    code_columns_init(&columns, &arena, &hashing, n);
    void *block = aligned_alloc(64, arena.used);
    arena = arena_on(block);
    code_columns_init(&columns, &arena, &hashing, n);
    for (size_t hash = 0; hash < num_hashes; hash++) {
        if (hash % CODE_COLUMNS == 0)
            code_columns_take(&columns, &codes, hash);
        const void *column = code_column(&columns, hash);
        for (size_t i = 0; i < n; i++) {
            size_t at = i * num_hashes + hash;
            if (codes.wide)
                assert_int_equal(((const uint32_t *)column)[i], ((const uint32_t *)codes.data)[at]);
            else
                assert_int_equal(((const uint16_t *)column)[i], ((const uint16_t *)codes.data)[at]);
        }
    }
    free(block), free(data);
}

static void columns_are_the_codes(void **state)
{
    (void)state;
    static const size_t n[] = {1, 63, 64, 65, 300}, hashes[] = {1, 5, 32, 33, 70};
    for (size_t i = 0; i < sizeof n / sizeof *n; i++)
        for (size_t h = 0; h < sizeof hashes / sizeof *hashes; h++)
            for (size_t bits = 16; bits <= 17; bits++)
                check_columns(n[i], hashes[h], bits);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(columns_are_the_codes)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
