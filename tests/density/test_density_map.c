/* Points as directions: against the formula in double, the inverse, and the gradient by central differences.

   Planted and caught: the deviation without sqrt(dim); the last coordinate not divided by the length; the
   gradient divided by the scale of the first column; points of the inverse a tenth too near to the centre.
   SPDX-License-Identifier: Apache-2.0 */
#include "density/density_map.h"

#include <float.h>
#include <math.h>

#include "base/random.h"
#include "support/check.h"

enum { N = 50, DIM = 4 };

static void fill(float *x)
{
    static const float offset[DIM] = {0, 5, -3, 7}, width[DIM] = {1, 0.01f, 100, 0};
    random_normals(1, 0, x, N * DIM);
    for (size_t i = 0; i < N * DIM; i++)
        x[i] = offset[i % DIM] + width[i % DIM] * x[i];
}

static void points_become_directions_and_come_back(void **state)
{
    (void)state;
    float x[N * DIM], centre[DIM], scale[DIM], z[N * (DIM + 1)], norm[N], back[N * DIM];
    double mean_square = 0;
    fill(x);
    density_map_learn(centre, scale, x, N, DIM);
    check_near((double)centre[3], 7, 1e-6, "the centre of a column that does not vary");
    check_near((double)scale[3], 2, 1e-6, "its scale");
    density_map_take(z, norm, x, N, DIM, centre, scale);
    density_map_invert(back, z, N, DIM, centre, scale);
    for (size_t i = 0; i < N; i++) {
        double square = 1, length = 0;
        for (size_t c = 0; c < DIM; c++)
            square += pow(((double)x[i * DIM + c] - (double)centre[c]) / (double)scale[c], 2);
        for (size_t c = 0; c <= DIM; c++)
            length += (double)z[i * (DIM + 1) + c] * (double)z[i * (DIM + 1) + c];
        check_near(length, 1, 1e-6, "length of a direction");
        check_near((double)norm[i], sqrt(square), 1e-6 * sqrt(square), "norm");
        check_near((double)z[i * (DIM + 1) + DIM], 1 / sqrt(square), 1e-6, "last coordinate");
        for (size_t c = 0; c < DIM; c++) {
            double bound = 1e-6 * (fabs((double)x[i * DIM + c]) + square * (double)scale[c]);
            check_near((double)back[i * DIM + c], (double)x[i * DIM + c], bound, "the point again");
        }
        mean_square += (square - 1) / N;
    }
    check_near(mean_square, 3.0 / 4, 1e-4, "mean of |u|^2: three columns of four vary");
}

static void huge_numbers_stay_finite(void **state)
{
    (void)state;
    const float x[] = {FLT_MAX, -FLT_MAX, 1e-44f, -FLT_MAX, FLT_MAX, -1e-44f};
    float centre[3], scale[3], z[8], norm[2], back[6];
    density_map_learn(centre, scale, x, 2, 3);
    density_map_take(z, norm, x, 2, 3, centre, scale);
    density_map_invert(back, z, 2, 3, centre, scale);
    for (size_t c = 0; c < 8; c++)
        assert_true(isfinite(z[c]) && (c > 5 || isfinite(back[c])));
    for (size_t c = 0; c < 3; c++)
        assert_true(isnormal(scale[c]) && isfinite(centre[c]));
}

/* sum of weights . z, whose gradient by z is its tangent part. */
static void gradients_are_those_of_differences(void **state)
{
    (void)state;
    float x[N * DIM], centre[DIM], scale[DIM], z[N * (DIM + 1)], norm[N], dz[N * (DIM + 1)], dx[N * DIM],
        weights[N * (DIM + 1)];
    fill(x);
    random_normals(2, 0, weights, N * (DIM + 1));
    density_map_learn(centre, scale, x, N, DIM);
    density_map_take(z, norm, x, N, DIM, centre, scale);
    for (size_t i = 0; i < N; i++) {
        double along = 0;
        for (size_t c = 0; c <= DIM; c++)
            along += (double)weights[i * (DIM + 1) + c] * (double)z[i * (DIM + 1) + c];
        for (size_t c = 0; c <= DIM; c++)
            dz[i * (DIM + 1) + c] = weights[i * (DIM + 1) + c] - (float)along * z[i * (DIM + 1) + c];
    }
    density_map_backward(dx, dz, norm, N, DIM, scale);
    for (size_t i = 0; i < N * DIM; i++) {
        double values[2], step = 1e-3 * (double)scale[i % DIM];
        for (int side = 0; side < 2; side++) {
            double square = 1, value = (double)weights[i / DIM * (DIM + 1) + DIM], u[DIM];
            for (size_t c = 0; c < DIM; c++) {
                double point = (double)x[i / DIM * DIM + c] + (c == i % DIM ? (side ? step : -step) : 0);
                u[c] = (point - (double)centre[c]) / (double)scale[c];
                square += u[c] * u[c];
                value += (double)weights[i / DIM * (DIM + 1) + c] * u[c];
            }
            values[side] = value / sqrt(square);
        }
        double want = (values[1] - values[0]) / (2 * step);
        check_near((double)dx[i], want, 1e-5 / (double)scale[i % DIM], "gradient of a point");
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(points_become_directions_and_come_back),
        cmocka_unit_test(huge_numbers_stay_finite),
        cmocka_unit_test(gradients_are_those_of_differences),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
