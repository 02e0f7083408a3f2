/* The targets against double precision: exact targets from all pairs, estimated ones from the features
   drawn, with both stabilisers; the mean of estimates close to the exact targets for short rows; and the
   weight of a token in no group or in several. Bugs planted and caught: a key in two groups counted in
   one; targets of keys by the homes of keys; not divided by the sum over all keys; the sum over kept keys
   only; T over one tile; homes of a token shifted by one; a block that begins with the sums of the
   previous one; its last row left out; all blocks in one slot; weights of queries left out, or used for
   keys.
   SPDX-License-Identifier: Apache-2.0 */
#include "parts/groups/utility.h"

#include <float.h>
#include <math.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "base/random.h"
#include "support/check.h"

enum { N_Q = 600, N_K = 531, D = 8, LD = 11, B = 5, R = 47 };

static float rows[2][N_Q * LD], given[2][N_Q * B];
static double want[2][N_Q * B];
static uint8_t in[2][N_Q * B];
static uint32_t starts[2][N_Q + 1], groups[2][N_Q * B];
static float weights[N_Q]; /* of queries, in the targets of keys */

/* Rows of both sides passed on so far. With one thread they arrive in order. */
struct taken {
    size_t workers, passed[2];
    atomic_size_t open[4]; /* rows added to a slot since it was closed */
};

static void take(void *argument, enum utility_side side, size_t first, size_t count, const float *psi,
                 size_t slot)
{
    struct taken *taken = argument;
    assert_true(slot < taken->workers);
    assert_true(taken->workers > 1 || taken->passed[side] + taken->open[0] == first);
    taken->open[slot] += count;
    for (size_t i = 0; i < count; i++) {
        double sum = 0;
        for (size_t b = 0; b < B; b++)
            sum += (double)psi[i * B + b];
        for (size_t b = 0; b < B; b++)
            given[side][(first + i) * B + b] = sum > 0 ? (float)((double)psi[i * B + b] / sum) : 0;
    }
}

static void close_slot(void *argument, size_t slot)
{
    struct taken *taken = argument;
    size_t count = taken->open[slot];
    bool queries = taken->passed[0] < N_Q;
    assert_true(count > 0 && count <= UTILITY_BLOCK);
    taken->passed[queries ? 0 : 1] += count;
    taken->open[slot] = 0;
}

static void fill(float size)
{
    static const size_t n[2] = {N_Q, N_K};
    for (size_t i = 0; i < N_Q; i++)
        weights[i] = 1;
    for (size_t s = 0; s < 2; s++) {
        random_normals(s + 1, 0, rows[s], N_Q * LD);
        for (size_t i = 0; i < N_Q * LD; i++)
            rows[s][i] *= size;
        struct random random = random_open(s + 5);
        for (size_t i = 0, at = 0; i < n[s]; i++) {
            starts[s][i] = (uint32_t)at;
            for (size_t b = 0; b < B; b++)
                if ((in[s][i * B + b] = random_below(&random, 4) == 0))
                    groups[s][at++] = (uint32_t)b;
            starts[s][i + 1] = (uint32_t)at;
        }
    }
}

static float *draw(size_t count)
{
    size_t work_floats = features_work_size(count, D, 1) / sizeof(float);
    float *work = guard_floats(work_floats), *block = guard_floats(features_count(count, D));
    features_draw(kernels_named(NULL, &(const char *){0}), NULL, count, D, 9, block, work);
    guard_free(work, work_floats);
    return block;
}

static double dot(size_t i, size_t j)
{
    double sum = 0;
    for (size_t c = 0; c < D; c++)
        sum += (double)rows[0][i * LD + c] * (double)rows[1][j * LD + c];
    return sum;
}

static void norm_want(size_t side, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        double sum = 0;
        for (size_t b = 0; b < B; b++)
            sum += want[side][i * B + b];
        for (size_t b = 0; b < B; b++)
            want[side][i * B + b] = sum > 0 ? want[side][i * B + b] / sum : 0;
    }
}

/* From weights a (n_q, n_k) and, for keys, their sums over the row. */
static void fill_want(const double *a, const double *of_keys)
{
    memset(want, 0, sizeof want);
    for (size_t i = 0; i < N_Q; i++) {
        double sum = 0;
        for (size_t j = 0; j < N_K; j++)
            sum += of_keys[i * N_K + j];
        for (size_t j = 0; j < N_K; j++)
            for (size_t b = 0; b < B; b++) {
                want[0][i * B + b] += in[1][j * B + b] ? a[i * N_K + j] : 0;
                want[1][j * B + b] += in[0][i * B + b] ? (double)weights[i] * of_keys[i * N_K + j] / sum : 0;
            }
    }
    norm_want(0, N_Q);
    norm_want(1, N_K);
}

static void run(struct utility *u, double bound, const char *what)
{
    size_t floats;
    struct taken taken = {.workers = u->workers};
    u->num_queries = N_Q;
    u->num_keys = N_K;
    u->dim = D;
    u->num_groups = B;
    u->query = (struct view){rows[0], N_Q, D, LD, DTYPE_FLOAT32};
    u->key = (struct view){rows[1], N_K, D, LD, DTYPE_FLOAT32};
    u->query_homes = (struct homes){starts[0], groups[0]};
    u->key_homes = (struct homes){starts[1], groups[1]};
    u->take = take;
    u->close = close_slot;
    u->argument = &taken;
    floats = utility_size(u) / sizeof(float);
    float *scratch = guard_floats(floats);
    memset(scratch, 0xff, floats * sizeof *scratch);
    utility_targets(u, scratch);
    guard_free(scratch, floats);
    assert_int_equal(taken.passed[0], N_Q);
    assert_int_equal(taken.passed[1], N_K);
    for (size_t i = 0; i < N_Q * B; i++)
        check_near((double)given[0][i], want[0][i], bound, what);
    for (size_t i = 0; i < N_K * B; i++)
        check_near((double)given[1][i], want[1][i], bound, what);
}

static void exact_targets_are_shares_of_attention(void **state)
{
    (void)state;
    double *a = calloc(N_Q * N_K, sizeof *a);
    fill(1);
    for (size_t i = 0; i < N_Q * N_K; i++)
        a[i] = exp(dot(i / N_K, i % N_K) / sqrt(D));
    fill_want(a, a);
    for (const struct kernels *const *kernels = kernels_all(); *kernels != NULL; kernels++)
        /* Scores below 20 in 8 terms and sums of 150 terms, each with a relative error of 1e-5. */
        run(&(struct utility){.workers = 1, .kernels = *kernels}, 2e-5, "exact target");
    /* Weights of queries affect only the targets of keys. */
    for (size_t i = 0; i < N_Q; i++)
        weights[i] = (float)(i % 7) * 0.5f;
    fill_want(a, a);
    run(&(struct utility){.workers = 1,
                          .kernels = kernels_named(NULL, &(const char *){0}),
                          .query_weights = weights},
        2e-5, "weighted target");
    free(a);
}

/* phi of a row, by the definition. */
static void feature(double *phi, const float *x, const float *directions, double shrink, double stab)
{
    for (size_t r = 0; r < R; r++) {
        double exponent = -stab;
        for (size_t c = 0; c < D; c++) {
            double number = shrink * (double)x[c];
            exponent += number * (double)directions[c * R + r] - number * number / (2 * sqrt(D));
        }
        phi[r] = exp(exponent) + 1e-6;
    }
}

/* The largest exponent of n rows. */
static double level(const float *x, size_t n, const float *directions, double shrink)
{
    double phi[R], most = -INFINITY;
    for (size_t i = 0; i < n; i++) {
        feature(phi, x + i * LD, directions, shrink, 0);
        for (size_t r = 0; r < R; r++)
            most = fmax(most, log(phi[r] - 1e-6));
    }
    return most;
}

/* block: (D, R) the directions of all features; a, of_keys: (N_Q, N_K) room. */
static void check_estimates(const float *block, const float *given_directions, bool both_signs, double *a,
                            double *of_keys)
{
    for (int swapped = 0; swapped < 2; swapped++)
        for (int twice = 0; twice < 2; twice++) {
            double shrink = twice ? 1 / sqrt(D) : 1, query_level = level(rows[0], N_Q, block, 1),
                   other_level = level(rows[0], N_Q, block, shrink),
                   key_level = level(rows[1], N_K, block, 1);
            for (size_t i = 0; i < N_Q; i++)
                for (size_t j = 0; j < N_K; j++) {
                    double q[R], other[R], k[R];
                    const float *x = rows[0] + i * LD, *y = rows[1] + j * LD;
                    feature(q, x, block, 1, swapped ? query_level : level(x, 1, block, 1));
                    feature(other, x, block, shrink, swapped ? other_level : level(x, 1, block, shrink));
                    feature(k, y, block, 1, swapped ? level(y, 1, block, 1) : key_level);
                    a[i * N_K + j] = of_keys[i * N_K + j] = 0;
                    for (size_t r = 0; r < R; r++) {
                        a[i * N_K + j] += q[r] * k[r];
                        of_keys[i * N_K + j] += other[r] * k[r];
                    }
                }
            fill_want(a, of_keys);
            for (const struct kernels *const *kernels = kernels_all(); *kernels != NULL; kernels++)
                run(&(struct utility){.workers = 1,
                                      .kernels = *kernels,
                                      .num_features = R,
                                      .directions = given_directions,
                                      .both_signs = both_signs,
                                      .swapped = swapped != 0,
                                      .twice_scaled = twice != 0},
                    5e-5, "estimated target");
        }
}

static void estimates_are_those_of_the_features(void **state)
{
    (void)state;
    float *block = draw(R);
    double *a = calloc(2 * N_Q * N_K, sizeof *a), *of_keys = a + N_Q * N_K;
    fill(1);
    check_estimates(block, block, false, a, of_keys);
    guard_free(block, features_count(R, D));
    /* Both signs: the oracle has the directions of both. */
    float *half = draw(R - R / 2), *whole = guard_floats(features_count(R, D));
    for (size_t c = 0; c < D; c++)
        for (size_t r = 0; r < R; r++)
            whole[c * R + r] =
                r < R - R / 2 ? half[c * (R - R / 2) + r] : -half[c * (R - R / 2) + r - (R - R / 2)];
    check_estimates(whole, half, true, a, of_keys);
    guard_free(whole, features_count(R, D));
    guard_free(half, features_count(R - R / 2, D));
    free(a);
}

/* Groups are processed in parallel; the result does not change. */
static void threads_do_not_change_a_bit(void **state)
{
    (void)state;
    static float one[2][N_Q * B];
    static const int threads[] = {1, 2, 3, 4};
    float *block = draw(R);
    struct host host;
    host_init(&host);
    fill(1);
    for (size_t features = 0; features <= R; features += R)
        for (size_t t = 0; t < sizeof threads / sizeof *threads; t++) {
            struct pool *pool;
            check_status(&host, pool_new(&host, threads[t], &pool), HASHATTN_OK, NULL);
            struct utility u = {.kernels = kernels_named(NULL, &(const char *){0}),
                                .pool = pool,
                                .workers = (size_t)threads[t],
                                .num_features = features,
                                .directions = block,
                                .swapped = true,
                                .twice_scaled = true};
            run(&u, INFINITY, "any");
            if (t == 0)
                memcpy(one, given, sizeof one);
            check_same_bits(one, given, sizeof one, "on several threads");
            pool_free(&host, pool);
        }
    guard_free(block, features_count(R, D));
}

/* Short rows, many features: the estimate is within 0.01 of the exact target, which is about a fifth. */
static void estimates_come_near_the_exact(void **state)
{
    (void)state;
    enum { MANY = 4096 };
    float *block = draw(MANY);
    double *a = calloc(N_Q * N_K, sizeof *a);
    fill(0.5f);
    for (size_t i = 0; i < N_Q * N_K; i++)
        a[i] = exp(dot(i / N_K, i % N_K) / sqrt(D));
    fill_want(a, a);
    run(&(struct utility){.workers = 1,
                          .kernels = kernels_named(NULL, &(const char *){0}),
                          .num_features = MANY,
                          .directions = block},
        0.01, "estimate");
    guard_free(block, features_count(MANY, D));
    free(a);
}

static void homes_are_found(void **state)
{
    (void)state;
    uint32_t start[] = {0, 3, 3, 5}, list[] = {0, 2, 3, 1, 2}, home_start[5], home[5];
    struct members members = {3, start, list};
    struct homes homes = {home_start, home};
    homes_by_lists(&homes, &members, 4);
    static const uint32_t starts_wanted[] = {0, 1, 2, 4, 5}, wanted[] = {0, 2, 0, 2, 0};
    assert_memory_equal(home_start, starts_wanted, sizeof starts_wanted);
    assert_memory_equal(home, wanted, sizeof wanted);
    static const uint32_t choice[] = {2, 0, 1};
    homes_by_choice(&homes, choice, 3, 1);
    for (size_t i = 0; i < 3; i++)
        assert_true(home_start[i] == i && home_start[i + 1] == i + 1 && home[i] == choice[i]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(exact_targets_are_shares_of_attention),
        cmocka_unit_test(estimates_are_those_of_the_features),
        cmocka_unit_test(estimates_come_near_the_exact),
        cmocka_unit_test(threads_do_not_change_a_bit),
        cmocka_unit_test(homes_are_found),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
