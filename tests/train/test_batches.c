/* The order of examples: every example once per epoch, another order in each, everything a function of the
   step; and the counts of a step: rows, and weights of targets.
   Bugs planted and caught: the epoch's key without the epoch; position % count replaced by i; ids that
   restart in each step; the epoch cached across a jump back; the first batch taken for the largest;
   weights of the first batch only, or added to those of the step before.
   SPDX-License-Identifier: Apache-2.0 */
#include "train/batches.h"

#include <string.h>

#include "base/memory.h"
#include "support/check.h"

enum { EXAMPLES = 7, LONGEST = 5 };

static const struct packed_examples *get_batch(struct batches *batches, uint64_t step)
{
    return batches_get_part(batches, step, 0, batches->batch);
}

/* Example i has 1 + i % LONGEST tokens, all 100 + i, and label i. */
struct fixture {
    struct host host;
    uint32_t ids[EXAMPLES * LONGEST], labels[EXAMPLES];
    size_t offsets[EXAMPLES + 1];
    struct dataset dataset;
};

static void fixture_init(struct fixture *fixture)
{
    memset(fixture, 0, sizeof *fixture);
    host_init(&fixture->host);
    size_t at = 0;
    for (size_t i = 0; i < EXAMPLES; i++) {
        for (size_t j = 0; j < 1 + i % LONGEST; j++)
            fixture->ids[at++] = (uint32_t)(100 + i);
        fixture->offsets[i + 1] = at;
        fixture->labels[i] = (uint32_t)i;
    }
    fixture->dataset = (struct dataset){.ids = fixture->ids,
                                        .offsets = fixture->offsets,
                                        .count = EXAMPLES,
                                        .num_targets = 1,
                                        .targets = {{.kind = TARGETS_EXAMPLE, .ids = fixture->labels}}};
}

static void check_packed(const struct dataset *packed)
{
    const uint32_t *labels = packed->targets[0].ids;
    assert_int_equal(packed->offsets[0], 0);
    for (size_t i = 0; i < packed->count; i++) {
        size_t length = packed->offsets[i + 1] - packed->offsets[i];
        assert_int_equal(length, 1 + labels[i] % LONGEST);
        for (size_t j = packed->offsets[i]; j < packed->offsets[i + 1]; j++)
            assert_int_equal(packed->ids[j], 100 + labels[i]);
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
        uint32_t walk[EXAMPLES * 16];
        for (size_t step = 0; step < EXAMPLES * 16 / sizes[k]; step++) {
            const struct packed_examples *packed = get_batch(&batches, step);
            assert_int_equal(packed->data.count, sizes[k]);
            check_packed(&packed->data);
            for (size_t i = 0; i < packed->data.count; i++) {
                assert_int_equal(packed->sample_ids[i], step * sizes[k] + i);
                walk[packed->sample_ids[i]] = packed->targets[0].ids[i];
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
        assert_true(differing >= 10); /* two permutations are equal with probability 1/5040 */
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
    get_batch(&jumping, 1000);
    int different = 0;
    for (uint64_t step = 0; step < 20; step++) {
        const struct packed_examples *a = get_batch(&straight, step), *b = get_batch(&jumping, step);
        const uint32_t *labels = a->targets[0].ids, *others = get_batch(&other, step)->targets[0].ids;
        check_same_bits(labels, b->targets[0].ids, 4 * sizeof *labels, "order");
        check_same_bits(a->data.offsets, b->data.offsets, 5 * sizeof *a->data.offsets, "offsets");
        check_same_bits(a->data.ids, b->data.ids, a->data.offsets[4] * sizeof *a->data.ids, "ids");
        different += memcmp(labels, others, 4 * sizeof *labels) != 0;
    }
    assert_true(different >= 15);
    batches_free(&fixture.host, &straight);
    batches_free(&fixture.host, &jumping);
    batches_free(&fixture.host, &other);
}

/* Orders that runs of older versions have begun with. */
static void orders_stay_what_they_were(void **state)
{
    (void)state;
    struct fixture fixture;
    fixture_init(&fixture);
    struct batches batches;
    static const uint32_t want[2][EXAMPLES] = {{1, 5, 0, 2, 6, 3, 4}, {3, 4, 5, 0, 2, 1, 6}};
    check_status(&fixture.host, batches_new(&fixture.host, &fixture.dataset, EXAMPLES, 5, &batches),
                 HASHATTN_OK, NULL);
    for (uint64_t epoch = 0; epoch < 2; epoch++)
        check_same_bits(get_batch(&batches, epoch)->targets[0].ids, want[epoch], sizeof want[0], "order");
    batches_free(&fixture.host, &batches);
    assert_null(batches.order);
    batches_free(&fixture.host, &batches); /* twice is harmless */
}

/* The last token of a sequence is a target only, not a row of a step. */
static void rows_are_those_that_are_given(void **state)
{
    (void)state;
    struct fixture fixture;
    fixture_init(&fixture);
    struct dataset *dataset = &fixture.dataset;
    for (size_t i = 0; i < EXAMPLES; i++) /* at least two tokens each */
        fixture.offsets[i + 1] = fixture.offsets[i] + 2 + i % 3;
    dataset->next = true;
    dataset->targets[0] = (struct target_set){.kind = TARGETS_NEXT};
    struct batches batches;
    check_status(&fixture.host, batches_new(&fixture.host, dataset, 4, 5, &batches), HASHATTN_OK, NULL);
    size_t rows = 0;
    for (uint64_t step = 0; step < 7; step++) { /* four epochs */
        const struct packed_examples *packed = get_batch(&batches, step);
        double count;
        assert_int_equal(packed->data.count, 4);
        batches_counts(&batches, step, 1, &count); /* every row has a target, the token after it */
        assert_true(count == (double)packed->data.offsets[4]);
        rows += packed->data.offsets[4];
    }
    assert_int_equal(rows, 4 * (fixture.offsets[EXAMPLES] - EXAMPLES));
    batches_free(&fixture.host, &batches);
    fixture_init(&fixture);
    dataset->pairs = true;
    dataset->count = EXAMPLES / 2;
    check_status(&fixture.host, batches_new(&fixture.host, dataset, 2, 5, &batches), HASHATTN_OK, NULL);
    uint64_t largest = batches_largest(&batches, 5, 0, 2);
    size_t most = get_batch(&batches, largest)->data.offsets[4];
    for (uint64_t step = 0; step < 5; step++)
        assert_true(get_batch(&batches, step)->data.offsets[4] <= most);
    batches_free(&fixture.host, &batches);
}

/* A step of several batches is divided by the weights of the targets of all of them. */
static void weights_are_added_up_over_batches(void **state)
{
    (void)state;
    struct fixture fixture;
    fixture_init(&fixture);
    float of_examples[EXAMPLES], of_rows[EXAMPLES * LONGEST];
    uint32_t row_ids[EXAMPLES * LONGEST] = {0};
    for (size_t i = 0; i < EXAMPLES; i++) /* the first has no target; sums of halves are exact */
        of_examples[i] = 0.5f * (float)i;
    for (size_t i = 0; i < EXAMPLES * LONGEST; i++)
        of_rows[i] = 1 + 0.25f * (float)i;
    struct dataset *dataset = &fixture.dataset;
    dataset->num_targets = 4;
    dataset->targets[1] = (struct target_set){
        .kind = TARGETS_EXAMPLE, .ids = fixture.labels, .weighted = true, .weights = of_examples};
    dataset->targets[2] = (struct target_set){.kind = TARGETS_ROW, .ids = row_ids};
    dataset->targets[3] =
        (struct target_set){.kind = TARGETS_ROW, .ids = row_ids, .weighted = true, .weights = of_rows};
    struct batches batches;
    check_status(&fixture.host, batches_new(&fixture.host, dataset, 4, 5, &batches), HASHATTN_OK, NULL);
    for (uint64_t first = 0; first < 6; first += 2)
        for (uint64_t count = 0; count < 4; count++) {
            double want[4] = {0}, got[4] = {-1, -1, -1, -1};
            batches_counts(&batches, first, count, got);
            for (uint64_t i = first; i < first + count; i++) {
                const struct packed_examples *packed = get_batch(&batches, i);
                size_t rows = packed->data.offsets[4];
                want[0] += 4;
                want[2] += (double)rows;
                for (size_t k = 0; k < 4; k++)
                    want[1] += (double)packed->targets[1].weights[k];
                for (size_t k = 0; k < rows; k++)
                    want[3] += (double)packed->targets[3].weights[k];
            }
            for (size_t k = 0; k < 4; k++)
                assert_true(got[k] == want[k]);
        }
    batches_free(&fixture.host, &batches);
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
    fixture.dataset.count = (size_t)UINT32_MAX + 1;
    check_status(&fixture.host, batches_new(&fixture.host, &fixture.dataset, 3, 5, &batches),
                 HASHATTN_REFUSED, "4294967296 examples, at most 4294967295");
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
        memset(&batches, 0xff, sizeof batches);
        status = batches_new(&failing.host, &fixture.dataset, 3, 5, &batches);
        if (status == HASHATTN_OK)
            batches_free(&failing.host, &batches);
        else
            check_status(&failing.host, status, HASHATTN_NO_MEMORY, "no memory for");
        assert_int_equal(failing.outstanding, 0);
    }
    assert_int_equal(n, 8); /* seven blocks */
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
        uint64_t found = batches_largest(&batches, count, 0, 3);
        assert_true(found < count);
        size_t most = get_batch(&batches, found)->data.offsets[3];
        for (uint64_t i = 0; i < count; i++) {
            size_t rows = get_batch(&batches, i)->data.offsets[3];
            assert_true(rows < most || (rows == most && i >= found)); /* the first of the largest */
        }
    }
    batches_free(&fixture.host, &batches);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_epoch_has_each_example_once),
        cmocka_unit_test(a_batch_depends_on_seed_and_step_alone),
        cmocka_unit_test(orders_stay_what_they_were),
        cmocka_unit_test(rows_are_those_that_are_given),
        cmocka_unit_test(weights_are_added_up_over_batches),
        cmocka_unit_test(an_empty_set_is_refused),
        cmocka_unit_test(failing_allocations_leave_nothing),
        cmocka_unit_test(the_largest_batch_is_found),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
