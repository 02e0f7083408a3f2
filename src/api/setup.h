/* What a setup is, for the files of this floor. SPDX-License-Identifier: Apache-2.0 */
#ifndef API_SETUP_H
#define API_SETUP_H

#include <stdbool.h>

#include "api/handles.h"
#include "hashattn/train.h"
#include "train/trainer.h"

struct hashattn_setup {
    struct hashattn_context *context;
    struct run_config config; /* its facts, sizes of data and directory are filled when training begins */
    bool lra;                 /* the preset chosen last; else the task's own */
};

/* Makes `data`, a directory, that of the setup, and takes the sizes of the model from it. */
hashattn_status setup_take_data(struct hashattn_setup *setup, const char *data);

#endif
