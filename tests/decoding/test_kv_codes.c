/* Scores from codes against the estimate by its definition in double precision, for every instruction set
   and digits of 1, 2 and 4 bits; the estimate is right for a query in the key's direction and close for
   others; Hamming codes count equal signs; the default sharpness is what the measured error of scores asks
   for.
   Planted and caught: the first query's product with the mean for all queries; the error of another
   digit; directions that count twice forgotten; the step of another digit; a digit beyond the largest; the
   second digit of 4 bits for the first; the mean of the next block; codes about a mean that is not rounded;
   sums of digits on top of each other.
   Covers: kv_code_form.c, kv_codes.c.
   SPDX-License-Identifier: Apache-2.0 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/random.h"
#include "decoding/kv_codes.h"
#include "support/cache_case.h"

enum { D = 48, QUERIES = 3 };

struct coded {
    struct cache_case c;
    float key[KV_BLOCK * D], query[QUERIES * D], turned[QUERIES * KV_MOST_BITS];
    uint8_t codes[2 * KV_BLOCK * DECODE_MOST_BYTES], tables[QUERIES * KV_MOST_BITS / 4 * DECODE_TABLE];
    bf16 scale[2 * KV_BLOCK], rounded[KV_PAGE_BLOCKS * D];
    float mean[KV_PAGE_BLOCKS * D], base[QUERIES * KV_PAGE_BLOCKS], scores[QUERIES * KV_BLOCK];
    struct decode_query known[QUERIES];
};

static const float *row_of(const void *rows, size_t r, float *room)
{
    (void)room;
    return (const float *)rows + r * D;
}

/* Codes `key` as a block. */
static void code_block(struct coded *t, size_t block, bool centred)
{
    const struct kv_codes codes = {t->codes, t->scale, t->rounded};
    kv_codes_write(&t->c.cache, &codes, block, centred, row_of, t->key);
    t->c.cache.kernels->bf16.widen(t->mean, D, t->rounded, D, KV_PAGE_BLOCKS, D);
}

static void score_block(struct coded *t, size_t block)
{
    const struct kv_codes codes = {t->codes, t->scale, t->rounded};
    const struct kv_code_queries queries = {QUERIES, t->query, t->turned, t->tables, t->known};
    kv_codes_bases(&t->c.cache, &queries, &codes, t->base);
    kv_codes_scores(&t->c.cache, &queries, &codes, t->base, block, t->scores, KV_BLOCK);
}

/* Codes normal keys with a large mean as block 1, and scores queries; the first one is along key 5. */
static void code(struct coded *t, const char *isa, size_t bits, bool centred, uint64_t seed)
{
    struct kv_options options = cache_case_options();
    options.head_dim = D;
    options.bits = bits;
    options.seed = seed;
    cache_case_new(&t->c, isa, 1, centred ? "hashed" : "hamming", &options);
    random_normals(random_key(seed, RANDOM_BENCH, 0), 0, t->key, KV_BLOCK * D);
    random_normals(random_key(seed, RANDOM_BENCH, 1), 0, t->query, QUERIES * D);
    for (size_t i = 0; i < KV_BLOCK * D; i++)
        t->key[i] += centred ? (float)(i % D) / 4 : 0;
    code_block(t, 1, centred);
    for (size_t k = 0; k < D && centred; k++)
        t->query[k] = t->key[5 * D + k] - t->mean[D + k];
    const struct kv_code_queries queries = {QUERIES, t->query, t->turned, t->tables, t->known};
    kv_codes_query(&t->c.cache, &queries, !centred);
    score_block(t, 1);
}

/* <plane b, x> */
static double turned_by(const struct coded *t, size_t b, const double *x)
{
    double sum = 0;
    for (size_t k = 0; k < D; k++)
        sum += x[k] * (double)t->c.cache.planes[(b / 16 * D + k) * 16 + b % 16];
    return sum;
}

/* The odd whole number that digit p of row r of block 1 stands for. */
static double digit(const struct coded *t, size_t p, size_t r)
{
    size_t bits = t->c.cache.code_form.digit_bits, bytes = t->c.cache.options.bits / 8, at = p * bits;
    unsigned byte = t->codes[(bytes + at / 8) * KV_BLOCK + decode_place(r)], most = (1U << bits) - 1;
    return 2.0 * (byte >> at % 8 & most) - most;
}

static void scores_are_the_estimate(void **state)
{
    (void)state;
    static const size_t all_bits[] = {16, 64, 128, 192, 256, 1024}, digits[] = {1, 1, 2, 4, 2, 4};
    static struct coded t;
    for (const struct kernels *const *table = kernels_all(); *table != NULL; table++)
        for (size_t n = 0; n < 6; n++) {
            size_t bits = all_bits[n];
            double wrong = 0, size = 0;
            code(&t, (*table)->name, bits, true, 1);
            const struct kv_code_form form = t.c.cache.code_form;
            double most = (double)(1U << form.digit_bits) - 1;
            assert_int_equal(form.digit_bits, digits[n]);
            assert_int_equal(form.planes * form.digit_bits, bits);
            for (size_t i = 0; i < QUERIES; i++)
                for (size_t r = 0; r < KV_BLOCK; r++) {
                    double x[D], q[D], length = 0, sum = 0, dot = 0, base = 0, exact = 0, widest = 0,
                                       squares = 0;
                    for (size_t k = 0; k < D; k++) {
                        double mean = 0, coded = (double)t.mean[D + k];
                        for (size_t j = 0; j < KV_BLOCK; j++)
                            mean += (double)t.key[j * D + k] / KV_BLOCK;
                        check_near(coded, mean, fabs(mean) / 256 + 1e-6, "a mean");
                        mean = coded;
                        x[k] = (double)t.key[r * D + k] - mean;
                        q[k] = t.query[i * D + k];
                        length += x[k] * x[k];
                        base += q[k] * mean;
                        exact += q[k] * (double)t.key[r * D + k];
                    }
                    for (size_t p = 0; p < form.planes; p++)
                        squares += turned_by(&t, p, x) * turned_by(&t, p, x);
                    double step = form.step * sqrt(squares / (double)form.planes);
                    for (size_t p = 0; p < form.planes; p++) {
                        double of_x = turned_by(&t, p, x), of_q = turned_by(&t, p, q), d = digit(&t, p, r);
                        double rounded = fmax(-most, fmin(most, 2 * floor(of_x / step) + 1));
                        if (fabs(remainder(of_x, step)) > 1e-4 * step)
                            assert_true(d == rounded);
                        sum += of_x * d;
                        dot += d * of_q;
                        widest = fmax(widest, fabs(of_q));
                    }
                    double want = base + length / sum * dot;
                    /* A table entry is off by half a step, at most most / 63 of the sum of its numbers. */
                    double bound = length / sum * (double)form.planes * widest * most / 63 + 1e-3;
                    bound += fabs(length / sum * dot) / 256; /* the scale is rounded */
                    check_near((double)t.scores[i * KV_BLOCK + r], want, bound, "a score");
                    if (i == 0 && r == 5)
                        check_near(want, exact, 1e-3, "the key's own direction");
                    wrong += (want - exact) * (want - exact);
                    size += (exact - base) * (exact - base);
                }
            assert_true(wrong / size < 1.5 * form.error);
            cache_case_free(&t.c);
        }
}

/* 1 / (1 + e), for the error e of scores in random directions, as a share of their variance. */
static void sharpness_suits_the_error(void **state)
{
    (void)state;
    static const size_t all_bits[] = {16, 48, 96, 192, 256};
    static struct coded t;
    for (size_t n = 0; n < 5; n++) {
        double wrong = 0, size = 0;
        for (uint64_t seed = 1; seed <= 60; seed++) {
            code(&t, "auto", all_bits[n], true, seed);
            for (size_t i = 1; i < QUERIES; i++)
                for (size_t r = 0; r < KV_BLOCK; r++) {
                    double base = 0, exact = 0;
                    for (size_t k = 0; k < D; k++) {
                        base += (double)t.query[i * D + k] * (double)t.mean[D + k];
                        exact += (double)t.query[i * D + k] * (double)t.key[r * D + k];
                    }
                    double error = (double)t.scores[i * KV_BLOCK + r] - exact;
                    wrong += error * error;
                    size += (exact - base) * (exact - base);
                }
            cache_case_free(&t.c);
        }
        double sharpness = 1 / (1 + wrong / size);
        check_near(kv_code_sharpness(all_bits[n], D), sharpness, 0.03, "sharpness");
    }
    assert_true(fabs(kv_code_sharpness(128, 64) - 0.881) < 1e-3);
    assert_true(fabs(kv_code_sharpness(128, 256) - 0.318) < 1e-3);
    assert_true(kv_code_bits(1) == 128 && kv_code_bits(64) == 128 && kv_code_bits(130) == 288 &&
                kv_code_bits(256) == 512);
    assert_int_equal(kv_code_form_of(256, 64, true).digit_bits, 1);
}

static void hamming_codes_count_equal_signs(void **state)
{
    (void)state;
    static struct coded t;
    code(&t, "auto", 128, false, 1);
    for (size_t i = 0; i < QUERIES; i++)
        for (size_t r = 0; r < KV_BLOCK; r++) {
            double x[D], q[D];
            int equal = 0;
            for (size_t k = 0; k < D; k++) {
                x[k] = t.key[r * D + k];
                q[k] = t.query[i * D + k];
            }
            for (size_t b = 0; b < 128; b++)
                equal += (turned_by(&t, b, x) > 0) == (turned_by(&t, b, q) > 0);
            check_near((double)t.scores[i * KV_BLOCK + r], 2 * equal - 128, 4.1, "equal signs");
        }
    cache_case_free(&t.c);
}

/* A block of equal keys has no directions, and its scores are exact. */
static void equal_keys(void **state)
{
    (void)state;
    static struct coded t;
    code(&t, "auto", 64, true, 1);
    for (size_t i = 0; i < KV_BLOCK * D; i++)
        t.key[i] = 2;
    code_block(&t, 0, true);
    score_block(&t, 0);
    double want = 0;
    for (size_t k = 0; k < D; k++)
        want += 2 * (double)t.query[D + k];
    for (size_t r = 0; r < KV_BLOCK; r++)
        check_near((double)t.scores[KV_BLOCK + r], want, 1e-4, "equal keys");
    cache_case_free(&t.c);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(scores_are_the_estimate),
        cmocka_unit_test(sharpness_suits_the_error),
        cmocka_unit_test(hamming_codes_count_equal_signs),
        cmocka_unit_test(equal_keys),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
