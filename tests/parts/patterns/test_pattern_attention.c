/* One softmax over a pattern of parts, against double precision, on every instruction set and with one and
   three threads: parts that share queries, strides on both sides, lists with a key twice, ranges that leave
   queries without keys, parts without rows, a query in no part. Bugs planted and caught: the
   earlier result dropped in a merge, its sum ignored, the merged maximum or sum not kept; strides ignored;
   backward reading the numbers of queries next to each other; gradients of listed keys lost, their sums begun
   unzeroed; rows of queries that see nothing not written; in double, a query between two strides taken for
   one of them, the range of a list or the stride of keys ignored; dQ of a block without keys added unwritten.
   SPDX-License-Identifier: Apache-2.0 */
#include "parts/patterns/pattern_attention.h"

#include <float.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/random.h"
#include "oracle/oracle_softmax.h"
#include "support/check.h"

enum { N_Q = 331, N_K = 347, D = 5, D_V = 3, LISTED = 90, PARTS = 7 };

/* Ranges with gaps: every third query, and queries 96 to 205, see nothing. */
static struct sight with_gaps(const void *argument, size_t query)
{
    (void)argument;
    size_t triple = query / 3 * 3;
    if (query < 96)
        return (struct sight){triple + (query % 3 > 0 ? 2 : 0), triple + (query % 3 == 2 ? 3 : 2)};
    if (query < 206)
        return (struct sight){96, 96};
    return (struct sight){query - 110, query - 70};
}

/* As many keys as queries before it. */
static struct sight earlier(const void *argument, size_t query)
{
    (void)argument;
    return (struct sight){0, query};
}

/* Some keys from the query's own number on. */
static struct sight some_later(const void *argument, size_t query)
{
    (void)argument;
    return (struct sight){query, query + 20};
}

static void add_pairs(double *times, const struct pattern_part *part)
{
    for (size_t q = 0; q < part->queries.count; q++)
        for (size_t k = 0; k < part->keys.count; k++) {
            struct sight seen =
                part->sight == NULL ? (struct sight){0, part->keys.count} : part->sight(part->argument, q);
            size_t i = part->queries.first + q * part->queries.step,
                   j = part->list == NULL ? part->keys.first + k * part->keys.step : part->list[k];
            times[i * N_K + j] += k >= seen.first && k < seen.end;
        }
}

static size_t make_parts(struct pattern_part *parts, const uint32_t *list)
{
    size_t count = 0;
    parts[count++] = (struct pattern_part){
        .queries = {0, N_Q - 1, 1}, .keys = {0, N_K, 1}, .sight = with_gaps, .span = 40 + 96};
    parts[count++] = (struct pattern_part){.queries = {1, 40, 3}, .keys = {0, LISTED, 1}, .list = list};
    parts[count++] =
        (struct pattern_part){.queries = {5, 30, 7}, .keys = {2, 30, 5}, .sight = earlier, .span = 30};
    parts[count++] = (struct pattern_part){.queries = {3, 20, 1}, .keys = {0, 0, 1}};
    parts[count++] = (struct pattern_part){.queries = {100, 0, 1}, .keys = {0, N_K, 1}};
    parts[count++] = (struct pattern_part){.queries = {120, 130, 1}, .keys = {7, 2, 300}};
    parts[count++] = (struct pattern_part){
        .queries = {200, 60, 2}, .keys = {0, LISTED, 1}, .list = list, .sight = some_later, .span = 120};
    assert_int_equal(count, PARTS);
    return count;
}

static float *normals(uint64_t seed, size_t count, int exponent)
{
    float *x = guard_floats(count);
    random_normals(random_key(seed, 2, 0), 0, x, count);
    for (size_t i = 0; i < count; i++)
        x[i] = ldexpf(x[i], exponent);
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

/* exponent: of values; at 115 sums of float32 could overflow. */
static void check(int exponent, int threads)
{
    float *query = normals(1, N_Q * D, 0), *key = normals(2, N_K * D, 0),
          *value = normals(3, N_K * D_V, exponent), *dout = normals(4, N_Q * D_V, 0);
    uint32_t list[LISTED];
    struct random random = random_open(5);
    for (size_t i = 0; i < LISTED; i++)
        list[i] = random_below(&random, N_K);
    list[50] = list[7];
    struct pattern_part parts[PARTS];
    size_t num_parts = make_parts(parts, list);
    struct oracle_softmax o = oracle_softmax_new(N_Q, N_K, D, D_V);
    o.times = calloc(N_Q * N_K, sizeof *o.times);
    for (size_t p = 0; p < num_parts; p++)
        add_pairs(o.times, &parts[p]);
    take(o.query, query, N_Q * D);
    take(o.key, key, N_K * D);
    take(o.value, value, N_K * D_V);
    take(o.dout, dout, N_Q * D_V);
    oracle_softmax_run(&o);
    struct host host;
    struct pool *pool;
    host_init(&host);
    check_status(&host, pool_new(&host, threads, &pool), HASHATTN_OK, NULL);
    for (const struct kernels *const *kernels = kernels_all(); *kernels != NULL; kernels++) {
        float *max = guard_floats(N_Q), *log_sum = guard_floats(N_Q), *out = guard_floats(N_Q * D_V),
              *dquery = guard_floats(N_Q * D), *dkey = guard_floats(N_K * D),
              *dvalue = guard_floats(N_K * D_V);
        const struct problem problem = {
            .kernels = *kernels,
            .pool = pool,
            .shape = {.num_queries = N_Q,
                      .num_keys = N_K,
                      .head_dim = D,
                      .value_dim = D_V,
                      .workers = (size_t)threads},
            .large = exponent > 0,
            .query = view_of(query, N_Q, D),
            .key = view_of(key, N_K, D),
            .value = view_of(value, N_K, D_V),
        };
        const struct pattern_attention a = {
            .sizes = {.block = 96, .most_span = 40 + 96, .most_listed = LISTED},
            .parts = parts,
            .num_parts = num_parts,
            .rows = {max, log_sum},
        };
        size_t floats = pattern_attention_size(&problem.shape, &a.sizes) / sizeof(float);
        float *scratch = guard_floats(floats);
        memset(scratch, 0xff, floats * sizeof(float));
        memset(out, 0xff, N_Q * D_V * sizeof(float));
        memset(max, 0xff, N_Q * sizeof(float));
        memset(log_sum, 0xff, N_Q * sizeof(float));
        pattern_attention_forward(&problem, &a, view_of(out, N_Q, D_V), scratch);
        memset(scratch, 0xff, floats * sizeof(float));
        memset(dquery, 0, N_Q * D * sizeof(float));
        memset(dkey, 0, N_K * D * sizeof(float));
        memset(dvalue, 0, N_K * D_V * sizeof(float));
        pattern_attention_backward(&problem, &a, view_of(out, N_Q, D_V), view_of(dout, N_Q, D_V),
                                   &(struct problem_gradients){.query = view_of(dquery, N_Q, D),
                                                               .key = view_of(dkey, N_K, D),
                                                               .value = view_of(dvalue, N_K, D_V)},
                                   scratch);
        check_array(out, o.out, o.out_bound, N_Q * D_V, "out");
        check_array(dquery, o.dquery, o.dquery_bound, N_Q * D, "dquery");
        check_array(dkey, o.dkey, o.dkey_bound, N_K * D, "dkey");
        check_array(dvalue, o.dvalue, o.dvalue_bound, N_K * D_V, "dvalue");
        for (size_t c = 0; c < D_V; c++)
            assert_true(out[(N_Q - 1) * D_V + c] == 0); /* in no part */
        guard_free(scratch, floats);
        guard_free(max, N_Q);
        guard_free(log_sum, N_Q);
        guard_free(out, N_Q * D_V);
        guard_free(dquery, N_Q * D);
        guard_free(dkey, N_K * D);
        guard_free(dvalue, N_K * D_V);
    }
    pool_free(&host, pool);
    oracle_softmax_free(&o);
    guard_free(query, N_Q * D);
    guard_free(key, N_K * D);
    guard_free(value, N_K * D_V);
    guard_free(dout, N_Q * D_V);
}

static void parts_are_one_softmax(void **state)
{
    (void)state;
    check(0, 1);
    check(0, 3);
}

static void large_numbers_are_computed_in_double(void **state)
{
    (void)state;
    check(115, 1);
    check(115, 3);
}

static void sizes_never_fall(void **state)
{
    (void)state;
    struct pattern_sizes sizes = {.block = 96};
    struct problem_shape shape = {.head_dim = 7, .value_dim = 9, .workers = 2};
    size_t *const grows[] = {&shape.num_queries, &shape.num_keys, &sizes.most_span, &sizes.most_listed,
                             &shape.workers};
    size_t last = pattern_attention_size(&shape, &sizes);
    for (size_t step = 1; step < 200; step++) {
        *grows[step % 5] += step % 5 == 4 ? 1 : 37 * step;
        size_t now = pattern_attention_size(&shape, &sizes);
        assert_true(now >= last);
        last = now;
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(parts_are_one_softmax),
        cmocka_unit_test(large_numbers_are_computed_in_double),
        cmocka_unit_test(sizes_never_fall),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
