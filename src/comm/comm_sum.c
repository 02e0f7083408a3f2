/* A share of the elements is a range of cache lines. SPDX-License-Identifier: Apache-2.0 */
#include "comm/comm_sum.h"

#include <string.h>

#include "base/memory.h"

enum { LINE_FLOATS = 16 };

/* The elements [*first, *first + count) that a rank sums; returns count. */
static size_t piece_of(const struct comm *comm, int rank, size_t n, size_t *first)
{
    size_t end;
    comm_share_of(rank, comm_size(comm), (n + LINE_FLOATS - 1) / LINE_FLOATS, first, &end);
    *first = size_min(*first * LINE_FLOATS, n);
    return size_min(end * LINE_FLOATS, n) - *first;
}

static size_t nodes_of(const struct comm *comm, int rank, size_t leaves, struct tree_node nodes[TREE_NODES])
{
    size_t first, end;
    comm_share_of(rank, comm_size(comm), leaves, &first, &end);
    return tree_nodes(leaves, first, end, nodes);
}

/* The number of nodes of all ranks but this one. */
static size_t nodes_of_others(const struct comm *comm, size_t leaves)
{
    struct tree_node nodes[TREE_NODES];
    size_t count = 0;
    for (int rank = 0; rank < comm_size(comm); rank++)
        count += rank == comm_rank(comm) ? 0 : nodes_of(comm, rank, leaves, nodes);
    return count;
}

struct room {
    hashattn_message *sends, *receives;
    float **parts; /* of all nodes, in order */
    float *floats; /* this rank's piece of the nodes of others */
    size_t bytes;
};

static struct room room_on(const struct comm *comm, size_t leaves, size_t n, void *block)
{
    struct tree_node unused[TREE_NODES];
    struct arena arena = arena_on(block);
    size_t own = nodes_of(comm, comm_rank(comm), leaves, unused), others = nodes_of_others(comm, leaves);
    size_t first, piece = piece_of(comm, comm_rank(comm), n, &first);
    struct room room = {0};
    room.sends = arena_take(&arena, size_product(own, (size_t)comm_size(comm)), sizeof *room.sends);
    room.receives = arena_take(&arena, others, sizeof *room.receives);
    room.parts = arena_take(&arena, own + others, sizeof *room.parts);
    room.floats = arena_take(&arena, size_product(others, piece), sizeof *room.floats);
    room.bytes = arena.used;
    return room;
}

size_t comm_sum_room(const struct comm *comm, size_t leaves, size_t n)
{
    return comm_size(comm) == 1 ? 0 : room_on(comm, leaves, n, NULL).bytes;
}

uint64_t comm_sum_bytes(const struct comm *comm, size_t leaves, size_t n)
{
    struct tree_node nodes[TREE_NODES];
    size_t first, own = piece_of(comm, comm_rank(comm), n, &first);
    size_t count = nodes_of(comm, comm_rank(comm), leaves, nodes), others = (size_t)comm_size(comm) - 1;
    return (uint64_t)sizeof(float) * (count * (n - own) + others * own);
}

/* Lists what this rank sends: the other ranks' pieces of its nodes. */
static size_t list_sends(const struct comm *comm, float *const *nodes, size_t count, size_t n,
                         hashattn_message *sends)
{
    size_t listed = 0;
    for (int i = 1; i < comm_size(comm); i++) {
        int other = (comm_rank(comm) + i) % comm_size(comm);
        size_t first, piece = piece_of(comm, other, n, &first);
        for (size_t k = 0; k < count && piece > 0; k++)
            sends[listed++] =
                (hashattn_message){comm_world_rank(comm, other), nodes[k] + first, piece * sizeof(float)};
    }
    return listed;
}

/* Lists what it receives, and sets parts[i] to the piece of node i, counted over all ranks. */
static size_t list_receives(const struct comm *comm, size_t leaves, float *const *nodes, size_t n,
                            float *room, float **parts, hashattn_message *receives)
{
    struct tree_node unused[TREE_NODES];
    size_t first, piece = piece_of(comm, comm_rank(comm), n, &first), listed = 0, at = 0;
    for (int rank = 0; rank < comm_size(comm); rank++) {
        size_t count = nodes_of(comm, rank, leaves, unused);
        for (size_t k = 0; k < count; k++, at++) {
            bool own = rank == comm_rank(comm);
            parts[at] = own ? nodes[k] + first : room;
            if (own || piece == 0)
                continue;
            receives[listed++] = (hashattn_message){comm_world_rank(comm, rank), room, piece * sizeof(float)};
            room += piece;
        }
    }
    return listed;
}

/* Adds the parts in the tree, into the first. */
static void add_parts(const struct comm *comm, struct pool *pool, size_t leaves, float **parts, size_t piece)
{
    struct tree_stack stack = {.leaves = leaves};
    float *places[TREE_NODES];
    size_t at = 0;
    for (int rank = 0; rank < comm_size(comm); rank++) {
        struct tree_node nodes[TREE_NODES];
        size_t count = nodes_of(comm, rank, leaves, nodes);
        for (size_t k = 0; k < count; k++) {
            places[stack.depth] = parts[at++];
            tree_push(&stack, nodes[k]);
            while (tree_join(&stack))
                tree_add(pool, places[stack.depth - 1], places[stack.depth], piece);
        }
    }
}

/* Receives this rank's piece of all nodes, and writes their sum to its place in `sum`. */
static hashattn_status sum_piece(struct host *host, struct comm *comm, struct pool *pool, size_t leaves,
                                 float *const *nodes, float *sum, size_t n, const struct room *room)
{
    struct tree_node unused[TREE_NODES];
    size_t first, piece = piece_of(comm, comm_rank(comm), n, &first);
    size_t own = nodes_of(comm, comm_rank(comm), leaves, unused);
    size_t num_sends = list_sends(comm, nodes, own, n, room->sends);
    size_t num_receives = list_receives(comm, leaves, nodes, n, room->floats, room->parts, room->receives);
    TRY(comm_exchange(host, comm, room->sends, num_sends, room->receives, num_receives));
    add_parts(comm, pool, leaves, room->parts, piece);
    memmove(sum + first, room->parts[0], piece * sizeof *sum);
    return HASHATTN_OK;
}

hashattn_status comm_sum(struct host *host, struct comm *comm, struct pool *pool, size_t leaves,
                         float *const *nodes, float *sum, size_t n, void *block)
{
    if (comm_size(comm) > 1) {
        const struct room room = room_on(comm, leaves, n, block);
        TRY(sum_piece(host, comm, pool, leaves, nodes, sum, n, &room));
        return comm_gather(host, comm, sum, n * sizeof *sum, LINE_FLOATS * sizeof *sum);
    }
    if (sum != nodes[0])
        memcpy(sum, nodes[0], n * sizeof *sum);
    return HASHATTN_OK;
}
