/* Tokens that are found in the text before it is split into words: <mask>, [SEP] and others that a user
   added. As in the reference, the leftmost match counts, and the longest of those; a token may take the white
   space beside it, or match only as a whole word. The last of tokens with the same content is found: the
   reference takes the first up to version 0.22, and since then any, from run to run.
   SPDX-License-Identifier: Apache-2.0 */
#ifndef TEXT_ADDED_TOKENS_H
#define TEXT_ADDED_TOKENS_H

#include <stdbool.h>
#include <stdint.h>

#include "text/max_match.h"

struct added_token {
    struct piece content; /* belongs to the set */
    uint32_t id;
    bool special;        /* decoding may skip it */
    bool normalized;     /* found in the normalized text; otherwise in the text as it is */
    bool lstrip, rstrip; /* takes the white space before or after it */
    bool single_word;    /* only if no \w is beside it */
};

/* Zeroed at first. */
struct added_tokens {
    struct added_token *list; /* (count) */
    size_t count, capacity;
    struct max_match patterns; /* indices in the list */
};

/* Copies the token into the set. BAD_FILE: its content is empty. added_tokens_finish must follow the last. */
hashattn_status added_tokens_add(struct host *host, struct added_tokens *tokens,
                                 const struct added_token *token);
hashattn_status added_tokens_finish(struct host *host, struct added_tokens *tokens);
void added_tokens_free(struct host *host, struct added_tokens *tokens);

struct added_match {
    const struct added_token *token;
    size_t begin, end; /* bytes of the text, with the white space that the token takes */
};
/* The matches of a text; zeroed at first, its memory is reused. */
struct added_matches {
    struct added_match *list; /* (count) */
    size_t count, capacity;
    struct max_match_run run;
};
/* Finds the tokens of a text. As in the reference, the white space that a token took after it is searched
   too: a token of white space may be found in it again, so that a match may begin before the end of the one
   before, unless the token takes white space on its left. Cost: bytes of the text. */
hashattn_status added_tokens_find(struct host *host, const struct added_tokens *tokens, struct piece text,
                                  struct added_matches *matches);
void added_matches_free(struct host *host, struct added_matches *matches);

/* Says where a text may be cut, from left to right; zeroed at first. */
struct added_probe {
    struct max_match_run run;
    size_t passed; /* matches of the run that end before the last place */
};
/* The text, or the part of it in which tokens are found, begins at `at`. */
void added_probe_restart(struct added_probe *probe, size_t at);
/* *touches: a match begins at or before `at` and ends at or after it; at never decreases. *end: that of the
   last match that ends before; unchanged if there is none since the last call. */
hashattn_status added_probe_move(struct host *host, const struct added_tokens *tokens, struct piece text,
                                 size_t at, struct added_probe *probe, bool *touches, size_t *end);
void added_probe_free(struct host *host, struct added_probe *probe);

#endif
