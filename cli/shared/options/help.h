/* The help of a command, from the rows of its options.
   SPDX-License-Identifier: Apache-2.0 */
#ifndef CLI_HELP_H
#define CLI_HELP_H

#include "cli/shared/options/command_options.h"
#include "cli/shared/options/page.h"

void help_print(const struct options *options, struct page *page);

#endif
