/* A time limit for a call that may never return and knows none itself, such as joining other processes: the
   alarm of the process ends it with a sentence. One at a time.
   SPDX-License-Identifier: Apache-2.0 */
#ifndef CLI_TIME_LIMIT_H
#define CLI_TIME_LIMIT_H

/* After `seconds` the sentence is printed to stderr and the process exits with EXIT_WORK, unless
   time_limit_end was called before. 0: no limit. */
void time_limit_begin(double seconds, const char *format, ...) __attribute__((format(printf, 2, 3)));
void time_limit_end(void);

#endif
