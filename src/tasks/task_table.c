/* The table of tasks. A new task is a file in this folder and a row here.
   SPDX-License-Identifier: Apache-2.0 */
#include "tasks/task.h"

extern const struct task task_listops, task_text, task_retrieval, task_needle, task_lm, task_mlm, task_glue,
    task_image, task_pathfinder, task_forecast;

const struct task *const task_table[] = {&task_needle,     &task_listops,  &task_text, &task_retrieval,
                                         &task_lm,         &task_mlm,      &task_glue, &task_image,
                                         &task_pathfinder, &task_forecast, NULL};
