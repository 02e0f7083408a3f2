/* hashattn: attention by hashing. This header declares the operator, which is all that most programs need: a
   context, a mechanism with its options, and forward and backward on strided float32 arrays.
   SPDX-License-Identifier: Apache-2.0 */
#ifndef HASHATTN_ATTENTION_H
#define HASHATTN_ATTENTION_H

#include <stddef.h>
#include <stdint.h>

#include "hashattn/status.h"

/* Rules for the whole library:
   - Every call that can fail returns a hashattn_status; hashattn_context_message then explains the failure,
     with the numbers. The context and its objects can be used further. Beside the errors that its comment
     names, a call can return INVALID for a wrong argument, NO_MEMORY, BAD_FILE if it reads files, and NO_DISK
     if it writes them.
   - Calls that make an object return it through a pointer, which is NULL after a failure. `free` accepts
     NULL. Free an object before its context, and contexts before the library is unloaded (dlclose).
   - A pointer may be NULL if its comment says so, or if it has no elements. For any other NULL a call that
     returns a status returns INVALID, without a message if the context or the object is NULL; the other calls
     need what they are given.
   - The library never keeps a pointer you pass in unless its comment says so. Sizes count elements, not
     bytes, unless they are named bytes. Only one thread at a time may use a context and its objects; two
     contexts are independent. A thread that calls the library needs 256 KiB of stack. A child of fork() can
     use the contexts of its parent, on one thread, if they have neither a device nor a communicator.
   - A callback returns: no longjmp and no exception leaves it. It can read the objects of its call, but not
     change them.
   - A program compiled with an older header runs with a newer library. Structs that grow begin with
     struct_size, and new fields come at their end. Fill an input struct with its `_default` function first;
     one that has none gets its own sizeof, and zeros in the fields that you do not set. The library reads the
     fields that the program has, and the others have their defaults. In an output struct set struct_size; the
     library writes the fields that fit.
   - `X_default` and the functions of hashattn_npy are inline and pass the program's sizeof to `X_sized`. A
     program that loads the library by name (dlopen, another language) calls `X_sized` with its own size: the
     exported `X` writes the size of the first version, as programs compiled with its headers expect. Other
     structs without struct_size (hashattn_array, hashattn_message, hashattn_metric, hashattn_metrics,
     hashattn_difference) never change.
   - The library computes in the default floating-point environment: traps, rounding mode and flush-to-zero
     of the caller change no bit and end no call, and are as before when it returns.
   - Real numbers in text (options, messages, files) have a decimal point in every locale.
   - The same inputs, options and seed give the same bits for any number of threads, on one instruction set.
 */

#ifdef __cplusplus
extern "C" {
#endif

/* ---- context: threads, instruction set, memory, the last message ---- */

typedef struct hashattn_context hashattn_context;

typedef struct hashattn_context_options {
    size_t struct_size;
    int threads; /* 1 to 1024; 0 = one for each processor this process may use */
    /* Precision of products: "float32" or "bf16". NULL = float32; a model or run then uses the precision it
       was trained with. bf16 rounds the operands of products to bfloat16 in dense layers and in the
       mechanisms softmax, lha, lsh, random, local, smyrf, reformer, routing, probsparse, nystrom, linformer,
       synthesizer, longformer, bigbird, sparse, sinkhorn; and clustered where it is exact. yoso then sums
       values in tables of 16-bit integers where its option tables is auto. Parameters, sums and everything
       else stay float32. A processor without bf16 instructions widens the operands to float32. */
    const char *precision;
    const char *isa; /* one of hashattn_isa_names; NULL or "auto" = the widest that runs here. The environment
                        variable HASHATTN_ISA caps both. */
    /* The allocator, called only on the caller's thread; both NULL = aligned_alloc and free. allocate returns
       NULL if memory runs out; bytes is at least 1 and need not be a multiple of alignment. */
    void *(*allocate)(void *user, size_t alignment, size_t bytes);
    void (*release)(void *user, void *block);
    void *user;
    /* Ranks that train and evaluate together (hashattn/communicator.h); NULL = one process. It must outlive
       the context. Making the context, training, evaluating and predicting are then collective: every rank
       makes the same calls with the same arguments, only `threads` and the allocator may differ. */
    const struct hashattn_communicator *communicator;
    /* Where the operator computes: "cuda" (the first GPU) or "cuda:N", see hashattn/device.h; NULL or "cpu" =
       on the processor. FAILED: no NVIDIA driver, one that is too old, or no GPU. REFUSED: the GPU is too
       old, or the library was built without kernels for GPUs. */
    const char *device;
    int option_dashes; /* 1: messages name options as on a command line, --seq-len instead of seq_len */
} hashattn_context_options;

/* Everything 0 or NULL: all processors, the widest instruction set, float32, aligned_alloc. */
HASHATTN_API void hashattn_context_options_default_sized(hashattn_context_options *options,
                                                         size_t struct_size);
HASHATTN_INLINE void hashattn_context_options_default(hashattn_context_options *options)
{
    hashattn_context_options_default_sized(options, sizeof *options);
}
/* options: NULL = the defaults. message: (message_size) chars that receive the explanation of a failure,
   because there is no context to ask yet; may be NULL. INVALID: threads out of range, an instruction set that
   is unknown or does not run here, or ranks that differ in version, instruction set, products or
   precision. */
HASHATTN_API hashattn_status hashattn_context_new(const hashattn_context_options *options, char *message,
                                                  size_t message_size, hashattn_context **context);
HASHATTN_API void hashattn_context_free(hashattn_context *context);
/* The message of the last failed call on this context or one of its objects; "" if none has failed. Valid
   until the next failure. */
HASHATTN_API const char *hashattn_context_message(const hashattn_context *context);
/* 1 if the last failed collective call failed on all ranks with the same message, which begins with the rank
   that failed first; 0 if other ranks may still wait for this one. */
HASHATTN_API int hashattn_context_failed_together(const hashattn_context *context);
/* Removes the temporary files of all unfinished writes on the context, which then cannot be committed. For
   the handler of a signal that ends the program, on the thread that uses the context: async-signal-safe. The
   library's threads block SIGHUP, SIGINT, SIGQUIT and SIGTERM, so the program's threads receive them. */
HASHATTN_API void hashattn_context_remove_unfinished(const hashattn_context *context);

typedef struct hashattn_description {
    size_t struct_size;
    const char *version;    /* of the library, "0.1.0" */
    const char *isa;        /* of the kernels in use */
    const char *projection; /* how hash codes are computed when the option is auto: "int16-dp" */
    const char *precision;  /* of products: "float32" or "bf16" */
    const char *bf16;       /* how bf16 products are computed here: "by instruction" or "by widening" */
    char products[64];      /* "oneDNN 2.6.3" or "own" */
    char processor[64];     /* model name, "" if unknown */
    int threads;
    char libraries[64];  /* the libraries for files: "jansson 2.14, ..." */
    char caches[64];     /* of the first processor: "L1 32 KiB, L2 1 MiB, L3 32 MiB"; "" if unknown */
    int rank, ranks;     /* of the communicator; 0 and 1 without one */
    uint64_t bytes_sent; /* to other ranks so far */
} hashattn_description;

/* Set description->struct_size first. The strings stay valid as long as the library is loaded. */
HASHATTN_API void hashattn_context_describe(const hashattn_context *context,
                                            hashattn_description *description);

/* Limits the product library (oneDNN), for the whole process, to the context's instruction set; otherwise it
   uses the widest it finds, whatever `isa` says. Call it before the first product. It is meant for programs,
   not for libraries, because other code in the process may use oneDNN too. The hashattn tool calls it. */
HASHATTN_API void hashattn_context_cap_products(const hashattn_context *context);

/* All known instruction sets, narrowest first, ended by NULL. The refusal says why one does not run here;
   NULL if it does. */
HASHATTN_API const char *const *hashattn_isa_names(void);
HASHATTN_API const char *hashattn_isa_refusal(const char *isa);

/* ---- options by name: each has a type, a default, a range and a line of help ---- */

typedef enum hashattn_option_type {
    HASHATTN_OPTION_INT,
    HASHATTN_OPTION_REAL,
    HASHATTN_OPTION_CHOICE,
    HASHATTN_OPTION_FLAG, /* "true" or "false" */
    HASHATTN_OPTION_TEXT
} hashattn_option_type;

typedef struct hashattn_option {
    size_t struct_size;
    const char *name;  /* "num_hashes" */
    const char *owner; /* "attention", "task", "model" or "training" */
    hashattn_option_type type;
    char preset[64];            /* the default as text; for a setup, the current value */
    double minimum, maximum;    /* INT and REAL; of TEXT, its length in bytes */
    const char *const *choices; /* CHOICE: ended by NULL; other types: NULL */
    const char *help;
    int unread; /* of a task: 1: no model of the task reads this option of a model or of training */
} hashattn_option;

/* ---- mechanisms ---- */

typedef struct hashattn_mechanism_info {
    size_t struct_size;
    const char *name, *summary;
    int exact;          /* 0: sampled, so the output depends on the seed */
    size_t num_options; /* see hashattn_mechanism_option */
    size_t num_params;  /* most learned tensors it can have; see hashattn_attention_tensor */
    /* Where it departs from its paper or the released code and no option follows them: sentences, ended by
       NULL. Empty, not NULL, if there are none. */
    const char *const *departures;
    int has_own_loss; /* 1: its tensors learn from hashattn_attention_own_loss */
} hashattn_mechanism_info;

/* The number of mechanisms. */
HASHATTN_API size_t hashattn_mechanism_count(void);
/* Fills *info, whose struct_size must be set, and returns 1; returns 0 if index is past the last. */
HASHATTN_API int hashattn_mechanism_get(size_t index, hashattn_mechanism_info *info);
/* Fills *info with one option of one mechanism and returns 1; returns 0 past the last. */
HASHATTN_API int hashattn_mechanism_option(size_t mechanism, size_t option, hashattn_option *info);

/* A mechanism with its options. The context must outlive it. */
typedef struct hashattn_attention hashattn_attention;

/* mechanism: "softmax", "yoso", ... INVALID, with the list of names, if it is unknown. */
HASHATTN_API hashattn_status hashattn_attention_new(hashattn_context *context, const char *mechanism,
                                                    hashattn_attention **attention);
HASHATTN_API void hashattn_attention_free(hashattn_attention *attention);
/* Sets an option from text: "num_hashes" (or "yoso.num_hashes"), "64". INVALID, with the allowed values;
   nothing has changed then. */
HASHATTN_API hashattn_status hashattn_attention_set(hashattn_attention *attention, const char *name,
                                                    const char *text);
/* Writes the current value as text that `set` accepts. text: (size) chars. INVALID: no such option, or the
   text does not fit. */
HASHATTN_API hashattn_status hashattn_attention_get(const hashattn_attention *attention, const char *name,
                                                    char *text, size_t size);
/* Replaces automatic option values by what they mean in this context: projection "auto" becomes "int16-dp",
   or whatever suits the hyperplanes. Results do not change. */
HASHATTN_API hashattn_status hashattn_attention_settle(hashattn_attention *attention);

/* What one call computes; see below. */
typedef struct hashattn_problem hashattn_problem;

/* A tensor that the mechanism learns, (rows, cols) per head. */
typedef struct hashattn_tensor {
    size_t struct_size;
    const char *name;
    size_t rows, cols;
} hashattn_tensor;
/* Fills *tensor with the index'th tensor for these widths and the current options and returns 1; returns 0
   past the last. max_len: the longest sequence, which determines some shapes; with 0 (unknown) those tensors
   are left out. */
HASHATTN_API int hashattn_attention_tensor(const hashattn_attention *attention, size_t head_dim,
                                           size_t value_dim, size_t max_len, size_t index,
                                           hashattn_tensor *tensor);

/* Reads the mechanism's learned parameters from a safetensors file with one tensor (num_heads, rows, cols)
   for each tensor of hashattn_attention_tensor, by name. Without it the operator draws them from the
   problem's seed in the first call. Setting an option drops the parameters.
   Afterwards a problem with other heads or widths, or with another max_len if a shape depends on it, is
   INVALID. BAD_FILE: a tensor is missing, has another shape, or holds NaN or infinity. INVALID: the mechanism
   learns no tensors. An error leaves the parameters as they were. */
HASHATTN_API hashattn_status hashattn_attention_read_params(hashattn_attention *attention, const char *path,
                                                            size_t num_heads, size_t head_dim,
                                                            size_t value_dim, size_t max_len);
/* As hashattn_attention_read_params, from memory. params: (num_heads, floats of all tensors of a head), in
   the order of hashattn_attention_tensor; they are copied. INVALID: NaN or infinity, with its position. An
   error leaves the parameters as they were. */
HASHATTN_API hashattn_status hashattn_attention_set_params(hashattn_attention *attention, const float *params,
                                                           size_t num_heads, size_t head_dim,
                                                           size_t value_dim, size_t max_len);
/* Writes params, in the layout of hashattn_attention_set_params, to a safetensors file as
   hashattn_attention_read_params reads it: learned parameters, or gradients of them. The file appears whole
   or not at all. INVALID: the mechanism learns no tensors. NO_DISK: the file cannot be written. */
HASHATTN_API hashattn_status hashattn_attention_write_params(hashattn_attention *attention, const char *path,
                                                             const float *params, size_t num_heads,
                                                             size_t head_dim, size_t value_dim,
                                                             size_t max_len);
/* Copies the parameters that a call with this problem uses, whether set, read or drawn, in the layout of
   hashattn_attention_set_params. Reads num_heads, head_dim, value_dim, max_len and seed of the problem. */
HASHATTN_API hashattn_status hashattn_attention_get_params(hashattn_attention *attention,
                                                           const hashattn_problem *problem, float *params);

/* ---- the operator ---- */

/* Element (sequence s, row r, head h, column c) is data[s * sequence_stride + r * row_stride + h *
   head_stride + c]. With offsets, row r of sequence s is packed row offsets[s] + r, and sequence_stride is
   ignored, unless the problem is padded. A row_stride below the width is INVALID, and so are strides that
   make two elements of an output overlap; the heads or sequences of an input may share rows (stride 0). An
   output that has a byte of another array or of key_mask is INVALID; arrays may interleave, as the columns of
   one matrix do (in a padded batch every sequence counts with the rows of the longest). */
typedef struct hashattn_array {
    void *data; /* floats, or uint16_t if the problem's element is BF16; inputs are not written; may be NULL
                   if there are no elements */
    size_t sequence_stride, row_stride, head_stride;
} hashattn_array;

/* Contiguous arrays: (sequences, heads, rows, width), and (rows, heads, width) for one sequence or packed
   ones. */
HASHATTN_API hashattn_array hashattn_array_of_heads(void *data, size_t heads, size_t rows, size_t width);
HASHATTN_API hashattn_array hashattn_array_of_rows(void *data, size_t heads, size_t rows, size_t width);

/* Element types. BF16: the upper 16 bits of a float, as uint16_t. BYTE: uint8 or bool, only in files. */
typedef enum hashattn_element { HASHATTN_FLOAT32, HASHATTN_BYTE, HASHATTN_BF16 } hashattn_element;

struct hashattn_problem {
    size_t struct_size;
    /* If no sequence has any rows, nothing is computed, and these numbers cost neither time nor memory. */
    size_t num_sequences, num_heads;
    size_t num_queries, num_keys; /* rows of each sequence (n_q, n_k), may be 0; ignored with offsets */
    size_t head_dim, value_dim;   /* d of queries and keys, d_v of values and output; at least 1 */
    /* (num_sequences + 1) row numbers, ascending from 0, for packed sequences of different lengths; NULL =
       equal lengths. Set both or neither. */
    const size_t *query_offsets, *key_offsets;
    /* (num_sequences, num_keys), or (key rows) with offsets: 1 = the key takes part, 0 = it is absent, and
       its key and value may hold anything, even NaN; NULL = all take part. Queries are not masked, with one
       exception: in mechanisms that place queries in buckets (lha, lsh, random), blocks (local, bigbird,
       sparse, sinkhorn), windows (longformer), segments (nystrom), clusters (smyrf, clustered, routing),
       chunks (reformer) or positions (synthesizer), or choose among them (probsparse), if a sequence has as
       many queries as keys, a masked token is absent as a query too. Positions count the tokens that take
       part: a mask in the middle or in front shifts blocks, windows, segments, positions and the columns of
       linformer's projection, as if the masked tokens had been cut out. A query without any key gets 0 and
       no gradient. */
    const uint8_t *key_mask;
    int causal; /* 1: query i sees keys 0 .. i of its sequence; REFUSED by mechanisms without a causal form */
    uint64_t seed; /* determines all random choices of sampled mechanisms */
    /* (num_sequences) numbers; sequences with different numbers hash differently, as in training. NULL = all
       sequences hash alike, so that a sequence has the same output in any batch. */
    const uint64_t *sample_ids;
    /* Type of all arrays of the problem, inputs and outputs: FLOAT32 (the default) or BF16. With BF16 the
       mechanism computes as with FLOAT32 from the same numbers and rounds outputs to nearest, ties to even;
       numbers beyond the largest bfloat16 become infinity. */
    hashattn_element element;
    /* The longest sequence that the mechanism's learned tensors are made for. 0: unknown; a mechanism whose
       shapes depend on it is then REFUSED. */
    size_t max_len;
    /* 1, with offsets: a padded batch. Sequence s starts at data[s * sequence_stride] and has
       offsets[s + 1] - offsets[s] rows; rows beyond them are neither read nor written, and cost no time.
       key_mask is (key rows), as with packed sequences. */
    int padded;
    /* 0: the sequences are here. Otherwise the ranks of the context's communicator share each sequence, of
       this many rows, and the arrays hold only the span of this rank (hashattn_shared_rows), in equal
       lengths: num_queries = num_keys = its rows. Calls are collective: all ranks make them in the same
       order, and if one fails, all fail. Each rank needs memory for its span only. For yoso, lha, softmax and
       local; none needs no other rank. INVALID: offsets, a key mask, BF16, or numbers so large that float32
       could overflow. */
    size_t total_rows;
};

/* The rows [*first, *first + count) of `total_rows` that this rank of the context holds; returns count.
   Without a communicator: all. */
HASHATTN_API size_t hashattn_shared_rows(const hashattn_context *context, size_t total_rows, size_t *first);

/* 1 sequence, 1 head, everything else 0 or NULL. */
HASHATTN_API void hashattn_problem_default_sized(hashattn_problem *problem, size_t struct_size);
HASHATTN_INLINE void hashattn_problem_default(hashattn_problem *problem)
{
    hashattn_problem_default_sized(problem, sizeof *problem);
}

/* Bytes of the two blocks that forward and backward use. `saved` holds what backward needs from forward,
   behind 64 bytes that identify that call; 0 bytes if the mechanism saves nothing. `scratch` need not be kept
   between calls. Draws no learned parameters. Neither holds an (n_q, n_k) array. INVALID: a number is out of
   range. REFUSED: the mechanism cannot do this, with the reason. NO_MEMORY: the sizes overflow. */
HASHATTN_API hashattn_status hashattn_attention_sizes(hashattn_attention *attention,
                                                      const hashattn_problem *problem, size_t *saved_bytes,
                                                      size_t *scratch_bytes);

/* out (n_q, heads, d_v per sequence) = attention. Finite inputs give finite numbers, here and in backward, or
   are REFUSED: softmax, lha, lsh, random, local, smyrf, reformer, routing, longformer, bigbird and sparse
   compute in double where float32 could overflow, about a hundred times slower, and clamp gradients, also
   while they are summed, to +-3.39e38, the largest bfloat16; the others refuse such numbers, and the message
   has the mechanism, the head, what was found and the limit. (yoso and yoso-e clamp what division by the
   length of a short query or key makes too large. Their gradients may be infinite where dout, divided
   by the length of an output before it is normalised, or products of that with values leave float32.) Learned
   tensors are not looked at: with numbers beyond 1e18 in them, results may be infinite. saved, scratch:
   blocks of at least the sizes above, aligned to 64 bytes. A NULL block is allocated for this call and freed;
   without `saved` no backward can follow. If both blocks are given, and the shapes are those of the last call
   of this operator, nothing is allocated, except for learned parameters that are drawn now. Errors: as above,
   and inputs that hold NaN or infinity are INVALID, with the position of the first. These, and numbers that
   are too large, are found while computing, so part of `out` may have been written; every other error leaves
   it unchanged. */
HASHATTN_API hashattn_status hashattn_attention_forward(
    hashattn_attention *attention, const hashattn_problem *problem, const hashattn_array *query,
    const hashattn_array *key, const hashattn_array *value, const hashattn_array *out, void *saved,
    void *scratch);

/* Follows a forward with the same attention, problem, arrays and `saved`, which may have been moved. WRITES
   dquery, dkey and dvalue, shaped as query, key and value: the gradients of sum(out * dout) with respect to
   the raw inputs. reformer takes the queries as keys, so it ignores `key` and its dkey is 0. REFUSED: the
   mechanism has no backward pass, or numbers are too large. INVALID: dout holds NaN or infinity; `saved` was
   not written by a forward that returned OK, or by one with another mechanism, other options or another
   problem. An error leaves the outputs unchanged. scratch: as in forward, but it may be another block. */
HASHATTN_API hashattn_status hashattn_attention_backward(
    hashattn_attention *attention, const hashattn_problem *problem, const hashattn_array *query,
    const hashattn_array *key, const hashattn_array *value, const hashattn_array *out,
    const hashattn_array *dout, const hashattn_array *dquery, const hashattn_array *dkey,
    const hashattn_array *dvalue, void *saved, void *scratch);

/* As hashattn_attention_backward, which is the same call with NULL for dparams. WRITES to dparams the
   gradients of sum(out * dout) with respect to the learned parameters that forward used, set or drawn:
   (num_heads, floats of all tensors of a head), in the order of hashattn_attention_tensor, float32 for every
   element type. They are summed over the sequences in their order. Tensors that learn from
   hashattn_attention_own_loss only (those of lha and routing) get 0. If the mechanism has no learned tensors
   with these options, nothing is written. dparams must not overlap any other array. An error leaves it
   unchanged. With total_rows: this rank's part, to be added over the ranks. */
HASHATTN_API hashattn_status hashattn_attention_backward_params(
    hashattn_attention *attention, const hashattn_problem *problem, const hashattn_array *query,
    const hashattn_array *key, const hashattn_array *value, const hashattn_array *out,
    const hashattn_array *dout, const hashattn_array *dquery, const hashattn_array *dkey,
    const hashattn_array *dvalue, float *dparams, void *saved, void *scratch);

/* The mechanism's own loss, summed over sequences and heads; 0 if it has none. Follows a forward, like
   backward. REFUSED: numbers are too large for float32. WRITES its gradient to dparams unless that is NULL:
   (num_heads, floats of all tensors of a head), in the order of hashattn_attention_tensor. With total_rows:
   this rank's part of both, to be added. */
HASHATTN_API hashattn_status hashattn_attention_own_loss(hashattn_attention *attention,
                                                         const hashattn_problem *problem,
                                                         const hashattn_array *query,
                                                         const hashattn_array *key,
                                                         const hashattn_array *value, double *loss,
                                                         float *dparams, void *saved, void *scratch);

/* ---- measuring ---- */

typedef struct hashattn_peak {
    size_t struct_size;
    /* All threads of the context together: the faster of a loop in registers and the best product. */
    double float32_gflops;
    double bf16_gflops; /* of bfloat16 products; about the float32 rate on a processor without bf16
                           instructions */
    /* Adding two arrays into a third, all larger than the caches; counts the bytes that the program reads and
       writes. */
    double memory_gbytes_per_s;
    /* Hashing rows of 64 numbers to 32 codes of 9 bits with the projection of hashattn_description, all steps
       included; a row counts 2 x 64 x 32 x 9 operations. */
    double hash_gflops;
} hashattn_peak;

/* Measures the present peak rates of the machine, for `seconds` (0.01 to 60) per product shape and for
   memory. Allocates 384 MiB. */
HASHATTN_API hashattn_status hashattn_measure_peak(hashattn_context *context, double seconds,
                                                   hashattn_peak *peak);
/* The largest resident set of this process so far, in bytes. */
HASHATTN_API size_t hashattn_peak_resident_bytes(void);

/* ---- bfloat16 ---- */

/* Rounds to nearest, ties to even; NaN stays NaN. Widening is exact. */
HASHATTN_API void hashattn_bf16_round(const hashattn_context *context, const float *from, uint16_t *to,
                                      size_t count);
HASHATTN_API void hashattn_bf16_widen(const hashattn_context *context, const uint16_t *from, float *to,
                                      size_t count);

/* ---- random inputs ---- */

/* out (count): independent N(0, 1) numbers, determined by (seed, stream), with the same bits on every
   machine. */
HASHATTN_API void hashattn_fill_normal(uint64_t seed, uint64_t stream, float *out, size_t count);

#ifdef __cplusplus
}
#endif
#endif
