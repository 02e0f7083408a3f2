/* The sort against comparisons of floats, with equal scores, both zeros and infinities. Bugs planted and
   caught: signs not turned; -0 below 0; a pass left out; equal entries in reverse.
   SPDX-License-Identifier: Apache-2.0 */
#include "parts/groups/score_order.h"

#include <math.h>

#include "base/random.h"
#include "support/check.h"

enum { N = 5000 };

static void scores_are_sorted_stably(void **state)
{
    (void)state;
    static float scores[N];
    static struct ordered entries[N], room[N];
    uint32_t counts[ORDER_COUNTS];
    random_normals(1, 0, scores, N);
    for (uint32_t i = 0; i < N; i++) {
        scores[i] = i % 7 == 0   ? 0.0f
                    : i % 7 == 1 ? -0.0f
                    : i % 7 == 2 ? roundf(4 * scores[i])
                    : i % 7 == 3 ? scores[i] * 1e30f
                                 : scores[i];
    }
    scores[100] = INFINITY;
    scores[200] = -INFINITY;
    for (uint32_t i = 0; i < N; i++)
        entries[i] = (struct ordered){score_order(scores[i]), i};
    const struct ordered *sorted = order_sort(entries, room, counts, N);
    for (size_t k = 1; k < N; k++) {
        float before = scores[sorted[k - 1].index], now = scores[sorted[k].index];
        assert_true(before < now || (before == now && sorted[k - 1].index < sorted[k].index));
    }
    assert_true(sorted[0].index == 200 && sorted[N - 1].index == 100);
    assert_ptr_equal(order_sort(entries, room, counts, 0), room); /* an odd number of passes */
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(scores_are_sorted_stably)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
