/* Files as the format's own library writes them, wrong files, and files written and read back. Bugs tried and
   caught: a hole accepted; an overlap accepted; bytes after the last tensor accepted; product of a shape
   unchecked; header length not checked against the file; narrow types first; padding left out; shape ignored
   by copy; a duplicate name accepted; the header leaked when a tensor is bad; metadata of numbers accepted;
   metadata that is not UTF-8 written; the data read with the header; a file cut after its header accepted;
   __metadata__ of null refused; another name of a tensor not found, or found
   in place of a tensor of that name; the text of a Git LFS pointer as a length.
   SPDX-License-Identifier: Apache-2.0 */
#include "io/weights/safetensors.h"

#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/file.h"
#include "base/memory.h"
#include "support/check.h"

/* Length, header and `data` zeros, in an exact heap block, so that ASan sees a read past the end. */
static char *make(const char *header, size_t data, size_t *size)
{
    uint64_t length = strlen(header);
    *size = 8 + length + data;
    char *file = calloc(1, *size);
    memcpy(file, &length, 8);
    memcpy(file + 8, header, length);
    return file;
}

static void check_refused(const char *header, size_t data, const char *part)
{
    struct failing_host failing;
    failing_host_init(&failing, -1);
    size_t size;
    char *bytes = make(header, data, &size);
    struct safetensors file;
    check_status(&failing.host, safetensors_parse(&failing.host, bytes, size, &file), HASHATTN_BAD_FILE,
                 part);
    assert_int_equal(failing.outstanding, 0);
    assert_null(file.tensors);
    assert_null(file.header);
    free(bytes);
}

static void check_accepted(const char *header, size_t data, size_t count)
{
    struct failing_host failing;
    failing_host_init(&failing, -1);
    size_t size;
    char *bytes = make(header, data, &size);
    struct safetensors file;
    check_status(&failing.host, safetensors_parse(&failing.host, bytes, size, &file), HASHATTN_OK, NULL);
    assert_int_equal(file.count, count);
    safetensors_free(&failing.host, &file);
    assert_int_equal(failing.outstanding, 0);
    free(bytes);
}

#define F32(name, shape, begin, end)                                                                         \
    "\"" name "\": {\"dtype\": \"F32\", \"shape\": " shape ", \"data_offsets\": [" #begin ", " #end "]}"

static void good_files_are_accepted(void **state)
{
    (void)state;
    check_accepted("{}", 0, 0);
    check_accepted("{}      ", 0, 0);
    check_accepted("{" F32("a", "[]", 0, 4) "}", 4, 1);
    check_accepted("{" F32("a", "[0]", 0, 0) "}", 0, 1);
    check_accepted("{" F32("b", "[2]", 4, 12) ", " F32("a", "[1, 1]", 0, 4) "}", 12, 2);
    check_accepted("{" F32("a", "[1, 1, 1, 1, 1, 1, 1, 1]", 0, 4) "}", 4, 1);
    /* Empty tensors may begin where another begins, in any order. */
    check_accepted("{" F32("a", "[1]", 0, 4) ", " F32("e", "[0]", 0, 0) ", " F32("f", "[0]", 4, 4) "}", 4, 3);
    check_accepted("{" F32("f", "[0]", 4, 4) ", " F32("e", "[0]", 0, 0) ", " F32("a", "[1]", 0, 4) "}", 4, 3);
    check_accepted("{" F32("b", "[1]", 4, 8) ", " F32("e", "[3, 0]", 4, 4) ", " F32("a", "[1]", 0, 4) "}", 8,
                   3);
    check_accepted("{\"__metadata__\": {}}", 0, 0);
    check_accepted("{\"__metadata__\": {\"a\": \"b\"}, " F32("a", "[1]", 0, 4) "}", 4, 1);
}

static void files_that_lie_are_refused(void **state)
{
    (void)state;
    check_refused("{" F32("a", "[1]", 0, 4) ", " F32("b", "[1]", 8, 12) "}", 12,
                  "'b' begins at byte 8 of the data, a hole begins at 4");
    check_refused("{" F32("a", "[1]", 4, 8) "}", 8, "'a' begins at byte 4 of the data, a hole begins at 0");
    check_refused("{" F32("a", "[2]", 0, 8) ", " F32("b", "[2]", 4, 12) "}", 12,
                  "'b' begins at byte 4 of the data, another ends at 8");
    check_refused("{" F32("a", "[1]", 0, 4) ", " F32("b", "[1]", 0, 4) "}", 4, "another ends at 4");
    check_refused("{" F32("a", "[1]", 0, 4) "}", 5, "end at byte 4 of the data, the file has 5");
    check_refused("{}", 1, "end at byte 0 of the data, the file has 1");
    check_refused("{" F32("a", "[1]", 0, 4) "}", 3, "tensor 'a': data_offsets are 0 to 4, the file has 3");
    check_refused("{" F32("a", "[1]", 4, 0) "}", 4, "data_offsets are 4 to 0");
    check_refused("{" F32("a", "[2]", 0, 4) "}", 4, "data_offsets hold 4 bytes, its shape and dtype need 8");
    check_refused("{" F32("a", "[1]", 0, 8) "}", 8, "hold 8 bytes, its shape and dtype need 4");
    check_refused("{" F32("a", "[1]", 0, 4) ", " F32("b", "[2]", 4, 8) "}", 8,
                  "'b': data_offsets hold 4 bytes, its shape and dtype need 8");
    check_refused("{" F32("a", "[4611686018427387905]", 0, 4) "}", 4, "its shape is too large");
    check_refused("{" F32("a", "[4294967296, 4294967296]", 0, 0) "}", 0, "its shape is too large");
    check_refused("{" F32("a", "[9223372036854775808]", 0, 0) "}", 0,
                  "'shape.0' is 9223372036854775808, allowed");
    check_refused("{" F32("a", "[-1]", 0, 0) "}", 0, "'shape.0' is -1");
    check_refused("{" F32("a", "[1.0]", 0, 4) "}", 4, "'shape.0' is a real number");
    check_refused("{" F32("a", "[1, 1, 1, 1, 1, 1, 1, 1, 1]", 0, 4) "}", 4, "9 dimensions, at most 8");
    check_refused("{" F32("a", "1", 0, 4) "}", 4, "an array is needed");
    check_refused("{" F32("a", "[1]", -1, 3) "}", 4, "'data_offsets.0' is -1");
    check_refused("{\"a\": {\"dtype\": \"F32\", \"shape\": [1], \"data_offsets\": [0, 4, 4]}}", 4,
                  "3 data_offsets");
    check_refused("{\"a\": {\"dtype\": \"F31\", \"shape\": [1], \"data_offsets\": [0, 4]}}", 4,
                  "the dtype 'F31' is unknown");
    check_refused("{\"a\": {\"dtype\": \"F32\", \"shape\": [1]}}", 4, "'data_offsets' is missing");
    check_refused("{\"a\": {\"dtype\": \"F32\", \"shape\": [1], \"offsets\": [0, 4]}}", 4, "is missing");
    check_refused("{\"a\": 1}", 0, "tensor 'a': 'the top level' is a whole number");
    check_refused("{" F32("a", "[1]", 0, 4) ", " F32("a", "[1]", 0, 4) "}", 4, "duplicate");
    check_refused("{\"__metadata__\": {\"a\": 1}}", 0, "'a' is not a string");
    check_refused("{\"__metadata__\": {\"a\": null}}", 0, "'a' is not a string");
    check_refused("{\"__metadata__\": \"a\"}", 0, "an object is needed");
    check_refused("{\"__others__\": null}", 0, "'__others__': 'the top level' is null, an object is needed");
    check_refused("", 0, "does not begin with '{'");
    check_refused(" {}", 0, "does not begin with '{'");
    check_refused("{", 0, "header: byte");
    check_refused("{} x", 0, "header: byte");
    check_refused("{" F32("a", "[1, 1, 1, 1, 1, 1, 1, 1]", 0, 4) "}", 5, "end at byte 4"); /* 8 are allowed */
    check_refused("{\"a\": {\"dtype\": \"F32\", \"shape\": [1], \"data_offsets\": [0]}}", 4,
                  "1 data_offsets");
    check_refused("{" F32("b", "[2]", 4, 12) ", " F32("a", "[1]", 0, 4) "}", 13,
                  "end at byte 12 of the data, the file has 13");
}

/* As the format's own library reads them. */
static void what_is_not_read_does_no_harm(void **state)
{
    (void)state;
    check_accepted("{\"__metadata__\": null, " F32("a", "[1]", 0, 4) "}", 4, 1);
    check_accepted("{\"a\": {\"dtype\": \"F32\", \"device\": [{}], \"shape\": [1], \"data_offsets\": [0, 4], "
                   "\"id\": 18446744073709551615}}",
                   4, 1);
    check_accepted("{\"a\": {\"dtype\": \"C64\", \"shape\": [1], \"data_offsets\": [0, 8]}, "
                   "\"b\": {\"dtype\": \"F8_E8M0\", \"shape\": [3], \"data_offsets\": [8, 11]}}",
                   11, 2);
}

static void tensors_may_have_other_names(void **state)
{
    (void)state;
    struct host host;
    struct safetensors file;
    host_init(&host);
    size_t size;
    char *bytes =
        make("{\"__metadata__\": {\"format\": \"pt\", \"second\": \"a\", \"b\": \"a\", \"third\": "
             "\"second\", \"loop\": \"loop\"}, " F32("a", "[1]", 0, 4) ", " F32("b", "[1]", 4, 8) "}",
             8, &size);
    check_status(&host, safetensors_parse(&host, bytes, size, &file), HASHATTN_OK, NULL);
    const struct tensor *a = safetensors_find(&file, "a"), *b = safetensors_find(&file, "b");
    assert_true(a != NULL && b != NULL && a != b);
    assert_ptr_equal(safetensors_find(&file, "second"), a);
    assert_null(safetensors_find(&file, "third")); /* no tensor has the name "second" in the file */
    assert_null(safetensors_find(&file, "loop"));
    assert_null(safetensors_find(&file, "format"));
    safetensors_free(&host, &file);
    free(bytes);
}

static void lengths_that_lie_are_refused(void **state)
{
    (void)state;
    struct host host;
    host_init(&host);
    struct safetensors file;
    char bytes[16] = "\0\0\0\0\0\0\0\0{}";
    for (size_t size = 0; size < 8; size++)
        check_status(&host, safetensors_parse(&host, bytes, size, &file), HASHATTN_BAD_FILE,
                     "not a safetensors file");
    static const char pointer[] = "version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 1\n";
    check_status(&host, safetensors_parse(&host, pointer, strlen(pointer), &file), HASHATTN_BAD_FILE,
                 "a pointer of Git LFS to the file, not the file itself, which `git lfs pull` fetches");
    static const struct {
        uint64_t length;
        const char *part;
    } lies[] = {{0, "does not begin"},
                {3, "cut short: 10 bytes, length and header alone need 11"},
                {100000000, "cut short: 10 bytes"},
                {100000001, "the header has 100000001 bytes, at most 100000000"},
                {UINT64_MAX, "the header has 18446744073709551615 bytes"},
                {UINT64_MAX - 7, "bytes, at most"}};
    for (size_t i = 0; i < sizeof lies / sizeof lies[0]; i++) {
        memcpy(bytes, &lies[i].length, 8);
        check_status(&host, safetensors_parse(&host, bytes, 10, &file), HASHATTN_BAD_FILE, lies[i].part);
    }
}

static const size_t shape_a[] = {2, 3}, shape_empty[] = {0, 4};
static const float data_a[] = {1, 2, 3, 4, 5, -0.0f}, data_scalar[] = {7};
static const unsigned char data_bytes[] = {9, 8, 7};
static const int64_t data_wide[] = {INT64_MIN};
static const struct tensor all[] = {
    {.name = "bytes", .type = TENSOR_U8, .rank = 1, .shape = {3}, .data = data_bytes},
    {.name = "layer.0.\"a\"/\xc3\xa9", .type = TENSOR_F32, .rank = 2, .shape = {2, 3}, .data = data_a},
    {.name = "scalar", .type = TENSOR_F32, .rank = 0, .data = data_scalar},
    {.name = "empty", .type = TENSOR_F32, .rank = 2, .shape = {0, 4}, .data = NULL},
    {.name = "wide", .type = TENSOR_I64, .rank = 1, .shape = {1}, .data = data_wide},
};
enum { ALL = sizeof all / sizeof all[0] };
static const struct tensor_word words[] = {{"step", "12"}, {"with.dots", "\xc3\xa9"}};

static void tensors_come_back(void **state)
{
    (void)state;
    struct host host;
    host_init(&host);
    char path[] = "/tmp/test_safetensors.XXXXXX";
    close(mkstemp(path));
    check_status(&host, safetensors_write(&host, path, all, ALL, words, 2), HASHATTN_OK, NULL);
    struct safetensors file;
    check_status(&host, safetensors_read(&host, path, 4096, &file), HASHATTN_OK, NULL);
    assert_int_equal(file.count, ALL);
    const char *order[] = {"wide", all[1].name, "scalar", "empty", "bytes"};
    for (size_t i = 0; i < ALL; i++) {
        const struct tensor *got = safetensors_find(&file, all[i].name);
        assert_non_null(got);
        assert_int_equal(got->type, all[i].type);
        assert_int_equal(got->rank, all[i].rank);
        check_same_bits(got->shape, all[i].shape, sizeof got->shape, "shape");
        check_same_bits(got->data, all[i].data, got->bytes, "data");
        assert_int_equal((uintptr_t)got->data % tensor_type_size(got->type), 0);
        /* In the order of the file; tensors at the same offset may come in either order. */
        if (i < 2)
            assert_string_equal(file.tensors[i].name, order[i]);
    }
    assert_string_equal(file.tensors[ALL - 1].name, "bytes");
    assert_null(safetensors_find(&file, "absent"));
    assert_null(safetensors_find(&file, "__metadata__"));
    assert_string_equal(safetensors_word(&file, "step"), "12");
    assert_string_equal(safetensors_word(&file, "with.dots"), "\xc3\xa9");
    assert_null(safetensors_word(&file, "with"));

    float out[6];
    check_status(&host, safetensors_copy(&host, &file, all[1].name, 2, shape_a, out), HASHATTN_OK, NULL);
    check_same_bits(out, data_a, sizeof out, "copy");
    check_status(&host, safetensors_copy(&host, &file, "scalar", 0, NULL, out), HASHATTN_OK, NULL);
    assert_true(out[0] == 7);
    check_status(&host, safetensors_copy(&host, &file, "empty", 2, shape_empty, out), HASHATTN_OK, NULL);
    check_status(&host, safetensors_copy(&host, &file, "scalar", 2, shape_a, out), HASHATTN_BAD_FILE,
                 "tensor 'scalar' is F32 (), F32 (2, 3) is needed");
    check_status(&host, safetensors_copy(&host, &file, "empty", 2, shape_a, out), HASHATTN_BAD_FILE,
                 "is F32 (0, 4), F32 (2, 3) is needed");
    check_status(&host, safetensors_copy(&host, &file, "bytes", 1, (size_t[]){3}, out), HASHATTN_BAD_FILE,
                 "is U8 (3,), F32 (3,) is needed");
    check_status(&host, safetensors_copy(&host, &file, "absent", 0, NULL, out), HASHATTN_BAD_FILE,
                 "'absent' is missing");
    safetensors_free(&host, &file);
    assert_null(safetensors_word(&file, "step"));
    remove(path);
}

static void headers_are_padded_to_eight(void **state)
{
    (void)state;
    struct host host;
    host_init(&host);
    char path[] = "/tmp/test_safetensors.XXXXXX", name[20] = "";
    close(mkstemp(path));
    for (int i = 0; i < 16; i++) {
        strcat(name, "x");
        struct tensor tensor = {.name = name, .type = TENSOR_F32, .rank = 1, .shape = {6}, .data = data_a};
        check_status(&host, safetensors_write(&host, path, &tensor, 1, NULL, 0), HASHATTN_OK, NULL);
        char *bytes;
        size_t size;
        uint64_t length;
        check_status(&host, file_read(&host, path, 4096, &bytes, &size), HASHATTN_OK, NULL);
        memcpy(&length, bytes, 8);
        assert_int_equal(length % 8, 0);
        assert_int_equal(size, 8 + length + sizeof data_a);
        memory_free(&host, bytes);
        struct safetensors file;
        check_status(&host, safetensors_read(&host, path, 4096, &file), HASHATTN_OK, NULL);
        assert_null(safetensors_word(&file, "step"));
        safetensors_free(&host, &file);
    }
    remove(path);
}

static void a_header_gives_the_same_description(void **state)
{
    (void)state;
    struct failing_host host;
    char path[] = "/tmp/test_safetensors.XXXXXX";
    failing_host_init(&host, -1);
    close(mkstemp(path));
    static const float numbers[6] = {1, 2, 3, 4, 5, 6};
    const struct tensor tensors[2] = {
        {.name = "one", .type = TENSOR_F32, .rank = 2, .shape = {2, 2}, .data = numbers},
        {.name = "two", .type = TENSOR_F32, .rank = 1, .shape = {2}, .data = numbers + 4}};
    const struct tensor_word word = {"step", "17"};
    check_status(&host.host, safetensors_write(&host.host, path, tensors, 2, &word, 1), HASHATTN_OK, NULL);
    struct safetensors file;
    check_status(&host.host, safetensors_read_header(&host.host, path, &file), HASHATTN_OK, NULL);
    assert_int_equal(file.count, 2);
    assert_string_equal(safetensors_word(&file, "step"), "17");
    const struct tensor *two = safetensors_find(&file, "two");
    assert_true(two != NULL && two->data == NULL && two->begin == 16 && two->bytes == 8);
    static const size_t shape[] = {2, 2}, other[] = {2, 3};
    check_status(&host.host, safetensors_check(&host.host, &file, "one", 2, shape), HASHATTN_OK, NULL);
    check_status(&host.host, safetensors_check(&host.host, &file, "one", 2, other), HASHATTN_BAD_FILE,
                 "tensor 'one' is F32 (2, 2), F32 (2, 3) is needed");
    check_status(&host.host, safetensors_check(&host.host, &file, "three", 1, shape), HASHATTN_BAD_FILE,
                 "tensor 'three' is missing");
    safetensors_free(&host.host, &file);
    /* Cut anywhere, one byte too long, or not safetensors: the same message as from the reader of whole
       files. */
    char *bytes;
    size_t size;
    check_status(&host.host, file_read(&host.host, path, 4096, &bytes, &size), HASHATTN_OK, NULL);
    for (size_t cut = 0; cut <= size + 1; cut++) {
        FILE *out = fopen(path, "wb");
        assert_non_null(out);
        assert_int_equal(fwrite(bytes, 1, cut < size ? cut : size, out), cut < size ? cut : size);
        assert_true(cut <= size || fputc('x', out) == 'x');
        fclose(out);
        char want[sizeof host.host.message] = "";
        hashattn_status status = safetensors_read(&host.host, path, 4096, &file);
        memcpy(want, host.host.message, sizeof want);
        if (status == HASHATTN_OK)
            safetensors_free(&host.host, &file);
        check_status(&host.host, safetensors_read_header(&host.host, path, &file), status, want);
        if (status == HASHATTN_OK)
            safetensors_free(&host.host, &file);
        assert_int_equal(status, cut == size ? HASHATTN_OK : HASHATTN_BAD_FILE);
    }
    memory_free(&host.host, bytes);
    /* Data of any size are not read. */
    size_t many = (size_t)1 << 26, length;
    char header[200];
    snprintf(header, sizeof header, "{\"x\":{\"dtype\":\"U8\",\"shape\":[%zu],\"data_offsets\":[0,%zu]}}",
             many, many);
    bytes = make(header, 0, &length);
    FILE *out = fopen(path, "wb");
    assert_non_null(out);
    assert_int_equal(fwrite(bytes, 1, length, out), length);
    fclose(out);
    assert_int_equal(truncate(path, (off_t)(length + many)), 0);
    host.largest = 0;
    check_status(&host.host, safetensors_read_header(&host.host, path, &file), HASHATTN_OK, NULL);
    assert_true(file.tensors[0].bytes == many && host.largest < 1000);
    safetensors_free(&host.host, &file);
    assert_int_equal(host.outstanding, 0);
    free(bytes);
    remove(path);
}

/* safetensors.numpy.save({'b': float32 [1, -2], 'a': uint8 [[7]]}, metadata {'k': 'v'}) of version 0.8.0. */
static void a_file_of_the_inventors_is_read(void **state)
{
    (void)state;
    struct host host;
    host_init(&host);
    size_t size;
    char *bytes = make("{\"__metadata__\":{\"k\":\"v\"},"
                       "\"b\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[0,8]},"
                       "\"a\":{\"dtype\":\"U8\",\"shape\":[1,1],\"data_offsets\":[8,9]}}   ",
                       9, &size);
    memcpy(bytes + size - 9, "\x00\x00\x80\x3f\x00\x00\x00\xc0\x07", 9);
    struct safetensors file;
    check_status(&host, safetensors_parse(&host, bytes, size, &file), HASHATTN_OK, NULL);
    float b[2];
    check_status(&host, safetensors_copy(&host, &file, "b", 1, (size_t[]){2}, b), HASHATTN_OK, NULL);
    assert_true(b[0] == 1 && b[1] == -2);
    const struct tensor *a = safetensors_find(&file, "a");
    assert_true(a->rank == 2 && a->type == TENSOR_U8 && *(const char *)a->data == 7);
    assert_string_equal(safetensors_word(&file, "k"), "v");
    safetensors_free(&host, &file);
    free(bytes);
}

static void what_cannot_be_written_is_refused(void **state)
{
    (void)state;
    struct host host;
    host_init(&host);
    char path[] = "/tmp/test_safetensors.XXXXXX";
    close(mkstemp(path));
    remove(path);
    struct tensor tensor = {.name = "a", .type = TENSOR_F32, .rank = 1, .shape = {6}, .data = data_a};
    struct tensor twice[] = {tensor, tensor};
    check_status(&host, safetensors_write(&host, path, twice, 2, NULL, 0), HASHATTN_INVALID,
                 "the tensor name 'a' is reserved or used twice");
    twice[0].name = "__metadata__";
    check_status(&host, safetensors_write(&host, path, twice, 1, NULL, 0), HASHATTN_INVALID, "reserved");
    twice[0].name = "\xff";
    check_status(&host, safetensors_write(&host, path, twice, 1, NULL, 0), HASHATTN_INVALID, "not UTF-8");
    check_status(&host, HASHATTN_INVALID, HASHATTN_INVALID, path);
    static const struct tensor_word bad[] = {{"good", "text"}, {"comment", "\xff"}};
    check_status(&host, safetensors_write(&host, path, &tensor, 1, bad, 2), HASHATTN_INVALID, "comment: ");
    tensor.shape[0] = SIZE_MAX / 4;
    check_status(&host, safetensors_write(&host, path, &tensor, 1, NULL, 0), HASHATTN_INVALID, "too large");
    assert_false(file_exists(path));
    check_status(&host, safetensors_write(&host, "/nowhere/x", all, ALL, NULL, 0), HASHATTN_NO_DISK,
                 "/nowhere/x");
    struct safetensors file;
    check_status(&host, safetensors_read(&host, path, 4096, &file), HASHATTN_BAD_FILE, "No such file");
    assert_null(file.bytes);
    static const size_t most = (size_t)INT64_MAX;
    const struct tensor wide[] = {
        {.name = "a", .type = TENSOR_U8, .rank = 1, .shape = {most}, .data = data_a},
        {.name = "b", .type = TENSOR_U8, .rank = 1, .shape = {1}, .data = data_a}};
    check_status(&host, safetensors_write(&host, path, wide, 2, NULL, 0), HASHATTN_INVALID,
                 "tensor 'b' is too large");
}

/* Long shapes fit the message. */
static void shapes_of_every_length_are_named(void **state)
{
    (void)state;
    struct host host;
    host_init(&host);
    size_t size, shape[TENSOR_RANK];
    char *bytes = make("{" F32("a", "[0, 0, 0, 0, 0, 0, 0, 0]", 0, 0) "}", 0, &size), want[200] = "(";
    struct safetensors file;
    check_status(&host, safetensors_parse(&host, bytes, size, &file), HASHATTN_OK, NULL);
    for (int i = 0; i < TENSOR_RANK; i++) {
        shape[i] = SIZE_MAX;
        sprintf(want + strlen(want), "%s18446744073709551615", i > 0 ? ", " : "");
    }
    strcat(want, ") is needed");
    check_status(&host, safetensors_check(&host, &file, "a", TENSOR_RANK, shape), HASHATTN_BAD_FILE,
                 "tensor 'a' is F32 (0, 0, 0, 0, 0, 0, 0, 0), F32 (18446744073709551615");
    check_status(&host, HASHATTN_BAD_FILE, HASHATTN_BAD_FILE, want);
    safetensors_free(&host, &file);
    free(bytes);
}

/* The host's and jansson's allocations fail from the n-th on. */
static long blocks_left = -1, blocks_out;

static void *counted_malloc(size_t size)
{
    if (blocks_left == 0)
        return NULL;
    if (blocks_left > 0)
        blocks_left--;
    void *block = malloc(size);
    blocks_out += block != NULL;
    return block;
}

static void counted_free(void *block)
{
    blocks_out -= block != NULL;
    free(block);
}

/* A header that no reader accepts is not written, and leaves no file. */
static void too_long_a_header_is_not_written(void **state)
{
    (void)state;
    struct host host;
    host_init(&host);
    char *value = malloc(SAFETENSORS_MAX_HEADER + 1), path[] = "/tmp/test_safetensors.XXXXXX";
    memset(value, 'x', SAFETENSORS_MAX_HEADER);
    value[SAFETENSORS_MAX_HEADER] = '\0';
    const struct tensor_word word = {"long", value};
    close(mkstemp(path));
    unlink(path);
    check_status(&host, safetensors_write(&host, path, all, 1, &word, 1), HASHATTN_INVALID,
                 "bytes, at most 100000000 are allowed");
    assert_int_not_equal(access(path, F_OK), 0);
    free(value);
}

static void failing_allocations_are_survived(void **state)
{
    (void)state;
    struct failing_host failing;
    failing_host_init(&failing, -1);
    json_set_alloc_funcs(counted_malloc, counted_free);
    char path[] = "/tmp/test_safetensors.XXXXXX";
    close(mkstemp(path));
    check_status(&failing.host, safetensors_write(&failing.host, path, all, ALL - 1, words, 2), HASHATTN_OK,
                 NULL);
    struct safetensors file;
    long n[4] = {0};
    for (int which = 0; which < 4;
         which++) { /* reading with failing allocations of the host and of jansson, then writing */
        for (;; n[which]++) {
            failing_host_init(&failing, which % 2 == 0 ? n[which] : -1);
            blocks_left = which % 2 == 1 ? n[which] : -1;
            hashattn_status status = which < 2 ? safetensors_read(&failing.host, path, 4096, &file)
                                               : safetensors_write(&failing.host, path, all, ALL, words, 2);
            if (which < 2 && status == HASHATTN_OK)
                safetensors_free(&failing.host, &file);
            assert_int_equal(failing.outstanding, 0);
            assert_int_equal(blocks_out, 0);
            if (status == HASHATTN_OK)
                break;
            check_status(&failing.host, status, HASHATTN_NO_MEMORY, path);
            /* A failed write leaves the old file. */
            blocks_left = failing.until_failure = -1;
            check_status(&failing.host, safetensors_read(&failing.host, path, 4096, &file), HASHATTN_OK,
                         NULL);
            assert_int_equal(file.count, which < 3 ? ALL - 1 : ALL);
            safetensors_free(&failing.host, &file);
        }
    }
    blocks_left = -1;
    json_set_alloc_funcs(malloc, free);
    assert_true(n[0] == 3 && n[1] > 20 && n[2] >= 1 && n[3] > 20);
    remove(path);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(good_files_are_accepted),
        cmocka_unit_test(files_that_lie_are_refused),
        cmocka_unit_test(what_is_not_read_does_no_harm),
        cmocka_unit_test(tensors_may_have_other_names),
        cmocka_unit_test(lengths_that_lie_are_refused),
        cmocka_unit_test(tensors_come_back),
        cmocka_unit_test(headers_are_padded_to_eight),
        cmocka_unit_test(a_header_gives_the_same_description),
        cmocka_unit_test(a_file_of_the_inventors_is_read),
        cmocka_unit_test(what_cannot_be_written_is_refused),
        cmocka_unit_test(shapes_of_every_length_are_named),
        cmocka_unit_test(too_long_a_header_is_not_written),
        cmocka_unit_test(failing_allocations_are_survived),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
