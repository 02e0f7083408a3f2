/* A share of the elements is a range of cache lines. Shorts are packed before they are sent, and widened
   before they are added.
   SPDX-License-Identifier: Apache-2.0 */
#include "comm/comm_sum.h"

#include <string.h>

#include "base/memory.h"
#include "comm/short_floats.h"

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

/* The memory of a range. */
struct room {
    hashattn_message *sends, *receives;
    float **parts;                    /* of all nodes, in order */
    float *floats;                    /* this rank's piece of the nodes of others */
    uint16_t *sent;                   /* TREE_BF16: this rank's nodes; then the sums of all ranks */
    uint16_t *shorts;                 /* TREE_BF16: `floats` as they arrive */
    size_t piece, first, own, others; /* floats of this rank's piece and its place; numbers of nodes */
    size_t bytes;
};

static struct room room_on(const struct comm_sum *sum, size_t n, void *block)
{
    struct tree_node unused[TREE_NODES];
    const struct comm *comm = sum->comm;
    struct arena arena = arena_on(block);
    struct room room = {.own = nodes_of(comm, comm_rank(comm), sum->leaves, unused),
                        .others = nodes_of_others(comm, sum->leaves)};
    size_t size = (size_t)comm_size(comm), lists = size_max(size_product(room.own, size), size), other;
    room.piece = piece_of(comm, comm_rank(comm), n, &room.first);
    other = size_product(room.others, room.piece);
    room.sends = arena_take(&arena, lists, sizeof *room.sends);
    room.receives = arena_take(&arena, size_max(room.others, size), sizeof *room.receives);
    room.parts = arena_take(&arena, room.own + room.others, sizeof *room.parts);
    room.floats = arena_take(&arena, other, sizeof *room.floats);
    if (sum->precision == TREE_BF16) {
        room.sent = arena_take(&arena, size_product(size_max(room.own, 1), n), sizeof *room.sent);
        room.shorts = arena_take(&arena, other, sizeof *room.shorts);
    }
    room.bytes = arena.used;
    return room;
}

static size_t float_bytes(const struct comm_sum *sum)
{
    return sum->precision == TREE_BF16 ? sizeof(uint16_t) : sizeof(float);
}

size_t sum_range_room(const struct comm_sum *sum, size_t n)
{
    return room_on(sum, n, NULL).bytes;
}

uint64_t sum_range_bytes(const struct comm_sum *sum, size_t n)
{
    struct tree_node nodes[TREE_NODES];
    const struct comm *comm = sum->comm;
    size_t first, own = piece_of(comm, comm_rank(comm), n, &first);
    size_t count = nodes_of(comm, comm_rank(comm), sum->leaves, nodes);
    size_t others = (size_t)comm_size(comm) - 1;
    return (uint64_t)float_bytes(sum) * (count * (n - own) + others * own);
}

/* ---- packing ------------------------------------------------------------------------------------------- */

enum { PACK_FLOATS = 16384 };

struct packing {
    uint16_t *shorts;
    float *floats;
    size_t n;
    bool widens;
};

static void pack_part(void *argument, size_t index, int worker)
{
    (void)worker;
    const struct packing *packing = argument;
    size_t first = index * PACK_FLOATS, end = size_min(first + PACK_FLOATS, packing->n);
    for (size_t i = first; i < end && packing->widens; i++)
        packing->floats[i] = float_of_short(packing->shorts[i]);
    for (size_t i = first; i < end && !packing->widens; i++)
        packing->shorts[i] = short_of(packing->floats[i]);
}

static void pack(const struct comm_sum *sum, uint16_t *shorts, float *floats, size_t n, bool widens)
{
    struct packing packing = {shorts, floats, n, widens};
    pool_run(sum->pool, pack_part, &packing, (n + PACK_FLOATS - 1) / PACK_FLOATS);
}

/* ---- the pieces of the nodes --------------------------------------------------------------------------- */

static hashattn_message message_to(const struct comm *comm, int rank, void *bytes, size_t size)
{
    return (hashattn_message){comm_world_rank(comm, rank), bytes, size};
}

/* Lists what this rank sends: the other ranks' pieces of its nodes. */
static size_t list_sends(const struct comm_sum *sum, const struct sum_range *range, const struct room *room)
{
    const struct comm *comm = sum->comm;
    size_t listed = 0, size = float_bytes(sum);
    for (int i = 1; i < comm_size(comm); i++) {
        int other = (comm_rank(comm) + i) % comm_size(comm);
        size_t first, piece = piece_of(comm, other, range->n, &first);
        for (size_t k = 0; k < room->own && piece > 0; k++) {
            void *from = room->sent == NULL ? (void *)(sum->nodes[k] + range->first + first)
                                            : (void *)(room->sent + k * range->n + first);
            room->sends[listed++] = message_to(comm, other, from, piece * size);
        }
    }
    return listed;
}

/* Lists what it receives, and sets parts[i] to the piece of node i, counted over all ranks. */
static size_t list_receives(const struct comm_sum *sum, const struct sum_range *range,
                            const struct room *room)
{
    struct tree_node unused[TREE_NODES];
    const struct comm *comm = sum->comm;
    size_t listed = 0, at = 0, piece = room->piece, size = float_bytes(sum);
    for (int rank = 0; rank < comm_size(comm); rank++) {
        size_t count = nodes_of(comm, rank, sum->leaves, unused);
        for (size_t k = 0; k < count; k++, at++) {
            bool own = rank == comm_rank(comm);
            room->parts[at] =
                own ? sum->nodes[k] + range->first + room->first : room->floats + listed * piece;
            if (own || piece == 0)
                continue;
            void *to =
                room->shorts == NULL ? (void *)room->parts[at] : (void *)(room->shorts + listed * piece);
            room->receives[listed++] = message_to(comm, rank, to, piece * size);
        }
    }
    return listed;
}

/* Adds the parts in the tree, into the first. */
static void add_parts(const struct comm_sum *sum, const struct room *room)
{
    const struct comm *comm = sum->comm;
    struct tree_stack stack = {.leaves = sum->leaves};
    float *places[TREE_NODES];
    size_t at = 0;
    for (int rank = 0; rank < comm_size(comm); rank++) {
        struct tree_node nodes[TREE_NODES];
        size_t count = nodes_of(comm, rank, sum->leaves, nodes);
        for (size_t k = 0; k < count; k++) {
            places[stack.depth] = room->parts[at++];
            tree_push(&stack, nodes[k]);
            while (tree_join(&stack))
                tree_add(sum->pool, places[stack.depth - 1], places[stack.depth], room->piece,
                         sum->precision);
        }
    }
}

/* ---- the steps of a range ------------------------------------------------------------------------------ */

hashattn_status sum_range_begin(struct host *host, const struct comm_sum *sum, struct sum_range *range)
{
    const struct room room = room_on(sum, range->n, range->room);
    for (size_t k = 0; k < room.own && room.sent != NULL; k++)
        pack(sum, room.sent + k * range->n, sum->nodes[k] + range->first, range->n, false);
    size_t num_sends = list_sends(sum, range, &room), num_receives = list_receives(sum, range, &room);
    return comm_begin(host, sum->comm, room.sends, num_sends, room.receives, num_receives, &range->transfer);
}

hashattn_status sum_range_turn(struct host *host, const struct comm_sum *sum, struct sum_range *range)
{
    const struct room room = room_on(sum, range->n, range->room);
    struct comm *comm = sum->comm;
    float *own = sum->sum + range->first;
    size_t num_sends = 0, num_receives = 0, size = float_bytes(sum);
    TRY(comm_end(host, comm, &range->transfer));
    if (room.shorts != NULL)
        pack(sum, room.shorts, room.floats, room.others * room.piece, true);
    add_parts(sum, &room);
    if (room.piece > 0)
        memmove(own + room.first, room.parts[0], room.piece * sizeof *own);
    if (room.sent != NULL)
        pack(sum, room.sent + room.first, own + room.first, room.piece, false);
    char *all = room.sent != NULL ? (char *)room.sent : (char *)own;
    for (int i = 1; i < comm_size(comm); i++) {
        int other = (comm_rank(comm) + i) % comm_size(comm);
        size_t first, theirs = piece_of(comm, other, range->n, &first);
        if (room.piece > 0)
            room.sends[num_sends++] = message_to(comm, other, all + room.first * size, room.piece * size);
        if (theirs > 0)
            room.receives[num_receives++] = message_to(comm, other, all + first * size, theirs * size);
    }
    return comm_begin(host, comm, room.sends, num_sends, room.receives, num_receives, &range->transfer);
}

hashattn_status sum_range_end(struct host *host, const struct comm_sum *sum, struct sum_range *range)
{
    const struct room room = room_on(sum, range->n, range->room);
    TRY(comm_end(host, sum->comm, &range->transfer));
    if (room.sent != NULL)
        pack(sum, room.sent, sum->sum + range->first, range->n, true);
    return HASHATTN_OK;
}

/* ---- whole arrays -------------------------------------------------------------------------------------- */

/* The functions of sizes only read the communicator. */
static struct comm_sum sum_of(const struct comm *comm, size_t leaves)
{
    return (struct comm_sum){.comm = (struct comm *)(uintptr_t)comm, .leaves = leaves};
}

size_t comm_sum_room(const struct comm *comm, size_t leaves, size_t n)
{
    const struct comm_sum job = sum_of(comm, leaves);
    return comm_size(comm) == 1 ? 0 : sum_range_room(&job, n);
}

uint64_t comm_sum_bytes(const struct comm *comm, size_t leaves, size_t n)
{
    const struct comm_sum job = sum_of(comm, leaves);
    return comm_size(comm) == 1 ? 0 : sum_range_bytes(&job, n);
}

hashattn_status comm_sum(struct host *host, struct comm *comm, struct pool *pool, size_t leaves,
                         float *const *nodes, float *sum, size_t n, void *block)
{
    if (comm_size(comm) > 1) {
        const struct comm_sum job = {
            .comm = comm, .pool = pool, .leaves = leaves, .nodes = nodes, .sum = sum};
        struct sum_range range = {.n = n, .room = block};
        TRY(sum_range_begin(host, &job, &range));
        TRY(sum_range_turn(host, &job, &range));
        return sum_range_end(host, &job, &range);
    }
    if (sum != nodes[0] && n > 0)
        memcpy(sum, nodes[0], n * sizeof *sum);
    return HASHATTN_OK;
}
