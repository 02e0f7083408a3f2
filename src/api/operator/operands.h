/* Checks the arrays of a call: layouts, masks and lengths; messages state the limits. `call` already has its
   sizes, offsets, mask and element type. attention/driver/row_range.h checks the numbers.
   SPDX-License-Identifier: Apache-2.0 */
#ifndef API_OPERANDS_H
#define API_OPERANDS_H

#include "api/handles.h"

/* The largest accepted number of rows or elements. */
static const size_t operand_most = SIZE_MAX / 64;

/* One array of a call and its requirements. */
struct operand {
    const char *name;
    const hashattn_array *given;
    bool of_keys, written; /* of_keys 0: of queries; written 0: read */
    size_t width;
    struct packed packed; /* set by operand_check */
};

/* One dimension of an array: `count` positions, `stride` elements apart. */
struct operand_step {
    const char *name; /* "row_stride" */
    size_t count, stride;
};

/* INVALID if two elements of a written array overlap; an element is a row of `width` numbers. Sorts the
   steps, whose extents must already be known to fit in the address space. */
hashattn_status operand_check_apart(struct host *host, const char *name, size_t width,
                                    struct operand_step *steps, size_t num_steps);

/* Checks the layout. packed_rows: sequences follow one another, by offsets; otherwise they have equal
   lengths. INVALID: rows overlap, two elements of a written array overlap, or a stride exceeds the address
   space. */
hashattn_status operand_check(struct host *host, const struct attention_call *call, bool packed_rows,
                              struct operand *operand);

/* INVALID if a written array shares memory with another one or with the key mask. The arrays have been
   checked by operand_check. In a padded batch every sequence counts with the rows of the longest. */
hashattn_status operands_check_separate(struct host *host, const struct attention_call *call,
                                        const struct operand *operands, size_t count);

/* INVALID if the `bytes` at `written`, which may be NULL, share memory with an array. */
hashattn_status operands_check_outside(struct host *host, const struct attention_call *call,
                                       const struct operand *operands, size_t count, const char *name,
                                       const void *written, size_t bytes);

/* INVALID unless the key mask holds only 0 and 1. */
hashattn_status operands_check_mask(struct host *host, const struct attention_call *call);

/* No row is longer than the mechanism allows (0: any length). */
double operand_norm_limit(const struct attention_call *call);
hashattn_status operand_check_lengths(struct host *host, const struct attention_call *call,
                                      const struct operand *operand);

/* Sets all rows to 0, on the pool. */
void operands_clear(const struct attention_call *call, const struct operand *operands, size_t count);

#endif
