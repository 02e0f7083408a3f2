/* Embedding: row = word[id] + segment[segment of the row] + position[index in its sequence]. Positions are
   learned, tables starting from N(0, 0.02^2), with unused rows before the first position as in RoBERTa's
   files; or sinusoids (Vaswani et al. 2017), column 2 i the sine and 2 i + 1 the cosine of index / 10000^(2 i
   / dim), with words from N(0, 1), as in the Long Range Arena; the same with all sines before all cosines, as
   in Transformer-XL (Dai et al. 2019); or none, also if every layer projects them to its queries and keys. A
   model whose sequences are float rows has no words; segments and positions are added to the given rows. A
   table that is also the output of the model (tied_output.h) starts from N(0, 1 / dim), which gives logits of
   about 1, and its rows are multiplied by sqrt(dim) on input (Vaswani et al. 2017, section 3.4); learned
   positions added to them start from N(0, 0.5^2). At 0.02 they would have no effect for hundreds of steps: on
   a text of order 2 (tests/cli/test_lm.sh) perplexity after 600 steps was 2.14 instead of 1.95. Rare
   words may have narrower tables (nn/word_tails.h). Forward works on a tile of rows. Backward works on the
   whole batch and is cut by columns, because every row touches each column once whatever its id, and rows are
   added in order.
   SPDX-License-Identifier: Apache-2.0 */
#ifndef NN_EMBED_H
#define NN_EMBED_H

#include "nn/params.h"
#include "nn/rows.h"
#include "nn/word_tails.h"

enum positions {
    POSITIONS_LEARNED,
    POSITIONS_SINUSOIDAL,
    POSITIONS_HALVES,
    POSITIONS_NONE,
    POSITIONS_LAYERED, /* none here: the table is for the layers (nn/attention_layer.h) */
};
/* "learned", "sinusoidal", "sinusoidal-halves", "none", "layered", NULL */
extern const char *const position_names[];

struct embed_shape {
    const char *prefix; /* of the names of its parameters; NULL: none */
    size_t vocab_size;  /* 0: no words */
    size_t segments;    /* 0: no segments */
    size_t max_len, dim;
    enum positions positions;
    size_t position_offset; /* rows of the table before the first position */
    bool tied;              /* the table of words is also the output */
    const char *cutoffs;    /* of the words, see word_tails_read */
    size_t div_value;
};
struct embed {
    size_t vocab_size, num_segments, max_len, dim;
    size_t position_offset;
    enum positions kind;
    float scale;  /* of the words: sqrt(dim) if the table is tied, otherwise 1 */
    size_t words; /* offset of (vocab_size, dim), if there are words; with tails of (head +
                     tails, dim) */
    struct word_tails tails;
    size_t segments, positions; /* offsets of (num_segments, dim) and, if learned, of (position_offset +
                                   max_len, dim) */
    float *sinusoids;           /* (num_sinusoids, dim), owned; or NULL */
    size_t num_sinusoids;       /* set by embed_fit */
};
hashattn_status embed_describe(struct host *host, struct params *params, const struct embed_shape *shape,
                               struct embed *embed);
/* Computes the sinusoids, if the positions are sinusoidal, for sequences of up to `rows` tokens, rows <=
   max_len. embed_describe does not, because max_len comes from a config and may be far longer than any
   sequence. */
hashattn_status embed_fit(struct host *host, struct embed *embed, size_t rows);
void embed_free(struct host *host, struct embed *embed);

/* The input of a model, all rows of the batch: ids or float rows. */
struct input_rows {
    const uint32_t *ids;     /* (rows), below vocab_size; or NULL */
    const float *floats;     /* (padded rows, width), zeros after the last row; or NULL */
    const uint8_t *segments; /* (rows), below num_segments; NULL: all 0 */
};

/* y (n, dim): rows [first, first + n) of the batch; zeros after the last. Without words it adds to y. */
void embed_forward(const struct embed *embed, const struct rows *rows, const float *values, float *y,
                   const struct input_rows *input, size_t first, size_t n);
/* y (dim): one word in segment 0, at this position of its sequence. */
void embed_word(const struct embed *embed, const struct kernels *kernels, const float *values, float *y,
                uint32_t id, size_t position);
/* Adds the gradients from dy (all rows, dim) to gradients. Runs on the pool. */
void embed_backward(const struct embed *embed, const struct rows *rows, const float *values,
                    struct slice gradients, const float *dy, const struct input_rows *input);

#endif
