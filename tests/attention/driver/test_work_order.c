/* Which units use all threads, and that the remaining ones run in descending order of cost.
   Bugs planted and caught: units spread without gain, or not spread while threads idle; a mechanism spread
   whose tokens do not mix; ties in descending order; the cheapest first; costs of a quadratic mechanism by
   the number of rows; a heap one element short.
   SPDX-License-Identifier: Apache-2.0 */
#include "attention/driver/work_order.h"

#include <string.h>

#include "attention/driver/attention.h"
#include "base/random.h"
#include "support/check.h"

static void units_are_spread_where_threads_would_idle(void **state)
{
    (void)state;
    static const struct {
        const char *mechanism;
        int threads;
        size_t heads, spread, lengths[6];
    } settings[] = {
        {"yoso", 2, 1, 1, {4096}},
        {"yoso", 2, 2, 0, {4096}},
        {"yoso", 2, 3, 1, {4096}},
        {"yoso", 2, 12, 0, {4096}},
        {"yoso", 4, 3, 3, {4096}},
        {"yoso", 16, 1, 1, {4096}},
        {"yoso", 16, 15, 0, {4096}}, /* one idle thread costs less than synchronizing all */
        {"yoso", 16, 9, 9, {4096}},
        {"yoso", 2, 1, 0, {500}}, /* too short */
        {"yoso", 2, 1, 1, {500, 65536, 400, 300, 300, 200}},
        {"yoso", 2, 2, 0, {500, 65536, 400, 300, 300, 200}},
        {"yoso", 3, 2, 2, {500, 65536, 400, 300, 300, 200}},
        {"yoso", 4, 1, 3, {65536, 10000, 10000, 10, 10, 10}},
        {"yoso", 1, 1, 0, {65536}},
        {"softmax", 2, 1, 1, {600}},
        {"softmax", 2, 1, 0, {500}},
        {"softmax", 2, 1, 1, {700, 300, 300, 300}}, /* if cost were rows, it would not finish last */
        {"yoso", 2, 1, 0, {20000, 10000, 10000}},   /* the long unit runs beside the two others */
        {"none", 2, 1, 0, {300000}},
        {"local", 2, 1, 0, {700, 300, 300, 300}}, /* exact, but its cost is linear in the rows */
        {"local", 2, 1, 1, {4096}},
    };
    struct host host;
    host_init(&host);
    for (size_t i = 0; i < sizeof settings / sizeof *settings; i++) {
        size_t offsets[7] = {0}, sequences = 0;
        for (; sequences < 6 && settings[i].lengths[sequences] > 0; sequences++)
            offsets[sequences + 1] = offsets[sequences] + settings[i].lengths[sequences];
        struct pool *pool;
        check_status(&host, pool_new(&host, settings[i].threads, &pool), HASHATTN_OK, NULL);
        const struct attention_shape shape = {.pool = pool,
                                              .mechanism = attention_find(settings[i].mechanism),
                                              .num_sequences = sequences,
                                              .num_heads = settings[i].heads,
                                              .query_offsets = offsets,
                                              .key_offsets = offsets};
        size_t spread = work_order_spread(&shape);
        if (spread != settings[i].spread)
            fail_msg("setting %zu: %zu units are spread, not %zu", i, spread, settings[i].spread);
        pool_free(&host, pool);
    }
}

/* Lengths with many ties and zeros. The cost is the number of pairs if the mechanism is quadratic,
   otherwise the number of rows. */
static void most_expensive_come_first(void **state)
{
    (void)state;
    enum { MOST = 40 };
    for (size_t sequences = 0; sequences <= MOST; sequences++)
        for (int quadratic = 0; quadratic < 2; quadratic++) {
            struct random random = random_open(random_key(7, 1, sequences));
            size_t queries[MOST + 1] = {0}, keys[MOST + 1] = {0}, cost[MOST], order[MOST + 1];
            for (size_t s = 0; s < sequences; s++) {
                size_t n_q = random_below(&random, 6), n_k = random_below(&random, 12);
                queries[s + 1] = queries[s] + n_q;
                keys[s + 1] = keys[s] + n_k;
                cost[s] = quadratic ? n_q * n_k : n_q + n_k;
            }
            const struct attention_shape shape = {.mechanism = attention_find(quadratic ? "softmax" : "yoso"),
                                                  .num_sequences = sequences,
                                                  .num_heads = 2,
                                                  .query_offsets = queries,
                                                  .key_offsets = keys};
            order[sequences] = 12345;
            work_order_sort(&shape, order);
            assert_int_equal(order[sequences], 12345);
            bool seen[MOST] = {false};
            for (size_t i = 0; i < sequences; i++) {
                assert_true(order[i] < sequences && !seen[order[i]]);
                seen[order[i]] = true;
                if (i > 0)
                    assert_true(cost[order[i - 1]] > cost[order[i]] ||
                                (cost[order[i - 1]] == cost[order[i]] && order[i - 1] < order[i]));
            }
        }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(units_are_spread_where_threads_would_idle),
        cmocka_unit_test(most_expensive_come_first),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
