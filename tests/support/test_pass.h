/* A pass of a model over a batch, in memory of exactly the sizes that are asked for, full of NaNs, so that
   reading before writing shows.
   SPDX-License-Identifier: Apache-2.0 */
#ifndef TESTS_SUPPORT_TEST_PASS_H
#define TESTS_SUPPORT_TEST_PASS_H

#include "models/model.h"

struct test_pass {
    void *blocks[2]; /* of the plan and of the workspace */
    const struct model_plan *plan;
    struct model_pass *pass;
};

/* Plans the batch and opens the pass; the last one of this struct, which starts as zeros, is freed. */
void test_pass_open(struct test_pass *made, struct host *host, const struct model *model,
                    const struct model_batch *batch, const float *values);
void test_pass_close(struct test_pass *made);
/* Only plans it. The plan is gone when it returns. */
hashattn_status test_pass_plan(struct host *host, const struct model *model, const struct model_batch *batch);
/* Bytes of its workspace, and of what attention saves of it. */
size_t test_pass_bytes(struct host *host, const struct model *model, const struct model_batch *batch);
size_t test_pass_saved(struct host *host, const struct model *model, const struct model_batch *batch);

#endif
