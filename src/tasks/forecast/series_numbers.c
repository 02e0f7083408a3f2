/* A value is converted once. What its column showed so far is kept in three flags.
   SPDX-License-Identifier: Apache-2.0 */
#include "tasks/forecast/series_numbers.h"

#include <ctype.h>
#include <math.h>
#include <stdio.h>

#include "base/memory.h"
#include "tasks/dataset.h"

hashattn_status series_numbers_begin(struct series_numbers *numbers, const struct series *series)
{
    void *block;
    if (numbers->columns != NULL)
        return HASHATTN_OK;
    TRY(memory_new_zeroed(numbers->host, series->columns, sizeof *numbers->columns, "columns", &block));
    numbers->columns = block;
    numbers->num_columns = series->columns;
    numbers->names = series->names;
    return HASHATTN_OK;
}

void series_numbers_free(struct series_numbers *numbers)
{
    memory_free(numbers->host, numbers->columns);
}

/* The end of a message about a cell that is no number as the file is read. */
static const char *number_advice(const struct series_numbers *n, struct piece cell, bool missing, bool first)
{
    double number;
    bool told = n->choice->decimal != DECIMAL_AUTO,
         comma = !told && decimal_read_marked(cell, DECIMAL_COMMA, &number),
         point = !told && decimal_read_marked(cell, DECIMAL_POINT, &number);
    if (series_choice_recorded(n->choice))
        return missing           ? "; the run reads files without missing values: fill it in"
               : comma && !point ? "; the run reads decimal points here"
                                 : "";
    return missing          ? "; set `missing` to interpolate or last"
           : comma && point ? "; set `decimal` to the mark before fractions, point or comma"
           : comma          ? "; set `decimal` to comma"
           : point          ? "; set `decimal` to point"
           : first          ? "; set `columns` to read only some, or `series_column` if it names series"
                            : "";
}

/* Keeps what a number that was read without a told mark shows. */
static void note_marks(struct series_numbers *n, struct piece cell, size_t column, size_t row)
{
    struct number_column *of = &n->columns[column];
    cell = piece_trimmed(cell);
    size_t sign = cell.size > 0 && (cell.bytes[0] == '-' || cell.bytes[0] == '+'), digits = sign;
    while (digits < cell.size && isdigit((unsigned char)cell.bytes[digits]))
        digits++;
    bool whole = digits == cell.size, group = decimal_is_group(cell);
    of->small = of->small || (whole && digits - sign <= 3);
    of->large = of->large || (whole && digits - sign > 3);
    n->decimals = n->decimals || (!group && decimal_mark_of(cell) != DECIMAL_AUTO);
    if (!group || of->grouped)
        return;
    of->grouped = true;
    of->row = row;
    snprintf(of->shown, sizeof of->shown, "%.*s", (int)cell.size, cell.bytes);
}

/* Points, unless the delimiter is no comma and the cell shows a decimal comma. */
hashattn_status series_numbers_read(struct series_numbers *n, struct piece cell, size_t column, size_t row,
                                    double *value)
{
    char shown[SHOWN_SIZE];
    enum decimal_mark mark = n->choice->decimal;
    bool told = mark != DECIMAL_AUTO, apart = n->delimiter != ',';
    if (!told && apart)
        mark = decimal_mark_of(cell);
    bool good =
        told || mark == DECIMAL_COMMA ? decimal_read_marked(cell, mark, value) : decimal_read(cell, value);
    n->commas = n->commas || (good && mark == DECIMAL_COMMA);
    n->points = n->points || (good && mark == DECIMAL_POINT);
    bool missing = !good && decimal_is_missing(cell);
    if (missing && n->choice->missing != MISSING_REFUSE) {
        *value = NAN;
        return HASHATTN_OK;
    }
    FAIL_IF(!good, n->host, HASHATTN_BAD_FILE, "column '%.60s' is '%s', a finite number is needed%s",
            n->names[column], piece_shown(cell, shown), number_advice(n, cell, missing, row == 0));
    FAIL_IF(!told && n->commas && n->points, n->host, HASHATTN_BAD_FILE,
            "column '%.60s' is '%s': the file has decimal points and decimal commas%s", n->names[column],
            piece_shown(cell, shown), series_choice_recorded(n->choice) ? "" : "; set `decimal`");
    if (!told && apart)
        note_marks(n, cell, column, row);
    return HASHATTN_OK;
}

hashattn_status series_numbers_check(const struct series_numbers *n, size_t *bad)
{
    for (size_t c = 0; c < n->num_columns && !n->decimals && !series_choice_recorded(n->choice); c++) {
        const struct number_column *of = &n->columns[c];
        *bad = of->row;
        FAIL_IF(of->grouped && of->small && !of->large, n->host, HASHATTN_BAD_FILE,
                "column '%.60s' is '%s' and has numbers without a mark: it may be between thousands; set "
                "`decimal` to the mark before fractions, point or comma",
                n->names[c], of->shown);
    }
    return HASHATTN_OK;
}
