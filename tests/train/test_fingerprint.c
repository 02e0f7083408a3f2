/* Fingerprints of data sets: each change of what a model reads or is trained for gives another hash.
   Bugs planted and caught: a fingerprint without lengths, floats, windows, segments, targets of rows or
   weights, with a weight of 0 taken for 1, or with other words than older versions for ids without a target
   and for next ids; that of targets with the ids of the input, without the last example, without the lengths
   of sequences, or without the id of the mask, with the values that windows read, or
   with the number of examples that a window is cut into; sparse targets with another number of zeros before,
   between or after their ones than their floats.
   SPDX-License-Identifier: Apache-2.0 */
#include "train/fingerprint.h"

#include <string.h>

#include "support/check.h"

/* Hashes that runs of older versions have in their trainer.json; "tokens" are rows, and ids that are targets
   only. */
static void fingerprints_stay_what_they_were(void **unused)
{
    (void)unused;
    uint32_t ids[] = {1, 2, 3, 4, 5, 6, 7, 65535}, labels[] = {3, 9, 0, 70000};
    float weights[] = {1, 0, 1, 1};
    size_t offsets[] = {0, 2, 5, 6, 8};
    struct dataset dataset = {
        .ids = ids,
        .offsets = offsets,
        .count = 4,
        .num_targets = 1,
        .targets = {{.kind = TARGETS_EXAMPLE, .ids = labels, .weighted = true, .weights = weights}}};
    struct fingerprint found = fingerprint_of(&dataset);
    assert_true(found.examples == 4 && found.tokens == 8 && found.hash == 0x418619a746820c4cu);
    dataset.pairs = true;
    dataset.count = 2;
    found = fingerprint_of(&dataset);
    assert_true(found.examples == 2 && found.tokens == 8 && found.hash == 0x2dbda6b9f101092au);
    offsets[3] = 8;
    dataset = (struct dataset){.ids = ids,
                               .offsets = offsets,
                               .count = 3,
                               .next = true,
                               .num_targets = 1,
                               .targets = {{.kind = TARGETS_NEXT}}};
    found = fingerprint_of(&dataset);
    assert_true(found.examples == 3 && found.tokens == 8 && found.hash == 0x33f1737cbd25ababu);
}

/* Checks that the fingerprint differs while *at holds `other`, and is the same again afterwards. */
static void check_noticed(const struct dataset *dataset, void *at, const void *other, size_t size,
                          const char *what)
{
    unsigned char kept[8];
    uint64_t before = fingerprint_of(dataset).hash;
    memcpy(kept, at, size);
    memcpy(at, other, size);
    if (fingerprint_of(dataset).hash == before)
        fail_msg("%s: another one has the same fingerprint", what);
    memcpy(at, kept, size);
    assert_true(fingerprint_of(dataset).hash == before);
}

static void a_fingerprint_notices_other_windows(void **unused)
{
    (void)unused;
    float values[12] = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12};
    size_t offsets[3] = {0, 1, 2};
    struct dataset dataset = {.row_width = 2,
                              .offsets = offsets,
                              .count = 2,
                              .num_targets = 1,
                              .targets = {{.kind = TARGETS_EXAMPLE, .width = 2}},
                              .windows = {.values = values,
                                          .times = 6,
                                          .columns = 2,
                                          .count = 1,
                                          .length = 2,
                                          .horizon = 2,
                                          .patch = 2,
                                          .stride = 2}};
    struct windows *windows = &dataset.windows;
    const float half = 0.5f;
    const size_t other = 5;
    struct fingerprint first = fingerprint_of(&dataset);
    assert_true(first.examples == 2 && first.tokens == 2);
    for (int i = 0; i < 12; i++)
        check_noticed(&dataset, &values[i], &half, sizeof half, "a value of the series");
    size_t *const cuts[] = {&windows->first,   &windows->count,       &windows->length,
                            &windows->horizon, &windows->patch,       &windows->stride,
                            &windows->target,  &windows->num_targets, &windows->season};
    for (size_t i = 0; i < sizeof cuts / sizeof *cuts; i++)
        check_noticed(&dataset, cuts[i], &other, sizeof other, "a number of the windows");
    windows->joint = true;
    assert_true(fingerprint_of(&dataset).hash != first.hash);
    windows->joint = false;
    windows->level = LEVEL_MEAN;
    assert_true(fingerprint_of(&dataset).hash != first.hash);
}

/* Windows that read and subtract something else have the same targets. */
static void targets_of_windows_are_the_values_that_follow(void **unused)
{
    (void)unused;
    float values[24];
    struct dataset dataset = {.num_targets = 1, .targets = {{.kind = TARGETS_EXAMPLE, .width = 2}}};
    for (int i = 0; i < 24; i++)
        values[i] = (float)i;
    const struct windows windows = {.values = values,
                                    .times = 12,
                                    .columns = 2,
                                    .first = 3,
                                    .count = 3,
                                    .length = 4,
                                    .horizon = 2,
                                    .patch = 2,
                                    .stride = 2};
    dataset.windows = windows;
    uint64_t hash = fingerprint_of_targets(&dataset);
    dataset.windows.first = 5; /* begins later and reads less */
    dataset.windows.length = 2;
    dataset.windows.level = LEVEL_MEAN;
    assert_true(fingerprint_of_targets(&dataset) == hash);
    dataset.windows = windows;
    for (int i = 0; i < 24; i++) {
        values[i] += 100;
        bool asked = i % 12 >= 7 && i % 12 < 11;
        assert_true((fingerprint_of_targets(&dataset) != hash) == asked);
        values[i] -= 100;
    }
    dataset.windows.horizon = 1;
    dataset.windows.count = 4;
    assert_true(fingerprint_of_targets(&dataset) != hash);
    dataset.windows = windows;
    dataset.windows.joint = true;
    dataset.windows.num_targets = 2; /* the same columns, in one example */
    assert_true(fingerprint_of_targets(&dataset) == hash);
    dataset.windows.num_targets = 1; /* the first column only */
    assert_true(fingerprint_of_targets(&dataset) != hash);
}

static void a_fingerprint_notices_every_change(void **unused)
{
    (void)unused;
    /* The seventh row belongs to no example. */
    uint32_t ids[7] = {1, 2, 3, 4, 5, 6, 7}, labels[2] = {0, 1}, row_ids[7] = {9, 8, 7, 6, 5, 4, 3};
    uint8_t segments[7] = {0, 0, 1, 1, 1, 0, 0};
    float floats[6 * 2] = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12}, answers[2 * 2] = {1, 2, 3, 4};
    float weights[2] = {1, 1}, row_weights[6] = {1, 1, 1, 1, 1, 1}, answer_weights[2] = {1, 1};
    size_t offsets[3] = {0, 2, 6}, three = 3;
    struct dataset dataset = {
        .ids = ids,
        .segmented = true,
        .segments = segments,
        .offsets = offsets,
        .count = 2,
        .num_targets = 3,
        .targets = {{.kind = TARGETS_EXAMPLE, .ids = labels, .weighted = true, .weights = weights},
                    {.kind = TARGETS_ROW, .ids = row_ids, .weighted = true, .weights = row_weights},
                    {.kind = TARGETS_EXAMPLE,
                     .width = 2,
                     .floats = answers,
                     .weighted = true,
                     .weights = answer_weights}}};
    const uint32_t id = 70000;
    const uint8_t segment = 1;
    const float half = 0.5f, zero = 0, negative_zero = -0.0f;
    struct fingerprint first = fingerprint_of(&dataset);
    assert_int_equal(first.examples, 2);
    assert_int_equal(first.tokens, 6);
    for (int i = 0; i < 6; i++) {
        check_noticed(&dataset, &ids[i], &id, sizeof id, "an id");
        check_noticed(&dataset, &row_ids[i], &id, sizeof id, "a target of a row");
        check_noticed(&dataset, &row_weights[i], &half, sizeof half, "a weight of a row");
        check_noticed(&dataset, &row_weights[i], &zero, sizeof zero, "a row that is not asked for");
    }
    check_noticed(&dataset, &segments[5], &segment, sizeof segment, "a segment");
    ids[6] = row_ids[6] = segments[6] = 1;
    assert_true(fingerprint_of(&dataset).hash == first.hash);
    check_noticed(&dataset, &offsets[1], &three, sizeof three, "a length");
    for (int i = 0; i < 2; i++) {
        check_noticed(&dataset, &labels[i], &id, sizeof id, "a label");
        check_noticed(&dataset, &weights[i], &half, sizeof half, "a weight");
        check_noticed(&dataset, &weights[i], &zero, sizeof zero, "an example that is not asked for");
        check_noticed(&dataset, &answer_weights[i], &half, sizeof half, "a weight of floats");
        check_noticed(&dataset, &answer_weights[i], &zero, sizeof zero, "floats that are not asked for");
    }
    for (int i = 0; i < 4; i++)
        check_noticed(&dataset, &answers[i], &half, sizeof half, "a float of a target");
    dataset.ids = NULL;
    dataset.row_width = 2;
    dataset.floats = floats;
    floats[11] = 0;
    for (int i = 0; i < 11; i++)
        check_noticed(&dataset, &floats[i], &half, sizeof half, "a float of a row");
    check_noticed(&dataset, &floats[11], &negative_zero, sizeof negative_zero, "the sign of a zero");
}

/* Targets of examples do not depend on the rows, next ids and masks do. */
/* Runs of older versions kept every float. */
static void sparse_targets_have_the_fingerprint_of_their_floats(void **unused)
{
    (void)unused;
    float floats[5 * 4] = {0, 0, 0, 0, 0, 1, 0, 0, 0, 1, 0, 1, 1, 1, 1, 1, 0, 1, 0, 0},
                     weights[5] = {1, 1, 0, 1, 2};
    struct target_ones ones[5] = {{7, 0}, {0, 1}, {1, 2}, {3, 4}, {0, 1}};
    uint32_t places[7] = {1, 1, 3, 0, 1, 2, 3}, ids[5] = {1, 2, 3, 4, 5};
    size_t offsets[6] = {0, 1, 2, 3, 4, 5};
    struct dataset dense = {
        .ids = ids,
        .offsets = offsets,
        .count = 5,
        .num_targets = 1,
        .targets = {
            {.kind = TARGETS_EXAMPLE, .width = 4, .floats = floats, .weighted = true, .weights = weights}}};
    struct dataset sparse = dense;
    sparse.targets[0].floats = NULL;
    sparse.targets[0].sparse = true;
    sparse.targets[0].ones = ones;
    sparse.targets[0].places = places;
    assert_true(fingerprint_of(&sparse).hash == fingerprint_of(&dense).hash);
    assert_true(fingerprint_of_targets(&sparse) == fingerprint_of_targets(&dense));
    floats[16] = 1, floats[17] = 0;
    assert_true(fingerprint_of(&sparse).hash != fingerprint_of(&dense).hash);
}

static void a_fingerprint_of_targets_is_theirs_alone(void **unused)
{
    (void)unused;
    uint32_t ids[6] = {1, 2, 3, 4, 5, 6}, labels[2] = {0, 1};
    size_t offsets[3] = {0, 2, 6};
    struct dataset dataset = {.ids = ids,
                              .offsets = offsets,
                              .count = 2,
                              .num_targets = 1,
                              .targets = {{.kind = TARGETS_EXAMPLE, .ids = labels}}};
    uint64_t first = fingerprint_of_targets(&dataset);
    ids[5] = 7;
    offsets[1] = 3;
    assert_true(fingerprint_of_targets(&dataset) == first);
    labels[1] = 2;
    assert_true(fingerprint_of_targets(&dataset) != first);
    dataset.targets[0] = (struct target_set){.kind = TARGETS_ROW, .ids = ids};
    first = fingerprint_of_targets(&dataset);
    ids[5] = 8;
    assert_true(fingerprint_of_targets(&dataset) != first);
    ids[5] = 7;
    offsets[1] = 4;
    assert_true(fingerprint_of_targets(&dataset) != first);
    offsets[1] = 3;
    assert_true(fingerprint_of_targets(&dataset) == first);
    static const enum target_kind of_ids[] = {TARGETS_NEXT, TARGETS_MASKED};
    for (int i = 0; i < 2; i++) {
        dataset.targets[0] = (struct target_set){.kind = of_ids[i]};
        first = fingerprint_of_targets(&dataset);
        ids[5]++;
        assert_true(fingerprint_of_targets(&dataset) != first);
        ids[5]--;
        offsets[1] = 2;
        assert_true(fingerprint_of_targets(&dataset) != first);
        offsets[1] = 3;
        assert_true(fingerprint_of_targets(&dataset) == first);
    }
    dataset.masks.mask_id = 3;
    assert_true(fingerprint_of_targets(&dataset) != first);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(fingerprints_stay_what_they_were),
        cmocka_unit_test(a_fingerprint_notices_every_change),
        cmocka_unit_test(sparse_targets_have_the_fingerprint_of_their_floats),
        cmocka_unit_test(a_fingerprint_notices_other_windows),
        cmocka_unit_test(targets_of_windows_are_the_values_that_follow),
        cmocka_unit_test(a_fingerprint_of_targets_is_theirs_alone),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
