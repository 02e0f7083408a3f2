/* Any bytes as text of each kind: sections lie in the block one after another and are not blank; their
   sentences hold the text without its white space, begin with a space except the first, and are not empty.
   The first byte selects the kind.
   SPDX-License-Identifier: Apache-2.0 */
#include "base/memory.h"
#include "fuzz/fuzz_file.h"
#include "tasks/mlm/sentences.h"
#include "tasks/mlm/text_sections.h"

static size_t letters(const char *text, size_t size)
{
    size_t count = 0;
    for (size_t i = 0; i < size; i++)
        count += text[i] != ' ' && !(text[i] >= '\t' && text[i] <= '\r');
    return count;
}

static void check_section(struct host *host, struct piece text, bool wrapped, struct sentences *sentences)
{
    FUZZ_CHECK(letters(text.bytes, text.size) > 0);
    FUZZ_CHECK(sentences_split(host, text, wrapped, sentences) == HASHATTN_OK && sentences->count > 0);
    size_t start = 0, count = 0;
    for (size_t i = 0; i < sentences->count; i++) {
        size_t end = sentences->ends[i], own = letters(sentences->text + start, end - start);
        FUZZ_CHECK(end > start && own > 0 && (sentences->text[start] == ' ') == (i > 0));
        count += own;
        start = end;
    }
    FUZZ_CHECK(count == letters(text.bytes, text.size));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const char *const names[] = {"a.txt", "a.jsonl", "a.tokens"};
    int choice = size > 0 ? data[0] % 6 : 0;
    struct host host;
    struct section_reader reader;
    struct section_block block = {.text = NULL};
    struct sentences sentences = {.text = NULL};
    host_init(&host);
    const char *path = fuzz_file(names[choice % 3], data + (size > 0), size - (size > 0));
    FUZZ_CHECK(section_reader_open(&host, &path, 1, (enum document_rule)(choice / 3), 50, &reader) ==
               HASHATTN_OK);
    hashattn_status status;
    do {
        status = section_reader_next(&reader, &block);
        FUZZ_CHECK(status == HASHATTN_OK || status == HASHATTN_BAD_FILE);
        for (size_t i = 0, at = 0; status == HASHATTN_OK && i < block.count; i++) {
            const struct text_section *section = &block.list[i];
            FUZZ_CHECK(section->start == at && section->start + section->size <= block.used);
            at += section->size;
            check_section(&host, (struct piece){block.text + section->start, section->size}, section->wrapped,
                          &sentences);
        }
    } while (status == HASHATTN_OK && block.count > 0);
    FUZZ_CHECK(status == HASHATTN_OK || (choice % 3 == 1 && strstr(host.message, "a.jsonl: line ") != NULL));
    section_reader_close(&reader);
    section_block_free(&host, &block);
    sentences_free(&host, &sentences);
    fuzz_remove(path);
    return 0;
}
