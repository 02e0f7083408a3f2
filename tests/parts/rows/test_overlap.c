/* Whether strided arrays share a byte, against a map of bytes, for random layouts and for those that people
   use. Planted and caught: rows with the same stride compared at one side only; the last row of a progression
   forgotten; a step joined to one that it does not continue; the first position of a range one too late.
   SPDX-License-Identifier: Apache-2.0 */
#include "parts/rows/overlap.h"

#include <string.h>

#include "base/random.h"
#include "support/check.h"

enum { BYTES = 4096, START = 1 << 20, CASES = 200000 };

static void mark(const struct spread *a, unsigned char *map)
{
    size_t counts[SPREAD_STEPS] = {1, 1, 1}, strides[SPREAD_STEPS] = {0};
    for (size_t k = 0; k < a->num_steps; k++) {
        counts[k] = a->step[k].count;
        strides[k] = a->step[k].stride;
    }
    for (size_t i = 0; i < counts[0]; i++)
        for (size_t j = 0; j < counts[1]; j++)
            for (size_t k = 0; k < counts[2]; k++)
                for (size_t c = 0; c < a->width; c++)
                    map[a->start - START + i * strides[0] + j * strides[1] + k * strides[2] + c] = 1;
}

static size_t draw(uint64_t *state, size_t below)
{
    *state = random_key(*state, RANDOM_DRAWS, 0);
    return *state % below;
}

static struct spread random_spread(uint64_t *state)
{
    static const size_t strides[] = {0, 1, 3, 4, 8, 12, 24, 36, 48, 96, 100, 144};
    struct spread a = {.start = START + draw(state, 64),
                       .width = draw(state, 10),
                       .num_steps = draw(state, SPREAD_STEPS + 1)};
    for (size_t k = 0; k < a.num_steps; k++) {
        a.step[k].count = draw(state, 6);
        a.step[k].stride = strides[draw(state, sizeof strides / sizeof *strides)];
    }
    return a;
}

static void the_map_of_bytes_agrees(void **state)
{
    (void)state;
    static unsigned char maps[2][BYTES];
    uint64_t random = 7;
    size_t shared = 0, interleaved = 0;
    for (size_t i = 0; i < CASES; i++) {
        struct spread a = random_spread(&random), b = random_spread(&random);
        memset(maps, 0, sizeof maps);
        mark(&a, maps[0]);
        mark(&b, maps[1]);
        bool want = false;
        for (size_t c = 0; c < BYTES; c++)
            want |= maps[0][c] && maps[1][c];
        if (spread_overlap(a, b) != want || spread_overlap(b, a) != want)
            fail_msg("case %zu: overlap is %d, the bytes say %d", i, !want, want);
        shared += want;
        interleaved += !want && a.width > 0 && b.width > 0;
    }
    assert_true(shared > CASES / 10 && interleaved > CASES / 10);
}

/* Q, K and V as columns of one (rows, 3, heads, dim) matrix, in bytes. */
static struct spread columns(size_t which, size_t rows, size_t heads, size_t dim)
{
    return (struct spread){.start = START + which * heads * dim,
                           .width = dim,
                           .num_steps = 2,
                           .step = {{rows, 3 * heads * dim}, {heads, dim}}};
}

static void columns_of_one_matrix_are_apart(void **state)
{
    (void)state;
    for (size_t i = 0; i < 3; i++)
        for (size_t j = 0; j < 3; j++)
            assert_int_equal(spread_overlap(columns(i, 1 << 30, 12, 256), columns(j, 1 << 30, 12, 256)),
                             i == j);
    struct spread wide = columns(0, 4096, 12, 256);
    wide.step[1].count++;
    assert_true(spread_overlap(wide, columns(1, 4096, 12, 256)));
    wide = columns(2, 4096, 12, 256);
    wide.step[1].count++; /* reaches the first column of the next row, except behind the last one */
    assert_true(spread_overlap(wide, columns(0, 4096, 12, 256)));
    assert_false(spread_overlap(wide, columns(0, 1, 12, 256)));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_map_of_bytes_agrees),
        cmocka_unit_test(columns_of_one_matrix_are_apart),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
