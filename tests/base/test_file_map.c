/* Mapped files: the same bytes as read ones, also after their pages are released; what is not a regular file
   is refused. Bugs planted and caught: a size of 0 mapped; the file left open.
   SPDX-License-Identifier: Apache-2.0 */
#include "base/file_map.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "support/check.h"

static char path[200];

static void write_file(size_t size)
{
    const char *directory = getenv("TMPDIR");
    snprintf(path, sizeof path, "%s/hashattn-file-map-%ld", directory == NULL ? "/tmp" : directory,
             (long)getpid());
    FILE *file = fopen(path, "wb");
    assert_non_null(file);
    for (size_t i = 0; i < size; i++)
        fputc((int)(i % 251), file);
    fclose(file);
}

static void bytes_are_those_of_the_file(void **state)
{
    (void)state;
    struct host host;
    struct file_map map;
    host_init(&host);
    static const size_t sizes[] = {0, 1, 4096, 4097, 100000};
    for (size_t s = 0; s < sizeof sizes / sizeof *sizes; s++) {
        write_file(sizes[s]);
        int before = dup(0);
        check_status(&host, file_map_open(&host, path, &map), HASHATTN_OK, NULL);
        int after = dup(0);
        assert_int_equal(after, before + 1); /* no descriptor is left open */
        close(before), close(after);
        assert_true(map.size == sizes[s] && (map.bytes == NULL) == (sizes[s] == 0));
        file_map_release(&map, map.bytes + sizes[s] / 3, sizes[s] / 2);
        file_map_release(&map, map.bytes, sizes[s]);
        for (size_t i = 0; i < sizes[s]; i++)
            assert_int_equal((unsigned char)map.bytes[i], i % 251);
        file_map_close(&map);
        assert_true(map.bytes == NULL && map.size == 0);
        file_map_close(&map);
    }
    unlink(path);
}

static void only_regular_files_are_mapped(void **state)
{
    (void)state;
    struct host host;
    struct file_map map;
    host_init(&host);
    check_status(&host, file_map_open(&host, "/nowhere/at/all", &map), HASHATTN_BAD_FILE,
                 "/nowhere/at/all: cannot open: No such file");
    check_status(&host, file_map_open(&host, "/tmp", &map), HASHATTN_BAD_FILE, "is a directory");
    assert_null(map.bytes);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(bytes_are_those_of_the_file),
                                       cmocka_unit_test(only_regular_files_are_mapped)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
