/* A command of the tool: one file, one exported row, one line in main.c's table; and what all commands share:
   how they fail, how they end, how they get a context. SPDX-License-Identifier: Apache-2.0 */
#ifndef CLI_COMMAND_H
#define CLI_COMMAND_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include "hashattn/hashattn.h"

/* Exit codes; the library's statuses map to the same (hashattn_status_exit_code). */
enum exit_code {
    EXIT_GOOD = 0,
    EXIT_WORK = 1,
    EXIT_USAGE = 2,
    EXIT_FILE = 3,
    EXIT_ROOM = 4, /* memory or disk */
    EXIT_STOPPED = 130,
};

struct command {
    const char *name;
    const char *operands; /* "TASK", "RUN FILE" or "" */
    const char *summary;  /* one sentence, no full stop */
    const char *example;  /* command lines that work as they stand, one or more, each ended by a newline */
    const struct command *const
        *kinds; /* those that the first operand chooses from, ended by NULL; or NULL */
    int (*run)(const struct command *self, int argc, char **argv); /* argv[0] is the command; an exit code */
};

extern const struct command command_info, command_attend, command_data, command_train, command_eval,
    command_predict, command_inspect, command_bench;

/* One line of words on stderr, "hashattn: ..."; gives back `code`, so that a failure is one line. */
int tool_fail(int code, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* The context's message, and the exit code of the status. */
int tool_fail_status(const hashattn_context *context, hashattn_status status);
/* Flushes stdout; EXIT_ROOM with the reason when what was printed did not arrive. */
int tool_finish(void);

/* Options that every command takes. */
struct common {
    size_t threads;
    const char *isa, *precision;
    uint64_t seed;
    bool seed_given;
    int json, quiet;
};
/* The context that they describe; EXIT_GOOD or what tool_fail gave. */
int tool_open(const struct common *common, hashattn_context **context);
void tool_close(hashattn_context *context); /* NULL is allowed */

#endif
