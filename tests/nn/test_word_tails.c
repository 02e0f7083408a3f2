/* Words in a head and tails: cutoffs are read or refused with the numbers; the embedding of a word and its
   gradients match their definition in double and its differences, with tails of the model's width and
   narrower ones, for any number of threads and any place in the batch. Bugs planted and caught: a tail that
   begins one id late; ids of later tails taken for this one's; the factor of tied tables left out of the
   rows, of the word's gradient, or of the projection's; the projection read from its first row, or its
   gradient given there, for all columns; the last columns of a tail left out; the gradient of a tail's word
   given to the head too; the rows of the classes left out of the table; words that start as those of the
   head; a cutoff equal to the number of ids accepted; a tail without columns accepted.
   SPDX-License-Identifier: Apache-2.0 */
#include "nn/word_tails.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "nn/embed.h"
#include "support/check.h"
#include "support/layers.h"

enum { VOCAB = 61, HEAD = 20, DIM = 37, ROWS = 230, PADDED = 240 };

static void cutoffs_are_read(void **state)
{
    (void)state;
    struct host host;
    struct word_tails tails;
    host_init(&host);
    check_status(&host, word_tails_read(&host, "20,45", 4, VOCAB, DIM, &tails), HASHATTN_OK, NULL);
    assert_true(tails.count == 2 && tails.head == 20 && tails.dim == DIM);
    assert_true(tails.list[0].first == 20 && tails.list[0].words == 25 && tails.list[0].dim == 9);
    assert_true(tails.list[1].first == 45 && tails.list[1].words == 16 && tails.list[1].dim == 2);
    assert_true(tails.list[0].projected && tails.list[1].projected);
    assert_null(word_tails_find(&tails, 0));
    assert_null(word_tails_find(&tails, 19));
    assert_ptr_equal(word_tails_find(&tails, 20), &tails.list[0]);
    assert_ptr_equal(word_tails_find(&tails, 44), &tails.list[0]);
    assert_ptr_equal(word_tails_find(&tails, 45), &tails.list[1]);
    assert_ptr_equal(word_tails_find(&tails, 60), &tails.list[1]);
    check_status(&host, word_tails_read(&host, "60", 1, VOCAB, DIM, &tails), HASHATTN_OK, NULL);
    assert_true(tails.count == 1 && tails.list[0].words == 1 && tails.list[0].dim == DIM);
    assert_false(tails.list[0].projected);
    check_status(&host, word_tails_read(&host, "", 4, VOCAB, DIM, &tails), HASHATTN_OK, NULL);
    assert_int_equal(tails.count, 0);
    assert_null(word_tails_find(&tails, 60));
}

static void bad_cutoffs_are_refused(void **state)
{
    (void)state;
    static const struct {
        const char *cutoffs;
        size_t div_value, vocab_size;
        const char *part;
    } cases[] = {
        {"20,x", 4, VOCAB, "cutoffs is '20,x', it must be numbers of ids such as 20000,60000"},
        {"20,", 4, VOCAB, "cutoffs is '20,', it must be numbers"},
        {",20", 4, VOCAB, "it must be numbers"},
        {"20 45", 4, VOCAB, "it must be numbers"},
        {"-20", 4, VOCAB, "it must be numbers"},
        {"99999999999999999999999", 4, VOCAB, "it must be numbers"},
        {"0", 4, VOCAB, "cutoffs is '0', and 0 is not above 0"},
        {"20,20", 4, VOCAB, "cutoffs is '20,20', and 20 is not above 20"},
        {"45,20", 4, VOCAB, "cutoffs is '45,20', and 20 is not above 45"},
        {"20,61", 4, VOCAB, "cutoffs is '20,61', and 61 is not below the 61 ids of the vocabulary"},
        {"20", 4, 0, "20 is not below the 0 ids"},
        {"1,2,3,4,5,6,7", 1, VOCAB, "cutoffs is '1,2,3,4,5,6,7', at most 6 numbers are allowed"},
        {"20,45", 7, VOCAB, "div_value 7: words of tail 2 would have 5 / 7 = 0 columns"},
    };
    struct host host;
    struct word_tails tails;
    host_init(&host);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        check_status(
            &host,
            word_tails_read(&host, cases[i].cutoffs, cases[i].div_value, cases[i].vocab_size, DIM, &tails),
            HASHATTN_INVALID, cases[i].part);
}

/* ---- passes ------------------------------------------------------------------------------------------- */

struct tails_case {
    struct layer_test test;
    struct embed embed;
    struct rows rows;
    size_t offsets[2];
    uint32_t ids[ROWS];
    float *y, *dy;
};

static void open_case(struct tails_case *c, const char *cutoffs, size_t div_value, int threads)
{
    const struct embed_shape shape = {.vocab_size = VOCAB,
                                      .max_len = ROWS,
                                      .dim = DIM,
                                      .positions = POSITIONS_NONE,
                                      .tied = true,
                                      .cutoffs = cutoffs,
                                      .div_value = div_value};
    memset(c, 0, sizeof *c);
    layer_test_open(&c->test, threads);
    layer_test_shift(&c->test);
    check_status(&c->test.host, embed_describe(&c->test.host, &c->test.params, &shape, &c->embed),
                 HASHATTN_OK, NULL);
    layer_test_start(&c->test, 8);
    c->offsets[1] = ROWS;
    c->rows = rows_of(c->test.kernels, c->test.pool, 1, c->offsets, NULL);
    for (size_t i = 0; i < ROWS; i++)
        c->ids[i] = (uint32_t)(i * 7 % VOCAB);
    c->ids[0] = HEAD - 1;
    c->ids[1] = HEAD;
    c->ids[2] = VOCAB - 1;
    c->y = new_normals(1, PADDED * DIM, 1);
    c->dy = new_normals(4, PADDED * DIM, 1);
}

static void close_case(struct tails_case *c)
{
    free(c->y), free(c->dy);
    layer_test_close(&c->test);
}

/* y (ROWS, DIM), by definition. */
static void oracle_rows(const struct tails_case *c, double *y)
{
    const struct embed *embed = &c->embed;
    const double *values = c->test.exact, scale = sqrt(DIM);
    for (size_t r = 0; r < ROWS; r++)
        for (size_t k = 0; k < DIM; k++) {
            size_t id = c->ids[r], tail = 0;
            while (tail < embed->tails.count && id >= embed->tails.list[tail].first)
                tail++;
            const struct word_tail *t = &embed->tails.list[tail - (tail > 0)];
            const double *word =
                tail == 0 ? values + embed->words + id * DIM : values + t->table + (id - t->first) * t->dim;
            double sum = tail == 0 || !t->projected ? word[k] : 0;
            for (size_t j = 0; tail > 0 && t->projected && j < t->dim; j++)
                sum += word[j] * values[t->projection + j * DIM + k];
            y[r * DIM + k] = scale * sum;
        }
}

static double oracle_sum(void *user)
{
    const struct tails_case *c = user;
    double *y = calloc(ROWS * DIM, sizeof *y);
    oracle_rows(c, y);
    double sum = inner(c->dy, y, ROWS * DIM);
    free(y);
    return sum;
}

static void words_and_gradients_match_their_definition(void **state)
{
    (void)state;
    for (size_t div = 1; div <= 4; div += 3) {
        struct tails_case c;
        open_case(&c, "20,45", div, 2);
        const struct params *params = &c.test.params;
        assert_int_equal(params->num_rows, div == 1 ? 4 : 6);
        const struct param *head = param_named(params, "embeddings.word_embeddings.weight");
        const struct param *second = param_named(params, "embeddings.word_embeddings.2.weight");
        assert_true(head->shape[0] == HEAD + 2 && head->shape[1] == DIM);
        assert_true(second->shape[0] == 16 && second->shape[1] == (div == 1 ? DIM : 2));
        check_near((double)second->scale, div == 1 ? 1 / sqrt(DIM) : 1 / sqrt(2), 1e-6, "start of words");
        if (div > 1) {
            const struct param *turn = param_named(params, "embeddings.word_embeddings.1.projection");
            assert_true(turn->shape[0] == 9 && turn->shape[1] == DIM);
            check_near((double)turn->scale, 1 / sqrt(DIM), 1e-6, "start of projections");
        }
        const struct input_rows input = {.ids = c.ids};
        double *want = calloc(PADDED * DIM, sizeof *want), size = 0;
        embed_forward(&c.embed, &c.rows, c.test.values, c.y, &input, 0, PADDED);
        oracle_rows(&c, want);
        check_near_all(c.y, want, PADDED * DIM, 40 * 12 * EPSILON, "words");
        for (size_t k = 0; k < ROWS * DIM; k++)
            size += want[k] * want[k];
        assert_true(fabs(size / (ROWS * DIM) - 1) < 0.5); /* rows enter the model with a deviation of 1 */
        embed_backward(&c.embed, &c.rows, c.test.values, whole_gradient(&c.test), c.dy, &input);
        for (size_t i = 0; i < params->num_rows; i++) {
            const struct param *row = &params->rows[i];
            check_derivatives(c.test.gradients + row->offset, c.test.exact + row->offset, row->count,
                              oracle_sum, &c, ROWS * 60 * EPSILON, row->name);
        }
        for (size_t k = 0; k < 2 * DIM; k++) /* the classes are no words */
            assert_true(c.test.gradients[c.embed.words + HEAD * DIM + k] == 0);
        free(want);
        close_case(&c);
    }
}

static void threads_and_places_change_no_bit(void **state)
{
    (void)state;
    for (size_t div = 1; div <= 4; div += 3) {
        float *gradients = NULL;
        for (int threads = 1; threads <= 4; threads++) {
            struct tails_case c;
            open_case(&c, "20,45", div, threads);
            const struct input_rows input = {.ids = c.ids};
            size_t bytes = c.test.params.total * sizeof *gradients;
            embed_forward(&c.embed, &c.rows, c.test.values, c.y, &input, 0, PADDED);
            embed_backward(&c.embed, &c.rows, c.test.values, whole_gradient(&c.test), c.dy, &input);
            if (gradients == NULL)
                gradients = memcpy(malloc(bytes), c.test.gradients, bytes);
            check_same_bits(gradients, c.test.gradients, bytes, "gradients");
            for (size_t r = 1; r < ROWS; r += 30) { /* alone */
                float alone[DIM];
                struct input_rows one = {.ids = c.ids + r};
                const size_t offsets[] = {0, 1};
                struct rows rows = rows_of(c.test.kernels, c.test.pool, 1, offsets, NULL);
                embed_forward(&c.embed, &rows, c.test.values, alone, &one, 0, 1);
                check_same_bits(alone, c.y + r * DIM, sizeof alone, "a row alone");
            }
            close_case(&c);
        }
        free(gradients);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(cutoffs_are_read),
        cmocka_unit_test(bad_cutoffs_are_refused),
        cmocka_unit_test(words_and_gradients_match_their_definition),
        cmocka_unit_test(threads_and_places_change_no_bit),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
