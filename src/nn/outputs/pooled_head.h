/* From the rows of a sequence to outputs for an example: rows are pooled to one row per sequence, and a head
   of two layers (head.h) computes the outputs. If an example is two sequences, the head reads the features
   [a, b, a b, a - b] of both (pair.h), as in the models of the Long Range Arena that match documents. Cost:
   one pass over the rows forward and one backward; the head works on one row per example, on the calling
   thread.
   SPDX-License-Identifier: Apache-2.0 */
#ifndef NN_POOLED_HEAD_H
#define NN_POOLED_HEAD_H

#include "nn/outputs/head.h"
#include "nn/outputs/pooling.h"
#include "nn/rows.h"

struct pooled_head {
    enum pooling pooling;
    bool pairs;          /* an example is two sequences */
    size_t dim, max_len; /* max_len: the divisor of mean-padded */
    struct head head;
};

/* Describes the head's parameters for this many outputs per example; the other fields are set before. */
hashattn_status pooled_head_describe(struct host *host, struct params *params, enum head_kind kind,
                                     size_t outputs, struct pooled_head *pooled);
static inline size_t pooled_head_outputs(const struct pooled_head *pooled)
{
    return pooled->head.second.out;
}
/* Examples in a batch. */
size_t pooled_head_examples(const struct pooled_head *pooled, const struct rows *rows);

/* The memory of one pass, kept from forward to backward. */
struct pooled_space {
    float *pooled, *partial;           /* (head_rows of sequences): dim */
    float *features, *hidden, *logits; /* (head_rows of examples): 4 dim (`pooled` itself if an example is one
                                          sequence), head_kept, outputs */
    void *sum_scratch;                 /* of ranks that share sequences */
    /* in training; otherwise NULL */
    float *dlogits, *dpooled, *dfeatures, *dhidden; /* as above */
    size_t bytes;
};
struct pooled_space pooled_head_lay(const struct pooled_head *pooled, const struct rows *rows, bool training,
                                    void *memory);

/* Computes space->logits (examples, outputs) from x (padded rows, dim). Ranks that share sequences add their
   parts of the pooled rows; all of them have the logits. */
void pooled_head_forward(const struct pooled_head *pooled, const struct rows *rows, const float *values,
                         const struct pooled_space *space, const float *x);
/* From space->dlogits (examples, outputs): writes dx (padded rows, dim), or adds to it, with zeros after the
   last row; adds the gradients of the head to gradients. If ranks share sequences, the first computes
   the head's gradients and sends those of the pooled rows to the others. */
void pooled_head_backward(const struct pooled_head *pooled, const struct rows *rows, const float *values,
                          struct slice gradients, const struct pooled_space *space, float *dx, bool add);

#endif
