/* Rows are hashed and the lists of keys made once; then each thread takes 64 queries at a time. The sample of
   a query is gathered in tiles of 64 rows of unit keys and of values; a column of ones beside the values
   makes the sum of weights a column of the product. The exponents of a query are shifted by their running
   maximum.
   SPDX-License-Identifier: Apache-2.0 */
#include "parts/sampling/sampled_attention.h"

#include <math.h>
#include <string.h>

#include "parts/collisions/near_pair.h"
#include "parts/sampling/sampled_keys.h"

enum {
    TILE = KERNELS_TILE,
    BLOCK = 64,      /* queries of a unit of work */
    ROWS = 8 * TILE, /* keys of a unit of work that takes their unit rows */
};

static const float largest_score = 1e38f; /* differences of two stay finite */
static const float least_chance = 1e-25f; /* of a key: its inverse stays finite, times the keys of a bucket */

/* ---- memory -------------------------------------------------------------------------------------------- */

/* Memory of one thread. */
struct space {
    uint32_t *marks, *keys;          /* (n_k) of unions; the sample */
    float *weight;                   /* of draws */
    float *key, *value;              /* (TILE, ld), (TILE, d_v + 1): gathered rows */
    float *cosine, *chance, *score;  /* (TILE) */
    float *scale, *norm2;            /* (TILE) lengths of keys; 1, or 0 for a zero vector */
    float *query, *query_norm, *top; /* (BLOCK, ld), (BLOCK), (d_v + 1) */
};

struct scratch {
    struct hasher hasher;
    void *query_codes, *key_codes;
    struct key_lists lists;
    size_t ld;
    float *unit, *norm; /* (n_k, ld), (n_k): unit keys and their lengths */
    char *spaces;
    size_t per_space, bytes;
};

/* The problem that is computed. */
struct run {
    enum sampling sampling;
    struct yoso_options hashing;
    const struct problem *problem;
    struct scratch scratch;
    struct view out;
    const struct sampled_sums *sums;
};

static size_t take_space(enum sampling sampling, size_t num_hashes, const struct problem_shape *shape,
                         void *block, struct space *s)
{
    struct arena arena = arena_on(block);
    bool is_union = sampling == SAMPLE_UNION;
    size_t width = size_sum(shape->value_dim, 1), ld = unit_padded(shape->head_dim), size = sizeof(float);
    size_t most = is_union ? size_sum(shape->num_keys, 1) : num_hashes; /* keys of a sample */
    s->marks = arena_take(&arena, is_union ? shape->num_keys : 0, sizeof *s->marks);
    s->keys = arena_take(&arena, most, sizeof *s->keys);
    s->weight = arena_take(&arena, is_union ? 0 : most, size);
    s->key = arena_take(&arena, size_product(TILE, ld), size);
    s->value = arena_take(&arena, size_product(TILE, width), size);
    s->cosine = arena_take(&arena, TILE, size);
    s->chance = arena_take(&arena, TILE, size);
    s->score = arena_take(&arena, TILE, size);
    s->scale = arena_take(&arena, TILE, size);
    s->norm2 = arena_take(&arena, TILE, size);
    s->query = arena_take(&arena, size_product(BLOCK, ld), size);
    s->query_norm = arena_take(&arena, BLOCK, size);
    s->top = arena_take(&arena, width, size);
    return arena.used;
}

static struct space space_of(const struct run *run, size_t worker)
{
    struct space space;
    take_space(run->sampling, (size_t)run->hashing.num_hashes, &run->problem->shape,
               run->scratch.spaces + worker * run->scratch.per_space, &space);
    return space;
}

static struct scratch scratch_on(enum sampling sampling, const struct yoso_options *options,
                                 const struct problem_shape *shape, void *block)
{
    struct scratch s;
    struct space space;
    struct arena arena = arena_on(block);
    struct hashing hashing = hashing_of(options);
    s.ld = unit_padded(shape->head_dim);
    s.hasher.planes = arena_take(&arena, hasher_planes(options, shape->head_dim), sizeof(float));
    hasher_init(&s.hasher, &arena, options, shape->head_dim, shape->workers);
    s.query_codes = arena_take(&arena, codes_size(&hashing, shape->num_queries), 1);
    s.key_codes = arena_take(&arena, codes_size(&hashing, shape->num_keys), 1);
    key_lists_init(&s.lists, &arena, &hashing, shape->num_queries, shape->num_keys);
    s.unit = arena_take(&arena, size_product(shape->num_keys, s.ld), sizeof(float));
    s.norm = arena_take(&arena, shape->num_keys, sizeof(float));
    s.per_space = take_space(sampling, hashing.num_hashes, shape, NULL, &space);
    s.spaces = arena_take(&arena, shape->workers, s.per_space);
    s.bytes = arena.used;
    return s;
}

struct yoso_options sampled_hashing(const struct sample_options *options)
{
    return (struct yoso_options){.num_hashes = options->num_hashes,
                                 .hash_bits = options->hash_bits,
                                 .planes = PLANES_GAUSSIAN,
                                 .map = YOSO_MAP_L2,
                                 .projection = HASH_INT16_DP};
}

size_t sampled_saved_size(const void *options, const struct problem_shape *shape)
{
    (void)options;
    (void)shape;
    return 0;
}

size_t sampled_scratch_size(enum sampling sampling, const void *options, const struct problem_shape *shape)
{
    struct yoso_options hashing = sampled_hashing(options);
    return scratch_on(sampling, &hashing, shape, NULL).bytes;
}

const char *sampled_refuse(enum sampling sampling, const void *options, const struct problem_shape *shape)
{
    const size_t most_bytes = (size_t)1 << 40;
    if (shape->num_queries > UINT32_MAX / 2 || shape->num_keys > UINT32_MAX / 2)
        return "rows are numbered with 32 bits: at most 2147483647 queries and keys";
    if (shape->head_dim > 1 << 24) /* beyond this, fixed point has no bits left for a coordinate */
        return "vectors of at most 16777216 numbers are hashed";
    if (sampled_scratch_size(sampling, options, shape) > most_bytes)
        return "one head would need more than 1099511627776 bytes";
    return NULL;
}

/* ---- planes -------------------------------------------------------------------------------------------- */

static struct planes_form form_of(const void *options, size_t head_dim)
{
    struct yoso_options hashing = sampled_hashing(options);
    return hasher_form(&hashing, head_dim);
}

size_t sampled_shared_size(const void *options, size_t head_dim)
{
    struct planes_form form = form_of(options, head_dim);
    return size_product(planes_count(&form), sizeof(float));
}

size_t sampled_prepare_size(const void *options, size_t head_dim, size_t workers)
{
    struct planes_form form = form_of(options, head_dim);
    return planes_work_size(&form, workers);
}

void sampled_prepare(const struct preparation *p)
{
    struct planes_form form = form_of(p->options, p->head_dim);
    planes_draw(p->kernels, p->pool, &form, p->call_key, p->shared, p->scratch);
}

/* ---- weights ------------------------------------------------------------------------------------------- */

/* c <- the chance 1 - (1 - c)^times of at least one of `times` hashes, from the chances of half as many:
   nothing cancels, however small c is. The inner loops have a constant length, so that the compiler uses
   vectors. */
static void chance_of_any(float *restrict c, size_t times)
{
    float one[TILE];
    size_t bit = 1;
    memcpy(one, c, sizeof one);
    while (2 * bit <= times)
        bit *= 2;
    while (bit /= 2) {
        for (size_t j = 0; j < TILE; j++)
            c[j] *= 2 - c[j];
        for (size_t j = 0; (times & bit) != 0 && j < TILE; j++)
            c[j] += one[j] * (1 - c[j]);
    }
}

/* The weights g exp(score - level) of a tile of sampled keys in space->score; returns the factor of the sums
   so far. */
static float weigh(const struct run *run, const struct space *space, const float *query, float query_norm,
                   const float *weight, size_t count, float *level)
{
    const struct kernels *kernels = run->problem->kernels;
    size_t dim = run->problem->shape.head_dim;
    float query_norm2 = query_norm >= UNIT_SHORTEST, scale = query_norm / sqrtf((float)dim), factor, sum = 0;
    size_t ld = run->scratch.ld, bits = (size_t)run->hashing.hash_bits;
    kernels->rows.dots(space->cosine, space->key, ld, query, 0, count, ld);
    size_t near = kernels->tiles.collisions(space->chance, NULL, space->cosine, TILE, 1, count, &query_norm2,
                                            space->norm2, (unsigned)bits);
    for (size_t j = 0; near > 0 && j < count; j++)
        if (near_pair(space->cosine[j], query_norm2 + space->norm2[j]))
            space->chance[j] = near_pair_chance(query, space->key + j * ld, dim, bits);
    for (size_t j = 0; j < count; j++) {
        float product = scale * space->scale[j];
        space->score[j] = space->cosine[j] * (product < largest_score ? product : largest_score);
    }
    for (size_t j = count; j < TILE; j++)
        space->chance[j] = 1;
    if (run->sampling == SAMPLE_UNION)
        chance_of_any(space->chance, (size_t)run->hashing.num_hashes);
    kernels->softmax.step(space->score, TILE, 1, count, 1, level, &sum, &factor);
    for (size_t j = 0; j < count; j++) {
        float chance = space->chance[j] > least_chance ? space->chance[j] : least_chance;
        space->score[j] *= (weight == NULL ? 1 : weight[j]) / chance;
    }
    return factor;
}

static void gather(const struct run *run, const struct space *space, const uint32_t *keys, size_t count)
{
    const struct scratch *s = &run->scratch;
    struct view value = run->problem->value;
    size_t d_v = run->problem->shape.value_dim;
    for (size_t j = 0; j < count; j++) {
        memcpy(space->key + j * s->ld, s->unit + keys[j] * s->ld, s->ld * sizeof *space->key);
        memcpy(space->value + j * (d_v + 1), view_row(value, keys[j]), d_v * sizeof *space->value);
        space->scale[j] = s->norm[keys[j]];
        space->norm2[j] = space->scale[j] >= UNIT_SHORTEST;
    }
}

/* ---- queries ------------------------------------------------------------------------------------------- */

static size_t sample(const struct run *run, const struct space *space, size_t query)
{
    size_t seen = problem_seen(run->problem, query);
    if (run->sampling == SAMPLE_UNION)
        return sampled_union(&run->scratch.lists, query, seen, space->marks, (uint32_t)query + 1,
                             space->keys);
    return sampled_draws(&run->scratch.lists, query, seen, run->problem->random_key, space->keys,
                         space->weight);
}

static void answer(const struct run *run, const struct space *space, size_t query, const float *unit,
                   float norm)
{
    const struct kernels *kernels = run->problem->kernels;
    size_t d_v = run->problem->shape.value_dim, count = sample(run, space, query);
    float level = -INFINITY, *out = view_row(run->out, query);
    memset(space->top, 0, (d_v + 1) * sizeof *space->top);
    for (size_t first = 0; first < count; first += TILE) {
        size_t keys = size_min(TILE, count - first);
        gather(run, space, space->keys + first, keys);
        float factor = weigh(run, space, unit, norm,
                             run->sampling == SAMPLE_UNION ? NULL : space->weight + first, keys, &level);
        kernels->rows.scale(space->top, d_v + 1, &factor, 1, d_v + 1);
        kernels->tiles.product(space->top, d_v + 1, space->score, TILE, 1, space->value, d_v + 1, 1, d_v + 1,
                               keys, true);
    }
    float mass = space->top[d_v];
    for (size_t c = 0; c < d_v; c++)
        out[c] = mass > 0 ? space->top[c] / mass : 0;
    if (run->sums != NULL) {
        run->sums->level[query] = count > 0 ? level : 0;
        run->sums->mass[query] = mass;
    }
}

static void answer_block(void *argument, size_t block, int worker)
{
    const struct run *run = argument;
    const struct problem *problem = run->problem;
    struct view query = problem->query;
    struct space space = space_of(run, (size_t)worker);
    size_t ld = run->scratch.ld, d_v = problem->shape.value_dim, first = block * BLOCK,
           rows = size_min(BLOCK, query.rows - first);
    for (size_t j = 0; j < TILE; j++)
        space.value[j * (d_v + 1) + d_v] = 1;
    unit_take(problem->kernels, space.query, ld, space.query_norm, view_row(query, first), query.stride, rows,
              problem->shape.head_dim);
    for (size_t i = 0; i < rows; i++)
        answer(run, &space, first + i, space.query + i * ld, space.query_norm[i]);
}

/* ---- forward ------------------------------------------------------------------------------------------- */

static void take_keys(void *argument, size_t block, int worker)
{
    (void)worker;
    const struct run *run = argument;
    const struct problem *problem = run->problem;
    struct view key = problem->key;
    size_t first = block * ROWS, rows = size_min(ROWS, key.rows - first), ld = run->scratch.ld;
    unit_take(problem->kernels, run->scratch.unit + first * ld, ld, run->scratch.norm + first,
              view_row(key, first), key.stride, rows, problem->shape.head_dim);
}

static void clear_marks(void *argument, size_t space, int worker)
{
    (void)worker;
    const struct run *run = argument;
    uint32_t *marks = space_of(run, space).marks;
    memset(marks, 0, run->problem->shape.num_keys * sizeof *marks);
}

void sampled_forward(enum sampling sampling, const struct problem *problem, struct view out,
                     const struct sampled_sums *sums)
{
    const struct kernels *kernels = problem->kernels;
    struct pool *pool = problem->pool;
    size_t n_q = problem->shape.num_queries, n_k = problem->shape.num_keys;
    struct run run = {.sampling = sampling,
                      .hashing = sampled_hashing(problem->options),
                      .problem = problem,
                      .out = out,
                      .sums = sums};
    struct scratch *s = &run.scratch;
    *s = scratch_on(sampling, &run.hashing, &problem->shape, problem->scratch);
    struct hashing hashing = hashing_of(&run.hashing);
    struct codes queries = codes_at(&hashing, s->query_codes, n_q),
                 keys = codes_at(&hashing, s->key_codes, n_k);
    hasher_turn(kernels, &s->hasher, problem->shared, problem->random_key);
    hasher_codes(kernels, pool, &s->hasher, problem->query, problem->key, s->query_codes, s->key_codes);
    key_lists_find(&s->lists, pool, &queries, &keys);
    pool_run(pool, take_keys, &run, (n_k + ROWS - 1) / ROWS);
    if (sampling == SAMPLE_UNION)
        pool_run(pool, clear_marks, &run, problem->shape.workers);
    pool_run(pool, answer_block, &run, (n_q + BLOCK - 1) / BLOCK);
}
