/* The smallest training there is, for tests of what stands around one: needles of eight tokens, a model of a
   few hundred parameters, in a directory of its own. SPDX-License-Identifier: Apache-2.0 */
#ifndef TESTS_SUPPORT_TINY_RUN_H
#define TESTS_SUPPORT_TINY_RUN_H

#include "support/api_context.h"

/* Makes a fresh directory and goes there; tiny_leave comes back and removes it with all that is in it. */
void tiny_enter(void);
void tiny_leave(void);

/* A setup of `steps` steps of 4 examples, an evaluation every 2. */
hashattn_setup *tiny_setup(hashattn_context *context, const char *mechanism, int steps);
/* 40, 10 and 10 examples in `directory`. */
void tiny_data(hashattn_context *context, const char *directory);

#endif
