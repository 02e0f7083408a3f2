/* Two straight lines over step numbers. The corner is at warmup - 1, not at warmup, because PyTorch ends the
   first phase at pct_start * steps - 1; without warm-up the corner is step -1, so step 0 is already one step
   below the peak. The other schedules have the same corner.
   SPDX-License-Identifier: Apache-2.0 */
#include "train/schedule.h"

#include <assert.h>
#include <math.h>

#define START_DIVISOR 25.0
#define END_DIVISOR   1e4 /* of the initial value, not of the peak */
#define BETA1_HIGH    0.95
#define BETA1_LOW     0.85

const char *const schedule_names[] = {"one-cycle", "linear", "cosine", "constant", "halving", NULL};

/* From peak/25 to the peak and down to peak/25/10,000; `part` is the fraction of the current line. */
static struct schedule_point one_cycle_at(const struct schedule *schedule, bool rising, double part)
{
    double low = schedule->peak / START_DIVISOR;
    struct schedule_point point = {.beta1 = schedule->beta1};
    if (rising)
        point.rate = low + (schedule->peak - low) * part;
    else
        point.rate = schedule->peak + (low / END_DIVISOR - schedule->peak) * part;
    if (schedule->cycle_beta1)
        point.beta1 = rising ? BETA1_HIGH + (BETA1_LOW - BETA1_HIGH) * part
                             : BETA1_LOW + (BETA1_HIGH - BETA1_LOW) * part;
    return point;
}

/* The remaining share of the peak in a step after the fraction `part` of the fall. */
static double left_of(const struct schedule *schedule, double part, int64_t step)
{
    switch (schedule->kind) {
    case SCHEDULE_LINEAR:
        return 1 - part;
    case SCHEDULE_COSINE:
        return 0.5 * (1 + cos(acos(-1) * part));
    case SCHEDULE_HALVING:
        assert(schedule->batch >= 1 && schedule->epoch >= 1);
        return exp2(-(double)(step * schedule->batch / schedule->epoch)); /* passes that are complete */
    default:
        return 1;
    }
}

struct schedule_point schedule_at(const struct schedule *schedule, int64_t step)
{
    assert(schedule->steps >= 1 && schedule->warmup >= 0 && schedule->warmup <= schedule->steps);
    assert(step >= 0 && step < schedule->steps);
    double corner = (double)schedule->warmup - 1, last = (double)schedule->steps - 1, at = (double)step;
    bool rising = at <= corner;
    if (schedule->kind != SCHEDULE_ONE_CYCLE) {
        double share =
            rising ? (at + 1) / (corner + 1) : left_of(schedule, (at - corner) / (last + 1 - corner), step);
        return (struct schedule_point){.rate = schedule->peak * share, .beta1 = schedule->beta1};
    }
    double part; /* fraction of the current line; a line of one point (warmup 1) is at its end */
    if (rising)
        part = corner > 0 ? at / corner : 1;
    else
        part = (at - corner) / (last - corner);
    return one_cycle_at(schedule, rising, part);
}

int64_t schedule_scaled_warmup(int64_t preset_steps, int64_t preset_warmup, int64_t steps)
{
    double share = (double)preset_warmup / (double)preset_steps;
    int64_t warmup = (int64_t)(share * (double)steps + 0.5);
    return warmup > steps ? steps : warmup;
}
