/* A plot as a PNG file, with title, axes and legend.
   SPDX-License-Identifier: Apache-2.0 */
#ifndef CLI_PLOT_PNG_H
#define CLI_PLOT_PNG_H

#include "cli/shared/pictures/plot.h"

/* Draws the lines of a plot, two dots for each unit of the SVG file; false if there is no point. Series are
   thinned as in plot_write_svg. Memory that runs out is plot->no_memory. */
bool plot_write_png(FILE *file, struct plot *plot, size_t most);

#endif
