/* The Routing Transformer's attention (Roy, Saffar, Vaswani and Grangier 2021, "Efficient content-based
   sparse attention with Routing Transformers"). Queries and keys are normed, x^ = (x - mean) / sqrt(var +
   1e-6), and routed by B = num_clusters learned centroids mu_b (B, d) per head. Each centroid takes the w
   queries and, independently, the w keys with the largest <x^, mu_b>, w = n / B rounded up. Softmax attention
   runs inside the clusters; the output of a query is the mean over the clusters that took it, 0 if none did.
   With one cluster it is softmax of normed rows. Scores are <q^, k^> / sqrt(d). The released code has no such
   factor: it scales queries before it norms them, which cancels. It adds 0.01 to the number of clusters of
   the mean; here the mean is the paper's. Causal: taking the best of the whole sequence would let later
   tokens decide which are taken. So a token has one routing vector, (q^ + k^) / 2, where the paper shares
   queries and keys; it belongs to the cluster where <x^, mu_b> is largest, and sees the last w tokens of it
   up to itself, w by the tokens so far. Centroids follow the routing vectors they are nearest to, the paper's
   online k-means, as a loss of their own: the mean of |x^ - mu_c|^2 / d, c = argmax_b <x^, mu_b>, over
   queries and over keys. Its gradient, proportional to mu_c - x^, is the step of the paper's moving average,
   and the optimiser sets its size; the released code has this loss as the alternative to its moving average.
   Its commitment loss (1e-4 times the same distance), which draws queries and keys towards centroids, has no
   place here: own losses reach only learned tensors. Clusters have no gradient. Nothing is random but the
   start of the centroids, standard normals (released: normed as well). Saved: the clusters, the nearest
   centroid of each vector, and per query and cluster d_v + 2 floats (causal: 2). Cost: 2 (n_q + n_k) d B
   operations to route and the selection of the best (parts/groups/topk.h), then w n_q pairs of 2 (d + d_v)
   operations, 2.5 times that backward: n^1.5 for B near sqrt(n).
   SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "attention/mechanism.h"
#include "base/memory.h"
#include "parts/groups/group_attention.h"
#include "parts/rows/bounded.h"
#include "parts/rows/plain_norm.h"

/* Share of the loss of centroids in the training loss, as in lha. With Adam it does not change their
   steps. */
#define CENTROID_SHARE 0.05

struct routing_options {
    int64_t num_clusters;
};

enum side { QUERIES, KEYS, SIDES };

enum { TILE = 64, CENTROIDS = 64 }; /* rows and centroids multiplied at a time */

static struct capacity capacity(const void *options)
{
    return (struct capacity){(size_t)((const struct routing_options *)options)->num_clusters, 1, true};
}

/* Places of n tokens in all clusters. */
static size_t places_of(const void *options, const struct problem_shape *shape, size_t n)
{
    struct capacity each = capacity(options);
    return shape->causal ? n : size_product(each.num_groups, capacity_of(&each, n));
}

/* Unless causal, group_attention gets a query per place, so that clusters are not merged into one softmax. */
static struct problem_shape shape_of_places(const void *options, const struct problem_shape *shape)
{
    return shape_of_rows(shape, places_of(options, shape, shape->num_queries), shape->num_keys);
}

static struct group_sizes sizes_of(const void *options, const struct problem_shape *shape)
{
    struct capacity each = capacity(options);
    size_t places = places_of(options, shape, shape->num_queries);
    return (struct group_sizes){
        .query_places = places,
        .key_places = places_of(options, shape, shape->num_keys),
        .longest_key = shape->causal ? shape->num_keys : capacity_of(&each, shape->num_keys),
        .norm = true,
    };
}

/* ---- memory -------------------------------------------------------------------------------------------- */

struct saved {
    struct members members[SIDES]; /* causal: the same */
    uint32_t *nearest[SIDES];      /* (n) centroid of each routing vector; causal: those of queries */
    float *attended;          /* (places, d_v): output of each query in each of its clusters; not causal */
    struct softmax_rows rows; /* (places) */
    size_t bytes;
};

static struct saved saved_on(const void *options, const struct problem_shape *shape, void *block)
{
    struct saved saved = {0};
    struct arena arena = arena_on(block);
    size_t n[SIDES] = {shape->num_queries, shape->num_keys}, groups = capacity(options).num_groups;
    struct group_sizes sizes = sizes_of(options, shape);
    for (int side = QUERIES; side < (shape->causal ? KEYS : SIDES); side++) {
        saved.members[side] = members_take(&arena, groups, places_of(options, shape, n[side]));
        saved.nearest[side] = arena_take(&arena, n[side], sizeof(uint32_t));
    }
    if (shape->causal)
        saved.members[KEYS] = saved.members[QUERIES];
    else
        saved.attended =
            arena_take(&arena, size_product(sizes.query_places, shape->value_dim), sizeof(float));
    saved.rows = softmax_rows_take(&arena, sizes.query_places);
    saved.bytes = arena.used;
    return saved;
}

/* Memory of routing and of the loss. */
struct routing {
    float *scores; /* (B, n) of one side, members_score_distance(n) apart; not causal */
    /* of one thread */
    float *normed, *other; /* (TILE, d) */
    float *columns, *z;    /* (d, TILE), causal: (B, TILE) */
    void *norm;
    size_t bytes;
};

static struct routing routing_on(const void *options, const struct problem_shape *shape, void *block,
                                 size_t worker)
{
    struct routing routing = {0};
    struct arena arena = arena_on(block), own;
    size_t groups = capacity(options).num_groups, d = shape->head_dim, bytes = 0,
           n = size_max(shape->num_queries, shape->num_keys);
    if (!shape->causal)
        routing.scores = arena_take(&arena, size_product(groups, members_score_distance(n)), sizeof(float));
    for (int pass = 0; pass < 2; pass++) { /* the first pass measures */
        unsigned char *workers = pass == 0 ? NULL : arena_take(&arena, shape->workers, bytes);
        own = arena_on(workers == NULL ? NULL : workers + worker * bytes);
        routing.normed = arena_take(&own, size_product(TILE, d), sizeof(float));
        routing.other = arena_take(&own, size_product(TILE, d), sizeof(float));
        routing.columns = arena_take(&own, size_product(d, TILE), sizeof(float));
        if (shape->causal)
            routing.z = arena_take(&own, size_product(groups, TILE), sizeof(float));
        routing.norm = arena_take(&own, plain_norm_size(d), 1);
        bytes = own.used;
    }
    routing.bytes = arena.used;
    return routing;
}

/* A query per place, and gradients of normed rows. */
struct attending {
    struct places places; /* of the queries */
    uint32_t *each;       /* (places): 0, 1, ... */
    float *query;         /* (places, d) */
    /* backward */
    float *dattended, *dplaces; /* (places, d_v), (places, d) */
    float *dquery, *dkey;       /* (n_q, d), (n_k, d) */
    void *norm;                 /* (workers, plain_norm_size) */
    void *rest;                 /* memory of group_attention */
    size_t bytes;
};

static struct attending attending_on(const void *options, const struct problem_shape *shape, bool backward,
                                     size_t rest, void *block)
{
    struct attending attending = {0};
    struct arena arena = arena_on(block);
    size_t places = places_of(options, shape, shape->num_queries), d = shape->head_dim;
    if (!shape->causal) {
        attending.places = places_take(&arena, shape->num_queries, places);
        attending.each = arena_take(&arena, places, sizeof(uint32_t));
        attending.query = arena_take(&arena, size_product(places, d), sizeof(float));
    }
    if (!shape->causal && backward) {
        attending.dattended = arena_take(&arena, size_product(places, shape->value_dim), sizeof(float));
        attending.dplaces = arena_take(&arena, size_product(places, d), sizeof(float));
    }
    if (backward) {
        attending.dquery = arena_take(&arena, size_product(shape->num_queries, d), sizeof(float));
        attending.dkey = arena_take(&arena, size_product(shape->num_keys, d), sizeof(float));
        attending.norm = arena_take(&arena, shape->workers, plain_norm_size(d));
    }
    attending.rest = arena_take(&arena, rest, 1);
    attending.bytes = arena.used;
    return attending;
}

static size_t saved_size(const void *options, const struct problem_shape *shape)
{
    return saved_on(options, shape, NULL).bytes;
}

static size_t scratch_size(const void *options, const struct problem_shape *shape)
{
    struct group_sizes sizes = sizes_of(options, shape);
    struct problem_shape places = shape_of_places(options, shape);
    size_t forward = attending_on(options, shape, false, group_forward_size(&places, &sizes), NULL).bytes,
           backward = attending_on(options, shape, true, group_backward_size(&places, &sizes), NULL).bytes;
    return size_max(size_max(forward, backward), routing_on(options, shape, NULL, 0).bytes);
}

static const char *refuse(const void *options, const struct problem_shape *shape)
{
    size_t n = size_max(shape->num_queries, shape->num_keys), groups = capacity(options).num_groups;
    if (n > UINT32_MAX || size_product(groups, n / groups + 1) > UINT32_MAX)
        return "it takes sequences of less than 2^32 - {num_clusters} tokens";
    return NULL;
}

static void shape_of_centroids(const void *options, const struct parameter_sizes *sizes, size_t *rows,
                               size_t *cols)
{
    *rows = capacity(options).num_groups;
    *cols = sizes->head_dim;
}

static const struct parameter_row params[] = {
    {"centroids", shape_of_centroids, START_NORMAL, 1, .decays = false},
    {.name = NULL},
};

/* ---- routing ------------------------------------------------------------------------------------------- */

struct pass {
    const struct problem *problem;
    struct saved saved;
    enum side side;
};

static struct view rows_of(const struct problem *problem, enum side side)
{
    return side == QUERIES ? problem->query : problem->key;
}

/* r->normed = the routing vectors of a tile. */
static void take_vectors(const struct routing *r, const struct problem *problem, enum side side, size_t first,
                         size_t count)
{
    size_t numbers = count * problem->shape.head_dim;
    plain_norm_rows(problem->kernels, r->normed, rows_of(problem, side), NULL, first, count, r->norm);
    if (!problem->shape.causal)
        return;
    plain_norm_rows(problem->kernels, r->other, problem->key, NULL, first, count, r->norm);
    for (size_t c = 0; c < numbers; c++)
        r->normed[c] = (r->normed[c] + r->other[c]) / 2;
}

/* nearest[i] = the row of the largest number in column i of z (groups, count); ties to the lower. */
static void find_nearest(uint32_t *nearest, const float *z, size_t ld, size_t groups, size_t count)
{
    float most[TILE];
    for (size_t i = 0; i < count; i++) {
        most[i] = z[i];
        nearest[i] = 0;
    }
    for (size_t b = 1; b < groups; b++)
        for (size_t i = 0; i < count; i++) {
            float score = z[b * ld + i];
            bool more = score > most[i];
            most[i] = more ? score : most[i];
            nearest[i] = more ? (uint32_t)b : nearest[i];
        }
}

static void route_tile(void *argument, size_t tile, int worker)
{
    const struct pass *pass = argument;
    const struct problem *problem = pass->problem;
    struct routing r = routing_on(problem->options, &problem->shape, problem->scratch, (size_t)worker);
    size_t n = rows_of(problem, pass->side).rows, d = problem->shape.head_dim, first = tile * TILE,
           count = size_min(TILE, n - first), groups = capacity(problem->options).num_groups;
    bool causal = problem->shape.causal;
    float *z = causal ? r.z : r.scores + first;
    size_t ld = causal ? TILE : members_score_distance(n);
    take_vectors(&r, problem, pass->side, first, count);
    problem->kernels->tiles.transpose(r.columns, TILE, r.normed, d, count, d);
    for (size_t b = 0; b < groups; b += CENTROIDS)
        problem->kernels->tiles.product(z + b * ld, ld, problem->params + b * d, d, 1, r.columns, TILE,
                                        size_min(CENTROIDS, groups - b), count, d, false);
    find_nearest(pass->saved.nearest[pass->side] + first, z, ld, groups, count);
}

static void route(struct pass *pass)
{
    const struct problem *problem = pass->problem;
    struct routing r = routing_on(problem->options, &problem->shape, problem->scratch, 0);
    struct capacity each = capacity(problem->options);
    for (int side = QUERIES; side < (problem->shape.causal ? KEYS : SIDES); side++) {
        const struct members *members = &pass->saved.members[side];
        size_t n = rows_of(problem, (enum side)side).rows;
        pass->side = (enum side)side;
        pool_run(problem->pool, route_tile, pass, (n + TILE - 1) / TILE);
        if (problem->shape.causal)
            members_by_token(members, pass->saved.nearest[side], n, 1);
        else
            members_by_group(members, problem->kernels, problem->pool, r.scores, members_score_distance(n), n,
                             capacity_of(&each, n));
    }
}

/* ---- attention ----------------------------------------------------------------------------------------- */

static struct group_lists lists_of(const struct problem *problem, const struct saved *saved)
{
    return (struct group_lists){
        .sizes = sizes_of(problem->options, &problem->shape),
        .sight = problem->shape.causal ? SIGHT_WINDOW : SIGHT_ALL,
        .window = capacity(problem->options),
        .queries = saved->members[QUERIES],
        .keys = saved->members[KEYS],
        .rows = saved->rows,
    };
}

/* The problem with a query per place; so are then the lists. */
static struct problem take_places(const struct problem *problem, const struct attending *attending,
                                  struct group_lists *lists)
{
    size_t places = lists->sizes.query_places, d = problem->shape.head_dim;
    places_find(&attending->places, &lists->queries, problem->shape.num_queries);
    for (size_t p = 0; p < places; p++) {
        attending->each[p] = (uint32_t)p;
        memcpy(attending->query + p * d, view_row(problem->query, lists->queries.list[p]), d * sizeof(float));
    }
    lists->queries.list = attending->each;
    return problem_of_rows(problem, view_of(attending->query, places, d), problem->key, problem->value);
}

static size_t clusters_of(const struct places *places, size_t query)
{
    return places->start[query + 1] - places->start[query];
}

static void forward(const struct problem *problem, struct view out)
{
    struct pass pass = {.problem = problem,
                        .saved = saved_on(problem->options, &problem->shape, problem->saved)};
    struct group_lists lists = lists_of(problem, &pass.saved);
    struct attending attending = attending_on(problem->options, &problem->shape, false, 0, problem->scratch);
    route(&pass);
    if (problem->shape.causal) {
        group_forward(problem, &lists, out, attending.rest);
        return;
    }
    size_t d_v = problem->shape.value_dim;
    const struct problem placed = take_places(problem, &attending, &lists);
    group_forward(&placed, &lists, view_of(pass.saved.attended, placed.shape.num_queries, d_v),
                  attending.rest);
    for (size_t i = 0; i < out.rows; i++) {
        size_t count = clusters_of(&attending.places, i);
        memset(view_row(out, i), 0, d_v * sizeof(float));
        for (size_t p = attending.places.start[i]; p < attending.places.start[i + 1]; p++)
            problem->kernels->rows.axpy(view_row(out, i), 1 / (float)count,
                                        pass.saved.attended + attending.places.place[p] * d_v, d_v);
    }
}

/* dattended = the gradients of the places: of the mean over a query's clusters. */
static void spread(const struct attending *attending, struct view dout)
{
    size_t d_v = dout.cols;
    for (size_t i = 0; i < dout.rows; i++)
        for (size_t p = attending->places.start[i]; p < attending->places.start[i + 1]; p++)
            for (size_t c = 0; c < d_v; c++)
                attending->dattended[attending->places.place[p] * d_v + c] =
                    view_row(dout, i)[c] / (float)clusters_of(&attending->places, i);
}

/* dquery = the sums over places, within the range of float32. */
static void collect(const struct attending *attending, size_t n, size_t d)
{
    for (size_t i = 0; i < n; i++)
        for (size_t c = 0; c < d; c++) {
            double sum = 0;
            for (size_t p = attending->places.start[i]; p < attending->places.start[i + 1]; p++)
                sum += (double)attending->dplaces[attending->places.place[p] * d + c];
            attending->dquery[i * d + c] = double_bounded(sum);
        }
}

static void backward(const struct problem *problem, struct view out, struct view dout,
                     const struct problem_gradients *gradients)
{
    size_t d = problem->shape.head_dim, n_q = problem->shape.num_queries, n_k = problem->shape.num_keys;
    struct saved saved = saved_on(problem->options, &problem->shape, problem->saved);
    struct group_lists lists = lists_of(problem, &saved);
    size_t places = lists.sizes.query_places;
    struct attending a = attending_on(problem->options, &problem->shape, true, 0, problem->scratch);
    struct problem_gradients normed = *gradients;
    normed.query = view_of(a.dquery, n_q, d);
    normed.key = view_of(a.dkey, n_k, d);
    memset(a.dkey, 0, n_k * d * sizeof(float));
    if (problem->shape.causal) {
        memset(a.dquery, 0, n_q * d * sizeof(float));
        group_backward(problem, &lists, out, dout, &normed, a.rest);
    } else {
        const struct problem placed = take_places(problem, &a, &lists);
        spread(&a, dout);
        memset(a.dplaces, 0, places * d * sizeof(float));
        normed.query = view_of(a.dplaces, places, d);
        group_backward(&placed, &lists, view_of(saved.attended, places, dout.cols),
                       view_of(a.dattended, places, dout.cols), &normed, a.rest);
        collect(&a, n_q, d);
    }
    struct plain_norm norm = {
        .kernels = problem->kernels, .pool = problem->pool, .x = problem->query, .scratch = a.norm};
    plain_norm_backward(&norm, a.dquery, gradients->query);
    norm.x = problem->key;
    plain_norm_backward(&norm, a.dkey, gradients->key);
}

/* ---- the loss of the centroids ------------------------------------------------------------------------- */

/* Sum over the routing vectors x of a side of |x - mu|^2, mu their nearest centroid; dparams += weight (mu -
   x) unless NULL. */
static double distances(const struct pass *pass, enum side side, float weight, float *dparams)
{
    const struct problem *problem = pass->problem;
    const struct rows_slots *rows = &problem->kernels->rows;
    struct routing r = routing_on(problem->options, &problem->shape, problem->scratch, 0);
    size_t n = rows_of(problem, side).rows, d = problem->shape.head_dim;
    double sum = 0;
    for (size_t first = 0; first < n; first += TILE) {
        size_t count = size_min(TILE, n - first);
        take_vectors(&r, problem, side, first, count);
        for (size_t i = 0; i < count; i++) {
            size_t at = pass->saved.nearest[side][first + i] * d;
            float *x = r.normed + i * d;
            rows->axpy(x, -1, problem->params + at, d);
            sum += rows->sum_squares(x, d);
            if (dparams != NULL)
                rows->axpy(dparams + at, -weight, x, d);
        }
    }
    return sum;
}

static double centroid_loss(const struct problem *problem, const struct problem_gradients *gradients)
{
    struct pass pass = {.problem = problem,
                        .saved = saved_on(problem->options, &problem->shape, problem->saved)};
    size_t sides = problem->shape.causal ? 1 : SIDES;
    double loss = 0;
    for (size_t side = 0; side < sides; side++) {
        double share = 1 / ((double)sides * (double)rows_of(problem, (enum side)side).rows *
                            (double)problem->shape.head_dim);
        loss += share * distances(&pass, (enum side)side, (float)(2 * share), gradients->params);
    }
    return loss;
}

static double loss_share(const void *options)
{
    (void)options;
    return CENTROID_SHARE;
}

static const struct option_row options[] = {
    OPTION_ROW(
        "num_clusters", OPTION_INT, offsetof(struct routing_options, num_clusters), 16, 1, 4096, NULL,
        "learned centroids; attention runs inside clusters and computes about 1 / num_clusters of all pairs"),
    {.name = NULL},
};

static const char *const departures[] = {
    "Centroids start as standard normals.",
    "Centroids learn by a loss of their own, the mean squared distance to the rows that choose them; "
    "queries and keys have no loss for it.",
    "The output is the mean over the clusters that took the query, with nothing added to their "
    "number.",
    "Queries and keys are normed for the scores too.",
    "Scores are divided by sqrt(d).",
    "A causal token joins the cluster nearest to the mean of its normed query and key, and sees the "
    "last tokens of it.",
    NULL,
};

const struct mechanism mechanism_routing = {
    .name = "routing",
    .summary = "softmax attention of normed rows inside clusters of learned centroids (Roy et al. 2021)",
    .departures = departures,
    .options = options,
    .options_size = sizeof(struct routing_options),
    .exact = true,
    .mixes = true,
    .drops_weights = true,
    .competes = true,
    .host = {refuse, saved_size, scratch_size, forward, backward},
    .params = params,
    .own_loss = &(const struct own_loss_facet){centroid_loss, loss_share},
};
