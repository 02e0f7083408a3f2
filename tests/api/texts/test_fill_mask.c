/* Guesses for masks: the scores of their tokens as probabilities. Bugs planted and caught: probabilities that
   leave the tokens guessed before out of their sum; the second mask's guesses from the first; texts beyond
   the positions read.
   SPDX-License-Identifier: Apache-2.0 */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "hashattn/hashattn.h"
#include "support/api_context.h"
#include "support/checkpoint_case.h"

enum { VOCAB = CHECKPOINT_VOCAB };
static const char checkpoint[] = "tests/models/checkpoints/bert";

struct guesses {
    size_t count;
    struct {
        size_t mask, rank;
        uint32_t id;
        double probability;
        char token[20];
    } list[2 * VOCAB];
};

static int guess(void *user, const hashattn_guess *one)
{
    struct guesses *all = user;
    all->list[all->count].mask = one->mask;
    all->list[all->count].rank = one->rank;
    all->list[all->count].id = one->id;
    all->list[all->count].probability = one->probability;
    snprintf(all->list[all->count].token, sizeof all->list[0].token, "%s", one->token);
    all->count++;
    return 0;
}

static void guesses_are_ranked_probabilities(void **state)
{
    (void)state;
    hashattn_context *context = context_with(1, NULL);
    hashattn_pretrained *p;
    float scores[2 * VOCAB];
    static const uint32_t masked[] = {2, 5, 4, 8, 4, 3};
    static const size_t ends[] = {0, 6}, places[] = {2, 4};
    struct guesses all = {0}, few = {0};
    check_ok(context, hashattn_pretrained_load(context, checkpoint, NULL, &p));
    const hashattn_sequences sequences = {sizeof sequences, 1, ends, masked, NULL};
    check_ok(context, hashattn_pretrained_scores(p, &sequences, 0, places, 2, scores));
    check_ok(context, hashattn_pretrained_fill_mask(p, "the [MASK] sat [MASK]", VOCAB + 5, 0, guess, &all));
    assert_int_equal(all.count, 2 * VOCAB);
    for (size_t m = 0; m < 2; m++) {
        double sum = 0, total = 0;
        for (size_t i = 0; i < VOCAB; i++)
            sum += exp((double)scores[m * VOCAB + i]);
        for (size_t i = 0; i < VOCAB; i++) {
            const size_t k = m * VOCAB + i;
            assert_true(all.list[k].mask == m && all.list[k].rank == i);
            check_near(all.list[k].probability, exp((double)scores[m * VOCAB + all.list[k].id]) / sum, 1e-6,
                       "probability");
            assert_true(i == 0 || all.list[k].probability <= all.list[k - 1].probability);
            assert_true(all.list[k].id != 6 || strcmp(all.list[k].token, "cat") == 0);
            total += all.list[k].probability;
        }
        check_near(total, 1, 1e-6, "sum");
    }
    check_ok(context, hashattn_pretrained_fill_mask(p, "the [MASK] sat [MASK]", 2, 0, guess, &few));
    assert_true(few.count == 4 && few.list[2].id == all.list[VOCAB].id);
    check_call(context, hashattn_pretrained_fill_mask(p, "the cat", 2, 0, guess, &few), HASHATTN_INVALID,
               "the text has no [MASK] to be filled");
    check_call(context, hashattn_pretrained_fill_mask(p, "[MASK] a a a a a a a a", 2, 0, guess, &few),
               HASHATTN_INVALID, "the text has 11 tokens, the model has positions for 10");
    check_call(context, hashattn_pretrained_fill_mask(p, NULL, 2, 0, guess, &few), HASHATTN_INVALID,
               "text is NULL");
    hashattn_pretrained_free(p);
    hashattn_context_free(context);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(guesses_are_ranked_probabilities)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
