/* Image: classifies small pictures whose pixels are read one after another, as in the image task of the Long
   Range Arena (Tay et al. 2021), or as sequential MNIST. Files, as published:
   - CIFAR-10 (Krizhevsky 2009): data_batch_1.bin to data_batch_5.bin and test_batch.bin, records of a label
   and three planes of 32 x 32 bytes, red, green and blue.
   - MNIST (LeCun et al. 1998) and its relatives: images and labels of any size in idx files (io/idx.h).
   A file is read whole: 30 MB of CIFAR-10, 47 MB of MNIST. A record becomes 1,024 ids of 4 bytes.
   SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>
#include <string.h>

#include "base/file.h"
#include "base/memory.h"
#include "io/idx.h"
#include "tasks/pixels.h"

enum { SIDE = 32, PIXELS = SIDE * SIDE, RECORD = 1 + 3 * PIXELS, BATCHES = 5, CLASSES = 10 };

struct image_options {
    int input; /* enum pixel_input */
    int64_t shrink;
};

static const struct option_row rows[] = {
    OPTION_ROW("input", OPTION_CHOICE, offsetof(struct image_options, input), PIXELS_IDS, 0, 0, pixel_inputs,
               "a pixel is the id of its grey level, or one float, or three"),
    OPTION_ROW("shrink", OPTION_INT, offsetof(struct image_options, shrink), 1, 1, 64, NULL,
               "the mean of N x N pixels is one pixel"),
    {.name = NULL},
};

static struct pixel_rules rules_of(const void *options)
{
    const struct image_options *image = options;
    return (struct pixel_rules){(enum pixel_input)image->input, (size_t)image->shrink};
}

static const char *const bin[] = {".bin", NULL}, *const bare[] = {"", NULL};
static const struct split_files cifar = {
    {"data_batch_1", "valid_batch", "test_batch"}, bin, false, false, false};
static const struct split_files mnist = {
    {"train-images-idx3-ubyte", "valid-images-idx3-ubyte", "t10k-images-idx3-ubyte"},
    bare,
    false,
    false,
    false};
static const char *const objects[CLASSES] = {"airplane", "automobile", "bird",  "cat",  "deer",
                                             "dog",      "frog",       "horse", "ship", "truck"};
static const char *const digits[CLASSES] = {"0", "1", "2", "3", "4", "5", "6", "7", "8", "9"};

static hashattn_status files_of(struct host *host, const char *directory, const struct split_files **files)
{
    char first[FILE_PATH], second[FILE_PATH];
    TRY(split_find(host, &cifar, directory, SPLIT_TRAIN, first, sizeof first));
    TRY(split_find(host, &mnist, directory, SPLIT_TRAIN, second, sizeof second));
    bool neither = first[0] == '\0' && second[0] == '\0';
    FAIL_IF(neither, host, HASHATTN_BAD_FILE,
            "%s has neither data_batch_1.bin (CIFAR-10) nor train-images-idx3-ubyte (MNIST)", directory);
    FAIL_IF(first[0] != '\0' && second[0] != '\0', host, HASHATTN_BAD_FILE,
            "%s has both data_batch_1.bin and train-images-idx3-ubyte: keep one of them", directory);
    *files = first[0] != '\0' ? &cifar : &mnist;
    return HASHATTN_OK;
}

/* ---- reading ------------------------------------------------------------------------------------------- */

struct reading {
    struct pixel_rules rules;
    const struct task_facts *facts;
    struct dataset_builder *builder;
};

static bool ends_in(const char *path, const char *ending)
{
    size_t size = strlen(path), part = strlen(ending);
    return size >= part && strcmp(path + size - part, ending) == 0;
}

static hashattn_status push(struct host *host, const struct reading *reading, const struct picture *picture,
                            unsigned label, size_t index)
{
    hashattn_status status;
    if (label >= CLASSES)
        status =
            host_fail(host, HASHATTN_BAD_FILE, "the label is %u, allowed are 0 to %d", label, CLASSES - 1);
    else
        status =
            pixels_push(host, &reading->rules, reading->facts, picture, (int32_t)label, reading->builder);
    if (status == HASHATTN_BAD_FILE) {
        char prefix[40];
        snprintf(prefix, sizeof prefix, "image %zu", index);
        host_prefix(host, prefix);
    }
    return status;
}

static hashattn_status read_records(struct host *host, const struct reading *reading, const char *bytes,
                                    size_t size)
{
    FAIL_IF(size % RECORD != 0, host, HASHATTN_BAD_FILE,
            "%zu bytes are %zu images of %d bytes and %zu bytes of another", size, size / RECORD, RECORD,
            size % RECORD);
    hashattn_status status = HASHATTN_OK;
    for (size_t i = 0; i < size / RECORD && status == HASHATTN_OK; i++) {
        const unsigned char *record = (const unsigned char *)bytes + i * RECORD;
        const struct picture picture = {record + 1, SIDE, SIDE, true};
        status = push(host, reading, &picture, record[0], i);
    }
    return status;
}

static hashattn_status read_batch(struct host *host, const struct reading *reading, const char *path)
{
    char *bytes;
    size_t size;
    TRY((dataset_source(reading->builder) == FILE_TYPED ? file_read : file_read_regular)(
        host, path, FILE_MOST, &bytes, &size));
    hashattn_status status = read_records(host, reading, bytes, size);
    if (status == HASHATTN_BAD_FILE)
        host_prefix(host, path);
    memory_free(host, bytes);
    return status;
}

/* The training set is the first batch and the others that are there. */
static hashattn_status read_batches(struct host *host, const struct reading *reading, const char *path)
{
    TRY(read_batch(host, reading, path));
    if (!ends_in(path, "data_batch_1.bin"))
        return HASHATTN_OK;
    char next[FILE_PATH];
    snprintf(next, sizeof next, "%s", path);
    char *number = next + strlen(next) - strlen("1.bin");
    for (*number = '2'; *number <= '0' + BATCHES; ++*number)
        if (file_exists(next))
            TRY(read_batch(host, reading, next));
    return HASHATTN_OK;
}

/* The path of the labels of a file of images; "" if its name does not determine one. */
static void labels_path(const char *images, char *path, size_t size)
{
    snprintf(path, size, "%s", images);
    char *part = NULL;
    for (char *at = strstr(path, "images-idx3"); at != NULL; at = strstr(at + 1, "images-idx3"))
        part = at;
    if (part == NULL)
        path[0] = '\0';
    else
        memcpy(part, "labels-idx1", strlen("labels-idx1"));
}

/* The caller frees *bytes, also after a failure. */
static hashattn_status read_idx(struct host *host, const char *path, enum file_source source, size_t rank,
                                char **bytes, struct idx *idx)
{
    size_t size;
    *bytes = NULL;
    TRY((source == FILE_TYPED ? file_read : file_read_regular)(host, path, FILE_MOST, bytes, &size));
    hashattn_status status = idx_parse(host, *bytes, size, rank, idx);
    if (status != HASHATTN_OK)
        host_prefix(host, path);
    return status;
}

/* labels NULL: unknown. */
static hashattn_status push_images(struct host *host, const struct reading *reading, const char *path,
                                   const struct idx *idx, const char *bytes, const unsigned char *labels)
{
    struct picture picture = {.height = idx->shape[1], .width = idx->shape[2]};
    hashattn_status status = HASHATTN_OK;
    for (size_t i = 0; i < idx->shape[0] && status == HASHATTN_OK; i++) {
        picture.levels = (const unsigned char *)bytes + idx->header + i * picture.height * picture.width;
        status = labels != NULL
                     ? push(host, reading, &picture, labels[i], i)
                     : pixels_push(host, &reading->rules, reading->facts, &picture, -1, reading->builder);
    }
    if (status == HASHATTN_BAD_FILE)
        host_prefix(host, path);
    return status;
}

static hashattn_status read_images(struct host *host, const struct reading *reading, const char *path,
                                   bool labels_needed)
{
    char labels_at[FILE_PATH], *bytes, *labels = NULL;
    struct idx images, of_labels;
    labels_path(path, labels_at, sizeof labels_at);
    bool labelled = labels_at[0] != '\0' && (labels_needed || file_exists(labels_at));
    hashattn_status status = read_idx(host, path, dataset_source(reading->builder), 3, &bytes, &images);
    if (status == HASHATTN_OK && labelled)
        status = read_idx(host, labels_at, FILE_FOUND, 1, &labels, &of_labels);
    if (status == HASHATTN_OK && labelled && of_labels.shape[0] != images.shape[0])
        status = host_fail(host, HASHATTN_BAD_FILE, "%s has %zu images, %s has %zu labels", path,
                           images.shape[0], labels_at, of_labels.shape[0]);
    if (status == HASHATTN_OK)
        status = push_images(host, reading, path, &images, bytes,
                             labelled ? (const unsigned char *)labels + of_labels.header : NULL);
    memory_free(host, labels);
    memory_free(host, bytes);
    return status;
}

static hashattn_status read_file(struct host *host, const void *context, const char *path,
                                 struct dataset_builder *builder)
{
    struct reading reading = *(const struct reading *)context;
    reading.builder = builder;
    return ends_in(path, ".bin") ? read_batches(host, &reading, path)
                                 : read_images(host, &reading, path, true);
}

/* ---- the task ------------------------------------------------------------------------------------------ */

/* The size of the pictures is in the header of the training file. */
static hashattn_status images_like(struct host *host, const char *path, struct picture *like)
{
    char *bytes;
    size_t count, size;
    struct idx idx;
    TRY(file_read_start(host, path, IDX_HEADER, &bytes, &count, &size));
    hashattn_status status = idx_parse(host, bytes, size, 3, &idx);
    if (status != HASHATTN_OK)
        host_prefix(host, path);
    memory_free(host, bytes);
    *like = (struct picture){.height = idx.shape[1], .width = idx.shape[2]};
    return status;
}

static hashattn_status facts(struct host *host, const void *options, const char *directory,
                             struct tokenizer *given, struct task_facts *result)
{
    (void)given; /* ids are not tokens */
    const struct split_files *files;
    const struct pixel_rules rules = rules_of(options);
    char path[FILE_PATH];
    struct picture like = {NULL, SIDE, SIDE, true};
    *result = (struct task_facts){0};
    TRY(files_of(host, directory, &files));
    TRY(split_find_train(host, files, directory, path, sizeof path));
    if (files == &mnist)
        TRY(images_like(host, path, &like));
    hashattn_status status =
        pixels_facts(host, &rules, &like, files == &cifar ? objects : digits, CLASSES, result);
    if (status == HASHATTN_BAD_FILE)
        host_prefix(host, path);
    return status;
}

static hashattn_status load(struct host *host, const void *options, const struct task_facts *facts,
                            const char *directory, enum split split, uint64_t seed, struct dataset *dataset)
{
    const struct split_files *files;
    const struct reading reading = {.rules = rules_of(options), .facts = facts};
    const struct dataset shape = pixels_shape(facts);
    *dataset = (struct dataset){0};
    TRY(files_of(host, directory, &files));
    return split_load(host, files, facts, directory, split, seed, &shape, read_file, &reading, dataset);
}

static hashattn_status stream_file(struct host *host, const void *options, const struct task_facts *facts,
                                   const char *path, const struct dataset_stream *stream)
{
    struct dataset_builder builder = {.dataset = pixels_shape(facts), .stream = stream};
    const struct reading reading = {.rules = rules_of(options), .facts = facts, .builder = &builder};
    hashattn_status status =
        ends_in(path, ".bin") ? read_batch(host, &reading, path) : read_images(host, &reading, path, false);
    return dataset_stream_end(host, &builder, path, "images", status);
}

const struct task task_image = {
    .name = "image",
    .summary = "classify pictures pixel by pixel: CIFAR-10, MNIST (Long Range Arena)",
    .options = rows,
    .options_size = sizeof(struct image_options),
    .unread = UNREAD_BY_CLASSIFIERS,
    .preset = {SMALL_ENCODER, .steps = 2000, .batch = 32, .eval_every = 100, .warmup = 100,
               .learning_rate = 1e-3, .pooling = "mean", .attention = YOSO_BITS(8)},
    .presets =
        (const struct task_preset[]){{LRA_PRESET, .steps = 35000, .batch = 256, .eval_every = 175,
                                      .warmup = 175, .attention = YOSO_BITS(10)},
                                     {LRA_SMALL_PRESET, .steps = 1200, .warmup = 50, .learning_rate = 2e-3,
                                      .pooling = "mean", .attention = YOSO_BITS(8), .task = "shrink=2"},
                                     {.name = NULL}},
    .facts = facts,
    .load = load,
    .stream_file = stream_file,
};
