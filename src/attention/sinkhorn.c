/* Sparse Sinkhorn attention (Tay, Bahri, Yang, Metzler and Juan 2020, section 3): softmax attention inside a
   block of b tokens and a block of sorted keys. The sum of each key block, x_i, goes through a learned sort
   net, z_i = relu(relu(x_i W_1 + c_1) W_2 + c_2), one score per block, at most 1,024. The scores / 0.75 are
   balanced in 7 rounds (parts/patterns/sinkhorn_balance.h), R, and sort the blocks softly: K'_i = sum_j R_ij
   K_j, V'_i = sum_j R_ij V_j. Query block i attends to K'_i and K_i in one softmax, out = softmax([q K'_i, q
   K_i] / sqrt(d)) [V'_i, V_i]. Departures from the paper: it sums rows of the layer's input for x_i, here the
   keys of the head; where it adds the two scores of a key, here both keys count, as in its public
   implementations; no Gumbel noise is added to the scores, so training and evaluation compute the same. The
   missing rows of a shorter last block that is not the only one count as zeros in K' and V', as padding does
   in the paper. Causal attention is refused: the balanced columns of a block depend on later blocks. In cross
   attention, query block i is aligned with key block i; a query beyond the last attends to nothing and gives
   0. W_2 has a column for each block of the longest length, so longer sequences are refused. Cost, with N = n
   / b blocks: 4 n b (d + d_v) operations for attention, 2 n N (d + d_v) for sorting and 14 N^2 exponentials
   forward, three times that backward. Memory: twice the keys and values, and N^2 floats. Nothing is random.
   Saved: two floats per query, the scores, and 14 floats per block.
   SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "attention/mechanism.h"
#include "base/memory.h"
#include "kernels/product.h"
#include "parts/patterns/sinkhorn_balance.h"
#include "parts/tiles/tile_attention.h"

enum { ROUNDS = 7 };      /* the paper's best */
#define TEMPERATURE 0.75f /* likewise */
#define SCORE_MOST  1024.0f
enum { COLUMNS = 4 * KERNELS_TILE }; /* columns of blocks sorted per unit of work */

struct sinkhorn_options {
    int64_t block_size; /* b */
};

static size_t block_size(const void *options)
{
    return (size_t)((const struct sinkhorn_options *)options)->block_size;
}

/* N */
static size_t blocks_of(const void *options, size_t rows)
{
    size_t b = block_size(options);
    return rows / b + (rows % b > 0);
}

/* Rows of a block of n keys: b, or n if they are fewer. */
static size_t rows_of_block(const void *options, size_t n)
{
    return size_min(block_size(options), n);
}

/* ---- learned parameters -------------------------------------------------------------------------------- */

static void hidden_shape(const void *options, const struct parameter_sizes *sizes, size_t *rows, size_t *cols)
{
    (void)options;
    *rows = *cols = sizes->head_dim;
}

static void hidden_bias_shape(const void *options, const struct parameter_sizes *sizes, size_t *rows,
                              size_t *cols)
{
    (void)options;
    *rows = 1;
    *cols = sizes->head_dim;
}

static void output_shape(const void *options, const struct parameter_sizes *sizes, size_t *rows, size_t *cols)
{
    *cols = blocks_of(options, sizes->max_len);
    *rows = *cols > 0 ? sizes->head_dim : 0;
}

static void output_bias_shape(const void *options, const struct parameter_sizes *sizes, size_t *rows,
                              size_t *cols)
{
    output_shape(options, sizes, rows, cols);
    *rows = size_min(*rows, 1);
}

static const struct parameter_row params[] = {
    {"sort_hidden", hidden_shape, START_NORMAL, 0.02f, .decays = true},
    {"sort_hidden_bias", hidden_bias_shape, START_ZEROS, 0, .decays = false},
    {"sort_output", output_shape, START_NORMAL, 0.02f, .decays = true},
    {"sort_output_bias", output_bias_shape, START_ZEROS, 0, .decays = false},
    {.name = NULL},
};

/* A head's tensors, or their gradients. */
struct sort_net {
    float *hidden, *hidden_bias; /* W_1 (d, d), c_1 (d) */
    float *output, *output_bias; /* W_2 (d, width), c_2 (width) */
    size_t width;
};

static struct sort_net net_on(const struct problem *problem, float *floats)
{
    size_t d = problem->shape.head_dim;
    struct sort_net net = {.hidden = floats,
                           .hidden_bias = floats + d * d,
                           .output = floats + d * (d + 1),
                           .width = blocks_of(problem->options, problem->shape.max_len)};
    net.output_bias = net.output + d * net.width;
    return net;
}

/* ---- memory -------------------------------------------------------------------------------------------- */

struct saved {
    struct softmax_rows rows;
    float *scores, *potentials; /* (N, N), (ROUNDS, 2, N) */
    size_t bytes;
};

static struct saved saved_on(const void *options, const struct problem_shape *shape, void *block)
{
    struct saved saved;
    struct arena arena = arena_on(block);
    size_t blocks = blocks_of(options, shape->num_keys);
    saved.rows = softmax_rows_take(&arena, shape->num_queries);
    saved.scores = arena_take(&arena, size_product(blocks, blocks), sizeof(float));
    saved.potentials = arena_take(&arena, size_product(2 * ROUNDS, blocks), sizeof(float));
    saved.bytes = arena.used;
    return saved;
}

struct scratch {
    /* (2 N b, d or d_v), as the tiles see them: for each block its sorted block, then the block itself, with
       zeros if it is shorter */
    float *key, *value, *dkey, *dvalue;
    float *sums, *hidden;   /* (N, d): x, and the hidden layer */
    float *dsums, *dhidden; /* (N, d) */
    float *sort, *dsort;    /* (N, N): R, and the gradients of R and of the scores */
    float *balance;         /* sinkhorn_balance_scratch */
    void *tiles;
    size_t bytes;
};

/* Keys that the tiles see. */
static size_t sorted_keys(const void *options, size_t n)
{
    return size_product(2 * rows_of_block(options, n), blocks_of(options, n));
}

static struct tile_attention sizes_of(const void *options)
{
    size_t b = block_size(options), block = tile_attention_block(b);
    return (struct tile_attention){.block = block, .span = 2 * (b + (b > block ? b : block))};
}

static struct scratch scratch_on(const void *options, const struct problem_shape *shape, void *block)
{
    struct scratch scratch;
    struct arena arena = arena_on(block);
    const struct tile_attention sizes = sizes_of(options);
    const struct problem_shape sorted =
        shape_of_rows(shape, shape->num_queries, sorted_keys(options, shape->num_keys));
    size_t blocks = blocks_of(options, shape->num_keys), d = shape->head_dim,
           keys = size_product(sorted.num_keys, d), values = size_product(sorted.num_keys, shape->value_dim);
    scratch.key = arena_take(&arena, keys, sizeof(float));
    scratch.value = arena_take(&arena, values, sizeof(float));
    scratch.dkey = arena_take(&arena, keys, sizeof(float));
    scratch.dvalue = arena_take(&arena, values, sizeof(float));
    scratch.sums = arena_take(&arena, size_product(blocks, d), sizeof(float));
    scratch.hidden = arena_take(&arena, size_product(blocks, d), sizeof(float));
    scratch.dsums = arena_take(&arena, size_product(blocks, d), sizeof(float));
    scratch.dhidden = arena_take(&arena, size_product(blocks, d), sizeof(float));
    scratch.sort = arena_take(&arena, size_product(blocks, blocks), sizeof(float));
    scratch.dsort = arena_take(&arena, size_product(blocks, blocks), sizeof(float));
    scratch.balance = arena_take(&arena, sinkhorn_balance_scratch(blocks), sizeof(float));
    scratch.tiles = arena_take(&arena, tile_attention_size(&sorted, &sizes), 1);
    scratch.bytes = arena.used;
    return scratch;
}

/* ---- keys for the tiles -------------------------------------------------------------------------------- */

/* Copies rows to the places of their blocks. */
static void place_rows(const struct problem *problem, float *to, struct view rows)
{
    size_t n = rows.rows, b = rows_of_block(problem->options, n), cols = rows.cols;
    for (size_t i = 0; i < n; i++)
        memcpy(to + (i + (i / b + 1) * b) * cols, view_row(rows, i), cols * sizeof *to);
    size_t end = 2 * b * blocks_of(problem->options, n), used = n + blocks_of(problem->options, n) * b;
    memset(to + used * cols, 0, (end - used) * cols * sizeof *to);
}

/* Adds the gradients of the rows' places, and of the block sums unless these are NULL. */
static void add_places(const struct problem *problem, struct view rows, float *from, const float *sums)
{
    size_t n = rows.rows, b = rows_of_block(problem->options, n), cols = rows.cols;
    for (size_t i = 0; i < n; i++) {
        float *place = from + (i + (i / b + 1) * b) * cols;
        if (sums != NULL)
            problem->kernels->rows.axpy(place, 1, sums + i / b * cols, cols);
        problem->kernels->rows.axpy(view_row(rows, i), 1, place, cols);
    }
}

/* The sorted blocks of keys or of values, forward; or the gradients of the blocks themselves from those of
   the sorted ones, backward. */
struct sorting {
    const struct problem *problem;
    const float *sort;
    float *rows;
    size_t cols; /* of a block: b d or b d_v */
    bool back;
};

static void sort_columns(void *argument, size_t index, int worker)
{
    (void)worker;
    const struct sorting *s = argument;
    size_t n = blocks_of(s->problem->options, s->problem->shape.num_keys), first = index * COLUMNS,
           cols = size_min(COLUMNS, s->cols - first), ld = 2 * s->cols;
    float *sorted = s->rows + first, *own = sorted + s->cols;
    product(s->problem->kernels, s->back ? own : sorted, ld, s->sort, n, s->back, s->back ? sorted : own, ld,
            false, n, cols, n, s->back);
}

static void sort_blocks(const struct problem *problem, const float *sort, float *rows, size_t width,
                        bool back)
{
    size_t cols = width * rows_of_block(problem->options, problem->shape.num_keys);
    struct sorting sorting = {problem, sort, rows, cols, back};
    pool_run(problem->pool, sort_columns, &sorting, (cols + COLUMNS - 1) / COLUMNS);
}

/* ---- the sort net -------------------------------------------------------------------------------------- */

static void relu(const struct problem *problem, float *x, size_t count)
{
    problem->kernels->rows.gate(x, x, x, count);
}

/* The block sums and the hidden layer. */
static void run_hidden(const struct problem *problem, const struct sort_net *net,
                       const struct scratch *scratch)
{
    size_t n = problem->shape.num_keys, b = rows_of_block(problem->options, n), d = problem->shape.head_dim,
           blocks = blocks_of(problem->options, n);
    memset(scratch->sums, 0, blocks * d * sizeof(float));
    for (size_t i = 0; i < blocks; i++)
        problem->kernels->layers.add_bias_backward(scratch->sums + i * d, scratch->key + (2 * i + 1) * b * d,
                                                   b, d);
    product(problem->kernels, scratch->hidden, d, scratch->sums, d, false, net->hidden, d, false, blocks, d,
            d, false);
    problem->kernels->layers.add_bias(scratch->hidden, d, net->hidden_bias, blocks, d);
    relu(problem, scratch->hidden, blocks * d);
}

static void run_scores(const struct problem *problem, const struct sort_net *net, const float *hidden,
                       float *scores)
{
    size_t d = problem->shape.head_dim, n = blocks_of(problem->options, problem->shape.num_keys);
    product(problem->kernels, scores, n, hidden, d, false, net->output, net->width, false, n, n, d, false);
    problem->kernels->layers.add_bias(scores, n, net->output_bias, n, n);
    relu(problem, scores, n * n);
    for (size_t i = 0; i < n * n; i++)
        scores[i] = scores[i] < SCORE_MOST ? scores[i] / TEMPERATURE : SCORE_MOST / TEMPERATURE;
}

static struct sinkhorn_balance balance_on(const struct problem *problem, const struct saved *saved)
{
    return (struct sinkhorn_balance){.kernels = problem->kernels,
                                     .n = blocks_of(problem->options, problem->shape.num_keys),
                                     .rounds = ROUNDS,
                                     .scores = saved->scores,
                                     .potentials = saved->potentials};
}

/* A block of rows of the gradient of R, from those of the sorted keys and values. */
struct sort_gradient {
    const struct problem *problem;
    const struct scratch *scratch;
};

static void sort_gradient_rows(void *argument, size_t index, int worker)
{
    (void)worker;
    const struct sort_gradient *g = argument;
    const struct problem_shape *shape = &g->problem->shape;
    const struct scratch *s = g->scratch;
    size_t n = blocks_of(g->problem->options, shape->num_keys), first = index * KERNELS_TILE,
           rows = size_min(KERNELS_TILE, n - first), b = rows_of_block(g->problem->options, shape->num_keys),
           keys = b * shape->head_dim, values = b * shape->value_dim;
    product(g->problem->kernels, s->dsort + first * n, n, s->dkey + 2 * first * keys, 2 * keys, false,
            s->key + keys, 2 * keys, true, rows, n, keys, false);
    product(g->problem->kernels, s->dsort + first * n, n, s->dvalue + 2 * first * values, 2 * values, false,
            s->value + values, 2 * values, true, rows, n, values, true);
}

/* From the gradient of R in scratch->dsort to those of the net's tensors and of the block sums. */
static void net_backward(const struct problem *problem, const struct saved *saved,
                         const struct scratch *scratch, float *dparams)
{
    const struct kernels *kernels = problem->kernels;
    struct sort_net net = net_on(problem, (float *)problem->params);
    size_t d = problem->shape.head_dim, n = blocks_of(problem->options, problem->shape.num_keys);
    struct sinkhorn_balance balance = balance_on(problem, saved);
    float *dscores = scratch->dsort;
    sinkhorn_balance_backward(&balance, dscores, scratch->balance);
    for (size_t i = 0; i < n * n; i++)
        dscores[i] = saved->scores[i] < SCORE_MOST / TEMPERATURE ? dscores[i] / TEMPERATURE : 0;
    kernels->rows.gate(dscores, dscores, saved->scores, n * n);
    product(kernels, scratch->dhidden, d, dscores, n, false, net.output, net.width, true, n, d, n, false);
    kernels->rows.gate(scratch->dhidden, scratch->dhidden, scratch->hidden, n * d);
    product(kernels, scratch->dsums, d, scratch->dhidden, d, false, net.hidden, d, true, n, d, d, false);
    if (dparams == NULL)
        return;
    struct sort_net to = net_on(problem, dparams);
    product(kernels, to.output, to.width, scratch->hidden, d, true, dscores, n, false, d, n, n, true);
    kernels->layers.add_bias_backward(to.output_bias, dscores, n, n);
    product(kernels, to.hidden, d, scratch->sums, d, true, scratch->dhidden, d, false, d, d, n, true);
    kernels->layers.add_bias_backward(to.hidden_bias, scratch->dhidden, n, d);
}

/* ---- the mechanism ------------------------------------------------------------------------------------- */

/* A query's block: its sorted keys, then its own. */
static struct sight sight(const void *argument, size_t query)
{
    const struct problem *problem = argument;
    size_t n = problem->shape.num_keys, b = block_size(problem->options),
           rows = rows_of_block(problem->options, n), blocks = blocks_of(problem->options, n),
           own = query / b;
    if (own >= blocks)
        return (struct sight){2 * rows * blocks, 2 * rows * blocks};
    return (struct sight){2 * rows * own, (2 * own + 1) * rows + size_min(rows, n - own * b)};
}

/* With the sorted keys and values between its own. */
static struct problem sorted_problem(const struct problem *problem, const struct scratch *scratch)
{
    size_t keys = sorted_keys(problem->options, problem->shape.num_keys);
    struct problem sorted =
        problem_of_rows(problem, problem->query, view_of(scratch->key, keys, problem->shape.head_dim),
                        view_of(scratch->value, keys, problem->shape.value_dim));
    sorted.large = false; /* see `range` */
    return sorted;
}

static struct tile_attention open(const struct problem *problem, const struct saved *saved)
{
    struct tile_attention attention = sizes_of(problem->options);
    attention.sight = sight;
    attention.argument = problem;
    attention.rows = saved->rows;
    return attention;
}

static size_t saved_size(const void *options, const struct problem_shape *shape)
{
    return saved_on(options, shape, NULL).bytes;
}

static size_t scratch_size(const void *options, const struct problem_shape *shape)
{
    return scratch_on(options, shape, NULL).bytes;
}

/* Sorts keys and values by scratch->sort. */
static void sort_both(const struct problem *problem, const struct scratch *scratch)
{
    sort_blocks(problem, scratch->sort, scratch->key, problem->shape.head_dim, false);
    sort_blocks(problem, scratch->sort, scratch->value, problem->shape.value_dim, false);
}

static void forward(const struct problem *problem, struct view out)
{
    struct saved saved = saved_on(problem->options, &problem->shape, problem->saved);
    struct scratch scratch = scratch_on(problem->options, &problem->shape, problem->scratch);
    struct sort_net net = net_on(problem, (float *)problem->params);
    struct sinkhorn_balance balance = balance_on(problem, &saved);
    place_rows(problem, scratch.key, problem->key);
    place_rows(problem, scratch.value, problem->value);
    run_hidden(problem, &net, &scratch);
    run_scores(problem, &net, scratch.hidden, saved.scores);
    sinkhorn_balance_forward(&balance, scratch.sort, scratch.balance);
    sort_both(problem, &scratch);
    struct problem sorted = sorted_problem(problem, &scratch);
    struct tile_attention attention = open(problem, &saved);
    tile_attention_forward(&sorted, &attention, out, scratch.tiles);
}

static void backward(const struct problem *problem, struct view out, struct view dout,
                     const struct problem_gradients *gradients)
{
    struct saved saved = saved_on(problem->options, &problem->shape, problem->saved);
    struct scratch scratch = scratch_on(problem->options, &problem->shape, problem->scratch);
    struct sort_net net = net_on(problem, (float *)problem->params);
    struct sinkhorn_balance balance = balance_on(problem, &saved);
    size_t d = problem->shape.head_dim, d_v = problem->shape.value_dim;
    place_rows(problem, scratch.key, problem->key);
    place_rows(problem, scratch.value, problem->value);
    run_hidden(problem, &net, &scratch);
    sinkhorn_balance_again(&balance, scratch.sort);
    sort_both(problem, &scratch);
    struct problem sorted = sorted_problem(problem, &scratch);
    struct tile_attention attention = open(problem, &saved);
    size_t keys = sorted.shape.num_keys;
    memset(scratch.dkey, 0, keys * d * sizeof(float));
    memset(scratch.dvalue, 0, keys * d_v * sizeof(float));
    tile_attention_backward(&sorted, &attention, out, dout,
                            &(struct problem_gradients){.query = gradients->query,
                                                        .key = view_of(scratch.dkey, keys, d),
                                                        .value = view_of(scratch.dvalue, keys, d_v)},
                            scratch.tiles);
    struct sort_gradient gradient = {problem, &scratch};
    pool_run(problem->pool, sort_gradient_rows, &gradient, (balance.n + KERNELS_TILE - 1) / KERNELS_TILE);
    net_backward(problem, &saved, &scratch, gradients->params);
    sort_blocks(problem, scratch.sort, scratch.dkey, d, true);
    sort_blocks(problem, scratch.sort, scratch.dvalue, d_v, true);
    add_places(problem, gradients->key, scratch.dkey, scratch.dsums);
    add_places(problem, gradients->value, scratch.dvalue, NULL);
}

static const struct option_row options[] = {
    OPTION_ROW("block_size", OPTION_INT, offsetof(struct sinkhorn_options, block_size), 64, 1, 1 << 20, NULL,
               "tokens per block; each token sees its own block and one sorted block"),
    {.name = NULL},
};

static const char *const departures[] = {
    "Blocks are sorted by the sums of their keys.",
    "A query meets its own and its sorted block in one softmax.",
    "No Gumbel noise is added, and there is no causal form.",
    "Positions count the tokens that take part, so a key mask in the middle or in front shifts the "
    "blocks.",
    NULL,
};

const struct mechanism mechanism_sinkhorn = {
    .name = "sinkhorn",
    .summary = "softmax attention inside a block and a softly sorted block of keys (Tay et al. 2020)",
    .departures = departures,
    .options = options,
    .options_size = sizeof(struct sinkhorn_options),
    .exact = true,
    .mixes = true,
    .range = {.bounded = true, .power = 3},
    .drops_weights = true,
    .competes = true,
    .no_causal = "it has no causal form: balanced columns depend on later blocks",
    .by_position = true,
    .host = {NULL, saved_size, scratch_size, forward, backward},
    .params = params,
};
