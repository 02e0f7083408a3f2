/* What a training step costs on several ranks, as a model: a network in which every rank sends and receives
   `bandwidth` bytes per second at the same time and a message arrives after `latency`, and computing that
   takes the same time per token on every rank. Nothing is measured here. Bytes are those that a rank sends,
   exactly those of the program but for cache lines; see docs/guide/9-several-machines.md. The model leaves
   out: ranks that wait for a slower one, memory that ranks of one machine share, and the processor time that
   messages take.
   SPDX-License-Identifier: Apache-2.0 */
#ifndef CLI_CLUSTER_MODEL_H
#define CLI_CLUSTER_MODEL_H

#include <stdbool.h>
#include <stddef.h>

struct cluster {
    double bandwidth, latency; /* bytes per second; seconds one way */
    double token_s;            /* forward and backward of one token, all layers, on one rank */
    double memory;             /* bytes per second of the memory of a rank */
    size_t params;             /* of the model */
    size_t layers, heads, head_dim;
    size_t num_hashes, hash_bits; /* of yoso */
    size_t seq_len, batch;        /* tokens of a sequence, sequences of a step */
    size_t shards;                /* of a batch; if there are more ranks: as many */
    size_t gradient_bytes;        /* 4, or 2 with bf16 gradients */
    /* Of one head whose sequence ranks share: bytes that a rank sends for the gradients of queries and keys,
       and the exchanges; `source` is for it. */
    double (*exchange)(const struct cluster *cluster, size_t ranks, size_t *exchanges);
    void *source;
};

/* Cost on the slowest rank. */
struct cluster_cost {
    double compute_s; /* forward and backward */
    double update_s;  /* adding gradients, and the optimiser */
    double bytes;     /* sent by a rank */
    double exchanges; /* one after another: each takes at least the latency */
    double network_s; /* all exchanges if nothing else happened */
    double hidden_s;  /* of it, during backward of the last shard */
    double step_s;
};

/* One rank. */
struct cluster_cost cluster_one(const struct cluster *cluster);
/* Ranks that share batches. */
struct cluster_cost cluster_data(const struct cluster *cluster, size_t ranks);
/* Ranks that share every sequence of a batch, one after another, with yoso. */
struct cluster_cost cluster_sequence(const struct cluster *cluster, size_t ranks);
/* Bytes that a rank of Ring Attention (Liu, Zaharia and Abbeel 2023) sends in a step for attention alone, in
   float32: keys and values go around in forward and once more in backward, where their gradients travel with
   them and then return. For each head and layer 8 (3 R - 2) N d bytes, N = n / R; `softmax`
   sends the same. */
double cluster_ring_bytes(const struct cluster *cluster, size_t ranks);

#endif
