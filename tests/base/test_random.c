/* Philox against its published known answers, and the moments of what is made from it.
   Bugs tried and caught: key words swapped, pair sine/cosine swapped sign, bound refused off by one
   (chi-square). SPDX-License-Identifier: Apache-2.0 */
#include "base/random.h"

#include <math.h>

#include "support/check.h"

static void philox_known_answer(void **state)
{
    (void)state;
    /* Random123's kat_vectors, philox4x32 10 rounds, counter 0 and key 0. */
    static const uint32_t want[4] = {0x6627e8d5u, 0xe169c58du, 0xbc57ac4cu, 0x9b00dbd8u};
    uint32_t words[4];
    random_words(0, 0, words);
    check_same_bits(words, want, sizeof want, "philox of zeros");
}

static void normals_have_the_moments_of_normals(void **state)
{
    (void)state;
    enum { N = 200000 };
    static float x[N];
    random_normals(7, 0, x, N);
    double moment[5] = {0};
    for (int i = 0; i < N; i++)
        for (int k = 1; k <= 4; k++)
            moment[k] += pow((double)x[i], k) / N;
    /* Five standard errors of each moment: var of x^k is 1, 2, 15, 96. */
    static const double want[5] = {0, 0, 1, 0, 3}, variance[5] = {0, 1, 2, 15, 96};
    for (int k = 1; k <= 4; k++)
        check_near(moment[k], want[k], 5 * sqrt(variance[k] / N), "moment");
}

static void normals_do_not_depend_on_where_they_are_cut(void **state)
{
    (void)state;
    float whole[64], part[64];
    random_normals(3, 0, whole, 64);
    for (size_t cut = 0; cut <= 64; cut++) {
        random_normals(3, 0, part, cut);
        random_normals(3, cut, part + cut, 64 - cut);
        check_same_bits(whole, part, sizeof whole, "cut normals");
    }
}

static void permutation_holds_each_number_once(void **state)
{
    (void)state;
    uint32_t p[100];
    int seen[100] = {0};
    random_permutation(5, p, 100);
    for (int i = 0; i < 100; i++)
        seen[p[i]]++;
    for (int i = 0; i < 100; i++)
        assert_int_equal(seen[i], 1);
}

static void below_is_uniform(void **state)
{
    (void)state;
    enum { BOUND = 7, N = 70000 };
    int count[BOUND] = {0};
    struct random random = random_open(11);
    for (int i = 0; i < N; i++)
        count[random_below(&random, BOUND)]++;
    double chi = 0;
    for (int i = 0; i < BOUND; i++)
        chi += pow(count[i] - N / BOUND, 2) / (N / BOUND);
    assert_true(chi < 35); /* six degrees of freedom: p = 4e-6 */
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(philox_known_answer),
        cmocka_unit_test(normals_have_the_moments_of_normals),
        cmocka_unit_test(normals_do_not_depend_on_where_they_are_cut),
        cmocka_unit_test(permutation_holds_each_number_once),
        cmocka_unit_test(below_is_uniform),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
