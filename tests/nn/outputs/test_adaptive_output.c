/* The adaptive output against its definition in double: all log-probabilities of a row, of which losses, hits
   and sums follow, and differences for every gradient; tails of the model's width and narrower ones, chunks
   that divide the words and chunks that do not, float32 and bf16, any number of threads, alone and packed;
   and without tails the tied output, bit for bit. Bugs planted and caught: the head's part left out of
   the losses of tails, or their losses left out of the sum; every tail mapped to the first entry; dx of a
   tail written instead of added, or given to the first rows; the gradient of projections left out, or of the
   first tile only, or its later rows from the first ones; rows after those of a tail not cleared; a tail's
   gradient without the weight of the pass; hits that ask the head alone, or not again of rows in other tails;
   words of the head not asked for hits of tails; the second pass over the numbers of the first; a gradient of
   rows that are only asked for hits; classes counted among the words of the head, or in their chunk; classes
   one in place of the other; the earlier or the later of equal words taken for the likelier; weights left
   out, or not 1 without weights; a head without words accepted.
   SPDX-License-Identifier: Apache-2.0 */
#include "nn/outputs/adaptive_output.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "base/random.h"
#include "support/check.h"
#include "support/layers.h"

enum {
    DIM = 34,
    VOCAB = 150,
    FIRST = 1,
    HEAD = 60,
    SECOND = 100,
    ROWS = ROW_TILE + 37,
    PADDED = (ROWS + ROW_STEP - 1) / ROW_STEP * ROW_STEP
};

struct next_case {
    struct layer_test test;
    struct embed embed;
    struct adaptive_output next;
    struct adaptive_output_space space;
    struct rows rows;
    void *workspace;
    size_t offsets[2];
    float *x, *dx; /* (PADDED, DIM) */
    uint32_t ids[PADDED];
    float weights[PADDED];
    struct row_ids targets;
    double *exact_x;
    float weight;
};

/* Memory of exactly the requested size, full of NaNs. */
static void lay(struct next_case *c, bool training)
{
    struct arena arena = arena_on(NULL);
    adaptive_output_lay(&c->next, &c->rows, training, &arena);
    free(c->workspace);
    c->workspace = aligned_alloc(64, (arena.used + 127) / 64 * 64);
    memset(c->workspace, 0xff, arena.used);
    arena = arena_on(c->workspace);
    c->space = adaptive_output_lay(&c->next, &c->rows, training, &arena);
}

struct way {
    const char *cutoffs;
    size_t div_value, chunk;
    enum precision precision;
};

static void open_case(struct next_case *c, struct way way, int threads)
{
    *c = (struct next_case){.weight = 0.3f};
    layer_test_open(&c->test, threads);
    layer_test_shift(&c->test);
    c->test.params.precision = way.precision;
    struct host *host = &c->test.host;
    struct params *params = &c->test.params;
    const struct embed_shape shape = {.vocab_size = VOCAB,
                                      .max_len = ROWS,
                                      .dim = DIM,
                                      .positions = POSITIONS_NONE,
                                      .tied = true,
                                      .cutoffs = way.cutoffs,
                                      .div_value = way.div_value};
    check_status(host, embed_describe(host, params, &shape, &c->embed), HASHATTN_OK, NULL);
    check_status(host, adaptive_output_describe(host, params, &c->embed, FIRST, &c->next), HASHATTN_OK, NULL);
    assert_true(c->next.words == VOCAB - FIRST && c->next.head.chunk == TIED_OUTPUT_CHUNK);
    c->next.head.chunk = way.chunk;
    for (size_t i = 0; i < c->embed.tails.count; i++)
        c->next.tail[i].chunk = way.chunk;
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
        c->ids[r] = FIRST + random_below(&random, VOCAB - FIRST);
        if (c->weights[r] == 0) /* the id of a row without a target is invalid, or looks valid */
            c->ids[r] = r % 2 == 0 ? UINT32_MAX : c->ids[r];
    }
    static const uint32_t ends[] = {FIRST, HEAD - 1, HEAD};
    memcpy(c->ids, ends, sizeof ends);
    c->ids[4] = SECOND - 1;
    c->ids[5] = SECOND;
    c->ids[6] = VOCAB - 1;
    c->targets = (struct row_ids){c->ids, c->weights};
}

static void close_case(struct next_case *c)
{
    free(c->x), free(c->dx), free(c->exact_x), free(c->workspace);
    layer_test_close(&c->test);
}

static double forward(struct next_case *c, bool training)
{
    lay(c, training);
    return adaptive_output_forward(&c->next, &c->rows, c->test.values, &c->space, c->x, &c->targets);
}

static void backward(struct next_case *c, bool add)
{
    adaptive_output_backward(&c->next, &c->rows, c->test.values, whole_gradient(&c->test), &c->space, c->dx,
                             add, c->x, &c->targets, c->weight);
}

/* ---- the definition ----------------------------------------------------------------------------------- */

static double dot(const double *a, const double *b, size_t n)
{
    double sum = 0;
    for (size_t k = 0; k < n; k++)
        sum += a[k] * b[k];
    return sum;
}

/* x <- log softmax(x) */
static void log_softmax(double *x, size_t n)
{
    double most = -INFINITY, sum = 0;
    for (size_t i = 0; i < n; i++)
        most = fmax(most, x[i]);
    for (size_t i = 0; i < n; i++)
        sum += exp(x[i] - most);
    for (size_t i = 0; i < n; i++)
        x[i] -= most + log(sum);
}

/* chances (VOCAB): the logarithms of the probabilities of ids, from parameters by name. */
static void oracle_chances(const struct next_case *c, const double *x, double *chances)
{
    const struct params *params = &c->test.params;
    const struct word_tails *tails = &c->embed.tails;
    const double *values = c->test.exact;
    size_t words = tails->count > 0 ? HEAD : VOCAB, entries = words + tails->count;
    double head[VOCAB + WORD_TAILS];
    size_t table = param_named(params, "embeddings.word_embeddings.weight")->offset;
    size_t bias = param_named(params, "lm_head.bias")->offset;
    chances[0] = -INFINITY;
    for (size_t e = FIRST; e < entries; e++)
        head[e] = dot(x, values + table + e * DIM, DIM) + values[bias + e - FIRST];
    log_softmax(head + FIRST, entries - FIRST);
    memcpy(chances + FIRST, head + FIRST, (words - FIRST) * sizeof *head);
    for (size_t i = 0; i < tails->count; i++) {
        const struct word_tail *tail = &tails->list[i];
        char name[80];
        double h[DIM];
        snprintf(name, sizeof name, "lm_head.%zu.bias", i + 1);
        bias = param_named(params, name)->offset;
        for (size_t k = 0; k < tail->dim; k++)
            h[k] = tail->projected ? dot(x, values + tail->projection + k * DIM, DIM) : x[k];
        for (size_t w = 0; w < tail->words; w++)
            chances[tail->first + w] =
                dot(h, values + tail->table + w * tail->dim, tail->dim) + values[bias + w];
        log_softmax(chances + tail->first, tail->words);
        for (size_t w = 0; w < tail->words; w++)
            chances[tail->first + w] += head[words + i];
    }
}

static double oracle_sum(void *user)
{
    const struct next_case *c = user;
    double sum = 0, chances[VOCAB];
    for (size_t r = 0; r < ROWS; r++) {
        if (c->weights[r] == 0)
            continue;
        oracle_chances(c, c->exact_x + r * DIM, chances);
        sum -= (double)c->weights[r] * chances[c->ids[r]];
    }
    return (double)c->weight * sum;
}

/* Roundings of a logit, of at most two products of DIM numbers of about 3, and of the sums over words. */
static const double loss_bound = (DIM + 100) * EPSILON * DIM * 3;

/* ---- tests -------------------------------------------------------------------------------------------- */

static const struct way ways[] = {
    {"60,100", 2, 256, PRECISION_FLOAT32}, {"60,100", 1, 7, PRECISION_FLOAT32},
    {"60,100", 3, 1, PRECISION_FLOAT32},   {"60", 2, 50, PRECISION_FLOAT32},
    {"60,100", 2, 64, PRECISION_BF16},     {"", 4, 40, PRECISION_FLOAT32},
};
enum { WAYS = sizeof ways / sizeof *ways };

static void losses_are_right(void **state)
{
    (void)state;
    for (size_t i = 0; i < WAYS; i++) {
        struct next_case c;
        double chances[VOCAB];
        open_case(&c, ways[i], 2);
        double rounding = ways[i].precision == PRECISION_BF16 ? ldexp(2 * DIM, -8) : 0;
        double sum = forward(&c, true), wrong = 0;
        check_near(sum * (double)c.weight, oracle_sum(&c), 2 * ROWS * (loss_bound + rounding),
                   "sum of losses");
        for (size_t r = 0; r < ROWS; r++) {
            double loss = 0;
            oracle_chances(&c, c.exact_x + r * DIM, chances);
            if (c.weights[r] != 0)
                loss = -chances[c.ids[r]];
            check_near(c.space.head.loss[r], loss, loss_bound + rounding, "loss of a row");
            wrong = fmax(wrong, fabs(c.space.head.loss[r] - loss));
        }
        assert_true(rounding == 0 || wrong > 1e-4); /* bf16 does round */
        close_case(&c);
    }
}

static void probabilities_sum_to_one(void **state)
{
    (void)state;
    for (size_t i = 0; i < 4; i++) {
        struct next_case c;
        open_case(&c, ways[i], 2);
        for (size_t r = 0; r < ROWS; r++) { /* one row, every word as its target */
            memcpy(c.x + r * DIM, c.x, DIM * sizeof *c.x);
            c.ids[r] = FIRST + (uint32_t)(r % (VOCAB - FIRST));
            c.weights[r] = 1;
        }
        double sum = 0;
        forward(&c, false);
        for (size_t w = 0; w < VOCAB - FIRST; w++)
            sum += exp(-c.space.head.loss[w]);
        check_near(sum, 1, 2 * loss_bound, "sum of the probabilities of all words");
        close_case(&c);
    }
}

/* Scores of rows that are alone are logarithms of probabilities, up to a constant of the row. */
static void scores_are_log_probabilities(void **state)
{
    (void)state;
    enum { N = 5, WORDS = VOCAB - FIRST };
    for (size_t i = 0; i < WAYS; i++) {
        struct next_case c;
        float scores[N * WORDS], one[WORDS], work[DIM];
        double found[VOCAB], chances[VOCAB];
        open_case(&c, ways[i], 1 + (int)i % 3);
        adaptive_output_scores(&c.next, c.test.kernels, c.test.pool, c.test.values, scores, c.x, N, work);
        for (size_t r = 0; r < N; r++) {
            for (size_t w = 0; w < WORDS; w++)
                found[w] = (double)scores[r * WORDS + w];
            log_softmax(found, WORDS);
            oracle_chances(&c, c.exact_x + r * DIM, chances);
            for (size_t w = 0; w < WORDS; w++)
                check_near(found[w], chances[FIRST + w], 2 * loss_bound, "score");
            adaptive_output_scores(&c.next, c.test.kernels, NULL, c.test.values, one, c.x + r * DIM, 1, work);
            check_same_bits(one, scores + r * WORDS, sizeof one, "a row alone, on one thread");
        }
        close_case(&c);
    }
}

static void gradients_are_differences(void **state)
{
    (void)state;
    for (size_t i = 0; i < 4; i++) {
        struct next_case c;
        open_case(&c, ways[i], 2);
        const struct params *params = &c.test.params;
        float unused = c.test.gradients[c.embed.words] = 7; /* the row of id 0, which must stay */
        forward(&c, true);
        backward(&c, false);
        assert_true(c.test.gradients[c.embed.words] == unused);
        c.test.gradients[c.embed.words] = 0;
        double bound = 3 * (double)c.weight * 60 * loss_bound;
        check_derivatives(c.dx, c.exact_x, 10 * DIM, oracle_sum, &c, bound / 10, "dx");
        for (size_t p = 0; p < params->num_rows; p++) {
            const struct param *row = &params->rows[p];
            size_t step = row->count > 300 ? 37 : 1; /* of a large table some */
            for (size_t k = 0; k < row->count; k += step)
                check_derivatives(c.test.gradients + row->offset + k, c.test.exact + row->offset + k, 1,
                                  oracle_sum, &c, bound, row->name);
        }
        for (size_t r = 0; r < PADDED; r++)
            for (size_t k = 0; k < DIM && (r >= ROWS || c.weights[r] == 0); k++)
                assert_true(c.dx[r * DIM + k] == 0);
        close_case(&c);
    }
}

static size_t place_of(size_t id)
{
    return id < HEAD ? 0 : id < SECOND ? 1 : 2;
}

/* Every kind of row whose hit is not decided in the head: what is likeliest, and what is asked. */
static void hits_are_of_the_likeliest_word(void **state)
{
    (void)state;
    size_t seen[3][4] = {{0}}; /* place of the target, and of the likeliest word; [3]: the target is it */
    for (uint64_t seed = 0; seed < 6; seed++) {
        struct next_case c;
        open_case(&c, ways[seed % 3], 2);
        for (size_t i = 0; i < c.test.params.num_rows; i++) { /* some words far ahead of others */
            const struct param *row = &c.test.params.rows[i];
            float *moved = new_normals(100 * seed + i, row->count, row->rank == 1 ? 2 : 0.6);
            for (size_t k = 0; k < row->count; k++) {
                bool of_class = strcmp(row->name, "lm_head.bias") == 0 && k >= HEAD - FIRST;
                c.test.values[row->offset + k] += moved[k] + (of_class ? 4 : 0);
                c.test.exact[row->offset + k] = (double)c.test.values[row->offset + k];
            }
            free(moved);
        }
        size_t best[ROWS];
        for (size_t r = 0; r < ROWS; r++) {
            double chances[VOCAB];
            static const size_t from[] = {FIRST, FIRST, HEAD, SECOND}, to[] = {VOCAB, HEAD, SECOND, VOCAB};
            oracle_chances(&c, c.exact_x + r * DIM, chances);
            size_t target = from[r % 4];
            best[r] = FIRST;
            for (size_t w = FIRST; w < VOCAB; w++) {
                best[r] = chances[w] > chances[best[r]] ? w : best[r];
                target = w >= from[r % 4] && w < to[r % 4] && chances[w] > chances[target] ? w : target;
            }
            c.ids[r] = (uint32_t)target; /* the best of all, of the head or of a tail */
            size_t mine = place_of(target), theirs = place_of(best[r]);
            if (c.weights[r] != 0)
                seen[mine][target == best[r] ? 3 : theirs]++;
        }
        forward(&c, seed % 2 == 0);
        for (size_t r = 0; r < ROWS; r++)
            assert_int_equal(c.space.head.correct[r], c.weights[r] != 0 && c.ids[r] == best[r]);
        if (seed % 2 == 0) { /* what backward reads is still there, and other rows have no part in it */
            backward(&c, false);
            check_derivatives(c.dx, c.exact_x, 4 * DIM, oracle_sum, &c, 30 * loss_bound, "dx");
        }
        close_case(&c);
    }
    for (size_t mine = 0; mine < 3; mine++)
        for (size_t theirs = 0; theirs < 4; theirs++)
            assert_true(mine == theirs || seen[mine][theirs] >= 5);
}

/* All rows are zeros, so biases decide; a tail's word with all of its tail's probability is as likely as the
   tail, and as a word of the head with the same bias. */
static void the_first_of_equal_words_counts(void **state)
{
    (void)state;
    struct next_case c;
    open_case(&c, ways[0], 1);
    static const char *const biases[] = {"lm_head.bias", "lm_head.1.bias", "lm_head.2.bias"};
    float *bias[3];
    for (size_t i = 0; i < 3; i++) {
        const struct param *row = param_named(&c.test.params, biases[i]);
        bias[i] = c.test.values + row->offset;
        memset(bias[i], 0, row->count * sizeof(float));
    }
    memset(c.x, 0, PADDED * DIM * sizeof *c.x);
    static const struct {
        float word, first, second; /* biases of id 20 and of the tails */
        int hits;                  /* 1: id 20; 2: id 70; 4: id 120 */
    } cases[] = {{5, 5, 5, 1}, {4, 5, 5, 2}, {4, 4, 5, 4}, {5, 4, 4, 1},
                 {4, 5, 4, 2}, {5, 5, 4, 1}, {5, 4, 5, 1}};
    bias[1][70 - HEAD] = bias[2][120 - SECOND] = 200; /* the others underflow */
    static const uint32_t ids[] = {20, 70, 120, 21, 71, 121};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        bias[0][20 - FIRST] = cases[i].word;
        bias[0][HEAD - FIRST] = cases[i].first;
        bias[0][HEAD - FIRST + 1] = cases[i].second;
        for (size_t r = 0; r < ROWS; r++) {
            c.ids[r] = ids[r % 6];
            c.weights[r] = 1;
        }
        forward(&c, false);
        for (size_t r = 0; r < ROWS; r++)
            assert_int_equal(c.space.head.correct[r], r % 6 < 3 && (cases[i].hits >> r % 6 & 1));
    }
    bias[1][71 - HEAD] = 200; /* within a tail */
    bias[0][20 - FIRST] = 0;
    forward(&c, false);
    for (size_t r = 0; r < ROWS; r++)
        assert_int_equal(c.space.head.correct[r], r % 6 == 2);
    bias[0][HEAD - FIRST] = 9;
    forward(&c, false);
    for (size_t r = 0; r < ROWS; r++)
        assert_int_equal(c.space.head.correct[r], r % 6 == 1);
    close_case(&c);
}

static void threads_and_evaluation_change_no_bit(void **state)
{
    (void)state;
    for (size_t i = 0; i < WAYS; i++) {
        float *dx = NULL, *gradients = NULL;
        double loss[ROWS];
        unsigned char correct[ROWS];
        for (int threads = 1; threads <= 4; threads++) {
            struct next_case c;
            open_case(&c, ways[i], threads);
            size_t bytes = c.test.params.total * sizeof(float);
            forward(&c, true);
            backward(&c, false);
            if (threads == 1) {
                dx = memcpy(malloc(PADDED * DIM * sizeof *dx), c.dx, PADDED * DIM * sizeof *dx);
                gradients = memcpy(malloc(bytes), c.test.gradients, bytes);
                memcpy(loss, c.space.head.loss, sizeof loss);
                memcpy(correct, c.space.head.correct, sizeof correct);
            }
            check_same_bits(loss, c.space.head.loss, sizeof loss, "losses");
            check_same_bits(dx, c.dx, PADDED * DIM * sizeof *dx, "dx");
            check_same_bits(gradients, c.test.gradients, bytes, "gradients");
            forward(&c, false);
            check_same_bits(loss, c.space.head.loss, sizeof loss, "losses in evaluation");
            check_same_bits(correct, c.space.head.correct, sizeof correct, "hits in evaluation");
            close_case(&c);
        }
        free(dx), free(gradients);
    }
}

/* A row's loss is the same in any batch, of rows that need other tails or none. */
static void a_row_is_the_same_alone_and_packed(void **state)
{
    (void)state;
    struct next_case c;
    double loss[ROWS];
    open_case(&c, ways[0], 2);
    forward(&c, false);
    memcpy(loss, c.space.head.loss, sizeof loss);
    for (size_t first = 0; first < ROWS; first += 3) {
        size_t count = first % 2 == 0 ? 1 : size_min(ROWS - first, 70);
        c.offsets[1] = count;
        c.rows = rows_of(c.test.kernels, c.test.pool, 1, c.offsets, NULL);
        float *x = new_zeros(c.rows.padded * DIM);
        memcpy(x, c.x + first * DIM, count * DIM * sizeof *x);
        lay(&c, false);
        const struct row_ids targets = {c.ids + first, c.weights + first};
        adaptive_output_forward(&c.next, &c.rows, c.test.values, &c.space, x, &targets);
        check_same_bits(c.space.head.loss, loss + first, count * sizeof *loss, "rows from another place on");
        free(x);
    }
    close_case(&c);
}

static void a_gradient_may_be_added_to(void **state)
{
    (void)state;
    for (size_t i = 0; i < WAYS; i++) {
        struct next_case c;
        open_case(&c, ways[i], 2);
        float *before = memcpy(malloc(PADDED * DIM * sizeof *before), c.dx, PADDED * DIM * sizeof *before);
        double *want = new_doubles(c.dx, PADDED * DIM);
        forward(&c, true);
        backward(&c, false);
        assert_true(largest(c.dx, ROWS * DIM) > 0.01);
        for (size_t k = 0; k < PADDED * DIM; k++)
            want[k] += (double)c.dx[k];
        memcpy(c.dx, before, PADDED * DIM * sizeof *before);
        backward(&c, true);
        check_near_all(c.dx, want, PADDED * DIM, (VOCAB + DIM) * EPSILON * 6, "dx, added to");
        free(before), free(want);
        close_case(&c);
    }
}

/* Without weights every row has a target, with weight 1. */
static void no_weights_are_weights_of_one(void **state)
{
    (void)state;
    struct next_case c;
    double loss[ROWS];
    open_case(&c, ways[0], 2);
    for (size_t r = 0; r < PADDED; r++) {
        c.ids[r] = FIRST + (uint32_t)(r * 7 % (VOCAB - FIRST));
        c.weights[r] = 1;
    }
    double sum = forward(&c, true);
    backward(&c, false);
    float *dx = memcpy(malloc(PADDED * DIM * sizeof *dx), c.dx, PADDED * DIM * sizeof *dx);
    memcpy(loss, c.space.head.loss, sizeof loss);
    c.targets.weights = NULL;
    check_near(forward(&c, true), sum, 0, "sum");
    backward(&c, false);
    check_same_bits(c.space.head.loss, loss, sizeof loss, "losses");
    check_same_bits(c.dx, dx, PADDED * DIM * sizeof *dx, "dx");
    free(dx);
    close_case(&c);
}

/* More rows than a tile in one tail. */
static void a_tail_may_have_many_rows(void **state)
{
    (void)state;
    struct next_case c;
    open_case(&c, ways[0], 2);
    for (size_t r = 0; r < ROWS; r++) {
        c.ids[r] = HEAD + (uint32_t)(r % (SECOND - HEAD));
        c.weights[r] = 1;
    }
    forward(&c, true);
    backward(&c, false);
    double bound = 3 * (double)c.weight * 60 * loss_bound;
    const struct param *row = param_named(&c.test.params, "embeddings.word_embeddings.1.projection");
    check_derivatives(c.test.gradients + row->offset, c.test.exact + row->offset, row->count, oracle_sum, &c,
                      bound, row->name);
    check_derivatives(c.dx + (ROWS - 5) * DIM, c.exact_x + (ROWS - 5) * DIM, 5 * DIM, oracle_sum, &c, bound,
                      "dx");
    close_case(&c);
}

/* No row has a target in a tail, or no row has any. */
static void tails_may_have_no_rows(void **state)
{
    (void)state;
    for (int none = 0; none < 2; none++) {
        struct next_case c;
        open_case(&c, ways[0], 2);
        for (size_t r = 0; r < ROWS; r++) {
            c.ids[r] = FIRST + (uint32_t)(r % (HEAD - FIRST));
            c.weights[r] = none ? 0 : c.weights[r];
        }
        double sum = forward(&c, true);
        check_near(sum * (double)c.weight, oracle_sum(&c), 2 * ROWS * loss_bound, "sum of losses");
        backward(&c, false);
        const struct word_tail *tail = &c.embed.tails.list[1];
        for (size_t k = 0; k < tail->words * tail->dim; k++)
            assert_true(c.test.gradients[tail->table + k] == 0);
        for (size_t k = 0; none && k < PADDED * DIM; k++)
            assert_true(c.dx[k] == 0);
        close_case(&c);
    }
}

static void without_tails_it_is_the_tied_output(void **state)
{
    (void)state;
    struct next_case c;
    open_case(&c, ways[5], 2);
    double sum = forward(&c, true);
    backward(&c, false);
    struct tied_output tied = c.next.head;
    assert_true(tied.classes == 0 && tied.words == VOCAB - FIRST &&
                tied.weight == c.embed.words + FIRST * DIM);
    assert_int_equal(c.test.params.num_rows, 3);
    float *dx = memcpy(malloc(PADDED * DIM * sizeof *dx), c.dx, PADDED * DIM * sizeof *dx);
    check_near(tied_output_forward(&tied, &c.rows, c.test.values, &c.space.head, c.x, &c.targets), sum, 0,
               "sum");
    tied_output_backward(&tied, &c.rows, c.test.values, whole_gradient(&c.test), &c.space.head, c.dx, false,
                         c.x, &c.targets, c.weight);
    check_same_bits(c.dx, dx, PADDED * DIM * sizeof *dx, "dx");
    free(dx);
    close_case(&c);
}

static void the_head_needs_a_word(void **state)
{
    (void)state;
    struct next_case c = {.weight = 1};
    layer_test_open(&c.test, 1);
    const struct embed_shape shape = {.vocab_size = VOCAB,
                                      .max_len = ROWS,
                                      .dim = DIM,
                                      .positions = POSITIONS_NONE,
                                      .cutoffs = "1",
                                      .div_value = 2};
    struct host *host = &c.test.host;
    check_status(host, embed_describe(host, &c.test.params, &shape, &c.embed), HASHATTN_OK, NULL);
    check_status(host, adaptive_output_describe(host, &c.test.params, &c.embed, 1, &c.next), HASHATTN_INVALID,
                 "the first of the cutoffs is 1, and the first id that can be predicted is 1");
    layer_test_close(&c.test);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(losses_are_right),
        cmocka_unit_test(probabilities_sum_to_one),
        cmocka_unit_test(scores_are_log_probabilities),
        cmocka_unit_test(gradients_are_differences),
        cmocka_unit_test(hits_are_of_the_likeliest_word),
        cmocka_unit_test(the_first_of_equal_words_counts),
        cmocka_unit_test(threads_and_evaluation_change_no_bit),
        cmocka_unit_test(a_row_is_the_same_alone_and_packed),
        cmocka_unit_test(a_gradient_may_be_added_to),
        cmocka_unit_test(no_weights_are_weights_of_one),
        cmocka_unit_test(a_tail_may_have_many_rows),
        cmocka_unit_test(tails_may_have_no_rows),
        cmocka_unit_test(without_tails_it_is_the_tied_output),
        cmocka_unit_test(the_head_needs_a_word),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
