/* Data sets in memory, whose arrays double when full and whose complete parts a stream gets, and the lines
   that they are read from.
   SPDX-License-Identifier: Apache-2.0 */
#include "tasks/dataset.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>

#include "base/file.h"
#include "base/memory.h"
#include "io/line_blocks.h"
#include "io/utf8.h"

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
