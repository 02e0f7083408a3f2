/* Every array of a data set, through growing, cutting splits and failing allocations.
   Bugs planted and caught: rows of floats, segments, targets or weights not moved by the cut, moved by the
   width of another array, or by examples instead of rows; an array not grown, grown with less than it had, or
   not freed; a capacity that changes before all arrays have it; arrays of a failed reader not freed.
   Covers: dataset.c split_files.c
   SPDX-License-Identifier: Apache-2.0 */
#include "tasks/dataset.h"

#include <string.h>

#include "base/file.h"
#include "base/memory.h"
#include "support/folder.h"

static const char *const endings[] = {".tsv", NULL};
static const struct task_facts first_rule = {.first_reading = true};
static const struct split_files files = {.stems = {"train", "valid", "test"}, .endings = endings};

/* Everything that a data set can have: rows of 3 floats, segments, and targets of every kind except next
   ids; of sparse ones the places themselves do not move. */
enum { WIDTH = 3 };
static const struct dataset full = {
    .row_width = WIDTH,
    .segmented = true,
    .num_targets = 4,
    .targets = {{.kind = TARGETS_EXAMPLE, .width = 2},
                {.kind = TARGETS_ROW, .weighted = true},
                {.kind = TARGETS_ROW, .width = 5},
                {.kind = TARGETS_EXAMPLE, .width = 9, .sparse = true}},
};

/* The value of row k of the example at an index of the file. */
static float float_of(size_t place, size_t k, size_t column)
{
    return (float)(place * 1000 + k * 10 + column) + 0.5f;
}

static void fill_row(struct dataset *data, size_t place, size_t k, size_t row)
{
    for (size_t c = 0; c < WIDTH; c++)
        data->floats[row * WIDTH + c] = float_of(place, k, c);
    data->segments[row] = (uint8_t)(place + k);
    data->targets[1].ids[row] = (uint32_t)(place * 100000 + k);
    data->targets[1].weights[row] = float_of(k, place, 0);
    for (size_t c = 0; c < 5; c++)
        data->targets[2].floats[row * 5 + c] = float_of(place, k, 7 + c);
}

static void fill_example(struct dataset *data, size_t place)
{
    data->targets[0].floats[2 * data->count] = (float)place;
    data->targets[0].floats[2 * data->count + 1] = -(float)place;
    data->targets[3].ones[data->count] = (struct target_ones){.first = 3 * place, .count = place % 9};
}

/* Checks that an example is as it was filled. */
static void check_full(const struct dataset *data, size_t i, size_t place, size_t rows)
{
    size_t each = data->pairs ? 2 : 1, start = data->offsets[i * each];
    assert_int_equal(data->offsets[(i + 1) * each] - start, rows);
    for (size_t k = 0; k < rows; k++) {
        size_t row = start + k;
        for (size_t c = 0; c < WIDTH; c++)
            assert_true(data->floats[row * WIDTH + c] == float_of(place, k, c));
        assert_int_equal(data->segments[row], (uint8_t)(place + k));
        assert_int_equal(data->targets[1].ids[row], place * 100000 + k);
        assert_true(data->targets[1].weights[row] == float_of(k, place, 0));
        for (size_t c = 0; c < 5; c++)
            assert_true(data->targets[2].floats[row * 5 + c] == float_of(place, k, 7 + c));
    }
    assert_true(data->targets[0].floats[2 * i] == (float)place);
    assert_true(data->targets[0].floats[2 * i + 1] == -(float)place);
    assert_true(data->targets[3].ones[i].first == 3 * place && data->targets[3].ones[i].count == place % 9);
    assert_true(data->ids == NULL && data->targets[0].ids == NULL && data->targets[0].weights == NULL);
    assert_true(data->targets[1].floats == NULL && data->targets[2].ids == NULL);
    assert_true(data->targets[3].floats == NULL && data->targets[3].ids == NULL);
}

/* The toy format with every array filled. */
static hashattn_status read_full(struct host *host, const void *context, const char *path,
                                 struct dataset_builder *builder)
{
    char *bytes;
    size_t size;
    (void)context;
    TRY(file_read(host, path, 1 << 20, &bytes, &size));
    hashattn_status status = HASHATTN_OK;
    struct dataset *data = &builder->dataset;
    for (size_t i = 0; i < size; i++) {
        size_t length = (size_t)(bytes[i] - '0'), row;
        status = dataset_reserve(host, builder, length + i % 3, &row);
        if (status != HASHATTN_OK)
            break;
        for (size_t k = 0; k < length; k++)
            fill_row(data, i, k, row + k);
        fill_example(data, i);
        dataset_push(builder, length, false);
    }
    memory_free(host, bytes);
    return status;
}

static void growing_keeps_every_array(void **state)
{
    (void)state;
    struct host host;
    host_init(&host);
    struct dataset_builder builder = {.dataset = full};
    struct dataset data;
    for (size_t i = 0; i < 300; i++) {
        size_t length = 1 + i * 7 % 130, row;
        check_status(&host, dataset_reserve(&host, &builder, length + 50, &row), HASHATTN_OK, NULL);
        for (size_t k = 0; k < length; k++)
            fill_row(&builder.dataset, i, k, row + k);
        fill_example(&builder.dataset, i);
        dataset_push(&builder, length, false);
    }
    check_status(&host, dataset_finish(&host, &builder, HASHATTN_OK, &data), HASHATTN_OK, NULL);
    assert_int_equal(data.count, 300);
    for (size_t i = 0; i < 300; i++)
        check_full(&data, i, i, 1 + i * 7 % 130);
    dataset_free(&host, &data);
    assert_true(data.floats == NULL && data.segments == NULL && data.targets[2].floats == NULL);
}

static void a_cut_moves_every_array(void **state)
{
    struct folder *folder = *state;
    char text[101] = {0};
    bool seen[100] = {false};
    for (int i = 0; i < 100; i++)
        text[i] = (char)('1' + i * i % 9);
    folder_put_text(folder, "train.tsv", text);
    for (enum split split = 0; split < SPLIT_COUNT; split++) {
        struct dataset data;
        check_status(&folder->host,
                     split_load(&folder->host, &files, &first_rule, folder->path, split, 5, &full, read_full,
                                NULL, &data),
                     HASHATTN_OK, NULL);
        assert_int_equal(data.count, split == SPLIT_TRAIN ? 80 : 10);
        for (size_t i = 0; i < data.count; i++) {
            size_t place = (size_t)data.targets[0].floats[2 * i];
            assert_true(place < 100 && !seen[place]);
            seen[place] = true;
            check_full(&data, i, place, (size_t)(text[place] - '0'));
        }
        dataset_free(&folder->host, &data);
    }
}

/* Room that cannot be allocated leaves earlier examples unchanged, and can be requested again. */
static void a_room_that_fails_loses_nothing(void **state)
{
    (void)state;
    for (long n = 0;; n++) {
        struct failing_host failing;
        struct dataset_builder builder = {.dataset = full};
        struct dataset data;
        failing_host_init(&failing, n);
        size_t failures = 0;
        for (size_t i = 0; i < 130; i++) {
            size_t row;
            hashattn_status status = dataset_reserve(&failing.host, &builder, 4, &row);
            if (status != HASHATTN_OK) {
                assert_int_equal(status, HASHATTN_NO_MEMORY);
                failures++;
                failing.until_failure = -1; /* memory is available again */
                status = dataset_reserve(&failing.host, &builder, 4, &row);
            }
            assert_int_equal(status, HASHATTN_OK);
            for (size_t k = 0; k < 4; k++)
                fill_row(&builder.dataset, i, k, row + k);
            fill_example(&builder.dataset, i);
            dataset_push(&builder, 4, false);
        }
        assert_int_equal(dataset_finish(&failing.host, &builder, HASHATTN_OK, &data), HASHATTN_OK);
        assert_int_equal(data.count, 130);
        for (size_t i = 0; i < 130; i++)
            check_full(&data, i, i, 4);
        dataset_free(&failing.host, &data);
        assert_int_equal(failing.outstanding, 0);
        if (failures == 0) {
            assert_true(n >= 20); /* 3 growths of 8 arrays and more */
            break;
        }
    }
}

static void every_failing_allocation_is_survived(void **state)
{
    struct folder *folder = *state;
    char text[301] = {0};
    memset(text, '5', 300);
    folder_put_text(folder, "train.tsv", text);
    for (long n = 0;; n++) {
        struct failing_host failing;
        struct dataset data;
        failing_host_init(&failing, n);
        hashattn_status status = split_load(&failing.host, &files, &first_rule, folder->path, SPLIT_TRAIN, 1,
                                            &full, read_full, NULL, &data);
        if (status == HASHATTN_OK) {
            assert_int_equal(data.count, 240);
            dataset_free(&failing.host, &data);
            assert_int_equal(failing.outstanding, 0);
            assert_true(n >= 40);
            break;
        }
        assert_int_equal(status, HASHATTN_NO_MEMORY);
        assert_true(data.floats == NULL && data.segments == NULL && data.offsets == NULL && data.count == 0);
        assert_int_equal(failing.outstanding, 0);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(growing_keeps_every_array),
        cmocka_unit_test_setup_teardown(a_cut_moves_every_array, folder_enter, folder_leave),
        cmocka_unit_test(a_room_that_fails_loses_nothing),
        cmocka_unit_test_setup_teardown(every_failing_allocation_is_survived, folder_enter, folder_leave),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
