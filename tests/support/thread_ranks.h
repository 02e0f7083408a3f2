/* Ranks as threads of one process: a communicator without MPI, for tests.
   SPDX-License-Identifier: Apache-2.0 */
#ifndef TESTS_SUPPORT_THREAD_RANKS_H
#define TESTS_SUPPORT_THREAD_RANKS_H

#include "comm/comm.h"

enum { MOST_RANKS = 16 };

/* Runs body on `size` threads, each with a communicator of its own. cmocka's checks must not fail on them, so
   bodies keep what they find; `rank_require` ends the program. */
typedef void rank_body(struct comm *comm, void *argument);
/* Returns the sentence of the first abort, or "" if there was none; valid until the next call. timeout: in
   seconds. */
const char *run_ranks(int size, double timeout, rank_body *body, void *argument);

/* Prints the expression and ends the program unless it is true. */
#define rank_require(expression) rank_require_at((expression), #expression, __FILE__, __LINE__)
void rank_require_at(bool holds, const char *expression, const char *file, int line);

#endif
