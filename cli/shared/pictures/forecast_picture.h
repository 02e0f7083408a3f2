/* Truth and forecast of one window as an SVG file.
   SPDX-License-Identifier: Apache-2.0 */
#ifndef CLI_FORECAST_PICTURE_H
#define CLI_FORECAST_PICTURE_H

#include "cli/shared/tool/command.h"

/* The picture of the last window that it was given; starts as zeros. */
struct forecast_picture {
    char *text;
    size_t size;
    bool no_memory; /* memory ran out */
};
/* A hashattn_forecast_callback; user: the picture. Draws the last column of the last window: up to three
   horizons of what was read, the truth and the forecast. */
int forecast_picture_keep(void *picture, const hashattn_forecast *forecast);
void forecast_picture_free(struct forecast_picture *picture);
/* Whether the file can be written, which creates nothing. An exit code, as below. */
int forecast_picture_check(hashattn_context *context, const char *path);
/* Writes the file in one step; of several ranks only the first does. An exit code, with the message
   printed. */
int forecast_picture_save(struct forecast_picture *picture, hashattn_context *context, const char *path);

/* Draws the last window of the validation part with the model of a run. An exit code, as above. */
int forecast_picture_of_run(hashattn_context *context, const char *run, const char *path);

#endif
