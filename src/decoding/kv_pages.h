/* The rows of several sequences in pages of KV_PAGE_ROWS, so that a sequence grows without copying what is
   there. Sequences share pages (beams have one prompt); a page with several owners is copied when one of them
   writes to it. What a page holds is the caller's affair; a new page is filled with zeros.
   Pages that are needed together lie in a block of up to 16 MiB, a slab, which the system can map with huge
   pages: rows read from random places then wait less for page tables. `bench decode --mechanism hashed
   --seq-len 131072` takes 0.8 of the time (Zen 4, old and new in turn, beside other work).
   Memory: a sequence has at most one page that is not full. Slabs have up to an eighth more pages than are
   held, and those that truncation left in them. A slab is freed with its last page.
   SPDX-License-Identifier: Apache-2.0 */
#ifndef DECODING_KV_PAGES_H
#define DECODING_KV_PAGES_H

#include "base/host.h"

enum { KV_PAGE_ROWS = 256 };

struct kv_page;
struct kv_slab;

struct kv_sequence {
    struct kv_page **pages;
    size_t capacity, held; /* of pages */
    size_t length;         /* rows */
};

struct kv_pages {
    struct host *host;
    size_t page_bytes, num_sequences;
    struct kv_sequence *sequences;
    struct kv_slab *slabs; /* the newest first */
    size_t allocated;      /* pages, a shared one counts once */
};

/* Pages that a sequence of so many rows has. */
size_t kv_pages_for(size_t rows);

hashattn_status kv_pages_new(struct host *host, size_t num_sequences, size_t page_bytes,
                             struct kv_pages *pages);
void kv_pages_free(struct kv_pages *pages);

/* Gives a sequence room for `more` rows, in pages of its own; its length stays. NO_MEMORY: its rows are as
   before; a shared last page may have become its own. Allocates nothing if its last page has the room and
   is not shared. */
hashattn_status kv_pages_reserve(struct kv_pages *pages, size_t sequence, size_t more);
/* Keeps the first `length` rows of a sequence, at most its length, and releases pages beyond them. */
void kv_pages_truncate(struct kv_pages *pages, size_t sequence, size_t length);
/* Sequence s becomes a copy of sequence from[s], which is below num_sequences; `count` may differ from it.
   NO_MEMORY: nothing has changed. */
hashattn_status kv_pages_reorder(struct kv_pages *pages, const size_t *from, size_t count);

/* The memory of a page of a sequence, 64-byte aligned. */
unsigned char *kv_pages_at(const struct kv_pages *pages, size_t sequence, size_t page);
size_t kv_pages_longest(const struct kv_pages *pages); /* rows */
size_t kv_pages_nbytes(const struct kv_pages *pages);

#endif
