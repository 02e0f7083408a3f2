/* Block-local attention: softmax attention in blocks of s tokens. out_i = sum_j p_ij v_j over the keys of
   query i's own block and its two neighbours; causal: of its own block, up to itself, and the two blocks
   before it (the local heads of Sun et al. 2022). A query thus attends to at most 3 s keys, with the same
   work causal or not; in lha it attends to about 2 n / num_buckets. The last block is shorter if s does not
   divide n. Positions count only the tokens that take part: masked tokens are skipped. In cross attention,
   query i is aligned with key i; a query more than a block beyond the last key attends to none and gives 0.
   `wrap` makes the first and last block neighbours, as in the published code, except that each key counts
   once even with few blocks; it costs a copy of keys and values, two blocks longer. `relative` adds
   Transformer-XL's learned terms for i - j to the scores (parts/tiles/relative_terms.h); with `wrap`, i - j
   is the shorter way round the ring of n tokens, -n/2 < i - j <= n/2, for any number of blocks.
   Cost: 6 n s (d + d_v) operations and 3 n s exponentials forward (tile_attention.h); terms add about 6 n s
   d and the cost of making them. Nothing is random. Saved: two floats per query.
   If ranks share the rows, a rank copies its keys and values between h = 2 s - 1 (causal: 3 s - 1, before
   only) of either neighbour, from which it gets them and to which their gradients return: 4 h (d + d_v) bytes
   to a neighbour forward, twice that backward.
   SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "attention/mechanism.h"
#include "base/memory.h"
#include "parts/tiles/double_attention.h"
#include "parts/tiles/tile_attention.h"

struct local_options {
    int64_t block_size; /* s */
    int relative, wrap;
};

static size_t block_size(const void *options)
{
    return (size_t)((const struct local_options *)options)->block_size;
}

static bool is_relative(const void *options)
{
    return ((const struct local_options *)options)->relative != 0;
}

static bool wraps(const void *options)
{
    return ((const struct local_options *)options)->wrap != 0;
}

/* true if the tokens form a ring: no distance is longer than half of it. */
static bool on_ring(const void *options, const struct problem_shape *shape)
{
    return wraps(options) && !shape->causal;
}

/* true if the keys wrap around: the tiles then read a copy, with the last block in front and the first block
   behind. With up to three blocks, all are neighbours anyway. */
static bool goes_round(const void *options, const struct problem_shape *shape)
{
    return on_ring(options, shape) && shape->num_keys > 3 * block_size(options);
}

/* Rows of the keys that ranks which share a sequence get from a neighbour. */
static size_t neighbour_rows(const void *options, const struct problem_shape *shape)
{
    return (shape->causal ? 3 : 2) * block_size(options) - 1;
}

/* Rows of the last block of n. */
static size_t last_block(size_t s, size_t n)
{
    return n - (n - 1) / s * s;
}

/* Largest distance of a seen key before its query, and after it (causal: 0). */
static size_t most_before(const void *options, const struct problem_shape *shape)
{
    size_t far = (shape->causal ? 3 : 2) * block_size(options) - 1;
    size_t n = shape->ranks > 1 ? shape->total_rows : shape->num_queries;
    return size_min(far, on_ring(options, shape) ? n / 2 : n - (n > 0));
}

static size_t most_after(const void *options, const struct problem_shape *shape)
{
    size_t far = shape->causal ? 0 : 2 * block_size(options) - 1;
    size_t keys = shape->ranks > 1 ? shape->total_rows : shape->num_keys, n = keys - (keys > 0);
    return size_min(far, on_ring(options, shape) ? n / 2 : n);
}

static struct tile_attention sizes_of(const void *options, const struct problem_shape *shape)
{
    size_t s = block_size(options), block = tile_attention_block(s);
    return (struct tile_attention){
        .block = block,
        /* Long blocks are cut into parts that may straddle two blocks and then see four. */
        .span = 3 * s + (s > block ? s : block),
        .num_terms = is_relative(options) ? most_before(options, shape) + 1 + most_after(options, shape) : 0,
    };
}

/* ---- learned parameters -------------------------------------------------------------------------------- */

static void position_shape(const void *options, const struct parameter_sizes *sizes, size_t *rows,
                           size_t *cols)
{
    *rows = is_relative(options) ? RELATIVE_WIDTH : 0;
    *cols = is_relative(options) ? sizes->head_dim : 0;
}

static void bias_shape(const void *options, const struct parameter_sizes *sizes, size_t *rows, size_t *cols)
{
    position_shape(options, sizes, rows, cols);
    *rows = size_min(*rows, 1);
}

/* Starts as in the paper's models. The order of a head's floats: */
static const struct parameter_row params[] = {
    {"position", position_shape, START_NORMAL, 0.02f, .decays = true, .places = true},
    {"content_bias", bias_shape, START_NORMAL, 0.02f, .decays = false},
    {"position_bias", bias_shape, START_NORMAL, 0.02f, .decays = false},
    {.name = NULL},
};

static size_t content_bias_at(size_t head_dim)
{
    return RELATIVE_WIDTH * head_dim;
}

static size_t position_bias_at(size_t head_dim)
{
    return (RELATIVE_WIDTH + 1) * head_dim;
}

/* ---- memory -------------------------------------------------------------------------------------------- */

struct scratch {
    struct relative_terms terms;
    float *key, *value, *dkey,
        *dvalue;     /* (n + 2 s, d or d_v): if the keys wrap around; with ranks (h + n + h) */
    float *returned; /* with ranks: (h, d or d_v) gradients from a neighbour */
    void *tiles;
    size_t bytes;
};

static struct scratch scratch_on(const void *options, const struct problem_shape *shape, void *block)
{
    struct scratch scratch;
    struct arena arena = arena_on(block);
    const struct tile_attention sizes = sizes_of(options, shape);
    size_t keys = 0, d = shape->head_dim, d_v = shape->value_dim,
           returned = shape->ranks > 1 ? neighbour_rows(options, shape) : 0;
    if (goes_round(options, shape)) /* the upper bound: sizes never fall with n */
        keys = size_sum(shape->num_keys, 2 * block_size(options));
    if (shape->ranks > 1)
        keys = size_sum(shape->num_keys, 2 * neighbour_rows(options, shape));
    const struct problem_shape tiled =
        shape_of_rows(shape, shape->num_queries, keys > 0 ? keys : shape->num_keys);
    scratch.terms = relative_terms_take(&arena, d, most_before(options, shape), sizes.num_terms);
    scratch.key = arena_take(&arena, size_product(keys, d), sizeof(float));
    scratch.value = arena_take(&arena, size_product(keys, d_v), sizeof(float));
    scratch.dkey = arena_take(&arena, size_product(keys, d), sizeof(float));
    scratch.dvalue = arena_take(&arena, size_product(keys, d_v), sizeof(float));
    scratch.returned = arena_take(&arena, returned, size_product(size_max(d, d_v), sizeof(float)));
    scratch.tiles = arena_take(&arena, tile_attention_size(&tiled, &sizes), 1);
    scratch.bytes = arena.used;
    return scratch;
}

/* The terms of this problem, made from its parameters; NULL if it has none. dparams: NULL forward, or not
   wanted. */
static const struct relative_terms *make_terms(const struct problem *problem, struct relative_terms *terms,
                                               float *dparams)
{
    size_t d = problem->shape.head_dim;
    if (!is_relative(problem->options))
        return NULL;
    terms->ring = on_ring(problem->options, &problem->shape) ? problem->shape.num_keys : 0;
    terms->content_bias = problem->params + content_bias_at(d);
    terms->position_bias = problem->params + position_bias_at(d);
    terms->weight = problem->params;
    if (dparams != NULL) {
        terms->dcontent_bias = dparams + content_bias_at(d);
        terms->dposition_bias = dparams + position_bias_at(d);
        terms->dweight = dparams;
    }
    relative_terms_make(terms, problem->kernels);
    return terms;
}

/* The caller checks rows, not parameters. */
static bool has_large_params(const struct problem *problem)
{
    size_t d = problem->shape.head_dim;
    return is_relative(problem->options) &&
           problem->kernels->rows.sum_squares(problem->params, position_bias_at(d) + d) >= DOUBLE_SQUARES;
}

/* ---- the mechanism ------------------------------------------------------------------------------------- */

static struct sight sight(const void *argument, size_t query)
{
    const struct problem *problem = argument;
    size_t s = block_size(problem->options), own = query / s, keys = problem->shape.num_keys;
    size_t before = size_min(own, problem->shape.causal ? 2 : 1);
    size_t end = problem->shape.causal ? problem->visible[query] : (own + 2) * s;
    if (on_ring(problem->options, &problem->shape))
        return (struct sight){0, keys};
    return (struct sight){size_min((own - before) * s, keys), size_min(end, keys)};
}

/* The same for keys that wrap around: index 0 is the first key of the last block. */
static struct sight sight_round(const void *argument, size_t query)
{
    const struct problem *problem = argument;
    size_t s = block_size(problem->options), own = query / s, keys = problem->shape.num_keys,
           last = last_block(s, keys);
    return (struct sight){own == 0 ? 0 : last + (own - 1) * s,
                          own == (keys - 1) / s ? last + keys + s : last + size_min((own + 2) * s, keys)};
}

/* to (rows, cols) = rows first .. first + count - 1. */
static float *copy(float *to, struct view rows, size_t first, size_t count)
{
    for (size_t i = 0; i < count; i++, to += rows.cols)
        memcpy(to, view_row(rows, first + i), rows.cols * sizeof *to);
    return to;
}

static void go_round(float *to, struct view rows, size_t s)
{
    size_t last = last_block(s, rows.rows);
    to = copy(to, rows, rows.rows - last, last);
    to = copy(to, rows, 0, rows.rows);
    copy(to, rows, 0, s);
}

/* rows first .. first + count - 1 += from. Returns the rest of from. */
static const float *add(const struct kernels *kernels, struct view rows, size_t first, size_t count,
                        const float *from)
{
    for (size_t i = 0; i < count; i++, from += rows.cols)
        kernels->rows.axpy(view_row(rows, first + i), 1, from, rows.cols);
    return from;
}

/* large: the sum of a key's gradients from two places may overflow. */
static void come_back(const struct kernels *kernels, struct view rows, const float *from, size_t s,
                      bool large)
{
    size_t last = last_block(s, rows.rows);
    from = add(kernels, rows, rows.rows - last, last, from);
    from = add(kernels, rows, 0, rows.rows, from);
    add(kernels, rows, 0, s, from);
    for (size_t i = 0; large && i < rows.rows; i++)
        for (size_t c = 0; c < rows.cols; c++) {
            float *each = view_row(rows, i) + c;
            *each = double_bounded((double)*each);
        }
}

/* The problem with the keys that tiles read, and what they need beside it. */
struct tiled {
    struct problem problem;
    struct tile_attention attention;
};

static struct tiled open(const struct problem *problem, struct scratch *scratch, float *dparams)
{
    struct arena saved = arena_on(problem->saved);
    struct tiled tiled = {*problem, sizes_of(problem->options, &problem->shape)};
    tiled.problem.large = (problem->large || has_large_params(problem)) && !drops_weights(&problem->dropout);
    tiled.attention.sight = sight;
    tiled.attention.argument = problem;
    tiled.attention.terms = make_terms(problem, &scratch->terms, dparams);
    tiled.attention.rows = softmax_rows_take(&saved, problem->shape.num_queries);
    if (!goes_round(problem->options, &problem->shape))
        return tiled;
    size_t s = block_size(problem->options), keys = problem->shape.num_keys, last = last_block(s, keys);
    scratch->terms.keys_before = last;
    go_round(scratch->key, problem->key, s);
    go_round(scratch->value, problem->value, s);
    tiled.attention.sight = sight_round;
    tiled.problem = problem_of_rows(&tiled.problem, problem->query,
                                    view_of(scratch->key, keys + last + s, problem->key.cols),
                                    view_of(scratch->value, keys + last + s, problem->value.cols));
    return tiled;
}

/* ---- rows that ranks share ----------------------------------------------------------------------------- */

/* Index in the sequence of the first row here. */
static size_t first_row(const struct problem *problem)
{
    size_t first, end;
    comm_span(problem->ranks->comm, problem->shape.total_rows, &first, &end);
    return first;
}

/* Key 0 is the first of the rows from the rank before. */
static struct sight sight_shared(const void *argument, size_t query)
{
    const struct problem *problem = argument;
    size_t start = first_row(problem), at = start + query, s = block_size(problem->options), own = at / s;
    size_t h = neighbour_rows(problem->options, &problem->shape);
    size_t before = size_min(own, problem->shape.causal ? 2 : 1);
    size_t end = problem->shape.causal ? at + 1 : size_min((own + 2) * s, problem->shape.total_rows);
    return (struct sight){(own - before) * s + h - start, end + h - start};
}

/* to (h + n + h, cols): the rows of the rank before, of this one and of the one after; zeros at the ends. */
static void gather(const struct problem *problem, struct view rows, float *to)
{
    size_t n = rows.rows, h = neighbour_rows(problem->options, &problem->shape), cols = rows.cols;
    copy(to + h * cols, rows, 0, n);
    row_ranks_shift(problem->ranks, to + n * cols, to, h * cols * sizeof *to, false);
    if (problem->shape.causal)
        memset(to + (h + n) * cols, 0, h * cols * sizeof *to);
    else
        row_ranks_shift(problem->ranks, to + h * cols, to + (h + n) * cols, h * cols * sizeof *to, true);
}

/* rows += the gradients from (h + n + h, cols) of this rank, and those of its rows from the neighbours. */
static void give_back(const struct problem *problem, struct view rows, const float *from, float *returned)
{
    size_t n = rows.rows, h = neighbour_rows(problem->options, &problem->shape), cols = rows.cols;
    const struct kernels *kernels = problem->kernels;
    add(kernels, rows, 0, n, from + h * cols);
    row_ranks_shift(problem->ranks, from, returned, h * cols * sizeof *returned, true);
    add(kernels, rows, n - h, h, returned);
    if (problem->shape.causal)
        return;
    row_ranks_shift(problem->ranks, from + (h + n) * cols, returned, h * cols * sizeof *returned, false);
    add(kernels, rows, 0, h, returned);
}

static struct tiled open_shared(const struct problem *problem, struct scratch *scratch, float *dparams)
{
    struct tiled tiled = open(problem, scratch, dparams);
    size_t h = neighbour_rows(problem->options, &problem->shape), keys = problem->shape.num_keys + 2 * h;
    scratch->terms.keys_before = h;
    gather(problem, problem->key, scratch->key);
    gather(problem, problem->value, scratch->value);
    tiled.attention.sight = sight_shared;
    tiled.problem =
        problem_of_rows(&tiled.problem, problem->query, view_of(scratch->key, keys, problem->key.cols),
                        view_of(scratch->value, keys, problem->value.cols));
    tiled.problem.dropout.first_query = first_row(problem);
    tiled.problem.dropout.first_key = first_row(problem) - h;
    return tiled;
}

static const char *refuse_shared(const void *options, const struct problem_shape *shape)
{
    if (wraps(options))
        return "`wrap` must be off if ranks share a sequence";
    if (shape->total_rows / shape->ranks < neighbour_rows(options, shape))
        return "`block_size` is {block_size}; each rank needs at least 2 x {block_size} - 1 rows of a "
               "sequence "
               "that ranks share (causal: 3 x {block_size} - 1)";
    return NULL;
}

/* ---- slots --------------------------------------------------------------------------------------------- */

static const char *refuse(const void *options, const struct problem_shape *shape)
{
    if (on_ring(options, shape) && shape->num_queries != shape->num_keys)
        return "`wrap` needs as many queries as keys";
    return NULL;
}

/* Its block and the two before it. Learned terms are no part of a product of rows. */
static bool softmax_window(const void *options, size_t *window, size_t *step)
{
    *step = block_size(options);
    *window = 3 * *step;
    return !is_relative(options);
}

static size_t scratch_size(const void *options, const struct problem_shape *shape)
{
    return scratch_on(options, shape, NULL).bytes;
}

static void forward(const struct problem *problem, struct view out)
{
    struct scratch scratch = scratch_on(problem->options, &problem->shape, problem->scratch);
    struct tiled tiled =
        problem->shape.ranks > 1 ? open_shared(problem, &scratch, NULL) : open(problem, &scratch, NULL);
    tile_attention_forward(&tiled.problem, &tiled.attention, out, scratch.tiles);
}

static void backward(const struct problem *problem, struct view out, struct view dout,
                     const struct problem_gradients *gradients)
{
    struct scratch scratch = scratch_on(problem->options, &problem->shape, problem->scratch);
    bool shared = problem->shape.ranks > 1;
    struct tiled tiled = shared ? open_shared(problem, &scratch, gradients->params)
                                : open(problem, &scratch, gradients->params);
    size_t d = problem->shape.head_dim, d_v = problem->shape.value_dim, keys = tiled.problem.shape.num_keys;
    bool copies = shared || goes_round(problem->options, &problem->shape);
    struct problem_gradients to = *gradients;
    if (copies) {
        memset(scratch.dkey, 0, keys * d * sizeof(float));
        memset(scratch.dvalue, 0, keys * d_v * sizeof(float));
        to.key = view_of(scratch.dkey, keys, d);
        to.value = view_of(scratch.dvalue, keys, d_v);
    }
    tile_attention_backward(&tiled.problem, &tiled.attention, out, dout, &to, scratch.tiles);
    if (shared) {
        give_back(problem, gradients->key, scratch.dkey, scratch.returned);
        give_back(problem, gradients->value, scratch.dvalue, scratch.returned);
    } else if (copies) {
        size_t s = block_size(problem->options);
        bool large = tiled.problem.large || softmax_rows_in_double(&tiled.attention.rows);
        come_back(problem->kernels, gradients->key, scratch.dkey, s, large);
        come_back(problem->kernels, gradients->value, scratch.dvalue, s, large);
    }
}

static const struct option_row options[] = {
    OPTION_ROW("block_size", OPTION_INT, offsetof(struct local_options, block_size), 64, 1, 1 << 20, NULL,
               "tokens per block; each token sees its own block and both neighbours (causal: the two blocks "
               "before it), so at most 3 x block_size keys"),
    OPTION_ROW(
        "relative", OPTION_FLAG, offsetof(struct local_options, relative), 0, 0, 0, NULL,
        "learned relative positions as in Transformer-XL; with wrap, distance is the shorter way round"),
    OPTION_ROW(
        "wrap", OPTION_FLAG, offsetof(struct local_options, wrap), 0, 0, 0, NULL,
        "treat the first and last block as neighbours, as in the released code; not in causal attention"),
    {.name = NULL},
};

static const char *const departures[] = {
    "No key is met twice, even with one or two blocks.",
    "Relative scores are scaled once, their biases belong to a layer, and a distance has 64 "
    "sinusoids.",
    "Positions count the tokens that take part, so a key mask in the middle or in front shifts the "
    "blocks.",
    NULL,
};

const struct mechanism mechanism_local = {
    .name = "local",
    .summary = "softmax attention inside a block of tokens and its two neighbouring blocks",
    .departures = departures,
    .options = options,
    .options_size = sizeof(struct local_options),
    .exact = true,
    .mixes = true,
    .drops_weights = true,
    .competes = true,
    .softmax_window = softmax_window,
    .host = {refuse, softmax_rows_size, scratch_size, forward, backward},
    .params = params,
    .ranks =
        &(const struct implementation){refuse_shared, softmax_rows_size, scratch_size, forward, backward},
};
