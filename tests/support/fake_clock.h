/* A clock that a test controls, so that times and rates are exact.
   SPDX-License-Identifier: Apache-2.0 */
#ifndef TESTS_SUPPORT_FAKE_CLOCK_H
#define TESTS_SUPPORT_FAKE_CLOCK_H

/* Seconds by which each reading of clock_gettime advances the clock of its thread; 0: the system's clock.
   Times are exact if it is a power of two and at least 2^-9: the clock counts whole nanoseconds. */
extern double fake_clock_tick;

#endif
