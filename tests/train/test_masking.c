/* Masked tokens: exact numbers of hidden rows, the shares 80/10/10 and the places by z-scores, ids that are
   never hidden or drawn, and packed batches: new masks in every epoch, the same at every evaluation.
   Bugs planted and caught: shares of 90/5/5; the number rounded down; no hidden row in short examples;
   special tokens hidden; special tokens as random ids; the first rows hidden more often; the target taken
   after the replacement; targets of rows that are not hidden; one key for all epochs; one key for all
   examples; masks of training without the seed; weights that count all rows.
   SPDX-License-Identifier: Apache-2.0 */
#include "train/masking.h"

#include <math.h>
#include <string.h>

#include "base/random.h"
#include "support/check.h"
#include "train/batches.h"

enum { IDS = 50, SPECIAL = 5, MASK = 4, LENGTH = 100, DRAWS = 4000 };

static uint8_t fixed[IDS] = {1, 1, 1, 1, 1}; /* the first SPECIAL ids */
static const struct mask_rules rules = {.share = 0.15, .mask_id = MASK, .num_ids = IDS, .fixed = fixed};

/* A uniform choice of |draws| trials with probability p lies within 5 standard deviations: 6e-7 that it does
   not, and the draws are the same in every run. */
static void check_share(double count, double draws, double p, const char *what)
{
    check_near((count - draws * p) / sqrt(draws * p * (1 - p)), 0, 5, what);
}

static void numbers_are_exact(void **state)
{
    (void)state;
    static const struct {
        size_t length, special, hidden;
    } cases[] = {{1, 0, 1},  {2, 0, 1},  {2, 2, 0},    {9, 0, 1},
                 {10, 0, 2}, {13, 3, 2}, {100, 0, 15}, {103, 2, 15}};
    for (size_t c = 0; c < sizeof cases / sizeof *cases; c++) {
        uint32_t ids[LENGTH + 3], targets[LENGTH + 3];
        float weights[LENGTH + 3];
        for (uint64_t key = 0; key < 20; key++) {
            for (size_t i = 0; i < cases[c].length; i++)
                ids[i] = (uint32_t)(i < cases[c].special ? i : SPECIAL + i % 7);
            assert_int_equal(masking_count(&rules, ids, cases[c].length), cases[c].hidden);
            masking_draw(&rules, key, ids, cases[c].length, targets, weights);
            size_t hidden = 0;
            for (size_t i = 0; i < cases[c].length; i++) {
                uint32_t id = (uint32_t)(i < cases[c].special ? i : SPECIAL + i % 7);
                assert_true(weights[i] == 0 || (weights[i] == 1 && targets[i] == id && id >= SPECIAL));
                assert_true(weights[i] == 1 || (targets[i] == 0 && ids[i] == id));
                hidden += weights[i] != 0;
            }
            assert_int_equal(hidden, cases[c].hidden);
        }
    }
    const struct mask_rules all = {.share = 1, .mask_id = MASK, .num_ids = IDS, .fixed = fixed};
    assert_int_equal(masking_count(&all, (uint32_t[]){7, 8, 9, 0}, 4), 3);
}

static void shares_are_those_of_bert(void **state)
{
    (void)state;
    size_t places[LENGTH] = {0}, randoms[IDS] = {0}, masked = 0, kept = 0, replaced = 0;
    for (uint64_t key = 0; key < DRAWS; key++) {
        uint32_t ids[LENGTH], targets[LENGTH];
        float weights[LENGTH];
        for (size_t i = 0; i < LENGTH; i++)
            ids[i] = 10;
        masking_draw(&rules, random_key(3, RANDOM_MASK, key), ids, LENGTH, targets, weights);
        for (size_t i = 0; i < LENGTH; i++) {
            if (weights[i] == 0)
                continue;
            places[i]++;
            masked += ids[i] == MASK;
            kept += ids[i] == 10;
            replaced += ids[i] != MASK && ids[i] != 10;
            if (ids[i] != MASK && ids[i] != 10)
                randoms[ids[i]]++;
        }
    }
    double total = 15.0 * DRAWS, others = IDS - SPECIAL;
    assert_true((double)(masked + kept + replaced) == total);
    check_share((double)masked, total, 0.8, "the mask");
    check_share((double)kept, total, 0.1 + 0.1 / others, "kept");
    check_share((double)replaced, total, 0.1 * (others - 1) / others, "random");
    for (size_t i = 0; i < LENGTH; i++)
        check_share((double)places[i], DRAWS, 0.15, "a place");
    for (size_t i = 0; i < SPECIAL; i++)
        assert_int_equal(randoms[i], 0);
    for (size_t i = SPECIAL; i < IDS; i++)
        if (i != 10)
            check_share((double)randoms[i], (double)replaced, 1 / (others - 1), "a random id");
}

/* ---- in batches ---------------------------------------------------------------------------------------- */

enum { EXAMPLES = 6 };
struct corpus {
    uint32_t ids[EXAMPLES * LENGTH];
    size_t offsets[EXAMPLES + 1];
    struct dataset dataset;
};

static void corpus_init(struct corpus *corpus)
{
    *corpus = (struct corpus){.offsets = {0}};
    for (size_t i = 0; i < EXAMPLES; i++) {
        for (size_t j = 0; j < LENGTH; j++)
            corpus->ids[i * LENGTH + j] = (uint32_t)(j == 0 ? 0 : SPECIAL + (7 * i + j) % (IDS - SPECIAL));
        corpus->offsets[i + 1] = (i + 1) * LENGTH;
    }
    corpus->dataset = (struct dataset){.ids = corpus->ids,
                                       .offsets = corpus->offsets,
                                       .count = EXAMPLES,
                                       .num_targets = 1,
                                       .targets = {{.kind = TARGETS_MASKED}},
                                       .masks = rules};
}

/* Which rows of each example step number `step` hides. */
static void hidden_in(struct batches *batches, uint64_t step, bool hidden[EXAMPLES][LENGTH])
{
    const struct packed_examples *packed = batches_get_part(batches, step, 0, batches->batch);
    double count;
    size_t found = 0;
    for (size_t e = 0; e < EXAMPLES; e++) {
        const uint32_t *ids = packed->data.ids + e * LENGTH, *targets = packed->targets[0].ids + e * LENGTH;
        const float *weights = packed->targets[0].weights + e * LENGTH;
        size_t own = EXAMPLES; /* known from a row that is not hidden */
        for (size_t j = 1; j < LENGTH && own == EXAMPLES; j++)
            for (size_t i = 0; weights[j] == 0 && i < EXAMPLES; i++)
                if (ids[j] == SPECIAL + (7 * i + j) % (IDS - SPECIAL))
                    own = i;
        assert_true(own < EXAMPLES && ids[0] == 0 && weights[0] == 0);
        for (size_t j = 1; j < LENGTH; j++) {
            uint32_t original = (uint32_t)(SPECIAL + (7 * own + j) % (IDS - SPECIAL));
            hidden[own][j] = weights[j] != 0;
            found += weights[j] != 0;
            assert_int_equal(weights[j] != 0 ? targets[j] : ids[j], original);
        }
    }
    batches_counts(batches, step, 1, &count);
    assert_true((double)found == count && count == EXAMPLES * 15); /* round(0.15 * 99) */
}

static void every_epoch_has_new_masks(void **state)
{
    (void)state;
    struct corpus corpus;
    struct host host;
    struct batches batches, again;
    bool first[EXAMPLES][LENGTH] = {{false}}, second[EXAMPLES][LENGTH] = {{false}},
         other[EXAMPLES][LENGTH] = {{false}};
    host_init(&host);
    corpus_init(&corpus);
    check_status(&host, batches_new(&host, &corpus.dataset, EXAMPLES, 5, &batches), HASHATTN_OK, NULL);
    check_status(&host, batches_new(&host, &corpus.dataset, EXAMPLES, 5, &again), HASHATTN_OK, NULL);
    hidden_in(&batches, 0, first);
    hidden_in(&batches, 1, second);
    for (size_t e = 0; e < EXAMPLES; e++) {
        assert_memory_not_equal(first[e], second[e], LENGTH);
        for (size_t i = 0; i < e; i++)
            assert_memory_not_equal(first[e], first[i], LENGTH);
    }
    hidden_in(&again, 1, other); /* without step 0 before it, as after resuming */
    assert_memory_equal(other, second, sizeof other);
    hidden_in(&batches, 0, other);
    assert_memory_equal(other, first, sizeof other);
    batches_free(&host, &again);
    check_status(&host, batches_new(&host, &corpus.dataset, EXAMPLES, 6, &again), HASHATTN_OK, NULL);
    hidden_in(&again, 0, other);
    assert_memory_not_equal(other, first, sizeof other);
    batches_free(&host, &again);
    batches_free(&host, &batches);
    for (size_t i = 0; i < EXAMPLES * LENGTH; i++) /* the data set keeps its ids */
        assert_true(corpus.ids[i] != MASK && (i % LENGTH == 0 || corpus.ids[i] >= SPECIAL));
}

/* One example is always at the same position, so that only the seed can change its masks. */
static void seeds_have_their_own_masks(void **state)
{
    (void)state;
    struct corpus corpus;
    struct host host;
    struct batches one, other;
    host_init(&host);
    corpus_init(&corpus);
    corpus.dataset.count = 1;
    check_status(&host, batches_new(&host, &corpus.dataset, 1, 5, &one), HASHATTN_OK, NULL);
    check_status(&host, batches_new(&host, &corpus.dataset, 1, 6, &other), HASHATTN_OK, NULL);
    assert_memory_not_equal(batches_get_part(&one, 0, 0, one.batch)->targets[0].weights,
                            batches_get_part(&other, 0, 0, other.batch)->targets[0].weights,
                            LENGTH * sizeof(float));
    batches_free(&host, &one);
    batches_free(&host, &other);
}

static void evaluations_have_the_same_masks(void **state)
{
    (void)state;
    struct corpus corpus;
    struct host host;
    struct packed_examples all, two;
    host_init(&host);
    corpus_init(&corpus);
    check_status(&host, packed_examples_new(&host, &corpus.dataset, EXAMPLES, &all), HASHATTN_OK, NULL);
    check_status(&host, packed_examples_new(&host, &corpus.dataset, 2, &two), HASHATTN_OK, NULL);
    packing_range(&all, &corpus.dataset, 0, EXAMPLES);
    for (size_t first = 0; first < EXAMPLES; first += 2) {
        packing_range(&two, &corpus.dataset, first, 2);
        assert_memory_equal(two.data.ids, all.data.ids + first * LENGTH, 2 * LENGTH * sizeof *two.data.ids);
        assert_memory_equal(two.targets[0].weights, all.targets[0].weights + first * LENGTH,
                            2 * LENGTH * sizeof(float));
    }
    packed_examples_free(&host, &two);
    packed_examples_free(&host, &all);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(numbers_are_exact),
        cmocka_unit_test(shares_are_those_of_bert),
        cmocka_unit_test(every_epoch_has_new_masks),
        cmocka_unit_test(seeds_have_their_own_masks),
        cmocka_unit_test(evaluations_have_the_same_masks),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
