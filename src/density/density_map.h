/* Euclidean points as directions, for --map euclidean. A point x becomes
     z = (u, 1) / |(u, 1)|,   u_c = (x_c - centre_c) / scale_c,   scale_c = sqrt(dim) times the deviation of
   column c, so each column counts alike, and a typical point has |u| = 1: it lies 45 degrees from the centre.
   The last coordinate holds the length of u, which a direction alone would lose. Near the centre the angle of
   two points is their distance in u; far away it shrinks, and points far away in one direction become one.
   The inverse is u = z_first / z_last. Columns that do not vary have scale sqrt(dim).
   SPDX-License-Identifier: Apache-2.0 */
#ifndef DENSITY_MAP_H
#define DENSITY_MAP_H

#include <stddef.h>

/* Sets centre and scale (dim) from rows x (n, dim), n >= 1. */
void density_map_learn(float *centre, float *scale, const float *x, size_t n, size_t dim);
/* Writes unit rows z (n, dim + 1), and unless it is NULL norm (n), the lengths |(u, 1)|. */
void density_map_take(float *z, float *norm, const float *x, size_t n, size_t dim, const float *centre,
                      const float *scale);
/* Writes dx (n, dim), the gradient of the points from dz (n, dim + 1), that of their directions z: orthogonal
   to z. */
void density_map_backward(float *dx, const float *dz, const float *norm, size_t n, size_t dim,
                          const float *scale);
/* Writes the points x (n, dim) of directions z (n, dim + 1) whose last coordinate is above 0. */
void density_map_invert(float *x, const float *z, size_t n, size_t dim, const float *centre,
                        const float *scale);

#endif
