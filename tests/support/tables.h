/* Which tables of slots a test runs over.
   SPDX-License-Identifier: Apache-2.0 */
#ifndef TESTS_SUPPORT_TABLES_H
#define TESTS_SUPPORT_TABLES_H

#include "kernels/kernels.h"

/* Every table that runs here and is not above the cap HASHATTN_ISA, narrowest first, ended by NULL. Read anew
   when the cap changes, which overwrites the list of an earlier call. */
const struct kernels *const *kernels_all(void);

#endif
