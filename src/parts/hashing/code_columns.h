/* Codes transposed, CODE_COLUMNS hashes at a time: all codes of one hash are adjacent, so a search for the
   rows of one code reads sequentially. In struct codes the codes of a row are adjacent.
   SPDX-License-Identifier: Apache-2.0 */
#ifndef PARTS_CODE_COLUMNS_H
#define PARTS_CODE_COLUMNS_H

#include "base/memory.h"
#include "parts/hashing/codes.h"

enum { CODE_COLUMNS = 32 }; /* hashes at a time: a cache line of narrow codes */

struct code_columns {
    void *data; /* (CODE_COLUMNS, n) codes of hashes first, first + 1, ... */
    bool wide;  /* uint32_t, else uint16_t */
    size_t first, n;
};

void code_columns_init(struct code_columns *columns, struct arena *arena, const struct hashing *hashing,
                       size_t n);

/* Transposes hashes first .. of codes, which have at most as many rows as were laid out. */
void code_columns_take(struct code_columns *columns, const struct codes *codes, size_t first);

/* (n) codes of one of the hashes taken */
static inline const void *code_column(const struct code_columns *columns, size_t hash)
{
    return (const char *)columns->data + (hash - columns->first) * columns->n * (columns->wide ? 4 : 2);
}

#endif
