/* Three passes, each in blocks on the pool: over the values for the largest and the mean square, over the
   codes for the fullest bucket, and over the values again to round them with the step that follows.
   SPDX-License-Identifier: Apache-2.0 */
#include "parts/collisions/fixed_values.h"

#include <float.h>
#include <math.h>
#include <string.h>

enum {
    BLOCK_ROWS = 256,
    HISTOGRAMS = 8,     /* hashes counted at a time: their codes are in one cache line */
    STEPS_A_VALUE = 64, /* steps per root mean square: rounding moves values by 0.45 % of it, at most 0.8 % */
    WEIGHED = 8,        /* every WEIGHEDth row gives the mean square: all rows would cost 1 % of forward */
};

static size_t in_blocks(size_t n)
{
    return (n + BLOCK_ROWS - 1) / BLOCK_ROWS;
}

static size_t groups_of(size_t num_hashes)
{
    return (num_hashes + HISTOGRAMS - 1) / HISTOGRAMS;
}

size_t fixed_values_width(size_t dim)
{
    return size_product(size_sum(dim, FIXED_BLOCK - 1) / FIXED_BLOCK, FIXED_BLOCK);
}

void fixed_values_init(struct fixed_values *fixed, struct arena *arena, const struct hashing *hashing,
                       size_t num_keys, size_t dim, size_t workers)
{
    fixed->workers = workers;
    fixed->buckets = (size_t)1 << hashing->hash_bits;
    fixed->width = fixed_values_width(dim);
    fixed->rounded = arena_take(arena, size_product(num_keys, fixed->width), sizeof *fixed->rounded);
    fixed->counts = arena_take(arena, size_product(workers, HISTOGRAMS),
                               size_product(fixed->buckets, sizeof *fixed->counts));
    fixed->most = arena_take(arena, groups_of(hashing->num_hashes), sizeof *fixed->most);
    fixed->largest = arena_take(arena, in_blocks(num_keys), sizeof *fixed->largest);
    fixed->squares = arena_take(arena, in_blocks(num_keys), sizeof *fixed->squares);
}

/* One rounding. */
struct rounding {
    const struct kernels *kernels;
    const struct fixed_values *fixed;
    const struct codes *keys;
    const float *values;
    size_t ld, dim;
    float factor; /* 1 / step */
};

static size_t rows_in(size_t block, size_t n)
{
    return size_min(BLOCK_ROWS, n - block * BLOCK_ROWS);
}

/* Number of rows that give the mean square. */
static size_t weighed_in(size_t rows)
{
    return (rows + WEIGHED - 1) / WEIGHED;
}

static void weigh_block(void *argument, size_t block, int worker)
{
    (void)worker;
    const struct rounding *rounding = argument;
    const float *rows = rounding->values + block * BLOCK_ROWS * rounding->ld;
    size_t count = rows_in(block, rounding->keys->n), weighed = weighed_in(count),
           ld = WEIGHED * rounding->ld;
    float dots[BLOCK_ROWS / WEIGHED];
    double sum = 0;
    rounding->fixed->largest[block] =
        rounding->kernels->rows.largest_size(rows, rounding->ld, count, rounding->dim);
    rounding->kernels->rows.dots(dots, rows, ld, rows, ld, weighed, rounding->dim);
    for (size_t i = 0; i < weighed; i++)
        sum += (double)dots[i];
    rounding->fixed->squares[block] = sum;
}

/* Size of the fullest bucket of HISTOGRAMS hashes. */
static void count_group(void *argument, size_t group, int worker)
{
    const struct rounding *rounding = argument;
    const struct fixed_values *fixed = rounding->fixed;
    size_t first = group * HISTOGRAMS, m = rounding->keys->num_hashes,
           count = size_min(HISTOGRAMS, m - first);
    const uint16_t *codes = rounding->keys->data;
    uint32_t *counts = fixed->counts + (size_t)worker * HISTOGRAMS * fixed->buckets, most = 0;
    memset(counts, 0, count * fixed->buckets * sizeof *counts);
    for (size_t j = 0; j < rounding->keys->n; j++)
        for (size_t h = 0; h < count; h++)
            counts[h * fixed->buckets + codes[j * m + first + h]]++;
    for (size_t b = 0; b < count * fixed->buckets; b++)
        most = counts[b] > most ? counts[b] : most;
    fixed->most[group] = most;
}

static void round_block(void *argument, size_t block, int worker)
{
    (void)worker;
    const struct rounding *rounding = argument;
    const struct fixed_values *fixed = rounding->fixed;
    size_t first = block * BLOCK_ROWS;
    rounding->kernels->tables.fixed_round(fixed->rounded + first * fixed->width, fixed->width,
                                          rounding->values + first * rounding->ld, rounding->ld,
                                          rows_in(block, rounding->keys->n), rounding->dim, rounding->factor);
}

/* Finds the factor and the step; false if the step is too coarse. */
static bool find_step(struct rounding *rounding, struct pool *pool, float *step)
{
    const struct fixed_values *fixed = rounding->fixed;
    size_t blocks = in_blocks(rounding->keys->n), groups = groups_of(rounding->keys->num_hashes), weighed = 0;
    float largest = 0;
    double squares = 0;
    uint32_t most = 1;
    pool_run(pool, weigh_block, rounding, blocks);
    pool_run(pool, count_group, rounding, groups);
    for (size_t b = 0; b < blocks; b++) {
        largest = fixed->largest[b] > largest ? fixed->largest[b] : largest;
        squares += fixed->squares[b];
        weighed += weighed_in(rows_in(b, rounding->keys->n));
    }
    for (size_t g = 0; g < groups; g++)
        most = fixed->most[g] > most ? fixed->most[g] : most;
    double limit = INT16_MAX / most, mean = sqrt(squares / (double)weighed / (double)rounding->dim);
    rounding->factor = (float)limit / largest;
    *step = largest / (float)limit;
    return isfinite(rounding->factor) && *step >= FLT_MIN && isfinite(mean) &&
           limit * mean >= STEPS_A_VALUE * (double)largest;
}

bool fixed_values_round(const struct kernels *kernels, struct pool *pool, struct fixed_values *fixed,
                        const struct codes *keys, const float *values, size_t ld, size_t dim, float *step)
{
    struct rounding rounding = {kernels, fixed, keys, values, ld, dim, 0};
    if (!find_step(&rounding, pool, step))
        return false;
    pool_run(pool, round_block, &rounding, in_blocks(keys->n));
    return true;
}
