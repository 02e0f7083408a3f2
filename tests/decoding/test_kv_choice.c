/* Choices of rows: by importance, sums weighted by the inverse probabilities are unbiased (z-scores over
   the whole range of where sampling begins) and as many rows as wanted are taken; the best scores; uniform
   rests.
   Planted and caught: weights of 1 for all rows; rows counted from 0; top rows that stay candidates.
   Covers: kv_choice.c.
   SPDX-License-Identifier: Apache-2.0 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/random.h"
#include "decoding/kv_choice.h"
#include "support/check.h"

enum { N = 640, DRAWS = 4000 };

typedef void choose_function(const struct kv_candidates *candidates, size_t wanted, struct kv_choice *choice);

struct chosen {
    float x[N];
    uint32_t row[2 * N];
    float weight[2 * N];
    struct kv_candidates candidates;
    struct kv_choice choice;
};

/* Importance with some heavy rows; every seventh is not a candidate. */
static void begin(struct chosen *c, const struct kernels *kernels, double start)
{
    random_normals(random_key(5, RANDOM_BENCH, 0), 0, c->x, N);
    for (size_t j = 0; j < N; j++)
        c->x[j] = j % 7 == 0 ? 0 : expf(1.6f * c->x[j] + (j % 100 == 50 ? 7 : 0));
    c->candidates = (struct kv_candidates){.kernels = kernels,
                                           .count = N,
                                           .importance = c->x,
                                           .start = (uint32_t)(start * 0x1p32),
                                           .first = 1000};
    c->choice = (struct kv_choice){.row = c->row, .weight = c->weight};
}

/* Sums of a function of the row over all candidates and, weighted, over the choice. */
static double of_row(size_t j, int which)
{
    return which == 0 ? 1 : which == 1 ? sin((double)j) + 1.5 : j % 64 == 3;
}

static void check_unbiased(choose_function *choose, const struct kernels *kernels, size_t wanted)
{
    static struct chosen c;
    double sum[3] = {0}, squares[3] = {0}, want[3] = {0}, count = 0;
    begin(&c, kernels, 0);
    for (size_t j = 0; j < N; j++)
        for (int f = 0; f < 3 && c.x[j] > 0; f++)
            want[f] += of_row(j, f);
    for (size_t draw = 0; draw < DRAWS; draw++) {
        double sums[3] = {0};
        bool taken[N] = {false};
        begin(&c, kernels, ((double)draw + 0.5) / DRAWS);
        choose(&c.candidates, wanted, &c.choice);
        count += (double)c.choice.count;
        assert_in_range(c.choice.count, wanted - 1, wanted + 1);
        for (size_t i = 0; i < c.choice.count; i++) {
            size_t j = c.row[i] - 1000;
            assert_true(j < N && j % 7 != 0 && !taken[j] && c.weight[i] >= 1);
            taken[j] = true;
            for (int f = 0; f < 3; f++)
                sums[f] += (double)c.weight[i] * of_row(j, f);
        }
        for (int f = 0; f < 3; f++) {
            sum[f] += sums[f];
            squares[f] += sums[f] * sums[f];
        }
    }
    check_near(count / DRAWS, (double)wanted, 0.02, "rows taken");
    for (int f = 0; f < 3; f++) {
        double mean = sum[f] / DRAWS, variance = squares[f] / DRAWS - mean * mean;
        check_near((mean - want[f]) / sqrt(variance / DRAWS + 1e-12), 0, 4, "z of an unbiased sum");
    }
}

static void samples_are_unbiased(void **state)
{
    (void)state;
    for (const struct kernels *const *table = kernels_all(); *table != NULL; table++) {
        check_unbiased(kv_choose_sample, *table, 20);
        check_unbiased(kv_choose_sample, *table, 150);
    }
}

/* Rows whose importance is above the constant are always taken, with weight 1. */
static void heavy_rows_are_certain(void **state)
{
    (void)state;
    static struct chosen c;
    for (int draw = 0; draw < 50; draw++) {
        begin(&c, kernels_all()[0], draw / 50.0);
        kv_choose_sample(&c.candidates, 60, &c.choice);
        double least = 1e9;
        size_t certain = 0;
        for (size_t i = 0; i < c.choice.count; i++)
            if (c.weight[i] == 1) {
                least = fmin(least, (double)c.x[c.row[i] - 1000]);
                certain++;
            }
        assert_true(certain > 3 && certain < 60);
        for (size_t j = 0; j < N; j++)
            if (c.x[j] > least) {
                bool found = false;
                for (size_t i = 0; i < c.choice.count; i++)
                    found = found || (c.row[i] == 1000 + j && c.weight[i] == 1);
                assert_true(found);
            }
    }
}

static void the_best_scores(void **state)
{
    (void)state;
    static struct chosen c, before;
    for (const struct kernels *const *table = kernels_all(); *table != NULL; table++)
        for (size_t wanted = 1; wanted < 500; wanted += 83) {
            begin(&before, *table, 0);
            begin(&c, *table, 0);
            kv_choose_top(&c.candidates, wanted, &c.choice);
            assert_int_equal(c.choice.count, wanted);
            double least = 1e9;
            for (size_t i = 0; i < wanted; i++) {
                assert_true(c.weight[i] == 1);
                least = fmin(least, (double)before.x[c.row[i] - 1000]);
            }
            size_t better = 0;
            for (size_t j = 0; j < N; j++)
                better += before.x[j] >= (float)least;
            assert_int_equal(better, wanted);
        }
    begin(&c, kernels_all()[0], 0);
    kv_choose_top(&c.candidates, N, &c.choice);
    assert_int_equal(c.choice.count, N - N / 7 - 1);
}

static void uniform_rests(void **state)
{
    (void)state;
    static struct chosen c;
    size_t best = 0;
    begin(&c, kernels_all()[0], 0.3);
    kv_choose_top_uniform(&c.candidates, 101, &c.choice);
    assert_in_range(c.choice.count, 100, 102);
    for (size_t i = 0; i < c.choice.count; i++)
        best += c.weight[i] == 1;
    assert_int_equal(best, 50);
    double rest = N - N / 7 - 1 - 50;
    check_near((double)c.weight[c.choice.count - 1], rest / 51, 1e-4 * rest, "weight of a uniform row");
    begin(&c, kernels_all()[0], 0.3);
    kv_choose_uniform(&c.candidates, 2000, &c.choice);
    size_t positive = 0;
    begin(&c, kernels_all()[0], 0.3);
    for (size_t j = 0; j < N; j++)
        positive += c.x[j] > 0;
    kv_choose_uniform(&c.candidates, 2000, &c.choice);
    assert_int_equal(c.choice.count, positive);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(samples_are_unbiased),
        cmocka_unit_test(heavy_rows_are_certain),
        cmocka_unit_test(the_best_scores),
        cmocka_unit_test(uniform_rests),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
