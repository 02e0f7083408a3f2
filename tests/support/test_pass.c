/* Makes the plan and the pass in blocks of exactly their sizes.
   SPDX-License-Identifier: Apache-2.0 */
#include "support/test_pass.h"

#include <stdlib.h>
#include <string.h>

#include "support/check.h"

static void *block_of(size_t bytes)
{
    void *block = aligned_alloc(64, (bytes + 127) / 64 * 64);
    assert_non_null(block);
    memset(block, 0xff, bytes);
    return block;
}

void test_pass_open(struct test_pass *made, struct host *host, const struct model *model,
                    const struct model_batch *batch, const float *values)
{
    test_pass_close(made);
    made->blocks[0] = block_of(model_plan_bytes(model, batch->num_sequences));
    check_status(host, model_plan_make(host, model, batch, made->blocks[0], &made->plan), HASHATTN_OK, NULL);
    made->blocks[1] = block_of(model_workspace_bytes(made->plan));
    made->pass = model_open(made->plan, batch, values, made->blocks[1]);
}

void test_pass_close(struct test_pass *made)
{
    free(made->blocks[0]);
    free(made->blocks[1]);
    memset(made, 0, sizeof *made);
}

/* bytes, saved: of the plan; may be NULL. */
static hashattn_status plan(struct host *host, const struct model *model, const struct model_batch *batch,
                            size_t *bytes, size_t *saved)
{
    const struct model_plan *made;
    void *block = block_of(model_plan_bytes(model, batch->num_sequences));
    hashattn_status status = model_plan_make(host, model, batch, block, &made);
    if (status == HASHATTN_OK && bytes != NULL)
        *bytes = model_workspace_bytes(made);
    if (status == HASHATTN_OK && saved != NULL)
        *saved = model_saved_bytes(made);
    free(block);
    return status;
}

hashattn_status test_pass_plan(struct host *host, const struct model *model, const struct model_batch *batch)
{
    return plan(host, model, batch, NULL, NULL);
}

size_t test_pass_bytes(struct host *host, const struct model *model, const struct model_batch *batch)
{
    size_t bytes = 0;
    check_status(host, plan(host, model, batch, &bytes, NULL), HASHATTN_OK, NULL);
    return bytes;
}

size_t test_pass_saved(struct host *host, const struct model *model, const struct model_batch *batch)
{
    size_t saved = 0;
    check_status(host, plan(host, model, batch, NULL, &saved), HASHATTN_OK, NULL);
    return saved;
}
