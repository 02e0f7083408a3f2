/* `tokenizer`: learns a vocabulary, encodes and decodes text. This file is the table of its kinds.
   SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "cli/shared/options/suggest.h"
#include "cli/tokenizer/tokenizer_kinds.h"

static const struct command *const kinds[] = {&tokenizer_train, &tokenizer_encode, &tokenizer_decode, NULL};
enum { NUM_KINDS = sizeof kinds / sizeof kinds[0] - 1 };

/* The second word of "tokenizer train". */
static const char *word_of(const struct command *kind)
{
    return strchr(kind->name, ' ') + 1;
}

static int run(const struct command *self, int argc, char **argv)
{
    for (size_t k = 0; k < NUM_KINDS && argc > 1; k++)
        if (strcmp(argv[1], word_of(kinds[k])) == 0)
            return kinds[k]->run(kinds[k], argc - 1, argv + 1);
    struct options options;
    options_begin(&options, self);
    int code;
    if (!options_parse(&options, argc, argv, &code))
        return code;
    if (options.num_operands == 0)
        return options_fail(&options, "tokenizer needs one of train, encode, decode");
    const char *words[NUM_KINDS];
    char near[200];
    for (size_t i = 0; i < NUM_KINDS; i++)
        words[i] = word_of(kinds[i]);
    suggest(options.operands[0], words, NUM_KINDS, "", near, sizeof near);
    return options_fail(&options, "tokenizer has no kind '%.60s', there are train, encode, decode%s",
                        options.operands[0], near);
}

const struct command command_tokenizer = {
    .name = "tokenizer",
    .operands = "KIND",
    .summary = "Learns a vocabulary from text, turns text into ids and ids into text",
    .example = "  for i in $(seq 200); do echo \"The cat sat on the mat, and the dog on the log.\"; done > "
               "cats.txt\n"
               "  hashattn tokenizer train cats.txt --vocab-size 300 --out cats\n"
               "  echo 'the cat and the dog' | hashattn tokenizer encode cats -\n",
    .kinds = kinds,
    .run = run,
};
