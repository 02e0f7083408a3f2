/* Cross-entropy, accuracy, probabilities and majority against values worked out by hand.
   Bugs planted and caught: the largest logit not put back into the loss; an unlabelled example counted;
   probabilities not divided by their sum; the majority divided by all examples; tokens counted that were not
   asked for.
   SPDX-License-Identifier: Apache-2.0 */
#include "train/metrics.h"

#include <math.h>

#include "support/check.h"

static void values_by_hand(void **state)
{
    (void)state;
    /* exp of the rows: (2, 1, 1), (1, 3, 4), (1, 1, 1) */
    const float logits[9] = {logf(2), 0, 0, 0, logf(3), logf(4), 5, 5, 5};
    const int32_t labels[3] = {0, 1, -1};
    float probabilities[9];
    struct metrics metrics = {0};
    metrics_add(&metrics, logits, labels, 3, 3, probabilities);
    assert_int_equal(metrics.count, 2);
    assert_int_equal(metrics.correct, 1);
    /* logf rounds to 2^-24 relative; two of them, then doubles */
    check_near(metrics_loss(&metrics), (log(2) + log(8.0 / 3)) / 2, 4 * 0x1p-24, "loss");
    check_near(metrics_accuracy(&metrics), 0.5, 0, "accuracy");
    static const double want[9] = {.5, .25, .25, .125, .375, .5, 1.0 / 3, 1.0 / 3, 1.0 / 3};
    check_near_all(probabilities, want, 9, 4 * 0x1p-24, "probabilities");
}

static void parts_add_up_and_large_logits_are_safe(void **state)
{
    (void)state;
    const float logits[4] = {1000, -1000, -3e38f, 3e38f};
    const int32_t labels[2] = {1, 1};
    struct metrics metrics = {0};
    metrics_add(&metrics, logits, labels, 1, 2, NULL);
    check_near(metrics_loss(&metrics), 2000, 0, "loss of a confident mistake");
    metrics_add(&metrics, logits + 2, labels + 1, 1, 2, NULL);
    check_near(metrics_loss(&metrics), 1000, 0, "mean of both");
    check_near(metrics_accuracy(&metrics), 0.5, 0, "accuracy of both");
}

static void a_tie_goes_to_the_first_and_nan_stays(void **state)
{
    (void)state;
    const float logits[4] = {1, 1, NAN, 0};
    const int32_t labels[2] = {0, 0};
    struct metrics metrics = {0};
    metrics_add(&metrics, logits, labels, 1, 2, NULL);
    assert_int_equal(metrics.correct, 1);
    check_near(metrics_loss(&metrics), log(2), 4e-16, "tie");
    metrics_add(&metrics, logits + 2, labels + 1, 1, 2, NULL);
    assert_true(isnan(metrics_loss(&metrics)));
}

static void nothing_counted_is_nan(void **state)
{
    (void)state;
    struct metrics metrics = {0};
    assert_true(isnan(metrics_loss(&metrics)) && isnan(metrics_accuracy(&metrics)));
}

static void majority_by_hand(void **state)
{
    (void)state;
    const int32_t labels[8] = {2, 0, -1, 2, 1, 2, -1, 0};
    size_t counts[3];
    check_near(metrics_majority(labels, 8, 3, counts), 0.5, 0, "majority");
    assert_true(isnan(metrics_majority(labels + 2, 1, 3, counts)));
    assert_true(isnan(metrics_majority(labels, 0, 3, counts)));
}

static void tokens_that_are_asked_for_count(void **state)
{
    (void)state;
    static const double loss[5] = {1, 7, 0.5, 7, 2};
    static const unsigned char correct[5] = {0, 1, 1, 1, 0};
    static const int32_t labels[5] = {3, 0, 1, -1, 9};
    struct metrics metrics = {.loss = 0.5, .correct = 1, .count = 1};
    metrics_add_tokens(&metrics, loss, correct, labels, 5);
    assert_int_equal(metrics.count, 4);
    check_near(metrics_loss(&metrics), 1, 0, "loss");
    check_near(metrics_accuracy(&metrics), 0.5, 0, "accuracy");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(values_by_hand),
        cmocka_unit_test(tokens_that_are_asked_for_count),
        cmocka_unit_test(parts_add_up_and_large_logits_are_safe),
        cmocka_unit_test(a_tie_goes_to_the_first_and_nan_stays),
        cmocka_unit_test(nothing_counted_is_nan),
        cmocka_unit_test(majority_by_hand),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
