/* Ranks that train one run: rank 0 reads and writes its directory, the others get the state from rank 0. And
   what ranks compare before they train or evaluate.
   SPDX-License-Identifier: Apache-2.0 */
#ifndef TRAIN_RUN_RANKS_H
#define TRAIN_RUN_RANKS_H

#include "comm/comm.h"
#include "train/checkpoint.h"
#include "train/trainer.h"

/* INVALID, with the line of config.json or the data set, if a rank has other options or data than rank 0. */
hashattn_status ranks_check(struct host *host, struct comm *comm, const struct run_config *config,
                            const struct train_state *state);
/* The same for a trained model that ranks evaluate together, with its `total` parameters and the seed; and
   for the examples that they share. Collective. */
hashattn_status ranks_check_model(struct host *host, struct comm *comm, const struct run_config *config,
                                  const float *values, size_t total, uint64_t seed);
hashattn_status ranks_check_set(struct host *host, struct comm *comm, const struct dataset *set);
/* Copies the state and the blocks, `total` floats each, of rank 0 to all ranks. */
hashattn_status ranks_broadcast_state(struct host *host, struct comm *comm, struct train_state *state,
                                      const struct train_blocks *blocks, size_t total);

#endif
