/* The tied output against its definition in double: losses, hits and both gradients, for chunks that divide
   the words and such that do not, in float32 and bf16, for any threads, alone and packed.
   Bugs tried and caught: dx overwritten by every chunk; labels one off; later or earlier words as large as
   the label's, in its chunk or in others, taken for smaller; gradients of rows that have no label; labels
   read behind the last row; the maximum left out of the logarithm; the bias without gradient; a block of
   words from the first chunk's on; a block's logits from its chunk's beginning; words after the last whole
   block left out; too few tiles of logits; token 0 as a word. SPDX-License-Identifier: Apache-2.0 */
#include "nn/next_token.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "base/random.h"
#include "oracle/oracle_layers.h"
#include "support/check.h"
#include "support/layers.h"

enum { DIM = 12, VOCAB = 150, WORDS = VOCAB - 1, ROWS = 2 * ROW_TILE + 37, PADDED = 3 * ROW_TILE };

struct next_case {
    struct layer_test test;
    struct embed embed;
    struct next_token next;
    struct next_token_space space;
    struct rows rows;
    void *workspace;
    size_t offsets[2];
    float *x, *dx; /* (PADDED, DIM) */
    int32_t labels[PADDED];
    double *exact_x, loss[ROWS];
    float weight;
};

/* Memory of exactly the size asked for, full of NaNs. */
static void lay(struct next_case *c, bool training)
{
    struct arena arena = arena_on(NULL);
    next_token_lay(&c->next, &c->rows, training, &arena);
    free(c->workspace);
    c->workspace = aligned_alloc(64, (arena.used + 127) / 64 * 64);
    memset(c->workspace, 0xff, arena.used);
    arena = arena_on(c->workspace);
    c->space = next_token_lay(&c->next, &c->rows, training, &arena);
}

static void open_case(struct next_case *c, size_t chunk, enum precision precision, int threads)
{
    *c = (struct next_case){.weight = 0.3f};
    layer_test_open(&c->test, threads);
    c->test.params.precision = precision;
    struct host *host = &c->test.host;
    struct params *params = &c->test.params;
    check_status(host, embed_describe(host, params, VOCAB, ROWS, DIM, POSITIONS_NONE, true, &c->embed),
                 HASHATTN_OK, NULL);
    check_status(host, next_token_describe(host, params, &c->embed, &c->next), HASHATTN_OK, NULL);
    assert_true(c->next.words == WORDS && c->next.chunk == NEXT_TOKEN_CHUNK && params->num_rows == 2);
    c->next.chunk = chunk;
    layer_test_start(&c->test, 6);
    c->offsets[1] = ROWS;
    c->rows = rows_of(c->test.kernels, c->test.pool, 1, c->offsets, NULL);
    c->x = new_normals(3, PADDED * DIM, 1);
    c->dx = new_normals(4, PADDED * DIM, 1);
    c->exact_x = new_doubles(c->x, ROWS * DIM);
    struct random random = random_open(9);
    for (size_t r = 0; r < PADDED; r++) /* what stands after the last row must not be looked at */
        c->labels[r] = r % 11 == 3 ? -1 : (int32_t)(1 + random_below(&random, WORDS));
    c->labels[0] = 1;
    c->labels[1] = WORDS;
    c->labels[14] = 0; /* padding is asked nowhere either */
}

static void close_case(struct next_case *c)
{
    free(c->x), free(c->dx), free(c->exact_x), free(c->workspace);
    layer_test_close(&c->test);
}

static const double *exact_table(const struct next_case *c)
{
    return c->test.exact + c->embed.words + DIM; /* token 1 */
}

/* weight times the sum of the losses, through all logits. */
static double oracle_sum(void *user)
{
    struct next_case *c = user;
    double logits[WORDS], sum = 0;
    for (size_t r = 0; r < ROWS; r++) {
        int32_t label = c->labels[r] - 1;
        c->loss[r] = 0;
        if (label < 0)
            continue;
        oracle_dense(logits, c->exact_x + r * DIM, exact_table(c), c->test.exact + c->next.bias, 1, DIM,
                     WORDS);
        c->loss[r] = oracle_cross_entropy(logits, &label, 1, WORDS);
        sum += c->loss[r];
    }
    return (double)c->weight * sum;
}

/* The derivatives by hand: p - 1 at the label, times the other factor. */
static void oracle_gradients(struct next_case *c, double *dx, double *dtable, double *dbias)
{
    double logits[WORDS];
    for (size_t r = 0; r < ROWS; r++) {
        double sum = 0;
        if (c->labels[r] < 1)
            continue;
        oracle_dense(logits, c->exact_x + r * DIM, exact_table(c), c->test.exact + c->next.bias, 1, DIM,
                     WORDS);
        for (size_t w = 0; w < WORDS; w++)
            sum += exp(logits[w]);
        for (size_t w = 0; w < WORDS; w++) {
            double d = (double)c->weight * (exp(logits[w]) / sum - (c->labels[r] == (int32_t)w + 1 ? 1 : 0));
            dbias[w] += d;
            for (size_t k = 0; k < DIM; k++) {
                dx[r * DIM + k] += d * exact_table(c)[w * DIM + k];
                dtable[w * DIM + k] += d * c->exact_x[r * DIM + k];
            }
        }
    }
}

/* Roundings of a logit: DIM products of two numbers of about 3 at most; then of the sum over the words. */
static const double logit_bound = (DIM + 4) * EPSILON * DIM * 3, loss_bound = (DIM + 60) * EPSILON * DIM * 3;

static void check_case(struct next_case *c, double rounding)
{
    double *dx = calloc(PADDED * DIM, sizeof *dx), *dtable = calloc(WORDS * DIM, sizeof *dtable);
    double dbias[WORDS] = {0}, want = oracle_sum(c);
    lay(c, true);
    double sum = next_token_forward(&c->next, &c->rows, c->test.values, &c->space, c->x, c->labels);
    check_near(sum * (double)c->weight, want, ROWS * (loss_bound + rounding), "sum of losses");
    for (size_t r = 0; r < ROWS; r++)
        check_near(c->space.loss[r], c->loss[r], loss_bound + rounding, "loss of a row");
    for (size_t r = ROWS; r < PADDED; r++)
        assert_true(c->space.loss[r] == 0 && c->space.correct[r] == 0);
    float *gradients = c->test.gradients;
    float padding_row = gradients[c->embed.words] = 7; /* that of token 0, which nothing touches */
    gradients[c->next.bias] = 1;                       /* added to, not overwritten */
    next_token_backward(&c->next, &c->rows, c->test.values, whole_gradient(&c->test), &c->space, c->dx, c->x,
                        c->labels, c->weight);
    oracle_gradients(c, dx, dtable, dbias);
    dbias[0] += 1;
    /* A chance is off by its logit's error; rows and words of them are added. */
    double bound = (double)c->weight * (4 * logit_bound + 2 * rounding);
    check_near_all(c->dx, dx, PADDED * DIM, bound * 10, "dx");
    check_near_all(gradients + c->next.weight, dtable, WORDS * DIM, bound * 10 + ROWS * EPSILON, "table");
    check_near_all(gradients + c->next.bias, dbias, WORDS, bound * 10 + ROWS * EPSILON, "bias");
    assert_true(gradients[c->embed.words] == padding_row);
    for (size_t k = ROWS * DIM; k < PADDED * DIM; k++)
        assert_true(c->dx[k] == 0);
    free(dx), free(dtable);
}

static const size_t chunks[] = {1, 7, 64, 100, WORDS, 256};

static void losses_and_gradients_are_right(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof chunks / sizeof chunks[0]; i++) {
        struct next_case c;
        open_case(&c, chunks[i], PRECISION_FLOAT32, 2);
        check_case(&c, 0);
        close_case(&c);
    }
}

/* The oracle's hand-made gradients, and so ours, are those of its loss. */
static void gradients_are_differences(void **state)
{
    (void)state;
    struct next_case c;
    open_case(&c, 40, PRECISION_FLOAT32, 1);
    lay(&c, true);
    next_token_forward(&c.next, &c.rows, c.test.values, &c.space, c.x, c.labels);
    next_token_backward(&c.next, &c.rows, c.test.values, whole_gradient(&c.test), &c.space, c.dx, c.x,
                        c.labels, c.weight);
    double bound = (double)c.weight * 40 * logit_bound + ROWS * EPSILON;
    check_derivatives(c.dx, c.exact_x, 5 * DIM, oracle_sum, &c, bound, "dx");
    check_derivatives(c.test.gradients + c.next.weight, c.test.exact + c.next.weight, 9 * DIM, oracle_sum, &c,
                      bound, "table");
    check_derivatives(c.test.gradients + c.next.bias, c.test.exact + c.next.bias, WORDS, oracle_sum, &c,
                      bound, "bias");
    close_case(&c);
}

/* Rounding both operands moves a logit by at most 2^-8 of the sum of the sizes of its DIM terms. */
static void bf16_is_float32_rounded(void **state)
{
    (void)state;
    struct next_case c;
    open_case(&c, 100, PRECISION_BF16, 2);
    check_case(&c, ldexp(DIM, -8));
    lay(&c, false);
    double sum = next_token_forward(&c.next, &c.rows, c.test.values, &c.space, c.x, c.labels);
    assert_true(fabs(sum * (double)c.weight - oracle_sum(&c)) > 1e-6); /* it does round */
    close_case(&c);
}

static void threads_and_evaluation_change_no_bit(void **state)
{
    (void)state;
    for (int precision = 0; precision < PRECISION_COUNT; precision++) {
        float *dx = NULL, *gradients = NULL;
        double loss[ROWS];
        for (int threads = 1; threads <= 4; threads++) { /* the last with more threads than tiles */
            struct next_case c;
            open_case(&c, 40, (enum precision)precision, threads);
            size_t bytes = c.test.params.total * sizeof(float);
            lay(&c, true);
            next_token_forward(&c.next, &c.rows, c.test.values, &c.space, c.x, c.labels);
            next_token_backward(&c.next, &c.rows, c.test.values, whole_gradient(&c.test), &c.space, c.dx, c.x,
                                c.labels, c.weight);
            if (threads == 1) {
                dx = malloc(PADDED * DIM * sizeof *dx);
                gradients = malloc(bytes);
                memcpy(dx, c.dx, PADDED * DIM * sizeof *dx);
                memcpy(gradients, c.test.gradients, bytes);
                memcpy(loss, c.space.loss, sizeof loss);
            }
            check_same_bits(loss, c.space.loss, sizeof loss, "losses");
            check_same_bits(dx, c.dx, PADDED * DIM * sizeof *dx, "dx");
            check_same_bits(gradients, c.test.gradients, bytes, "gradients");
            lay(&c, false);
            next_token_forward(&c.next, &c.rows, c.test.values, &c.space, c.x, c.labels);
            check_same_bits(loss, c.space.loss, sizeof loss, "losses in evaluation");
            close_case(&c);
        }
        free(dx), free(gradients);
    }
}

/* A row's loss is the same wherever it stands. */
static void a_row_is_the_same_alone_and_packed(void **state)
{
    (void)state;
    struct next_case c;
    double loss[ROWS];
    open_case(&c, 40, PRECISION_FLOAT32, 2);
    lay(&c, false);
    next_token_forward(&c.next, &c.rows, c.test.values, &c.space, c.x, c.labels);
    memcpy(loss, c.space.loss, sizeof loss);
    for (size_t first = 1; first < ROWS; first += 173) {
        size_t count = ROWS - first < 200 ? ROWS - first : 200;
        c.offsets[1] = count;
        c.rows = rows_of(c.test.kernels, c.test.pool, 1, c.offsets, NULL);
        float *x = new_zeros(c.rows.padded * DIM);
        memcpy(x, c.x + first * DIM, count * DIM * sizeof *x);
        lay(&c, false);
        next_token_forward(&c.next, &c.rows, c.test.values, &c.space, x, c.labels + first);
        check_same_bits(c.space.loss, loss + first, count * sizeof *loss, "rows from another place on");
        free(x);
    }
    close_case(&c);
}

/* A hit is the first of the largest logits, in whatever chunk the others are. */
static void the_first_of_the_largest_counts(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof chunks / sizeof chunks[0]; i++) {
        struct next_case c;
        open_case(&c, chunks[i], PRECISION_FLOAT32, 1);
        float *table = c.test.values + c.next.weight, *bias = c.test.values + c.next.bias;
        memset(table, 0, WORDS * DIM * sizeof *table);
        memset(bias, 0, WORDS * sizeof *bias);
        bias[20] = bias[21] = bias[90] = 2; /* largest: ids 21, 22 and 91 */
        static const int32_t labels[] = {20, 21, 22, 23, 91, 149, 1};
        for (size_t r = 0; r < ROWS; r++)
            c.labels[r] = r < 7 ? labels[r] : 0;
        lay(&c, false);
        double sum = next_token_forward(&c.next, &c.rows, c.test.values, &c.space, c.x, c.labels);
        for (size_t r = 0; r < ROWS; r++)
            assert_int_equal(c.space.correct[r], r == 1);
        double all = log(WORDS - 3 + 3 * exp(2));
        check_near(sum, 7 * all - 3 * 2, 7 * loss_bound, "sum");
        close_case(&c);
    }
}

/* Logits far beyond what exp takes. */
static void large_logits_do_not_overflow(void **state)
{
    (void)state;
    struct next_case c;
    open_case(&c, 40, PRECISION_FLOAT32, 1);
    float *bias = c.test.values + c.next.bias;
    for (size_t w = 0; w < WORDS; w++)
        bias[w] = w % 3 == 0 ? 1e4f : -1e4f + (float)w;
    lay(&c, false);
    next_token_forward(&c.next, &c.rows, c.test.values, &c.space, c.x, c.labels);
    for (size_t r = 0; r < ROWS; r++) {
        double logits[WORDS], most = -INFINITY, sum = 0;
        if (c.labels[r] < 1)
            continue;
        oracle_dense(logits, c.exact_x + r * DIM, exact_table(&c), c.test.exact + c.next.bias, 1, DIM, WORDS);
        for (size_t w = 0; w < WORDS; w++) {
            logits[w] += (double)bias[w] - c.test.exact[c.next.bias + w];
            most = fmax(most, logits[w]);
        }
        for (size_t w = 0; w < WORDS; w++)
            sum += exp(logits[w] - most);
        double want = log(sum) + most - logits[c.labels[r] - 1];
        check_near(c.space.loss[r], want, 3 * EPSILON * 2e4 + loss_bound, "loss");
    }
    close_case(&c);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(losses_and_gradients_are_right),
        cmocka_unit_test(gradients_are_differences),
        cmocka_unit_test(bf16_is_float32_rounded),
        cmocka_unit_test(threads_and_evaluation_change_no_bit),
        cmocka_unit_test(a_row_is_the_same_alone_and_packed),
        cmocka_unit_test(the_first_of_the_largest_counts),
        cmocka_unit_test(large_logits_do_not_overflow),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
