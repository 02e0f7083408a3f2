/* The tables of test_seam.c: those of the library, with one more row each.
   SPDX-License-Identifier: Apache-2.0 */
#include "support/follow_objective.h"
#include "support/waves_task.h"

extern const struct objective objective_classify, objective_next_token;
extern const struct task task_needle;

const struct objective *const objective_table[] = {&objective_classify, &objective_next_token,
                                                   &objective_follow, NULL};
const struct task *const task_table[] = {&task_needle, &task_waves, NULL};
