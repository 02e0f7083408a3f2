/* Pages: sequences keep their rows when others write, are cut or reordered; failures change nothing; counts
   of bytes. Bugs tried and caught: a shared page written without a copy; the copy without its rows; a page
   never released, or its owners not counted; pages kept after a truncation, or after a failed reserve; a slab
   kept after its last page; a page used again with its old rows.
   Covers: kv_pages.c.
   SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "decoding/kv_pages.h"
#include "support/check.h"

enum { ROW_BYTES = 4, PAGE_BYTES = KV_PAGE_ROWS * ROW_BYTES };

static uint32_t *row_at(const struct kv_pages *pages, size_t sequence, size_t row)
{
    unsigned char *page = kv_pages_at(pages, sequence, row / KV_PAGE_ROWS);
    return (uint32_t *)(void *)(page + row % KV_PAGE_ROWS * ROW_BYTES);
}

/* Appends rows first, first + 1, ... to a sequence. */
static void append(struct kv_pages *pages, size_t sequence, uint32_t first, size_t rows)
{
    check_status(pages->host, kv_pages_reserve(pages, sequence, rows), HASHATTN_OK, NULL);
    for (size_t r = 0; r < rows; r++)
        *row_at(pages, sequence, pages->sequences[sequence].length + r) = first + (uint32_t)r;
    pages->sequences[sequence].length += rows;
}

static void check_rows(const struct kv_pages *pages, size_t sequence, size_t begin, size_t end,
                       uint32_t first)
{
    for (size_t r = begin; r < end; r++)
        assert_int_equal(*row_at(pages, sequence, r), first + (r - begin));
}

static void sequences_share_rows_until_they_write(void **state)
{
    (void)state;
    struct failing_host failing;
    struct kv_pages pages;
    failing_host_init(&failing, -1);
    check_status(&failing.host, kv_pages_new(&failing.host, 2, PAGE_BYTES, &pages), HASHATTN_OK, NULL);
    append(&pages, 0, 0, 700);
    append(&pages, 1, 5000, 10);
    assert_int_equal(pages.allocated, 4);
    const size_t beams[] = {0, 0, 1, 0};
    check_status(&failing.host, kv_pages_reorder(&pages, beams, 4), HASHATTN_OK, NULL);
    assert_int_equal(pages.allocated, 4);
    append(&pages, 1, 900, 30); /* the third page of sequence 1 becomes its own */
    append(&pages, 3, 800, 100);
    assert_int_equal(pages.allocated, 7); /* a copy each, and a fourth page */
    check_rows(&pages, 0, 0, 700, 0);
    check_rows(&pages, 1, 0, 700, 0);
    check_rows(&pages, 1, 700, 730, 900);
    check_rows(&pages, 2, 0, 10, 5000);
    check_rows(&pages, 3, 700, 800, 800);
    kv_pages_truncate(&pages, 3, 300); /* inside a page that three sequences share */
    append(&pages, 3, 1, 50);
    check_rows(&pages, 3, 300, 350, 1);
    check_rows(&pages, 0, 0, 700, 0);
    assert_int_equal(kv_pages_longest(&pages), 730);
    const size_t last[] = {3};
    check_status(&failing.host, kv_pages_reorder(&pages, last, 1), HASHATTN_OK, NULL);
    assert_int_equal(pages.allocated, 2);
    check_rows(&pages, 0, 0, 300, 0);
    kv_pages_truncate(&pages, 0, 256);
    assert_int_equal(pages.allocated, 1);
    /* The slab of its three pages. */
    assert_true(kv_pages_nbytes(&pages) > 3 * PAGE_BYTES && kv_pages_nbytes(&pages) < 3 * PAGE_BYTES + 2000);
    kv_pages_free(&pages);
    assert_int_equal(failing.outstanding, 0);
}

static void a_failure_changes_nothing(void **state)
{
    (void)state;
    size_t failures = 0;
    for (long n = 0; n < 40; n++) {
        struct failing_host failing;
        struct kv_pages pages;
        failing_host_init(&failing, -1);
        check_status(&failing.host, kv_pages_new(&failing.host, 2, PAGE_BYTES, &pages), HASHATTN_OK, NULL);
        append(&pages, 0, 0, 300);
        const size_t from[] = {0, 0, 0};
        check_status(&failing.host, kv_pages_reorder(&pages, from, 3), HASHATTN_OK, NULL);
        size_t allocated = pages.allocated;
        failing.until_failure = n;
        hashattn_status status = kv_pages_reserve(&pages, 1, 3000);
        /* A copy of the shared page may stay; nothing else. */
        assert_true(status == HASHATTN_OK || pages.allocated <= allocated + 1);
        if (status == HASHATTN_OK)
            status = kv_pages_reorder(&pages, from, 3);
        failing.until_failure = -1;
        failures += status != HASHATTN_OK;
        assert_int_equal(pages.num_sequences, 3);
        for (size_t s = 0; s < 3; s++) {
            assert_int_equal(pages.sequences[s].length, 300);
            check_rows(&pages, s, 0, 300, 0);
        }
        kv_pages_free(&pages);
        assert_int_equal(failing.outstanding, 0);
    }
    assert_in_range(failures, 6, 39);
}

/* Free pages are used again, and a slab goes with its last page. */
static void slabs_come_and_go(void **state)
{
    (void)state;
    struct failing_host failing;
    struct kv_pages pages;
    failing_host_init(&failing, -1);
    check_status(&failing.host, kv_pages_new(&failing.host, 2, PAGE_BYTES, &pages), HASHATTN_OK, NULL);
    append(&pages, 0, 0, 16 * KV_PAGE_ROWS);
    long blocks = failing.outstanding;
    size_t bytes = kv_pages_nbytes(&pages);
    kv_pages_truncate(&pages, 0, KV_PAGE_ROWS);
    assert_int_equal(kv_pages_nbytes(&pages), bytes);
    const size_t more = 15 * KV_PAGE_ROWS;
    check_status(&failing.host, kv_pages_reserve(&pages, 1, more), HASHATTN_OK, NULL);
    assert_int_equal(failing.outstanding, blocks + 1); /* the list of its pages */
    for (size_t r = 0; r < more; r++)
        assert_int_equal(*row_at(&pages, 1, r), 0);
    append(&pages, 1, 70, more);
    check_rows(&pages, 0, 0, KV_PAGE_ROWS, 0);
    check_rows(&pages, 1, 0, 15 * KV_PAGE_ROWS, 70);
    append(&pages, 0, KV_PAGE_ROWS, 1); /* a slab of two: an eighth of 16 */
    assert_int_equal(failing.outstanding, blocks + 2);
    append(&pages, 0, 1, KV_PAGE_ROWS);
    assert_int_equal(failing.outstanding, blocks + 2);
    kv_pages_truncate(&pages, 0, KV_PAGE_ROWS);
    assert_int_equal(failing.outstanding, blocks + 1);
    kv_pages_truncate(&pages, 0, 0);
    kv_pages_truncate(&pages, 1, 0);
    assert_int_equal(failing.outstanding, 3); /* sequences, and two lists of pages */
    kv_pages_free(&pages);
    assert_int_equal(failing.outstanding, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(sequences_share_rows_until_they_write),
        cmocka_unit_test(slabs_come_and_go),
        cmocka_unit_test(a_failure_changes_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
