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

#include "attention/mechanism.h"
#include "base/random.h"
#include "parts/features/feature_slots.h"
#include "parts/features/random_features.h"

struct performer_options {
    int64_t num_features;
    int both_signs;
};

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

static size_t performer_count(const void *options, const struct problem_shape *shape)
{
    (void)shape;
    return num_features(options);
}

static size_t performer_scratch(const void *options, const struct problem_shape *shape)
{
    (void)options;
    (void)shape;
    return (size_t)3 * FEATURE_ROWS * sizeof(float);
}

static struct directions directions_of(const struct problem *problem)
{
    return directions_on(problem->options, problem->shape.head_dim, problem->shared);
}

static struct features features_of_problem(const struct problem *problem)
{
    struct directions directions = directions_of(problem);
    return (struct features){problem->kernels, directions.down, num_features(problem->options),
                             problem->shape.head_dim, directions.both_signs};
}

/* scratch: three floats per row. The products become features in place. */
static struct feature_rows rows_on(float *phi, void *scratch)
{
    float *numbers = scratch;
    return (struct feature_rows){phi, numbers, numbers + FEATURE_ROWS, numbers + (size_t)2 * FEATURE_ROWS};
}

static void performer_forward(const struct problem *problem, enum feature_side side, const float *x,
                              size_t ld_x, size_t rows, float *phi, void *scratch)
{
    (void)side;
    struct features features = features_of_problem(problem);
    struct feature_rows to = rows_on(phi, scratch);
    features_project(&features, x, ld_x, rows, &to);
    features_of(&features, &to, rows, 1, STABILISE_ROW, 0, phi);
}

static void performer_project(const struct problem *problem, const float *x, size_t ld_x, size_t rows,
                              float *phi, void *scratch)
{
    struct features features = features_of_problem(problem);
    struct feature_rows to = rows_on(phi, scratch);
    features_project(&features, x, ld_x, rows, &to);
}

/* The square of a row may be infinite. */
static void performer_levels(const struct problem *problem, size_t rows, const void *scratch, double *level)
{
    (void)problem;
    struct feature_rows from = rows_on(NULL, (void *)scratch);
    for (size_t i = 0; i < rows; i++)
        level[i] = fmax((double)from.largest[i] - (double)from.half[i], -(double)FLT_MAX);
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
static void performer_backward(const struct problem *problem, enum feature_side side, const float *x,
                               size_t ld_x, size_t rows, const float *phi, float *dphi, float *dx,
                               size_t ld_dx, void *scratch)
{
    (void)side;
    const struct kernels *kernels = problem->kernels;
    struct directions directions = directions_of(problem);
    size_t count = num_features(problem->options), dim = problem->shape.head_dim;
    float *sums = scratch, scale = -1 / sqrtf((float)dim);
    through_exponentials(dphi, phi, rows * count);
    kernels->rows.dots(sums, dphi, count, directions.ones, 0, rows, count);
    if (directions.both_signs)
        fold_signs(&directions, dphi, rows, count);
    kernels->tiles.product(dx, ld_dx, dphi, count, 1, directions.across, dim, rows, dim, directions.drawn,
                           true);
    for (size_t i = 0; i < rows; i++)
        kernels->rows.axpy(dx + i * ld_dx, scale * sums[i], x + i * ld_x, dim);
}

/* ---- the mechanism ------------------------------------------------------------------------------------- */

/* The denominator is at least 1e-6 if a query sees a key; else epsilon makes its output 0. */
static const struct feature_attention performer = {
    .map = {.count = performer_count,
            .scratch = performer_scratch,
            .forward = performer_forward,
            .backward = performer_backward,
            .project = performer_project,
            .levels = performer_levels},
    .epsilon = 1e-30f,
};

FEATURE_SLOTS(performer)

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

static const struct option_row options[] = {
    OPTION_ROW(
        "num_features", OPTION_INT, offsetof(struct performer_options, num_features), 256, 1, 65536, NULL,
        "random features that estimate softmax: more are more accurate and take proportionally more time"),
    OPTION_ROW("both_signs", OPTION_FLAG, offsetof(struct performer_options, both_signs), 0, 0, 0, NULL,
               "each random direction gives two features, one for each sign: less time, and less variance "
               "for short rows"),
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
