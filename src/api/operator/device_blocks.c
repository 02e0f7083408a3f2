/* The tag of a device's `saved` is written and compared on the device.
   SPDX-License-Identifier: Apache-2.0 */
#include "api/operator/device_blocks.h"

#include <string.h>

#include "api/operator/saved_tag.h"
#include "base/memory.h"
#include "gpu/driver.h"

/* The host's staging stays with the plan, because it keeps the planes of a call for the next. */
static hashattn_status find_staging(hashattn_attention *attention, size_t bytes)
{
    struct host *host = &attention->context->host;
    struct cached_plan *cached = &attention->cached;
    if (cached->staging != NULL)
        return HASHATTN_OK;
    return memory_new_zeroed(host, 1, size_max(bytes, 1), "what a call writes to the GPU", &cached->staging);
}

hashattn_status device_blocks_open(hashattn_attention *attention, const struct attention_call *call,
                                   size_t saved_bytes, void *saved, void *scratch, struct device_own *own,
                                   struct device_blocks *blocks)
{
    struct host *host = &attention->context->host;
    struct device *device = attention->context->device;
    const struct attention_plan *plan = call->plan;
    *own = (struct device_own){0, 0};
    TRY(find_staging(attention, plan->staging_bytes));
    if (saved == NULL && saved_bytes > 0)
        TRY(device_memory_new(host, device, saved_bytes, "what attention saves", &own->saved));
    if (scratch == NULL && plan->scratch_bytes > 0)
        TRY(device_memory_new(host, device, plan->scratch_bytes, "attention's scratch", &own->scratch));
    uintptr_t tag = own->saved != 0 ? own->saved : (uintptr_t)saved;
    *blocks = (struct device_blocks){
        .saved = (void *)(tag + (saved_bytes > 0 ? SAVED_TAG_BYTES : 0)),
        .scratch = own->scratch != 0 ? (void *)(uintptr_t)own->scratch : scratch,
        .staging = attention->cached.staging,
        .tag = saved_bytes > 0 ? tag : 0,
    };
    saved_tag_words(call, blocks->tag_words);
    return HASHATTN_OK;
}

hashattn_status device_blocks_close(hashattn_attention *attention, const struct device_own *own,
                                    hashattn_status status)
{
    struct host *host = &attention->context->host;
    struct device *device = attention->context->device;
    if (own->saved == 0 && own->scratch == 0)
        return status;
    if (status == HASHATTN_OK)
        status = device_wait(host, device);
    device_memory_free(host, device, own->saved);
    device_memory_free(host, device, own->scratch);
    return status;
}
