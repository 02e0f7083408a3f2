/* The bytes, messages and times of the model, collective by collective.
   SPDX-License-Identifier: Apache-2.0 */
#include "cli/bench/cluster_model.h"

#include <math.h>

enum {
    STATE_BYTES = 28
}; /* of a parameter in a step of AdamW: gradient read, value and moments read and written */
enum { RANGES = 32, RANGE_LEAST = 65536 }; /* a sum of gradients is sent in ranges (src/comm/sum_stream.h) */

static double larger(double a, double b)
{
    return a > b ? a : b;
}

static size_t up(size_t a, size_t b)
{
    return a / b + (a % b > 0);
}

/* ---- sums in a fixed tree: src/comm/comm_sum.h --------------------------------------------------------- */

/* The number of largest nodes of leaves [first, end) below a node of `count` leaves at `at`. */
static size_t nodes_below(size_t at, size_t count, size_t first, size_t end)
{
    size_t left = 1;
    if (at + count <= first || at >= end)
        return 0;
    if (at >= first && at + count <= end)
        return 1;
    while (2 * left < count)
        left *= 2;
    return nodes_below(at, left, first, end) + nodes_below(at + left, count - left, first, end);
}

/* Nodes of a rank's share of the leaves: the first leaves % ranks ranks have one more. */
static size_t nodes_of(size_t leaves, size_t ranks, size_t rank)
{
    size_t each = leaves / ranks, more = leaves % ranks;
    size_t first = rank * each + (rank < more ? rank : more);
    return nodes_below(0, leaves, first, first + each + (rank < more));
}

struct sum_cost {
    double sent; /* bytes, of the rank that sends most */
    double
        moved; /* bytes sent or received, whichever is more, of the slowest rank: the time on the network */
    double nodes; /* of all ranks */
};

/* A sum of n numbers of `size` bytes, one array per leaf. */
static struct sum_cost sum_of(size_t leaves, size_t ranks, double n, double size)
{
    struct sum_cost cost = {0};
    double piece = n / (double)ranks, others = (double)ranks - 1;
    for (size_t rank = 0; rank < ranks; rank++)
        cost.nodes += (double)nodes_of(leaves, ranks, rank);
    for (size_t rank = 0; rank < ranks; rank++) {
        double own = (double)nodes_of(leaves, ranks, rank);
        double sends = own * (n - piece), receives = (cost.nodes - own) * piece;
        cost.sent = larger(cost.sent, size * (sends + others * piece));
        cost.moved = larger(cost.moved, size * (larger(sends, receives) + others * piece));
    }
    return cost;
}

/* ---- a step -------------------------------------------------------------------------------------------- */

static double update_s(const struct cluster *c)
{
    return (double)c->params * STATE_BYTES / c->memory;
}

static void finish(const struct cluster *c, double moved, struct cluster_cost *cost)
{
    cost->network_s = moved / c->bandwidth + cost->exchanges * c->latency;
    cost->step_s = cost->compute_s + cost->update_s + cost->network_s - cost->hidden_s;
}

struct cluster_cost cluster_one(const struct cluster *c)
{
    struct cluster_cost cost = {.compute_s = (double)c->batch * (double)c->seq_len * c->token_s,
                                .update_s = update_s(c)};
    finish(c, 0, &cost);
    return cost;
}

struct cluster_cost cluster_data(const struct cluster *c, size_t ranks)
{
    if (ranks == 1)
        return cluster_one(c);
    size_t shards = c->shards > ranks ? c->shards : ranks, own = up(shards, ranks);
    size_t sequences = up(c->batch, shards) * own;
    if (sequences > c->batch)
        sequences = c->batch;
    struct sum_cost sum = sum_of(shards, ranks, (double)c->params, (double)c->gradient_bytes);
    struct cluster_cost cost = {
        .compute_s = (double)sequences * (double)c->seq_len * c->token_s,
        /* 12 bytes of memory for each addition of a piece */
        .update_s = update_s(c) + 12 * sum.nodes * (double)c->params / (double)ranks / c->memory,
        .bytes = sum.sent,
        .exchanges = 5, /* agreement, outcomes, the wish to stop, pieces of gradients, their sums */
    };
    double ranges = ceil((double)c->params / RANGE_LEAST), on_wire = sum.moved / c->bandwidth;
    double window = cost.compute_s / (double)own * 2 / 3; /* backward is two thirds */
    ranges = ranges > RANGES ? RANGES : ranges;
    cost.hidden_s = fmin(window, on_wire * (1 - 1 / ranges)); /* the last range is known at the end only */
    finish(c, sum.moved, &cost);
    return cost;
}

struct cluster_cost cluster_sequence(const struct cluster *c, size_t ranks)
{
    if (ranks == 1)
        return cluster_one(c);
    size_t exchanges;
    double heads = (double)c->layers * (double)c->heads * (double)c->batch;
    double tables = (double)c->num_hashes * ldexp(1, (int)c->hash_bits) * (double)c->head_dim;
    double attention = 2 * sum_of(ranks, ranks, tables, 4).sent + c->exchange(c, ranks, &exchanges);
    struct sum_cost sum = sum_of(ranks, ranks, (double)c->params, 4);
    struct cluster_cost cost = {
        .compute_s = (double)c->batch * (double)up(c->seq_len, ranks) * c->token_s,
        .update_s = update_s(c) + 12 * sum.nodes * (double)c->params / (double)ranks / c->memory,
        .bytes = heads * attention + sum.sent,
        /* two sums of tables of two exchanges each, and the gradients of queries and keys */
        .exchanges = heads * (4 + (double)exchanges) + 6,
    };
    finish(c, heads * attention + sum.moved, &cost);
    return cost;
}

double cluster_ring_bytes(const struct cluster *c, size_t ranks)
{
    double heads = (double)c->layers * (double)c->heads * (double)c->batch;
    double rows = (double)up(c->seq_len, ranks);
    return ranks == 1 ? 0 : heads * 8 * (3 * (double)ranks - 2) * rows * (double)c->head_dim;
}
