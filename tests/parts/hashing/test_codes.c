/* Codes in blocks of rows equal the codes of single rows, for both widths. The length of a row does not
   change its code, except that a row shorter than 1e-12 has code 0. With every projection.
   Bugs planted and caught: offset of a block counted in rows, widths mixed up at 16 bits, short rows
   hashed, huge rows left to overflow, a row packed without being normalized, bytes scaled to 64 instead of
   127.
   SPDX-License-Identifier: Apache-2.0 */
#include "parts/hashing/codes.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/random.h"
#include "parts/hashing/planes.h"
#include "support/check.h"

enum { N = 2 * CODES_ROWS + 5, D = 6, LD = 16, M = 19 };

static uint32_t code_at(const struct codes *codes, size_t row, size_t hash)
{
    size_t at = row * codes->num_hashes + hash;
    return codes->wide ? ((const uint32_t *)codes->data)[at] : ((const uint16_t *)codes->data)[at];
}

enum { PROJECTIONS = 4 };
static const enum hash_projection projections[PROJECTIONS] = {HASH_F32, HASH_INT16_DP, HASH_BF16_DP,
                                                              HASH_INT8_DP};

/* Hyperplanes drawn and rotated, as codes_hash takes them. */
static void *planes_of(const struct kernels *kernels, const struct hashing *hashing, size_t dim)
{
    const struct planes_form form = {.kind = PLANES_GAUSSIAN,
                                     .num_hashes = hashing->num_hashes,
                                     .hash_bits = hashing->hash_bits,
                                     .dim = dim};
    float *drawn = malloc(planes_count(&form) * sizeof *drawn);
    void *rotated = malloc(planes_count(&form) * sizeof *drawn);
    uint32_t *permutation = malloc(dim * sizeof *permutation);
    float *sign = malloc(dim * sizeof *sign);
    planes_draw(kernels, NULL, &form, 2, drawn, NULL);
    planes_rotate(kernels, hashing->projection, rotated, drawn, &form, 3, permutation, sign);
    free(drawn), free(permutation), free(sign);
    return rotated;
}

static void check_blocks(size_t hash_bits, enum hash_projection projection)
{
    const struct hashing hashing = {.num_hashes = M, .hash_bits = hash_bits, .projection = projection};
    const struct kernels *kernels = kernels_named(NULL, &(const char *){0});
    static float x[N * D], rows[CODES_ROWS * LD], squares[CODES_ROWS];
    size_t bytes = codes_size(&hashing, N);
    assert_true(bytes == N * M * (hash_bits > 16 ? 4 : 2));
    void *all = malloc(bytes), *one = malloc(codes_size(&hashing, 1));
    void *planes = planes_of(kernels, &hashing, D);
    random_normals(1, 0, x, N * D);
    codes_hash(kernels, all, &hashing, x, D, N, D, planes, rows, LD, squares);
    struct codes codes = codes_at(&hashing, all, N), single = codes_at(&hashing, one, 1);
    for (size_t i = 0; i < N; i++) {
        codes_hash(kernels, one, &hashing, x + i * D, D, 1, D, planes, rows, LD, squares);
        for (size_t h = 0; h < M; h++) {
            assert_int_equal(code_at(&codes, i, h), code_at(&single, 0, h));
            assert_true(code_at(&codes, i, h) < (uint32_t)1 << hash_bits);
        }
    }
    free(all), free(one), free(planes);
}

static void blocks_are_rows(void **state)
{
    (void)state;
    for (size_t p = 0; p < PROJECTIONS; p++) {
        check_blocks(1, projections[p]);
        check_blocks(16, projections[p]);
        check_blocks(17, projections[p]);
        check_blocks(24, projections[p]);
    }
}

/* With the last length, the square of every coordinate overflows float. */
static void check_lengths(enum hash_projection projection)
{
    enum { LENGTHS = 7, ROWS = 40, BITS = 10 };
    static const float length[LENGTHS] = {1, 0x1p-30f, 0x1p55f, 0x1p125f, 0x1p-37f, 0x1p-45f, 0x1p-90f};
    const struct hashing hashing = {.num_hashes = M, .hash_bits = BITS, .projection = projection};
    static float rows[CODES_ROWS * LD], squares[CODES_ROWS];
    float x[ROWS * D];
    uint16_t want[ROWS * M], got[ROWS * M];
    static const uint16_t zeros[ROWS * M];
    for (const struct kernels *const *kernels = kernels_all(); *kernels != NULL; kernels++) {
        void *planes = planes_of(*kernels, &hashing, D);
        for (size_t l = 0; l < LENGTHS; l++) {
            random_normals(1, 0, x, ROWS * D);
            for (size_t i = 0; i < ROWS * D; i++)
                x[i] *= length[l];
            codes_hash(*kernels, got, &hashing, x, D, ROWS, D, planes, rows, LD, squares);
            if (l == 0 && kernels == kernels_all())
                memcpy(want, got, sizeof want);
            bool is_short = l >= 5; /* 2^-45 is 3e-14 */
            check_same_bits(got, is_short ? zeros : want, sizeof want, "codes of scaled rows");
        }
        free(planes);
    }
}

static void lengths_change_no_code(void **state)
{
    (void)state;
    for (size_t p = 0; p < PROJECTIONS; p++)
        check_lengths(projections[p]);
}

/* Share of bits that differ from those of float32, at d 64. A vector and a hyperplane each move by an
   angle a, and a bit flips with probability sqrt(2) a / pi. a is the root mean square of the roundings.
   Fixed point: sqrt(64 / 12) / 32767 = 7.0e-5, so 3.2e-5 of the bits. bfloat16: about 0.41 of 2^-8
   (uniform within half a step, steps between 2^-8 and 2^-7 of the number), so at most 7e-4. Bytes: 5.9e-3
   (the largest of 64 normals is 2.6 of them, sqrt(64 / 12) 2.6 / 127 over a length of 8), so 2.7e-3. The
   shares agree within a third. They also hold against exact arithmetic, since f32 flips fewer than one bit
   in a million. */
static void few_bits_are_other_than_in_float32(void **state)
{
    (void)state;
    enum { ROWS = 3000, HASHES = 64, BITS = 8, DIM = 64 };
    static const double least[PROJECTIONS] = {0, 2e-5, 3e-4, 2e-3},
                        most[PROJECTIONS] = {0, 4.5e-5, 8e-4, 3.6e-3};
    static uint16_t codes[PROJECTIONS][ROWS * HASHES];
    static float x[ROWS * DIM], rows[CODES_ROWS * DIM], squares[CODES_ROWS];
    const struct kernels *kernels = kernels_named(NULL, &(const char *){0});
    random_normals(1, 0, x, ROWS * DIM);
    for (size_t p = 0; p < PROJECTIONS; p++) {
        const struct hashing hashing = {
            .num_hashes = HASHES, .hash_bits = BITS, .projection = projections[p]};
        void *planes = planes_of(kernels, &hashing, DIM);
        codes_hash(kernels, codes[p], &hashing, x, DIM, ROWS, DIM, planes, rows, DIM, squares);
        free(planes);
        double other = 0;
        for (size_t i = 0; i < ROWS * HASHES; i++)
            other += __builtin_popcount(codes[p][i] ^ codes[0][i]);
        double share = other / ((double)ROWS * HASHES * BITS);
        if (!(share >= least[p] && share <= most[p]))
            fail_msg("projection %d: a share of %.2e of all bits differs", projections[p], share);
    }
}

/* ---- bytes rotate rows --------------------------------------------------------------------------------- */

enum { BYTES_DIM = 64, BYTES_PAIRS = 4000 };

static double angle_of(const double *a, const double *b)
{
    double aa = 0, bb = 0, apart = 0, together = 0;
    for (size_t c = 0; c < BYTES_DIM; c++)
        aa += a[c] * a[c], bb += b[c] * b[c];
    for (size_t c = 0; c < BYTES_DIM; c++) {
        apart += pow(a[c] / sqrt(aa) - b[c] / sqrt(bb), 2);
        together += pow(a[c] / sqrt(aa) + b[c] / sqrt(bb), 2);
    }
    return 2 * atan2(sqrt(apart), sqrt(together));
}

/* Output of hash.pack_rows for a row, without the offset 128. */
static void bytes_of(double *to, const float *row)
{
    uint32_t words[BYTES_DIM / 4];
    float square;
    kernels_named(NULL, &(const char *){0})
        ->hash.pack_rows(words, BYTES_DIM / 4, &square, HASH_INT8_DP, row, BYTES_DIM, 1, BYTES_DIM);
    for (size_t c = 0; c < BYTES_DIM; c++)
        to[c] = (double)(words[c / 4] >> (8 * (c % 4)) & 0xff) - 128;
}

/* A generic pair at this angle. */
static void draw_pair(uint64_t key, double angle, float *x, float *y)
{
    float other[BYTES_DIM];
    double xx = 0, xo = 0, oo = 0;
    random_normals(random_key(key, RANDOM_BENCH, 0), 0, x, BYTES_DIM);
    random_normals(random_key(key, RANDOM_BENCH, 1), 0, other, BYTES_DIM);
    for (size_t c = 0; c < BYTES_DIM; c++)
        xx += (double)x[c] * (double)x[c], xo += (double)x[c] * (double)other[c];
    for (size_t c = 0; c < BYTES_DIM; c++)
        other[c] -= (float)(xo / xx) * x[c], oo += (double)other[c] * (double)other[c];
    for (size_t c = 0; c < BYTES_DIM; c++)
        y[c] = (float)(cos(angle) * (double)x[c] + sin(angle) * sqrt(xx / oo) * (double)other[c]);
}

/* The table of docs/MATH.md: (1 - angle'/pi)^tau of the rounded rows over that of the given rows, minus
   one, in percent, at d 64. The ratio of one pair has a standard deviation of 0.14 % (tau 4) to 1.1 % (tau
   16), so the mean of 4,000 has at most 0.017; 5 of those plus the rounding of the table are allowed. No
   row rotates by more than arcsin(sqrt(d) / 254). */
static void bytes_turn_rows_as_documented(void **state)
{
    (void)state;
    static const int bits[] = {4, 9, 16};
    static const struct {
        double cosine, bias[3];
    } table[] = {{0, {0, 0, 0}},
                 {0.5, {-0.004, -0.009, -0.015}},
                 {0.8, {-0.009, -0.020, -0.035}},
                 {0.9, {-0.010, -0.021, -0.037}},
                 {0.99, {-0.033, -0.073, -0.129}},
                 {0.9999, {-0.284, -0.637, -1.129}},
                 {0.9999875, {-0.507, -1.138, -2.013}}};
    const double pi = 3.14159265358979323846;
    for (size_t t = 0; t < sizeof table / sizeof *table; t++) {
        double ratio[3] = {0}, angle = acos(table[t].cosine);
        for (uint64_t pair = 0; pair < BYTES_PAIRS; pair++) {
            float x[BYTES_DIM], y[BYTES_DIM];
            double given[BYTES_DIM], a[BYTES_DIM], b[BYTES_DIM];
            draw_pair(pair + 10000 * t, angle, x, y);
            bytes_of(a, x);
            bytes_of(b, y);
            for (size_t c = 0; c < BYTES_DIM; c++)
                given[c] = (double)x[c];
            assert_true(angle_of(given, a) < asin(sqrt(BYTES_DIM) / 254));
            for (size_t p = 0; p < 3; p++)
                ratio[p] += pow((1 - angle_of(a, b) / pi) / (1 - angle / pi), bits[p]) / BYTES_PAIRS;
        }
        for (size_t p = 0; p < 3; p++)
            check_near(100 * (ratio[p] - 1), table[t].bias[p], 0.009 * bits[p] / 2, "percent of bias");
    }
    float x[BYTES_DIM];
    double a[BYTES_DIM], b[BYTES_DIM];
    random_normals(1, 0, x, BYTES_DIM);
    bytes_of(a, x);
    for (size_t c = 0; c < BYTES_DIM; c++)
        x[c] *= 0.5f; /* identical directions stay identical */
    bytes_of(b, x);
    check_same_bits(a, b, sizeof a, "rows of one direction");
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(blocks_are_rows),
                                       cmocka_unit_test(lengths_change_no_code),
                                       cmocka_unit_test(few_bits_are_other_than_in_float32),
                                       cmocka_unit_test(bytes_turn_rows_as_documented)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
