/* The files of splits (dataset.h): finding them, validation and test cut out of the training file, and the
   loop that writes generated ones. Cost: one pass over the file; a split that is cut out reads the whole
   training file and keeps its share.
   SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>
#include <string.h>

#include "base/file.h"
#include "base/memory.h"
#include "tasks/dataset.h"
#include "tasks/splits.h"

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
