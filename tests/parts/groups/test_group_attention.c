/* Attention inside given lists against double precision with the same multiplicity: groups of all sizes,
   empty ones, groups longer than blocks and tiles, tokens in no group, one or several; both precisions,
   five masks, one thread and three. Bugs planted and caught: a place merged with the wrong maximum; the
   second block's queries read from the first; a window that is too long; the first tile of a window left
   out; dquery of the last tile only; places read in their own order; delta of the place, not of the token;
   all threads in the memory of the first; in double, the keys of a group from its first on, whatever the
   mask, and a group's queries from the first group; keys of the first tile compared in every tile; a token
   that is alone without its value, or its value without the gradient; in double, its own key met always;
   places of queries in a group without keys, or of keys in one without queries, not cleared; gradients of
   keys that begin with the first block, whatever the mask, or with every block, or add to what was there.
   Covers: group_attention_double.c, group_attention_rows.c.
   SPDX-License-Identifier: Apache-2.0 */
#include "parts/groups/group_attention.h"

#include <float.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/random.h"
#include "oracle/oracle_softmax.h"
#include "support/check.h"

enum { N_Q = 330, N_K = 301, D = 19, D_V = 33, GROUPS = 5, MOST = GROUPS * N_Q };

struct lists {
    uint32_t start[GROUPS + 1], list[MOST];
    struct members members;
    size_t longest;
};

/* Each token is in group b with a probability of the group's own; group 2 is empty, group 3 has nearly all
   tokens, and with key 2 (keys with other lists than the queries) group 4 is empty and group 2 is not. */
static void fill_lists(struct lists *lists, size_t n, uint64_t key, bool one_each)
{
    const float shares[GROUPS] = {0.2f, 0.5f, key == 2 ? 0.1f : 0, 0.95f, key == 2 ? 0 : 0.02f};
    size_t count = 0;
    struct random random = random_open(key);
    uint32_t owner[N_Q];
    for (size_t i = 0; i < n; i++)
        owner[i] = random_below(&random, 10) < 8 ? 3 : 1;
    lists->longest = 0;
    for (size_t b = 0; b < GROUPS; b++) {
        lists->start[b] = (uint32_t)count;
        for (size_t i = 0; i < n; i++)
            if (one_each ? owner[i] == b : random_unit(&random) < shares[b])
                lists->list[count++] = (uint32_t)i;
        size_t length = count - lists->start[b];
        lists->longest = length > lists->longest ? length : lists->longest;
    }
    lists->start[GROUPS] = (uint32_t)count;
    lists->members = (struct members){GROUPS, lists->start, lists->list};
}

static const struct capacity window = {4, 1.4142135623730951, true};

/* query, key: places in their lists of the group. */
static bool meets(enum group_sight sight, const struct lists *lists, const struct lists *keys, size_t group,
                  size_t query, size_t key)
{
    if (sight == SIGHT_ALL)
        return true;
    uint32_t own = lists->list[lists->start[group] + query], other = keys->list[keys->start[group] + key];
    if (sight == SIGHT_OTHERS)
        return own != other;
    if (sight == SIGHT_EARLIER)
        return other < own;
    size_t i = lists->list[lists->start[group] + query], share = ((i + 1) + 3) / 4;
    size_t most = (size_t)floor(1.4142135623730951 * (double)share);
    return key <= query && (sight == SIGHT_PAST || query - key < (most < i + 1 ? most : i + 1));
}

static void fill_times(struct oracle_softmax *o, enum group_sight sight, const struct lists *queries,
                       const struct lists *keys)
{
    o->times = calloc(o->n_q * o->n_k, sizeof(double));
    for (size_t b = 0; b < GROUPS; b++)
        for (size_t p = 0; p < members_of(&queries->members, b); p++)
            for (size_t k = 0; k < members_of(&keys->members, b); k++)
                if (meets(sight, queries, keys, b, p, k))
                    o->times[queries->list[queries->start[b] + p] * o->n_k +
                             keys->list[keys->start[b] + k]] += 1;
    for (size_t i = 0; i < o->n_q && (sight == SIGHT_OTHERS || sight == SIGHT_EARLIER); i++) {
        double met = 0;
        for (size_t j = 0; j < o->n_k; j++)
            met += o->times[i * o->n_k + j];
        if (met == 0)
            o->times[i * o->n_k + i] = 1;
    }
}

static void fill(float *x, double *exact, uint64_t key, size_t n, size_t width, size_t ld, bool half,
                 const struct kernels *kernels)
{
    bf16 rounded;
    random_normals(key, 0, x, n * ld);
    for (size_t i = 0; i < n * ld && half; i++) { /* exact in both precisions */
        kernels->bf16.round(&rounded, 1, x + i, 1, 1, 1);
        kernels->bf16.widen(x + i, 1, &rounded, 1, 1, 1);
    }
    for (size_t i = 0; i < n; i++)
        for (size_t c = 0; c < width; c++)
            exact[i * width + c] = (double)x[i * ld + c];
}

static void check_rows(const float *got, size_t ld, const double *want, const double *bound, size_t n,
                       size_t width, double start, const char *what)
{
    for (size_t i = 0; i < n; i++)
        for (size_t c = 0; c < width; c++)
            check_near((double)got[i * ld + c], start + want[i * width + c],
                       bound[i * width + c] + 8 * FLT_EPSILON * (start + fabs(want[i * width + c])), what);
}

/* x (n, ld) times 2^exponent. */
static void scale(float *x, size_t n, size_t ld, int exponent)
{
    for (size_t i = 0; i < n * ld; i++)
        x[i] = ldexpf(x[i], exponent);
}

/* Queries are 2^exponent times as large and keys smaller by the same factor, which changes only their
   gradients; float32 may then overflow. */
static void check(const struct kernels *kernels, struct pool *pool, enum precision precision,
                  enum group_sight sight, int exponent)
{
    enum { LD = 40 };
    bool half = precision == PRECISION_BF16, same = sight != SIGHT_ALL,
         same_lists = sight == SIGHT_PAST || sight == SIGHT_WINDOW;
    size_t n_k = same ? N_Q : N_K;
    static float query[N_Q * LD], key[N_Q * LD], value[N_Q * LD], dout[N_Q * LD], out[N_Q * LD], max[N_Q],
        log_sum[N_Q], dquery[N_Q * LD], dkey[N_Q * LD], dvalue[N_Q * LD];
    static struct lists queries, keys;
    struct oracle_softmax o = oracle_softmax_new(N_Q, n_k, D, D_V);
    o.rounding = half ? ldexp(1, -8) : 0;
    fill_lists(&queries, N_Q, 1, sight == SIGHT_WINDOW);
    fill_lists(&keys, n_k, same_lists ? 1 : 2, sight == SIGHT_WINDOW);
    fill_times(&o, sight, &queries, &keys);
    fill(query, o.query, 3, N_Q, D, LD, half, kernels);
    fill(key, o.key, 4, n_k, D, LD, half, kernels);
    fill(value, o.value, 5, n_k, D_V, LD, half, kernels);
    fill(dout, o.dout, 6, N_Q, D_V, LD, half, kernels);
    oracle_softmax_run(&o);
    scale(query, N_Q, LD, exponent);
    scale(key, n_k, LD, -exponent);
    float start = exponent == 0 ? 0.5f : 0;
    const struct problem problem = {
        .kernels = kernels,
        .shape = {.num_queries = N_Q,
                  .num_keys = n_k,
                  .head_dim = D,
                  .value_dim = D_V,
                  .precision = precision,
                  .workers = (size_t)pool_threads(pool)},
        .query = {query, N_Q, D, LD, DTYPE_FLOAT32},
        .key = {key, n_k, D, LD, DTYPE_FLOAT32},
        .value = {value, n_k, D_V, LD, DTYPE_FLOAT32},
        .pool = pool,
        .large = exponent != 0,
    };
    const struct group_lists a = {
        .sizes = {.query_places = queries.start[GROUPS],
                  .key_places = keys.start[GROUPS],
                  .longest_key = keys.longest},
        .sight = sight,
        .window = window,
        .queries = queries.members,
        .keys = keys.members,
        .rows = {max, log_sum},
    };
    size_t forward = group_forward_size(&problem.shape, &a.sizes) / 4,
           backward = group_backward_size(&problem.shape, &a.sizes) / 4;
    float *scratch = guard_floats(forward);
    memset(scratch, 0xff, 4 * forward);
    const struct view result = {out, N_Q, D_V, LD, DTYPE_FLOAT32},
                      given = {dout, N_Q, D_V, LD, DTYPE_FLOAT32};
    group_forward(&problem, &a, result, scratch);
    guard_free(scratch, forward);
    for (size_t i = 0; i < N_Q * LD; i++)
        dquery[i] = dkey[i] = dvalue[i] = start;
    scratch = guard_floats(backward);
    memset(scratch, 0xff, 4 * backward);
    group_backward(&problem, &a, result, given,
                   &(struct problem_gradients){.query = {dquery, N_Q, D, LD, DTYPE_FLOAT32},
                                               .key = {dkey, n_k, D, LD, DTYPE_FLOAT32},
                                               .value = {dvalue, n_k, D_V, LD, DTYPE_FLOAT32}},
                   scratch);
    guard_free(scratch, backward);
    assert_int_equal(softmax_rows_in_double(&a.rows), exponent != 0);
    scale(dquery, N_Q, LD, exponent);
    scale(dkey, n_k, LD, -exponent);
    check_rows(out, LD, o.out, o.out_bound, N_Q, D_V, 0, "out");
    check_rows(dquery, LD, o.dquery, o.dquery_bound, N_Q, D, (double)start, "dquery");
    check_rows(dkey, LD, o.dkey, o.dkey_bound, n_k, D, (double)start, "dkey");
    check_rows(dvalue, LD, o.dvalue, o.dvalue_bound, n_k, D_V, (double)start, "dvalue");
    oracle_softmax_free(&o);
}

static void groups_are_one_softmax_with_multiplicity(void **state)
{
    (void)state;
    struct host host;
    struct pool *pool;
    host_init(&host);
    check_status(&host, pool_new(&host, 3, &pool), HASHATTN_OK, NULL);
    for (const struct kernels *const *kernels = kernels_all(); *kernels != NULL; kernels++)
        for (int sight = SIGHT_ALL; sight <= SIGHT_EARLIER; sight++) {
            check(*kernels, NULL, PRECISION_FLOAT32, (enum group_sight)sight, 0);
            check(*kernels, pool, PRECISION_FLOAT32, (enum group_sight)sight, 0);
            check(*kernels, pool, PRECISION_BF16, (enum group_sight)sight, 0);
            check(*kernels, pool, PRECISION_FLOAT32, (enum group_sight)sight, 122);
        }
    pool_free(&host, pool);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(groups_are_one_softmax_with_multiplicity)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
