/* Hyperplanes by Hadamard matrices: codes are the signs of the rows of H D3 H D2 H D1 computed in double,
   except where rounding decides; nothing overflows; and the collision probability over (1 - angle /
   pi)^tau is that of docs/MATH.md, by z-scores. HASHATTN_TEST_VERBOSE prints its tables,
   HASHATTN_LONG_TESTS takes 16 times as many draws.
   Bugs planted and caught: the signs of the head left out; its permutation of coordinates left out; the
   same signs for all bits; a factor so large that sums overflow; a factor too large above 64 coordinates.
   SPDX-License-Identifier: Apache-2.0 */
#include "parts/hashing/hadamard.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/random.h"
#include "parts/hashing/codes.h"
#include "parts/hashing/planes.h"
#include "support/check.h"

#define PI 3.14159265358979323846

/* The hyperplanes of a head, and what codes_hash needs to use them. */
struct head {
    struct hashing hashing;
    struct planes_form form;
    size_t dim, ld;
    uint32_t *drawn, *rotated, *permutation;
    float *sign, *rows, *squares;
    size_t drawn_bytes;
};

static struct planes_form form_of(int planes, size_t num_hashes, size_t hash_bits, size_t dim)
{
    return (struct planes_form){.kind = planes, .num_hashes = num_hashes, .hash_bits = hash_bits, .dim = dim};
}

static size_t size_of(int planes, size_t num_hashes, size_t hash_bits, size_t dim)
{
    const struct planes_form form = form_of(planes, num_hashes, hash_bits, dim);
    return hadamard_size(&form);
}

static struct head head_new(const struct hashing *hashing, size_t dim)
{
    struct head head = {.hashing = *hashing, .dim = dim, .ld = unit_padded(dim)};
    head.form = form_of(hashing->planes, hashing->num_hashes, hashing->hash_bits, dim);
    head.drawn_bytes = hadamard_size(&head.form);
    head.drawn = (uint32_t *)(void *)guard_floats(head.drawn_bytes / 4);
    head.rotated = (uint32_t *)(void *)guard_floats(hadamard_rotated_count(hashing, dim));
    head.permutation = malloc(dim * sizeof *head.permutation);
    head.sign = malloc(dim * sizeof *head.sign);
    head.rows = guard_floats(codes_work(hashing, dim));
    head.squares = malloc(CODES_ROWS * sizeof *head.squares);
    return head;
}

static void head_draw(struct head *head, uint64_t key)
{
    hadamard_draw(&head->form, key, head->drawn);
    hadamard_rotate(&head->hashing, head->dim, head->rotated, head->drawn, key + 1, head->permutation,
                    head->sign);
}

static void head_hash(const struct kernels *kernels, struct head *head, void *codes, const float *x, size_t n)
{
    codes_hash(kernels, codes, &head->hashing, x, head->dim, n, head->dim, head->rotated, head->rows,
               head->ld, head->squares);
}

static void head_free(struct head *head)
{
    guard_free((float *)(void *)head->drawn, head->drawn_bytes / 4);
    guard_free((float *)(void *)head->rotated, hadamard_rotated_count(&head->hashing, head->dim));
    guard_free(head->rows, codes_work(&head->hashing, head->dim));
    free(head->permutation), free(head->sign), free(head->squares);
}

/* ---- the oracle: explicit hyperplanes ------------------------------------------------------------------ */

static size_t width_of(size_t dim)
{
    size_t width = 32;
    while (width < dim)
        width *= 2;
    return width;
}

/* x H, from the definition of H by the parity of i & c. */
static void times_matrix(double *x, size_t width)
{
    double *out = malloc(width * sizeof *out);
    for (size_t i = 0; i < width; i++) {
        out[i] = 0;
        for (size_t c = 0; c < width; c++)
            out[i] += __builtin_parityll(i & c) ? -x[c] : x[c];
    }
    memcpy(x, out, width * sizeof *out);
    free(out);
}

/* plane (dim), of length 1: hash h, bit b, from the signs drawn and the rotation of the head. */
static void plane_of(const struct head *head, size_t h, size_t b, double *plane)
{
    size_t width = width_of(head->dim), tau = head->hashing.hash_bits;
    bool paper = head->hashing.planes == PLANES_HADAMARD_PAPER;
    size_t hashes = paper ? width / tau : width, row = h % hashes;
    size_t block = paper ? h / hashes : h / hashes * tau + b;
    const uint32_t *signs = head->drawn + block * 3 * width;
    double *x = calloc(width, sizeof *x), square = 0;
    x[paper ? row * tau + b : row] = 1;
    for (size_t k = 3; k-- > 0;) {
        times_matrix(x, width);
        for (size_t c = 0; c < width; c++)
            x[c] = signs[k * width + c] != 0 ? -x[c] : x[c];
    }
    for (size_t c = 0; c < head->dim; c++) {
        plane[c] = x[head->permutation[c]] * (double)head->sign[c];
        square += plane[c] * plane[c];
    }
    for (size_t c = 0; c < head->dim; c++)
        plane[c] /= sqrt(square);
    free(x);
}

/* Bound on how far rounding moves a row, relative to its length. The hyperplanes are the rows of the
   padded block, at most `cut` times as long as those cut to dim. Float: each stage rounds sums once, in a
   norm that grows as the sums do. Fixed point: docs/MATH.md. */
static double tolerance_of(const struct head *head)
{
    size_t width = width_of(head->dim), stages = 0, groups = 1;
    double w = (double)width, cut = sqrt(w / (double)head->dim) * 1.7;
    while ((size_t)1 << stages < width)
        stages++;
    if (head->hashing.projection == HASH_F32)
        return cut * 3 * (double)stages * 0x1p-24 * sqrt(w);
    double unit =
        sqrt(w) / 2 * pow(2, (double)stages / 2) / 31000; /* of one rounding followed by `stages` stages */
    if (stages > 6) {
        groups = (stages + 2) / 3;
        unit = sqrt(w) / 2 * pow(2, 1.5) / 28000;
    }
    return cut * (3 * (double)groups * unit + sqrt(w) / 2 / 32000);
}

/* Signs equal the oracle's wherever the product is not close to 0. Also counts the bits that may flip:
 *near of *bits lie within the tolerance. */
static void check_signs(const struct kernels *kernels, const struct hashing *hashing, size_t dim, size_t n)
{
    struct head head = head_new(hashing, dim);
    size_t m = hashing->num_hashes, near = 0, bits = n * m * hashing->hash_bits;
    head_draw(&head, dim + m);
    float *x = malloc(n * dim * sizeof *x);
    uint32_t *codes = malloc(n * m * sizeof *codes);
    double *plane = malloc(dim * sizeof *plane), tolerance = tolerance_of(&head);
    random_normals(random_key(dim, RANDOM_BENCH, m), 0, x, n * dim);
    head_hash(kernels, &head, codes, x, n);
    for (size_t h = 0; h < m; h++)
        for (size_t b = 0; b < hashing->hash_bits; b++) {
            plane_of(&head, h, b, plane);
            for (size_t i = 0; i < n; i++) {
                double dot = 0, square = 0;
                uint32_t code = hashing->hash_bits > 16 ? codes[i * m + h] : ((uint16_t *)codes)[i * m + h];
                for (size_t c = 0; c < dim; c++) {
                    dot += plane[c] * (double)x[i * dim + c];
                    square += (double)x[i * dim + c] * (double)x[i * dim + c];
                }
                if (fabs(dot) <= tolerance * sqrt(square))
                    near++;
                else if ((dot > 0) != (code >> b & 1))
                    fail_msg("%s, planes %d projection %d dim %zu: row %zu hash %zu bit %zu at %.2e",
                             kernels->name, hashing->planes, hashing->projection, dim, i, h, b,
                             dot / sqrt(square));
            }
        }
    assert_true((double)near <= fmax(5, 1.5 * sqrt((double)dim) * tolerance * (double)bits));
    free(x), free(codes), free(plane);
    head_free(&head);
}

static const enum hash_projection projections[] = {HASH_F32, HASH_INT16_DP};
static const int kinds[] = {PLANES_HADAMARD, PLANES_HADAMARD_PAPER};

static void codes_are_signs_of_planes(void **state)
{
    (void)state;
    static const struct {
        size_t dim, num_hashes, hash_bits;
    } shapes[] = {{64, 32, 9}, {32, 40, 3}, {33, 5, 20}, {48, 70, 2}, {100, 9, 7}, {256, 20, 4}, {600, 4, 3}};
    for (const struct kernels *const *kernels = kernels_all(); *kernels != NULL; kernels++)
        for (size_t s = 0; s < sizeof shapes / sizeof *shapes; s++)
            for (int form = 0; form < 4; form++) {
                const struct hashing hashing = {shapes[s].num_hashes, shapes[s].hash_bits,
                                                projections[form % 2], kinds[form / 2], 0};
                check_signs(*kernels, &hashing, shapes[s].dim, 40);
            }
}

/* A row along one of the hyperplanes has its whole length in one number at the end of the last round, the
   largest number possible. If it overflowed, it would have the wrong sign, and so would its opposite. */
static void the_longest_sums_do_not_overflow(void **state)
{
    (void)state;
    static const size_t dims[] = {32, 64, 128, 256, 512, 1024, 2048, 4096};
    const struct kernels *kernels = kernels_named(NULL, &(const char *){0});
    for (size_t d = 0; d < 8; d++) {
        size_t dim = dims[d];
        const struct hashing hashing = {8, 1, HASH_INT16_DP, PLANES_HADAMARD, 0};
        struct head head = head_new(&hashing, dim);
        double *plane = malloc(dim * sizeof *plane);
        float *x = malloc(dim * sizeof *x);
        for (uint64_t key = 0; key < (dim > 512 ? 1 : 5); key++)
            for (size_t h = 0; h < (dim > 512 ? 1 : 8); h++)
                for (int side = 0; side < 2; side++) {
                    uint16_t codes[8];
                    head_draw(&head, key);
                    plane_of(&head, h, 0, plane);
                    for (size_t c = 0; c < dim; c++)
                        x[c] = (float)(side ? -plane[c] : plane[c]);
                    head_hash(kernels, &head, codes, x, 1);
                    assert_int_equal(codes[h], !side);
                }
        free(plane), free(x);
        head_free(&head);
    }
}

/* Share of bits that differ in fixed point from float32: a row of `width` moves by the root of 3 groups
   2^s width / 12, over 32,500, and a bit flips with probability a / pi. */
static void few_bits_are_other_than_in_float32(void **state)
{
    (void)state;
    enum { N = 20000, M = 32 };
    static const struct {
        size_t dim;
        double angle;
    } widths[] = {{32, 4.9e-4}, {64, 9.8e-4}, {128, 7.4e-4}, {256, 1.1e-3}};
    const struct kernels *kernels = kernels_named(NULL, &(const char *){0});
    uint16_t *codes[2] = {malloc(N * M * sizeof **codes), malloc(N * M * sizeof **codes)};
    float *x = malloc(N * 256 * sizeof *x);
    random_normals(4, 0, x, N * 256);
    for (size_t w = 0; w < 4; w++) {
        double other = 0;
        for (size_t p = 0; p < 2; p++) {
            const struct hashing hashing = {M, 8, projections[p], PLANES_HADAMARD, 0};
            struct head head = head_new(&hashing, widths[w].dim);
            head_draw(&head, w);
            head_hash(kernels, &head, codes[p], x, N);
            head_free(&head);
        }
        for (size_t i = 0; i < N * M; i++)
            other += __builtin_popcount(codes[0][i] ^ codes[1][i]);
        check_near(other / (N * M * 8.0), widths[w].angle / PI, 0.12 * widths[w].angle / PI, "bits rotated");
    }
    free(codes[0]), free(codes[1]), free(x);
}

/* Heads rotate the same signs differently; short and huge rows have the codes of their unit rows. */
static void heads_and_lengths(void **state)
{
    (void)state;
    enum { N = 30, D = 64, M = 20 };
    static float x[N * D], y[N * D];
    static const float length[] = {0x1p-30f, 0x1p55f, 0x1p125f, 0x1p-90f};
    uint16_t first[N * M], second[N * M];
    static const uint16_t zeros[N * M];
    const struct kernels *kernels = kernels_named(NULL, &(const char *){0});
    for (size_t p = 0; p < 2; p++) {
        const struct hashing hashing = {M, 9, projections[p], PLANES_HADAMARD, 0};
        struct head head = head_new(&hashing, D);
        random_normals(1, 0, x, N * D);
        head_draw(&head, 1);
        head_hash(kernels, &head, first, x, N);
        for (size_t l = 0; l < 4; l++) {
            for (size_t i = 0; i < N * D; i++)
                y[i] = x[i] * length[l];
            head_hash(kernels, &head, second, y, N);
            check_same_bits(second, l == 3 ? zeros : first, sizeof first, "codes of scaled rows");
        }
        hadamard_rotate(&hashing, D, head.rotated, head.drawn, 77, head.permutation, head.sign);
        head_hash(kernels, &head, second, x, N);
        int same = 0;
        for (size_t i = 0; i < N * M; i++)
            same += first[i] == second[i];
        assert_true(same < 10); /* of 600; 1.2 expected */
        head_free(&head);
    }
}

/* ---- the law ------------------------------------------------------------------------------------------- */

/* Over draws of the hyperplanes: mean share of hashes in which a pair collides, over (1 - angle / pi)^tau,
   its standard error, and the variance of the share over that of independent hashes. */
struct law {
    double mean, error, variance;
};

enum { D = 64, M = 32, TAU = 9, PAIRS = 128, BATCHES = 16 };
enum inputs { GENERIC, BASIS }; /* pairs in the plane of two random vectors; of two basis vectors */

/* Makes v the vector at this cosine to u, in the plane of u and the given v. */
static void turn_to(const float *u, float *v, double cosine)
{
    double uu = 0, uv = 0, vv = 0;
    for (size_t c = 0; c < D; c++)
        uu += (double)u[c] * (double)u[c], uv += (double)u[c] * (double)v[c];
    for (size_t c = 0; c < D; c++) {
        v[c] -= (float)(uv / uu) * u[c];
        vv += (double)v[c] * (double)v[c];
    }
    for (size_t c = 0; c < D; c++)
        v[c] =
            (float)(cosine * (double)u[c] / sqrt(uu) + sqrt(1 - cosine * cosine) * (double)v[c] / sqrt(vv));
}

static void make_pairs(float *x, enum inputs inputs, double cosine)
{
    random_normals(random_key(1, RANDOM_BENCH, 7), 0, x, BATCHES * 2 * PAIRS * D);
    for (size_t q = 0; q < BATCHES * PAIRS; q++) {
        float *u = x + 2 * q * D, *v = u + D;
        if (inputs == BASIS) {
            memset(u, 0, 2 * D * sizeof *u);
            u[q % D] = v[(q + 1 + q / D) % D] = 1; /* q / D < 32: a different one */
        }
        turn_to(u, v, cosine);
    }
}

static struct law law_of(int kind, enum hash_projection projection, enum inputs inputs, double cosine,
                         int draws)
{
    const struct hashing hashing = {M, TAU, projection, kind, 0};
    const struct kernels *kernels = kernels_named(NULL, &(const char *){0});
    static float x[BATCHES * 2 * PAIRS * D];
    static uint16_t codes[2 * PAIRS * M];
    struct head head = head_new(&hashing, D);
    double p = pow(1 - acos(cosine) / PI, TAU), sum = 0, squares = 0, shares = 0;
    make_pairs(x, inputs, cosine);
    for (int i = 0; i < draws; i++) {
        double mean = 0;
        head_draw(&head, random_key((uint64_t)i, RANDOM_BENCH, (uint64_t)kind));
        head_hash(kernels, &head, codes, x + (size_t)(i % BATCHES) * 2 * PAIRS * D, 2 * PAIRS);
        for (size_t q = 0; q < PAIRS; q++) {
            int meet = 0;
            for (size_t h = 0; h < M; h++)
                meet += codes[2 * q * M + h] == codes[(2 * q + 1) * M + h];
            mean += meet / (double)(M * PAIRS);
            shares += meet * meet / (double)(M * M * PAIRS);
        }
        sum += mean;
        squares += mean * mean;
    }
    head_free(&head);
    double mean = sum / draws, of_mean = (squares / draws - mean * mean) / draws;
    return (struct law){.mean = mean / p,
                        .error = sqrt(of_mean) / p,
                        .variance = (shares / draws - mean * mean) / (p * (1 - p) / M)};
}

/* A row of a table: the mean is `want` within `off` plus 4.5 standard errors. A standard error is at most
   0.25 %, so that `off` is significant. */
struct row {
    double cosine, want;
    int draws;
};

static void check_row(const char *what, int kind, enum hash_projection projection, enum inputs inputs,
                      const struct row *row, double off)
{
    bool is_long = getenv("HASHATTN_LONG_TESTS") != NULL;
    struct law law = law_of(kind, projection, inputs, row->cosine, is_long ? 16 * row->draws : row->draws);
    if (getenv("HASHATTN_TEST_VERBOSE") != NULL)
        print_message("%s at cosine %.2f: %.4f +- %.4f of the law, variance %.3f of independent hashes\n",
                      what, row->cosine, law.mean, law.error, law.variance);
    if (!(law.error <= 0.0025) || !(fabs(law.mean - row->want) <= off + 4.5 * law.error))
        fail_msg("%s at cosine %g: %.4f of the law with standard error %.4f, want %.3f within %.4f", what,
                 row->cosine, law.mean, law.error, row->want, off);
}

/* Generic pairs: within 0.6 %. */
static void hadamard_follows_the_law(void **state)
{
    (void)state;
    static const struct row rows[] = {
        {0, 1, 32000}, {.5, 1, 4000}, {.8, 1, 1000}, {.9, 1, 800}, {.99, 1, 400}};
    for (size_t i = 0; i < 5; i++) {
        check_row("hadamard, f32", PLANES_HADAMARD, HASH_F32, GENERIC, &rows[i], 0.006);
        check_row("hadamard, int16-dp", PLANES_HADAMARD, HASH_INT16_DP, GENERIC, &rows[i], 0.006);
    }
}

static void paper_has_its_bias(void **state)
{
    (void)state;
    static const struct row rows[] = {
        {0, .781, 32000}, {.5, .900, 4000}, {.8, .966, 1000}, {.9, .985, 800}, {.99, .999, 400}};
    for (size_t i = 0; i < 5; i++)
        check_row("hadamard-paper", PLANES_HADAMARD_PAPER, HASH_AUTO, GENERIC, &rows[i], 0.006);
}

/* Vectors in the plane of two basis vectors are not generic: off by up to 2.7 %, in either direction. */
static void few_coordinates_bend_the_law(void **state)
{
    (void)state;
    static const struct row rows[] = {
        {0, 1.005, 32000}, {.5, .973, 4000}, {.8, 1.001, 1000}, {.9, 1.025, 800}, {.99, .983, 400}};
    for (size_t i = 0; i < 5; i++)
        check_row("hadamard, two coordinates", PLANES_HADAMARD, HASH_AUTO, BASIS, &rows[i], 0.004);
}

/* At cosine .9: hashes of one block repel, so the share of collisions varies less than with independent
   hashes, for which the ratio is 1. */
static void hashes_of_a_block_repel(void **state)
{
    (void)state;
    static const double want[] = {0.961, 0.926};
    for (int k = 0; k < 2; k++) {
        struct law law = law_of(kinds[k], HASH_AUTO, GENERIC, 0.9, 2000);
        check_near(law.variance, want[k], 0.015, "variance over that of independent hashes");
    }
}

static void sizes_do_not_wrap(void **state)
{
    (void)state;
    assert_true(size_of(PLANES_HADAMARD, 4096, 24, SIZE_MAX / 8) == SIZE_MAX);
    assert_true(size_of(PLANES_HADAMARD, 4096, 24, SIZE_MAX) == SIZE_MAX);
    assert_true(size_of(PLANES_HADAMARD, 32, 9, 64) == 9 * 3 * 64 * sizeof(uint32_t));
    assert_true(size_of(PLANES_HADAMARD_PAPER, 32, 9, 64) == 5 * 3 * 64 * sizeof(uint32_t));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(codes_are_signs_of_planes),
        cmocka_unit_test(the_longest_sums_do_not_overflow),
        cmocka_unit_test(few_bits_are_other_than_in_float32),
        cmocka_unit_test(heads_and_lengths),
        cmocka_unit_test(hadamard_follows_the_law),
        cmocka_unit_test(paper_has_its_bias),
        cmocka_unit_test(few_coordinates_bend_the_law),
        cmocka_unit_test(hashes_of_a_block_repel),
        cmocka_unit_test(sizes_do_not_wrap),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
