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

bool double_is_needed(const struct double_attention *a, const struct view *dout)
{
    const struct kernels *kernels = a->kernels;
    double query = sqrt((double)a->num_queries * (double)a->dim),
           key = sqrt((double)a->num_keys * (double)a->dim);
    if (!a->norm) {
        query = size_of(kernels, a->query, a->num_queries);
        key = size_of(kernels, a->key, a->num_keys);
    }
    if (a->terms != NULL) {
        const struct relative_terms *terms = a->terms;
        query += size_of(kernels, view_of(terms->content_bias, 1, a->dim), 1) +
                 size_of(kernels, view_of(terms->position_bias, 1, a->dim), 1);
        key +=
            RELATIVE_WIDTH * size_of(kernels, view_of(terms->weight, RELATIVE_WIDTH, a->dim), RELATIVE_WIDTH);
    }
    double value = size_of(kernels, a->value, a->num_keys);
    double gradient = dout == NULL ? sqrt(DOUBLE_SQUARES) : size_of(kernels, *dout, a->num_queries);
    double largest = query * key * value * gradient * (double)a->most;
    return largest >= limit && largest < INFINITY;
}

/* ---- one pair ------------------------------------------------------------------------------------------ */

/* Memory of one thread, for the current query; key: for the current pair. */
struct memory {
    double *content, *position, *key; /* (d): q + u, q + v; k */
    double *projected;                /* (RELATIVE_WIDTH): W (q + v) */
    double *out;                      /* (d_v) */
    double *dquery, *waves;           /* (d); (RELATIVE_WIDTH): the sum of dS sinusoids */
    size_t bytes;
};

static struct memory memory_on(size_t dim, size_t value_dim, void *block)
{
    struct memory memory;
    struct arena arena = arena_on(block);
    memory.content = arena_take(&arena, dim, sizeof(double));
    memory.position = arena_take(&arena, dim, sizeof(double));
    memory.key = arena_take(&arena, dim, sizeof(double));
    memory.projected = arena_take(&arena, RELATIVE_WIDTH, sizeof(double));
    memory.out = arena_take(&arena, value_dim, sizeof(double));
    memory.dquery = arena_take(&arena, dim, sizeof(double));
    memory.waves = arena_take(&arena, RELATIVE_WIDTH, sizeof(double));
    memory.bytes = arena.used;
    return memory;
}

static struct memory memory_of(const struct double_attention *a, void *scratch, int worker)
{
    size_t bytes = memory_on(a->dim, a->value_dim, NULL).bytes;
    return memory_on(a->dim, a->value_dim, (unsigned char *)scratch + (size_t)worker * bytes);
}

size_t double_attention_size(size_t dim, size_t value_dim, size_t workers)
{
    return size_product(workers, memory_on(dim, value_dim, NULL).bytes);
}

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
        plain_norm_row(to, from, a->dim);
    else
        for (size_t c = 0; c < a->dim; c++)
            to[c] = (double)from[c];
}

static void take_query(const struct double_attention *a, const struct memory *m, size_t i)
{
    const struct relative_terms *terms = a->terms;
    take_row(a, a->query, i, m->content);
    if (terms == NULL)
        return;
    for (size_t c = 0; c < a->dim; c++) {
        m->position[c] = m->content[c] + (double)terms->position_bias[c];
        m->content[c] += (double)terms->content_bias[c];
    }
    for (size_t k = 0; k < RELATIVE_WIDTH; k++) {
        m->projected[k] = 0;
        for (size_t c = 0; c < a->dim; c++)
            m->projected[k] += (double)terms->weight[k * a->dim + c] * m->position[c];
    }
}

/* Score of the current query, i, and key j; sets m->key to key j. */
static double score(const struct double_attention *a, const struct memory *m, size_t i, size_t j)
{
    take_row(a, a->key, j, m->key);
    double sum = dot(m->content, m->key, a->dim);
    if (a->terms != NULL) {
        const float *wave = relative_terms_sinusoids(a->terms, i, j);
        for (size_t k = 0; k < RELATIVE_WIDTH; k++)
            sum += (double)wave[k] * m->projected[k];
    }
    return sum / sqrt((double)a->dim);
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

/* A pass that calls `pair` on all keys that query i meets, in order. */
struct pass {
    const struct double_attention *attention;
    struct memory memory;
    /* forward */
    struct view out;
    void *scratch;
    /* backward */
    struct view dout;
    const struct attention_gradients *gradients;
    double max, sum, delta; /* of the query: largest score, sum of exp(score - max), sum of p dP */
};

static void each_pair(struct pass *pass, size_t i, void (*pair)(struct pass *pass, size_t i, size_t j))
{
    const struct double_attention *a = pass->attention;
    struct key_run run;
    for (size_t number = 0; a->run(a->argument, i, number, &run); number++)
        for (size_t k = 0; k < run.count; k++)
            pair(pass, i, run.list == NULL ? run.first + k * run.step : run.list[k]);
}

/* ---- forward ------------------------------------------------------------------------------------------- */

/* One step of the running softmax: *shrink rescales the sums so far. Returns the new key's weight. */
static double step(struct pass *pass, double score, double *shrink)
{
    double max = fmax(pass->max, score), weight = exp(score - max);
    *shrink = exp(pass->max - max);
    pass->sum = pass->sum * *shrink + weight;
    pass->max = max;
    return weight;
}

static void forward_pair(struct pass *pass, size_t i, size_t j)
{
    const struct double_attention *a = pass->attention;
    const float *value = view_row(a->value, j);
    double shrink, weight = step(pass, score(a, &pass->memory, i, j), &shrink), *out = pass->memory.out;
    for (size_t c = 0; c < a->value_dim; c++)
        out[c] = out[c] * shrink + weight * (double)value[c];
}

static void forward_block(void *argument, size_t index, int worker)
{
    struct pass pass = *(const struct pass *)argument;
    const struct double_attention *a = pass.attention;
    pass.memory = memory_of(a, pass.scratch, worker);
    for (size_t i = index * BLOCK; i < size_min((index + 1) * BLOCK, a->num_queries); i++) {
        pass.max = -INFINITY;
        pass.sum = 0;
        memset(pass.memory.out, 0, a->value_dim * sizeof(double));
        take_query(a, &pass.memory, i);
        each_pair(&pass, i, forward_pair);
        for (size_t c = 0; c < a->value_dim; c++) /* a mean of floats, so within range */
            view_row(pass.out, i)[c] = pass.sum == 0 ? 0 : (float)(pass.memory.out[c] / pass.sum);
    }
}

void double_forward(const struct double_attention *attention, struct view out, void *scratch)
{
    struct pass pass = {.attention = attention, .out = out, .scratch = scratch};
    pool_run(attention->pool, forward_block, &pass, (attention->num_queries + BLOCK - 1) / BLOCK);
}

/* ---- backward ------------------------------------------------------------------------------------------
   As in tile_attention_backward.c, a query at a time: first its maximum, sum and delta, then its pairs. */

static void measure_pair(struct pass *pass, size_t i, size_t j)
{
    const struct double_attention *a = pass->attention;
    double shrink, weight = step(pass, score(a, &pass->memory, i, j), &shrink);
    pass->delta = pass->delta * shrink + weight * dot_rows(pass->dout, i, a->value, j, a->value_dim);
}

static void backward_pair(struct pass *pass, size_t i, size_t j)
{
    const struct double_attention *a = pass->attention;
    const struct memory *m = &pass->memory;
    const struct attention_gradients *g = pass->gradients;
    double p = exp(score(a, m, i, j) - pass->max) / pass->sum;
    double ds = p * (dot_rows(pass->dout, i, a->value, j, a->value_dim) - pass->delta) / sqrt((double)a->dim);
    for (size_t c = 0; c < a->value_dim; c++)
        add_to(&view_row(g->value, j)[c], p * (double)view_row(pass->dout, i)[c]);
    for (size_t c = 0; c < a->dim; c++) {
        add_to(&view_row(g->key, j)[c], ds * m->content[c]);
        m->dquery[c] += ds * m->key[c];
    }
    if (a->terms == NULL)
        return;
    const float *wave = relative_terms_sinusoids(a->terms, i, j);
    for (size_t k = 0; k < RELATIVE_WIDTH; k++)
        m->waves[k] += ds * (double)wave[k];
}

/* Adds the gradients of the query and of the parameters. */
static void finish_query(const struct pass *pass, size_t i)
{
    const struct double_attention *a = pass->attention;
    const struct memory *m = &pass->memory;
    const struct attention_gradients *g = pass->gradients;
    bool learns = a->terms != NULL && g->weight != NULL;
    for (size_t c = 0; c < a->dim; c++) {
        double content = m->dquery[c], position = 0;
        for (size_t k = 0; a->terms != NULL && k < RELATIVE_WIDTH; k++)
            position += m->waves[k] * (double)a->terms->weight[k * a->dim + c];
        add_to(&view_row(g->query, i)[c], content + position);
        if (!learns)
            continue;
        add_to(&g->content_bias[c], content);
        add_to(&g->position_bias[c], position);
        for (size_t k = 0; k < RELATIVE_WIDTH; k++)
            add_to(&g->weight[k * a->dim + c], m->waves[k] * m->position[c]);
    }
}

void double_backward(const struct double_attention *attention, struct view dout,
                     const struct attention_gradients *gradients, void *scratch)
{
    struct pass pass = {.attention = attention, .dout = dout, .gradients = gradients};
    pass.memory = memory_of(attention, scratch, 0);
    for (size_t i = 0; i < attention->num_queries; i++) {
        pass.max = -INFINITY;
        pass.sum = pass.delta = 0;
        memset(pass.memory.dquery, 0, attention->dim * sizeof(double));
        memset(pass.memory.waves, 0, RELATIVE_WIDTH * sizeof(double));
        take_query(attention, &pass.memory, i);
        each_pair(&pass, i, measure_pair);
        if (pass.sum == 0)
            continue;
        pass.delta /= pass.sum;
        each_pair(&pass, i, backward_pair);
        finish_query(&pass, i);
    }
}
