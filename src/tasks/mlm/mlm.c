/* Masked language modelling (Devlin et al. 2019), with the order of two texts as a second objective (Devlin
   et al. 2019: next-sentence prediction; Lan et al. 2020: sentence order). The data are token files
   (token_file.h), written from texts by the data step (mlm_data.h), and the tokenizer that made their ids. A
   row whose id is hidden predicts it; which rows are hidden is drawn when a batch is packed
   (train/masking.h), so every epoch has other masks. Special tokens are never hidden.
   Cost: one pass over a mapped file to check it; then a step touches the pages of its examples only.
   SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "base/file.h"
#include "base/memory.h"
#include "tasks/dataset.h"
#include "tasks/mlm/mlm_data.h"
#include "tasks/mlm/token_file.h"
#include "text/tokenizer.h"

struct mlm_options {
    double mask_share;
};

static const struct option_row rows[] = {
    OPTION_ROW("mask_share", OPTION_REAL, offsetof(struct mlm_options, mask_share), 0.15, 0.01, 0.9, NULL,
               "share of the tokens that are hidden; of these 80 % become the mask, 10 % a random token"),
    {.name = NULL},
};

/* Labels by enum pair_order. */
static const char *const labels[][2] = {
    [ORDER_SOP] = {"in order", "swapped"}, [ORDER_NSP] = {"next", "random"}};

/* ---- facts --------------------------------------------------------------------------------------------- */

static hashattn_status check_tokenizer(struct host *host, const char *path, const struct token_header *header,
                                       const struct tokenizer *tokenizer)
{
    uint64_t hash = token_file_hash(tokenizer);
    FAIL_IF(header->num_ids != tokenizer_num_ids(tokenizer), host, HASHATTN_BAD_FILE,
            "%s was made with another tokenizer: it has %u ids, this one %zu", path, header->num_ids,
            tokenizer_num_ids(tokenizer));
    FAIL_IF(header->tokenizer != hash, host, HASHATTN_BAD_FILE,
            "%s was made with another tokenizer: the hash of its tokens is %016llx, that of this one %016llx",
            path, (unsigned long long)header->tokenizer, (unsigned long long)hash);
    return HASHATTN_OK;
}

/* The facts of a tokenizer and the header of a training file. *result takes the tokenizer. */
static hashattn_status facts_of(struct host *host, const struct token_header *header,
                                struct tokenizer *tokenizer, struct task_facts *result)
{
    bool ordered = header->order != ORDER_NONE;
    size_t num_ids = header->num_ids;
    struct task_facts found = {.vocab_size = num_ids, .max_len = header->seq_len};
    if (ordered)
        TRY(task_facts_new(host, num_ids, header->seq_len, labels[header->order], 2, &found));
    found.num_objectives = 0;
    found.num_segments = ordered ? 2 : 0;
    task_facts_add(&found, "masked_tokens", num_ids, 0);
    if (ordered)
        task_facts_add(&found, "classify", 2, 0);
    found.num_tokens = num_ids;
    found.tokenizer = tokenizer;
    *result = found;
    return HASHATTN_OK;
}

static hashattn_status facts(struct host *host, const void *options, const char *directory,
                             struct tokenizer *given, struct task_facts *result)
{
    (void)options;
    char path[FILE_PATH];
    struct token_header header;
    struct mlm_tokens tokens;
    struct tokenizer *tokenizer = given;
    *result = (struct task_facts){0};
    TRY(mlm_path(host, directory, SPLIT_TRAIN, path, sizeof path));
    FAIL_IF(
        !file_exists(path), host, HASHATTN_BAD_FILE,
        "%s has no train.tokens: make it from texts with hashattn data mlm FILE... --tokenizer DIR --out %s",
        directory, directory);
    TRY(token_file_header(host, path, &header));
    if (given == NULL)
        TRY(tokenizer_load(host, directory, &tokenizer));
    hashattn_status status = check_tokenizer(host, path, &header, tokenizer);
    if (status == HASHATTN_OK)
        status = mlm_tokens_find(host, tokenizer, &tokens);
    if (status == HASHATTN_OK)
        status = facts_of(host, &header, tokenizer, result);
    if (status != HASHATTN_OK && tokenizer != given)
        tokenizer_free(host, tokenizer);
    return status;
}

/* ---- load ---------------------------------------------------------------------------------------------- */

static hashattn_status make_rules(struct host *host, const struct mlm_options *options,
                                  const struct tokenizer *tokenizer, struct mask_rules *rules)
{
    struct mlm_tokens tokens;
    size_t num_ids = tokenizer_num_ids(tokenizer), open = 0;
    void *block;
    TRY(mlm_tokens_find(host, tokenizer, &tokens));
    TRY(memory_new_zeroed(host, num_ids, 1, "special tokens", &block));
    *rules = (struct mask_rules){
        .share = options->mask_share, .mask_id = tokens.mask, .num_ids = num_ids, .fixed = block};
    for (size_t id = 0; id < num_ids; id++) {
        bool is_token = tokenizer_token(tokenizer, (uint32_t)id).bytes != NULL;
        rules->fixed[id] = !is_token || tokenizer_is_special(tokenizer, (uint32_t)id);
        open += rules->fixed[id] == 0;
    }
    rules->fixed[tokens.start] = rules->fixed[tokens.end] = rules->fixed[tokens.mask] = 1;
    FAIL_IF(open == 0, host, HASHATTN_BAD_FILE, "all %zu tokens of the tokenizer are special", num_ids);
    return HASHATTN_OK;
}

/* The order that the facts were read with. */
static bool has_order(const struct task_facts *facts, uint32_t order)
{
    if (order == ORDER_NONE)
        return facts->num_classes == 0;
    return facts->num_classes == 2 && strcmp(facts->labels[0], labels[order][0]) == 0;
}

static hashattn_status check_facts(struct host *host, const char *path, const struct token_header *header,
                                   const struct task_facts *facts)
{
    FAIL_IF(header->seq_len > facts->max_len, host, HASHATTN_BAD_FILE,
            "%s has examples of up to %u tokens, the model takes %zu", path, header->seq_len, facts->max_len);
    FAIL_IF(!has_order(facts, header->order), host, HASHATTN_BAD_FILE,
            "%s has order %s, the model was made for %s", path, mlm_orders[header->order],
            has_order(facts, ORDER_SOP)   ? mlm_orders[ORDER_SOP]
            : has_order(facts, ORDER_NSP) ? mlm_orders[ORDER_NSP]
                                          : mlm_orders[ORDER_NONE]);
    return check_tokenizer(host, path, header, facts->tokenizer);
}

static hashattn_status load(struct host *host, const void *options, const struct task_facts *facts,
                            const char *directory, enum split split, uint64_t seed, struct dataset *dataset)
{
    (void)seed; /* the data step has drawn the splits */
    char path[FILE_PATH];
    struct token_header header;
    *dataset = (struct dataset){0};
    TRY(mlm_path(host, directory, split, path, sizeof path));
    dataset->absent = !file_exists(path);
    FAIL_IF(dataset->absent, host, HASHATTN_BAD_FILE, "%s has no %s.tokens", directory, split_name(split));
    TRY(token_file_map(host, path, &header, dataset));
    hashattn_status status = check_facts(host, path, &header, facts);
    if (status == HASHATTN_OK)
        status = make_rules(host, options, facts->tokenizer, &dataset->masks);
    if (status != HASHATTN_OK)
        dataset_free(host, dataset);
    return status;
}

/* BERT's blocks, initial values and pooler. */
#define BERT_MODEL    "norm=post classifier=tanh scale_words=false initial_std=0.02 dropout=0.1"
#define BERT_TRAINING "schedule=linear weight_decay=0.01"

const struct task task_mlm = {
    .name = "mlm",
    .summary = "predict hidden tokens, and the order of two texts (pretraining on token files of data mlm)",
    .options = rows,
    .options_size = sizeof(struct mlm_options),
    .unread = "decoder_layers distil cutoffs div_value class_weight",
    .preset = {ENCODER(2, 128, 2, 512), .steps = 2000, .batch = 32, .eval_every = 200, .warmup = 200,
               .learning_rate = 1e-3, .pooling = "first", .attention = YOSO_BITS(7), .model = BERT_MODEL,
               .training = BERT_TRAINING},
    .presets =
        (const struct task_preset[]){{ENCODER(12, 768, 12, 3072), .name = "bert", .steps = 1000000,
                                      .batch = 256, .eval_every = 1000, .warmup = 10000,
                                      .learning_rate = 1e-4, .pooling = "first", .attention = YOSO_BITS(9),
                                      .model = BERT_MODEL, .training = BERT_TRAINING},
                                     {.name = NULL}},
    .prepare_options = mlm_data_rows,
    .prepare_options_size = sizeof(struct mlm_data_options),
    .prepare = mlm_prepare,
    .facts = facts,
    .load = load,
};
