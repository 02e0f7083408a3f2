/* AdamW and clipping against the formulas in double, and the same bits for any number of threads. Bugs
   planted and caught: the correction with the first step's beta1; beta2 in the first correction; decay
   through the gradient (L2) instead of decoupled; epsilon added before the root; clipping that also enlarges;
   the last partial chunk left out of the norm; a chunk stepped from the wrong offset; all rows decayed, or
   none; a row stepped in its first chunk only; with ranges: a part outside of them stepped, or its gradient
   in the norm; only the first chunk of a range stepped.
   SPDX-License-Identifier: Apache-2.0 */
#include "train/optim.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/random.h"
#include "support/check.h"
#include "train/schedule.h"

enum { TOTAL = 3 * OPTIM_CHUNK + 1000, STEPS = 50 };

/* A matrix over two chunks, a vector, a matrix with padding after it, and a vector to the end. */
static struct param rows[] = {{.offset = 0, .count = OPTIM_CHUNK + 512, .decayed = true},
                              {.offset = OPTIM_CHUNK + 512, .count = 1024},
                              {.offset = OPTIM_CHUNK + 1536, .count = 75, .decayed = true},
                              {.offset = OPTIM_CHUNK + 1616, .count = TOTAL - OPTIM_CHUNK - 1616}};
static const struct params params = {.rows = rows, .num_rows = 4, .total = TOTAL};

static bool decays(size_t i)
{
    return i < OPTIM_CHUNK + 512 || (i >= OPTIM_CHUNK + 1536 && i < OPTIM_CHUNK + 1616);
}

/* Floats between two rows: zeros in every block. */
static bool is_padding(size_t i)
{
    return i >= OPTIM_CHUNK + 1611 && i < OPTIM_CHUNK + 1616;
}

struct fixture {
    struct host host;
    struct pool *pool;
    struct optim optim;
    float *values, *gradients;
    double *chunk_sums;
};

static float *floats(size_t n)
{
    float *block = calloc(n, sizeof *block);
    assert_non_null(block);
    return block;
}

static void fixture_init(struct fixture *fixture, const char *isa, int threads)
{
    memset(fixture, 0, sizeof *fixture);
    host_init(&fixture->host);
    check_status(&fixture->host, pool_new(&fixture->host, threads, &fixture->pool), HASHATTN_OK, NULL);
    const char *why;
    fixture->chunk_sums = calloc(optim_chunks(TOTAL), sizeof(double));
    fixture->optim = (struct optim){.kernels = kernels_named(isa, &why),
                                    .pool = fixture->pool,
                                    .total = TOTAL,
                                    .params = &params,
                                    .m = floats(TOTAL),
                                    .v = floats(TOTAL),
                                    .chunk_sums = fixture->chunk_sums,
                                    .beta2 = 0.999,
                                    .epsilon = 1e-6,
                                    .decay = 0.1,
                                    .clip = 0};
    assert_non_null(fixture->optim.kernels);
    fixture->values = floats(TOTAL);
    fixture->gradients = floats(TOTAL);
    random_normals(1, 0, fixture->values, TOTAL);
    for (size_t i = 0; i < TOTAL; i++)
        fixture->values[i] = is_padding(i) ? 0 : fixture->values[i];
}

static void fixture_free(struct fixture *fixture)
{
    free(fixture->chunk_sums);
    free(fixture->optim.m);
    free(fixture->optim.v);
    free(fixture->values);
    free(fixture->gradients);
    pool_free(&fixture->host, fixture->pool);
}

/* The rule as PyTorch's documentation states it, element by element in double. The betas and the step number
   are rounded to float, as the kernel slots receive them. */
static void oracle_step(double *w, double *m, double *v, const float *g, double scale,
                        const struct optim *optim, int t, double rate, double beta1)
{
    double b1 = (float)beta1, b2 = (float)optim->beta2;
    for (size_t i = 0; i < TOTAL; i++) {
        double gradient = scale * (double)g[i];
        if (is_padding(i))
            continue;
        if (decays(i))
            w[i] -= rate * optim->decay * w[i];
        m[i] = b1 * m[i] + (1 - b1) * gradient;
        v[i] = b2 * v[i] + (1 - b2) * gradient * gradient;
        double mhat = m[i] / (1 - pow(b1, t)), vhat = v[i] / (1 - pow(b2, t));
        w[i] -= rate * mhat / (sqrt(vhat) + optim->epsilon);
    }
}

static void follows_the_formulas_over_many_steps(void **state)
{
    (void)state;
    for (const struct kernels *const *kernels = kernels_all(); *kernels != NULL; kernels++) {
        struct fixture fixture;
        fixture_init(&fixture, (*kernels)->name, 2);
        struct optim *optim = &fixture.optim;
        optim->clip = 150; /* the norm is about 224: some steps below are clipped, others are not */
        double *w = calloc(3 * TOTAL, sizeof *w), *m = w + TOTAL, *v = m + TOTAL;
        assert_non_null(w);
        for (size_t i = 0; i < TOTAL; i++)
            w[i] = (double)fixture.values[i];
        const struct schedule schedule = {.steps = STEPS, .warmup = 10, .peak = 1e-2, .cycle_beta1 = true};
        for (int t = 1; t <= STEPS; t++) {
            random_normals(2, (uint64_t)t * TOTAL, fixture.gradients, TOTAL);
            double norm2 = 0;
            for (size_t i = 0; i < TOTAL; i++) {
                fixture.gradients[i] *= is_padding(i) ? 0 : t % 3 == 0 ? 0.1f : 1;
                norm2 += pow((double)fixture.gradients[i], 2);
            }
            double norm = optim_norm(optim, fixture.gradients);
            check_near(norm, sqrt(norm2), 1e-6 * sqrt(norm2),
                       "norm"); /* a block of 4096 sums in float at worst */
            struct schedule_point point = schedule_at(&schedule, t - 1);
            double scale = sqrt(norm2) > optim->clip ? optim->clip / sqrt(norm2) : 1;
            optim_step(optim, fixture.values, fixture.gradients, norm, t, point.rate, point.beta1);
            oracle_step(w, m, v, fixture.gradients, scale, optim, t, point.rate, point.beta1);
        }
        /* Per step a value is rounded once (half an ulp of at most |w| + sum of rates, < 8) and its update,
           about the size of the rate, has some ten roundings; errors of the moments decay with the betas,
           which the factor 2 covers. */
        double rates = 0;
        for (int t = 1; t <= STEPS; t++)
            rates += schedule_at(&schedule, t - 1).rate;
        check_near_all(fixture.values, w, TOTAL, 2 * 0x1p-24 * (STEPS * 8 + 10 * 10 * rates), "value");
        check_near_all(optim->m, m, TOTAL, 0x1p-24 * 10 * 10, "first moment");
        check_near_all(optim->v, v, TOTAL, 0x1p-24 * 10 * STEPS, "second moment");
        free(w);
        fixture_free(&fixture);
    }
}

static void the_first_step_is_the_rate(void **state)
{
    (void)state;
    /* At t = 1 both corrections undo the averages: the update is rate * sign(g), whatever the betas. */
    struct fixture fixture;
    fixture_init(&fixture, "ref", 1);
    fixture.optim.decay = 0;
    fixture.optim.epsilon = 0;
    memset(fixture.values, 0, TOTAL * sizeof(float));
    random_normals(3, 0, fixture.gradients, TOTAL);
    optim_step(&fixture.optim, fixture.values, fixture.gradients, 0, 1, 0.25, 0.95);
    for (size_t i = 0; i < TOTAL; i++)
        check_near((double)fixture.values[i], fixture.gradients[i] > 0 ? -0.25 : 0.25, 0.25 * 8 * 0x1p-24,
                   "step");
    fixture_free(&fixture);
}

static void clipping_shrinks_and_never_enlarges(void **state)
{
    (void)state;
    /* With t = 1 and a huge epsilon the update is rate * g * gradient_scale / epsilon: it shows the scale. */
    static const double clips[] = {0, 1, 3, 5, 100}, scales[] = {1, 0.2, 0.6, 1, 1};
    for (size_t k = 0; k < 5; k++) {
        struct fixture fixture;
        fixture_init(&fixture, "ref", 1);
        fixture.optim.decay = 0;
        fixture.optim.epsilon = 0x1p20;
        fixture.optim.clip = clips[k];
        memset(fixture.values, 0, TOTAL * sizeof(float));
        fixture.gradients[7] = 3; /* norm 5, half of it in the last partial chunk */
        fixture.gradients[TOTAL - 1] = -4;
        double norm = optim_norm(&fixture.optim, fixture.gradients);
        check_near(norm, 5, 0, "norm");
        optim_step(&fixture.optim, fixture.values, fixture.gradients, norm, 1, 0x1p20, 0.9);
        check_near((double)fixture.values[7], -3 * scales[k], 3e-5, "clipped"); /* epsilon hides |g| / 2^20 */
        check_near((double)fixture.values[TOTAL - 1], 4 * scales[k], 4e-5, "clipped");
        fixture_free(&fixture);
    }
}

static void the_same_bits_for_any_threads(void **state)
{
    (void)state;
    struct fixture one, other;
    fixture_init(&one, "auto", 1);
    for (int threads = 2; threads <= 3; threads++) {
        fixture_init(&other, "auto", threads);
        fixture_free(&one);
        fixture_init(&one, "auto", 1);
        one.optim.clip = other.optim.clip = 1;
        for (int t = 1; t <= 5; t++) {
            random_normals(4, (uint64_t)t * TOTAL, one.gradients, TOTAL);
            double norm = optim_norm(&one.optim, one.gradients);
            double same = optim_norm(&other.optim, one.gradients);
            check_same_bits(&norm, &same, sizeof norm, "norm");
            optim_step(&one.optim, one.values, one.gradients, norm, t, 1e-3, 0.9);
            optim_step(&other.optim, other.values, one.gradients, same, t, 1e-3, 0.9);
        }
        check_same_bits(one.values, other.values, TOTAL * sizeof(float), "values");
        check_same_bits(one.optim.m, other.optim.m, TOTAL * sizeof(float), "m");
        check_same_bits(one.optim.v, other.optim.v, TOTAL * sizeof(float), "v");
        fixture_free(&other);
    }
    fixture_free(&one);
}

/* Ranges that begin and end inside chunks, and one that spans three of them. Frozen floats have gradients. */
static void other_floats_keep_their_bits(void **state)
{
    (void)state;
    static const struct param_range ranges[] = {
        {16, 32}, {OPTIM_CHUNK - 16, 2 * OPTIM_CHUNK}, {TOTAL - 3, 3}};
    struct fixture part, whole;
    fixture_init(&part, "auto", 2);
    fixture_init(&whole, "auto", 2);
    part.optim.ranges = ranges;
    part.optim.num_ranges = 3;
    float *start = floats(TOTAL);
    memcpy(start, part.values, TOTAL * sizeof *start);
    random_normals(5, 0, part.gradients, TOTAL);
    double norm2 = 0;
    for (size_t i = 0; i < TOTAL; i++) {
        bool trained = false;
        for (size_t k = 0; k < 3; k++)
            trained |= i >= ranges[k].first && i < ranges[k].first + ranges[k].count;
        whole.gradients[i] = part.gradients[i];
        norm2 += trained ? pow((double)part.gradients[i], 2) : 0;
    }
    double norm = optim_norm(&part.optim, part.gradients);
    check_near(norm, sqrt(norm2), 1e-6 * norm, "norm");
    part.optim.clip = whole.optim.clip = norm / 2;
    optim_step(&part.optim, part.values, part.gradients, norm, 1, 0.5, 0.9);
    optim_step(&whole.optim, whole.values, whole.gradients, norm, 1, 0.5, 0.9);
    for (size_t i = 0, k = 0; i < TOTAL; i++) {
        k += k < 3 && i == ranges[k].first + ranges[k].count;
        bool trained = k < 3 && i >= ranges[k].first;
        assert_true(part.values[i] == (trained ? whole.values[i] : start[i]));
        assert_true(part.optim.m[i] == (trained ? whole.optim.m[i] : 0));
        assert_true(part.optim.v[i] == (trained ? whole.optim.v[i] : 0));
        assert_true(!trained || is_padding(i) || part.values[i] != start[i]);
    }
    free(start);
    fixture_free(&part);
    fixture_free(&whole);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(follows_the_formulas_over_many_steps),
        cmocka_unit_test(the_first_step_is_the_rate),
        cmocka_unit_test(clipping_shrinks_and_never_enlarges),
        cmocka_unit_test(the_same_bits_for_any_threads),
        cmocka_unit_test(other_floats_keep_their_bits),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
