/* Both hash functions against double precision, and their gradients against its central differences, on
   every table. Bugs planted and caught: a bias left out; relu left out, forward or backward; the gradient
   written, not added.
   SPDX-License-Identifier: Apache-2.0 */
#include "parts/groups/hash_function.h"

#include <float.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/random.h"
#include "support/check.h"

enum { ROWS = 37, D = 13, LD = 17, WIDTH = 21, GROUPS = 10 };

static void oracle(double *z, const double *x, const double *first, const double *second, size_t width)
{
    double hidden[WIDTH];
    for (size_t h = 0; h < width; h++) {
        hidden[h] = first[D * width + h];
        for (size_t c = 0; c < D; c++)
            hidden[h] += x[c] * first[c * width + h];
        hidden[h] = fmax(hidden[h], 0);
    }
    for (size_t b = 0; b < GROUPS; b++) {
        z[b] = width == 0 ? 0 : second[width * GROUPS + b];
        for (size_t h = 0; h < width; h++)
            z[b] += hidden[h] * second[h * GROUPS + b];
        for (size_t c = 0; c < D && width == 0; c++)
            z[b] += x[c] * first[c * GROUPS + b];
    }
}

/* sum <dz, z> over the rows. */
static double total(const float *x, const double *first, const double *second, size_t width, const float *dz)
{
    double sum = 0, z[GROUPS], row[D];
    for (size_t i = 0; i < ROWS; i++) {
        for (size_t c = 0; c < D; c++)
            row[c] = (double)x[i * LD + c];
        oracle(z, row, first, second, width);
        for (size_t b = 0; b < GROUPS; b++)
            sum += (double)dz[i * GROUPS + b] * z[b];
    }
    return sum;
}

static void check(const struct kernels *kernels, size_t width)
{
    size_t counts[2] = {hash_first_count(D, width, GROUPS), hash_second_count(width, GROUPS)};
    float x[ROWS * LD], z[ROWS * GROUPS], again[ROWS * GROUPS], dz[ROWS * GROUPS], hidden[ROWS * WIDTH],
        dhidden[(ROWS + GROUPS) * WIDTH], *given[2], *gradient[2];
    double *exact[2];
    random_normals(1, 0, x, ROWS * LD);
    random_normals(2, 0, dz, ROWS * GROUPS);
    for (size_t a = 0; a < 2; a++) {
        given[a] = guard_floats(counts[a]);
        gradient[a] = guard_floats(counts[a]);
        exact[a] = calloc(counts[a] + 1, sizeof(double));
        random_normals(3 + a, 0, given[a], counts[a]);
        for (size_t i = 0; i < counts[a]; i++) {
            exact[a][i] = (double)given[a][i];
            gradient[a][i] = 0.25f;
        }
    }
    struct hash_function hash = {kernels, D, width, GROUPS, given[0], given[1]};
    hash_scores(&hash, x, LD, ROWS, z, hidden, false);
    for (size_t i = 0; i < ROWS; i++) {
        double row[D], want[GROUPS];
        for (size_t c = 0; c < D; c++)
            row[c] = (double)x[i * LD + c];
        oracle(want, row, exact[0], exact[1], width);
        for (size_t b = 0; b < GROUPS; b++) /* sums of D and WIDTH + 1 terms; hidden values are below 20 */
            check_near((double)z[i * GROUPS + b], want[b], (D + WIDTH + 4) * FLT_EPSILON * 20 * (WIDTH + 1),
                       "score");
    }
    memcpy(again, z, sizeof z);
    hash_scores(&hash, x, LD, ROWS, again, hidden, true);
    for (size_t i = 0; i < ROWS * GROUPS; i++)
        check_near((double)again[i], 2 * (double)z[i], 1e-3, "score added");
    hash_backward(&hash, x, LD, ROWS, dz, hidden, dhidden, gradient[0], gradient[1]);
    for (size_t a = 0; a < 2; a++)
        for (size_t i = 0; i < counts[a]; i++) {
            /* Linear in each parameter except where a relu changes sign within the step: with 1e-6 none
               does. */
            double before = exact[a][i], step = 1e-6;
            exact[a][i] = before + step;
            double want = total(x, exact[0], exact[1], width, dz);
            exact[a][i] = before - step;
            want = (want - total(x, exact[0], exact[1], width, dz)) / (2 * step);
            exact[a][i] = before;
            check_near((double)gradient[a][i], 0.25 + want, 1e-3, "gradient of a hash");
        }
    for (size_t a = 0; a < 2; a++) {
        guard_free(given[a], counts[a]);
        guard_free(gradient[a], counts[a]);
        free(exact[a]);
    }
}

static void hashes_and_their_gradients(void **state)
{
    (void)state;
    for (const struct kernels *const *kernels = kernels_all(); *kernels != NULL; kernels++) {
        check(*kernels, 0);
        check(*kernels, WIDTH);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(hashes_and_their_gradients)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
