/* What the machine offers this process.
   SPDX-License-Identifier: Apache-2.0 */
#ifndef BASE_MACHINE_H
#define BASE_MACHINE_H

#include <stdbool.h>
#include <stddef.h>

/* Processors that this process may use, 1 to 1024. */
int machine_processors(void);

/* Writes the model name of the processor to text, cut to size - 1 bytes; "" if it is unknown. size >= 1. */
void machine_name(char *text, size_t size);

/* Asks the system to let the threads of this process, including later ones, use component `number` of the
   processor's state (a bit of XCR0 on x86) that it saves only on request. Returns false if the system refuses
   or has no such request. Repeated calls are harmless, and child processes inherit the permission. From then
   on the system refuses alternate signal stacks that are too small for that component. */
bool machine_grants_state(unsigned number);

/* The folder in which Linux lists the caches of its first processor. */
#define MACHINE_CACHES "/sys/devices/system/cpu/cpu0/cache"

/* Writes the sizes that `folder` lists in its entries index0, index1, ...: "L1 32 KiB, L2 1 MiB, L3 32 MiB";
   "" if it lists none or does not exist. */
void machine_caches(const char *folder, char *text, size_t size);

#endif
