/* From scores to out and gradients, against double precision: every combination of mode, joint, causal and
   membership, on every table, one thread and three, lengths that are no multiple of the groups, more
   groups than tokens, one token, equal scores. Bugs planted and caught: keys by the scores of queries; no
   softmax before the selection; statistics of keys for queries; scores of one tile over another's;
   balanced with another sharpness; the spread of the first tile for all; norms left out, or those of all
   tiles of a list written to the place of the first; one softmax over all rounds; the scores of the first
   round balanced for all; with by_token, the groups of the first round only; a
   partition of the first round for all; shares that underflow left 0.
   Covers: grouped_members.c.
   SPDX-License-Identifier: Apache-2.0 */
#include "parts/groups/grouped.h"

#include <float.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/random.h"
#include "oracle/oracle_groups.h"
#include "support/check.h"

enum { D = 19, D_V = 9, LD = 24, MOST = 200 };

struct scores {
    const float *z[2];
    size_t lists; /* groups of all rounds */
};

static void score(const void *argument, enum group_side side, size_t first, size_t count, float *z,
                  int worker)
{
    (void)worker;
    const struct scores *scores = argument;
    memcpy(z, scores->z[side] + first * scores->lists, count * scores->lists * sizeof *z);
}

struct variant {
    size_t n_q, n_k, groups;
    bool joint, causal, by_token, partition, norm, whole, equal;
    bool apart; /* float32 shares of all groups but the first underflow */
    size_t balance, more_rounds;
};

static void to_double(double *to, const float *from, size_t n, size_t width, size_t ld)
{
    for (size_t i = 0; i < n; i++)
        for (size_t c = 0; c < width; c++)
            to[i * width + c] = (double)from[i * ld + c];
}

static void check_rows(const float *got, const double *want, const double *bound, size_t n, size_t width,
                       double start, const char *what)
{
    for (size_t i = 0; i < n; i++)
        for (size_t c = 0; c < width; c++)
            check_near((double)got[i * LD + c], start + want[i * width + c],
                       bound[i * width + c] + 8 * FLT_EPSILON * (start + fabs(want[i * width + c])), what);
}

static void check(const struct kernels *kernels, struct pool *pool, const struct variant *v)
{
    static float rows[4][MOST * LD], gradients[3][MOST * LD], out[MOST * LD], z[2][MOST * 40];
    size_t lengths[4] = {v->n_q, v->n_k, v->n_k, v->n_q}, widths[4] = {D, D, D_V, D_V};
    size_t rounds = 1 + v->more_rounds, lists = rounds * v->groups;
    struct oracle_groups o = oracle_groups_new(v->n_q, v->n_k, D, D_V, v->groups, rounds);
    double *exact[4] = {o.query, o.key, o.softmax.value, o.softmax.dout};
    for (size_t a = 0; a < 4; a++) {
        random_normals(a + 1, 0, rows[a], MOST * LD);
        to_double(exact[a], rows[a], lengths[a], widths[a], LD);
    }
    for (size_t a = 0; a < 2; a++) {
        random_normals(a + 11, 0, z[a], MOST * 40);
        for (size_t i = 0; i < MOST * 40 && v->equal; i++)
            z[a][i] = 0.5f;
        for (size_t i = 0; i < MOST * 40 && v->apart; i++)
            z[a][i] = i % v->groups == 0 ? 0 : -100 - 50 * fabsf(z[a][i]);
        to_double(a == 0 ? o.z_query : o.z_key, z[a], lengths[a], lists, lists);
    }
    o.joint = v->joint;
    o.causal = v->causal;
    o.by_token = v->by_token;
    o.norm = v->norm;
    o.whole = v->whole;
    o.balance = v->balance;
    o.partition = v->partition;
    oracle_groups_run(&o);
    struct scores scores = {{z[0], z[1]}, lists};
    struct problem problem = {
        .kernels = kernels,
        .shape = {.num_queries = v->n_q,
                  .num_keys = v->n_k,
                  .head_dim = D,
                  .value_dim = D_V,
                  .causal = v->causal,
                  .workers = (size_t)pool_threads(pool)},
        .query = {rows[0], v->n_q, D, LD, DTYPE_FLOAT32},
        .key = {rows[1], v->n_k, D, LD, DTYPE_FLOAT32},
        .value = {rows[2], v->n_k, D_V, LD, DTYPE_FLOAT32},
        .pool = pool,
    };
    const struct grouped b = {
        .capacity = {v->groups, 1.4142135623730951, v->whole},
        .rounds = rounds,
        .balance = v->balance,
        .joint = v->joint,
        .by_token = v->by_token,
        .partition = v->partition,
        .norm = v->norm,
        .score = score,
        .scorer = &scores,
    };
    size_t saved = grouped_saved_on(&problem.shape, &b, NULL).bytes / 4,
           scratch = grouped_scratch_size(&problem.shape, &b) / 4;
    problem.saved = guard_floats(saved);
    problem.scratch = guard_floats(scratch);
    memset(problem.scratch, 0xff, 4 * scratch);
    const struct view result = {out, v->n_q, D_V, LD, DTYPE_FLOAT32},
                      dout = {rows[3], v->n_q, D_V, LD, DTYPE_FLOAT32};
    grouped_forward(&problem, &b, result);
    memset(problem.scratch, 0xff, 4 * scratch);
    for (size_t a = 0; a < 3; a++)
        for (size_t i = 0; i < MOST * LD; i++)
            gradients[a][i] = 0.5f;
    grouped_backward(&problem, &b, result, dout,
                     &(struct problem_gradients){
                         .query = {gradients[0], v->n_q, D, LD, DTYPE_FLOAT32},
                         .key = {gradients[1], v->n_k, D, LD, DTYPE_FLOAT32},
                         .value = {gradients[2], v->n_k, D_V, LD, DTYPE_FLOAT32},
                     });
    const struct oracle_softmax *s = &o.softmax;
    check_rows(out, s->out, s->out_bound, v->n_q, D_V, 0, "out");
    check_rows(gradients[0], s->dquery, s->dquery_bound, v->n_q, D, 0.5, "dquery");
    check_rows(gradients[1], s->dkey, s->dkey_bound, v->n_k, D, 0.5, "dkey");
    check_rows(gradients[2], s->dvalue, s->dvalue_bound, v->n_k, D_V, 0.5, "dvalue");
    guard_free(problem.saved, saved);
    guard_free(problem.scratch, scratch);
    oracle_groups_free(&o);
}

static void scores_become_attention(void **state)
{
    (void)state;
    static const struct variant variants[] = {
        {.n_q = 130, .n_k = 150, .groups = 7, .norm = true, .whole = true},
        {.n_q = 130, .n_k = 150, .groups = 7},
        {.n_q = 130, .n_k = 150, .groups = 7, .apart = true, .more_rounds = 1},
        {.n_q = 130, .n_k = 150, .groups = 7, .apart = true, .partition = true},
        {.n_q = 150, .n_k = 20, .groups = 40, .norm = true}, /* more groups than keys */
        {.n_q = 3, .n_k = 1, .groups = 5, .whole = true},
        {.n_q = 130, .n_k = 150, .groups = 7, .norm = true, .whole = true, .balance = 3},
        {.n_q = 150, .n_k = 20, .groups = 40, .balance = 1},
        {.n_q = 141, .n_k = 141, .groups = 2, .joint = true, .causal = true, .balance = 3},
        {.n_q = 3, .n_k = 1, .groups = 5, .balance = 4},
        {.n_q = 141, .n_k = 141, .groups = 9, .norm = true, .equal = true, .balance = 3},
        {.n_q = 150, .n_k = 150, .groups = 1, .norm = true}, /* plain attention */
        {.n_q = 141, .n_k = 141, .groups = 6, .joint = true, .norm = true, .whole = true},
        {.n_q = 141, .n_k = 141, .groups = 6, .joint = true, .causal = true, .norm = true, .whole = true},
        {.n_q = 141, .n_k = 141, .groups = 3, .joint = true, .causal = true, .by_token = true, .whole = true},
        {.n_q = 141, .n_k = 141, .groups = 3, .joint = true, .causal = true, .by_token = true, .norm = true},
        {.n_q = 141, .n_k = 141, .groups = 9, .norm = true, .equal = true}, /* lower indices first */
        {.n_q = 141, .n_k = 141, .groups = 9, .joint = true, .causal = true, .by_token = true, .equal = true},
        {.n_q = 1, .n_k = 1, .groups = 8, .joint = true, .causal = true, .by_token = true, .norm = true},
        {.n_q = 130, .n_k = 150, .groups = 7, .norm = true, .whole = true, .more_rounds = 2},
        {.n_q = 130, .n_k = 150, .groups = 7, .balance = 3, .more_rounds = 1},
        {.n_q = 3, .n_k = 1, .groups = 5, .balance = 4, .more_rounds = 3},
        {.n_q = 130, .n_k = 150, .groups = 7, .partition = true, .norm = true},
        {.n_q = 128, .n_k = 128, .groups = 4, .partition = true, .balance = 3, .more_rounds = 1},
        {.n_q = 3, .n_k = 1, .groups = 5, .partition = true},
        {.n_q = 141, .n_k = 141, .groups = 9, .partition = true, .equal = true},
        {.n_q = 141, .n_k = 141, .groups = 3, .joint = true, .causal = true, .partition = true, .balance = 1},
        {.n_q = 141, .n_k = 141, .groups = 3, .joint = true, .causal = true, .more_rounds = 2},
        {.n_q = 141,
         .n_k = 141,
         .groups = 3,
         .joint = true,
         .causal = true,
         .by_token = true,
         .more_rounds = 2},
    };
    struct host host;
    struct pool *pool;
    host_init(&host);
    check_status(&host, pool_new(&host, 3, &pool), HASHATTN_OK, NULL);
    for (const struct kernels *const *kernels = kernels_all(); *kernels != NULL; kernels++)
        for (size_t i = 0; i < sizeof variants / sizeof *variants; i++) {
            check(*kernels, NULL, &variants[i]);
            check(*kernels, pool, &variants[i]);
        }
    pool_free(&host, pool);
}

/* Number of queries of one draw in 0, 1, 2 and more groups. */
static void count_groups(uint64_t seed, size_t groups, double enlargement, double counts[4])
{
    enum { N = 512, WIDE = 41 };
    static float x[N * WIDE], z[N * 16], out[N], hash[WIDE * 16];
    random_normals(random_key(seed, RANDOM_DATA, 0), 0, x, N * WIDE);
    random_normals(random_key(seed, RANDOM_DATA, 1), 0, hash, WIDE * groups);
    for (size_t i = 0; i < N; i++) { /* normalize the rows */
        double mean = 0, square = 0;
        for (size_t c = 0; c < WIDE; c++) {
            mean += (double)x[i * WIDE + c] / WIDE;
            square += pow((double)x[i * WIDE + c], 2) / WIDE;
        }
        for (size_t c = 0; c < WIDE; c++)
            x[i * WIDE + c] = (float)(((double)x[i * WIDE + c] - mean) / sqrt(square - mean * mean));
        for (size_t b = 0; b < groups; b++) {
            double sum = 0;
            for (size_t c = 0; c < WIDE; c++)
                sum += (double)x[i * WIDE + c] * (double)hash[c * groups + b] / sqrt(WIDE);
            z[i * groups + b] = (float)sum;
        }
    }
    struct scores scores = {{z, z}, groups};
    struct problem problem = {
        .kernels = kernels_named(NULL, &(const char *){0}),
        .shape = {.num_queries = N, .num_keys = N, .head_dim = WIDE, .value_dim = 1, .workers = 1},
        .query = view_of(x, N, WIDE),
        .key = view_of(x, N, WIDE),
        .value = {x, N, 1, WIDE, DTYPE_FLOAT32}};
    const struct grouped b = {
        .capacity = {groups, enlargement, true}, .rounds = 1, .score = score, .scorer = &scores};
    size_t saved = grouped_saved_on(&problem.shape, &b, NULL).bytes / 4,
           scratch = grouped_scratch_size(&problem.shape, &b) / 4;
    problem.saved = guard_floats(saved);
    problem.scratch = guard_floats(scratch);
    grouped_forward(&problem, &b, view_of(out, N, 1));
    struct members queries = grouped_saved_on(&problem.shape, &b, problem.saved).queries;
    size_t of_token[N] = {0};
    for (size_t p = 0; p < queries.start[groups]; p++)
        of_token[queries.list[p]]++;
    for (size_t i = 0; i < N; i++)
        counts[of_token[i] > 3 ? 3 : of_token[i]]++;
    guard_free(problem.saved, saved);
    guard_free(problem.scratch, scratch);
}

/* Reference figures measured by an independent program: a random linear hash of normalized normals, width
   41, 512 tokens. One draw of the hash differs from another by about 0.03. */
static void queries_are_in_few_groups(void **state)
{
    (void)state;
    static const struct {
        size_t groups;
        double enlargement, want[4];
    } rows[] = {{8, 1, {0.16, 0.67, 0.16, 0}},
                {8, 1.4142135623730951, {0.045, 0.53, 0.40, 0.03}},
                {4, 1.4142135623730951, {0, 0.60, 0.39, 0.01}},
                {16, 1.4142135623730951, {0.08, 0.49, 0.37, 0.06}}};
    for (size_t r = 0; r < sizeof rows / sizeof *rows; r++) {
        double counts[4] = {0};
        for (uint64_t seed = 0; seed < 40; seed++)
            count_groups(seed, rows[r].groups, rows[r].enlargement, counts);
        for (size_t c = 0; c < 4; c++)
            check_near(counts[c] / (40 * 512), rows[r].want[c], 0.03, "queries in so many buckets");
    }
}

/* Each token counts once in each round. */
static void the_best_of_each_round_are_counted(void **state)
{
    (void)state;
    enum { N = 70, GROUPS = 3, ROUNDS = 2, LISTS = GROUPS * ROUNDS };
    static float z[N * LISTS], x[N];
    uint32_t counts[LISTS], want[LISTS] = {0};
    random_normals(1, 0, z, N * LISTS);
    for (size_t i = 0; i < N * ROUNDS; i++) {
        const float *row = z + i * GROUPS;
        want[i % ROUNDS * GROUPS +
             (row[0] > row[1] ? (row[0] > row[2] ? 0 : 2) : (row[1] > row[2] ? 1 : 2))]++;
    }
    struct scores scores = {{z, z}, LISTS};
    const struct problem problem = {
        .shape = {.num_queries = N, .num_keys = N, .head_dim = 1, .value_dim = 1, .workers = 1},
        .query = view_of(x, N, 1),
        .key = view_of(x, N, 1)};
    const struct grouped b = {
        .capacity = {GROUPS, 1, true}, .rounds = ROUNDS, .score = score, .scorer = &scores};
    size_t bytes = grouped_members_size(&problem.shape, &b) / 4;
    float *scratch = guard_floats(bytes);
    grouped_count_best(&problem, &b, SIDE_KEYS, counts, scratch);
    assert_memory_equal(counts, want, sizeof want);
    guard_free(scratch, bytes);
}

static void the_best_is_the_first_of_the_largest(void **state)
{
    (void)state;
    static const float ties[] = {1, 3, 2, 3}, missing[] = {NAN, -2, NAN, -1}, none[] = {NAN, NAN, NAN, NAN};
    assert_int_equal(grouped_best(ties, 4), 1);
    assert_int_equal(grouped_best(missing, 4), 3);
    assert_int_equal(grouped_best(none, 4), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(scores_become_attention),
        cmocka_unit_test(queries_are_in_few_groups),
        cmocka_unit_test(the_best_of_each_round_are_counted),
        cmocka_unit_test(the_best_is_the_first_of_the_largest),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
