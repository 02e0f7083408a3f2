/* The frame of a page: style, script, and text that no reader can mistake for markup.
   SPDX-License-Identifier: Apache-2.0 */
#ifndef CLI_HTML_H
#define CLI_HTML_H

#include <stdio.h>

enum { HTML_COLOURS = 8, HTML_DASHES = 4 }; /* of series: classes s0 and up, d0 and up */

/* Writes text, escaped for element content and quoted attributes. Bytes that are not UTF-8, and control
   characters other than tab and line feed, become U+FFFD. */
void html_text(FILE *page, const char *text);
/* Six digits; "-" for NaN and infinities. */
void html_number(FILE *page, double number);
/* "name (unit)" */
void html_axis(FILE *page, const char *name, const char *unit);

/* The style of a plot (plot.h) in a file of its own, on white. */
void html_plot_style(FILE *file);

/* A page that loads nothing: its policy forbids it. */
void html_begin(FILE *page, const char *title, const char *subtitle);
void html_end(FILE *page);

/* A section with a heading; nothing is written between sections. */
void html_section(FILE *page, const char *id, const char *heading);
void html_section_end(FILE *page);
/* A table that scrolls sideways, up to its head's first cell. label: for screen readers. */
void html_table(FILE *page, const char *label);
/* The same, with columns that a click on their head sorts; one row of heads. */
void html_sorted_table(FILE *page, const char *label);
void html_table_end(FILE *page);

#endif
