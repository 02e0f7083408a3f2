/* Groups of points that mean shift has moved together: the modes of a density. A point belongs to the first
   mode whose first point is at less than half of the kernel's width, pi / (2 hash_bits), from it.
   Cost: width operations for every point and mode that it is compared with.
   SPDX-License-Identifier: Apache-2.0 */
#ifndef DENSITY_MODES_H
#define DENSITY_MODES_H

#include <stddef.h>

/* z (n, width): unit rows. Writes labels (n), the mode of each point, and for each mode first and sizes, its
   first point and how many it has: most points first, equal ones by their first point. Returns the number of
   modes. first, sizes and ranks, which is work space, have n elements. */
size_t modes_group(const float *z, size_t n, size_t width, size_t hash_bits, size_t *labels, size_t *first,
                   size_t *sizes, size_t *ranks);

#endif
