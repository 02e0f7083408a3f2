/* YOSO: attention by Bernoulli sampling through hash collisions (Zeng et al. 2021, You Only Sample (Almost)
   Once), for one head.
     Q, K to unit length; m = num_hashes codes of tau = hash_bits sign bits each; c_ij = number of hashes in
     which query i and key j have the same code; X_i = sum_j (c_ij / m) V_j; Y = X normalised.
     E[c_ij / m] = (1 - angle_ij / pi)^tau: the exact counterpart is yoso-e.
   The sum never runs over pairs: V rows are added into a table row per code and read by the queries' codes.
   Backward, with G the gradient of X and the same codes:
     dV_j = sum_i (c_ij / m) G_i                       (the same tables, from queries to keys)
     dQ_i = sum_j (c_ij / m) <G_i, V_j> w_ij K_j       (pairs within buckets), dK likewise, then through the
   unit length. w = tau / 2 (lower, Eq. 4 of the paper) or tau / (p pi) times the unit tangent (true: Eq. 3
   without bias; docs/MATH.md). released is the gradient of the published code: each colliding pair once,
   times the derivative of p^tau at 0.99 of its cosine; biased.
   Causal, the tables are prefix sums; they are also the state of a stream (yoso_stream.c): m 2^tau d_v
   floats for any length (4 MiB at m 32, tau 9, d_v 64, as much as the key-value cache of 8,192 tokens).
   With plane_pool, hashes share planes, each two at most one (parts/hashing/codes.c, slot hash.pooled_codes).
   Random: the planes (once per call) and the rotation of each head. Saved: codes, and one float per query;
   with recompute only the float, and backward hashes again.
   Cost: 2 (n_q + n_k) d m tau operations to hash, 2 (n_q + n_k) d_v m table words, and in backward the same
   tables again and 6 d operations per colliding pair.
   SPDX-License-Identifier: Apache-2.0 */
#include <math.h>
#include <string.h>

#include "attention/mechanism.h"
#include "attention/yoso/yoso_memory.h"
#include "attention/yoso/yoso_refuse.h"
#include "attention/yoso/yoso_stream.h"
#include "gpu/yoso_gpu.h"
#include "parts/collisions/hash_tables.h"
#include "parts/collisions/normalize.h"
#include "parts/collisions/pairs.h"
#include "parts/hashing/hadamard.h"
#include "parts/hashing/hasher.h"
#include "parts/hashing/planes.h"
#include "parts/hashing/unit_map.h"
#include "parts/rows/elements.h"

/* ---- once per call ------------------------------------------------------------------------------------- */

static void prepare(const struct preparation *preparation)
{
    struct planes_form form = hasher_form(preparation->options, preparation->head_dim);
    if (hadamard_is(form.kind))
        hadamard_draw(&form, preparation->call_key, preparation->shared);
    else
        planes_draw(preparation->kernels, preparation->pool, &form, preparation->call_key,
                    preparation->shared, preparation->scratch);
}

static const char *unsettled(const void *of)
{
    const struct yoso_options *options = of;
    return options->projection == HASH_AUTO ? "projection" : NULL;
}

static void settle(const struct kernels *kernels, void *of)
{
    struct yoso_options *options = of;
    struct hashing hashing = hashing_of(options);
    options->projection = (int)codes_projection(kernels, &hashing);
}

/* The hasher widens its rows; the search for the longest row of a head reads floats. */
static bool reads_bf16(const void *options)
{
    return unit_map_is_l2(options);
}

/* ---- one head ------------------------------------------------------------------------------------------ */

enum {
    BLOCK_ROWS = 4 * CODES_ROWS, /* rows of queries or keys per unit of work */
    TAKE_ROWS = 64               /* rows of V that stay in L1 between copy and check */
};

/* One head being computed. */
struct head {
    const struct problem *problem;
    const struct yoso_options *options;
    const struct kernels *kernels;
    struct hashing hashing;
    size_t width;    /* width of unit rows */
    double max_norm; /* of map neyshabur */
    struct yoso_saved saved;
    struct yoso_scratch scratch;
    struct codes queries, keys;
    struct view value, x; /* forward: V, and X before it is normalised, as the tables see them */
    struct view out, dout;
    const struct problem_gradients *gradients;
};

static double longest_of(struct view rows)
{
    return unit_map_longest(rows.data, rows.stride, rows.rows, rows.cols);
}

/* The fields that do not depend on the memory blocks. */
static struct head head_of(const struct problem *problem)
{
    struct head head = {.problem = problem, .options = problem->options, .kernels = problem->kernels};
    head.hashing = hashing_of(head.options);
    head.width = unit_map_width(head.options, problem->shape.head_dim);
    head.max_norm = head.options->max_norm;
    if (!unit_map_is_l2(head.options) && head.max_norm <= 0)
        head.max_norm = fmax(longest_of(problem->query), longest_of(problem->key));
    return head;
}

/* true if the scratch has tables, for the rows of this problem. Ranks that share a sequence add tables of
   their own (yoso_ranks.h), and need these for the causal part of their own rows only. */
static bool has_tables(const struct problem *problem)
{
    return problem->shape.ranks <= 1 || problem->shape.causal;
}

static struct head head_open(const struct problem *problem, bool backward)
{
    struct head head = head_of(problem);
    yoso_lay_out_saved(&head.saved, head.options, &problem->shape, problem->saved);
    yoso_lay_out_scratch(&head.scratch, head.options, &problem->shape, backward, problem->scratch);
    if (has_tables(problem))
        head.scratch.tables.visible = problem->visible;
    if (head.options->recompute) {
        head.saved.query_codes = head.scratch.query_codes;
        head.saved.key_codes = head.scratch.key_codes;
    }
    head.queries = codes_at(&head.hashing, head.saved.query_codes, problem->shape.num_queries);
    head.keys = codes_at(&head.hashing, head.saved.key_codes, problem->shape.num_keys);
    return head;
}

/* A block of rows of one side: a unit of work. Results do not depend on the block boundaries. */
struct block {
    bool of_keys;
    size_t first, rows;
};

static size_t count_blocks(size_t rows)
{
    return (rows + BLOCK_ROWS - 1) / BLOCK_ROWS;
}

/* Block `index`, counting the blocks of queries first, then those of keys. */
static struct block block_at(const struct head *head, size_t index)
{
    size_t queries = count_blocks(head->queries.n);
    struct block block = {.of_keys = index >= queries};
    size_t n = block.of_keys ? head->keys.n : head->queries.n;
    block.first = (block.of_keys ? index - queries : index) * BLOCK_ROWS;
    block.rows = n - block.first < BLOCK_ROWS ? n - block.first : BLOCK_ROWS;
    return block;
}

/* Runs the blocks of the keys. */
static void over_keys(struct head *head, void (*run)(void *, size_t, int))
{
    pool_run(head->problem->pool, run, head, count_blocks(head->keys.n));
}

static void over_queries_and_keys(struct head *head, void (*run)(void *, size_t, int))
{
    pool_run(head->problem->pool, run, head, count_blocks(head->queries.n) + count_blocks(head->keys.n));
}

/* ---- forward ------------------------------------------------------------------------------------------- */

/* Sets *out_of_range if it is wanted and finite is false. */
static void tell(const struct head *head, bool finite)
{
    if (!finite && head->problem->out_of_range != NULL)
        atomic_store_explicit(head->problem->out_of_range, true, memory_order_relaxed);
}

/* The codes of all rows. */
static void hash_head(struct head *head)
{
    const struct problem *problem = head->problem;
    struct hasher *hasher = &head->scratch.hasher;
    hasher->max_norm = head->max_norm;
    hasher_turn(head->kernels, hasher, problem->shared, problem->random_key);
    tell(head, hasher_codes(head->kernels, problem->pool, hasher, problem->query, problem->key,
                            head->saved.query_codes, head->saved.key_codes));
}

/* true if the tables can use the caller's rows of V and X in place. They pass over them many times: rows 768
   floats apart cost a third more time in every pass, rows 64 apart none. */
static bool is_close(struct view rows)
{
    return rows.dtype == DTYPE_FLOAT32 && rows.stride <= 2 * rows.cols;
}

/* Copies V if is_close is false, or widens it. Checks it for NaN and infinity while it comes into the
   caches, where the tables need it. */
static void take_values(const struct head *head, const struct block *block)
{
    struct view from = head->problem->value, to = head->value;
    const char *stored = from.data;
    size_t row_bytes = from.stride * element_bytes(from.dtype), count;
    for (size_t at = block->first, end = at + block->rows; at < end; at += count) {
        count = end - at < TAKE_ROWS ? end - at : TAKE_ROWS;
        if (to.data != from.data)
            elements_load(head->kernels, view_row(to, at), to.stride, stored + at * row_bytes, from.stride,
                          from.dtype, count, from.cols);
        if (head->problem->out_of_range != NULL)
            tell(head, head->kernels->rows.all_finite(view_row(to, at), to.stride, count, to.cols));
    }
}

/* Takes V and clears X. */
static void begin_block(void *argument, size_t index, int worker)
{
    (void)worker;
    const struct head *head = argument;
    const struct block block = block_at(head, index);
    if (block.of_keys)
        take_values(head, &block);
    else
        for (size_t i = block.first; i < block.first + block.rows; i++)
            memset(view_row(head->x, i), 0, head->x.cols * sizeof(float));
}

static struct view in_scratch(struct view rows, float *data, size_t ld)
{
    return (struct view){.data = data, .rows = rows.rows, .cols = rows.cols, .stride = ld};
}

/* X += the sums of V by bucket, and with normalize sum the collisions / m of each query. */
static void carry_values(struct head *head)
{
    const struct problem *problem = head->problem;
    struct tables *tables = &head->scratch.tables;
    struct view value = head->value, x = head->x;
    float *sums = head->options->normalize == YOSO_NORMALIZE_SUM ? head->saved.row_norms : NULL;
    if (sums != NULL)
        memset(sums, 0, head->queries.n * sizeof *sums);
    struct table_sums rows = {.queries = &head->queries,
                              .keys = &head->keys,
                              .to_queries = true,
                              .values = value.data,
                              .ld_values = value.stride,
                              .out = x.data,
                              .ld_out = x.stride,
                              .dim = x.cols};
    if (problem->shape.ranks > 1)
        yoso_ranks_carry(problem, &head->scratch.ranks, &rows, sums);
    if (!has_tables(problem))
        return;
    if (!tables_sum_fixed(head->kernels, problem->pool, tables, &rows))
        tables_sum(head->kernels, problem->pool, tables, &rows);
    if (sums == NULL)
        return;
    const float per_hash = 1 / (float)head->hashing.num_hashes;
    rows.values = &per_hash, rows.ld_values = 0;
    rows.out = sums, rows.ld_out = rows.dim = 1;
    tables_sum(head->kernels, problem->pool, tables, &rows);
}

static void forward(const struct problem *problem, struct view out)
{
    struct head head = head_open(problem, false);
    struct yoso_scratch *scratch = &head.scratch;
    head.out = head.x = out;
    head.value = problem->value;
    if (!is_close(out))
        head.x = in_scratch(out, scratch->forward.x, scratch->ld_value);
    if (!is_close(problem->value))
        head.value = in_scratch(problem->value, scratch->forward.value, scratch->ld_value);

    hash_head(&head);
    over_queries_and_keys(&head, begin_block);
    if (problem->out_of_range != NULL && atomic_load_explicit(problem->out_of_range, memory_order_relaxed))
        return; /* in this head or another: out will not be used */
    carry_values(&head);
    if (problem->out_of_range != NULL) /* sums of finite values may not be */
        tell(&head, head.kernels->rows.all_finite(head.x.data, head.x.stride, head.x.rows, head.x.cols));
    normalize_rows(head.kernels, problem->pool, head.options->normalize, out.data, out.stride, out.dtype,
                   head.x.data, head.x.stride, 1 / (float)head.hashing.num_hashes, head.saved.row_norms,
                   out.rows, out.cols);
}

/* ---- backward ------------------------------------------------------------------------------------------ */

/* Unit rows, and the gradient of X. unit_take clears the rest of a row: its gradient, and the place of dX or
   V. */
static void take_block(void *argument, size_t index, int worker)
{
    (void)worker;
    const struct head *head = argument;
    const struct block block = block_at(head, index);
    const struct yoso_scratch *scratch = &head->scratch;
    const struct pair_rows *to = block.of_keys ? &scratch->backward.keys : &scratch->backward.queries;
    struct view rows = block.of_keys ? head->problem->key : head->problem->query;
    float *norm = block.of_keys ? scratch->backward.key_norm : scratch->backward.query_norm;
    size_t at = block.first * to->ld;
    if (unit_map_is_l2(head->options))
        unit_take(head->kernels, to->unit + at, to->ld, norm + block.first, view_row(rows, block.first),
                  rows.stride, block.rows, rows.cols);
    else
        unit_map_take(to->unit + at, to->ld, norm + block.first, view_row(rows, block.first), rows.stride,
                      block.rows, rows.cols, head->max_norm, block.of_keys);
    if (block.of_keys)
        return;
    const float *row_norms =
        head->options->normalize == YOSO_NORMALIZE_NONE ? NULL : head->saved.row_norms + block.first;
    normalize_rows_backward(head->kernels, head->options->normalize, to->value + at, to->ld,
                            scratch->backward.bias + block.first, view_row(head->out, block.first),
                            head->out.stride, view_row(head->dout, block.first), head->dout.stride, row_norms,
                            block.rows, head->out.cols);
}

/* Adds m dV, the sums of dX. If keys.sum is NULL (see pairs_are_near), keys.value holds the sums. */
static void give_values(void *argument, size_t index, int worker)
{
    (void)worker;
    const struct head *head = argument;
    const struct block block = block_at(head, count_blocks(head->queries.n) + index);
    const struct pair_rows *keys = &head->scratch.backward.keys;
    struct view dvalue = head->gradients->value;
    const float *sums = keys->sum != NULL ? keys->sum : keys->value;
    for (size_t j = block.first; j < block.first + block.rows; j++)
        head->kernels->rows.axpy(view_row(dvalue, j), 1 / (float)head->hashing.num_hashes,
                                 sums + j * keys->ld, dvalue.cols);
}

static void lay_values(void *argument, size_t index, int worker)
{
    (void)worker;
    const struct head *head = argument;
    const struct block block = block_at(head, count_blocks(head->queries.n) + index);
    const struct pair_rows *keys = &head->scratch.backward.keys;
    struct view value = head->problem->value;
    for (size_t j = block.first; j < block.first + block.rows; j++)
        memcpy(keys->value + j * keys->ld, view_row(value, j), value.cols * sizeof(float));
}

/* The backward pass of the unit length. */
static void finish_block(void *argument, size_t index, int worker)
{
    (void)worker;
    const struct head *head = argument;
    const struct block block = block_at(head, index);
    const struct yoso_scratch *scratch = &head->scratch;
    const struct pair_rows *from = block.of_keys ? &scratch->backward.keys : &scratch->backward.queries;
    struct view gradient = block.of_keys ? head->gradients->key : head->gradients->query;
    const float *norm = block.of_keys ? scratch->backward.key_norm : scratch->backward.query_norm;
    size_t at = block.first * from->ld;
    if (!unit_map_is_l2(head->options)) {
        unit_map_backward(head->kernels, view_row(gradient, block.first), gradient.stride,
                          from->gradient + at, from->ld, norm + block.first, block.rows, gradient.cols);
        return;
    }
    unit_give(head->kernels, view_row(gradient, block.first), gradient.stride, from->gradient + at,
              from->unit + at, from->ld, norm + block.first, block.rows, gradient.cols);
}

static struct pairs pairs_of(struct head *head)
{
    const struct problem *problem = head->problem;
    struct pairs pairs = {
        .queries = head->scratch.backward.queries,
        .keys = head->scratch.backward.keys,
        .near = head->scratch.backward.keys.sum != NULL,
        .dim = head->width,
        .value_dim = problem->shape.value_dim,
        .bias = head->options->normalize == YOSO_NORMALIZE_SUM ? head->scratch.backward.bias : NULL,
        .scale = 1 / (float)head->hashing.num_hashes,
        .weight = unit_map_is_l2(head->options) ? PAIR_TANGENT : PAIR_FLOORED,
        .hash_bits = head->hashing.hash_bits,
        .max_partners = (size_t)head->options->max_partners,
        .partners_key = problem->random_key,
        .gradient_hashes = (size_t)head->options->gradient_hashes,
        .hashes_key = problem->random_key,
        .visible = problem->visible,
    };
    if (head->options->gradient == YOSO_GRADIENT_LOWER) {
        pairs.weight = PAIR_CONSTANT;
        pairs.scale *= 0.5f * (float)head->hashing.hash_bits;
    } else if (head->options->gradient == YOSO_GRADIENT_RELEASED) {
        pairs.weight = PAIR_SHRUNK;
        pairs.scale = 1;
        pairs.once = true;
    }
    return pairs;
}

/* Sums of dX by bucket, for dV, in place of the keys' V. */
static void carry_gradients(struct head *head)
{
    const struct problem *problem = head->problem;
    const struct pair_rows *queries = &head->scratch.backward.queries, *keys = &head->scratch.backward.keys;
    const struct table_sums rows = {.queries = &head->queries,
                                    .keys = &head->keys,
                                    .to_queries = false,
                                    .values = queries->value,
                                    .ld_values = queries->ld,
                                    .out = keys->value,
                                    .ld_out = keys->ld,
                                    .dim = head->dout.cols};
    if (problem->shape.ranks > 1)
        yoso_ranks_carry(problem, &head->scratch.ranks, &rows, NULL);
    if (has_tables(problem))
        tables_sum(head->kernels, problem->pool, &head->scratch.tables, &rows);
}

static void backward(const struct problem *problem, struct view out, struct view dout,
                     const struct problem_gradients *gradients)
{
    struct head head = head_open(problem, true);
    struct yoso_scratch *scratch = &head.scratch;
    head.out = out;
    head.dout = dout;
    head.gradients = gradients;

    if (head.options->recompute)
        hash_head(&head);
    over_queries_and_keys(&head, take_block);
    const struct pairs pairs = pairs_of(&head);
    if (!pairs.near) {
        carry_gradients(&head);
        over_keys(&head, give_values);
    }
    over_keys(&head, lay_values);
    if (problem->shape.ranks > 1)
        yoso_ranks_pairs(problem, &scratch->ranks, &pairs, &scratch->backward.pairs, &head.queries,
                         &head.keys);
    else
        pairs_add(head.kernels, problem->pool, &pairs, &scratch->backward.pairs, &head.queries, &head.keys);
    if (pairs.near)
        over_keys(&head, give_values);
    over_queries_and_keys(&head, finish_block);
}

static const char *const departures[] = {
    "One set of planes per layer and step is rotated for each head and sequence; in evaluation it "
    "depends on the seed only, and all sequences hash alike.",
    "Every length, width and number of hashes is computed in full.",
    "A key mask hides keys only: a query always has an output.",
    NULL,
};

const struct mechanism mechanism_yoso = {
    .name = "yoso",
    .summary = "attention by hash collisions, linear in the length (Zeng et al. 2021)",
    .departures = departures,
    .options = yoso_sampled_rows,
    .options_size = sizeof(struct yoso_options),
    .exact = false,
    .mixes = true,
    .range = {.bounded = true, .power = 0},
    .norm_limit = unit_map_limit,
    .host = {yoso_refuse, yoso_saved_size, yoso_scratch_size, forward, backward},
    .preparation = &(const struct preparation_facet){yoso_planes_size, yoso_planes_work_size, prepare},
    .stream = &yoso_stream,
    .hashing = &(const struct hashing_facet){reads_bf16, settle, unsettled},
    .ranks = &(const struct implementation){yoso_ranks_refuse, yoso_saved_size, yoso_scratch_size, forward,
                                            backward},
    .ranks_gradient_bytes = yoso_ranks_gradient_bytes,
    .device = &yoso_gpu,
};
