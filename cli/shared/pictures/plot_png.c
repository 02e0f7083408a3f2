/* Every colour has 16 shades over white, so that edges of lines are smooth: shade 0 is white, 15 the colour.
   Where two meet, the darker shade stays.
   SPDX-License-Identifier: Apache-2.0 */
#include "cli/shared/pictures/plot_png.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "cli/shared/pictures/html.h"
#include "cli/shared/pictures/letters.h"
#include "cli/shared/pictures/plot_axis.h"
#include "cli/shared/pictures/png.h"

enum { DOT = 6 }; /* its diameter */
enum { DOTS = 2, TITLE_SPACE = 26, LEGEND_LINE = 18, LEGEND_WIDTH = 200, SHADES = 16, NUM_COLOURS = 16 };
enum { TEXT = HTML_COLOURS, AXIS, GRID }; /* colours after those of series */

static const uint8_t palette[NUM_COLOURS][3] = {
    {0x1f, 0x6f, 0xb4},          {0xc4, 0x50, 0x0a},          {0x1d, 0x7f, 0x4c},         {0x7a, 0x4f, 0xbf},
    {0xc0, 0x26, 0x44},          {0x0f, 0x7f, 0x8c},          {0x8a, 0x5a, 0x2b},         {0x5a, 0x64, 0x72},
    [TEXT] = {0x1f, 0x29, 0x33}, [AXIS] = {0x8a, 0x97, 0xa3}, [GRID] = {0xe1, 0xe7, 0xec}};

struct canvas {
    uint8_t *pixels; /* (height, width): colour x SHADES + shade */
    int width, height;
};

/* A dot is covered from 0 to 1. */
static void shade(struct canvas *canvas, int x, int y, int colour, double cover)
{
    if (x < 0 || y < 0 || x >= canvas->width || y >= canvas->height || !(cover > 0))
        return;
    uint8_t *pixel = &canvas->pixels[(size_t)y * (size_t)canvas->width + (size_t)x];
    int level = (int)(fmin(cover, 1) * (SHADES - 1) + 0.5);
    if (level >= *pixel % SHADES || *pixel / SHADES == GRID)
        *pixel = (uint8_t)(colour * SHADES + level);
}

/* A line in units of the picture, `thick` units wide. */
static void line(struct canvas *canvas, int colour, double thick, double x, double y, double to_x,
                 double to_y)
{
    double ax = x * DOTS, ay = y * DOTS, dx = to_x * DOTS - ax, dy = to_y * DOTS - ay;
    double radius = thick * DOTS / 2, length = dx * dx + dy * dy;
    for (int py = (int)floor(fmin(ay, ay + dy) - radius) - 1; py <= fmax(ay, ay + dy) + radius + 1; py++)
        for (int px = (int)floor(fmin(ax, ax + dx) - radius) - 1; px <= fmax(ax, ax + dx) + radius + 1;
             px++) {
            double along = length > 0 ? ((px - ax) * dx + (py - ay) * dy) / length : 0;
            along = along < 0 ? 0 : along > 1 ? 1 : along;
            double off = hypot(px - ax - along * dx, py - ay - along * dy);
            shade(canvas, px, py, colour, radius + 0.5 - off);
        }
}

/* Text whose line begins at (x, y), its middle or its end: align 0, 0.5 or 1; upwards if `turned`. */
static void write_text(struct canvas *canvas, const char *text, double x, double y, double align, bool turned)
{
    int count = 0;
    for (const char *at = text; *at != '\0'; count++)
        letter_next(&at);
    int begin = -(int)(align * count * LETTER_STEP * DOTS), left = (int)(x * DOTS), top = (int)(y * DOTS);
    for (int i = 0; *text != '\0'; i++) {
        const uint8_t *columns = letter_next(&text);
        for (int dot = 0; dot < LETTER_WIDTH * LETTER_HEIGHT * DOTS * DOTS; dot++) {
            int along = dot % (LETTER_WIDTH * DOTS), down = dot / (LETTER_WIDTH * DOTS);
            int right = begin + i * LETTER_STEP * DOTS + along, below = down - (LETTER_HEIGHT - 1) * DOTS;
            if (columns[along / DOTS] >> (down / DOTS) & 1)
                shade(canvas, turned ? left + below : left + right, turned ? top - right : top + below, TEXT,
                      1);
        }
    }
}

static void draw_axes(struct canvas *canvas, const struct plot *plot, const struct axis_range *x,
                      const struct axis_range *y)
{
    char text[PLOT_NAME + 40];
    for (size_t i = 0; i < y->num_ticks; i++) {
        double at = TITLE_SPACE + axis_place(y, y->ticks[i]);
        line(canvas, GRID, 1, PLOT_LEFT, at, PLOT_RIGHT, at);
        axis_tick(y, i, false, text);
        write_text(canvas, text, PLOT_LEFT - 6, at + 4, 1, false);
    }
    for (size_t i = 0; i < x->num_ticks; i++) {
        double at = axis_place(x, x->ticks[i]);
        line(canvas, AXIS, 1, at, TITLE_SPACE + PLOT_BOTTOM, at, TITLE_SPACE + PLOT_BOTTOM + 5);
        axis_tick(x, i, false, text);
        write_text(canvas, text, at, TITLE_SPACE + PLOT_BOTTOM + 18, 0.5, false);
    }
    line(canvas, AXIS, 1, PLOT_LEFT, TITLE_SPACE + PLOT_TOP, PLOT_LEFT, TITLE_SPACE + PLOT_BOTTOM);
    line(canvas, AXIS, 1, PLOT_LEFT, TITLE_SPACE + PLOT_BOTTOM, PLOT_RIGHT, TITLE_SPACE + PLOT_BOTTOM);
    snprintf(text, sizeof text, "%.120s (%s)", plot->x.name, plot->x.unit);
    write_text(canvas, text, (PLOT_LEFT + PLOT_RIGHT) / 2.0, TITLE_SPACE + PLOT_HEIGHT - 8, 0.5, false);
    snprintf(text, sizeof text, "%.40s (%s)", plot->y.name, plot->y.unit);
    write_text(canvas, text, 13, TITLE_SPACE + (PLOT_TOP + PLOT_BOTTOM) / 2.0, 0.5, true);
}

static void draw_series(struct canvas *canvas, const struct plot *plot, size_t index,
                        const struct axis_range *x, const struct axis_range *y)
{
    const struct plot_series *series = &plot->series[index];
    int colour = (int)(series->look % HTML_COLOURS);
    const struct plot_point *before = NULL;
    for (size_t k = 0; k < series->count; k++) {
        const struct plot_point *point = &series->points[k];
        bool drawn = axis_shows(plot, point), next = k + 1 < series->count && axis_shows(plot, point + 1);
        const struct plot_point *from = before != NULL ? before : point;
        if (drawn && (before != NULL || !next)) /* a point alone is a dot */
            line(canvas, colour, before != NULL ? 2 : DOT, axis_place(x, from->x),
                 TITLE_SPACE + axis_place(y, from->y), axis_place(x, point->x),
                 TITLE_SPACE + axis_place(y, point->y));
        before = drawn ? point : NULL;
    }
    double left = 20 + LEGEND_WIDTH * (double)(index % 2),
           at = TITLE_SPACE + PLOT_HEIGHT + 8 + LEGEND_LINE * (double)(index / 2);
    line(canvas, colour, 2, left, at, left + 22, at);
    write_text(canvas, series->name, left + 28, at + 4, 0, false);
}

bool plot_write_png(FILE *file, struct plot *plot, size_t most)
{
    struct axis_range x, y;
    uint8_t colours[256][3];
    if (plot_thin(plot, most) == 0)
        return false;
    int height = TITLE_SPACE + PLOT_HEIGHT + LEGEND_LINE * (int)((plot->count + 1) / 2);
    struct canvas canvas = {.width = PLOT_WIDTH * DOTS, .height = height * DOTS};
    canvas.pixels = calloc((size_t)canvas.width, (size_t)canvas.height);
    if (canvas.pixels == NULL)
        return !(plot->no_memory = true);
    axis_settle(plot, &x, &y);
    draw_axes(&canvas, plot, &x, &y);
    for (size_t i = 0; i < plot->count; i++)
        draw_series(&canvas, plot, i, &x, &y);
    write_text(&canvas, plot->title, PLOT_WIDTH / 2.0, 18, 0.5, false);
    for (int i = 0; i < 3 * 256; i++) {
        int colour = palette[i / 3 / SHADES][i % 3], level = i / 3 % SHADES;
        colours[i / 3][i % 3] = (uint8_t)(255 - (255 - colour) * level / (SHADES - 1));
    }
    png_write(file, canvas.pixels, (size_t)canvas.width, (size_t)canvas.height, (const uint8_t(*)[3])colours);
    free(canvas.pixels);
    return true;
}
