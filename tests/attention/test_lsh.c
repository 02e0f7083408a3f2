/* lsh against double precision, with the directions from its key, for every mask. test_grouped.c tests the
   attention below the scores. Bugs planted and caught: the opposites not negated; directions of another
   key; a joint score of queries only; the directions of the
   first round for all.
   SPDX-License-Identifier: Apache-2.0 */
#include <math.h>
#include <stdlib.h>

#include "base/random.h"
#include "support/check.h"
#include "support/group_case.h"

enum { N = 131, D = 20, D_V = 12, MOST = 6, ROUNDS = 3 };

/* z += x [R; -R] / sqrt(d) for each round, without the last column if the number of groups is odd. */
static void add_scores(double *z, const float *x, size_t groups, size_t rounds)
{
    float directions[ROUNDS * D * MOST];
    size_t half = (groups + 1) / 2;
    uint64_t head = random_key(123, RANDOM_HEAD, 0);
    random_normals(random_key(head, RANDOM_GROUPS, 0), 0, directions, rounds * D * half);
    for (size_t i = 0; i < N * rounds; i++)
        for (size_t b = 0; b < groups; b++)
            for (size_t c = 0; c < D; c++)
                z[i * groups + b] += (b < half ? 1 : -1) * (double)x[i / rounds * D + c] *
                                     (double)directions[(i % rounds * D + c) * half + b % half] / sqrt(D);
}

static void check(const char *settings, size_t groups, bool paper, bool joint, bool causal, bool strict)
{
    void *options = group_case_options("lsh", settings);
    for (const struct kernels *const *kernels = kernels_all(); *kernels != NULL; kernels++) {
        struct attention_case data = group_case_new("lsh", options, N, N, D, D_V, causal);
        data.kernels = *kernels;
        struct oracle_groups o = group_case_oracle(&data, groups, paper, joint, strict);
        add_scores(o.z_query, data.query, groups, o.rounds);
        add_scores(o.joint ? o.z_query : o.z_key, data.key, groups, o.rounds);
        group_case_check(&data, &o, settings);
        attention_case_free(&data);
    }
    free(options);
}

static void directions_and_their_opposites_score(void **state)
{
    (void)state;
    check("num_buckets=6", 6, false, false, false, false);
    check("num_buckets=5", 5, false, false, false, false);
    check("num_buckets=1", 1, false, false, false, false);
    check("num_buckets=6 mode=paper", 6, true, false, false, false);
    check("num_buckets=6 joint=true", 6, false, true, false, false);
    check("num_buckets=6", 6, false, false, true, true);
    check("num_buckets=6 membership=whole", 6, false, false, true, false);
    check("num_buckets=6 rounds=2", 6, false, false, false, false);
    check("num_buckets=5 rounds=3 mode=paper", 5, true, false, false, false);
    check("num_buckets=5 rounds=3", 5, false, false, true, true);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(directions_and_their_opposites_score),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
