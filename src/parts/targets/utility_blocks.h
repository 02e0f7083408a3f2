/* Rows in blocks of UTILITY_BLOCK, cut by their index only. One block per thread runs at a time, each in its
   own slot, and results are added in the order of the blocks: the bits are those of one thread.
   SPDX-License-Identifier: Apache-2.0 */
#ifndef PARTS_UTILITY_BLOCKS_H
#define PARTS_UTILITY_BLOCKS_H

#include "parts/targets/utility_problem.h"

struct utility_work {
    /* Rows first .. end - 1. Calls for different slots run concurrently. */
    void (*block)(const void *argument, size_t slot, size_t first, size_t end);
    /* After each block, in order, on the caller's thread. */
    void (*add)(void *argument, size_t slot);
    void *argument;
};

/* Runs the rows first .. end - 1. */
void utility_run_blocks(const struct problem *problem, size_t first, size_t end,
                        const struct utility_work *work);

#endif
