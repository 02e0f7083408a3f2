/* The task of the tests whose sequences are rows of floats: waves of three columns, in two segments. Every
   row is asked for the next values of two of the columns (objective "follow", some rows not at all), and
   every example for which of three speeds it has ("classify"). SPDX-License-Identifier: Apache-2.0 */
#ifndef TESTS_SUPPORT_WAVES_TASK_H
#define TESTS_SUPPORT_WAVES_TASK_H

#include "tasks/task.h"

extern const struct task task_waves; /* its directory is not looked at */

#endif
