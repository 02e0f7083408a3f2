/* The memory of a model's passes, reused from batch to batch: it grows to the largest.
   SPDX-License-Identifier: Apache-2.0 */
#ifndef MODELS_MODEL_SPACE_H
#define MODELS_MODEL_SPACE_H

#include "models/model.h"

struct workspace {
    void *block;
    size_t size;
};
/* Makes it at least `size` bytes. Its contents are lost when it grows. */
hashattn_status workspace_fit(struct host *host, struct workspace *workspace, size_t size);
void workspace_free(struct host *host, struct workspace *workspace);

struct model_space {
    struct workspace plan, pass;
    const struct model_plan *made; /* of the last batch */
};
/* Plans the batch and opens its pass; the last one is over. REFUSED: as model_plan_make. */
hashattn_status model_space_open(struct host *host, struct model_space *space, const struct model *model,
                                 const struct model_batch *batch, const float *values,
                                 struct model_pass **pass);
void model_space_free(struct host *host, struct model_space *space);

#endif
