/* The interface of a mechanism.
   A mechanism is one file that exports one `const struct mechanism`. It receives one PROBLEM at a time (one
   head of one sequence, parts/problem/problem.h) as strided views, computes in the memory it asked for, and
   neither allocates nor fails: `refuse` names what it cannot do, before anything is computed. attention.c
   owns the batch, the heads, the threads and the memory; a mechanism sees only the pool of a problem that has
   all threads to itself.
   SPDX-License-Identifier: Apache-2.0 */
#ifndef ATTENTION_MECHANISM_H
#define ATTENTION_MECHANISM_H

#include "base/options.h"
#include "base/start.h"
#include "comm/row_ranks.h"
#include "parts/problem/device_call.h"
#include "parts/problem/implementation.h"

/* Shapes of learned tensors may depend on these and the options only; fields as in struct problem_shape. */
struct parameter_sizes {
    size_t head_dim, value_dim, max_len;
};

/* One learned tensor of a mechanism, (rows, cols) per head, and its initialisation (base/start.h). A shape
   of (0, 0) means that the tensor does not exist with these options. A shape that grows with max_len needs
   `by_position`. */
struct parameter_row {
    const char *name;
    void (*shape)(const void *options, const struct parameter_sizes *sizes, size_t *rows, size_t *cols);
    enum param_start start;
    float scale; /* standard deviation of START_NORMAL, bound of START_UNIFORM, ... */
    bool decays; /* by weight decay: matrices do; biases, scales, and points such as centroids do not */
    bool places; /* tells how far a key is from a query: --positions layered gives the head nothing else */
};

/* ---- facets: functions that belong together; a mechanism has all of a facet (but optional ones) or none.
   They are initialised in this order without designators, so that the compiler reports a missing one. ---- */

/* Work done once per call for all heads and sequences (YOSO's planes), from the call's random key: bytes of
   the result, bytes of temporary memory on `workers` threads (NULL: none), and the work itself. */
struct preparation_facet {
    size_t (*shared_size)(const void *options, size_t head_dim);
    size_t (*scratch_size)(const void *options, size_t head_dim, size_t workers);
    void (*prepare)(const struct preparation *preparation);
};

/* The mechanism's own loss. Its learned parameters have no gradient from elsewhere. */
struct own_loss_facet {
    /* Its value, after forward; its gradient is added into gradients->params only (NULL: value only). */
    double (*compute)(const struct problem *problem, const struct problem_gradients *gradients);
    /* Its share s of the training loss, 0 to 1: (1 - s) times the task's loss plus s times the mean of this
       one over layers and heads, summed over sequences as the task's loss is. 0: not computed. If several
       mechanisms have a loss, the task's weight is what their shares leave. */
    double (*share)(const void *options);
};

struct inspection; /* parts/inspect/inspected.h */

/* Groups of tokens: their number and their quality. `inspect` is called after forward. A problem that is
   inspected has scratch_size bytes of scratch, for the other functions of the mechanism too. */
struct inspection_facet {
    size_t (*num_groups)(const void *options);
    size_t (*scratch_size)(const void *options, const struct problem_shape *shape);
    void (*inspect)(const struct problem *problem, struct inspection *inspection);
};

/* Streaming: a state that absorbs keys in chunks and answers queries, and can be added to another. It starts
   as zeros; its size depends only on the widths (the row counts in `shape` are 0).
   absorb: keys and values of `problem`, which has no queries, enter the state (the first key has position
   `first`). read: writes out for the queries of `problem` (the first has position `first`), which has no
   keys, against everything absorbed; the state does not change. A causal problem has both (or only queries,
   if all its keys are masked) and is only read: the first visible[i] keys enter before query i is answered,
   and all have entered at the end. merge: into += from, for shards. Scratch has scratch_size bytes; nothing
   is saved; read and absorb of one state never run concurrently. */
struct stream_facet {
    size_t (*state_size)(const void *options, const struct problem_shape *shape);
    size_t (*scratch_size)(const void *options, const struct problem_shape *shape);
    void (*absorb)(const struct problem *problem, void *state, size_t first);
    void (*read)(const struct problem *problem, void *state, size_t first, struct view out);
    void (*merge)(const void *options, const struct problem_shape *shape, void *into, const void *from);
};

/* Hashing that passes over all rows anyway. forward sets *problem.out_of_range if a row of query, key or
   value has a NaN or an infinity, or if its output does, and may then return early; the driver checks the
   rows of mechanisms without this facet (driver/row_range.h). */
struct hashing_facet {
    /* true: forward accepts query, key, value and out as views of bfloat16. Everything else is float. */
    bool (*reads_bf16)(const void *options);
    /* Replaces options that say auto by their meaning with these kernels. */
    void (*settle)(const struct kernels *kernels, void *options);
    /* The name of an option that still says auto although a run must have recorded its meaning, or NULL. */
    const char *(*unsettled)(const void *options);
};

/* The numbers that a mechanism takes. bounded false: all that are finite; it computes in double what float32
   cannot hold (problem.large). true: those whose reach is below a limit, with queries and keys to this power:
   0 if they have unit length in all products, otherwise the highest power of a product of forward and
   backward. The driver refuses the others by name (driver/row_range.h). */
struct number_range {
    bool bounded;
    unsigned power;
};

/* ---- the mechanism ------------------------------------------------------------------------------------- */

struct mechanism {
    const char *name;    /* as on the command line */
    const char *summary; /* one sentence for lists and help */
    /* (optional) Where it departs from its paper or the released code and no option follows them: sentences,
       ended by NULL. The table `departures` of docs/results has the same ones. */
    const char *const *departures;

    const struct option_row *options; /* ended by a row with name NULL */
    size_t options_size;              /* of the struct that the rows fill */

    bool exact;     /* computes its formula exactly, without sampling */
    bool quadratic; /* cost grows with pairs, else with rows: for the order of work */
    bool mixes;     /* tokens see each other; false: output row i depends only on value row i (n_q = n_k) */
    /* true: the mechanism handles key_mask and positions itself. false (the rule): attention.c passes only
       the kept keys, in order, without a mask, and scatters the gradients back: a masked key equals an
       absent key, to the bit. */
    bool sees_mask;
    /* true: queries compete for places (in groups, or in the order of tokens), so queries of padding must be
       absent too. In a sequence with as many queries as keys, both are taken as the same tokens, and a
       masked token is absent as both: its output is 0. A causal problem therefore has n_q = n_k and
       visible[i] = i + 1. Requires !sees_mask. */
    bool competes;
    /* forward and backward apply problem.dropout to the weights of pairs. false: there are no such weights,
       or they cannot be dropped one by one; a model with attention_dropout is refused. */
    bool drops_weights;
    struct number_range range;
    const char
        *no_causal; /* (optional) why there is no causal form, a sentence; causal problems are refused */
    /* true: a learned tensor has a place for each position up to max_len. An unknown max_len and longer
       sequences are refused. */
    bool by_position;

    /* (optional) Largest allowed norm of a query or kept key; 0: unlimited. The API checks it; longer
       vectors that arrive anyway are treated as having that norm. */
    double (*norm_limit)(const void *options);

    /* (optional) Causal attention is softmax(Q K^T / sqrt(d)) V over a window: the query at position p sees
       the keys from (p / step + 1) step - window on, all if window is 0. A decoder then needs keys and values
       only. false: not with these options. */
    bool (*softmax_window)(const void *options, size_t *window, size_t *step);

    struct implementation host;
    /* Attention whose rows ranks share (--sequence-parallel; comm/row_ranks.h): queries and keys are the same
       rows, and a rank has one span of them, at least one row. Every rank calls forward and backward for the
       same heads in the same order, and they exchange what they need through problem.ranks. The problem has
       all threads to itself, no mask, and neither out_of_range nor large. The host's `refuse` is asked too.
       NULL: none; without `mixes`, every rank computes its own rows. */
    const struct implementation *ranks;
    /* (optional) Bytes that a rank sends for the gradients of queries and keys of one head, and how many
       exchanges, one after another, these are. */
    double (*ranks_gradient_bytes)(const void *options, const struct problem_shape *shape, size_t *exchanges);
    /* A whole batch on a device (src/gpu). NULL: none, and calls on a device are refused by name. */
    const struct device_implementation *device;

    /* (optional) learned parameters per head, ended by a row with name NULL */
    const struct parameter_row *params;
    /* Facets; NULL: the mechanism has none. */
    const struct preparation_facet *preparation;
    const struct own_loss_facet *own_loss;
    const struct inspection_facet *inspection;
    const struct stream_facet *stream;
    const struct hashing_facet *hashing;
};

/* What the mechanism refuses on the host, as `refuse` of an implementation. */
static inline const char *mechanism_refuses(const struct mechanism *mechanism, const void *options,
                                            const struct problem_shape *shape)
{
    if (shape->causal && mechanism->no_causal != NULL)
        return mechanism->no_causal;
    if (mechanism->by_position && shape->max_len == 0)
        return "its tensors have a place per position up to max_len, which is not known";
    if (mechanism->by_position && shape->num_keys > shape->max_len)
        return "its tensors have a place per position up to max_len; the sequence is longer";
    return mechanism->host.refuse == NULL ? NULL : mechanism->host.refuse(options, shape);
}

/* All mechanisms, ended by NULL (mechanism_table.c). */
extern const struct mechanism *const mechanism_table[];

#endif
