/* Clustered attention (Vyas, Katharopoulos and Fleuret 2020): queries with similar hash codes form C clusters
   (hamming_clusters.h), and the mean of a cluster's queries attends to every key for all of them (FCA):
       A_c = softmax(mean_c K^T / sqrt(d)), out_i = A_c V for each query i of cluster c.
   Improved (i-FCA, top_keys k > 0): the queries of a cluster weigh its k top keys T_c themselves, within the
   mass that A_c gives them, m_c = the sum of A_cj over T_c:
       out_i = m_c softmax over T_c of (q_i K^T / sqrt(d)) V + the sum of A_cj v_j over the other keys.
   As many clusters as queries, or as many top keys as keys, are exact softmax attention. Clusters and top
   keys are constants in backward, as in the released code. Not causal, as there.
   Cost forward: 2 C n_k (d + d_v) + 2 n_q k (d + d_v) operations, C n_k + n_q k exponentials, and about
   128 n_q (d + 10 C) operations for the clusters, most of the time with 100 of them; backward costs three
   times as much without the clusters. Scratch: 2 C floats per key. Random: the hyperplanes and the first
   centres, per head. Saved: the clusters (n_q) and T_c (C k).
   SPDX-License-Identifier: Apache-2.0 */
#include <math.h>
#include <string.h>

#include "attention/clustered/clustered_parts.h"
#include "attention/clustered/hamming_clusters.h"
#include "kernels/product.h"
#include "parts/groups/topk.h"
#include "parts/tiles/tile_attention.h"

enum {
    CENTRES = 32, /* clusters that are weighed at a time: a unit of work */
    KEYS = 512,   /* whose gradients are computed at a time: a unit of work */
};

/* ---- memory -------------------------------------------------------------------------------------------- */

/* C and k; C 0: exact attention. */
static size_t top_of(const void *options)
{
    return (size_t)((const struct clustered_options *)options)->top_keys;
}

static size_t clusters_of(const void *options, const struct problem_shape *shape)
{
    size_t clusters = (size_t)((const struct clustered_options *)options)->num_clusters;
    return clusters < shape->num_queries && top_of(options) < shape->num_keys ? clusters : 0;
}

static struct hamming_clusters hamming_of(const struct problem_shape *shape, size_t clusters)
{
    return (struct hamming_clusters){.workers = shape->workers,
                                     .num_rows = clusters > 0 ? shape->num_queries : 0,
                                     .dim = clusters > 0 ? shape->head_dim : 0,
                                     .clusters = clusters};
}

static void take_saved(struct clustered *c, const struct problem_shape *shape, void *block)
{
    struct arena arena = arena_on(block);
    c->saved.rows = softmax_rows_take(&arena, shape->num_queries);
    c->saved.order = arena_take(&arena, c->clusters > 0 ? shape->num_queries : 0, sizeof(uint32_t));
    c->saved.starts = arena_take(&arena, c->clusters > 0 ? c->clusters + 1 : 0, sizeof(uint32_t));
    c->saved.top = arena_take(&arena, size_product(c->clusters, c->top), sizeof(uint32_t));
    c->saved.bytes = arena.used;
}

static void take_scratch(struct clustered *c, const struct problem_shape *shape, void *block)
{
    struct arena arena = arena_on(block), thread = arena_on(NULL);
    size_t d = shape->head_dim, d_v = shape->value_dim, clusters = c->clusters,
           pairs = size_product(clusters, c->top);
    struct hamming_clusters hamming = hamming_of(shape, clusters);
    const struct tile_attention exact = {.block = TILE_ATTENTION_BLOCK};
    struct {
        float **array;
        size_t count;
    } arrays[] = {
        {&c->rows.mean, size_product(clusters, d)},
        {&c->rows.dmean, size_product(clusters, d)},
        {&c->rows.rest, size_product(clusters, d_v)},
        {&c->rows.drest, size_product(clusters, d_v)},
        {&c->rows.mass, clusters},
        {&c->rows.dmass, clusters},
        {&c->rows.at_top, pairs},
        {&c->rows.dtop_key, size_product(pairs, d)},
        {&c->rows.dtop_value, size_product(pairs, d_v)},
        {&c->weights, size_product(clusters, shape->num_keys)},
        {&c->dweights, size_product(clusters, shape->num_keys)},
        {&c->spare, clusters},
    };
    for (size_t i = 0; i < sizeof arrays / sizeof *arrays; i++)
        *arrays[i].array = arena_take(&arena, arrays[i].count, sizeof(float));
    c->assigned = arena_take(&arena, clusters > 0 ? shape->num_queries : 0, sizeof(uint32_t));
    c->assigning = arena_take(&arena, hamming_scratch_size(&hamming), 1);
    c->tiles = arena_take(&arena, tile_attention_size(shape, &exact), 1);
    clustered_thread_take(&thread, shape, clusters > 0 ? c->top : 0);
    c->per_thread = thread.used;
    c->threads = arena_take(&arena, size_product(shape->workers, c->per_thread), 1);
    c->bytes = arena.used;
}

static struct clustered laid_out(const void *options, const struct problem_shape *shape, void *saved,
                                 void *scratch)
{
    struct clustered c = {.clusters = clusters_of(options, shape), .top = top_of(options)};
    take_saved(&c, shape, saved);
    take_scratch(&c, shape, scratch);
    return c;
}

static size_t saved_size(const void *options, const struct problem_shape *shape)
{
    return laid_out(options, shape, NULL, NULL).saved.bytes;
}

static size_t scratch_size(const void *options, const struct problem_shape *shape)
{
    return laid_out(options, shape, NULL, NULL).bytes;
}

/* ---- clusters and their weights ------------------------------------------------------------------------ */

/* Assigns the queries and lists them by cluster. */
static void make_clusters(const struct clustered *c)
{
    const struct problem *p = c->problem;
    struct hamming_clusters hamming = hamming_of(&p->shape, c->clusters);
    uint32_t *starts = c->saved.starts;
    hamming.kernels = p->kernels;
    hamming.pool = p->pool;
    hamming.key = p->random_key;
    hamming_assign(&hamming, p->query, c->assigned, c->assigning);
    memset(starts, 0, (c->clusters + 1) * sizeof *starts);
    for (size_t i = 0; i < p->shape.num_queries; i++)
        starts[c->assigned[i] + 1]++;
    for (size_t cluster = 0; cluster < c->clusters; cluster++)
        starts[cluster + 1] += starts[cluster];
    for (size_t i = 0; i < p->shape.num_queries; i++)
        c->saved.order[starts[c->assigned[i]]++] = (uint32_t)i;
    for (size_t cluster = c->clusters; cluster > 0; cluster--)
        starts[cluster] = starts[cluster - 1];
    starts[0] = 0;
}

/* 1 / the number of its queries; 0 if it has none. */
static float share(const struct clustered *c, size_t cluster)
{
    uint32_t count = c->saved.starts[cluster + 1] - c->saved.starts[cluster];
    return count == 0 ? 0 : 1 / (float)count;
}

static void make_mean(const struct clustered *c, size_t cluster)
{
    size_t d = c->problem->shape.head_dim;
    float *mean = c->rows.mean + cluster * d;
    memset(mean, 0, d * sizeof *mean);
    for (size_t i = c->saved.starts[cluster]; i < c->saved.starts[cluster + 1]; i++)
        c->problem->kernels->rows.axpy(mean, share(c, cluster),
                                       view_row(c->problem->query, c->saved.order[i]), d);
}

/* The products of the means with the keys, in the place of A. */
static void score(const struct clustered *c, size_t first, size_t count)
{
    const struct problem *p = c->problem;
    size_t d = p->shape.head_dim, keys = p->shape.num_keys;
    for (size_t i = 0; i < count; i++)
        make_mean(c, first + i);
    product(p->kernels, c->weights + first * keys, keys, c->rows.mean + first * d, d, false,
            view_row(p->key, 0), p->key.stride, true, count, keys, d, false);
}

/* Products become rows of A. */
static void weigh(const struct clustered *c, size_t first, size_t count)
{
    const struct problem *p = c->problem;
    size_t d = p->shape.head_dim, keys = p->shape.num_keys;
    float *rows = c->weights + first * keys;
    for (size_t i = 0; i < count; i++) {
        float largest = -INFINITY, sum = 0, factor;
        p->kernels->softmax.step(rows + i * keys, keys, 1, keys, score_scale(d), &largest, &sum, &factor);
        sum = 1 / sum;
        p->kernels->rows.scale(rows + i * keys, keys, &sum, 1, keys);
    }
}

/* The mass at the top keys, which moves from A to at_top. */
static void set_apart(const struct clustered *c, size_t cluster)
{
    const uint32_t *top = c->saved.top + cluster * c->top;
    float *row = c->weights + cluster * c->problem->shape.num_keys,
          *at_top = c->rows.at_top + cluster * c->top;
    float *mass = c->rows.mass + cluster;
    *mass = 0;
    for (size_t t = 0; t < c->top; t++) {
        *mass += at_top[t] = row[top[t]];
        row[top[t]] = 0;
    }
}

/* ---- forward ------------------------------------------------------------------------------------------- */

struct pass {
    struct clustered c;
    struct view out, dout;
    const struct problem_gradients *gradients;
};

static void weigh_forward(void *argument, size_t index, int worker)
{
    (void)worker;
    const struct clustered *c = &((const struct pass *)argument)->c;
    const struct problem *p = c->problem;
    size_t first = index * CENTRES, count = size_min(CENTRES, c->clusters - first), keys = p->shape.num_keys,
           d_v = p->shape.value_dim;
    score(c, first, count);
    /* The top keys are those of the largest products: weights may all be 0 but one. */
    for (size_t cluster = first; cluster < first + count && c->top > 0; cluster++)
        topk_select(p->kernels, c->weights + cluster * keys, keys, c->top, c->saved.top + cluster * c->top);
    weigh(c, first, count);
    for (size_t cluster = first; cluster < first + count; cluster++)
        set_apart(c, cluster);
    product(p->kernels, c->rows.rest + first * d_v, d_v, c->weights + first * keys, keys, false,
            view_row(p->value, 0), p->value.stride, false, count, d_v, keys, false);
}

static void answer_cluster(void *argument, size_t cluster, int worker)
{
    const struct pass *pass = argument;
    clustered_members_forward(&pass->c, cluster, worker, pass->out);
}

static struct tile_attention exact_attention(const struct clustered *c)
{
    return (struct tile_attention){.block = TILE_ATTENTION_BLOCK, .rows = c->saved.rows};
}

static struct clustered open(const struct problem *problem)
{
    struct clustered c = laid_out(problem->options, &problem->shape, problem->saved, problem->scratch);
    c.problem = problem;
    return c;
}

static size_t parts_of(size_t rows, size_t part)
{
    return (rows + part - 1) / part;
}

static void forward(const struct problem *problem, struct view out)
{
    struct pass pass = {.c = open(problem), .out = out};
    if (pass.c.clusters == 0) {
        struct tile_attention exact = exact_attention(&pass.c);
        tile_attention_forward(problem, &exact, out, pass.c.tiles);
        return;
    }
    make_clusters(&pass.c);
    pool_run(problem->pool, weigh_forward, &pass, parts_of(pass.c.clusters, CENTRES));
    pool_run(problem->pool, answer_cluster, &pass, pass.c.clusters);
}

/* ---- backward ------------------------------------------------------------------------------------------ */

/* dA = v_j sum of dout outside T_c and dmass in T_c; then dS, dQmean, and A without T_c for dV. */
static void weigh_backward(void *argument, size_t index, int worker)
{
    (void)worker;
    const struct clustered *c = &((const struct pass *)argument)->c;
    const struct problem *p = c->problem;
    size_t first = index * CENTRES, count = size_min(CENTRES, c->clusters - first), keys = p->shape.num_keys,
           d = p->shape.head_dim, d_v = p->shape.value_dim;
    float *rows = c->weights + first * keys, *drows = c->dweights + first * keys;
    product(p->kernels, drows, keys, c->rows.drest + first * d_v, d_v, false, view_row(p->value, 0),
            p->value.stride, true, count, keys, d_v, false);
    for (size_t i = 0; i < count; i++)
        for (size_t t = 0; t < c->top; t++)
            drows[i * keys + c->saved.top[(first + i) * c->top + t]] = c->rows.dmass[first + i];
    p->kernels->rows.dots(c->spare + first, drows, keys, rows, keys, count, keys);
    p->kernels->softmax.gradient(drows, keys, rows, keys, count, keys, score_scale(d), c->spare + first);
    product(p->kernels, c->rows.dmean + first * d, d, drows, keys, false, view_row(p->key, 0), p->key.stride,
            false, count, d, keys, false);
    for (size_t cluster = first; cluster < first + count; cluster++)
        set_apart(c, cluster);
}

static void weigh_again(void *argument, size_t index, int worker)
{
    (void)worker;
    const struct clustered *c = &((const struct pass *)argument)->c;
    size_t first = index * CENTRES, count = size_min(CENTRES, c->clusters - first),
           keys = c->problem->shape.num_keys;
    score(c, first, count);
    weigh(c, first, count);
    for (size_t cluster = first; cluster < first + count; cluster++) {
        c->rows.mass[cluster] = 0;
        for (size_t t = 0; t < c->top; t++)
            c->rows.mass[cluster] += c->weights[cluster * keys + c->saved.top[cluster * c->top + t]];
    }
}

static void answer_backward(void *argument, size_t cluster, int worker)
{
    const struct pass *pass = argument;
    clustered_members_backward(&pass->c, cluster, worker, pass->dout, pass->gradients->query);
}

/* Some keys: what the clusters' rows of A give them. */
static void keys_backward(void *argument, size_t index, int worker)
{
    (void)worker;
    const struct pass *pass = argument;
    const struct clustered *c = &pass->c;
    const struct problem *p = c->problem;
    size_t first = index * KEYS, count = size_min(KEYS, p->shape.num_keys - first), keys = p->shape.num_keys,
           d = p->shape.head_dim, d_v = p->shape.value_dim;
    struct view dkey = pass->gradients->key, dvalue = pass->gradients->value;
    product(p->kernels, view_row(dkey, first), dkey.stride, c->dweights + first, keys, true, c->rows.mean, d,
            false, count, d, c->clusters, true);
    product(p->kernels, view_row(dvalue, first), dvalue.stride, c->weights + first, keys, true, c->rows.drest,
            d_v, false, count, d_v, c->clusters, true);
}

/* In order: clusters share top keys. */
static void add_top(const struct clustered *c, const struct problem_gradients *gradients)
{
    const struct kernels *kernels = c->problem->kernels;
    size_t d = c->problem->shape.head_dim, d_v = c->problem->shape.value_dim;
    for (size_t i = 0; i < c->clusters * c->top; i++) {
        kernels->rows.axpy(view_row(gradients->key, c->saved.top[i]), 1, c->rows.dtop_key + i * d, d);
        kernels->rows.axpy(view_row(gradients->value, c->saved.top[i]), 1, c->rows.dtop_value + i * d_v, d_v);
    }
}

static void spread_means(const struct clustered *c, struct view dquery)
{
    size_t d = c->problem->shape.head_dim;
    for (size_t cluster = 0; cluster < c->clusters; cluster++)
        for (size_t i = c->saved.starts[cluster]; i < c->saved.starts[cluster + 1]; i++)
            c->problem->kernels->rows.axpy(view_row(dquery, c->saved.order[i]), share(c, cluster),
                                           c->rows.dmean + cluster * d, d);
}

static void backward(const struct problem *problem, struct view out, struct view dout,
                     const struct problem_gradients *gradients)
{
    struct pass pass = {.c = open(problem), .dout = dout, .gradients = gradients};
    if (pass.c.clusters == 0) {
        struct tile_attention exact = exact_attention(&pass.c);
        tile_attention_backward(problem, &exact, out, dout, gradients, pass.c.tiles);
        return;
    }
    pool_run(problem->pool, weigh_again, &pass, parts_of(pass.c.clusters, CENTRES));
    pool_run(problem->pool, answer_backward, &pass, pass.c.clusters);
    pool_run(problem->pool, weigh_backward, &pass, parts_of(pass.c.clusters, CENTRES));
    pool_run(problem->pool, keys_backward, &pass, parts_of(problem->shape.num_keys, KEYS));
    add_top(&pass.c, gradients);
    spread_means(&pass.c, gradients->query);
}

/* ---- the mechanism ------------------------------------------------------------------------------------- */

static const struct option_row options[] = {
    OPTION_ROW("num_clusters", OPTION_INT, offsetof(struct clustered_options, num_clusters), 100, 1,
               HAMMING_MOST, NULL, "clusters of queries; as many as queries make attention exact"),
    OPTION_ROW("top_keys", OPTION_INT, offsetof(struct clustered_options, top_keys), 32, 0, 65536, NULL,
               "keys of each cluster that its queries weigh themselves (i-FCA); 0: none (FCA)"),
    {.name = NULL},
};

static const char *const departures[] = {
    "Planes and first centres are drawn for each head, and in training for each sequence; evaluation "
    "depends on the seed only.",
    "The mass of a cluster's top keys has a gradient.",
    NULL,
};

const struct mechanism mechanism_clustered = {
    .name = "clustered",
    .summary = "softmax attention of clusters of queries, improved at their top keys (Vyas et al. 2020)",
    .departures = departures,
    .options = options,
    .options_size = sizeof(struct clustered_options),
    .exact = false,
    .mixes = true,
    .range = {.bounded = true, .power = 2},
    .competes = true,
    .no_causal = "there is no causal form: a cluster's weights are for queries at all positions",
    .host = {NULL, saved_size, scratch_size, forward, backward},
};
