/* The defaults and ranges of a table of options, row by row.
   SPDX-License-Identifier: Apache-2.0 */
#ifndef TESTS_SUPPORT_OPTION_RANGE_H
#define TESTS_SUPPORT_OPTION_RANGE_H

#include "base/options.h"

struct option_range {
    const char *name; /* NULL ends a list */
    enum option_type type;
    double preset, minimum, maximum;
};
/* Fails unless the table has exactly these rows in this order, and a NULL row after them. */
void check_option_ranges(const struct option_row *rows, const struct option_range *want);

#endif
