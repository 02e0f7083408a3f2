/* Token and learned position embedding: row = word[token] + position[place in its sequence], both starting
   from N(0, 0.02^2). Forward on a tile of rows; backward on the whole batch, cut by columns, because a column
   of every row is touched once whatever the tokens are, and rows are added in order.
   SPDX-License-Identifier: Apache-2.0 */
#ifndef NN_EMBED_H
#define NN_EMBED_H

#include "nn/params.h"
#include "nn/rows.h"

struct embed {
    size_t vocab_size, max_len, dim;
    size_t words, positions; /* offsets of (vocab_size, dim) and (max_len, dim) */
};
hashattn_status embed_describe(struct host *host, struct params *params, size_t vocab_size, size_t max_len,
                               size_t dim, struct embed *embed);

/* y (n, dim): rows [first, first + n) of the batch; zeros after the last token. tokens: of all rows. */
void embed_forward(const struct embed *embed, const struct rows *rows, const float *values, float *y,
                   const uint16_t *tokens, size_t first, size_t n);
/* gradients += from dy (all rows, dim). Runs on the pool. */
void embed_backward(const struct embed *embed, const struct rows *rows, struct slice gradients,
                    const float *dy, const uint16_t *tokens);

#endif
