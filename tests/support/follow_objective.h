/* The objective of the tests, the counterpart of the linear mechanism: floats for every row, each row with a
   weight, through one dense layer; the loss is half the squared error.
   SPDX-License-Identifier: Apache-2.0 */
#ifndef TESTS_SUPPORT_FOLLOW_OBJECTIVE_H
#define TESTS_SUPPORT_FOLLOW_OBJECTIVE_H

#include "objectives/objective.h"

extern const struct objective objective_follow; /* metrics: "loss", "error" (mean absolute) */

#endif
