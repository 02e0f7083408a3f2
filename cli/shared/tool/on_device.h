/* --device for commands that compute on arrays: inputs are copied to the memory of the context's device, and
   results are copied back. Functions return EXIT_GOOD or the exit code of the reported error.
   SPDX-License-Identifier: Apache-2.0 */
#ifndef CLI_ON_DEVICE_H
#define CLI_ON_DEVICE_H

#include "cli/shared/tool/tool.h"

/* True if --device names one. */
bool device_wanted(const struct common *common);

enum { DEVICE_BLOCKS = 10 };
/* Blocks in the memory of a device, to be freed by device_blocks_free. May be all zero. */
struct device_blocks {
    void *block[DEVICE_BLOCKS];
    size_t count;
};

/* *block = a new one of `bytes` (0: NULL), with a copy of `from` unless that is NULL. */
int device_block(struct device_blocks *blocks, hashattn_context *context, const void *from, size_t bytes,
                 void **block);
void device_blocks_free(struct device_blocks *blocks, hashattn_context *context);

#endif
