/* Stage tiles: tiles of scores of the exact mechanisms. kernels.h has the rules of all contracts.
   SPDX-License-Identifier: Apache-2.0 */
#ifndef KERNELS_SLOTS_TILES_H
#define KERNELS_SLOTS_TILES_H

#include <stdbool.h>
#include <stddef.h>

enum { KERNELS_TILE = 64 }; /* rows of a query block and of a key tile */

/* The bound of near pairs in tiles.collisions: below it, 1 - |x| has at most about 12 correct bits. */
#define COLLISION_NEAR 2e-3f

struct tiles_slots {
    /* Columns of the block whose sums `product` keeps in registers. A B with rows this far apart is read as
       one run of memory; with few rows of A the run after it may be fetched, so it should be needed next. */
    size_t columns;

    /* c (rows, cols) = [add: c +] A B with A(i, k) = a[i * a_row + k * a_col] and B (depth, cols), rows ld_b
       apart. For sizes up to a few hundred, with operands in cache. Sums run over k in order, whatever
       `rows` and `cols` are. TOLERANT. */
    void (*product)(float *c, size_t ld_c, const float *a, size_t a_row, size_t a_col, const float *b,
                    size_t ld_b, size_t rows, size_t cols, size_t depth, bool add);

    /* out (cols, rows) = in (rows, cols) transposed. EXACT. */
    void (*transpose)(float *out, size_t ld_out, const float *in, size_t ld_in, size_t rows, size_t cols);

    /* Collision probabilities of a tile of dot products x (rows, cols) between rows of unit or zero length
       (norm2_query[i], norm2_key[j] are 1 or 0): u^2 = nq + nk - 2x, v^2 = nq + nk + 2x, both floored at 0; p
       = 1 - 2 atan2(u, v) / pi (p = 1 if both are 0); power <- p^hash_bits.
       slope, if not NULL: the w of pairs.bucket's tangent form without scale and score, times power:
       hash_bits p^(hash_bits-1) / (pi s). A pair with u^2 or v^2 under COLLISION_NEAR has lost its angle to
       rounding: it gets power as computed and slope 0, and is counted; the caller recomputes it from the
       vectors. Returns that count. x may equal power (in place). TOLERANT. */
    size_t (*collisions)(float *power, float *slope, const float *x, size_t ld, size_t rows, size_t cols,
                         const float *norm2_query, const float *norm2_key, unsigned hash_bits);
};

#endif
