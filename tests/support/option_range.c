/* Stops at the first row that differs, with both.
   SPDX-License-Identifier: Apache-2.0 */
#include "support/option_range.h"

#include <string.h>

#include "support/check.h"

void check_option_ranges(const struct option_row *rows, const struct option_range *want)
{
    size_t i = 0;
    for (; want[i].name != NULL; i++) {
        if (rows[i].name == NULL || strcmp(rows[i].name, want[i].name) != 0)
            fail_msg("option %zu is %s, not %s", i, rows[i].name == NULL ? "missing" : rows[i].name,
                     want[i].name);
        if (rows[i].type != want[i].type || rows[i].preset != want[i].preset ||
            rows[i].minimum != want[i].minimum || rows[i].maximum != want[i].maximum)
            fail_msg("%s has type %d, default %g and range %g to %g, not %d, %g and %g to %g", want[i].name,
                     (int)rows[i].type, rows[i].preset, rows[i].minimum, rows[i].maximum, (int)want[i].type,
                     want[i].preset, want[i].minimum, want[i].maximum);
    }
    if (rows[i].name != NULL)
        fail_msg("an option '%s' is not expected", rows[i].name);
}
