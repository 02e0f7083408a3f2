/* The sizes in the header must give the size of the file exactly, so that a truncated file is never used.
   SPDX-License-Identifier: Apache-2.0 */
#include "io/idx.h"

#include <assert.h>
#include <stdint.h>

#include "base/memory.h"

enum { UNSIGNED_BYTES = 0x08 };

static uint32_t big_endian(const unsigned char *bytes)
{
    return (uint32_t)bytes[0] << 24 | (uint32_t)bytes[1] << 16 | (uint32_t)bytes[2] << 8 | bytes[3];
}

hashattn_status idx_parse(struct host *host, const void *bytes, size_t size, size_t rank, struct idx *idx)
{
    assert(rank >= 1 && rank <= IDX_RANK);
    *idx = (struct idx){.rank = rank, .header = 4 + 4 * rank};
    FAIL_IF(size < 4, host, HASHATTN_BAD_FILE, "%zu bytes, a magic number has 4", size);
    uint32_t magic = big_endian(bytes), want = (uint32_t)(UNSIGNED_BYTES << 8 | rank);
    FAIL_IF(magic != want, host, HASHATTN_BAD_FILE,
            "the magic number is 0x%08x, that of unsigned bytes in %zu dimension%s is 0x%08x", magic, rank,
            rank == 1 ? "" : "s", want);
    FAIL_IF(size < idx->header, host, HASHATTN_BAD_FILE, "%zu bytes, the header has %zu", size, idx->header);
    size_t elements = 1;
    for (size_t i = 0; i < rank; i++) {
        idx->shape[i] = big_endian((const unsigned char *)bytes + 4 + 4 * i);
        elements = size_product(elements, idx->shape[i]);
    }
    size_t needed = size_sum(idx->header, elements);
    FAIL_IF(size != needed, host, HASHATTN_BAD_FILE, "%zu bytes, the sizes in its header need %zu", size,
            needed);
    return HASHATTN_OK;
}
