/* The one-cycle schedule (Smith and Topin 2017) in the linear form that trained the Long Range Arena models:
   the learning rate rises linearly from peak/25 to the peak, then falls linearly to peak/25/10,000;
   optionally Adam's beta1 moves the opposite way, from .95 to .85 and back. Values are those of PyTorch's
   OneCycleLR(anneal_strategy="linear", pct_start=warmup/steps).
   Four more: constant, linear (the schedule of BERT), cosine (Loshchilov and Hutter 2017, one period) and
   halving (Informer; Zhou et al. 2021) rise linearly from peak / warmup to the peak, then stay there, fall to
   0, which the step after the last one would have, or have half the rate after every pass over the examples.
   (Informer's code halves for the first time after the second pass.) The step number determines the values,
   so resuming needs no state.
   SPDX-License-Identifier: Apache-2.0 */
#ifndef TRAIN_SCHEDULE_H
#define TRAIN_SCHEDULE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum schedule_kind {
    SCHEDULE_ONE_CYCLE,
    SCHEDULE_LINEAR,
    SCHEDULE_COSINE,
    SCHEDULE_CONSTANT,
    SCHEDULE_HALVING
};
extern const char *const schedule_names[]; /* "one-cycle", "linear", "cosine", "constant", "halving", NULL */

struct schedule {
    enum schedule_kind kind;
    int64_t steps, warmup; /* 0 <= warmup <= steps, steps >= 1; the peak is reached in step warmup - 1 */
    double peak;           /* learning rate */
    double beta1;          /* if it does not cycle */
    bool cycle_beta1;      /* one-cycle only */
    int64_t batch, epoch;  /* examples of a step and of a pass, at least 1 each; halving only */
};

struct schedule_point {
    double rate, beta1;
};

/* The values of step 0 .. steps - 1. */
struct schedule_point schedule_at(const struct schedule *schedule, int64_t step);

/* The warm-up of a preset, scaled to another number of steps (rounded to nearest). */
int64_t schedule_scaled_warmup(int64_t preset_steps, int64_t preset_warmup, int64_t steps);

#endif
