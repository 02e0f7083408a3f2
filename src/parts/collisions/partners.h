/* The rows of one hash that have a partner: a row of the other side with the same code. Their codes are
   numbered 0, 1, ... without gaps, so a table of them is short.
   SPDX-License-Identifier: Apache-2.0 */
#ifndef PARTS_PARTNERS_H
#define PARTS_PARTNERS_H

#include "base/memory.h"
#include "parts/hashing/code_columns.h"

enum { PARTNER_BITS = 12 }; /* of a code, at most: one number per code then fits the first-level cache */

/* Rows in ascending order, and the number of each row's code. */
struct partner_rows {
    uint32_t *rows;
    uint16_t *numbers;
    size_t count;
};

struct partners {
    uint16_t *numbers; /* (codes) */
    size_t num_codes;  /* that both sides have */
    struct partner_rows queries, keys;
};

void partners_init(struct partners *partners, struct arena *arena, size_t hash_bits, size_t num_queries,
                   size_t num_keys);

/* query_codes (num_queries), key_codes (num_keys): the codes of one hash; sizes at most as laid out. */
void partners_find(struct partners *partners, size_t hash_bits, const uint16_t *query_codes,
                   size_t num_queries, const uint16_t *key_codes, size_t num_keys);

#endif
