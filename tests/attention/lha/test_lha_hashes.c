/* The memory of the hash functions, per thread; test_lha.c checks the scores themselves. Planted and caught:
   hidden units of a thread before the block.
   SPDX-License-Identifier: Apache-2.0 */
#include "attention/lha/lha_hashes.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "attention/driver/attention.h"
#include "support/check.h"
#include "support/layers.h"

enum { DIM = 20, WIDTH = 5, GROUPS = 4, COUNT = SCORE_ROWS, WORKERS = 3, HIDDEN = SCORE_ROWS * WIDTH };

/* Every worker has the same scores, and hidden units of its own. */
static void workers_share_no_memory(void **state)
{
    (void)state;
    struct lha_options options;
    options_preset(attention_find("lha")->options, &options);
    options.hash = HASH_MLP;
    options.hash_width = WIDTH;
    options.grouping.num_groups = GROUPS;
    size_t side = (DIM + 1) * WIDTH + (WIDTH + 1) * GROUPS;
    float *params = new_normals(1, 2 * side, 1), *x = new_normals(2, COUNT * DIM, 1),
          z[WORKERS][COUNT * GROUPS];
    const struct view rows = {.data = x, .rows = COUNT, .cols = DIM, .stride = DIM};
    struct problem problem = {
        .kernels = kernels_all()[0],
        .shape = {.num_queries = COUNT, .num_keys = COUNT, .head_dim = DIM, .workers = WORKERS},
        .options = &options,
        .query = rows,
        .key = rows,
        .params = params,
    };
    size_t bytes = lha_scorer_size(&options, &problem.shape);
    float *block = guard_floats(bytes / sizeof *block);
    const struct lha_scorer *scorer = lha_scorer_open(&problem, block);
    assert_int_equal(scorer->hidden_count, HIDDEN);
    for (int worker = 0; worker < WORKERS; worker++) {
        memset(scorer->hidden, 0xff, WORKERS * HIDDEN * sizeof(float));
        lha_score(scorer, SIDE_QUERIES, 0, COUNT, z[worker], worker);
        for (int other = 0; other < WORKERS; other++)
            assert_true(isnan(scorer->hidden[other * HIDDEN]) == (other != worker));
        check_same_bits(z[worker], z[0], sizeof z[0], "scores");
    }
    guard_free(block, bytes / sizeof *block);
    free(params), free(x);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(workers_share_no_memory)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
