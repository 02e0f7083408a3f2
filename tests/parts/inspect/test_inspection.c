/* The three memberships of a head against double precision: scores by their formulas, members by counting
   (oracle_groups.h), shares of pairs by plain loops; plain, joint, and causal with both memberships, rows
   normalized or not, on every table, one thread and three. Bugs planted and caught: F and G with the
   remaining coordinate at the same place; M of the queries only; R twice instead of R and -R; arrays
   written while only their size is requested.
   Covers: inspection.c lsh_hash.c
   SPDX-License-Identifier: Apache-2.0 */
#include "parts/inspect/inspection.h"

#include <float.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/random.h"
#include "oracle/oracle_groups.h"
#include "support/check.h"

enum { MOST = 150, D = 10, LD = 13, MOST_GROUPS = 9 };

/* Shares of attention: 2 (D + 2) roundings of scores whose terms add up to at most 40, over sqrt(D). */
#define BOUND (2 * (D + 2) * 40 / 3.1 * 0.5 * (double)FLT_EPSILON)

struct variant {
    size_t n_q, n_k, groups;
    bool joint, causal, by_token, norm;
};

static float rows[2][MOST * LD], own[2][MOST * MOST_GROUPS];

static void score(const void *argument, enum group_side side, size_t first, size_t count, float *z,
                  int worker)
{
    (void)worker;
    const struct variant *v = argument;
    memcpy(z, own[side] + first * v->groups, count * v->groups * sizeof *z);
}

/* z = x [R; -R] / sqrt(d) of rows (n, d). */
static void hash(double *z, const double *x, size_t n, size_t d, size_t groups, uint64_t key, bool add)
{
    size_t half = (groups + 1) / 2;
    float *r = malloc(d * half * sizeof *r);
    random_normals(random_key(key, RANDOM_GROUPS, 0), 0, r, d * half);
    for (size_t i = 0; i < n; i++)
        for (size_t b = 0; b < groups; b++) {
            double sum = 0;
            for (size_t c = 0; c < d; c++)
                sum += x[i * d + c] * (double)r[c * half + b % half];
            sum = (b < half ? 1 : -1) * sum / sqrt((double)d);
            z[i * groups + b] = add ? z[i * groups + b] + sum : sum;
        }
    free(r);
}

static double length2(const double *x)
{
    double sum = 0;
    for (size_t c = 0; c < D; c++)
        sum += x[c] * x[c];
    return sum;
}

/* Rows (n, D + 2), mapped as F or as G. */
static double *asymmetric(const double *x, size_t n, double square, bool key)
{
    double *to = calloc(n * (D + 2), sizeof *to);
    for (size_t i = 0; i < n; i++) {
        memcpy(to + i * (D + 2), x + i * D, D * sizeof *to);
        to[i * (D + 2) + D + !key] = sqrt(fmax(square - length2(x + i * D), 0));
    }
    return to;
}

static void fill_scores(struct oracle_groups *o, enum inspected which, uint64_t chance)
{
    uint64_t key = random_key(chance, RANDOM_INSPECTION, which);
    if (which == INSPECTED_OWN) {
        for (size_t i = 0; i < o->n_q * o->groups; i++)
            o->z_query[i] = (double)own[0][i];
        for (size_t i = 0; i < o->n_k * o->groups; i++)
            o->z_key[i] = (double)own[1][i];
        return;
    }
    double *query = o->query, *keys = o->key, most[2] = {0};
    size_t d = D;
    if (which == INSPECTED_SMYRF) { /* of the rows that attend, left by a previous run */
        for (size_t i = 0; i < o->n_q; i++)
            most[0] = fmax(most[0], length2(o->softmax.query + i * D));
        for (size_t i = 0; i < o->n_k; i++)
            most[1] = fmax(most[1], length2(o->softmax.key + i * D));
        query = asymmetric(o->softmax.query, o->n_q, most[0] + most[1], false);
        keys = asymmetric(o->softmax.key, o->n_k, most[0] + most[1], true);
        d += 2;
    }
    hash(o->z_query, query, o->n_q, d, o->groups, key, false);
    hash(o->joint ? o->z_query : o->z_key, keys, o->n_k, d, o->groups, key, o->joint);
    if (which == INSPECTED_SMYRF) {
        free(query);
        free(keys);
    }
}

static int falling(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x < y) - (x > y);
}

static void check_shares(const struct oracle_groups *o, const struct inspected_membership *got)
{
    double *a = calloc(o->n_q * o->n_k, sizeof *a), utility = 0, bound = 0;
    size_t met = 0, all = 0, most = 0;
    for (size_t i = 0; i < o->n_q; i++) {
        size_t seen = o->causal ? i + 1 : o->n_k;
        double sum = 0;
        for (size_t j = 0; j < seen; j++) {
            double dot = 0;
            for (size_t c = 0; c < D; c++)
                dot += o->softmax.query[i * D + c] * o->softmax.key[j * D + c];
            sum += a[i * o->n_k + j] = exp(dot / sqrt(D));
        }
        for (size_t j = 0; j < seen; j++) {
            bool meets = o->softmax.times[i * o->n_k + j] > 0;
            met += meets;
            utility += meets ? a[i * o->n_k + j] / sum / (double)o->n_q : 0;
            a[i * o->n_k + j] /= sum;
        }
        all += seen;
    }
    for (size_t pairs = 0; pairs < met; most++)
        for (size_t i = 0; i < o->n_q; i++)
            pairs += most < (o->causal ? i + 1 : o->n_k);
    for (size_t i = 0; i < o->n_q; i++) {
        size_t seen = o->causal ? i + 1 : o->n_k;
        qsort(a + i * o->n_k, seen, sizeof *a, falling);
        for (size_t k = 0; k < seen && k < most; k++)
            bound += a[i * o->n_k + k] / (double)o->n_q;
    }
    check_near(got->utility, utility, BOUND, "utility");
    check_near(got->bound, bound, BOUND, "bound");
    check_near(got->pairs, (double)met / (double)all, 1e-12, "pairs");
    free(a);
}

static void check_counts(const struct oracle_groups *o, const double *z, size_t n, const size_t *in,
                         const uint32_t *best)
{
    size_t want_in[IN_GROUPS] = {0}, want_best[MOST_GROUPS] = {0};
    bool *member = oracle_members(o, z, n);
    for (size_t i = 0; i < n; i++) {
        size_t groups = 0, most = 0;
        for (size_t b = 0; b < o->groups; b++) {
            groups += member[i * o->groups + b];
            most = z[i * o->groups + b] > z[i * o->groups + most] ? b : most;
        }
        want_in[groups < IN_GROUPS ? groups : IN_GROUPS - 1]++;
        want_best[most]++;
    }
    free(member);
    for (size_t c = 0; c < IN_GROUPS; c++)
        assert_int_equal(in[c], want_in[c]);
    for (size_t b = 0; b < o->groups; b++)
        assert_int_equal(best[b], want_best[b]);
}

static void check(const struct kernels *kernels, struct pool *pool, const struct variant *v)
{
    const uint64_t chance = 77;
    static float out[MOST * LD];
    struct oracle_groups o = oracle_groups_new(v->n_q, v->n_k, D, D, v->groups, 1);
    for (size_t a = 0; a < 2; a++) {
        random_normals(a + 1, 0, rows[a], MOST * LD);
        random_normals(a + 11, 0, own[a], MOST * MOST_GROUPS);
        for (size_t i = 0; i < (a == 0 ? v->n_q : v->n_k) * D; i++)
            (a == 0 ? o.query : o.key)[i] = (double)rows[a][i / D * LD + i % D];
    }
    o.joint = v->joint;
    o.causal = v->causal;
    o.by_token = v->by_token;
    o.norm = v->norm;
    struct problem problem = {.kernels = kernels,
                              .shape = {.num_queries = v->n_q,
                                        .num_keys = v->n_k,
                                        .head_dim = D,
                                        .value_dim = D,
                                        .causal = v->causal,
                                        .workers = (size_t)pool_threads(pool)},
                              .query = {rows[0], v->n_q, D, LD, DTYPE_FLOAT32},
                              .key = {rows[1], v->n_k, D, LD, DTYPE_FLOAT32},
                              .value = {rows[1], v->n_k, D, LD, DTYPE_FLOAT32},
                              .random_key = chance,
                              .pool = pool};
    const struct grouped b = {.capacity = {v->groups, 1.4142135623730951, false},
                              .rounds = 1,
                              .joint = v->joint,
                              .by_token = v->by_token,
                              .norm = v->norm,
                              .score = score,
                              .scorer = v};
    size_t saved = grouped_saved_on(&problem.shape, &b, NULL).bytes / 4,
           scratch = grouped_scratch_size(&problem.shape, &b) / 4,
           more = inspection_size(&problem.shape, &b) / 4;
    float *behind = guard_floats(more);
    problem.saved = guard_floats(saved);
    problem.scratch = guard_floats(scratch);
    grouped_forward(&problem, &b, (struct view){out, v->n_q, D, LD, DTYPE_FLOAT32});
    memset(problem.scratch, 0xff, 4 * scratch);
    memset(behind, 0xff, 4 * more);
    unsigned char arrays[NUM_INSPECTED * 2 * 64];
    struct arena arena = arena_on(NULL);
    struct inspection inspection;
    inspection_take(NULL, &arena, v->groups); /* as the size function calls it: nothing is written */
    size_t wanted = arena.used;
    arena = arena_on(arrays);
    inspection_take(&inspection, &arena, v->groups);
    assert_int_equal(arena.used, wanted);
    assert_true(arena.used <= sizeof arrays);
    inspection_of(&problem, &b, &inspection, behind);
    oracle_groups_run(&o); /* normalizes the rows, as smyrf requires */
    for (enum inspected p = 0; p < NUM_INSPECTED; p++) {
        const struct inspected_membership *got = &inspection.memberships[p];
        fill_scores(&o, p, chance);
        oracle_groups_run(&o);
        check_shares(&o, got);
        check_counts(&o, o.z_query, o.n_q, got->queries_in, got->best_queries);
        check_counts(&o, o.joint ? o.z_query : o.z_key, o.n_k, got->keys_in, got->best_keys);
    }
    inspection_clear(&inspection, v->groups);
    assert_true(inspection.memberships[2].utility == 0 && inspection.memberships[1].best_keys[0] == 0 &&
                inspection.memberships[0].queries_in[1] == 0);
    guard_free(problem.saved, saved);
    guard_free(problem.scratch, scratch);
    guard_free(behind, more);
    oracle_groups_free(&o);
}

static void memberships_are_those_of_their_formulas(void **state)
{
    (void)state;
    static const struct variant variants[] = {
        {.n_q = 130, .n_k = 149, .groups = 7, .norm = true},
        {.n_q = 70, .n_k = 40, .groups = 8},
        {.n_q = 90, .n_k = 90, .groups = 4, .joint = true},
        {.n_q = 101, .n_k = 101, .groups = 6, .joint = true, .causal = true, .norm = true},
        {.n_q = 101, .n_k = 101, .groups = 5, .joint = true, .causal = true, .by_token = true},
        {.n_q = 1, .n_k = 1, .groups = 3, .norm = true},
        {.n_q = 3, .n_k = 2, .groups = 9},
    };
    for (int t = 0; t < 2; t++) {
        struct host host;
        struct pool *pool;
        host_init(&host);
        check_status(&host, pool_new(&host, t == 0 ? 1 : 3, &pool), HASHATTN_OK, NULL);
        for (const struct kernels *const *kernels = kernels_all(); *kernels != NULL; kernels++)
            for (size_t i = 0; i < sizeof variants / sizeof variants[0]; i++)
                check(*kernels, pool, &variants[i]);
        pool_free(&host, pool);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(memberships_are_those_of_their_formulas)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
