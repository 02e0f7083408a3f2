/* Hashes that share a pool of planes: codes against products in double precision, and for Hadamard planes
   against the codes of the pool; two hashes share at most one plane; each hash by itself collides as often as
   one with planes of its own; the variance of the mean over hashes is that of docs/MATH.md, section 3.4.
   Bugs planted and caught: only bit 0 gathered; bit 1 read from the pool hash of bit 0; planes numbered by
   bit first; the pool's codes of a second block of rows not computed; a pool as large as the number of hashes
   still shared; one key for all bits; the bits of a hash from one block; transforms drawn for all hashes; no
   work space for hash.pooled_codes.
   SPDX-License-Identifier: Apache-2.0 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/random.h"
#include "parts/hashing/hadamard.h"
#include "parts/hashing/hasher.h"
#include "support/check.h"

#define PI 3.14159265358979323846

enum { MOST_DIM = 64 };

/* Planes of one head, and what codes_hash needs. */
struct head {
    struct yoso_options options;
    struct hashing hashing;
    struct planes_form form;
    size_t dim, drawn_floats;
    float *drawn, *rotated, *rows, sign[MOST_DIM], squares[CODES_ROWS];
    uint32_t permutation[MOST_DIM];
    void *work;
};

static const struct kernels *best(void)
{
    return kernels_named(NULL, &(const char *){0});
}

static struct head head_new(int planes, int projection, size_t m, size_t bits, size_t r, size_t dim)
{
    struct head head = {.dim = dim};
    options_preset(yoso_sampled_rows, &head.options);
    head.options.num_hashes = (int64_t)m;
    head.options.hash_bits = (int64_t)bits;
    head.options.plane_pool = (int64_t)r;
    head.options.planes = planes;
    head.options.projection = projection;
    head.hashing = hashing_of(&head.options);
    head.form = hasher_form(&head.options, dim);
    bool transforms = hadamard_is(planes);
    head.drawn_floats = transforms ? hadamard_size(&head.form) / sizeof(float) : planes_count(&head.form);
    head.drawn = guard_floats(head.drawn_floats);
    head.rotated = malloc(hasher_planes(&head.options, dim) * sizeof(float));
    head.rows = guard_floats(codes_work(&head.hashing, dim));
    head.work = aligned_alloc(64, planes_work_size(&head.form, 1) / 64 * 64 + 64);
    return head;
}

static void head_draw(struct head *head, uint64_t key)
{
    if (hadamard_is(head->options.planes)) {
        hadamard_draw(&head->form, key, head->drawn);
        hadamard_rotate(&head->hashing, head->dim, (uint32_t *)(void *)head->rotated, head->drawn, key + 1,
                        head->permutation, head->sign);
        return;
    }
    planes_draw(best(), NULL, &head->form, key, head->drawn, head->work);
    planes_rotate(best(), head->hashing.projection, head->rotated, head->drawn, &head->form, key + 1,
                  head->permutation, head->sign);
}

static void head_hash(struct head *head, const struct hashing *hashing, const float *x, size_t n, void *codes)
{
    codes_hash(best(), codes, hashing, x, head->dim, n, head->dim, head->rotated, head->rows,
               unit_padded(head->dim), head->squares);
}

static void head_free(struct head *head)
{
    guard_free(head->rows, codes_work(&head->hashing, head->dim));
    guard_free(head->drawn, head->drawn_floats);
    free(head->rotated), free(head->work);
}

static uint32_t code_at(const void *codes, bool wide, size_t at)
{
    return wide ? ((const uint32_t *)codes)[at] : ((const uint16_t *)codes)[at];
}

/* <x, plane> of a pool hash and a bit, divided by |x|. */
static double product_of(const struct head *head, const float *x, size_t hash, size_t bit)
{
    size_t plane = hash * head->form.hash_bits + bit;
    const float *at = head->drawn + plane / HASH_LANES * head->dim * HASH_LANES + plane % HASH_LANES;
    double sum = 0, square = 0;
    for (size_t c = 0; c < head->dim; c++) {
        sum += (double)x[c] * (double)head->sign[c] * (double)at[head->permutation[c] * HASH_LANES];
        square += (double)x[c] * (double)x[c];
    }
    return sum / sqrt(square);
}

/* Rounding turns rows by at most this many radians. */
static double rounding_of(int projection)
{
    return projection == HASH_F32 ? 1e-6 : projection == HASH_INT16_DP ? 1e-3 : 0.05;
}

static void codes_are_signs_of_products(void **state)
{
    (void)state;
    enum { N = CODES_ROWS + 9, DIM = 19 };
    static const size_t shapes[][3] = {{64, 9, 17}, {20, 3, 5}, {40, 17, 37}, {33, 5, 7}, {50, 16, 47}};
    static float x[N * DIM];
    random_normals(3, 0, x, N * DIM);
    for (size_t s = 0; s < sizeof shapes / sizeof *shapes; s++)
        for (int form = 0; form < 8; form++) {
            size_t m = shapes[s][0], bits = shapes[s][1], r = shapes[s][2], checked = 0;
            struct head head = head_new(form % 2, HASH_F32 + form / 2, m, bits, r, DIM);
            void *codes = malloc(codes_size(&head.hashing, N));
            head_draw(&head, 11 + s);
            head_hash(&head, &head.hashing, x, N, codes);
            for (size_t i = 0; i < N; i += 1 + i % 7)
                for (size_t h = 0; h < m; h++)
                    for (size_t b = 0; b < bits; b++) {
                        double product = product_of(&head, x + i * DIM, (h % r + b * (h / r)) % r, b);
                        if (fabs(product) < rounding_of(head.options.projection))
                            continue;
                        uint32_t code = code_at(codes, bits > 16, i * m + h);
                        if ((code >> b & 1) != (product > 0))
                            fail_msg("planes %d projection %d m %zu tau %zu r %zu: row %zu hash %zu bit %zu",
                                     form % 2, head.options.projection, m, bits, r, i, h, b);
                        checked++;
                    }
            assert_true(checked > 20 * m * bits); /* of 36 rows */
            free(codes);
            head_free(&head);
        }
}

/* The same transforms without a pool give the codes of the pool. */
static void hadamard_codes_are_gathered(void **state)
{
    (void)state;
    enum { N = CODES_ROWS + 5, DIM = 40, M = 100, R = 11 }; /* more hashes than a block of 64 has rows */
    static float x[N * DIM];
    random_normals(4, 0, x, N * DIM);
    for (int form = 0; form < 2; form++) {
        struct head head = head_new(PLANES_HADAMARD, form ? HASH_F32 : HASH_AUTO, M, 9, R, DIM);
        struct hashing alone = head.hashing;
        alone.num_hashes = R;
        alone.pool = 0;
        static uint16_t codes[N * M], pool[N * R];
        head_draw(&head, 5);
        head_hash(&head, &head.hashing, x, N, codes);
        head_hash(&head, &alone, x, N, pool);
        for (size_t i = 0; i < N; i++)
            for (size_t h = 0; h < M; h++)
                for (size_t b = 0; b < 9; b++)
                    assert_int_equal(codes[i * M + h] >> b & 1,
                                     pool[i * R + (h % R + b * (h / R)) % R] >> b & 1);
        head_free(&head);
    }
}

/* A pool that is not smaller than the number of hashes changes nothing. */
static void large_pools_share_nothing(void **state)
{
    (void)state;
    enum { N = 20, DIM = 16, M = 13 };
    static float x[N * DIM];
    static uint16_t codes[3][N * M];
    random_normals(5, 0, x, N * DIM);
    for (size_t i = 0; i < 3; i++) {
        struct head head = head_new(PLANES_ORTHOGONAL, HASH_AUTO, M, 4, i == 0 ? 0 : i == 1 ? 13 : 31, DIM);
        assert_int_equal(head.hashing.pool, 0);
        head_draw(&head, 6);
        head_hash(&head, &head.hashing, x, N, codes[i]);
        check_same_bits(codes[i], codes[0], sizeof codes[0], "codes with a large pool");
        head_free(&head);
    }
}

/* The pool hash that each hash reads bit b from, found by marking one pool hash at a time. */
static void find_planes(size_t r, size_t m, size_t bits, uint16_t *plane)
{
    uint16_t *pool = calloc(r, sizeof *pool), *codes = malloc(m * sizeof *codes);
    uint32_t *work = malloc(2 * POOL_ROWS * (r + HASH_LANES) * sizeof *work);
    memset(plane, 0xff, m * bits * sizeof *plane);
    for (size_t i = 0; i < r; i++) {
        pool[i] = (uint16_t)((1u << bits) - 1);
        best()->hash.pooled_codes(codes, false, pool, 1, r, m, bits, work);
        pool[i] = 0;
        for (size_t h = 0; h < m; h++)
            for (size_t b = 0; b < bits; b++)
                if (codes[h] >> b & 1) {
                    assert_int_equal(plane[h * bits + b], 0xffff); /* one plane per bit */
                    plane[h * bits + b] = (uint16_t)i;
                }
    }
    free(pool), free(codes), free(work);
}

/* Ordered pairs of hashes that share a plane: tau (r k (k - 1) + 2 s k) for m = k r + s. */
static size_t count_sharing(size_t r, size_t m, size_t bits)
{
    size_t k = m / r, s = m % r;
    return bits * (r * k * (k > 0 ? k - 1 : 0) + 2 * s * k);
}

static void two_hashes_share_at_most_one_plane(void **state)
{
    (void)state;
    static const size_t pools[] = {2, 3, 5, 7, 11, 13, 17, 31};
    static uint16_t plane[300 * 16];
    for (size_t p = 0; p < sizeof pools / sizeof *pools; p++)
        for (size_t bits = 2; bits <= pools[p] && bits <= 16; bits++) {
            size_t r = pools[p], m = r * r < 300 ? r * r : 300, sharing = 0;
            find_planes(r, m, bits, plane);
            for (size_t h = 0; h < m; h++)
                for (size_t other = 0; other < m; other++) {
                    size_t shared = 0;
                    for (size_t b = 0; b < bits; b++)
                        shared += plane[h * bits + b] == plane[other * bits + b];
                    assert_true(h == other ? shared == bits : shared <= 1);
                    sharing += h != other && shared == 1;
                }
            assert_int_equal(sharing, count_sharing(r, m, bits));
        }
}

enum { M = 25, R = 5, TAU = 3 };

/* For two vectors at an angle: the draws in which each hash collides, and the mean and variance of the share
   of hashes that do. */
static void count_collisions(int planes, size_t dim, double angle, int draws, double met[M], double *mean,
                             double *variance)
{
    struct head head = head_new(planes, HASH_AUTO, M, TAU, R, dim);
    float pair[2 * MOST_DIM] = {0};
    uint16_t codes[2 * M];
    double sum = 0, squares = 0;
    float *other = pair + dim, along = 0, squares_of[2] = {0, 0}; /* generic, for Hadamard planes */
    random_normals(21, 0, pair, 2 * dim);
    for (size_t c = 0; c < dim; c++) {
        along += pair[c] * other[c];
        squares_of[0] += pair[c] * pair[c];
    }
    for (size_t c = 0; c < dim; c++) {
        other[c] -= along / squares_of[0] * pair[c];
        squares_of[1] += other[c] * other[c];
    }
    for (size_t c = 0; c < dim; c++)
        other[c] = (float)cos(angle) * pair[c] / sqrtf(squares_of[0]) +
                   (float)sin(angle) * other[c] / sqrtf(squares_of[1]);
    memset(met, 0, M * sizeof *met);
    for (int i = 0; i < draws; i++) {
        head_draw(&head, random_key(17, RANDOM_BENCH, (uint64_t)i));
        head_hash(&head, &head.hashing, pair, 2, codes);
        double share = 0;
        for (size_t h = 0; h < M; h++) {
            met[h] += codes[h] == codes[M + h];
            share += (codes[h] == codes[M + h]) / (double)M;
        }
        sum += share;
        squares += share * share;
    }
    head_free(&head);
    *mean = sum / draws;
    *variance = squares / draws - *mean * *mean;
}

static void each_hash_keeps_the_law(void **state)
{
    (void)state;
    enum { DRAWS = 4000 };
    for (int planes = PLANES_GAUSSIAN; planes <= PLANES_HADAMARD; planes++)
        for (int a = 1; a <= 5; a += 2) {
            double angle = PI * a / 10, want = pow(1 - angle / PI, TAU), met[M], mean, variance;
            count_collisions(planes, planes == PLANES_HADAMARD ? 64 : 8, angle, DRAWS, met, &mean, &variance);
            double total = (mean - want) / sqrt(variance / DRAWS);
            for (size_t h = 0; h < M; h++) {
                double z = (met[h] - DRAWS * want) / sqrt(DRAWS * want * (1 - want));
                if (!(fabs(z) < 5))
                    fail_msg("planes %d, angle %.2f: hash %zu met %.0f times of %d, z %.1f", planes, angle, h,
                             met[h], DRAWS, z);
            }
            if (!(fabs(total) < 4.5))
                fail_msg("planes %d, angle %.2f: mean %.4f, want %.4f, z %.1f", planes, angle, mean, want,
                         total);
        }
}

/* Independent planes: two hashes that share one have covariance p^(2 tau - 1) (1 - p). */
static void variance_has_the_term_of_shared_planes(void **state)
{
    (void)state;
    enum { DRAWS = 12000 };
    for (int a = 1; a <= 5; a += 2) {
        double angle = PI * a / 10, p = 1 - angle / PI, w = pow(p, TAU), met[M], mean, variance;
        double apart = w * (1 - w) / M, sharing = (double)count_sharing(R, M, TAU);
        double want = apart + sharing / M / M * pow(p, 2 * TAU - 1) * (1 - p);
        count_collisions(PLANES_GAUSSIAN, 8, angle, DRAWS, met, &mean, &variance);
        check_near(variance, want, 0.08 * want, "variance of the share of hashes");
        assert_true(want > 1.3 * apart);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(codes_are_signs_of_products),
        cmocka_unit_test(hadamard_codes_are_gathered),
        cmocka_unit_test(large_pools_share_nothing),
        cmocka_unit_test(two_hashes_share_at_most_one_plane),
        cmocka_unit_test(each_hash_keeps_the_law),
        cmocka_unit_test(variance_has_the_term_of_shared_planes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
