/* What the machine offers this process. SPDX-License-Identifier: Apache-2.0 */
#ifndef BASE_MACHINE_H
#define BASE_MACHINE_H

#include <stddef.h>

/* Processors that this process may use, 1 to 1024. */
int machine_processors(void);

/* Writes the model name of the processor to text, cut to size - 1 bytes; "" if it is unknown. size >= 1. */
void machine_name(char *text, size_t size);

#endif
