/* Draws the case; sums weights of all pairs by definition.
   SPDX-License-Identifier: Apache-2.0 */
#include "support/target_case.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "base/random.h"
#include "parts/features/random_features.h"
#include "support/check.h"

struct target_case target_case_new(size_t n_q, size_t n_k, size_t dim, size_t groups, float size,
                                   uint32_t sparse)
{
    struct target_case c = {.n = {n_q, n_k}, .dim = dim, .ld = dim + 3, .groups = groups, .end = n_q};
    c.weights = malloc(n_q * sizeof *c.weights);
    for (size_t i = 0; i < n_q; i++)
        c.weights[i] = 1;
    for (size_t s = 0; s < 2; s++) {
        size_t n = c.n[s], all = n * groups;
        c.rows[s] = malloc(n * c.ld * sizeof(float));
        c.in[s] = calloc(all, 1);
        c.start[s] = malloc((n + 1) * sizeof(uint32_t));
        c.group[s] = malloc(all * sizeof(uint32_t));
        c.given[s] = malloc(all * sizeof(float));
        c.want[s] = malloc(all * sizeof(double));
        random_normals(s + 1, 0, c.rows[s], n * c.ld);
        for (size_t i = 0; i < n * c.ld; i++)
            c.rows[s][i] *= size;
        struct random random = random_open(s + 5);
        uint32_t at = 0;
        for (size_t i = 0; i < n; i++) {
            c.start[s][i] = at;
            for (size_t b = 0; b < groups; b++)
                if ((c.in[s][i * groups + b] = random_below(&random, sparse) == 0))
                    c.group[s][at++] = (uint32_t)b;
        }
        c.start[s][n] = at;
    }
    return c;
}

void target_case_free(struct target_case *c)
{
    free(c->weights);
    for (size_t s = 0; s < 2; s++) {
        free(c->rows[s]);
        free(c->in[s]);
        free(c->start[s]);
        free(c->group[s]);
        free(c->given[s]);
        free(c->want[s]);
    }
}

float *target_case_directions(size_t count, size_t dim)
{
    size_t work_floats = features_work_size(count, dim, 1) / sizeof(float);
    float *work = guard_floats(work_floats), *block = guard_floats(features_count(count, dim));
    features_draw(kernels_named(NULL, &(const char *){0}), NULL, count, dim, 9, block, work);
    guard_free(work, work_floats);
    return block;
}

double target_case_dot(const struct target_case *c, size_t i, size_t j)
{
    double sum = 0;
    for (size_t k = 0; k < c->dim; k++)
        sum += (double)c->rows[0][i * c->ld + k] * (double)c->rows[1][j * c->ld + k];
    return sum;
}

static double row_sum(const double *row, size_t n)
{
    double sum = 0;
    for (size_t b = 0; b < n; b++)
        sum += row[b];
    return sum;
}

void target_case_want(const struct target_case *c, const double *a, const double *of_keys)
{
    size_t n_k = c->n[1], groups = c->groups;
    for (size_t s = 0; s < 2; s++)
        memset(c->want[s], 0, c->n[s] * groups * sizeof(double));
    for (size_t i = 0; i < c->n[0]; i++) {
        double sum = row_sum(of_keys + i * n_k, n_k);
        for (size_t j = 0; j < n_k; j++)
            for (size_t b = 0; b < groups; b++) {
                c->want[0][i * groups + b] += c->in[1][j * groups + b] ? a[i * n_k + j] : 0;
                c->want[1][j * groups + b] +=
                    c->in[0][i * groups + b] ? (double)c->weights[i] * of_keys[i * n_k + j] / sum : 0;
            }
    }
    for (size_t s = 0; s < 2; s++)
        for (size_t i = 0; i < c->n[s]; i++) {
            double *row = c->want[s] + i * groups, sum = row_sum(row, groups);
            for (size_t b = 0; b < groups; b++)
                row[b] = sum > 0 ? row[b] / sum : 0;
        }
}

enum { MOST_SLOTS = 4 };

/* Rows of both sides passed on so far. With one thread they arrive in order. */
struct taken {
    const struct target_case *c;
    size_t workers, passed[2];
    atomic_size_t open[MOST_SLOTS]; /* rows added to a slot since it was closed */
};

static void take(void *argument, enum utility_side side, size_t first, size_t count, const float *psi,
                 size_t slot)
{
    struct taken *taken = argument;
    const struct target_case *c = taken->c;
    size_t groups = c->groups, begin = side == UTILITY_QUERIES ? c->first : 0;
    assert_true(slot < taken->workers);
    assert_true(taken->workers > 1 || begin + taken->passed[side] + taken->open[0] == first);
    taken->open[slot] += count;
    for (size_t i = 0; i < count; i++) {
        double sum = 0;
        for (size_t b = 0; b < groups; b++) {
            assert_true(psi[i * groups + b] >= 0);
            sum += (double)psi[i * groups + b];
        }
        for (size_t b = 0; b < groups; b++)
            c->given[side][(first + i) * groups + b] =
                sum > 0 ? (float)((double)psi[i * groups + b] / sum) : 0;
    }
}

static void close_slot(void *argument, size_t slot)
{
    struct taken *taken = argument;
    size_t count = taken->open[slot];
    bool queries = taken->passed[0] < taken->c->end - taken->c->first;
    assert_true(count > 0 && count <= UTILITY_BLOCK);
    taken->passed[queries ? 0 : 1] += count;
    taken->open[slot] = 0;
}

void target_case_run(const struct target_case *c, const struct kernels *kernels, struct pool *pool,
                     struct utility *u)
{
    const struct problem problem = {.kernels =
                                        kernels != NULL ? kernels : kernels_named(NULL, &(const char *){0}),
                                    .shape = {.num_queries = c->n[0],
                                              .num_keys = c->n[1],
                                              .head_dim = c->dim,
                                              .workers = (size_t)pool_threads(pool)},
                                    .query = {c->rows[0], c->n[0], c->dim, c->ld, DTYPE_FLOAT32},
                                    .key = {c->rows[1], c->n[1], c->dim, c->ld, DTYPE_FLOAT32},
                                    .pool = pool};
    struct taken taken = {.c = c, .workers = problem.shape.workers};
    u->num_groups = c->groups;
    u->query_groups = (struct token_groups){c->start[0], c->group[0]};
    u->key_groups = (struct token_groups){c->start[1], c->group[1]};
    u->take = take;
    u->close = close_slot;
    u->argument = &taken;
    size_t floats = utility_size(&problem.shape, u) / sizeof(float);
    float *scratch = guard_floats(floats);
    memset(scratch, 0xff, floats * sizeof *scratch);
    utility_targets(&problem, u, scratch);
    guard_free(scratch, floats);
    assert_int_equal(taken.passed[0], c->end - c->first);
    assert_int_equal(taken.passed[1], c->n[1]);
}

void target_case_check(const struct target_case *c, const struct kernels *kernels, struct utility *u,
                       double bound, const char *what)
{
    target_case_run(c, kernels, NULL, u);
    for (size_t s = 0; s < 2; s++)
        check_near_all(c->given[s], c->want[s], c->n[s] * c->groups, bound, what);
}
