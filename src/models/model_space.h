/* The memory of a model's passes, reused from batch to batch: it grows to the largest. A session has the
   packed weights too.
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

/* A model that is ready for forward passes: its weights packed once, for any number of batches. */
struct session {
    struct model *model; /* the caller's; NULL: the session is empty */
    float *packed;       /* params_packed_floats floats, or NULL */
    const float *values; /* of params_pack, once they are packed */
    struct model_space space;
};
/* Allocates `packed`. The session is empty after a failure. */
hashattn_status session_open(struct host *host, struct model *model, struct session *session);
/* Packs parameters `values` for forward passes as params_pack does; the ones before are gone. */
void session_pack(struct session *session, const struct kernels *kernels, struct pool *pool,
                  const float *values);
/* Empties the session. Does nothing to an empty one. */
void session_close(struct host *host, struct session *session);

#endif
