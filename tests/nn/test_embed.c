/* Embedding against plain loops; its gradient is a plain sum in the order of the rows, so both have the same
   bits for any number of threads. Bugs planted and caught: position counted in the packed rows; gradient of
   the position table missing; last columns (dim not a multiple of 16) left out; gradient overwriting; rows
   after the last token not cleared; cosines in the even columns; halves with the frequencies of pairs, or one
   sine too few of an odd width; sinusoids of the next position; words with
   sinusoids that start small; a tied table's factor left out; segments not added, read from the beginning of
   a span, without gradient, or scaled as words are; rows without words overwritten; ids cut to 16 bits;
   sinusoids computed for max_len whatever the length, or for the first length only;
   unused positions used, or given the gradient of others.
   SPDX-License-Identifier: Apache-2.0 */
#include "nn/embed.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "support/check.h"
#include "support/layers.h"

enum { VOCAB = 7, MAX_LEN = 290, DIM = 37, ROWS = 500, PADDED = 512 };
static const size_t offsets[] = {0, 1, 1, 290, ROWS};

static void fill_ids(uint32_t *ids)
{
    for (size_t i = 0; i < ROWS; i++)
        ids[i] = (uint32_t)(i * i % VOCAB);
}

static size_t place(size_t row)
{
    size_t s = 0;
    while (offsets[s + 1] <= row)
        s++;
    return row - offsets[s];
}

static void open_embed(struct layer_test *test, int threads, struct embed_shape shape, struct embed *embed)
{
    layer_test_open(test, threads);
    check_status(&test->host, embed_describe(&test->host, &test->params, &shape, embed), HASHATTN_OK, NULL);
    assert_null(embed->sinusoids); /* the description allocates nothing that grows with max_len */
    const size_t longest[] = {1, shape.max_len, 2};
    for (size_t i = 0; i < 3; i++)
        check_status(&test->host, embed_fit(&test->host, embed, longest[i]), HASHATTN_OK, NULL);
    bool waves = shape.positions == POSITIONS_SINUSOIDAL || shape.positions == POSITIONS_HALVES;
    assert_int_equal(embed->num_sinusoids, waves ? shape.max_len : 0);
    layer_test_start(test, 8);
}

static void embed_adds_word_and_position(void **state)
{
    (void)state;
    uint32_t ids[ROWS];
    const struct input_rows input = {.ids = ids};
    fill_ids(ids);
    float *dy = new_normals(4, PADDED * DIM, 1), *first = NULL;
    for (int threads = 1; threads <= 3; threads += 2) {
        struct layer_test test;
        struct embed embed;
        open_embed(&test, threads,
                   (struct embed_shape){NULL, VOCAB, 0, MAX_LEN, DIM, POSITIONS_LEARNED, 0, false, NULL, 0},
                   &embed);
        struct rows rows = rows_of(test.kernels, test.pool, 4, offsets, NULL);
        const struct param *word = param_named(&test.params, "embeddings.word_embeddings.weight");
        const struct param *position = param_named(&test.params, "embeddings.position_embeddings.weight");
        assert_true(word->shape[0] == VOCAB && position->shape[0] == MAX_LEN && word->shape[1] == DIM);
        assert_true(word->start == START_NORMAL && word->scale == 0.02f && position->scale == 0.02f);

        float *y = new_normals(1, PADDED * DIM, 1), *want = new_zeros(PADDED * DIM);
        for (size_t r = 0; r < ROWS; r++)
            for (size_t c = 0; c < DIM; c++)
                want[r * DIM + c] = test.values[word->offset + ids[r] * DIM + c] +
                                    test.values[position->offset + place(r) * DIM + c];
        for (size_t r = 0; r < PADDED; r += 128)
            embed_forward(&embed, &rows, test.values, y + r * DIM, &input, r, 128);
        check_same_bits(y, want, PADDED * DIM * sizeof *y, "rows");

        float *gradient = new_normals(2, test.params.total, 1), *sum = new_normals(2, test.params.total, 1);
        for (size_t r = 0; r < ROWS; r++)
            for (size_t c = 0; c < DIM; c++) {
                sum[word->offset + ids[r] * DIM + c] += dy[r * DIM + c];
                sum[position->offset + place(r) * DIM + c] += dy[r * DIM + c];
            }
        embed_backward(&embed, &rows, test.values, (struct slice){gradient, 0}, dy, &input);
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

/* Without learned positions words are the only parameters, start as wide as the sinusoids, and have all the
   gradient. */
static void positions_may_be_sinusoids_or_nothing(void **state)
{
    (void)state;
    uint32_t ids[ROWS];
    const struct input_rows input = {.ids = ids};
    fill_ids(ids);
    for (int kind = POSITIONS_SINUSOIDAL; kind <= POSITIONS_NONE; kind++) {
        struct layer_test test;
        struct embed embed;
        open_embed(
            &test, 2,
            (struct embed_shape){NULL, VOCAB, 0, MAX_LEN, DIM, (enum positions)kind, 0, false, NULL, 0},
            &embed);
        struct rows rows = rows_of(test.kernels, test.pool, 4, offsets, NULL);
        assert_int_equal(test.params.num_rows, 1);
        assert_true(test.params.rows[0].scale == (kind == POSITIONS_NONE ? 0.02f : 1.0f));
        float *y = new_normals(1, PADDED * DIM, 1), *dy = new_normals(4, PADDED * DIM, 1);
        embed_forward(&embed, &rows, test.values, y, &input, 0, PADDED);
        double *want = calloc(PADDED * DIM, sizeof *want);
        float *sum = new_zeros(test.params.total);
        for (size_t r = 0; r < ROWS; r++)
            for (size_t c = 0; c < DIM; c++) {
                bool halves = kind == POSITIONS_HALVES, sine = halves ? 2 * c <= DIM - 1 : c % 2 == 0;
                size_t pair = !halves ? c / 2 : sine ? c : c - (DIM + 1) / 2;
                double turn = (double)place(r) / exp(log(10000) * (double)(2 * pair) / DIM);
                double wave = sine ? sin(turn) : cos(turn);
                want[r * DIM + c] =
                    (double)test.values[ids[r] * DIM + c] + (kind == POSITIONS_NONE ? 0 : wave);
                sum[ids[r] * DIM + c] += dy[r * DIM + c];
            }
        /* The sinusoid and the sum, each rounded once; the error of `turn`, up to 290 in double, is
           negligible. */
        check_near_all(y, want, PADDED * DIM, 2 * EPSILON * largest(y, ROWS * DIM), "rows");
        embed_backward(&embed, &rows, test.values, whole_gradient(&test), dy, &input);
        check_same_bits(test.gradients, sum, test.params.total * sizeof *sum, "gradient");
        free(y), free(dy), free(want), free(sum);
        embed_free(&test.host, &embed);
        layer_test_close(&test);
    }
}

/* A table that is also the output: its rows enter multiplied by sqrt(DIM), and so do their gradients. */
static void a_tied_table_is_scaled(void **state)
{
    (void)state;
    uint32_t ids[ROWS];
    const struct input_rows input = {.ids = ids};
    fill_ids(ids);
    struct layer_test test;
    struct embed embed;
    open_embed(&test, 2, (struct embed_shape){NULL, VOCAB, 0, MAX_LEN, DIM, POSITIONS_NONE, 0, true, NULL, 0},
               &embed);
    struct rows rows = rows_of(test.kernels, test.pool, 4, offsets, NULL);
    float factor = sqrtf(DIM), *y = new_normals(1, PADDED * DIM, 1), *dy = new_normals(4, PADDED * DIM, 1);
    assert_true(test.params.rows[0].scale == 1 / factor);
    embed_forward(&embed, &rows, test.values, y, &input, 0, PADDED);
    embed_backward(&embed, &rows, test.values, whole_gradient(&test), dy, &input);
    double *sum = calloc(VOCAB * DIM, sizeof *sum);
    for (size_t r = 0; r < ROWS; r++)
        for (size_t c = 0; c < DIM; c++) {
            check_near((double)y[r * DIM + c], sqrt(DIM) * (double)test.values[ids[r] * DIM + c],
                       4 * EPSILON * sqrt(DIM), "row");
            sum[ids[r] * DIM + c] += sqrt(DIM) * (double)dy[r * DIM + c];
        }
    check_near_all(test.gradients, sum, VOCAB * DIM, ROWS * EPSILON * largest(test.gradients, VOCAB * DIM),
                   "gradient");
    free(y), free(dy), free(sum);
    layer_test_close(&test);
}

enum { SEGMENTS = 3 };

static void fill_segments(uint8_t *segments)
{
    for (size_t i = 0; i < ROWS; i++) /* they change inside a sequence, and across its end */
        segments[i] = (uint8_t)(i / 5 % SEGMENTS);
}

/* A tied table's factor applies to the words only. */
static void segments_are_added(void **state)
{
    (void)state;
    uint32_t ids[ROWS];
    uint8_t segments[ROWS];
    const struct input_rows input = {.ids = ids, .segments = segments};
    fill_ids(ids);
    fill_segments(segments);
    float *dy = new_normals(4, PADDED * DIM, 1), *first = NULL;
    for (int threads = 1; threads <= 3; threads += 2) {
        struct layer_test test;
        struct embed embed;
        open_embed(
            &test, threads,
            (struct embed_shape){NULL, VOCAB, SEGMENTS, MAX_LEN, DIM, POSITIONS_LEARNED, 0, true, NULL, 0},
            &embed);
        struct rows rows = rows_of(test.kernels, test.pool, 4, offsets, NULL);
        const struct param *segment = param_named(&test.params, "embeddings.token_type_embeddings.weight");
        assert_true(test.params.num_rows == 3 && segment->shape[0] == SEGMENTS && segment->shape[1] == DIM);
        assert_true(segment->start == START_NORMAL && segment->scale == 0.02f);
        float *y = new_normals(1, PADDED * DIM, 1);
        double *want = calloc(PADDED * DIM, sizeof *want), *sum = calloc(test.params.total, sizeof *sum);
        for (size_t r = 0; r < ROWS; r++)
            for (size_t c = 0; c < DIM; c++) {
                size_t word = embed.words + ids[r] * DIM + c, at = embed.positions + place(r) * DIM + c;
                size_t part = segment->offset + segments[r] * DIM + c;
                want[r * DIM + c] = sqrt(DIM) * (double)test.values[word] + (double)test.values[at] +
                                    (double)test.values[part];
                sum[word] += sqrt(DIM) * (double)dy[r * DIM + c];
                sum[at] += (double)dy[r * DIM + c];
                sum[part] += (double)dy[r * DIM + c];
            }
        for (size_t r = 0; r < PADDED; r += 128)
            embed_forward(&embed, &rows, test.values, y + r * DIM, &input, r, 128);
        check_near_all(y, want, PADDED * DIM, 6 * EPSILON * largest(y, ROWS * DIM), "rows");
        embed_backward(&embed, &rows, test.values, whole_gradient(&test), dy, &input);
        check_near_all(test.gradients, sum, test.params.total,
                       ROWS * EPSILON * largest(test.gradients, test.params.total), "gradient");
        if (first != NULL)
            check_same_bits(test.gradients, first, test.params.total * sizeof *first, "1 and 3 threads");
        else
            first = new_zeros(test.params.total);
        memcpy(first, test.gradients, test.params.total * sizeof *first);
        free(y), free(want), free(sum);
        layer_test_close(&test);
    }
    free(first), free(dy);
}

/* Positions begin after the unused rows of the table, which get no gradient; without segment ids all are
   0. */
static void unused_positions_come_first(void **state)
{
    (void)state;
    enum { OFFSET = 2 };
    uint32_t ids[ROWS];
    const struct input_rows input = {.ids = ids};
    fill_ids(ids);
    struct layer_test test;
    struct embed embed;
    open_embed(
        &test, 2,
        (struct embed_shape){NULL, VOCAB, SEGMENTS, MAX_LEN, DIM, POSITIONS_LEARNED, OFFSET, false, NULL, 0},
        &embed);
    struct rows rows = rows_of(test.kernels, test.pool, 4, offsets, NULL);
    const struct param *table = param_named(&test.params, "embeddings.position_embeddings.weight");
    assert_true(table->shape[0] == MAX_LEN + OFFSET && table->shape[1] == DIM);
    float *y = new_normals(1, PADDED * DIM, 1), *dy = new_normals(4, PADDED * DIM, 1);
    embed_forward(&embed, &rows, test.values, y, &input, 0, PADDED);
    embed_backward(&embed, &rows, test.values, whole_gradient(&test), dy, &input);
    double *sum = calloc(test.params.total, sizeof *sum);
    for (size_t r = 0; r < ROWS; r++)
        for (size_t c = 0; c < DIM; c++) {
            size_t at = embed.positions + (place(r) + OFFSET) * DIM + c,
                   word = embed.words + ids[r] * DIM + c;
            double want =
                (double)test.values[word] + (double)test.values[at] + (double)test.values[embed.segments + c];
            check_near((double)y[r * DIM + c], want, 6 * EPSILON, "row");
            sum[at] += (double)dy[r * DIM + c];
            sum[word] += (double)dy[r * DIM + c];
            sum[embed.segments + c] += (double)dy[r * DIM + c];
        }
    check_near_all(test.gradients, sum, test.params.total,
                   ROWS * EPSILON * largest(test.gradients, test.params.total), "gradient");
    free(y), free(dy), free(sum);
    layer_test_close(&test);
}

/* Given rows get positions and segments; rows after the last get nothing. */
static void without_words_rows_are_added_to(void **state)
{
    (void)state;
    uint8_t segments[ROWS];
    const struct input_rows input = {.segments = segments};
    fill_segments(segments);
    struct layer_test test;
    struct embed embed;
    open_embed(&test, 2,
               (struct embed_shape){NULL, 0, SEGMENTS, MAX_LEN, DIM, POSITIONS_LEARNED, 0, false, NULL, 0},
               &embed);
    struct rows rows = rows_of(test.kernels, test.pool, 4, offsets, NULL);
    assert_int_equal(test.params.num_rows, 2);
    float *x = new_normals(1, PADDED * DIM, 1), *y = new_zeros(PADDED * DIM);
    float *want = new_zeros(PADDED * DIM), *dy = new_normals(4, PADDED * DIM, 1);
    float *sum = new_zeros(test.params.total);
    memcpy(y, x, PADDED * DIM * sizeof *y);
    memcpy(want, x, PADDED * DIM * sizeof *y);
    for (size_t r = 0; r < ROWS; r++)
        for (size_t c = 0; c < DIM; c++) {
            size_t at = embed.positions + place(r) * DIM + c, part = embed.segments + segments[r] * DIM + c;
            want[r * DIM + c] += test.values[part];
            want[r * DIM + c] += test.values[at];
            sum[part] += dy[r * DIM + c];
            sum[at] += dy[r * DIM + c];
        }
    for (size_t r = 0; r < PADDED; r += 128)
        embed_forward(&embed, &rows, test.values, y + r * DIM, &input, r, 128);
    check_same_bits(y, want, PADDED * DIM * sizeof *y, "rows");
    embed_backward(&embed, &rows, test.values, whole_gradient(&test), dy, &input);
    check_same_bits(test.gradients, sum, test.params.total * sizeof *sum, "gradient");
    layer_test_close(&test);

    /* Without tables nothing is added and nothing is learned. */
    open_embed(&test, 1, (struct embed_shape){NULL, 0, 0, MAX_LEN, DIM, POSITIONS_NONE, 0, false, NULL, 0},
               &embed);
    rows = rows_of(test.kernels, test.pool, 4, offsets, NULL);
    assert_int_equal(test.params.total, 0);
    memcpy(y, x, PADDED * DIM * sizeof *y);
    embed_forward(&embed, &rows, test.values, y, &(struct input_rows){0}, 0, PADDED);
    check_same_bits(y, x, PADDED * DIM * sizeof *y, "rows");
    embed_backward(&embed, &rows, test.values, whole_gradient(&test), dy, &(struct input_rows){0});
    free(x), free(y), free(want), free(dy), free(sum);
    layer_test_close(&test);
}

static void ids_are_wider_than_16_bits(void **state)
{
    (void)state;
    enum { MANY = 70001 };
    static const uint32_t ids[] = {65535, 65536, 70000, 4464}; /* the last: 70,000 in 16 bits */
    static const size_t one[] = {0, 4};
    const struct input_rows input = {.ids = ids};
    const float dy[] = {1, 2, 3, 4};
    struct layer_test test;
    struct embed embed;
    open_embed(&test, 1, (struct embed_shape){NULL, MANY, 0, 4, 1, POSITIONS_NONE, 0, false, NULL, 0},
               &embed);
    struct rows rows = rows_of(test.kernels, test.pool, 1, one, NULL);
    float y[4];
    embed_forward(&embed, &rows, test.values, y, &input, 0, 4);
    embed_backward(&embed, &rows, test.values, whole_gradient(&test), dy, &input);
    for (size_t r = 0; r < 4; r++) {
        assert_true(y[r] == test.values[embed.words + ids[r]]);
        assert_true(test.gradients[embed.words + ids[r]] == dy[r]);
    }
    layer_test_close(&test);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(embed_adds_word_and_position),
        cmocka_unit_test(positions_may_be_sinusoids_or_nothing),
        cmocka_unit_test(a_tied_table_is_scaled),
        cmocka_unit_test(segments_are_added),
        cmocka_unit_test(unused_positions_come_first),
        cmocka_unit_test(without_words_rows_are_added_to),
        cmocka_unit_test(ids_are_wider_than_16_bits),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
