/* Language modelling: predicts the next token of a text. Plain text files in the layout of WikiText (Merity
   et al. 2016): DIR/wiki.train.tokens, .valid and .test as published, or train.txt, valid.txt and test.txt.
   One file in place of DIR is the training file; `eval` reads another one as a whole. Three vocabularies.
   bytes: a token is a byte + 1, line ends included; any file will do. words: words of the training file
   (words.h), <eos> at the end of every line, <unk> for unknown words. bpe: tokens of a byte-level BPE learned
   from the training file, line by line with line ends, of any file; or those of a stored model that training
   starts from. A split is one run of tokens, cut into segments of seq_len. The model reads the tokens of a
   segment and predicts the token after each; the target of the last is the first token of the next segment,
   so every token but the file's first is a target once. A segment does not see the text before it, so its
   first tokens are predicted from little context. The last segment may be shorter. Missing valid and test
   files are replaced by the last tenths of the training file's segments, in the order train, test, valid; the
   vocabulary is that of the whole file. Cost: one pass over a file, and another for its words.
   SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "base/file.h"
#include "base/memory.h"
#include "io/line_blocks.h"
#include "tasks/dataset.h"
#include "tasks/running_text.h"
#include "tasks/tokens.h"
#include "tasks/words.h"
#include "text/learning/learn_bpe.h"

enum vocabulary_kind { VOCABULARY_BYTES, VOCABULARY_WORDS, VOCABULARY_BPE };
static const char *const vocabularies[] = {"bytes", "words", "bpe", NULL};

struct lm_options {
    int vocabulary; /* enum vocabulary_kind */
    int64_t seq_len, max_words;
};

#define FIELD(name) offsetof(struct lm_options, name)
static const struct option_row rows[] = {
    OPTION_ROW("vocabulary", OPTION_CHOICE, FIELD(vocabulary), VOCABULARY_BYTES, 0, 0, vocabularies,
               "a token is a byte, a word between white space, or a token of a byte-level BPE learned from "
               "the training file"),
    OPTION_ROW("seq_len", OPTION_INT, FIELD(seq_len), 256, 1, 65536, NULL,
               "tokens per segment; a prediction sees only its own segment"),
    OPTION_ROW("max_words", OPTION_INT, FIELD(max_words), 65535, 2, WORDS_MOST, NULL,
               "with words: size of the vocabulary, which is <unk>, <eos> and the most frequent words of the "
               "training file; with bpe: its largest number of tokens"),
    {.name = NULL},
};

static const char *const published_endings[] = {".tokens", NULL}, *const own_endings[] = {".txt", NULL};
static const struct split_files published = {
    .stems = {"wiki.train", "wiki.valid", "wiki.test"}, .endings = published_endings, .one_text = true};
static const struct split_files own = {
    .stems = {"train", "valid", "test"}, .endings = own_endings, .one_text = true, .lone = true};

/* The published names if the training file has one of them. */
static hashattn_status files_of(struct host *host, const char *directory, const struct split_files **files)
{
    char path[FILE_PATH];
    TRY(split_find(host, &published, directory, SPLIT_TRAIN, path, sizeof path));
    *files = path[0] != '\0' ? &published : &own;
    return HASHATTN_OK;
}

/* ---- facts -------------------------------------------------------------------------------------------- */

static hashattn_status learn_words(struct host *host, const struct lm_options *lm, const char *path,
                                   struct task_facts *found)
{
    char *text;
    size_t size;
    TRY(file_read_regular(host, path, FILE_MOST, &text, &size));
    hashattn_status status = words_count(host, text, size, (size_t)lm->max_words, &found->words);
    memory_free(host, text);
    if (status != HASHATTN_OK)
        host_prefix(host, path);
    TRY(status);
    found->num_words = found->words->count;
    found->vocab_size = found->num_words + 1;
    return HASHATTN_OK;
}

static hashattn_status learn_bpe_of(struct host *host, const struct lm_options *lm, struct tokenizer *given,
                                    const char *path, struct task_facts *found)
{
    const struct token_choice choice = {TOKENS_BPE, (size_t)lm->max_words, given};
    struct word_counts counts = {.bytes = NULL};
    FAIL_IF(given == NULL && lm->max_words < LEARN_LEAST, host, HASHATTN_INVALID,
            "lm: `max_words` is %lld, a bpe has at least %d tokens", (long long)lm->max_words, LEARN_LEAST);
    hashattn_status status =
        given == NULL ? word_counts_add_file(host, &counts, path, FILE_FOUND) : HASHATTN_OK;
    if (status == HASHATTN_OK)
        status = tokens_learn(host, &choice, &counts, found);
    word_counts_free(host, &counts);
    return status;
}

static hashattn_status facts(struct host *host, const void *options, const char *directory,
                             struct tokenizer *given, struct task_facts *result)
{
    const struct lm_options *lm = options;
    const struct split_files *files;
    char path[FILE_PATH];
    *result = (struct task_facts){0};
    FAIL_IF(
        given != NULL && lm->vocabulary == VOCABULARY_WORDS, host, HASHATTN_INVALID,
        "`vocabulary` is words, but the stored model has a tokenizer of its own, which determines its ids");
    TRY(files_of(host, directory, &files));
    TRY(split_find_train(host, files, directory, path, sizeof path));
    struct task_facts found = {.vocab_size = RUNNING_BYTES_VOCAB, .max_len = (size_t)lm->seq_len};
    size_t first = RUNNING_FIRST_ID;
    if (given != NULL || lm->vocabulary == VOCABULARY_BPE) {
        TRY(learn_bpe_of(host, lm, given, path, &found));
        first = 0;
    } else if (lm->vocabulary == VOCABULARY_WORDS) {
        TRY(learn_words(host, lm, path, &found));
    } else {
        found.bytes = true;
    }
    task_facts_add(&found, "next_token", found.vocab_size - first, first);
    *result = found;
    return HASHATTN_OK;
}

/* ---- segments ----------------------------------------------------------------------------------------- */

/* The segment being filled: its tokens and the first token of the next one. */
struct segment {
    const struct task_facts *facts;
    struct dataset_builder *builder;
    size_t row, count; /* its index among the rows, room for max_len + 1 */
};

static hashattn_status push_token(struct host *host, void *context, uint32_t token)
{
    struct segment *segment = context;
    const struct dataset *dataset = &segment->builder->dataset;
    size_t full = segment->facts->max_len + 1;
    if (segment->count == full) {
        uint32_t last = dataset->ids[segment->row + full - 1];
        dataset_push(segment->builder, full, false);
        TRY(dataset_reserve(host, segment->builder, full, &segment->row));
        dataset->ids[segment->row] = last;
        segment->count = 1;
    } else if (segment->count == 0) {
        TRY(dataset_reserve(host, segment->builder, full, &segment->row));
    }
    dataset->ids[segment->row + segment->count++] = token;
    return HASHATTN_OK;
}

static hashattn_status push_line(struct host *host, void *context, struct piece line, size_t number)
{
    (void)number;
    const struct segment *segment = context;
    TRY(running_words(host, segment->facts->words, line, push_token, context));
    return push_token(host, context, WORDS_END);
}

static hashattn_status push_bytes(struct host *host, const char *path, struct segment *segment)
{
    char *bytes;
    size_t size;
    TRY(file_read_regular(host, path, FILE_MOST, &bytes, &size));
    hashattn_status status = HASHATTN_OK;
    for (size_t i = 0; i < size && status == HASHATTN_OK; i++)
        status = push_token(host, segment, RUNNING_FIRST_ID + (unsigned char)bytes[i]);
    memory_free(host, bytes);
    return status;
}

static hashattn_status push_tokens(struct host *host, const char *path, struct segment *segment)
{
    struct line_blocks blocks;
    struct encoder *encoder = NULL;
    struct piece block;
    TRY(line_blocks_open(host, path, FILE_FOUND, &blocks));
    hashattn_status status = encoder_new(host, segment->facts->tokenizer, &encoder);
    do {
        if (status == HASHATTN_OK)
            status = line_blocks_next(host, &blocks, &block);
        if (status == HASHATTN_OK)
            status = running_tokens(host, encoder, block, push_token, segment);
    } while (status == HASHATTN_OK && block.size > 0);
    encoder_free(encoder);
    line_blocks_close(host, &blocks);
    return status;
}

static hashattn_status read_file(struct host *host, const void *context, const char *path,
                                 struct dataset_builder *builder)
{
    struct segment segment = {.facts = context, .builder = builder};
    if (segment.facts->tokenizer != NULL)
        TRY(push_tokens(host, path, &segment));
    else if (segment.facts->words != NULL)
        TRY(file_each_line(host, path, FILE_FOUND, push_line, &segment));
    else
        TRY(push_bytes(host, path, &segment));
    FAIL_IF(segment.count < 2 && builder->dataset.count == 0, host, HASHATTN_BAD_FILE,
            "%s has %zu token%s, at least 2 are needed", path, segment.count, segment.count == 1 ? "" : "s");
    if (segment.count > 1) /* a single token was a target of the segment before */
        dataset_push(builder, segment.count, false);
    return HASHATTN_OK;
}

static hashattn_status load(struct host *host, const void *options, const struct task_facts *facts,
                            const char *directory, enum split split, uint64_t seed, struct dataset *dataset)
{
    (void)options; /* the facts hold their effect */
    const struct split_files *files;
    *dataset = (struct dataset){0};
    TRY(files_of(host, directory, &files));
    const struct dataset shape = {.next = true, .num_targets = 1, .targets = {{.kind = TARGETS_NEXT}}};
    TRY(split_load(host, files, facts, directory, split, seed, &shape, read_file, facts, dataset));
    for (size_t s = 0; facts->words != NULL && s < dataset->count; s++)
        for (size_t at = dataset->offsets[s] + 1; at < dataset->offsets[s + 1]; at++)
            dataset->num_unknown += dataset->ids[at] == WORDS_UNKNOWN;
    return HASHATTN_OK;
}

const struct task task_lm = {
    .name = "lm",
    .summary = "predict the next byte, word or token of a text (a file, train.txt, or WikiText's files)",
    .options = rows,
    .options_size = sizeof(struct lm_options),
    .unread = "decoder_layers distil pooling classifier class_weight",
    .preset = {ENCODER(4, 128, 4, 512), .steps = 2000, .batch = 16, .eval_every = 200, .warmup = 100,
               .learning_rate = 2e-3, .pooling = "mean", .causal = true, .attention = YOSO_BITS(6)},
    /* The released language model of LHA (Sun et al. 2022, section 4.1, row (d) of table 1) and its settings
       for WikiText-103. Neither the paper nor the code gives clipping and weight decay. Released buckets are
       N / 384, local keys 3 x 128. */
    .presets =
        (const struct task_preset[]){
            {ENCODER(16, 410, 10, 2100), .name = "lha-lm", .steps = 20000, .batch = 32, .eval_every = 1000,
             .warmup = 2000, .learning_rate = 3.5e-4, .pooling = "mean", .causal = true, .plan = "local,lha",
             .attention = "local.relative=true local.block_size=128 "
                          "lha.num_buckets=4 " YOSO_BITS(6),
             .model = "activation=relu attention_biases=false norm=post "
                      "norm_epsilon=1e-6 positions=layered dropout=0.2 "
                      "initial_std=0.02",
             .training = "schedule=cosine", .task = "vocabulary=words max_words=1048575 seq_len=1536"},
            {.name = NULL}},
    .lone_files = true,
    .facts = facts,
    .load = load,
};
