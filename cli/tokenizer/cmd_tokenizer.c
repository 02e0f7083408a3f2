/* `tokenizer`: learns a vocabulary, encodes and decodes text. This file is the table of its kinds.
   SPDX-License-Identifier: Apache-2.0 */
#include "cli/shared/options/kinds.h"
#include "cli/tokenizer/tokenizer_kinds.h"

static const struct command *const kinds[] = {&tokenizer_train, &tokenizer_encode, &tokenizer_decode, NULL};

const struct command command_tokenizer = {
    .name = "tokenizer",
    .operands = "KIND",
    .summary = "Learns a vocabulary from text, turns text into ids and ids into text",
    .example = "  for i in $(seq 200); do echo \"The cat sat on the mat, and the dog on the log.\"; done > "
               "cats.txt\n"
               "  hashattn tokenizer train cats.txt --vocab-size 300 --out cats\n"
               "  echo 'the cat and the dog' | hashattn tokenizer encode cats -\n",
    .kinds = kinds,
    .run = kinds_run,
};
