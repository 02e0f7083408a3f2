/* The tied output against its definition in double: losses, hits and both gradients, for chunks that divide
   the words and chunks that do not, in float32 and bf16, for any number of threads, alone and packed. Bugs
   planted and caught: dx overwritten by every chunk; labels one off; earlier or later words as large as the
   label's, in its chunk or in others, taken for smaller; gradients of rows without a label; labels read after
   the last row; the maximum left out of the logarithm; the bias without gradient; a block of words from the
   first chunk's on; a block's logits from its chunk's beginning; words after the last whole block left out;
   too few tiles of logits; ids below the first predicted; a first id of 0 taken for 1; weights left out of
   the sum, or of the gradients; rows of weight 0 counted as hits; rows ignored if weights are NULL; dx
   overwritten instead of added; backward with maximum and logarithm of the sum as one number.
   SPDX-License-Identifier: Apache-2.0 */
#include "nn/outputs/tied_output.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "base/random.h"
#include "oracle/oracle_layers.h"
#include "support/check.h"
#include "support/layers.h"

enum {
    DIM = 12,
    VOCAB = 150,
    FIRST = 1,
    WORDS = VOCAB - FIRST,
    ROWS = 2 * ROW_TILE + 37,
    PADDED = (ROWS + ROW_STEP - 1) / ROW_STEP * ROW_STEP
};

struct next_case {
    struct layer_test test;
    struct embed embed;
    struct tied_output next;
    struct tied_output_space space;
    struct rows rows;
    void *workspace;
    size_t offsets[2];
    float *x, *dx; /* (PADDED, DIM) */
    uint32_t ids[PADDED];
    float weights[PADDED];
    struct row_ids targets;
    double *exact_x, loss[ROWS];
    float weight;
};

/* Memory of exactly the requested size, full of NaNs. */
static void lay(struct next_case *c, bool training)
{
    struct arena arena = arena_on(NULL);
    tied_output_lay(&c->next, &c->rows, training, &arena);
    free(c->workspace);
    c->workspace = aligned_alloc(64, (arena.used + 127) / 64 * 64);
    memset(c->workspace, 0xff, arena.used);
    arena = arena_on(c->workspace);
    c->space = tied_output_lay(&c->next, &c->rows, training, &arena);
}

static void open_case(struct next_case *c, size_t chunk, enum precision precision, int threads)
{
    *c = (struct next_case){.weight = 0.3f};
    layer_test_open(&c->test, threads);
    layer_test_shift(&c->test);
    c->test.params.precision = precision;
    struct host *host = &c->test.host;
    struct params *params = &c->test.params;
    const struct embed_shape shape = {
        .vocab_size = VOCAB, .max_len = ROWS, .dim = DIM, .positions = POSITIONS_NONE, .tied = true};
    check_status(host, embed_describe(host, params, &shape, &c->embed), HASHATTN_OK, NULL);
    check_status(host, tied_output_describe(host, params, &c->embed, FIRST, &c->next), HASHATTN_OK, NULL);
    assert_true(c->next.words == WORDS && c->next.chunk == TIED_OUTPUT_CHUNK && params->num_rows == 3);
    c->next.chunk = chunk;
    layer_test_start(&c->test, 6);
    c->offsets[1] = ROWS;
    c->rows = rows_of(c->test.kernels, c->test.pool, 1, c->offsets, NULL);
    c->x = new_normals(3, PADDED * DIM, 1);
    c->dx = new_normals(4, PADDED * DIM, 1);
    c->exact_x = new_doubles(c->x, ROWS * DIM);
    struct random random = random_open(9);
    static const float weights[] = {1, 0.25f, 3};
    for (size_t r = 0; r < PADDED; r++) { /* everything after the last row must be ignored */
        c->weights[r] = r % 11 == 3 ? 0 : weights[r % 3];
        c->ids[r] = FIRST + random_below(&random, WORDS);
        if (c->weights[r] == 0) /* the id of a row without a target is invalid, or looks valid */
            c->ids[r] = r % 2 == 0 ? UINT32_MAX : c->ids[r];
    }
    c->ids[0] = FIRST;
    c->ids[1] = VOCAB - 1;
    c->targets = (struct row_ids){c->ids, c->weights};
}

static void close_case(struct next_case *c)
{
    free(c->x), free(c->dx), free(c->exact_x), free(c->workspace);
    layer_test_close(&c->test);
}

static const double *exact_table(const struct next_case *c)
{
    return c->test.exact + c->embed.words + FIRST * DIM;
}

/* weight times the weighted sum of the losses, through all logits. */
static double oracle_sum(void *user)
{
    struct next_case *c = user;
    double logits[WORDS], sum = 0;
    for (size_t r = 0; r < ROWS; r++) {
        int32_t label = (int32_t)(c->ids[r] - FIRST);
        c->loss[r] = 0;
        if (c->weights[r] == 0)
            continue;
        oracle_dense(logits, c->exact_x + r * DIM, exact_table(c), c->test.exact + c->next.bias, 1, DIM,
                     WORDS);
        c->loss[r] = oracle_cross_entropy(logits, &label, 1, WORDS);
        sum += (double)c->weights[r] * c->loss[r];
    }
    return (double)c->weight * sum;
}

/* The derivatives by hand: p - 1 at the label, times the other factor. */
static void oracle_gradients(struct next_case *c, double *dx, double *dtable, double *dbias)
{
    double logits[WORDS];
    for (size_t r = 0; r < ROWS; r++) {
        double sum = 0, weight = (double)c->weight * (double)c->weights[r];
        if (weight == 0)
            continue;
        oracle_dense(logits, c->exact_x + r * DIM, exact_table(c), c->test.exact + c->next.bias, 1, DIM,
                     WORDS);
        for (size_t w = 0; w < WORDS; w++)
            sum += exp(logits[w]);
        for (size_t w = 0; w < WORDS; w++) {
            double d = weight * (exp(logits[w]) / sum - (c->ids[r] == FIRST + w ? 1 : 0));
            dbias[w] += d;
            for (size_t k = 0; k < DIM; k++) {
                dx[r * DIM + k] += d * exact_table(c)[w * DIM + k];
                dtable[w * DIM + k] += d * c->exact_x[r * DIM + k];
            }
        }
    }
}

/* Roundings of a logit: DIM products of two numbers of about 3 at most; then those of the sum over the
   words. */
static const double logit_bound = (DIM + 4) * EPSILON * DIM * 3, loss_bound = (DIM + 60) * EPSILON * DIM * 3;

static void check_case(struct next_case *c, double rounding)
{
    double *dx = calloc(PADDED * DIM, sizeof *dx), *dtable = calloc(WORDS * DIM, sizeof *dtable);
    double dbias[WORDS] = {0}, want = oracle_sum(c);
    lay(c, true);
    double sum = tied_output_forward(&c->next, &c->rows, c->test.values, &c->space, c->x, &c->targets);
    check_near(sum * (double)c->weight, want, 2 * ROWS * (loss_bound + rounding), "sum of losses");
    for (size_t r = 0; r < ROWS; r++)
        check_near(c->space.loss[r], c->loss[r], loss_bound + rounding, "loss of a row");
    for (size_t r = ROWS; r < PADDED; r++)
        assert_true(c->space.loss[r] == 0 && c->space.correct[r] == 0);
    for (size_t r = 0; r < ROWS; r++)
        assert_true(c->weights[r] != 0 || (c->space.loss[r] == 0 && c->space.correct[r] == 0));
    float *gradients = c->test.gradients;
    float unused = gradients[c->embed.words] = 7; /* the bias of id 0, which must stay */
    gradients[c->next.bias] = 1;                  /* must be added to, not overwritten */
    tied_output_backward(&c->next, &c->rows, c->test.values, whole_gradient(&c->test), &c->space, c->dx,
                         false, c->x, &c->targets, c->weight);
    oracle_gradients(c, dx, dtable, dbias);
    dbias[0] += 1;
    /* The error of a probability is that of its logit; rows and words of them are added. */
    double bound = 3 * (double)c->weight * (4 * logit_bound + 2 * rounding);
    check_near_all(c->dx, dx, PADDED * DIM, bound * 10, "dx");
    check_near_all(gradients + c->next.weight, dtable, WORDS * DIM, bound * 10 + ROWS * EPSILON, "table");
    check_near_all(gradients + c->next.bias, dbias, WORDS, bound * 10 + ROWS * EPSILON, "bias");
    assert_true(gradients[c->embed.words] == unused);
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

/* The oracle's gradients match differences of its loss, so ours do too. */
static void gradients_are_differences(void **state)
{
    (void)state;
    struct next_case c;
    open_case(&c, 40, PRECISION_FLOAT32, 1);
    lay(&c, true);
    tied_output_forward(&c.next, &c.rows, c.test.values, &c.space, c.x, &c.targets);
    tied_output_backward(&c.next, &c.rows, c.test.values, whole_gradient(&c.test), &c.space, c.dx, false, c.x,
                         &c.targets, c.weight);
    double bound = 3 * (double)c.weight * 40 * logit_bound + ROWS * EPSILON;
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
    double sum = tied_output_forward(&c.next, &c.rows, c.test.values, &c.space, c.x, &c.targets);
    assert_true(fabs(sum * (double)c.weight - oracle_sum(&c)) > 1e-6); /* it does round */
    close_case(&c);
}

static void threads_and_evaluation_change_no_bit(void **state)
{
    (void)state;
    for (int precision = 0; precision < PRECISION_COUNT; precision++) {
        float *dx = NULL, *gradients = NULL;
        double loss[ROWS];
        for (int threads = 1; threads <= 4; threads++) { /* the last has more threads than tiles */
            struct next_case c;
            open_case(&c, 40, (enum precision)precision, threads);
            size_t bytes = c.test.params.total * sizeof(float);
            lay(&c, true);
            tied_output_forward(&c.next, &c.rows, c.test.values, &c.space, c.x, &c.targets);
            tied_output_backward(&c.next, &c.rows, c.test.values, whole_gradient(&c.test), &c.space, c.dx,
                                 false, c.x, &c.targets, c.weight);
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
            tied_output_forward(&c.next, &c.rows, c.test.values, &c.space, c.x, &c.targets);
            check_same_bits(loss, c.space.loss, sizeof loss, "losses in evaluation");
            close_case(&c);
        }
        free(dx), free(gradients);
    }
}

/* A row's loss is the same in any batch. */
static void a_row_is_the_same_alone_and_packed(void **state)
{
    (void)state;
    struct next_case c;
    double loss[ROWS];
    open_case(&c, 40, PRECISION_FLOAT32, 2);
    lay(&c, false);
    tied_output_forward(&c.next, &c.rows, c.test.values, &c.space, c.x, &c.targets);
    memcpy(loss, c.space.loss, sizeof loss);
    for (size_t first = 1; first < ROWS; first += 173) {
        size_t count = ROWS - first < 200 ? ROWS - first : 200;
        c.offsets[1] = count;
        c.rows = rows_of(c.test.kernels, c.test.pool, 1, c.offsets, NULL);
        float *x = new_zeros(c.rows.padded * DIM);
        memcpy(x, c.x + first * DIM, count * DIM * sizeof *x);
        lay(&c, false);
        const struct row_ids targets = {c.ids + first, c.weights + first};
        tied_output_forward(&c.next, &c.rows, c.test.values, &c.space, x, &targets);
        check_same_bits(c.space.loss, loss + first, count * sizeof *loss, "rows from another place on");
        free(x);
    }
    close_case(&c);
}

/* A hit is the first of the largest logits, whichever chunks the others are in. */
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
        static const uint32_t ids[] = {20, 21, 22, 23, 91, 149, 1};
        for (size_t r = 0; r < ROWS; r++) {
            c.ids[r] = r < 7 ? ids[r] : 21;
            c.weights[r] = r < 7;
        }
        lay(&c, false);
        double sum = tied_output_forward(&c.next, &c.rows, c.test.values, &c.space, c.x, &c.targets);
        for (size_t r = 0; r < ROWS; r++)
            assert_int_equal(c.space.correct[r], r == 1);
        double all = log(WORDS - 3 + 3 * exp(2));
        check_near(sum, 7 * all - 3 * 2, 7 * loss_bound, "sum");
        close_case(&c);
    }
}

/* Logits far beyond the range of exp. */
static void large_logits_do_not_overflow(void **state)
{
    (void)state;
    struct next_case c;
    open_case(&c, 40, PRECISION_FLOAT32, 1);
    float *bias = c.test.values + c.next.bias;
    for (size_t w = 0; w < WORDS; w++)
        bias[w] = w % 3 == 0 ? 1e4f : -1e4f + (float)w;
    lay(&c, false);
    tied_output_forward(&c.next, &c.rows, c.test.values, &c.space, c.x, &c.targets);
    for (size_t r = 0; r < ROWS; r++) {
        double logits[WORDS], most = -INFINITY, sum = 0;
        if (c.weights[r] == 0)
            continue;
        oracle_dense(logits, c.exact_x + r * DIM, exact_table(&c), c.test.exact + c.next.bias, 1, DIM, WORDS);
        for (size_t w = 0; w < WORDS; w++) {
            logits[w] += (double)bias[w] - c.test.exact[c.next.bias + w];
            most = fmax(most, logits[w]);
        }
        for (size_t w = 0; w < WORDS; w++)
            sum += exp(logits[w] - most);
        double want = log(sum) + most - logits[c.ids[r] - FIRST];
        check_near(c.space.loss[r], want, 3 * EPSILON * 2e4 + loss_bound, "loss");
    }
    close_case(&c);
}

/* Logits so large that the logarithm of their sum is less than one rounding of them: every word has
   probability 1 / WORDS. */
static void chances_of_large_logits_sum_to_one(void **state)
{
    (void)state;
    struct next_case c;
    open_case(&c, 40, PRECISION_FLOAT32, 1);
    float *table = c.test.values + c.next.weight, *bias = c.test.values + c.next.bias;
    double want[WORDS] = {0}, total = 0;
    memset(table, 0, WORDS * DIM * sizeof *table);
    for (size_t w = 0; w < WORDS; w++)
        bias[w] = 1e8f;
    for (size_t r = 0; r < ROWS; r++) {
        double weight = (double)c.weights[r];
        total += weight;
        for (size_t w = 0; w < WORDS && weight != 0; w++)
            want[w] += (double)c.weight * weight * (1.0 / WORDS - (c.ids[r] == FIRST + w));
    }
    lay(&c, true);
    double sum = tied_output_forward(&c.next, &c.rows, c.test.values, &c.space, c.x, &c.targets);
    check_near(sum, total * log(WORDS), total * loss_bound, "sum of losses");
    tied_output_backward(&c.next, &c.rows, c.test.values, whole_gradient(&c.test), &c.space, c.dx, false, c.x,
                         &c.targets, c.weight);
    check_near_all(c.test.gradients + c.next.bias, want, WORDS, 4 * ROWS * EPSILON, "bias");
    close_case(&c);
}

/* Without weights every row has a target, with weight 1. */
static void no_weights_are_weights_of_one(void **state)
{
    (void)state;
    struct next_case c;
    open_case(&c, 40, PRECISION_FLOAT32, 2);
    for (size_t r = 0; r < PADDED; r++) {
        c.ids[r] = FIRST + (uint32_t)(r * 7 % WORDS);
        c.weights[r] = 1;
    }
    size_t bytes = c.test.params.total * sizeof(float);
    float *dx = new_zeros(PADDED * DIM), *gradients = new_zeros(c.test.params.total);
    double loss[ROWS];
    lay(&c, true);
    double sum = tied_output_forward(&c.next, &c.rows, c.test.values, &c.space, c.x, &c.targets);
    tied_output_backward(&c.next, &c.rows, c.test.values, whole_gradient(&c.test), &c.space, dx, false, c.x,
                         &c.targets, c.weight);
    memcpy(gradients, c.test.gradients, bytes);
    memset(c.test.gradients, 0, bytes);
    memcpy(loss, c.space.loss, sizeof loss);
    c.targets.weights = NULL;
    lay(&c, true);
    check_near(tied_output_forward(&c.next, &c.rows, c.test.values, &c.space, c.x, &c.targets), sum, 0,
               "sum");
    tied_output_backward(&c.next, &c.rows, c.test.values, whole_gradient(&c.test), &c.space, c.dx, false, c.x,
                         &c.targets, c.weight);
    check_same_bits(c.space.loss, loss, sizeof loss, "losses");
    check_same_bits(c.dx, dx, PADDED * DIM * sizeof *dx, "dx");
    check_same_bits(c.test.gradients, gradients, bytes, "gradients");
    assert_true(sum > 0 && largest(dx, ROWS * DIM) > 1e-6);
    free(dx), free(gradients);
    close_case(&c);
}

/* `add` keeps the old values, whatever the chunks; rows after the last are unchanged. */
static void a_gradient_may_be_added_to(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof chunks / sizeof chunks[0]; i++) {
        struct next_case c;
        open_case(&c, chunks[i], PRECISION_FLOAT32, 2);
        float *before = new_zeros(PADDED * DIM), *dx = new_zeros(PADDED * DIM);
        double *want = calloc(PADDED * DIM, sizeof *want);
        memcpy(before, c.dx, PADDED * DIM * sizeof *before);
        lay(&c, true);
        tied_output_forward(&c.next, &c.rows, c.test.values, &c.space, c.x, &c.targets);
        tied_output_backward(&c.next, &c.rows, c.test.values, whole_gradient(&c.test), &c.space, dx, false,
                             c.x, &c.targets, c.weight);
        tied_output_backward(&c.next, &c.rows, c.test.values, whole_gradient(&c.test), &c.space, c.dx, true,
                             c.x, &c.targets, c.weight);
        for (size_t k = 0; k < PADDED * DIM; k++)
            want[k] = (double)before[k] + (double)dx[k];
        /* One rounding per chunk, and those of the sums themselves. */
        check_near_all(c.dx, want, PADDED * DIM, (WORDS + DIM) * EPSILON * 6, "dx, added to");
        assert_true(largest(dx, ROWS * DIM) > 0.01f);
        free(before), free(dx), free(want);
        close_case(&c);
    }
}

/* Id 0 can be a target and be predicted like any other. */
static void the_first_id_may_be_0(void **state)
{
    (void)state;
    enum { MANY = 9 };
    struct next_case c = {.weight = 1};
    layer_test_open(&c.test, 1);
    const struct embed_shape shape = {
        .vocab_size = MANY, .max_len = ROWS, .dim = DIM, .positions = POSITIONS_NONE, .tied = true};
    struct host *host = &c.test.host;
    check_status(host, embed_describe(host, &c.test.params, &shape, &c.embed), HASHATTN_OK, NULL);
    check_status(host, tied_output_describe(host, &c.test.params, &c.embed, 0, &c.next), HASHATTN_OK, NULL);
    assert_true(c.next.words == MANY && c.next.first == 0 && c.next.weight == c.embed.words);
    assert_int_equal(param_named(&c.test.params, "lm_head.bias")->shape[0], MANY);
    c.next.chunk = 4;
    layer_test_start(&c.test, 6);
    memset(c.test.values + c.next.weight, 0, MANY * DIM * sizeof(float)); /* logits are the bias */
    for (size_t w = 0; w < MANY; w++)
        c.test.values[c.next.bias + w] = w == 0 ? 2 : 0;
    c.offsets[1] = 3;
    c.rows = rows_of(c.test.kernels, c.test.pool, 1, c.offsets, NULL);
    c.x = new_normals(3, ROW_TILE * DIM, 1);
    c.dx = new_normals(4, ROW_TILE * DIM, 1);
    c.ids[1] = MANY - 1; /* the others have target 0 */
    c.targets.ids = c.ids;
    lay(&c, true);
    double all = log(MANY - 1 + exp(2)), chance = exp(2 - all);
    check_near(tied_output_forward(&c.next, &c.rows, c.test.values, &c.space, c.x, &c.targets), 3 * all - 4,
               3 * loss_bound, "sum");
    assert_true(c.space.correct[0] == 1 && c.space.correct[1] == 0 && c.space.correct[2] == 1);
    tied_output_backward(&c.next, &c.rows, c.test.values, whole_gradient(&c.test), &c.space, c.dx, false, c.x,
                         &c.targets, 1);
    check_near((double)c.test.gradients[c.next.bias], 3 * chance - 2, 20 * EPSILON, "bias of id 0");
    for (size_t k = 0; k < DIM; k++) {
        double sum = 0;
        for (size_t r = 0; r < 3; r++)
            sum += (chance - (r == 1 ? 0 : 1)) * (double)c.x[r * DIM + k];
        check_near((double)c.test.gradients[c.embed.words + k], sum, 40 * EPSILON, "row of id 0");
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
        cmocka_unit_test(no_weights_are_weights_of_one),
        cmocka_unit_test(a_gradient_may_be_added_to),
        cmocka_unit_test(the_first_id_may_be_0),
        cmocka_unit_test(chances_of_large_logits_sum_to_one),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
