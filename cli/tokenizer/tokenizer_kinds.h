/* What the kinds of `tokenizer` share. A kind is a command of its own: one file with one exported row, and
   one line in the table of cmd_tokenizer.c.
   SPDX-License-Identifier: Apache-2.0 */
#ifndef CLI_TOKENIZER_KINDS_H
#define CLI_TOKENIZER_KINDS_H

#include "cli/shared/options/arguments.h"

extern const struct command tokenizer_train, tokenizer_encode, tokenizer_decode;

/* Calls `line` with every line of a file ("-": standard input), without LF or CR LF, until it returns
   anything but EXIT_GOOD. number: of the line, from 1. Memory does not grow with the file. Returns that exit
   code. */
typedef int tokenizer_line(void *user, const char *bytes, size_t size, size_t number);
int tokenizer_each_line(const char *path, tokenizer_line *line, void *user);

#endif
