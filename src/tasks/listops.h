/* The ListOps expressions themselves, apart from files: drawing, evaluating, writing them out.
   SPDX-License-Identifier: Apache-2.0 */
#ifndef TASKS_LISTOPS_H
#define TASKS_LISTOPS_H

#include <stddef.h>
#include <stdint.h>

#include "base/random.h"

/* The symbols of an expression in prefix order, which are also its token ids; 0 is padding. */
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

/* One draw of the rules, into `symbols` of max_len. Returns its length, 0 when that would reach max_len. */
size_t listops_draw(struct random *random, const struct listops_options *options, uint32_t *symbols);

/* The value 0 to 9 of one whole expression; -1 when it is none, or nests deeper than LISTOPS_MAX_DEPTH. */
int listops_value(const uint32_t *symbols, size_t length);

/* Bytes that listops_text may need for an expression of `length` symbols. */
size_t listops_text_size(size_t length);
/* The released serialisation of a valid expression, written so that it ends at text + size, without NUL.
   Returns where it starts. */
char *listops_text(const uint32_t *symbols, size_t length, char *text, size_t size);

#endif
