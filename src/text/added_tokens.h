/* Tokens that are found in the text before it is split into words: <mask>, [SEP] and others that a user
   added. As in the reference: the leftmost match counts, and of those the longest; a token may take the white
   space beside it, or match only as a whole word.
   SPDX-License-Identifier: Apache-2.0 */
#ifndef TEXT_ADDED_TOKENS_H
#define TEXT_ADDED_TOKENS_H

#include <stdbool.h>
#include <stdint.h>

#include "io/lines.h"

struct added_token {
    struct piece content; /* belongs to the set */
    uint32_t id;
    bool special;        /* decoding may skip it */
    bool normalized;     /* found in the normalized text; otherwise in the text as it is */
    bool lstrip, rstrip; /* takes the white space before or after it */
    bool single_word;    /* only if no \w is beside it */
};

/* Tokens sorted by content. Zeroed at first. */
struct added_tokens {
    struct added_token *list; /* (count) */
    size_t count, room;
    size_t longest;   /* bytes */
    bool begins[256]; /* some token begins with this byte */
};

/* Copies the token into the set. BAD_FILE: its content is empty. added_tokens_sort must follow the last. */
hashattn_status added_tokens_add(struct host *host, struct added_tokens *tokens,
                                 const struct added_token *token);
void added_tokens_sort(struct added_tokens *tokens);
void added_tokens_free(struct host *host, struct added_tokens *tokens);

/* A search through a text; zeroed at first. */
struct added_search {
    size_t next; /* where the next match may begin */
    size_t done; /* end of the last match, with the white space that it took */
};
struct added_match {
    const struct added_token *token;
    size_t begin, end; /* bytes of the text, with the white space that the token takes */
};
/* The next match; false if there is none. As in the reference, the white space that a token took after it is
   searched too: a token of white space may be found in it again, so that match->begin is less than the end
   of the match before. */
bool added_tokens_next(const struct added_tokens *tokens, struct piece text, struct added_search *search,
                       struct added_match *match);

/* True if a token occurs in the text that begins at or before `at` and ends at or after it. */
bool added_tokens_touch(const struct added_tokens *tokens, struct piece text, size_t at);

#endif
