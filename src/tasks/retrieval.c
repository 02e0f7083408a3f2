/* Retrieval: classifies pairs of documents by how they are related. Both go through the same encoder, and the
   classifier sees [a, b, a b, a - b] of their pooled rows. Files: train, valid and test, each .jsonl or .tsv,
   or the published files of the Long Range Arena's document matching task (Tay et al. 2021),
   new_aan_pairs.train.tsv, .eval and .test: label, two names, two texts (documents.h has the format). The
   preset lra is that of the released YOSO configurations, which cut a document at 4,000 bytes of 4,096
   positions. SPDX-License-Identifier: Apache-2.0 */
#include "base/file.h"
#include "tasks/documents.h"

struct retrieval_options {
    int64_t max_len;
};

static const struct option_row rows[] = {
    {"max_len", OPTION_INT, offsetof(struct retrieval_options, max_len), 4096, 1, 65536, NULL,
     "bytes read of each document; longer documents are cut"},
    {.name = NULL},
};

static const char *const endings[] = {".jsonl", ".tsv", NULL};
static const char *const tsv[] = {".tsv", NULL};
static const struct split_files own = {{"train", "valid", "test"}, endings, true, false};
static const struct split_files published = {
    {"new_aan_pairs.train", "new_aan_pairs.eval", "new_aan_pairs.test"}, tsv, true, false};

/* The published file names if the training file has one of them. */
static hashattn_status files_of(struct host *host, const char *directory, const struct split_files **files)
{
    char path[FILE_PATH];
    TRY(split_find(host, &published, directory, SPLIT_TRAIN, path, sizeof path));
    *files = path[0] != '\0' ? &published : &own;
    return HASHATTN_OK;
}

static hashattn_status facts(struct host *host, const void *options, const char *directory,
                             struct tokenizer *given, struct task_facts *result)
{
    (void)given; /* ids are not tokens */
    const struct retrieval_options *retrieval = options;
    const struct split_files *files;
    *result = (struct task_facts){0};
    TRY(files_of(host, directory, &files));
    return documents_facts(host, files, directory, (size_t)retrieval->max_len, result);
}

static hashattn_status load(struct host *host, const void *options, const struct task_facts *facts,
                            const char *directory, enum split split, uint64_t seed, struct dataset *dataset)
{
    (void)options; /* max_len is in the facts */
    const struct split_files *files;
    *dataset = (struct dataset){0};
    TRY(files_of(host, directory, &files));
    return documents_load(host, files, facts, directory, split, seed, dataset);
}

const struct task task_retrieval = {
    .name = "retrieval",
    .summary =
        "classify pairs of your own documents by their bytes, or the Long Range Arena's document matching",
    .options = rows,
    .options_size = sizeof(struct retrieval_options),
    .preset = {.steps = 2000,
               .batch = 8,
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
                                             .steps = 30000,
                                             .batch = 32,
                                             .eval_every = 300,
                                             .warmup = 800,
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
