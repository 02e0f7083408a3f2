/* One call of attention whose rows ranks share: each rank, a thread, computes its spans of the sequences of a
   case, and the results are put together.
   SPDX-License-Identifier: Apache-2.0 */
#ifndef TESTS_SUPPORT_ATTENTION_TEAM_H
#define TESTS_SUPPORT_ATTENTION_TEAM_H

#include "support/attention_case.h"
#include "support/thread_ranks.h"

/* What the ranks compute, in the places of the whole. */
struct attention_team {
    const struct attention_case *whole;
    int threads;
    struct attention_result result;
    float *dparams[MOST_RANKS];
    float *auxiliary_dparams[MOST_RANKS];
    double auxiliary[MOST_RANKS];         /* the own loss */
    uint64_t bytes_sent, auxiliary_bytes; /* of rank 0: by forward and backward, and by the own loss */
};

/* Forward, own loss and backward on so many ranks, each with so many threads. Memory that is not input is
   filled with NaN before every pass. */
struct attention_team attention_team_of(const struct attention_case *whole, int ranks, int threads);
void attention_team_free(struct attention_team *team);

#endif
