/* The tests' objective, the counterpart of the linear mechanism: predicts floats for every row by one dense
   layer; each row has a weight; the loss is half the squared error.
   SPDX-License-Identifier: Apache-2.0 */
#ifndef TESTS_SUPPORT_FOLLOW_OBJECTIVE_H
#define TESTS_SUPPORT_FOLLOW_OBJECTIVE_H

#include "objectives/objective.h"

extern const struct objective objective_follow; /* metrics: "loss", "error" (mean absolute) */

#endif
