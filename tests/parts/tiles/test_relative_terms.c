/* Terms for distances against their formula in double, on every instruction set: r from W and its backward
   pass, tiles that the terms cover fully and partly, forward and backward. Bugs planted and caught: the
   sinusoids of one distance too many; a row of the strip shifted by the last query instead of its own; the
   rows of a part before the first term; the remainder of the strip not cleared in the backward pass; on a
   ring, pairs across its seam without terms.
   SPDX-License-Identifier: Apache-2.0 */
#include "parts/tiles/relative_terms.h"

#include <float.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/random.h"
#include "support/check.h"

static float *normals(uint64_t seed, size_t count)
{
    float *x = guard_floats(count);
    random_normals(random_key(seed, 2, 0), 0, x, count);
    return x;
}

struct made {
    struct relative_terms terms;
    float *block, *weight;
    size_t floats;
};

static struct made make(const struct kernels *kernels, size_t d, size_t most, size_t count)
{
    struct made made;
    struct arena arena = arena_on(NULL);
    relative_terms_take(&arena, d, most, count);
    made.floats = arena.used / sizeof(float);
    made.block = guard_floats(made.floats);
    memset(made.block, 0xff, made.floats * sizeof(float));
    arena = arena_on(made.block);
    made.terms = relative_terms_take(&arena, d, most, count);
    made.weight = normals(3, RELATIVE_WIDTH * d);
    made.terms.weight = made.weight;
    relative_terms_make(&made.terms, kernels);
    return made;
}

static void made_free(struct made *made)
{
    guard_free(made->weight, RELATIVE_WIDTH * made->terms.dim);
    guard_free(made->block, made->floats);
}

static double wave(size_t c, double distance)
{
    double angle = distance * pow(10000, -(double)(c / 2 * 2) / RELATIVE_WIDTH);
    return c % 2 == 0 ? sin(angle) : cos(angle);
}

static void check_made(const struct kernels *kernels, size_t d, size_t most, size_t count)
{
    struct made made = make(kernels, d, most, count);
    float *drows = normals(4, count * d), *dweight = guard_floats(RELATIVE_WIDTH * d);
    for (size_t i = 0; i < RELATIVE_WIDTH * d; i++)
        dweight[i] = 0.5f;
    made.terms.dweight = dweight;
    relative_terms_make_backward(&made.terms, kernels, drows);
    for (size_t c = 0; c < d; c++) {
        for (size_t t = 0; t < count; t++) {
            double want = 0, bound = 0;
            for (size_t k = 0; k < RELATIVE_WIDTH; k++) {
                double part = wave(k, (double)most - (double)t) * (double)made.weight[k * d + c];
                want += part;
                bound += (RELATIVE_WIDTH + 2) * FLT_EPSILON * fabs(part) +
                         FLT_EPSILON * fabs((double)made.weight[k * d + c]);
            }
            check_near((double)made.terms.rows[t * d + c], want, bound, "r");
            assert_true(made.terms.rows[t * d + c] == made.terms.columns[c * count + t]);
        }
        for (size_t k = 0; k < RELATIVE_WIDTH; k++) {
            double want = 0.5, bound = FLT_EPSILON;
            for (size_t t = 0; t < count; t++) {
                want += wave(k, (double)most - (double)t) * (double)drows[t * d + c];
                bound += ((double)count + 4) * FLT_EPSILON * fabs((double)drows[t * d + c]);
            }
            check_near((double)dweight[k * d + c], want, bound, "dW");
        }
    }
    guard_free(drows, count * d);
    guard_free(dweight, RELATIVE_WIDTH * d);
    made_free(&made);
}

static void r_is_of_sinusoids(void **state)
{
    (void)state;
    for (const struct kernels *const *kernels = kernels_all(); *kernels != NULL; kernels++) {
        check_made(*kernels, 1, 0, 1);
        check_made(*kernels, 5, 3, 9);
        check_made(*kernels, 8, 300, 400);
        check_made(*kernels, 2, 9000, 130);
    }
}

static void check_tile(const struct kernels *kernels, struct relative_tile tile, size_t d, size_t most,
                       size_t count, size_t ring)
{
    enum { LD = 130 };
    struct made made = make(kernels, d, most, count);
    made.terms.ring = ring;
    size_t rows = tile.rows, cols = tile.cols;
    float *position = normals(5, rows * d), *strip = guard_floats(rows * RELATIVE_STRIP),
          *scores = guard_floats(rows * LD), *dscores = normals(6, rows * LD),
          *dposition = normals(7, rows * d), *drows = guard_floats(count * d);
    tile.position = position;
    tile.strip = strip;
    const struct tile_products products = {NULL, NULL, NULL};
    for (size_t i = 0; i < rows * LD; i++)
        scores[i] = 0.25f;
    memset(strip, 0xff, rows * RELATIVE_STRIP * sizeof *strip);
    relative_terms_add(&made.terms, kernels, &products, &tile, scores, LD);
    double *want_rows = calloc(2 * count * d, sizeof *want_rows), *bound_rows = want_rows + count * d;
    memset(drows, 0, count * d * sizeof *drows);
    memset(strip, 0xff, rows * RELATIVE_STRIP * sizeof *strip);
    float *before = normals(7, rows * d);
    relative_terms_backward(&made.terms, kernels, &products, &tile, dscores, LD, dposition, true, drows);
    for (size_t i = 0; i < rows; i++) {
        double want_position[16] = {0}, bound_position[16] = {0};
        for (size_t j = 0; j < cols; j++) {
            long t = (long)most - ((long)(tile.first + i) - (long)(tile.key + j)), round = (long)ring;
            if (round > 0) /* the one within the terms, if any */
                t = t < 0 ? t + round : t >= (long)count ? t - round : t;
            double want = 0.25, bound = FLT_EPSILON;
            if (t >= 0 && t < (long)count)
                assert_ptr_equal(relative_terms_sinusoids(&made.terms, tile.first + i, tile.key + j),
                                 made.terms.sinusoids + t * RELATIVE_WIDTH);
            for (size_t c = 0; c < d && t >= 0 && t < (long)count; c++) {
                double q = (double)position[i * d + c], r = (double)made.terms.rows[(size_t)t * d + c],
                       ds = (double)dscores[i * LD + j];
                want += q * r;
                bound += ((double)d + 4) * FLT_EPSILON * (fabs(q * r) + 1);
                want_position[c] += ds * r;
                bound_position[c] += RELATIVE_STRIP * FLT_EPSILON * fabs(ds * r);
                want_rows[(size_t)t * d + c] += ds * q;
                bound_rows[(size_t)t * d + c] += ((double)rows + 4) * FLT_EPSILON * fabs(ds * q);
            }
            check_near((double)scores[i * LD + j], want, bound, "score");
        }
        for (size_t c = 0; c < d; c++)
            check_near((double)dposition[i * d + c], (double)before[i * d + c] + want_position[c],
                       bound_position[c] + 4 * FLT_EPSILON * (1 + fabs((double)before[i * d + c])),
                       "dposition");
    }
    for (size_t i = 0; i < count * d; i++)
        check_near((double)drows[i], want_rows[i], bound_rows[i], "drows");
    free(want_rows);
    guard_free(before, rows * d);
    guard_free(position, rows * d);
    guard_free(strip, rows * RELATIVE_STRIP);
    guard_free(scores, rows * LD);
    guard_free(dscores, rows * LD);
    guard_free(dposition, rows * d);
    guard_free(drows, count * d);
    made_free(&made);
}

static void tiles_take_the_term_of_each_pair(void **state)
{
    (void)state;
    static const struct {
        size_t first, rows, key, cols, d, most, count, ring;
    } cases[] = {
        {0, 1, 0, 1, 1, 0, 1, 0},
        {10, 7, 4, 9, 3, 12, 25, 0},
        {200, 96, 128, 128, 8, 191, 256, 0},
        {200, 96, 128, 128, 5, 100, 90, 0}, /* the nearest and the farthest pairs have no term */
        {0, 96, 0, 128, 4, 40, 41, 0},      /* causal: no later key has a term */
        {50, 20, 90, 30, 6, 0, 100, 0},
        {90, 20, 0, 30, 6, 110, 60, 0},
        {0, 96, 0, 97, 3, 48, 97, 97}, /* on a ring, with terms for every distance */
        {0, 20, 70, 30, 5, 50, 100, 100},
        {70, 30, 0, 25, 5, 50, 100, 100},
        {80, 20, 0, 30, 4, 20, 41, 100}, /* and for short distances only */
    };
    for (const struct kernels *const *kernels = kernels_all(); *kernels != NULL; kernels++)
        for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
            check_tile(*kernels,
                       (struct relative_tile){.first = cases[i].first,
                                              .rows = cases[i].rows,
                                              .key = cases[i].key,
                                              .cols = cases[i].cols},
                       cases[i].d, cases[i].most, cases[i].count, cases[i].ring);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(r_is_of_sinusoids),
        cmocka_unit_test(tiles_take_the_term_of_each_pair),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
