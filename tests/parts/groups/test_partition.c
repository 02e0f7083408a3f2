/* Partitions by hand, and their properties for random scores: equal sizes, each token once, and no pair that
   both sides would prefer. Bugs planted and caught: groups one larger while none is left over; every group
   one larger; the stride left out; a NaN before numbers; the smallest score first; later tokens first.
   SPDX-License-Identifier: Apache-2.0 */
#include "parts/groups/partition.h"

#include <math.h>
#include <stdlib.h>

#include "base/random.h"
#include "support/check.h"

enum { MOST = 200, MOST_GROUPS = 9, LD = 208 };

static void run(const float *scores, size_t ld, size_t groups, size_t n, uint32_t first, uint32_t *choice,
                size_t stride)
{
    size_t floats = partition_size(groups, n) / sizeof(float);
    float *scratch = guard_floats(floats);
    partition(scores, ld, groups, n, first, choice, stride, scratch);
    guard_free(scratch, floats);
}

static void the_largest_scores_choose_first(void **state)
{
    (void)state;
    /* Token 1 takes group 0, token 3 too; tokens 0 and 2 prefer group 0, which is full. */
    static const float scores[2][4] = {{.6f, .9f, .7f, .8f}, {.4f, .1f, .3f, .2f}};
    uint32_t choice[8] = {0, 77, 0, 77, 0, 77, 0, 77};
    run(scores[0], 4, 2, 4, 10, choice, 2);
    static const uint32_t want[] = {11, 77, 10, 77, 11, 77, 10, 77};
    assert_memory_equal(choice, want, sizeof want);
    /* Equal scores: lower tokens take lower groups. A NaN takes what is left. */
    static const float equal[3][3] = {{1, 1, 1}, {1, 1, 1}, {1, 1, 1}},
                       missing[2][3] = {{NAN, -1, -2}, {NAN, -3, -INFINITY}};
    run(equal[0], 3, 3, 3, 0, choice, 1);
    assert_true(choice[0] == 0 && choice[1] == 1 && choice[2] == 2);
    run(missing[0], 3, 2, 3, 0, choice, 1);
    assert_true(choice[1] == 0 && choice[2] == 0 && choice[0] == 1);
}

static void partitions_are_equal_and_stable(void **state)
{
    (void)state;
    static float scores[MOST_GROUPS * LD];
    static const size_t shapes[][2] = {{1, 50}, {2, 101}, {4, 200}, {7, 199}, {9, 5}, {9, 1}, {3, 0}};
    for (size_t s = 0; s < sizeof shapes / sizeof *shapes; s++) {
        size_t groups = shapes[s][0], n = shapes[s][1], sizes[MOST_GROUPS] = {0}, larger = 0;
        float least[MOST_GROUPS];
        uint32_t choice[MOST + 1];
        random_normals(s, 0, scores, MOST_GROUPS * LD);
        run(scores, LD, groups, n, 0, choice, 1);
        for (size_t b = 0; b < groups; b++)
            least[b] = INFINITY;
        for (size_t i = 0; i < n; i++) {
            assert_true(choice[i] < groups);
            sizes[choice[i]]++;
            least[choice[i]] = fminf(least[choice[i]], scores[choice[i] * LD + i]);
        }
        for (size_t b = 0; b < groups; b++) {
            assert_true(sizes[b] == n / groups || sizes[b] == n / groups + 1);
            larger += sizes[b] > n / groups;
        }
        assert_int_equal(larger, n % groups);
        /* No token scores better elsewhere than there, and than the least of a full group. */
        for (size_t i = 0; i < n; i++)
            for (size_t b = 0; b < groups && n % groups == 0; b++)
                assert_false(scores[b * LD + i] > scores[choice[i] * LD + i] &&
                             scores[b * LD + i] > least[b]);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_largest_scores_choose_first),
        cmocka_unit_test(partitions_are_equal_and_stable),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
