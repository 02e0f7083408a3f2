/* A plot with named axes: as a figure of an HTML page, with its legend and the table of its values, which the
   page's script reads for hover values; or as an SVG file of its own.
   SPDX-License-Identifier: Apache-2.0 */
#ifndef CLI_PLOT_H
#define CLI_PLOT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

enum plot_scale { PLOT_LINEAR, PLOT_LOG2, PLOT_LOG10 }; /* logarithmic axes omit values <= 0 */
enum plot_kind { PLOT_LINES, PLOT_DOTS, PLOT_BARS };    /* bars: series with the same x are stacked */

struct plot_axis {
    const char *name, *unit;
    enum plot_scale scale;
};

struct plot_point {
    double x, y; /* y NaN: a gap in the line */
};

enum { PLOT_NAME = 200 };

struct plot_series {
    char name[PLOT_NAME];
    size_t look; /* colour and dashes */
    struct plot_point *points;
    size_t count, capacity;
};

struct plot {
    char title[PLOT_NAME];
    struct plot_axis x, y;
    enum plot_kind kind;
    struct plot_series *series;
    size_t count, capacity;
    size_t *places, num_places; /* of the names: series + 1 by hash; 0: free */
    bool legend_elsewhere;      /* the figure has no legend of its own, and its lines have no markers */
    bool no_memory;             /* memory ran out: points are missing */
};

/* The series of this name, added if there is none; SIZE_MAX if memory runs out. */
size_t plot_series_named(struct plot *plot, const char *name, size_t look);
/* Adds a point; nothing if the series is SIZE_MAX. Values beyond 1e100 count as missing. */
void plot_add(struct plot *plot, size_t series, double x, double y);
/* Sorts the points of every series by x. */
void plot_sort(struct plot *plot);
/* The number of finite points. */
size_t plot_points(const struct plot *plot);
/* Thins every line of more than `most` points to the largest and smallest value of each stretch. Returns the
   number of points that are drawn. */
size_t plot_thin(struct plot *plot, size_t most);
/* Writes the figure. A series of more than `most` points is thinned to the largest and smallest value of each
   stretch. number: of the figure, for references within the page. Writes nothing if there is no point. */
void plot_write(FILE *page, struct plot *plot, size_t most, size_t number);
/* Writes the legend alone, for several figures. marks: pointing at an entry dims the series of other looks in
   all figures of the same element of class "task". */
void plot_write_legend(FILE *page, const struct plot *plot, bool marks);
/* Writes an SVG file with title and legend, on white; false if there is no point. Series are thinned as
   above. */
bool plot_write_svg(FILE *file, struct plot *plot, size_t most);
void plot_free(struct plot *plot);

#endif
