/* The span of a rank is a range of cache lines. Shorts are packed before they are sent, and widened
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
    comm_span_of(rank, comm_size(comm), (n + LINE_FLOATS - 1) / LINE_FLOATS, first, &end);
    *first = size_min(*first * LINE_FLOATS, n);
    return size_min(end * LINE_FLOATS, n) - *first;
}

static size_t nodes_of(const struct comm *comm, int rank, size_t leaves, struct tree_node nodes[TREE_NODES])
{
    size_t first, end;
    comm_span_of(rank, comm_size(comm), leaves, &first, &end);
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
struct range_memory {
    hashattn_message *sends, *receives;
    float **parts;                    /* of all nodes, in order */
    float *floats;                    /* this rank's piece of the nodes of others */
    uint16_t *sent;                   /* TREE_BF16: this rank's nodes; then the sums of all ranks */
    uint16_t *shorts;                 /* TREE_BF16: `floats` as they arrive */
    size_t piece, first, own, others; /* floats of this rank's piece and its place; numbers of nodes */
    size_t bytes;
};

static struct range_memory memory_on(const struct comm_sum *sum, size_t n, void *block)
{
    struct tree_node unused[TREE_NODES];
    const struct comm *comm = sum->comm;
    struct arena arena = arena_on(block);
    struct range_memory memory = {.own = nodes_of(comm, comm_rank(comm), sum->leaves, unused),
                                  .others = nodes_of_others(comm, sum->leaves)};
    size_t size = (size_t)comm_size(comm), lists = size_max(size_product(memory.own, size), size), other;
    memory.piece = piece_of(comm, comm_rank(comm), n, &memory.first);
    other = size_product(memory.others, memory.piece);
    memory.sends = arena_take(&arena, lists, sizeof *memory.sends);
    memory.receives = arena_take(&arena, size_max(memory.others, size), sizeof *memory.receives);
    memory.parts = arena_take(&arena, memory.own + memory.others, sizeof *memory.parts);
    memory.floats = arena_take(&arena, other, sizeof *memory.floats);
    if (sum->precision == TREE_BF16) {
        memory.sent = arena_take(&arena, size_product(size_max(memory.own, 1), n), sizeof *memory.sent);
        memory.shorts = arena_take(&arena, other, sizeof *memory.shorts);
    }
    memory.bytes = arena.used;
    return memory;
}

static size_t float_bytes(const struct comm_sum *sum)
{
    return sum->precision == TREE_BF16 ? sizeof(uint16_t) : sizeof(float);
}

size_t sum_range_scratch(const struct comm_sum *sum, size_t n)
{
    return memory_on(sum, n, NULL).bytes;
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
static size_t list_sends(const struct comm_sum *sum, const struct sum_range *range,
                         const struct range_memory *memory)
{
    const struct comm *comm = sum->comm;
    size_t listed = 0, size = float_bytes(sum);
    for (int i = 1; i < comm_size(comm); i++) {
        int other = (comm_rank(comm) + i) % comm_size(comm);
        size_t first, piece = piece_of(comm, other, range->n, &first);
        for (size_t k = 0; k < memory->own && piece > 0; k++) {
            void *from = memory->sent == NULL ? (void *)(sum->nodes[k] + range->first + first)
                                              : (void *)(memory->sent + k * range->n + first);
            memory->sends[listed++] = message_to(comm, other, from, piece * size);
        }
    }
    return listed;
}

/* Lists what it receives, and sets parts[i] to the piece of node i, counted over all ranks. */
static size_t list_receives(const struct comm_sum *sum, const struct sum_range *range,
                            const struct range_memory *memory)
{
    struct tree_node unused[TREE_NODES];
    const struct comm *comm = sum->comm;
    size_t listed = 0, at = 0, piece = memory->piece, size = float_bytes(sum);
    for (int rank = 0; rank < comm_size(comm); rank++) {
        size_t count = nodes_of(comm, rank, sum->leaves, unused);
        for (size_t k = 0; k < count; k++, at++) {
            bool own = rank == comm_rank(comm);
            memory->parts[at] =
                own ? sum->nodes[k] + range->first + memory->first : memory->floats + listed * piece;
            if (own || piece == 0)
                continue;
            void *to = memory->shorts == NULL ? (void *)memory->parts[at]
                                              : (void *)(memory->shorts + listed * piece);
            memory->receives[listed++] = message_to(comm, rank, to, piece * size);
        }
    }
    return listed;
}

/* Adds the parts in the tree, into the first. */
static void add_parts(const struct comm_sum *sum, const struct range_memory *memory)
{
    const struct comm *comm = sum->comm;
    struct tree_stack stack = {.leaves = sum->leaves};
    float *places[TREE_NODES];
    size_t at = 0;
    for (int rank = 0; rank < comm_size(comm); rank++) {
        struct tree_node nodes[TREE_NODES];
        size_t count = nodes_of(comm, rank, sum->leaves, nodes);
        for (size_t k = 0; k < count; k++) {
            places[stack.depth] = memory->parts[at++];
            tree_push(&stack, nodes[k]);
            while (tree_join(&stack))
                tree_add(sum->pool, places[stack.depth - 1], places[stack.depth], memory->piece,
                         sum->precision);
        }
    }
}

/* ---- the steps of a range ------------------------------------------------------------------------------ */

hashattn_status sum_range_begin(struct host *host, const struct comm_sum *sum, struct sum_range *range)
{
    const struct range_memory memory = memory_on(sum, range->n, range->scratch);
    for (size_t k = 0; k < memory.own && memory.sent != NULL; k++)
        pack(sum, memory.sent + k * range->n, sum->nodes[k] + range->first, range->n, false);
    size_t num_sends = list_sends(sum, range, &memory), num_receives = list_receives(sum, range, &memory);
    return comm_begin(host, sum->comm, memory.sends, num_sends, memory.receives, num_receives,
                      &range->transfer);
}

hashattn_status sum_range_reduce(struct host *host, const struct comm_sum *sum, struct sum_range *range)
{
    const struct range_memory memory = memory_on(sum, range->n, range->scratch);
    struct comm *comm = sum->comm;
    float *own = sum->sum + range->first;
    size_t num_sends = 0, num_receives = 0, size = float_bytes(sum);
    TRY(comm_end(host, comm, &range->transfer));
    if (memory.shorts != NULL)
        pack(sum, memory.shorts, memory.floats, memory.others * memory.piece, true);
    add_parts(sum, &memory);
    if (memory.piece > 0)
        memmove(own + memory.first, memory.parts[0], memory.piece * sizeof *own);
    if (memory.sent != NULL)
        pack(sum, memory.sent + memory.first, own + memory.first, memory.piece, false);
    char *all = memory.sent != NULL ? (char *)memory.sent : (char *)own;
    for (int i = 1; i < comm_size(comm); i++) {
        int other = (comm_rank(comm) + i) % comm_size(comm);
        size_t first, theirs = piece_of(comm, other, range->n, &first);
        if (memory.piece > 0)
            memory.sends[num_sends++] =
                message_to(comm, other, all + memory.first * size, memory.piece * size);
        if (theirs > 0)
            memory.receives[num_receives++] = message_to(comm, other, all + first * size, theirs * size);
    }
    return comm_begin(host, comm, memory.sends, num_sends, memory.receives, num_receives, &range->transfer);
}

hashattn_status sum_range_end(struct host *host, const struct comm_sum *sum, struct sum_range *range)
{
    const struct range_memory memory = memory_on(sum, range->n, range->scratch);
    TRY(comm_end(host, sum->comm, &range->transfer));
    if (memory.sent != NULL)
        pack(sum, memory.sent, sum->sum + range->first, range->n, true);
    return HASHATTN_OK;
}

/* ---- whole arrays -------------------------------------------------------------------------------------- */

/* The functions of sizes only read the communicator. */
static struct comm_sum sum_of(const struct comm *comm, size_t leaves)
{
    return (struct comm_sum){.comm = (struct comm *)(uintptr_t)comm, .leaves = leaves};
}

size_t comm_sum_scratch(const struct comm *comm, size_t leaves, size_t n)
{
    const struct comm_sum job = sum_of(comm, leaves);
    return comm_size(comm) == 1 ? 0 : sum_range_scratch(&job, n);
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
        struct sum_range range = {.n = n, .scratch = block};
        TRY(sum_range_begin(host, &job, &range));
        TRY(sum_range_reduce(host, &job, &range));
        return sum_range_end(host, &job, &range);
    }
    if (sum != nodes[0] && n > 0)
        memcpy(sum, nodes[0], n * sizeof *sum);
    return HASHATTN_OK;
}
