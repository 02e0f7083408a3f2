/* The smallest training, for tests of the code around one: needles of eight tokens and a model of a few
   hundred parameters in a new directory.
   SPDX-License-Identifier: Apache-2.0 */
#ifndef TESTS_SUPPORT_TINY_RUN_H
#define TESTS_SUPPORT_TINY_RUN_H

#include "support/api_context.h"

/* Makes a new directory and changes to it; tiny_leave returns and removes it with its contents. */
void tiny_enter(void);
void tiny_leave(void);

/* A setup of `steps` steps of 4 examples, with an evaluation every 2 steps. */
hashattn_setup *tiny_setup(hashattn_context *context, const char *mechanism, int steps);
/* Generates 40, 10 and 10 examples in `directory`. */
void tiny_data(hashattn_context *context, const char *directory);

#endif
