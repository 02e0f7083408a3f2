/* Memory of clustered attention, and the part of it that one cluster's queries compute among their top keys.
   SPDX-License-Identifier: Apache-2.0 */
#ifndef ATTENTION_CLUSTERED_PARTS_H
#define ATTENTION_CLUSTERED_PARTS_H

#include "attention/mechanism.h"
#include "base/memory.h"
#include "parts/tiles/softmax_rows.h"

enum { MEMBERS = 64 }; /* queries of a cluster computed at a time */

struct clustered_options {
    int64_t num_clusters, top_keys;
};

/* What forward keeps. */
struct clustered_saved {
    struct softmax_rows rows; /* (n_q): of exact attention */
    uint32_t *order;          /* (n_q): queries by cluster, rising within each */
    uint32_t *starts;         /* (C + 1): where each cluster begins in order */
    uint32_t *top;            /* (C, k): T_c, rising */
    size_t bytes;
};

/* What one cluster has, and its gradients; one array of each for all clusters. */
struct clustered_rows {
    float *mean, *dmean; /* (C, d) */
    float *rest, *drest; /* (C, d_v): the sum over keys outside T_c; the sum of dout over the members */
    float *mass, *dmass; /* (C) */
    float *at_top;       /* (C, k): A_c at T_c */
    float *dtop_key;     /* (C, k, d): gradients of the keys of T_c as the members give them */
    float *dtop_value;   /* (C, k, d_v) */
};

/* Memory of one thread. */
struct clustered_thread {
    float *key, *value;        /* (k, d), (k, d_v): rows of T_c */
    float *query, *dquery;     /* (MEMBERS, d) */
    float *out, *dout;         /* (MEMBERS, d_v) */
    float *scores, *dscores;   /* (MEMBERS, k) */
    float *max, *sum, *factor; /* (MEMBERS) */
};

/* One head. */
struct clustered {
    const struct problem *problem;
    size_t clusters, top; /* C, k */
    struct clustered_saved saved;
    struct clustered_rows rows;
    float *weights, *dweights; /* (C, n_k): A, dA and dS */
    float *spare;              /* (C) */
    uint32_t *assigned;        /* (n_q) */
    void *assigning, *tiles;   /* scratch of hamming_assign; of exact attention */
    unsigned char *threads;
    size_t per_thread, bytes;
};

struct clustered_thread clustered_thread_take(struct arena *arena, const struct problem_shape *shape,
                                              size_t top);

/* Writes the rows of `out` of this cluster's queries. */
void clustered_members_forward(const struct clustered *c, size_t cluster, int worker, struct view out);

/* Fills drest, dmass, dtop_key and dtop_value of this cluster, and adds to its queries' gradients. */
void clustered_members_backward(const struct clustered *c, size_t cluster, int worker, struct view dout,
                                struct view dquery);

#endif
