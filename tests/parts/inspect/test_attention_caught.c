/* Against plain loops in double over all pairs: random lists, queries and keys separate and equal, every
   mask, lengths around the tiles, one token, queries in no group, on every table, one thread and three.
   Bugs planted and caught: a key that a query meets twice counted twice; marks not cleared; one key less
   in the bound.
   SPDX-License-Identifier: Apache-2.0 */
#include "parts/inspect/attention_caught.h"

#include <float.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/random.h"
#include "support/check.h"

enum { MOST = 300, D = 7, LD = 9, B = 5 };

/* The error of a score is D roundings of terms that add up to at most 30, over sqrt(D); that of a share is
   twice as large. */
#define BOUND (2 * 30 / 2.6 * D * 0.5 * (double)FLT_EPSILON)

static float rows[2][MOST * LD];
static uint32_t starts[2][B + 1], lists[2][MOST * B];
static bool in[2][MOST][B];

struct variant {
    size_t n_q, n_k;
    bool causal;
    enum group_sight sight;
    uint32_t rarity; /* a token is in a group with probability 1 / rarity */
};

static void fill(const struct variant *v, size_t side, size_t n)
{
    struct random random = random_open(side + n);
    size_t at = 0;
    random_normals(side + 3, 0, rows[side], MOST * LD);
    for (size_t b = 0; b < B; b++) {
        starts[side][b] = (uint32_t)at;
        for (size_t i = 0; i < n; i++)
            if ((in[side][i][b] = random_below(&random, v->rarity) == 0))
                lists[side][at++] = (uint32_t)i;
    }
    starts[side][B] = (uint32_t)at;
}

static const struct capacity window = {B, 1.4142135623730951, false};

/* True if query i meets key j in group b. */
static bool meets(const struct variant *v, size_t i, size_t j, size_t b)
{
    size_t keys = v->causal ? 0 : 1, last = 0;
    if (!in[0][i][b] || !in[keys][j][b] || (v->causal && j > i))
        return false;
    for (size_t t = j; t <= i && v->sight == SIGHT_WINDOW; t++)
        last += in[0][t][b];
    return v->sight != SIGHT_WINDOW || last <= capacity_of(&window, i + 1);
}

static int falling(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x < y) - (x > y);
}

static void run_oracle(const struct variant *v, struct caught *want)
{
    static double a[MOST][MOST];
    size_t met = 0, all = 0, most = 0;
    memset(want, 0, sizeof *want);
    for (size_t i = 0; i < v->n_q; i++) {
        size_t seen = v->causal ? i + 1 : v->n_k;
        double sum = 0;
        for (size_t j = 0; j < seen; j++) {
            double dot = 0;
            for (size_t c = 0; c < D; c++)
                dot += (double)rows[0][i * LD + c] * (double)rows[1][j * LD + c];
            sum += a[i][j] = exp(dot / sqrt(D));
        }
        for (size_t j = 0; j < seen; j++) {
            bool meet = false;
            for (size_t b = 0; b < B; b++)
                meet |= meets(v, i, j, b);
            a[i][j] /= sum;
            met += meet;
            want->utility += meet ? a[i][j] / (double)v->n_q : 0;
        }
        all += seen;
    }
    for (size_t pairs = 0; pairs < met; most++)
        for (size_t i = 0; i < v->n_q; i++)
            pairs += most < (v->causal ? i + 1 : v->n_k);
    for (size_t i = 0; i < v->n_q; i++) {
        size_t seen = v->causal ? i + 1 : v->n_k;
        qsort(a[i], seen, sizeof a[i][0], falling);
        for (size_t k = 0; k < seen && k < most; k++)
            want->bound += a[i][k] / (double)v->n_q;
    }
    want->pairs = (double)met / (double)all;
}

static void check(const struct kernels *kernels, struct pool *pool, const struct variant *v)
{
    fill(v, 0, v->n_q);
    fill(v, 1, v->n_k);
    struct caught want, caught[2] = {{.queries = {B, starts[0], lists[0]},
                                      .keys = {B, starts[1], lists[1]},
                                      .sight = v->sight,
                                      .window = window}};
    if (v->causal)
        caught[0].keys = caught[0].queries;
    /* The second membership has all queries and all keys in the first group. */
    uint32_t start[B + 1], *all = malloc(MOST * sizeof *all);
    for (uint32_t b = 0; b <= B; b++)
        start[b] = b == 0 ? 0 : (uint32_t)v->n_q;
    for (uint32_t i = 0; i < MOST; i++)
        all[i] = i;
    uint32_t key_start[B + 1];
    for (uint32_t b = 0; b <= B; b++)
        key_start[b] = b == 0 ? 0 : (uint32_t)v->n_k;
    caught[1] = (struct caught){
        .queries = {B, start, all}, .keys = {B, key_start, all}, .sight = v->causal ? SIGHT_PAST : SIGHT_ALL};
    const struct problem problem = {.kernels = kernels,
                                    .shape = {.num_queries = v->n_q,
                                              .num_keys = v->n_k,
                                              .head_dim = D,
                                              .causal = v->causal,
                                              .workers = (size_t)pool_threads(pool)},
                                    .query = {rows[0], v->n_q, D, LD, DTYPE_FLOAT32},
                                    .key = {rows[1], v->n_k, D, LD, DTYPE_FLOAT32},
                                    .pool = pool};
    const struct catching catching = {.num_caught = 2, .caught = caught, .places = MOST * B};
    size_t floats = attention_caught_size(&problem.shape, &catching) / sizeof(float);
    float *scratch = guard_floats(floats);
    memset(scratch, 0xff, floats * sizeof *scratch);
    attention_caught(&problem, &catching, scratch);
    run_oracle(v, &want);
    check_near(caught[0].utility, want.utility, BOUND, "utility");
    check_near(caught[0].bound, want.bound, BOUND, "bound");
    check_near(caught[0].pairs, want.pairs, 1e-12, "pairs");
    check_near(caught[1].utility, 1, 1e-12, "utility of all");
    check_near(caught[1].bound, 1, 1e-12, "bound of all");
    check_near(caught[1].pairs, 1, 1e-12, "pairs of all");
    guard_free(scratch, floats);
    free(all);
}

static void what_pairs_hold_is_summed(void **state)
{
    (void)state;
    static const struct variant variants[] = {
        {130, 150, false, SIGHT_ALL, 4}, {33, 300, false, SIGHT_ALL, 2},    {300, 31, false, SIGHT_ALL, 3},
        {1, 1, false, SIGHT_ALL, 1},     {7, 5, false, SIGHT_ALL, 1000},    {130, 130, true, SIGHT_PAST, 3},
        {257, 257, true, SIGHT_PAST, 6}, {200, 200, true, SIGHT_WINDOW, 3}, {1, 1, true, SIGHT_WINDOW, 1},
    };
    for (size_t t = 0; t < 2; t++) {
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
    const struct CMUnitTest tests[] = {cmocka_unit_test(what_pairs_hold_is_summed)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
