/* Blocks of whole lines: their bytes are those of the file, and every block ends with a line. Planted and
   caught: the part after the last line feed lost; a line longer than a block cut; the last line without a
   line feed left out.
   SPDX-License-Identifier: Apache-2.0 */
#include "io/line_blocks.h"

#include <stdlib.h>
#include <string.h>

#include "support/place.h"

static void check_file(struct place *place, size_t size, size_t line)
{
    char *text = malloc(size + 1);
    for (size_t i = 0; i < size; i++)
        text[i] = i % line == line - 1 ? '\n' : (char)('a' + i % 26);
    text[size] = '\0';
    place_put(place, text);
    struct line_blocks blocks;
    struct piece block;
    size_t at = 0;
    check_status(&place->host, line_blocks_open(&place->host, place->path, FILE_TYPED, &blocks), HASHATTN_OK,
                 NULL);
    do {
        check_status(&place->host, line_blocks_next(&place->host, &blocks, &block), HASHATTN_OK, NULL);
        assert_true(block.size <= size - at);
        if (block.size > 0)
            assert_memory_equal(block.bytes, text + at, block.size);
        at += block.size;
        assert_true(block.size == 0 || at == size || block.bytes[block.size - 1] == '\n');
    } while (block.size > 0);
    assert_int_equal(at, size);
    line_blocks_close(&place->host, &blocks);
    free(text);
}

static void blocks_are_whole_lines(void **state)
{
    struct place *place = *state;
    static const size_t sizes[] = {0, 1, 10, LINE_BLOCK - 1, LINE_BLOCK, LINE_BLOCK + 1, 3 * LINE_BLOCK + 77};
    static const size_t lines[] = {1, 7, 100000, LINE_BLOCK, 2 * LINE_BLOCK + 5, 10 * LINE_BLOCK};
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++)
        for (size_t k = 0; k < sizeof lines / sizeof lines[0]; k++)
            check_file(place, sizes[i], lines[k]);
}

static void failures_are_named(void **state)
{
    struct place *place = *state;
    struct line_blocks blocks;
    struct piece block;
    check_status(&place->host, line_blocks_open(&place->host, place->path, FILE_TYPED, &blocks),
                 HASHATTN_BAD_FILE, "/file: cannot open");
    check_status(&place->host, line_blocks_open(&place->host, place->directory, FILE_TYPED, &blocks),
                 HASHATTN_OK, NULL);
    check_status(&place->host, line_blocks_next(&place->host, &blocks, &block), HASHATTN_BAD_FILE,
                 "cannot read");
    line_blocks_close(&place->host, &blocks);
}

int main(void)
{
    const struct CMUnitTest tests[] = {PLACED(blocks_are_whole_lines), PLACED(failures_are_named)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
