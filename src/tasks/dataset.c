/* Data sets in memory and their files: arrays that double, the file of each split, the cut of validation and
   test out of the training file, and the loop that writes generated files. Cost: one pass over the file; a
   cut split reads the whole training file and keeps its share. SPDX-License-Identifier: Apache-2.0 */
#include "tasks/dataset.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>

#include "base/memory.h"
#include "base/random.h"
#include "io/utf8.h"

void dataset_free(struct host *host, struct dataset *dataset)
{
    memory_free(host, dataset->tokens);
    memory_free(host, dataset->offsets);
    memory_free(host, dataset->labels);
    *dataset = (struct dataset){0};
}

/* *block, of `used` elements, moves to one of `capacity`. */
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

hashattn_status dataset_room(struct host *host, struct dataset_builder *builder, size_t length,
                             uint16_t **tokens)
{
    struct dataset *dataset = &builder->dataset;
    size_t sequences = dataset_sequences(dataset), used = sequences == 0 ? 0 : dataset->offsets[sequences];
    if (dataset->count == builder->capacity) {
        /* The capacity counts only when all three have it: a failure between them loses nothing. */
        size_t capacity = builder->capacity == 0 ? 64 : size_product(2, builder->capacity);
        void *labels = dataset->labels, *offsets = dataset->offsets, *cut = builder->cut;
        hashattn_status status =
            grow(host, &labels, dataset->count, capacity, sizeof *dataset->labels, "labels");
        dataset->labels = labels;
        TRY(status);
        status = grow(host, &cut, dataset->count, capacity, sizeof *builder->cut, "marks of cut examples");
        builder->cut = cut;
        TRY(status);
        status = grow(host, &offsets, sequences == 0 ? 0 : sequences + 1,
                      size_sum(size_product(capacity, dataset->pairs ? 2 : 1), 1), sizeof *dataset->offsets,
                      "offsets of examples");
        dataset->offsets = offsets;
        TRY(status);
        dataset->offsets[0] = 0;
        builder->capacity = capacity;
    }
    size_t needed = size_sum(used, length);
    if (needed > builder->token_capacity) {
        size_t capacity = size_product(2, builder->token_capacity);
        capacity = capacity < needed ? needed : capacity;
        void *block = dataset->tokens;
        hashattn_status status = grow(host, &block, used, capacity, sizeof *dataset->tokens, "tokens");
        dataset->tokens = block;
        TRY(status);
        builder->token_capacity = capacity;
    }
    *tokens = dataset->tokens + used;
    return HASHATTN_OK;
}

/* One example of one or, where `second` is not 0, two sequences. */
static void push(struct dataset_builder *builder, size_t first, size_t second, int32_t label, bool cut)
{
    struct dataset *dataset = &builder->dataset;
    size_t *offset = dataset->offsets + dataset_sequences(dataset), start = *offset;
    assert(first >= 1 && dataset->count < builder->capacity);
    assert(start + first + second <= builder->token_capacity);
    offset[1] = start + first;
    if (second > 0)
        offset[2] = start + first + second;
    dataset->labels[dataset->count] = label;
    builder->cut[dataset->count++] = cut;
}

void dataset_push(struct dataset_builder *builder, size_t length, int32_t label, bool cut)
{
    assert(!builder->dataset.pairs);
    push(builder, length, 0, label, cut);
}

void dataset_push_pair(struct dataset_builder *builder, size_t first, size_t second, int32_t label, bool cut)
{
    assert(builder->dataset.pairs && second >= 1);
    push(builder, first, second, label, cut);
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

hashattn_status file_each_line(struct host *host, const char *path, line_visitor *visit, void *context)
{
    char *bytes;
    size_t size;
    TRY(file_read(host, path, FILE_MOST, &bytes, &size));
    struct lines lines = lines_open(bytes, size);
    struct piece line;
    hashattn_status status = HASHATTN_OK;
    while (status == HASHATTN_OK && lines_next(&lines, &line))
        status = visit(host, context, line, lines.number);
    if (status != HASHATTN_OK) {
        lines_prefix(host, &lines);
        host_prefix(host, strcmp(path, "-") == 0 ? "standard input" : path);
    }
    memory_free(host, bytes);
    return status;
}

const char *piece_shown(struct piece piece, char text[SHOWN_SIZE])
{
    size_t size = piece.size > 40 ? 40 : piece.size, whole = utf8_first_error(piece.bytes, size);
    bool cut = size < piece.size;
    if (cut && whole + 3 >= size) /* a character that only the cut has broken */
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

/* Keeps the examples of one split of a training file that is cut by (seed): of a permutation of all
   examples, the first tenth is validation, the second tenth is the test where that is cut too, the rest is
   training. The order of the file stays. Stretches of one text are not mixed: validation is its end. */
static hashattn_status keep_share(struct host *host, struct dataset_builder *builder, enum split split,
                                  bool cut_test, uint64_t seed)
{
    struct dataset *dataset = &builder->dataset;
    size_t count = dataset->count, cuts = cut_test ? 2 : 1;
    FAIL_IF(count <= cuts, host, HASHATTN_BAD_FILE,
            "the training file has %zu examples, too few to cut %s out of it", count,
            cut_test ? "validation and test" : "validation");
    FAIL_IF(count > UINT32_MAX, host, HASHATTN_BAD_FILE, "%zu examples, at most %u can be split", count,
            UINT32_MAX);
    size_t tenth = count < 10 ? 1 : count / 10;
    void *block;
    TRY(memory_new(host, count, sizeof(uint32_t), "the split", &block));
    uint32_t *place = block; /* of each example in the permutation */
    if (dataset->next_token)
        for (size_t i = 0; i < count; i++)
            place[i] = (uint32_t)(count - 1 - i);
    else
        random_permutation(random_key(seed, RANDOM_SPLIT, 0), place, count);
    size_t kept = 0, end = 0, each = dataset->pairs ? 2 : 1;
    for (size_t i = 0; i < count; i++) {
        enum split own = place[i] < tenth                   ? SPLIT_VALID
                         : cut_test && place[i] < 2 * tenth ? SPLIT_TEST
                                                            : SPLIT_TRAIN;
        if (own != split)
            continue;
        /* kept <= i, so what is written over has been read, or is read here first. */
        const size_t *from = dataset->offsets + i * each;
        size_t start = from[0], middle = from[1], stop = from[each];
        memmove(dataset->tokens + end, dataset->tokens + start, (stop - start) * sizeof *dataset->tokens);
        dataset->offsets[kept * each + 1] = end + (middle - start);
        end += stop - start;
        dataset->labels[kept] = dataset->labels[i];
        builder->cut[kept] = builder->cut[i];
        dataset->offsets[++kept * each] = end;
    }
    dataset->count = kept;
    memory_free(host, block);
    return HASHATTN_OK;
}

static hashattn_status read_named(struct host *host, split_reader *read, const void *context,
                                  const char *path, struct dataset_builder *builder)
{
    hashattn_status status = read(host, context, path, builder);
    if (status == HASHATTN_OK && builder->dataset.count == 0)
        status = host_fail(host, HASHATTN_BAD_FILE, "%s has no examples", path);
    return status;
}

hashattn_status split_load(struct host *host, const struct split_files *files, const char *directory,
                           enum split split, uint64_t seed, split_reader *read, const void *context,
                           struct dataset *dataset)
{
    char paths[SPLIT_COUNT][4096], names[200];
    *dataset = (struct dataset){0};
    TRY(split_find_train(host, files, directory, paths[SPLIT_TRAIN], sizeof paths[0]));
    TRY(split_find(host, files, directory, SPLIT_VALID, paths[SPLIT_VALID], sizeof paths[0]));
    TRY(split_find(host, files, directory, SPLIT_TEST, paths[SPLIT_TEST], sizeof paths[0]));
    bool cut_valid = paths[SPLIT_VALID][0] == '\0', cut_test = cut_valid && paths[SPLIT_TEST][0] == '\0';
    bool missing = paths[split][0] == '\0';
    names_of(files, SPLIT_TEST, names, sizeof names);
    FAIL_IF(missing && split == SPLIT_TEST && !cut_test, host, HASHATTN_BAD_FILE, "%s has no %s", directory,
            names);

    struct dataset_builder builder = {.dataset = {.pairs = files->pairs, .next_token = files->next_token}};
    hashattn_status status = read_named(host, read, context, paths[missing ? SPLIT_TRAIN : split], &builder);
    if (status == HASHATTN_OK && (missing || (split == SPLIT_TRAIN && cut_valid)))
        status = keep_share(host, &builder, split, cut_test, seed);
    return dataset_finish(host, &builder, status, dataset);
}

static hashattn_status write_one(struct host *host, const char *path, enum split split, size_t count,
                                 const char *header, split_writer *write, void *context)
{
    struct file_writer writer;
    TRY(file_open_writer(host, path, &writer));
    file_write(&writer, header, strlen(header));
    hashattn_status status = HASHATTN_OK;
    /* A full disk ends the loop; the commit tells of it. */
    for (size_t i = 0; i < count && writer.error == 0 && status == HASHATTN_OK; i++)
        status = write(host, context, split, i, &writer);
    if (status == HASHATTN_OK)
        return file_commit(host, &writer);
    file_abandon(&writer);
    return status;
}

hashattn_status split_write(struct host *host, const struct split_files *files, const char *directory,
                            const size_t *counts, const char *header, split_writer *write, void *context)
{
    static const enum split order[SPLIT_COUNT] = {SPLIT_TEST, SPLIT_VALID, SPLIT_TRAIN};
    char path[4096];
    for (int i = 0; i < SPLIT_COUNT; i++) {
        TRY(path_of(host, directory, files->stems[order[i]], files->endings[0], path, sizeof path));
        FAIL_IF(counts[order[i]] > 0 && file_exists(path), host, HASHATTN_INVALID,
                "%s exists already and is not overwritten", path);
    }
    for (int i = 0; i < SPLIT_COUNT; i++) {
        if (counts[order[i]] == 0)
            continue;
        TRY(path_of(host, directory, files->stems[order[i]], files->endings[0], path, sizeof path));
        TRY(write_one(host, path, order[i], counts[order[i]], header, write, context));
    }
    return HASHATTN_OK;
}
