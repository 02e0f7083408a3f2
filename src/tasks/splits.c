/* A permutation orders the examples; each label's first ones in it are validation, the next ones test. Cost:
   linear in the examples, and labels times the examples that small labels cannot give.
   SPDX-License-Identifier: Apache-2.0 */
#include "tasks/splits.h"

#include "base/memory.h"
#include "base/random.h"

/* How many examples a label has, and how many of them each split still takes. */
struct share {
    size_t count, quota[SPLIT_COUNT];
};

static size_t spare(const struct share *share)
{
    return share->count - share->quota[SPLIT_VALID] - share->quota[SPLIT_TEST] - 1;
}

/* Divides `wanted` examples among the labels. What small labels cannot give, the largest give. */
static void divide(struct share *shares, size_t labels, size_t count, size_t wanted, enum split split)
{
    size_t before = 0, missing = 0;
    for (size_t c = 0; c < labels; c++) {
        if (shares[c].count == 0)
            continue;
        size_t after = before + shares[c].count;
        size_t fair = after * wanted / count - before * wanted / count, most = spare(&shares[c]);
        shares[c].quota[split] = fair < most ? fair : most;
        missing += fair - shares[c].quota[split];
        before = after;
    }
    for (; missing > 0; missing--) {
        size_t best = labels;
        for (size_t c = 0; c < labels; c++)
            if (shares[c].count > 0 && (best == labels || spare(&shares[c]) > spare(&shares[best])))
                best = c;
        shares[best].quota[split]++;
    }
}

/* Labels of the examples, or NULL. *labels: their ids are below it. */
static const uint32_t *labels_of(const struct dataset *dataset, size_t *labels)
{
    const struct target_set *set = &dataset->targets[0];
    *labels = 0;
    if (dataset->num_targets == 0 || set->kind != TARGETS_EXAMPLE || set->width > 0)
        return NULL;
    for (size_t i = 0; i < dataset->count; i++)
        *labels = size_max(*labels, (size_t)set->ids[i] + 1);
    return *labels <= dataset->count / 2 ? set->ids : NULL;
}

/* order: the examples in the order of the permutation. */
static hashattn_status draw_by_label(struct host *host, const uint32_t *ids, size_t labels,
                                     const uint32_t *order, size_t count, size_t cuts, size_t tenth,
                                     uint8_t *own)
{
    void *block;
    TRY(memory_new_zeroed(host, labels, sizeof(struct share), "labels of the split", &block));
    struct share *shares = block;
    for (size_t i = 0; i < count; i++)
        shares[ids[i]].count++;
    divide(shares, labels, count, tenth, SPLIT_VALID);
    if (cuts == 2)
        divide(shares, labels, count, tenth, SPLIT_TEST);
    for (size_t k = 0; k < count; k++) {
        struct share *share = &shares[ids[order[k]]];
        enum split split = share->quota[SPLIT_VALID] > 0  ? SPLIT_VALID
                           : share->quota[SPLIT_TEST] > 0 ? SPLIT_TEST
                                                          : SPLIT_TRAIN;
        share->quota[split] -= split != SPLIT_TRAIN;
        own[order[k]] = (uint8_t)split;
    }
    memory_free(host, block);
    return HASHATTN_OK;
}

hashattn_status splits_draw(struct host *host, const struct dataset *dataset, bool one_text, bool first_rule,
                            size_t cuts, uint64_t seed, uint8_t *own)
{
    size_t count = dataset->count, tenth = count < 10 ? 1 : count / 10, labels = 0;
    const uint32_t *ids = one_text || first_rule ? NULL : labels_of(dataset, &labels);
    void *block;
    TRY(memory_new(host, size_product(2, count), sizeof(uint32_t), "the split", &block));
    uint32_t *place = block, *order = place + count; /* of each example in the permutation, and its inverse */
    if (one_text)
        for (size_t i = 0; i < count; i++)
            place[i] = (uint32_t)(count - 1 - i);
    else
        random_permutation(random_key(seed, RANDOM_SPLIT, 0), place, count);
    hashattn_status status = HASHATTN_OK;
    for (size_t i = 0; i < count; i++) {
        order[place[i]] = (uint32_t)i;
        own[i] = place[i] < tenth ? SPLIT_VALID : place[i] < cuts * tenth ? SPLIT_TEST : SPLIT_TRAIN;
    }
    if (ids != NULL)
        status = draw_by_label(host, ids, labels, order, count, cuts, tenth, own);
    memory_free(host, block);
    return status;
}
