/* Plain loops. With terms, (q_i + v) r_t is computed as (W (q_i + v)) sinusoids(t), so each pair costs
   RELATIVE_WIDTH operations and no r_t is made.
   SPDX-License-Identifier: Apache-2.0 */
#include "parts/tiles/double_attention.h"

#include <math.h>
#include <string.h>

#include "parts/rows/plain_norm.h"
#include "parts/rows/row_squares.h"

enum { BLOCK = 16 }; /* queries per unit of work */

/* Limit of the product of four arrays' sizes and the number of terms: 2^8 below overflow. */
static const double limit = 0x1p120;

/* ---- is it needed? ------------------------------------------------------------------------------------- */

/* At least 1, and at least the root of the sum of squares of rows: bounds every number, length, and, as a
   product of two sizes, dot product. */
static double size_of(const struct kernels *kernels, struct view rows, size_t count)
{
    return sqrt(1 + row_squares(kernels, rows, NULL, 0, count));
}

bool double_is_needed(const struct problem *problem, const struct double_attention *a,
                      const struct view *dout)
{
    const struct kernels *kernels = problem->kernels;
    size_t num_queries = problem->shape.num_queries, num_keys = problem->shape.num_keys,
           dim = problem->shape.head_dim;
    double query = sqrt((double)num_queries * (double)dim), key = sqrt((double)num_keys * (double)dim);
    if (!a->norm) {
        query = size_of(kernels, problem->query, num_queries);
        key = size_of(kernels, problem->key, num_keys);
    }
    if (a->terms != NULL) {
        const struct relative_terms *terms = a->terms;
        query += size_of(kernels, view_of(terms->content_bias, 1, dim), 1) +
                 size_of(kernels, view_of(terms->position_bias, 1, dim), 1);
        key += RELATIVE_WIDTH * size_of(kernels, view_of(terms->weight, RELATIVE_WIDTH, dim), RELATIVE_WIDTH);
    }
    double value = size_of(kernels, problem->value, num_keys);
    double gradient = dout == NULL ? sqrt(DOUBLE_SQUARES) : size_of(kernels, *dout, num_queries);
    double largest = query * key * value * gradient * (double)a->most;
    return largest >= limit && largest < INFINITY;
}

/* ---- one pair ------------------------------------------------------------------------------------------ */

/* Memory of one thread, for the current query; key: for the current pair. */
struct pair_memory {
    double *content, *position, *key; /* (d): q + u, q + v; k */
    double *projected;                /* (RELATIVE_WIDTH): W (q + v) */
    double *out;                      /* (d_v) */
    double *dquery, *waves;           /* (d); (RELATIVE_WIDTH): the sum of dS sinusoids */
    size_t bytes;
};

static struct pair_memory memory_on(const struct problem_shape *shape, void *block)
{
    struct pair_memory memory;
    struct arena arena = arena_on(block);
    size_t dim = shape->head_dim;
    memory.content = arena_take(&arena, dim, sizeof(double));
    memory.position = arena_take(&arena, dim, sizeof(double));
    memory.key = arena_take(&arena, dim, sizeof(double));
    memory.projected = arena_take(&arena, RELATIVE_WIDTH, sizeof(double));
    memory.out = arena_take(&arena, shape->value_dim, sizeof(double));
    memory.dquery = arena_take(&arena, dim, sizeof(double));
    memory.waves = arena_take(&arena, RELATIVE_WIDTH, sizeof(double));
    memory.bytes = arena.used;
    return memory;
}

static struct pair_memory memory_of(const struct problem_shape *shape, void *scratch, int worker)
{
    size_t bytes = memory_on(shape, NULL).bytes;
    return memory_on(shape, (unsigned char *)scratch + (size_t)worker * bytes);
}

size_t double_attention_size(const struct problem_shape *shape)
{
    return size_product(shape->workers, memory_on(shape, NULL).bytes);
}

/* A pass that calls `pair` on all keys that query i meets, in order. */
struct pair_pass {
    const struct problem *problem;
    const struct double_attention *attention;
    struct pair_memory memory;
    /* forward */
    struct view out;
    void *scratch;
    /* backward */
    struct view dout;
    const struct problem_gradients *gradients;
    double max, sum, delta; /* of the query: largest score, sum of exp(score - max), sum of p dP */
};

static double dot(const double *a, const double *b, size_t n)
{
    double sum = 0;
    for (size_t c = 0; c < n; c++)
        sum += a[c] * b[c];
    return sum;
}

static void take_row(const struct double_attention *a, struct view rows, size_t i, double *to)
{
    const float *from = view_row(rows, i);
    if (a->norm)
        plain_norm_row(to, from, rows.cols);
    else
        for (size_t c = 0; c < rows.cols; c++)
            to[c] = (double)from[c];
}

static void take_query(const struct pair_pass *pass, size_t i)
{
    const struct relative_terms *terms = pass->attention->terms;
    const struct pair_memory *m = &pass->memory;
    size_t dim = pass->problem->shape.head_dim;
    take_row(pass->attention, pass->problem->query, i, m->content);
    if (terms == NULL)
        return;
    for (size_t c = 0; c < dim; c++) {
        m->position[c] = m->content[c] + (double)terms->position_bias[c];
        m->content[c] += (double)terms->content_bias[c];
    }
    for (size_t k = 0; k < RELATIVE_WIDTH; k++) {
        m->projected[k] = 0;
        for (size_t c = 0; c < dim; c++)
            m->projected[k] += (double)terms->weight[k * dim + c] * m->position[c];
    }
}

/* Score of the current query, i, and key j; sets memory.key to key j. */
static double score(const struct pair_pass *pass, size_t i, size_t j)
{
    const struct double_attention *a = pass->attention;
    const struct pair_memory *m = &pass->memory;
    size_t dim = pass->problem->shape.head_dim;
    take_row(a, pass->problem->key, j, m->key);
    double sum = dot(m->content, m->key, dim);
    if (a->terms != NULL) {
        const float *wave = relative_terms_sinusoids(a->terms, i, j);
        for (size_t k = 0; k < RELATIVE_WIDTH; k++)
            sum += (double)wave[k] * m->projected[k];
    }
    return sum / sqrt((double)dim);
}

static double dot_rows(struct view a, size_t i, struct view b, size_t j, size_t cols)
{
    double sum = 0;
    for (size_t c = 0; c < cols; c++)
        sum += (double)view_row(a, i)[c] * (double)view_row(b, j)[c];
    return sum;
}

static void add_to(float *x, double y)
{
    *x = double_bounded((double)*x + y);
}

static void each_pair(struct pair_pass *pass, size_t i,
                      void (*pair)(struct pair_pass *pass, size_t i, size_t j))
{
    const struct double_attention *a = pass->attention;
    struct key_run run;
    for (size_t number = 0; a->run(a->argument, i, number, &run); number++)
        for (size_t k = 0; k < run.count; k++)
            pair(pass, i, run.list == NULL ? run.first + k * run.step : run.list[k]);
}

/* ---- forward ------------------------------------------------------------------------------------------- */

/* One step of the running softmax: *shrink rescales the sums so far. Returns the new key's weight. */
static double step(struct pair_pass *pass, double score, double *shrink)
{
    double max = fmax(pass->max, score), weight = exp(score - max);
    *shrink = exp(pass->max - max);
    pass->sum = pass->sum * *shrink + weight;
    pass->max = max;
    return weight;
}

static void forward_pair(struct pair_pass *pass, size_t i, size_t j)
{
    const float *value = view_row(pass->problem->value, j);
    size_t value_dim = pass->problem->shape.value_dim;
    double shrink, weight = step(pass, score(pass, i, j), &shrink), *out = pass->memory.out;
    for (size_t c = 0; c < value_dim; c++)
        out[c] = out[c] * shrink + weight * (double)value[c];
}

static void forward_block(void *argument, size_t index, int worker)
{
    struct pair_pass pass = *(const struct pair_pass *)argument;
    const struct problem_shape *shape = &pass.problem->shape;
    pass.memory = memory_of(shape, pass.scratch, worker);
    for (size_t i = index * BLOCK; i < size_min((index + 1) * BLOCK, shape->num_queries); i++) {
        pass.max = -INFINITY;
        pass.sum = 0;
        memset(pass.memory.out, 0, shape->value_dim * sizeof(double));
        take_query(&pass, i);
        each_pair(&pass, i, forward_pair);
        for (size_t c = 0; c < shape->value_dim; c++) /* a mean of floats, so within range */
            view_row(pass.out, i)[c] = pass.sum == 0 ? 0 : (float)(pass.memory.out[c] / pass.sum);
    }
}

void double_forward(const struct problem *problem, const struct double_attention *attention, struct view out,
                    void *scratch)
{
    struct pair_pass pass = {.problem = problem, .attention = attention, .out = out, .scratch = scratch};
    pool_run(problem->pool, forward_block, &pass, (problem->shape.num_queries + BLOCK - 1) / BLOCK);
}

/* ---- backward ------------------------------------------------------------------------------------------
   As in tile_attention_backward.c, a query at a time: first its maximum, sum and delta, then its pairs. */

static void measure_pair(struct pair_pass *pass, size_t i, size_t j)
{
    const struct problem *p = pass->problem;
    double shrink, weight = step(pass, score(pass, i, j), &shrink);
    pass->delta = pass->delta * shrink + weight * dot_rows(pass->dout, i, p->value, j, p->shape.value_dim);
}

static void backward_pair(struct pair_pass *pass, size_t i, size_t j)
{
    const struct relative_terms *terms = pass->attention->terms;
    const struct pair_memory *m = &pass->memory;
    const struct problem_gradients *g = pass->gradients;
    size_t dim = pass->problem->shape.head_dim, value_dim = pass->problem->shape.value_dim;
    double p = exp(score(pass, i, j) - pass->max) / pass->sum;
    double dp = dot_rows(pass->dout, i, pass->problem->value, j, value_dim);
    double ds = p * (dp - pass->delta) / sqrt((double)dim);
    for (size_t c = 0; c < value_dim; c++)
        add_to(&view_row(g->value, j)[c], p * (double)view_row(pass->dout, i)[c]);
    for (size_t c = 0; c < dim; c++) {
        add_to(&view_row(g->key, j)[c], ds * m->content[c]);
        m->dquery[c] += ds * m->key[c];
    }
    if (terms == NULL)
        return;
    const float *wave = relative_terms_sinusoids(terms, i, j);
    for (size_t k = 0; k < RELATIVE_WIDTH; k++)
        m->waves[k] += ds * (double)wave[k];
}

/* Adds the gradients of the query and of the parameters. */
static void finish_query(const struct pair_pass *pass, size_t i)
{
    const struct relative_terms *terms = pass->attention->terms;
    const struct pair_memory *m = &pass->memory;
    size_t dim = pass->problem->shape.head_dim;
    for (size_t c = 0; c < dim; c++) {
        double content = m->dquery[c], position = 0;
        for (size_t k = 0; terms != NULL && k < RELATIVE_WIDTH; k++)
            position += m->waves[k] * (double)terms->weight[k * dim + c];
        add_to(&view_row(pass->gradients->query, i)[c], content + position);
        if (terms == NULL || terms->dweight == NULL)
            continue;
        add_to(&terms->dcontent_bias[c], content);
        add_to(&terms->dposition_bias[c], position);
        for (size_t k = 0; k < RELATIVE_WIDTH; k++)
            add_to(&terms->dweight[k * dim + c], m->waves[k] * m->position[c]);
    }
}

void double_backward(const struct problem *problem, const struct double_attention *attention,
                     struct view dout, const struct problem_gradients *gradients, void *scratch)
{
    struct pair_pass pass = {
        .problem = problem, .attention = attention, .dout = dout, .gradients = gradients};
    pass.memory = memory_of(&problem->shape, scratch, 0);
    for (size_t i = 0; i < problem->shape.num_queries; i++) {
        pass.max = -INFINITY;
        pass.sum = pass.delta = 0;
        memset(pass.memory.dquery, 0, problem->shape.head_dim * sizeof(double));
        memset(pass.memory.waves, 0, RELATIVE_WIDTH * sizeof(double));
        take_query(&pass, i);
        each_pair(&pass, i, measure_pair);
        if (pass.sum == 0)
            continue;
        pass.delta /= pass.sum;
        each_pair(&pass, i, backward_pair);
        finish_query(&pass, i);
    }
}
