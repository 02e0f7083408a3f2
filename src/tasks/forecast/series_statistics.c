/* The mean comes first and then the distances from it, so that a large mean costs the deviation no digits.
   SPDX-License-Identifier: Apache-2.0 */
#include "tasks/forecast/series_statistics.h"

#include <math.h>
#include <string.h>

#include "base/memory.h"

/* Of the n numbers x[0], x[apart], ... */
static void measure(const double *x, size_t apart, size_t n, size_t season, struct task_column *result)
{
    double sum = 0, squares = 0, sizes = 0;
    bool constant = true;
    for (size_t t = 0; t < n; t++) {
        sum += x[t * apart];
        constant = constant && x[t * apart] == x[0];
    }
    result->mean = constant ? x[0] : sum / (double)n;
    for (size_t t = 0; t < n; t++) {
        double off = x[t * apart] - result->mean;
        squares += off * off;
    }
    double deviation = sqrt(squares / (double)n);
    result->deviation = constant || !(deviation > 0) ? 1 : deviation;
    for (size_t t = season; t < n; t++)
        sizes += fabs(x[t * apart] - x[(t - season) * apart]);
    result->scale = n > season && isfinite(sizes) ? sizes / (double)(n - season) : 0;
}

/* The row of the largest of n numbers of a column. */
static size_t row_of_largest(const double *x, size_t apart, size_t n)
{
    size_t found = 0;
    for (size_t t = 1; t < n; t++)
        if (fabs(x[t * apart]) > fabs(x[found * apart]))
            found = t;
    return found;
}

hashattn_status series_statistics(struct host *host, const struct series *series, size_t piece, size_t n,
                                  size_t season, struct task_column *columns)
{
    for (size_t c = 0; c < series->columns; c++) {
        struct task_column *column = &columns[c];
        const double *x = series->values + series->pieces[piece].time * series->columns + c;
        void *block;
        size_t size = strlen(series->names[c]) + 1;
        TRY(memory_new(host, size, 1, "the name of a column", &block));
        column->name = block;
        memcpy(column->name, series->names[c], size);
        measure(x, series->columns, n, season, column);
        if (isfinite(column->deviation) && isfinite(column->mean))
            continue;
        size_t row = row_of_largest(x, series->columns, n);
        return host_fail(host, HASHATTN_BAD_FILE,
                         "row %zu: column '%.60s' is %g, too large to standardise; up to 1e150 are allowed",
                         row + 1, column->name, x[row * series->columns]);
    }
    return HASHATTN_OK;
}
