/* Two blocks: the plan says how large the other one is.
   SPDX-License-Identifier: Apache-2.0 */
#include "models/model_space.h"

#include "base/memory.h"

hashattn_status workspace_fit(struct host *host, struct workspace *workspace, size_t size)
{
    if (size <= workspace->size)
        return HASHATTN_OK;
    /* An eighth more, so that slowly growing batches do not allocate each time. */
    size_t larger = size_max(size, size_sum(workspace->size, workspace->size / 8));
    workspace_free(host, workspace);
    TRY(memory_new(host, larger, 1, "the activations of a batch", &workspace->block));
    workspace->size = larger;
    return HASHATTN_OK;
}

void workspace_free(struct host *host, struct workspace *workspace)
{
    memory_free(host, workspace->block);
    *workspace = (struct workspace){NULL, 0};
}

hashattn_status model_space_open(struct host *host, struct model_space *space, const struct model *model,
                                 const struct model_batch *batch, const float *values,
                                 struct model_pass **pass)
{
    TRY(workspace_fit(host, &space->plan, model_plan_bytes(model, batch->num_sequences)));
    TRY(model_plan_make(host, model, batch, space->plan.block, &space->made));
    TRY(workspace_fit(host, &space->pass, model_workspace_bytes(space->made)));
    *pass = model_open(space->made, batch, values, space->pass.block);
    return HASHATTN_OK;
}

void model_space_free(struct host *host, struct model_space *space)
{
    workspace_free(host, &space->pass);
    workspace_free(host, &space->plan);
}

hashattn_status session_open(struct host *host, struct model *model, struct session *session)
{
    void *block;
    *session = (struct session){.model = NULL};
    TRY(memory_new(host, params_packed_floats(model_params(model)), sizeof(float),
                   "weights packed for products", &block));
    session->model = model;
    session->packed = block;
    return HASHATTN_OK;
}

void session_pack(struct session *session, const struct kernels *kernels, struct pool *pool,
                  const float *values)
{
    session->values =
        params_pack(model_params(session->model), kernels, pool, values, false, session->packed);
}

void session_close(struct host *host, struct session *session)
{
    model_space_free(host, &session->space);
    memory_free(host, session->packed);
    *session = (struct session){.model = NULL};
}
