/* The interface of a mechanism.
   A mechanism is one file that exports one `const struct mechanism`. It receives one PROBLEM at a time (one
   head of one sequence) as strided views, computes in the memory it asked for, and neither allocates nor
   fails: `refuse` names what it cannot do, before anything is computed. attention.c owns the batch, the
   heads, the threads and the memory; a mechanism sees only the pool of a problem that has all threads to
   itself.
   SPDX-License-Identifier: Apache-2.0 */
#ifndef ATTENTION_MECHANISM_H
#define ATTENTION_MECHANISM_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/options.h"
#include "base/pool.h"
#include "base/start.h"
#include "comm/row_ranks.h"
#include "kernels/kernels.h"
#include "kernels/product_weights.h"
#include "parts/rows/view.h"
#include "parts/tiles/weight_dropout.h"

/* The shape of one problem. refuse and the size functions may depend on this and the options only. */
struct problem_shape {
    size_t num_queries, num_keys; /* n_q, n_k; 0 in refuse and in the sizes only */
    size_t head_dim, value_dim;   /* d of queries and keys, d_v of values and output; >= 1 */
    size_t max_len;               /* longest sequence that the learned tensors are sized for; 0: unknown */
    bool causal;                  /* query i sees only the first problem.visible[i] keys */
    bool streamed;                /* rows come in chunks: later rows are unknown */
    enum precision precision;     /* operands of products may be rounded to this; sums stay float32 */
    size_t workers;               /* threads of problem.pool: scratch_size includes memory for each; >= 1 */
    size_t ranks;      /* that share the rows of the sequence; 0 and 1: none. See sequence_parallel */
    size_t total_rows; /* with ranks: rows of the sequence on all of them */
};

/* One head of one sequence, with at least one query and one key. All pointers are the caller's. */
struct problem {
    const struct kernels *kernels;
    struct problem_shape shape;
    const void *options;     /* the mechanism's own option struct, filled */
    struct view query;       /* (n_q, d) */
    struct view key;         /* (n_k, d) */
    struct view value;       /* (n_k, d_v) */
    const uint8_t *key_mask; /* (n_k), 1 = the key takes part; or NULL = all. See `sees_mask`. */
    /* (n_q) causal: query i sees the first visible[i] of the keys given. Never falls with i; may be 0, and
       then the output is 0 without gradient. Without masked keys visible[i] = i + 1. NULL unless causal. */
    const size_t *visible;
    uint64_t random_key; /* the only source of randomness of this head: hash of (seed, step, layer, sample,
                            head) */
    const void *shared;  /* made by `prepare` for this call, the same for all heads and sequences */
    const float *params; /* this head's learned parameters, in the order of the rows; or NULL */
    void *saved;         /* saved_size bytes: forward writes, backward reads */
    void *scratch;       /* scratch_size bytes, uninitialised, not kept between calls */
    /* All threads, if the problem has them to itself (see work_order.h); else NULL. No bit of the result may
       depend on it: cut work by shape, and keep the order of sums. */
    struct pool *pool;
    atomic_bool *out_of_range; /* see checks_rows; NULL: no check wanted */
    /* Numbers may be large enough for float32 sums to overflow. A softmax mechanism then checks, and
       computes in double where they could (parts/tiles/double_attention.h). */
    bool large;
    struct weight_dropout dropout; /* of attention weights, with drops_weights; not with large */
    struct row_ranks *ranks;       /* that share the rows; NULL: none */
};

/* The argument of preparation_facet.prepare. */
struct preparation {
    const struct kernels *kernels;
    const void *options; /* as in a problem */
    size_t head_dim;
    uint64_t call_key;
    struct pool *pool; /* or NULL; the bits do not depend on it */
    void *shared;      /* shared_size bytes: written */
    void *scratch;     /* scratch_size bytes for the threads of the pool */
};

/* Query i sees keys 0 .. problem_seen(problem, i) - 1. */
static inline size_t problem_seen(const struct problem *problem, size_t i)
{
    return problem->shape.causal ? problem->visible[i] : problem->shape.num_keys;
}

/* Backward adds its gradients here. Views as in the problem. */
struct problem_gradients {
    struct view query, key, value; /* += */
    float *params;                 /* +=, laid out as problem.params; NULL: not wanted */
};

/* Shapes of learned tensors may depend on these and the options only; fields as in struct problem_shape. */
struct parameter_sizes {
    size_t head_dim, value_dim, max_len;
};

/* One learned tensor of a mechanism, (rows, cols) per head, and its initialisation (base/start.h). A shape
   of (0, 0) means that the tensor does not exist with these options. If a shape grows with max_len, `refuse`
   must refuse a max_len of 0 and longer sequences. */
struct parameter_row {
    const char *name;
    void (*shape)(const void *options, const struct parameter_sizes *sizes, size_t *rows, size_t *cols);
    enum param_start start;
    float scale; /* standard deviation of START_NORMAL, bound of START_UNIFORM, ... */
    bool decays; /* by weight decay: matrices do; biases, scales, and points such as centroids do not */
};

/* ---- facets: functions that belong together; a mechanism has all of a facet or none. They are initialised
   in this order without designators, so that the compiler reports a missing one. ---- */

/* Work done once per call for all heads and sequences (YOSO's planes), from the call's random key: bytes of
   the result, bytes of temporary memory on `workers` threads, and the work itself. */
struct preparation_facet {
    size_t (*shared_size)(const void *options, size_t head_dim);
    size_t (*scratch_size)(const void *options, size_t head_dim, size_t workers);
    void (*prepare)(const struct preparation *preparation);
};

/* The mechanism's own loss. */
struct own_loss_facet {
    /* Its value, after forward; its gradient is added into gradients->params only (NULL: value only). */
    double (*compute)(const struct problem *problem, const struct problem_gradients *gradients);
    /* Its share s of the training loss, 0 to 1: (1 - s) times the task's loss plus s times the mean of this
       one over layers and heads, summed over sequences as the task's loss is. 0: not computed. If several
       mechanisms have a loss, the task's weight is what their shares leave. */
    double (*share)(const void *options);
};

struct inspection; /* parts/inspect/inspected.h */

/* Groups of tokens: their number and their quality. `inspect` is called after forward, with scratch_size
   bytes of scratch. */
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

/* Attention whose rows ranks share (--sequence-parallel; comm/row_ranks.h): queries and keys are the same
   rows, and a rank has one span of them, at least one row. forward and backward are those of the mechanism,
   for shapes with ranks: every rank calls them for the same heads in the same order, and they exchange what
   they need through problem.ranks. The problem has all threads to itself, no mask, and neither out_of_range
   nor large. */
struct sequence_parallel_facet {
    /* (optional) As the mechanism's own, which is called too. */
    const char *(*refuse)(const void *options, const struct problem_shape *shape);
    size_t (*saved_size)(const void *options, const struct problem_shape *shape);
    size_t (*scratch_size)(const void *options, const struct problem_shape *shape);
    void (*forward)(const struct problem *problem, struct view out);
    void (*backward)(const struct problem *problem, struct view out, struct view dout,
                     const struct problem_gradients *gradients);
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
    /* (optional) true if the mechanism knows the distance of query and key by itself: --positions layered
       gives its heads none. */
    bool (*has_positions)(const void *options);
    struct number_range range;
    /* forward sets *problem.out_of_range if a row of query, key or value has a NaN or an infinity, or if its
       output does, and may then return early. Without it, the driver checks the rows first
       (driver/row_range.h). */
    bool checks_rows;
    /* (optional) true if forward accepts query, key, value and out as views of bfloat16. Everything else is
       float. */
    bool (*reads_bf16)(const void *options);

    /* (optional) NULL if the shape can be handled, else a constant sentence that says why not. {name} in it
       stands for the value of that option (options_fill). Call it by mechanism_refuses. */
    const char *(*refuse)(const void *options, const struct problem_shape *shape);

    /* (optional) Replaces options that say auto by their meaning with these kernels. */
    void (*settle)(const struct kernels *kernels, void *options);
    /* (optional) The name of an option that still says auto although a run must have recorded its meaning,
       or NULL. */
    const char *(*unsettled)(const void *options);

    /* (optional) Largest allowed norm of a query or kept key; 0: unlimited. The API checks it; longer
       vectors that arrive anyway are treated as having that norm. */
    double (*norm_limit)(const void *options);

    /* Bytes of the paper's Backward-Cache without Q, K, V and the output; and temporary memory of forward
       and backward. Never fall with more rows: a problem may have fewer keys than its blocks are sized
       for. */
    size_t (*saved_size)(const void *options, const struct problem_shape *shape);
    size_t (*scratch_size)(const void *options, const struct problem_shape *shape);

    /* Writes out (n_q, d_v). */
    void (*forward)(const struct problem *problem, struct view out);
    /* (optional) out as forward wrote it, dout its gradient. ADDS into the gradients. Re-uses what forward
       saved; draws no random numbers. NULL: the mechanism computes outputs only (attention_check_backward
       refuses), and saves nothing. */
    void (*backward)(const struct problem *problem, struct view out, struct view dout,
                     const struct problem_gradients *gradients);

    /* (optional) learned parameters per head, ended by a row with name NULL */
    const struct parameter_row *params;
    /* Facets; NULL: the mechanism has none. */
    const struct preparation_facet *preparation;
    const struct own_loss_facet *own_loss;
    const struct inspection_facet *inspection;
    const struct stream_facet *stream;
    const struct sequence_parallel_facet *sequence_parallel;
};

/* As `refuse`; NULL if the mechanism refuses nothing. */
static inline const char *mechanism_refuses(const struct mechanism *mechanism, const void *options,
                                            const struct problem_shape *shape)
{
    return mechanism->refuse == NULL ? NULL : mechanism->refuse(options, shape);
}

/* All mechanisms, ended by NULL (mechanism_table.c). */
extern const struct mechanism *const mechanism_table[];

#endif
