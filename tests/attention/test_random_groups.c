/* random against double precision, with the scores of its key; contents do not affect membership.
   test_grouped.c tests the attention below the scores. Bugs planted and caught: one score for queries and
   keys; the scores of the first tile for every tile.
   SPDX-License-Identifier: Apache-2.0 */
#include <stdlib.h>

#include "base/random.h"
#include "support/check.h"
#include "support/group_case.h"

enum { N = 131, D = 20, D_V = 12, GROUPS = 6 };

static void fill_scores(double *z, uint64_t side, size_t rounds)
{
    float scores[2 * N * GROUPS];
    uint64_t head = random_key(123, RANDOM_HEAD, 0);
    random_normals(random_key(head, RANDOM_GROUPS, side), 0, scores, N * rounds * GROUPS);
    for (size_t i = 0; i < N * rounds * GROUPS; i++)
        z[i] = (double)scores[i];
}

static void check(const char *settings, bool paper, bool joint, bool causal, bool strict)
{
    void *options = group_case_options("random", settings);
    for (const struct kernels *const *kernels = kernels_all(); *kernels != NULL; kernels++) {
        struct attention_case data = group_case_new("random", options, N, N, D, D_V, causal);
        data.kernels = *kernels;
        struct oracle_groups o = group_case_oracle(&data, GROUPS, paper, joint, strict);
        fill_scores(o.z_query, 0, o.rounds);
        fill_scores(o.z_key, 1, o.rounds);
        group_case_check(&data, &o, settings);
        attention_case_free(&data);
    }
    free(options);
}

static void scores_follow_the_key_alone(void **state)
{
    (void)state;
    check("num_buckets=6", false, false, false, false);
    check("num_buckets=6 mode=paper joint=true", true, true, false, false);
    check("num_buckets=6", false, false, true, true);
    check("num_buckets=6 membership=whole", false, false, true, false);
    check("num_buckets=6 rounds=2", false, false, false, false);
    check("num_buckets=6 rounds=2", false, false, true, true);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(scores_follow_the_key_alone)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
