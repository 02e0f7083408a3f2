/* See the header.
   SPDX-License-Identifier: Apache-2.0 */
#include "cli/shared/output/memberships.h"

const char *const compared_memberships[MEMBERSHIPS] = {"own", "lsh", "smyrf"};
