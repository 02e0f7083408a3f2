/* ListOps expressions, independent of files: drawing, evaluating and writing them.
   SPDX-License-Identifier: Apache-2.0 */
#ifndef TASKS_LISTOPS_H
#define TASKS_LISTOPS_H

#include <stddef.h>
#include <stdint.h>

#include "base/random.h"

/* The symbols of an expression in prefix order. They are also its token ids; 0 is unused. */
enum listops_symbol {
    LISTOPS_DIGIT = 1, /* 1 + d is the digit d */
    LISTOPS_MIN = 11,
    LISTOPS_MAX = 12,
    LISTOPS_MED = 13,
    LISTOPS_SM = 14,
    LISTOPS_CLOSE = 15,
    LISTOPS_SYMBOLS = 16, /* one past the last */
};
enum { LISTOPS_MAX_DEPTH = 64 };

struct listops_options {
    int64_t min_len, max_len, max_depth, max_args;
    int check_labels;
};

/* Draws one tree into `symbols`, of max_len. Returns its length, or 0 if that would reach max_len. */
size_t listops_draw(struct random *random, const struct listops_options *options, uint32_t *symbols);

/* The value (0 to 9) of one whole expression; -1 if it is not one, or nests deeper than LISTOPS_MAX_DEPTH. */
int listops_value(const uint32_t *symbols, size_t length);

/* Bytes that listops_text may need for an expression of `length` symbols. */
size_t listops_text_size(size_t length);
/* Writes a valid expression in the released format so that it ends at text + size, without NUL. Returns its
   start. */
char *listops_text(const uint32_t *symbols, size_t length, char *text, size_t size);

#endif
