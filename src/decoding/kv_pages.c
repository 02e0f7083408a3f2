/* Pages with a count of owners, in slabs of pages that were needed together.
   SPDX-License-Identifier: Apache-2.0 */
#include "decoding/kv_pages.h"

#include <string.h>

#include "base/memory.h"

struct kv_page {
    size_t owners; /* 0: free */
    struct kv_slab *slab;
    struct kv_page *next_free; /* of the slab */
    unsigned char to_the_rows[MEMORY_ALIGNMENT - sizeof(size_t) - 2 * sizeof(void *)];
};

/* A block of pages, which lie behind it. */
struct kv_slab {
    struct kv_slab *next;
    struct kv_page *free;
    size_t pages, taken;
    unsigned char to_the_pages[MEMORY_ALIGNMENT - 2 * sizeof(void *) - 2 * sizeof(size_t)];
};

/* A slab has the pages that are needed now, or an eighth of those that are there if that is more, but no more
   than these bytes, so that truncation gives memory back. */
enum { SLAB_SHARE = 8, SLAB_BYTES = 1 << 24 };

size_t kv_pages_for(size_t rows)
{
    return rows / KV_PAGE_ROWS + (rows % KV_PAGE_ROWS != 0);
}

static size_t page_size(const struct kv_pages *pages)
{
    return size_aligned(sizeof(struct kv_page) + pages->page_bytes);
}

static size_t slab_size(const struct kv_pages *pages, size_t count)
{
    return size_sum(sizeof(struct kv_slab), size_product(count, page_size(pages)));
}

static hashattn_status slab_new(struct kv_pages *pages, size_t count, struct kv_slab **slab)
{
    void *block;
    TRY(memory_new(pages->host, 1, slab_size(pages, count), "pages of a cache", &block));
    *slab = block;
    **slab = (struct kv_slab){.next = pages->slabs, .pages = count};
    for (size_t p = count; p-- > 0;) {
        struct kv_page *page = (void *)((unsigned char *)(*slab + 1) + p * page_size(pages));
        *page = (struct kv_page){.slab = *slab, .next_free = (*slab)->free};
        (*slab)->free = page;
    }
    pages->slabs = *slab;
    return HASHATTN_OK;
}

static void slab_release(struct kv_pages *pages, struct kv_slab *slab)
{
    struct kv_slab **at = &pages->slabs;
    while (*at != slab)
        at = &(*at)->next;
    *at = slab->next;
    memory_free(pages->host, slab);
}

static size_t slab_pages(const struct kv_pages *pages, size_t needed)
{
    size_t most = size_max(1, SLAB_BYTES / page_size(pages));
    return size_min(most, size_max(needed, pages->allocated / SLAB_SHARE));
}

/* A page of zeros. `needed`: pages that are needed now, this one among them. */
static hashattn_status page_new(struct kv_pages *pages, size_t needed, struct kv_page **page)
{
    struct kv_slab *slab = pages->slabs;
    while (slab != NULL && slab->free == NULL)
        slab = slab->next;
    if (slab == NULL)
        TRY(slab_new(pages, slab_pages(pages, needed), &slab));
    *page = slab->free;
    slab->free = (*page)->next_free;
    slab->taken++;
    pages->allocated++;
    (*page)->owners = 1;
    memset(*page + 1, 0, pages->page_bytes);
    return HASHATTN_OK;
}

static void page_release(struct kv_pages *pages, struct kv_page *page)
{
    struct kv_slab *slab = page->slab;
    if (--page->owners > 0)
        return;
    pages->allocated--;
    page->next_free = slab->free;
    slab->free = page;
    if (--slab->taken == 0)
        slab_release(pages, slab);
}

static void hold_only(struct kv_pages *pages, struct kv_sequence *sequence, size_t held)
{
    while (sequence->held > held)
        page_release(pages, sequence->pages[--sequence->held]);
}

static void sequences_free(struct kv_pages *pages, struct kv_sequence *sequences, size_t count)
{
    for (size_t s = 0; sequences != NULL && s < count; s++) {
        hold_only(pages, &sequences[s], 0);
        memory_free(pages->host, sequences[s].pages);
    }
    memory_free(pages->host, sequences);
}

hashattn_status kv_pages_new(struct host *host, size_t num_sequences, size_t page_bytes,
                             struct kv_pages *pages)
{
    void *block;
    *pages = (struct kv_pages){.host = host, .page_bytes = page_bytes};
    TRY(memory_new_zeroed(host, num_sequences, sizeof *pages->sequences, "the sequences of a cache", &block));
    pages->sequences = block;
    pages->num_sequences = num_sequences;
    return HASHATTN_OK;
}

void kv_pages_free(struct kv_pages *pages)
{
    sequences_free(pages, pages->sequences, pages->num_sequences);
    pages->sequences = NULL;
    pages->num_sequences = 0;
}

/* The page that the next row goes to becomes the sequence's own. */
static hashattn_status own_last(struct kv_pages *pages, struct kv_sequence *sequence)
{
    struct kv_page **last = &sequence->pages[sequence->length / KV_PAGE_ROWS], *own;
    if ((*last)->owners == 1)
        return HASHATTN_OK;
    TRY(page_new(pages, 1, &own));
    memcpy(own + 1, *last + 1, pages->page_bytes);
    page_release(pages, *last);
    *last = own;
    return HASHATTN_OK;
}

static hashattn_status reserve(struct kv_pages *pages, struct kv_sequence *sequence, size_t more)
{
    if (more == 0)
        return HASHATTN_OK;
    size_t needed = kv_pages_for(size_sum(sequence->length, more));
    if (sequence->length % KV_PAGE_ROWS != 0)
        TRY(own_last(pages, sequence));
    TRY(memory_grow(pages->host, &sequence->pages, &sequence->capacity, sequence->held,
                    needed - sequence->held, sizeof(struct kv_page *), "the pages of a cache"));
    while (sequence->held < needed) {
        TRY(page_new(pages, needed - sequence->held, &sequence->pages[sequence->held]));
        sequence->held++;
    }
    return HASHATTN_OK;
}

hashattn_status kv_pages_reserve(struct kv_pages *pages, size_t sequence, size_t more)
{
    hashattn_status status = reserve(pages, &pages->sequences[sequence], more);
    if (status != HASHATTN_OK)
        kv_pages_truncate(pages, sequence, pages->sequences[sequence].length);
    return status;
}

void kv_pages_truncate(struct kv_pages *pages, size_t sequence, size_t length)
{
    pages->sequences[sequence].length = length;
    hold_only(pages, &pages->sequences[sequence], kv_pages_for(length));
}

static hashattn_status share(struct host *host, const struct kv_sequence *from, struct kv_sequence *to)
{
    TRY(memory_grow(host, &to->pages, &to->capacity, 0, from->held, sizeof(struct kv_page *),
                    "the pages of a cache"));
    for (; to->held < from->held; to->held++) {
        to->pages[to->held] = from->pages[to->held];
        to->pages[to->held]->owners++;
    }
    to->length = from->length;
    return HASHATTN_OK;
}

hashattn_status kv_pages_reorder(struct kv_pages *pages, const size_t *from, size_t count)
{
    void *block;
    hashattn_status status = HASHATTN_OK;
    TRY(memory_new_zeroed(pages->host, count, sizeof *pages->sequences, "the sequences of a cache", &block));
    struct kv_sequence *made = block;
    for (size_t s = 0; s < count && status == HASHATTN_OK; s++)
        status = share(pages->host, &pages->sequences[from[s]], &made[s]);
    if (status != HASHATTN_OK) {
        sequences_free(pages, made, count);
        return status;
    }
    sequences_free(pages, pages->sequences, pages->num_sequences);
    pages->sequences = made;
    pages->num_sequences = count;
    return HASHATTN_OK;
}

unsigned char *kv_pages_at(const struct kv_pages *pages, size_t sequence, size_t page)
{
    return (unsigned char *)(pages->sequences[sequence].pages[page] + 1);
}

size_t kv_pages_longest(const struct kv_pages *pages)
{
    size_t longest = 0;
    for (size_t s = 0; s < pages->num_sequences; s++)
        longest = size_max(longest, pages->sequences[s].length);
    return longest;
}

size_t kv_pages_nbytes(const struct kv_pages *pages)
{
    size_t bytes = pages->num_sequences * sizeof *pages->sequences;
    for (const struct kv_slab *slab = pages->slabs; slab != NULL; slab = slab->next)
        bytes += slab_size(pages, slab->pages);
    for (size_t s = 0; s < pages->num_sequences; s++)
        bytes += pages->sequences[s].capacity * sizeof(struct kv_page *);
    return bytes;
}
