/* Folds everything that decides what a mechanism saves, except the numbers of the arrays, into one word.
   SPDX-License-Identifier: Apache-2.0 */
#include "api/operator/saved_tag.h"

#include <string.h>

struct saved_tag {
    uint64_t mark, fingerprint;
};

static const uint64_t MARK = UINT64_C(0x6861736861747431); /* "hashatt1" */

static uint64_t fold_word(uint64_t folded, uint64_t word)
{
    folded = (folded ^ word) * UINT64_C(0x9e3779b97f4a7c15);
    return folded ^ folded >> 32;
}

static uint64_t fold(uint64_t folded, const void *bytes, size_t count)
{
    folded = fold_word(folded, bytes == NULL ? UINT64_MAX : count);
    for (size_t at = 0; bytes != NULL && at < count; at += sizeof(uint64_t)) {
        uint64_t word = 0;
        size_t rest = count - at;
        memcpy(&word, (const unsigned char *)bytes + at, rest < sizeof word ? rest : sizeof word);
        folded = fold_word(folded, word);
    }
    return folded;
}

static struct saved_tag tag_of(const struct attention_call *call)
{
    const struct attention_shape *shape = &call->plan->shape;
    const struct mechanism *mechanism = shape->mechanism;
    size_t sequences = shape->num_sequences, offsets = (sequences + 1) * sizeof *shape->query_offsets;
    const uint64_t numbers[] = {sequences,
                                shape->num_heads,
                                shape->head_dim,
                                shape->value_dim,
                                shape->max_len,
                                (uint64_t)shape->dtype,
                                (uint64_t)shape->precision,
                                shape->causal,
                                call->call_key,
                                row_ranks_count(shape->ranks)};
    uint64_t folded = fold(0, mechanism->name, strlen(mechanism->name));
    folded = fold(folded, shape->options, mechanism->options_size);
    folded = fold(folded, numbers, sizeof numbers);
    folded = fold(folded, shape->query_offsets, offsets);
    folded = fold(folded, shape->key_offsets, offsets);
    folded = fold(folded, call->key_mask, shape->key_offsets[sequences]);
    folded = fold(folded, call->sample_ids, sequences * sizeof *call->sample_ids);
    return (struct saved_tag){MARK, folded};
}

void saved_tag_write(const struct attention_call *call, void *saved)
{
    const struct saved_tag tag = tag_of(call);
    memcpy(saved, &tag, sizeof tag);
}

void saved_tag_words(const struct attention_call *call, uint64_t words[2])
{
    const struct saved_tag tag = tag_of(call);
    words[0] = tag.mark;
    words[1] = tag.fingerprint;
}

void saved_tag_clear(void *saved)
{
    memset(saved, 0, SAVED_TAG_BYTES);
}

hashattn_status saved_tag_check(struct host *host, const struct attention_call *call, const void *saved)
{
    struct saved_tag found;
    const struct saved_tag want = tag_of(call);
    memcpy(&found, saved, sizeof found);
    FAIL_IF(found.mark != want.mark, host, HASHATTN_INVALID,
            "saved was not written by a forward that returned OK");
    FAIL_IF(found.fingerprint != want.fingerprint, host, HASHATTN_INVALID,
            "saved was written by a forward with another mechanism, other options or another problem");
    return HASHATTN_OK;
}
