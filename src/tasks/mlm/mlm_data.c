/* Texts are read in blocks of sections. The threads of the pool split and encode the sections of a block; the
   calling thread then packs and writes them in order, which costs a few per cent of encoding. An example
   depends on (seed, split, section, duplicate) only. With order nsp, B is from another document of the block;
   a document alone in its block takes B from the block before, whose tokens are kept, or, in the first block,
   from the next. Encoders grow, so each thread has a host of its own, which uses malloc.
   SPDX-License-Identifier: Apache-2.0 */
#include "tasks/mlm/mlm_data.h"

#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "base/file.h"
#include "base/memory.h"
#include "base/pool.h"
#include "base/random.h"
#include "tasks/dataset.h"
#include "tasks/mlm/sentences.h"
#include "tasks/mlm/text_sections.h"
#include "tasks/mlm/token_file.h"
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

/* ---- encoding ------------------------------------------------------------------------------------------ */

/* The tokens of the sections of a block that one worker encoded. */
struct token_store {
    uint32_t *ids;
    size_t *ends; /* of sentences, as in token_document */
    size_t num_ids, num_ends, ids_capacity, ends_capacity;
};

/* A section: its index among those of all files, and its place in a store. */
struct slot {
    uint64_t section;
    size_t first_id, num_ids, first_end, num_ends;
    int thread;
};

/* Those of a block; reused from block to block. */
struct slots {
    struct slot *list;          /* (count) */
    struct token_store *stores; /* (threads); grown by the workers */
    size_t count, capacity;
};

struct worker {
    struct host host;
    struct encoder *encoder;
    struct sentences sentences;
    hashattn_status status; /* the first failure, with its message in the host */
};

struct job {
    struct host *host;
    const struct mlm_data_options *options;
    const struct task_sources *sources;
    struct task_prepared *prepared;
    struct mlm_tokens tokens;
    struct worker *workers; /* (threads) */
    size_t num_workers;
    struct section_block block;
    struct slots sets[2];
    struct slots *slots;              /* of this block */
    struct slots *before;             /* with ORDER_NSP, of the last block before this one that has tokens */
    bool waiting;                     /* the only document of `before` is not packed yet */
    struct token_document *documents; /* (documents_capacity) with tokens, for ORDER_NSP */
    size_t num_documents, documents_capacity;
    struct token_writer writers[SPLIT_COUNT];
    bool open[SPLIT_COUNT];
    uint64_t done, total; /* bytes of text */
};

/* Appends the tokens of a section to a store. */
static hashattn_status encode(struct worker *worker, const char *text, const struct text_section *section,
                              struct token_store *store, struct slot *slot)
{
    struct host *host = &worker->host;
    const struct encode_options options = {.special_tokens = false};
    struct sentences *sentences = &worker->sentences;
    slot->section = section->index;
    slot->first_id = store->num_ids;
    slot->first_end = store->num_ends;
    TRY(sentences_split(host, (struct piece){text + section->start, section->size}, section->wrapped,
                        sentences));
    TRY(memory_grow(host, &store->ends, &store->ends_capacity, store->num_ends, sentences->count,
                    sizeof *store->ends, "ends of sentences"));
    size_t start = 0;
    for (size_t i = 0; i < sentences->count; i++) {
        struct encoding encoding;
        TRY(encoder_encode(worker->encoder,
                           (struct piece){sentences->text + start, sentences->ends[i] - start}, &options,
                           &encoding));
        start = sentences->ends[i];
        TRY(memory_grow(host, &store->ids, &store->ids_capacity, store->num_ids, encoding.count,
                        sizeof *store->ids, "tokens of documents"));
        if (encoding.count > 0)
            memcpy(store->ids + store->num_ids, encoding.ids, encoding.count * sizeof *store->ids);
        store->num_ids += encoding.count;
        store->ends[store->num_ends++] = store->num_ids - slot->first_id;
    }
    slot->num_ids = store->num_ids - slot->first_id;
    slot->num_ends = store->num_ends - slot->first_end;
    return HASHATTN_OK;
}

static void encode_section(void *argument, size_t index, int thread)
{
    struct job *job = argument;
    struct worker *worker = &job->workers[thread];
    struct slot *slot = &job->slots->list[index];
    slot->thread = thread;
    if (worker->status == HASHATTN_OK)
        worker->status =
            encode(worker, job->block.text, &job->block.list[index], &job->slots->stores[thread], slot);
}

static hashattn_status encode_block(struct job *job)
{
    struct host *host = job->host;
    struct slots *slots = job->slots;
    slots->count = job->block.count;
    TRY(memory_grow(host, &slots->list, &slots->capacity, 0, slots->count, sizeof *slots->list,
                    "documents of a block"));
    for (size_t i = 0; i < job->num_workers; i++)
        slots->stores[i].num_ids = slots->stores[i].num_ends = 0;
    pool_run(job->sources->pool, encode_section, job, slots->count);
    for (size_t i = 0; i < job->num_workers; i++)
        FAIL_IF(job->workers[i].status != HASHATTN_OK, host, job->workers[i].status, "%s",
                job->workers[i].host.message);
    return HASHATTN_OK;
}

/* ---- packing ------------------------------------------------------------------------------------------- */

/* Where the examples of a document go. */
struct target {
    struct job *job;
    enum split split;
};

static hashattn_status write_example(void *context, struct token_span a, struct token_span b, uint32_t label)
{
    const struct target *target = context;
    struct job *job = target->job;
    return token_writer_add(job->host, &job->writers[target->split], a, b, label);
}

/* True for one section in every 1 / share, at a random place among them, so that few documents suffice. */
static bool is_drawn(uint64_t key, double share, uint64_t section)
{
    uint64_t first = (uint64_t)((double)section * share), last = (uint64_t)((double)(section + 1) * share);
    for (uint64_t stratum = first; share > 0 && stratum <= last; stratum++) {
        struct random random = random_open(random_key(key, RANDOM_SPLIT, stratum));
        double place = ((double)stratum + (double)random_unit(&random)) / share;
        if ((uint64_t)place == section)
            return true;
    }
    return false;
}

/* files: which of them a document is from. */
static enum split split_of(const struct job *job, enum split files, uint64_t section)
{
    const struct task_sources *sources = job->sources;
    if (files != SPLIT_TRAIN)
        return files;
    const struct {
        bool draws;
        double share;
    } drawn[SPLIT_COUNT] = {[SPLIT_VALID] = {sources->valid == NULL, job->options->valid_share},
                            [SPLIT_TEST] = {sources->test == NULL, job->options->test_share}};
    for (enum split split = SPLIT_VALID; split < SPLIT_COUNT; split++)
        if (drawn[split].draws &&
            is_drawn(random_key(sources->seed, RANDOM_SPLIT, split), drawn[split].share, section))
            return split;
    return SPLIT_TRAIN;
}

/* Appends the documents with tokens. */
static hashattn_status list_documents(struct job *job, const struct slots *slots)
{
    for (size_t i = 0; i < slots->count; i++) {
        const struct slot *slot = &slots->list[i];
        const struct token_store *store = &slots->stores[slot->thread];
        if (slot->num_ids == 0)
            continue;
        TRY(memory_grow(job->host, &job->documents, &job->documents_capacity, job->num_documents, 1,
                        sizeof *job->documents, "documents of a block"));
        job->documents[job->num_documents++] = (struct token_document){
            store->ids + slot->first_id, store->ends + slot->first_end, slot->num_ends};
    }
    return HASHATTN_OK;
}

/* Packs the documents of a block; `document` is the first of them among those listed. */
static hashattn_status pack_slots(struct job *job, const struct slots *slots,
                                  const struct token_document *document, enum split files)
{
    const struct mlm_data_options *options = job->options;
    const size_t special = options->order == ORDER_NONE ? 2 : 3;
    const struct pair_rules rules = {.order = (enum pair_order)options->order,
                                     .capacity = (size_t)options->seq_len - special,
                                     .whole = options->whole != 0,
                                     .others = job->documents,
                                     .num_others = job->num_documents};
    for (size_t i = 0; i < slots->count; i++) {
        if (slots->list[i].num_ids == 0)
            continue;
        uint64_t section = slots->list[i].section;
        struct target target = {job, split_of(job, files, section)};
        int64_t times = target.split == SPLIT_TRAIN ? options->duplicates : 1;
        uint64_t key = random_key(job->sources->seed, RANDOM_DATA, files);
        for (int64_t k = 0; k < times; k++) {
            uint64_t own = random_key(random_key(key, RANDOM_DATA, (uint64_t)k), RANDOM_DATA, section);
            TRY(pair_pack(&rules, document, own, write_example, &target, &job->prepared->dropped));
        }
        document++;
        job->prepared->documents++;
    }
    return HASHATTN_OK;
}

/* With ORDER_NSP two documents or more are listed whenever one is packed: pair_pack draws until it has
   another one. */
static hashattn_status pack_block(struct job *job, enum split files)
{
    struct slots *now = job->slots, *before = job->before;
    bool pairs = job->options->order == ORDER_NSP;
    job->num_documents = 0;
    TRY(list_documents(job, now));
    size_t own = job->num_documents;
    if (own == 0)
        return HASHATTN_OK;
    if (pairs && (own == 1 || job->waiting))
        TRY(list_documents(job, before));
    bool waiting = pairs && job->num_documents == 1;
    if (job->waiting)
        TRY(pack_slots(job, before, job->documents + own, files));
    if (!waiting)
        TRY(pack_slots(job, now, job->documents, files));
    job->waiting = waiting;
    if (pairs) {
        job->slots = before;
        job->before = now;
    }
    return HASHATTN_OK;
}

/* ---- the files ----------------------------------------------------------------------------------------- */

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
    job->before->count = 0; /* B is of the same files */
    for (;;) {
        TRY_DONE(section_reader_next(&reader, &job->block));
        if (job->block.count == 0)
            break;
        TRY_DONE(encode_block(job));
        TRY_DONE(pack_block(job, files));
        job->done = before + reader.bytes;
        if (sources->progress != NULL && sources->progress(sources->user, job->done, job->total)) {
            status = host_fail(host, HASHATTN_INTERRUPTED, "stopped after %llu of %llu bytes of text",
                               (unsigned long long)job->done, (unsigned long long)job->total);
            goto done;
        }
    }
    if (job->waiting)
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

/* What each split must have: a training set and a validation set, and whatever was asked for. */
static hashattn_status check_counts(struct job *job)
{
    const struct task_sources *sources = job->sources;
    const char *const given[SPLIT_COUNT] = {NULL, sources->valid, sources->test};
    const double shares[SPLIT_COUNT] = {1, job->options->valid_share, job->options->test_share};
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

static hashattn_status open_workers(struct job *job, const struct tokenizer *tokenizer)
{
    size_t count = (size_t)pool_threads(job->sources->pool);
    void *block;
    TRY(memory_new_zeroed(job->host, count, sizeof *job->workers, "encoders", &block));
    job->workers = block;
    for (int set = 0; set < 2; set++) {
        TRY(memory_new_zeroed(job->host, count, sizeof(struct token_store), "tokens of documents", &block));
        job->sets[set].stores = block;
    }
    for (; job->num_workers < count; job->num_workers++) {
        struct worker *worker = &job->workers[job->num_workers];
        host_init(&worker->host);
        FAIL_IF(encoder_new(&worker->host, tokenizer, &worker->encoder) != HASHATTN_OK, job->host,
                HASHATTN_NO_MEMORY, "%s", worker->host.message);
    }
    return HASHATTN_OK;
}

static void close_job(struct job *job)
{
    struct host plain; /* frees what any worker allocated */
    host_init(&plain);
    for (enum split split = 0; split < SPLIT_COUNT; split++)
        if (job->open[split])
            token_writer_abandon(job->host, &job->writers[split]);
    for (size_t i = 0; i < job->num_workers; i++) {
        for (int set = 0; set < 2; set++) {
            memory_free(&plain, job->sets[set].stores[i].ids);
            memory_free(&plain, job->sets[set].stores[i].ends);
        }
        encoder_free(job->workers[i].encoder);
        sentences_free(&job->workers[i].host, &job->workers[i].sentences);
    }
    for (int set = 0; set < 2; set++) {
        memory_free(job->host, job->sets[set].list);
        memory_free(job->host, job->sets[set].stores);
    }
    memory_free(job->host, job->workers);
    memory_free(job->host, job->documents);
    section_block_free(job->host, &job->block);
}

hashattn_status mlm_prepare(struct host *host, const void *options, const struct task_sources *sources,
                            const char *directory, struct task_prepared *prepared)
{
    struct mlm_data_options data = *(const struct mlm_data_options *)options;
    struct job job = {.host = host, .options = &data, .sources = sources, .prepared = prepared};
    struct tokenizer *tokenizer;
    *prepared = (struct task_prepared){.documents = 0};
    job.slots = &job.sets[0];
    job.before = &job.sets[1];
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
    if (status == HASHATTN_OK)
        status = open_workers(&job, tokenizer);
    if (status == HASHATTN_OK)
        status = open_writers(&job, directory, tokenizer);
    if (status == HASHATTN_OK)
        status = convert_all(&job);
    if (status == HASHATTN_OK)
        status = commit(&job, directory, tokenizer);
    close_job(&job);
    tokenizer_free(host, tokenizer);
    return status;
}
