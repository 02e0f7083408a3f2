/* Sketches in files. docs/FORMATS.md has the layout: a header, the Euclidean map, the counts in as few bytes
   as the number of rows needs, and a checksum. Planes are drawn again from the seed.
   SPDX-License-Identifier: Apache-2.0 */
#ifndef DENSITY_SKETCH_FILE_H
#define DENSITY_SKETCH_FILE_H

#include "density/sketch.h"

/* Writes a file ("-": standard output) and replaces an old one atomically. INVALID: the Euclidean map is not
   known yet, because no row was added. */
hashattn_status sketch_save(struct host *host, const struct sketch *sketch, const char *path);
/* Makes the sketch of a file in memory. BAD_FILE: it is not a sketch, or it is damaged. */
hashattn_status sketch_parse(struct host *host, const struct kernels *kernels, struct pool *pool,
                             const char *bytes, size_t size, struct sketch **sketch);
/* The same from a file ("-": standard input). */
hashattn_status sketch_load(struct host *host, const struct kernels *kernels, struct pool *pool,
                            const char *path, struct sketch **sketch);

#endif
