/* Contexts for the tests of the public interface, and checks on their messages.
   SPDX-License-Identifier: Apache-2.0 */
#ifndef TESTS_SUPPORT_API_CONTEXT_H
#define TESTS_SUPPORT_API_CONTEXT_H

#include "hashattn/hashattn.h"
#include "support/check.h"

/* Makes a context of `threads` threads; a failure fails the test. failing: its allocator, or NULL. */
hashattn_context *context_with(int threads, struct failing_host *failing);

/* Like check_status, with the context's message. */
void check_call(const hashattn_context *context, hashattn_status got, hashattn_status want, const char *part);
#define check_ok(context, call) check_call(context, call, HASHATTN_OK, NULL)

/* For every n from 0 until `work` succeeds, runs it on fresh contexts whose n-th allocation after the context
   itself fails, either with all that follow or only that one. It must return NO_MEMORY and free all its
   memory. `work` frees what it makes. */
void check_every_failing_allocation(hashattn_status (*work)(hashattn_context *context, void *user),
                                    void *user);
/* The same, but all later allocations fail too: for work that retries after a failure. */
void check_memory_that_ends(hashattn_status (*work)(hashattn_context *context, void *user), void *user);

#endif
