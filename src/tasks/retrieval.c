/* Retrieval: classifies pairs of documents by how they are related. Both go through the same encoder, and the
   classifier sees [a, b, a b, a - b] of their pooled rows; or both are one sequence, as BERT reads pairs
   (Devlin et al. 2019), so that tokens of one attend to those of the other. Files: train, valid and test,
   each .jsonl or .tsv, or the published files of the Long Range Arena's document matching task (Tay et al.
   2021), new_aan_pairs.train.tsv, .eval and .test: label, two names, two texts (documents.h has the format).
   The preset lra is that of the released YOSO configurations, which cut a document at 4,000 bytes of 4,096
   positions.
   SPDX-License-Identifier: Apache-2.0 */
#include "base/file.h"
#include "tasks/documents/documents.h"
#include "text/learning/learn_bpe.h"

struct retrieval_options {
    int tokens; /* enum token_kind */
    int64_t vocab_size, max_len;
    int join;
    struct document_options files;
};

#define FIELD(name) offsetof(struct retrieval_options, name)
static const struct option_row rows[] = {
    OPTION_ROW("tokens", OPTION_CHOICE, FIELD(tokens), TOKENS_BPE, 0, 0, token_kinds,
               "learn a byte-level BPE from the training file, or read words between white space, or bytes"),
    OPTION_ROW("vocab_size", OPTION_INT, FIELD(vocab_size), 16000, LEARN_LEAST, VOCABULARY_MOST_IDS - 1, NULL,
               "with bpe and words: most tokens in the vocabulary", .learning = true),
    OPTION_ROW("max_len", OPTION_INT, FIELD(max_len), 0, 0, 65536, NULL,
               "tokens read of each document, special ones included; longer documents are cut. 0: 1024, or "
               "4096 bytes"),
    OPTION_ROW("join", OPTION_FLAG, FIELD(join), 0, 0, 1, NULL,
               "read both documents as one sequence of at most max_len tokens, the second as segment 1, as "
               "BERT does; the longer one is cut first. With tokens bpe"),
    DOCUMENT_ROWS(struct retrieval_options),
    {.name = NULL},
};

static const char *const endings[] = {".jsonl", ".tsv", ".csv", NULL};
static const char *const tsv[] = {".tsv", NULL};
static const struct split_files own = {{"train", "valid", "test"}, endings, true, false, true};
static const struct split_files published = {
    {"new_aan_pairs.train", "new_aan_pairs.eval", "new_aan_pairs.test"}, tsv, true, false, false};

/* The published file names if the training file has one of them. */
static hashattn_status files_of(struct host *host, const char *directory, const struct split_files **files)
{
    char path[FILE_PATH];
    TRY(split_find(host, &published, directory, SPLIT_TRAIN, path, sizeof path));
    *files = path[0] != '\0' ? &published : &own;
    return HASHATTN_OK;
}

/* facts: NULL while they are not known. */
static hashattn_status source_of(struct host *host, const struct retrieval_options *retrieval,
                                 const struct task_facts *facts, struct document_source *source)
{
    *source = (struct document_source){
        .rules = {.pairs = true, .texts = {"text1", "text2"}, .label = "label"}, .joined = retrieval->join};
    FAIL_IF(retrieval->join && retrieval->tokens != TOKENS_BPE, host, HASHATTN_INVALID,
            "retrieval: `join` needs `tokens` bpe");
    return documents_source(host, &retrieval->files, facts, source);
}

static hashattn_status facts(struct host *host, const void *options, const char *directory,
                             struct tokenizer *given, struct task_facts *result)
{
    const struct retrieval_options *retrieval = options;
    struct document_source source;
    const struct token_choice choice = {(enum token_kind)retrieval->tokens, (size_t)retrieval->vocab_size,
                                        given};
    *result = (struct task_facts){0};
    TRY(source_of(host, retrieval, NULL, &source));
    TRY(files_of(host, directory, &source.files));
    return documents_facts(host, &source, directory, &choice, (size_t)retrieval->max_len, result);
}

static hashattn_status load(struct host *host, const void *options, const struct task_facts *facts,
                            const char *directory, enum split split, uint64_t seed, struct dataset *dataset)
{
    struct document_source source;
    *dataset = (struct dataset){0};
    TRY(source_of(host, options, facts, &source));
    TRY(files_of(host, directory, &source.files));
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

const struct task task_retrieval = {
    .name = "retrieval",
    .summary = "classify pairs of your own documents, or the document matching of the Long Range Arena",
    .options = rows,
    .options_size = sizeof(struct retrieval_options),
    .unread = UNREAD_BY_CLASSIFIERS,
    .preset = {SMALL_ENCODER, .steps = 2000, .batch = 8, .eval_every = 100, .warmup = 100,
               .learning_rate = 1e-3, .pooling = "mean", .attention = YOSO_BITS(9)},
    .presets =
        (const struct task_preset[]){{LRA_PRESET, .steps = 30000, .batch = 32, .eval_every = 300,
                                      .warmup = 800, .attention = YOSO_BITS(12), .task = "tokens=bytes"},
                                     {LRA_SMALL_PRESET, .steps = 1000, .warmup = 50, .learning_rate = 1e-3,
                                      .pooling = "first", .attention = YOSO_BITS(7),
                                      .task = "tokens=bytes max_len=64"},
                                     {.name = NULL}},
    .lone_files = true,
    .facts = facts,
    .load = load,
    .stream_file = stream_file,
    .stream_texts = stream_texts,
};
