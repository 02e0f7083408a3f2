/* The documents of a block, and with nsp of the one before if they are needed, are listed first: B is drawn
   from the list.
   SPDX-License-Identifier: Apache-2.0 */
#include "tasks/mlm/block_packing.h"

#include "base/memory.h"
#include "base/random.h"

hashattn_status block_packer_open(const struct pool *pool, struct block_packer *packer)
{
    packer->now = &packer->blocks[0];
    packer->before = &packer->blocks[1];
    TRY(encoded_block_new(packer->host, pool, packer->now));
    return encoded_block_new(packer->host, pool, packer->before);
}

void block_packer_close(struct block_packer *packer)
{
    for (int i = 0; i < 2; i++)
        encoded_block_free(packer->host, &packer->blocks[i]);
    memory_free(packer->host, packer->others);
    packer->others = NULL;
}

void block_packer_begin_files(struct block_packer *packer)
{
    packer->before->count = 0;
}

/* ---- splits -------------------------------------------------------------------------------------------- */

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

static enum split split_of(const struct block_packer *packer, enum split files, uint64_t section)
{
    if (files != SPLIT_TRAIN)
        return files;
    for (enum split split = SPLIT_VALID; split < SPLIT_COUNT; split++)
        if (is_drawn(random_key(packer->seed, RANDOM_SPLIT, split), packer->shares[split], section))
            return split;
    return SPLIT_TRAIN;
}

/* ---- packing ------------------------------------------------------------------------------------------- */

/* Where the examples of a document go. */
struct target {
    struct block_packer *packer;
    enum split split;
};

static hashattn_status write_example(void *context, struct token_span a, struct token_span b, uint32_t label)
{
    const struct target *target = context;
    struct block_packer *packer = target->packer;
    return token_writer_add(packer->host, &packer->writers[target->split], a, b, label);
}

/* Appends the documents with tokens to those that B is drawn from. */
static hashattn_status list_documents(struct block_packer *packer, const struct encoded_block *block)
{
    for (size_t i = 0; i < block->count; i++) {
        struct token_document document;
        if (!encoded_section_tokens(block, i, &document))
            continue;
        TRY(memory_grow(packer->host, &packer->others, &packer->others_capacity, packer->num_others, 1,
                        sizeof *packer->others, "documents of a block"));
        packer->others[packer->num_others++] = document;
    }
    return HASHATTN_OK;
}

/* Packs the documents of a block; `document` is the first of them among those listed, by whose address
   pair_pack knows them. */
static hashattn_status pack_documents(struct block_packer *packer, const struct encoded_block *block,
                                      const struct token_document *document, enum split files)
{
    struct pair_rules rules = packer->rules;
    rules.others = packer->others;
    rules.num_others = packer->num_others;
    for (size_t i = 0; i < block->count; i++) {
        struct token_document tokens;
        if (!encoded_section_tokens(block, i, &tokens))
            continue;
        uint64_t section = encoded_section_index(block, i);
        struct target target = {packer, split_of(packer, files, section)};
        int64_t times = target.split == SPLIT_TRAIN ? packer->duplicates : 1;
        uint64_t key = random_key(packer->seed, RANDOM_DATA, files);
        for (int64_t k = 0; k < times; k++) {
            uint64_t own = random_key(random_key(key, RANDOM_DATA, (uint64_t)k), RANDOM_DATA, section);
            TRY(pair_pack(&rules, document, own, write_example, &target, &packer->dropped));
        }
        document++;
        packer->documents++;
    }
    return HASHATTN_OK;
}

/* With ORDER_NSP two documents or more are listed whenever one is packed: pair_pack draws until it has
   another one. */
hashattn_status block_pack(struct block_packer *packer, enum split files)
{
    struct encoded_block *now = packer->now, *before = packer->before;
    bool pairs = packer->rules.order == ORDER_NSP;
    packer->num_others = 0;
    TRY(list_documents(packer, now));
    size_t own = packer->num_others;
    if (own == 0)
        return HASHATTN_OK;
    if (pairs && (own == 1 || packer->waiting))
        TRY(list_documents(packer, before));
    bool waiting = pairs && packer->num_others == 1;
    if (packer->waiting)
        TRY(pack_documents(packer, before, packer->others + own, files));
    if (!waiting)
        TRY(pack_documents(packer, now, packer->others, files));
    packer->waiting = waiting;
    if (pairs) {
        packer->now = before;
        packer->before = now;
    }
    return HASHATTN_OK;
}
