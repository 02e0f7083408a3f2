/* Spans, chunks and ordered sums.
   Bugs planted and caught: bisection one sequence too far; a span running past the range; an empty sequence
   stopping the walk; chunks counted by threads; a last tile without the rows up to a multiple of
   ROW_STEP; a share that forgets the rounds; reduction forgetting the last piece of a width.
   SPDX-License-Identifier: Apache-2.0 */
#include "nn/rows.h"

#include <stdlib.h>
#include <string.h>

#include "support/check.h"
#include "support/layers.h"

static void spans_visit_every_row_once(void **state)
{
    (void)state;
    const size_t offsets[] = {0, 3, 3, 4, 300, 300, 517, 517};
    enum { SEQUENCES = 7, ROWS = 517 };
    struct rows rows = rows_of(NULL, NULL, SEQUENCES, offsets, NULL);
    assert_int_equal(rows.count, ROWS);
    assert_int_equal(rows.tiles, 3);
    assert_int_equal(rows.padded, 520);
    assert_int_equal(rows_of_tile(&rows, 0), ROW_TILE);
    assert_int_equal(rows_of_tile(&rows, ROW_TILE), ROW_TILE);
    assert_int_equal(rows_of_tile(&rows, 2 * ROW_TILE), 520 - 2 * ROW_TILE);
    assert_int_equal(rows_padded(0), 0);
    assert_int_equal(rows_padded(520), 520);
    for (size_t first = 0; first <= ROWS + 2; first++)
        for (size_t n = 0; n < 600; n += first % 5 + 1) {
            size_t row = first, end = first + n < ROWS ? first + n : ROWS;
            for (struct span s = rows_span(&rows, first, n); s.count > 0; s = rows_next(&rows, s)) {
                assert_int_equal(s.row, row);
                assert_true(s.sequence < SEQUENCES && offsets[s.sequence] <= row);
                assert_int_equal(offsets[s.sequence] + s.position, row);
                assert_true(row + s.count <= offsets[s.sequence + 1]);
                row += s.count;
            }
            assert_int_equal(row, first > end ? first : end);
        }
}

/* As many tiles for each thread, none of too few rows, none higher than ROW_TILE. */
static void forward_tiles_are_shared(void **state)
{
    (void)state;
    static const struct {
        int threads;
        size_t count, tile_rows, tiles;
    } cases[] = {
        {1, 0, ROW_TILE, 0}, {1, 5, ROW_TILE, 1},         {1, 99, 100, 1},  {1, 200, 100, 2},
        {3, 100, 36, 3},     {3, 40, ROW_TILE, 1},        {3, 577, 100, 6}, {2, 384, 192, 2},
        {2, 400, 100, 4},    {4, 30 * ROW_TILE, 180, 32},
    };
    struct host host;
    host_init(&host);
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        const size_t offsets[] = {0, cases[i].count};
        struct pool *pool;
        check_status(&host, pool_new(&host, cases[i].threads, &pool), HASHATTN_OK, NULL);
        struct rows rows = rows_of(NULL, pool, 1, offsets, NULL);
        rows_share(&rows);
        assert_int_equal(rows.tile_rows, cases[i].tile_rows);
        assert_int_equal(rows.tiles, cases[i].tiles);
        size_t sum = 0;
        for (size_t tile = 0; tile < rows.tiles; tile++)
            sum += rows_of_tile(&rows, tile * rows.tile_rows);
        assert_int_equal(sum, rows_padded(cases[i].count));
        pool_free(&host, pool);
    }
}

static void no_sequences_no_spans(void **state)
{
    (void)state;
    const size_t offsets[] = {0};
    struct rows rows = rows_of(NULL, NULL, 0, offsets, NULL);
    assert_int_equal(rows_span(&rows, 0, 10).count, 0);
    assert_int_equal(rows.tiles, 0);
}

static void chunks_cover_the_tiles_in_order(void **state)
{
    (void)state;
    const size_t widths[] = {0, 1, 33000, 1000000, 10000000};
    for (size_t w = 0; w < sizeof widths / sizeof *widths; w++)
        for (size_t tiles = 1; tiles < 200; tiles++) {
            size_t chunks = rows_chunks(tiles, widths[w]), next = 0;
            assert_true(chunks >= 1 && chunks <= 32 && chunks <= tiles);
            assert_true(chunks >= 8 || chunks == tiles);
            for (size_t c = 0; c < chunks; c++) {
                size_t first, end;
                rows_chunk(tiles, chunks, c, &first, &end);
                assert_int_equal(first, next);
                assert_true(end > first && end - first <= (tiles + chunks - 1) / chunks);
                next = end;
            }
            assert_int_equal(next, tiles);
        }
    assert_int_equal(rows_chunks(0, 5), 0);
    assert_int_equal(rows_chunks(100, 10000000), 8); /* the budget of memory allows no more */
    assert_int_equal(rows_chunks(100, 1 << 20), 16); /* sums of 64 MiB */
    assert_int_equal(rows_chunks(100, 1 << 19), 32);
    assert_int_equal(rows_chunks(100, 0), 32);
}

static void sums_are_added_in_order(void **state)
{
    (void)state;
    enum { WIDTH = 9001, CHUNKS = 7 };
    float *partials = new_normals(1, CHUNKS * WIDTH, 1), *start = new_normals(2, WIDTH, 1);
    float want[WIDTH], got[WIDTH];
    for (size_t i = 0; i < WIDTH; i++) {
        want[i] = start[i];
        for (size_t c = 0; c < CHUNKS; c++)
            want[i] += partials[c * WIDTH + i];
    }
    for (int threads = 1; threads <= 3; threads += 2) {
        struct layer_test test;
        layer_test_open(&test, threads);
        const size_t offsets[] = {0, 5};
        struct rows rows = rows_of(test.kernels, test.pool, 1, offsets, NULL);
        memcpy(got, start, sizeof got);
        rows_reduce(&rows, got, partials, CHUNKS, WIDTH);
        check_same_bits(got, want, sizeof got, "sum of partials");
        layer_test_close(&test);
    }
    free(partials);
    free(start);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(spans_visit_every_row_once), cmocka_unit_test(forward_tiles_are_shared),
        cmocka_unit_test(no_sequences_no_spans),      cmocka_unit_test(chunks_cover_the_tiles_in_order),
        cmocka_unit_test(sums_are_added_in_order),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
