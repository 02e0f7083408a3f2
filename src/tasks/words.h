/* A vocabulary of words, counted in a text and stored in a file. A word is the text between white space
   (space, tab, CR, VT, FF). The end of every line, including the last, is the word <eos>; every word that is
   not in the vocabulary is <unk>. Ids: <unk> 1, <eos> 2, then the words of the text, most frequent first,
   equally frequent ones sorted by bytes. A word of more than WORDS_LONGEST bytes is always <unk>. The file
   has one word per line, and its id is the line number, as `cat -n` shows it.
   SPDX-License-Identifier: Apache-2.0 */
#ifndef TASKS_WORDS_H
#define TASKS_WORDS_H

#include <stdint.h>

#include "io/lines.h"
#include "text/learning/word_counts.h"

enum {
    WORDS_MOST = (1 << 20) - 1, /* with the unused id 0, as many ids as a model allows */
    WORDS_LONGEST = 1000,       /* bytes */
    WORDS_UNKNOWN = 1,
    WORDS_END = 2,
};

struct words {
    char *bytes;    /* all words, one after another */
    size_t *starts; /* (count + 1) word with id i is bytes[starts[i - 1] .. starts[i]) */
    size_t count;
    struct index_table table; /* ids - 1 */
};
void words_free(struct host *host, struct words *words); /* NULL is allowed */

/* Adds the words of a text to the counts. A line that is not UTF-8 is BAD_FILE with its number. */
hashattn_status words_add(struct host *host, struct word_counts *counts, struct piece text);
/* The vocabulary of what was counted, of at most `most` words (2 to WORDS_MOST). */
hashattn_status words_choose(struct host *host, const struct word_counts *counts, size_t most,
                             struct words **words);
/* Both, for one text in memory. */
hashattn_status words_count(struct host *host, const char *text, size_t size, size_t most,
                            struct words **words);
/* Returns WORDS_UNKNOWN if the word is not in the vocabulary. */
uint32_t words_find(const struct words *words, struct piece word);
struct piece words_get(const struct words *words, size_t id); /* 1 <= id <= count */

/* Removes the next word of a line from the front of *rest; false at its end. */
bool words_next(struct piece *rest, struct piece *word);

/* Replaces the file in one step. */
hashattn_status words_save(struct host *host, const char *path, const struct words *words);
/* Anything but a vocabulary of `count` words in a regular file is BAD_FILE, with the line. */
hashattn_status words_load(struct host *host, const char *path, size_t count, struct words **words);
hashattn_status words_parse(struct host *host, const char *text, size_t size, size_t count,
                            struct words **words);

#endif
