/* The struct of a setup, for the files of this floor.
   SPDX-License-Identifier: Apache-2.0 */
#ifndef API_SETUP_H
#define API_SETUP_H

#include <stdbool.h>

#include "api/handles.h"
#include "hashattn/train.h"
#include "train/start/origin.h"

struct hashattn_setup {
    struct hashattn_context *context;
    void *data_options;                /* of task->prepare_options; NULL: there are none */
    struct run_config config;          /* facts, data sizes and directory are filled when training begins */
    const struct task_preset *preset;  /* the last that was taken */
    struct origin *origin;             /* the stored model that training starts from; NULL: none */
    const struct option_row *learning; /* the last option that was set of how ids are learned; NULL: none */
    hashattn_data_callback *data_callback; /* or NULL */
    void *data_user;
};

/* Sets the setup's data directory and reads the model's sizes from the data. */
hashattn_status setup_take_data(struct hashattn_setup *setup, const char *data);

#endif
