/* Attention over stretches of keys that end anywhere, against double precision, on every instruction set:
   short stretches, computed in groups of keys, and long ones, computed in a grid. Bugs planted and caught:
   a maximum that begins infinite; a tile read from one key too late; keys before a stretch not hidden;
   values of a partial tile read from the tile's start; dQ begun again at each tile; sums of dK and dV not
   begun at zero; the result of a block begun in the first tile of all; queries without keys after the rest
   left unchanged; groups run in parallel although the span is too small; the output of queries amid the
   others that see nothing not written, their sum 0 inverted; the bias read from the start of a tile, or its
   gradient not multiplied by sqrt(d).
   Covers: tile_attention_forward.c, tile_attention_backward.c.
   SPDX-License-Identifier: Apache-2.0 */
#include "parts/tiles/tile_attention.h"

#include <float.h>
#include <math.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "base/random.h"
#include "oracle/oracle_softmax.h"
#include "support/check.h"

/* Stretches whose ends never decrease: steps of up to `most` from query to query, at most `length` keys; none
   for the first and last few queries, one query in 50, and more than a block of queries in a row. */
static struct sight *stretches(uint64_t seed, size_t n_q, size_t n_k, size_t most, size_t length)
{
    struct random random = random_open(random_key(seed, 1, 0));
    struct sight *sights = malloc(n_q * sizeof *sights), last = {0, 0};
    for (size_t i = 0; i < n_q; i++) {
        last.first += random_below(&random, (uint32_t)most + 1);
        last.end += random_below(&random, (uint32_t)most + 1);
        if (i > 2 && last.end <= last.first)
            last.end = last.first + 1;
        if (last.end > last.first + length)
            last.first = last.end - length;
        if (i + 3 > n_q || last.first >= n_k)
            last.first = last.end = n_k;
        last.end = last.end < n_k ? last.end : n_k;
        if (i >= 400 && i < 600) /* a multiple of 16, so that not even an aligned tile has a key */
            last.end = (sights[i - 1].end + 15) / 16 * 16;
        if (i % 50 == 30 || (i >= 400 && i < 600))
            last.first = last.end;
        sights[i] = i < 2 ? (struct sight){0, 0} : last;
    }
    return sights;
}

/* True if a thread other than the caller asked which keys a query sees. */
static pthread_t caller;
static atomic_bool asked_elsewhere;

static struct sight sight(const void *argument, size_t query)
{
    if (!pthread_equal(pthread_self(), caller))
        asked_elsewhere = true;
    return ((const struct sight *)argument)[query];
}

/* The largest number of keys from the first of a block to the last. */
static size_t widest(const struct sight *sights, size_t n_q)
{
    size_t most = 1;
    for (size_t i = 0; i < n_q; i++) {
        size_t last = i + TILE_ATTENTION_BLOCK < n_q ? i + TILE_ATTENTION_BLOCK : n_q - 1;
        if (sights[last].end > sights[i].first && sights[last].end - sights[i].first > most)
            most = sights[last].end - sights[i].first;
    }
    return most;
}

static float *normals(uint64_t seed, size_t count)
{
    float *x = guard_floats(count);
    random_normals(random_key(seed, 2, 0), 0, x, count);
    return x;
}

static void take(double *to, const float *from, size_t count)
{
    for (size_t i = 0; i < count; i++)
        to[i] = (double)from[i];
}

static void check_array(const float *got, const double *want, const double *bound, size_t count,
                        const char *what)
{
    for (size_t i = 0; i < count; i++)
        check_near((double)got[i], want[i], bound[i] + 2 * FLT_EPSILON * fabs(want[i]), what);
}

struct shape {
    size_t n_q, n_k, d, d_v, block, step, length;
};

enum span { SPAN_NONE, SPAN_WIDEST, SPAN_TOO_SMALL };

/* Adds a bias to the oracle's dot products, where it is multiplied by sqrt(d). */
static void add_bias(struct oracle_softmax *o, const float *bias)
{
    size_t pairs = o->n_q * o->n_k;
    o->extra = malloc(pairs * sizeof *o->extra);
    o->extra_error = malloc(pairs * sizeof *o->extra_error);
    o->dextra = calloc(pairs, sizeof *o->dextra);
    o->dextra_bound = calloc(pairs, sizeof *o->dextra_bound);
    for (size_t i = 0; i < pairs; i++) {
        o->extra[i] = (double)bias[i] * sqrt((double)o->d);
        o->extra_error[i] = 2 * (double)FLT_EPSILON * fabs(o->extra[i]);
    }
}

/* dbias holds 0.5 before the gradients are added. */
static void check_bias(struct oracle_softmax *o, const float *dbias)
{
    double root = sqrt((double)o->d);
    for (size_t i = 0; i < o->n_q * o->n_k; i++)
        check_near((double)dbias[i], 0.5 + root * o->dextra[i],
                   root * (o->dextra_bound[i] + 4 * (double)FLT_EPSILON * fabs(o->dextra[i])) +
                       (double)FLT_EPSILON,
                   "dbias");
}

static void check(const struct shape *shape, uint64_t seed, enum span span, int threads, bool biased)
{
    size_t n_q = shape->n_q, n_k = shape->n_k, d = shape->d, d_v = shape->d_v;
    struct sight *sights = stretches(seed, n_q, n_k, shape->step, shape->length);
    float *query = normals(seed, n_q * d), *key = normals(seed + 1, n_k * d),
          *value = normals(seed + 2, n_k * d_v), *dout = normals(seed + 3, n_q * d_v);
    struct oracle_softmax o = oracle_softmax_new(n_q, n_k, d, d_v);
    o.times = malloc(n_q * n_k * sizeof *o.times);
    for (size_t i = 0; i < n_q; i++)
        for (size_t j = 0; j < n_k; j++)
            o.times[i * n_k + j] = j >= sights[i].first && j < sights[i].end;
    take(o.query, query, n_q * d);
    take(o.key, key, n_k * d);
    take(o.value, value, n_k * d_v);
    take(o.dout, dout, n_q * d_v);
    float *bias = normals(seed + 4, n_q * n_k), *dbias = guard_floats(n_q * n_k);
    if (biased)
        add_bias(&o, bias);
    oracle_softmax_run(&o);
    struct host host;
    struct pool *pool;
    host_init(&host);
    check_status(&host, pool_new(&host, threads, &pool), HASHATTN_OK, NULL);
    for (const struct kernels *const *kernels = kernels_all(); *kernels != NULL; kernels++) {
        float *max = guard_floats(n_q), *log_sum = guard_floats(n_q), *out = guard_floats(n_q * d_v),
              *dquery = guard_floats(n_q * d), *dkey = guard_floats(n_k * d),
              *dvalue = guard_floats(n_k * d_v);
        const struct problem problem = {.kernels = *kernels,
                                        .pool = pool,
                                        .shape = {.num_queries = n_q,
                                                  .num_keys = n_k,
                                                  .head_dim = d,
                                                  .value_dim = d_v,
                                                  .workers = (size_t)threads},
                                        .query = view_of(query, n_q, d),
                                        .key = view_of(key, n_k, d),
                                        .value = view_of(value, n_k, d_v)};
        const struct tile_attention a = {.block = shape->block,
                                         .span = span == SPAN_NONE     ? 0
                                                 : span == SPAN_WIDEST ? widest(sights, n_q)
                                                                       : 1,
                                         .sight = sight,
                                         .argument = sights,
                                         .bias = biased ? bias : NULL,
                                         .dbias = biased ? dbias : NULL,
                                         .ld_bias = n_k,
                                         .rows = {max, log_sum}};
        size_t forward = tile_attention_forward_size(&problem.shape, &a) / sizeof(float),
               backward = tile_attention_backward_size(&problem.shape, &a) / sizeof(float);
        float *scratch = guard_floats(forward);
        memset(scratch, 0xff, forward * sizeof(float));
        memset(out, 0xff, n_q * d_v * sizeof(float));
        tile_attention_forward(&problem, &a, view_of(out, n_q, d_v), scratch);
        guard_free(scratch, forward);
        scratch = guard_floats(backward);
        memset(scratch, 0xff, backward * sizeof(float));
        memset(dquery, 0, n_q * d * sizeof(float));
        memset(dkey, 0, n_k * d * sizeof(float));
        memset(dvalue, 0, n_k * d_v * sizeof(float));
        for (size_t i = 0; i < n_q * n_k; i++)
            dbias[i] = 0.5f;
        caller = pthread_self();
        asked_elsewhere = false;
        tile_attention_backward(&problem, &a, view_of(out, n_q, d_v), view_of(dout, n_q, d_v),
                                &(struct problem_gradients){.query = view_of(dquery, n_q, d),
                                                            .key = view_of(dkey, n_k, d),
                                                            .value = view_of(dvalue, n_k, d_v)},
                                scratch);
        /* Groups run in parallel would add to the same queries. */
        assert_true(span != SPAN_TOO_SMALL || !asked_elsewhere);
        check_array(out, o.out, o.out_bound, n_q * d_v, "out");
        check_array(dquery, o.dquery, o.dquery_bound, n_q * d, "dquery");
        check_array(dkey, o.dkey, o.dkey_bound, n_k * d, "dkey");
        check_array(dvalue, o.dvalue, o.dvalue_bound, n_k * d_v, "dvalue");
        if (biased)
            check_bias(&o, dbias);
        guard_free(scratch, backward);
        guard_free(max, n_q);
        guard_free(log_sum, n_q);
        guard_free(out, n_q * d_v);
        guard_free(dquery, n_q * d);
        guard_free(dkey, n_k * d);
        guard_free(dvalue, n_k * d_v);
    }
    pool_free(&host, pool);
    if (biased) {
        free(o.extra);
        free(o.extra_error);
        free(o.dextra);
        free(o.dextra_bound);
    }
    oracle_softmax_free(&o);
    guard_free(bias, n_q * n_k);
    guard_free(dbias, n_q * n_k);
    guard_free(query, n_q * d);
    guard_free(key, n_k * d);
    guard_free(value, n_k * d_v);
    guard_free(dout, n_q * d_v);
    free(sights);
}

static void stretches_are_the_definition(void **state)
{
    (void)state;
    static const struct shape shapes[] = {
        {5, 5, 1, 1, 96, 1, 2},        {60, 40, 3, 2, 7, 2, 9},       {300, 700, 5, 3, 96, 5, 40},
        {1100, 900, 3, 4, 64, 2, 300}, {700, 1900, 4, 2, 50, 6, 600}, {1000, 1000, 2, 2, 96, 2, 1000},
    };
    for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++)
        for (enum span span = SPAN_NONE; span <= SPAN_TOO_SMALL; span++) {
            check(&shapes[i], 10 * i, span, 1, false);
            check(&shapes[i], 10 * i + 5, span, 3, span == SPAN_NONE);
        }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(stretches_are_the_definition),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
