/* As many blocks at a time as threads.
   SPDX-License-Identifier: Apache-2.0 */
#include "parts/targets/utility_blocks.h"

struct wave {
    const struct utility_work *work;
    size_t first, end; /* rows that are left */
};

static void run_block(void *argument, size_t slot, int worker)
{
    (void)worker;
    const struct wave *wave = argument;
    size_t first = wave->first + slot * UTILITY_BLOCK;
    wave->work->block(wave->work->argument, slot, first, size_min(first + UTILITY_BLOCK, wave->end));
}

void utility_run_blocks(const struct problem *problem, size_t first, size_t end,
                        const struct utility_work *work)
{
    for (struct wave wave = {work, first, end}; wave.first < end;) {
        size_t count =
            size_min(problem->shape.workers, (end - wave.first + UTILITY_BLOCK - 1) / UTILITY_BLOCK);
        pool_run(problem->pool, run_block, &wave, count);
        for (size_t slot = 0; slot < count; slot++)
            work->add(work->argument, slot);
        wave.first += count * UTILITY_BLOCK;
    }
}
