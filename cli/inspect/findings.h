/* The results of `inspect`: sums over sequences for each head and membership, and every single bucket for the
   histograms.
   SPDX-License-Identifier: Apache-2.0 */
#ifndef CLI_FINDINGS_H
#define CLI_FINDINGS_H

#include "cli/shared/output/memberships.h"
#include "cli/shared/tool/command.h"

enum { IN_BUCKETS = 5 };

/* Sums over sequences, or over heads. */
struct membership_sums {
    double utility, bound, pairs, queries_in[IN_BUCKETS],
        keys_in[IN_BUCKETS];   /* the last two as shares of the tokens */
    double sizes_off, buckets; /* buckets of more than twice or less than half an equal share; all buckets */
    double ratios_off,
        ratios; /* buckets with queries and keys: those with a ratio over 2 or under 1/2; all */
    double count;
};

/* The number of tokens whose best bucket this is. */
struct bucket_count {
    uint32_t queries, keys;
};

struct inspected_head {
    size_t layer, head, num_buckets;
    const char *mechanism,
        *probe;        /* probe: whose buckets are "own", if not the mechanism's; otherwise NULL */
    const char *stack; /* "encoder", "decoder" or "cross", of a model with a decoder; otherwise NULL */
    struct membership_sums sums[MEMBERSHIPS];
    struct bucket_count *first[MEMBERSHIPS]; /* (num_buckets) of the first sequence, largest first */
};

/* One bucket of one head on one sequence. */
struct inspected_bucket {
    int membership;
    float size, ratio; /* relative to an equal share; queries over keys, 0 if there are none of either */
};

struct inspected {
    struct inspected_head *heads; /* by layer, then head */
    struct inspected_bucket *buckets;
    size_t num_heads, head_capacity, num_buckets, bucket_capacity, sequences, tokens;
    bool no_memory; /* memory ran out and collecting stopped */
};

/* A hashattn_membership_callback. `user` is a struct inspected that starts as zeros. */
int inspected_hear(void *user, const hashattn_membership *membership);
void inspected_free(struct inspected *inspected);

/* into += sums. */
void membership_add(struct membership_sums *into, const struct membership_sums *sums);
/* Whose buckets are "own" in the first head. */
static inline const char *inspected_owner(const struct inspected *inspected)
{
    return inspected->heads[0].probe != NULL ? inspected->heads[0].probe : inspected->heads[0].mechanism;
}
static inline double mean_of(double sum, double count)
{
    return count > 0 ? sum / count : 0;
}

/* Writes figures 1, 2 and 6 of the paper to `directory`, created if absent, as gnuplot scripts, and as SVG if
   gnuplot is installed. layer: that of figure 1; SIZE_MAX: the first with buckets. Returns an exit code. */
int inspected_plot(const struct inspected *inspected, const char *directory, size_t layer, bool quiet);

#endif
