/* Structs that grow: every public struct begins with struct_size, the size that its caller was compiled with,
   and new fields are added only at the end. So an older caller's struct is a prefix of ours, and ours is a
   prefix of a newer caller's.
   SPDX-License-Identifier: Apache-2.0 */
#ifndef API_VERSIONS_H
#define API_VERSIONS_H

#include "base/host.h"

/* Copies a caller's struct into our own (`known` bytes). `least` is its size in the first version that had
   it. INVALID: struct_size is below `least`, as after a forgotten `_default`, or the caller's struct is
   longer than ours with anything but zeros in the rest. */
hashattn_status version_take(struct host *host, void *own, size_t known, const void *given, size_t least,
                             const char *what);

/* Copies our struct (`known` bytes) to a caller's, as far as it fits; keeps its struct_size. */
void version_give(void *given, const void *own, size_t known);

#endif
