/* Structs that grow: every public struct begins with struct_size, the size that its caller was compiled with,
   and new fields are added at the end only. So an old caller's struct is a prefix of ours and a newer
   caller's struct has ours as its prefix. SPDX-License-Identifier: Apache-2.0 */
#ifndef API_VERSIONS_H
#define API_VERSIONS_H

#include "base/host.h"

/* Reads a struct that a caller filled into our own (`known` bytes). `least` is its size in the first version
   that had it: less is INVALID, which is what a forgotten `_default` looks like; so is more than we know with
   anything but zeros in it. */
hashattn_status version_take(struct host *host, void *own, size_t known, const void *given, size_t least,
                             const char *what);

/* Writes our own struct (`known` bytes) into a caller's, as many bytes as that has room for; its struct_size
   stays. */
void version_give(void *given, const void *own, size_t known);

#endif
