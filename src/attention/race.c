/* RACE attention (Joshi et al. 2026): soft hashing into the corners of T cubes of P sides, T = num_tables,
   P = hash_bits. With planes W_t (P, d) of standard normals, the weight of row x at corner c of {-1, 1}^P is
   phi_tc(x) = softmax over c of beta tanh(W_t x).c, beta = sharpness; the kernel of a query and a key is the
   sum of phi_tc(q) phi_tc(k) over tables and corners, and out_i the mean of the values weighted by it (sums
   and masses of all tables are added before the division, algorithm 1). As beta grows, a table estimates the
   probability (1 - angle / pi)^P that the row's signs agree, like a hash of yoso, but with a gradient.

   The softmax is a product over the bits: each factor is p_b = 1 / (1 + exp(-2 beta tanh(y_b))) or 1 - p_b.
   So a row needs T P exponentials and 2 T 2^P multiplications, and no exponential per corner. Features are
   computed transposed, a corner of all tables and FEATURE_ROWS rows at a time, so that every step is one long
   product of vectors. Cost: 4 n d T P operations for planes, 4 n T 2^P for corners and 4 n T 2^P d_v for sums
   and outputs forward (parts/features/feature_attention.h), three times that backward.

   Random: W, once per call for all heads. Saved: one float per query, and T 2^P (d_v + 1) floats per 1,024
   rows. A stream's state is T 2^P (d_v + 1) floats. 1e-30 is added to the denominator: a query all of whose
   keys are at corners of weight 0 gives 0.
   SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "attention/mechanism.h"
#include "base/random.h"
#include "parts/features/feature_slots.h"

struct race_options {
    int64_t num_tables, hash_bits;
    double sharpness;
};

struct corners {
    size_t tables, bits;
    float sharpness;
};

static struct corners corners_of(const void *options)
{
    const struct race_options *o = options;
    return (struct corners){(size_t)o->num_tables, (size_t)o->hash_bits, (float)o->sharpness};
}

static size_t corners_count(const void *options, const struct problem_shape *shape)
{
    (void)shape;
    struct corners c = corners_of(options);
    return c.tables << c.bits;
}

/* Transposed: a column per row of the tile. The factors of bit b are lines b * tables + t. */
struct tile {
    float *x;           /* (d, FEATURE_ROWS) */
    float *slope;       /* (bits, tables, FEATURE_ROWS): 1 - tanh(y), later 2 beta tanh'(y) */
    float *set, *clear; /* (bits, tables, FEATURE_ROWS): p and 1 - p */
    float *corners;     /* (2^bits, tables, FEATURE_ROWS) */
    float *sums;        /* (tables, FEATURE_ROWS) */
    size_t bytes;
};

static struct tile tile_on(const struct corners *c, size_t dim, void *block)
{
    struct tile t;
    struct arena arena = arena_on(block);
    size_t lanes = c->tables * FEATURE_ROWS, factors = c->bits * lanes;
    t.x = arena_take(&arena, dim, FEATURE_ROWS * sizeof(float));
    t.slope = arena_take(&arena, factors, sizeof(float));
    t.set = arena_take(&arena, factors, sizeof(float));
    t.clear = arena_take(&arena, factors, sizeof(float));
    t.corners = arena_take(&arena, lanes << c->bits, sizeof(float));
    t.sums = arena_take(&arena, lanes, sizeof(float));
    t.bytes = arena.used;
    return t;
}

/* ---- factors of a bit. Inner loops have a constant length, so that the compiler uses vectors. ---------- */

/* tanh is 1 beyond 20, and exp(40) is finite. */
static void bound(float *y, size_t lines)
{
    for (; lines-- > 0; y += FEATURE_ROWS)
        for (size_t i = 0; i < FEATURE_ROWS; i++) {
            float above = y[i] > -20 ? y[i] : -20;
            y[i] = above < 20 ? above : 20;
        }
}

/* From e = exp(2 y) + 1 in `exponent`: slope = 1 - tanh(y) = 2 / e, exponent = -2 beta tanh(y). */
static void exponents(float *restrict exponent, float *restrict slope, size_t lines, float sharpness)
{
    for (; lines-- > 0; exponent += FEATURE_ROWS, slope += FEATURE_ROWS)
        for (size_t i = 0; i < FEATURE_ROWS; i++) {
            slope[i] = 2 / exponent[i];
            exponent[i] = 2 * sharpness * (slope[i] - 1);
        }
}

/* From exp(-2 beta tanh(y)) in `clear`. Both keep their relative precision. */
static void halves(float *restrict set, float *restrict clear, size_t lines)
{
    for (; lines-- > 0; set += FEATURE_ROWS, clear += FEATURE_ROWS)
        for (size_t i = 0; i < FEATURE_ROWS; i++) {
            set[i] = 1 / (1 + clear[i]);
            clear[i] *= set[i];
        }
}

static struct tile factors(const struct problem *problem, const struct corners *c, const float *x,
                           size_t ld_x, size_t rows, void *scratch)
{
    const struct kernels *kernels = problem->kernels;
    const float *planes = problem->shared; /* (bits, tables, d) */
    size_t dim = problem->shape.head_dim;
    struct tile t = tile_on(c, dim, scratch);
    size_t lines = c->bits * c->tables, count = lines * FEATURE_ROWS;
    const float zero = 0;
    if (rows < FEATURE_ROWS)
        memset(t.x, 0, dim * FEATURE_ROWS * sizeof *t.x);
    kernels->tiles.transpose(t.x, FEATURE_ROWS, x, ld_x, rows, dim);
    kernels->tiles.product(t.clear, FEATURE_ROWS, planes, dim, 1, t.x, FEATURE_ROWS, lines, FEATURE_ROWS, dim,
                           false);
    bound(t.clear, lines);
    kernels->softmax.exp(t.clear, count, t.clear, count, 1, count, 2, &zero, 1);
    exponents(t.clear, t.slope, lines, c->sharpness);
    kernels->softmax.exp(t.clear, count, t.clear, count, 1, count, 1, &zero, 0);
    halves(t.set, t.clear, lines);
    return t;
}

/* ---- the map ------------------------------------------------------------------------------------------- */

/* Bit after bit: the corners so far, times 1 - p, and their copies, times p. */
static void race_forward(const struct problem *problem, enum feature_side side, const float *x, size_t ld_x,
                         size_t rows, float *phi, void *scratch)
{
    (void)side;
    const struct kernels *kernels = problem->kernels;
    struct corners c = corners_of(problem->options);
    struct tile t = factors(problem, &c, x, ld_x, rows, scratch);
    size_t lanes = c.tables * FEATURE_ROWS, count = c.tables << c.bits;
    memcpy(t.corners, t.clear, lanes * sizeof *t.corners);
    memcpy(t.corners + lanes, t.set, lanes * sizeof *t.corners);
    for (size_t bit = 1; bit < c.bits; bit++)
        for (size_t half = (size_t)1 << bit, corner = 0; corner < half; corner++) {
            float *low = t.corners + corner * lanes, *high = low + half * lanes;
            memcpy(high, low, lanes * sizeof *high);
            kernels->rows.multiply(high, t.set + bit * lanes, lanes);
            kernels->rows.multiply(low, t.clear + bit * lanes, lanes);
        }
    kernels->tiles.transpose(phi, count, t.corners, FEATURE_ROWS, count, rows);
}

/* dy = (sum of phi dphi over corners with the bit - p times that over all) 2 beta tanh'(y). On entry slope is
   1 - tanh(y), and dy the sum over corners with the bit. */
static void slopes(float *restrict dy, const float *restrict all, const float *restrict set,
                   const float *restrict slope, size_t lines, float sharpness)
{
    for (; lines-- > 0; dy += FEATURE_ROWS, all += FEATURE_ROWS, set += FEATURE_ROWS, slope += FEATURE_ROWS)
        for (size_t i = 0; i < FEATURE_ROWS; i++)
            dy[i] = (dy[i] - set[i] * all[i]) * 2 * sharpness * slope[i] * (2 - slope[i]);
}

/* Folds phi dphi from the last bit to the first: the upper half, those with the bit, onto the lower. */
static void race_backward(const struct problem *problem, enum feature_side side, const float *x, size_t ld_x,
                          size_t rows, const float *phi, float *dphi, float *dx, size_t ld_dx, void *scratch)
{
    (void)side;
    const struct kernels *kernels = problem->kernels;
    struct corners c = corners_of(problem->options);
    struct tile t = factors(problem, &c, x, ld_x, rows, scratch);
    size_t lanes = c.tables * FEATURE_ROWS, count = c.tables << c.bits, dim = problem->shape.head_dim;
    float *dy = t.clear;
    kernels->rows.multiply(dphi, phi, rows * count);
    if (rows < FEATURE_ROWS)
        memset(t.corners, 0, (lanes << c.bits) * sizeof *t.corners);
    kernels->tiles.transpose(t.corners, FEATURE_ROWS, dphi, count, rows, count);
    for (size_t bit = c.bits; bit-- > 0;) {
        size_t half = (size_t)1 << bit;
        memset(dy + bit * lanes, 0, lanes * sizeof *dy);
        for (size_t corner = 0; corner < half; corner++)
            kernels->rows.axpy(dy + bit * lanes, 1, t.corners + (half + corner) * lanes, lanes);
        kernels->rows.axpy(t.corners, 1, t.corners + half * lanes, half * lanes);
    }
    for (size_t bit = 0; bit < c.bits; bit++)
        slopes(dy + bit * lanes, t.corners, t.set + bit * lanes, t.slope + bit * lanes, c.tables,
               c.sharpness);
    kernels->tiles.product(dx, ld_dx, dy, 1, FEATURE_ROWS, problem->shared, dim, rows, dim, c.bits * c.tables,
                           true);
}

static size_t race_scratch(const void *options, const struct problem_shape *shape)
{
    struct corners c = corners_of(options);
    return tile_on(&c, shape->head_dim, NULL).bytes;
}

/* ---- the mechanism ------------------------------------------------------------------------------------- */

static const struct feature_attention race = {
    .map = {.count = corners_count,
            .scratch = race_scratch,
            .forward = race_forward,
            .backward = race_backward},
    .epsilon = 1e-30f,
};

FEATURE_SLOTS(race)

static size_t planes_count_of(const void *options, size_t head_dim)
{
    const struct race_options *o = options;
    return size_product(size_product((size_t)o->num_tables, (size_t)o->hash_bits), head_dim);
}

static size_t shared_size(const void *options, size_t head_dim)
{
    return size_product(planes_count_of(options, head_dim), sizeof(float));
}

static void prepare(const struct preparation *p)
{
    random_normals(random_key(p->call_key, RANDOM_FEATURES, 0), 0, p->shared,
                   planes_count_of(p->options, p->head_dim));
}

static const struct option_row options[] = {
    OPTION_ROW("num_tables", OPTION_INT, offsetof(struct race_options, num_tables), 8, 1, 256, NULL,
               "tables whose sums are averaged: more are more accurate and take proportionally more time"),
    OPTION_ROW("hash_bits", OPTION_INT, offsetof(struct race_options, hash_bits), 4, 1, 10, NULL,
               "planes per table, which has 2^hash_bits corners: more attend more sharply"),
    OPTION_ROW("sharpness", OPTION_REAL, offsetof(struct race_options, sharpness), 1, 0, 40, NULL,
               "beta, the inverse temperature of the corners: 0 averages all values, large ones hash hard"),
    {.name = NULL},
};

static const char *const departures[] = {
    "Sums and masses of all tables are added before the division, as in algorithm 1 of the paper.",
    "Planes are drawn anew at every training step and shared by the heads.",
    "1e-30 is added to the denominator.",
    NULL,
};

const struct mechanism mechanism_race = {
    .name = "race",
    .summary = "soft hashing into the corners of a few tables, linear in the length (Joshi et al. 2026)",
    .departures = departures,
    .options = options,
    .options_size = sizeof(struct race_options),
    .exact = false,
    .mixes = true,
    .range = {.bounded = true, .power = 0},
    .host = {NULL, saved_size, scratch_size, forward, backward},
    .preparation = &(const struct preparation_facet){shared_size, NULL, prepare},
    .stream = &(const struct stream_facet){state_size, stream_scratch_size, absorb, read, merge},
};
