/* A thread appends the tokens of its sections to a store of its own.
   SPDX-License-Identifier: Apache-2.0 */
#include "tasks/mlm/block_encoding.h"

#include <string.h>

#include "base/memory.h"
#include "base/pool.h"
#include "tasks/mlm/sentences.h"
#include "text/tokenizer.h"

/* The tokens of the sections that one thread encoded. */
struct token_store {
    uint32_t *ids;
    size_t *ends; /* of sentences, as in token_document */
    size_t num_ids, num_ends, ids_capacity, ends_capacity;
};

/* A section: its index among those of all files, and its place in a store. */
struct encoded_section {
    uint64_t index;
    size_t first_id, num_ids, first_end, num_ends;
    int thread;
};

struct encode_worker {
    struct host host;
    struct encoder *encoder;
    struct sentences sentences;
    hashattn_status status; /* the first failure, with its message in the host */
};

/* ---- blocks of tokens ---------------------------------------------------------------------------------- */

hashattn_status encoded_block_new(struct host *host, const struct pool *pool, struct encoded_block *block)
{
    size_t threads = (size_t)pool_threads(pool);
    void *stores;
    *block = (struct encoded_block){.count = 0};
    TRY(memory_new_zeroed(host, threads, sizeof *block->stores, "tokens of documents", &stores));
    block->stores = stores;
    block->num_stores = threads;
    return HASHATTN_OK;
}

void encoded_block_free(struct host *host, struct encoded_block *block)
{
    struct host plain; /* frees what any thread allocated */
    host_init(&plain);
    for (size_t i = 0; i < block->num_stores; i++) {
        memory_free(&plain, block->stores[i].ids);
        memory_free(&plain, block->stores[i].ends);
    }
    memory_free(host, block->stores);
    memory_free(host, block->list);
    *block = (struct encoded_block){.count = 0};
}

uint64_t encoded_section_index(const struct encoded_block *block, size_t section)
{
    return block->list[section].index;
}

bool encoded_section_tokens(const struct encoded_block *block, size_t section,
                            struct token_document *document)
{
    const struct encoded_section *found = &block->list[section];
    const struct token_store *store = &block->stores[found->thread];
    if (found->num_ids == 0)
        return false;
    *document = (struct token_document){store->ids + found->first_id, store->ends + found->first_end,
                                        found->num_ends};
    return true;
}

/* ---- encoding ------------------------------------------------------------------------------------------ */

hashattn_status block_encoder_open(struct host *host, const struct tokenizer *tokenizer, struct pool *pool,
                                   struct block_encoder *encoder)
{
    size_t threads = (size_t)pool_threads(pool);
    void *workers;
    *encoder = (struct block_encoder){.pool = pool};
    TRY(memory_new_zeroed(host, threads, sizeof *encoder->workers, "encoders", &workers));
    encoder->workers = workers;
    for (; encoder->num_workers < threads; encoder->num_workers++) {
        struct encode_worker *worker = &encoder->workers[encoder->num_workers];
        host_init(&worker->host);
        FAIL_IF(encoder_new(&worker->host, tokenizer, &worker->encoder) != HASHATTN_OK, host,
                HASHATTN_NO_MEMORY, "%s", worker->host.message);
    }
    return HASHATTN_OK;
}

void block_encoder_close(struct host *host, struct block_encoder *encoder)
{
    for (size_t i = 0; i < encoder->num_workers; i++) {
        encoder_free(encoder->workers[i].encoder);
        sentences_free(&encoder->workers[i].host, &encoder->workers[i].sentences);
    }
    memory_free(host, encoder->workers);
    *encoder = (struct block_encoder){.num_workers = 0};
}

/* Appends the tokens of a section to a store. */
static hashattn_status encode(struct encode_worker *worker, const char *text,
                              const struct text_section *section, struct token_store *store,
                              struct encoded_section *encoded)
{
    struct host *host = &worker->host;
    const struct encode_options options = {.special_tokens = false};
    struct sentences *sentences = &worker->sentences;
    encoded->index = section->index;
    encoded->first_id = store->num_ids;
    encoded->first_end = store->num_ends;
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
        store->ends[store->num_ends++] = store->num_ids - encoded->first_id;
    }
    encoded->num_ids = store->num_ids - encoded->first_id;
    encoded->num_ends = store->num_ends - encoded->first_end;
    return HASHATTN_OK;
}

struct encoding_job {
    struct encode_worker *workers;
    const struct section_block *texts;
    struct encoded_block *block;
};

static void encode_section(void *argument, size_t index, int thread)
{
    const struct encoding_job *job = argument;
    struct encode_worker *worker = &job->workers[thread];
    struct encoded_section *encoded = &job->block->list[index];
    encoded->thread = thread;
    if (worker->status == HASHATTN_OK)
        worker->status =
            encode(worker, job->texts->text, &job->texts->list[index], &job->block->stores[thread], encoded);
}

hashattn_status block_encode(struct host *host, struct block_encoder *encoder,
                             const struct section_block *texts, struct encoded_block *block)
{
    struct encoding_job job = {encoder->workers, texts, block};
    TRY(memory_grow(host, &block->list, &block->capacity, 0, texts->count, sizeof *block->list,
                    "documents of a block"));
    block->count = texts->count;
    for (size_t i = 0; i < block->num_stores; i++)
        block->stores[i].num_ids = block->stores[i].num_ends = 0;
    pool_run(encoder->pool, encode_section, &job, block->count);
    for (size_t i = 0; i < encoder->num_workers; i++)
        FAIL_IF(encoder->workers[i].status != HASHATTN_OK, host, encoder->workers[i].status, "%s",
                encoder->workers[i].host.message);
    return HASHATTN_OK;
}
