/* A context: the host, the pool and the table of kernels that a program's calls share. The instruction set is
   detected once, here.
   SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>
#include <string.h>

#include "api/floating.h"
#include "api/handles.h"
#include "api/versions/versions.h"
#include "base/file_writer.h"
#include "base/machine.h"
#include "base/memory.h"
#include "gpu/driver.h"
#include "hashattn/hashattn.h"
#include "io/json.h"
#include "io/utf8.h"
#include "kernels/product.h"

void hashattn_context_options_default_sized(hashattn_context_options *options, size_t struct_size)
{
    const hashattn_context_options own = {.threads = 0};
    version_fill_options(options, struct_size, &own, sizeof own);
}

static hashattn_status take_communicator(struct host *host, const hashattn_communicator *given,
                                         struct comm *comm)
{
    hashattn_communicator peer = {.timeout = 0};
    TRY(version_take(host, &peer, sizeof peer, given, first_sizes.communicator, "communicator"));
    return comm_new(host, &peer, comm);
}

static hashattn_status find_precision(struct host *host, const char *name, enum precision *precision)
{
    int found = 0;
    while (name != NULL && precision_names[found] != NULL && strcmp(precision_names[found], name) != 0)
        found++;
    FAIL_IF(found == PRECISION_COUNT, host, HASHATTN_INVALID,
            "no precision '%.40s', there are: float32, bf16", name);
    *precision = (enum precision)found;
    return HASHATTN_OK;
}

/* The first call of all ranks: compares what must be equal for equal bits. */
static hashattn_status join(struct hashattn_context *context)
{
    char text[300], library[64];
    product_library(library, sizeof library);
    snprintf(text, sizeof text, "version: %s\ninstruction set: %s\nproducts: %s\nprecision: %s\n",
             HASHATTN_VERSION, context->kernels->name, library, precision_names[context->precision]);
    return comm_same(&context->host, &context->comm, text);
}

static hashattn_status make_context(struct host *host, const hashattn_context_options *given,
                                    hashattn_context **out)
{
    hashattn_context_options options;
    hashattn_context_options_default(&options);
    if (given != NULL)
        TRY(version_take(host, &options, sizeof options, given,
                         offsetof(hashattn_context_options, communicator), "context options"));
    host->option_dashes = options.option_dashes;
    FAIL_IF((options.allocate == NULL) != (options.release == NULL), host, HASHATTN_INVALID,
            "context options: allocate and release are given together or not at all");
    FAIL_IF(options.threads < 0 || options.threads > 1024, host, HASHATTN_INVALID,
            "`threads` is %d, allowed are 0 to 1024 (0: all processors)", options.threads);
    const char *why = NULL;
    const struct kernels *kernels = kernels_named(options.isa, &why);
    FAIL_IF(kernels == NULL, host, HASHATTN_INVALID, "isa '%.40s': %s",
            options.isa == NULL ? "auto" : options.isa, why);
    enum precision precision = PRECISION_FLOAT32;
    TRY(find_precision(host, options.precision, &precision));
    if (options.allocate != NULL) {
        host->allocate = options.allocate;
        host->release = options.release;
        host->user = options.user;
    }
    void *block;
    TRY(memory_new_zeroed(host, 1, sizeof **out, "context", &block));
    hashattn_context *context = block;
    context->kernels = kernels;
    context->precision = precision;
    context->precision_given = options.precision != NULL;
    context->comm = comm_self();
    hashattn_status status =
        pool_new(host, options.threads == 0 ? machine_processors() : options.threads, &context->pool);
    if (status == HASHATTN_OK && options.communicator != NULL)
        status = take_communicator(host, options.communicator, &context->comm);
    if (status == HASHATTN_OK && options.device != NULL && strcmp(options.device, "cpu") != 0)
        status = device_open(host, options.device, &context->device);
    context->host = *host;
    if (status == HASHATTN_OK)
        status = join(context);
    if (status != HASHATTN_OK) {
        memcpy(host->message, context->host.message, sizeof host->message);
        device_free(host, context->device);
        comm_free(host, &context->comm);
        pool_free(host, context->pool);
        memory_free(host, context);
    } else {
        *out = context;
    }
    return status;
}

hashattn_status hashattn_context_new(const hashattn_context_options *options, char *message,
                                     size_t message_size, hashattn_context **context)
{
    FLOATING_DEFAULT;
    struct host host;
    host_init(&host);
    hashattn_status status = HASHATTN_INVALID;
    if (context == NULL) {
        host_fail(&host, status, "context is NULL");
    } else {
        *context = NULL;
        status = make_context(&host, options, context);
    }
    if (message != NULL && message_size > 0) {
        snprintf(message, message_size, "%s", host.message);
        hashattn_message_clean(message);
    }
    return status;
}

void hashattn_context_free(hashattn_context *context)
{
    if (context == NULL)
        return;
    struct host host = context->host; /* copied, because it frees the block it lies in */
    hashattn_profile_stop(context);
    device_free(&host, context->device);
    comm_free(&host, &context->comm);
    pool_free(&host, context->pool);
    memory_free(&host, context);
}

void hashattn_context_remove_unfinished(const hashattn_context *context)
{
    if (context != NULL)
        file_remove_unfinished(&context->host);
}

const char *hashattn_context_message(const hashattn_context *context)
{
    return context == NULL ? "context is NULL" : context->host.message;
}

int hashattn_context_failed_together(const hashattn_context *context)
{
    return context != NULL && context->comm.agreed;
}

void hashattn_context_describe(const hashattn_context *context, hashattn_description *description)
{
    hashattn_description own = {
        .version = HASHATTN_VERSION,
        .isa = context->kernels->name,
        .projection = hash_projection_names[hash_projection_of(context->kernels, HASH_AUTO)],
        .precision = precision_names[context->precision],
        .bf16 = context->kernels->bf16.how,
        .threads = pool_threads(context->pool),
        .rank = comm_rank(&context->comm),
        .ranks = comm_size(&context->comm),
        .bytes_sent = context->comm.bytes_sent,
    };
    product_library(own.products, sizeof own.products);
    machine_name(own.processor, sizeof own.processor);
    char json[30], utf8[30];
    json_library(json, sizeof json);
    utf8_library(utf8, sizeof utf8);
    snprintf(own.libraries, sizeof own.libraries, "%s, %s", json, utf8);
    machine_caches(MACHINE_CACHES, own.caches, sizeof own.caches);
    version_give(description, &own, sizeof own);
}

void hashattn_context_cap_products(const hashattn_context *context)
{
    if (context != NULL)
        product_cap(context->kernels);
}

const char *const *hashattn_isa_names(void)
{
    return kernels_names();
}

const char *hashattn_isa_refusal(const char *isa)
{
    const char *why = NULL;
    return kernels_named(isa, &why) == NULL ? why : NULL;
}
