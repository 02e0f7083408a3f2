/* Forward passes of a model whose weights are prepared: rows and scores of packed sequences. Sequences are
   computed in batches of neighbours; a sequence has the same bits in any batch.
   SPDX-License-Identifier: Apache-2.0 */
#ifndef MODELS_INFERENCE_H
#define MODELS_INFERENCE_H

#include "models/model.h"

/* Rows of a batch: 24 tiles, or somewhat lower ones that the threads share evenly; more cost memory only.
   `embed` with MiniLM and two threads takes 0.88, 0.96 and 0.92 of the time that it took with 2,048 rows, for
   documents of 64, 256 and 512 tokens (Zen 4). */
enum { INFERENCE_ROWS = 24 * ROW_TILE };

struct inference {
    const struct kernels *kernels;
    struct pool *pool;
    struct model *model;
    const float *values; /* prepared, of params_pack or pretrained_pack */
    uint64_t seed;       /* of hashing: every sequence hashes with the same functions */
    struct profile *profile;
};

/* Sequences of ids: s is rows offsets[s] .. offsets[s + 1). segments: (rows); NULL: all 0. */
struct inference_input {
    size_t num_sequences;
    const size_t *offsets; /* (num_sequences + 1) */
    const uint32_t *ids;   /* (rows) */
    const uint8_t *segments;
};

/* INVALID, with the numbers: a sequence is empty or longer than the model's positions, or an id or a segment
   is too large. REFUSED: a mechanism cannot handle a sequence. */
hashattn_status inference_check(struct host *host, const struct inference *inference,
                                const struct inference_input *input);

/* Called per batch with sequences [first, first + n) and the rows of them, (rows, dim). Return true to
   stop. */
typedef bool inference_rows_callback(void *user, size_t first, size_t n, const float *rows);
/* After a check. INTERRUPTED if the callback asked to stop. */
hashattn_status inference_rows(struct host *host, const struct inference *inference,
                               const struct inference_input *input, inference_rows_callback *callback,
                               void *user);
/* After a check. scores (n, model_num_scores): of the rows `places` (n), rising. */
hashattn_status inference_scores(struct host *host, const struct inference *inference,
                                 const struct inference_input *input, const size_t *places, size_t n,
                                 float *scores);

#endif
