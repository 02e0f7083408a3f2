/* The one table of these names in the tool; a test compares it with the library's.
   SPDX-License-Identifier: Apache-2.0 */
#include "cli/shared/output/memberships.h"

const char *const compared_memberships[MEMBERSHIPS] = {"own", "lsh", "smyrf"};
