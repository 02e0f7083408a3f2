/* Headers of idx files: sizes as written, and every damage refused with its numbers.
   Bugs planted and caught: little-endian sizes; the magic number of the rank before; a file one byte too long
   accepted; the last size left out of the product; a product that wraps.
   SPDX-License-Identifier: Apache-2.0 */
#include "io/idx.h"

#include <string.h>

#include "support/check.h"

static void sizes_are_big_endian(void **state)
{
    (void)state;
    struct host host;
    struct idx idx;
    host_init(&host);
    static const unsigned char images[] = {0, 0, 8, 3, 0, 0, 0, 2, 0, 0, 1, 2, 0, 0, 0, 3};
    check_status(&host, idx_parse(&host, images, 16 + 2 * 258 * 3, 3, &idx), HASHATTN_OK, NULL);
    assert_true(idx.rank == 3 && idx.header == 16);
    assert_true(idx.shape[0] == 2 && idx.shape[1] == 258 && idx.shape[2] == 3);
    static const unsigned char labels[] = {0, 0, 8, 1, 1, 0, 0, 2};
    check_status(&host, idx_parse(&host, labels, 8 + (1 << 24) + 2, 1, &idx), HASHATTN_OK, NULL);
    assert_true(idx.header == 8 && idx.shape[0] == (1 << 24) + 2);
    static const unsigned char none[] = {0, 0, 8, 2, 0, 0, 0, 0, 255, 255, 255, 255};
    check_status(&host, idx_parse(&host, none, 12, 2, &idx), HASHATTN_OK, NULL);
    assert_true(idx.shape[0] == 0 && idx.shape[1] == UINT32_MAX);
}

static void damage_is_refused_with_its_numbers(void **state)
{
    (void)state;
    static const struct {
        const char *bytes;
        size_t size, rank;
        const char *part;
    } cases[] = {
        {"\0\0\10", 3, 1, "3 bytes, a magic number has 4"},
        {"\0\0\10\3\0\0\0\1", 9, 1,
         "the magic number is 0x00000803, that of unsigned bytes in 1 dimension is 0x00000801"},
        {"\0\0\15\1\0\0\0\1", 12, 1, "0x00000d01"},
        {"\10\1\0\0\1\0\0\0", 9, 1, "0x08010000"},
        {"\37\213\10\0\0\0\0\0", 500, 3, "0x1f8b0800, that of unsigned bytes in 3 dimensions is 0x00000803"},
        {"\0\0\10\3\0\0\0\1", 8, 3, "8 bytes, the header has 16"},
        {"\0\0\10\1\0\0\0\5", 12, 1, "12 bytes, the sizes in its header need 13"},
        {"\0\0\10\1\0\0\0\5", 14, 1, "14 bytes, the sizes in its header need 13"},
        {"\0\0\10\2\0\0\0\2\0\0\0\3", 14, 2, "14 bytes, the sizes in its header need 18"},
        {"\0\0\10\3\200\0\0\0\200\0\0\0\0\0\0\4", 16, 3, "16 bytes, the sizes in its header need"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct host host;
        struct idx idx;
        host_init(&host);
        check_status(&host, idx_parse(&host, cases[i].bytes, cases[i].size, cases[i].rank, &idx),
                     HASHATTN_BAD_FILE, cases[i].part);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(sizes_are_big_endian),
        cmocka_unit_test(damage_is_refused_with_its_numbers),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
