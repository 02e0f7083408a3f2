/* Readers of tokenizers, models and runs are linear (support/linear_time.h). The inputs are the ones on which
   a reader could be slow: names that are all different or, if their hash had no key, would all collide; one
   word, line or token as long as the file; tokens that nearly match at every byte. io/test_linear_formats.c
   and tasks/test_linear_tasks.c have the other readers.

   Planted and caught: a hash without a key in the vocabulary, in the counts and the cache of words, and in
   the table of merges; names of tensors, columns and labels found by a loop; splits that are not shared; a
   split that begins again at its first byte; white space measured for every token; blanks of a whole token
   counted; a normalized token found by a loop; whole words visited by every merge; the rest of a log read
   again for each line; all merges of a file looked at for each.
   SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "base/random.h"
#include "io/json.h"
#include "io/weights/weight_files.h"
#include "models/model_io.h"
#include "models/pretrained_config.h"
#include "support/linear_time.h"
#include "tasks/documents/documents.h"
#include "tasks/forecast/series_read.h"
#include "text/files/tokenizer_files.h"
#include "text/files/tokenizer_json.h"
#include "text/learning/learn_bpe.h"
#include "text/tokenizer_parts.h"
#include "text/word_cache.h"
#include "train/run_log.h"

/* ---- hashes ------------------------------------------------------------------------------------------- */

/* After any 16 of these, one of each row, the hash of Fowler, Noll and Vo from 0x2545f491 has the same lower
   47 bits: names that collided in a table without a key. */
enum { PAIRS = 16 };
static const char *const colliding[PAIRS][2] = {
    {"06ZNq16jYg", "QON5nX4b8o"}, {"DudqN2hMYQ", "zCet0MlkOF"}, {"USjbf40Xui", "QGXmHIMyui"},
    {"IdaTNS6DPv", "FkvDJysqsL"}, {"pC31sk9WDj", "rBmQw4WV3r"}, {"kvpS9NB75W", "I7DtGX9EhG"},
    {"aODXrIxnGx", "6RhDTTSCDB"}, {"RkEXhV6ZXr", "uE3H0YTHpT"}, {"DlpSq74njd", "RhCjFVdF35"},
    {"CBelyOLOEq", "VlhPT9O02E"}, {"YoMOqjw6xX", "USl0evRmE7"}, {"QeAb7TVOnq", "WrKALzkrGs"},
    {"BD2LLSgpxN", "UCZyXE5AMC"}, {"dRATAzCsQh", "GG2mMbutT2"}, {"DH06a43klf", "ARVUisShMa"},
    {"BD2LLSgpxN", "UCZyXE5AMC"},
};

static void make_colliding(struct work *work, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        for (size_t k = 0; k < PAIRS; k++)
            put_text(work, colliding[k][i >> k & 1]);
        put_text(work, "\n");
    }
}

static void read_vocabulary(struct work *work)
{
    struct vocabulary vocabulary = {.bytes = NULL};
    good(work, vocabulary_parse(work->host, work->text, work->size, &vocabulary));
    vocabulary_free(work->host, &vocabulary);
}

/* Words of 16 bytes that collided in the hash that mixed 8 bytes at a time. */
static void make_words(struct work *work, size_t n)
{
    const uint64_t factor = 0x9e3779b97f4a7c15u;
    for (uint64_t i = 0; i < n; i++) {
        uint64_t state = ((16 * factor) ^ i) * factor, words[2] = {i, 0};
        words[1] = state ^ state >> 29;
        put(work, (const char *)words, sizeof words);
    }
}

static void read_word_counts(struct work *work)
{
    struct word_counts counts = {.bytes = NULL};
    for (size_t at = 0; at < work->size; at += 16)
        good(work, word_counts_add_word(work->host, &counts, (struct piece){work->text + at, 16}));
    word_counts_free(work->host, &counts);
}

static void read_word_cache(struct work *work)
{
    struct word_cache cache;
    struct word_token token = {0, 0, 1};
    const struct word_tokens tokens = {&token, 1, 1};
    good(work, word_cache_init(work->host, &cache));
    for (size_t at = 0, count; at < work->size; at += 16) {
        const struct piece word = {work->text + at, 16};
        uint64_t hash = word_cache_hash(&cache, word);
        if (word_cache_find(&cache, word, hash, &count) == NULL)
            word_cache_keep(&cache, word, hash, &tokens);
    }
    word_cache_free(work->host, &cache);
}

/* Merges whose pairs had one slot: key * factor had the same bits from bit 32 on. */
static void make_merges(struct work *work, size_t n)
{
    const uint64_t factor = 0x9e3779b97f4a7c15u;
    uint32_t slots = 16;
    while (slots < 2 * n)
        slots *= 2;
    uint32_t inverse = (uint32_t)factor; /* of the factor modulo 2^32, by Newton's method */
    for (int i = 0; i < 5; i++)
        inverse *= 2 - (uint32_t)factor * inverse;
    good(work, tokenizer_new(work->host, &work->tokenizer));
    struct vocabulary *vocabulary = &work->tokenizer->vocabulary;
    char text[40];
    for (uint32_t i = 0; i < slots; i++)
        good(work, vocabulary_add(work->host, vocabulary,
                                  (struct piece){text, (size_t)snprintf(text, sizeof text, "%u;", i)}, i));
    work->pairs = calloc(n, sizeof *work->pairs);
    for (uint32_t i = 0; i < n; i++) {
        uint32_t *pair = work->pairs[i];
        pair[1] = i;
        pair[0] = (0u - (uint32_t)(i * factor >> 32)) * inverse & (slots - 1);
        const struct piece joined = {text, (size_t)snprintf(text, sizeof text, "%u;%u;", pair[0], pair[1])};
        good(work, vocabulary_add(work->host, vocabulary, joined, vocabulary->num_ids));
    }
    work->size = n;
}

static void read_merges(struct work *work)
{
    struct bpe bpe;
    const struct vocabulary *vocabulary = &work->tokenizer->vocabulary;
    good(work, bpe_init(work->host, &bpe, vocabulary, work->size));
    for (size_t i = 0; i < work->size; i++)
        good(work, bpe_add(work->host, &bpe, vocabulary, vocabulary_get(vocabulary, work->pairs[i][0]),
                           vocabulary_get(vocabulary, work->pairs[i][1])));
    bpe_free(work->host, &bpe);
}

/* The token "x" joins every number. */
static void make_merges_file(struct work *work, size_t n)
{
    char text[40];
    good(work, tokenizer_new(work->host, &work->tokenizer));
    struct vocabulary *vocabulary = &work->tokenizer->vocabulary;
    good(work, vocabulary_add(work->host, vocabulary, (struct piece){"x", 1}, 0));
    put_text(work, "#version: 0.2\n");
    for (size_t i = 0; i < n; i++) {
        size_t size = (size_t)snprintf(text, sizeof text, "x%zu", i);
        good(work,
             vocabulary_add(work->host, vocabulary, (struct piece){text + 1, size - 1}, vocabulary->num_ids));
        good(work, vocabulary_add(work->host, vocabulary, (struct piece){text, size}, vocabulary->num_ids));
        put_number(work, "x ", i, "\n");
    }
}

static void read_merges_file(struct work *work)
{
    good(work, merges_parse(work->host, work->text, work->size, work->tokenizer));
    bpe_free(work->host, &work->tokenizer->bpe);
    work->tokenizer->bpe = (struct bpe){.merges = NULL};
}

/* ---- tokenizers --------------------------------------------------------------------------------------- */

/* Makes the tokenizer of the text, which is then emptied for the text to encode. */
static void take_tokenizer(struct work *work)
{
    struct json *root;
    good(work, json_parse(work->host, work->text, work->size, &root));
    good(work, tokenizer_from_json(work->host, root, &work->tokenizer));
    json_free(root);
    work->size = 0;
}

static void encode(struct work *work, bool offsets)
{
    struct encoder *encoder;
    struct encoding encoding;
    good(work, encoder_new(work->host, work->tokenizer, &encoder));
    good(work, encoder_encode(encoder, (struct piece){work->text, work->size},
                              &(struct encode_options){.offsets = offsets}, &encoding));
    encoder_free(encoder);
}

static void read_text(struct work *work)
{
    encode(work, false);
}

static void read_offsets(struct work *work)
{
    encode(work, true);
}

/* One word, whose rest begins like a token as long as the word at every byte. */
static void make_wordpiece(struct work *work, size_t n)
{
    put_text(work,
             "{\"model\": {\"type\": \"WordPiece\", \"unk_token\": \"u\", \"continuing_subword_prefix\": "
             "\"##\", \"max_input_chars_per_word\": 1000000000, \"vocab\": {\"u\": 0, \"a\": 1, \"##a\": 2, "
             "\"##");
    put_repeated(work, "a", n);
    put_text(work, "b\": 3}}, \"pre_tokenizer\": {\"type\": \"BertPreTokenizer\"}}");
    take_tokenizer(work);
    put_repeated(work, "a", n);
}

#define BYTES(added)                                                                                         \
    "{\"model\": {\"type\": \"BPE\", \"vocab\": {\"a\": 0}, \"merges\": []}, \"pre_tokenizer\": "            \
    "{\"type\": \"ByteLevel\"}, \"added_tokens\": [" added

/* The text begins like an added token as long as the text at every byte; a shorter one is found there. */
static void make_added(struct work *work, size_t n)
{
    put_text(work, BYTES("{\"id\": 1, \"content\": \"aa\"}, {\"id\": 2, \"content\": \""));
    put_repeated(work, "a", n);
    put_text(work, "b\"}]}");
    take_tokenizer(work);
    put_repeated(work, "a", n);
}

/* The text can be cut nowhere, because it begins like a long added token at every place. */
static void make_cuts(struct work *work, size_t n)
{
    put_text(work, BYTES("{\"id\": 1, \"content\": \"1.1\"}, {\"id\": 2, \"content\": \""));
    put_repeated(work, "1.", n);
    put_text(work, "b\"}]}");
    take_tokenizer(work);
    put_repeated(work, "1.", 4 * n);
}

/* Each space is a token that takes all white space after it. */
static void make_spaces(struct work *work, size_t n)
{
    put_text(work, BYTES("{\"id\": 1, \"content\": \" \", \"rstrip\": true}]}"));
    take_tokenizer(work);
    put_repeated(work, " ", n);
}

/* Every byte is unknown, and the unknown token is long and blank. */
static void make_blanks(struct work *work, size_t n)
{
    put_text(work, "{\"model\": {\"type\": \"BPE\", \"unk_token\": \"");
    put_repeated(work, " ", n);
    put_text(work, "\", \"vocab\": {\"a\": 0, \"");
    put_repeated(work, " ", n);
    put_text(work,
             "\": 1}, \"merges\": []}, \"pre_tokenizer\": {\"type\": \"ByteLevel\"}, \"post_processor\": "
             "{\"type\": \"ByteLevel\", \"trim_offsets\": true}}");
    take_tokenizer(work);
    put_repeated(work, "z", n);
}

/* Many tokens that are found in normalized text. */
static void make_normalized(struct work *work, size_t n)
{
    put_text(work,
             "{\"model\": {\"type\": \"WordPiece\", \"unk_token\": \"u\", \"continuing_subword_prefix\": "
             "\"##\", \"max_input_chars_per_word\": 100, \"vocab\": {\"u\": 0}}, \"normalizer\": {\"type\": "
             "\"BertNormalizer\"}, \"pre_tokenizer\": {\"type\": \"BertPreTokenizer\"}, \"added_tokens\": [");
    work->ids = calloc(n, sizeof *work->ids);
    for (size_t i = 0; i < n; i++) {
        put_number(work, i == 0 ? "{\"content\": \"N" : ", {\"content\": \"N", i, "\", \"id\": ");
        put_number(work, "", i + 1, ", \"normalized\": true}");
        work->ids[i] = (uint32_t)(i + 1);
    }
    put_text(work, "]}");
    take_tokenizer(work);
    work->size = n;
}

static void decode(struct work *work)
{
    char *text;
    size_t size;
    good(work, tokenizer_decode(work->host, work->tokenizer, work->ids, work->size, false, &text, &size));
    memory_free(work->host, text);
}

/* One word without spaces. */
static void make_letters(struct work *work, size_t n)
{
    struct random random = random_open(random_key(7, RANDOM_DATA, 0));
    for (size_t i = 0; i < n; i++) {
        char letter = (char)('a' + random_below(&random, 4));
        put(work, &letter, 1);
    }
}

static void learn(struct work *work)
{
    struct word_counts counts = {.bytes = NULL};
    const struct learn_options options = {.vocab_size = VOCABULARY_MOST_IDS, .min_frequency = 1};
    struct tokenizer *tokenizer;
    good(work, word_counts_add(work->host, &counts, (struct piece){work->text, work->size}));
    good(work, learn_bpe(work->host, &counts, &options, &tokenizer));
    tokenizer_free(work->host, tokenizer);
    word_counts_free(work->host, &counts);
}

/* ---- files -------------------------------------------------------------------------------------------- */

static void put_tensors(struct work *work, const char *name, size_t n)
{
    uint64_t length;
    put(work, (const char *)&(uint64_t){0}, sizeof length);
    for (size_t i = 0; i < n; i++)
        put_number(work, i == 0 ? "{\"t" : ", \"t", i,
                   "\": {\"dtype\": \"F32\", \"shape\": [0], \"data_offsets\": [0, 0]}");
    put_text(work, "}");
    length = work->size - sizeof length;
    memcpy(work->text, &length, sizeof length);
    put_file(work, name);
}

static void make_shards(struct work *work, size_t n)
{
    put_tensors(work, "s", n);
    put_text(work, "{\"weight_map\": {");
    for (size_t i = 0; i < n; i++)
        put_number(work, i == 0 ? "\"t" : ", \"t", i, "\": \"s\"");
    put_text(work, "}}");
    put_file(work, "model.safetensors.index.json");
}

static void read_shards(struct work *work)
{
    struct weight_files weights;
    good(work, weight_files_open(work->host, work->folder->path, &weights));
    weight_files_close(work->host, &weights);
}

/* A model of n tensors, whose file has one more. */
static void make_model(struct work *work, size_t n)
{
    static const size_t shape[] = {0};
    size_t offset;
    put_tensors(work, "m.safetensors", n + 1);
    for (size_t i = 0; i < n; i++)
        good(work, params_add(work->host, &work->params, START_ZEROS, 0, &offset, 1, shape, "t%zu", i));
}

static void read_model(struct work *work)
{
    char path[LINEAR_PATH];
    const struct model_block block = {.prefix = ""};
    path_of(work, "m.safetensors", path);
    check_status(work->host, model_check_file(work->host, path, &work->params, &block, 1), HASHATTN_BAD_FILE,
                 "does not belong to this model");
}

static void make_columns(struct work *work, size_t n)
{
    put_text(work, "date");
    for (size_t i = 0; i < n; i++)
        put_number(work, ",c", 1000000 + i, ""); /* names of one size */
    for (int day = 1; day < 4; day++) {
        put_number(work, "\n2020-01-0", (size_t)day, "");
        put_repeated(work, ",1", n);
    }
    put_text(work, "\n");
    put_file(work, "t.csv");
}

static void read_series(struct work *work)
{
    char path[LINEAR_PATH];
    struct series series;
    path_of(work, "t.csv", path);
    good(work, series_read(
                   work->host, &(struct series_file){.path = path}, 1, FILE_FOUND,
                   &(struct series_choice){
                       .date = "date", .by = "", .target = "", .format = -1, .freq = "auto", .expected = ""},
                   &series));
    series_free(work->host, &series);
}

static void make_labels(struct work *work, size_t n)
{
    for (size_t i = 0; i < n; i++)
        for (int twice = 0; twice < 2; twice++) /* labels that occur once are refused */
            put_number(work, "label", i * 2654435761u % 10007, "\tword\n");
    put_file(work, "train.tsv");
}

static void read_labels(struct work *work)
{
    static const struct split_files files = {{"train", "valid", "test"}, document_endings, .pairs = false};
    const struct document_source source = {.files = &files, .rules = {.texts = {"text"}, .label = "label"}};
    const struct token_choice choice = {TOKENS_BYTES, 0, NULL};
    struct task_facts facts;
    good(work, documents_facts(work->host, &source, work->folder->path, &choice, 0, &facts));
    task_facts_free(work->host, &facts);
}

/* Settings and tokens that nobody reads. */
static void make_vocabulary_file(struct work *work, size_t n)
{
    for (size_t i = 0; i < n; i++)
        put_number(work, i == 0 ? "{\"k" : ", \"k", i, "\": [[], {}]");
    put_text(work, ", \"do_lower_case\": false}");
    put_file(work, "tokenizer_config.json");
    put_text(work, "[UNK]\n[CLS]\n[SEP]\n[PAD]\n[MASK]\n");
    for (size_t i = 0; i < n; i++)
        put_number(work, "##a", i, "\n");
    put_file(work, "vocab.txt");
    for (size_t i = 0; i < n; i++)
        put_number(work, i == 0 ? "{\"additional_special_tokens\": [\"<" : ", \"<", i, ">\"");
    put_text(work, "]}");
    put_file(work, "special_tokens_map.json");
    for (size_t i = 0; i < n; i++) {
        char entry[60];
        snprintf(entry, sizeof entry, "%s\"<%zu>\": %zu", i == 0 ? "{" : ", ", i, n + 5 + i);
        put_text(work, entry);
    }
    put_text(work, "}");
    put_file(work, "added_tokens.json");
}

static void read_wordpiece(struct work *work)
{
    struct tokenizer *tokenizer;
    good(work, tokenizer_read_wordpiece(work->host, work->folder->path, &tokenizer));
    tokenizer_free(work->host, tokenizer);
}

static void make_config(struct work *work, size_t n)
{
    put_text(work, "{\"model_type\": \"bert\", \"hidden_size\": 8, \"intermediate_size\": 12, "
                   "\"num_attention_heads\": 2, \"num_hidden_layers\": 2, \"vocab_size\": 24");
    for (size_t i = 0; i < n; i++)
        put_number(work, ", \"k", i, "\": [[], {}]");
    put_text(work, "}");
}

static void read_config(struct work *work)
{
    struct pretrained_config config;
    good(work, pretrained_config_parse(work->host, work->text, work->size, NULL, &config));
    pretrained_config_free(work->host, &config);
}

/* Every second line is broken. */
static void make_log(struct work *work, size_t n)
{
    for (size_t i = 0; i < n; i++)
        put_number(work, "{\"step\": ", i, ", \"loss\": 0.5}\n{\"step\": [[[\n");
}

/* The log is written again, because trimming leaves a shorter one. */
static void read_log(struct work *work)
{
    folder_put(work->folder, "log.jsonl", work->text, work->size);
    good(work, run_log_trim(work->host, work->folder->path, INT64_MAX));
}

/* ---- the comparison ----------------------------------------------------------------------------------- */

static const struct linear readers[] = {
    {"a vocabulary that collides", 32768, make_colliding, read_vocabulary},
    {"words that collide", 65536, make_words, read_word_counts},
    {"a cache of words that collide", 100000, make_words, read_word_cache},
    {"merges that collide", 8192, make_merges, read_merges},
    {"a file of merges", 16000, make_merges_file, read_merges_file},
    {"a word for WordPiece", 60000, make_wordpiece, read_text},
    {"added tokens", 80000, make_added, read_text},
    {"places to cut a text", 10000, make_cuts, read_text},
    {"white space of added tokens", 80000, make_spaces, read_text},
    {"blanks of an unknown token", 80000, make_blanks, read_offsets},
    {"ids of normalized tokens", 60000, make_normalized, decode},
    {"a word to learn from", 16000, make_letters, learn},
    {"an index of shards", 3000, make_shards, read_shards},
    {"tensors of a model", 3000, make_model, read_model},
    {"columns of a table", 20000, make_columns, read_series},
    {"labels", 8000, make_labels, read_labels},
    {"a vocabulary file with settings", 10000, make_vocabulary_file, read_wordpiece},
    {"config.json of a checkpoint", 4000, make_config, read_config},
    {"the log of a run", 20000, make_log, read_log},
};

static void time_grows_as_the_input(void **state)
{
    (void)state;
    linear_check_all(readers, sizeof readers / sizeof *readers);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(time_grows_as_the_input),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
