/* The implementation of the mechanisms with groups: from their grouping options, which come first in the
   options of each, and the source of their scores. grouped.h and grouped_members.h compute it.
   SPDX-License-Identifier: Apache-2.0 */
#ifndef PARTS_GROUPING_H
#define PARTS_GROUPING_H

#include "parts/groups/grouped.h"
#include "parts/groups/grouping_options.h"

/* Where a mechanism's scores come from. */
struct score_source {
    /* Bytes for what `open` draws or mixes; never fall as rows are added. */
    size_t (*size)(const void *options, const struct problem_shape *shape);
    /* Makes a scorer in that memory; it refers to the problem. */
    const void *(*open)(const struct problem *problem, void *memory);
    /* As in struct grouped. */
    void (*score)(const void *scorer, enum group_side side, size_t first, size_t count, float *z, int worker);
};

/* What the options mean for problems of this shape; without scores. */
struct grouped grouping_of(const struct grouping_options *options, const struct problem_shape *shape);

/* With scores, whose scorer lies in problem->scratch behind that of grouped.h. */
struct grouped grouping_open(const struct problem *problem, const struct score_source *source);

/* Groups of all rounds. */
size_t grouping_count(const void *options);

/* ---- slots of a mechanism ------------------------------------------------------------------------------ */

const char *grouping_refuse(const void *options, const struct problem_shape *shape);
size_t grouping_saved_size(const void *options, const struct problem_shape *shape);
size_t grouping_scratch_size(const void *options, const struct problem_shape *shape,
                             const struct score_source *source);
void grouping_forward(const struct problem *problem, const struct score_source *source, struct view out);
void grouping_backward(const struct problem *problem, struct view out, struct view dout,
                       const struct problem_gradients *gradients);

#endif
