/* Synthesizer (Tay, Bahri, Metzler, Juan, Zhao and Zheng 2021): softmax attention whose scores are learned
   instead of products of queries and keys. kind is a term of the scores, or two terms with a + between, added
   before one softmax (the paper's mixtures):
       dense       relu(q_i W1) w2_j        W1 (d, d); w2_j: row j of W2 (max_len, d)
       random      R_ij                     R (max_len, max_len)
       factorised  r1_i r2_j                rows of R1 and R2 (max_len, rank)
       dot         q_i k_j / sqrt(d)        the ordinary scores
   Tensors belong to a head. The paper computes dense scores from the layer's input; here they come from the
   queries, a learned projection of it, without biases. Positions i and j count the tokens that take part, so
   padding equals absence. Sequences shorter than max_len use the first rows and columns.
   All terms but R are products of rows laid side by side, so the attention is tiled (tile_attention.h), with
   queries and keys of their joint width w, and R is added to the tiles: only R and its gradient are n x n.
   Cost: 2 n^2 (w + d_v) operations and n^2 exponentials forward, 2.5 times that backward; dense adds 2 n d^2
   and 4 n d^2. Nothing is random. Saved: two floats per query.
   SPDX-License-Identifier: Apache-2.0 */
#include <math.h>
#include <string.h>

#include "attention/mechanism.h"
#include "base/memory.h"
#include "kernels/product.h"
#include "parts/tiles/tile_attention.h"

/* Terms of the scores. */
enum { DENSE = 1, RANDOM = 2, FACTORISED = 4, DOT = 8 };

/* In the order of the choices. */
static const unsigned terms_of_kind[] = {DENSE,        RANDOM,           FACTORISED,     DENSE | DOT,
                                         RANDOM | DOT, FACTORISED | DOT, DENSE | RANDOM, DENSE | FACTORISED};
static const char *const kinds[] = {"dense",        "random",           "factorised",
                                    "dense+dot",    "random+dot",       "factorised+dot",
                                    "dense+random", "dense+factorised", NULL};

struct synthesizer_options {
    int kind;
    int64_t rank;
};

static bool has(const void *options, unsigned term)
{
    return (terms_of_kind[((const struct synthesizer_options *)options)->kind] & term) != 0;
}

static size_t rank_of(const void *options)
{
    return (size_t)((const struct synthesizer_options *)options)->rank;
}

/* ---- learned tensors ----------------------------------------------------------------------------------- */

static void layer_shape(const void *options, const struct parameter_sizes *sizes, size_t *rows, size_t *cols)
{
    *rows = *cols = has(options, DENSE) ? sizes->head_dim : 0;
}

/* (max_len, width), or nothing. */
static void rows_shape(bool exist, size_t max_len, size_t width, size_t *rows, size_t *cols)
{
    *rows = exist ? max_len : 0;
    *cols = *rows > 0 ? width : 0;
}

static void places_shape(const void *options, const struct parameter_sizes *sizes, size_t *rows, size_t *cols)
{
    rows_shape(has(options, DENSE), sizes->max_len, sizes->head_dim, rows, cols);
}

static void pairs_shape(const void *options, const struct parameter_sizes *sizes, size_t *rows, size_t *cols)
{
    rows_shape(has(options, RANDOM), sizes->max_len, sizes->max_len, rows, cols);
}

static void factor_shape(const void *options, const struct parameter_sizes *sizes, size_t *rows, size_t *cols)
{
    rows_shape(has(options, FACTORISED), sizes->max_len, rank_of(options), rows, cols);
}

/* In the order of `struct tensors`. Starts that make scores of size about 1 or less. */
static const struct parameter_row params[] = {
    {"layer", layer_shape, START_NORMAL, 0.1f, .decays = true},
    {"places", places_shape, START_NORMAL, 0.1f, .decays = true},
    {"pairs", pairs_shape, START_NORMAL, 0.02f, .decays = true},
    {"query_factor", factor_shape, START_NORMAL, 0.1f, .decays = true},
    {"key_factor", factor_shape, START_NORMAL, 0.1f, .decays = true},
    {.name = NULL},
};

/* A head's tensors, or their gradients; NULL: not among the terms, or not wanted. */
struct tensors {
    float *layer, *places, *pairs, *query_factor, *key_factor;
};

static struct tensors tensors_at(const void *options, const struct problem_shape *shape, const float *block)
{
    float *next = (float *)block;
    size_t d = shape->head_dim, longest = shape->max_len, rank = rank_of(options);
    struct tensors t = {NULL, NULL, NULL, NULL, NULL};
    if (block == NULL)
        return t;
    if (has(options, DENSE)) {
        t.layer = next;
        t.places = next + d * d;
        next = t.places + longest * d;
    }
    if (has(options, RANDOM)) {
        t.pairs = next;
        next += longest * longest;
    }
    if (has(options, FACTORISED)) {
        t.query_factor = next;
        t.key_factor = next + longest * rank;
    }
    return t;
}

/* ---- memory -------------------------------------------------------------------------------------------- */

/* Columns of the joint rows: where each term begins, and how many there are. At least one, of zeros for R by
   itself. */
struct columns {
    size_t dense, factorised, dot, width;
};

static struct columns columns_of(const void *options, const struct problem_shape *shape)
{
    struct columns c = {0, 0, 0, 0};
    c.factorised = has(options, DENSE) ? shape->head_dim : 0;
    c.dot = c.factorised + (has(options, FACTORISED) ? rank_of(options) : 0);
    c.width = size_max(c.dot + (has(options, DOT) ? shape->head_dim : 0), 1);
    return c;
}

/* The shape of attention over the joint rows. */
static struct problem_shape joint_shape(const void *options, const struct problem_shape *shape)
{
    struct problem_shape joint = *shape;
    joint.head_dim = columns_of(options, shape).width;
    return joint;
}

static const struct tile_attention sizes = {.block = TILE_ATTENTION_BLOCK};

struct scratch {
    float *query, *dquery; /* (n_q, width) */
    float *key, *dkey;     /* (n_k, width) */
    void *tiles;
    size_t bytes;
};

static struct scratch scratch_on(const void *options, const struct problem_shape *shape, void *block)
{
    struct scratch s;
    struct arena arena = arena_on(block);
    const struct problem_shape joint = joint_shape(options, shape);
    s.query = arena_take(&arena, size_product(shape->num_queries, joint.head_dim), sizeof(float));
    s.dquery = arena_take(&arena, size_product(shape->num_queries, joint.head_dim), sizeof(float));
    s.key = arena_take(&arena, size_product(shape->num_keys, joint.head_dim), sizeof(float));
    s.dkey = arena_take(&arena, size_product(shape->num_keys, joint.head_dim), sizeof(float));
    s.tiles = arena_take(&arena, tile_attention_size(&joint, &sizes), 1);
    s.bytes = arena.used;
    return s;
}

static size_t scratch_size(const void *options, const struct problem_shape *shape)
{
    return scratch_on(options, shape, NULL).bytes;
}

/* ---- joint rows ---------------------------------------------------------------------------------------- */

/* Columns `at` .. of the rows `to`, ld apart, = factor * rows of `from`. */
static void put(float *to, size_t ld, size_t at, const float *from, size_t ld_from, size_t rows, size_t cols,
                float factor)
{
    for (size_t i = 0; i < rows; i++)
        for (size_t c = 0; c < cols; c++)
            to[i * ld + at + c] = factor * from[i * ld_from + c];
}

/* The rows `to`, ld apart, += factor * columns `at` .. of `from`. */
static void take(const struct kernels *kernels, float *to, size_t ld, const float *from, size_t ld_from,
                 size_t at, size_t rows, size_t cols, float factor)
{
    for (size_t i = 0; i < rows; i++)
        kernels->rows.axpy(to + i * ld, factor, from + i * ld_from + at, cols);
}

/* The tiles divide products by sqrt(width); queries are multiplied by it, those of dot by sqrt(width / d). */
struct factors {
    float all, dot;
};

static struct factors factors_of(const struct problem *problem)
{
    double width = (double)columns_of(problem->options, &problem->shape).width;
    return (struct factors){(float)sqrt(width), (float)sqrt(width / (double)problem->shape.head_dim)};
}

static void make_rows(const struct problem *problem, const struct scratch *s)
{
    const struct kernels *kernels = problem->kernels;
    const void *options = problem->options;
    struct columns at = columns_of(options, &problem->shape);
    struct tensors t = tensors_at(options, &problem->shape, problem->params);
    struct factors factors = factors_of(problem);
    size_t n_q = problem->shape.num_queries, n_k = problem->shape.num_keys, d = problem->shape.head_dim,
           rank = rank_of(options);
    struct view query = problem->query, key = problem->key;
    if (!has(options, DENSE | FACTORISED | DOT)) {
        memset(s->query, 0, n_q * sizeof *s->query);
        memset(s->key, 0, n_k * sizeof *s->key);
    }
    if (has(options, DENSE)) {
        product(kernels, s->query + at.dense, at.width, view_row(query, 0), query.stride, false, t.layer, d,
                false, n_q, d, d, false);
        for (size_t i = 0; i < n_q; i++) {
            float *row = s->query + i * at.width + at.dense;
            kernels->rows.gate(row, row, row, d);
            kernels->rows.scale(row, d, &factors.all, 1, d);
        }
        put(s->key, at.width, at.dense, t.places, d, n_k, d, 1);
    }
    if (has(options, FACTORISED)) {
        put(s->query, at.width, at.factorised, t.query_factor, rank, n_q, rank, factors.all);
        put(s->key, at.width, at.factorised, t.key_factor, rank, n_k, rank, 1);
    }
    if (has(options, DOT)) {
        put(s->query, at.width, at.dot, view_row(query, 0), query.stride, n_q, d, factors.dot);
        put(s->key, at.width, at.dot, view_row(key, 0), key.stride, n_k, d, 1);
    }
}

/* From the gradients of the joint rows. s->query holds the rows; the gradient of its dense columns is
   overwritten. */
static void rows_backward(const struct problem *problem, const struct scratch *s,
                          const struct problem_gradients *gradients)
{
    const struct kernels *kernels = problem->kernels;
    const void *options = problem->options;
    struct columns at = columns_of(options, &problem->shape);
    struct tensors t = tensors_at(options, &problem->shape, problem->params),
                   dt = tensors_at(options, &problem->shape, gradients->params);
    struct factors factors = factors_of(problem);
    size_t n_q = problem->shape.num_queries, n_k = problem->shape.num_keys, d = problem->shape.head_dim,
           rank = rank_of(options), w = at.width;
    struct view query = problem->query, dquery = gradients->query, dkey = gradients->key;
    if (has(options, DENSE)) {
        float *drows = s->dquery + at.dense;
        for (size_t i = 0; i < n_q; i++) {
            kernels->rows.gate(drows + i * w, drows + i * w, s->query + i * w + at.dense, d);
            kernels->rows.scale(drows + i * w, d, &factors.all, 1, d);
        }
        product(kernels, view_row(dquery, 0), dquery.stride, drows, w, false, t.layer, d, true, n_q, d, d,
                true);
        if (dt.layer != NULL) {
            product(kernels, dt.layer, d, view_row(query, 0), query.stride, true, drows, w, false, d, d, n_q,
                    true);
            take(kernels, dt.places, d, s->dkey, w, at.dense, n_k, d, 1);
        }
    }
    if (has(options, FACTORISED) && dt.query_factor != NULL) {
        take(kernels, dt.query_factor, rank, s->dquery, w, at.factorised, n_q, rank, factors.all);
        take(kernels, dt.key_factor, rank, s->dkey, w, at.factorised, n_k, rank, 1);
    }
    if (has(options, DOT)) {
        take(kernels, view_row(dquery, 0), dquery.stride, s->dquery, w, at.dot, n_q, d, factors.dot);
        take(kernels, view_row(dkey, 0), dkey.stride, s->dkey, w, at.dot, n_k, d, 1);
    }
}

/* ---- the mechanism ------------------------------------------------------------------------------------- */

static const char *refuse(const void *options, const struct problem_shape *shape)
{
    (void)options;
    if (shape->num_queries > shape->max_len)
        return "its tensors have a place per position up to max_len; there are more queries";
    return NULL;
}

static struct sight sight(const void *argument, size_t query)
{
    return (struct sight){0, problem_seen(argument, query)};
}

/* With the joint rows. */
static struct problem joint_problem(const struct problem *problem, const struct scratch *s)
{
    size_t width = columns_of(problem->options, &problem->shape).width;
    struct problem joint = problem_of_rows(problem, view_of(s->query, problem->shape.num_queries, width),
                                           view_of(s->key, problem->shape.num_keys, width), problem->value);
    joint.large = false; /* see `range` */
    return joint;
}

static struct tile_attention open(const struct problem *problem, float *dparams)
{
    struct arena saved = arena_on(problem->saved);
    return (struct tile_attention){
        .block = TILE_ATTENTION_BLOCK,
        .sight = problem->shape.causal ? sight : NULL,
        .argument = problem,
        .bias = tensors_at(problem->options, &problem->shape, problem->params).pairs,
        .dbias = tensors_at(problem->options, &problem->shape, dparams).pairs,
        .ld_bias = problem->shape.max_len,
        .rows = softmax_rows_take(&saved, problem->shape.num_queries),
    };
}

static void forward(const struct problem *problem, struct view out)
{
    struct scratch s = scratch_on(problem->options, &problem->shape, problem->scratch);
    struct problem joint = joint_problem(problem, &s);
    struct tile_attention attention = open(problem, NULL);
    make_rows(problem, &s);
    tile_attention_forward(&joint, &attention, out, s.tiles);
}

static void backward(const struct problem *problem, struct view out, struct view dout,
                     const struct problem_gradients *gradients)
{
    struct scratch s = scratch_on(problem->options, &problem->shape, problem->scratch);
    struct problem joint = joint_problem(problem, &s);
    struct tile_attention attention = open(problem, gradients->params);
    size_t n_q = joint.shape.num_queries, n_k = joint.shape.num_keys, width = joint.shape.head_dim;
    make_rows(problem, &s);
    memset(s.dquery, 0, n_q * width * sizeof *s.dquery);
    memset(s.dkey, 0, n_k * width * sizeof *s.dkey);
    tile_attention_backward(&joint, &attention, out, dout,
                            &(struct problem_gradients){.query = view_of(s.dquery, n_q, width),
                                                        .key = view_of(s.dkey, n_k, width),
                                                        .value = gradients->value},
                            s.tiles);
    rows_backward(problem, &s, gradients);
}

static const struct option_row options[] = {
    OPTION_ROW("kind", OPTION_CHOICE, offsetof(struct synthesizer_options, kind), 0, 0, 0, kinds,
               "what the scores are: dense (from the query), random (learned per pair of positions), "
               "factorised (the same, of low rank), or two of them added; dot are the ordinary scores"),
    OPTION_ROW("rank", OPTION_INT, offsetof(struct synthesizer_options, rank), 32, 1, 65536, NULL,
               "rank of factorised scores"),
    {.name = NULL},
};

static const char *const departures[] = {
    "Dense scores are computed from the queries, without biases.",
    "Positions count the tokens that take part, so a key mask in the middle or in front shifts the "
    "rows and columns of the scores.",
    NULL,
};

const struct mechanism mechanism_synthesizer = {
    .name = "synthesizer",
    .summary =
        "softmax attention with learned scores instead of products of queries and keys (Tay et al. 2021)",
    .departures = departures,
    .options = options,
    .options_size = sizeof(struct synthesizer_options),
    .exact = true,
    .quadratic = true,
    .mixes = true,
    .range = {.bounded = true, .power = 2},
    .drops_weights = true,
    .competes = true,
    .by_position = true,
    .host = {refuse, softmax_rows_size, scratch_size, forward, backward},
    .params = params,
};
