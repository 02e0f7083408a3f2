/* Philox against its published known answers, and the moments of the numbers made from it. Bugs tried and
   caught: key words swapped; sign of sine/cosine swapped; rejection bound off by one (chi-square); a
   permutation that ends early; the purpose of a key ignored.
   SPDX-License-Identifier: Apache-2.0 */
#include "base/random.h"

#include <math.h>
#include <string.h>

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

/* From a second implementation in Python, with integers for the 32-bit words and math.log, cos and sin. A
   changed bit here changes every model trained from a seed. */
static void values_are_the_known_ones(void **state)
{
    (void)state;
    static const uint64_t key = 0x0123456789abcdefu, index = 0xfedcba9876543210u;
    static const uint32_t want_words[4] = {0x2c03a599u, 0xd8a290fcu, 0x4339955bu, 0x8784c033u};
    static const uint32_t want_next[6] = {0xb850222eu, 0xc58cb04bu, 0x14a7a020u,
                                          0x7a84fff9u, 0xadca1466u, 0x523e0d85u};
    static const uint32_t want_units[5] = {12079138, 12946608, 1353632, 8029439, 11389460}; /* 2^-24 */
    static const uint32_t want_below[2][8] = {
        {1, 3, 4, 3, 3, 6, 3, 5}, /* bound 7, and 3 * 2^30, which rejects a quarter of the words */
        {3092259374, 93106251, 2055536633, 2915701862, 1379798405, 1698698277, 2996427327, 936257951}};
    static const uint32_t want_permutation[12] = {0, 3, 11, 6, 1, 8, 2, 7, 5, 4, 10, 9};
    static const char want_signs[] = "-+++-+---+---+------+-+----+++-+++-+--+-----++-+--++---++-+---++-----+";
    static const float want_normals[12] = {
        -0x1.04d002p-2f, -0x1.caca2cp-7f, 0x1.367beep+0f, 0x1.d9f57ep-1f,  -0x1.c7fa36p-1f, 0x1.6e555cp-8f,
        0x1.4eea6ap+1f,  -0x1.fa6646p-4f, 0x1.aa39ccp-2f, -0x1.bfba62p-1f, -0x1.882988p-2f, -0x1.86bb2cp-1f};
    uint32_t words[4], permutation[12];
    float signs[70], normals[12];
    random_words(key, index, words);
    check_same_bits(words, want_words, sizeof words, "words");
    assert_true(random_key(key, RANDOM_INIT, index) == 0xbe29b63a6d00f102u);
    struct random next = random_open(key), unit = random_open(key);
    for (size_t i = 0; i < 6; i++)
        assert_int_equal(random_next(&next), want_next[i]);
    for (size_t i = 0; i < 5; i++)
        assert_true(random_unit(&unit) == (float)want_units[i] * 0x1p-24f);
    for (size_t b = 0; b < 2; b++) {
        struct random below = random_open(key);
        for (size_t i = 0; i < 8; i++)
            assert_int_equal(random_below(&below, b == 0 ? 7 : 0xC0000000u), want_below[b][i]);
    }
    random_permutation(key, permutation, 12);
    check_same_bits(permutation, want_permutation, sizeof permutation, "permutation");
    random_signs(key, signs, 70);
    for (size_t i = 0; i < 70; i++)
        assert_true(signs[i] == (want_signs[i] == '+' ? 1.0f : -1.0f));
    random_normals(key, 8, normals, 12);
    check_same_bits(normals, want_normals, sizeof normals, "normals from the eighth on");
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
    /* Within five standard errors of each moment: the variance of x^k is 1, 2, 15, 96. */
    static const double want[5] = {0, 0, 1, 0, 3}, variance[5] = {0, 1, 2, 15, 96};
    for (int k = 1; k <= 4; k++)
        check_near(moment[k], want[k], 5 * sqrt(variance[k] / N), "moment");
}

static void normals_do_not_depend_on_the_split(void **state)
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

/* Small errors of the polynomials show in one normal of a million. The sum was recorded; the bits are the
   same on every machine. */
static void millions_of_normals_keep_their_bits(void **state)
{
    (void)state;
    enum { N = 1 << 14, BLOCKS = 256 };
    static uint32_t bits[N];
    uint64_t sum = 0;
    for (uint64_t block = 0; block < BLOCKS; block++) {
        float x[N];
        random_normals(5, block * N, x, N);
        memcpy(bits, x, sizeof bits);
        for (size_t i = 0; i < N; i++)
            sum = sum * 0x9e3779b97f4a7c15u + bits[i];
    }
    if (sum != 0x2a70a13b5eebab99u)
        fail_msg("the sum is %016llx", (unsigned long long)sum);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(philox_known_answer),
        cmocka_unit_test(values_are_the_known_ones),
        cmocka_unit_test(normals_have_the_moments_of_normals),
        cmocka_unit_test(normals_do_not_depend_on_the_split),
        cmocka_unit_test(permutation_holds_each_number_once),
        cmocka_unit_test(below_is_uniform),
        cmocka_unit_test(millions_of_normals_keep_their_bits),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
