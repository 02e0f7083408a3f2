/* The first bytes of a block `saved`: forward writes what it was computed with, and backward and own_loss
   refuse another block. A mechanism that saves nothing has none. Cost: a pass over the offsets, the mask and
   the sample ids, eight bytes at a time.
   SPDX-License-Identifier: Apache-2.0 */
#ifndef API_SAVED_TAG_H
#define API_SAVED_TAG_H

#include "attention/driver/attention.h"

/* Keeps what follows aligned. */
enum { SAVED_TAG_BYTES = 64 };

void saved_tag_write(const struct attention_call *call, void *saved);
/* The words that saved_tag_write writes first. */
void saved_tag_words(const struct attention_call *call, uint64_t words[2]);
/* Before forward, which may fail. */
void saved_tag_clear(void *saved);
/* INVALID: no forward wrote the block, or one with another mechanism, options or problem. */
hashattn_status saved_tag_check(struct host *host, const struct attention_call *call, const void *saved);

#endif
