/* Hash codes of one head: for each row of Q or K and each hash, the signs of hash_bits projections as one
   integer. Kept from forward to backward as (n, num_hashes), uint16_t up to 16 bits and uint32_t above.
   SPDX-License-Identifier: Apache-2.0 */
#ifndef PARTS_CODES_H
#define PARTS_CODES_H

#include "parts/hashing/hashing.h"
#include "parts/hashing/unit.h"

/* The codes of one side, queries or keys. */
struct codes {
    const void *data; /* (n, num_hashes) */
    bool wide;        /* uint32_t */
    size_t num_hashes, n;
};

enum { CODES_ROWS = 128 }; /* rows hashed at a time: their copy stays in L1 */

/* The projection to use with these kernels: the given one, or for HASH_AUTO the fastest that hashes these
   planes as well as float32. */
enum hash_projection codes_projection(const struct kernels *kernels, const struct hashing *hashing);

size_t codes_size(const struct hashing *hashing, size_t n); /* bytes; SIZE_MAX on overflow */
struct codes codes_at(const struct hashing *hashing, const void *data, size_t n);

/* The codes of a row. */
static inline const void *codes_row(const struct codes *codes, size_t row)
{
    return (const char *)codes->data + row * codes->num_hashes * (codes->wide ? 4 : 2);
}

/* Hashes [first, first + count) of the rows from `row` on, for slots of stage tables: tables of `buckets`
 * rows. */
static inline struct table_hashes codes_hashes(const struct codes *codes, size_t row, size_t first,
                                               size_t count, size_t buckets)
{
    return (struct table_hashes){.codes = codes_row(codes, row),
                                 .wide = codes->wide,
                                 .num_hashes = codes->num_hashes,
                                 .first = first,
                                 .count = count,
                                 .buckets = buckets};
}

/* Floats of the work space of codes_hash: CODES_ROWS rows, and the memory of transforms and of a pool. */
size_t codes_work(const struct hashing *hashing, size_t dim);

/* Hashes the rows of x into data: the signs of their projections, with the same bits on every instruction
   set. A row shorter than UNIT_SHORTEST has code 0. planes: from planes_rotate or hadamard_rotate for the
   same hashing. Work space: rows (codes_work floats; its rows are ld = unit_padded(dim) apart) and squares
   (CODES_ROWS). Returns false if a row has NaN or infinity, whose codes are then arbitrary; the check is
   free, because lengths are computed anyway. */
bool codes_hash(const struct kernels *kernels, void *data, const struct hashing *hashing, const float *x,
                size_t ld_x, size_t n, size_t dim, const void *planes, float *rows, size_t ld,
                float *squares);

#endif
