/* Token and position embedding: row = word[token] + position[place in its sequence]. Positions are learned,
   both tables starting from N(0, 0.02^2); or sinusoids (Vaswani et al. 2017), column 2 i the sine and 2 i + 1
   the cosine of place / 10000^(2 i / dim), beside words from N(0, 1), as in the Long Range Arena; or none.
   A table that is the output of the model too (next_token.h) starts from N(0, 1 / dim), which gives logits of
   the size of 1, and its rows are multiplied by sqrt(dim) on their way in (Vaswani et al. 2017, section 3.4);
   learned positions beside them start from N(0, 0.5^2). At 0.02 they are lost there for hundreds of steps: on
   a text of order 2 (tests/cli/test_lm.sh) perplexity after 600 steps was 2.14 in place of 1.95.
   Forward on a tile of rows; backward on the whole batch, cut by columns, because a column of every row is
   touched once whatever the tokens are, and rows are added in order. SPDX-License-Identifier: Apache-2.0 */
#ifndef NN_EMBED_H
#define NN_EMBED_H

#include "nn/params.h"
#include "nn/rows.h"

enum positions { POSITIONS_LEARNED, POSITIONS_SINUSOIDAL, POSITIONS_NONE };
extern const char *const position_names[]; /* "learned", "sinusoidal", "none", NULL */

struct embed {
    size_t vocab_size, max_len, dim;
    enum positions kind;
    float scale;             /* of the words: sqrt(dim) where the table is tied, else 1 */
    size_t words, positions; /* offsets of (vocab_size, dim) and, where they are learned, (max_len, dim) */
    float *sinusoids;        /* (max_len, dim), owned; or NULL */
};
/* Freed with embed_free, after a failure too. */
hashattn_status embed_describe(struct host *host, struct params *params, size_t vocab_size, size_t max_len,
                               size_t dim, enum positions kind, bool tied, struct embed *embed);
void embed_free(struct host *host, struct embed *embed);

/* y (n, dim): rows [first, first + n) of the batch; zeros after the last token. tokens: of all rows. */
void embed_forward(const struct embed *embed, const struct rows *rows, const float *values, float *y,
                   const uint16_t *tokens, size_t first, size_t n);
/* gradients += from dy (all rows, dim). Runs on the pool. */
void embed_backward(const struct embed *embed, const struct rows *rows, struct slice gradients,
                    const float *dy, const uint16_t *tokens);

#endif
