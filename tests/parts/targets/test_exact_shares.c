/* Exact targets against double precision, from all pairs: sizes that fill neither vectors, tiles, strips nor
   chunks, more groups than tokens, tokens in no group or in all, rows whose attention underflows, weights of
   queries, and keys in spans on 1 to 3 threads that exchange sums. Bugs planted and caught: a key or a query
   in two groups counted in one; groups of the keys of another tile or chunk; groups or weights of the queries
   of the first strip; chunks merged without their maxima, in sums, in psi or for keys; shares not divided by
   the sum; the last chunk left out; sums of the strip before; keys of one tile for those of another; scores
   scaled before the maximum is subtracted; spans: the factor of sums left out, the own maximum kept, sums or
   psi of one span, exponentials of the last strip, all queries given.
   SPDX-License-Identifier: Apache-2.0 */
#include "parts/targets/exact_shares.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "support/check.h"
#include "support/target_case.h"
#include "support/thread_ranks.h"

/* a (n_q, n_k): attention up to a factor per query. Returns the largest sum of sizes of a product's terms
   over sqrt(d). */
static double attention_of(const struct target_case *c, double *a)
{
    size_t n_k = c->n[1];
    double most = 0;
    for (size_t i = 0; i < c->n[0]; i++) {
        double largest = -INFINITY, size = 0;
        for (size_t j = 0; j < n_k; j++) {
            a[i * n_k + j] = target_case_dot(c, i, j) / sqrt((double)c->dim);
            largest = fmax(largest, a[i * n_k + j]);
            size = 0;
            for (size_t k = 0; k < c->dim; k++)
                size += fabs((double)c->rows[0][i * c->ld + k] * (double)c->rows[1][j * c->ld + k]);
            most = fmax(most, size / sqrt((double)c->dim));
        }
        for (size_t j = 0; j < n_k; j++)
            a[i * n_k + j] = exp(a[i * n_k + j] - largest);
    }
    return most;
}

/* A score has dim + 2 roundings, relative to its terms, and an exponential doubles no error that is small;
   sums of n numbers have sqrt(n) roundings, with a margin of 4. A share of a key has both errors twice. */
static double bound_of(const struct target_case *c, double most)
{
    double roundings = (double)(c->dim + 2) * most + 4 * sqrt((double)(c->n[0] + c->n[1])) + 16;
    return 4 * roundings * ldexp(1, -24);
}

static void targets_are_shares_of_attention(void **state)
{
    (void)state;
    static const struct {
        size_t n_q, n_k, dim, groups;
        float size;
        uint32_t sparse;
    } cases[] = {
        {600, 531, 8, 5, 1, 4},     {1, 1, 1, 1, 1, 1},        {65, 513, 17, 3, 1, 2},
        {130, 1100, 64, 64, 1, 45}, {3, 1030, 7, 200, 1, 150}, {70, 10, 24, 67, 0.5f, 1},
        {33, 600, 5, 9, 6, 6},      {64, 512, 16, 16, 1, 12},  {20, 30, 4, 6, 1, 100000},
    };
    for (size_t k = 0; k < sizeof cases / sizeof *cases; k++) {
        struct target_case c = target_case_new(cases[k].n_q, cases[k].n_k, cases[k].dim, cases[k].groups,
                                               cases[k].size, cases[k].sparse);
        double *a = malloc(c.n[0] * c.n[1] * sizeof *a), bound = bound_of(&c, attention_of(&c, a));
        target_case_want(&c, a, a);
        for (const struct kernels *const *kernels = kernels_all(); *kernels != NULL; kernels++)
            target_case_check(&c, *kernels, &(struct utility){.num_features = 0}, bound, "target");
        /* Weights of queries affect only the targets of keys. */
        for (size_t i = 0; i < c.n[0]; i++)
            c.weights[i] = (float)(1 + i % 7) * 0.5f;
        target_case_want(&c, a, a);
        target_case_check(&c, NULL, &(struct utility){.query_weights = c.weights}, bound, "weighted target");
        free(a);
        target_case_free(&c);
    }
}

/* Scores of whole numbers up to 2^23, which float32 holds, and the same keys, moved a little, in two chunks:
   differences in the exponent lose nothing, and most attention underflows. A token whose mass is close to the
   least of float32 has any shares. */
static void scores_may_be_large(void **state)
{
    (void)state;
    enum { N = 300, N_K = 1100, D = 3, B = 4 };
    struct target_case c = target_case_new(N, N_K, D, B, 1, 2);
    double *a = malloc(sizeof *a * N * N_K), mass[2][N_K] = {0};
    for (size_t i = 0; i < N * c.ld; i++)
        c.rows[0][i] = rintf(2 * c.rows[0][i]);
    for (size_t j = 0; j < N_K * c.ld; j++)
        c.rows[1][j] = j < N_K / 2 * c.ld ? rintf(50000 * c.rows[1][j]) : c.rows[1][j - N_K / 2 * c.ld] + 1;
    attention_of(&c, a);
    target_case_want(&c, a, a);
    target_case_run(&c, NULL, NULL, &(struct utility){.num_features = 0});
    for (size_t i = 0; i < N; i++)
        for (size_t j = 0; j < N_K; j++) {
            mass[0][i] += c.start[1][j + 1] > c.start[1][j] ? a[i * N_K + j] : 0;
            mass[1][j] += c.start[0][i + 1] > c.start[0][i] ? a[i * N_K + j] : 0;
        }
    for (size_t s = 0; s < 2; s++) {
        size_t some = 0;
        for (size_t i = 0; i < c.n[s]; i++) {
            if (mass[s][i] < 1e-20)
                continue;
            some++;
            /* An exponent up to 90 has two roundings. */
            check_near_all(c.given[s] + i * B, c.want[s] + i * B, B, 4e-5, "target");
        }
        assert_true(some > 10);
    }
    free(a);
    target_case_free(&c);
}

/* ---- spans --------------------------------------------------------------------------------------------- */

enum { N_Q = 200, N_K = 700, DIM = 8, GROUPS = 5 };

struct team {
    struct target_case *whole;
    float given[2][N_K * GROUPS];
};

/* x of all ranks, in order; free() it. */
static float *gathered(struct comm *comm, const float *x, size_t n)
{
    size_t ranks = (size_t)comm_size(comm), bytes = n * sizeof(float);
    struct host host;
    float *all = malloc(ranks * bytes);
    host_init(&host);
    memcpy(all + (size_t)comm_rank(comm) * n, x, bytes);
    rank_require(comm_gather(&host, comm, all, ranks * bytes, bytes) == HASHATTN_OK);
    return all;
}

static void sum(void *argument, float *x, size_t n)
{
    struct comm *comm = argument;
    float *all = gathered(comm, x, n);
    memset(x, 0, n * sizeof(float));
    for (size_t i = 0; i < (size_t)comm_size(comm) * n; i++)
        x[i % n] += all[i];
    free(all);
}

static void largest(void *argument, float *x, size_t n)
{
    struct comm *comm = argument;
    float *all = gathered(comm, x, n);
    for (size_t i = 0; i < (size_t)comm_size(comm) * n; i++)
        x[i % n] = fmaxf(x[i % n], all[i]);
    free(all);
}

static void compute_span(struct comm *comm, void *argument)
{
    struct team *team = argument;
    struct target_case c = *team->whole;
    struct utility_across across = {.sum = sum, .largest = largest, .argument = comm};
    struct utility u = {.query_weights = c.weights, .across = &across};
    size_t first, end;
    comm_span(comm, N_K, &first, &end);
    c.n[1] = end - first;
    c.rows[1] += first * c.ld;
    c.start[1] += first;
    c.given[1] = team->given[1] + first * GROUPS;
    comm_span(comm, N_Q, &c.first, &c.end);
    c.given[0] = team->given[0];
    across.first = c.first;
    across.end = c.end;
    target_case_run(&c, NULL, NULL, &u);
}

static void spans_have_the_targets_of_the_whole(void **state)
{
    (void)state;
    static struct team team;
    struct target_case c = target_case_new(N_Q, N_K, DIM, GROUPS, 3, 4);
    double *a = malloc(sizeof *a * N_Q * N_K), bound = bound_of(&c, attention_of(&c, a));
    for (size_t i = 0; i < N_Q; i++)
        c.weights[i] = (float)(1 + i % 3);
    target_case_want(&c, a, a);
    team.whole = &c;
    for (int ranks = 1; ranks <= 3; ranks++) {
        assert_string_equal(run_ranks(ranks, 60, compute_span, &team), "");
        for (size_t s = 0; s < 2; s++)
            check_near_all(team.given[s], c.want[s], c.n[s] * GROUPS, bound, "target of a span");
    }
    free(a);
    target_case_free(&c);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(targets_are_shares_of_attention),
        cmocka_unit_test(scores_may_be_large),
        cmocka_unit_test(spans_have_the_targets_of_the_whole),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
