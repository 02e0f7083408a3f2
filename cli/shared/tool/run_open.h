/* Opening a trained run, for every command that reads one.
   SPDX-License-Identifier: Apache-2.0 */
#ifndef CLI_RUN_OPEN_H
#define CLI_RUN_OPEN_H

#include "hashattn/hashattn.h"

/* As hashattn_model_load. Says on standard error if the run has no best model yet, so that its last
   parameters are used. */
hashattn_status run_open(hashattn_context *context, const char *run, hashattn_model **model);

#endif
