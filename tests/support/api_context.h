/* Contexts for the tests of the public interface, and checks on their messages.
   SPDX-License-Identifier: Apache-2.0 */
#ifndef TESTS_SUPPORT_API_CONTEXT_H
#define TESTS_SUPPORT_API_CONTEXT_H

#include "hashattn/hashattn.h"
#include "support/check.h"

/* A context of `threads` threads that must come to be; failing: its allocator, or NULL. */
hashattn_context *context_with(int threads, struct failing_host *failing);

/* As check_status, with the message of the context. */
void check_call(const hashattn_context *context, hashattn_status got, hashattn_status want, const char *part);
#define check_ok(context, call) check_call(context, call, HASHATTN_OK, NULL)

/* Runs `work` on fresh contexts whose n-th allocation after the context itself fails, with all that follow
   and alone, for every n from 0 until it succeeds: it must say NO_MEMORY, and give back all memory that it
   took. `work` frees what it makes. */
void check_every_failing_allocation(hashattn_status (*work)(hashattn_context *context, void *user),
                                    void *user);
/* The same where all that follow fail too: for work that tries again what failed once. */
void check_memory_that_ends(hashattn_status (*work)(hashattn_context *context, void *user), void *user);

#endif
