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
    float *share;                    /* of draws */
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

/* Most keys of a sample. */
static size_t most_keys(const struct sampled_attention *a)
{
    return a->sampling == SAMPLE_UNION ? size_sum(a->num_keys, 1) : (size_t)a->hashing.num_hashes;
}

static size_t take_space(const struct sampled_attention *a, size_t ld, void *block, struct space *s)
{
    struct arena arena = arena_on(block);
    bool is_union = a->sampling == SAMPLE_UNION;
    size_t width = size_sum(a->value_dim, 1), size = sizeof(float);
    s->marks = arena_take(&arena, is_union ? a->num_keys : 0, sizeof *s->marks);
    s->keys = arena_take(&arena, most_keys(a), sizeof *s->keys);
    s->share = arena_take(&arena, is_union ? 0 : most_keys(a), size);
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

static struct scratch scratch_on(const struct sampled_attention *a, void *block)
{
    struct scratch s;
    struct space space;
    struct arena arena = arena_on(block);
    struct hashing hashing = hashing_of(&a->hashing);
    s.ld = unit_padded(a->dim);
    s.hasher.planes = arena_take(&arena, hasher_planes(&a->hashing, a->dim), sizeof(float));
    hasher_lay_out(&s.hasher, &arena, &a->hashing, a->dim, a->workers);
    s.query_codes = arena_take(&arena, codes_size(&hashing, a->num_queries), 1);
    s.key_codes = arena_take(&arena, codes_size(&hashing, a->num_keys), 1);
    key_lists_lay_out(&s.lists, &arena, &hashing, a->num_queries, a->num_keys);
    s.unit = arena_take(&arena, size_product(a->num_keys, s.ld), sizeof(float));
    s.norm = arena_take(&arena, a->num_keys, sizeof(float));
    s.per_space = take_space(a, s.ld, NULL, &space);
    s.spaces = arena_take(&arena, a->workers, s.per_space);
    s.bytes = arena.used;
    return s;
}

size_t sampled_attention_scratch_size(const struct sampled_attention *attention)
{
    return scratch_on(attention, NULL).bytes;
}

struct yoso_options sampled_hashing(int64_t num_hashes, int64_t hash_bits)
{
    return (struct yoso_options){.num_hashes = num_hashes,
                                 .hash_bits = hash_bits,
                                 .planes = PLANES_GAUSSIAN,
                                 .map = YOSO_MAP_L2,
                                 .projection = HASH_INT16_DP};
}

/* ---- weights ------------------------------------------------------------------------------------------- */

struct run {
    const struct sampled_attention *a;
    struct scratch scratch;
    struct view out;
};

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
                   const float *share, size_t count, float *level)
{
    const struct sampled_attention *a = run->a;
    const struct kernels *kernels = a->kernels;
    float query_norm2 = query_norm >= UNIT_SHORTEST, scale = query_norm / sqrtf((float)a->dim), factor,
          sum = 0;
    size_t ld = run->scratch.ld, bits = (size_t)a->hashing.hash_bits;
    kernels->rows.dots(space->cosine, space->key, ld, query, 0, count, ld);
    size_t near = kernels->tiles.collisions(space->chance, NULL, space->cosine, TILE, 1, count, &query_norm2,
                                            space->norm2, (unsigned)bits);
    for (size_t j = 0; near > 0 && j < count; j++)
        if (near_pair(space->cosine[j], query_norm2 + space->norm2[j]))
            space->chance[j] = near_pair_chance(query, space->key + j * ld, a->dim, bits);
    for (size_t j = 0; j < count; j++) {
        float product = scale * space->scale[j];
        space->score[j] = space->cosine[j] * (product < largest_score ? product : largest_score);
    }
    for (size_t j = count; j < TILE; j++)
        space->chance[j] = 1;
    if (a->sampling == SAMPLE_UNION)
        chance_of_any(space->chance, (size_t)a->hashing.num_hashes);
    kernels->softmax.step(space->score, TILE, 1, count, 1, level, &sum, &factor);
    for (size_t j = 0; j < count; j++) {
        float chance = space->chance[j] > least_chance ? space->chance[j] : least_chance;
        space->score[j] *= (share == NULL ? 1 : share[j]) / chance;
    }
    return factor;
}

static void gather(const struct run *run, const struct space *space, const uint32_t *keys, size_t count)
{
    const struct scratch *s = &run->scratch;
    size_t d_v = run->a->value_dim;
    for (size_t j = 0; j < count; j++) {
        memcpy(space->key + j * s->ld, s->unit + keys[j] * s->ld, s->ld * sizeof *space->key);
        memcpy(space->value + j * (d_v + 1), view_row(run->a->value, keys[j]), d_v * sizeof *space->value);
        space->scale[j] = s->norm[keys[j]];
        space->norm2[j] = space->scale[j] >= UNIT_SHORTEST;
    }
}

/* ---- queries ------------------------------------------------------------------------------------------- */

static size_t sample(const struct run *run, const struct space *space, size_t query)
{
    const struct sampled_attention *a = run->a;
    size_t seen = a->visible == NULL ? a->num_keys : a->visible[query];
    if (a->sampling == SAMPLE_UNION)
        return sampled_union(&run->scratch.lists, query, seen, space->marks, (uint32_t)query + 1,
                             space->keys);
    return sampled_draws(&run->scratch.lists, query, seen, a->random_key, space->keys, space->share);
}

static void answer(const struct run *run, const struct space *space, size_t query, const float *unit,
                   float norm)
{
    const struct sampled_attention *a = run->a;
    size_t d_v = a->value_dim, count = sample(run, space, query);
    float level = -INFINITY, *out = view_row(run->out, query);
    memset(space->top, 0, (d_v + 1) * sizeof *space->top);
    for (size_t first = 0; first < count; first += TILE) {
        size_t keys = size_min(TILE, count - first);
        gather(run, space, space->keys + first, keys);
        float factor = weigh(run, space, unit, norm,
                             a->sampling == SAMPLE_UNION ? NULL : space->share + first, keys, &level);
        a->kernels->rows.scale(space->top, d_v + 1, &factor, 1, d_v + 1);
        a->kernels->tiles.product(space->top, d_v + 1, space->score, TILE, 1, space->value, d_v + 1, 1,
                                  d_v + 1, keys, true);
    }
    float mass = space->top[d_v];
    for (size_t c = 0; c < d_v; c++)
        out[c] = mass > 0 ? space->top[c] / mass : 0;
    if (a->mass != NULL) {
        a->level[query] = count > 0 ? level : 0;
        a->mass[query] = mass;
    }
}

static void answer_block(void *argument, size_t block, int worker)
{
    const struct run *run = argument;
    const struct sampled_attention *a = run->a;
    struct space space;
    size_t ld = run->scratch.ld, first = block * BLOCK, rows = size_min(BLOCK, a->num_queries - first);
    take_space(a, ld, run->scratch.spaces + (size_t)worker * run->scratch.per_space, &space);
    for (size_t j = 0; j < TILE; j++)
        space.value[j * (a->value_dim + 1) + a->value_dim] = 1;
    unit_take(a->kernels, space.query, ld, space.query_norm, view_row(a->query, first), a->query.stride, rows,
              a->dim);
    for (size_t i = 0; i < rows; i++)
        answer(run, &space, first + i, space.query + i * ld, space.query_norm[i]);
}

/* ---- forward ------------------------------------------------------------------------------------------- */

static void take_keys(void *argument, size_t block, int worker)
{
    (void)worker;
    const struct run *run = argument;
    const struct sampled_attention *a = run->a;
    size_t first = block * ROWS, rows = size_min(ROWS, a->num_keys - first), ld = run->scratch.ld;
    unit_take(a->kernels, run->scratch.unit + first * ld, ld, run->scratch.norm + first,
              view_row(a->key, first), a->key.stride, rows, a->dim);
}

static void clear_marks(void *argument, size_t space, int worker)
{
    (void)worker;
    const struct run *run = argument;
    struct space of;
    take_space(run->a, run->scratch.ld, run->scratch.spaces + space * run->scratch.per_space, &of);
    memset(of.marks, 0, run->a->num_keys * sizeof *of.marks);
}

void sampled_attention_forward(const struct sampled_attention *a, struct view out, void *scratch)
{
    struct run run = {.a = a, .scratch = scratch_on(a, scratch), .out = out};
    struct scratch *s = &run.scratch;
    struct hashing hashing = hashing_of(&a->hashing);
    struct codes queries = codes_at(&hashing, s->query_codes, a->num_queries),
                 keys = codes_at(&hashing, s->key_codes, a->num_keys);
    hasher_turn(a->kernels, &s->hasher, a->planes, a->random_key);
    hasher_codes(a->kernels, a->pool, &s->hasher, a->query, a->key, s->query_codes, s->key_codes);
    key_lists_find(&s->lists, a->pool, &queries, &keys);
    pool_run(a->pool, take_keys, &run, (a->num_keys + ROWS - 1) / ROWS);
    if (a->sampling == SAMPLE_UNION)
        pool_run(a->pool, clear_marks, &run, a->workers);
    pool_run(a->pool, answer_block, &run, (a->num_queries + BLOCK - 1) / BLOCK);
}
