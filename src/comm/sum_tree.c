/* Nodes are found by descending from the root: a few steps each.
   SPDX-License-Identifier: Apache-2.0 */
#include "comm/sum_tree.h"

#include <assert.h>

#include "base/memory.h"
#include "base/pool.h"
#include "comm/short_floats.h"

/* The leaves of the left child of a node of count >= 2 leaves. */
static size_t left_of(size_t count)
{
    size_t left = 1;
    while (2 * left < count)
        left *= 2;
    return left;
}

static size_t collect(struct tree_node node, size_t first, size_t end, struct tree_node *nodes, size_t count)
{
    if (node.first + node.count <= first || node.first >= end)
        return count;
    if (node.first >= first && node.first + node.count <= end) {
        assert(count < TREE_NODES);
        nodes[count] = node;
        return count + 1;
    }
    size_t left = left_of(node.count);
    count = collect((struct tree_node){node.first, left}, first, end, nodes, count);
    return collect((struct tree_node){node.first + left, node.count - left}, first, end, nodes, count);
}

size_t tree_nodes(size_t leaves, size_t first, size_t end, struct tree_node nodes[TREE_NODES])
{
    return first >= end ? 0 : collect((struct tree_node){0, leaves}, first, end, nodes, 0);
}

/* True if two neighbouring nodes are the children of one node. */
static bool are_siblings(size_t leaves, struct tree_node a, struct tree_node b)
{
    struct tree_node node = {0, leaves};
    while (node.count > a.count + b.count) {
        size_t left = left_of(node.count);
        bool right = a.first >= node.first + left;
        node = right ? (struct tree_node){node.first + left, node.count - left}
                     : (struct tree_node){node.first, left};
    }
    return node.first == a.first && node.count == a.count + b.count;
}

void tree_push(struct tree_stack *stack, struct tree_node node)
{
    assert(stack->depth < TREE_NODES && node.count > 0);
    stack->nodes[stack->depth++] = node;
}

bool tree_join(struct tree_stack *stack)
{
    if (stack->depth < 2)
        return false;
    struct tree_node *a = &stack->nodes[stack->depth - 2];
    const struct tree_node *b = &stack->nodes[stack->depth - 1];
    if (!are_siblings(stack->leaves, *a, *b))
        return false;
    a->count += b->count;
    stack->depth--;
    return true;
}

size_t tree_most_nodes(size_t leaves, size_t first, size_t end)
{
    struct tree_stack stack = {.leaves = leaves};
    size_t most = 0;
    for (size_t leaf = first; leaf < end; leaf++) {
        tree_push(&stack, (struct tree_node){leaf, 1});
        most = size_max(most, stack.depth);
        while (tree_join(&stack))
            ;
    }
    return most;
}

/* ---- adding -------------------------------------------------------------------------------------------- */

enum { ADD_FLOATS = 16384 }; /* a unit of work: two arrays of 64 KiB */

struct addition {
    float *into;
    const float *from; /* NULL: into is only rounded */
    size_t n;
    enum tree_precision precision;
};

static void add_part(void *argument, size_t index, int worker)
{
    (void)worker;
    const struct addition *addition = argument;
    size_t first = index * ADD_FLOATS, n = size_min(ADD_FLOATS, addition->n - first);
    float *restrict into = addition->into + first;
    if (addition->from != NULL) {
        const float *restrict from = addition->from + first;
        for (size_t i = 0; i < n; i++)
            into[i] += from[i];
    }
    for (size_t i = 0; i < n && addition->precision == TREE_BF16; i++)
        into[i] = float_of_short(short_of(into[i]));
}

static void add_all(struct pool *pool, struct addition addition)
{
    pool_run(pool, add_part, &addition, (addition.n + ADD_FLOATS - 1) / ADD_FLOATS);
}

void tree_round(struct pool *pool, float *x, size_t n, enum tree_precision precision)
{
    if (precision != TREE_F32)
        add_all(pool, (struct addition){x, NULL, n, precision});
}

void tree_add(struct pool *pool, float *into, const float *from, size_t n, enum tree_precision precision)
{
    add_all(pool, (struct addition){into, from, n, precision});
}
