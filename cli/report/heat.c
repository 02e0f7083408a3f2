/* Cells are drawn in LEVELS steps of opacity, one path per step: 13 bytes per cell.
   SPDX-License-Identifier: Apache-2.0 */
#include "cli/report/heat.h"

#include <math.h>

#include "cli/shared/pictures/html.h"

enum { WIDTH = 440, HEIGHT = 300, LEFT = 72, RIGHT = 416, TOP = 12, BOTTOM = 250, LEVELS = 16, TICKS = 4 };

static void find_range(const struct heat *heat, double *low, double *high)
{
    *low = INFINITY;
    *high = -INFINITY;
    for (size_t i = 0; i < heat->rows * heat->columns; i++) {
        *low = fmin(*low, (double)heat->cells[i]);
        *high = fmax(*high, (double)heat->cells[i]);
    }
}

static int level_of(double value, double low, double high)
{
    double share = high > low ? (value - low) / (high - low) : 0;
    return share >= 1 ? LEVELS - 1 : (int)(share * LEVELS);
}

static void write_cells(FILE *page, const struct heat *heat, double low, double high)
{
    for (int level = 0; level < LEVELS; level++) {
        size_t drawn = 0;
        for (size_t i = 0; i < heat->rows * heat->columns; i++) {
            if (level_of((double)heat->cells[i], low, high) != level)
                continue;
            if (drawn++ == 0)
                fprintf(page, "<path opacity=\"%.3f\" d=\"", (level + 0.5) / LEVELS);
            fprintf(page, "M%zu %zuh1v1h-1z", i % heat->columns, i / heat->columns);
        }
        if (drawn > 0)
            fputs("\"/>\n", page);
    }
}

static void write_axes(FILE *page, const struct heat *heat)
{
    for (int i = 0; i <= TICKS; i++) {
        double share = (double)i / TICKS, x = LEFT + share * (RIGHT - LEFT), y = TOP + share * (BOTTOM - TOP);
        fprintf(page,
                "<path class=\"line\" d=\"M%.1f %dv5\"/><text class=\"tick\" x=\"%.1f\" y=\"%d\">%g</text>"
                "<text class=\"tick y\" x=\"%d\" y=\"%.1f\">%g</text>\n",
                x, BOTTOM, x, BOTTOM + 19, heat->left + share * (heat->right - heat->left), LEFT - 6, y + 4,
                heat->top + share * (heat->bottom - heat->top));
    }
    fprintf(page, "<text class=\"axis\" x=\"%d\" y=\"%d\">", (LEFT + RIGHT) / 2, HEIGHT - 8);
    html_axis(page, heat->x.name, heat->x.unit);
    fprintf(page, "</text><text class=\"axis\" transform=\"translate(13 %d) rotate(-90)\">",
            (TOP + BOTTOM) / 2);
    html_axis(page, heat->y.name, heat->y.unit);
    fputs("</text>\n", page);
}

static void write_table(FILE *page, const struct heat *heat)
{
    fputs(
        "<details><summary>Table</summary><div class=\"scroll\" tabindex=\"0\" role=\"region\" aria-label=\"",
        page);
    html_text(page, heat->title);
    fputs(", table\"><table><tbody>\n", page);
    for (size_t i = 0; i < heat->rows; i++) {
        fputs("<tr>", page);
        for (size_t k = 0; k < heat->columns; k++)
            fprintf(page, "<td>%.2g", (double)heat->cells[i * heat->columns + k]);
        fputc('\n', page);
    }
    fputs("</table></div></details>", page);
}

void heat_write(FILE *page, const struct heat *heat, size_t number)
{
    double low, high;
    find_range(heat, &low, &high);
    fprintf(page, "<figure id=\"figure%zu\" class=\"map\"><figcaption>", number);
    html_text(page, heat->title);
    fprintf(page, "</figcaption>\n<div class=\"frame\"><svg viewBox=\"0 0 %d %d\" role=\"img\" aria-label=\"",
            WIDTH, HEIGHT);
    html_text(page, heat->title);
    fprintf(page,
            ". %zu rows, %zu columns; the table below has the values.\">\n<g class=\"bars s0\" "
            "transform=\"translate(%d %d) scale(%.5f %.5f)\">",
            heat->rows, heat->columns, LEFT, TOP, (double)(RIGHT - LEFT) / (double)heat->columns,
            (double)(BOTTOM - TOP) / (double)heat->rows);
    write_cells(page, heat, low, high);
    fputs("</g>\n", page);
    write_axes(page, heat);
    fputs("</svg></div>\n<p class=\"muted\">", page);
    html_axis(page, heat->value, heat->unit);
    fprintf(page, ": faint %.3g to strong %.3g</p>\n", low, high);
    write_table(page, heat);
    fputs("</figure>\n", page);
}
