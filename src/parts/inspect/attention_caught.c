/* Two passes over tiles of queries: count the keys met, then sum their attention. Sums are in double, in row
   order.
   SPDX-License-Identifier: Apache-2.0 */
#include "parts/inspect/attention_caught.h"

#include <math.h>
#include <string.h>

#include "parts/groups/topk.h"

enum { ROWS = 32, TILE = 128 };

static size_t seen_keys(const struct problem_shape *shape, size_t i)
{
    return shape->causal ? i + 1 : shape->num_keys;
}

struct memory {
    float *key_columns;        /* tile after tile of keys, (dim, TILE) each */
    double *utility, *best;    /* (num_caught, num_queries) */
    size_t *pairs;             /* (num_caught, num_queries): keys that it attends to */
    size_t *most;              /* (num_caught): c of the bound */
    uint32_t *starts, *places; /* (num_caught, num_queries + 1), (num_caught, places): see places_of */
    /* of one thread */
    float *scores, *row_max, *row_sum, *factor; /* (ROWS, num_keys), (ROWS) each */
    uint32_t *stamp, *list;                     /* (num_keys) */
    size_t bytes;
};

static struct memory memory_on(const struct problem_shape *shape, const struct catching *c, void *block,
                               size_t worker)
{
    struct memory memory;
    struct arena arena = arena_on(block), own;
    size_t of_queries = size_product(c->num_caught, shape->num_queries), bytes = 0;
    size_t tiles = size_sum(shape->num_keys, TILE - 1) / TILE;
    memory.key_columns =
        arena_take(&arena, size_product(tiles, TILE), size_product(shape->head_dim, sizeof(float)));
    memory.utility = arena_take(&arena, of_queries, sizeof(double));
    memory.best = arena_take(&arena, of_queries, sizeof(double));
    memory.pairs = arena_take(&arena, of_queries, sizeof *memory.pairs);
    memory.most = arena_take(&arena, c->num_caught, sizeof *memory.most);
    memory.starts =
        arena_take(&arena, size_product(c->num_caught, size_sum(shape->num_queries, 1)), sizeof(uint32_t));
    memory.places = arena_take(&arena, size_product(c->num_caught, c->places), sizeof(uint32_t));
    for (int pass = 0; pass < 2; pass++) { /* the first pass measures */
        unsigned char *workers = pass == 0 ? NULL : arena_take(&arena, shape->workers, bytes);
        own = arena_on(workers == NULL ? NULL : workers + worker * bytes);
        memory.scores = arena_take(&own, size_product(ROWS, shape->num_keys), sizeof(float));
        memory.row_max = arena_take(&own, ROWS, sizeof(float));
        memory.row_sum = arena_take(&own, ROWS, sizeof(float));
        memory.factor = arena_take(&own, ROWS, sizeof(float));
        memory.stamp = arena_take(&own, shape->num_keys, sizeof *memory.stamp);
        memory.list = arena_take(&own, shape->num_keys, sizeof *memory.list);
        bytes = own.used;
    }
    memory.bytes = arena.used;
    return memory;
}

size_t attention_caught_size(const struct problem_shape *shape, const struct catching *catching)
{
    return memory_on(shape, catching, NULL, 0).bytes;
}

struct pass {
    const struct problem *problem;
    const struct catching *catching;
    void *scratch;
};

static struct memory open_memory(const struct pass *pass, int worker)
{
    return memory_on(&pass->problem->shape, pass->catching, pass->scratch, (size_t)worker);
}

/* The places of each query in the lists of a membership. */
static struct places places_of(const struct pass *pass, const struct memory *memory, size_t p)
{
    return (struct places){memory->starts + p * (pass->problem->shape.num_queries + 1),
                           memory->places + p * pass->catching->places};
}

/* Counts the distinct keys that query i meets in membership p; *sum: the sum of row[j] over them (row NULL:
   0). stamp[j] is the mark of the last query that met key j. */
static size_t sum_seen(const struct pass *pass, const struct memory *memory, size_t p, size_t i,
                       uint32_t mark, const float *row, double *sum)
{
    const struct caught *caught = &pass->catching->caught[p];
    const struct places places = places_of(pass, memory, p);
    size_t count = 0, group = 0;
    *sum = 0;
    for (size_t at = places.start[i]; at < places.start[i + 1]; at++) {
        size_t place = places.place[at];
        while (caught->queries.start[group + 1] <= place)
            group++;
        size_t first = caught->queries.start[group];
        const uint32_t *keys = caught->keys.list + caught->keys.start[group];
        struct seen seen = group_seen(caught->sight, &caught->window, caught->queries.list + first,
                                      place - first, members_of(&caught->keys, group));
        for (size_t k = seen.first; k < seen.end; k++) {
            uint32_t j = keys[k];
            bool fresh = memory->stamp[j] != mark;
            memory->stamp[j] = mark;
            count += fresh;
            *sum += fresh && row != NULL ? (double)row[j] : 0;
        }
    }
    return count;
}

/* ---- counts -------------------------------------------------------------------------------------------- */

static void count_rows(void *argument, size_t index, int worker)
{
    const struct pass *pass = argument;
    const struct problem_shape *shape = &pass->problem->shape;
    struct memory memory = open_memory(pass, worker);
    size_t first = index * ROWS, rows = size_min(ROWS, shape->num_queries - first);
    double nothing;
    uint32_t mark = 0;
    memset(memory.stamp, 0, shape->num_keys * sizeof *memory.stamp);
    for (size_t p = 0; p < pass->catching->num_caught; p++)
        for (size_t i = first; i < first + rows; i++)
            memory.pairs[p * shape->num_queries + i] = sum_seen(pass, &memory, p, i, ++mark, NULL, &nothing);
}

/* Number of pairs if every query has its `most` best keys among those that it may see. */
static double pairs_of_best(const struct problem_shape *shape, size_t most)
{
    double n = (double)shape->num_queries, each = (double)size_min(most, shape->num_keys);
    return shape->causal ? each * (each + 1) / 2 + (n - each) * each : n * each;
}

/* The least `most` with at least `pairs` pairs. */
static size_t most_for(const struct problem_shape *shape, double pairs)
{
    size_t low = 0, high = shape->num_keys; /* high is always enough */
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (pairs_of_best(shape, middle) < pairs)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

/* ---- shares -------------------------------------------------------------------------------------------- */

/* exp(s - max) of the tile's rows, 0 for unseen keys. */
static void fill_scores(const struct problem *problem, const struct memory *memory, size_t first, size_t rows)
{
    size_t n_k = problem->shape.num_keys, d = problem->shape.head_dim;
    for (size_t tile = 0; tile < n_k; tile += TILE)
        problem->kernels->tiles.product(memory->scores + tile, n_k, view_row(problem->query, first),
                                        problem->query.stride, 1, memory->key_columns + tile * d, TILE, rows,
                                        size_min(TILE, n_k - tile), d, false);
    for (size_t i = 0; i < rows; i++) {
        memory->row_max[i] = -INFINITY;
        memory->row_sum[i] = 0;
        for (size_t j = seen_keys(&problem->shape, first + i); j < n_k; j++)
            memory->scores[i * n_k + j] = -INFINITY;
    }
    problem->kernels->softmax.step(memory->scores, n_k, rows, n_k, (float)(1 / sqrt((double)d)),
                                   memory->row_max, memory->row_sum, memory->factor);
}

/* The sum of the `most` largest of n. */
static double best_of(const struct kernels *kernels, const struct memory *memory, const float *row, size_t n,
                      size_t most)
{
    double sum = 0;
    topk_select(kernels, row, n, most, memory->list);
    for (size_t k = 0; k < most; k++)
        sum += (double)row[memory->list[k]];
    return sum;
}

static void catch_rows(void *argument, size_t index, int worker)
{
    const struct pass *pass = argument;
    const struct problem_shape *shape = &pass->problem->shape;
    struct memory memory = open_memory(pass, worker);
    size_t first = index * ROWS, rows = size_min(ROWS, shape->num_queries - first);
    uint32_t mark = 0;
    memset(memory.stamp, 0, shape->num_keys * sizeof *memory.stamp);
    fill_scores(pass->problem, &memory, first, rows);
    for (size_t i = 0; i < rows; i++) {
        const float *row = memory.scores + i * shape->num_keys;
        size_t seen = seen_keys(shape, first + i);
        double sum = 0, part;
        for (size_t j = 0; j < seen; j++)
            sum += (double)row[j];
        for (size_t p = 0; p < pass->catching->num_caught; p++) {
            size_t at = p * shape->num_queries + first + i;
            sum_seen(pass, &memory, p, first + i, ++mark, row, &part);
            memory.utility[at] = part / sum;
            memory.best[at] = memory.most[p] < seen
                                  ? best_of(pass->problem->kernels, &memory, row, seen, memory.most[p]) / sum
                                  : 1;
        }
    }
}

void attention_caught(const struct problem *problem, const struct catching *c, void *scratch)
{
    const struct problem_shape *shape = &problem->shape;
    const struct view key = problem->key;
    size_t n_q = shape->num_queries, n_k = shape->num_keys, d = shape->head_dim,
           blocks = (n_q + ROWS - 1) / ROWS;
    struct pass pass = {problem, c, scratch};
    struct memory memory = open_memory(&pass, 0);
    for (size_t tile = 0; tile < n_k; tile += TILE)
        problem->kernels->tiles.transpose(memory.key_columns + tile * d, TILE, view_row(key, tile),
                                          key.stride, size_min(TILE, n_k - tile), d);
    for (size_t p = 0; p < c->num_caught; p++) {
        struct places places = places_of(&pass, &memory, p);
        places_find(&places, &c->caught[p].queries, n_q);
    }
    pool_run(problem->pool, count_rows, &pass, blocks);
    for (size_t p = 0; p < c->num_caught; p++) {
        double pairs = 0;
        for (size_t i = 0; i < n_q; i++)
            pairs += (double)memory.pairs[p * n_q + i];
        memory.most[p] = most_for(shape, pairs);
        c->caught[p].pairs = pairs / pairs_of_best(shape, n_k);
    }
    pool_run(problem->pool, catch_rows, &pass, blocks);
    for (size_t p = 0; p < c->num_caught; p++) {
        double utility = 0, bound = 0;
        for (size_t i = 0; i < n_q; i++) {
            utility += memory.utility[p * n_q + i];
            bound += memory.best[p * n_q + i];
        }
        c->caught[p].utility = utility / (double)n_q;
        c->caught[p].bound = bound / (double)n_q;
    }
}
