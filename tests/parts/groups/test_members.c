/* Lists of groups and their inverse against the definition. Bugs planted and caught: a share rounded down;
   no group of one token; more than all tokens; another group's scores; lists that begin where they end;
   groups of a token shifted by one; choices of one token for those of the next.
   SPDX-License-Identifier: Apache-2.0 */
#include "parts/groups/members.h"

#include <math.h>
#include <stdlib.h>

#include "base/random.h"
#include "support/check.h"

static void capacities(void **state)
{
    (void)state;
    struct capacity whole = {64, sqrt(2), true}, part = {64, sqrt(2), false};
    static const struct {
        size_t n, whole, part;
    } want[] = {{0, 0, 0},  {1, 1, 1},   {63, 1, 1},     {64, 1, 1},
                {65, 2, 1}, {100, 2, 2}, {4096, 90, 90}, {4097, 91, 90}};
    for (size_t i = 0; i < sizeof want / sizeof *want; i++) {
        assert_int_equal(capacity_of(&whole, want[i].n), want[i].whole);
        assert_int_equal(capacity_of(&part, want[i].n), want[i].part);
    }
    /* C = 11, 22, 45 of the paper's table 2: 128 tokens in 16, 8, 4 groups. */
    static const size_t sizes[] = {11, 22, 45};
    for (size_t b = 16, c = 0; b >= 4; b /= 2, c++) {
        struct capacity glue = {b, sqrt(2), true};
        assert_int_equal(capacity_of(&glue, 128), sizes[c]);
    }
    for (size_t n = 1, last = 0; n < 5000; last = capacity_of(&whole, n++))
        assert_true(capacity_of(&whole, n) >= last);
    struct capacity wide = {1, 64, true};
    assert_int_equal(capacity_of(&wide, 7), 7);
}

enum { N = 50, LD = 53, GROUPS = 7 };

static void check_places(const struct members *members, size_t count)
{
    uint32_t *memory = malloc((N + 1 + count) * sizeof *memory);
    struct places places = {memory, memory + N + 1};
    places_find(&places, members, N);
    assert_int_equal(places.start[0], 0);
    assert_int_equal(places.start[N], count);
    for (size_t i = 0; i < N; i++)
        for (size_t p = places.start[i]; p < places.start[i + 1]; p++) {
            assert_int_equal(members->list[places.place[p]], i);
            assert_true(p == places.start[i] || places.place[p] > places.place[p - 1]);
        }
    free(memory);
}

static void each_group_takes_its_best(void **state)
{
    (void)state;
    float scores[GROUPS * LD];
    uint32_t start[GROUPS + 1], list[GROUPS * N];
    struct members members = {GROUPS, start, list};
    random_normals(1, 0, scores, GROUPS * LD);
    for (size_t count = 0; count <= N; count += 5) {
        members_by_group(&members, kernels_all()[0], NULL, scores, LD, N, count);
        for (size_t b = 0; b < GROUPS; b++) {
            assert_int_equal(members_of(&members, b), count);
            for (size_t i = 0, at = start[b]; i < N; i++) {
                size_t rank = 0;
                for (size_t j = 0; j < N; j++)
                    rank += scores[b * LD + j] > scores[b * LD + i];
                bool is = at < start[b + 1] && list[at] == i;
                at += is;
                assert_true(is == (rank < count));
            }
        }
        check_places(&members, GROUPS * count);
    }
}

static void each_token_takes_its_group(void **state)
{
    (void)state;
    uint32_t choice[N], start[GROUPS + 1], list[N];
    struct members members = {GROUPS, start, list};
    for (size_t i = 0; i < N; i++)
        choice[i] = (uint32_t)(i * i % 11 % GROUPS); /* some groups are empty */
    members_by_token(&members, choice, N, 1);
    assert_int_equal(start[0], 0);
    assert_int_equal(start[GROUPS], N);
    for (size_t b = 0; b < GROUPS; b++)
        for (size_t p = start[b]; p < start[b + 1]; p++) {
            assert_int_equal(choice[list[p]], b);
            assert_true(p == start[b] || list[p] > list[p - 1]);
        }
    check_places(&members, N);
}

static void tokens_have_their_groups(void **state)
{
    (void)state;
    uint32_t start[] = {0, 3, 3, 5}, list[] = {0, 2, 3, 1, 2}, of_token[5], group[5];
    struct members members = {3, start, list};
    struct token_groups groups = {of_token, group};
    token_groups_find(&groups, &members, 4);
    static const uint32_t starts_wanted[] = {0, 1, 2, 4, 5}, wanted[] = {0, 2, 0, 2, 0};
    assert_memory_equal(of_token, starts_wanted, sizeof starts_wanted);
    assert_memory_equal(group, wanted, sizeof wanted);
    static const uint32_t choice[] = {2, 0, 1, 3};
    token_groups_by_choice(&groups, choice, 2, 2);
    for (size_t i = 0; i < 2; i++)
        assert_true(of_token[i] == 2 * i && of_token[i + 1] == 2 * i + 2);
    assert_memory_equal(group, choice, sizeof choice);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(capacities),
        cmocka_unit_test(each_group_takes_its_best),
        cmocka_unit_test(each_token_takes_its_group),
        cmocka_unit_test(tokens_have_their_groups),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
