/* The help of a command, from the rows of its options.
   SPDX-License-Identifier: Apache-2.0 */
#ifndef CLI_HELP_H
#define CLI_HELP_H

#include "cli/shared/options/command_options.h"
#include "cli/shared/options/page.h"

/* plan: the value of --attention, whose mechanisms alone are described; NULL: all are. */
void help_print(const struct options *options, const char *plan, struct page *page);

#endif
