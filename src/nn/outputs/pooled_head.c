/* Pooling, pairs and the head, one after another.
   SPDX-License-Identifier: Apache-2.0 */
#include "nn/outputs/pooled_head.h"

#include <assert.h>
#include <string.h>

#include "base/memory.h"
#include "nn/outputs/pair.h"

hashattn_status pooled_head_describe(struct host *host, struct params *params, enum head_kind kind,
                                     size_t outputs, struct pooled_head *pooled)
{
    size_t dim = pooled->dim;
    return head_describe(host, params, kind, pooled->pairs ? PAIR_WIDTH * dim : dim,
                         kind == HEAD_RELU ? 2 * dim : dim, outputs, &pooled->head);
}

size_t pooled_head_examples(const struct pooled_head *pooled, const struct rows *rows)
{
    assert(!pooled->pairs || rows->num_sequences % 2 == 0);
    return rows->num_sequences / (pooled->pairs ? 2 : 1);
}

struct pooled_space pooled_head_lay(const struct pooled_head *pooled, const struct rows *rows, bool training,
                                    void *memory)
{
    const struct head *head = &pooled->head;
    struct arena arena = arena_on(memory);
    size_t sequences = size_product(head_rows(rows->num_sequences), pooled->dim);
    size_t examples = head_rows(pooled_head_examples(pooled, rows));
    size_t features = size_product(examples, head->first.in);
    size_t wide = size_product(examples, head->first.out), logits = size_product(examples, head->second.out);
    struct pooled_space s = {
        .pooled = arena_take(&arena, sequences, sizeof(float)),
        .partial = arena_take(&arena, sequences, sizeof(float)),
        .hidden = arena_take(&arena, size_product(examples, head_kept(head)), sizeof(float)),
        .logits = arena_take(&arena, logits, sizeof(float)),
    };
    if (rows->cut != NULL) {
        size_t floats = size_product(rows->num_sequences, pooled->dim);
        s.sum_scratch =
            arena_take(&arena, row_ranks_sum_scratch(row_ranks_count(rows->cut->ranks), floats), 1);
    }
    s.features = pooled->pairs ? arena_take(&arena, features, sizeof(float)) : s.pooled;
    if (training) {
        s.dpooled = arena_take(&arena, sequences, sizeof(float));
        s.dfeatures = pooled->pairs ? arena_take(&arena, features, sizeof(float)) : s.dpooled;
        s.dhidden = arena_take(&arena, wide, sizeof(float));
        s.dlogits = arena_take(&arena, logits, sizeof(float));
    }
    s.bytes = arena.used;
    return s;
}

void pooled_head_forward(const struct pooled_head *pooled, const struct rows *rows, const float *values,
                         const struct pooled_space *s, const float *x)
{
    const struct head *head = &pooled->head;
    size_t count = pooled_head_examples(pooled, rows), width = head->first.in;
    size_t spare = head_rows(count) - count; /* rows that pad the head's last tile */
    pooling_forward(pooled->pooling, pooled->max_len, rows, s->pooled, s->partial, x, pooled->dim);
    if (rows->cut != NULL)
        row_ranks_sum(rows->cut->ranks, rows->pool, s->pooled, rows->num_sequences * pooled->dim,
                      s->sum_scratch);
    if (pooled->pairs)
        pair_forward(s->features, s->pooled, count, pooled->dim);
    memset(s->features + count * width, 0, spare * width * sizeof(float));
    head_forward(head, rows->kernels, values, s->logits, s->hidden, s->features, count);
    if (s->dlogits != NULL)
        memset(s->dlogits + count * head->second.out, 0, spare * head->second.out * sizeof(float));
}

void pooled_head_backward(const struct pooled_head *pooled, const struct rows *rows, const float *values,
                          struct slice gradients, const struct pooled_space *s, float *dx, bool add)
{
    size_t count = pooled_head_examples(pooled, rows);
    if (row_ranks_first(rows_ranks(rows))) {
        head_backward(&pooled->head, rows->kernels, values, gradients, s->dfeatures, s->dhidden, s->dlogits,
                      s->hidden, s->features, count);
        if (pooled->pairs)
            pair_backward(s->dpooled, s->dfeatures, s->pooled, count, pooled->dim);
    }
    if (rows->cut != NULL)
        row_ranks_from_first(rows->cut->ranks, s->dpooled, rows->num_sequences * pooled->dim * sizeof(float));
    pooling_backward(pooled->pooling, pooled->max_len, rows, dx, add, s->dpooled, pooled->dim);
}
