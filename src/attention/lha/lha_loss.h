/* The loss that trains the hash functions of lha (Sun et al. 2022, eqs. 11 to 19 and 25; docs/LHA.md 4): its
   value and the gradients of their parameters. Targets come from parts/targets/utility.h, a tile of tokens at
   a time; the tile's scores are recomputed: 2 d B operations per token, and as many for the gradient. Cost
   of the targets: see lha.c. Memory is linear in n. If ranks share the rows, each has the targets and the
   loss of its own rows, and the sum over the ranks is that of one process, as is the sum of the gradients. A
   rank of R sends, besides lha_lists.h for lists that forward did not make (causal and strict, released) or
   for the best bucket of each row (paper: balance + 1 sums a hashing, and 4 (R - 1) N rounds): with targets
   sampled 4 (R - 1) d for each of its sampled queries, 4 (R - 1) S for maxima, and sums of S and of S L
   floats; with features 8 (R - 1) for levels, and sums of R_f, and twice of R_f L floats. With L the buckets
   of all rounds, R_f features, S sampled queries.
   SPDX-License-Identifier: Apache-2.0 */
#ifndef ATTENTION_LHA_LOSS_H
#define ATTENTION_LHA_LOSS_H

#include "attention/lha/lha_hashes.h"

/* true if the targets use random features. */
bool lha_by_features(const struct lha_options *options);

/* The directions of these features. */
size_t lha_directions(const struct lha_options *options);

/* Bytes of its scratch. */
size_t lha_loss_size(const struct lha_options *options, const struct problem_shape *shape);

/* `compute` of own_loss_facet. */
double lha_loss(const struct problem *problem, const struct problem_gradients *gradients);

#endif
