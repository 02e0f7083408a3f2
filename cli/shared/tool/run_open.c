/* A run that was stopped before its first evaluation is a run: its last parameters serve, and the user is
   told.
   SPDX-License-Identifier: Apache-2.0 */
#include "cli/shared/tool/run_open.h"

#include <stdio.h>

#include "cli/shared/tool/ranks.h"
#include "cli/shared/tool/tool.h"

hashattn_status run_open(hashattn_context *context, const char *run, hashattn_model **model)
{
    hashattn_model_info info = {.struct_size = sizeof info};
    int rank, ranks;
    hashattn_status status = hashattn_model_load(context, run, model);
    if (status != HASHATTN_OK)
        return status;
    hashattn_model_describe(*model, &info);
    ranks_place(&rank, &ranks);
    if (info.last_step >= 0 && rank == 0)
        tool_line(stderr,
                  "hashattn: %s has no best model yet; these are its last parameters, of training step %lld",
                  run, (long long)info.last_step);
    return HASHATTN_OK;
}
