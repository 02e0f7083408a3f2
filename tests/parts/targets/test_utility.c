/* Targets on several threads have the bits of one, exact and estimated; blocks arrive as promised. Bugs
   planted and caught: a block that begins with the sums of the previous one; its last row left out; all
   blocks in one slot; one slot closed for all; blocks that depend on threads; the memory of one chunk for
   another. Covers: utility_blocks.c.
   SPDX-License-Identifier: Apache-2.0 */
#include "parts/targets/utility.h"

#include <stdlib.h>
#include <string.h>

#include "parts/features/random_features.h"
#include "support/check.h"
#include "support/target_case.h"

enum { N_Q = 600, N_K = 1100, D = 8, B = 5, R = 47 };

static void threads_do_not_change_a_bit(void **state)
{
    (void)state;
    static float one[2][N_K * B];
    static const int threads[] = {1, 2, 3, 4};
    float *block = target_case_directions(R, D);
    struct host host;
    host_init(&host);
    struct target_case c = target_case_new(N_Q, N_K, D, B, 1, 4);
    for (size_t features = 0; features <= R; features += R)
        for (size_t t = 0; t < sizeof threads / sizeof *threads; t++) {
            struct pool *pool;
            check_status(&host, pool_new(&host, threads[t], &pool), HASHATTN_OK, NULL);
            struct utility u = {
                .num_features = features, .directions = block, .swapped = true, .twice_scaled = true};
            target_case_run(&c, NULL, pool, &u);
            for (size_t s = 0; s < 2; s++) {
                if (t == 0)
                    memcpy(one[s], c.given[s], c.n[s] * B * sizeof(float));
                check_same_bits(one[s], c.given[s], c.n[s] * B * sizeof(float), "on several threads");
            }
            pool_free(&host, pool);
        }
    guard_free(block, features_count(R, D));
    target_case_free(&c);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(threads_do_not_change_a_bit),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
