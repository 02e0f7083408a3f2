/* Block-local attention: the sequence is cut into blocks of s tokens, and softmax attention runs over the
   blocks nearby, out_i = sum_j p_ij v_j over the keys of query i's own block and of the one before and the
   one after it; causal, of its own block and the two before it up to itself (the local heads of Sun et al.
   2022, whose published code also lets the first and the last block see each other: here nothing wraps). So a
   query meets at most 3 s keys, with the same work causal or not; lha's queries meet about 2 n / num_buckets.
   The last block is shorter where s does not divide n. A token's place is that among the tokens that take
   part: what is masked does not count. Of cross attention, query i and key i stand side by side; a query more
   than a block beyond the last key's meets none and gives 0. With `relative`, scores have
   Transformer-XL's learned terms for i - j (parts/relative_terms.h). Cost: 6 n s (d + d_v) operations and 3 n
   s exponentials forward (parts/tile_attention.h), with terms about 6 n s d more and what making them costs.
   Nothing is random. Saved: one float per query. SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "attention/mechanism.h"
#include "base/memory.h"
#include "parts/tile_attention.h"

struct local_options {
    int64_t block_size; /* s */
    int relative;
};

static size_t smaller(size_t a, size_t b)
{
    return a < b ? a : b;
}

static size_t block_size(const void *options)
{
    return (size_t)((const struct local_options *)options)->block_size;
}

/* Queries at a time: some whole blocks, or an equal part of one, so that few of the keys that they are
   multiplied with are unseen. */
static size_t queries_at_once(size_t s)
{
    size_t most = TILE_ATTENTION_BLOCK, parts = (s + most - 1) / most;
    return s > most ? (s + parts - 1) / parts : most / s * s;
}

static bool is_relative(const void *options)
{
    return ((const struct local_options *)options)->relative != 0;
}

/* The most that a key can stand before a query that sees it, and after it: none of a causal one. */
static size_t most_before(const void *options, const struct problem_shape *shape)
{
    size_t far = (shape->causal ? 3 : 2) * block_size(options) - 1;
    return smaller(far, shape->num_queries > 0 ? shape->num_queries - 1 : 0);
}

static size_t most_after(const void *options, const struct problem_shape *shape)
{
    size_t far = shape->causal ? 0 : 2 * block_size(options) - 1;
    return smaller(far, shape->num_keys > 0 ? shape->num_keys - 1 : 0);
}

static struct tile_attention_sizes sizes_of(const void *options, const struct problem_shape *shape)
{
    size_t s = block_size(options), block = queries_at_once(s);
    return (struct tile_attention_sizes){
        .num_queries = shape->num_queries,
        .num_keys = shape->num_keys,
        .dim = shape->head_dim,
        .value_dim = shape->value_dim,
        .block = block,
        .span = 3 * s + block,
        .terms = is_relative(options) ? most_before(options, shape) + 1 + most_after(options, shape) : 0,
        .precision = shape->precision,
        .workers = shape->workers,
    };
}

/* ---- learned parameters -------------------------------------------------------------------------------- */

static void position_shape(const void *options, size_t head_dim, size_t value_dim, size_t *rows, size_t *cols)
{
    (void)value_dim;
    *rows = is_relative(options) ? RELATIVE_WIDTH : 0;
    *cols = is_relative(options) ? head_dim : 0;
}

static void bias_shape(const void *options, size_t head_dim, size_t value_dim, size_t *rows, size_t *cols)
{
    position_shape(options, head_dim, value_dim, rows, cols);
    *rows = smaller(*rows, 1);
}

/* Starts as in the paper's models. A head's floats stand in this order: */
static const struct parameter_row params[] = {
    {"position", position_shape, 0.02f},
    {"content_bias", bias_shape, 0.02f},
    {"position_bias", bias_shape, 0.02f},
    {NULL, NULL, 0},
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
    float *dterms; /* (terms, d) */
    void *tiles;
    size_t bytes;
};

static struct scratch scratch_on(const void *options, const struct problem_shape *shape, void *block)
{
    struct scratch scratch;
    struct arena arena = arena_on(block);
    struct tile_attention_sizes sizes = sizes_of(options, shape);
    size_t forward_bytes = tile_attention_forward_size(&sizes),
           backward_bytes = tile_attention_backward_size(&sizes);
    scratch.terms = relative_terms_take(&arena, sizes.dim, most_before(options, shape), sizes.terms);
    scratch.dterms = arena_take(&arena, size_product(sizes.terms, sizes.dim), sizeof(float));
    scratch.tiles = arena_take(&arena, forward_bytes > backward_bytes ? forward_bytes : backward_bytes, 1);
    scratch.bytes = arena.used;
    return scratch;
}

/* The terms of this problem, made from its parameters; NULL where there are none. */
static const struct relative_terms *make_terms(const struct problem *problem, struct relative_terms *terms)
{
    size_t d = problem->shape.head_dim;
    if (!is_relative(problem->options))
        return NULL;
    terms->content_bias = problem->params + content_bias_at(d);
    terms->position_bias = problem->params + position_bias_at(d);
    relative_terms_make(terms, problem->kernels, problem->params);
    return terms;
}

/* ---- the mechanism ------------------------------------------------------------------------------------- */

static struct sight sight(const void *argument, size_t query)
{
    const struct problem *problem = argument;
    size_t s = block_size(problem->options), own = query / s, keys = problem->shape.num_keys;
    size_t before = smaller(own, problem->shape.causal ? 2 : 1);
    size_t end = problem->shape.causal ? problem->visible[query] : (own + 2) * s;
    return (struct sight){smaller((own - before) * s, keys), smaller(end, keys)};
}

static struct tile_attention open(const struct problem *problem, const struct relative_terms *terms)
{
    return (struct tile_attention){
        .kernels = problem->kernels,
        .pool = problem->pool,
        .sizes = sizes_of(problem->options, &problem->shape),
        .sight = sight,
        .argument = problem,
        .terms = terms,
        .query = {problem->query.data, problem->query.stride},
        .key = {problem->key.data, problem->key.stride},
        .value = {problem->value.data, problem->value.stride},
        .lse = problem->saved,
    };
}

static const char *refuse(const void *options, const struct problem_shape *shape)
{
    (void)options;
    (void)shape;
    return NULL;
}

static size_t saved_size(const void *options, const struct problem_shape *shape)
{
    (void)options;
    return size_product(shape->num_queries, sizeof(float)); /* lse */
}

static size_t scratch_size(const void *options, const struct problem_shape *shape)
{
    return scratch_on(options, shape, NULL).bytes;
}

static void forward(const struct problem *problem, struct view out)
{
    struct scratch scratch = scratch_on(problem->options, &problem->shape, problem->scratch);
    struct tile_attention attention = open(problem, make_terms(problem, &scratch.terms));
    tile_attention_forward(&attention, out.data, out.stride, scratch.tiles);
}

static void backward(const struct problem *problem, struct view out, struct view dout,
                     const struct problem_gradients *gradients)
{
    struct scratch scratch = scratch_on(problem->options, &problem->shape, problem->scratch);
    struct tile_attention attention = open(problem, make_terms(problem, &scratch.terms));
    size_t d = problem->shape.head_dim;
    float *dparams = gradients->params;
    bool learns = attention.terms != NULL && dparams != NULL;
    if (learns)
        memset(scratch.dterms, 0, attention.terms->count * d * sizeof(float));
    tile_attention_backward(
        &attention, (struct head_rows){out.data, out.stride}, (struct head_rows){dout.data, dout.stride},
        &(struct tile_gradients){.query = gradients->query.data,
                                 .key = gradients->key.data,
                                 .value = gradients->value.data,
                                 .ld_query = gradients->query.stride,
                                 .ld_key = gradients->key.stride,
                                 .ld_value = gradients->value.stride,
                                 .terms = learns ? scratch.dterms : NULL,
                                 .content_bias = learns ? dparams + content_bias_at(d) : NULL,
                                 .position_bias = learns ? dparams + position_bias_at(d) : NULL},
        scratch.tiles);
    if (learns)
        relative_terms_make_backward(attention.terms, problem->kernels, dparams, scratch.dterms);
}

static const struct option_row options[] = {
    {.name = "block_size",
     .type = OPTION_INT,
     .offset = offsetof(struct local_options, block_size),
     .preset = 64,
     .minimum = 1,
     .maximum = 1 << 20,
     .help = "tokens of a block; each token sees its own block and the two next to it, causal the two before "
             "it: at most three times as many keys"},
    {.name = "relative",
     .type = OPTION_FLAG,
     .offset = offsetof(struct local_options, relative),
     .help = "learned terms for how far a key is from its query, as in Transformer-XL"},
    {.name = NULL},
};

const struct mechanism mechanism_local = {
    .name = "local",
    .summary = "softmax attention among the tokens of a block and its neighbours",
    .options = options,
    .options_size = sizeof(struct local_options),
    .exact = true,
    .mixes = true,
    .competes = true,
    .refuse = refuse,
    .saved_size = saved_size,
    .scratch_size = scratch_size,
    .forward = forward,
    .backward = backward,
    .params = params,
};
