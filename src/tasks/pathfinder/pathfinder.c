/* Pathfinder of the Long Range Arena (Tay et al. 2021): do the two disks of a picture lie on the same dashed
   contour? contours.h draws the pictures. Files: train.pgm, valid.pgm and test.pgm, pictures one after
   another (io/pgm.h), each with a comment "label 0" or "label 1" in its header; or a directory of the
   published layout: metadata/K.npy, texts with a line per picture, and imgs/K/sample_I.png, converted to PGM.
   A line of metadata has blanks between directory, file, number, label and more. Empty picture files are
   skipped, because the published set has one. Cost: 0.8 ms to draw a picture of 32 x 32; 1,047 bytes each.
   SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>
#include <string.h>

#include "base/file.h"
#include "base/memory.h"
#include "io/pgm.h"
#include "tasks/pathfinder/contours.h"
#include "tasks/pixels.h"

enum { CLASSES = 2, PADDLES = 20 };

struct pathfinder_options {
    int input; /* enum pixel_input */
    int64_t side, contour_length, distractors, distractor_length;
};

#define FIELD(name) offsetof(struct pathfinder_options, name)
static const struct option_row rows[] = {
    OPTION_ROW("input", OPTION_CHOICE, FIELD(input), PIXELS_IDS, 0, 0, pixel_inputs,
               "a pixel is the id of its grey level, or one float; pictures have no rgb"),
    OPTION_ROW("side", OPTION_INT, FIELD(side), 32, CONTOURS_LEAST_SIDE, CONTOURS_MOST_SIDE, NULL,
               "pixels of a side of a generated picture"),
    OPTION_ROW("contour_length", OPTION_INT, FIELD(contour_length), 14, 1, CONTOURS_MOST_PADDLES, NULL,
               "strokes of each of the two generated contours"),
    OPTION_ROW("distractors", OPTION_INT, FIELD(distractors), -1, -1, 1000, NULL,
               "number of shorter contours around them; -1: 20 divided by their length"),
    OPTION_ROW("distractor_length", OPTION_INT, FIELD(distractor_length), 0, 0, CONTOURS_MOST_PADDLES, NULL,
               "strokes of each of these; 0: a third of contour_length, at least 1"),
    {.name = NULL},
};

static struct contour_rules contour_rules_of(const struct pathfinder_options *options)
{
    size_t length = (size_t)options->distractor_length;
    if (length == 0)
        length = size_max(1, (size_t)options->contour_length / 3);
    return (struct contour_rules){.side = (size_t)options->side,
                                  .contour_length = (size_t)options->contour_length,
                                  .distractors = options->distractors < 0 ? PADDLES / length
                                                                          : (size_t)options->distractors,
                                  .distractor_length = length};
}

static struct pixel_rules pixel_rules_of(const void *options)
{
    const struct pathfinder_options *pathfinder = options;
    return (struct pixel_rules){(enum pixel_input)pathfinder->input, 1};
}

static const char *const pgm[] = {".pgm", NULL}, *const folder[] = {"/", NULL};
static const struct split_files own = {{"train", "valid", "test"}, pgm, false, false, false};
static const struct split_files published = {
    {"metadata", "metadata_valid", "metadata_test"}, folder, false, false, false};

/* The published layout if the directory has it. */
static hashattn_status files_of(struct host *host, const char *directory, const struct split_files **files)
{
    char path[FILE_PATH];
    TRY(split_find(host, &published, directory, SPLIT_TRAIN, path, sizeof path));
    *files = path[0] != '\0' ? &published : &own;
    return HASHATTN_OK;
}

/* ---- generating ---------------------------------------------------------------------------------------- */

struct generation {
    struct contour_rules rules;
    struct contour_canvas canvas;
    uint64_t seed;
    unsigned char *pixels;
};

static hashattn_status write_example(struct host *host, void *context, enum split split, size_t index,
                                     struct file_writer *writer)
{
    const struct generation *generation = context;
    const struct contour_rules *rules = &generation->rules;
    uint64_t key = random_key(generation->seed, RANDOM_DATA, (uint64_t)split);
    struct random random = random_open(random_key(key, RANDOM_DATA, index));
    int label = (int)random_below(&random, CLASSES);
    FAIL_IF(
        !contours_draw(&random, rules, &generation->canvas, label, generation->pixels), host,
        HASHATTN_INVALID,
        "pathfinder: %d draws found no room for two contours of `contour_length` %zu in %zu x %zu pixels: "
        "lower `contour_length` or raise `side`",
        CONTOURS_TRIES, rules->contour_length, rules->side, rules->side);
    file_print(writer, "P5\n# label %d\n%zu %zu\n255\n", label, rules->side, rules->side);
    file_write(writer, generation->pixels, rules->side * rules->side);
    return HASHATTN_OK;
}

static hashattn_status generate(struct host *host, const void *options, const char *directory,
                                const size_t *counts, uint64_t seed)
{
    struct generation generation = {.rules = contour_rules_of(options), .seed = seed};
    size_t area = generation.rules.side * generation.rules.side;
    void *floats, *pixels;
    TRY(memory_new(host, 3 * area, sizeof(float), "a drawing", &floats));
    hashattn_status status = memory_new(host, area, 1, "a picture", &pixels);
    generation.canvas = (struct contour_canvas){floats, (float *)floats + area, (float *)floats + 2 * area};
    generation.pixels = pixels;
    if (status == HASHATTN_OK)
        status = split_write(host, &own, directory, counts, "", write_example, &generation);
    memory_free(host, pixels);
    memory_free(host, floats);
    return status;
}

/* ---- reading ------------------------------------------------------------------------------------------- */

struct reading {
    struct pixel_rules rules;
    const struct task_facts *facts;
    struct dataset_builder *builder; /* NULL: only the size of the first picture is read */
    bool label_needed;               /* the file belongs to a data set; false: the user typed its name */
    struct picture first;
    const char *root;      /* of the published layout */
    unsigned char *pixels; /* (PGM_PIXELS) */
};

/* Ends the reading by INTERRUPTED if only the size is wanted. */
static hashattn_status take_picture(struct host *host, struct reading *reading, const struct pgm *pictures,
                                    int32_t label)
{
    const struct picture picture = {reading->pixels, pictures->height, pictures->width, false};
    if (reading->builder != NULL)
        return pixels_push(host, &reading->rules, reading->facts, &picture, label, reading->builder);
    reading->first = picture;
    return HASHATTN_INTERRUPTED;
}

/* The label in "label 1"; -1: none. */
static int32_t label_in(struct piece comment)
{
    static const char word[] = "label ";
    while (comment.size > 0 && comment.bytes[0] == ' ')
        comment.bytes++, comment.size--;
    if (comment.size != sizeof word || memcmp(comment.bytes, word, sizeof word - 1) != 0)
        return -1;
    char digit = comment.bytes[sizeof word - 1];
    return digit >= '0' && digit < '0' + CLASSES ? digit - '0' : -1;
}

static hashattn_status take_commented(struct host *host, struct reading *reading, const struct pgm *pictures)
{
    int32_t label = label_in(pictures->comment);
    char shown[SHOWN_SIZE];
    hashattn_status status;
    if (label < 0 && reading->label_needed)
        status = host_fail(host, HASHATTN_BAD_FILE,
                           "the last comment of its header is '%s', not 'label 0' or 'label 1'",
                           piece_shown(pictures->comment, shown));
    else
        status = take_picture(host, reading, pictures, label);
    if (status == HASHATTN_BAD_FILE) {
        char prefix[40];
        snprintf(prefix, sizeof prefix, "picture %zu", pictures->count);
        host_prefix(host, prefix);
    }
    return status;
}

static hashattn_status read_pictures(struct host *host, struct reading *reading, const char *path)
{
    char *bytes;
    size_t size;
    TRY((reading->label_needed ? file_read_regular : file_read)(host, path, FILE_MOST, &bytes, &size));
    struct pgm pictures = pgm_open(bytes, size);
    bool more = true;
    hashattn_status status = HASHATTN_OK;
    while (status == HASHATTN_OK && more) {
        status = pgm_next(host, &pictures, reading->pixels, &more);
        if (status == HASHATTN_OK && more)
            status = take_commented(host, reading, &pictures);
    }
    if (status == HASHATTN_BAD_FILE)
        host_prefix(host, path);
    memory_free(host, bytes);
    return status;
}

/* ---- the published layout ------------------------------------------------------------------------------ */

/* Writes the path of a picture: sample_7.pgm instead of sample_7.png if there is one. */
static hashattn_status picture_path(struct host *host, const char *root, struct piece folder_name,
                                    struct piece file, char *path, size_t size)
{
    char name[400];
    bool png = file.size > 4 && memcmp(file.bytes + file.size - 4, ".png", 4) == 0;
    FAIL_IF(folder_name.size + file.size > 300, host, HASHATTN_BAD_FILE,
            "the name of the picture has %zu bytes, at most 300 are read", folder_name.size + file.size);
    int whole = (int)file.size;
    snprintf(name, sizeof name, "%.*s/%.*s%s", (int)folder_name.size, folder_name.bytes,
             png ? whole - 4 : whole, file.bytes, png ? ".pgm" : "");
    TRY(file_join_inside(host, root, name, path, size));
    FAIL_IF(
        png && !file_exists(path), host, HASHATTN_BAD_FILE,
        "%s does not exist; PNG is not read, so convert the pictures: mogrify -format pgm %s/imgs/*/*.png",
        path, root);
    return HASHATTN_OK;
}

static hashattn_status take_file(struct host *host, struct reading *reading, const char *path, int32_t label)
{
    char *bytes;
    size_t size;
    bool more;
    TRY(file_read_regular(host, path, PGM_PIXELS * 8, &bytes, &size));
    struct pgm pgm_file = pgm_open(bytes, size);
    hashattn_status status = size == 0 ? HASHATTN_OK : pgm_next(host, &pgm_file, reading->pixels, &more);
    if (status == HASHATTN_OK && size > 0 && !more)
        status = host_fail(host, HASHATTN_BAD_FILE, "no picture");
    if (status == HASHATTN_OK && size > 0)
        status = take_picture(host, reading, &pgm_file, label);
    if (status == HASHATTN_BAD_FILE)
        host_prefix(host, path);
    memory_free(host, bytes);
    return status;
}

static struct piece next_field(struct piece *rest)
{
    while (rest->size > 0 && *rest->bytes == ' ')
        rest->bytes++, rest->size--;
    struct piece field = {rest->bytes, 0};
    while (rest->size > 0 && *rest->bytes != ' ')
        rest->bytes++, rest->size--, field.size++;
    return field;
}

static hashattn_status read_metadata_line(struct host *host, void *context, struct piece line, size_t number)
{
    (void)number;
    struct reading *reading = context;
    enum { FOLDER, FILE_NAME, LABEL = 3, FIELDS };
    struct piece fields[FIELDS], rest = line;
    char path[FILE_PATH], shown[SHOWN_SIZE];
    for (int i = 0; i < FIELDS; i++) {
        fields[i] = next_field(&rest);
        FAIL_IF(fields[i].size == 0, host, HASHATTN_BAD_FILE,
                "%d fields, at least %d are needed: directory, file, number, label", i, FIELDS);
    }
    bool one = piece_is(fields[LABEL], "1") || piece_is(fields[LABEL], "1.0");
    FAIL_IF(!one && !piece_is(fields[LABEL], "0") && !piece_is(fields[LABEL], "0.0"), host, HASHATTN_BAD_FILE,
            "the label is '%s', not 0 or 1", piece_shown(fields[LABEL], shown));
    TRY(picture_path(host, reading->root, fields[FOLDER], fields[FILE_NAME], path, sizeof path));
    return take_file(host, reading, path, one);
}

/* directory: ROOT/metadata/, or another name */
static hashattn_status read_metadata(struct host *host, struct reading *reading, const char *directory)
{
    const char **names;
    size_t count;
    char root[FILE_PATH];
    snprintf(root, sizeof root, "%s", directory);
    *strrchr(root, '/') = '\0'; /* the one at the end */
    *strrchr(root, '/') = '\0';
    reading->root = root;
    TRY(file_list(host, directory, ".npy", &names, &count));
    hashattn_status status = HASHATTN_OK;
    for (size_t i = 0; i < count && status == HASHATTN_OK; i++) {
        char path[FILE_PATH];
        status = file_join(host, directory, names[i], path, sizeof path);
        if (status == HASHATTN_OK)
            status = file_each_line(host, path, FILE_FOUND, read_metadata_line, reading);
    }
    memory_free(host, names);
    return status;
}

/* ---- the task ------------------------------------------------------------------------------------------ */

static hashattn_status read_path(struct host *host, struct reading *reading, const char *path)
{
    void *pixels;
    TRY(memory_new(host, PGM_PIXELS, 1, "a picture", &pixels));
    reading->pixels = pixels;
    hashattn_status status = path[strlen(path) - 1] == '/' ? read_metadata(host, reading, path)
                                                           : read_pictures(host, reading, path);
    memory_free(host, pixels);
    return status;
}

static hashattn_status facts(struct host *host, const void *options, const char *directory,
                             struct tokenizer *given, struct task_facts *result)
{
    (void)given; /* ids are not tokens */
    static const char *const labels[CLASSES] = {"0", "1"};
    const struct split_files *files;
    char path[FILE_PATH];
    struct reading reading = {.rules = pixel_rules_of(options), .label_needed = true};
    *result = (struct task_facts){0};
    TRY(files_of(host, directory, &files));
    TRY(split_find_train(host, files, directory, path, sizeof path));
    hashattn_status status = read_path(host, &reading, path);
    if (status == HASHATTN_OK)
        status = host_fail(host, HASHATTN_BAD_FILE, "no pictures");
    else if (status == HASHATTN_INTERRUPTED)
        status = pixels_facts(host, &reading.rules, &reading.first, labels, CLASSES, result);
    else
        return status; /* the message has the path */
    if (status == HASHATTN_BAD_FILE)
        host_prefix(host, path);
    return status;
}

static hashattn_status read_file(struct host *host, const void *context, const char *path,
                                 struct dataset_builder *builder)
{
    struct reading reading = *(const struct reading *)context;
    reading.builder = builder;
    return read_path(host, &reading, path);
}

static hashattn_status load(struct host *host, const void *options, const struct task_facts *facts,
                            const char *directory, enum split split, uint64_t seed, struct dataset *dataset)
{
    const struct split_files *files;
    const struct reading reading = {.rules = pixel_rules_of(options), .facts = facts, .label_needed = true};
    const struct dataset shape = pixels_shape(facts);
    *dataset = (struct dataset){0};
    TRY(files_of(host, directory, &files));
    return split_load(host, files, facts, directory, split, seed, &shape, read_file, &reading, dataset);
}

/* A file of pictures, whose labels are optional. */
static hashattn_status stream_file(struct host *host, const void *options, const struct task_facts *facts,
                                   const char *path, const struct dataset_stream *stream)
{
    struct dataset_builder builder = {.dataset = pixels_shape(facts), .stream = stream};
    struct reading reading = {.rules = pixel_rules_of(options), .facts = facts, .builder = &builder};
    void *pixels;
    TRY(memory_new(host, PGM_PIXELS, 1, "a picture", &pixels));
    reading.pixels = pixels;
    hashattn_status status = read_pictures(host, &reading, path);
    memory_free(host, pixels);
    return dataset_stream_end(host, &builder, path, "pictures", status);
}

const struct task task_pathfinder = {
    .name = "pathfinder",
    .summary = "are two disks on the same dashed contour? (generated; Long Range Arena)",
    .options = rows,
    .options_size = sizeof(struct pathfinder_options),
    .unread = UNREAD_BY_CLASSIFIERS,
    .preset = {SMALL_ENCODER, .steps = 10000, .batch = 32, .eval_every = 500, .warmup = 500,
               .learning_rate = 1e-3, .pooling = "mean", .attention = YOSO_BITS(8)},
    .presets =
        (const struct task_preset[]){{LRA_PRESET, .steps = 62400, .batch = 256, .eval_every = 312,
                                      .warmup = 312, .attention = YOSO_BITS(10)},
                                     {LRA_SMALL_PRESET, .steps = 1200, .warmup = 100, .learning_rate = 1e-3,
                                      .pooling = "mean", .attention = YOSO_BITS(8), .model = LRA_SMALL_MODEL},
                                     {.name = NULL}},
    .generate = generate,
    .facts = facts,
    .load = load,
    .stream_file = stream_file,
};
