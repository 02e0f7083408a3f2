/* Padded batches with lengths: each sequence has the same bits as in a call of its own, and rows beyond its
   length may hold NaN and are not written. Inputs whose sequences share their rows. Planted and caught:
   padded ignored in the operator, so that the rows were taken as packed; NaN searched in the rows of packed
   sequences; sequence_stride 0 taken as packed rows, in the driver or in the search for NaN; outputs checked
   for the mean length.
   SPDX-License-Identifier: Apache-2.0 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "support/api_context.h"

enum { SEQUENCES = 4, HEADS = 2, N = 24, D = 8, SIZE = SEQUENCES * HEADS * N * D };

static const char *const mechanisms[] = {"yoso", "yoso-e", "softmax", "lha", "lsh", "random", "local"};
enum { MECHANISMS = sizeof mechanisms / sizeof *mechanisms };
static const size_t offsets[SEQUENCES + 1] = {0, 7, 7, 31, 44}; /* lengths 7, 0, 24, 13 */

struct batch {
    hashattn_context *context;
    hashattn_attention *attention;
    hashattn_problem problem;
    float q[SIZE], k[SIZE], v[SIZE], out[SIZE], dout[SIZE], dq[SIZE], dk[SIZE], dv[SIZE];
};

static void open_batch(struct batch *b, const char *mechanism, int threads)
{
    b->context = context_with(threads, NULL);
    check_ok(b->context, hashattn_attention_new(b->context, mechanism, &b->attention));
    hashattn_problem_default(&b->problem);
    b->problem.num_sequences = SEQUENCES;
    b->problem.num_heads = HEADS;
    b->problem.num_queries = b->problem.num_keys = b->problem.max_len = N;
    b->problem.head_dim = b->problem.value_dim = D;
    b->problem.seed = 3;
    float *const filled[] = {b->q, b->k, b->v, b->dout};
    for (size_t i = 0; i < 4; i++)
        hashattn_fill_normal(2, i, filled[i], SIZE);
    float *const empty[] = {b->out, b->dq, b->dk, b->dv};
    for (size_t a = 0; a < 4; a++)
        for (size_t i = 0; i < SIZE; i++)
            empty[a][i] = -77;
}

static void close_batch(struct batch *b)
{
    hashattn_attention_free(b->attention);
    hashattn_context_free(b->context);
}

/* Forward and backward, starting at row 0 of sequence `first`. */
static hashattn_status run(struct batch *b, size_t first)
{
    hashattn_array arrays[8];
    float *const data[] = {b->q, b->k, b->v, b->out, b->dout, b->dq, b->dk, b->dv};
    for (size_t i = 0; i < 8; i++)
        arrays[i] = hashattn_array_of_heads(data[i] + first * HEADS * N * D, HEADS, N, D);
    size_t saved_bytes, scratch_bytes;
    hashattn_status status =
        hashattn_attention_sizes(b->attention, &b->problem, &saved_bytes, &scratch_bytes);
    if (status != HASHATTN_OK)
        return status;
    void *saved = aligned_alloc(64, saved_bytes / 64 * 64 + 64);
    assert_non_null(saved);
    status = hashattn_attention_forward(b->attention, &b->problem, &arrays[0], &arrays[1], &arrays[2],
                                        &arrays[3], saved, NULL);
    if (status == HASHATTN_OK)
        status = hashattn_attention_backward(b->attention, &b->problem, &arrays[0], &arrays[1], &arrays[2],
                                             &arrays[3], &arrays[4], &arrays[5], &arrays[6], &arrays[7],
                                             saved, NULL);
    free(saved);
    return status;
}

static size_t length_of(size_t sequence)
{
    return offsets[sequence + 1] - offsets[sequence];
}

/* The first `length` rows of every head of a sequence are equal, and the rows after them untouched. */
static void check_sequence(const float *padded, const float *alone, size_t sequence, const char *what)
{
    for (size_t h = 0; h < HEADS; h++) {
        size_t at = (sequence * HEADS + h) * N * D, end = length_of(sequence) * D;
        check_same_bits(padded + at, alone + at, end * sizeof *padded, what);
        for (size_t i = end; i < N * D; i++)
            assert_true(padded[at + i] == -77);
    }
}

static void padding_is_neither_read_nor_written(void **state)
{
    (void)state;
    static struct batch padded, alone;
    for (size_t m = 0; m < MECHANISMS; m++)
        for (int masked = 0; masked < 2; masked++) {
            uint8_t mask[44];
            for (size_t i = 0; i < sizeof mask; i++)
                mask[i] = i % 5 != 0;
            open_batch(&padded, mechanisms[m], 2);
            open_batch(&alone, mechanisms[m], 1);
            padded.problem.query_offsets = padded.problem.key_offsets = offsets;
            padded.problem.padded = 1;
            padded.problem.key_mask = masked ? mask : NULL;
            float *const inputs[] = {padded.q, padded.k, padded.v, padded.dout};
            for (size_t a = 0; a < 4; a++)
                for (size_t s = 0; s < SEQUENCES; s++)
                    for (size_t h = 0; h < HEADS; h++)
                        for (size_t i = length_of(s) * D; i < N * D; i++)
                            inputs[a][(s * HEADS + h) * N * D + i] = NAN;
            check_ok(padded.context, run(&padded, 0));
            for (size_t s = 0; s < SEQUENCES; s++) {
                alone.problem.num_sequences = 1;
                alone.problem.num_queries = alone.problem.num_keys = length_of(s);
                alone.problem.key_mask = masked ? mask + offsets[s] : NULL;
                check_ok(alone.context, run(&alone, s));
                check_sequence(padded.out, alone.out, s, mechanisms[m]);
                check_sequence(padded.dq, alone.dq, s, "dq");
                check_sequence(padded.dk, alone.dk, s, "dk");
                check_sequence(padded.dv, alone.dv, s, "dv");
            }
            close_batch(&padded);
            close_batch(&alone);
        }
}

static void bad_lengths_are_reported(void **state)
{
    (void)state;
    static struct batch b;
    open_batch(&b, "softmax", 1);
    b.problem.padded = 1;
    check_call(b.context, run(&b, 0), HASHATTN_INVALID, "padded is 1 without offsets");
    b.problem.query_offsets = b.problem.key_offsets = offsets;
    b.k[HEADS * N * D * 2 + 3 * D + 1] = NAN;
    check_call(b.context, run(&b, 0), HASHATTN_INVALID, "key is nan at sequence 2, head 0, row 3, column 1");
    b.k[HEADS * N * D * 2 + 3 * D + 1] = 0;
    const size_t longer[SEQUENCES + 1] = {0, 7, 7, 32, 44}; /* 25 rows, and sequences 24 apart */
    b.problem.query_offsets = b.problem.key_offsets = longer;
    check_call(b.context, run(&b, 0), HASHATTN_INVALID, "out: head_stride is 192, at least 200 is needed");
    close_batch(&b);
}

static void sequences_of_an_input_may_share_rows(void **state)
{
    (void)state;
    static struct batch shared, copied;
    for (size_t m = 0; m < MECHANISMS; m++) {
        open_batch(&shared, mechanisms[m], 2);
        open_batch(&copied, mechanisms[m], 2);
        for (size_t s = 1; s < SEQUENCES; s++)
            memcpy(copied.q + s * HEADS * N * D, copied.q, HEADS * N * D * sizeof(float));
        for (size_t i = HEADS * N * D; i < SIZE; i++)
            shared.q[i] = NAN; /* not read */
        check_ok(copied.context, run(&copied, 0));
        hashattn_array q = hashattn_array_of_heads(shared.q, HEADS, N, D),
                       k = hashattn_array_of_heads(shared.k, HEADS, N, D),
                       v = hashattn_array_of_heads(shared.v, HEADS, N, D),
                       out = hashattn_array_of_heads(shared.out, HEADS, N, D);
        q.sequence_stride = 0;
        check_ok(shared.context,
                 hashattn_attention_forward(shared.attention, &shared.problem, &q, &k, &v, &out, NULL, NULL));
        check_same_bits(shared.out, copied.out, sizeof shared.out, mechanisms[m]);
        out.sequence_stride = 0;
        check_call(
            shared.context,
            hashattn_attention_forward(shared.attention, &shared.problem, &q, &k, &v, &out, NULL, NULL),
            HASHATTN_INVALID, "out: sequence_stride is 0, at least 8 is needed");
        close_batch(&shared);
        close_batch(&copied);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(padding_is_neither_read_nor_written),
        cmocka_unit_test(bad_lengths_are_reported),
        cmocka_unit_test(sequences_of_an_input_may_share_rows),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
