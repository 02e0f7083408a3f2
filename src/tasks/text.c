/* Text: classifies documents of the user. Files: train, valid and test, each .jsonl, .tsv, .csv or a
   directory (document_files.h). Tokens are those of a BPE learned from the training file, words or bytes
   (tokens.h). Bytes without padding are the layout of the text task of the Long Range Arena (Tay et al.
   2021).
   SPDX-License-Identifier: Apache-2.0 */
#include "tasks/documents.h"
#include "text/learning/learn_bpe.h"

struct text_options {
    int tokens; /* enum token_kind */
    int64_t vocab_size, max_len;
    char text_column[OPTION_TEXT_SIZE], label_column[OPTION_TEXT_SIZE];
};

#define FIELD(name) offsetof(struct text_options, name)
static const char *const text_column[] = {"text", NULL}, *const label_column[] = {"label", NULL};
static const struct option_row rows[] = {
    {"tokens", OPTION_CHOICE, FIELD(tokens), TOKENS_BPE, 0, 0, token_kinds,
     "learn a byte-level BPE from the training file, or read words between white space, or bytes"},
    {"vocab_size", OPTION_INT, FIELD(vocab_size), 16000, LEARN_LEAST, VOCABULARY_MOST_IDS - 1, NULL,
     "with bpe and words: most tokens in the vocabulary"},
    {"max_len", OPTION_INT, FIELD(max_len), 0, 0, 65536, NULL,
     "tokens read of a document, special ones included; longer documents are cut. 0: 1024, or 4096 bytes"},
    {"text_column", OPTION_TEXT, FIELD(text_column), 0, 1, OPTION_TEXT_SIZE - 1, text_column,
     "column of .csv files, or key of .jsonl files, with the text"},
    {"label_column", OPTION_TEXT, FIELD(label_column), 0, 1, OPTION_TEXT_SIZE - 1, label_column,
     "column of .csv files, or key of .jsonl files, with the label"},
    {.name = NULL},
};

static const struct split_files files = {{"train", "valid", "test"}, document_endings, false, false};

static struct document_source source_of(const struct text_options *text)
{
    return (struct document_source){.files = &files,
                                    .rules = {.texts = {text->text_column}, .label = text->label_column}};
}

static hashattn_status facts(struct host *host, const void *options, const char *directory,
                             struct tokenizer *given, struct task_facts *result)
{
    const struct text_options *text = options;
    const struct document_source source = source_of(text);
    const struct token_choice choice = {(enum token_kind)text->tokens, (size_t)text->vocab_size, given};
    return documents_facts(host, &source, directory, &choice, (size_t)text->max_len, result);
}

static hashattn_status load(struct host *host, const void *options, const struct task_facts *facts,
                            const char *directory, enum split split, uint64_t seed, struct dataset *dataset)
{
    const struct document_source source = source_of(options);
    return documents_load(host, &source, facts, directory, split, seed, dataset);
}

static hashattn_status stream_file(struct host *host, const void *options, const struct task_facts *facts,
                                   const char *path, const struct dataset_stream *stream)
{
    const struct document_source source = source_of(options);
    return documents_stream(host, &source.rules, facts, path, stream);
}

const struct task task_text = {
    .name = "text",
    .summary = "classify your own documents (train.jsonl, .tsv, .csv or a directory)",
    .options = rows,
    .options_size = sizeof(struct text_options),
    .preset = {ENCODER(1, 64, 2, 128),
               .steps = 1000, /* tuned on the reviews of IMDb: docs/answers/language.md */
               .batch = 32, .eval_every = 100, .warmup = 100, .learning_rate = 3e-3, .pooling = "mean",
               .attention = YOSO_BITS(5), .model = "conv_window=3 dropout=0.3",
               .training = "weight_decay=0.1 beta2=0.98 epsilon=1e-5"},
    .presets =
        (const struct task_preset[]){{LRA_PRESET, .steps = 20000, .batch = 32, .eval_every = 500,
                                      .warmup = 8000, .attention = YOSO_BITS(12), .task = "tokens=bytes"},
                                     {LRA_SMALL_PRESET, .steps = 600, .warmup = 50, .learning_rate = 2e-3,
                                      .pooling = "first", .attention = YOSO_BITS(7),
                                      .task = "tokens=bpe vocab_size=4000 max_len=128"},
                                     {.name = NULL}},
    .facts = facts,
    .load = load,
    .stream_file = stream_file,
};
