/* Tokens and their ids, both ways.
   SPDX-License-Identifier: Apache-2.0 */
#ifndef TEXT_VOCABULARY_H
#define TEXT_VOCABULARY_H

#include <stdbool.h>
#include <stdint.h>

#include "io/lines.h"

struct vocabulary_entry {
    size_t start; /* of the token in `bytes` */
    uint32_t size;
    bool taken;   /* false: no token has this id */
    bool added;   /* found in texts before words are */
    bool outside; /* an added token that the model of words does not know */
    bool special; /* decoding may skip it */
};

struct vocabulary {
    char *bytes; /* all tokens, one after another */
    size_t num_bytes, bytes_room;
    struct vocabulary_entry *entries; /* (num_ids) by id */
    size_t num_ids, ids_room;         /* num_ids: one more than the largest id */
    size_t count, longest;            /* number of tokens; bytes of the longest */
    uint32_t *slots;                  /* (num_slots, a power of 2) id + 1 by hash, linear probing; 0: free */
    size_t num_slots;
};

/* Starts from a zeroed struct. BAD_FILE: the id is TOKENIZER_MOST_IDS or more, or the id or the token is
   there already. */
hashattn_status vocabulary_add(struct host *host, struct vocabulary *vocabulary, struct piece token,
                               uint64_t id);
void vocabulary_free(struct host *host, struct vocabulary *vocabulary);

bool vocabulary_find(const struct vocabulary *vocabulary, struct piece token, uint32_t *id);
/* bytes is NULL if no token has this id. */
struct piece vocabulary_get(const struct vocabulary *vocabulary, uint64_t id);

/* The hash of a token grows byte by byte, so that all beginnings of a word are hashed in one pass:
   vocabulary_find(v, token) is vocabulary_look_up(v, token, hash of all its bytes). */
enum { VOCABULARY_HASH = 0x2545f491 };
static inline uint64_t vocabulary_hash(uint64_t hash, char byte)
{
    return (hash ^ (unsigned char)byte) * 0x100000001b3u;
}
bool vocabulary_look_up(const struct vocabulary *vocabulary, struct piece token, uint64_t hash, uint32_t *id);

#endif
