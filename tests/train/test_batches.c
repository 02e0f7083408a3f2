/* The walk through the training set: every example once per epoch, another order in each, everything a
   function of the step, and rows packed without a gap.
   Bugs planted and caught: the epoch's key without the epoch; place % count replaced by i; ids that restart
   in each step; an offset one too far; the epoch cached across a jump back; the
   first batch taken for the largest; the token itself as the next one; tokens counted with those that are
   only asked for. SPDX-License-Identifier: Apache-2.0 */
#include "train/batches.h"

#include <string.h>

#include "base/memory.h"
#include "support/check.h"

enum { EXAMPLES = 7, LONGEST = 5 };

/* Example i has 1 + i % LONGEST tokens, all 100 + i, and label i. */
struct fixture {
    struct host host;
    uint16_t tokens[EXAMPLES * LONGEST];
    size_t offsets[EXAMPLES + 1];
    int32_t labels[EXAMPLES];
    struct dataset dataset;
};

static void fixture_init(struct fixture *fixture)
{
    memset(fixture, 0, sizeof *fixture);
    host_init(&fixture->host);
    size_t at = 0;
    for (size_t i = 0; i < EXAMPLES; i++) {
        for (size_t j = 0; j < 1 + i % LONGEST; j++)
            fixture->tokens[at++] = (uint16_t)(100 + i);
        fixture->offsets[i + 1] = at;
        fixture->labels[i] = (int32_t)i;
    }
    fixture->dataset = (struct dataset){
        .tokens = fixture->tokens, .offsets = fixture->offsets, .labels = fixture->labels, .count = EXAMPLES};
}

static void check_packed(const struct packed_examples *packed)
{
    assert_int_equal(packed->offsets[0], 0);
    for (size_t i = 0; i < packed->count; i++) {
        size_t length = packed->offsets[i + 1] - packed->offsets[i];
        assert_int_equal(length, 1 + packed->labels[i] % LONGEST);
        for (size_t j = packed->offsets[i]; j < packed->offsets[i + 1]; j++)
            assert_int_equal(packed->tokens[j], 100 + packed->labels[i]);
    }
}

static void every_epoch_has_each_example_once(void **state)
{
    (void)state;
    struct fixture fixture;
    fixture_init(&fixture);
    /* 3 does not divide 7: epochs end inside batches; 16 holds more than two epochs. */
    static const size_t sizes[] = {1, 3, 7, 16};
    for (size_t k = 0; k < 4; k++) {
        struct batches batches;
        check_status(&fixture.host, batches_new(&fixture.host, &fixture.dataset, sizes[k], 5, &batches),
                     HASHATTN_OK, NULL);
        int32_t walk[EXAMPLES * 16];
        for (size_t step = 0; step < EXAMPLES * 16 / sizes[k]; step++) {
            const struct packed_examples *packed = batches_get(&batches, step);
            assert_int_equal(packed->count, sizes[k]);
            check_packed(packed);
            for (size_t i = 0; i < packed->count; i++) {
                assert_int_equal(packed->sample_ids[i], step * sizes[k] + i);
                walk[packed->sample_ids[i]] = packed->labels[i];
            }
        }
        int differing = 0;
        for (size_t epoch = 0; epoch < EXAMPLES * 16 / sizes[k] * sizes[k] / EXAMPLES; epoch++) {
            int seen[EXAMPLES] = {0};
            for (size_t i = 0; i < EXAMPLES; i++)
                seen[walk[epoch * EXAMPLES + i]]++;
            for (size_t i = 0; i < EXAMPLES; i++)
                assert_int_equal(seen[i], 1);
            differing += memcmp(walk, walk + epoch * EXAMPLES, EXAMPLES * sizeof *walk) != 0;
        }
        assert_true(differing >= 10); /* an equal order has chance 1/5040 */
        batches_free(&fixture.host, &batches);
    }
}

static void a_batch_depends_on_seed_and_step_alone(void **state)
{
    (void)state;
    struct fixture fixture;
    fixture_init(&fixture);
    struct batches straight, jumping, other;
    check_status(&fixture.host, batches_new(&fixture.host, &fixture.dataset, 4, 5, &straight), HASHATTN_OK,
                 NULL);
    check_status(&fixture.host, batches_new(&fixture.host, &fixture.dataset, 4, 5, &jumping), HASHATTN_OK,
                 NULL);
    check_status(&fixture.host, batches_new(&fixture.host, &fixture.dataset, 4, 6, &other), HASHATTN_OK,
                 NULL);
    batches_get(&jumping, 1000);
    int different = 0;
    for (uint64_t step = 0; step < 20; step++) {
        const struct packed_examples *a = batches_get(&straight, step);
        const struct packed_examples *b = batches_get(&jumping, step);
        check_same_bits(a->labels, b->labels, 4 * sizeof *a->labels, "order");
        check_same_bits(a->offsets, b->offsets, 5 * sizeof *a->offsets, "offsets");
        check_same_bits(a->tokens, b->tokens, a->offsets[4] * sizeof *a->tokens, "tokens");
        different += memcmp(a->labels, batches_get(&other, step)->labels, 4 * sizeof *a->labels) != 0;
    }
    assert_true(different >= 15);
    batches_free(&fixture.host, &straight);
    batches_free(&fixture.host, &jumping);
    batches_free(&fixture.host, &other);
}

/* With next_token the last token of a sequence is asked for and not given; every one before it is both. */
static void next_tokens_are_labels(void **state)
{
    (void)state;
    struct fixture fixture;
    fixture_init(&fixture);
    struct dataset *dataset = &fixture.dataset;
    for (size_t i = 0; i < EXAMPLES; i++) /* at least two tokens each, all of them different */
        fixture.offsets[i + 1] = fixture.offsets[i] + 2 + i % 3;
    for (size_t at = 0; at < fixture.offsets[EXAMPLES]; at++)
        fixture.tokens[at] = (uint16_t)(1 + at);
    dataset->next_token = true;
    assert_int_equal(batches_max_tokens(dataset, 4), 12);
    struct batches batches;
    check_status(&fixture.host, batches_new(&fixture.host, dataset, 4, 5, &batches), HASHATTN_OK, NULL);
    size_t tokens = 0;
    for (uint64_t step = 0; step < 7; step++) { /* four epochs */
        const struct packed_examples *packed = batches_get(&batches, step);
        assert_true(packed->examples == 4 && packed->count == 4);
        for (size_t s = 0; s < 4; s++) {
            size_t start = packed->offsets[s], length = packed->offsets[s + 1] - start, i = 0;
            while (i < EXAMPLES && fixture.tokens[fixture.offsets[i]] != packed->tokens[start])
                i++;
            assert_true(i < EXAMPLES && length == 1 + i % 3);
            for (size_t k = 0; k < length; k++) {
                assert_int_equal(packed->tokens[start + k], packed->tokens[start] + k);
                assert_int_equal(packed->labels[start + k], packed->tokens[start] + k + 1);
            }
        }
        assert_int_equal(batches_tokens(&batches, step, 1), packed->offsets[4]);
        tokens += packed->offsets[4];
    }
    assert_int_equal(tokens, 4 * (fixture.offsets[EXAMPLES] - EXAMPLES));
    assert_int_equal(batches_tokens(&batches, 0, 7), tokens);
    batches_free(&fixture.host, &batches);
}

static void ranges_are_in_order(void **state)
{
    (void)state;
    struct fixture fixture;
    fixture_init(&fixture);
    struct packed_examples packed;
    check_status(&fixture.host, packed_examples_new(&fixture.host, &fixture.dataset, 3, &packed), HASHATTN_OK,
                 NULL);
    packed_examples_range(&packed, &fixture.dataset, 4, 3);
    assert_int_equal(packed.count, 3);
    check_packed(&packed);
    for (size_t i = 0; i < 3; i++) {
        assert_int_equal(packed.labels[i], 4 + i);
        assert_int_equal(packed.sample_ids[i], 4 + i);
    }
    packed_examples_free(&fixture.host, &packed);
}

static void an_empty_set_is_refused(void **state)
{
    (void)state;
    struct fixture fixture;
    fixture_init(&fixture);
    fixture.dataset.count = 0;
    struct batches batches;
    check_status(&fixture.host, batches_new(&fixture.host, &fixture.dataset, 3, 5, &batches),
                 HASHATTN_BAD_FILE, "no example");
}

static void failing_allocations_leave_nothing(void **state)
{
    (void)state;
    struct fixture fixture;
    fixture_init(&fixture);
    hashattn_status status = HASHATTN_NO_MEMORY;
    long n = 0;
    for (; status != HASHATTN_OK; n++) {
        struct failing_host failing;
        failing_host_init(&failing, n);
        struct batches batches;
        status = batches_new(&failing.host, &fixture.dataset, 3, 5, &batches);
        if (status == HASHATTN_OK)
            batches_free(&failing.host, &batches);
        else
            check_status(&failing.host, status, HASHATTN_NO_MEMORY, "no memory for");
        assert_int_equal(failing.outstanding, 0);
    }
    assert_int_equal(n, 6); /* five blocks */
}

static void the_largest_batch_is_found(void **state)
{
    (void)state;
    struct fixture fixture;
    struct batches batches;
    fixture_init(&fixture);
    check_status(&fixture.host, batches_new(&fixture.host, &fixture.dataset, 3, 5, &batches), HASHATTN_OK,
                 NULL);
    for (uint64_t count = 1; count < 12; count++) {
        uint64_t found = batches_largest(&batches, count);
        assert_true(found < count);
        size_t most = batches_get(&batches, found)->offsets[3];
        for (uint64_t i = 0; i < count; i++) {
            size_t tokens = batches_get(&batches, i)->offsets[3];
            assert_true(tokens <= most);
        }
    }
    batches_free(&fixture.host, &batches);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_epoch_has_each_example_once),
        cmocka_unit_test(a_batch_depends_on_seed_and_step_alone),
        cmocka_unit_test(next_tokens_are_labels),
        cmocka_unit_test(ranges_are_in_order),
        cmocka_unit_test(an_empty_set_is_refused),
        cmocka_unit_test(failing_allocations_leave_nothing),
        cmocka_unit_test(the_largest_batch_is_found),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
