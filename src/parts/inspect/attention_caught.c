/* Two passes over tiles of queries: count the keys met, then sum their attention. Sums are in double, in row
   order.
   SPDX-License-Identifier: Apache-2.0 */
#include "parts/inspect/attention_caught.h"

#include <math.h>
#include <string.h>

#include "parts/groups/topk.h"

enum { ROWS = 32, TILE = 128 };

static size_t seen_keys(const struct catching *c, size_t i)
{
    return c->causal ? i + 1 : c->num_keys;
}

struct memory {
    float *key_columns;        /* tile after tile of keys, (dim, TILE) each */
    double *utility, *best;    /* (num_caught, num_queries) */
    size_t *met;               /* (num_caught, num_queries): keys that it meets */
    size_t *most;              /* (num_caught): c of the bound */
    uint32_t *starts, *places; /* (num_caught, num_queries + 1), (num_caught, places): see places_of */
    /* of one thread */
    float *scores, *row_max, *row_sum, *factor; /* (ROWS, num_keys), (ROWS) each */
    uint32_t *stamp, *list;                     /* (num_keys) */
    size_t bytes;
};

static struct memory memory_on(const struct catching *c, void *block, size_t worker)
{
    struct memory memory;
    struct arena arena = arena_on(block), own;
    size_t of_queries = size_product(c->num_caught, c->num_queries), bytes = 0;
    size_t tiles = size_sum(c->num_keys, TILE - 1) / TILE;
    memory.key_columns = arena_take(&arena, size_product(tiles, TILE), size_product(c->dim, sizeof(float)));
    memory.utility = arena_take(&arena, of_queries, sizeof(double));
    memory.best = arena_take(&arena, of_queries, sizeof(double));
    memory.met = arena_take(&arena, of_queries, sizeof *memory.met);
    memory.most = arena_take(&arena, c->num_caught, sizeof *memory.most);
    memory.starts =
        arena_take(&arena, size_product(c->num_caught, size_sum(c->num_queries, 1)), sizeof(uint32_t));
    memory.places = arena_take(&arena, size_product(c->num_caught, c->places), sizeof(uint32_t));
    for (int pass = 0; pass < 2; pass++) { /* the first pass measures */
        unsigned char *workers = pass == 0 ? NULL : arena_take(&arena, c->workers, bytes);
        own = arena_on(workers == NULL ? NULL : workers + worker * bytes);
        memory.scores = arena_take(&own, size_product(ROWS, c->num_keys), sizeof(float));
        memory.row_max = arena_take(&own, ROWS, sizeof(float));
        memory.row_sum = arena_take(&own, ROWS, sizeof(float));
        memory.factor = arena_take(&own, ROWS, sizeof(float));
        memory.stamp = arena_take(&own, c->num_keys, sizeof *memory.stamp);
        memory.list = arena_take(&own, c->num_keys, sizeof *memory.list);
        bytes = own.used;
    }
    memory.bytes = arena.used;
    return memory;
}

size_t attention_caught_size(const struct catching *catching)
{
    return memory_on(catching, NULL, 0).bytes;
}

/* The places of each query in the lists of a membership. */
static struct places places_of(const struct catching *c, const struct memory *memory, size_t p)
{
    return (struct places){memory->starts + p * (c->num_queries + 1), memory->places + p * c->places};
}

struct pass {
    const struct catching *catching;
    void *scratch;
};

static struct memory open_memory(const struct pass *pass, int worker)
{
    return memory_on(pass->catching, pass->scratch, (size_t)worker);
}

/* Counts the distinct keys that query i meets in membership p; *sum: the sum of row[j] over them (row NULL:
   0). stamp[j] is the mark of the last query that met key j. */
static size_t meet(const struct catching *c, const struct memory *memory, size_t p, size_t i, uint32_t mark,
                   const float *row, double *sum)
{
    const struct caught *caught = &c->caught[p];
    const struct places places = places_of(c, memory, p);
    size_t met = 0, group = 0;
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
            met += fresh;
            *sum += fresh && row != NULL ? (double)row[j] : 0;
        }
    }
    return met;
}

/* ---- counts -------------------------------------------------------------------------------------------- */

static void count_rows(void *argument, size_t index, int worker)
{
    const struct catching *c = ((const struct pass *)argument)->catching;
    struct memory memory = open_memory(argument, worker);
    size_t first = index * ROWS, rows = size_min(ROWS, c->num_queries - first);
    double nothing;
    uint32_t mark = 0;
    memset(memory.stamp, 0, c->num_keys * sizeof *memory.stamp);
    for (size_t p = 0; p < c->num_caught; p++)
        for (size_t i = first; i < first + rows; i++)
            memory.met[p * c->num_queries + i] = meet(c, &memory, p, i, ++mark, NULL, &nothing);
}

/* Number of pairs if every query has its `most` best keys among those that it may see. */
static double pairs_of_best(const struct catching *c, size_t most)
{
    double n = (double)c->num_queries, each = (double)size_min(most, c->num_keys);
    return c->causal ? each * (each + 1) / 2 + (n - each) * each : n * each;
}

/* The least `most` with at least `pairs` pairs. */
static size_t most_for(const struct catching *c, double pairs)
{
    size_t low = 0, high = c->num_keys; /* high is always enough */
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (pairs_of_best(c, middle) < pairs)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

/* ---- shares -------------------------------------------------------------------------------------------- */

/* exp(s - max) of the tile's rows, 0 for unseen keys. */
static void fill_scores(const struct catching *c, const struct memory *memory, size_t first, size_t rows)
{
    size_t n_k = c->num_keys;
    for (size_t tile = 0; tile < n_k; tile += TILE)
        c->kernels->tiles.product(memory->scores + tile, n_k, view_row(c->query, first), c->query.stride, 1,
                                  memory->key_columns + tile * c->dim, TILE, rows, size_min(TILE, n_k - tile),
                                  c->dim, false);
    for (size_t i = 0; i < rows; i++) {
        memory->row_max[i] = -INFINITY;
        memory->row_sum[i] = 0;
        for (size_t j = seen_keys(c, first + i); j < n_k; j++)
            memory->scores[i * n_k + j] = -INFINITY;
    }
    c->kernels->softmax.step(memory->scores, n_k, rows, n_k, (float)(1 / sqrt((double)c->dim)),
                             memory->row_max, memory->row_sum, memory->factor);
}

/* The sum of the `most` largest of n. */
static double best_of(const struct catching *c, const struct memory *memory, const float *row, size_t n,
                      size_t most)
{
    double sum = 0;
    topk_select(c->kernels, row, n, most, memory->list);
    for (size_t k = 0; k < most; k++)
        sum += (double)row[memory->list[k]];
    return sum;
}

static void catch_rows(void *argument, size_t index, int worker)
{
    const struct catching *c = ((const struct pass *)argument)->catching;
    struct memory memory = open_memory(argument, worker);
    size_t first = index * ROWS, rows = size_min(ROWS, c->num_queries - first);
    uint32_t mark = 0;
    memset(memory.stamp, 0, c->num_keys * sizeof *memory.stamp);
    fill_scores(c, &memory, first, rows);
    for (size_t i = 0; i < rows; i++) {
        const float *row = memory.scores + i * c->num_keys;
        size_t seen = seen_keys(c, first + i);
        double sum = 0, part;
        for (size_t j = 0; j < seen; j++)
            sum += (double)row[j];
        for (size_t p = 0; p < c->num_caught; p++) {
            size_t at = p * c->num_queries + first + i;
            meet(c, &memory, p, first + i, ++mark, row, &part);
            memory.utility[at] = part / sum;
            memory.best[at] =
                memory.most[p] < seen ? best_of(c, &memory, row, seen, memory.most[p]) / sum : 1;
        }
    }
}

void attention_caught(const struct catching *c, void *scratch)
{
    struct pass pass = {c, scratch};
    struct memory memory = open_memory(&pass, 0);
    size_t blocks = (c->num_queries + ROWS - 1) / ROWS;
    for (size_t tile = 0; tile < c->num_keys; tile += TILE)
        c->kernels->tiles.transpose(memory.key_columns + tile * c->dim, TILE, view_row(c->key, tile),
                                    c->key.stride, size_min(TILE, c->num_keys - tile), c->dim);
    for (size_t p = 0; p < c->num_caught; p++) {
        struct places places = places_of(c, &memory, p);
        places_find(&places, &c->caught[p].queries, c->num_queries);
    }
    pool_run(c->pool, count_rows, &pass, blocks);
    for (size_t p = 0; p < c->num_caught; p++) {
        double met = 0;
        for (size_t i = 0; i < c->num_queries; i++)
            met += (double)memory.met[p * c->num_queries + i];
        memory.most[p] = most_for(c, met);
        c->caught[p].pairs = met / pairs_of_best(c, c->num_keys);
    }
    pool_run(c->pool, catch_rows, &pass, blocks);
    for (size_t p = 0; p < c->num_caught; p++) {
        double utility = 0, bound = 0;
        for (size_t i = 0; i < c->num_queries; i++) {
            utility += memory.utility[p * c->num_queries + i];
            bound += memory.best[p * c->num_queries + i];
        }
        c->caught[p].utility = utility / (double)c->num_queries;
        c->caught[p].bound = bound / (double)c->num_queries;
    }
}
