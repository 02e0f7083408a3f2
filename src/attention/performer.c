/* Performer, FAVOR+ (Choromanski et al. 2020, "Rethinking Attention with Performers", equation 5): attention
   through positive orthogonal random features, whose products estimate exp(q.k / sqrt(d)),
     phi_r(x) = exp(u_r) + 1e-6 max_s exp(u_s),   u_r = w_r.x~ - |x~|^2 / 2,   x~ = x / d^(1/4),   r <
   num_features, in sums of features (parts/features/feature_attention.h). Directions, and both_signs, which
   uses w_r and -w_r: parts/features/random_features.h.

   The largest exponent of a row is subtracted from it, so that no exponential overflows. For queries this
   factor leaves their ratio; for keys it is their level, which multiplies their weight relative to the
   largest level of all keys, or, causal, of those that a query sees. Sums over all keys follow the largest
   level so far; causal ones need a first pass over the keys for their levels. Where this differs from the
   released code: its keys subtract the maximum of all, its causal form that of future keys too, so that later
   tokens change earlier outputs through the constant; here 1e-6 (its JAX form; 1e-4 in PyTorch) is relative
   to the row's own largest feature, and a causal output is that of its keys alone. Its maxima leave out
   |x~|^2 / 2, so that the constant outweighs the features of long rows; here they do not. (An outweighing
   constant draws the output towards the mean of all values, which for independent vectors is nearer to
   softmax than any estimate with 256 features: `bench/peers.py --show mechanisms`.)
   Maxima are constants in backward, as there.

   Cost, F features: 4 n F d operations for projections (causal 8; half with both signs), 2 n F exponentials
   and 4 n F d_v operations for sums and outputs forward, about three times that backward. Random: the
   directions, once per call for all heads. Saved: one float per query, one double per key, and F (d_v + 1)
   floats per 1,024 rows. A stream's state is F (d_v + 1) floats and their level.
   SPDX-License-Identifier: Apache-2.0 */
#include <float.h>
#include <math.h>

#include "attention/in_features.h"
#include "base/memory.h"
#include "base/random.h"
#include "parts/features/random_features.h"

struct performer_options {
    int64_t num_features;
    int both_signs;
};

/* The denominator is at least 1e-6 if a query sees a key; else this makes its output 0. */
static const float epsilon = 1e-30f;

/* Prepared once per call. */
struct directions {
    float *down;   /* (d, D): D = F, or F / 2 rounded up with both signs */
    float *across; /* (D, d) */
    float *ones;   /* (F) */
    size_t drawn;  /* D */
    bool both_signs;
    size_t bytes;
};

static size_t num_features(const void *options)
{
    return (size_t)((const struct performer_options *)options)->num_features;
}

static struct directions directions_on(const void *options, size_t dim, const void *block)
{
    struct directions s;
    struct arena arena = arena_on((void *)block);
    s.both_signs = ((const struct performer_options *)options)->both_signs != 0;
    s.drawn = features_directions(num_features(options), s.both_signs);
    size_t count = features_count(s.drawn, dim);
    s.down = arena_take(&arena, count, sizeof(float));
    s.across = arena_take(&arena, count, sizeof(float));
    s.ones = arena_take(&arena, num_features(options), sizeof(float));
    s.bytes = arena.used;
    return s;
}

/* ---- the map ------------------------------------------------------------------------------------------- */

static struct features features_of_map(const struct feature_map *map)
{
    const struct directions *directions = map->self;
    return (struct features){map->kernels, directions->down, map->count, map->dim, directions->both_signs};
}

/* scratch: three floats per row. The products become features in place. */
static struct feature_rows rows_on(float *phi, void *scratch)
{
    float *numbers = scratch;
    return (struct feature_rows){phi, numbers, numbers + FEATURE_ROWS, numbers + (size_t)2 * FEATURE_ROWS};
}

static void performer_forward(const struct feature_map *map, enum feature_side side, const float *x,
                              size_t ld_x, size_t rows, float *phi, void *scratch)
{
    (void)side;
    struct features features = features_of_map(map);
    struct feature_rows to = rows_on(phi, scratch);
    features_project(&features, x, ld_x, rows, &to);
    features_of(&features, &to, rows, 1, STABILISE_ROW, 0, phi);
}

/* The square of a row may be infinite. */
static double level_of(float largest, float half)
{
    return fmax((double)largest - (double)half, -(double)FLT_MAX);
}

static void performer_levels(const struct feature_map *map, size_t rows, const void *scratch, double *level)
{
    (void)map;
    struct feature_rows from = rows_on(NULL, (void *)scratch);
    for (size_t i = 0; i < rows; i++)
        level[i] = level_of(from.largest[i], from.half[i]);
}

/* du = dphi (phi - 1e-6). The inner loop has a constant length, so that the compiler uses vectors. */
static void through_exponentials(float *restrict du, const float *restrict phi, size_t count)
{
    for (; count >= FEATURE_ROWS; count -= FEATURE_ROWS, du += FEATURE_ROWS, phi += FEATURE_ROWS)
        for (size_t i = 0; i < FEATURE_ROWS; i++)
            du[i] *= phi[i] - FEATURES_EPSILON;
    for (size_t i = 0; i < count; i++)
        du[i] *= phi[i] - FEATURES_EPSILON;
}

/* du_r -= du of the feature with -w_r. */
static void fold_signs(const struct directions *directions, float *du, size_t rows, size_t count)
{
    for (size_t i = 0; i < rows; i++) {
        float *restrict to = du + i * count;
        const float *restrict mirrored = du + i * count + directions->drawn;
        for (size_t r = 0; r < count - directions->drawn; r++)
            to[r] -= mirrored[r];
    }
}

/* dx += sum over r of du_r (w_r / d^(1/4) - x / sqrt(d)). */
static void performer_backward(const struct feature_map *map, enum feature_side side, const float *x,
                               size_t ld_x, size_t rows, const float *phi, float *dphi, float *dx,
                               size_t ld_dx, void *scratch)
{
    (void)side;
    const struct directions *directions = map->self;
    float *sums = scratch, scale = -1 / sqrtf((float)map->dim);
    through_exponentials(dphi, phi, rows * map->count);
    map->kernels->rows.dots(sums, dphi, map->count, directions->ones, 0, rows, map->count);
    if (directions->both_signs)
        fold_signs(directions, dphi, rows, map->count);
    map->kernels->tiles.product(dx, ld_dx, dphi, map->count, 1, directions->across, map->dim, rows, map->dim,
                                directions->drawn, true);
    for (size_t i = 0; i < rows; i++)
        map->kernels->rows.axpy(dx + i * ld_dx, scale * sums[i], x + i * ld_x, map->dim);
}

static struct feature_map map_of(const void *options, const struct problem_shape *shape,
                                 const struct directions *directions)
{
    return (struct feature_map){.count = num_features(options),
                                .dim = shape->head_dim,
                                .self = directions,
                                .scratch = 3 * FEATURE_ROWS * sizeof(float),
                                .forward = performer_forward,
                                .levels = performer_levels,
                                .backward = performer_backward};
}

/* ---- memory -------------------------------------------------------------------------------------------- */

struct memory {
    double *key_level;   /* saved: (n_k) */
    void *saved;         /* of feature_attention, here and below */
    double *query_level; /* scratch: (n_q) */
    float *tiles;        /* (workers, FEATURE_ROWS, F + 3) */
    void *scratch;
    size_t saved_bytes, scratch_bytes;
};

static size_t tile_floats(const void *options)
{
    return size_product(FEATURE_ROWS, size_sum(num_features(options), 3));
}

static struct memory memory_on(const void *options, const struct problem_shape *shape, void *saved,
                               void *scratch)
{
    struct memory m;
    struct feature_attention a = in_features(shape, map_of(options, shape, NULL), epsilon);
    struct arena keep = arena_on(saved), work = arena_on(scratch);
    m.key_level = arena_take(&keep, shape->num_keys, sizeof *m.key_level);
    m.saved = arena_take(&keep, feature_attention_saved_size(&a), 1);
    m.query_level = arena_take(&work, shape->num_queries, sizeof *m.query_level);
    m.tiles = arena_take(&work, size_product(shape->workers, tile_floats(options)), sizeof *m.tiles);
    m.scratch = arena_take(&work, feature_attention_scratch_size(&a), 1);
    m.saved_bytes = keep.used;
    m.scratch_bytes = work.used;
    return m;
}

/* ---- levels -------------------------------------------------------------------------------------------- */

struct levelling {
    const struct problem *problem;
    struct features features;
    float *tiles;
    double *level;
};

/* The largest exponents of a block of keys. */
static void level_block(void *argument, size_t block, int worker)
{
    const struct levelling *w = argument;
    struct view key = w->problem->key;
    float *phi = w->tiles + (size_t)worker * tile_floats(w->problem->options);
    struct feature_rows to = rows_on(phi, phi + FEATURE_ROWS * w->features.count);
    size_t end = size_min((block + 1) * FEATURE_BLOCK, key.rows);
    for (size_t begin = block * FEATURE_BLOCK; begin < end; begin += FEATURE_ROWS) {
        size_t rows = size_min(FEATURE_ROWS, end - begin);
        features_project(&w->features, view_row(key, begin), key.stride, rows, &to);
        for (size_t i = 0; i < rows; i++)
            w->level[begin + i] = level_of(to.largest[i], to.half[i]);
    }
}

static void find_key_levels(const struct problem *problem, const struct directions *directions,
                            const struct memory *m)
{
    struct levelling w = {problem,
                          {problem->kernels, directions->down, num_features(problem->options),
                           problem->shape.head_dim, directions->both_signs},
                          m->tiles,
                          m->key_level};
    pool_run(problem->pool, level_block, &w, (problem->key.rows + FEATURE_BLOCK - 1) / FEATURE_BLOCK);
}

/* A query's level is the largest of the keys it sees. */
static void find_query_levels(const struct problem *problem, const struct memory *m)
{
    double level = m->key_level[0];
    for (size_t i = 0, key = 0; i < problem->shape.num_queries; i++) {
        for (; key < problem_seen(problem, i); key++)
            level = fmax(level, m->key_level[key]);
        m->query_level[i] = level;
    }
}

/* ---- the mechanism ------------------------------------------------------------------------------------- */

static size_t saved_size(const void *options, const struct problem_shape *shape)
{
    return memory_on(options, shape, NULL, NULL).saved_bytes;
}

static size_t scratch_size(const void *options, const struct problem_shape *shape)
{
    return memory_on(options, shape, NULL, NULL).scratch_bytes;
}

static struct feature_attention open(const struct problem *problem, const struct directions *directions,
                                     const struct memory *m)
{
    struct feature_map map = map_of(problem->options, &problem->shape, directions);
    struct feature_attention a = in_features_open(problem, map, epsilon);
    a.levels = (struct feature_levels){m->key_level, m->query_level, problem->shape.num_queries};
    a.saved = m->saved;
    return a;
}

static void forward(const struct problem *problem, struct view out)
{
    struct memory m = memory_on(problem->options, &problem->shape, problem->saved, problem->scratch);
    struct directions directions = directions_on(problem->options, problem->shape.head_dim, problem->shared);
    struct feature_attention a = open(problem, &directions, &m);
    if (problem->shape.causal) {
        find_key_levels(problem, &directions, &m);
        find_query_levels(problem, &m);
    } else
        a.found_levels = m.key_level;
    feature_attention_forward(&a, out, m.scratch);
}

static void backward(const struct problem *problem, struct view out, struct view dout,
                     const struct problem_gradients *gradients)
{
    struct memory m = memory_on(problem->options, &problem->shape, problem->saved, problem->scratch);
    struct directions directions = directions_on(problem->options, problem->shape.head_dim, problem->shared);
    struct feature_attention a = open(problem, &directions, &m);
    find_query_levels(problem, &m);
    feature_attention_backward(&a, out, dout, gradients->query, gradients->key, gradients->value, m.scratch);
}

static size_t shared_size(const void *options, size_t head_dim)
{
    return directions_on(options, head_dim, NULL).bytes;
}

static size_t prepare_scratch(const void *options, size_t head_dim, size_t workers)
{
    return features_work_size(directions_on(options, head_dim, NULL).drawn, head_dim, workers);
}

static void prepare(const struct preparation *p)
{
    size_t count = num_features(p->options), dim = p->head_dim;
    struct directions directions = directions_on(p->options, dim, p->shared);
    features_draw(p->kernels, p->pool, directions.drawn, dim, random_key(p->call_key, RANDOM_FEATURES, 0),
                  directions.down, p->scratch);
    p->kernels->tiles.transpose(directions.across, dim, directions.down, directions.drawn, dim,
                                directions.drawn);
    for (size_t r = 0; r < count; r++)
        directions.ones[r] = 1;
}

/* ---- streaming: the level of the state is the largest of its keys -------------------------------------- */

struct chunk {
    struct directions directions;
    struct feature_state state;
    struct feature_keys keys;
    struct memory levels;
    double *level_after;
    void *scratch;
    size_t bytes;
};

/* With room for a chunk; block: scratch. */
static struct chunk chunk_on(const struct kernels *kernels, const void *options,
                             const struct problem_shape *shape, const void *shared, const void *state,
                             void *block)
{
    struct chunk chunk = {.directions = directions_on(options, shape->head_dim, shared)};
    struct arena arena = arena_on(block);
    chunk.state = in_features_state(kernels, shape, map_of(options, shape, NULL), epsilon, state);
    chunk.levels.key_level = arena_take(&arena, shape->num_keys, sizeof(double));
    chunk.levels.tiles =
        arena_take(&arena, size_product(shape->workers, tile_floats(options)), sizeof(float));
    chunk.level_after = arena_take(&arena, shape->num_keys, sizeof(double));
    chunk.scratch = arena_take(&arena, feature_state_scratch_size(&chunk.state), 1);
    chunk.bytes = arena.used;
    return chunk;
}

static size_t state_size(const void *options, const struct problem_shape *shape)
{
    struct feature_state s = in_features_state(NULL, shape, map_of(options, shape, NULL), epsilon, NULL);
    return feature_state_size(&s);
}

static size_t stream_scratch_size(const void *options, const struct problem_shape *shape)
{
    return chunk_on(NULL, options, shape, NULL, NULL, NULL).bytes;
}

static void chunk_open(struct chunk *chunk, const struct problem *problem, const void *state)
{
    *chunk = chunk_on(problem->kernels, problem->options, &problem->shape, problem->shared, state,
                      problem->scratch);
    chunk->state.map.self = &chunk->directions;
    chunk->keys =
        (struct feature_keys){problem->key, problem->value, chunk->levels.key_level, chunk->level_after};
    find_key_levels(problem, &chunk->directions, &chunk->levels);
    double level = feature_state_is_empty(&chunk->state) ? -INFINITY : feature_state_level(&chunk->state);
    for (size_t j = 0; j < problem->shape.num_keys; j++)
        chunk->level_after[j] = level = fmax(level, chunk->levels.key_level[j]);
}

static void absorb(const struct problem *problem, void *state, size_t first)
{
    (void)first;
    struct chunk chunk;
    chunk_open(&chunk, problem, state);
    feature_state_add(&chunk.state, &chunk.keys, chunk.scratch);
}

static void read(const struct problem *problem, void *state, size_t first, struct view out)
{
    (void)first;
    struct chunk chunk;
    chunk_open(&chunk, problem, state);
    in_features_read(problem, &chunk.state, &chunk.keys, out, chunk.scratch);
}

static void merge(const void *options, const struct problem_shape *shape, void *into, const void *from)
{
    struct feature_map map = map_of(options, shape, NULL);
    struct feature_state to = in_features_state(NULL, shape, map, epsilon, into),
                         more = in_features_state(NULL, shape, map, epsilon, from);
    feature_state_merge(&to, &more, 0);
}

static const struct option_row options[] = {
    {"num_features", OPTION_INT, offsetof(struct performer_options, num_features), 256, 1, 65536, NULL,
     "random features that estimate softmax: more are more accurate and take proportionally more time"},
    {"both_signs", OPTION_FLAG, offsetof(struct performer_options, both_signs), 0, 0, 0, NULL,
     "each random direction gives two features, one for each sign: less time, and less variance for short "
     "rows"},
    {.name = NULL},
};

static const char *const departures[] = {
    "The constant 1e-6 of a feature is relative to the row's own largest feature.",
    "Directions are drawn anew at every training step.",
    NULL,
};

const struct mechanism mechanism_performer = {
    .name = "performer",
    .summary =
        "positive orthogonal random features of softmax, linear in the length (Choromanski et al. 2020)",
    .departures = departures,
    .options = options,
    .options_size = sizeof(struct performer_options),
    .exact = false,
    .mixes = true,
    .range = {.bounded = true, .power = 2},
    .host = {NULL, saved_size, scratch_size, forward, backward},
    .preparation = &(const struct preparation_facet){shared_size, prepare_scratch, prepare},
    .stream = &(const struct stream_facet){state_size, stream_scratch_size, absorb, read, merge},
};
