/* The choice of a token: the exact probabilities that temperature, top-k and top-p leave, from their
   definition by sorting; draws against these probabilities; temperature 0; ties. Bugs planted and caught: the
   temperature multiplied; top-p that stops before the sum is reached, or after one more; top-p of all instead
   of the top-k; probabilities not rescaled; among equal scores the later first; a heap that compares one
   child; the number of a draw reused for the next step.
   SPDX-License-Identifier: Apache-2.0 */
#include "train/generate/choose.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/random.h"
#include "support/check.h"

enum { MOST = 1000 };

struct wanted {
    double p;
    size_t index;
};

static int by_probability(const void *a, const void *b)
{
    const struct wanted *x = a, *y = b;
    if (x->p != y->p)
        return x->p < y->p ? 1 : -1;
    return x->index < y->index ? -1 : 1;
}

/* chances (n): the definition. Returns how many are not 0. */
static size_t oracle(const struct choice_rules *rules, const float *scores, size_t n, double *chances)
{
    struct wanted list[MOST];
    double sum = 0, most = -INFINITY, part = 0, kept = 0;
    size_t count = n, last = 0;
    for (size_t i = 0; i < n; i++)
        most = fmax(most, (double)scores[i]);
    for (size_t i = 0; i < n; i++)
        list[i] = (struct wanted){exp(((double)scores[i] - most) / rules->temperature), i};
    qsort(list, n, sizeof *list, by_probability);
    if (rules->top_k > 0 && rules->top_k < n)
        count = rules->top_k;
    for (size_t i = 0; i < count; i++)
        sum += list[i].p;
    for (last = 0; last < count && (last == 0 || rules->top_p >= 1 || part < rules->top_p * sum); last++)
        part += list[last].p;
    for (size_t i = 0; i < last; i++)
        kept += list[i].p;
    for (size_t i = 0; i < n; i++)
        chances[list[i].index] = i < last ? list[i].p / kept : 0;
    return last;
}

static void fill(float *scores, size_t n, uint64_t seed)
{
    random_normals(seed, 0, scores, n);
    for (size_t i = 0; i < n; i++)
        scores[i] *= 3;
    for (size_t i = 5; i + 3 < n; i += 7)
        scores[i] = scores[i + 3]; /* ties */
}

static void probabilities_are_exact(void **state)
{
    (void)state;
    static const struct choice_rules rules[] = {
        {1, 0, 1},   {0.5, 0, 1},    {2, 3, 1},    {1, 1, 1},    {1, 0, 0.9},   {0.7, 0, 0.5},
        {1, 5, 0.6}, {1, 40, 0.999}, {3, 2000, 1}, {1, 0, 1e-9}, {1, 12, 0.31},
    };
    static const size_t sizes[] = {1, 2, 3, 7, 64, 257, MOST};
    float scores[MOST];
    double chances[MOST];
    struct candidate candidates[MOST];
    for (size_t r = 0; r < sizeof rules / sizeof *rules; r++)
        for (size_t s = 0; s < sizeof sizes / sizeof *sizes; s++) {
            size_t n = sizes[s];
            fill(scores, n, 10 * r + s);
            size_t want = oracle(&rules[r], scores, n, chances);
            size_t count = choose_from(&rules[r], scores, n, candidates);
            double sum = 0;
            assert_int_equal(count, want);
            for (size_t i = 0; i < count; i++) {
                assert_true(candidates[i].index < n && chances[candidates[i].index] > 0);
                check_near(candidates[i].probability, chances[candidates[i].index], 1e-12, "probability");
                chances[candidates[i].index] = 0; /* none twice */
                sum += candidates[i].probability;
                if (i > 0 && (rules[r].top_p < 1 || (rules[r].top_k > 0 && rules[r].top_k < n)))
                    assert_true(candidates[i].probability <= candidates[i - 1].probability);
            }
            check_near(sum, 1, 1e-9, "sum");
        }
}

/* Counts of 40,000 draws within 4.5 standard deviations of what they should be. */
static void draws_have_these_probabilities(void **state)
{
    (void)state;
    enum { N = 24, DRAWS = 40000 };
    static const struct choice_rules rules[] = {{1, 0, 1}, {0.8, 6, 1}, {1, 0, 0.8}};
    for (size_t r = 0; r < 3; r++) {
        float scores[N];
        double chances[N];
        size_t counts[N] = {0};
        struct candidate candidates[N];
        fill(scores, N, 77 + r);
        oracle(&rules[r], scores, N, chances);
        size_t count = choose_from(&rules[r], scores, N, candidates);
        for (uint64_t step = 0; step < DRAWS; step++)
            counts[choose_one(candidates, count, 5, step)]++;
        for (size_t i = 0; i < N; i++) {
            double deviation = sqrt(DRAWS * chances[i] * (1 - chances[i]));
            check_near((double)counts[i], DRAWS * chances[i], 4.5 * deviation, "draws");
        }
    }
}

static void temperature_0_takes_the_first_of_the_likeliest(void **state)
{
    (void)state;
    const float scores[] = {-INFINITY, 2, 7, 1, 7, -3};
    struct candidate candidates[6];
    static const struct choice_rules rules[] = {{0, 0, 1}, {0, 4, 0.5}};
    for (size_t r = 0; r < 2; r++) {
        assert_int_equal(choose_from(&rules[r], scores, 6, candidates), 1);
        assert_int_equal(choose_one(candidates, 1, 3, 8), 2);
    }
    /* Nearly 0 is the same, without overflow. */
    const struct choice_rules cold = {1e-30, 0, 1};
    const float apart[] = {1, 3, 2};
    size_t count = choose_from(&cold, apart, 3, candidates);
    for (uint64_t step = 0; step < 50; step++)
        assert_int_equal(choose_one(candidates, count, 3, step), 1);
}

static void a_step_has_a_number_of_its_own(void **state)
{
    (void)state;
    const float scores[16] = {0};
    struct candidate candidates[16];
    const struct choice_rules rules = {1, 0, 1};
    size_t count = choose_from(&rules, scores, 16, candidates), same_step = 0, same_key = 0;
    for (uint64_t step = 0; step < 200; step++) {
        uint32_t index = choose_one(candidates, count, 1, step);
        assert_int_equal(choose_one(candidates, count, 1, step), index);
        same_step += choose_one(candidates, count, 1, step + 1) == index;
        same_key += choose_one(candidates, count, 2, step) == index;
    }
    assert_true(same_step < 40 && same_key < 40); /* 12.5 expected */
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(probabilities_are_exact),
        cmocka_unit_test(draws_have_these_probabilities),
        cmocka_unit_test(temperature_0_takes_the_first_of_the_likeliest),
        cmocka_unit_test(a_step_has_a_number_of_its_own),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
