/* Splits that are cut out of a training file have the same share of every label; the first rule is kept.
   Planted and caught: a label's only example taken for validation; examples that small labels cannot give
   lost; test drawn without end; labels ignored; the seed ignored.
   SPDX-License-Identifier: Apache-2.0 */
#include "tasks/splits.h"

#include <stdlib.h>
#include <string.h>

#include "support/check.h"

enum { MOST = 2000 };

/* Draws splits of `count` examples with these labels; counts[split][label]. */
static void draw(const uint32_t *labels, size_t count, size_t cuts, uint64_t seed, uint8_t *own,
                 size_t counts[SPLIT_COUNT][MOST])
{
    struct host host;
    struct dataset dataset = {.count = count, .num_targets = 1, .targets[0].kind = TARGETS_EXAMPLE};
    host_init(&host);
    dataset.targets[0].ids = (uint32_t *)(uintptr_t)labels;
    check_status(&host, splits_draw(&host, &dataset, false, false, cuts, seed, own), HASHATTN_OK, NULL);
    memset(counts, 0, SPLIT_COUNT * sizeof *counts);
    for (size_t i = 0; i < count; i++)
        counts[own[i]][labels[i]]++;
}

static void labels_have_their_share(void **state)
{
    static uint32_t labels[MOST];
    static uint8_t own[MOST], other[MOST];
    static size_t counts[SPLIT_COUNT][MOST];
    (void)state;
    /* 1,000 of label 0, then 30 of 1, 7 of 2, 2 of 3 and one of 4: a sorted file. */
    const size_t sizes[] = {1000, 30, 7, 2, 1};
    size_t count = 0;
    for (uint32_t c = 0; c < 5; c++)
        for (size_t i = 0; i < sizes[c]; i++)
            labels[count++] = c;
    for (uint64_t seed = 0; seed < 20; seed++) {
        draw(labels, count, 2, seed, own, counts);
        for (enum split split = SPLIT_VALID; split <= SPLIT_TEST; split++) {
            size_t all = 0;
            for (size_t c = 0; c < 5; c++) {
                double fair = (double)sizes[c] * 104 / (double)count;
                all += counts[split][c];
                assert_true((double)counts[split][c] > fair - 1.01 && (double)counts[split][c] < fair + 2.5);
            }
            assert_int_equal(all, 104);
        }
        for (size_t c = 0; c < 5; c++)
            assert_true(counts[SPLIT_TRAIN][c] >= 1);
        draw(labels, count, 2, seed + 100, other, counts);
        assert_memory_not_equal(own, other, count);
    }
    draw(labels, count, 1, 1, own, counts);
    for (size_t c = 0; c < 5; c++)
        assert_int_equal(counts[SPLIT_TEST][c], 0);
    assert_int_equal(counts[SPLIT_VALID][0], 101); /* 100, and the one that label 4 cannot give */
}

/* Two labels of which one is rare, whatever the order of the file. */
static void few_examples_are_split(void **state)
{
    static uint8_t own[MOST];
    static size_t counts[SPLIT_COUNT][MOST];
    (void)state;
    for (size_t count = 4; count < 60; count++) {
        uint32_t labels[60] = {0};
        labels[count / 2] = 1;
        draw(labels, count, 2, count, own, counts);
        size_t tenth = count < 10 ? 1 : count / 10;
        assert_int_equal(counts[SPLIT_TRAIN][1], 1);
        assert_int_equal(counts[SPLIT_VALID][0], tenth);
        assert_int_equal(counts[SPLIT_TEST][0], tenth);
    }
}

/* Every label once: no shares, and the draw of earlier versions. */
static void labels_of_their_own_do_not_count(void **state)
{
    (void)state;
    struct host host;
    uint32_t labels[100];
    uint8_t own[100], first[100];
    struct dataset dataset = {.count = 100, .num_targets = 1, .targets[0].kind = TARGETS_EXAMPLE};
    host_init(&host);
    for (uint32_t i = 0; i < 100; i++)
        labels[i] = i;
    dataset.targets[0].ids = labels;
    check_status(&host, splits_draw(&host, &dataset, false, false, 2, 3, own), HASHATTN_OK, NULL);
    check_status(&host, splits_draw(&host, &dataset, false, true, 2, 3, first), HASHATTN_OK, NULL);
    assert_memory_equal(own, first, 100);
    for (uint32_t i = 0; i < 100; i++)
        labels[i] = i % 2;
    check_status(&host, splits_draw(&host, &dataset, false, true, 2, 3, own), HASHATTN_OK, NULL);
    assert_memory_equal(own, first, 100);
    check_status(&host, splits_draw(&host, &dataset, false, false, 2, 3, own), HASHATTN_OK, NULL);
    assert_memory_not_equal(own, first, 100);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(labels_have_their_share),
        cmocka_unit_test(few_examples_are_split),
        cmocka_unit_test(labels_of_their_own_do_not_count),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
