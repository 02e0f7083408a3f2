/* The table of objectives. A new objective is a file in this folder and a row here.
   SPDX-License-Identifier: Apache-2.0 */
#include "objectives/objective.h"

extern const struct objective objective_classify, objective_masked_tokens, objective_next_token,
    objective_regress, objective_label_set, objective_horizon, objective_dlinear, objective_naive,
    objective_decoded;

const struct objective *const objective_table[] = {&objective_classify,      &objective_next_token,
                                                   &objective_masked_tokens, &objective_regress,
                                                   &objective_label_set,     &objective_horizon,
                                                   &objective_dlinear,       &objective_naive,
                                                   &objective_decoded,       NULL};
