/* Rows to codes, a block of rows at a time. Cost: 2 n d num_hashes hash_bits operations in slot hash_codes,
   which runs near the product peak; nothing else here shows. SPDX-License-Identifier: Apache-2.0 */
#include "parts/codes.h"

#include <string.h>

#include "base/memory.h"

static size_t code_bytes(const struct hashing *hashing)
{
    return hashing->hash_bits > 16 ? sizeof(uint32_t) : sizeof(uint16_t);
}

size_t codes_size(const struct hashing *hashing, size_t n)
{
    return size_product(n, hashing->num_hashes * code_bytes(hashing));
}

struct codes codes_at(const struct hashing *hashing, const void *data, size_t n)
{
    return (struct codes){
        .data = data, .wide = hashing->hash_bits > 16, .num_hashes = hashing->num_hashes, .n = n};
}

/* A row whose sum of squares is outside of what floats hold well: short rows become zero, and a huge one is
   made smaller by a power of two, which changes no sign. */
static void mend_row(float *row, size_t dim)
{
    double square = 0;
    for (size_t c = 0; c < dim; c++)
        square += (double)row[c] * (double)row[c];
    double shortest = (double)UNIT_SHORTEST;
    for (size_t c = 0; c < dim; c++)
        row[c] = square < shortest * shortest ? 0 : square > 1e30 ? row[c] * 0x1p-64f : row[c];
}

void codes_hash(const struct kernels *kernels, void *data, const struct hashing *hashing, const float *x,
                size_t ld_x, size_t n, size_t dim, const float *planes, float *rows, size_t ld,
                float *squares)
{
    size_t row_bytes = hashing->num_hashes * code_bytes(hashing);
    for (size_t first = 0; first < n; first += CODES_ROWS) {
        size_t count = n - first < CODES_ROWS ? n - first : CODES_ROWS;
        for (size_t i = 0; i < count; i++)
            memcpy(rows + i * ld, x + (first + i) * ld_x, dim * sizeof *rows);
        kernels->row_dots(squares, rows, ld, rows, ld, count, dim);
        for (size_t i = 0; i < count; i++)
            if (!(squares[i] > 1e-20f && squares[i] < 1e30f))
                mend_row(rows + i * ld, dim);
        kernels->hash_codes((char *)data + first * row_bytes, hashing->hash_bits > 16, rows, ld, count, dim,
                            planes, hashing->num_hashes, hashing->hash_bits);
    }
}
