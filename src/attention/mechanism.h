/* The interface of a mechanism: the seam that the house hangs on.
   A mechanism is one file that exports one `const struct mechanism`. It is given one PROBLEM at a time, one
   head of one sequence, as plain strided views, computes with the memory it asked for, and neither allocates
   nor fails: whatever it cannot do it says in `refuse`, before anything is computed. attention.c owns the
   batch, the heads, the threads and the memory; of these a mechanism sees only the pool of a problem that has
   the threads to itself.
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
#include "kernels/kernels.h"
#include "kernels/product_weights.h"
#include "parts/rows/view.h"

/* The shape of one problem: what refuse and the size functions may depend on besides the options. */
struct problem_shape {
    size_t num_queries, num_keys; /* n_q, n_k; 0 in refuse and in the sizes only */
    size_t head_dim, value_dim;   /* d of queries and keys, d_v of values and output; >= 1 */
    size_t max_len;               /* the longest sequence that learned tensors are made for; 0: unknown */
    bool causal;                  /* query i sees the first problem.visible[i] keys alone */
    bool streamed;                /* rows come in chunks: nothing of later ones is known */
    enum precision precision;     /* what operands of products may be rounded to; sums stay float32 */
    size_t workers; /* threads of problem.pool: scratch_size counts what each of them needs; >= 1 */
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
    /* (n_q) causal: how many of the keys given, from the first on, each query sees; never falls, may be 0
       (then the output is 0 and nothing has a gradient). Without masked keys visible[i] = i + 1. NULL where
       not causal. */
    const size_t *visible;
    uint64_t random_key; /* all the chance of this head: (seed, step, layer) turned by (sample, head) */
    const void *shared;  /* what `prepare` made for this call, the same for all heads and sequences */
    const float *params; /* this head's learned parameters, in the order of the rows; or NULL */
    void *saved;         /* saved_size bytes: forward writes, backward reads */
    void *scratch;       /* scratch_size bytes: dead when the call returns */
    /* Threads for this problem alone, where they would else wait for it (see attention.c); NULL: none. What
       is computed must not depend on it: work is cut by shape, and sums keep their order. */
    struct pool *pool;
    atomic_bool *not_finite; /* see checks_rows; NULL: nobody asks */
    /* Numbers may be so large that sums of float32 overflow: a mechanism of softmax then looks, and where
       they could computes in double (parts/tiles/double_attention.h). */
    bool large;
};

/* What one call of attention prepares for all its heads: the argument of preparation_facet.prepare. */
struct preparation {
    const struct kernels *kernels;
    const void *options; /* as in a problem */
    size_t head_dim;
    uint64_t call_key;
    struct pool *pool; /* or NULL; no bits depend on it */
    void *shared;      /* shared_size bytes: written */
    void *scratch;     /* scratch_size bytes, for the threads of the pool */
};

/* How many of the keys given query i sees, from the first on. */
static inline size_t problem_seen(const struct problem *problem, size_t i)
{
    return problem->shape.causal ? problem->visible[i] : problem->shape.num_keys;
}

/* Where backward adds its gradients. Views as in the problem. */
struct problem_gradients {
    struct view query, key, value; /* += */
    float *params;                 /* +=, laid out as problem.params; NULL: not wanted */
};

/* What the shapes of learned tensors may depend on besides the options; as in struct problem_shape. */
struct parameter_sizes {
    size_t head_dim, value_dim, max_len;
};

/* One learned tensor of a mechanism, (rows, cols) per head, and what it starts with (base/start.h). A row
   whose shape is (0, 0) is not there with these options. Where a shape grows with max_len, `refuse` must
   refuse a max_len of 0 and sequences that are longer. */
struct parameter_row {
    const char *name;
    void (*shape)(const void *options, const struct parameter_sizes *sizes, size_t *rows, size_t *cols);
    enum param_start start;
    float scale; /* the standard deviation of START_NORMAL, and so on */
};

/* ---- facets: functions that belong together, of which a mechanism has all or none. They are initialised in
   this order and without designators, so that a compiler sees a missing one. ---- */

/* Work done once per call for all heads and sequences (YOSO's planes), from the call's random key: the bytes
   that it makes, the temporary memory of making them on `workers` threads, and the work. */
struct preparation_facet {
    size_t (*shared_size)(const void *options, size_t head_dim);
    size_t (*scratch_size)(const void *options, size_t head_dim, size_t workers);
    void (*prepare)(const struct preparation *preparation);
};

/* A loss of the mechanism's own. */
struct own_loss_facet {
    /* Its value, after forward; its gradient is added into gradients->params alone (NULL: value only). */
    double (*compute)(const struct problem *problem, const struct problem_gradients *gradients);
    /* Its share s in what is trained, 0 to 1: (1 - s) of the loss of the task and s of the mean over layers
       and heads of this one, a sum over sequences as the task's; 0: it is not computed. With several such
       mechanisms the task has what all shares leave. */
    double (*share)(const void *options);
};

struct inspection; /* parts/inspect/inspected.h */

/* Groups of tokens: how many there are, and what they are worth. `inspect` comes after forward, with
   scratch_size bytes of scratch. */
struct inspection_facet {
    size_t (*num_groups)(const void *options);
    size_t (*scratch_size)(const void *options, const struct problem_shape *shape);
    void (*inspect)(const struct problem *problem, struct inspection *inspection);
};

/* Streaming: a state that takes keys in pieces and answers queries, and can be added to another. It begins as
   zeros; its size depends on the widths alone (rows are 0 in `shape`).
   absorb: keys and values of `problem`, which has no queries, enter the state (the first key has position
   `first`). read: out for the queries of `problem` (the first has position `first`), which has no keys,
   against all that was absorbed; the state stays as it is. A causal problem has both (or queries alone, when
   all its keys are masked) and is only read: before query i is answered, the first visible[i] keys enter, and
   all are in at the end. merge: into += from, for shards. There is scratch_size of scratch, and nothing is
   saved; read and absorb of one state are not called at once. */
struct stream_facet {
    size_t (*state_size)(const void *options, const struct problem_shape *shape);
    size_t (*scratch_size)(const void *options, const struct problem_shape *shape);
    void (*absorb)(const struct problem *problem, void *state, size_t first);
    void (*read)(const struct problem *problem, void *state, size_t first, struct view out);
    void (*merge)(const void *options, const struct problem_shape *shape, void *into, const void *from);
};

/* ---- the mechanism ---- */

struct mechanism {
    const char *name;    /* as on the command line */
    const char *summary; /* one sentence for lists and help */

    const struct option_row *options; /* ended by a row with name NULL */
    size_t options_size;              /* of the struct that the rows fill */

    bool exact;     /* computes what it says, without sampling */
    bool quadratic; /* costs as many steps as there are pairs, else as rows: for the order of work */
    bool mixes;     /* tokens see each other; false: output row i comes from value row i alone (n_q = n_k) */
    /* true: the mechanism takes key_mask and positions itself. false (the rule): attention.c gives it only
       the kept keys, in order, without a mask, and puts the gradients back: a masked key IS an absent key, to
       the bit. */
    bool sees_mask;
    /* true: queries take places from each other (in groups, or in the order of tokens), so those of padding
       must be absent too.
       Where a sequence has as many queries as keys they are taken as the same tokens, and a masked token is
       absent as both: its output is 0. So a causal problem has n_q = n_k and visible[i] = i + 1, and tokens
       may be told from both. Without sees_mask. */
    bool competes;
    /* forward sets *problem.not_finite where it meets NaN or infinity in a row of query, key or value, and
       may leave out unfinished; else who asks reads all rows before. */
    bool checks_rows;
    /* (optional) Whether forward takes query, key, value and out as views of bfloat16, too. Everything else
       is floats. */
    bool (*reads_bf16)(const void *options);

    /* NULL if it can, else a constant sentence that says why not. */
    const char *(*refuse)(const void *options, const struct problem_shape *shape);

    /* (optional) Options that are left to the machine get what they mean with these kernels. */
    void (*settle)(const struct kernels *kernels, void *options);
    /* (optional) The name of an option that still says auto where a run must have recorded what that meant,
       or NULL. */
    const char *(*unsettled)(const void *options);

    /* (optional) No query or kept key may be longer than this; 0: of any length. Checked at the border; what
       is longer all the same is taken at that length. */
    double (*norm_limit)(const void *options);

    /* The paper's Backward-Cache without Q, K, V and the output; and the temporary memory of forward and
       backward. Never less for more rows: a problem may come with fewer keys than its blocks are made for. */
    size_t (*saved_size)(const void *options, const struct problem_shape *shape);
    size_t (*scratch_size)(const void *options, const struct problem_shape *shape);

    /* out (n_q, d_v) is written. */
    void (*forward)(const struct problem *problem, struct view out);
    /* out as forward wrote it, dout its gradient. ADDS into the gradients. Re-uses what forward saved, draws
     * nothing again. */
    void (*backward)(const struct problem *problem, struct view out, struct view dout,
                     const struct problem_gradients *gradients);

    /* (optional) learned parameters per head, ended by a row with name NULL */
    const struct parameter_row *params;
    /* Facets; NULL: the mechanism has none. */
    const struct preparation_facet *preparation;
    const struct own_loss_facet *own_loss;
    const struct inspection_facet *inspection;
    const struct stream_facet *stream;
};

/* All of them, ended by NULL; mechanism_table.c alone. */
extern const struct mechanism *const mechanism_table[];

#endif
