/* The session ends with the evaluation.
   SPDX-License-Identifier: Apache-2.0 */
#include "support/evaluate_once.h"

hashattn_status evaluate_once(struct host *host, const struct train_setup *setup, struct model *model,
                              const float *values, const struct dataset *dataset, size_t batch, uint64_t seed,
                              float *outputs, struct evaluation *result)
{
    struct session session = {.model = NULL};
    TRY(evaluate_open(host, setup, model, values, &session));
    hashattn_status status = evaluate(host, setup, &session, dataset, batch, seed, outputs, result);
    session_close(host, &session);
    return status;
}
