/* Texts are read in blocks of sections, a block is encoded (block_encoding.h) and then packed
   (block_packing.h), and what every split must have is checked before any file appears.
   SPDX-License-Identifier: Apache-2.0 */
#include "tasks/mlm/mlm_data.h"

#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "base/file.h"
#include "base/memory.h"
#include "tasks/dataset.h"
#include "tasks/mlm/block_packing.h"
#include "text/files/tokenizer_json.h"
#include "text/tokenizer.h"

const char *const mlm_orders[] = {"none", "sop", "nsp", NULL};
static const char *const order_choices[] = {"none", "sop", "nsp", "auto", NULL};
static const char *const document_rules[] = {"blank-lines", "file", NULL};

#define FIELD(name) offsetof(struct mlm_data_options, name)
const struct option_row mlm_data_rows[] = {
    OPTION_ROW("seq_len", OPTION_INT, FIELD(seq_len), 128, 5, TOKEN_FILE_MOST, NULL,
               "tokens of the longest example, special tokens included"),
    OPTION_ROW("order", OPTION_CHOICE, FIELD(order), ORDER_AUTO, 0, 0, order_choices,
               "what is learned about two texts: sop (were they swapped), nsp (is the second from elsewhere) "
               "or none, for examples of one text; auto is sop, with long none"),
    OPTION_ROW("long", OPTION_FLAG, FIELD(whole), 0, 0, 1, NULL,
               "cut whole documents into pieces of seq-len, which have no order"),
    OPTION_ROW("documents", OPTION_CHOICE, FIELD(documents), DOCUMENTS_BLANK_LINES, 0, 0, document_rules,
               "what a document of a .txt file is: lines up to a blank line, each a sentence, or the whole "
               "file, with wrapped lines"),
    OPTION_ROW("duplicates", OPTION_INT, FIELD(duplicates), 1, 1, 1000, NULL,
               "how often the training documents are packed, with new draws each time"),
    OPTION_ROW("valid_share", OPTION_REAL, FIELD(valid_share), 0.05, 0, 0.5, NULL,
               "share of the documents drawn for validation if --valid is not given"),
    OPTION_ROW("test_share", OPTION_REAL, FIELD(test_share), 0, 0, 0.5, NULL,
               "share of the documents drawn for the test if --test is not given"),
    {.name = NULL},
};

hashattn_status mlm_path(struct host *host, const char *directory, enum split split, char *path, size_t size)
{
    char name[32];
    snprintf(name, sizeof name, "%s.tokens", split_name(split));
    return file_join(host, directory, name, path, size);
}

hashattn_status mlm_tokens_find(struct host *host, const struct tokenizer *tokenizer,
                                struct mlm_tokens *tokens)
{
    const struct {
        enum token_role role;
        const char *names;
        uint32_t *id;
    } needed[] = {{TOKEN_START, "[CLS] or <s>", &tokens->start},
                  {TOKEN_END, "[SEP] or </s>", &tokens->end},
                  {TOKEN_MASK, "[MASK] or <mask>", &tokens->mask}};
    char missing[100] = "";
    for (size_t i = 0; i < sizeof needed / sizeof *needed; i++) {
        size_t used = strlen(missing);
        if (!tokenizer_role(tokenizer, needed[i].role, needed[i].id))
            snprintf(missing + used, sizeof missing - used, "%s%s", used == 0 ? "" : ", ", needed[i].names);
    }
    FAIL_IF(missing[0] != '\0', host, HASHATTN_INVALID,
            "the tokenizer has no token %s, which pretraining needs", missing);
    return HASHATTN_OK;
}

/* Bytes of a section: few for short texts, so that splits can be drawn and threads have work, but never less
   than some ten examples. */
enum { SECTION_MOST = 1 << 16, SECTIONS_LEAST = 256 };

struct job {
    struct host *host;
    const struct mlm_data_options *options;
    const struct task_sources *sources;
    struct task_prepared *prepared;
    struct mlm_tokens tokens;
    struct section_block block;
    struct block_encoder encoder;
    struct block_packer packer;
    struct token_writer writers[SPLIT_COUNT];
    bool open[SPLIT_COUNT];
    uint64_t done, total; /* bytes of text */
};

/* ---- reading ------------------------------------------------------------------------------------------- */

static hashattn_status convert(struct job *job, enum split files, const char *const *paths, size_t num_paths)
{
    struct host *host = job->host;
    const struct task_sources *sources = job->sources;
    size_t least = 32 * (size_t)job->options->seq_len, most = size_max(SECTION_MOST, least);
    size_t section = job->total == 0 ? most : size_max(least, size_min(most, job->total / SECTIONS_LEAST));
    uint64_t before = job->done;
    struct section_reader reader;
    TRY(section_reader_open(host, paths, num_paths, (enum document_rule)job->options->documents, section,
                            &reader));
    hashattn_status status;
    block_packer_begin_files(&job->packer);
    for (;;) {
        TRY_DONE(section_reader_next(&reader, &job->block));
        if (job->block.count == 0)
            break;
        TRY_DONE(block_encode(host, &job->encoder, &job->block, job->packer.now));
        TRY_DONE(block_pack(&job->packer, files));
        job->done = before + reader.bytes;
        if (sources->progress != NULL && sources->progress(sources->user, job->done, job->total)) {
            status = host_fail(host, HASHATTN_INTERRUPTED, "stopped after %llu of %llu bytes of text",
                               (unsigned long long)job->done, (unsigned long long)job->total);
            goto done;
        }
    }
    if (job->packer.waiting)
        status = host_fail(host, HASHATTN_INVALID,
                           "`order` nsp takes texts from other documents, and there is one document among "
                           "%llu bytes of text; two are needed",
                           (unsigned long long)reader.bytes);
done:
    section_reader_close(&reader);
    return status;
}

static uint64_t bytes_of(const char *path)
{
    struct stat facts;
    return path != NULL && stat(path, &facts) == 0 && S_ISREG(facts.st_mode) ? (uint64_t)facts.st_size : 0;
}

static hashattn_status convert_all(struct job *job)
{
    const struct task_sources *sources = job->sources;
    for (size_t i = 0; i < sources->num_files; i++)
        job->total += bytes_of(sources->files[i]);
    job->total += bytes_of(sources->valid) + bytes_of(sources->test);
    TRY(convert(job, SPLIT_TRAIN, sources->files, sources->num_files));
    if (sources->valid != NULL)
        TRY(convert(job, SPLIT_VALID, &sources->valid, 1));
    if (sources->test != NULL)
        TRY(convert(job, SPLIT_TEST, &sources->test, 1));
    return HASHATTN_OK;
}

/* ---- writing ------------------------------------------------------------------------------------------- */

/* What each split must have: a training set and a validation set, and whatever was asked for. */
static hashattn_status check_counts(struct job *job)
{
    const struct task_sources *sources = job->sources;
    const char *const given[SPLIT_COUNT] = {NULL, sources->valid, sources->test};
    const double shares[SPLIT_COUNT] = {1, job->options->valid_share, job->options->test_share};
    job->prepared->documents = job->packer.documents;
    job->prepared->dropped = job->packer.dropped;
    for (enum split split = 0; split < SPLIT_COUNT; split++) {
        job->prepared->examples[split] = job->writers[split].header.num_examples;
        job->prepared->tokens[split] = job->writers[split].header.num_tokens;
        if (job->prepared->examples[split] > 0)
            continue;
        FAIL_IF(split == SPLIT_TRAIN || given[split] != NULL, job->host, HASHATTN_BAD_FILE,
                "%.300s: no document has two tokens",
                given[split] == NULL ? sources->files[0] : given[split]);
        FAIL_IF(split == SPLIT_VALID || shares[split] > 0, job->host, HASHATTN_INVALID,
                "none of the %zu documents was drawn for %s, with a share of %g: give a file for it, or more "
                "documents",
                job->prepared->documents, split_name(split), shares[split]);
    }
    return HASHATTN_OK;
}

/* tokenizer.json may be there already, if it is the same. */
static hashattn_status save_tokenizer(struct host *host, const char *directory, uint64_t hash,
                                      const struct tokenizer *tokenizer)
{
    char path[FILE_PATH];
    struct tokenizer *found;
    TRY(file_join(host, directory, "tokenizer.json", path, sizeof path));
    if (!file_exists(path))
        return tokenizer_write_json(host, path, tokenizer);
    TRY(tokenizer_load(host, directory, &found));
    bool same = token_file_hash(found) == hash;
    tokenizer_free(host, found);
    FAIL_IF(!same, host, HASHATTN_INVALID, "%s is another tokenizer, and is not overwritten", path);
    return HASHATTN_OK;
}

/* The training file is last: a directory that has it is complete. */
static hashattn_status commit(struct job *job, const char *directory, const struct tokenizer *tokenizer)
{
    struct host *host = job->host;
    char path[FILE_PATH];
    TRY(check_counts(job));
    TRY(file_join(host, directory, "tokenizer.json", path, sizeof path));
    bool is_new = !file_exists(path);
    hashattn_status status =
        save_tokenizer(host, directory, job->writers[SPLIT_TRAIN].header.tokenizer, tokenizer);
    for (int split = SPLIT_COUNT; split-- > 0 && status == HASHATTN_OK;) {
        if (job->prepared->examples[split] == 0)
            continue;
        job->open[split] = false;
        status = token_writer_commit(host, &job->writers[split]);
    }
    if (status == HASHATTN_OK)
        return HASHATTN_OK;
    /* What was finished would be in the way of the next attempt. */
    struct host unused; /* the message of the failure stays */
    host_init(&unused);
    if (is_new)
        file_remove(path);
    for (enum split split = 0; split < SPLIT_COUNT; split++)
        if (mlm_path(&unused, directory, split, path, sizeof path) == HASHATTN_OK)
            file_remove(path);
    return status;
}

static hashattn_status open_writers(struct job *job, const char *directory, const struct tokenizer *tokenizer)
{
    struct host *host = job->host;
    const struct token_header header = {.order = (uint32_t)job->options->order,
                                        .tokenizer = token_file_hash(tokenizer),
                                        .num_ids = (uint32_t)tokenizer_num_ids(tokenizer),
                                        .seq_len = (uint32_t)job->options->seq_len};
    static const char *const names[] = {"train.tokens", "valid.tokens", "test.tokens", NULL};
    char path[FILE_PATH], last[FILE_PATH];
    TRY(mlm_path(host, directory, SPLIT_TRAIN, last, sizeof last));
    for (enum split split = 0; split < SPLIT_COUNT; split++) {
        TRY(mlm_path(host, directory, split, path, sizeof path));
        TRY(split_check_new(host, path, last));
    }
    file_remove_leftovers(directory, names);
    for (enum split split = 0; split < SPLIT_COUNT; split++) {
        TRY(mlm_path(host, directory, split, path, sizeof path));
        TRY(token_writer_open(host, path, &header, job->tokens.start, job->tokens.end, &job->writers[split]));
        job->open[split] = true;
    }
    return HASHATTN_OK;
}

/* ---- all of it ----------------------------------------------------------------------------------------- */

/* close_job also after a failure. */
static hashattn_status open_job(struct job *job, const char *directory, const struct tokenizer *tokenizer)
{
    const struct mlm_data_options *options = job->options;
    const struct task_sources *sources = job->sources;
    const size_t special = options->order == ORDER_NONE ? 2 : 3;
    job->packer = (struct block_packer){
        .host = job->host,
        .rules = {.order = (enum pair_order)options->order,
                  .capacity = (size_t)options->seq_len - special,
                  .whole = options->whole != 0},
        .duplicates = options->duplicates,
        .shares = {[SPLIT_VALID] = sources->valid == NULL ? options->valid_share : 0,
                   [SPLIT_TEST] = sources->test == NULL ? options->test_share : 0},
        .seed = sources->seed,
        .writers = job->writers,
    };
    TRY(block_encoder_open(job->host, tokenizer, sources->pool, &job->encoder));
    TRY(block_packer_open(sources->pool, &job->packer));
    return open_writers(job, directory, tokenizer);
}

static void close_job(struct job *job)
{
    for (enum split split = 0; split < SPLIT_COUNT; split++)
        if (job->open[split])
            token_writer_abandon(job->host, &job->writers[split]);
    block_packer_close(&job->packer);
    block_encoder_close(job->host, &job->encoder);
    section_block_free(job->host, &job->block);
}

static hashattn_status run_job(struct job *job, const char *directory, const struct tokenizer *tokenizer)
{
    hashattn_status status = open_job(job, directory, tokenizer);
    if (status == HASHATTN_OK)
        status = convert_all(job);
    if (status == HASHATTN_OK)
        status = commit(job, directory, tokenizer);
    close_job(job);
    return status;
}

hashattn_status mlm_prepare(struct host *host, const void *options, const struct task_sources *sources,
                            const char *directory, struct task_prepared *prepared)
{
    struct mlm_data_options data = *(const struct mlm_data_options *)options;
    struct job job = {.host = host, .options = &data, .sources = sources, .prepared = prepared};
    struct tokenizer *tokenizer;
    *prepared = (struct task_prepared){.documents = 0};
    if (data.order == ORDER_AUTO)
        data.order = data.whole ? ORDER_NONE : ORDER_SOP;
    FAIL_IF(data.whole && data.order != ORDER_NONE, host, HASHATTN_INVALID,
            "`long` cuts whole documents, which have no order to learn: `order` is %s, it must be none",
            mlm_orders[data.order]);
    FAIL_IF(sources->valid == NULL && data.valid_share == 0, host, HASHATTN_INVALID,
            "there is no validation set: `valid_share` is 0, and no file is given");
    TRY(tokenizer_load(host, sources->tokenizer, &tokenizer));
    hashattn_status status = mlm_tokens_find(host, tokenizer, &job.tokens);
    if (status != HASHATTN_OK)
        host_prefix(host, sources->tokenizer);
    else
        status = run_job(&job, directory, tokenizer);
    tokenizer_free(host, tokenizer);
    return status;
}
