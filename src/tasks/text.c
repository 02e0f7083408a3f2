/* Text: classifies documents of the user by their bytes. Files: train, valid and test, each .jsonl or .tsv
   (documents.h has the format). The layout is that of the byte-level text task of the Long Range Arena (Tay
   et al. 2021), without its padding. SPDX-License-Identifier: Apache-2.0 */
#include "tasks/documents.h"

struct text_options {
    int64_t max_len;
};

static const struct option_row rows[] = {
    {"max_len", OPTION_INT, offsetof(struct text_options, max_len), 4096, 1, 65536, NULL,
     "bytes read of a document; longer documents are cut"},
    {.name = NULL},
};

static const char *const endings[] = {".jsonl", ".tsv", NULL};
static const struct split_files files = {{"train", "valid", "test"}, endings, false, false};

static hashattn_status facts(struct host *host, const void *options, const char *directory,
                             struct tokenizer *given, struct task_facts *result)
{
    (void)given; /* ids are not tokens */
    const struct text_options *text = options;
    return documents_facts(host, &files, directory, (size_t)text->max_len, result);
}

static hashattn_status load(struct host *host, const void *options, const struct task_facts *facts,
                            const char *directory, enum split split, uint64_t seed, struct dataset *dataset)
{
    (void)options; /* max_len is in the facts */
    return documents_load(host, &files, facts, directory, split, seed, dataset);
}

const struct task task_text = {
    .name = "text",
    .summary = "classify your own documents by their bytes (train.jsonl or train.tsv)",
    .options = rows,
    .options_size = sizeof(struct text_options),
    .preset = {.steps = 2000,
               .batch = 16,
               .eval_every = 100,
               .warmup = 100,
               .learning_rate = 1e-3,
               .layers = 2,
               .dim = 64,
               .heads = 2,
               .ffn = 128,
               .pooling = "mean",
               .attention = "hash_bits=9"},
    .presets = (const struct task_preset[]){{.name = "lra",
                                             .steps = 20000,
                                             .batch = 32,
                                             .eval_every = 500,
                                             .warmup = 8000,
                                             .learning_rate = 1e-4,
                                             .layers = 2,
                                             .dim = 64,
                                             .heads = 2,
                                             .ffn = 128,
                                             .pooling = "mean-padded",
                                             .attention = "hash_bits=12",
                                             .model = LRA_MODEL,
                                             .training = LRA_TRAINING},
                                            {.name = NULL}},
    .facts = facts,
    .load = load,
    .load_file = documents_load_file,
};
