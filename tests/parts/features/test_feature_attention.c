/* Attention through features against its kernel in double precision over all pairs, with a map whose features
   are not as many as the columns and differ between queries and keys: q_c^2 and 1, exp(k_c / 2) and 1. Bugs
   planted and caught: the last row of a tile not in z; epsilon left out; the sign of a denominator's
   gradient; a block's own sums before it, or its own gradients after it; scores for dV taken from their
   gradients; keys that are not seen, in scores or gradients; dz dropped; sums of the first block only;
   running sums not advanced in backward; the second tile of new keys skipped; features of the other side.
   Of levels: sums not moved between blocks, or between tiles; the factor of a query left out, or that of a
   pair; gradients of sums at the level of the tile's last query; values of keys without their factor; the
   gradient of a level from the scaled features. The floor with a gradient. Of levels that the
   map finds: sums not moved when a tile has a larger level; blocks added without the factor between their
   levels; the level of the last tile as that of the block; the first pass over causal keys left out, or ended
   after its first block; query levels not found in backward.
   Covers: feature_attention_backward.c feature_levels.c
   SPDX-License-Identifier: Apache-2.0 */
#include "parts/features/feature_attention.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/random.h"
#include "oracle/oracle_kernel.h"
#include "support/check.h"

enum { MAP_SCRATCH = 128 };

static size_t map_count(const void *options, const struct problem_shape *shape)
{
    (void)options;
    return shape->head_dim + 1;
}

static size_t map_scratch(const void *options, const struct problem_shape *shape)
{
    (void)options;
    (void)shape;
    return MAP_SCRATCH;
}

/* In scratch, the rows that were read last. */
static void map_project(const struct problem *problem, const float *x, size_t ld_x, size_t rows, float *phi,
                        void *scratch)
{
    (void)ld_x;
    memset(scratch, 0xff, MAP_SCRATCH);
    memcpy(scratch, &x, sizeof x);
    for (size_t i = 0; i < rows * map_count(NULL, &problem->shape); i++)
        phi[i] = NAN;
}

/* The shared memory is the levels of all keys. */
static void map_levels(const struct problem *problem, size_t rows, const void *scratch, double *level)
{
    const double *levels = problem->shared;
    const float *x;
    memcpy(&x, scratch, sizeof x);
    memcpy(level, levels + (size_t)(x - view_row(problem->key, 0)) / problem->shape.head_dim,
           rows * sizeof *level);
}

static void map_forward(const struct problem *problem, enum feature_side side, const float *x, size_t ld_x,
                        size_t rows, float *phi, void *scratch)
{
    size_t dim = problem->shape.head_dim, count = dim + 1;
    map_project(problem, x, ld_x, rows, phi, scratch);
    for (size_t i = 0; i < rows; i++) {
        for (size_t c = 0; c < dim; c++) {
            float v = x[i * ld_x + c];
            phi[i * count + c] = side == FEATURE_QUERY ? v * v : expf(v / 2);
        }
        phi[i * count + dim] = 1;
    }
}

static void map_backward(const struct problem *problem, enum feature_side side, const float *x, size_t ld_x,
                         size_t rows, const float *phi, float *dphi, float *dx, size_t ld_dx, void *scratch)
{
    memset(scratch, 0xff, MAP_SCRATCH);
    for (size_t i = 0; i < rows; i++)
        for (size_t c = 0; c < problem->shape.head_dim; c++) {
            size_t at = i * (problem->shape.head_dim + 1) + c;
            dx[i * ld_dx + c] += dphi[at] * (side == FEATURE_QUERY ? 2 * x[i * ld_x + c] : phi[at] / 2);
            dphi[at] = NAN;
        }
}

static double kernel(const void *self, const double *query, const double *key, size_t d, double *dquery,
                     double *dkey)
{
    (void)self;
    double sum = 1;
    for (size_t c = 0; c < d; c++) {
        double f = query[c] * query[c], g = exp(key[c] / 2);
        dquery[c] = 2 * query[c] * g;
        dkey[c] = f * g / 2;
        sum += f * g;
    }
    return sum;
}

struct sizes {
    size_t n_q, n_k, d, d_v;
    bool causal;
};

/* Levels of keys and queries, and the floor. NULL: none. */
struct levels {
    double *key, *query, floor;
};

struct levelled {
    const struct oracle_kernel *oracle;
    const struct levels *levels;
};

static double levelled_kernel(const void *self, const double *query, const double *key, size_t d,
                              double *dquery, double *dkey)
{
    const struct levelled *l = self;
    size_t i = (size_t)(query - l->oracle->query) / d, j = (size_t)(key - l->oracle->key) / d;
    double factor = exp(l->levels->key[j] - l->levels->query[i]);
    double score = factor * kernel(NULL, query, key, d, dquery, dkey);
    for (size_t c = 0; c < d; c++) {
        dquery[c] *= factor;
        dkey[c] *= factor;
    }
    return score;
}

/* Sums of up to 2,000 terms of float32: 1e-5 of the largest number. */
static void check_array(const float *got, const double *want, size_t count, double start, const char *what)
{
    double largest = 0;
    for (size_t i = 0; i < count; i++)
        largest = fmax(largest, fabs(want[i]));
    for (size_t i = 0; i < count; i++)
        check_near((double)got[i], start + want[i], 1e-5 * (largest + start), what);
}

/* A guarded array of normals, and the same in double. */
static float *fill(double *to, size_t count, uint64_t key)
{
    float *made = guard_floats(count);
    random_normals(key, 0, made, count);
    for (size_t i = 0; i < count; i++)
        to[i] = (double)made[i];
    return made;
}

static float *filled(size_t count, float value)
{
    float *made = guard_floats(count);
    for (size_t i = 0; i < count; i++)
        made[i] = value;
    return made;
}

/* The gradients of some levels by central differences. */
static void check_level_gradients(struct oracle_kernel *o, double *level, const float *got, size_t count,
                                  const char *what)
{
    double largest = 0, want[3];
    size_t at[3] = {0, count / 2, count - 1};
    for (size_t k = 0; k < 3; k++) {
        double before = level[at[k]], step = 1e-5;
        level[at[k]] = before + step;
        want[k] = oracle_kernel_run(o);
        level[at[k]] = before - step;
        want[k] = (want[k] - oracle_kernel_run(o)) / (2 * step);
        level[at[k]] = before;
        largest = fmax(largest, fabs(want[k]));
    }
    for (size_t k = 0; k < 3; k++)
        check_near((double)got[at[k]], want[k], 1e-4 * largest + 1e-5, what);
}

/* Forward and backward against the oracle. */
static void check_run(const struct problem *problem, const struct feature_attention *a,
                      const struct oracle_kernel *o, const float *grad, const char *what)
{
    size_t n_q = problem->query.rows, n_k = problem->key.rows, d = problem->query.cols, d_v = o->d_v;
    size_t saved = feature_attention_saved_size(NULL, &problem->shape, a) / sizeof(float),
           scratch = feature_attention_scratch_size(NULL, &problem->shape, a) / sizeof(float);
    struct problem run = *problem;
    float *block = run.scratch = filled(scratch, NAN), *out = filled(n_q * d_v, NAN);
    float *dquery = filled(n_q * d, 0.25f), *dkey = filled(n_k * d, 0.25f),
          *dvalue = filled(n_k * d_v, 0.25f);
    struct problem_gradients gradients = {
        .query = view_of(dquery, n_q, d), .key = view_of(dkey, n_k, d), .value = view_of(dvalue, n_k, d_v)};
    struct view y = view_of(out, n_q, d_v), dout = view_of(grad, n_q, d_v);
    run.saved = filled(saved, NAN);
    feature_attention_forward(&run, a, y);
    for (size_t i = 0; i < scratch; i++)
        block[i] = NAN;
    feature_attention_backward(&run, a, y, dout, &gradients);
    check_array(out, o->out, n_q * d_v, 0, what);
    check_array(dquery, o->dquery, n_q * d, 0.25, what);
    check_array(dkey, o->dkey, n_k * d, 0.25, what);
    check_array(dvalue, o->dvalue, n_k * d_v, 0.25, what);
    guard_free(run.saved, saved);
    guard_free(block, scratch);
    guard_free(out, n_q * d_v);
    guard_free(dquery, n_q * d);
    guard_free(dkey, n_k * d);
    guard_free(dvalue, n_k * d_v);
}

static void check(const struct kernels *kernels, struct pool *pool, struct sizes s, size_t *visible,
                  const struct levels *levels)
{
    struct oracle_kernel o = oracle_kernel_new(s.n_q, s.n_k, s.d, s.d_v);
    struct levelled levelled = {&o, levels};
    o.epsilon = levels == NULL ? 0.125 : 0;
    o.floor = levels == NULL ? 0 : levels->floor;
    o.kernel = levels == NULL ? kernel : levelled_kernel;
    o.self = &levelled;
    o.visible = visible;
    float *query = fill(o.query, s.n_q * s.d, 1), *key = fill(o.key, s.n_k * s.d, 2);
    float *value = fill(o.value, s.n_k * s.d_v, 3), *grad = fill(o.dout, s.n_q * s.d_v, 4);
    oracle_kernel_run(&o);
    struct problem problem = {
        .kernels = kernels,
        .shape = {.num_queries = s.n_q,
                  .num_keys = s.n_k,
                  .head_dim = s.d,
                  .value_dim = s.d_v,
                  .causal = s.causal,
                  .workers = (size_t)pool_threads(pool)},
        .query = view_of(query, s.n_q, s.d),
        .key = view_of(key, s.n_k, s.d),
        .value = view_of(value, s.n_k, s.d_v),
        .visible = visible,
        .pool = pool,
    };
    struct feature_attention a = {
        .map = {.count = map_count, .scratch = map_scratch, .forward = map_forward, .backward = map_backward},
        .epsilon = (float)o.epsilon,
        .floor = (float)o.floor,
    };
    if (levels != NULL && levels->floor <= 0) { /* the level of a query divides out */
        struct feature_attention finds = a;
        struct problem knows = problem;
        finds.map.project = map_project;
        finds.map.levels = map_levels;
        knows.shared = levels->key;
        check_run(&knows, &finds, &o, grad, "levels found by the map");
    }
    float *dlevels = filled(s.n_q + s.n_k, NAN);
    if (levels != NULL) {
        a.levels = (struct feature_levels){.key = levels->key, .query = levels->query};
        a.dquery_level = dlevels;
        a.dkey_level = dlevels + s.n_q;
    }
    check_run(&problem, &a, &o, grad, "levels given, or none");
    if (levels != NULL && s.n_q * s.n_k < 100000) {
        check_level_gradients(&o, levels->query, dlevels, s.n_q, "level of a query");
        check_level_gradients(&o, levels->key, dlevels + s.n_q, s.n_k, "level of a key");
    }
    guard_free(dlevels, s.n_q + s.n_k);
    guard_free(query, s.n_q * s.d);
    guard_free(key, s.n_k * s.d);
    guard_free(value, s.n_k * s.d_v);
    guard_free(grad, s.n_q * s.d_v);
    oracle_kernel_free(&o);
}

/* On one thread and on three. */
static void check_sizes(struct sizes s, size_t *visible, const struct levels *levels)
{
    struct host host;
    struct pool *pool;
    host_init(&host);
    assert_int_equal(pool_new(&host, 3, &pool), HASHATTN_OK);
    for (const struct kernels *const *kernels = kernels_all(); *kernels != NULL; kernels++)
        check(*kernels, NULL, s, visible, levels);
    check(kernels_all()[0], pool, s, visible, levels);
    pool_free(&host, pool);
}

static void all_keys(void **state)
{
    (void)state;
    check_sizes((struct sizes){1, 1, 1, 1, false}, NULL, NULL);
    check_sizes((struct sizes){70, 130, 5, 7, false}, NULL, NULL);
    check_sizes((struct sizes){1100, 65, 3, 2, false}, NULL, NULL);
    check_sizes((struct sizes){65, 2100, 4, 3, false}, NULL, NULL);
}

static void causal_keys(void **state)
{
    (void)state;
    static const struct sizes sizes[] = {
        {1, 1, 2, 1, true}, {200, 200, 16, 8, true}, {2200, 2200, 2, 3, true}};
    for (size_t s = 0; s < sizeof sizes / sizeof *sizes; s++) {
        size_t *visible = malloc(sizes[s].n_q * sizeof *visible);
        for (size_t i = 0; i < sizes[s].n_q; i++)
            visible[i] = i + 1;
        check_sizes(sizes[s], visible, NULL);
        free(visible);
    }
}

/* Steps of any width; the first query sees nothing. */
static void causal_keys_in_uneven_steps(void **state)
{
    (void)state;
    static const struct sizes sizes[] = {{1, 3, 2, 2, true},
                                         {7, 2, 5, 3, true},
                                         {330, 110, 8, 4, true},
                                         {200, 700, 4, 3, true},
                                         {1100, 370, 3, 2, true}};
    for (size_t s = 0; s < sizeof sizes / sizeof *sizes; s++) {
        size_t n_q = sizes[s].n_q, n_k = sizes[s].n_k, *visible = malloc(n_q * sizeof *visible);
        for (size_t i = 0, seen = 0; i < n_q; i++) {
            seen += i % 3 == 1 ? 1 + n_k / n_q : 0;
            visible[i] = seen = seen < n_k ? seen : n_k;
        }
        check_sizes(sizes[s], visible, NULL);
        free(visible);
    }
}

/* A level rises by up to 1 per query and by 120 now and then, so that the range of all exceeds float32. Keys
   are up to 3 below the first query that sees them. Not causal: one level, far above some keys. */
static void check_levels(struct sizes s, size_t step, double floor)
{
    size_t *visible = malloc(s.n_q * sizeof *visible), seen = 0;
    struct levels levels = {malloc(s.n_k * sizeof(double)), malloc(s.n_q * sizeof(double)), floor};
    struct random random = random_open(9);
    double level = -1000;
    for (size_t i = 0; i < s.n_q; i++) {
        size_t now = s.causal ? (i + 1) * step / 2 : s.n_k;
        visible[i] = now < s.n_k ? now : s.n_k;
        level += !s.causal ? 0 : i % 700 == 690 ? 120 : (double)random_unit(&random);
        levels.query[i] = level;
        for (; seen < visible[i]; seen++)
            levels.key[seen] =
                level - 3 * (double)random_unit(&random) - (!s.causal && seen % 9 == 1 ? 200 : 0);
    }
    for (; seen < s.n_k; seen++)
        levels.key[seen] = level + 300; /* seen by none */
    check_sizes(s, s.causal ? visible : NULL, &levels);
    free(visible);
    free(levels.key);
    free(levels.query);
}

static void levels_scale_weights(void **state)
{
    (void)state;
    check_levels((struct sizes){1, 1, 2, 1, true}, 2, 0);
    check_levels((struct sizes){200, 200, 5, 7, true}, 2, 0);
    check_levels((struct sizes){200, 200, 5, 7, true}, 2, 3);
    check_levels((struct sizes){150, 40, 5, 3, true}, 1, 0.5);
    check_levels((struct sizes){130, 450, 3, 2, true}, 6, 0);
    check_levels((struct sizes){2200, 2200, 2, 3, true}, 2, 0);
    check_levels((struct sizes){70, 130, 5, 7, false}, 0, 0);
    check_levels((struct sizes){70, 130, 5, 7, false}, 0, 60);
    check_levels((struct sizes){40, 2100, 3, 2, false}, 0, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(all_keys),
        cmocka_unit_test(causal_keys),
        cmocka_unit_test(causal_keys_in_uneven_steps),
        cmocka_unit_test(levels_scale_weights),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
