/* Lines of a file, turned into output with a tokenizer: what `encode` and `decode` share.
   SPDX-License-Identifier: Apache-2.0 */
#ifndef CLI_TOKENIZER_LINES_H
#define CLI_TOKENIZER_LINES_H

#include "cli/shared/options/arguments.h"

struct tokenizer_lines {
    hashattn_context *context;
    hashattn_tokenizer *tokenizer;
    hashattn_file *out;
    const char *path; /* of the lines; "-": standard input */
};

/* Takes one line, without LF or CR LF; number: from 1. Any exit code but EXIT_GOOD ends the run. */
typedef int tokenizer_line(void *self, const char *bytes, size_t size, size_t number);

/* Runs a command whose operands are the directory of a tokenizer and a file: opens all members, calls `line`
   with every line up to a bad one and then `end` (NULL: nothing is left to do), and closes them. A file `out`
   appears only if everything succeeds. Memory does not grow with the file. Returns an exit code. */
int tokenizer_lines_run(struct tokenizer_lines *lines, const struct options *options, const char *out,
                        tokenizer_line *line, int (*end)(void *self), void *self);

#endif
