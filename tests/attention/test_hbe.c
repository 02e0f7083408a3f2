/* hbe against its definition in double precision, from the codes of its own planes and its own draws. Bugs
   planted and caught: the first key of a bucket instead of a random one; one draw for all hashes; the size of
   the bucket left out of the weight, or counted with later keys; 1 / m left out of the sums of the part;
   later keys drawn.
   SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "support/check.h"
#include "support/sample_case.h"

static void hbe_is_its_definition(void **state)
{
    (void)state;
    sample_case_check("hbe", "", 1, 1, 1, 1, false, NULL);
    sample_case_check("hbe", "num_hashes=5 hash_bits=2", 70, 300, 19, 33, false, NULL);
    sample_case_check("hbe", "num_hashes=130 hash_bits=4", 130, 65, 8, 3, false, NULL);
    sample_case_check("hbe", "num_hashes=1 hash_bits=1", 3, 1100, 64, 64, false, NULL);
    sample_case_check("hbe", "num_hashes=7 hash_bits=18", 50, 60, 2, 5, false, NULL);
}

static void causal_hbe_is_its_definition(void **state)
{
    (void)state;
    sample_case_check("hbe", "num_hashes=6 hash_bits=2", 150, 150, 16, 8, true, NULL);
    sample_case_check("hbe", "num_hashes=3 hash_bits=1", 500, 500, 4, 2, true, NULL);
}

/* All keys but the last are zero rows, and all have code 0, so buckets are full or hold one key. */
static void make_crowd(struct attention_case *data)
{
    memset(data->key, 0, (data->keys[0] - 1) * data->head_dim * sizeof *data->key);
    memset(data->query, 0, data->head_dim * sizeof *data->query);
}

static void full_and_empty_buckets_are_weighted_exactly(void **state)
{
    (void)state;
    sample_case_check("hbe", "num_hashes=20 hash_bits=3", 40, 500, 5, 4, false, make_crowd);
    sample_case_check("hbe", "num_hashes=2 hash_bits=12", 40, 200, 5, 4, false, make_crowd);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(hbe_is_its_definition),
        cmocka_unit_test(causal_hbe_is_its_definition),
        cmocka_unit_test(full_and_empty_buckets_are_weighted_exactly),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
