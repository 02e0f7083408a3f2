/* Blocks of rows are assigned in parallel; sums over rows are whole numbers, in any order the same.
   SPDX-License-Identifier: Apache-2.0 */
#include "attention/clustered/hamming_clusters.h"

#include <math.h>
#include <stdatomic.h>
#include <string.h>

#include "base/random.h"
#include "kernels/product.h"

enum {
    WIDTH = HAMMING_BITS + 1, /* of a row of signs: the last is 1 */
    ROWS = 128,               /* assigned at a time */
};

/* What the random numbers are for: indices below the key. */
enum { DRAW_PLANES, DRAW_THRESHOLDS, DRAW_STARTS, DRAW_EMPTY };

struct scratch {
    float *planes;     /* (dim, WIDTH); the last column is not used */
    float *thresholds; /* (WIDTH) */
    float *signs;      /* (num_rows, WIDTH) */
    float *centres;    /* (WIDTH, clusters) */
    float *sums;       /* (clusters, WIDTH): of the rows of a cluster; the last is their number */
    float *scores;     /* (workers, ROWS, clusters) */
    float *best;       /* (workers, ROWS) */
    size_t bytes;
};

static struct scratch scratch_on(const struct hamming_clusters *h, void *block)
{
    struct scratch s;
    struct arena arena = arena_on(block);
    s.planes = arena_take(&arena, size_product(h->dim, WIDTH), sizeof(float));
    s.thresholds = arena_take(&arena, WIDTH, sizeof(float));
    s.signs = arena_take(&arena, size_product(h->num_rows, WIDTH), sizeof(float));
    s.centres = arena_take(&arena, size_product(h->clusters, WIDTH), sizeof(float));
    s.sums = arena_take(&arena, size_product(h->clusters, WIDTH), sizeof(float));
    s.scores = arena_take(&arena, size_product(size_product(h->workers, ROWS), h->clusters), sizeof(float));
    s.best = arena_take(&arena, size_product(h->workers, ROWS), sizeof(float));
    s.bytes = arena.used;
    return s;
}

size_t hamming_scratch_size(const struct hamming_clusters *clusters)
{
    return scratch_on(clusters, NULL).bytes;
}

struct pass {
    const struct hamming_clusters *h;
    struct scratch s;
    struct view rows;
    uint32_t *assigned;
    atomic_bool changed;
};

static size_t blocks_of(const struct hamming_clusters *h)
{
    return (h->num_rows + ROWS - 1) / ROWS;
}

static void hash_block(void *argument, size_t index, int worker)
{
    (void)worker;
    struct pass *pass = argument;
    size_t first = index * ROWS, count = size_min(ROWS, pass->h->num_rows - first);
    float *signs = pass->s.signs + first * WIDTH;
    product(pass->h->kernels, signs, WIDTH, view_row(pass->rows, first), pass->rows.stride, false,
            pass->s.planes, WIDTH, false, count, WIDTH, pass->h->dim, false);
    for (size_t i = 0; i < count; i++, signs += WIDTH) {
        for (size_t b = 0; b < HAMMING_BITS; b++)
            signs[b] = signs[b] + pass->s.thresholds[b] > 0 ? 1.0f : -1.0f;
        signs[HAMMING_BITS] = 1;
    }
}

/* The least power of two that is at least the number of clusters: the scale of a centre's coordinates. */
static float scale_of(const struct hamming_clusters *h)
{
    size_t scale = 1;
    while (scale < h->clusters)
        scale *= 2;
    return (float)scale;
}

/* The bits of a centre are where signs > 0. */
static void set_centre(const struct pass *pass, size_t cluster, const float *signs)
{
    size_t clusters = pass->h->clusters;
    float scale = scale_of(pass->h), *to = pass->s.centres + cluster;
    for (size_t b = 0; b < HAMMING_BITS; b++)
        to[b * clusters] = signs[b] > 0 ? scale : -scale;
    to[HAMMING_BITS * clusters] = (float)(clusters - 1 - cluster);
}

static void start(const struct pass *pass)
{
    const struct hamming_clusters *h = pass->h;
    size_t rows = h->num_rows / h->clusters, more = h->num_rows % h->clusters;
    struct random random = random_open(random_key(h->key, RANDOM_GROUPS, DRAW_STARTS));
    for (size_t c = 0; c < h->clusters; c++) {
        size_t first = c * rows + size_min(c, more), count = rows + (c < more);
        set_centre(pass, c, pass->s.signs + (first + random_below(&random, (uint32_t)count)) * WIDTH);
    }
}

static void assign_block(void *argument, size_t index, int worker)
{
    struct pass *pass = argument;
    const struct hamming_clusters *h = pass->h;
    size_t first = index * ROWS, count = size_min(ROWS, h->num_rows - first);
    float *scores = pass->s.scores + (size_t)worker * ROWS * h->clusters,
          *best = pass->s.best + (size_t)worker * ROWS, scale = scale_of(h);
    product(h->kernels, scores, h->clusters, pass->s.signs + first * WIDTH, WIDTH, false, pass->s.centres,
            h->clusters, false, count, h->clusters, WIDTH, false);
    h->kernels->softmax.largest(best, scores, h->clusters, count, h->clusters);
    for (size_t i = 0; i < count; i++) {
        float rest = best[i] - scale * floorf(best[i] / scale);
        uint32_t cluster = (uint32_t)h->clusters - 1 - (uint32_t)rest;
        if (pass->assigned[first + i] != cluster)
            pass->changed = true;
        pass->assigned[first + i] = cluster;
    }
}

static void update(const struct pass *pass)
{
    const struct hamming_clusters *h = pass->h;
    uint64_t key = random_key(h->key, RANDOM_GROUPS, DRAW_EMPTY);
    memset(pass->s.sums, 0, h->clusters * WIDTH * sizeof(float));
    for (size_t i = 0; i < h->num_rows; i++)
        h->kernels->rows.axpy(pass->s.sums + pass->assigned[i] * WIDTH, 1, pass->s.signs + i * WIDTH, WIDTH);
    for (size_t c = 0; c < h->clusters; c++) {
        float *sums = pass->s.sums + c * WIDTH;
        uint32_t words[4];
        random_words(key, c, words);
        for (size_t b = 0; b < HAMMING_BITS && sums[HAMMING_BITS] == 0; b++)
            sums[b] = (words[b / 32] >> b % 32 & 1) != 0 ? 1.0f : -1.0f;
        set_centre(pass, c, sums);
    }
}

void hamming_assign(const struct hamming_clusters *h, struct view rows, uint32_t *assigned, void *scratch)
{
    struct pass pass = {.h = h, .s = scratch_on(h, scratch), .rows = rows, .assigned = assigned};
    random_normals(random_key(h->key, RANDOM_GROUPS, DRAW_PLANES), 0, pass.s.planes, h->dim * WIDTH);
    random_normals(random_key(h->key, RANDOM_GROUPS, DRAW_THRESHOLDS), 0, pass.s.thresholds, WIDTH);
    pool_run(h->pool, hash_block, &pass, blocks_of(h));
    start(&pass);
    memset(assigned, 0xff, h->num_rows * sizeof *assigned);
    for (int round = 0; round < HAMMING_ROUNDS; round++) {
        if (round > 0)
            update(&pass);
        pass.changed = false;
        pool_run(h->pool, assign_block, &pass, blocks_of(h));
        if (!pass.changed)
            return;
    }
}
