/* How dense rows are around a point, from one pass over any number of rows: a sketch of counts in hash
   tables. The density of a point q among rows x_1 .. x_n is
     density(q) = (1/n) sum_j (1 - angle(q, x_j)/pi)^hash_bits,
   between 0 and 1, larger where rows are denser. The score is an unbiased estimate of it over seeds, with a
   standard error. Rows can be added in any order, taken away again, and counted in several sketches that are
   merged: a merged sketch scores bit for bit as one that saw all rows. Scores do not depend on the number of
   threads or the instruction set.
   SPDX-License-Identifier: Apache-2.0 */
#ifndef HASHATTN_DENSITY_H
#define HASHATTN_DENSITY_H

#include "hashattn/attention.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct hashattn_density hashattn_density;

typedef struct hashattn_density_options {
    size_t struct_size;
    size_t num_hashes; /* m, 1 to 4096; default 32. The squared error is proportional to 1 / m. */
    size_t hash_bits;  /* tau, 1 to 24; default 9. More bits see less of the surroundings of a point. */
    /* "none" (the default): rows are directions, their length does not matter (but one below 1e-12 counts as
       0: scale such rows), and no statistics of the data are used. "euclidean": rows are points. They are
       centred, each column is scaled by its deviation, and one more coordinate keeps the length; the first
       rows added, at most 4,096 and at most 2^22 numbers, determine centre and scale. */
    const char *map;
    uint64_t seed; /* default 0 */
} hashattn_density_options;

HASHATTN_API void hashattn_density_options_default_sized(hashattn_density_options *options,
                                                         size_t struct_size);
HASHATTN_INLINE void hashattn_density_options_default(hashattn_density_options *options)
{
    hashattn_density_options_default_sized(options, sizeof *options);
}

/* An empty sketch for rows of `dim` numbers, 1 to 2^20. options: NULL = the defaults. The context must
   outlive it. INVALID: an option is out of range. REFUSED: dim num_hashes hash_bits is over 2^30. Memory:
   8 num_hashes 2^hash_bits bytes; when rows come, also the planes. */
HASHATTN_API hashattn_status hashattn_density_new(hashattn_context *context, size_t dim,
                                                  const hashattn_density_options *options,
                                                  hashattn_density **density);
/* An empty sketch with the options of `like`, in its context; and with its Euclidean map, so that the two can
   be merged. */
HASHATTN_API hashattn_status hashattn_density_new_like(const hashattn_density *like,
                                                       hashattn_density **density);
HASHATTN_API void hashattn_density_free(hashattn_density *density); /* NULL is allowed */

typedef struct hashattn_density_info {
    size_t struct_size;
    size_t dim, num_hashes, hash_bits;
    const char *map;
    uint64_t seed, rows;
} hashattn_density_info;
/* Set info->struct_size first. */
HASHATTN_API void hashattn_density_describe(const hashattn_density *density, hashattn_density_info *info);

/* Add rows (n, dim), or take away rows that were added. INVALID, and nothing changes: NaN or infinity, with
   its position; more rows than there are, or rows of which one was certainly never added. */
HASHATTN_API hashattn_status hashattn_density_add(hashattn_density *density, const float *rows, size_t n);
HASHATTN_API hashattn_status hashattn_density_remove(hashattn_density *density, const float *rows, size_t n);
/* Writes densities (n) of the points rows (n, dim), and unless it is NULL errors (n), their standard errors
   over the hashes: NaN if num_hashes is 1. INVALID: NaN or infinity; no rows were added. */
HASHATTN_API hashattn_status hashattn_density_score(hashattn_density *density, const float *rows, size_t n,
                                                    float *densities, float *errors);
/* Adds all rows of `from`. INVALID, with the difference: dim, options, seed or Euclidean maps differ. */
HASHATTN_API hashattn_status hashattn_density_merge(hashattn_density *density, const hashattn_density *from);

/* Writes a sketch to a file ("-": standard output), which is replaced atomically; reads it ("-": standard
   input). At most 8 num_hashes 2^hash_bits bytes, fewer with fewer rows. BAD_FILE: it is no sketch or is
   damaged; a checksum is compared. NO_DISK, with the system's reason. */
HASHATTN_API hashattn_status hashattn_density_save(const hashattn_density *density, const char *path);
HASHATTN_API hashattn_status hashattn_density_load(hashattn_context *context, const char *path,
                                                   hashattn_density **density);

/* ---- with the rows themselves: seed, options and Euclidean map are those of the sketch, its counts unused
 * ---- */

/* The derivative of sum_i of_density[i] density_i with respect to points (num_points, dim) and rows
   (num_rows, dim), where density_i is the density of point i among these rows. WRITES densities
   (num_points), dpoints and drows, shaped as points and rows; each may be NULL. of_density: NULL = all 1.
   logarithm: not 0 = the derivative of the logarithms of the densities; a point of density 0 adds nothing.
   Both derivatives of densities are unbiased over seeds, by the pairs of rows that collide: yoso with
   gradient true. Those of logarithms are divided by the estimated densities. Cost: at most 256 rows of a
   bucket per point and hash. INVALID: NaN or infinity; the Euclidean map is not known yet. */
HASHATTN_API hashattn_status hashattn_density_gradient(hashattn_density *density, const float *points,
                                                       size_t num_points, const float *rows, size_t num_rows,
                                                       const float *of_density, int logarithm,
                                                       float *densities, float *dpoints, float *drows);
/* One step of mean shift: moves each point (num_points, dim) to the mean direction of the rows (num_rows,
   dim) that collide with it, each counted once per hash, so it climbs the density whose derivative by the
   cosine is (1 - angle/pi)^hash_bits. A point that collides with nothing stays. `step` draws the hashes anew.
   Points become unit vectors; with the Euclidean map they stay points. Errors as above. */
HASHATTN_API hashattn_status hashattn_density_shift(hashattn_density *density, float *points,
                                                    size_t num_points, const float *rows, size_t num_rows,
                                                    uint64_t step);
/* Modes by mean shift: every row (num_rows, dim) makes `steps` steps, and rows that end at less than
   90 / hash_bits degrees from the first row of a mode belong to it. WRITES to modes (num_rows, dim) the first
   *num_modes rows, where the rows of each mode ended, and to labels (num_rows) the mode of each row; the mode
   of most rows is 0. Errors as above. */
HASHATTN_API hashattn_status hashattn_density_modes(hashattn_density *density, const float *rows,
                                                    size_t num_rows, size_t steps, float *modes,
                                                    size_t *labels, size_t *num_modes);

#ifdef __cplusplus
}
#endif
#endif
