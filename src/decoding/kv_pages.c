/* Pages with a count of owners.
   SPDX-License-Identifier: Apache-2.0 */
#include "decoding/kv_pages.h"

#include <string.h>

#include "base/memory.h"

struct kv_page {
    size_t owners;
    unsigned char to_the_rows[MEMORY_ALIGNMENT - sizeof(size_t)];
};

static size_t pages_for(size_t rows)
{
    return rows / KV_PAGE_ROWS + (rows % KV_PAGE_ROWS != 0);
}

static hashattn_status page_new(struct kv_pages *pages, struct kv_page **page)
{
    void *block;
    TRY(memory_new_zeroed(pages->host, 1, size_sum(sizeof(struct kv_page), pages->page_bytes),
                          "a page of a cache", &block));
    *page = block;
    (*page)->owners = 1;
    pages->allocated++;
    return HASHATTN_OK;
}

static void page_release(struct kv_pages *pages, struct kv_page *page)
{
    if (--page->owners > 0)
        return;
    memory_free(pages->host, page);
    pages->allocated--;
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
    TRY(page_new(pages, &own));
    memcpy(own + 1, *last + 1, pages->page_bytes);
    page_release(pages, *last);
    *last = own;
    return HASHATTN_OK;
}

static hashattn_status reserve(struct kv_pages *pages, struct kv_sequence *sequence, size_t more)
{
    if (more == 0)
        return HASHATTN_OK;
    size_t needed = pages_for(size_sum(sequence->length, more));
    if (sequence->length % KV_PAGE_ROWS != 0)
        TRY(own_last(pages, sequence));
    TRY(memory_grow(pages->host, &sequence->pages, &sequence->capacity, sequence->held,
                    needed - sequence->held, sizeof(struct kv_page *), "the pages of a cache"));
    while (sequence->held < needed) {
        TRY(page_new(pages, &sequence->pages[sequence->held]));
        sequence->held++;
    }
    return HASHATTN_OK;
}

hashattn_status kv_pages_reserve(struct kv_pages *pages, const size_t *more)
{
    hashattn_status status = HASHATTN_OK;
    for (size_t s = 0; s < pages->num_sequences && status == HASHATTN_OK; s++)
        status = reserve(pages, &pages->sequences[s], more[s]);
    for (size_t s = 0; s < pages->num_sequences && status != HASHATTN_OK; s++)
        kv_pages_truncate(pages, s, pages->sequences[s].length);
    return status;
}

hashattn_status kv_pages_extend(struct kv_pages *pages, size_t sequence, size_t more)
{
    hashattn_status status = reserve(pages, &pages->sequences[sequence], more);
    if (status != HASHATTN_OK)
        kv_pages_truncate(pages, sequence, pages->sequences[sequence].length);
    return status;
}

void kv_pages_truncate(struct kv_pages *pages, size_t sequence, size_t length)
{
    pages->sequences[sequence].length = length;
    hold_only(pages, &pages->sequences[sequence], pages_for(length));
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
    size_t bytes = pages->allocated * (sizeof(struct kv_page) + pages->page_bytes) +
                   pages->num_sequences * sizeof *pages->sequences;
    for (size_t s = 0; s < pages->num_sequences; s++)
        bytes += pages->sequences[s].capacity * sizeof(struct kv_page *);
    return bytes;
}
