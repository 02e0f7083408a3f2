/* The k largest against a plain sort, for every k, on every table. Bugs planted and caught: one tie too
   many; negative scores ordered by size; a NaN taken before a number.
   SPDX-License-Identifier: Apache-2.0 */
#include "parts/topk.h"

#include <math.h>
#include <stdlib.h>

#include "base/random.h"
#include "support/check.h"

/* a is taken before b. */
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

/* Index i is among the k largest: fewer than k come before it. */
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
            for (size_t i = 0; i < n; i++) /* many ties, of both zeros too */
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

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(the_largest_are_taken)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
