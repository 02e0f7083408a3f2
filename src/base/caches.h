/* The data caches of the processor, for reports of bugs and benches.
   SPDX-License-Identifier: Apache-2.0 */
#ifndef BASE_CACHES_H
#define BASE_CACHES_H

#include <stddef.h>

/* The folder in which Linux lists the caches of its first processor. */
#define CACHES_OF_LINUX "/sys/devices/system/cpu/cpu0/cache"

/* Writes the sizes that `folder` lists in its entries index0, index1, ...: "L1 32 KiB, L2 1 MiB, L3 32 MiB";
   "" if it lists none or does not exist. */
void caches_read(const char *folder, char *text, size_t size);

#endif
