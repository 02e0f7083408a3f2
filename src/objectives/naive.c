/* Naive: forecasts zeros, without parameters. Its error is that of the baseline that the task
   subtracts, such as the last value of a window or the mean of its season (tasks/windows.h).
   Bare: it reads nothing.
   SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "objectives/squares.h"

static hashattn_status describe(struct host *host, struct params *params, const struct objective_facts *facts,
                                void *self)
{
    (void)host, (void)params;
    *(struct squares *)self = squares_of(facts);
    return HASHATTN_OK;
}

/* Bytes of the zeros (examples, outputs). */
static size_t zeros_of(const void *self, const struct rows *rows)
{
    return size_product(size_product(rows->num_sequences, squares_outputs(self)), sizeof(float));
}

static size_t memory_size(const void *self, const struct rows *rows, bool training)
{
    struct arena arena = arena_on(NULL);
    (void)training;
    arena_take(&arena, zeros_of(self, rows), 1);
    return arena.used;
}

static const char *refuse(const struct objective_facts *facts)
{
    return facts->quantiles.count > 0 ? "it learns nothing, so it has no `quantiles`" : squares_refuse(facts);
}

static double forward(const struct objective_pass *pass)
{
    memset(pass->memory, 0, zeros_of(pass->self, pass->rows));
    return squares_loss(pass);
}

static void backward(const struct objective_pass *pass, struct slice gradients, float *dx, bool add)
{
    (void)pass, (void)gradients, (void)dx, (void)add;
}

const struct objective objective_naive = {
    .name = "naive",
    .summary = "zeros: the error is what the task left in its targets",
    SQUARES_OF_EXAMPLES,
    .bare = true,
    .whole = true,
    .refuse = refuse,
    .size = sizeof(struct squares),
    .describe = describe,
    .memory_size = memory_size,
    .forward = forward,
    .backward = backward,
};
