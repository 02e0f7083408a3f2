/* What one layer of a model costs: real passes, repeated, and the median of their times; beside them the rate
   of the product library alone on the same products. SPDX-License-Identifier: Apache-2.0 */
#ifndef MEASURE_LAYER_COST_H
#define MEASURE_LAYER_COST_H

#include "models/model_config.h"
#include "train/trainer.h"

struct layer_cost {
    double forward_ms, backward_ms; /* medians; backward_ms is NaN where it was not asked for */
    double product_operations;      /* of the dense layers in one forward, two per multiplication */
    size_t repeats, saved_bytes, workspace_bytes;
    double lay_ms;         /* of laying the weights for products; with backward a part of forward_ms */
    double library_gflops; /* of the library's own calls, all threads at once; 0: no library */
};

/* One layer of a model of this config on one sequence of seq_len random rows. repeats 0: as many as fit two
   seconds, 3 to 25. The first run warms up. INVALID or REFUSED where there is no such model. */
hashattn_status layer_cost(struct host *host, const struct train_setup *setup,
                           const struct model_config *config, size_t seq_len, uint64_t seed, bool backward,
                           size_t repeats, struct layer_cost *cost);

#endif
