/* Any bytes up to the first NUL as a vocab.txt, up to the next as a merges.txt, and the rest as a word: its
   tokens stand for all of its bytes that have one, in order.
   SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "base/memory.h"
#include "fuzz/fuzz.h"
#include "text/files/tokenizer_files.h"
#include "text/tokenizer_parts.h"

/* The bytes before the next NUL; *at moves behind it. */
static struct piece part(const char **at, const char *end)
{
    const char *begin = *at, *nul = begin < end ? memchr(begin, '\0', (size_t)(end - begin)) : NULL;
    *at = nul != NULL ? nul + 1 : end;
    return (struct piece){begin, (size_t)((nul != NULL ? nul : end) - begin)};
}

static void merge(struct host *host, const struct tokenizer *tokenizer, struct piece word)
{
    struct bpe_scratch scratch = {.symbols = NULL};
    struct word_tokens tokens = {.list = NULL};
    FUZZ_CHECK(bpe_word(host, &tokenizer->bpe, &scratch, word, &tokens) == HASHATTN_OK);
    for (size_t i = 0; i < tokens.count; i++) {
        FUZZ_CHECK(tokens.list[i].begin < tokens.list[i].end && tokens.list[i].end <= word.size);
        FUZZ_CHECK(i == 0 || tokens.list[i].begin >= tokens.list[i - 1].end);
    }
    memory_free(host, tokens.list);
    bpe_scratch_free(host, &scratch);
}

static void split(struct host *host, const struct tokenizer *tokenizer, struct piece word)
{
    struct wordpiece model = {.prefix = "##", .prefix_size = 2, .max_characters = 100};
    struct max_match_run run = {.list = NULL};
    struct word_tokens tokens = {.list = NULL};
    FUZZ_CHECK(wordpiece_init(host, &model, &tokenizer->vocabulary) == HASHATTN_OK);
    FUZZ_CHECK(wordpiece_word(host, &model, &run, word, &tokens) == HASHATTN_OK);
    FUZZ_CHECK(tokens.count > 0 && tokens.list[0].begin == 0 &&
               tokens.list[tokens.count - 1].end == word.size);
    for (size_t i = 1; i < tokens.count; i++)
        FUZZ_CHECK(tokens.list[i].begin == tokens.list[i - 1].end);
    memory_free(host, tokens.list);
    max_match_run_free(host, &run);
    wordpiece_free(host, &model);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct host host;
    host_init(&host);
    const char *at = (const char *)data, *end = at + size;
    struct piece vocabulary = part(&at, end), merges = part(&at, end), word = part(&at, end);
    struct tokenizer *tokenizer;
    FUZZ_CHECK(tokenizer_new(&host, &tokenizer) == HASHATTN_OK);
    if (vocabulary_parse(&host, vocabulary.bytes, vocabulary.size, &tokenizer->vocabulary) == HASHATTN_OK) {
        for (uint32_t id = 0; id < tokenizer_num_ids(tokenizer); id++) {
            uint32_t found;
            FUZZ_CHECK(tokenizer_find(tokenizer, tokenizer_token(tokenizer, id), &found) && found == id);
        }
        if (word.size > 0)
            split(&host, tokenizer, word);
        if (merges_parse(&host, merges.bytes, merges.size, tokenizer) == HASHATTN_OK && word.size > 0)
            merge(&host, tokenizer, word);
    }
    tokenizer_free(&host, tokenizer);
    return 0;
}
