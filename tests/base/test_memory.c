/* Checked sizes, blocks and the arena. Bugs tried and caught: product that wraps; sum that wraps from
   SIZE_MAX; block of 0 bytes not NULL; zeros not written; arena pieces not 64-byte aligned; size function and
   use that disagree; arena that wraps; a growing array that does not double, that loses its
   elements, or whose failure frees it.
   SPDX-License-Identifier: Apache-2.0 */
#include "base/memory.h"

#include <stdlib.h>
#include <string.h>

#include "support/check.h"

static void sizes_stick_at_the_top(void **state)
{
    (void)state;
    assert_true(size_product(0, SIZE_MAX) == 0);
    assert_true(size_product(SIZE_MAX, 1) == SIZE_MAX);
    assert_true(size_product(SIZE_MAX / 3, 3) == SIZE_MAX / 3 * 3);
    assert_true(size_product((size_t)1 << 32, (size_t)1 << 32) == SIZE_MAX);
    assert_true(size_product(SIZE_MAX, 2) == SIZE_MAX);
    assert_true(size_sum(SIZE_MAX - 1, 1) == SIZE_MAX);
    assert_true(size_sum(SIZE_MAX, 0) == SIZE_MAX);
    assert_true(size_sum(SIZE_MAX, 1) == SIZE_MAX);
    assert_true(size_sum(SIZE_MAX, SIZE_MAX) == SIZE_MAX);
    assert_true(size_aligned(0) == 0 && size_aligned(1) == 64 && size_aligned(64) == 64 &&
                size_aligned(65) == 128);
    assert_true(size_aligned(SIZE_MAX) == SIZE_MAX && size_aligned(SIZE_MAX - 62) == SIZE_MAX);
    assert_true(size_sum(2, 3) == 5);
}

static void blocks_are_counted_and_zeroed(void **state)
{
    (void)state;
    struct failing_host failing;
    failing_host_init(&failing, -1);
    struct host *host = &failing.host;
    void *block;
    check_status(host, memory_new(host, 0, 8, "nothing", &block), HASHATTN_OK, NULL);
    assert_null(block);
    check_status(host, memory_new_zeroed(host, 8, 0, "nothing", &block), HASHATTN_OK, NULL);
    assert_null(block);
    memory_free(host, block);
    assert_int_equal(failing.calls, 0);
    for (int i = 0; i < 100; i++) {
        check_status(host, memory_new(host, 100, 10, "dirt", &block), HASHATTN_OK, NULL);
        memset(block, 0xa5, 1000); /* the next block probably reuses it */
        memory_free(host, block);
        check_status(host, memory_new_zeroed(host, 100, 10, "zeros", &block), HASHATTN_OK, NULL);
        for (int k = 0; k < 1000; k++)
            assert_int_equal(((char *)block)[k], 0);
        memory_free(host, block);
    }
    assert_int_equal(failing.outstanding, 0);
}

static void blocks_that_cannot_be_are_refused(void **state)
{
    (void)state;
    struct failing_host failing;
    failing_host_init(&failing, -1);
    struct host *host = &failing.host;
    void *block = &block;
    check_status(host, memory_new(host, (size_t)1 << 33, (size_t)1 << 33, "rows", &block), HASHATTN_NO_MEMORY,
                 "no memory for rows: 8589934592 x 8589934592 bytes");
    assert_null(block);
    check_status(host, memory_new(host, SIZE_MAX, 1, "rows", &block), HASHATTN_NO_MEMORY, "rows");
    check_status(host, memory_new(host, PTRDIFF_MAX, 1, "rows", &block), HASHATTN_NO_MEMORY, "rows");
    assert_int_equal(failing.calls, 0); /* the allocator never receives a size that it would misread */
    failing_host_init(&failing, 0);
    check_status(host, memory_new_zeroed(host, 1, 1, "one", &block), HASHATTN_NO_MEMORY, "one: 1 x 1");
    assert_null(block);
}

struct pieces {
    char *a;
    double *b;
    char *c, *d;
};

static size_t cut(void *block, struct pieces *pieces)
{
    struct arena arena = arena_on(block);
    pieces->a = arena_take(&arena, 1, 1);
    pieces->b = arena_take(&arena, 9, sizeof(double));
    pieces->c = arena_take(&arena, 0, 100);
    pieces->d = arena_take(&arena, 64, 1);
    return arena.used;
}

static void the_arena_measures_what_it_divides(void **state)
{
    (void)state;
    struct pieces pieces;
    size_t size = cut(NULL, &pieces);
    assert_true(pieces.a == NULL && pieces.b == NULL && pieces.d == NULL);
    assert_int_equal(size, 64 + 128 + 0 + 64);
    unsigned char *block = aligned_alloc(MEMORY_ALIGNMENT, size);
    assert_int_equal(cut(block, &pieces), size);
    assert_ptr_equal(pieces.a, block);
    assert_ptr_equal(pieces.b, block + 64);
    assert_ptr_equal(pieces.d, block + 192);
    memset(pieces.d, 1, 64); /* up to the last byte */
    free(block);
}

static void an_arena_too_large_stays_too_large(void **state)
{
    (void)state;
    struct arena arena = arena_on(NULL);
    arena_take(&arena, SIZE_MAX / 2, 3);
    assert_true(arena.used == SIZE_MAX);
    arena_take(&arena, 1, 1);
    assert_true(arena.used == SIZE_MAX);
    arena = arena_on(NULL);
    arena_take(&arena, SIZE_MAX - 10, 1); /* only the rounding wraps */
    assert_true(arena.used == SIZE_MAX);
    for (size_t over = 0; over < 2; over++) { /* the last size that can be rounded up to 64, and the next */
        arena = arena_on(NULL);
        arena_take(&arena, SIZE_MAX - 63 + over, 1);
        assert_true(arena.used == (over == 0 ? SIZE_MAX - 63 : SIZE_MAX));
    }
    arena = arena_on(NULL);
    arena_take(&arena, SIZE_MAX / 2, 1);
    arena_take(&arena, SIZE_MAX / 2, 1);
    arena_take(&arena, SIZE_MAX / 2, 1);
    assert_true(arena.used == SIZE_MAX);
}

static void arrays_grow(void **state)
{
    (void)state;
    struct failing_host failing;
    failing_host_init(&failing, -1);
    struct host *host = &failing.host;
    uint32_t *numbers = NULL;
    size_t room = 0;
    for (uint32_t i = 0; i < 5000; i++) {
        check_status(host, memory_grow(host, &numbers, &room, i, 1, sizeof *numbers, "numbers"), HASHATTN_OK,
                     NULL);
        assert_true(room > i);
        numbers[i] = i;
    }
    assert_true(failing.calls < 12); /* doubles */
    for (uint32_t i = 0; i < 5000; i++)
        assert_int_equal(numbers[i], i);
    const uint32_t *before = numbers;
    check_status(host, memory_grow(host, &numbers, &room, 5000, SIZE_MAX, sizeof *numbers, "numbers"),
                 HASHATTN_NO_MEMORY, "no memory for numbers");
    assert_true(numbers == before && numbers[4999] == 4999);
    memory_free(host, numbers);
    assert_int_equal(failing.outstanding, 0);
}

static void the_machine_has_memory(void **state)
{
    (void)state;
    assert_true(memory_of_machine() > (size_t)64 << 20);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(sizes_stick_at_the_top),
        cmocka_unit_test(blocks_are_counted_and_zeroed),
        cmocka_unit_test(blocks_that_cannot_be_are_refused),
        cmocka_unit_test(the_arena_measures_what_it_divides),
        cmocka_unit_test(an_arena_too_large_stays_too_large),
        cmocka_unit_test(arrays_grow),
        cmocka_unit_test(the_machine_has_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
