/* Time and memory of this process, for rates, progress and benches.
   SPDX-License-Identifier: Apache-2.0 */
#ifndef BASE_CLOCK_H
#define BASE_CLOCK_H

#include <stddef.h>

double clock_seconds(void); /* monotonic */
/* Sorts `count` >= 1 times of repetitions. */
double clock_median(double *seconds, size_t count);
size_t clock_peak_resident(void); /* largest resident set of this process so far, in bytes */

#endif
