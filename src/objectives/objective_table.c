/* The table of objectives: a new one is a row here and a file beside. SPDX-License-Identifier: Apache-2.0 */
#include "objectives/objective.h"

extern const struct objective objective_classify, objective_next_token;

const struct objective *const objective_table[] = {&objective_classify, &objective_next_token, NULL};
