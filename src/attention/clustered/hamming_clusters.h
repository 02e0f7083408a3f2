/* Groups of rows with similar hash codes (Vyas, Katharopoulos and Fleuret 2020, section 3.2): a row is hashed
   to 63 bits, the signs of its products with normal planes plus normal thresholds, and the codes are grouped
   by K-means in Hamming space. As in the released code, the first centres are codes of rows (here one drawn
   from each of `clusters` stretches of the sequence), ten assignments alternate with nine updates, equal
   distances go to the lower cluster, a bit of a centre is the majority (0 at a tie), and a centre without
   rows gets random bits. The rounds end early, with the same result, when no assignment changes.
   Codes are rows of +-1, so distances are products. A centre's coordinates are scaled, and a last coordinate
   holds its number, so that the largest product also names the lowest of the nearest clusters. All numbers
   are integers below 2^24, exact in float32, so no order of sums changes the result.
   Cost: 128 n (dim + 10 clusters) operations.
   SPDX-License-Identifier: Apache-2.0 */
#ifndef ATTENTION_HAMMING_CLUSTERS_H
#define ATTENTION_HAMMING_CLUSTERS_H

#include "base/memory.h"
#include "base/pool.h"
#include "parts/rows/view.h"

enum { HAMMING_BITS = 63, HAMMING_ROUNDS = 10, HAMMING_MOST = 4096 /* clusters */ };

struct hamming_clusters {
    const struct kernels *kernels;
    struct pool *pool; /* or NULL */
    size_t workers, num_rows, dim;
    size_t clusters; /* <= HAMMING_MOST and <= num_rows */
    uint64_t key;    /* of the random numbers */
};

/* Depends on the sizes only; never falls with more rows. */
size_t hamming_scratch_size(const struct hamming_clusters *clusters);

/* assigned (num_rows): the cluster of each row. A cluster may have no rows. */
void hamming_assign(const struct hamming_clusters *clusters, struct view rows, uint32_t *assigned,
                    void *scratch);

#endif
