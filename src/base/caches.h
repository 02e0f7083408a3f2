/* The data caches of the processor, for reports of bugs and benches. SPDX-License-Identifier: Apache-2.0 */
#ifndef BASE_CACHES_H
#define BASE_CACHES_H

#include <stddef.h>

/* Where Linux lists the caches of the first processor. */
#define CACHES_OF_LINUX "/sys/devices/system/cpu/cpu0/cache"

/* Writes the sizes that the system lists for its first processor, "L1 32 KiB, L2 1 MiB, L3 32 MiB"; "" if it
   lists none. `folder` has the entries index0, index1, ... */
void caches_read(const char *folder, char *text, size_t size);

#endif
