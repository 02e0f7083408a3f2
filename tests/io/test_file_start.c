/* Compressed files and UTF-16 are named by their first bytes, in files of any encoding. Planted and caught: a
   format left out; text that begins like a format refused; a check after the conversion from Latin-1; a check
   of each block.
   Covers: utf8.c line_blocks.c
   SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "io/line_blocks.h"
#include "io/utf8.h"
#include "support/folder.h"

static void formats_are_named(void **state)
{
    struct host *host = &((struct folder *)*state)->host;
    static const struct {
        const char *bytes;
        size_t size;
        const char *part; /* NULL: it may be text */
    } cases[] = {
        {"\x1f\x8b\x08\x00\x00", 5, "the file is compressed (gzip), a text is needed: unpack it first"},
        {"PK\x03\x04\x14", 5, "compressed (zip)"},
        {"\xfd\x37zXZ\x00", 6, "compressed (xz)"},
        {"\x28\xb5\x2f\xfd\x24", 5, "compressed (zstd)"},
        {"BZh91AY&SY\x00", 11, "compressed (bzip2)"},
        {"BZh11AY&SY", 10, "compressed (bzip2)"},
        {"\xff\xfe"
         "a\x00",
         4, "the text is UTF-16, UTF-8 is needed (iconv -f UTF-16"},
        {"\xfe\xff\x00"
         "a",
         4, "the text is UTF-16"},
        {"PK was here", 11, NULL},
        {"BZh9 is no block", 16, NULL},
        {"\x1f", 1, NULL},
        {"", 0, NULL},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        check_status(host, utf8_check_start(host, cases[i].bytes, cases[i].size),
                     cases[i].part == NULL ? HASHATTN_OK : HASHATTN_BAD_FILE, cases[i].part);
}

static void files_are_checked_where_they_begin(void **state)
{
    struct folder *folder = *state;
    struct line_blocks blocks;
    struct piece block;
    char path[100];
    size_t size = LINE_BLOCK + 4;
    char *text = malloc(size);
    snprintf(path, sizeof path, "%s/a", folder->path);
    folder_put(folder, "a", "\x1f\x8b\x08", 3);
    check_status(&folder->host, line_blocks_open(&folder->host, path, FILE_TYPED, &blocks), HASHATTN_OK,
                 NULL);
    blocks.encoding = ENCODING_LATIN1;
    check_status(&folder->host, line_blocks_next(&folder->host, &blocks, &block), HASHATTN_BAD_FILE,
                 "/a: the file is compressed (gzip)");
    line_blocks_close(&folder->host, &blocks);
    memset(text, 'a', size);
    memcpy(text + LINE_BLOCK - 1, "\nPK\x03\x04", 5);
    folder_put(folder, "a", text, size);
    check_status(&folder->host, line_blocks_open(&folder->host, path, FILE_TYPED, &blocks), HASHATTN_OK,
                 NULL);
    for (int i = 0; i < 3; i++)
        check_status(&folder->host, line_blocks_next(&folder->host, &blocks, &block), HASHATTN_OK, NULL);
    assert_int_equal(block.size, 0);
    line_blocks_close(&folder->host, &blocks);
    free(text);
}

#define IN_FOLDER(test) cmocka_unit_test_setup_teardown(test, folder_enter, folder_leave)

int main(void)
{
    const struct CMUnitTest tests[] = {IN_FOLDER(formats_are_named),
                                       IN_FOLDER(files_are_checked_where_they_begin)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
