/* hashattn: attention by hashing. This header is the operator, enough for most programs: a context, a
   mechanism with its options, forward and backward on strided float32 arrays.

   Rules for the whole library:
   - Every call that can fail returns a hashattn_status; the sentence with the numbers is
   hashattn_context_message.
   - A `new` or `load` gives its object through the last parameter; `free` takes NULL. An object is freed
   before its context.
   - The library never keeps a pointer you pass in, except where the line says so. Sizes count elements, not
   bytes, unless they are called bytes. A context and its objects are used by one thread at a time; two
   contexts are independent.
   - Structs that may grow begin with struct_size. What a caller gives is filled with its `_default` function
   first; what a caller is given needs struct_size set, and gets as many fields as that has room for.
   - Real numbers in text (options, messages, files) have a decimal dot, whatever locale the caller has set.
   - The same inputs, options and seed give the same bits for any number of threads (on one instruction set).
   SPDX-License-Identifier: Apache-2.0 */
#ifndef HASHATTN_ATTENTION_H
#define HASHATTN_ATTENTION_H

#include <stddef.h>
#include <stdint.h>

#include "hashattn/status.h"

#ifdef __cplusplus
extern "C" {
#endif

/* ---- context: threads, instruction set, memory, the last message ---- */

typedef struct hashattn_context hashattn_context;

typedef struct hashattn_context_options {
    size_t struct_size;
    int threads; /* 1 to 1024; 0 = as many as the processors this process may use */
    /* Of products: "float32" or "bf16"; NULL = float32, and for a model or a run what it was trained with.
       bf16 rounds the operands of every product of a dense layer and inside `softmax` to bfloat16;
       parameters, sums and everything else stay float32. Where the processor has no instruction for it, it is
       done by widening. */
    const char *precision;
    const char *isa; /* one of hashattn_isa_names; NULL or "auto" = the best that runs here. The environment
                        variable HASHATTN_ISA caps both. */
    /* Where memory comes from, for the thread that calls; both NULL = aligned_alloc and free. allocate
       returns NULL when there is none; bytes is at least 1 and any number. */
    void *(*allocate)(void *user, size_t alignment, size_t bytes);
    void (*release)(void *user, void *block);
    void *user;
} hashattn_context_options;

HASHATTN_API void hashattn_context_options_default(hashattn_context_options *options);
/* options: NULL = the defaults. message: room for `message_size` chars where a failure is explained (there is
   no context yet to ask); may be NULL. INVALID: threads out of range, unknown or absent instruction set. */
HASHATTN_API hashattn_status hashattn_context_new(const hashattn_context_options *options, char *message,
                                                  size_t message_size, hashattn_context **context);
HASHATTN_API void hashattn_context_free(hashattn_context *context);
/* What went wrong in the last failing call on this context or an object of it; "" before the first. Valid
   until the next failing call. */
HASHATTN_API const char *hashattn_context_message(const hashattn_context *context);
/* Removes the temporary files of all that is being written on the context; none of it can be committed after
   that. For the handler of a signal that ends the program, in the thread that uses the context: it is
   async-signal-safe. The threads of the library leave SIGHUP, SIGINT, SIGQUIT and SIGTERM to those of the
   program. */
HASHATTN_API void hashattn_context_remove_unfinished(const hashattn_context *context);

typedef struct hashattn_description {
    size_t struct_size;
    const char *version;    /* of the library, "0.1.0" */
    const char *isa;        /* the table of kernels in use */
    const char *projection; /* how hash codes are computed where the option says auto: "int16-dp" */
    const char *precision;  /* of products: "float32" or "bf16" */
    const char *bf16;       /* how products of bf16 are done here: "by instruction" or "by widening" */
    char products[64];      /* "oneDNN 2.6.3" or "own" */
    char processor[64];     /* model name, "" if unknown */
    int threads;
} hashattn_description;

/* Strings live as long as the library; struct_size must be set. */
HASHATTN_API void hashattn_context_describe(const hashattn_context *context,
                                            hashattn_description *description);

/* Holds the product library of this whole process to the instruction set of the context; without it that
   library uses what it finds, whatever `isa` says. Only before the first product, and for programs rather
   than libraries: others in the process may use it too. The tool does it. */
HASHATTN_API void hashattn_context_cap_products(const hashattn_context *context);

/* The instruction sets known, narrowest first, ended by NULL; and whether one runs here (NULL: yes, else why
   not). */
HASHATTN_API const char *const *hashattn_isa_names(void);
HASHATTN_API const char *hashattn_isa_refusal(const char *isa);

/* ---- options by name: every option of the library has a type, a default, a range and a sentence ---- */

typedef enum hashattn_option_type {
    HASHATTN_OPTION_INT,
    HASHATTN_OPTION_REAL,
    HASHATTN_OPTION_CHOICE,
    HASHATTN_OPTION_FLAG /* "true" or "false" */
} hashattn_option_type;

typedef struct hashattn_option {
    size_t struct_size;
    const char *name;  /* "num_hashes" */
    const char *owner; /* "attention", "task", "model" or "training" */
    hashattn_option_type type;
    char preset[64];            /* the default, as text (for a setup: the present value) */
    double minimum, maximum;    /* INT and REAL */
    const char *const *choices; /* CHOICE, ended by NULL; else NULL */
    const char *help;
} hashattn_option;

/* ---- mechanisms ---- */

typedef struct hashattn_mechanism_info {
    size_t struct_size;
    const char *name, *summary;
    int exact;          /* 0: sampled, depends on the seed */
    size_t num_options; /* see hashattn_mechanism_option */
    size_t num_params;  /* learned tensors of its own, at most: see hashattn_attention_tensor */
} hashattn_mechanism_info;

HASHATTN_API size_t hashattn_mechanism_count(void);
/* 1 and *info filled (struct_size must be set), or 0 when index is past the last. */
HASHATTN_API int hashattn_mechanism_get(size_t index, hashattn_mechanism_info *info);
/* The option'th option of the mechanism'th mechanism; 1, or 0 past the last. */
HASHATTN_API int hashattn_mechanism_option(size_t mechanism, size_t option, hashattn_option *info);

/* A mechanism with its options. The context must outlive it. */
typedef struct hashattn_attention hashattn_attention;

/* mechanism: "softmax", "yoso", ... INVALID with the list of names when unknown. */
HASHATTN_API hashattn_status hashattn_attention_new(hashattn_context *context, const char *mechanism,
                                                    hashattn_attention **attention);
HASHATTN_API void hashattn_attention_free(hashattn_attention *attention);
/* Sets an option from text ("num_hashes", "64"; "yoso.num_hashes" is the same); INVALID with what is allowed.
 */
HASHATTN_API hashattn_status hashattn_attention_set(hashattn_attention *attention, const char *name,
                                                    const char *text);
/* The present value as text that `set` takes back; text: room for `size` chars. INVALID: no such option, or
   it does not fit. */
HASHATTN_API hashattn_status hashattn_attention_get(const hashattn_attention *attention, const char *name,
                                                    char *text, size_t size);
/* Options that are left to the machine get what they mean in this context: projection "auto" becomes
   "int16-dp", as the planes want it. What is computed stays the same. */
HASHATTN_API hashattn_status hashattn_attention_settle(hashattn_attention *attention);

/* A learned tensor of the mechanism's own, (rows, cols) for every head. */
typedef struct hashattn_tensor {
    size_t struct_size;
    const char *name;
    size_t rows, cols;
} hashattn_tensor;
/* The index'th tensor at these widths, with the present options; 1, or 0 past the last. max_len: the longest
   sequence that the tensors are made for, which some shapes follow; 0: unknown, and those are left out. */
HASHATTN_API int hashattn_attention_tensor(const hashattn_attention *attention, size_t head_dim,
                                           size_t value_dim, size_t max_len, size_t index,
                                           hashattn_tensor *tensor);

/* The learned parameters of a mechanism that has some. The operator draws them from the problem's seed, when
   the sizes are asked for or at the first call, unless they were read: from a safetensors file with one
   tensor (num_heads, rows, cols) for each of hashattn_attention_tensor, by its name. Setting an option drops
   them. BAD_FILE: a tensor is missing, has another shape, or holds NaN or infinity; INVALID: the mechanism
   has none; a problem with other heads or widths, or another max_len that a shape follows, is INVALID from
   then on. */
HASHATTN_API hashattn_status hashattn_attention_read_params(hashattn_attention *attention, const char *path,
                                                            size_t num_heads, size_t head_dim,
                                                            size_t value_dim, size_t max_len);

/* ---- the operator ---- */

/* Where element (sequence s, row r of it, head h, column c) lies: data[s * sequence_stride + r * row_stride +
   h * head_stride + c]. With offsets, sequence_stride is not used: row r of sequence s is packed row
   offsets[s] + r. A row_stride below the width is INVALID; so is, in an output, any stride that would let two
   elements meet. Arrays that are written must not overlap any other. */
typedef struct hashattn_array {
    void *data; /* floats, or uint16_t where the problem says BF16: not written where the array is an input;
                   may be NULL where there are no elements */
    size_t sequence_stride, row_stride, head_stride;
} hashattn_array;

/* Contiguous arrays: (sequences, heads, rows, width), and packed or single (rows, heads, width). */
HASHATTN_API hashattn_array hashattn_array_of_heads(void *data, size_t heads, size_t rows, size_t width);
HASHATTN_API hashattn_array hashattn_array_of_rows(void *data, size_t heads, size_t rows, size_t width);

/* What arrays hold. BF16: the upper 16 bits of a float, as uint16_t. BYTE: uint8 or bool, in files alone. */
typedef enum hashattn_element { HASHATTN_FLOAT32, HASHATTN_BYTE, HASHATTN_BF16 } hashattn_element;

typedef struct hashattn_problem {
    size_t struct_size;
    /* Where no sequence has a row nothing is computed, and no time or memory is taken for these numbers. */
    size_t num_sequences, num_heads;
    size_t num_queries, num_keys; /* rows of every sequence (n_q, n_k), any may be 0; ignored with offsets */
    size_t head_dim, value_dim;   /* d of queries and keys, d_v of values and output; at least 1 */
    /* (num_sequences + 1) rising row numbers, first 0: sequences of different lengths one after another; NULL
       = equal lengths. Both or neither. */
    const size_t *query_offsets, *key_offsets;
    /* 1 = the key takes part, 0 = it is as if it were not there (and its key and value may hold anything,
       NaN too). (num_sequences, num_keys), or (key rows) with offsets; NULL = all take part. Queries are
       not masked, but where they take places, in buckets (lha, lsh, random) or blocks (local), and a sequence
       has as many of them as keys: there a masked token is absent as a query too. A query that meets no key
       gets 0 and passes no gradient. */
    const uint8_t *key_mask;
    int causal; /* 1: query i sees keys 0 .. i of its sequence; REFUSED by mechanisms without such a form */
    uint64_t seed; /* all the chance of sampled mechanisms */
    /* (num_sequences) numbers that make sequences hash apart, as in training; NULL = every sequence hashes
       alike, so a sequence has the same output alone and in any batch. */
    const uint64_t *sample_ids;
    /* Of every array of the problem, in and out: FLOAT32 (the default) or BF16. With BF16 the mechanism
       computes as with FLOAT32 from the same numbers, and what is written is rounded to nearest, ties to
       even; beyond the largest bfloat16 that is infinity. */
    hashattn_element element;
    /* The longest sequence that the mechanism's learned tensors are made for; 0: unknown, then a mechanism
       whose tensors follow it is REFUSED. */
    size_t max_len;
} hashattn_problem;

/* 1 sequence, 1 head, everything else 0 or NULL. */
HASHATTN_API void hashattn_problem_default(hashattn_problem *problem);

/* Bytes of the two blocks that forward and backward use: `saved` carries what backward needs, `scratch` is
   dead in between. Neither holds an (n_q, n_k) array. INVALID: a number out of range; REFUSED: what this
   mechanism cannot do, with the reason; NO_MEMORY: the sizes overflow. */
HASHATTN_API hashattn_status hashattn_attention_sizes(hashattn_attention *attention,
                                                      const hashattn_problem *problem, size_t *saved_bytes,
                                                      size_t *scratch_bytes);

/* out (n_q, heads, d_v per sequence) = attention. softmax, local, lha, lsh and random give finite numbers for
   all finite inputs, here and in backward: where float32 could overflow they compute in double, some hundred
   times as slowly, and a gradient beyond +-3.39e38, the largest bfloat16, becomes that. Errors as above; and
   inputs that hold NaN or infinity are INVALID, with the place of the first: then `out` holds no result, and
   some of it may have been written, for they are met on the way (after every other error it is as it was).
   saved, scratch: blocks of at least the sizes above, aligned to 64 bytes; a NULL one is allocated for this
   call and freed (saved: then no backward can follow). With both blocks given nothing is allocated. */
HASHATTN_API hashattn_status hashattn_attention_forward(
    hashattn_attention *attention, const hashattn_problem *problem, const hashattn_array *query,
    const hashattn_array *key, const hashattn_array *value, const hashattn_array *out, void *saved,
    void *scratch);

/* After a forward with the same attention, problem, arrays and `saved`: dquery, dkey, dvalue (shaped as
   query, key, value) are WRITTEN, the gradients with respect to the raw inputs of sum(out * dout). dout that
   holds NaN or infinity is INVALID; after an error nothing was written. scratch: as in forward; it need not
   be the same block. */
HASHATTN_API hashattn_status hashattn_attention_backward(
    hashattn_attention *attention, const hashattn_problem *problem, const hashattn_array *query,
    const hashattn_array *key, const hashattn_array *value, const hashattn_array *out,
    const hashattn_array *dout, const hashattn_array *dquery, const hashattn_array *dkey,
    const hashattn_array *dvalue, void *saved, void *scratch);

/* The loss that a mechanism has of its own (0 where it has none), after a forward as for backward: summed
   over sequences and heads. dparams, if not NULL, is WRITTEN: its gradient, (num_heads, floats of all tensors
   of a head, in the order of hashattn_attention_tensor). */
HASHATTN_API hashattn_status hashattn_attention_own_loss(hashattn_attention *attention,
                                                         const hashattn_problem *problem,
                                                         const hashattn_array *query,
                                                         const hashattn_array *key,
                                                         const hashattn_array *value, double *loss,
                                                         float *dparams, void *saved, void *scratch);

/* ---- measuring ---- */

typedef struct hashattn_peak {
    size_t struct_size;
    /* All threads of the context together: a loop in registers or the best product, whichever is more. */
    double float32_gflops;
    double bf16_gflops; /* of bfloat16 products; about the float32 rate where the processor has none */
    /* A sum of two arrays into a third, larger than the caches; bytes moved by the program. */
    double memory_gbytes_per_s;
    /* Rows of 64 numbers to 32 hash codes of 9 bits, in the projection of the description: 2 x 64 x 32 x 9
       operations a row, with everything that a row goes through. */
    double hash_gflops;
} hashattn_peak;

/* Measures what the machine can do now, `seconds` (0.01 to 60) per shape of product and for the memory. It
   allocates 384 MiB. */
HASHATTN_API hashattn_status hashattn_measure_peak(hashattn_context *context, double seconds,
                                                   hashattn_peak *peak);
/* Largest resident set of this process so far, in bytes. */
HASHATTN_API size_t hashattn_peak_resident_bytes(void);

/* ---- bfloat16 ---- */

/* Rounds to nearest, ties to even; a NaN stays one. And back, which is exact. */
HASHATTN_API void hashattn_bf16_round(const hashattn_context *context, const float *from, uint16_t *to,
                                      size_t count);
HASHATTN_API void hashattn_bf16_widen(const hashattn_context *context, const uint16_t *from, float *to,
                                      size_t count);

/* ---- inputs to try things with ---- */

/* out (count): independent N(0, 1) numbers that depend on (seed, stream) alone, the same bits everywhere. */
HASHATTN_API void hashattn_fill_normal(uint64_t seed, uint64_t stream, float *out, size_t count);

#ifdef __cplusplus
}
#endif
#endif
