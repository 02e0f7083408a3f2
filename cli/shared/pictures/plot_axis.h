/* The axes of a plot: which values they show, where a value is, and ticks. Coordinates are those of a picture
   of 440 x 300, which fits a phone and, side by side, a wide page.
   SPDX-License-Identifier: Apache-2.0 */
#ifndef CLI_PLOT_AXIS_H
#define CLI_PLOT_AXIS_H

#include "cli/shared/pictures/plot.h"

enum {
    PLOT_WIDTH = 440,
    PLOT_HEIGHT = 300,
    PLOT_LEFT = 80,
    PLOT_RIGHT = 416,
    PLOT_TOP = 12,
    PLOT_BOTTOM = 250
};
enum { MOST_TICKS = 12 };
#define PLOT_LARGEST 1e100 /* larger values are not drawn, so that ranges are finite */

struct axis_range {
    double low, high;
    enum plot_scale scale;
    double from, to; /* coordinates of low and high */
    double ticks[MOST_TICKS];
    size_t num_ticks;
};

enum { TICK_TEXT = 32 };
/* A tick as text, with so many digits that neighbours differ, but at least 6; thousands: 10000 is 10k. */
void axis_tick(const struct axis_range *range, size_t index, bool thousands, char text[TICK_TEXT]);
double axis_place(const struct axis_range *range, double value);
/* Whether a point can be drawn: it is no gap, and above 0 on logarithmic axes. */
bool axis_shows(const struct plot *plot, const struct plot_point *point);
/* The ranges of the points, which are at least one. */
void axis_settle(const struct plot *plot, struct axis_range *x, struct axis_range *y);

#endif
