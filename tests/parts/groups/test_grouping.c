/* What the options of groups mean, what they refuse, and a forward and backward with a scorer of the test's
   own: outputs and gradients have the bits of grouped.h, and the scorer is behind its scratch. Bugs planted
   and caught: the scorer in the scratch of attention; capacity rounded up in mode paper; by_token without a
   causal problem; a partition of causal tokens by their best group accepted; the scorer's bytes left out of
   the scratch. Covers: grouping.c.
   SPDX-License-Identifier: Apache-2.0 */
#include "parts/groups/grouping.h"

#include <stdlib.h>
#include <string.h>

#include "base/random.h"
#include "support/check.h"

enum { N = 70, D = 6, D_V = 5, GROUPS = 3, ROUNDS = 2, LISTS = GROUPS * ROUNDS };

static const struct grouping_options usual = {
    .num_groups = GROUPS, .rounds = ROUNDS, .enlargement = 1.5, .balance = 2};
static const struct problem_shape shape = {
    .num_queries = N, .num_keys = N, .head_dim = D, .value_dim = D_V, .workers = 1};

static void options_have_their_meaning(void **state)
{
    (void)state;
    struct grouping_options options = usual;
    struct problem_shape causal = shape;
    causal.causal = true;
    struct grouped released = grouping_of(&options, &shape), strict = grouping_of(&options, &causal);
    assert_true(released.norm && released.capacity.whole && !released.joint && !released.by_token);
    assert_true(released.rounds == ROUNDS && released.balance == 2 && !released.partition);
    assert_true(strict.joint && strict.by_token);
    options.mode = MODE_PAPER;
    options.membership = MEMBERSHIP_WHOLE;
    options.joint = options.partition = 1;
    struct grouped paper = grouping_of(&options, &shape), whole = grouping_of(&options, &causal);
    assert_true(!paper.norm && !paper.capacity.whole && paper.joint && paper.partition);
    assert_true(whole.joint && !whole.by_token);
    assert_int_equal(grouping_count(&options), LISTS);
}

static void what_cannot_be_grouped_is_refused(void **state)
{
    (void)state;
    struct grouping_options options = usual;
    struct problem_shape of = shape;
    assert_null(grouping_refuse(&options, &of));
    of.num_keys = N + 1;
    assert_null(grouping_refuse(&options, &of));
    options.joint = 1;
    assert_non_null(strstr(grouping_refuse(&options, &of), "as many queries as keys"));
    options.partition = 1;
    of.num_keys = N;
    assert_null(grouping_refuse(&options, &of));
    of.causal = true;
    assert_non_null(strstr(grouping_refuse(&options, &of), "`membership` whole"));
    options.membership = MEMBERSHIP_WHOLE;
    assert_null(grouping_refuse(&options, &of));
    of.num_queries = of.num_keys = UINT32_MAX / GROUPS + 1; /* n GROUPS numbers are sorted */
    assert_non_null(strstr(grouping_refuse(&options, &of), "2^32"));
    options.partition = 0;
    options.rounds = 64;
    assert_non_null(strstr(grouping_refuse(&options, &of), "2^32"));
}

/* Its memory has all scores of either side, and a mark at the end. */
static size_t scorer_size(const void *options, const struct problem_shape *of)
{
    return (2 * grouping_count(options) * of->num_keys + 1) * sizeof(float);
}

static const void *open_scorer(const struct problem *problem, void *memory)
{
    size_t count = 2 * LISTS * problem->shape.num_keys;
    random_normals(problem->random_key, 0, memory, count);
    ((float *)memory)[count] = 77;
    return memory;
}

static void score(const void *scorer, enum group_side side, size_t first, size_t count, float *z, int worker)
{
    (void)worker;
    const float *all = scorer;
    assert_true(all[2 * LISTS * N] == 77);
    memcpy(z, all + (side * N + first) * LISTS, count * LISTS * sizeof *z);
}

static const struct score_source source = {scorer_size, open_scorer, score};

struct results {
    float out[N * D_V], query[N * D], key[N * D], value[N * D_V];
};

static struct problem_gradients gradients_in(struct results *results)
{
    return (struct problem_gradients){.query = view_of(results->query, N, D),
                                      .key = view_of(results->key, N, D),
                                      .value = view_of(results->value, N, D_V)};
}

static void the_scorer_is_behind_the_scratch(void **state)
{
    (void)state;
    static float rows[2 * N * D + 2 * N * D_V], scores[2 * LISTS * N + 1];
    static struct results direct, slots;
    random_normals(5, 0, rows, sizeof rows / sizeof *rows);
    struct problem problem = {.kernels = kernels_named(NULL, &(const char *){0}),
                              .shape = shape,
                              .options = &usual,
                              .query = view_of(rows, N, D),
                              .key = view_of(rows + N * D, N, D),
                              .value = view_of(rows + 2 * N * D, N, D_V),
                              .random_key = 9};
    const struct view dout = view_of(rows + 2 * N * D + N * D_V, N, D_V);
    size_t saved = grouping_saved_size(&usual, &shape) / 4;
    struct grouped grouped = grouping_of(&usual, &shape);
    grouped.score = score;
    grouped.scorer = open_scorer(&problem, scores);
    for (int pass = 0; pass < 2; pass++) {
        struct results *to = pass == 0 ? &direct : &slots;
        const struct problem_gradients gradients = gradients_in(to);
        const struct view out = view_of(to->out, N, D_V);
        size_t bytes = pass == 0 ? grouped_scratch_size(&shape, &grouped)
                                 : grouping_scratch_size(&usual, &shape, &source);
        problem.saved = guard_floats(saved);
        problem.scratch = guard_floats(bytes / 4);
        if (pass == 0) {
            grouped_forward(&problem, &grouped, out);
            grouped_backward(&problem, &grouped, out, dout, &gradients);
        } else {
            grouping_forward(&problem, &source, out);
            grouping_backward(&problem, out, dout, &gradients);
        }
        guard_free(problem.scratch, bytes / 4);
        guard_free(problem.saved, saved);
    }
    assert_true(direct.out[0] != 0 && direct.key[N] != 0);
    check_same_bits((float *)&slots, (float *)&direct, sizeof direct, "slots");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(options_have_their_meaning),
        cmocka_unit_test(what_cannot_be_grouped_is_refused),
        cmocka_unit_test(the_scorer_is_behind_the_scratch),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
