/* Everything that determines the shape of a model's parameters and the meaning of its forward pass: the
   "model" section of config.json, and what follows from the data.
   SPDX-License-Identifier: Apache-2.0 */
#ifndef MODELS_MODEL_CONFIG_H
#define MODELS_MODEL_CONFIG_H

#include "base/options.h"
#include "models/head_plan.h"
#include "objectives/objective.h"

/* MODEL_HALVINGS: most layers that halve rows; 2^16 rows have 3, the least, before the last one. */
enum { MODEL_OBJECTIVES = 4, MODEL_MOST_VOCAB = 1 << 20, MODEL_HALVINGS = 15 };

/* One entry of the weighted list of objectives. */
struct model_objective {
    const struct objective *objective;
    double weight;        /* of its loss; > 0 */
    int64_t num_outputs;  /* classes, floats per target, or ids that can be predicted */
    int64_t first_output; /* see objective_facts */
    int64_t positive;     /* the same */
    char selects[32];     /* the metric that chooses the best model; empty: the objective's own choice */
    struct quantiles quantiles;
};

struct model_config {
    /* From the data. Sequences are ids below vocab_size, or rows of row_width floats; one of the two is 0. */
    int64_t vocab_size, row_width;
    int64_t num_segments; /* 0: no segment ids */
    int64_t max_len;      /* rows of the longest sequence, and the divisor of mean-padded */
    bool pairs;           /* an example is two sequences */
    bool bytes;           /* an id is a byte of text */
    /* Rows of the decoder's sequence of an example; the last decoded_rows of them are predicted. 0: there is
       no decoder. */
    int64_t decoder_rows, decoded_rows;
    size_t num_objectives;
    struct model_objective objectives[MODEL_OBJECTIVES];
    /* Options. */
    int64_t layers, dim, heads, ffn; /* dim = heads * head_dim */
    int64_t decoder_layers;          /* of a model with a decoder */
    int distil;                      /* its encoder halves the rows between blocks */
    int activation;                  /* enum ffn_activation */
    int attention_biases;            /* of the dense layers around attention */
    int64_t conv_window;             /* taps of YOSO-C's depth-wise convolution, odd; 0 = none */
    int pooling;                     /* enum pooling */
    int classifier;                  /* enum head_kind, of the classifier */
    int norm;                        /* enum block_norm */
    double norm_epsilon;             /* of every layer norm */
    int positions;                   /* enum positions */
    int64_t position_offset;         /* unused rows at the start of the table of learned positions */
    int scale_words;                 /* a table that is also the output is scaled as nn/embed.h says */
    char cutoffs[OPTION_TEXT_SIZE];  /* of the vocabulary, see nn/word_tails.h; empty: none */
    int64_t div_value;
    int causal; /* no row depends on a later one */
    double dropout, attention_dropout;
    double initial_std;    /* of the weights of dense layers; 0: see nn/params.h */
    int precision;         /* enum precision: of the products of dense layers, and of most mechanisms */
    struct head_plan plan; /* its options belong to the creator of the config */
};
extern const struct option_row model_options[]; /* layers ... precision */

/* The published sizes of BERT, and the paper's small one. */
struct model_size {
    const char *name;
    int64_t layers, dim, heads; /* ffn = 4 dim */
};
extern const struct model_size model_sizes[]; /* ended by name NULL */

/* True if the objectives read the input itself: there is no trunk and no attention. */
bool model_config_is_bare(const struct model_config *config);

/* INVALID or REFUSED, with the numbers: ranges, divisibility, and what mechanisms and objectives cannot
   do. */
hashattn_status model_config_check(struct host *host, const struct model_config *config);

#endif
