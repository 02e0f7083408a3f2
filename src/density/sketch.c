/* Rows are hashed in blocks on all threads. Counting is divided by hashes, so threads never share a count;
   scoring by rows.
   SPDX-License-Identifier: Apache-2.0 */
#include "density/sketch.h"

#include <inttypes.h>
#include <math.h>
#include <stdatomic.h>
#include <string.h>

#include "base/random.h"
#include "density/density_map.h"
#include "density/number_rows.h"

const char *const density_map_names[] = {"none", "euclidean", NULL};

enum {
    MOST_BLOCK = 4096,     /* rows hashed at a time */
    BLOCK_CODES = 1 << 20, /* codes of a block, about */
    UNIT_HASHES = 16,      /* hashes that a unit of work counts */
    UNIT_ROWS = 64,        /* rows that a unit of work scores */
};

/* ---- a sketch ------------------------------------------------------------------------------------------ */

size_t sketch_counts(const struct sketch *sketch)
{
    return size_product(sketch->options.num_hashes, (size_t)1 << sketch->options.hash_bits);
}

/* Run on NULL, it counts the bytes. */
static size_t lay_out(struct sketch *sketch, void *block)
{
    struct arena arena = arena_on(block);
    size_t of_map = sketch->options.map == DENSITY_MAP_EUCLIDEAN ? sketch->dim : 0;
    arena_take(&arena, 1, sizeof *sketch);
    sketch->counts = arena_take(&arena, sketch_counts(sketch), sizeof *sketch->counts);
    sketch->centre = arena_take(&arena, of_map, sizeof *sketch->centre);
    sketch->scale = arena_take(&arena, of_map, sizeof *sketch->scale);
    return arena.used;
}

hashattn_status sketch_new(struct host *host, const struct kernels *kernels, struct pool *pool,
                           const struct sketch_options *options, size_t dim, struct sketch **sketch)
{
    struct sketch plan = {.options = *options, .dim = dim, .kernels = kernels, .pool = pool};
    plan.mapped = options->map == DENSITY_MAP_NONE;
    plan.width = plan.mapped ? dim : size_sum(dim, 1);
    options_preset(yoso_sampled_rows, &plan.hashing);
    plan.hashing.num_hashes = (int64_t)options->num_hashes;
    plan.hashing.hash_bits = (int64_t)options->hash_bits;
    plan.hashing.projection = HASH_INT16_DP; /* fixed, so that a saved sketch means the same everywhere */
    plan.block_rows = size_min(MOST_BLOCK, BLOCK_CODES / options->num_hashes);
    void *block;
    *sketch = NULL;
    FAIL_IF(hasher_planes(&plan.hashing, plan.width) > SKETCH_MOST_PLANES, host, HASHATTN_REFUSED,
            "%zu columns, %zu hashes and %zu bits: the planes have over %d numbers", dim, options->num_hashes,
            options->hash_bits, SKETCH_MOST_PLANES);
    TRY(memory_new_zeroed(host, lay_out(&plan, NULL), 1, "a sketch", &block));
    *sketch = block;
    **sketch = plan;
    lay_out(*sketch, block);
    return HASHATTN_OK;
}

void sketch_free(struct host *host, struct sketch *sketch)
{
    if (sketch == NULL)
        return;
    memory_free(host, sketch->scratch);
    memory_free(host, sketch->hasher.planes);
    memory_free(host, sketch);
}

/* ---- memory of hashing --------------------------------------------------------------------------------- */

/* Scratch for `rows` rows. A thread has room for CODES_ROWS rows; so few rows need one thread only. */
static size_t lay_out_scratch(struct sketch *sketch, size_t rows, void *block)
{
    struct arena arena = arena_on(block);
    size_t threads = rows > CODES_ROWS ? (size_t)pool_threads(sketch->pool) : 1;
    float *planes = sketch->hasher.planes;
    hasher_init(&sketch->hasher, &arena, &sketch->hashing, sketch->width, threads);
    sketch->hasher.planes = planes;
    sketch->taken = arena_take(&arena, sketch->options.map == DENSITY_MAP_EUCLIDEAN ? rows : 0,
                               size_product(sketch->width, sizeof *sketch->taken));
    sketch->codes = arena_take(&arena, codes_size(&sketch->hasher.hashing, rows), 1);
    return arena.used;
}

static hashattn_status grow_scratch(struct host *host, struct sketch *sketch, size_t rows)
{
    struct sketch plan = *sketch;
    void *block;
    if (rows <= sketch->room)
        return HASHATTN_OK;
    TRY(memory_new(host, lay_out_scratch(&plan, rows, NULL), 1, "a block of rows of a sketch", &block));
    memory_free(host, sketch->scratch);
    sketch->scratch = block;
    sketch->room = rows;
    lay_out_scratch(sketch, rows, block);
    return HASHATTN_OK;
}

/* The planes of yoso's head 0 in evaluation. */
static hashattn_status draw_planes(struct host *host, struct sketch *sketch)
{
    struct planes_form form = hasher_form(&sketch->hashing, sketch->width);
    uint64_t key = random_key(sketch->options.seed, RANDOM_EVALUATION, 0);
    void *turned, *planes = NULL, *work = NULL;
    size_t work_bytes = planes_work_size(&form, (size_t)pool_threads(sketch->pool));
    TRY(memory_new(host, hasher_planes(&sketch->hashing, sketch->width), sizeof(float),
                   "the planes of a sketch", &turned));
    hashattn_status status =
        memory_new(host, planes_count(&form), sizeof(float), "the planes of a sketch", &planes);
    if (status == HASHATTN_OK)
        status = memory_new(host, work_bytes, 1, "the planes of a sketch", &work);
    if (status == HASHATTN_OK) {
        planes_draw(sketch->kernels, sketch->pool, &form, key, planes, work);
        sketch->hasher.planes = turned;
        hasher_turn(sketch->kernels, &sketch->hasher, planes, random_key(key, RANDOM_HEAD, 0));
    } else
        memory_free(host, turned);
    memory_free(host, work);
    memory_free(host, planes);
    return status;
}

/* Makes what hashing n rows needs. */
static hashattn_status prepare(struct host *host, struct sketch *sketch, size_t n)
{
    if (n == 0)
        return HASHATTN_OK;
    TRY(grow_scratch(host, sketch, size_min(n, sketch->block_rows)));
    return sketch->hasher.planes != NULL ? HASHATTN_OK : draw_planes(host, sketch);
}

/* ---- blocks of rows ------------------------------------------------------------------------------------ */

static hashattn_status check_finite(struct host *host, const struct sketch *sketch, const float *x, size_t n)
{
    size_t dim = sketch->dim, at = 0;
    if (sketch->kernels->rows.all_finite(x, dim, n, dim))
        return HASHATTN_OK;
    while (isfinite(x[at]))
        at++;
    return host_fail(host, HASHATTN_INVALID, "row %zu, column %zu is %s", at / dim, at % dim,
                     isnan(x[at]) ? "nan"
                     : x[at] > 0  ? "inf"
                                  : "-inf");
}

static size_t block_of(const struct sketch *sketch, size_t n, size_t first)
{
    return size_min(sketch->block_rows, n - first);
}

/* Writes the codes of `count` rows. They are finite, and a mapped row has length 1, so hashing cannot fail.
 */
static struct codes hash_rows(struct sketch *sketch, const float *x, size_t count)
{
    const float *rows = x;
    if (sketch->options.map == DENSITY_MAP_EUCLIDEAN) {
        density_map_take(sketch->taken, NULL, x, count, sketch->dim, sketch->centre, sketch->scale);
        rows = sketch->taken;
    }
    struct view view = view_of(rows, count, sketch->width);
    struct pool *pool = sketch->room > CODES_ROWS ? sketch->pool : NULL; /* as the scratch is laid out */
    hasher_codes(sketch->kernels, pool, &sketch->hasher, view_of(rows, 0, sketch->width), view, NULL,
                 sketch->codes);
    return codes_at(&sketch->hasher.hashing, sketch->codes, count);
}

static size_t code_of(const struct codes *codes, size_t row, size_t hash)
{
    size_t at = row * codes->num_hashes + hash;
    return codes->wide ? ((const uint32_t *)codes->data)[at] : ((const uint16_t *)codes->data)[at];
}

struct work {
    const struct sketch *sketch;
    struct codes codes;
    uint64_t change;        /* 1, or 2^64 - 1 to take away */
    atomic_bool below;      /* a count went below 0 */
    float *density, *error; /* (codes.n) */
};

/* Unit: hashes. Counts wrap around, so the opposite change undoes one that went below 0. */
static void count_hashes(void *argument, size_t index, int worker)
{
    (void)worker;
    struct work *work = argument;
    const struct sketch *sketch = work->sketch;
    size_t first = index * UNIT_HASHES, end = size_min(first + UNIT_HASHES, sketch->options.num_hashes);
    bool below = false;
    for (size_t i = 0; i < work->codes.n; i++)
        for (size_t h = first; h < end; h++) {
            uint64_t *count = sketch->counts + (h << sketch->options.hash_bits) + code_of(&work->codes, i, h);
            below |= *count == 0;
            *count += work->change;
        }
    if (below)
        atomic_store_explicit(&work->below, true, memory_order_relaxed);
}

/* Changes the counts of the rows x (n, dim); false if taking away found an empty bucket. */
static bool change(struct sketch *sketch, const float *x, size_t n, uint64_t by)
{
    size_t units = (sketch->options.num_hashes + UNIT_HASHES - 1) / UNIT_HASHES;
    struct work work = {.sketch = sketch, .change = by};
    for (size_t first = 0, count; first < n; first += count) {
        count = block_of(sketch, n, first);
        work.codes = hash_rows(sketch, x + first * sketch->dim, count);
        pool_run(sketch->pool, count_hashes, &work, units);
    }
    sketch->rows += by * n;
    return by == 1 || !atomic_load(&work.below);
}

hashattn_status sketch_add(struct host *host, struct sketch *sketch, const float *x, size_t n)
{
    TRY(check_finite(host, sketch, x, n));
    FAIL_IF(n > SKETCH_MOST_ROWS - sketch->rows, host, HASHATTN_INVALID,
            "%" PRIu64 " rows and %zu more: at most %" PRIu64 " can be counted", sketch->rows, n,
            SKETCH_MOST_ROWS);
    TRY(prepare(host, sketch, n));
    if (!sketch->mapped && n > 0) {
        density_map_learn(sketch->centre, sketch->scale, x, size_min(n, number_rows_block(sketch->dim)),
                          sketch->dim);
        sketch->mapped = true;
    }
    change(sketch, x, n, 1);
    return HASHATTN_OK;
}

hashattn_status sketch_remove(struct host *host, struct sketch *sketch, const float *x, size_t n)
{
    TRY(check_finite(host, sketch, x, n));
    FAIL_IF(n > sketch->rows, host, HASHATTN_INVALID, "%zu rows cannot be taken away from %" PRIu64, n,
            sketch->rows);
    TRY(prepare(host, sketch, n));
    if (change(sketch, x, n, UINT64_MAX))
        return HASHATTN_OK;
    change(sketch, x, n, 1);
    return host_fail(host, HASHATTN_INVALID,
                     "the rows cannot be taken away: at least one of the %zu was never added", n);
}

/* ---- scores -------------------------------------------------------------------------------------------- */

/* Unit: rows. Sums of counts are integers, so a merged sketch gives the same bits. */
static void score_rows(void *argument, size_t index, int worker)
{
    (void)worker;
    struct work *work = argument;
    const struct sketch *sketch = work->sketch;
    size_t first = index * UNIT_ROWS, end = size_min(first + UNIT_ROWS, work->codes.n);
    double hashes = (double)sketch->options.num_hashes, rows = (double)sketch->rows;
    for (size_t i = first; i < end; i++) {
        uint64_t sum = 0;
        double squares = 0;
        for (size_t h = 0; h < sketch->options.num_hashes; h++)
            sum += sketch->counts[(h << sketch->options.hash_bits) + code_of(&work->codes, i, h)];
        double mean = (double)sum / hashes;
        work->density[i] = (float)(mean / rows);
        if (work->error == NULL)
            continue;
        for (size_t h = 0; h < sketch->options.num_hashes; h++) {
            uint64_t count = sketch->counts[(h << sketch->options.hash_bits) + code_of(&work->codes, i, h)];
            squares += ((double)count - mean) * ((double)count - mean);
        }
        work->error[i] = (float)(sqrt(squares / (hashes * (hashes - 1))) / rows); /* 0 / 0 with one hash */
    }
}

hashattn_status sketch_score(struct host *host, struct sketch *sketch, const float *x, size_t n,
                             float *density, float *error)
{
    TRY(check_finite(host, sketch, x, n));
    FAIL_IF(sketch->rows == 0, host, HASHATTN_INVALID, "the sketch has no rows");
    TRY(prepare(host, sketch, n));
    struct work work = {.sketch = sketch};
    for (size_t first = 0, count; first < n; first += count) {
        count = block_of(sketch, n, first);
        work.codes = hash_rows(sketch, x + first * sketch->dim, count);
        work.density = density + first;
        work.error = error == NULL ? NULL : error + first;
        pool_run(sketch->pool, score_rows, &work, (count + UNIT_ROWS - 1) / UNIT_ROWS);
    }
    return HASHATTN_OK;
}

/* ---- two sketches -------------------------------------------------------------------------------------- */

hashattn_status sketch_check_alike(struct host *host, const struct sketch *a, const struct sketch *b)
{
    const struct {
        const char *name;
        uint64_t a, b;
    } numbers[] = {{"the number of columns is", a->dim, b->dim},
                   {"`num_hashes` is", a->options.num_hashes, b->options.num_hashes},
                   {"`hash_bits` is", a->options.hash_bits, b->options.hash_bits},
                   {"`seed` is", a->options.seed, b->options.seed}};
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++)
        FAIL_IF(numbers[i].a != numbers[i].b, host, HASHATTN_INVALID,
                "the sketches differ: %s %" PRIu64 " in one and %" PRIu64 " in the other", numbers[i].name,
                numbers[i].a, numbers[i].b);
    FAIL_IF(a->options.map != b->options.map, host, HASHATTN_INVALID,
            "the sketches differ: the map is %s in one and %s in the other",
            density_map_names[a->options.map], density_map_names[b->options.map]);
    if (a->options.map == DENSITY_MAP_NONE)
        return HASHATTN_OK;
    size_t bytes = a->dim * sizeof *a->centre;
    FAIL_IF(a->mapped != b->mapped || memcmp(a->centre, b->centre, bytes) != 0 ||
                memcmp(a->scale, b->scale, bytes) != 0,
            host, HASHATTN_INVALID,
            "the sketches differ in the centre and scale of their Euclidean maps: make one `like` the other");
    return HASHATTN_OK;
}

hashattn_status sketch_merge(struct host *host, struct sketch *sketch, const struct sketch *from)
{
    TRY(sketch_check_alike(host, sketch, from));
    FAIL_IF(from->rows > SKETCH_MOST_ROWS - sketch->rows, host, HASHATTN_INVALID,
            "%" PRIu64 " rows and %" PRIu64 " more: at most %" PRIu64 " can be counted", sketch->rows,
            from->rows, SKETCH_MOST_ROWS);
    for (size_t i = 0; i < sketch_counts(sketch); i++)
        sketch->counts[i] += from->counts[i];
    sketch->rows += from->rows;
    return HASHATTN_OK;
}
