/* Random feature attention (Peng et al. 2021, equations 3 to 6): attention by a Gaussian kernel of unit rows,
   through random Fourier features,
     phi(x) = [sin(W y), cos(W y)] / sqrt(D),   y = sigma x / (|x| + 1e-3),   D = num_features,
   with W (D, d) standard normal and sigma (d) learned per head, 1 at first. phi(q).phi(k) estimates
   exp(-|y_q - y_k|^2 / 2), and out_i is the mean of the values weighted by it, in sums of features
   (parts/features/feature_attention.h).
   Gate (causal only): key t enters the sums with weight 1 - g_t and all before it decay by g_t =
   sigmoid(w.k_t + b), w and b learned. The paper's gate reads the layer's input; k_t is a linear map of it. A
   run begins with w = 0 and b = 4: keys decay by a factor of e in 55 tokens. Products of gates are levels of
   keys and queries.

   An estimate may be 0 or negative, so a smaller denominator than exp(-2) is replaced by exp(-2), without
   gradient: with sigma 1 no key weighs less. The paper has no bound. The released code has 1 with
   features whose squares sum to 0.64 for 64 of them, which shrinks the output of the first tokens, and of all
   with a gate. It also draws a W per head from a pool of 500; here one is drawn per call for all heads.

   Cost: 4 n D d operations for projections, 2 n D sines and cosines and 8 n D d_v operations for sums and
   outputs forward (with a gate, 64 exponentials per query), about three times that backward. Random: W.
   Saved: one float per query and 2 D (d_v + 1) floats per 1,024 rows. A stream's state is 2 D (d_v + 1)
   floats and their level.
   SPDX-License-Identifier: Apache-2.0 */
#include <math.h>
#include <string.h>

#include "attention/mechanism.h"
#include "base/random.h"
#include "parts/features/feature_state.h"

struct rfa_options {
    int64_t num_features; /* D */
    int gate;
};

#define SHORTEST 1e-3f        /* added to lengths */
#define BOTTOM   0.135335283f /* exp(-2), the least denominator */

static size_t num_features(const void *options)
{
    return (size_t)((const struct rfa_options *)options)->num_features;
}

static bool gated(const void *options)
{
    return ((const struct rfa_options *)options)->gate != 0;
}

/* Prepared once per call. */
struct directions {
    float *down;   /* (d, D): W transposed */
    float *across; /* (D, d) */
    size_t bytes;
};

static struct directions directions_on(const void *options, size_t dim, const void *block)
{
    struct directions s;
    struct arena arena = arena_on((void *)block);
    size_t count = size_product(num_features(options), dim);
    s.down = arena_take(&arena, count, sizeof(float));
    s.across = arena_take(&arena, count, sizeof(float));
    s.bytes = arena.used;
    return s;
}

/* ---- the map, of rows y -------------------------------------------------------------------------------- */

static size_t rfa_count(const void *options, const struct problem_shape *shape)
{
    (void)shape;
    return size_product(2, num_features(options));
}

static struct directions directions_of(const struct problem *problem)
{
    return directions_on(problem->options, problem->shape.head_dim, problem->shared);
}

/* The products become cosines in place. */
static void rfa_forward(const struct problem *problem, enum feature_side side, const float *y, size_t ld_y,
                        size_t rows, float *phi, void *scratch)
{
    (void)side;
    (void)scratch;
    const struct kernels *kernels = problem->kernels;
    size_t d = num_features(problem->options), count = 2 * d, dim = problem->shape.head_dim;
    kernels->tiles.product(phi + d, count, y, ld_y, 1, directions_of(problem).down, d, rows, d, dim, false);
    kernels->features.sines(phi, phi + d, count, phi + d, count, rows, d, 1 / sqrtf((float)d));
}

/* dx = dsin cos - dcos sin, in the place of dsin. */
static void rfa_backward(const struct problem *problem, enum feature_side side, const float *y, size_t ld_y,
                         size_t rows, const float *phi, float *dphi, float *dy, size_t ld_dy, void *scratch)
{
    (void)side;
    (void)y;
    (void)ld_y;
    (void)scratch;
    const struct kernels *kernels = problem->kernels;
    size_t d = num_features(problem->options), count = 2 * d, dim = problem->shape.head_dim;
    for (size_t i = 0; i < rows; i++) {
        float *dsine = dphi + i * count, *dcosine = dsine + d;
        kernels->rows.multiply(dsine, phi + i * count + d, d);
        kernels->rows.multiply(dcosine, phi + i * count, d);
        kernels->rows.axpy(dsine, -1, dcosine, d);
    }
    kernels->tiles.product(dy, ld_dy, dphi, count, 1, directions_of(problem).across, dim, rows, dim, d, true);
}

static const struct feature_attention rfa = {
    .map = {.count = rfa_count, .forward = rfa_forward, .backward = rfa_backward},
    .floor = BOTTOM,
};

/* ---- learned: sigma (d), and of the gate w (d) and b (1) ----------------------------------------------- */

static void sigma_shape(const void *options, const struct parameter_sizes *sizes, size_t *rows, size_t *cols)
{
    (void)options;
    *rows = 1;
    *cols = sizes->head_dim;
}

static void gate_shape(const void *options, const struct parameter_sizes *sizes, size_t *rows, size_t *cols)
{
    *rows = gated(options);
    *cols = gated(options) ? sizes->head_dim : 0;
}

static void bias_shape(const void *options, const struct parameter_sizes *sizes, size_t *rows, size_t *cols)
{
    (void)sizes;
    *rows = *cols = gated(options);
}

static const struct parameter_row params[] = {
    {.name = "sigma", .shape = sigma_shape, .start = START_ONES, .decays = false},
    {.name = "gate", .shape = gate_shape, .start = START_ZEROS, .decays = true},
    {.name = "gate_bias", .shape = bias_shape, .start = START_CONSTANT, .scale = 4, .decays = false},
    {.name = NULL},
};

/* ---- unit rows ----------------------------------------------------------------------------------------- */

/* Rows y of one side, and their gradients. */
struct unit_rows {
    float *y, *dy;  /* (rows, d) */
    float *inverse; /* (rows) 1 / (|x| + 1e-3); 0 if the square of |x| is infinite */
};

static void unit_rows_of(const struct kernels *kernels, struct view x, const float *sigma,
                         const struct unit_rows *u)
{
    size_t dim = x.cols;
    kernels->rows.dots(u->inverse, x.data, x.stride, x.data, x.stride, x.rows, dim);
    for (size_t i = 0; i < x.rows; i++) {
        u->inverse[i] = 1 / (sqrtf(u->inverse[i]) + SHORTEST);
        memcpy(u->y + i * dim, view_row(x, i), dim * sizeof *u->y);
    }
    kernels->rows.scale_both(u->y, dim, u->inverse, sigma, x.rows, dim);
}

/* dx += dz / (n + s) - x (x.dz) / (n (n + s)^2) with dz = sigma dy, n = |x|, s = 1e-3; dsigma_c += the sum
   over rows of dy_c x_c / (n + s), if it is wanted. row (d): work space. Overwrites dy. */
static void unit_rows_backward(const struct kernels *kernels, struct view x, const float *sigma,
                               const struct unit_rows *u, struct view dx, float *dsigma, float *row)
{
    size_t dim = x.cols;
    for (size_t i = 0; i < x.rows; i++) {
        float *dy = u->dy + i * dim, inverse = u->inverse[i], along;
        const float *from = view_row(x, i);
        if (dsigma != NULL) {
            memcpy(row, from, dim * sizeof *row);
            kernels->rows.multiply(row, dy, dim);
            kernels->rows.axpy(dsigma, inverse, row, dim);
        }
        kernels->rows.multiply(dy, sigma, dim);
        kernels->rows.dots(&along, from, dim, dy, dim, 1, dim);
        float length = inverse > 0 ? 1 / inverse - SHORTEST : 0;
        kernels->rows.axpy(view_row(dx, i), inverse, dy, dim);
        if (length > 0)
            kernels->rows.axpy(view_row(dx, i), -along / length * inverse * inverse, from, dim);
    }
}

/* ---- the gate: with c_t the sum of log g up to key t, key j has level log(1 - g_j) - c_j, a query -c of the
   last key it sees.
   ------------------------------------------------------------------------------------------------- */

struct gate {
    float *logit;        /* (n_k) w.k + b */
    double *key_level;   /* (n_k) */
    double *level_after; /* (n_k) -c */
    double *query_level; /* (n_q) */
    float *dkey_level, *dquery_level;
};

/* log(1 + exp(x)). */
static double softplus(double x)
{
    return fmax(x, 0) + log1p(exp(-fabs(x)));
}

/* From the level before the keys. */
static void gate_levels(const struct problem *problem, const struct gate *gate, double level)
{
    size_t dim = problem->shape.head_dim;
    const float *w = problem->params + dim;
    problem->kernels->rows.dots(gate->logit, problem->key.data, problem->key.stride, w, 0, problem->key.rows,
                                dim);
    for (size_t j = 0; j < problem->key.rows; j++) {
        gate->logit[j] += w[dim];
        double logit = (double)gate->logit[j];
        level += softplus(-logit);
        gate->level_after[j] = level;
        gate->key_level[j] = level - softplus(logit);
    }
}

static void gate_query_levels(const struct problem *problem, const struct gate *gate)
{
    for (size_t i = 0; i < problem->shape.num_queries; i++) {
        size_t seen = problem_seen(problem, i);
        gate->query_level[i] = seen == 0 ? 0 : gate->level_after[seen - 1];
    }
}

/* Level l_t = the sum of softplus(-s) up to key t enters key_level[t] and the levels of the queries that see
   t last; key_level[t] also has -softplus(s_t). So ds_t = -g_t dkey_level_t - (1 - g_t) (sum of all dl from t
   on). */
static void gate_backward(const struct problem *problem, const struct gate *gate, struct view dkey,
                          float *dparams)
{
    size_t dim = problem->shape.head_dim, query = problem->shape.num_queries;
    const float *w = problem->params + dim;
    float *dw = dparams == NULL ? NULL : dparams + dim;
    double later = 0, dbias = 0;
    for (size_t j = problem->key.rows; j-- > 0;) {
        while (query > 0 && problem_seen(problem, query - 1) > j)
            later += (double)gate->dquery_level[--query];
        later += (double)gate->dkey_level[j];
        double g = 1 / (1 + exp(-(double)gate->logit[j]));
        double dlogit = -g * (double)gate->dkey_level[j] - (1 - g) * later;
        problem->kernels->rows.axpy(view_row(dkey, j), (float)dlogit, w, dim);
        if (dw != NULL)
            problem->kernels->rows.axpy(dw, (float)dlogit, view_row(problem->key, j), dim);
        dbias += dlogit;
    }
    if (dw != NULL)
        dw[dim] += (float)dbias;
}

/* ---- memory -------------------------------------------------------------------------------------------- */

struct memory {
    struct unit_rows query, key;
    float *row; /* (d) */
    struct gate gate;
    void *features;
    size_t bytes;
};

static void take_unit_rows(struct arena *arena, struct unit_rows *u, size_t rows, size_t dim, bool backward)
{
    u->y = arena_take(arena, rows, size_product(dim, sizeof *u->y));
    u->dy = arena_take(arena, backward ? rows : 0, size_product(dim, sizeof *u->dy));
    u->inverse = arena_take(arena, rows, sizeof *u->inverse);
}

/* features: bytes for the part. */
static struct memory memory_on(const void *options, const struct problem_shape *shape, bool backward,
                               size_t features, void *block)
{
    struct memory m;
    struct arena arena = arena_on(block);
    size_t n_q = shape->num_queries, n_k = shape->num_keys, gates = gated(options);
    take_unit_rows(&arena, &m.query, n_q, shape->head_dim, backward);
    take_unit_rows(&arena, &m.key, n_k, shape->head_dim, backward);
    m.row = arena_take(&arena, shape->head_dim, sizeof *m.row);
    m.gate.logit = arena_take(&arena, gates * n_k, sizeof(float));
    m.gate.key_level = arena_take(&arena, gates * n_k, sizeof(double));
    m.gate.level_after = arena_take(&arena, gates * n_k, sizeof(double));
    m.gate.query_level = arena_take(&arena, gates * n_q, sizeof(double));
    m.gate.dkey_level = arena_take(&arena, gates * n_k, sizeof(float));
    m.gate.dquery_level = arena_take(&arena, gates * n_q, sizeof(float));
    m.features = arena_take(&arena, features, 1);
    m.bytes = arena.used;
    return m;
}

/* The problem of rows y. */
static struct problem unit_problem(const struct problem *problem, const struct memory *m)
{
    struct problem units = *problem;
    unit_rows_of(problem->kernels, problem->query, problem->params, &m->query);
    unit_rows_of(problem->kernels, problem->key, problem->params, &m->key);
    units.query = view_of(m->query.y, problem->query.rows, problem->shape.head_dim);
    units.key = view_of(m->key.y, problem->key.rows, problem->shape.head_dim);
    units.scratch = m->features;
    return units;
}

/* ---- the mechanism ------------------------------------------------------------------------------------- */

static const char *refuse(const void *options, const struct problem_shape *shape)
{
    if (gated(options) && !shape->causal)
        return "`gate` lets keys decay in token order, so it needs causal attention";
    return NULL;
}

static size_t saved_size(const void *options, const struct problem_shape *shape)
{
    return feature_attention_saved_size(options, shape, &rfa);
}

static size_t scratch_size(const void *options, const struct problem_shape *shape)
{
    size_t features = feature_attention_scratch_size(options, shape, &rfa);
    return memory_on(options, shape, true, features, NULL).bytes;
}

static struct feature_attention with_gate(const struct problem *problem, const struct gate *gate)
{
    struct feature_attention a = rfa;
    if (!gated(problem->options))
        return a;
    gate_levels(problem, gate, 0);
    gate_query_levels(problem, gate);
    a.levels = (struct feature_levels){.key = gate->key_level, .query = gate->query_level};
    a.dkey_level = gate->dkey_level;
    a.dquery_level = gate->dquery_level;
    return a;
}

static void forward(const struct problem *problem, struct view out)
{
    struct memory m = memory_on(problem->options, &problem->shape, true, 0, problem->scratch);
    struct problem units = unit_problem(problem, &m);
    struct feature_attention a = with_gate(problem, &m.gate);
    feature_attention_forward(&units, &a, out);
}

static void backward(const struct problem *problem, struct view out, struct view dout,
                     const struct problem_gradients *gradients)
{
    struct memory m = memory_on(problem->options, &problem->shape, true, 0, problem->scratch);
    struct problem units = unit_problem(problem, &m);
    struct feature_attention a = with_gate(problem, &m.gate);
    size_t dim = problem->shape.head_dim, n_q = problem->query.rows, n_k = problem->key.rows;
    struct problem_gradients of_units = {view_of(m.query.dy, n_q, dim), view_of(m.key.dy, n_k, dim),
                                         gradients->value, NULL};
    memset(m.query.dy, 0, n_q * dim * sizeof(float));
    memset(m.key.dy, 0, n_k * dim * sizeof(float));
    feature_attention_backward(&units, &a, out, dout, &of_units);
    unit_rows_backward(problem->kernels, problem->query, problem->params, &m.query, gradients->query,
                       gradients->params, m.row);
    unit_rows_backward(problem->kernels, problem->key, problem->params, &m.key, gradients->key,
                       gradients->params, m.row);
    if (gated(problem->options))
        gate_backward(problem, &m.gate, gradients->key, gradients->params);
}

static size_t shared_size(const void *options, size_t head_dim)
{
    return directions_on(options, head_dim, NULL).bytes;
}

static void prepare(const struct preparation *p)
{
    size_t count = num_features(p->options), dim = p->head_dim;
    struct directions directions = directions_on(p->options, dim, p->shared);
    random_normals(random_key(p->call_key, RANDOM_FEATURES, 0), 0, directions.across, count * dim);
    p->kernels->tiles.transpose(directions.down, count, directions.across, dim, count, dim);
}

/* ---- streaming: a gate's level goes on from that of the state ------------------------------------------ */

static size_t state_size(const void *options, const struct problem_shape *shape)
{
    return feature_state_size(options, shape, &rfa);
}

static size_t stream_scratch_size(const void *options, const struct problem_shape *shape)
{
    size_t features = feature_state_scratch_size(options, shape, &rfa);
    return memory_on(options, shape, false, features, NULL).bytes;
}

/* With the levels of the keys of a chunk. */
static struct feature_attention with_chunk(const struct problem *problem, const struct gate *gate,
                                           const void *state)
{
    struct feature_attention a = rfa;
    if (!gated(problem->options))
        return a;
    gate_levels(problem, gate, feature_state_level(problem->options, &problem->shape, &rfa, state, 0));
    a.levels = (struct feature_levels){.key = gate->key_level, .after = gate->level_after};
    return a;
}

static void absorb(const struct problem *problem, void *state, size_t first)
{
    (void)first;
    struct memory m = memory_on(problem->options, &problem->shape, false, 0, problem->scratch);
    struct problem units = unit_problem(problem, &m);
    struct feature_attention a = with_chunk(problem, &m.gate, state);
    feature_state_add(&units, &a, state);
}

static void read(const struct problem *problem, void *state, size_t first, struct view out)
{
    (void)first;
    struct memory m = memory_on(problem->options, &problem->shape, false, 0, problem->scratch);
    struct problem units = unit_problem(problem, &m);
    struct feature_attention a = with_chunk(problem, &m.gate, state);
    feature_state_read(&units, &a, state, out);
}

static void merge(const void *options, const struct problem_shape *shape, void *into, const void *from)
{
    /* With a gate, the keys of `from` come after those of `into`. */
    double offset = gated(options) ? feature_state_level(options, shape, &rfa, into, 0) : 0;
    feature_state_merge(options, shape, &rfa, into, from, offset);
}

static const struct option_row options[] = {
    OPTION_ROW("num_features", OPTION_INT, offsetof(struct rfa_options, num_features), 64, 1, 65536, NULL,
               "random directions, each a sine and a cosine: more are more accurate and take proportionally "
               "more time"),
    OPTION_ROW("gate", OPTION_FLAG, offsetof(struct rfa_options, gate), 0, 0, 1, NULL,
               "keys decay by a learned factor per token (causal attention only)"),
    {.name = NULL},
};

static const char *const departures[] = {
    "A denominator below exp(-2) is replaced by exp(-2).",
    "The gate reads the keys.",
    "W is drawn anew at every training step, for all heads.",
    NULL,
};

const struct mechanism mechanism_rfa = {
    .name = "rfa",
    .summary = "random Fourier features of unit rows, linear in the length, with a gate (Peng et al. 2021)",
    .departures = departures,
    .options = options,
    .options_size = sizeof(struct rfa_options),
    .exact = false,
    .mixes = true,
    .range = {.bounded = true, .power = 2},
    .host = {refuse, saved_size, scratch_size, forward, backward},
    .params = params,
    .preparation = &(const struct preparation_facet){shared_size, NULL, prepare},
    .stream = &(const struct stream_facet){state_size, stream_scratch_size, absorb, read, merge},
};
