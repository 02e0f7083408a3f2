/* The kinds of `tokenizer`. Each is a command of its own: one file with one exported row, and one line in the
   table of cmd_tokenizer.c.
   SPDX-License-Identifier: Apache-2.0 */
#ifndef CLI_TOKENIZER_KINDS_H
#define CLI_TOKENIZER_KINDS_H

#include "cli/shared/options/arguments.h"

extern const struct command tokenizer_train, tokenizer_encode, tokenizer_decode;

#endif
