/* Embedding: row = word[id] + segment[segment of the row] + position[place in its sequence]. Positions are
   learned, tables starting from N(0, 0.02^2); or sinusoids (Vaswani et al. 2017), column 2 i the sine and
   2 i + 1 the cosine of place / 10000^(2 i / dim), beside words from N(0, 1), as in the Long Range Arena; or
   none. A model whose sequences are float rows has no words: they are added to rows that are there already.
   A table that is the output of the model too (tied_output.h) starts from N(0, 1 / dim), which gives logits
   of the size of 1, and its rows are multiplied by sqrt(dim) on their way in (Vaswani et al. 2017, section
   3.4); learned positions beside them start from N(0, 0.5^2). At 0.02 they are lost there for hundreds of
   steps: on a text of order 2 (tests/cli/test_lm.sh) perplexity after 600 steps was 2.14 instead of 1.95.
   Forward works on a tile of rows. Backward works on the whole batch and is cut by columns, because every row
   touches each column once whatever its id, and rows are added in order. SPDX-License-Identifier: Apache-2.0
 */
#ifndef NN_EMBED_H
#define NN_EMBED_H

#include "nn/params.h"
#include "nn/rows.h"

enum positions { POSITIONS_LEARNED, POSITIONS_SINUSOIDAL, POSITIONS_NONE };
extern const char *const position_names[]; /* "learned", "sinusoidal", "none", NULL */

struct embed_shape {
    size_t vocab_size; /* 0: no words */
    size_t segments;   /* 0: none */
    size_t max_len, dim;
    enum positions positions;
    bool tied; /* the table of words is the output too */
};
struct embed {
    size_t vocab_size, num_segments, max_len, dim;
    enum positions kind;
    float scale;                /* of the words: sqrt(dim) where the table is tied, else 1 */
    size_t words;               /* offset of (vocab_size, dim), where there are words */
    size_t segments, positions; /* of (num_segments, dim) and (max_len, dim), where they are learned */
    float *sinusoids;           /* (num_sinusoids, dim), owned; or NULL */
    size_t num_sinusoids;       /* of embed_fit */
};
hashattn_status embed_describe(struct host *host, struct params *params, const struct embed_shape *shape,
                               struct embed *embed);
/* Makes the sinusoids, if those are the positions, of sequences of up to `rows` tokens, rows <= max_len. The
   description makes none: max_len comes from a config, and may be far longer than any sequence. */
hashattn_status embed_fit(struct host *host, struct embed *embed, size_t rows);
void embed_free(struct host *host, struct embed *embed);

/* What enters a model, of all rows of the batch: ids or float rows. */
struct input_rows {
    const uint32_t *ids;     /* (rows), below vocab_size; or NULL */
    const float *floats;     /* (padded rows, width), zeros after the last row; or NULL */
    const uint8_t *segments; /* (rows), below num_segments; NULL where there are none */
};

/* y (n, dim): rows [first, first + n) of the batch; zeros after the last. Without words y is added to. */
void embed_forward(const struct embed *embed, const struct rows *rows, const float *values, float *y,
                   const struct input_rows *input, size_t first, size_t n);
/* gradients += from dy (all rows, dim). Runs on the pool. */
void embed_backward(const struct embed *embed, const struct rows *rows, struct slice gradients,
                    const float *dy, const struct input_rows *input);

#endif
