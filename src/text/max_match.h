/* Splits a text greedily: the longest pattern that the rest of the text begins with, again and again. A trie
   of the patterns has a failure link at every node: where the text leaves the trie, the link says which
   patterns the bytes read so far are split into, and at which node their rest stands, so no byte is read
   twice. Cost: one step per byte of the text, and bytes of all patterns to build, whatever the patterns are.
   Source: Song et al. 2021, "Fast WordPiece Tokenization" (LinMaxMatch).
   SPDX-License-Identifier: Apache-2.0 */
#ifndef TEXT_MAX_MATCH_H
#define TEXT_MAX_MATCH_H

#include <stdbool.h>
#include <stdint.h>

#include "base/tables/index_table.h"
#include "io/lines.h"

enum { MAX_MATCH_NODES = 1 << 22 }; /* different beginnings of patterns; about 50 bytes each */

struct max_match_node {
    uint32_t parent, depth; /* depth: bytes from the root */
    uint32_t value;         /* of the pattern that ends here; MAX_MATCH_NONE: none does */
    uint32_t link;          /* the node after the split; MAX_MATCH_NONE: the text cannot be split */
    uint32_t part, parts;   /* the split: a list of nodes, whose splits follow each other */
    unsigned char byte;     /* from the parent to here */
};
#define MAX_MATCH_NONE UINT32_MAX

struct max_match {
    struct max_match_node *nodes; /* (num_nodes) node 0: the root; with `rest`, node 1 is that of the rest */
    uint32_t *parts;              /* (num_parts) */
    size_t num_nodes, nodes_capacity, num_parts, parts_capacity;
    struct index_table children; /* by parent and byte */
    bool begins[256];            /* a pattern begins with this byte */
    bool skips;    /* a byte that begins no pattern is passed over; otherwise it ends the split */
    bool has_rest; /* patterns after the first are others */
};

/* Adds patterns: begin, add each, finish. */
hashattn_status max_match_begin(struct host *host, struct max_match *set, bool skips, bool has_rest);
/* of_rest: a pattern after the first one. Of equal patterns the first stays; an empty one is never found. */
hashattn_status max_match_add(struct host *host, struct max_match *set, bool of_rest, struct piece pattern,
                              uint32_t value);
hashattn_status max_match_finish(struct host *host, struct max_match *set);
void max_match_free(struct host *host, struct max_match *set);

struct max_match_found {
    size_t begin, end; /* bytes of the text */
    uint32_t value;
};

/* A pass through a text; zeroed at first, its memory is reused. */
struct max_match_run {
    size_t start, read; /* the text is split up to `start`, and read up to `read` */
    uint32_t node;
    bool stuck;                   /* the rest begins with no pattern */
    struct max_match_found *list; /* (count) */
    size_t count, capacity;
    uint32_t *stack;
    size_t stack_capacity;
};
/* Begins anew at byte `at`. */
void max_match_restart(struct max_match_run *run, size_t at);
/* Goes on until the split reaches byte `until`, the text ends, or it is stuck. Reads at most one pattern
   more. Appends to the list. */
hashattn_status max_match_read(struct host *host, const struct max_match *set, struct piece text,
                               size_t until, struct max_match_run *run);
void max_match_run_free(struct host *host, struct max_match_run *run);

#endif
