/* The k largest against a plain sort, for every k, on every table. Bugs planted and caught: one tie too
   many; negative scores ordered by size; a NaN taken before a number; places among the sampled candidates
   returned as indices; a bound trusted that too few scores exceed; the last score left out of the
   candidates.
   SPDX-License-Identifier: Apache-2.0 */
#include "parts/groups/topk.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/random.h"
#include "support/check.h"

/* True if a is taken before b. */
static bool before(const float *scores, size_t a, size_t b)
{
    bool none_a = isnan(scores[a]) || scores[a] == -INFINITY,
         none_b = isnan(scores[b]) || scores[b] == -INFINITY;
    if (none_a != none_b)
        return none_b;
    if (!none_a && scores[a] != scores[b])
        return scores[a] > scores[b];
    return a < b;
}

/* Index i is among the k largest if and only if fewer than k precede it. */
static void check_all(const struct kernels *kernels, const float *scores, size_t n)
{
    uint32_t *out = malloc((n + 1) * sizeof *out);
    for (size_t k = 0; k <= n; k++) {
        out[k] = 77;
        topk_select(kernels, scores, n, k, out);
        assert_int_equal(out[k], 77);
        for (size_t i = 0, next = 0; i < n; i++) {
            size_t rank = 0;
            for (size_t j = 0; j < n; j++)
                rank += before(scores, j, i);
            bool taken = next < k && out[next] == i;
            next += taken;
            assert_true(taken == (rank < k));
        }
    }
    free(out);
}

static void the_largest_are_taken(void **state)
{
    (void)state;
    for (const struct kernels *const *kernels = kernels_all(); *kernels != NULL; kernels++)
        for (size_t n = 0; n < 90; n += n < 20 ? 1 : 23) {
            float *scores = guard_floats(n);
            random_normals(n, 0, scores, n);
            check_all(*kernels, scores, n);
            for (size_t i = 0; i < n; i++) /* many ties, also between zeros of both signs */
                scores[i] = floorf(2 * scores[i]) * 0.5f * (i % 5 == 1 ? -1.0f : 1.0f);
            check_all(*kernels, scores, n);
            for (size_t i = 0; i < n; i++)
                scores[i] = i % 3 == 0 ? NAN : i % 4 == 1 ? -INFINITY : i % 5 == 2 ? INFINITY : scores[i];
            check_all(*kernels, scores, n);
            for (size_t i = 0; i < n; i++)
                scores[i] = NAN;
            check_all(*kernels, scores, n);
            guard_free(scores, n);
        }
}

/* ---- arrays that are sampled first --------------------------------------------------------------------- */

enum { LONG = 5000 };

static int by_rank(const void *a, const void *b)
{
    const float *x = *(const float *const *)a, *y = *(const float *const *)b;
    /* Both point into one array: their distance is that of the indices. */
    return x < y ? (before(x, 0, (size_t)(y - x)) ? -1 : 1) : (before(y, 0, (size_t)(x - y)) ? 1 : -1);
}

/* Checks every k against one sort. */
static void check_sorted(const struct kernels *kernels, const float *scores, size_t n)
{
    const float **rank = malloc(n * sizeof *rank);
    bool *taken = malloc(n * sizeof *taken);
    uint32_t *out = malloc((n + 1) * sizeof *out);
    for (size_t i = 0; i < n; i++)
        rank[i] = scores + i;
    qsort(rank, n, sizeof *rank, by_rank);
    static const size_t counts[] = {1, 2, 15, 90, 250, 256, 257, 311, 1000};
    for (size_t c = 0; c < sizeof counts / sizeof *counts; c++) {
        size_t k = counts[c], next = 0;
        memset(taken, 0, n * sizeof *taken);
        for (size_t r = 0; r < k; r++)
            taken[rank[r] - scores] = true;
        out[k] = 77;
        topk_select(kernels, scores, n, k, out);
        assert_int_equal(out[k], 77);
        for (size_t i = 0; i < n; i++)
            if (taken[i])
                assert_int_equal(out[next++], i);
    }
    free(out);
    free(taken);
    free(rank);
}

/* A representative sample; samples of only the largest, only the smallest and only NaN; a bound that many
   scores equal; lengths around the least that is sampled. */
static void samples_decide_nothing(void **state)
{
    (void)state;
    static const size_t lengths[] = {1000, 1023, 1024, 1025, 4096, LONG};
    for (const struct kernels *const *kernels = kernels_all(); *kernels != NULL; kernels++)
        for (size_t l = 0; l < sizeof lengths / sizeof *lengths; l++) {
            size_t n = lengths[l], step = n / 128;
            float *scores = guard_floats(n);
            for (int kind = 0; kind < 7; kind++) {
                random_normals(n, 0, scores, n);
                for (size_t i = 0; i < n; i++) {
                    bool sampled = i % step == 0;
                    if ((kind == 1 || kind == 2) && sampled)
                        scores[i] += kind == 1 ? 9.0f : -9.0f;
                    if ((kind == 3 && sampled) || (kind == 4 && !sampled))
                        scores[i] = i % 3 == 0 ? -INFINITY : NAN;
                    if (kind == 0 && i + 1 == n)
                        scores[i] = 9; /* the last score must be included */
                    if (kind == 5)
                        scores[i] = floorf(scores[i]);
                    if (kind == 6)
                        scores[i] = 0.25f;
                }
                check_sorted(*kernels, scores, n);
            }
            guard_free(scores, n);
        }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(the_largest_are_taken),
                                       cmocka_unit_test(samples_decide_nothing)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
