/* Sequences that grow by a token at a time, by a causal model of ids with an objective that scores the next
   id. The prompt is read in one pass over all its rows; a token then costs one product of a matrix and a
   vector per weight, shared by up to FEW_ROWS sequences, and what its attention reads (held.h). If a
   mechanism holds nothing, every token is a pass over the whole sequence. The scores are those of the whole
   sequence up to rounding, within 1e-4 of logits of about 1.
   SPDX-License-Identifier: Apache-2.0 */
#ifndef MODELS_GENERATION_H
#define MODELS_GENERATION_H

#include "models/inference.h"
#include "nn/few_rows.h"

struct generation;

/* sequences: 1 to FEW_ROWS. context: tokens of each, prompt included, at most. `inference` must stay.
   INVALID, with the numbers: the context is longer than the model's positions. REFUSED: the model's
   objectives score no next id, or a mechanism cannot handle the context. */
hashattn_status generation_new(struct host *host, const struct inference *inference, size_t sequences,
                               size_t context, struct generation **generation);
void generation_free(struct host *host, struct generation *generation); /* NULL is allowed */

/* The mechanism that holds nothing of earlier tokens, so that all of them are computed for each new one;
   NULL: there is none. */
const char *generation_recomputes(const struct generation *generation);

/* Makes ids (n >= 1) the tokens of every sequence. INVALID: an id is too large, or n exceeds the context. */
hashattn_status generation_read(struct host *host, struct generation *generation, const uint32_t *ids,
                                size_t n);
/* Appends a token to each sequence, ids (sequences), after generation_read. INVALID: the context is full, or
   a cache refuses the numbers; after a failure a prompt must be read again. */
hashattn_status generation_append(struct host *host, struct generation *generation, const uint32_t *ids);

/* The next id of a sequence is one of first .. first + count - 1. */
size_t generation_count(const struct generation *generation);
uint32_t generation_first(const struct generation *generation);
/* (sequences, count), after a token was read: logarithms of their probabilities, up to a constant of the row.
   Valid until the next call. */
const float *generation_scores(const struct generation *generation);

#endif
