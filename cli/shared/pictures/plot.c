/* The text of axes is in the picture; title, legend and table are HTML around it.
   SPDX-License-Identifier: Apache-2.0 */
#include "cli/shared/pictures/plot.h"

#include <math.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "cli/shared/pictures/html.h"
#include "cli/shared/pictures/plot_axis.h"
#include "cli/shared/tool/grow.h"

enum { MARKED = 40 /* lines of at most as many points have markers */ };

/* ---- building ------------------------------------------------------------------------------------------ */

/* Where the name is in the table of places, or belongs. Names of files of results are at most 1000 in a plot,
   and those of runs are typed, so the hash needs no key. */
static size_t *place_of_name(const struct plot *plot, const char *name)
{
    size_t hash = 1469598103u, mask = plot->num_places - 1;
    for (const char *c = name; *c != '\0'; c++)
        hash = (hash ^ (unsigned char)*c) * 1099511u;
    for (hash ^= hash >> 15;; hash++) {
        size_t *place = &plot->places[hash & mask];
        if (*place == 0 || strcmp(plot->series[*place - 1].name, name) == 0)
            return place;
    }
}

/* Keeps the table of places at most half full. */
static bool grow_places(struct plot *plot)
{
    if (2 * (plot->count + 1) <= plot->num_places)
        return true;
    size_t wider = plot->num_places == 0 ? 16 : 2 * plot->num_places;
    size_t *places = calloc(wider, sizeof *places);
    if (places == NULL)
        return false;
    free(plot->places);
    plot->places = places;
    plot->num_places = wider;
    for (size_t i = 0; i < plot->count; i++)
        *place_of_name(plot, plot->series[i].name) = i + 1;
    return true;
}

size_t plot_series_named(struct plot *plot, const char *name, size_t look)
{
    struct plot_series made = {.look = look};
    snprintf(made.name, sizeof made.name, "%s", name);
    void *series = plot->series;
    if (!grow_places(plot) || !grow(&series, &plot->capacity, plot->count, sizeof *plot->series)) {
        plot->no_memory = true;
        return SIZE_MAX;
    }
    plot->series = series;
    size_t *place = place_of_name(plot, made.name);
    if (*place == 0) {
        plot->series[plot->count] = made;
        *place = ++plot->count;
    }
    return *place - 1;
}

void plot_add(struct plot *plot, size_t series, double x, double y)
{
    if (series == SIZE_MAX || !(fabs(x) < PLOT_LARGEST))
        return;
    struct plot_series *to = &plot->series[series];
    void *points = to->points;
    if (!grow(&points, &to->capacity, to->count, sizeof *to->points)) {
        plot->no_memory = true;
        return;
    }
    to->points = points;
    to->points[to->count++] = (struct plot_point){x, fabs(y) < PLOT_LARGEST ? y : NAN};
}

static int by_x(const void *a, const void *b)
{
    const struct plot_point *left = a, *right = b;
    return (left->x > right->x) - (left->x < right->x);
}

void plot_sort(struct plot *plot)
{
    for (size_t i = 0; i < plot->count; i++)
        if (plot->series[i].count > 1)
            qsort(plot->series[i].points, plot->series[i].count, sizeof *plot->series[i].points, by_x);
}

size_t plot_points(const struct plot *plot)
{
    size_t found = 0;
    for (size_t i = 0; i < plot->count; i++)
        for (size_t k = 0; k < plot->series[i].count; k++)
            found += isnan(plot->series[i].points[k].y) ? 0 : 1;
    return found;
}

void plot_free(struct plot *plot)
{
    for (size_t i = 0; i < plot->count; i++)
        free(plot->series[i].points);
    free(plot->series);
    free(plot->places);
    plot->series = NULL;
    plot->places = NULL;
    plot->count = plot->capacity = plot->num_places = 0;
}

/* ---- thinning ------------------------------------------------------------------------------------------ */

/* Keeps the first and the last point, and of each stretch the smallest and the largest value in their order;
   a stretch without a value becomes a gap. */
static void thin(struct plot_series *series, size_t most)
{
    size_t count = series->count, stretches = most / 2, kept = 0;
    struct plot_point *points = series->points;
    if (count <= most || stretches < 2)
        return;
    const struct plot_point last = points[count - 1];
    for (size_t s = 0; s < stretches; s++) {
        size_t begin = s * count / stretches, end = (s + 1) * count / stretches, low = begin, high = begin;
        for (size_t i = begin; i < end; i++) {
            if (isnan(points[low].y) || points[i].y < points[low].y)
                low = i;
            if (isnan(points[high].y) || points[i].y > points[high].y)
                high = i;
        }
        const struct plot_point one = s == 0 ? points[0] : points[low < high ? low : high],
                                two = s + 1 == stretches ? last : points[low < high ? high : low];
        points[kept++] = one;
        if (one.x != two.x || s + 1 == stretches)
            points[kept++] = two;
    }
    series->count = kept;
}

/* ---- the picture --------------------------------------------------------------------------------------- */

static void write_axis_names(FILE *page, const struct plot *plot)
{
    fprintf(page, "<text class=\"axis\" x=\"%d\" y=\"%d\">", (PLOT_LEFT + PLOT_RIGHT) / 2, PLOT_HEIGHT - 8);
    html_axis(page, plot->x.name, plot->x.unit);
    fprintf(page, "</text><text class=\"axis\" transform=\"translate(13 %d) rotate(-90)\">",
            (PLOT_TOP + PLOT_BOTTOM) / 2);
    html_axis(page, plot->y.name, plot->y.unit);
    fputs("</text>\n", page);
}

static void write_axes(FILE *page, const struct plot *plot, const struct axis_range *x,
                       const struct axis_range *y)
{
    char text[TICK_TEXT];
    for (size_t i = 0; i < y->num_ticks; i++) {
        double at = axis_place(y, y->ticks[i]);
        axis_tick(y, i, true, text);
        fprintf(page,
                "<path class=\"grid\" d=\"M%d %.1fH%d\"/><text class=\"tick y\" x=\"%d\" "
                "y=\"%.1f\">%s</text>\n",
                PLOT_LEFT, at, PLOT_RIGHT, PLOT_LEFT - 6, at + 4, text);
    }
    for (size_t i = 0; i < x->num_ticks; i++) {
        double at = axis_place(x, x->ticks[i]);
        axis_tick(x, i, false, text);
        fprintf(page,
                "<path class=\"line\" d=\"M%.1f %dv5\"/><text class=\"tick\" x=\"%.1f\" y=\"%d\">%s</text>\n",
                at, PLOT_BOTTOM, at, PLOT_BOTTOM + 22, text);
    }
    fprintf(page, "<path class=\"line\" d=\"M%d %dV%dH%d\"/>\n", PLOT_LEFT, PLOT_TOP, PLOT_BOTTOM,
            PLOT_RIGHT);
    write_axis_names(page, plot);
}

static void write_line(FILE *page, const struct plot *plot, const struct plot_series *series,
                       const struct axis_range *x, const struct axis_range *y)
{
    bool pen = false,
         marked = plot->kind == PLOT_DOTS || (series->count <= MARKED && !plot->legend_elsewhere);
    fprintf(page, "<g class=\"s%zu d%zu\"", series->look % HTML_COLOURS,
            series->look / HTML_COLOURS % HTML_DASHES);
    if (plot->legend_elsewhere)
        fprintf(page, " data-k=\"%zu\"", series->look);
    fputc('>', page);
    if (plot->kind == PLOT_LINES) {
        fputs("<path d=\"", page);
        for (size_t k = 0; k < series->count; k++) {
            const struct plot_point *point = &series->points[k];
            bool drawn = axis_shows(plot, point);
            if (drawn)
                fprintf(page, "%c%.1f %.1f", pen ? 'L' : 'M', axis_place(x, point->x),
                        axis_place(y, point->y));
            pen = drawn;
        }
        fputs("\"/>", page);
    }
    for (size_t k = 0; marked && k < series->count; k++)
        if (axis_shows(plot, &series->points[k]))
            fprintf(page, "<circle cx=\"%.1f\" cy=\"%.1f\" r=\"3\"/>", axis_place(x, series->points[k].x),
                    axis_place(y, series->points[k].y));
    fputs("</g>\n", page);
}

static void write_bars(FILE *page, const struct plot *plot, size_t index, const struct axis_range *x,
                       const struct axis_range *y)
{
    const struct plot_series *series = &plot->series[index];
    double width = fmax(0.5, 0.8 * (PLOT_RIGHT - PLOT_LEFT) / fmax(1, x->high - x->low));
    fprintf(page, "<g class=\"bars s%zu\">", series->look % HTML_COLOURS);
    for (size_t k = 0; k < series->count; k++) {
        double below = 0;
        for (size_t j = 0; j < index; j++)
            below += k < plot->series[j].count ? plot->series[j].points[k].y : 0;
        double top = axis_place(y, below + series->points[k].y), bottom = axis_place(y, below);
        if (axis_shows(plot, &series->points[k]))
            fprintf(page, "<path d=\"M%.1f %.1fh%.1fv%.1fh-%.1fz\"/>",
                    axis_place(x, series->points[k].x) - width / 2, top, width, bottom - top, width);
    }
    fputs("</g>\n", page);
}

static void write_series(FILE *page, const struct plot *plot, const struct axis_range *x,
                         const struct axis_range *y)
{
    write_axes(page, plot, x, y);
    for (size_t i = 0; i < plot->count; i++)
        if (plot->kind == PLOT_BARS)
            write_bars(page, plot, i, x, y);
        else
            write_line(page, plot, &plot->series[i], x, y);
}

static void write_picture(FILE *page, const struct plot *plot)
{
    struct axis_range x, y;
    axis_settle(plot, &x, &y);
    fprintf(page,
            "<div class=\"frame\"><svg viewBox=\"0 0 %d %d\" role=\"img\" data-x=\"%.9g %.9g %d %d %d\" "
            "aria-label=\"",
            PLOT_WIDTH, PLOT_HEIGHT, x.low, x.high, x.scale != PLOT_LINEAR, PLOT_LEFT, PLOT_RIGHT);
    html_text(page, plot->title);
    fprintf(page, ". Series: %zu. The table below has the values.\">\n", plot->count);
    write_series(page, plot, &x, &y);
    fprintf(page, "<path class=\"rule\" d=\"M0 %dV%d\"/></svg><div class=\"tip\" hidden></div></div>\n",
            PLOT_TOP, PLOT_BOTTOM);
}

void plot_write_legend(FILE *page, const struct plot *plot, bool marks)
{
    fprintf(page, "<ul class=\"legend%s\">", marks ? " marks" : "");
    for (size_t i = 0; i < plot->count; i++) {
        size_t look = plot->series[i].look;
        fputs("<li", page);
        if (marks)
            fprintf(page, " tabindex=\"0\" data-k=\"%zu\"", look);
        fprintf(page, "><svg viewBox=\"0 0 22 10\" aria-hidden=\"true\"><g class=\"s%zu d%zu\">",
                look % HTML_COLOURS, look / HTML_COLOURS % HTML_DASHES);
        if (plot->kind == PLOT_LINES)
            fputs("<path d=\"M0 5H22\"/>", page);
        fputs("<circle cx=\"11\" cy=\"5\" r=\"3\"/></g></svg>", page);
        html_text(page, plot->series[i].name);
        fputs("</li>", page);
    }
    fputs("</ul>\n", page);
}

/* One body per series, whose first row is its name; cells are closed by what follows, to keep the page
   small. */
static void write_table(FILE *page, const struct plot *plot)
{
    fputs(
        "<details><summary>Table</summary><div class=\"scroll\" tabindex=\"0\" role=\"region\" aria-label=\"",
        page);
    html_text(page, plot->title);
    fputs(", table\"><table><thead><tr><th scope=\"col\">", page);
    html_axis(page, plot->x.name, plot->x.unit);
    fputs("<th scope=\"col\">", page);
    html_axis(page, plot->y.name, plot->y.unit);
    fputs("</thead>\n", page);
    for (size_t i = 0; i < plot->count; i++) {
        const struct plot_series *series = &plot->series[i];
        fprintf(page, "<tbody class=\"s%zu\"><tr><th colspan=\"2\" scope=\"rowgroup\">",
                series->look % HTML_COLOURS);
        html_text(page, series->name);
        for (size_t k = 0; k < series->count; k++) {
            fprintf(page, "\n<tr><td>%.9g<td>", series->points[k].x);
            html_number(page, series->points[k].y);
        }
        fputs("\n", page);
    }
    fputs("</table></div></details>", page);
}

size_t plot_thin(struct plot *plot, size_t most)
{
    size_t drawn = 0;
    for (size_t i = 0; i < plot->count; i++) {
        if (plot->kind == PLOT_LINES)
            thin(&plot->series[i], most);
        for (size_t k = 0; k < plot->series[i].count; k++)
            drawn += axis_shows(plot, &plot->series[i].points[k]);
    }
    return drawn;
}

void plot_write(FILE *page, struct plot *plot, size_t most, size_t number)
{
    if (plot_thin(plot, most) == 0)
        return;
    fprintf(page, "<figure id=\"figure%zu\" class=\"plot\"><figcaption>", number);
    html_text(page, plot->title);
    fputs("</figcaption>\n", page);
    write_picture(page, plot);
    if (!plot->legend_elsewhere)
        plot_write_legend(page, plot, false);
    write_table(page, plot);
    fputs("</figure>\n", page);
}

/* ---- a file of its own --------------------------------------------------------------------------------- */

/* Space for the title above the picture, for a line of the legend below it, and for an entry in the line. */
enum { TITLE_SPACE = 26, LEGEND_LINE = 18, LEGEND_WIDTH = 200 };

static void write_svg_legend(FILE *file, const struct plot *plot)
{
    for (size_t i = 0; i < plot->count; i++) {
        int left = 20 + LEGEND_WIDTH * (int)(i % 2), at = PLOT_HEIGHT + 8 + LEGEND_LINE * (int)(i / 2);
        size_t look = plot->series[i].look;
        fprintf(file,
                "<g class=\"s%zu d%zu\"><path d=\"M%d %dh22\"/></g><text class=\"name\" x=\"%d\" y=\"%d\">",
                look % HTML_COLOURS, look / HTML_COLOURS % HTML_DASHES, left, at, left + 28, at + 4);
        html_text(file, plot->series[i].name);
        fputs("</text>\n", file);
    }
}

bool plot_write_svg(FILE *file, struct plot *plot, size_t most)
{
    struct axis_range x, y;
    if (plot_thin(plot, most) == 0)
        return false;
    int height = TITLE_SPACE + PLOT_HEIGHT + LEGEND_LINE * (int)((plot->count + 1) / 2);
    axis_settle(plot, &x, &y);
    fprintf(file,
            "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 %d %d\" width=\"%d\" height=\"%d\">\n"
            "<title>",
            PLOT_WIDTH, height, 2 * PLOT_WIDTH, 2 * height);
    html_text(file, plot->title);
    fputs("</title>\n<style>\n", file);
    html_plot_style(file);
    fprintf(file,
            "</style>\n<rect width=\"%d\" height=\"%d\" fill=\"#fff\"/>\n<text class=\"axis\" x=\"%d\" "
            "y=\"18\">",
            PLOT_WIDTH, height, PLOT_WIDTH / 2);
    html_text(file, plot->title);
    fprintf(file, "</text>\n<g transform=\"translate(0 %d)\">\n", TITLE_SPACE);
    write_series(file, plot, &x, &y);
    write_svg_legend(file, plot);
    fputs("</g></svg>\n", file);
    return true;
}
