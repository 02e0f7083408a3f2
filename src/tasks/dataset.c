/* Data sets in memory and their files: arrays that double when full, the file of each split, validation and
   test cut out of the training file, and the loop that writes generated files. Cost: one pass over the file;
   a split that is cut out reads the whole training file and keeps its share.
   SPDX-License-Identifier: Apache-2.0 */
#include "tasks/dataset.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>

#include "base/file.h"
#include "base/memory.h"
#include "io/line_blocks.h"
#include "io/utf8.h"
#include "tasks/splits.h"

size_t dataset_columns(struct dataset *dataset, struct dataset_column columns[DATASET_COLUMNS])
{
    size_t count = 0;
    if (dataset->row_width > 0)
        columns[count++] = (struct dataset_column){
            (void **)&dataset->floats, dataset->row_width * sizeof(float), true, "rows of floats"};
    else
        columns[count++] = (struct dataset_column){(void **)&dataset->ids, sizeof(uint32_t), true, "tokens"};
    if (dataset->segmented)
        columns[count++] = (struct dataset_column){(void **)&dataset->segments, 1, true, "segments"};
    for (size_t i = 0; i < dataset->num_targets; i++) {
        struct target_set *set = &dataset->targets[i];
        bool of_rows = set->kind == TARGETS_ROW;
        if (set->kind == TARGETS_NEXT || set->kind == TARGETS_MASKED)
            continue;
        if (set->sparse)
            columns[count++] =
                (struct dataset_column){(void **)&set->ones, sizeof *set->ones, of_rows, "sparse targets"};
        else if (set->width > 0)
            columns[count++] = (struct dataset_column){(void **)&set->floats, set->width * sizeof(float),
                                                       of_rows, "targets"};
        else
            columns[count++] =
                (struct dataset_column){(void **)&set->ids, sizeof(uint32_t), of_rows, "labels"};
        if (set->weighted)
            columns[count++] =
                (struct dataset_column){(void **)&set->weights, sizeof(float), of_rows, "weights of targets"};
    }
    return count;
}

void dataset_classified(struct dataset *dataset)
{
    dataset->num_targets = 1;
    dataset->targets[0] = (struct target_set){.kind = TARGETS_EXAMPLE, .weighted = true};
}

void target_read(const struct target_set *set, size_t target, float *floats)
{
    if (!set->sparse) {
        memcpy(floats, set->floats + target * set->width, set->width * sizeof *floats);
        return;
    }
    const uint32_t *places = set->places + set->ones[target].first;
    memset(floats, 0, set->width * sizeof *floats);
    for (size_t i = 0; i < set->ones[target].count; i++)
        floats[places[i]] = 1;
}

void dataset_free(struct host *host, struct dataset *dataset)
{
    struct dataset_column columns[DATASET_COLUMNS];
    size_t count = dataset_columns(dataset, columns);
    bool mapped = dataset->map.bytes != NULL;
    for (size_t i = 0; i < count && !mapped; i++)
        memory_free(host, *columns[i].array);
    for (size_t i = 0; i < dataset->num_targets; i++)
        memory_free(host, dataset->targets[i].places);
    memory_free(host, mapped ? NULL : dataset->offsets);
    memory_free(host, dataset->masks.fixed);
    memory_free(host, dataset->windows.values);
    memory_free(host, dataset->windows.marks);
    memory_free(host, dataset->windows.origins);
    file_map_close(&dataset->map);
    *dataset = (struct dataset){0};
}

/* Moves *block, of which `used` elements hold data, to a block of `capacity` elements. */
static hashattn_status grow(struct host *host, void **block, size_t used, size_t capacity, size_t size,
                            const char *what)
{
    void *larger;
    TRY(memory_new(host, capacity, size, what, &larger));
    if (used > 0)
        memcpy(larger, *block, used * size);
    memory_free(host, *block);
    *block = larger;
    return HASHATTN_OK;
}

/* Moves the arrays of rows, or those of examples, to `capacity` elements. */
static hashattn_status grow_columns(struct host *host, struct dataset *dataset, bool of_rows, size_t used,
                                    size_t capacity)
{
    struct dataset_column columns[DATASET_COLUMNS];
    size_t count = dataset_columns(dataset, columns);
    for (size_t i = 0; i < count; i++)
        if (columns[i].of_rows == of_rows)
            TRY(grow(host, columns[i].array, used, capacity, columns[i].size, columns[i].what));
    return HASHATTN_OK;
}

/* The capacity changes only after all arrays have grown, so a failure between two of them loses nothing. */
static hashattn_status grow_examples(struct host *host, struct dataset_builder *builder)
{
    struct dataset *dataset = &builder->dataset;
    size_t capacity = builder->capacity == 0 ? 64 : size_product(2, builder->capacity);
    size_t sequences = dataset_sequences(dataset);
    void *offsets = dataset->offsets, *cut = builder->cut;
    TRY(grow_columns(host, dataset, false, dataset->count, capacity));
    hashattn_status status =
        grow(host, &cut, dataset->count, capacity, sizeof *builder->cut, "marks of cut examples");
    builder->cut = cut;
    TRY(status);
    status = grow(host, &offsets, sequences == 0 ? 0 : sequences + 1,
                  size_sum(size_product(capacity, dataset->pairs ? 2 : 1), 1), sizeof *dataset->offsets,
                  "offsets of examples");
    dataset->offsets = offsets;
    TRY(status);
    dataset->offsets[0] = 0;
    builder->capacity = capacity;
    return HASHATTN_OK;
}

/* Moves the examples to the stream and begins the next part. */
static hashattn_status pass_on(struct host *host, struct dataset_builder *builder)
{
    const struct dataset_stream *stream = builder->stream;
    size_t streamed = builder->streamed + builder->dataset.count;
    struct dataset part, shape = {.row_width = builder->dataset.row_width,
                                  .segmented = builder->dataset.segmented,
                                  .pairs = builder->dataset.pairs,
                                  .next = builder->dataset.next,
                                  .num_targets = builder->dataset.num_targets};
    for (size_t i = 0; i < shape.num_targets; i++)
        shape.targets[i] = (struct target_set){.kind = builder->dataset.targets[i].kind,
                                               .width = builder->dataset.targets[i].width,
                                               .sparse = builder->dataset.targets[i].sparse,
                                               .weighted = builder->dataset.targets[i].weighted};
    TRY(dataset_finish(host, builder, HASHATTN_OK, &part));
    *builder = (struct dataset_builder){.dataset = shape, .stream = stream, .streamed = streamed};
    hashattn_status status = stream->visit(host, stream->context, &part);
    dataset_free(host, &part);
    return status;
}

/* Passes on the examples before a bad line; then the status and the message are those of the line. */
static hashattn_status pass_before_bad(struct host *host, struct dataset_builder *builder)
{
    char message[sizeof host->message];
    memcpy(message, host->message, sizeof message);
    TRY(pass_on(host, builder));
    memcpy(host->message, message, sizeof message);
    return HASHATTN_BAD_FILE;
}

hashattn_status dataset_stream_end(struct host *host, struct dataset_builder *builder, const char *path,
                                   const char *what, hashattn_status status)
{
    struct dataset rest;
    if (status == HASHATTN_OK && builder->dataset.count > 0)
        status = pass_on(host, builder);
    else if (status == HASHATTN_BAD_FILE && builder->dataset.count > 0)
        status = pass_before_bad(host, builder);
    if (status == HASHATTN_OK && builder->streamed == 0 && builder->stream->skip == NULL)
        status = host_fail(host, HASHATTN_BAD_FILE, "%s has no %s",
                           file_is_standard(path) ? "standard input" : path, what);
    dataset_finish(host, builder, status, &rest);
    dataset_free(host, &rest);
    return status;
}

hashattn_status dataset_reserve(struct host *host, struct dataset_builder *builder, size_t length,
                                size_t *row)
{
    if (builder->stream != NULL && builder->dataset.count == builder->stream->batch)
        TRY(pass_on(host, builder));
    struct dataset *dataset = &builder->dataset;
    size_t sequences = dataset_sequences(dataset), used = sequences == 0 ? 0 : dataset->offsets[sequences];
    if (dataset->count == builder->capacity)
        TRY(grow_examples(host, builder));
    size_t needed = size_sum(used, length);
    if (needed > builder->row_capacity) {
        size_t capacity = size_max(size_product(2, builder->row_capacity), needed);
        TRY(grow_columns(host, dataset, true, used, capacity));
        builder->row_capacity = capacity;
    }
    *row = used;
    return HASHATTN_OK;
}

/* Appends an example of one sequence or, if `second` is not 0, of two. */
static void push(struct dataset_builder *builder, size_t first, size_t second, bool cut)
{
    struct dataset *dataset = &builder->dataset;
    size_t *offset = dataset->offsets + dataset_sequences(dataset), start = *offset;
    assert(first >= 1 && dataset->count < builder->capacity);
    assert(start + first + second <= builder->row_capacity);
    offset[1] = start + first;
    if (second > 0)
        offset[2] = start + first + second;
    builder->cut[dataset->count++] = cut;
}

void dataset_push(struct dataset_builder *builder, size_t length, bool cut)
{
    assert(!builder->dataset.pairs);
    push(builder, length, 0, cut);
}

static void place_label(struct dataset_builder *builder, int32_t label)
{
    struct target_set *set = &builder->dataset.targets[0];
    set->ids[builder->dataset.count] = label < 0 ? 0 : (uint32_t)label;
    set->weights[builder->dataset.count] = label < 0 ? 0 : 1;
}

void dataset_push_label(struct dataset_builder *builder, size_t length, int32_t label, bool cut)
{
    place_label(builder, label);
    dataset_push(builder, length, cut);
}

void dataset_push_pair(struct dataset_builder *builder, size_t first, size_t second, bool cut)
{
    assert(builder->dataset.pairs && second >= 1);
    push(builder, first, second, cut);
}

hashattn_status dataset_finish(struct host *host, struct dataset_builder *builder, hashattn_status status,
                               struct dataset *dataset)
{
    builder->dataset.num_cut = 0;
    for (size_t i = 0; i < builder->dataset.count; i++)
        builder->dataset.num_cut += builder->cut[i];
    memory_free(host, builder->cut);
    if (status != HASHATTN_OK)
        dataset_free(host, &builder->dataset);
    *dataset = builder->dataset;
    *builder = (struct dataset_builder){0};
    return status;
}

enum file_source dataset_source(const struct dataset_builder *builder)
{
    return builder->stream != NULL ? FILE_TYPED : FILE_FOUND;
}

hashattn_status file_each_line(struct host *host, const char *path, enum file_source source,
                               line_visitor *visit, void *context)
{
    return file_each_line_in(host, path, source, ENCODING_UTF8, visit, context);
}

hashattn_status file_each_line_in(struct host *host, const char *path, enum file_source source,
                                  enum text_encoding encoding, line_visitor *visit, void *context)
{
    struct line_blocks blocks;
    struct piece block, line;
    struct lines lines = {.number = 0};
    bool begun = false;
    TRY(line_blocks_open(host, path, source, &blocks));
    blocks.encoding = encoding;
    hashattn_status status;
    do {
        status = line_blocks_next(host, &blocks, &block);
        if (status != HASHATTN_OK)
            break; /* the message has the path */
        size_t before = lines.number;
        lines = begun ? (struct lines){.at = block.bytes, .end = block.bytes + block.size}
                      : lines_open(block.bytes, block.size);
        lines.number = before;
        begun = true;
        while (status == HASHATTN_OK && lines_next(&lines, &line))
            status = visit(host, context, line, lines.number);
        if (status != HASHATTN_OK && status != HASHATTN_INTERRUPTED) {
            lines_prefix(host, &lines);
            host_prefix(host, file_is_standard(path) ? "standard input" : path);
        }
    } while (status == HASHATTN_OK && block.size > 0);
    line_blocks_close(host, &blocks);
    return status;
}

const char *piece_shown(struct piece piece, char text[SHOWN_SIZE])
{
    size_t size = piece.size > 40 ? 40 : piece.size, whole = utf8_first_error(piece.bytes, size);
    bool cut = size < piece.size;
    if (cut && whole + 3 >= size) /* a character broken only by the cut */
        size = whole;
    for (size_t i = 0; i < size; i++) {
        unsigned char c = (unsigned char)piece.bytes[i];
        text[i] = c < 0x20 || c == 0x7f || (c >= 0x80 && whole < size) ? '?' : (char)c;
    }
    strcpy(text + size, cut ? "..." : "");
    return text;
}

static hashattn_status path_of(struct host *host, const char *directory, const char *stem, const char *ending,
                               char *path, size_t size)
{
    char name[64];
    snprintf(name, sizeof name, "%s%s", stem, ending);
    return file_join(host, directory, name, path, size);
}

hashattn_status split_find(struct host *host, const struct split_files *files, const char *directory,
                           enum split split, char *path, size_t size)
{
    const char *found = NULL;
    if (files->lone && file_exists(directory) && !file_is_directory(directory)) {
        FAIL_IF(strlen(directory) >= size, host, HASHATTN_INVALID, "the path of the data is %zu bytes long",
                strlen(directory));
        strcpy(path, split == SPLIT_TRAIN ? directory : "");
        return HASHATTN_OK;
    }
    for (const char *const *ending = files->endings; *ending != NULL; ending++) {
        TRY(path_of(host, directory, files->stems[split], *ending, path, size));
        if (!file_exists(path))
            continue;
        FAIL_IF(found != NULL, host, HASHATTN_BAD_FILE, "%s has both %s%s and %s%s: keep one of them",
                directory, files->stems[split], found, files->stems[split], *ending);
        found = *ending;
    }
    if (found != NULL)
        return path_of(host, directory, files->stems[split], found, path, size);
    path[0] = '\0';
    return HASHATTN_OK;
}

/* "train.jsonl or train.tsv" */
static void names_of(const struct split_files *files, enum split split, char *text, size_t size)
{
    text[0] = '\0';
    for (const char *const *ending = files->endings; *ending != NULL; ending++) {
        size_t used = strlen(text);
        snprintf(text + used, size - used, "%s%s%s", used == 0 ? "" : " or ", files->stems[split], *ending);
    }
}

hashattn_status split_find_train(struct host *host, const struct split_files *files, const char *directory,
                                 char *path, size_t size)
{
    char names[200];
    TRY(split_find(host, files, directory, SPLIT_TRAIN, path, size));
    names_of(files, SPLIT_TRAIN, names, sizeof names);
    FAIL_IF(path[0] == '\0', host, HASHATTN_BAD_FILE, "%s has no %s", directory, names);
    return HASHATTN_OK;
}

/* Keeps the examples of one split of the training file `path` that (seed) cuts (splits.h), in the order of
   the file. */
static hashattn_status keep_share(struct host *host, struct dataset_builder *builder, enum split split,
                                  const struct split_files *files, const struct task_facts *facts,
                                  const char *path, bool cut_test, uint64_t seed)
{
    struct dataset_column columns[DATASET_COLUMNS];
    struct dataset *dataset = &builder->dataset;
    size_t count = dataset->count, cuts = cut_test ? 2 : 1;
    FAIL_IF(count <= cuts, host, HASHATTN_BAD_FILE,
            "%.300s has %zu example%s, too few to cut %s out of it; at least %zu are needed", path, count,
            count == 1 ? "" : "s", cut_test ? "validation and test" : "validation", cuts + 1);
    FAIL_IF(count > UINT32_MAX, host, HASHATTN_BAD_FILE, "%.300s has %zu examples, at most %u can be split",
            path, count, UINT32_MAX);
    void *block;
    TRY(memory_new(host, count, 1, "the split", &block));
    uint8_t *own = block;
    hashattn_status status =
        splits_draw(host, dataset, files->one_text, facts->first_reading, cuts, seed, own);
    size_t kept = 0, end = 0, each = dataset->pairs ? 2 : 1, arrays = dataset_columns(dataset, columns);
    for (size_t i = 0; status == HASHATTN_OK && i < count; i++) {
        if (own[i] != split)
            continue;
        /* kept <= i, so the elements overwritten here were read before, or are read here first. */
        const size_t *from = dataset->offsets + i * each;
        size_t start = from[0], middle = from[1], stop = from[each];
        for (size_t k = 0; k < arrays; k++) {
            char *array = *columns[k].array;
            size_t size = columns[k].size, to = columns[k].of_rows ? end : kept;
            size_t at = columns[k].of_rows ? start : i, many = columns[k].of_rows ? stop - start : 1;
            memmove(array + to * size, array + at * size, many * size);
        }
        dataset->offsets[kept * each + 1] = end + (middle - start);
        end += stop - start;
        builder->cut[kept] = builder->cut[i];
        dataset->offsets[++kept * each] = end;
    }
    dataset->count = kept;
    dataset->drawn = true;
    memory_free(host, block);
    return status;
}

static hashattn_status read_named(struct host *host, split_reader *read, const void *context,
                                  const char *path, struct dataset_builder *builder)
{
    hashattn_status status = read(host, context, path, builder);
    if (status == HASHATTN_OK && builder->dataset.count == 0)
        status = host_fail(host, HASHATTN_BAD_FILE, "%s has no examples", path);
    return status;
}

hashattn_status split_load(struct host *host, const struct split_files *files, const struct task_facts *facts,
                           const char *directory, enum split split, uint64_t seed,
                           const struct dataset *shape, split_reader *read, const void *context,
                           struct dataset *dataset)
{
    char paths[SPLIT_COUNT][FILE_PATH], names[200];
    *dataset = (struct dataset){0};
    TRY(split_find_train(host, files, directory, paths[SPLIT_TRAIN], sizeof paths[0]));
    TRY(split_find(host, files, directory, SPLIT_VALID, paths[SPLIT_VALID], sizeof paths[0]));
    TRY(split_find(host, files, directory, SPLIT_TEST, paths[SPLIT_TEST], sizeof paths[0]));
    bool cut_valid = paths[SPLIT_VALID][0] == '\0', cut_test = cut_valid && paths[SPLIT_TEST][0] == '\0';
    if (split == SPLIT_COUNT) { /* the whole file */
        split = SPLIT_TRAIN;
        cut_valid = false;
    }
    bool missing = paths[split][0] == '\0';
    names_of(files, SPLIT_TEST, names, sizeof names);
    dataset->absent = missing && split == SPLIT_TEST && !cut_test;
    FAIL_IF(dataset->absent, host, HASHATTN_BAD_FILE, "%s has no %s", directory, names);

    struct dataset_builder builder = {.dataset = *shape};
    hashattn_status status = read_named(host, read, context, paths[missing ? SPLIT_TRAIN : split], &builder);
    if (status == HASHATTN_OK && (missing || (split == SPLIT_TRAIN && cut_valid)))
        status = keep_share(host, &builder, split, files, facts, paths[SPLIT_TRAIN], cut_test, seed);
    return dataset_finish(host, &builder, status, dataset);
}

hashattn_status split_check_new(struct host *host, const char *path, const char *last)
{
    if (!file_exists(path))
        return HASHATTN_OK;
    FAIL_IF(last == NULL || file_exists(last), host, HASHATTN_INVALID,
            "%s exists already and is not overwritten", path);
    return host_fail(host, HASHATTN_INVALID,
                     "%s exists already and is not overwritten; %s, which is written last, is missing: if an "
                     "attempt was killed, remove the file",
                     path, last);
}

static hashattn_status write_one(struct host *host, enum split split, size_t count, const char *header,
                                 split_writer *write, void *context, struct file_writer *writer)
{
    file_write(writer, header, strlen(header));
    for (size_t i = 0; i < count && writer->error == 0; i++)
        TRY(write(host, context, split, i, writer));
    return file_writer_status(host, writer);
}

/* Test first and train last, in names and in time. */
static const enum split order[SPLIT_COUNT] = {SPLIT_TEST, SPLIT_VALID, SPLIT_TRAIN};

/* The names of the files that are written, ended by NULL; paths are empty for a count of 0. */
static hashattn_status name_splits(struct host *host, const struct split_files *files, const char *directory,
                                   const size_t *counts, char names[SPLIT_COUNT][64],
                                   char paths[SPLIT_COUNT][FILE_PATH])
{
    const char *written[SPLIT_COUNT + 1] = {NULL};
    size_t found = 0;
    for (int i = 0; i < SPLIT_COUNT; i++) {
        enum split split = order[i];
        paths[split][0] = '\0';
        if (counts[split] == 0)
            continue;
        snprintf(names[split], 64, "%s%s", files->stems[split], files->endings[0]);
        TRY(file_join(host, directory, names[split], paths[split], FILE_PATH));
        written[found++] = names[split];
    }
    for (int i = 0; i < SPLIT_COUNT; i++)
        TRY(split_check_new(host, paths[order[i]], counts[SPLIT_TRAIN] > 0 ? paths[SPLIT_TRAIN] : NULL));
    file_remove_leftovers(directory, written);
    return HASHATTN_OK;
}

/* All files are written before the first appears, so an attempt that is killed leaves none in the way of the
   next one, unless it dies between two renames. */
hashattn_status split_write(struct host *host, const struct split_files *files, const char *directory,
                            const size_t *counts, const char *header, split_writer *write, void *context)
{
    char names[SPLIT_COUNT][64], paths[SPLIT_COUNT][FILE_PATH];
    struct file_writer writers[SPLIT_COUNT];
    TRY(name_splits(host, files, directory, counts, names, paths));
    hashattn_status status = HASHATTN_OK;
    int opened = 0, committed = 0;
    for (; opened < SPLIT_COUNT && status == HASHATTN_OK; opened++) {
        enum split split = order[opened];
        writers[split].open = false;
        if (counts[split] == 0)
            continue;
        status = file_open_replacement(host, paths[split], &writers[split]);
        if (status == HASHATTN_OK)
            status = write_one(host, split, counts[split], header, write, context, &writers[split]);
    }
    for (; committed < SPLIT_COUNT && status == HASHATTN_OK; committed++)
        if (counts[order[committed]] > 0)
            status = file_commit(host, &writers[order[committed]]);
    if (status == HASHATTN_OK)
        return HASHATTN_OK;
    for (int i = 0; i < opened; i++)
        file_abandon(&writers[order[i]]);
    for (int i = 0; i < committed; i++) /* they would be in the way of the next attempt */
        if (counts[order[i]] > 0)
            file_remove(paths[order[i]]);
    return status;
}
