/* Codes hash by hash, some hashes at a time: who looks for the rows of one code reads those of one hash one
   after another, where the codes of a row lie side by side. SPDX-License-Identifier: Apache-2.0 */
#ifndef PARTS_CODE_COLUMNS_H
#define PARTS_CODE_COLUMNS_H

#include "base/memory.h"
#include "parts/hashing/codes.h"

enum { CODE_COLUMNS = 32 }; /* hashes at a time: a cache line of narrow codes */

struct code_columns {
    void *data; /* (CODE_COLUMNS, n) of hashes first, first + 1, ... */
    bool wide;  /* uint32_t, else uint16_t */
    size_t first, n;
};

void code_columns_lay_out(struct code_columns *columns, struct arena *arena, const struct hashing *hashing,
                          size_t n);

/* Of codes with as many rows as were laid out for, or fewer. */
void code_columns_take(struct code_columns *columns, const struct codes *codes, size_t first);

/* (n), of one of the hashes that were taken */
static inline const void *code_column(const struct code_columns *columns, size_t hash)
{
    return (const char *)columns->data + (hash - columns->first) * columns->n * (columns->wide ? 4 : 2);
}

#endif
