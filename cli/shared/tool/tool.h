/* What all commands share: messages of errors, and the context.
   SPDX-License-Identifier: Apache-2.0 */
#ifndef CLI_TOOL_H
#define CLI_TOOL_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include "cli/shared/tool/exit_code.h"
#include "hashattn/hashattn.h"

/* Prints one line "hashattn: ..." on stderr and returns `code`. Ends all ranks, if they were joined: the
   others would wait for this one. */
int tool_fail(int code, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* Prints the context's message and returns the exit code of the status. If all ranks failed with it, only
   rank 0 prints it. */
int tool_fail_status(const hashattn_context *context, hashattn_status status);
/* Prints words that quote a path, a label or another name, cleaned like a message. The format has no line
   break; tool_line adds one. */
void tool_words(FILE *stream, const char *format, ...) __attribute__((format(printf, 2, 3)));
void tool_line(FILE *stream, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* Says on stderr what hashattn_context_note has to say of repairs, unless `quiet`. */
void tool_say_repairs(const hashattn_context *context, bool quiet);
/* Flushes stdout. Returns EXIT_RESOURCE with a message if output was lost. */
int tool_finish(void);

/* Options of every command. */
struct common {
    size_t threads;
    const char *isa, *precision;
    const char *device; /* of commands that run attention on arrays; NULL: the processor */
    uint64_t seed;
    bool seed_given;
    int json, quiet;
    bool joins;          /* ranks can share the command */
    double comm_timeout; /* seconds, of such a command */
};
/* Makes the context they describe. Under mpirun, a command that joins then works with the other ranks.
   Returns EXIT_GOOD or the exit code of the reported error. */
int tool_open(const struct common *common, hashattn_context **context);
void tool_close(hashattn_context *context); /* NULL is allowed */

#endif
