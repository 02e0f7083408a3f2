/* Text: classifies documents of the user. Files: train, valid and test, each .jsonl, .tsv, .csv or a
   directory (document_files.h). Tokens are those of a BPE learned from the training file, words or bytes
   (tokens.h). Bytes without padding are the layout of the text task of the Long Range Arena (Tay et al.
   2021).
   SPDX-License-Identifier: Apache-2.0 */
#include "tasks/documents/documents.h"
#include "text/learning/learn_bpe.h"

struct text_options {
    int tokens; /* enum token_kind */
    int64_t vocab_size, max_len;
    int cut;        /* enum text_cut */
    int label_type; /* LABELS_CLASS or LABELS_NUMBER */
    int multi_label;
    struct document_options files;
    char text_column[OPTION_TEXT_SIZE], label_column[OPTION_TEXT_SIZE];
};

#define FIELD(name) offsetof(struct text_options, name)
static const char *const label_types[] = {"class", "number", NULL};
static const char *const text_column[] = {"text", NULL}, *const label_column[] = {"label", NULL};
static const struct option_row rows[] = {
    OPTION_ROW("tokens", OPTION_CHOICE, FIELD(tokens), TOKENS_BPE, 0, 0, token_kinds,
               "learn a byte-level BPE from the training file, or read words between white space, or bytes"),
    OPTION_ROW("vocab_size", OPTION_INT, FIELD(vocab_size), 16000, LEARN_LEAST, VOCABULARY_MOST_IDS - 1, NULL,
               "with bpe and words: most tokens in the vocabulary", .learning = true),
    OPTION_ROW(
        "max_len", OPTION_INT, FIELD(max_len), 0, 0, 65536, NULL,
        "tokens read of a document, special ones included; longer documents are cut. 0: 1024, or 4096 bytes"),
    OPTION_ROW("cut", OPTION_CHOICE, FIELD(cut), CUT_END, 0, 0, text_cuts,
               "what a longer document loses: its end, or its middle, so that a quarter of max_len is its "
               "beginning and the rest its end (Sun et al. 2019)"),
    OPTION_ROW("text_column", OPTION_TEXT, FIELD(text_column), 0, 1, OPTION_TEXT_SIZE - 1, text_column,
               "column of .csv and .tsv files, or key of .jsonl files, with the text"),
    OPTION_ROW("label_column", OPTION_TEXT, FIELD(label_column), 0, 1, OPTION_TEXT_SIZE - 1, label_column,
               "column of .csv and .tsv files, or key of .jsonl files, with the label"),
    OPTION_ROW("label_type", OPTION_CHOICE, FIELD(label_type), LABELS_CLASS, 0, 0, label_types,
               "labels are names of classes, or numbers to predict"),
    OPTION_ROW("multi_label", OPTION_FLAG, FIELD(multi_label), 0, 0, 1, NULL,
               "a document has any number of labels: words between commas, or in .jsonl an array of words"),
    DOCUMENT_ROWS(struct text_options),
    {.name = NULL},
};

static const struct split_files files = {{"train", "valid", "test"}, document_endings, false, false, true};

/* facts: NULL while they are not known. */
static hashattn_status source_of(struct host *host, const struct text_options *text,
                                 const struct task_facts *facts, struct document_source *source)
{
    FAIL_IF(text->multi_label && text->label_type == LABELS_NUMBER, host, HASHATTN_INVALID,
            "text: `multi_label` needs `label_type` class");
    *source = (struct document_source){.files = &files,
                                       .labels = text->multi_label ? LABELS_MANY
                                                                   : (enum label_kind)text->label_type,
                                       .cut = (enum text_cut)text->cut,
                                       .rules = {.texts = {text->text_column},
                                                 .label = text->label_column,
                                                 .label_list = text->multi_label,
                                                 .label_number = text->label_type == LABELS_NUMBER}};
    return documents_source(host, &text->files, facts, source);
}

static hashattn_status facts(struct host *host, const void *options, const char *directory,
                             struct tokenizer *given, struct task_facts *result)
{
    const struct text_options *text = options;
    const struct token_choice choice = {(enum token_kind)text->tokens, (size_t)text->vocab_size, given};
    struct document_source source;
    *result = (struct task_facts){0};
    TRY(source_of(host, text, NULL, &source));
    return documents_facts(host, &source, directory, &choice, (size_t)text->max_len, result);
}

static hashattn_status load(struct host *host, const void *options, const struct task_facts *facts,
                            const char *directory, enum split split, uint64_t seed, struct dataset *dataset)
{
    struct document_source source;
    *dataset = (struct dataset){0};
    TRY(source_of(host, options, facts, &source));
    return documents_load(host, &source, facts, directory, split, seed, dataset);
}

static hashattn_status stream_file(struct host *host, const void *options, const struct task_facts *facts,
                                   const char *path, const struct dataset_stream *stream)
{
    struct document_source source;
    TRY(source_of(host, options, facts, &source));
    return documents_stream(host, &source, facts, path, stream);
}

static hashattn_status stream_texts(struct host *host, const void *options, const struct task_facts *facts,
                                    const struct given_texts *texts, const struct dataset_stream *stream)
{
    struct document_source source;
    TRY(source_of(host, options, facts, &source));
    return documents_stream_texts(host, &source, facts, texts, stream);
}

const struct task task_text = {
    .name = "text",
    .summary = "classify your own documents (train.jsonl, .tsv, .csv or a directory)",
    .options = rows,
    .options_size = sizeof(struct text_options),
    .unread = UNREAD_BY_CLASSIFIERS,
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
    .lone_files = true,
    .fine_tunes = true,
    .facts = facts,
    .load = load,
    .stream_file = stream_file,
    .stream_texts = stream_texts,
};
