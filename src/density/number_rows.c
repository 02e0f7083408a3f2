/* Both formats fill the same block.
   SPDX-License-Identifier: Apache-2.0 */
#include "density/number_rows.h"

#include <float.h>
#include <math.h>
#include <string.h>

#include "base/c_locale.h"
#include "base/memory.h"
#include "io/decimal.h"

enum { MOST_ROWS = 4096, MOST_NUMBERS = 1 << 22 };

size_t number_rows_block(size_t dim)
{
    return size_max(1, size_min(MOST_ROWS, MOST_NUMBERS / size_max(1, dim)));
}

/* ---- CSV ----------------------------------------------------------------------------------------------- */

/* True for a record of names: no field is empty, or begins as a number or as NaN and infinity are written. */
static bool is_header(const struct csv *csv)
{
    for (size_t c = 0; c < csv->count; c++) {
        struct piece field = csv->fields[c];
        if (field.size == 0 || strchr("+-.0123456789 ", field.bytes[0]) != NULL)
            return false;
        if (field.size <= 8 && strchr("nNiI", field.bytes[0]) != NULL)
            for (const char *const *word = (const char *const[]){"nan", "NaN", "NAN", "inf", "Inf", "INF",
                                                                 "infinity", "Infinity", "NA", "null", NULL};
                 *word != NULL; word++)
                if (piece_is(field, *word))
                    return false;
    }
    return true;
}

/* Reads the next record that is not an empty line; csv->count is 0 at the end. */
static hashattn_status next_record(struct host *host, struct number_rows *rows)
{
    do
        TRY(csv_next(host, &rows->csv));
    while (rows->csv.count == 1 && rows->csv.fields[0].size == 0 && rows->dim != 1);
    return HASHATTN_OK;
}

static hashattn_status open_csv(struct host *host, struct number_rows *rows)
{
    TRY(next_record(host, rows));
    if (rows->csv.count > 0 && is_header(&rows->csv)) {
        rows->dim = rows->csv.count;
        TRY(next_record(host, rows));
    }
    rows->pending = rows->csv.count > 0;
    FAIL_IF(!rows->pending, host, HASHATTN_BAD_FILE, "there are no rows of numbers");
    rows->dim = rows->dim > 0 ? rows->dim : rows->csv.count;
    return HASHATTN_OK;
}

static hashattn_status read_record(struct host *host, const struct number_rows *rows, float *to)
{
    const struct csv *csv = &rows->csv;
    FAIL_IF(csv->count != rows->dim, host, HASHATTN_BAD_FILE, "line %zu has %zu columns, the rows before %zu",
            csv->line, csv->count, rows->dim);
    for (size_t c = 0; c < rows->dim; c++) {
        struct piece field = csv->fields[c];
        double value;
        FAIL_IF(!decimal_read(field, &value), host, HASHATTN_BAD_FILE,
                "line %zu, column %zu: '%.*s' is not a finite number", csv->line, c + 1,
                (int)size_min(field.size, 40), field.bytes);
        FAIL_IF(fabs(value) > (double)FLT_MAX, host, HASHATTN_BAD_FILE,
                "line %zu, column %zu: '%.*s' is beyond float32", csv->line, c + 1,
                (int)size_min(field.size, 40), field.bytes);
        to[c] = (float)value;
    }
    return HASHATTN_OK;
}

static hashattn_status fill_from_csv(struct host *host, struct number_rows *rows, size_t *count)
{
    for (*count = 0; *count < number_rows_block(rows->dim); ++*count) {
        if (!rows->pending)
            TRY(next_record(host, rows));
        rows->pending = false;
        if (rows->csv.count == 0)
            break;
        TRY(read_record(host, rows, rows->block + *count * rows->dim));
    }
    return HASHATTN_OK;
}

/* ---- .npy ---------------------------------------------------------------------------------------------- */

static hashattn_status open_npy(struct host *host, struct number_rows *rows)
{
    const struct npy *array = &rows->npy.array;
    char text[120];
    npy_describe(array, text, sizeof text);
    FAIL_IF(array->rank != 2 || (array->type != NPY_FLOAT32 && array->type != NPY_FLOAT64), host,
            HASHATTN_BAD_FILE, "holds %s, (rows, columns) of float32 or float64 is needed", text);
    FAIL_IF(array->count == 0, host, HASHATTN_BAD_FILE, "holds %s: there are no rows of numbers", text);
    rows->dim = array->shape[1];
    return HASHATTN_OK;
}

/* Messages have the path, as that of npy_read_part. */
static hashattn_status fill_from_npy(struct host *host, struct number_rows *rows, size_t *count)
{
    size_t dim = rows->dim;
    *count = size_min(number_rows_block(dim), rows->npy.array.shape[0] - rows->given);
    void *to = rows->wide != NULL ? (void *)rows->wide : rows->block;
    if (*count > 0)
        TRY(npy_read_part(host, &rows->npy, rows->given * dim, *count * dim, to));
    for (size_t i = 0; i < *count * dim; i++) {
        double value = rows->wide != NULL ? rows->wide[i] : (double)rows->block[i];
        FAIL_IF(!(fabs(value) <= (double)FLT_MAX), host, HASHATTN_BAD_FILE,
                "%s: row %zu, column %zu is %g, a finite float32 is needed", rows->path,
                rows->given + i / dim, i % dim, value);
        rows->block[i] = (float)value;
    }
    return HASHATTN_OK;
}

/* ---- both ---------------------------------------------------------------------------------------------- */

static bool ends_in(const char *text, const char *end)
{
    size_t size = strlen(text), wanted = strlen(end);
    return size >= wanted && strcmp(text + size - wanted, end) == 0;
}

hashattn_status number_rows_open(struct host *host, const char *path, struct number_rows *rows)
{
    *rows = (struct number_rows){.path = path, .is_npy = ends_in(path, ".npy")};
    TRY(rows->is_npy ? npy_open(host, path, &rows->npy) : csv_open(host, path, FILE_TYPED, &rows->csv));
    hashattn_status status = rows->is_npy ? open_npy(host, rows) : open_csv(host, rows);
    if (status != HASHATTN_OK)
        host_prefix(host, path);
    void *block = NULL;
    if (status == HASHATTN_OK)
        status = memory_new(host, number_rows_block(rows->dim), size_product(rows->dim, sizeof *rows->block),
                            "a block of rows", &block);
    rows->block = block;
    block = NULL;
    if (status == HASHATTN_OK && rows->is_npy && rows->npy.array.type == NPY_FLOAT64)
        status = memory_new(host, number_rows_block(rows->dim), size_product(rows->dim, sizeof *rows->wide),
                            "a block of rows", &block);
    rows->wide = block;
    if (status != HASHATTN_OK)
        number_rows_close(host, rows);
    return status;
}

hashattn_status number_rows_next(struct host *host, struct number_rows *rows, const float **block,
                                 size_t *count)
{
    *block = rows->block;
    *count = 0;
    struct c_locale locale = c_locale_begin();
    hashattn_status status =
        rows->is_npy ? fill_from_npy(host, rows, count) : fill_from_csv(host, rows, count);
    c_locale_end(locale);
    if (status != HASHATTN_OK && !rows->is_npy)
        host_prefix(host, rows->path);
    TRY(status);
    rows->given += *count;
    return HASHATTN_OK;
}

void number_rows_close(struct host *host, struct number_rows *rows)
{
    if (rows->is_npy)
        npy_close(&rows->npy);
    else
        csv_close(host, &rows->csv);
    memory_free(host, rows->block);
    memory_free(host, rows->wide);
    rows->block = NULL;
    rows->wide = NULL;
}
