/* Pictures of dashed contours with two marked ends, by the rules of Pathfinder (Linsley et al. 2018) with the
   constants of the Long Range Arena's 32 x 32 pictures (Tay et al. 2021). A contour is a chain of short
   strokes, the paddles. Two target contours have the same number of paddles; a disk marks the first end of
   one of them. The other disk is at the far end of the same contour (label 1), or at that of the other
   contour (label 0). Shorter distractor contours lie around them.
   SPDX-License-Identifier: Apache-2.0 */
#ifndef TASKS_PATHFINDER_CONTOURS_H
#define TASKS_PATHFINDER_CONTOURS_H

#include <stdbool.h>
#include <stddef.h>

#include "base/random.h"

enum { CONTOURS_LEAST_SIDE = 16, CONTOURS_MOST_SIDE = 128, CONTOURS_MOST_PADDLES = 64 };

struct contour_rules {
    size_t side;              /* of the picture, in pixels */
    size_t contour_length;    /* paddles of a target contour, 1 to CONTOURS_MOST_PADDLES */
    size_t distractors;       /* number of distractor contours that are tried */
    size_t distractor_length; /* paddles of each */
};

/* Memory for one picture, (side, side) each. */
struct contour_canvas {
    float *light; /* what is drawn */
    float *taken; /* 1: no other paddle may be here; 0: free */
    float *kept;  /* a copy of taken, for a contour that fails */
};

/* Draws a picture of this label into pixels (side, side). false: CONTOURS_TRIES pairs of target contours did
   not fit, so these rules leave too little room. */
enum { CONTOURS_TRIES = 20000 };
bool contours_draw(struct random *random, const struct contour_rules *rules,
                   const struct contour_canvas *canvas, int label, unsigned char *pixels);

#endif
