/* Attention in double against the oracle: stretches and lists of keys, repeated keys, queries that meet no
   key or a run without keys, distances on a line and on a ring; numbers whose products overflow float32;
   and when double is needed. Bugs planted and caught: the sum not rescaled when the maximum grows; an
   empty run taken for the last; delta not divided by the sum; the gradient of u from r; gradients written
   instead of added; a sum of gradients that becomes infinite; infinity taken for a large number.
   SPDX-License-Identifier: Apache-2.0 */
#include "parts/tiles/double_attention.h"

#include <float.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/random.h"
#include "oracle/oracle_softmax.h"
#include "support/check.h"

enum { N_Q = 37, N_K = 41, D = 6, D_V = 5, RUNS = 3 };

/* The keys of every query: three runs, of which the second is empty for some queries; the third repeats
   keys. */
struct runs {
    uint32_t lists[N_Q][N_K];
    size_t counts[N_Q];
};

static bool run(const void *argument, size_t query, size_t number, struct key_run *to)
{
    const struct runs *runs = argument;
    if (number == 0)
        *to = (struct key_run){.first = query / 2, .count = query % 7 == 3 ? 0 : query / 4, .step = 1};
    else if (number == 1)
        *to = (struct key_run){.list = runs->lists[query], .count = runs->counts[query]};
    else if (number == 2)
        *to = (struct key_run){.first = 3, .count = query % 5 == 0 ? 0 : 2, .step = 1};
    return number < RUNS;
}

struct arrays {
    float query[N_Q * D], key[N_K * D], value[N_K * D_V], dout[N_Q * D_V];
    float out[N_Q * D_V], dquery[N_Q * D], dkey[N_K * D], dvalue[N_K * D_V];
    struct runs runs;
};

static struct arrays *arrays_new(void)
{
    struct arrays *a = calloc(1, sizeof *a);
    struct random random = random_open(5);
    random_normals(1, 0, a->query, N_Q * D);
    random_normals(2, 0, a->key, N_K * D);
    random_normals(3, 0, a->value, N_K * D_V);
    random_normals(4, 0, a->dout, N_Q * D_V);
    for (size_t i = 0; i < N_Q; i++)
        for (size_t j = 0; j < N_K && i % 6 != 2; j++)
            if (random_below(&random, 3) == 0)
                a->runs.lists[i][a->runs.counts[i]++] = (uint32_t)j;
    a->runs.counts[0] = a->runs.counts[10] = 0; /* these meet no key */
    return a;
}

static struct problem problem_of(const struct arrays *a, struct pool *pool)
{
    return (struct problem){.kernels = kernels_all()[0],
                            .pool = pool,
                            .shape = {.num_queries = N_Q,
                                      .num_keys = N_K,
                                      .head_dim = D,
                                      .value_dim = D_V,
                                      .workers = pool == NULL ? 1 : (size_t)pool_threads(pool)},
                            .query = view_of(a->query, N_Q, D),
                            .key = view_of(a->key, N_K, D),
                            .value = view_of(a->value, N_K, D_V)};
}

static struct double_attention attention_of(const struct arrays *a)
{
    return (struct double_attention){.most = N_Q + N_K, .run = run, .argument = &a->runs};
}

static void run_both(struct arrays *a, struct pool *pool, float start)
{
    struct problem problem = problem_of(a, pool);
    struct double_attention attention = attention_of(a);
    size_t floats = double_attention_size(&problem.shape) / sizeof(float);
    float *scratch = guard_floats(floats);
    memset(scratch, 0xff, floats * sizeof *scratch);
    memset(a->out, 0xff, sizeof a->out);
    double_forward(&problem, &attention, view_of(a->out, N_Q, D_V), scratch);
    memset(scratch, 0xff, floats * sizeof *scratch);
    for (size_t i = 0; i < N_Q * D; i++)
        a->dquery[i] = start;
    for (size_t i = 0; i < N_K * D; i++)
        a->dkey[i] = start;
    for (size_t i = 0; i < N_K * D_V; i++)
        a->dvalue[i] = start;
    double_backward(&problem, &attention, view_of(a->dout, N_Q, D_V),
                    &(struct problem_gradients){.query = view_of(a->dquery, N_Q, D),
                                                .key = view_of(a->dkey, N_K, D),
                                                .value = view_of(a->dvalue, N_K, D_V)},
                    scratch);
    guard_free(scratch, floats);
}

static void take(double *to, const float *from, size_t count)
{
    for (size_t i = 0; i < count; i++)
        to[i] = (double)from[i];
}

/* Sums of gradients are rounded to float after every pair; their terms are at most 10 in size. */
static void check_array(const float *got, const double *want, size_t count, double start, const char *what)
{
    for (size_t i = 0; i < count; i++)
        check_near((double)got[i], start + want[i], 2 * N_Q * FLT_EPSILON * 4, what);
}

static void pairs_are_the_definition(void **state)
{
    (void)state;
    struct arrays *a = arrays_new();
    struct oracle_softmax o = oracle_softmax_new(N_Q, N_K, D, D_V);
    o.times = calloc(N_Q * N_K, sizeof(double));
    for (size_t i = 0; i < N_Q; i++) {
        struct key_run some;
        for (size_t number = 0; run(&a->runs, i, number, &some); number++)
            for (size_t k = 0; k < some.count; k++)
                o.times[i * N_K + (some.list == NULL ? some.first + k : some.list[k])] += 1;
    }
    take(o.query, a->query, N_Q * D);
    take(o.key, a->key, N_K * D);
    take(o.value, a->value, N_K * D_V);
    take(o.dout, a->dout, N_Q * D_V);
    oracle_softmax_run(&o);
    struct host host;
    host_init(&host);
    for (int threads = 0; threads < 4; threads += 3) {
        struct pool *pool = NULL;
        if (threads > 0)
            check_status(&host, pool_new(&host, threads, &pool), HASHATTN_OK, NULL);
        run_both(a, pool, 0.25f);
        check_array(a->out, o.out, N_Q * D_V, 0, "out");
        check_array(a->dquery, o.dquery, N_Q * D, 0.25, "dquery");
        check_array(a->dkey, o.dkey, N_K * D, 0.25, "dkey");
        check_array(a->dvalue, o.dvalue, N_K * D_V, 0.25, "dvalue");
        for (size_t c = 0; c < D_V; c++)
            assert_true(a->out[c] == 0 && a->out[10 * D_V + c] == 0);
        pool_free(&host, pool);
    }
    oracle_softmax_free(&o);
    free(a);
}

static void scale(float *x, size_t count, int exponent)
{
    for (size_t i = 0; i < count; i++)
        x[i] = ldexpf(x[i], exponent);
}

static void check_scaled(const float *got, const float *plain, size_t count, int exponent, const char *what)
{
    for (size_t i = 0; i < count; i++)
        check_near(ldexp((double)got[i], -exponent), (double)plain[i], 2 * N_Q * FLT_EPSILON * 4, what);
}

/* Scaling inputs by powers of two only scales the outputs by powers of two. */
static void large_numbers_are_as_good_as_small_ones(void **state)
{
    (void)state;
    struct arrays *plain = arrays_new(), *large = arrays_new();
    run_both(plain, NULL, 0);
    scale(large->query, N_Q * D, 124);
    scale(large->key, N_K * D, -124);
    scale(large->value, N_K * D_V, 120);
    scale(large->dout, N_Q * D_V, -118);
    run_both(large, NULL, 0);
    check_scaled(large->out, plain->out, N_Q * D_V, 120, "out");
    check_scaled(large->dquery, plain->dquery, N_Q * D, 2 - 124, "dquery");
    check_scaled(large->dkey, plain->dkey, N_K * D, 2 + 124, "dkey");
    check_scaled(large->dvalue, plain->dvalue, N_K * D_V, -118, "dvalue");
    free(plain);
    free(large);
}

/* Every number is 3e38 in size: means of values stay in their range, gradients are clamped to the largest
   float. */
static void nothing_becomes_infinite(void **state)
{
    (void)state;
    struct arrays *a = arrays_new();
    float *arrays[] = {a->query, a->key, a->value, a->dout, a->out, a->dquery, a->dkey, a->dvalue};
    size_t counts[] = {N_Q * D, N_K * D, N_K * D_V, N_Q * D_V, N_Q * D_V, N_Q * D, N_K * D, N_K * D_V},
           most = 0;
    for (size_t k = 0; k < 4; k++)
        for (size_t i = 0; i < counts[k]; i++)
            arrays[k][i] = copysignf(FLT_MAX, arrays[k][i]);
    run_both(a, NULL, 3e38f);
    for (size_t k = 4; k < 8; k++)
        for (size_t i = 0; i < counts[k]; i++) {
            assert_true(isfinite(arrays[k][i]));
            most += fabsf(arrays[k][i]) == DOUBLE_MOST;
        }
    assert_true(most > 0);
    assert_true(isnan(double_bounded((double)NAN)) && double_bounded(1e39) == DOUBLE_MOST &&
                double_bounded(-1e300) == -DOUBLE_MOST && double_bounded(0.5) == 0.5f);
    free(a);
}

static bool is_needed(struct arrays *a, bool norm, bool backward)
{
    struct problem problem = problem_of(a, NULL);
    struct double_attention attention = attention_of(a);
    struct view dout = view_of(a->dout, N_Q, D_V);
    attention.norm = norm;
    return double_is_needed(&problem, &attention, backward ? &dout : NULL);
}

static void it_is_needed_where_float32_overflows(void **state)
{
    (void)state;
    struct arrays *a = arrays_new();
    assert_false(is_needed(a, false, false));
    assert_false(is_needed(a, false, true));
    scale(a->dout, N_Q * D_V, 115);
    assert_false(is_needed(a, false, false));
    assert_true(is_needed(a, false, true));
    scale(a->dout, N_Q * D_V, -115);
    float before = a->key[N_K * D - 1];
    a->key[N_K * D - 1] = 1e30f; /* one number is enough */
    assert_true(is_needed(a, false, false));
    assert_false(is_needed(a, true, false)); /* normalized rows are never long */
    a->key[N_K * D - 1] = before;
    a->value[3] = 1e30f;
    assert_true(is_needed(a, true, false));
    a->value[3] = INFINITY; /* double would not help */
    assert_false(is_needed(a, false, false));
    a->value[3] = NAN;
    assert_false(is_needed(a, false, true));
    free(a);
}

/* ---- relative terms ------------------------------------------------------------------------------------ */

static bool all_keys(const void *argument, size_t query, size_t number, struct key_run *to)
{
    (void)query;
    *to = (struct key_run){.count = *(const size_t *)argument, .step = 1};
    return number == 0;
}

/* The sum of dout out, for finite differences. */
static double loss_of(const struct problem *problem, const struct double_attention *attention,
                      const float *dout, void *scratch)
{
    float out[N_K * D_V];
    double sum = 0;
    double_forward(problem, attention, view_of(out, N_Q, D_V), scratch);
    for (size_t i = 0; i < problem->shape.num_queries * D_V; i++)
        sum += (double)out[i] * (double)dout[i];
    return sum;
}

static double wave(size_t k, double distance)
{
    double angle = distance * pow(10000, -(double)(k / 2 * 2) / RELATIVE_WIDTH);
    return k % 2 == 0 ? sin(angle) : cos(angle);
}

/* out by the formula, and gradients of all learned parameters by finite differences of out. */
static void terms_are_the_definition(void **state)
{
    (void)state;
    enum { N = 11, PARAMS = (RELATIVE_WIDTH + 2) * D };
    for (size_t ring = 0; ring <= N; ring += N) {
        struct arrays *a = arrays_new();
        float params[PARAMS], dparams[PARAMS] = {0};
        random_normals(7, 0, params, PARAMS);
        for (size_t i = 0; i < PARAMS; i++)
            params[i] *= 0.3f;
        struct arena arena = arena_on(NULL);
        size_t most = ring > 0 ? N / 2 : N - 1, count = ring > 0 ? N : 2 * N - 1, n = N;
        relative_terms_take(&arena, D, most, count);
        void *block = aligned_alloc(64, (arena.used + 63) / 64 * 64),
             *scratch = aligned_alloc(64, (double_attention_size(&(struct problem_shape){
                                               .head_dim = D, .value_dim = D_V, .workers = 1}) +
                                           63) /
                                              64 * 64);
        arena = arena_on(block);
        struct relative_terms terms = relative_terms_take(&arena, D, most, count);
        terms.weight = params;
        terms.content_bias = params + RELATIVE_WIDTH * D;
        terms.position_bias = terms.content_bias + D;
        terms.ring = ring;
        relative_terms_make(&terms, kernels_all()[0]);
        struct problem problem = problem_of(a, NULL);
        struct double_attention attention = attention_of(a);
        problem.shape.num_queries = problem.shape.num_keys = N;
        attention.run = all_keys;
        attention.argument = &n;
        attention.terms = &terms;
        double_forward(&problem, &attention, view_of(a->out, N_Q, D_V), scratch);
        for (size_t i = 0; i < N; i++) {
            double sum = 0, want[D_V] = {0};
            for (size_t j = 0; j < N; j++) {
                double score = 0, distance = (double)i - (double)j;
                if (ring > 0)
                    distance -= distance > N / 2 ? N : distance < -(N / 2) ? -N : 0; /* N is odd: no tie */
                for (size_t c = 0; c < D; c++) {
                    double q = (double)a->query[i * D + c];
                    score += (q + (double)terms.content_bias[c]) * (double)a->key[j * D + c];
                    for (size_t k = 0; k < RELATIVE_WIDTH; k++)
                        score += (q + (double)terms.position_bias[c]) * wave(k, distance) *
                                 (double)params[k * D + c];
                }
                double weight = exp(score / sqrt(D));
                sum += weight;
                for (size_t c = 0; c < D_V; c++)
                    want[c] += weight * (double)a->value[j * D_V + c];
            }
            for (size_t c = 0; c < D_V; c++)
                check_near((double)a->out[i * D_V + c], want[c] / sum, 1e-5, "out");
        }
        terms.dweight = dparams;
        terms.dcontent_bias = dparams + RELATIVE_WIDTH * D;
        terms.dposition_bias = terms.dcontent_bias + D;
        double_backward(&problem, &attention, view_of(a->dout, N_Q, D_V),
                        &(struct problem_gradients){.query = view_of(a->dquery, N_Q, D),
                                                    .key = view_of(a->dkey, N_K, D),
                                                    .value = view_of(a->dvalue, N_K, D_V)},
                        scratch);
        float *inputs[] = {params, a->query, a->key}, *gradients[] = {dparams, a->dquery, a->dkey};
        size_t counts[] = {PARAMS, N * D, N * D};
        for (size_t k = 0; k < 3; k++)
            for (size_t i = 0; i < counts[k]; i++) {
                float before = inputs[k][i];
                inputs[k][i] = before + 0x1p-7f;
                double want = loss_of(&problem, &attention, a->dout, scratch), step = (double)inputs[k][i];
                inputs[k][i] = before - 0x1p-7f;
                want -= loss_of(&problem, &attention, a->dout, scratch);
                step -= (double)inputs[k][i];
                inputs[k][i] = before;
                /* out is a sum of 55 numbers of about 1, rounded to 2^-24; the third derivative is below
                   30. */
                check_near((double)gradients[k][i], want / step, 55 * 0x1p-24 * 4 / step + 30 * 0x1p-14 / 6,
                           "gradient");
            }
        terms.dweight = terms.dcontent_bias = terms.dposition_bias = NULL; /* not written */
        double_backward(&problem, &attention, view_of(a->dout, N_Q, D_V),
                        &(struct problem_gradients){.query = view_of(a->dquery, N_Q, D),
                                                    .key = view_of(a->dkey, N_K, D),
                                                    .value = view_of(a->dvalue, N_K, D_V)},
                        scratch);
        params[0] = 1e30f;
        assert_true(double_is_needed(&problem, &attention, NULL));
        free(block);
        free(scratch);
        free(a);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(pairs_are_the_definition), cmocka_unit_test(large_numbers_are_as_good_as_small_ones),
        cmocka_unit_test(nothing_becomes_infinite), cmocka_unit_test(it_is_needed_where_float32_overflows),
        cmocka_unit_test(terms_are_the_definition),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
