/* CIFAR-10 records and idx files: pixels and labels where they belong, splits, prediction, and every damage
   refused with its numbers.
   Bugs planted and caught: pixels that begin with the label; batches after the first left out, or those after
   a missing one; labels of MNIST shifted by the header; classes exchanged; a file to predict that needs
   labels; the last image of a file dropped; part of a record ignored; label 10 accepted; fewer labels than
   images accepted.
   SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "support/folder.h"
#include "support/labels.h"
#include "support/task_case.h"

enum { RECORD = 3073 };

/* Records whose pixels are all `level` + i, with label i % 10. */
static void put_batch(struct folder *folder, const char *name, size_t count, unsigned level)
{
    unsigned char *bytes = malloc(count * RECORD + 1);
    assert_non_null(bytes);
    for (size_t i = 0; i < count; i++) {
        memset(bytes + i * RECORD, (int)((level + i) % 256), RECORD);
        bytes[i * RECORD] = (unsigned char)(i % 10);
    }
    folder_put(folder, name, bytes, count * RECORD);
    free(bytes);
}

/* Images of 2 x 3 pixels, the pixels of image i being 10 i, 10 i + 1, ... */
static void put_images(struct folder *folder, const char *name, unsigned count, unsigned height)
{
    unsigned char bytes[500] = {0, 0, 8, 3, 0, 0, 0, (unsigned char)count, 0, 0, 0, (unsigned char)height,
                                0, 0, 0, 3};
    for (unsigned i = 0; i < count; i++)
        for (unsigned k = 0; k < height * 3; k++)
            bytes[16 + i * height * 3 + k] = (unsigned char)(10 * i + k);
    folder_put(folder, name, bytes, 16 + count * height * 3);
}

static void put_labels(struct folder *folder, const char *name, unsigned count, unsigned first)
{
    unsigned char bytes[300] = {0, 0, 8, 1, 0, 0, 0, (unsigned char)count};
    for (unsigned i = 0; i < count; i++)
        bytes[8 + i] = (unsigned char)((first + i) % 10);
    folder_put(folder, name, bytes, 8 + count);
}

static hashattn_status load(struct folder *folder, const char *settings, enum split split,
                            struct task_facts *facts, struct dataset *dataset)
{
    const struct task *task = task_find("image");
    struct task_options options = task_options_of("image", settings);
    *dataset = (struct dataset){0};
    TRY(task->facts(&folder->host, &options, folder->path, NULL, facts));
    hashattn_status status = task->load(&folder->host, &options, facts, folder->path, split, 1, dataset);
    if (status != HASHATTN_OK)
        task_facts_free(&folder->host, facts);
    return status;
}

static void records_are_read_from_all_batches(void **state)
{
    struct folder *folder = *state;
    struct task_facts facts;
    struct dataset data;
    size_t total = 0;
    put_batch(folder, "data_batch_1.bin", 11, 0);
    put_batch(folder, "data_batch_2.bin", 5, 50);
    put_batch(folder, "data_batch_5.bin", 4, 100);
    put_batch(folder, "test_batch.bin", 3, 200);
    unsigned seen[256] = {0};
    for (enum split split = SPLIT_TRAIN; split <= SPLIT_VALID; split++) {
        check_status(&folder->host, load(folder, "", split, &facts, &data), HASHATTN_OK, NULL);
        assert_true(facts.max_len == 1024 && facts.vocab_size == 256 && facts.num_classes == 10);
        assert_string_equal(facts.labels[9], "truck");
        assert_string_equal(facts.objectives[0].name, "classify");
        for (size_t i = 0; i < data.count; i++) {
            unsigned level = data.ids[data.offsets[i]];
            assert_int_equal(data.offsets[i + 1] - data.offsets[i], 1024);
            assert_int_equal(data.ids[data.offsets[i] + 1023], level);
            seen[level]++;
            unsigned number = level < 50 ? level : level < 100 ? level - 50 : level - 100;
            assert_int_equal(label_of(&data, i), number % 10);
        }
        total += data.count;
        dataset_free(&folder->host, &data);
        task_facts_free(&folder->host, &facts);
    }
    assert_int_equal(total, 20); /* a tenth is validation, because test is there */
    for (unsigned level = 0; level < 256; level++)
        assert_int_equal(seen[level],
                         level < 11 || (level >= 50 && level < 55) || (level >= 100 && level < 104));
    check_status(&folder->host, load(folder, "input=rgb shrink=4", SPLIT_TEST, &facts, &data), HASHATTN_OK,
                 NULL);
    assert_true(data.count == 3 && facts.max_len == 64 && facts.row_width == 3 && label_of(&data, 2) == 2);
    check_near(data.floats[2 * 64 * 3], 202 / 127.5 - 1, 1e-5, "a float");
    dataset_free(&folder->host, &data);
    task_facts_free(&folder->host, &facts);
}

static void images_and_labels_are_read(void **state)
{
    struct folder *folder = *state;
    struct task_facts facts;
    struct dataset data;
    put_images(folder, "train-images-idx3-ubyte", 20, 2);
    put_labels(folder, "train-labels-idx1-ubyte", 20, 3);
    put_images(folder, "t10k-images-idx3-ubyte", 4, 2);
    put_labels(folder, "t10k-labels-idx1-ubyte", 4, 8);
    check_status(&folder->host, load(folder, "", SPLIT_TEST, &facts, &data), HASHATTN_OK, NULL);
    assert_true(facts.max_len == 6 && facts.num_classes == 10 && data.count == 4);
    assert_string_equal(facts.labels[7], "7");
    for (unsigned i = 0; i < 4; i++) {
        assert_int_equal(label_of(&data, i), (8 + i) % 10);
        for (unsigned k = 0; k < 6; k++)
            assert_int_equal(data.ids[6 * i + k], 10 * i + k);
    }
    dataset_free(&folder->host, &data);
    task_facts_free(&folder->host, &facts);
    check_status(&folder->host, load(folder, "input=grey", SPLIT_TRAIN, &facts, &data), HASHATTN_OK, NULL);
    assert_true(data.count == 18 && data.row_width == 1 && facts.vocab_size == 0);
    dataset_free(&folder->host, &data);
    task_facts_free(&folder->host, &facts);
}

static void files_to_predict_need_no_labels(void **state)
{
    struct folder *folder = *state;
    static char digit[] = "0";
    static char *labels[10] = {digit, digit, digit, digit, digit, digit, digit, digit, digit, digit};
    const struct task_facts small = {.vocab_size = 256, .max_len = 6, .num_classes = 10, .labels = labels},
                            full = {.vocab_size = 256, .max_len = 1024, .num_classes = 10, .labels = labels};
    const struct task_options options = task_options_of("image", "");
    struct dataset data;
    char path[200];
    put_images(folder, "mine", 3, 2);
    snprintf(path, sizeof path, "%s/mine", folder->path);
    check_status(&folder->host, task_stream_whole(&folder->host, "image", &options, &small, path, &data),
                 HASHATTN_OK, NULL);
    assert_true(data.count == 3 && label_of(&data, 2) == -1 && data.ids[17] == 25);
    dataset_free(&folder->host, &data);
    put_images(folder, "my-images-idx3-ubyte", 3, 2);
    put_labels(folder, "my-labels-idx1-ubyte", 3, 5);
    snprintf(path, sizeof path, "%s/my-images-idx3-ubyte", folder->path);
    check_status(&folder->host, task_stream_whole(&folder->host, "image", &options, &small, path, &data),
                 HASHATTN_OK, NULL);
    assert_true(data.count == 3 && label_of(&data, 2) == 7);
    dataset_free(&folder->host, &data);
    check_status(&folder->host, task_stream_whole(&folder->host, "image", &options, &full, path, &data),
                 HASHATTN_BAD_FILE,
                 "image 0: 2 x 3 pixels make a sequence of 6, those of the training set have 1024");
    put_batch(folder, "data_batch_1.bin", 2, 7);
    put_batch(folder, "data_batch_2.bin", 2, 9);
    snprintf(path, sizeof path, "%s/data_batch_1.bin", folder->path);
    check_status(&folder->host, task_stream_whole(&folder->host, "image", &options, &full, path, &data),
                 HASHATTN_OK, NULL);
    assert_true(data.count == 2 && label_of(&data, 1) == 1 && data.ids[1024] == 8);
    dataset_free(&folder->host, &data);
}

static void refused(struct folder *folder, enum split split, const char *part)
{
    struct task_facts facts;
    struct dataset data;
    check_status(&folder->host, load(folder, "", split, &facts, &data), HASHATTN_BAD_FILE, part);
    assert_null(data.ids);
}

static void damaged_files_are_refused_with_their_numbers(void **state)
{
    struct folder *folder = *state;
    static unsigned char records[2 * RECORD] = {3};
    refused(folder, SPLIT_TRAIN,
            "has neither data_batch_1.bin (CIFAR-10) nor train-images-idx3-ubyte (MNIST)");
    folder_put(folder, "data_batch_1.bin", records, 2 * RECORD - 73);
    refused(folder, SPLIT_TRAIN,
            "data_batch_1.bin: 6073 bytes are 1 images of 3073 bytes and 3000 bytes of another");
    records[RECORD] = 10;
    folder_put(folder, "data_batch_1.bin", records, 2 * RECORD);
    refused(folder, SPLIT_TRAIN, "data_batch_1.bin: image 1: the label is 10, allowed are 0 to 9");
    folder_put(folder, "data_batch_1.bin", records, 0);
    refused(folder, SPLIT_TRAIN, "data_batch_1.bin has no examples");
    put_images(folder, "train-images-idx3-ubyte", 20, 2);
    refused(folder, SPLIT_TRAIN, "has both data_batch_1.bin and train-images-idx3-ubyte");
    folder_remove(folder, "data_batch_1.bin");
    refused(folder, SPLIT_TRAIN, "train-labels-idx1-ubyte");
    put_labels(folder, "train-labels-idx1-ubyte", 19, 0);
    refused(folder, SPLIT_TRAIN, "train-images-idx3-ubyte has 20 images, ");
    put_images(folder, "train-labels-idx1-ubyte", 1, 2);
    refused(folder, SPLIT_TRAIN, "train-labels-idx1-ubyte: the magic number is 0x00000803, that of");
    put_labels(folder, "train-labels-idx1-ubyte", 20, 0);
    put_images(folder, "t10k-images-idx3-ubyte", 4, 3);
    put_labels(folder, "t10k-labels-idx1-ubyte", 4, 0);
    refused(folder, SPLIT_TEST, "t10k-images-idx3-ubyte: image 0: 3 x 3 pixels make a sequence of 9");
    put_labels(folder, "train-images-idx3-ubyte", 20, 0);
    refused(folder, SPLIT_TRAIN, "train-images-idx3-ubyte: the magic number is 0x00000801, that of");
    folder_put(folder, "train-images-idx3-ubyte", "\0\0\10\3\0\0\0\1\0\0\0\2\0\0\0\3abcde", 21);
    refused(folder, SPLIT_TRAIN, "train-images-idx3-ubyte: 21 bytes, the sizes in its header need 22");
}

static void every_failing_allocation_is_survived(void **state)
{
    struct folder *folder = *state;
    const struct task *task = task_find("image");
    const struct task_options options = task_options_of("image", "");
    bool done = false;
    put_images(folder, "train-images-idx3-ubyte", 20, 2);
    put_labels(folder, "train-labels-idx1-ubyte", 20, 0);
    for (long n = 0; !done; n++) {
        struct failing_host failing;
        struct task_facts facts;
        struct dataset data = {0};
        failing_host_init(&failing, n);
        hashattn_status status = task->facts(&failing.host, &options, folder->path, NULL, &facts);
        if (status == HASHATTN_OK) {
            status = task->load(&failing.host, &options, &facts, folder->path, SPLIT_TRAIN, 1, &data);
            task_facts_free(&failing.host, &facts);
        }
        done = status == HASHATTN_OK;
        assert_true(done || status == HASHATTN_NO_MEMORY);
        assert_true(done == (data.count == 16));
        dataset_free(&failing.host, &data);
        assert_int_equal(failing.outstanding, 0);
        assert_true(n < 100 && (!done || n > 15));
    }
}

int main(void)
{
#define IN_FOLDER(test) cmocka_unit_test_setup_teardown(test, folder_enter, folder_leave)
    const struct CMUnitTest tests[] = {
        IN_FOLDER(records_are_read_from_all_batches),
        IN_FOLDER(images_and_labels_are_read),
        IN_FOLDER(files_to_predict_need_no_labels),
        IN_FOLDER(damaged_files_are_refused_with_their_numbers),
        IN_FOLDER(every_failing_allocation_is_survived),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
