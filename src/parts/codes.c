/* Rows to codes, a block of rows at a time. Cost: 2 n d num_hashes hash_bits operations in slot hash_codes,
   which runs near the product peak; nothing else here shows. SPDX-License-Identifier: Apache-2.0 */
#include "parts/codes.h"

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

void codes_hash(const struct kernels *kernels, void *data, const struct hashing *hashing, const float *x,
                size_t ld_x, size_t n, size_t dim, const float *planes, float *unit, size_t ld, float *norm)
{
    size_t row_bytes = hashing->num_hashes * code_bytes(hashing);
    for (size_t first = 0; first < n; first += CODES_ROWS) {
        size_t rows = n - first < CODES_ROWS ? n - first : CODES_ROWS;
        unit_take(kernels, unit, ld, norm, x + first * ld_x, ld_x, rows, dim);
        kernels->hash_codes((char *)data + first * row_bytes, hashing->hash_bits > 16, unit, ld, rows, dim,
                            planes, hashing->num_hashes, hashing->hash_bits);
    }
}
