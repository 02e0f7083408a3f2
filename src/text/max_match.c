/* The split of a node where a pattern ends is this pattern. The split of another node is that of its
   parent, followed by those of the nodes along the parent's links, up to the first node that has a child
   for the byte. Nodes whose split is that of their parent share it, so writing a split costs a step per
   pattern in it.
   SPDX-License-Identifier: Apache-2.0 */
#include "text/max_match.h"

#include <assert.h>

#include "base/memory.h"

#define SKIP (UINT32_MAX - 1) /* a part of a split: one byte that begins no pattern */

static uint32_t child_of(const struct max_match *set, uint32_t node, unsigned char byte)
{
    uint32_t child;
    uint64_t hash = hash_pair(&set->children.key, node, byte);
    for (size_t probes = 0; index_table_next(&set->children, hash, &probes, &child);)
        if (set->nodes[child].parent == node && set->nodes[child].byte == byte)
            return child;
    return MAX_MATCH_NONE;
}

static hashattn_status new_node(struct host *host, struct max_match *set, uint32_t parent, uint32_t depth,
                                unsigned char byte)
{
    FAIL_IF(set->num_nodes == MAX_MATCH_NODES, host, HASHATTN_BAD_FILE,
            "the tokens have more than %d different beginnings (2^22)", MAX_MATCH_NODES);
    TRY(memory_grow(host, &set->nodes, &set->nodes_capacity, set->num_nodes, 1, sizeof *set->nodes,
                    "beginnings of tokens"));
    set->nodes[set->num_nodes++] = (struct max_match_node){
        .parent = parent, .depth = depth, .value = MAX_MATCH_NONE, .link = MAX_MATCH_NONE, .byte = byte};
    return HASHATTN_OK;
}

hashattn_status max_match_begin(struct host *host, struct max_match *set, bool skips, bool has_rest)
{
    *set = (struct max_match){.skips = skips, .has_rest = has_rest};
    for (int root = 0; root < (has_rest ? 2 : 1); root++)
        TRY(new_node(host, set, MAX_MATCH_NONE, 0, 0));
    return HASHATTN_OK;
}

hashattn_status max_match_add(struct host *host, struct max_match *set, bool of_rest, struct piece pattern,
                              uint32_t value)
{
    assert(set->num_nodes > 0 && value < MAX_MATCH_NONE && (set->has_rest || !of_rest));
    uint32_t node = of_rest;
    if (pattern.size > 0 && !of_rest)
        set->begins[(unsigned char)pattern.bytes[0]] = true;
    for (size_t i = 0; i < pattern.size; i++) {
        unsigned char byte = (unsigned char)pattern.bytes[i];
        uint32_t child = child_of(set, node, byte);
        if (child == MAX_MATCH_NONE) {
            child = (uint32_t)set->num_nodes;
            TRY(index_table_grow(host, &set->children));
            TRY(new_node(host, set, node, set->nodes[node].depth + 1, byte));
            index_table_add(&set->children, hash_pair(&set->children.key, node, byte), child);
        }
        node = child;
    }
    if (pattern.size > 0 && set->nodes[node].value == MAX_MATCH_NONE)
        set->nodes[node].value = value;
    return HASHATTN_OK;
}

void max_match_free(struct host *host, struct max_match *set)
{
    memory_free(host, set->nodes);
    memory_free(host, set->parts);
    index_table_free(host, &set->children);
    *set = (struct max_match){.nodes = NULL};
}

/* ---- links --------------------------------------------------------------------------------------------- */

static hashattn_status add_part(struct host *host, struct max_match *set, uint32_t part)
{
    TRY(memory_grow(host, &set->parts, &set->parts_capacity, set->num_parts, 1, sizeof *set->parts,
                    "splits of tokens"));
    set->parts[set->num_parts++] = part;
    return HASHATTN_OK;
}

/* The link and the split of a node; those of all nodes that are less deep are known. */
static hashattn_status link_node(struct host *host, struct max_match *set, uint32_t index)
{
    struct max_match_node *node = &set->nodes[index];
    const uint32_t rest = set->has_rest, parent = node->parent;
    size_t before = set->num_parts;
    if (node->value != MAX_MATCH_NONE) {
        node->link = rest;
        return HASHATTN_OK;
    }
    /* `at` follows the links until the byte leads on. */
    uint32_t at = parent, to = MAX_MATCH_NONE;
    do {
        if (set->nodes[at].depth == 0) {
            if (set->skips) {
                TRY(add_part(host, set, SKIP));
                to = rest;
            }
            break;
        }
        TRY(add_part(host, set, at));
        at = set->nodes[at].link;
    } while (at != MAX_MATCH_NONE && (to = child_of(set, at, node->byte)) == MAX_MATCH_NONE);
    node->link = to;
    node->part = (uint32_t)before;
    node->parts = (uint32_t)(set->num_parts - before);
    bool same =
        node->parts == 1 && set->parts[before] == parent && set->nodes[parent].value == MAX_MATCH_NONE;
    if (same) {
        node->part = set->nodes[parent].part;
        node->parts = set->nodes[parent].parts;
    }
    if (same || to == MAX_MATCH_NONE)
        set->num_parts = before;
    return HASHATTN_OK;
}

hashattn_status max_match_finish(struct host *host, struct max_match *set)
{
    size_t most = 0, first = 0;
    for (size_t i = 0; i < set->num_nodes; i++)
        most = size_max(most, set->nodes[i].depth);
    void *block;
    TRY(memory_new_zeroed(host, most + 2 + set->num_nodes, sizeof(uint32_t), "the order of tokens", &block));
    uint32_t *starts = block, *order = starts + most + 2; /* nodes by depth */
    for (size_t i = 0; i < set->num_nodes; i++)
        starts[set->nodes[i].depth + 1]++;
    for (size_t depth = 0; depth <= most; depth++)
        starts[depth + 1] += starts[depth];
    first = starts[1]; /* after the roots */
    for (size_t i = 0; i < set->num_nodes; i++)
        order[starts[set->nodes[i].depth]++] = (uint32_t)i;
    hashattn_status status = HASHATTN_OK;
    for (size_t i = first; i < set->num_nodes && status == HASHATTN_OK; i++)
        status = link_node(host, set, order[i]);
    memory_free(host, block);
    return status;
}

/* ---- texts --------------------------------------------------------------------------------------------- */

void max_match_restart(struct max_match_run *run, size_t at)
{
    run->start = run->read = at;
    run->node = 0;
    run->stuck = false;
    run->count = 0;
}

void max_match_run_free(struct host *host, struct max_match_run *run)
{
    memory_free(host, run->list);
    memory_free(host, run->stack);
    *run = (struct max_match_run){.list = NULL};
}

/* At the root: passes over bytes that begin no pattern. */
static void skip_bytes(const struct max_match *set, struct piece text, size_t until,
                       struct max_match_run *run)
{
    while (run->read < until && !set->begins[(unsigned char)text.bytes[run->read]])
        run->read++;
    run->start = run->read;
}

/* Writes the split of the current node. */
static hashattn_status write_split(struct host *host, const struct max_match *set, struct max_match_run *run)
{
    size_t height = 0;
    TRY(memory_grow(host, &run->stack, &run->stack_capacity, 0, 1, sizeof *run->stack, "splits of a text"));
    run->stack[height++] = run->node;
    while (height > 0) {
        uint32_t top = run->stack[--height];
        if (top == SKIP) {
            run->start++;
            continue;
        }
        const struct max_match_node *node = &set->nodes[top];
        if (node->value != MAX_MATCH_NONE) {
            TRY(memory_grow(host, &run->list, &run->capacity, run->count, 1, sizeof *run->list,
                            "tokens of a text"));
            run->list[run->count++] =
                (struct max_match_found){run->start, run->start + node->depth, node->value};
            run->start += node->depth;
            continue;
        }
        TRY(memory_grow(host, &run->stack, &run->stack_capacity, height, node->parts, sizeof *run->stack,
                        "splits of a text"));
        for (uint32_t i = node->parts; i > 0; i--)
            run->stack[height++] = set->parts[node->part + i - 1];
    }
    return HASHATTN_OK;
}

hashattn_status max_match_read(struct host *host, const struct max_match *set, struct piece text,
                               size_t until, struct max_match_run *run)
{
    if (until > text.size)
        until = text.size;
    while (run->start < until && !run->stuck) {
        if (set->skips && set->nodes[run->node].depth == 0)
            skip_bytes(set, text, until, run);
        if (run->start == until)
            break;
        uint32_t child = run->read < text.size
                             ? child_of(set, run->node, (unsigned char)text.bytes[run->read])
                             : MAX_MATCH_NONE;
        if (child != MAX_MATCH_NONE) {
            run->node = child;
            run->read++;
        } else if (set->nodes[run->node].depth > 0) {
            uint32_t link = set->nodes[run->node].link;
            run->stuck = link == MAX_MATCH_NONE;
            if (run->stuck)
                break;
            TRY(write_split(host, set, run));
            run->node = link;
        } else if (set->skips) {
            run->start = ++run->read;
        } else {
            run->stuck = true;
        }
    }
    return HASHATTN_OK;
}
