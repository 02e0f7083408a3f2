/* Pictures as sequences of pixels, from the top left, row by row: grey levels as ids, or rows of floats.
   Pictures may be shrunk to the means of squares.
   SPDX-License-Identifier: Apache-2.0 */
#ifndef TASKS_PIXELS_H
#define TASKS_PIXELS_H

#include "tasks/dataset.h"

enum pixel_input {
    PIXELS_IDS,  /* the grey level, 0 to 255 */
    PIXELS_GREY, /* one float, -1 (black) to 1 (white) */
    PIXELS_RGB,  /* three of them: red, green, blue */
};
extern const char *const pixel_inputs[]; /* "ids", "grey", "rgb", NULL */

struct pixel_rules {
    enum pixel_input input;
    size_t shrink; /* side of the squares whose mean is one pixel, at least 1 */
};

struct picture {
    const unsigned char *levels; /* (1 or 3 planes, height, width) */
    size_t height, width;
    bool colour; /* three planes: red, green, blue */
};

enum { PIXELS_MOST = 65536 }; /* pixels of the largest sequence */

/* The facts of a task that classifies pictures of this size. BAD_FILE: the rules cannot read them. */
hashattn_status pixels_facts(struct host *host, const struct pixel_rules *rules, const struct picture *like,
                             const char *const *labels, size_t num_classes, struct task_facts *facts);
/* The shape of a data set of these facts. */
struct dataset pixels_shape(const struct task_facts *facts);
/* Appends a picture with its label, negative if unknown. BAD_FILE: its sequence has another length than
   those of the facts. */
hashattn_status pixels_push(struct host *host, const struct pixel_rules *rules,
                            const struct task_facts *facts, const struct picture *picture, int32_t label,
                            struct dataset_builder *builder);

#endif
