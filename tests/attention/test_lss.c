/* lss against its definition in double precision, from the codes of its own planes: tiles and remainders,
   causal, many hashes, zero, equal and opposite rows, rows of any size. Bugs planted and caught: a key that
   is in two buckets taken twice; the chance of m - 1 hashes; the collision probability of one bit less;
   scores not divided by sqrt(d); the sums of earlier tiles not scaled to the new maximum; near pairs not
   recomputed; later keys seen; the lengths of the first tile used for all.
   SPDX-License-Identifier: Apache-2.0 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "support/check.h"
#include "support/group_case.h"
#include "support/kernel_case.h"
#include "support/sample_case.h"

static void lss_is_its_definition(void **state)
{
    (void)state;
    sample_case_check("lss", "", 1, 1, 1, 1, false, NULL);
    sample_case_check("lss", "num_hashes=5 hash_bits=2", 70, 300, 19, 33, false, NULL);
    sample_case_check("lss", "num_hashes=33 hash_bits=4", 130, 65, 8, 3, false, NULL);
    sample_case_check("lss", "num_hashes=1 hash_bits=1", 3, 1100, 64, 64, false, NULL);
    sample_case_check("lss", "num_hashes=7 hash_bits=18", 50, 60, 2, 5, false, NULL);
}

static void causal_lss_is_its_definition(void **state)
{
    (void)state;
    sample_case_check("lss", "num_hashes=6 hash_bits=2", 150, 150, 16, 8, true, NULL);
    sample_case_check("lss", "num_hashes=1 hash_bits=1", 500, 500, 4, 2, true, NULL);
}

/* Query 0 is zero, query 1 equals key 1, query 2 is opposite to key 2, query 3 nearly equal to key 3; key 4
   is zero. */
static void make_edges(struct attention_case *data)
{
    size_t d = data->head_dim;
    memset(data->query, 0, d * sizeof *data->query);
    memset(data->key + 4 * d, 0, d * sizeof *data->key);
    for (size_t c = 0; c < d; c++) {
        data->query[d + c] = data->key[d + c];
        data->query[2 * d + c] = -data->key[2 * d + c];
        data->query[3 * d + c] = data->key[3 * d + c] * (c == 0 ? 1.001f : 1);
    }
}

static void zero_equal_and_opposite_rows_are_weighted_exactly(void **state)
{
    (void)state;
    sample_case_check("lss", "num_hashes=2 hash_bits=1", 6, 90, 5, 4, false, make_edges);
    sample_case_check("lss", "num_hashes=16 hash_bits=6", 6, 90, 5, 4, false, make_edges);
}

/* Keys at angles of about 1e-4 to 1e-2 to query 0, which all have its code in some hash of many bits. */
static void make_near_keys(struct attention_case *data)
{
    size_t d = data->head_dim, n_k = data->keys[0];
    for (size_t j = 0; j < n_k; j++)
        for (size_t c = 0; c < d; c++)
            data->key[j * d + c] = data->query[c] + 1e-4f * (float)(1 << j % 8) * data->key[j * d + c];
}

static void chances_of_near_keys_are_exact(void **state)
{
    (void)state;
    sample_case_check("lss", "num_hashes=1 hash_bits=24", 1, 40, 8, 4, false, make_near_keys);
    sample_case_check("hbe", "num_hashes=3 hash_bits=24", 1, 40, 8, 4, false, make_near_keys);
}

/* With so many hashes of one bit that every key is in the sample with probability 1 in float32, lss is
   softmax. */
static void with_all_keys_lss_is_softmax(void **state)
{
    (void)state;
    void *options = group_case_options("lss", "num_hashes=400 hash_bits=1");
    for (int causal = 0; causal < 2; causal++) {
        struct attention_case data = kernel_case_new("lss", options, 70, 70, 16, 5, causal != 0);
        struct attention_case exact = data;
        struct attention_result sampled = attention_case_run(&data);
        exact.mechanism = attention_find("softmax");
        exact.options = group_case_options("softmax", "");
        struct attention_result whole = attention_case_run(&exact);
        for (size_t i = 0; i < 70 * 5; i++)
            check_near((double)sampled.out[i], (double)whole.out[i], 1e-5, "softmax");
        attention_result_free(&sampled);
        attention_result_free(&whole);
        free((void *)exact.options);
        attention_case_free(&data);
    }
    free(options);
}

static void rows_of_any_size_have_finite_outputs(void **state)
{
    (void)state;
    static const float sizes[] = {0, 1e-30f, 1e4f, 1e15f, 1e30f};
    static const char *const mechanisms[] = {"lss", "hbe"};
    for (size_t m = 0; m < 2; m++)
        for (size_t s = 0; s < sizeof sizes / sizeof *sizes; s++) {
            void *options = group_case_options(mechanisms[m], "num_hashes=9 hash_bits=3");
            struct attention_case data = kernel_case_new(mechanisms[m], options, 50, 50, 6, 4, false);
            for (size_t i = 0; i < 50 * 6; i++) {
                data.query[i] *= sizes[s];
                data.key[i] *= sizes[s];
            }
            struct attention_result result = attention_case_run(&data);
            for (size_t i = 0; i < 50 * 4; i++)
                assert_true(isfinite(result.out[i]));
            attention_result_free(&result);
            attention_case_free(&data);
            free(options);
        }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(lss_is_its_definition),
        cmocka_unit_test(causal_lss_is_its_definition),
        cmocka_unit_test(zero_equal_and_opposite_rows_are_weighted_exactly),
        cmocka_unit_test(chances_of_near_keys_are_exact),
        cmocka_unit_test(with_all_keys_lss_is_softmax),
        cmocka_unit_test(rows_of_any_size_have_finite_outputs),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
