/* lha over rows that ranks share. Buckets take their members from the whole sequence (lha_lists.h), so the
   rows go to the ranks that own the buckets: each rank attends in its share of them (comm_span_of) and sends
   the parts of every query back to its rank, which merges them in the order of the buckets, as one process
   does. Given the same lists, outputs and gradients have the bits of one process. A ring of keys and values
   would send 4 (R - 1) N (d + d_v) bytes, this about 5.7 (R - 1) / R N (2 d + 2 d_v) forward: less from 3
   ranks on, and all ranks have equal work. Bytes that a rank sends for a head, with p_q and p_k the places of
   its rows in the buckets of others, and e_q and e_k those of others' rows in its buckets (about
   sqrt(2) N (R - 1) / R each, times rounds), besides those of lha_lists.h:
     forward   4 p_q d + 4 p_k (d + d_v) + 4 e_q (d_v + 2)
     backward  4 p_q (d + d_v + 3) + 4 p_k (d + d_v) + 4 e_q d + 4 e_k (d + d_v)
   For the hash loss see lha_loss.h. Memory is reserved for the case that all members of all buckets are rows
   of one rank, and used only for those that are. The lists, one number a place, are on every rank.
   SPDX-License-Identifier: Apache-2.0 */
#ifndef ATTENTION_LHA_RANKS_H
#define ATTENTION_LHA_RANKS_H

#include "attention/lha/lha_hashes.h"
#include "attention/lha/lha_lists.h"

/* Slots of the facet. */
const char *lha_ranks_refuse(const void *options, const struct problem_shape *shape);
size_t lha_ranks_saved_size(const void *options, const struct problem_shape *shape);
size_t lha_ranks_scratch_size(const void *options, const struct problem_shape *shape);
void lha_ranks_forward(const struct problem *problem, struct view out);
void lha_ranks_backward(const struct problem *problem, struct view out, struct view dout,
                        const struct problem_gradients *gradients);

#endif
