/* The factors of pairs against the words of base/random.h, for tiles that begin anywhere. Bugs planted and
   caught: the query's blocks one short; the tile's number left out; a pair's number without first_key; the
   draws of a partial row from the start of its block.
   SPDX-License-Identifier: Apache-2.0 */
#include <stdlib.h>
#include <string.h>

#include "base/random.h"
#include "parts/problem/weight_dropout.h"
#include "support/check.h"

static const struct weight_dropout quarter = {.threshold = 16384, .scale = 4.0f / 3, .key = 77};

/* Draw number key % 128 + 128 query of the draws of the tile of 128 keys. */
static float factor_of(const struct weight_dropout *dropout, uint64_t query, uint64_t key)
{
    uint64_t draw = query * 128 + key % 128;
    uint32_t words[4];
    random_words(dropout->key, ((key / 128) << 36) + draw / 8, words);
    uint32_t word = words[draw % 8 / 2];
    return ((draw % 2 == 0 ? word : word >> 16) & 0xffff) < dropout->threshold ? 0 : dropout->scale;
}

static void check_tile(const struct weight_dropout *dropout, size_t rows, size_t cols, size_t query,
                       size_t key)
{
    float tile[40 * WEIGHT_DROPOUT_TILE];
    for (const struct kernels *const *kernels = kernels_all(); *kernels != NULL; kernels++) {
        for (size_t i = 0; i < sizeof tile / sizeof *tile; i++)
            tile[i] = 1 + (float)(i % 7);
        weight_dropout_tile(dropout, *kernels, tile, rows, cols, query, key);
        for (size_t i = 0; i < rows; i++)
            for (size_t c = 0; c < cols; c++) {
                size_t at = i * WEIGHT_DROPOUT_TILE + c;
                float want = (1 + (float)(at % 7)) * factor_of(dropout, query + i + dropout->first_query,
                                                               key + c + dropout->first_key);
                assert_true(tile[at] == want);
            }
    }
}

static void every_pair_has_its_own_draw(void **state)
{
    (void)state;
    check_tile(&quarter, 40, 128, 0, 0);
    check_tile(&quarter, 40, 128, 1000, 1280);
    check_tile(&quarter, 1, 1, 3, 256);
    check_tile(&quarter, 7, 96, 5, 128 + 16);
    check_tile(&quarter, 3, 20, (size_t)1 << 31, (size_t)1 << 31);
    struct weight_dropout shared = quarter;
    for (size_t first = 0; first < 20; first += 3) {
        shared.first_query = 10 * first;
        shared.first_key = first;
        check_tile(&shared, 9, 128, 2, 0);
        check_tile(&shared, 9, 50, 2, 128 * 3 + 64);
    }
    shared.first_key = (size_t)-5;
    float tile[WEIGHT_DROPOUT_TILE] = {0};
    weight_dropout_tile(&shared, kernels_all()[0], tile, 1, 20, 0, 0); /* keys below 0 are nobody's */
    check_tile(&shared, 9, 50, 2, 5);
}

static void lists_differ_and_no_dropout_changes_nothing(void **state)
{
    (void)state;
    struct weight_dropout a = weight_dropout_of_list(&quarter, 0), b = weight_dropout_of_list(&quarter, 1);
    assert_true(a.key != b.key && a.key != quarter.key && a.threshold == quarter.threshold);
    const struct weight_dropout none = {.threshold = 0};
    float tile[2 * WEIGHT_DROPOUT_TILE];
    for (size_t i = 0; i < 2 * WEIGHT_DROPOUT_TILE; i++)
        tile[i] = (float)i;
    weight_dropout_tile(&none, kernels_all()[0], tile, 2, 128, 0, 0);
    for (size_t i = 0; i < 2 * WEIGHT_DROPOUT_TILE; i++)
        assert_true(tile[i] == (float)i);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_pair_has_its_own_draw),
        cmocka_unit_test(lists_differ_and_no_dropout_changes_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
