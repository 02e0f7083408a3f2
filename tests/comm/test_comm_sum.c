/* The sum of leaves over ranks against a recursion over the whole tree, bit for bit.
   Bugs planted and caught: nodes added from left to right instead of in the tree; a piece sent from another
   rank's place; a result that only its rank has; bytes counted for one node only.
   SPDX-License-Identifier: Apache-2.0 */
#include "comm/comm_sum.h"

#include <stdlib.h>
#include <string.h>

#include "support/check.h"
#include "support/thread_ranks.h"

struct sum_case {
    size_t leaves, n;
    float *want; /* (n) */
    bool in_place;
};

static float leaf_value(size_t leaf, size_t i)
{
    return 1.0f / (float)(1 + (leaf * 7919 + i * 104729) % 1000);
}

static float sum_of(size_t first, size_t count, size_t i)
{
    if (count == 1)
        return leaf_value(first, i);
    size_t left = 1;
    while (2 * left < count)
        left *= 2;
    return sum_of(first, left, i) + sum_of(first + left, count - left, i);
}

static void sum(struct comm *comm, void *argument)
{
    const struct sum_case *c = argument;
    struct host host;
    struct pool *pool;
    struct tree_node nodes[TREE_NODES];
    float *arrays[TREE_NODES];
    size_t first, end;
    host_init(&host);
    rank_require(pool_new(&host, 1, &pool) == HASHATTN_OK);
    comm_span(comm, c->leaves, &first, &end);
    size_t count = tree_nodes(c->leaves, first, end, nodes);
    for (size_t k = 0; k < count; k++) {
        arrays[k] = malloc(c->n * sizeof *arrays[k]);
        for (size_t i = 0; i < c->n; i++)
            arrays[k][i] = sum_of(nodes[k].first, nodes[k].count, i);
    }
    void *room = malloc(comm_sum_scratch(comm, c->leaves, c->n) + 1);
    float *own = malloc(c->n * sizeof *own), *result = c->in_place && count > 0 ? arrays[0] : own;
    uint64_t before = comm->bytes_sent;
    rank_require(comm_sum(&host, comm, pool, c->leaves, arrays, result, c->n, room) == HASHATTN_OK);
    rank_require(comm->bytes_sent - before == comm_sum_bytes(comm, c->leaves, c->n));
    rank_require(memcmp(result, c->want, c->n * sizeof *result) == 0);
    for (size_t k = 0; k < count; k++)
        free(arrays[k]);
    free(own), free(room);
    pool_free(&host, pool);
}

static void a_sum_has_the_same_bits_on_any_number_of_ranks(void **state)
{
    (void)state;
    static const int sizes[] = {1, 2, 3, 4, 5, 8};
    static const size_t leaves[] = {1, 2, 3, 6, 8, 13, 16}, lengths[] = {1, 16, 17, 1000};
    for (size_t l = 0; l < sizeof leaves / sizeof *leaves; l++)
        for (size_t k = 0; k < sizeof lengths / sizeof *lengths; k++) {
            struct sum_case c = {.leaves = leaves[l], .n = lengths[k]};
            c.want = malloc(c.n * sizeof *c.want);
            for (size_t i = 0; i < c.n; i++)
                c.want[i] = sum_of(0, c.leaves, i);
            for (size_t s = 0; s < sizeof sizes / sizeof *sizes; s++)
                for (int in_place = 0; in_place < 2; in_place++) {
                    c.in_place = in_place != 0;
                    assert_string_equal(run_ranks(sizes[s], 60, sum, &c), "");
                }
            free(c.want);
        }
}

/* 8 leaves: on 2, 4 and 8 ranks a rank has one node, and sends 2 (R - 1) / R arrays. */
static void a_rank_sends_little(void **state)
{
    (void)state;
    for (int size = 2; size <= 8; size *= 2)
        for (int rank = 0; rank < size; rank++) {
            const struct comm comm = {.peer = {.rank = rank, .size = size}};
            assert_true(comm_sum_bytes(&comm, 8, 4096) ==
                        2 * 4 * 4096 / (uint64_t)size * ((uint64_t)size - 1));
        }
    const struct comm self = comm_self();
    assert_true(comm_sum_bytes(&self, 8, 4096) == 0 && comm_sum_scratch(&self, 8, 4096) == 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_sum_has_the_same_bits_on_any_number_of_ranks),
        cmocka_unit_test(a_rank_sends_little),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
