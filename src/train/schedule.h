/* The one-cycle schedule (Smith and Topin 2017) in the linear form in which the Long Range Arena models were
   trained: the learning rate rises in a straight line from peak/25 to the peak, then falls in a straight line
   to peak/25/10,000; where asked for, Adam's beta1 runs the other way, .95 down to .85 and up again. Values
   are those of PyTorch's OneCycleLR(anneal_strategy="linear", pct_start=warmup/steps).
   Three more: constant, linear (the schedule of BERT) and cosine (Loshchilov and Hutter 2017, one period)
   rise in a straight line from peak / warmup to the peak; then stay there, or fall to 0, which the step after
   the last would have. A step's values depend on its number alone, so resuming needs no state.
   SPDX-License-Identifier: Apache-2.0 */
#ifndef TRAIN_SCHEDULE_H
#define TRAIN_SCHEDULE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum schedule_kind { SCHEDULE_ONE_CYCLE, SCHEDULE_LINEAR, SCHEDULE_COSINE, SCHEDULE_CONSTANT };
extern const char *const schedule_names[]; /* "one-cycle", "linear", "cosine", "constant", NULL */

struct schedule {
    enum schedule_kind kind;
    int64_t steps, warmup; /* 0 <= warmup <= steps, steps >= 1; the peak is reached in step warmup - 1 */
    double peak;           /* learning rate */
    double beta1;          /* where it does not cycle */
    bool cycle_beta1;      /* one-cycle alone */
};

struct schedule_point {
    double rate, beta1;
};

/* Of step 0 .. steps - 1. */
struct schedule_point schedule_at(const struct schedule *schedule, int64_t step);

/* The warm-up of a preset, in proportion, for another number of steps (rounded to nearest). */
int64_t schedule_scaled_warmup(int64_t preset_steps, int64_t preset_warmup, int64_t steps);

#endif
