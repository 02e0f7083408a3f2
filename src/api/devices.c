/* The devices of the machine, and the memory and the stream of a context's device.
   SPDX-License-Identifier: Apache-2.0 */
#include "hashattn/device.h"

#include <limits.h>
#include <stdio.h>
#include <string.h>

#include "api/floating.h"
#include "api/handles.h"
#include "api/versions/versions.h"
#include "gpu/driver.h"

hashattn_status hashattn_device_count(char *message, size_t message_size, size_t *count)
{
    FLOATING_DEFAULT;
    struct host host;
    int found = 0;
    host_init(&host);
    hashattn_status status =
        count == NULL ? host_fail(&host, HASHATTN_INVALID, "count is NULL") : device_count(&host, &found);
    if (count != NULL)
        *count = (size_t)found;
    if (message != NULL && message_size > 0) {
        snprintf(message, message_size, "%s", host.message);
        hashattn_message_clean(message);
    }
    return status;
}

int hashattn_device_get(size_t index, hashattn_device_info *info)
{
    struct host host;
    struct device_facts facts;
    host_init(&host);
    int count = 0;
    if (device_count(&host, &count) != HASHATTN_OK || index >= (size_t)count ||
        device_describe(&host, (int)index, &facts) != HASHATTN_OK)
        return 0;
    hashattn_device_info own = {
        .major = facts.major, .minor = facts.minor, .memory_bytes = facts.memory_bytes};
    snprintf(own.name, sizeof own.name, "%s", facts.name);
    hashattn_message_clean(own.name);
    version_give(info, &own, sizeof own);
    return 1;
}

/* INVALID if the context has no device. */
static hashattn_status check_device(hashattn_context *context)
{
    FAIL_IF(context->device == NULL, &context->host, HASHATTN_INVALID,
            "the context computes on the processor; its options name no device");
    return HASHATTN_OK;
}

hashattn_status hashattn_context_set_stream(hashattn_context *context, void *stream)
{
    FLOATING_DEFAULT;
    if (context == NULL)
        return HASHATTN_INVALID;
    TRY(check_device(context));
    return device_set_stream(&context->host, context->device, stream);
}

hashattn_status hashattn_context_wait(hashattn_context *context)
{
    FLOATING_DEFAULT;
    if (context == NULL)
        return HASHATTN_INVALID;
    return context->device == NULL ? HASHATTN_OK : device_wait(&context->host, context->device);
}

hashattn_status hashattn_device_allocate(hashattn_context *context, size_t bytes, void **block)
{
    FLOATING_DEFAULT;
    uint64_t address = 0;
    if (block != NULL)
        *block = NULL;
    if (context == NULL)
        return HASHATTN_INVALID;
    FAIL_IF(block == NULL, &context->host, HASHATTN_INVALID, "block is NULL");
    TRY(check_device(context));
    FAIL_IF(bytes == 0, &context->host, HASHATTN_INVALID, "bytes is 0, at least 1 is needed");
    TRY(device_memory_new(&context->host, context->device, bytes, "a block", &address));
    *block = (void *)(uintptr_t)address;
    return HASHATTN_OK;
}

void hashattn_device_release(hashattn_context *context, void *block)
{
    if (context != NULL && context->device != NULL)
        device_memory_free(&context->host, context->device, (uintptr_t)block);
}

hashattn_status hashattn_device_write(hashattn_context *context, void *to, const void *from, size_t bytes)
{
    FLOATING_DEFAULT;
    if (context == NULL)
        return HASHATTN_INVALID;
    TRY(check_device(context));
    FAIL_IF(bytes > 0 && (to == NULL || from == NULL), &context->host, HASHATTN_INVALID, "%s is NULL",
            to == NULL ? "to" : "from");
    return device_write(&context->host, context->device, (uintptr_t)to, from, bytes);
}

hashattn_status hashattn_device_read(hashattn_context *context, void *to, const void *from, size_t bytes)
{
    FLOATING_DEFAULT;
    if (context == NULL)
        return HASHATTN_INVALID;
    TRY(check_device(context));
    FAIL_IF(bytes > 0 && (to == NULL || from == NULL), &context->host, HASHATTN_INVALID, "%s is NULL",
            to == NULL ? "to" : "from");
    return device_read(&context->host, context->device, to, (uintptr_t)from, bytes);
}
