/* Sentences of a text. White space (ASCII) between words becomes one space. A sentence ends
   - at a line feed, or, if lines are wrapped, at a blank line;
   - at white space after . ! or ?, with closing quotes and brackets after it, unless an ASCII lower-case
   letter follows. "Mr. Smith" is therefore two sentences; pretraining needs no better rule. Cost: one pass,
   about 1 ns per byte.
   SPDX-License-Identifier: Apache-2.0 */
#ifndef TASKS_SENTENCES_H
#define TASKS_SENTENCES_H

#include "io/lines.h"

/* Zeroed at first; reused from text to text. */
struct sentences {
    char *text;   /* the sentences one after another; every one but the first begins with a space */
    size_t *ends; /* (count) of each sentence in `text` */
    size_t count, text_capacity, ends_capacity;
};
void sentences_free(struct host *host, struct sentences *sentences);

/* Replaces the sentences by those of a text of any bytes. wrapped: a single line feed is a space. */
hashattn_status sentences_split(struct host *host, struct piece text, bool wrapped,
                                struct sentences *sentences);

#endif
