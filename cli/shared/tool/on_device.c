/* Blocks of a device, and the copies to them. Cost: a pass over each array, at the speed of the bus.
   SPDX-License-Identifier: Apache-2.0 */
#include "cli/shared/tool/on_device.h"

#include <string.h>

bool device_wanted(const struct common *common)
{
    return common->device != NULL && strcmp(common->device, "cpu") != 0;
}

int device_block(struct device_blocks *blocks, hashattn_context *context, const void *from, size_t bytes,
                 void **block)
{
    *block = NULL;
    if (bytes == 0)
        return EXIT_GOOD;
    hashattn_status status = hashattn_device_allocate(context, bytes, block);
    if (status == HASHATTN_OK) {
        blocks->block[blocks->count++] = *block;
        status = from == NULL ? status : hashattn_device_write(context, *block, from, bytes);
    }
    return status == HASHATTN_OK ? EXIT_GOOD : tool_fail_status(context, status);
}

void device_blocks_free(struct device_blocks *blocks, hashattn_context *context)
{
    for (size_t i = 0; i < blocks->count; i++)
        hashattn_device_release(context, blocks->block[i]);
    blocks->count = 0;
}
