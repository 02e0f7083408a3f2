/* The queries of one cluster, MEMBERS at a time, among the k top keys of the cluster. With a = softmax of the
   scores, m the mass, and delta_i = sum_j a_ij <dout_i, v_j>: ds = a (m <dout_i, v_j> - m delta_i) / sqrt(d),
   and the mass has the gradient sum_i delta_i.
   SPDX-License-Identifier: Apache-2.0 */
#include <math.h>
#include <string.h>

#include "attention/clustered/clustered_parts.h"
#include "kernels/product.h"
#include "parts/tiles/tile_products.h"

struct clustered_thread clustered_thread_take(struct arena *arena, const struct problem_shape *shape,
                                              size_t top)
{
    struct clustered_thread t;
    size_t d = shape->head_dim, d_v = shape->value_dim, pairs = size_product(MEMBERS, top);
    t.key = arena_take(arena, size_product(top, d), sizeof(float));
    t.value = arena_take(arena, size_product(top, d_v), sizeof(float));
    t.query = arena_take(arena, size_product(MEMBERS, d), sizeof(float));
    t.dquery = arena_take(arena, size_product(MEMBERS, d), sizeof(float));
    t.out = arena_take(arena, size_product(MEMBERS, d_v), sizeof(float));
    t.dout = arena_take(arena, size_product(MEMBERS, d_v), sizeof(float));
    t.scores = arena_take(arena, pairs, sizeof(float));
    t.dscores = arena_take(arena, pairs, sizeof(float));
    t.max = arena_take(arena, MEMBERS, sizeof(float));
    t.sum = arena_take(arena, MEMBERS, sizeof(float));
    t.factor = arena_take(arena, MEMBERS, sizeof(float));
    return t;
}

static void gather(float *to, struct view rows, const uint32_t *list, size_t count)
{
    for (size_t i = 0; i < count; i++)
        memcpy(to + i * rows.cols, view_row(rows, list[i]), rows.cols * sizeof *to);
}

static struct clustered_thread open(const struct clustered *c, size_t cluster, int worker)
{
    struct arena arena = arena_on(c->threads + (size_t)worker * c->per_thread);
    struct clustered_thread t = clustered_thread_take(&arena, &c->problem->shape, c->top);
    gather(t.key, c->problem->key, c->saved.top + cluster * c->top, c->top);
    gather(t.value, c->problem->value, c->saved.top + cluster * c->top, c->top);
    return t;
}

/* The weights of `count` queries among the top keys. */
static void weigh(const struct clustered *c, const struct clustered_thread *t, const uint32_t *list,
                  size_t count)
{
    const struct kernels *kernels = c->problem->kernels;
    size_t d = c->problem->shape.head_dim;
    gather(t->query, c->problem->query, list, count);
    product(kernels, t->scores, c->top, t->query, d, false, t->key, d, true, count, c->top, d, false);
    for (size_t i = 0; i < count; i++) {
        t->max[i] = -INFINITY;
        t->sum[i] = 0;
    }
    kernels->softmax.step(t->scores, c->top, count, c->top, score_scale(d), t->max, t->sum, t->factor);
    for (size_t i = 0; i < count; i++)
        t->sum[i] = 1 / t->sum[i];
    kernels->rows.scale(t->scores, c->top, t->sum, count, c->top);
}

static void scale_all(const struct clustered *c, const struct clustered_thread *t, float factor, size_t count)
{
    for (size_t i = 0; i < count; i++)
        t->factor[i] = factor;
    c->problem->kernels->rows.scale(t->scores, c->top, t->factor, count, c->top);
}

void clustered_members_forward(const struct clustered *c, size_t cluster, int worker, struct view out)
{
    const struct kernels *kernels = c->problem->kernels;
    size_t d_v = c->problem->shape.value_dim, end = c->saved.starts[cluster + 1];
    const float *rest = c->rows.rest + cluster * d_v;
    struct clustered_thread t = open(c, cluster, worker);
    for (size_t first = c->saved.starts[cluster]; first < end; first += MEMBERS) {
        size_t count = size_min(MEMBERS, end - first);
        const uint32_t *list = c->saved.order + first;
        for (size_t i = 0; i < count; i++)
            memcpy(t.out + i * d_v, rest, d_v * sizeof *rest);
        if (c->top > 0) {
            weigh(c, &t, list, count);
            scale_all(c, &t, c->rows.mass[cluster], count);
            product(kernels, t.out, d_v, t.scores, c->top, false, t.value, d_v, false, count, d_v, c->top,
                    true);
        }
        for (size_t i = 0; i < count; i++)
            memcpy(view_row(out, list[i]), t.out + i * d_v, d_v * sizeof *t.out);
    }
}

/* Among the top keys, with the queries' rows of dout in t->dout. */
static void top_backward(const struct clustered *c, const struct clustered_thread *t, size_t cluster,
                         const uint32_t *list, size_t count, struct view dquery)
{
    const struct kernels *kernels = c->problem->kernels;
    size_t d = c->problem->shape.head_dim, d_v = c->problem->shape.value_dim, k = c->top;
    float mass = c->rows.mass[cluster];
    weigh(c, t, list, count);
    product(kernels, t->dscores, k, t->dout, d_v, false, t->value, d_v, true, count, k, d_v, false);
    kernels->rows.dots(t->sum, t->dscores, k, t->scores, k, count, k);
    for (size_t i = 0; i < count; i++)
        c->rows.dmass[cluster] += t->sum[i];
    kernels->softmax.gradient(t->dscores, k, t->scores, k, count, k, score_scale(d) * mass, t->sum);
    product(kernels, t->dquery, d, t->dscores, k, false, t->key, d, false, count, d, k, false);
    for (size_t i = 0; i < count; i++)
        kernels->rows.axpy(view_row(dquery, list[i]), 1, t->dquery + i * d, d);
    product(kernels, c->rows.dtop_key + cluster * k * d, d, t->dscores, k, true, t->query, d, false, k, d,
            count, true);
    scale_all(c, t, mass, count);
    product(kernels, c->rows.dtop_value + cluster * k * d_v, d_v, t->scores, k, true, t->dout, d_v, false, k,
            d_v, count, true);
}

void clustered_members_backward(const struct clustered *c, size_t cluster, int worker, struct view dout,
                                struct view dquery)
{
    const struct kernels *kernels = c->problem->kernels;
    size_t d = c->problem->shape.head_dim, d_v = c->problem->shape.value_dim, k = c->top,
           end = c->saved.starts[cluster + 1];
    float *drest = c->rows.drest + cluster * d_v;
    struct clustered_thread t = open(c, cluster, worker);
    memset(drest, 0, d_v * sizeof *drest);
    memset(c->rows.dtop_key + cluster * k * d, 0, k * d * sizeof(float));
    memset(c->rows.dtop_value + cluster * k * d_v, 0, k * d_v * sizeof(float));
    c->rows.dmass[cluster] = 0;
    for (size_t first = c->saved.starts[cluster]; first < end; first += MEMBERS) {
        size_t count = size_min(MEMBERS, end - first);
        const uint32_t *list = c->saved.order + first;
        gather(t.dout, dout, list, count);
        for (size_t i = 0; i < count; i++)
            kernels->rows.axpy(drest, 1, t.dout + i * d_v, d_v);
        if (k > 0)
            top_backward(c, &t, cluster, list, count, dquery);
    }
}
