/* The arrays of a call at the border: layouts, masks and numbers, each checked with its limit in the message.
   `call` is described already: sizes, offsets, mask and element type. Looking at numbers is one pass over
   every input, on the pool, at the speed of memory: 0.7 ms for 12 heads of 4,096 x 64.
   SPDX-License-Identifier: Apache-2.0 */
#ifndef API_OPERANDS_H
#define API_OPERANDS_H

#include "api/handles.h"

/* The largest product of sizes that is still a number of rows or elements. */
static const size_t operand_most = SIZE_MAX / 64;

/* One array of a call beside what must hold for it. */
struct operand {
    const char *name;
    const hashattn_array *given;
    bool of_keys, written; /* else of queries; else read */
    size_t width;
    struct packed packed; /* set by operand_check */
};

/* One step through an array: `count` places, `stride` elements apart. */
struct operand_step {
    const char *name; /* "row_stride" */
    size_t count, stride;
};

/* No two elements of an array that is written lie at the same place, or INVALID; an element is a row of
   `width` numbers. Sorts the steps; their extents were checked to lie in the address space. */
hashattn_status operand_check_apart(struct host *host, const char *name, size_t width,
                                    struct operand_step *steps, size_t num_steps);

/* The layout. packed_rows: sequences lie behind one another, by offsets. INVALID where rows would overlap,
   two elements of a written array would meet, or a stride leaves the address space. */
hashattn_status operand_check(struct host *host, const struct attention_call *call, bool packed_rows,
                              struct operand *operand);

/* The mask of keys holds 0 and 1 alone. */
hashattn_status operands_check_mask(struct host *host, const struct attention_call *call);

/* No NaN, no infinity, but for masked keys, which nobody reads. unread: only in sequences that the mechanism
   is not given; it looks for itself at the others. INVALID with the place of the first. Sets call->large. */
hashattn_status operands_check_finite(struct host *host, struct attention_call *call,
                                      const struct operand *operands, size_t count, bool unread);

/* Names the place of the first NaN or infinity. */
hashattn_status operands_fail_nan(struct host *host, const struct attention_call *call,
                                  const struct operand *operands, size_t count);

/* No row is longer than the mechanism allows (0: any length). */
double operand_norm_limit(const struct attention_call *call);
hashattn_status operand_check_lengths(struct host *host, const struct attention_call *call,
                                      const struct operand *operand);

/* All rows become 0, on the pool. */
void operands_clear(const struct attention_call *call, const struct operand *operands, size_t count);

#endif
