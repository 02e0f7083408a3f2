/* Headers as numpy writes them, wrong headers, and every type and rank written and read back. Bugs tried and
   caught: trailing bytes accepted; product of the shape unchecked; Fortran order read as C; big endian read
   as little; data not moved to the front; a key twice; (3) for (3,); header not padded to 64; length of a
   version 2 header read with 16 bits; block leaked when the
   header is bad.
   SPDX-License-Identifier: Apache-2.0 */
#include "io/npy.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/file.h"
#include "base/memory.h"
#include "support/check.h"

/* An .npy file in memory: preamble of the version, the dictionary, `data` bytes of zeros. */
static size_t make(char *file, int version, const char *dictionary, size_t data)
{
    size_t length = strlen(dictionary), at = 6;
    memcpy(file, "\x93NUMPY", 6);
    file[at++] = (char)version;
    file[at++] = 0;
    for (int i = 0; i < (version == 1 ? 2 : 4); i++)
        file[at++] = (char)(length >> (8 * i));
    memcpy(file + at, dictionary, length);
    memset(file + at + length, 0, data);
    return at + length + data;
}

static struct npy check_read(int version, const char *dictionary, size_t data)
{
    struct host host;
    host_init(&host);
    char file[4096];
    struct npy array;
    size_t start, size = make(file, version, dictionary, data);
    check_status(&host, npy_parse(&host, file, size, &array, &start), HASHATTN_OK, NULL);
    assert_int_equal(start, size - data);
    assert_null(array.data);
    return array;
}

static void check_refused(int version, const char *dictionary, size_t data, const char *part)
{
    struct host host;
    host_init(&host);
    char *file = malloc(70000); /* an exact heap block, so that ASan sees a read past the end */
    struct npy array;
    size_t start, size = make(file, version, dictionary, data);
    file = realloc(file, size);
    check_status(&host, npy_parse(&host, file, size, &array, &start), HASHATTN_BAD_FILE, part);
    free(file);
}

static void dictionaries_are_read(void **state)
{
    (void)state;
    struct npy a = check_read(1, "{'descr': '<f4', 'fortran_order': False, 'shape': (2, 3), }  \n", 24);
    assert_int_equal(a.type, NPY_FLOAT32);
    assert_int_equal(a.rank, 2);
    assert_int_equal(a.shape[0], 2);
    assert_int_equal(a.shape[1], 3);
    assert_int_equal(a.count, 6);
    for (int version = 1; version <= 3; version++) {
        a = check_read(version, "{\"shape\":(4,),\"descr\":\"|b1\",\"fortran_order\":False}\n", 4);
        assert_int_equal(a.type, NPY_BOOL);
        assert_int_equal(a.rank, 1);
        assert_int_equal(a.count, 4);
    }
    a = check_read(1, "{'descr': '<i8', 'fortran_order': False, 'shape': ()}\n", 8);
    assert_int_equal(a.rank, 0);
    assert_int_equal(a.count, 1);
    a = check_read(1, "{ 'descr' : '<u2' , 'fortran_order' : False , 'shape' : ( 1 , 2 , 3 , 4 , ) , }\n",
                   48);
    assert_int_equal(a.rank, 4);
    assert_int_equal(a.count, 24);
    a = check_read(1, "{'descr': '<f4', 'fortran_order': False, 'shape': (0, 3), }\n", 0);
    assert_int_equal(a.count, 0);
    a = check_read(1, "{'descr': '<f4', 'fortran_order': False, 'shape': (1000000, 0), }\n", 0);
    assert_int_equal(a.count, 0);
}

#define DICTIONARY(descr, order, shape)                                                                      \
    "{'descr': " descr ", 'fortran_order': " order ", 'shape': " shape ", }\n"

static void headers_that_lie_are_refused(void **state)
{
    (void)state;
    check_refused(1, DICTIONARY("'<f4'", "True", "(2,)"), 8, "Fortran order");
    check_refused(1, DICTIONARY("'>f4'", "False", "(2,)"), 8, "'>f4' (big endian)");
    check_refused(1, DICTIONARY("'<f2'", "False", "(2,)"), 4,
                  "the type is '<f2', not one of '<f4', '|b1', '|u1', '<u2', '<i4', '<i8', '<f8'; save "
                  "array.astype('float32') instead");
    check_refused(1, DICTIONARY("'<f'", "False", "(2,)"), 8, "the type is '<f'");
    check_refused(1, DICTIONARY("'<f4 '", "False", "(2,)"), 8, "the type is '<f4 '");
    check_refused(1, DICTIONARY("[('x', '<f4')]", "False", "(2,)"), 8, "byte 20 of the header is 0x5b");
    check_refused(1, DICTIONARY("'<f4'", "False", "(2,)"), 7,
                  "cut short: (2,) float32 has 8 bytes of data, the file has 7");
    check_refused(1, DICTIONARY("'<f4'", "False", "(2,)"), 9,
                  "too long: (2,) float32 has 8 bytes of data, the file has 9");
    check_refused(1, DICTIONARY("'<f4'", "False", "(0, 3)"), 1, "0 bytes of data, the file has 1");
    check_refused(1, DICTIONARY("'<f4'", "False", "()"), 0, "() float32 has 4 bytes");
    check_refused(1, DICTIONARY("'<f4'", "False", "(1, 1, 1, 1, 1)"), 4, "more than 4 dimensions");
    check_refused(1, DICTIONARY("'<f4'", "False", "(3)"), 12, "needs a comma");
    check_refused(1, DICTIONARY("'<f4'", "False", "(-1,)"), 0, "0x2d, a length is needed");
    check_refused(1, DICTIONARY("'<f4'", "False", "(,)"), 0, "a length is needed");
    check_refused(1, DICTIONARY("'<f4'", "False", "(1 2)"), 8, "',' or ')'");
    check_refused(1, DICTIONARY("'<f4'", "False", "(1.0,)"), 4, "0x2e");
    check_refused(1, DICTIONARY("'<f4'", "false", "(1,)"), 4, "True or False");
    check_refused(1, DICTIONARY("'<f4'", "False", "3"), 4, "a shape like");
    /* 2^62 floats are 2^64 bytes; 2^32 squared; more digits than a word holds; an overflow hidden by a
       zero. */
    check_refused(1, DICTIONARY("'<f4'", "False", "(4611686018427387904,)"), 0, "too large");
    check_refused(1, DICTIONARY("'|u1'", "False", "(4294967296, 4294967296)"), 0, "too large");
    check_refused(1, DICTIONARY("'|u1'", "False", "(9223372036854775808,)"), 0,
                  "is over 9223372036854775807");
    check_refused(1, DICTIONARY("'|u1'", "False", "(99999999999999999999999999,)"), 0, "is over");
    check_refused(1, DICTIONARY("'|u1'", "False", "(18446744073709551617,)"), 1, "is over");
    check_refused(1, DICTIONARY("'|u1'", "False", "(4294967296, 4294967296, 0)"), 0, "too large");
}

static void broken_dictionaries_are_refused(void **state)
{
    (void)state;
    check_refused(1, "", 0, "the header ends at byte 10, '{' is needed");
    check_refused(1, "\n", 0, "byte 10 of the header is 0x0a");
    check_refused(1, "{}\n", 0, "lacks 'descr'");
    check_refused(1, "{'descr': '<f4', 'shape': ()}\n", 4, "lacks 'fortran_order'");
    check_refused(1, "{'descr': '<f4', 'fortran_order': False}\n", 4, "lacks 'shape'");
    check_refused(1, "{'descr': '<f4', 'descr': '<f4', 'fortran_order': False, 'shape': ()}\n", 4,
                  "'descr' twice");
    check_refused(1, "{'descr': '<f4', 'fortran_order': False, 'shape': (), 'x': 1}\n", 4, "unknown key 'x'");
    check_refused(1, "{'descr': '<f4', 'fortran_order': False, 'shape': ()", 4, "',' or '}'");
    check_refused(1, "{'descr': '<f4', 'fortran_order': False, 'shape': (), ", 4, "a key or '}'");
    check_refused(1, "{'descr': '<f4', 'fortran_order': Fals", 0, "True or False");
    check_refused(1, "{'descr': '<f4", 4, "the end of the string");
    check_refused(1, "{'descr", 4, "the end of the string");
    check_refused(1, "{'", 4, "the end of the string");
    check_refused(1, "{'descr' '<f4'}\n", 4, "':' is needed");
    check_refused(1, "{'descr': '<f4', 'fortran_order': False, 'shape': ()}", 4, "the end of the line");
    check_refused(1, "{'descr': '<f4', 'fortran_order': False, 'shape': ()}\n ", 4, "the end of the header");
    check_refused(1, "{'descr': '<f4', 'fortran_order': False, 'shape': ()} x\n", 4, "0x78");
    check_refused(4, DICTIONARY("'<f4'", "False", "()"), 4, "version is 4.0, not 1.0, 2.0 or 3.0");
    check_refused(0, DICTIONARY("'<f4'", "False", "()"), 4, "version is 0.0");
    check_refused(1, "{'a key that is longer than forty characters and so on': 1}\n", 0,
                  "unknown key 'a key that is longer than forty characte'");
    check_refused(1, "{'a key that has forty characters exactly_': 1}\n", 0,
                  "unknown key 'a key that has forty characters exactly_'");
    check_refused(1, DICTIONARY("'a type of more than 20 characters'", "False", "()"), 4,
                  "the type is 'a type of more than ', not");
    check_refused(1, DICTIONARY("'a type of 20 letters'", "False", "()"), 4,
                  "the type is 'a type of 20 letters', not");
    check_refused(1, DICTIONARY("''", "False", "()"), 4, "the type is '', not");
    check_refused(1, DICTIONARY("'<f4'", "False", "(3)"), 12, "byte 63 of the header: a shape of one");
    check_refused(1, DICTIONARY("'|u1'", "False", "(9223372036854775808,)"), 0, "a length before byte 80 is");
}

/* What follows the header is data, even if it looks like the rest of the dictionary. */
static void a_header_ends_where_its_length_says(void **state)
{
    (void)state;
    static const char dictionary[] =
        "{'descr' : '<f4' , 'fortran_order' : False , 'shape' : ( 12 , 3 , ) , }  \n";
    struct host host, want;
    host_init(&host);
    host_init(&want);
    for (size_t cut = 0; cut + 1 < sizeof dictionary; cut++) {
        char file[300] = "\x93NUMPY\x01\x00", header[sizeof dictionary];
        struct npy array;
        size_t start, rest = sizeof dictionary - 1 - cut;
        memcpy(header, dictionary, cut);
        header[cut] = '\0';
        size_t size = make(file, 1, header, rest);
        check_status(&want, npy_parse(&want, file, size, &array, &start), HASHATTN_BAD_FILE, "");
        memcpy(file + size - rest, dictionary + cut, rest);
        check_status(&host, npy_parse(&host, file, size, &array, &start), HASHATTN_BAD_FILE, want.message);
    }
}

static void descriptions_are_cut_to_the_buffer(void **state)
{
    (void)state;
    static const char whole[] = "(12, 345, 6, 7) uint16";
    const struct npy array = {.type = NPY_UINT16, .rank = 4, .shape = {12, 345, 6, 7}};
    for (size_t size = 1; size <= sizeof whole; size++) {
        char text[sizeof whole + 8];
        memset(text, '#', sizeof text);
        npy_describe(&array, text, size);
        assert_int_equal(strlen(text), size - 1);
        assert_memory_equal(text, whole, size - 1);
        assert_int_equal(text[size], '#');
    }
}

/* For every length of the dictionary. */
static void data_begin_at_a_multiple_of_64_bytes(void **state)
{
    (void)state;
    struct host host;
    host_init(&host);
    char path[] = "/tmp/test_npy.XXXXXX";
    close(mkstemp(path));
    size_t length = 1;
    for (int digits = 1; digits <= 18; digits++, length *= 10)
        for (int rank = 2; rank <= NPY_RANK; rank++) {
            struct npy array = {.type = NPY_INT32, .rank = rank, .shape = {0, length, 1, 1}}, back;
            char *bytes;
            size_t size;
            check_status(&host, npy_write(&host, path, &array), HASHATTN_OK, NULL);
            check_status(&host, npy_read(&host, path, 1000, &back), HASHATTN_OK, NULL);
            assert_int_equal(back.shape[1], length);
            check_status(&host, file_read(&host, path, 1000, &bytes, &size), HASHATTN_OK, NULL);
            assert_int_equal(size, 128);
            assert_int_equal(bytes[127], '\n');
            memory_free(&host, bytes);
        }
    remove(path);
}

static void every_prefix_is_refused(void **state)
{
    (void)state;
    struct host host;
    host_init(&host);
    for (int version = 1; version <= 2; version++) {
        char whole[300];
        size_t size = make(whole, version, DICTIONARY("'<f4'", "False", "(2, 3)"), 24), start;
        struct npy array;
        for (size_t kept = 0; kept < size; kept++) {
            char *file = malloc(kept + 1);
            memcpy(file, whole, kept);
            file = realloc(file, kept > 0 ? kept : 1);
            check_status(&host, npy_parse(&host, file, kept, &array, &start), HASHATTN_BAD_FILE,
                         kept < size - 24 ? NULL : "cut short: (2, 3) float32 has 24 bytes");
            free(file);
        }
    }
    char file[20] = "\x93NUMPY\x02\0\xff\xff\xff\xff";
    size_t start;
    struct npy array;
    check_status(&host, npy_parse(&host, file, 9, &array, &start), HASHATTN_BAD_FILE,
                 "cut short: 9 bytes, the preamble alone needs 10");
    file[6] = 1, file[9] = 1;
    check_status(&host, npy_parse(&host, file, 20, &array, &start), HASHATTN_BAD_FILE,
                 "cut short: 20 bytes, preamble and header alone need 521");
    file[6] = 2, file[9] = '\xff';
    check_status(&host, npy_parse(&host, file, sizeof file, &array, &start), HASHATTN_BAD_FILE,
                 "4294967295 bytes, at most 65535");
    file[7] = 1;
    check_status(&host, npy_parse(&host, file, sizeof file, &array, &start), HASHATTN_BAD_FILE,
                 "version is 2.1");
}

static void types_have_their_sizes(void **state)
{
    (void)state;
    static const struct {
        enum npy_type type;
        const char *name;
        size_t size;
    } want[] = {{NPY_FLOAT32, "float32", 4}, {NPY_BOOL, "bool", 1},   {NPY_UINT8, "uint8", 1},
                {NPY_UINT16, "uint16", 2},   {NPY_INT32, "int32", 4}, {NPY_INT64, "int64", 8},
                {NPY_FLOAT64, "float64", 8}};
    for (size_t i = 0; i < sizeof want / sizeof want[0]; i++) {
        assert_string_equal(npy_type_name(want[i].type), want[i].name);
        assert_int_equal(npy_type_size(want[i].type), want[i].size);
    }
}

/* The bytes that numpy 2.4 writes for numpy.save(f, numpy.array([[1, -2.5]], '<f4')). */
static void our_file_is_numpys_file(void **state)
{
    (void)state;
    struct host host;
    host_init(&host);
    char want[136], path[] = "/tmp/test_npy.XXXXXX";
    memset(want, ' ', sizeof want);
    memcpy(want, "\x93NUMPY\x01\x00\x76\x00", 10);
    static const char dictionary[] = "{'descr': '<f4', 'fortran_order': False, 'shape': (1, 2), }";
    memcpy(want + 10, dictionary, sizeof dictionary - 1);
    want[127] = '\n';
    memcpy(want + 128, "\x00\x00\x80\x3f\x00\x00\x20\xc0", 8);
    float data[] = {1, -2.5f};
    close(mkstemp(path));
    check_status(
        &host,
        npy_write(&host, path, &(struct npy){.type = NPY_FLOAT32, .rank = 2, .shape = {1, 2}, .data = data}),
        HASHATTN_OK, NULL);
    char *bytes;
    size_t size;
    check_status(&host, file_read(&host, path, 1000, &bytes, &size), HASHATTN_OK, NULL);
    assert_int_equal(size, sizeof want);
    check_same_bits(bytes, want, size, "our .npy");
    memory_free(&host, bytes);
    remove(path);
}

static void arrays_come_back(void **state)
{
    (void)state;
    struct host host;
    host_init(&host);
    char path[] = "/tmp/test_npy.XXXXXX";
    close(mkstemp(path));
    static const size_t shapes[][NPY_RANK] = {{0}, {5}, {2, 3}, {2, 3, 4}, {1, 2, 3, 4}, {7, 0, 2}};
    static const int ranks[] = {0, 1, 2, 3, 4, 3};
    unsigned char data[200];
    for (size_t i = 0; i < sizeof data; i++)
        data[i] = (unsigned char)(i * 37 + 11);
    for (int type = NPY_FLOAT32; type <= NPY_FLOAT64; type++)
        for (size_t i = 0; i < sizeof ranks / sizeof ranks[0]; i++) {
            struct npy array = {.type = (enum npy_type)type, .rank = ranks[i], .data = data}, back;
            memcpy(array.shape, shapes[i], sizeof array.shape);
            check_status(&host, npy_write(&host, path, &array), HASHATTN_OK, NULL);
            check_status(&host, npy_read(&host, path, 1000, &back), HASHATTN_OK, NULL);
            assert_int_equal(back.type, type);
            assert_int_equal(back.rank, ranks[i]);
            size_t count = 1;
            for (int k = 0; k < ranks[i]; k++) {
                assert_int_equal(back.shape[k], shapes[i][k]);
                count *= shapes[i][k];
            }
            assert_int_equal(back.count, count);
            assert_true((back.data == NULL) == (count == 0));
            assert_int_equal((uintptr_t)back.data % MEMORY_ALIGNMENT, 0);
            check_same_bits(back.data, data, count * npy_type_size(back.type), "data");
            npy_free(&host, &back);
            npy_free(&host, &back);
        }
    remove(path);
}

static void messages_name_the_file(void **state)
{
    (void)state;
    struct host host;
    host_init(&host);
    char path[] = "/tmp/test_npy.XXXXXX";
    int file = mkstemp(path);
    assert_int_equal(write(file, "nonsense", 8), 8);
    close(file);
    struct npy array;
    check_status(&host, npy_read(&host, path, 1000, &array), HASHATTN_BAD_FILE, path);
    check_status(&host, HASHATTN_BAD_FILE, HASHATTN_BAD_FILE, "its 8 bytes do not begin");
    check_status(&host, npy_read(&host, path, 7, &array), HASHATTN_BAD_FILE,
                 "larger than the limit of 7 bytes");
    remove(path);
    check_status(&host, npy_read(&host, path, 7, &array), HASHATTN_BAD_FILE, "No such file");
    check_status(&host, npy_write(&host, "/nowhere/x.npy", &(struct npy){.type = NPY_BOOL}), HASHATTN_NO_DISK,
                 "/nowhere/x.npy");
    struct npy huge = {.rank = 2, .shape = {SIZE_MAX / 2, 3}};
    check_status(&host, npy_write(&host, path, &huge), HASHATTN_INVALID, "too large");
    assert_false(file_exists(path));
}

static void failing_allocations_are_survived(void **state)
{
    (void)state;
    struct host host;
    host_init(&host);
    char path[] = "/tmp/test_npy.XXXXXX";
    close(mkstemp(path));
    float data[] = {1, 2};
    struct npy array = {.type = NPY_FLOAT32, .rank = 1, .shape = {2}, .data = data};
    check_status(&host, npy_write(&host, path, &array), HASHATTN_OK, NULL);
    struct failing_host failing;
    long n = 0;
    for (;; n++) {
        failing_host_init(&failing, n);
        hashattn_status status = npy_read(&failing.host, path, 1000, &array);
        if (status == HASHATTN_OK)
            break;
        check_status(&failing.host, status, HASHATTN_NO_MEMORY, "bytes");
        assert_null(array.data);
        assert_int_equal(failing.outstanding, 0);
    }
    assert_int_equal(n, 1); /* one block, which keeps the data */
    npy_free(&failing.host, &array);
    assert_int_equal(failing.outstanding, 0);
    /* The block of a bad file is freed. */
    assert_int_equal(truncate(path, 130), 0);
    failing_host_init(&failing, -1);
    check_status(&failing.host, npy_read(&failing.host, path, 1000, &array), HASHATTN_BAD_FILE, "cut short");
    assert_int_equal(failing.outstanding, 0);
    remove(path);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(dictionaries_are_read),
        cmocka_unit_test(headers_that_lie_are_refused),
        cmocka_unit_test(broken_dictionaries_are_refused),
        cmocka_unit_test(every_prefix_is_refused),
        cmocka_unit_test(a_header_ends_where_its_length_says),
        cmocka_unit_test(descriptions_are_cut_to_the_buffer),
        cmocka_unit_test(data_begin_at_a_multiple_of_64_bytes),
        cmocka_unit_test(types_have_their_sizes),
        cmocka_unit_test(our_file_is_numpys_file),
        cmocka_unit_test(arrays_come_back),
        cmocka_unit_test(messages_name_the_file),
        cmocka_unit_test(failing_allocations_are_survived),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
