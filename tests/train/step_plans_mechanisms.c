/* The table of mechanisms for test_step_plans.c: softmax twice, each counting how often its saved size is
   asked for, which is once for every sequence of a plan.
   SPDX-License-Identifier: Apache-2.0 */
#include "attention/mechanism.h"

extern const struct mechanism mechanism_softmax, mechanism_yoso;
extern size_t sizes_counted[2];
size_t sizes_counted[2];

static size_t count_first(const void *options, const struct problem_shape *shape)
{
    sizes_counted[0]++;
    return mechanism_softmax.host.saved_size(options, shape);
}

static size_t count_second(const void *options, const struct problem_shape *shape)
{
    sizes_counted[1]++;
    return mechanism_softmax.host.saved_size(options, shape);
}

/* Filled at start, because a constant cannot be copied from another. */
static struct mechanism first, second;

__attribute__((constructor)) static void fill(void)
{
    first = second = mechanism_softmax;
    first.name = "first";
    second.name = "second";
    first.host.saved_size = count_first;
    second.host.saved_size = count_second;
}

const struct mechanism *const mechanism_table[] = {&first, &second, &mechanism_yoso, NULL};
