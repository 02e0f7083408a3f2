/* Truth and forecast of one window as a picture, PNG if the file's name ends in .png, otherwise SVG.
   SPDX-License-Identifier: Apache-2.0 */
#ifndef CLI_FORECAST_PICTURE_H
#define CLI_FORECAST_PICTURE_H

#include "cli/shared/tool/command.h"

/* The picture of the last window that it was given; the rest starts as zeros. */
struct forecast_picture {
    const char *path;   /* of the file */
    const char *column; /* that is drawn; NULL: the last one */
    char *bytes;
    size_t size;
    char columns[200]; /* what there is, if there is no such column */
    bool no_memory;    /* memory ran out */
};
/* A hashattn_forecast_callback; user: the picture. Draws the last window: up to three horizons of what was
   read, the truth, the forecast, and its lowest and highest quantile. */
int forecast_picture_keep(void *picture, const hashattn_forecast *forecast);
void forecast_picture_free(struct forecast_picture *picture);
/* Whether the file can be written and is not the data (NULL: of a directory), nor one of the run that is
   read, nor that of --out (NULL: there is none). Creates nothing. An exit code, as below. */
int forecast_picture_check(hashattn_context *context, const char *path, const char *run, const char *data,
                           const char *out);
/* Writes the file in one step; of several ranks only the first does. An exit code, with the message
   printed. */
int forecast_picture_save(struct forecast_picture *picture, hashattn_context *context);

/* Draws the last window of the validation part with the model of a run. An exit code, as above. */
int forecast_picture_of_run(hashattn_context *context, const char *run, const char *path, const char *column);

#endif
