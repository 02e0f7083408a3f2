/* Text as BERT prepares it: cleaned, ideographs apart, without accents, in lower case; and its words.
   SPDX-License-Identifier: Apache-2.0 */
#ifndef TEXT_BERT_TEXT_H
#define TEXT_BERT_TEXT_H

#include <stdbool.h>
#include <stdint.h>

#include "io/lines.h"

struct bert_normalizer {
    bool clean;      /* control characters are removed, white space becomes a space */
    bool ideographs; /* a space before and after every ideograph */
    bool strip;      /* decomposed (NFD), without marks */
    bool lower;
};

struct bert_mark; /* a combining mark that waits to be sorted */

/* Normalized text; reused, zeroed at first. Byte i of it comes from bytes begins[i] .. ends[i] of the text.
 */
struct normal_text {
    char *bytes;
    uint32_t *begins, *ends;
    size_t size, bytes_capacity, begins_capacity, ends_capacity;
    struct bert_mark *marks;
    size_t num_marks, marks_capacity;
};
void normal_text_free(struct host *host, struct normal_text *normal);

/* Normalizes a text of less than 2^32 bytes. A byte that is not UTF-8 counts as U+FFFD. */
hashattn_status bert_normalize(struct host *host, const struct bert_normalizer *normalizer, struct piece text,
                               struct normal_text *normal);

/* The next word at or after *at, in front of `end`; *at moves behind it. Words are separated by white space,
   and a punctuation character is a word of its own. The size is 0 if there is none. */
struct piece bert_word(const char **at, const char *end);

/* True if a text may be cut at `at`, inside it, and its parts have the words of the whole. */
bool bert_splits(const struct bert_normalizer *normalizer, const char *begin, const char *at,
                 const char *end);

#endif
