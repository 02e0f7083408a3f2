/* Ranks that train one run: rank 0 reads and writes its directory, the others get the state from rank 0.
   SPDX-License-Identifier: Apache-2.0 */
#ifndef TRAIN_RUN_RANKS_H
#define TRAIN_RUN_RANKS_H

#include "comm/comm.h"
#include "train/checkpoint.h"
#include "train/trainer.h"

/* INVALID, with the line of config.json or the data set, if a rank has other options or data than rank 0. */
hashattn_status ranks_check(struct host *host, struct comm *comm, const struct run_config *config,
                            const struct train_state *state);
/* Copies the state and the blocks, `total` floats each, of rank 0 to all ranks. */
hashattn_status ranks_broadcast_state(struct host *host, struct comm *comm, struct train_state *state,
                                      const struct train_blocks *blocks, size_t total);

#endif
