/* Fails each allocation in turn, and limits memory, for any work with a context.
   SPDX-License-Identifier: Apache-2.0 */
#include "support/api_context.h"

#include <string.h>

hashattn_context *context_with(int threads, struct failing_host *failing)
{
    hashattn_context_options options;
    hashattn_context_options_default(&options);
    options.threads = threads;
    if (failing != NULL) {
        options.allocate = failing->host.allocate;
        options.release = failing->host.release;
        options.user = failing;
    }
    char message[512];
    hashattn_context *context;
    if (hashattn_context_new(&options, message, sizeof message, &context) != HASHATTN_OK)
        fail_msg("no context: %s", message);
    return context;
}

void check_call(const hashattn_context *context, hashattn_status got, hashattn_status want, const char *part)
{
    const char *message = hashattn_context_message(context);
    if (got != want)
        fail_msg("status %s, want %s; message: %s", hashattn_status_name(got), hashattn_status_name(want),
                 message);
    if (want != HASHATTN_OK && part != NULL && strstr(message, part) == NULL)
        fail_msg("message '%s' lacks '%s'", message, part);
}

static void check_allocations(hashattn_status (*work)(hashattn_context *context, void *user), void *user,
                              int modes)
{
    enum { MANY = 100000 };
    for (long n = 0; n < MANY; n++) {
        bool done = false;
        for (int once = 0; once < modes; once++) {
            struct failing_host failing;
            failing_host_init(&failing, -1);
            hashattn_context *context = context_with(1, &failing);
            long before = failing.outstanding;
            failing.until_failure = failing.calls + n;
            failing.once = once;
            hashattn_status status = work(context, user);
            if (failing.outstanding != before)
                fail_msg("allocation %ld failed: %ld blocks were not freed", n, failing.outstanding - before);
            done = failing.calls <= failing.until_failure;
            check_call(context, status, done ? HASHATTN_OK : HASHATTN_NO_MEMORY, "no memory");
            hashattn_context_free(context);
            if (failing.outstanding != 0)
                fail_msg("the context kept %ld blocks", failing.outstanding);
        }
        if (done) {
            assert_true(n > 0); /* at least one allocation must have failed */
            return;
        }
    }
    fail_msg("%d allocations are not enough", MANY);
}

void check_every_failing_allocation(hashattn_status (*work)(hashattn_context *context, void *user),
                                    void *user)
{
    check_allocations(work, user, 2);
}

void check_memory_that_ends(hashattn_status (*work)(hashattn_context *context, void *user), void *user)
{
    check_allocations(work, user, 1);
}
