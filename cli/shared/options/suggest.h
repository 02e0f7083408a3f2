/* "Did you mean": the names most similar to an unknown word.
   SPDX-License-Identifier: Apache-2.0 */
#ifndef CLI_SUGGEST_H
#define CLI_SUGGEST_H

#include <stddef.h>

/* Writes "; did you mean a, b?" into text, or "" if no name is similar. Names at most three: those at the
   least edit distance, if it is at most 1, or a third of a word of six and more letters; then those that
   begin with `word`. Each gets the prefix ("--" or ""). */
void suggest(const char *word, const char *const *names, size_t num_names, const char *prefix, char *text,
             size_t size);

#endif
