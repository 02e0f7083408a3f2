/* Pathfinder: generated files read back, the published layout, prediction, and every damage refused.
   Bugs planted and caught: every label 1; splits alike; the default number of distractors, and their default
   length; a picture file that is empty read; metadata of the second file left out; the PNG read although
   there is a PGM; the label field one to the left; a picture to predict that needs a label.
   SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "support/folder.h"
#include "support/labels.h"
#include "support/task_case.h"

static hashattn_status generate(struct folder *folder, const char *settings, size_t train, size_t valid,
                                size_t test, uint64_t seed)
{
    const size_t counts[SPLIT_COUNT] = {train, valid, test};
    struct task_options options = task_options_of("pathfinder", settings);
    return task_find("pathfinder")->generate(&folder->host, &options, folder->path, counts, seed);
}

static hashattn_status load(struct folder *folder, const char *settings, enum split split,
                            struct task_facts *facts, struct dataset *dataset)
{
    const struct task *task = task_find("pathfinder");
    struct task_options options = task_options_of("pathfinder", settings);
    *dataset = (struct dataset){0};
    TRY(task->facts(&folder->host, &options, folder->path, NULL, facts));
    hashattn_status status = task->load(&folder->host, &options, facts, folder->path, split, 1, dataset);
    if (status != HASHATTN_OK)
        task_facts_free(&folder->host, facts);
    return status;
}

static void generated_files_are_read_back(void **state)
{
    struct folder *folder = *state;
    struct task_facts facts;
    struct dataset data;
    size_t size, ones = 0;
    check_status(&folder->host, generate(folder, "side=16 contour_length=3", 100, 5, 6, 3), HASHATTN_OK,
                 NULL);
    char *bytes = folder_get(folder, "train.pgm", &size);
    size_t header = strlen("P5\n# label 0\n16 16\n255\n");
    assert_int_equal(size, 100 * (header + 256));
    check_status(&folder->host, load(folder, "", SPLIT_TRAIN, &facts, &data), HASHATTN_OK, NULL);
    assert_true(data.count == 100 && facts.max_len == 256 && facts.vocab_size == 256);
    assert_true(facts.num_classes == 2 && strcmp(facts.labels[1], "1") == 0);
    for (size_t i = 0; i < 100; i++) {
        const char *picture = bytes + i * (header + 256);
        assert_int_equal(picture[strlen("P5\n# label ")] - '0', label_of(&data, i));
        ones += label_of(&data, i) == 1;
        for (size_t k = 0; k < 256; k++)
            assert_int_equal(data.ids[256 * i + k], (unsigned char)picture[header + k]);
    }
    assert_in_range(ones, 28, 72);
    dataset_free(&folder->host, &data);
    task_facts_free(&folder->host, &facts);
    check_status(&folder->host, load(folder, "input=grey", SPLIT_TEST, &facts, &data), HASHATTN_OK, NULL);
    assert_true(data.count == 6 && facts.row_width == 1 && data.floats[0] >= -1 && data.floats[0] <= 1);
    dataset_free(&folder->host, &data);
    task_facts_free(&folder->host, &facts);
    check_status(&folder->host, generate(folder, "", 1, 0, 0, 3), HASHATTN_INVALID,
                 "train.pgm exists already");
    free(bytes);
}

/* The first training file of these settings. */
static char *made(struct folder *folder, const char *settings, uint64_t seed, size_t *size)
{
    check_status(&folder->host, generate(folder, settings, 3, 3, 0, seed), HASHATTN_OK, NULL);
    char *bytes = folder_get(folder, "train.pgm", size);
    folder_remove(folder, "train.pgm");
    folder_remove(folder, "valid.pgm");
    return bytes;
}

static void defaults_are_those_of_the_arena(void **state)
{
    struct folder *folder = *state;
    static const char *const same[][2] = {
        {"", "side=32 contour_length=14 distractors=5 distractor_length=4"},
        {"contour_length=9", "distractors=6 contour_length=9 distractor_length=3"},
        {"contour_length=6", "distractors=10 contour_length=6 distractor_length=2"},
        {"contour_length=2", "distractors=20 contour_length=2 distractor_length=1"},
    };
    for (size_t i = 0; i < sizeof same / sizeof same[0]; i++) {
        size_t sizes[2];
        char *a = made(folder, same[i][0], 4, &sizes[0]), *b = made(folder, same[i][1], 4, &sizes[1]);
        assert_int_equal(sizes[0], sizes[1]);
        assert_memory_equal(a, b, sizes[0]);
        free(a), free(b);
    }
    check_status(
        &folder->host, generate(folder, "side=16 contour_length=64", 1, 0, 0, 1), HASHATTN_INVALID,
        "pathfinder: 20000 draws found no room for two contours of contour_length 64 in 16 x 16 pixels: "
        "lower contour_length or raise side");
    assert_int_equal(folder_temporaries(folder->path), 0);
}

static void examples_depend_on_seed_split_and_index_only(void **state)
{
    struct folder *folder = *state;
    size_t sizes[4];
    check_status(&folder->host, generate(folder, "side=16 contour_length=2", 3, 3, 0, 7), HASHATTN_OK, NULL);
    char *few = folder_get(folder, "train.pgm", &sizes[0]),
         *valid = folder_get(folder, "valid.pgm", &sizes[1]);
    assert_memory_not_equal(few, valid, sizes[0]);
    folder_remove(folder, "train.pgm");
    check_status(&folder->host, generate(folder, "side=16 contour_length=2", 9, 0, 0, 7), HASHATTN_OK, NULL);
    char *many = folder_get(folder, "train.pgm", &sizes[2]);
    assert_memory_equal(few, many, sizes[0]);
    folder_remove(folder, "train.pgm");
    check_status(&folder->host, generate(folder, "side=16 contour_length=2", 3, 0, 0, 8), HASHATTN_OK, NULL);
    char *other = folder_get(folder, "train.pgm", &sizes[3]);
    assert_memory_not_equal(few, other, sizes[0]);
    free(few), free(valid), free(many), free(other);
}

static void make_directory(struct folder *folder, const char *name)
{
    char path[200];
    snprintf(path, sizeof path, "%s/%s", folder->path, name);
    assert_int_equal(mkdir(path, 0777), 0);
}

static void the_published_layout_is_read(void **state)
{
    struct folder *folder = *state;
    struct task_facts facts;
    struct dataset data;
    static const char *const folders[] = {"imgs", "imgs/0", "imgs/1", "metadata"};
    for (size_t i = 0; i < 4; i++)
        make_directory(folder, folders[i]);
    for (int i = 0; i < 12; i++) {
        char name[40], text[60];
        snprintf(name, sizeof name, "imgs/%d/sample_%d.pgm", i / 6, i % 6);
        snprintf(text, sizeof text, "P2 2 1 255 %d 0", i);
        folder_put_text(folder, name, i == 3 ? "" : text);
    }
    folder_put_text(folder, "imgs/0/sample_0.png", "\x89PNG");
    folder_put_text(folder, "metadata/0.npy",
                    "imgs/0 sample_0.png 0 1 1.0 14 4 2 0.5 1 1\nimgs/0 sample_1.png 1 0 1.0 14\n"
                    "imgs/0 sample_2.png 2 1 1.0\nimgs/0 sample_3.png 3 1\nimgs/0 sample_4.png 4 0.0\n"
                    "imgs/0  sample_5.pgm 5 1.0\n");
    folder_put_text(folder, "metadata/1.npy",
                    "imgs/1 sample_0.png 0 0\r\nimgs/1 sample_1.png 1 0\r\nimgs/1 sample_2.png 2 1\r\n"
                    "imgs/1 sample_3.png 3 1\r\nimgs/1 sample_4.png 4 0\r\nimgs/1 sample_5.png 5 1");
    folder_put_text(folder, "metadata/readme.txt", "not metadata");
    static const int want[12] = {1, 0, 1, -1, 0, 1, 0, 0, 1, 1, 0, 1};
    size_t seen = 0;
    for (enum split split = 0; split < SPLIT_COUNT; split++) {
        check_status(&folder->host, load(folder, "", split, &facts, &data), HASHATTN_OK, NULL);
        assert_true(facts.max_len == 2 && data.count == (split == SPLIT_TRAIN ? 9 : 1));
        for (size_t i = 0; i < data.count; i++) {
            assert_int_equal(label_of(&data, i), want[data.ids[2 * i]]);
            seen |= (size_t)1 << data.ids[2 * i];
        }
        dataset_free(&folder->host, &data);
        task_facts_free(&folder->host, &facts);
    }
    assert_int_equal(seen, 0xff7);

    static const struct {
        const char *line, *part;
    } cases[] = {
        {"imgs/0 sample_0.png 0", "metadata/1.npy: line 1: 3 fields, at least 4 are needed"},
        {"imgs/0 sample_0.png 0 2", "line 1: the label is '2', not 0 or 1"},
        {"imgs/0 sample_1.png 0 1\nimgs/0 sample_9.png 0 1",
         "imgs/0/sample_9.pgm does not exist; PNG is not read, so convert the pictures: mogrify -format pgm"},
        {"imgs/0 sample_9.pgm 0 1", "sample_9.pgm"},
        {"imgs/0 bad.pgm 0 1", "bad.pgm: picture 1: 1000 x 99999 pixels, at most 65536 are read"},
        {"imgs/0 wide.pgm 0 1", "1 x 3 pixels make a sequence of 3, those of the training set have 2"},
        {"imgs/0 blank.pgm 0 1", "blank.pgm: no picture"},
    };
    folder_put_text(folder, "imgs/0/bad.pgm", "P5 99999 1000 255 ");
    folder_put_text(folder, "imgs/0/wide.pgm", "P2 3 1 255 1 2 3");
    folder_put_text(folder, "imgs/0/blank.pgm", " ");
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        folder_put_text(folder, "metadata/1.npy", cases[i].line);
        check_status(&folder->host, load(folder, "", SPLIT_TRAIN, &facts, &data), HASHATTN_BAD_FILE,
                     cases[i].part);
    }
    folder_remove(folder, "metadata/0.npy");
    folder_remove(folder, "metadata/1.npy");
    check_status(&folder->host, load(folder, "", SPLIT_TRAIN, &facts, &data), HASHATTN_BAD_FILE,
                 "metadata/: no pictures");
}

static void files_to_predict_need_no_labels(void **state)
{
    struct folder *folder = *state;
    static char zero[] = "0", one[] = "1";
    static char *labels[2] = {zero, one};
    const struct task_facts facts = {.vocab_size = 256, .max_len = 2, .num_classes = 2, .labels = labels};
    const struct task_options options = task_options_of("pathfinder", "");
    struct dataset data;
    char path[200];
    folder_put_text(folder, "mine.pgm",
                    "P5 2 1 255 abP5\n# label 1\n2 1\n255\ncdP5\n# label 2\n2 1\n255\nef");
    snprintf(path, sizeof path, "%s/mine.pgm", folder->path);
    check_status(&folder->host, task_stream_whole(&folder->host, "pathfinder", &options, &facts, path, &data),
                 HASHATTN_OK, NULL);
    assert_true(data.count == 3 && label_of(&data, 0) == -1 && label_of(&data, 1) == 1 &&
                label_of(&data, 2) == -1);
    assert_int_equal(data.ids[5], 'f');
    dataset_free(&folder->host, &data);
    folder_put_text(folder, "mine.pgm", "");
    check_status(&folder->host, task_stream_whole(&folder->host, "pathfinder", &options, &facts, path, &data),
                 HASHATTN_BAD_FILE, "mine.pgm has no pictures");
}

static void damaged_files_are_refused(void **state)
{
    struct folder *folder = *state;
    struct task_facts facts;
    struct dataset data;
    static const struct {
        const char *text, *part;
    } cases[] = {
        {"", "train.pgm: no pictures"},
        {"P5 1 1 255 a", "train.pgm: picture 1: the last comment of its header is '', not 'label 0' or"},
        {"P5\n# label 2\n1 1 255 a", "picture 1: the last comment of its header is ' label 2', not"},
        {"P5\n# label 1\n1 1 255 aP5\n# label 1\n2 1 255 ab",
         "train.pgm: picture 2: 1 x 2 pixels make a sequence of 2, those of the training set have 1"},
        {"P5\n# label 1\n1 1 255 aP5\n# label 1\n99999 99999 255\n",
         "picture 2: 99999 x 99999 pixels, at most"},
        {"P5\n# label 1\n2 1 255 a", "picture 1: 1 x 2 pixels, the file has 1"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        folder_put_text(folder, "train.pgm", cases[i].text);
        check_status(&folder->host, load(folder, "", SPLIT_TRAIN, &facts, &data), HASHATTN_BAD_FILE,
                     cases[i].part);
    }
    folder_put_text(folder, "train.pgm", "P5\n# label 1\n1 1 255 a");
    check_status(&folder->host, load(folder, "input=rgb", SPLIT_TRAIN, &facts, &data), HASHATTN_BAD_FILE,
                 "train.pgm: the pictures are grey, so their pixels cannot be rgb");
    folder_remove(folder, "train.pgm");
    check_status(&folder->host, load(folder, "", SPLIT_TRAIN, &facts, &data), HASHATTN_BAD_FILE,
                 "has no train.pgm");
}

static void every_failing_allocation_is_survived(void **state)
{
    struct folder *folder = *state;
    const struct task *task = task_find("pathfinder");
    const struct task_options options = task_options_of("pathfinder", "side=16 contour_length=1");
    const size_t counts[SPLIT_COUNT] = {20, 0, 0};
    bool done = false;
    for (long n = 0; !done; n++) {
        struct failing_host failing;
        struct task_facts facts;
        struct dataset data = {0};
        failing_host_init(&failing, n);
        hashattn_status status = task->generate(&failing.host, &options, folder->path, counts, 1);
        if (status == HASHATTN_OK)
            status = task->facts(&failing.host, &options, folder->path, NULL, &facts);
        if (status == HASHATTN_OK) {
            status = task->load(&failing.host, &options, &facts, folder->path, SPLIT_TRAIN, 1, &data);
            task_facts_free(&failing.host, &facts);
        }
        done = status == HASHATTN_OK;
        assert_true(done || status == HASHATTN_NO_MEMORY);
        assert_true(done == (data.count == 16));
        dataset_free(&failing.host, &data);
        assert_int_equal(failing.outstanding, 0);
        folder_remove(folder, "train.pgm");
        assert_true(n < 100 && (!done || n > 15));
    }
}

int main(void)
{
#define IN_FOLDER(test) cmocka_unit_test_setup_teardown(test, folder_enter, folder_leave)
    const struct CMUnitTest tests[] = {
        IN_FOLDER(generated_files_are_read_back),
        IN_FOLDER(defaults_are_those_of_the_arena),
        IN_FOLDER(examples_depend_on_seed_split_and_index_only),
        IN_FOLDER(the_published_layout_is_read),
        IN_FOLDER(files_to_predict_need_no_labels),
        IN_FOLDER(damaged_files_are_refused),
        IN_FOLDER(every_failing_allocation_is_survived),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
