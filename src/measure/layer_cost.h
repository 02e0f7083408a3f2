/* The cost of one layer of a model: the median time of repeated real passes, and the rate of the product
   library by itself on the same products.
   SPDX-License-Identifier: Apache-2.0 */
#ifndef MEASURE_LAYER_COST_H
#define MEASURE_LAYER_COST_H

#include "models/model_config.h"
#include "train/trainer.h"

struct layer_cost {
    double forward_ms, backward_ms; /* medians; backward_ms is NaN without backward */
    double product_operations;      /* of the dense layers in one forward, two per multiplication */
    size_t repeats, saved_bytes, workspace_bytes;
    double lay_ms;         /* of packing the weights for products; with backward a part of forward_ms */
    double library_gflops; /* of direct calls of the library, all threads at once; 0: no library */
};

/* Measures one layer of a model with this config on one sequence of seq_len random rows. repeats 0: as many
   as fit into two seconds, 3 to 25. The first run warms up. INVALID or REFUSED if there is no such model. */
hashattn_status layer_cost(struct host *host, const struct train_setup *setup,
                           const struct model_config *config, size_t seq_len, uint64_t seed, bool backward,
                           size_t repeats, struct layer_cost *cost);

#endif
