/* A Transformer block. Pre-LN (default): m = x + drop(attention(LN x)), y = m + drop(ffn(LN m)). Post-LN, as
   in BERT: m = LN(x + drop(attention x)), y = LN(m + drop(ffn m)), without dropout inside the ffn. A post-LN
   block may have cross attention to the rows of an encoder (Vaswani et al. 2017):
     c = LN(m + drop(cross(m, encoded))), y = LN(c + drop(ffn c)).
   The block is cut where rows interact: `enter` (LN and the layers before attention) and `leave` (everything
   after it) work on one tile of rows, so that the leave of one block and the enter of the next run on a tile
   while it is in cache; `mix` works on the whole batch between them. Cross attention is one more cut:
   `cross_enter` is what lies between the two, `cross_keys` works on tiles of encoded rows. Backward
   recomputes normalised rows instead of storing them.
   SPDX-License-Identifier: Apache-2.0 */
#ifndef NN_BLOCK_H
#define NN_BLOCK_H

#include "nn/attention_layer.h"
#include "nn/ffn.h"
#include "nn/norm.h"

enum block_norm { BLOCK_PRE_NORM, BLOCK_POST_NORM };
extern const char *const block_norms[]; /* "pre", "post", NULL */

struct block_shape {
    size_t dim, heads, wide, taps;
    enum block_norm norm;
    double norm_epsilon;
    const struct head_group *groups; /* of the heads, in order */
    size_t num_groups;
    bool causal;    /* no row depends on a later one; excludes taps */
    size_t max_len; /* the longest sequence, for mechanisms whose tensors depend on it; 0: unknown */
    enum ffn_activation activation;
    bool plain_attention; /* no biases in the dense layers around attention */
    bool layered;         /* attention gets positions (attention_layer.h) */
    /* Heads of cross attention, which needs post-LN; 0 groups: there is none. */
    const struct head_group *cross_groups;
    size_t num_cross_groups;
};

struct block {
    size_t dim, wide;
    enum block_norm norm;
    /* Pre-LN: "NAME.layernorm_before", "NAME.layernorm_after". Post-LN, as in BERT's own files:
       "NAME.attention.output.LayerNorm", "NAME.output.LayerNorm". */
    struct norm first_norm, second_norm;
    struct attention_layer attention;
    struct ffn ffn;
    /* The ranges of parameters that enter, mix and leave use: [first, mix), [mix, leave), [leave, end). With
       cross attention leave begins at cross.leave, and cross_enter, cross_keys and cross_mix use
       [leave, cross.keys), [cross.keys, cross.mix), [cross.mix, cross.leave). */
    size_t first, mix, leave, end;
    struct block_cross {
        bool present;
        struct attention_layer attention; /* "NAME.crossattention" */
        struct norm norm;                 /* "NAME.crossattention.output.LayerNorm" */
        size_t keys, mix, leave;
    } cross;
};
hashattn_status block_describe(struct host *host, struct params *params, const char *name,
                               const struct block_shape *shape, struct block *block);

/* Activations of one block for the whole batch, (padded rows, ...). */
struct block_space {
    float *x;      /* (dim) input */
    float *middle; /* (dim) m (post-LN: before its norm); may be x without backward */
    float *sum;    /* (dim) post-LN: y before its norm; NULL without backward */
    float *before; /* (wide) before the activation; NULL without backward */
    struct attention_space attention;
    struct {
        float *x;                         /* (dim) m, the input of cross attention */
        float *middle;                    /* (dim) c before its norm; may be x without backward */
        struct attention_space attention; /* key and value: (padded encoded rows, dim) */
    } cross;
};
/* Gradients of the arrays of the attentions. A block without cross attention has only the first. */
struct block_gradients {
    struct attention_gradients attention;
    struct attention_gradients cross; /* query and mixed may be the arrays of `attention` */
};

/* Scratch of one worker for a tile. */
struct block_scratch {
    float *narrow[3];  /* (ROW_TILE, dim) */
    float *wide;       /* (ROW_TILE, wide) */
    float *slope;      /* (ROW_TILE, wide); NULL without backward */
    float *statistics; /* (ROW_TILE, 2) */
    bf16 *halves;      /* (ROW_TILE, dim + 1 + wide + 1) in bf16, else NULL */
    struct watch *watch;
};
/* Floats of all of it; and the scratch laid out from `floats` on. */
size_t block_scratch_size(const struct block *block, bool training);
struct block_scratch block_scratch_on(const struct block *block, bool training, float *floats,
                                      struct watch *watch);

/* The settings of a pass, the same for every block. */
struct block_pass {
    const struct rows *rows;
    const float *values;
    struct dropout dropout; /* off in evaluation */
    uint64_t random_key;    /* of the block, for hashing and dropout */
    const float *sinusoids; /* (longest sequence, dim) of every position; NULL unless the block is layered */
    /* With cross attention: queries of `rows` and keys of the encoder's rows, as many sequences; the
       encoder's rows (padded, dim), and their gradient, which backward adds to. */
    const struct rows *cross_rows, *encoded_rows;
    const float *encoded;
    float *dencoded;
};

/* Processes the tile that starts at packed row `first`. */
void block_enter(const struct block *block, const struct block_pass *pass, const struct block_space *space,
                 const struct block_scratch *scratch, size_t first);
/* Processes the whole batch, on the pool. */
void block_mix(const struct block *block, const struct block_pass *pass, const struct block_space *space);
/* Between block_mix and block_leave if there is cross attention. cross_keys: of a tile of encoded rows. */
void block_cross_enter(const struct block *block, const struct block_pass *pass,
                       const struct block_space *space, const struct block_scratch *scratch, size_t first);
void block_cross_keys(const struct block *block, const struct block_pass *pass,
                      const struct block_space *space, const struct block_scratch *scratch, size_t first);
void block_cross_mix(const struct block *block, const struct block_pass *pass,
                     const struct block_space *space);
/* Writes the tile to y (padded rows, dim), which may be space->middle. */
void block_leave(const struct block *block, const struct block_pass *pass, const struct block_space *space,
                 const struct block_scratch *scratch, float *y, size_t first);

/* Backward pass. stream (padded rows, dim) holds the gradient of y at first, that of the residual branch of x
   (pre-LN: of m) after leave_backward, and that of x after enter_backward. With cross attention it holds that
   of the residual branch of m after leave_backward, and that of x's after cross_enter_backward. What follows
   an attention writes its tile of the gradient of `mixed` and clears those of query, key and value;
   cross_mix_backward clears those of encoded rows itself. */
void block_leave_backward(const struct block *block, const struct block_pass *pass,
                          const struct block_space *space, const struct block_scratch *scratch,
                          struct slice gradients, float *stream, const struct block_gradients *d,
                          size_t first);
void block_cross_mix_backward(const struct block *block, const struct block_pass *pass,
                              const struct block_space *space, struct slice gradients,
                              const struct block_gradients *d);
void block_cross_keys_backward(const struct block *block, const struct block_pass *pass,
                               const struct block_scratch *scratch, struct slice gradients,
                               const struct block_gradients *d, size_t first);
void block_cross_enter_backward(const struct block *block, const struct block_pass *pass,
                                const struct block_space *space, const struct block_scratch *scratch,
                                struct slice gradients, float *stream, const struct block_gradients *d,
                                size_t first);
void block_mix_backward(const struct block *block, const struct block_pass *pass,
                        const struct block_space *space, struct slice gradients,
                        const struct block_gradients *d);
void block_enter_backward(const struct block *block, const struct block_pass *pass,
                          const struct block_space *space, const struct block_scratch *scratch,
                          struct slice gradients, float *stream, const struct block_gradients *d,
                          size_t first);

/* Returns the mechanism's own loss, in both attentions; call it after the last mix. If gradients.floats is
   not NULL, adds `weight` times its gradient. */
double block_auxiliary(const struct block *block, const struct block_pass *pass,
                       const struct block_space *space, const struct mechanism *mechanism,
                       struct slice gradients, double weight);

#endif
