/* One look-up per word of the text; memory for every distinct word.
   SPDX-License-Identifier: Apache-2.0 */
#include "text/learning/word_counts.h"

#include <string.h>

#include "base/memory.h"
#include "io/line_blocks.h"
#include "text/byte_level.h"

void word_counts_free(struct host *host, struct word_counts *counts)
{
    memory_free(host, counts->bytes);
    memory_free(host, counts->list);
    index_table_free(host, &counts->words);
    *counts = (struct word_counts){.bytes = NULL};
}

hashattn_status word_counts_add_word(struct host *host, struct word_counts *counts, struct piece word)
{
    uint32_t index;
    TRY(index_table_grow(host, &counts->words));
    uint64_t hash = hash_bytes(&counts->words.key, word.bytes, word.size);
    for (size_t probes = 0; index_table_next(&counts->words, hash, &probes, &index);) {
        struct word_count *known = &counts->list[index];
        if (known->size == word.size && memcmp(counts->bytes + known->start, word.bytes, word.size) == 0) {
            known->count++;
            return HASHATTN_OK;
        }
    }
    FAIL_IF(word.size > UINT32_MAX, host, HASHATTN_INVALID, "a word of %zu bytes", word.size);
    TRY(memory_grow(host, &counts->list, &counts->list_capacity, counts->count, 1, sizeof *counts->list,
                    "words"));
    TRY(memory_grow(host, &counts->bytes, &counts->bytes_capacity, counts->num_bytes, word.size, 1, "words"));
    memcpy(counts->bytes + counts->num_bytes, word.bytes, word.size);
    counts->list[counts->count] = (struct word_count){counts->num_bytes, (uint32_t)word.size, 1};
    counts->num_bytes += word.size;
    index_table_add(&counts->words, hash, (uint32_t)counts->count++);
    return HASHATTN_OK;
}

hashattn_status word_counts_add(struct host *host, struct word_counts *counts, struct piece lines)
{
    const char *at = lines.bytes, *end = at + lines.size;
    while (at < end) {
        const char *feed = memchr(at, '\n', (size_t)(end - at)), *line_end = feed != NULL ? feed + 1 : end;
        while (at < line_end) {
            const char *word = at;
            at = byte_level_word(at, line_end);
            TRY(word_counts_add_word(host, counts, (struct piece){word, (size_t)(at - word)}));
        }
    }
    return HASHATTN_OK;
}

hashattn_status word_counts_add_file(struct host *host, struct word_counts *counts, const char *path,
                                     enum file_source source)
{
    struct line_blocks blocks;
    struct piece block;
    TRY(line_blocks_open(host, path, source, &blocks));
    hashattn_status status;
    do {
        status = line_blocks_next(host, &blocks, &block);
        if (status == HASHATTN_OK)
            status = word_counts_add(host, counts, block);
    } while (status == HASHATTN_OK && block.size > 0);
    line_blocks_close(host, &blocks);
    return status;
}
