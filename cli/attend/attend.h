/* One call of `attend`, and what moves its arrays: attend_read.c reads them whole or as far as their shapes,
   attend_ranks.c the rows of a rank, attend_write.c writes the results.
   Functions return EXIT_GOOD or the exit code of the reported error.
   SPDX-License-Identifier: Apache-2.0 */
#ifndef CLI_ATTEND_H
#define CLI_ATTEND_H

#include "cli/attend/attend_chunks.h"
#include "cli/shared/tool/on_device.h"

/* Everything one call holds. Members may be NULL or empty when they are freed. */
struct attend {
    const char *mechanism, *q, *k, *v, *mask, *params, *out, *grad_out, *grad_dir;
    int causal;
    hashattn_context *context;
    hashattn_attention *attention;
    hashattn_npy query, key, value, key_mask, dout;
    hashattn_problem problem;
    uint8_t *whole_mask; /* (batch, n_k) */
    float *output, *dquery, *dkey, *dvalue;
    float *dparams;      /* (heads, floats of a head); NULL if nothing is learned */
    uint16_t *halves[8]; /* with --precision bf16: query ... dvalue, in the order of the call */
    bool on_device;      /* of the context: query ... dvalue, saved and scratch are blocks there */
    struct device_blocks blocks;
    void *saved, *scratch;
    size_t saved_bytes, scratch_bytes;
    double forward_ms, backward_ms;
    size_t chunk_rows;       /* 0: whole arrays */
    hashattn_context *files; /* of the readers, which run on a thread of the library */
    struct attend_chunks chunks;
    int rank, ranks; /* more than one: each has rows first .. first + num_queries - 1 */
    size_t first, total_rows;
    hashattn_npy_reader *dout_reader;
    float *inputs[4]; /* query, key, value, dout: the whole arrays, or the span, which is owned */
};

/* true if several ranks share the rows of every sequence. */
static inline bool attend_is_shared(const struct attend *a)
{
    return a->ranks > 1;
}

/* Reads query, key and value, and checks and sets the shapes of the problem. With --chunk or several ranks
   the readers are opened, and the data is NULL. */
int attend_read_arrays(struct attend *a);
/* The mask is (n_k), for the whole batch, or (batch, n_k). */
int attend_read_mask(struct attend *a);
/* The gradient of the output, in the same way. */
int attend_read_gradient(struct attend *a);

/* Fails if an option of the call cannot be used by ranks. */
int attend_ranks_refuse(const struct attend *a);
/* Makes the problem that of this rank's rows, reads them, and sets a->inputs, to be freed. */
int attend_ranks_read(struct attend *a);

/* Writes the output, and with --grad-out the gradients. With several ranks each writes NAME.RANK.npy. */
int attend_write_arrays(struct attend *a);

enum { ATTEND_PATH = 4096 }; /* of the name of a file */

/* The file of this rank: NAME.RANK.npy for NAME.npy, where suffix is ".npy". */
int attend_ranks_path(const struct attend *a, const char *name, const char *suffix, char path[ATTEND_PATH]);

#endif
