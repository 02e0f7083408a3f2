/* A picture of a matrix: an SVG with named axes, cells of a stronger colour for larger values, and the table
   of the values.
   SPDX-License-Identifier: Apache-2.0 */
#ifndef CLI_HEAT_H
#define CLI_HEAT_H

#include <stddef.h>
#include <stdio.h>

#include "cli/shared/pictures/plot.h"

struct heat {
    const char *title;
    struct plot_axis x, y;    /* linear */
    double left, right;       /* of the axis x, at the outer edges of the first and the last column */
    double top, bottom;       /* of the axis y, at those of the first and the last row */
    const char *value, *unit; /* what a cell shows */
    size_t rows, columns;
    const float *cells; /* (rows, columns) */
};

/* Colours go from the smallest to the largest cell. */
void heat_write(FILE *page, const struct heat *heat, size_t number);

#endif
