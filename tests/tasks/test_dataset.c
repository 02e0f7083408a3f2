/* Growing data sets, choosing files, and cutting validation and test out of the training file. Bugs planted
   and caught: a tenth of few is none, seed ignored, test kept in training, training kept whole, marks of
   cut examples or offsets not moved, the last offset lost when growing, room off by one, files overwritten or
   left half-written, two extensions accepted, writing after the disk is full, a character cut in two in a
   message, an unknown label with weight, ids cut to 16 bits, the second of a pair at the wrong index,
   a split that appears before all are written, a temporary file of a killed attempt kept.
   Covers: split_files.c.
   SPDX-License-Identifier: Apache-2.0 */
#include "tasks/dataset.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

#include "base/file.h"
#include "base/memory.h"
#include "support/folder.h"
#include "support/labels.h"

static const char *const endings[] = {".jsonl", ".tsv", NULL};
static const struct split_files files = {.stems = {"train", "valid", "test"}, .endings = endings};
static const struct dataset classified = {.num_targets = 1,
                                          .targets = {{.kind = TARGETS_EXAMPLE, .weighted = true}}};

/* A toy format: a digit is an example of that many tokens, each the index in the file, cut if it is 9. */
static hashattn_status read_toy(struct host *host, const void *context, const char *path,
                                struct dataset_builder *builder)
{
    char *bytes;
    size_t size;
    TRY(file_read(host, path, 1 << 20, &bytes, &size));
    hashattn_status status = HASHATTN_OK;
    for (size_t i = 0; i < size && status == HASHATTN_OK; i++) {
        size_t length = (size_t)(bytes[i] - '0'), row;
        if (length > 9)
            status = host_fail(host, HASHATTN_BAD_FILE, "byte %zu of %s", i, (const char *)context);
        else
            status = dataset_reserve(host, builder, length, &row);
        if (status != HASHATTN_OK)
            break;
        for (size_t k = 0; k < length; k++)
            builder->dataset.ids[row + k] = (uint32_t)(i + 1);
        dataset_push_label(builder, length, (int32_t)i, length == 9);
    }
    memory_free(host, bytes);
    return status;
}

static const struct task_facts first_rule = {.first_reading = true};

static hashattn_status load(struct folder *folder, enum split split, uint64_t seed, struct dataset *dataset)
{
    return split_load(&folder->host, &files, &first_rule, folder->path, split, seed, &classified, read_toy,
                      "toy", dataset);
}

/* Examples of the toy format hold their index in the file: `seen` counts each. */
static size_t count_places(struct folder *folder, enum split split, uint64_t seed, const char *text,
                           int *seen)
{
    struct dataset data;
    check_status(&folder->host, load(folder, split, seed, &data), HASHATTN_OK, NULL);
    size_t cut = 0;
    for (size_t i = 0; i < data.count; i++) {
        size_t length = data.offsets[i + 1] - data.offsets[i];
        int place = label_of(&data, i);
        assert_int_equal(length, text[place] - '0');
        for (size_t k = 0; k < length; k++)
            assert_int_equal(data.ids[data.offsets[i] + k], place + 1);
        assert_true(i == 0 || label_of(&data, i) > label_of(&data, i - 1));
        cut += length == 9;
        seen[place]++;
    }
    assert_int_equal(data.num_cut, cut);
    size_t count = data.count;
    dataset_free(&folder->host, &data);
    return count;
}

static void growing_keeps_what_is_there(void **state)
{
    (void)state;
    struct failing_host failing;
    failing_host_init(&failing, -1);
    struct host host = failing.host;
    struct dataset_builder builder = {0};
    struct dataset data;
    size_t end = 0;
    dataset_classified(&builder.dataset);
    for (size_t i = 0; i < 1000; i++) {
        size_t length = 1 + i * 7 % 130, row;
        /* More room may be reserved than is used. */
        check_status(&host, dataset_reserve(&host, &builder, length + 50, &row), HASHATTN_OK, NULL);
        for (size_t k = 0; k < length; k++)
            builder.dataset.ids[row + k] = (uint32_t)(70000 * i + k); /* beyond 16 bits */
        dataset_push_label(&builder, length, (int32_t)i - 1, i % 3 == 0);
    }
    check_status(&host, dataset_finish(&host, &builder, HASHATTN_OK, &data), HASHATTN_OK, NULL);
    assert_int_equal(data.count, 1000);
    assert_int_equal(data.num_cut, 334);
    for (size_t i = 0; i < 1000; i++) {
        size_t length = 1 + i * 7 % 130;
        assert_int_equal(data.offsets[i], end);
        end += length;
        assert_int_equal(data.offsets[i + 1], end);
        assert_int_equal(label_of(&data, i), (int32_t)i - 1);
        for (size_t k = 0; k < length; k++)
            assert_int_equal(data.ids[data.offsets[i] + k], 70000 * i + k);
    }
    dataset_free(&host, &data);
    assert_true(builder.cut == NULL && builder.capacity == 0 && builder.dataset.ids == NULL);
    assert_null(data.ids);
    dataset_free(&host, &data);               /* twice is harmless */
    assert_int_equal(failing.outstanding, 0); /* and nothing was written past a block */
}

static void a_missing_split_is_cut_out_of_training(void **state)
{
    struct folder *folder = *state;
    char text[101] = {0};
    for (int i = 0; i < 100; i++)
        text[i] = (char)('1' + i % 9);
    folder_put_text(folder, "train.tsv", text);
    int seen[100] = {0}, valid[100] = {0}, other[100] = {0};
    assert_int_equal(count_places(folder, SPLIT_TRAIN, 5, text, seen), 80);
    assert_int_equal(count_places(folder, SPLIT_VALID, 5, text, valid), 10);
    assert_int_equal(count_places(folder, SPLIT_TEST, 5, text, seen), 10);
    for (int i = 0; i < 100; i++)
        assert_int_equal(seen[i] + valid[i], 1);
    static const int chosen[] = {5, 16, 26, 48, 57, 69, 80, 83, 91, 95};
    for (size_t i = 0; i < sizeof chosen / sizeof *chosen; i++) /* runs of older versions have this split */
        assert_int_equal(valid[chosen[i]], 1);
    assert_int_equal(count_places(folder, SPLIT_VALID, 6, text, other), 10);
    assert_memory_not_equal(valid, other, sizeof valid); /* another seed, another split */

    /* With a test file, only validation is cut, and it is the same tenth. */
    folder_put_text(folder, "test.jsonl", "123");
    memset(seen, 0, sizeof seen);
    assert_int_equal(count_places(folder, SPLIT_TRAIN, 5, text, seen), 90);
    assert_int_equal(count_places(folder, SPLIT_VALID, 5, text, seen), 10);
    for (int i = 0; i < 100; i++)
        assert_int_equal(seen[i], valid[i] ? 1 : seen[i]);
    memset(seen, 0, sizeof seen);
    assert_int_equal(count_places(folder, SPLIT_TEST, 5, "123", seen), 3);

    /* With a validation file, training is whole, and no test is invented. */
    folder_remove(folder, "test.jsonl");
    folder_put_text(folder, "valid.jsonl", "12345");
    memset(seen, 0, sizeof seen);
    assert_int_equal(count_places(folder, SPLIT_TRAIN, 5, text, seen), 100);
    assert_int_equal(count_places(folder, SPLIT_VALID, 5, "12345", seen), 5);
    struct dataset data;
    check_status(&folder->host, load(folder, SPLIT_TEST, 5, &data), HASHATTN_BAD_FILE,
                 "has no test.jsonl or test.tsv");
    assert_null(data.ids);
}

static void small_files_are_cut_or_refused(void **state)
{
    struct folder *folder = *state;
    int seen[30] = {0};
    struct dataset data;
    folder_put_text(folder, "train.tsv", "123");
    assert_int_equal(count_places(folder, SPLIT_TRAIN, 1, "123", seen), 1);
    assert_int_equal(count_places(folder, SPLIT_VALID, 1, "123", seen), 1);
    assert_int_equal(count_places(folder, SPLIT_TEST, 1, "123", seen), 1);
    assert_true(seen[0] == 1 && seen[1] == 1 && seen[2] == 1);
    folder_put_text(folder, "train.tsv", "12");
    check_status(&folder->host, load(folder, SPLIT_TRAIN, 1, &data), HASHATTN_BAD_FILE,
                 "/train.tsv has 2 examples, too few to cut validation and test out of it; at least 3 are");
    folder_put_text(folder, "test.tsv", "1");
    assert_int_equal(count_places(folder, SPLIT_TRAIN, 1, "12", seen), 1);
    folder_put_text(folder, "train.tsv", "1");
    check_status(&folder->host, load(folder, SPLIT_VALID, 1, &data), HASHATTN_BAD_FILE,
                 "/train.tsv has 1 example, too few to cut validation out of it; at least 2 are needed");
    folder_put_text(folder, "train.tsv", "");
    check_status(&folder->host, load(folder, SPLIT_TRAIN, 1, &data), HASHATTN_BAD_FILE,
                 "train.tsv has no examples");
    folder_put_text(folder, "train.tsv", "12x");
    check_status(&folder->host, load(folder, SPLIT_TRAIN, 1, &data), HASHATTN_BAD_FILE, "byte 2 of toy");
    assert_null(data.ids);
}

static void the_choice_of_files_is_unambiguous(void **state)
{
    struct folder *folder = *state;
    struct dataset data;
    check_status(&folder->host, load(folder, SPLIT_VALID, 1, &data), HASHATTN_BAD_FILE,
                 "has no train.jsonl or train.tsv");
    folder_put_text(folder, "train.tsv", "123");
    folder_put_text(folder, "train.jsonl", "123");
    check_status(&folder->host, load(folder, SPLIT_TRAIN, 1, &data), HASHATTN_BAD_FILE,
                 "both train.jsonl and train.tsv");
    folder_remove(folder, "train.tsv");
    folder_put_text(folder, "valid.tsv", "1");
    folder_put_text(folder, "valid.jsonl", "1");
    check_status(&folder->host, load(folder, SPLIT_TRAIN, 1, &data), HASHATTN_BAD_FILE,
                 "both valid.jsonl and valid.tsv");
}

static hashattn_status write_toy(struct host *host, void *context, enum split split, size_t index,
                                 struct file_writer *writer)
{
    (void)context;
    FAIL_IF(index == 7, host, HASHATTN_INVALID, "the seventh is refused");
    file_print(writer, "%s %zu\n", split_name(split), index);
    return HASHATTN_OK;
}

static void writing_overwrites_nothing(void **state)
{
    struct folder *folder = *state;
    size_t counts[SPLIT_COUNT] = {2, 0, 1}, size;
    check_status(&folder->host,
                 split_write(&folder->host, &files, folder->path, counts, "head\n", write_toy, NULL),
                 HASHATTN_OK, NULL);
    char *train = folder_get(folder, "train.jsonl", &size), *test = folder_get(folder, "test.jsonl", &size);
    assert_string_equal(train, "head\ntrain 0\ntrain 1\n");
    assert_string_equal(test, "head\ntest 0\n");
    free(train), free(test);

    counts[SPLIT_TEST] = 0;
    counts[SPLIT_VALID] = 1;
    check_status(&folder->host, split_write(&folder->host, &files, folder->path, counts, "", write_toy, NULL),
                 HASHATTN_INVALID, "train.jsonl exists already");
    folder_remove(folder, "train.jsonl");
    counts[SPLIT_TRAIN] = 9;
    check_status(&folder->host, split_write(&folder->host, &files, folder->path, counts, "", write_toy, NULL),
                 HASHATTN_INVALID, "the seventh is refused");
    char path[100];
    snprintf(path, sizeof path, "%s/valid.jsonl",
             folder->path); /* complete, but in the way of the next one */
    assert_false(file_exists(path));
    snprintf(path, sizeof path, "%s/test.jsonl", folder->path); /* of the first attempt */
    assert_true(file_exists(path));
    snprintf(path, sizeof path, "%s/train.jsonl", folder->path);
    assert_false(file_exists(path));
    assert_int_equal(folder_temporaries(folder->path), 0);
    counts[SPLIT_VALID] = 0;
    check_status(&folder->host, split_write(&folder->host, &files, "/proc", counts, "", write_toy, NULL),
                 HASHATTN_NO_DISK, "/proc/train.jsonl");
}

/* What a SIGKILL now would leave: temporary files, which the next attempt removes. */
static hashattn_status look_and_write(struct host *host, void *context, enum split split, size_t index,
                                      struct file_writer *writer)
{
    const struct folder *folder = context;
    static const char *const names[] = {"train.jsonl", "valid.jsonl", "test.jsonl"};
    for (size_t i = 0; i < 3; i++) {
        char path[100];
        snprintf(path, sizeof path, "%s/%s", folder->path, names[i]);
        assert_false(file_exists(path));
    }
    return write_toy(host, NULL, split, index, writer);
}

static void a_killed_attempt_is_not_in_the_way(void **state)
{
    struct folder *folder = *state;
    size_t counts[SPLIT_COUNT] = {2, 1, 1};
    folder_put_text(folder, "train.jsonl.tmp-01234567", "left");
    folder_put_text(folder, "else.jsonl.tmp-01234567", "another's");
    check_status(&folder->host,
                 split_write(&folder->host, &files, folder->path, counts, "", look_and_write, folder),
                 HASHATTN_OK, NULL);
    assert_int_equal(folder_temporaries(folder->path), 1);
    folder_remove(folder, "else.jsonl.tmp-01234567");
    /* Killed between two renames: the message says what to do. */
    folder_remove(folder, "train.jsonl");
    folder_remove(folder, "valid.jsonl");
    check_status(&folder->host, split_write(&folder->host, &files, folder->path, counts, "", write_toy, NULL),
                 HASHATTN_INVALID,
                 "train.jsonl, which is written last, is missing: if an attempt was killed, remove the file");
    counts[SPLIT_TRAIN] = 0;
    check_status(&folder->host, split_write(&folder->host, &files, folder->path, counts, "", write_toy, NULL),
                 HASHATTN_INVALID, "test.jsonl exists already and is not overwritten");
    assert_null(strstr(folder->host.message, "killed"));
}

static hashattn_status write_much(struct host *host, void *context, enum split split, size_t index,
                                  struct file_writer *writer)
{
    (void)host, (void)split;
    *(size_t *)context = index + 1;
    file_print(writer, "%4000d\n", 1);
    return HASHATTN_OK;
}

static void a_full_disk_ends_the_writing(void **state)
{
    struct folder *folder = *state;
    const size_t counts[SPLIT_COUNT] = {100000, 0, 0};
    size_t written = 0;
    struct rlimit old, limit;
    void (*handler)(int) =
        signal(SIGXFSZ, SIG_IGN); /* so that a write beyond the limit fails like a full disk */
    assert_int_equal(getrlimit(RLIMIT_FSIZE, &old), 0);
    limit = old;
    limit.rlim_cur = 1 << 20;
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &limit), 0);
    hashattn_status status =
        split_write(&folder->host, &files, folder->path, counts, "", write_much, &written);
    setrlimit(RLIMIT_FSIZE, &old);
    signal(SIGXFSZ, handler);
    check_status(&folder->host, status, HASHATTN_NO_DISK, "train.jsonl");
    assert_in_range(written, 200, 1000); /* 262 lines fit, the rest of a buffer follows */
    char path[100];
    snprintf(path, sizeof path, "%s/train.jsonl", folder->path);
    assert_false(file_exists(path));
    assert_int_equal(folder_temporaries(folder->path), 0);
}

static hashattn_status refuse_third(struct host *host, void *context, struct piece line, size_t number)
{
    *(size_t *)context += line.size;
    FAIL_IF(number == 3, host, HASHATTN_BAD_FILE, "not this one");
    return HASHATTN_OK;
}

static void messages_name_file_and_line(void **state)
{
    struct folder *folder = *state;
    char path[100], want[200];
    size_t bytes = 0;
    snprintf(path, sizeof path, "%s/lines", folder->path);
    snprintf(want, sizeof want, "%s: line 3: not this one", path);
    folder_put_text(folder, "lines", "a\n\nccc\ndddd\n");
    check_status(&folder->host, file_each_line(&folder->host, path, FILE_TYPED, refuse_third, &bytes),
                 HASHATTN_BAD_FILE, NULL);
    assert_string_equal(folder->host.message, want);
    assert_int_equal(bytes, 4); /* nothing after the failure was visited */
    assert_non_null(freopen(path, "rb", stdin));
    check_status(&folder->host, file_each_line(&folder->host, "-", FILE_TYPED, refuse_third, &bytes),
                 HASHATTN_BAD_FILE, NULL);
    assert_string_equal(folder->host.message, "standard input: line 3: not this one");
    check_status(&folder->host, file_each_line(&folder->host, folder->path, FILE_TYPED, refuse_third, &bytes),
                 HASHATTN_BAD_FILE, folder->path); /* a directory */
}

static void pieces_are_shown_printable_and_short(void **state)
{
    (void)state;
#define FORTY "0123456789012345678901234567890123456789"
    static const char *const cases[][2] = {
        {"", ""},
        {"plain", "plain"},
        {FORTY, FORTY},
        {FORTY "x", FORTY "..."},
        {"tab\tand\x7f", "tab?and?"},
        {"gr\xc3\xbcn", "gr\xc3\xbcn"},
        {"gr\xc3n\xff", "gr?n?"},
        {"012345678901234567890123456789012345678\xc3\xbc", "012345678901234567890123456789012345678..."},
        {"01234567890123456789012345678901234567\xc3\xbcx",
         "01234567890123456789012345678901234567\xc3\xbc..."},
        {"0123456789012345678901234567890123456\xf0\x9f\x98\x80", "0123456789012345678901234567890123456..."},
        {"\xff" FORTY, "?012345678901234567890123456789012345678..."},
        {"a b\x80", "a b?"},
        {"012345678901234567890123456789012345\xff"
         "abcde",
         "012345678901234567890123456789012345?abc..."},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        char text[SHOWN_SIZE];
        struct piece piece = {cases[i][0], strlen(cases[i][0])};
        assert_string_equal(piece_shown(piece, text), cases[i][1]);
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
                                            &classified, read_toy, "toy", &data);
        if (status == HASHATTN_OK) {
            assert_int_equal(data.count, 240);
            dataset_free(&failing.host, &data);
            assert_int_equal(failing.outstanding, 0);
            assert_true(n >= 10);
            break;
        }
        assert_int_equal(status, HASHATTN_NO_MEMORY);
        assert_null(data.ids);
        assert_int_equal(failing.outstanding, 0);
    }
}

static void pairs_stay_together(void **state)
{
    (void)state;
    struct failing_host failing;
    failing_host_init(&failing, -1);
    struct host host = failing.host;
    struct dataset_builder builder = {.dataset.pairs = true};
    struct dataset data;
    dataset_classified(&builder.dataset);
    for (size_t i = 0; i < 200; i++) {
        size_t first = 1 + i % 5, second = 1 + i % 7, row;
        check_status(&host, dataset_reserve(&host, &builder, first + second + 3, &row), HASHATTN_OK, NULL);
        for (size_t k = 0; k < first + second; k++)
            builder.dataset.ids[row + k] = (uint32_t)(i * 100 + k);
        builder.dataset.targets[0].ids[i] = i % 4 == 0 ? 0 : (uint32_t)i;
        builder.dataset.targets[0].weights[i] = i % 4 == 0 ? 0 : 1;
        dataset_push_pair(&builder, first, second, false);
    }
    check_status(&host, dataset_finish(&host, &builder, HASHATTN_OK, &data), HASHATTN_OK, NULL);
    assert_int_equal(dataset_sequences(&data), 400);
    for (size_t i = 0; i < 200; i++) {
        assert_int_equal(dataset_length(&data, 2 * i), 1 + i % 5);
        assert_int_equal(dataset_length(&data, 2 * i + 1), 1 + i % 7);
        assert_int_equal(label_of(&data, i), i % 4 == 0 ? -1 : (int32_t)i);
        for (size_t k = 0; k < 2 + i % 5 + i % 7; k++)
            assert_int_equal(data.ids[data.offsets[2 * i] + k], i * 100 + k);
    }
    dataset_free(&host, &data);
    assert_int_equal(failing.outstanding, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(growing_keeps_what_is_there),
        cmocka_unit_test_setup_teardown(a_missing_split_is_cut_out_of_training, folder_enter, folder_leave),
        cmocka_unit_test_setup_teardown(small_files_are_cut_or_refused, folder_enter, folder_leave),
        cmocka_unit_test_setup_teardown(the_choice_of_files_is_unambiguous, folder_enter, folder_leave),
        cmocka_unit_test_setup_teardown(writing_overwrites_nothing, folder_enter, folder_leave),
        cmocka_unit_test_setup_teardown(a_killed_attempt_is_not_in_the_way, folder_enter, folder_leave),
        cmocka_unit_test_setup_teardown(a_full_disk_ends_the_writing, folder_enter, folder_leave),
        cmocka_unit_test_setup_teardown(messages_name_file_and_line, folder_enter, folder_leave),
        cmocka_unit_test(pieces_are_shown_printable_and_short),
        cmocka_unit_test_setup_teardown(every_failing_allocation_is_survived, folder_enter, folder_leave),
        cmocka_unit_test(pairs_stay_together),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
