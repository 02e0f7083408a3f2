/* The tree against one drawn by hand for 6 leaves, and its properties for every range of up to 20.
   Bugs planted and caught: a left child of half the leaves; the last floats of an addition left out;
   bfloat16 that is cut off instead of rounded; ties away from zero; a sum that is not rounded.
   SPDX-License-Identifier: Apache-2.0 */
#include "comm/sum_tree.h"

#include <math.h>

#include "base/pool.h"
#include "support/check.h"

static void check_nodes(size_t leaves, size_t first, size_t end, const size_t *want, size_t count)
{
    struct tree_node nodes[TREE_NODES];
    assert_true(tree_nodes(leaves, first, end, nodes) == count);
    for (size_t i = 0; i < count; i++)
        assert_true(nodes[i].first == want[2 * i] && nodes[i].count == want[2 * i + 1]);
}

/* ((0 1) (2 3)) (4 5) */
static void six_leaves_by_hand(void **state)
{
    (void)state;
    check_nodes(6, 0, 6, (size_t[]){0, 6}, 1);
    check_nodes(6, 0, 4, (size_t[]){0, 4}, 1);
    check_nodes(6, 0, 3, (size_t[]){0, 2, 2, 1}, 2);
    check_nodes(6, 3, 6, (size_t[]){3, 1, 4, 2}, 2);
    check_nodes(6, 1, 5, (size_t[]){1, 1, 2, 2, 4, 1}, 3);
    check_nodes(6, 2, 2, NULL, 0);
}

/* Appending leaves one by one leaves the maximal nodes of the range. */
static void appended_leaves_become_the_nodes(void **state)
{
    (void)state;
    for (size_t leaves = 1; leaves <= 20; leaves++)
        for (size_t first = 0; first < leaves; first++)
            for (size_t end = first + 1; end <= leaves; end++) {
                struct tree_node nodes[TREE_NODES];
                struct tree_stack stack = {.leaves = leaves};
                size_t count = tree_nodes(leaves, first, end, nodes), most = 0;
                for (size_t leaf = first; leaf < end; leaf++) {
                    tree_push(&stack, (struct tree_node){leaf, 1});
                    most = stack.depth > most ? stack.depth : most;
                    while (tree_join(&stack))
                        ;
                }
                assert_true(stack.depth == count);
                check_same_bits(stack.nodes, nodes, count * sizeof *nodes, "nodes");
                assert_true(tree_most_nodes(leaves, first, end) == most);
            }
    assert_true(tree_most_nodes(8, 0, 8) == 4 && tree_most_nodes(1, 0, 1) == 1 &&
                tree_most_nodes(8, 3, 3) == 0);
}

static void every_float_is_added(void **state)
{
    (void)state;
    static float a[70000], b[70000];
    struct host host;
    struct pool *pool;
    host_init(&host);
    check_status(&host, pool_new(&host, 3, &pool), HASHATTN_OK, NULL);
    for (size_t n = 1; n <= 70000; n = n * 3 + 1) {
        for (size_t i = 0; i < 70000; i++)
            a[i] = (float)i, b[i] = 0.5f;
        tree_add(pool, a, b, n, TREE_F32);
        for (size_t i = 0; i < 70000; i++)
            assert_true(a[i] == (float)i + (i < n ? 0.5f : 0));
    }
    pool_free(&host, pool);
}

/* 8 bits of precision: between 256 and 512 every second whole number is a bfloat16. */
static void nodes_are_rounded(void **state)
{
    (void)state;
    static float a[40000], b[40000];
    const float in[] = {257, 258, 259, 260.5f, -257, -259, 0, INFINITY};
    const float near[] = {256, 258, 260, 260, -256, -260, 0, INFINITY};
    const float plus_one[] = {256, 260, 260, 260, -255, -260, 1, INFINITY};
    for (size_t i = 0; i < 40000; i++)
        a[i] = in[i % 8], b[i] = 1;
    tree_round(NULL, a, 40000, TREE_F32);
    for (size_t i = 0; i < 40000; i++)
        assert_true(a[i] == in[i % 8]);
    tree_round(NULL, a, 40000, TREE_BF16);
    for (size_t i = 0; i < 40000; i++)
        assert_true(a[i] == near[i % 8]);
    a[0] = 257;
    tree_add(NULL, a, b, 40000, TREE_BF16);
    for (size_t i = 0; i < 40000; i++)
        assert_true(a[i] == (i == 0 ? 258 : plus_one[i % 8]));
    a[0] = NAN;
    tree_round(NULL, a, 1, TREE_BF16);
    assert_true(isnan(a[0]));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(six_leaves_by_hand),
        cmocka_unit_test(appended_leaves_become_the_nodes),
        cmocka_unit_test(every_float_is_added),
        cmocka_unit_test(nodes_are_rounded),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
