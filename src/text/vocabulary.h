/* Tokens and their ids, both ways.
   SPDX-License-Identifier: Apache-2.0 */
#ifndef TEXT_VOCABULARY_H
#define TEXT_VOCABULARY_H

#include <stdbool.h>
#include <stdint.h>

#include "base/tables/index_table.h"
#include "io/lines.h"

enum { VOCABULARY_MOST_IDS = 1 << 20 };

struct vocabulary_entry {
    size_t start; /* of the token in `bytes` */
    uint32_t size;
    bool taken;          /* false: no token has this id */
    bool added;          /* found in texts before words are */
    bool outside;        /* an added token that the model of words lacks */
    bool special;        /* decoding may skip it */
    uint32_t normalized; /* of an added token, its number among those found in normalized text; 0: none */
};

struct vocabulary {
    char *bytes; /* all tokens, one after another */
    size_t num_bytes, bytes_capacity;
    struct vocabulary_entry *entries; /* (num_ids) by id */
    size_t num_ids, ids_capacity;     /* num_ids: one more than the largest id */
    size_t count, longest;            /* number of tokens; bytes of the longest */
    struct index_table tokens;        /* ids */
};

/* Starts from a zeroed struct. BAD_FILE: the id is VOCABULARY_MOST_IDS or more, or the id or the token is
   there already. */
hashattn_status vocabulary_add(struct host *host, struct vocabulary *vocabulary, struct piece token,
                               uint64_t id);
void vocabulary_free(struct host *host, struct vocabulary *vocabulary);

/* *id stays as it is if there is none. */
bool vocabulary_find(const struct vocabulary *vocabulary, struct piece token, uint32_t *id);
/* bytes is NULL if no token has this id. */
struct piece vocabulary_get(const struct vocabulary *vocabulary, uint64_t id);

#endif
