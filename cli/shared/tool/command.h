/* The interface of a command: one file or folder, one exported row, one line in main.c's table.
   SPDX-License-Identifier: Apache-2.0 */
#ifndef CLI_COMMAND_H
#define CLI_COMMAND_H

#include "cli/shared/tool/tool.h"

struct command {
    const char *name;
    const char *operands; /* "TASK", "RUN FILE" or "" */
    const char *summary;  /* one sentence, no full stop */
    const char *example;  /* one or more command lines that work as written, each ended by a newline */
    const struct command *const *kinds; /* subcommands chosen by the first operand, ended by NULL; or NULL */
    int (*run)(const struct command *self, int argc, char **argv); /* argv[0]: the command; an exit code */
};

extern const struct command command_info, command_attend, command_data, command_train, command_eval,
    command_predict, command_generate, command_embed, command_fill_mask, command_export, command_inspect,
    command_report, command_bench, command_tokenizer, command_density;

#endif
