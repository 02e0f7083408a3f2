/* Readers of file formats are linear (support/linear_time.h), whether an input has many parts or a long one.

   Planted and caught: the rest of a picture read again at each comment, that of a header of an array at each
   space; a block for a pipe that grows by a constant.
   SPDX-License-Identifier: Apache-2.0 */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/file.h"
#include "base/memory.h"
#include "density/number_rows.h"
#include "density/sketch_file.h"
#include "io/csv.h"
#include "io/json.h"
#include "io/npy.h"
#include "io/pgm.h"
#include "support/linear_time.h"

/* ---- JSON and CSV ------------------------------------------------------------------------------------- */

static void make_arrays(struct work *work, size_t n)
{
    put_text(work, "[0");
    put_repeated(work, ",[],{}", n);
    put_text(work, "]");
}

static void make_members(struct work *work, size_t n)
{
    for (size_t i = 0; i < n; i++)
        put_number(work, i == 0 ? "{\"k" : ",\"k", i, "\":1.5");
    put_text(work, "}");
}

static void make_string(struct work *work, size_t n)
{
    put_text(work, "\"");
    put_repeated(work, "a\\u00e9\\\\", n);
    put_text(work, "\"");
}

static void read_json(struct work *work)
{
    struct json *root;
    good(work, json_parse(work->host, work->text, work->size, &root));
    json_free(root);
}

/* Brackets that are never closed: the parser's own message. */
static void make_number(struct work *work, size_t n)
{
    put_text(work, "[");
    put_repeated(work, "9", n);
}

static void refuse_json(struct work *work)
{
    struct json *root;
    check_status(work->host, json_parse(work->host, work->text, work->size, &root), HASHATTN_BAD_FILE,
                 "byte");
}

static void make_records(struct work *work, size_t n)
{
    put_repeated(work, "\"a,\"\"b\",,\"\nc\",d\r\n", n);
}

static void read_records(struct work *work)
{
    struct csv csv = csv_of(work->text, work->size);
    do
        good(work, csv_next(work->host, &csv));
    while (csv.count > 0);
    csv_close(work->host, &csv);
}

/* ---- pictures and arrays ------------------------------------------------------------------------------ */

static void make_pictures(struct work *work, size_t n)
{
    put_repeated(work, "P2 1 1 255 7\n", n);
}

static void make_comments(struct work *work, size_t n)
{
    put_text(work, "P2");
    put_repeated(work, " # #\n", n);
    put_text(work, "1 1 255 7\n");
}

static void read_pictures(struct work *work)
{
    static unsigned char pixels[PGM_PIXELS];
    struct pgm pgm = pgm_open(work->text, work->size);
    bool more = true;
    while (more)
        good(work, pgm_next(work->host, &pgm, pixels, &more));
    assert_true(pgm.count > 0);
}

/* A header of mostly white space: at most 64 KiB are allowed. */
static void make_header(struct work *work, size_t n)
{
    static const char type[] = "{'descr': '<f4', 'fortran_order': False, 'shape': (0,),";
    size_t length = sizeof type - 1 + n + 2;
    put(work, "\x93NUMPY\x02\0", 8);
    put(work, (const char[]){(char)length, (char)(length >> 8), 0, 0}, 4);
    put_text(work, type);
    put_repeated(work, " ", n);
    put_text(work, "}\n");
}

static void read_header(struct work *work)
{
    struct npy array;
    size_t data;
    for (int i = 0; i < 10; i++) /* it is short */
        good(work, npy_parse(work->host, work->text, work->size, &array, &data));
}

/* ---- rows of numbers and sketches --------------------------------------------------------------------- */

static void make_table(struct work *work, size_t n)
{
    put_repeated(work, "1.5,-2,3e1\n", n);
    put_file(work, "table.csv");
}

static void read_table(struct work *work)
{
    char path[LINEAR_PATH];
    struct number_rows rows;
    const float *block;
    size_t count;
    path_of(work, "table.csv", path);
    good(work, number_rows_open(work->host, path, &rows));
    do
        good(work, number_rows_next(work->host, &rows, &block, &count));
    while (count > 0);
    number_rows_close(work->host, &rows);
}

static void make_sketch(struct work *work, size_t n)
{
    const struct sketch_options options = {.num_hashes = n, .hash_bits = 12};
    struct sketch *sketch;
    char path[LINEAR_PATH];
    size_t size;
    path_of(work, "sketch", path);
    good(work, sketch_new(work->host, kernels_named(NULL, &(const char *){0}), NULL, &options, 1, &sketch));
    good(work, sketch_save(work->host, sketch, path));
    sketch_free(work->host, sketch);
    char *bytes = folder_get(work->folder, "sketch", &size);
    put(work, bytes, size);
    free(bytes);
}

static void read_sketch(struct work *work)
{
    struct sketch *sketch;
    good(work, sketch_parse(work->host, kernels_named(NULL, &(const char *){0}), NULL, work->text, work->size,
                            &sketch));
    sketch_free(work->host, sketch);
}

/* ---- pipes --------------------------------------------------------------------------------------------- */

static void make_bytes(struct work *work, size_t n)
{
    put_repeated(work, "0123456789abcdef", n);
}

struct pouring {
    const struct work *work;
    int to;
};

static void *pour(void *of)
{
    const struct pouring *pouring = of;
    for (size_t at = 0; at < pouring->work->size;) {
        ssize_t put = write(pouring->to, pouring->work->text + at, pouring->work->size - at);
        if (put <= 0)
            break;
        at += (size_t)put;
    }
    close(pouring->to);
    return NULL;
}

/* Standard input and other pipes have no size that is known before. */
static void read_pipe(struct work *work)
{
    int ends[2];
    char path[40], *bytes = NULL;
    size_t size = 0;
    pthread_t thread;
    assert_int_equal(pipe(ends), 0);
    struct pouring pouring = {work, ends[1]};
    assert_int_equal(pthread_create(&thread, NULL, pour, &pouring), 0);
    snprintf(path, sizeof path, "/dev/fd/%d", ends[0]);
    good(work, file_read(work->host, path, SIZE_MAX, &bytes, &size));
    assert_int_equal(pthread_join(thread, NULL), 0);
    close(ends[0]);
    assert_int_equal(size, work->size);
    memory_free(work->host, bytes);
}

/* ---- the comparison ----------------------------------------------------------------------------------- */

static const struct linear readers[] = {
    {"empty arrays and objects", 20000, make_arrays, read_json},
    {"members of an object", 10000, make_members, read_json},
    {"a string with escapes", 100000, make_string, read_json},
    {"a number that does not end", 200000, make_number, refuse_json},
    {"records", 100000, make_records, read_records},
    {"pictures", 100000, make_pictures, read_pictures},
    {"comments of a picture", 60000, make_comments, read_pictures},
    {"the header of an array", 60000, make_header, read_header},
    {"rows of numbers", 60000, make_table, read_table},
    {"tables of a sketch", 400, make_sketch, read_sketch},
    {"a pipe", 1000000, make_bytes, read_pipe},
};

static void time_grows_as_the_input(void **state)
{
    (void)state;
    linear_check_all(readers, sizeof readers / sizeof *readers);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(time_grows_as_the_input),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
