/* Embedding against plain loops; its gradient is a plain sum in the order of the rows, so both are the same
   bits for any number of threads. Bugs tried and caught: position counted in the packed rows; gradient of the
   position table missing; last columns (dim not a multiple of 16) left out; gradient overwriting; rows after
   the last token not cleared; cosines in the even columns; sinusoids of the next place; words beside
   sinusoids that start small; a tied table's factor left out.
   SPDX-License-Identifier: Apache-2.0 */
#include "nn/embed.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "support/check.h"
#include "support/layers.h"

enum { VOCAB = 7, MAX_LEN = 290, DIM = 37, ROWS = 500, PADDED = 512 };
static const size_t offsets[] = {0, 1, 1, 290, ROWS};

static void fill_tokens(uint16_t *tokens)
{
    for (size_t i = 0; i < ROWS; i++)
        tokens[i] = (uint16_t)(i * i % VOCAB);
}

static size_t place(size_t row)
{
    size_t s = 0;
    while (offsets[s + 1] <= row)
        s++;
    return row - offsets[s];
}

static void embed_adds_word_and_position(void **state)
{
    (void)state;
    uint16_t tokens[ROWS];
    fill_tokens(tokens);
    float *dy = new_normals(4, PADDED * DIM, 1), *first = NULL;
    for (int threads = 1; threads <= 3; threads += 2) {
        struct layer_test test;
        struct embed embed;
        layer_test_open(&test, threads);
        check_status(
            &test.host,
            embed_describe(&test.host, &test.params, VOCAB, MAX_LEN, DIM, POSITIONS_LEARNED, false, &embed),
            HASHATTN_OK, NULL);
        layer_test_start(&test, 8);
        struct rows rows = rows_of(test.kernels, test.pool, 4, offsets, NULL);
        const struct param *word = param_named(&test.params, "embeddings.word_embeddings.weight");
        const struct param *position = param_named(&test.params, "embeddings.position_embeddings.weight");
        assert_true(word->shape[0] == VOCAB && position->shape[0] == MAX_LEN && word->shape[1] == DIM);
        assert_true(word->start == START_NORMAL && word->scale == 0.02f && position->scale == 0.02f);

        float *y = new_normals(1, PADDED * DIM, 1), *want = new_zeros(PADDED * DIM);
        for (size_t r = 0; r < ROWS; r++)
            for (size_t c = 0; c < DIM; c++)
                want[r * DIM + c] = test.values[word->offset + tokens[r] * DIM + c] +
                                    test.values[position->offset + place(r) * DIM + c];
        for (size_t r = 0; r < PADDED; r += 128)
            embed_forward(&embed, &rows, test.values, y + r * DIM, tokens, r, 128);
        check_same_bits(y, want, PADDED * DIM * sizeof *y, "rows");

        float *gradient = new_normals(2, test.params.total, 1), *sum = new_normals(2, test.params.total, 1);
        for (size_t r = 0; r < ROWS; r++)
            for (size_t c = 0; c < DIM; c++) {
                sum[word->offset + tokens[r] * DIM + c] += dy[r * DIM + c];
                sum[position->offset + place(r) * DIM + c] += dy[r * DIM + c];
            }
        embed_backward(&embed, &rows, (struct slice){gradient, 0}, dy, tokens);
        check_same_bits(gradient, sum, test.params.total * sizeof *sum, "gradient, sums in order");
        if (first != NULL)
            check_same_bits(gradient, first, test.params.total * sizeof *sum, "gradient, 1 and 3 threads");
        free(first);
        first = gradient;
        free(y), free(want), free(sum);
        layer_test_close(&test);
    }
    free(first);
    free(dy);
}

/* Without learned positions the words alone are parameters, start as wide as the sinusoids, and have all the
   gradient. */
static void positions_may_be_sinusoids_or_nothing(void **state)
{
    (void)state;
    uint16_t tokens[ROWS];
    fill_tokens(tokens);
    for (int kind = POSITIONS_SINUSOIDAL; kind <= POSITIONS_NONE; kind++) {
        struct layer_test test;
        struct embed embed;
        layer_test_open(&test, 2);
        check_status(&test.host,
                     embed_describe(&test.host, &test.params, VOCAB, MAX_LEN, DIM, (enum positions)kind,
                                    false, &embed),
                     HASHATTN_OK, NULL);
        layer_test_start(&test, 8);
        struct rows rows = rows_of(test.kernels, test.pool, 4, offsets, NULL);
        assert_int_equal(test.params.num_rows, 1);
        assert_true(test.params.rows[0].scale == (kind == POSITIONS_NONE ? 0.02f : 1.0f));
        float *y = new_normals(1, PADDED * DIM, 1), *dy = new_normals(4, PADDED * DIM, 1);
        embed_forward(&embed, &rows, test.values, y, tokens, 0, PADDED);
        double *want = calloc(PADDED * DIM, sizeof *want);
        float *sum = new_zeros(test.params.total);
        for (size_t r = 0; r < ROWS; r++)
            for (size_t c = 0; c < DIM; c++) {
                double turn = (double)place(r) / exp(log(10000) * (double)(c / 2 * 2) / DIM);
                double wave = c % 2 == 0 ? sin(turn) : cos(turn);
                want[r * DIM + c] =
                    (double)test.values[tokens[r] * DIM + c] + (kind == POSITIONS_NONE ? 0 : wave);
                sum[tokens[r] * DIM + c] += dy[r * DIM + c];
            }
        /* The wave and the sum, each rounded once; `turn` up to 290 in double moves nothing. */
        check_near_all(y, want, PADDED * DIM, 2 * EPSILON * largest(y, ROWS * DIM), "rows");
        embed_backward(&embed, &rows, whole_gradient(&test), dy, tokens);
        check_same_bits(test.gradients, sum, test.params.total * sizeof *sum, "gradient");
        free(y), free(dy), free(want), free(sum);
        embed_free(&test.host, &embed);
        layer_test_close(&test);
    }
}

/* A table that is the output too: its rows come in sqrt(DIM) as large, and so do their gradients. */
static void a_tied_table_is_scaled(void **state)
{
    (void)state;
    uint16_t tokens[ROWS];
    fill_tokens(tokens);
    struct layer_test test;
    struct embed embed;
    layer_test_open(&test, 2);
    check_status(&test.host,
                 embed_describe(&test.host, &test.params, VOCAB, MAX_LEN, DIM, POSITIONS_NONE, true, &embed),
                 HASHATTN_OK, NULL);
    layer_test_start(&test, 8);
    struct rows rows = rows_of(test.kernels, test.pool, 4, offsets, NULL);
    float factor = sqrtf(DIM), *y = new_normals(1, PADDED * DIM, 1), *dy = new_normals(4, PADDED * DIM, 1);
    assert_true(test.params.rows[0].scale == 1 / factor);
    embed_forward(&embed, &rows, test.values, y, tokens, 0, PADDED);
    embed_backward(&embed, &rows, whole_gradient(&test), dy, tokens);
    double *sum = calloc(VOCAB * DIM, sizeof *sum);
    for (size_t r = 0; r < ROWS; r++)
        for (size_t c = 0; c < DIM; c++) {
            check_near((double)y[r * DIM + c], sqrt(DIM) * (double)test.values[tokens[r] * DIM + c],
                       4 * EPSILON * sqrt(DIM), "row");
            sum[tokens[r] * DIM + c] += sqrt(DIM) * (double)dy[r * DIM + c];
        }
    check_near_all(test.gradients, sum, VOCAB * DIM, ROWS * EPSILON * largest(test.gradients, VOCAB * DIM),
                   "gradient");
    free(y), free(dy), free(sum);
    layer_test_close(&test);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(embed_adds_word_and_position),
        cmocka_unit_test(positions_may_be_sinusoids_or_nothing),
        cmocka_unit_test(a_tied_table_is_scaled),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
