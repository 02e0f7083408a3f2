/* The memberships that `inspect` compares, by name (hashattn_membership.membership), which are also the keys
   of its record.
   SPDX-License-Identifier: Apache-2.0 */
#ifndef CLI_MEMBERSHIPS_H
#define CLI_MEMBERSHIPS_H

enum { MEMBERSHIPS = 3 };
extern const char *const compared_memberships[MEMBERSHIPS]; /* the run's own first */

#endif
