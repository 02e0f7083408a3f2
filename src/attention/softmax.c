/* Exact attention, out = softmax(Q K^T / sqrt(d)) V, in tiles (parts/tiles/tile_attention.h): no n x n array
   exists. Cost: 2 n_q n_k (d + d_v) operations and n_q n_k exponentials forward, 2.5 times that backward; a
   causal problem costs half. Nothing is random. Saved: two floats per query (parts/tiles/softmax_rows.h).
   If ranks share the rows, keys and values pass through all ranks in a ring (Liu et al. 2023, Ring
   Attention), and every rank meets its queries with the keys that visit it. Outputs of several groups of keys
   are merged by the logarithms of their sums. In backward the gradients of keys and values travel with them.
   A rank of R sends (R - 1) N (d + d_v) floats forward, N = n / R rounded up, and (2 R - 1) N (d + d_v)
   backward.
   SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "attention/mechanism.h"
#include "base/memory.h"
#include "parts/tiles/tile_attention.h"

static const struct tile_attention sizes = {.block = TILE_ATTENTION_BLOCK};

/* The keys that a query of a causal problem sees. */
static struct sight sight(const void *argument, size_t query)
{
    return (struct sight){0, problem_seen(argument, query)};
}

static struct tile_attention open(const struct problem *problem)
{
    struct arena saved = arena_on(problem->saved);
    return (struct tile_attention){
        .block = TILE_ATTENTION_BLOCK,
        .sight = problem->shape.causal ? sight : NULL,
        .argument = problem,
        .rows = softmax_rows_take(&saved, problem->shape.num_queries),
    };
}

static bool softmax_window(const void *options, size_t *window, size_t *step)
{
    (void)options;
    *window = 0;
    *step = 1;
    return true;
}

static size_t scratch_size(const void *options, const struct problem_shape *shape)
{
    (void)options;
    return tile_attention_size(shape, &sizes);
}

static void forward(const struct problem *problem, struct view out)
{
    struct tile_attention attention = open(problem);
    tile_attention_forward(problem, &attention, out, problem->scratch);
}

static void backward(const struct problem *problem, struct view out, struct view dout,
                     const struct problem_gradients *gradients)
{
    struct tile_attention attention = open(problem);
    tile_attention_backward(problem, &attention, out, dout, gradients, problem->scratch);
}

/* ---- rows that ranks share ----------------------------------------------------------------------------- */

/* The keys and values of one rank, as a message; or their gradients. */
struct guests {
    float *key, *value; /* (most, d), (most, d_v) */
    size_t bytes;
};

struct ring {
    size_t most; /* keys of a rank, at most */
    struct guests here, next, gradient, next_gradient;
    float *out;               /* forward: (n_q, d_v) output with the keys that visit */
    struct softmax_rows rows; /* and its maxima and sums */
    void *scratch;
    size_t bytes;
};

static struct guests guests_on(struct arena *arena, const struct problem_shape *shape, size_t most)
{
    size_t start = arena->used;
    struct guests guests = {.key = arena_take(arena, most, size_product(shape->head_dim, sizeof(float))),
                            .value = arena_take(arena, most, size_product(shape->value_dim, sizeof(float)))};
    guests.bytes = arena->used - start;
    return guests;
}

static struct ring ring_on(const struct problem_shape *shape, bool backward, void *block)
{
    struct arena arena = arena_on(block);
    struct ring ring = {.most = row_ranks_most(shape->ranks, shape->total_rows)};
    const struct problem_shape step = shape_of_rows(shape, shape->num_queries, ring.most);
    ring.here = guests_on(&arena, shape, ring.most);
    ring.next = guests_on(&arena, shape, ring.most);
    if (backward) {
        ring.gradient = guests_on(&arena, shape, ring.most);
        ring.next_gradient = guests_on(&arena, shape, ring.most);
    } else {
        ring.out = arena_take(&arena, shape->num_queries, size_product(shape->value_dim, sizeof(float)));
        ring.rows = softmax_rows_take(&arena, shape->num_queries);
    }
    ring.scratch = arena_take(&arena,
                              backward ? tile_attention_backward_size(&step, &sizes)
                                       : tile_attention_forward_size(&step, &sizes),
                              1);
    ring.bytes = arena.used;
    return ring;
}

static size_t ring_scratch_size(const void *options, const struct problem_shape *shape)
{
    (void)options;
    return size_max(ring_on(shape, false, NULL).bytes, ring_on(shape, true, NULL).bytes);
}

/* This rank's keys and values set out. */
static struct ring ring_open(const struct problem *problem, bool backward)
{
    struct ring ring = ring_on(&problem->shape, backward, problem->scratch);
    size_t d = problem->shape.head_dim, d_v = problem->shape.value_dim;
    for (size_t j = 0; j < problem->shape.num_keys; j++) {
        memcpy(ring.here.key + j * d, view_row(problem->key, j), d * sizeof(float));
        memcpy(ring.here.value + j * d_v, view_row(problem->value, j), d_v * sizeof(float));
    }
    return ring;
}

/* Index in the sequence of the first row of a rank. */
static size_t first_row(const struct problem *problem, int rank)
{
    size_t first = 0;
    for (int before = 0; before < rank; before++)
        first += row_ranks_rows(problem->ranks, before, problem->shape.total_rows);
    return first;
}

/* The problem of the keys that visit after `step` steps. */
static struct problem ring_problem(const struct problem *problem, const struct ring *ring, size_t step)
{
    int owner = row_ranks_owner(problem->ranks, step);
    size_t n = row_ranks_rows(problem->ranks, owner, problem->shape.total_rows);
    struct problem visit =
        problem_of_rows(problem, problem->query, view_of(ring->here.key, n, problem->shape.head_dim),
                        view_of(ring->here.value, n, problem->shape.value_dim));
    visit.dropout.first_query = first_row(problem, comm_rank(problem->ranks->comm));
    visit.dropout.first_key = first_row(problem, owner);
    return visit;
}

/* A causal problem sees all keys of the ranks before it, and none of those after it. */
static bool ring_sees(const struct problem *problem, size_t step)
{
    return !problem->shape.causal || row_ranks_owner(problem->ranks, step) <= comm_rank(problem->ranks->comm);
}

static void pass_on(struct row_ranks *ranks, struct guests *here, struct guests *next)
{
    row_ranks_ring(ranks, here->key, next->key, here->bytes);
    struct guests gone = *here;
    *here = *next;
    *next = gone;
}

/* The softmax over two groups of keys: o = (a o1 + b o2) / (a + b), a = exp(log_sum1 + (max1 - max) /
   sqrt(d)), b likewise, max the larger maximum. */
static void merge(const struct problem *problem, const struct softmax_rows *into, struct view out,
                  const struct ring *ring)
{
    double scale = 1 / sqrt((double)problem->shape.head_dim);
    for (size_t i = 0; i < problem->shape.num_queries; i++) {
        float max = into->max[i] > ring->rows.max[i] ? into->max[i] : ring->rows.max[i];
        double a = exp((double)into->log_sum[i] + ((double)into->max[i] - (double)max) * scale);
        double b = exp((double)ring->rows.log_sum[i] + ((double)ring->rows.max[i] - (double)max) * scale);
        float *row = view_row(out, i);
        const float *more = ring->out + i * out.cols;
        for (size_t c = 0; c < out.cols; c++)
            row[c] = (float)(a / (a + b)) * row[c] + (float)(b / (a + b)) * more[c];
        into->max[i] = max;
        into->log_sum[i] = (float)log(a + b);
    }
}

static void ring_forward(const struct problem *problem, struct view out)
{
    struct ring ring = ring_open(problem, false);
    struct tile_attention attention = open(problem);
    const struct softmax_rows kept = attention.rows;
    const struct view guest_out = view_of(ring.out, out.rows, out.cols);
    for (size_t step = 0; step < problem->shape.ranks; step++) {
        struct problem visit = ring_problem(problem, &ring, step);
        if (step == 0) {
            tile_attention_forward(&visit, &attention, out, ring.scratch);
            attention.sight = NULL;
            attention.rows = ring.rows;
        } else if (ring_sees(problem, step)) {
            tile_attention_forward(&visit, &attention, guest_out, ring.scratch);
            merge(problem, &kept, out, &ring);
        }
        if (step + 1 < problem->shape.ranks)
            pass_on(problem->ranks, &ring.here, &ring.next);
    }
}

static void ring_backward(const struct problem *problem, struct view out, struct view dout,
                          const struct problem_gradients *gradients)
{
    struct ring ring = ring_open(problem, true);
    struct tile_attention attention = open(problem);
    size_t d = problem->shape.head_dim, d_v = problem->shape.value_dim;
    memset(ring.gradient.key, 0, ring.gradient.bytes);
    for (size_t step = 0; step < problem->shape.ranks; step++) {
        struct problem visit = ring_problem(problem, &ring, step);
        const struct problem_gradients to = {
            .query = gradients->query,
            .key = view_of(ring.gradient.key, visit.shape.num_keys, d),
            .value = view_of(ring.gradient.value, visit.shape.num_keys, d_v),
        };
        if (ring_sees(problem, step))
            tile_attention_backward(&visit, &attention, out, dout, &to, ring.scratch);
        attention.sight = NULL;
        pass_on(problem->ranks, &ring.gradient, &ring.next_gradient);
        if (step + 1 < problem->shape.ranks)
            pass_on(problem->ranks, &ring.here, &ring.next);
    }
    for (size_t j = 0; j < problem->shape.num_keys; j++) {
        problem->kernels->rows.axpy(view_row(gradients->key, j), 1, ring.gradient.key + j * d, d);
        problem->kernels->rows.axpy(view_row(gradients->value, j), 1, ring.gradient.value + j * d_v, d_v);
    }
}

static const struct option_row options[] = {{.name = NULL}};

const struct mechanism mechanism_softmax = {
    .name = "softmax",
    .summary = "exact attention in tiles, quadratic in the length: the baseline",
    .options = options,
    .options_size = 0,
    .exact = true,
    .quadratic = true,
    .mixes = true,
    .drops_weights = true,
    .sees_mask = false,
    .softmax_window = softmax_window,
    .host = {NULL, softmax_rows_size, scratch_size, forward, backward},
    .ranks = &(const struct implementation){NULL, softmax_rows_size, ring_scratch_size, ring_forward,
                                            ring_backward},
};
