/* Arrays that double when full.
   SPDX-License-Identifier: Apache-2.0 */
#include "tasks/forecast/raw_rows.h"

#include <string.h>

#include "base/memory.h"

hashattn_status raw_rows_add(struct host *host, struct raw_rows *raw, struct piece date, struct raw_row row,
                             double **values)
{
    TRY(memory_grow(host, &raw->rows, &raw->rows_capacity, raw->count, 1, sizeof row, "rows of the table"));
    TRY(memory_grow(host, &raw->values, &raw->values_capacity, raw->count * raw->columns, raw->columns,
                    sizeof *raw->values, "values of the series"));
    if (date.size > 0)
        TRY(memory_grow(host, &raw->texts, &raw->texts_capacity, raw->texts_used, date.size, 1, "dates"));
    if (date.size > 0)
        memcpy(raw->texts + raw->texts_used, date.bytes, date.size);
    raw->texts_used += date.size;
    row.end = raw->texts_used;
    raw->rows[raw->count] = row;
    *values = raw->values + raw->count++ * raw->columns;
    return HASHATTN_OK;
}

struct piece raw_rows_date(const struct raw_rows *raw, size_t index)
{
    size_t begin = index == 0 ? 0 : raw->rows[index - 1].end;
    return (struct piece){raw->texts_used == 0 ? "" : raw->texts + begin, raw->rows[index].end - begin};
}

void raw_rows_free(struct host *host, struct raw_rows *raw)
{
    memory_free(host, raw->values);
    memory_free(host, raw->rows);
    memory_free(host, raw->texts);
    *raw = (struct raw_rows){.count = 0};
}
