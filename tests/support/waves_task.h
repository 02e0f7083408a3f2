/* The tests' task with float rows: waves of three columns, in two segments. The targets of a row are the next
   values of two columns (objective "follow"; some rows have weight 0), and the target of an example is one of
   three speeds ("classify").
   SPDX-License-Identifier: Apache-2.0 */
#ifndef TESTS_SUPPORT_WAVES_TASK_H
#define TESTS_SUPPORT_WAVES_TASK_H

#include "tasks/task.h"

extern const struct task task_waves; /* ignores its directory */

#endif
