/* The layout is one function, for the writer, the reader and the check of the size.
   SPDX-License-Identifier: Apache-2.0 */
#include "tasks/mlm/token_file.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>

#include "base/file.h"
#include "base/file_map.h"
#include "base/memory.h"
#include "text/tokenizer.h"

_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "arrays are mapped as they are stored");
_Static_assert(sizeof(size_t) == sizeof(uint64_t), "offsets are mapped as they are stored");
_Static_assert(sizeof(struct token_header) == 64, "the header has no gaps");

struct token_record {
    uint32_t length, first, label; /* tokens; tokens of segment 0 */
};

struct layout {
    uint64_t ids, offsets, labels, segments, size; /* in bytes */
};

static uint64_t aligned(uint64_t at)
{
    return (at + 7) / 8 * 8;
}

static struct layout layout_of(const struct token_header *header)
{
    struct layout l = {.ids = sizeof *header};
    bool ordered = header->order != ORDER_NONE;
    l.offsets = aligned(l.ids + 4 * header->num_tokens);
    l.labels = l.offsets + 8 * (header->num_examples + 1);
    l.segments = aligned(l.labels + (ordered ? 4 * header->num_examples : 0));
    l.size = l.segments + (ordered ? header->num_tokens : 0);
    return l;
}

static uint64_t mix(uint64_t hash, uint64_t word)
{
    return (hash ^ word) * 1099511628211u;
}

uint64_t token_file_hash(const struct tokenizer *tokenizer)
{
    uint64_t hash = 14695981039346656037u;
    size_t count = tokenizer_num_ids(tokenizer);
    for (size_t id = 0; id < count; id++) {
        struct piece token = tokenizer_token(tokenizer, (uint32_t)id);
        hash = mix(hash, token.bytes == NULL ? UINT64_MAX : token.size);
        for (size_t i = 0; token.bytes != NULL && i < token.size; i++)
            hash = mix(hash, (unsigned char)token.bytes[i]);
    }
    return hash;
}

/* ---- writing ------------------------------------------------------------------------------------------- */

static void put_zeros(struct token_writer *writer, uint64_t from, uint64_t to)
{
    static const char zeros[sizeof(struct token_header)];
    file_write(&writer->file, zeros, (size_t)(to - from));
}

hashattn_status token_writer_open(struct host *host, const char *path, const struct token_header *header,
                                  uint32_t start, uint32_t end, struct token_writer *writer)
{
    *writer = (struct token_writer){.header = *header, .start = start, .end = end};
    memcpy(writer->header.magic, TOKEN_FILE_MAGIC, sizeof writer->header.magic);
    writer->header.version = TOKEN_FILE_VERSION;
    TRY(file_open_replacement(host, path, &writer->file));
    put_zeros(writer, 0, sizeof writer->header); /* the counts are known at the end */
    return HASHATTN_OK;
}

hashattn_status token_writer_add(struct host *host, struct token_writer *writer, struct token_span a,
                                 struct token_span b, uint32_t label)
{
    struct token_header *header = &writer->header;
    bool pair = header->order != ORDER_NONE;
    size_t length = a.count + b.count + (pair ? 3 : 2);
    assert(length <= header->seq_len && (pair ? b.count > 0 : b.count == 0));
    TRY(memory_grow(host, &writer->records, &writer->capacity, header->num_examples, 1,
                    sizeof *writer->records, "lengths of examples"));
    writer->records[header->num_examples++] =
        (struct token_record){(uint32_t)length, (uint32_t)(a.count + 2), label};
    header->num_tokens += length;
    file_write(&writer->file, &writer->start, sizeof writer->start);
    file_write(&writer->file, a.ids, a.count * sizeof *a.ids);
    file_write(&writer->file, &writer->end, sizeof writer->end);
    if (!pair)
        return HASHATTN_OK;
    file_write(&writer->file, b.ids, b.count * sizeof *b.ids);
    file_write(&writer->file, &writer->end, sizeof writer->end);
    return HASHATTN_OK;
}

static void write_segments(struct token_writer *writer)
{
    uint8_t blocks[2][256];
    memset(blocks[0], 0, sizeof blocks[0]);
    memset(blocks[1], 1, sizeof blocks[1]);
    for (size_t i = 0; i < writer->header.num_examples; i++) {
        const struct token_record *record = &writer->records[i];
        for (int segment = 0; segment < 2; segment++)
            for (size_t left = segment == 0 ? record->first : record->length - record->first, n; left > 0;
                 left -= n)
                file_write(&writer->file, blocks[segment], n = size_min(left, sizeof blocks[segment]));
    }
}

hashattn_status token_writer_commit(struct host *host, struct token_writer *writer)
{
    const struct token_header *header = &writer->header;
    const struct layout l = layout_of(header);
    bool ordered = header->order != ORDER_NONE;
    put_zeros(writer, l.ids + 4 * header->num_tokens, l.offsets);
    uint64_t offset = 0;
    file_write(&writer->file, &offset, sizeof offset);
    for (size_t i = 0; i < header->num_examples; i++) {
        offset += writer->records[i].length;
        file_write(&writer->file, &offset, sizeof offset);
    }
    for (size_t i = 0; i < header->num_examples && ordered; i++)
        file_write(&writer->file, &writer->records[i].label, sizeof writer->records[i].label);
    put_zeros(writer, l.labels + (ordered ? 4 * header->num_examples : 0), l.segments);
    if (ordered)
        write_segments(writer);
    file_write_first(&writer->file, header, sizeof *header);
    memory_free(host, writer->records);
    return file_commit(host, &writer->file);
}

void token_writer_abandon(struct host *host, struct token_writer *writer)
{
    memory_free(host, writer->records);
    file_abandon(&writer->file);
    *writer = (struct token_writer){.records = NULL};
}

/* ---- the header ---------------------------------------------------------------------------------------- */

static hashattn_status check_range(struct host *host, const char *what, uint64_t value, uint64_t least,
                                   uint64_t most)
{
    FAIL_IF(value < least || value > most, host, HASHATTN_BAD_FILE, "%s is %llu, allowed are %llu to %llu",
            what, (unsigned long long)value, (unsigned long long)least, (unsigned long long)most);
    return HASHATTN_OK;
}

/* size: of the file. */
static hashattn_status check_header(struct host *host, const struct token_header *header, uint64_t size)
{
    FAIL_IF(size < sizeof *header || memcmp(header->magic, TOKEN_FILE_MAGIC, sizeof header->magic) != 0, host,
            HASHATTN_BAD_FILE, "is not a token file of `hashattn data mlm`");
    FAIL_IF(header->version != TOKEN_FILE_VERSION, host, HASHATTN_BAD_FILE, "is of version %u, %d is read",
            header->version, TOKEN_FILE_VERSION);
    TRY(check_range(host, "order", header->order, ORDER_NONE, ORDER_NSP));
    TRY(check_range(host, "the number of examples", header->num_examples, 1, UINT32_MAX));
    TRY(check_range(host, "the number of tokens", header->num_tokens, header->num_examples,
                    (uint64_t)1 << 48));
    TRY(check_range(host, "the number of ids", header->num_ids, 1, VOCABULARY_MOST_IDS));
    TRY(check_range(host, "seq_len", header->seq_len, TOKEN_FILE_LEAST, TOKEN_FILE_MOST));
    TRY(check_range(host, "an unused field", header->unused[0] | header->unused[1], 0, 0));
    uint64_t wanted = layout_of(header).size;
    FAIL_IF(size != wanted, host, HASHATTN_BAD_FILE,
            "has %llu bytes, its %llu examples and %llu tokens need %llu", (unsigned long long)size,
            (unsigned long long)header->num_examples, (unsigned long long)header->num_tokens,
            (unsigned long long)wanted);
    return HASHATTN_OK;
}

/* `from`: the beginning of the file, `count` bytes. */
static hashattn_status take_header(struct host *host, const char *from, size_t count, uint64_t size,
                                   struct token_header *header)
{
    *header = (struct token_header){.version = 0};
    if (count > 0)
        memcpy(header, from, size_min(count, sizeof *header));
    return check_header(host, header, size);
}

hashattn_status token_file_header(struct host *host, const char *path, struct token_header *header)
{
    char *bytes;
    size_t count, size;
    TRY(file_read_start(host, path, sizeof *header, &bytes, &count, &size));
    hashattn_status status = take_header(host, bytes, count, size, header);
    memory_free(host, bytes);
    if (status != HASHATTN_OK)
        host_prefix(host, path);
    return status;
}

/* ---- reading ------------------------------------------------------------------------------------------- */

/* Elements checked at a time; the pages of the whole file must not stay in memory. */
enum { CHECKED_AT_ONCE = 1 << 20 };

static uint32_t largest(const uint32_t *values, size_t count)
{
    uint32_t most = 0;
    for (size_t i = 0; i < count; i++)
        most = values[i] > most ? values[i] : most;
    return most;
}

/* FNV-1a over words: it has to detect changes, not attacks. */
static uint64_t mix_words(uint64_t hash, const uint32_t *words, size_t count)
{
    for (size_t i = 0; i < count; i++)
        hash = mix(hash, words[i]);
    return hash;
}

static hashattn_status check_words(struct host *host, struct dataset *dataset, const uint32_t *words,
                                   size_t count, uint32_t limit, const char *what)
{
    for (size_t at = 0; at < count; at += CHECKED_AT_ONCE) {
        size_t n = size_min(count - at, CHECKED_AT_ONCE);
        bool beyond = largest(words + at, n) >= limit;
        for (size_t i = at; beyond && i < at + n; i++)
            FAIL_IF(words[i] >= limit, host, HASHATTN_BAD_FILE, "%s %zu is %u, allowed are 0 to %u", what, i,
                    words[i], limit - 1);
        dataset->hash = mix_words(dataset->hash, words + at, n);
        file_map_release(&dataset->map, words + at, n * sizeof *words);
    }
    return HASHATTN_OK;
}

static hashattn_status check_segments(struct host *host, struct dataset *dataset, size_t count)
{
    const uint8_t *segments = dataset->segments;
    for (size_t at = 0; at < count; at += CHECKED_AT_ONCE) {
        size_t n = size_min(count - at, CHECKED_AT_ONCE);
        uint64_t all = 0, word;
        for (size_t i = at; i < at + n; i += sizeof word) {
            word = 0;
            memcpy(&word, segments + i, size_min(at + n - i, sizeof word));
            dataset->hash = mix(dataset->hash, word);
            all |= word;
        }
        all &= ~(uint64_t)0x0101010101010101;
        for (size_t i = at; all != 0 && i < at + n; i++)
            FAIL_IF(segments[i] > 1, host, HASHATTN_BAD_FILE, "segment %zu is %u, allowed are 0 and 1", i,
                    segments[i]);
        file_map_release(&dataset->map, segments + at, n);
    }
    return HASHATTN_OK;
}

static hashattn_status check_offsets(struct host *host, const struct token_header *header,
                                     struct dataset *dataset)
{
    const size_t *offsets = dataset->offsets;
    FAIL_IF(offsets[0] != 0 || offsets[header->num_examples] != header->num_tokens, host, HASHATTN_BAD_FILE,
            "offsets are %zu to %zu, they must be 0 to %llu", offsets[0], offsets[header->num_examples],
            (unsigned long long)header->num_tokens);
    for (size_t i = 0; i < header->num_examples; i++) {
        FAIL_IF(offsets[i + 1] <= offsets[i] || offsets[i + 1] - offsets[i] > header->seq_len, host,
                HASHATTN_BAD_FILE, "example %zu is tokens %zu to %zu, it must have 1 to %u", i, offsets[i],
                offsets[i + 1], header->seq_len);
        dataset->hash = mix(dataset->hash, offsets[i + 1] - offsets[i]);
    }
    return HASHATTN_OK;
}

/* Points the arrays of the data set into the mapped file, and checks them. */
static hashattn_status take_arrays(struct host *host, struct token_header *header, struct dataset *dataset)
{
    TRY(take_header(host, dataset->map.bytes, dataset->map.size, dataset->map.size, header));
    const struct layout l = layout_of(header);
    char *bytes = (char *)(uintptr_t)dataset->map.bytes; /* nothing writes to it */
    dataset->ids = (uint32_t *)(void *)(bytes + l.ids);
    dataset->offsets = (size_t *)(void *)(bytes + l.offsets);
    dataset->count = header->num_examples;
    dataset->hash = 14695981039346656037u;
    TRY(check_offsets(host, header, dataset));
    TRY(check_words(host, dataset, dataset->ids, header->num_tokens, header->num_ids, "token"));
    dataset->num_targets = 1;
    dataset->targets[0] = (struct target_set){.kind = TARGETS_MASKED};
    if (header->order == ORDER_NONE)
        return HASHATTN_OK;
    dataset->segmented = true;
    dataset->segments = (uint8_t *)(bytes + l.segments);
    dataset->num_targets = 2;
    dataset->targets[1] =
        (struct target_set){.kind = TARGETS_EXAMPLE, .ids = (uint32_t *)(void *)(bytes + l.labels)};
    TRY(check_words(host, dataset, dataset->targets[1].ids, header->num_examples, 2, "label"));
    return check_segments(host, dataset, header->num_tokens);
}

hashattn_status token_file_map(struct host *host, const char *path, struct token_header *header,
                               struct dataset *dataset)
{
    *dataset = (struct dataset){.ids = NULL};
    TRY(file_map_open(host, path, &dataset->map));
    hashattn_status status = take_arrays(host, header, dataset);
    if (status != HASHATTN_OK) {
        dataset_free(host, dataset);
        host_prefix(host, path);
    }
    return status;
}
