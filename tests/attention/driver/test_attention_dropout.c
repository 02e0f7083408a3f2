/* Dropout of attention weights, in every mechanism that has it. With the unit matrix as values, the output is
   the matrix of weights: with dropout each weight is a multiple of 1 / (1 - rate) of itself or 0, and the
   share of those dropped is the rate. The gradient of values is that matrix turned. Softmax is computed in
   double from the words of base/random.h, gradients inside groups in double from both matrices. With finite
   differences: one direction per input, or, in mechanisms that place tokens, directions of single rows that
   leave all groups as they are. The same bits with any number of threads, alone and packed. Bugs planted and
   caught: dS without D, also with normed rows only, and with sights by token only (reformer); dV without D;
   other draws of P in backward; the draws of one group for all; the first chunk's draws in every chunk
   (few_keys.c); one key for all sequences and heads.
   SPDX-License-Identifier: Apache-2.0 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "attention/driver/attention.h"
#include "base/random.h"
#include "support/attention_case.h"
#include "support/check.h"

enum { TOKENS = 70, DIM = 12 };
static const double rate = 0.25;

/* Options that lead through other code, in addition to the defaults. */
static const struct {
    const char *mechanism, *settings;
} further[] = {{"local", "block_size=9"},
               {"local", "block_size=9 relative=true"},
               {"local", "block_size=5 wrap=true"},
               {"lha", "num_buckets=4"},
               {"lha", "num_buckets=4 mode=paper rounds=2"},
               {"lsh", "num_buckets=4 mode=paper"},
               {"random", "num_buckets=4 mode=paper"},
               {"lsh", "num_buckets=4"},
               {"random", "num_buckets=3"},
               {"bigbird", "block_size=8"},
               {"longformer", "window=9"},
               {"sparse", "block_size=8"},
               {"sinkhorn", "block_size=10"},
               {"reformer", "chunk_size=10"},
               {"smyrf", "cluster_size=16"},
               {"routing", "num_clusters=4"},
               {"linformer", "rank=20"}};

struct subject {
    const struct mechanism *mechanism;
    void *options;
    bool causal;
};

static struct subject subject_of(const struct mechanism *mechanism, const char *settings, bool causal)
{
    struct subject subject = {mechanism, calloc(1, mechanism->options_size + 1), causal};
    options_preset(mechanism->options, subject.options);
    options_take(mechanism->options, subject.options, settings);
    return subject;
}

/* One head of one sequence of `tokens`. */
static struct attention_case case_of(const struct subject *subject, size_t tokens, size_t value_dim)
{
    return (struct attention_case){.mechanism = subject->mechanism,
                                   .options = subject->options,
                                   .num_sequences = 1,
                                   .num_heads = 1,
                                   .head_dim = DIM,
                                   .value_dim = value_dim,
                                   .max_len = tokens,
                                   .queries = {tokens},
                                   .keys = {tokens},
                                   .causal = subject->causal,
                                   .call_key = 9};
}

static void each_subject(void (*check)(const struct subject *subject))
{
    for (int causal = 0; causal < 2; causal++)
        for (const struct mechanism *const *row = attention_mechanisms(); *row != NULL; row++) {
            const struct problem_shape shape = {.num_queries = TOKENS,
                                                .num_keys = TOKENS,
                                                .head_dim = DIM,
                                                .value_dim = TOKENS,
                                                .max_len = TOKENS,
                                                .causal = causal,
                                                .workers = 1};
            for (size_t k = 0; k <= sizeof further / sizeof *further; k++) {
                const char *settings = k == 0 ? "" : further[k - 1].settings;
                if (!(*row)->drops_weights || (k > 0 && strcmp(further[k - 1].mechanism, (*row)->name) != 0))
                    continue;
                struct subject subject = subject_of(*row, settings, causal);
                if (mechanism_refuses(*row, subject.options, &shape) == NULL)
                    check(&subject);
                free(subject.options);
            }
        }
}

/* ---- the weights --------------------------------------------------------------------------------------- */

static void check_weights(const struct subject *subject)
{
    struct attention_case problem = case_of(subject, TOKENS, TOKENS);
    attention_case_fill(&problem, 3, false);
    for (size_t j = 0; j < TOKENS; j++)
        for (size_t c = 0; c < TOKENS; c++)
            problem.value[j * TOKENS + c] = j == c;
    struct attention_result all = attention_case_run(&problem);
    problem.drop = rate;
    struct attention_result some = attention_case_run(&problem);
    /* In linformer and sinkhorn rows of values are mixed before, so weights are sums of many. */
    bool mixed = strcmp(subject->mechanism->name, "linformer") == 0 ||
                 strcmp(subject->mechanism->name, "sinkhorn") == 0;
    double sum = 0, expected = 0, variance = 0;
    size_t whole = 0, weights = 0;
    for (size_t i = 0; i < TOKENS * TOKENS; i++) {
        double p = (double)all.out[i], w = (double)some.out[i];
        assert_true(mixed || (w > -1e-6 && w <= 1.0001 * p / (1 - rate) + 1e-6));
        sum += w;
        expected += p;
        variance += p * p * rate / (1 - rate);
        weights += p > 1e-5;
        whole += p > 1e-5 && (w == 0 || fabs(w * (1 - rate) / p - 1) < 1e-4);
    }
    assert_true(weights > 70 && variance > 0);
    if (!mixed) {
        check_near(sum, expected, 5 * sqrt(variance), subject->mechanism->name);
        assert_true((double)whole > 0.3 * (double)weights);
    }
    for (size_t j = 0; j < TOKENS; j++) /* dV = W^T G */
        for (size_t c = 0; c < 3; c++) {
            double want = 0, size = 0;
            for (size_t i = 0; i < TOKENS; i++) {
                want += (double)some.out[i * TOKENS + j] * (double)problem.dout[i * TOKENS + c];
                size += fabs((double)some.out[i * TOKENS + j] * (double)problem.dout[i * TOKENS + c]);
            }
            check_near((double)some.dvalue[j * TOKENS + c], want, 2e-5 * (size + 0.1), "dvalue");
        }
    attention_result_free(&all);
    attention_result_free(&some);
    attention_case_free(&problem);
}

static void weights_are_dropped_at_the_rate(void **state)
{
    (void)state;
    each_subject(check_weights);
}

/* ---- gradients by finite differences ------------------------------------------------------------------- */

static double loss_of(const struct attention_case *problem)
{
    struct attention_result result = attention_case_run(problem);
    double sum = 0;
    for (size_t i = 0; i < TOKENS * problem->value_dim; i++)
        sum += (double)result.out[i] * (double)problem->dout[i];
    attention_result_free(&result);
    return sum;
}

static void check_direction(struct attention_case *problem, float *x, const float *gradient, size_t count,
                            const char *what)
{
    const float step = 1e-3f;
    float *direction = calloc(count + 1, sizeof *direction), *kept = calloc(count + 1, sizeof *kept);
    random_normals(5, 0, direction, count);
    memcpy(kept, x, count * sizeof *x);
    double side[2], got = 0, size = 0;
    for (int up = 0; up < 2; up++) {
        for (size_t i = 0; i < count; i++)
            x[i] = kept[i] + (up ? step : -step) * direction[i];
        side[up] = loss_of(problem);
    }
    memcpy(x, kept, count * sizeof *x);
    for (size_t i = 0; i < count; i++) {
        got += (double)gradient[i] * (double)direction[i];
        size += (double)gradient[i] * (double)gradient[i];
    }
    check_near(got, (side[1] - side[0]) / (2 * (double)step), 0.02 * (sqrt(size) + 1), what);
    free(direction), free(kept);
}

/* Groups of tokens change at once if a query or key moves. */
static bool places_tokens(const struct mechanism *mechanism)
{
    static const char *const names[] = {"lha", "lsh", "reformer", "smyrf", "routing"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (strcmp(mechanism->name, names[i]) == 0)
            return true;
    return false;
}

static void check_gradients(const struct subject *subject)
{
    const char *name = subject->mechanism->name;
    if (places_tokens(subject->mechanism))
        return;
    struct attention_case problem = case_of(subject, TOKENS, 7);
    attention_case_fill(&problem, 4, false);
    problem.drop = rate;
    struct attention_result result = attention_case_run(&problem);
    check_direction(&problem, problem.value, result.dvalue, TOKENS * 7, name);
    check_direction(&problem, problem.key, result.dkey, TOKENS * DIM, name);
    check_direction(&problem, problem.query, result.dquery, TOKENS * DIM, name);
    check_direction(&problem, problem.params, result.dparams, result.param_count, name);
    attention_result_free(&result);
    attention_case_free(&problem);
}

static void gradients_are_those_of_the_same_draws(void **state)
{
    (void)state;
    each_subject(check_gradients);
}

/* ---- gradients while the groups stay ------------------------------------------------------------------- */

/* Weights of all pairs, without dropout and with it. */
struct weights {
    struct attention_result all, some;
};

/* Computes them; values are the unit matrix. */
static struct weights weights_of(struct attention_case *problem)
{
    struct weights weights;
    problem->drop = 0;
    weights.all = attention_case_run(problem);
    problem->drop = rate;
    weights.some = attention_case_run(problem);
    return weights;
}

static void weights_free(struct weights *weights)
{
    attention_result_free(&weights->all);
    attention_result_free(&weights->some);
}

/* true if the same pairs meet, and the same are dropped. */
static bool same_pairs(const struct weights *a, const struct weights *b)
{
    for (size_t i = 0; i < TOKENS * TOKENS; i++)
        if ((a->all.out[i] == 0) != (b->all.out[i] == 0) || (a->some.out[i] == 0) != (b->some.out[i] == 0))
            return false;
    return true;
}

enum { MOVED = TOKENS / 3 }; /* rows: every third */

/* Moves rows of x, the queries or the keys, to both sides. Returns the number of those that left all groups
   as they are, whose gradients are compared. */
static size_t check_rows(struct attention_case *problem, float *x, bool keys, const char *what)
{
    const float step = 4e-3f;
    size_t checked = 0;
    struct weights here = weights_of(problem);
    const float *gradient = keys ? here.some.dkey : here.some.dquery;
    for (size_t row = 1; row < 3 * MOVED; row += 3) {
        float direction[DIM], kept[DIM], *moved = x + row * DIM;
        struct weights side[2];
        double got = 0, size = 0, difference = 0;
        random_normals(6 + row, 0, direction, DIM);
        memcpy(kept, moved, sizeof kept);
        for (int up = 0; up < 2; up++) {
            for (size_t c = 0; c < DIM; c++)
                moved[c] = kept[c] + (up ? step : -step) * direction[c];
            side[up] = weights_of(problem);
        }
        memcpy(moved, kept, sizeof kept);
        for (size_t c = 0; c < DIM; c++) {
            got += (double)gradient[row * DIM + c] * (double)direction[c];
            size += pow((double)gradient[row * DIM + c], 2);
        }
        for (size_t i = 0; i < TOKENS * TOKENS; i++)
            difference +=
                ((double)side[1].some.out[i] - (double)side[0].some.out[i]) * (double)problem->dout[i];
        if (same_pairs(&here, &side[0]) && same_pairs(&here, &side[1])) {
            check_near(got, difference / (2 * (double)step), 0.01 * sqrt(size) + 2e-3, what);
            checked++;
        }
        weights_free(&side[0]);
        weights_free(&side[1]);
    }
    weights_free(&here);
    return checked;
}

static void check_rows_that_move(const struct subject *subject)
{
    if (!places_tokens(subject->mechanism))
        return;
    struct attention_case problem = case_of(subject, TOKENS, TOKENS);
    attention_case_fill(&problem, 7, false);
    for (size_t j = 0; j < TOKENS; j++)
        for (size_t c = 0; c < TOKENS; c++)
            problem.value[j * TOKENS + c] = j == c;
    size_t queries = check_rows(&problem, problem.query, false, subject->mechanism->name),
           keys = check_rows(&problem, problem.key, true, subject->mechanism->name);
    assert_true(queries > MOVED / 2 && keys > MOVED / 2);
    attention_case_free(&problem);
}

static void gradients_are_right_while_the_groups_stay(void **state)
{
    (void)state;
    each_subject(check_rows_that_move);
}

/* ---- gradients inside groups --------------------------------------------------------------------------- */

/* With P the weights without dropout, W those with it, and X = G V^T: dS = W X - P delta, delta_i = sum_j
   W_ij X_ij; here V is the unit matrix and X = G. Mode paper, where rows are not normed. */
static void check_groups(const char *mechanism, const char *settings, bool causal)
{
    struct subject subject = subject_of(attention_find(mechanism), settings, causal);
    struct attention_case problem = case_of(&subject, TOKENS, TOKENS);
    attention_case_fill(&problem, 5, false);
    for (size_t j = 0; j < TOKENS; j++)
        for (size_t c = 0; c < TOKENS; c++)
            problem.value[j * TOKENS + c] = j == c;
    struct attention_result all = attention_case_run(&problem);
    problem.drop = rate;
    struct attention_result some = attention_case_run(&problem);
    double *dquery = calloc(2 * TOKENS * DIM, sizeof *dquery), *dkey = dquery + TOKENS * DIM;
    for (size_t i = 0; i < TOKENS; i++) {
        double delta = 0;
        for (size_t j = 0; j < TOKENS; j++)
            delta += (double)some.out[i * TOKENS + j] * (double)problem.dout[i * TOKENS + j];
        for (size_t j = 0; j < TOKENS; j++) {
            double ds = (double)some.out[i * TOKENS + j] * (double)problem.dout[i * TOKENS + j] -
                        (double)all.out[i * TOKENS + j] * delta;
            for (size_t c = 0; c < DIM; c++) {
                dquery[i * DIM + c] += ds / sqrt(DIM) * (double)problem.key[j * DIM + c];
                dkey[j * DIM + c] += ds / sqrt(DIM) * (double)problem.query[i * DIM + c];
            }
        }
    }
    for (size_t i = 0; i < TOKENS * DIM; i++) {
        check_near((double)some.dquery[i], dquery[i], 1e-4, mechanism);
        check_near((double)some.dkey[i], dkey[i], 1e-4, mechanism);
    }
    free(dquery);
    attention_result_free(&all);
    attention_result_free(&some);
    attention_case_free(&problem);
    free(subject.options);
}

static void gradients_inside_groups_are_right(void **state)
{
    (void)state;
    for (int causal = 0; causal < 2; causal++) {
        check_groups("lha", "num_buckets=4 mode=paper", causal);
        check_groups("lha", "num_buckets=4 mode=paper rounds=2", causal);
        check_groups("lha", "num_buckets=3 mode=paper membership=whole", causal);
        check_groups("lsh", "num_buckets=5 mode=paper", causal);
    }
    check_groups("smyrf", "cluster_size=16", false);
}

/* ---- softmax in double --------------------------------------------------------------------------------- */

static double factor_of(uint64_t key, uint64_t query, uint64_t j)
{
    uint64_t draw = query * 128 + j % 128;
    uint32_t words[4];
    random_words(key, ((j / 128) << 36) + draw / 8, words);
    uint32_t word = words[draw % 8 / 2];
    return ((draw % 2 == 0 ? word : word >> 16) & 0xffff) < (unsigned)lround(rate * 65536) ? 0
                                                                                           : 1 / (1 - rate);
}

/* Adds the gradients of one query of head `head` to the arrays in double; checks its output. */
static void check_query(const struct attention_case *problem, const struct attention_result *got, size_t i,
                        uint64_t key, double *dquery, double *dkey, double *dvalue)
{
    size_t n = problem->keys[0], seen = problem->causal ? i + 1 : n, d_v = problem->value_dim;
    double *p = calloc(3 * n, sizeof *p), *dp = p + n, *factor = dp + n, sum = 0, delta = 0;
    for (size_t j = 0; j < seen; j++) {
        for (size_t c = 0; c < DIM; c++)
            p[j] += (double)problem->query[i * DIM + c] * (double)problem->key[j * DIM + c];
        sum += p[j] = exp(p[j] / sqrt(DIM));
        factor[j] = factor_of(key, i, j);
    }
    for (size_t c = 0; c < d_v; c++) {
        double out = 0;
        for (size_t j = 0; j < seen; j++)
            out += factor[j] * p[j] / sum * (double)problem->value[j * d_v + c];
        check_near((double)got->out[i * d_v + c], out, 2e-5, "out");
    }
    for (size_t j = 0; j < seen; j++) {
        p[j] /= sum;
        for (size_t c = 0; c < d_v; c++) {
            dp[j] += factor[j] * (double)problem->dout[i * d_v + c] * (double)problem->value[j * d_v + c];
            dvalue[j * d_v + c] += factor[j] * p[j] * (double)problem->dout[i * d_v + c];
        }
        delta += p[j] * dp[j];
    }
    for (size_t j = 0; j < seen; j++)
        for (size_t c = 0; c < DIM; c++) {
            double ds = p[j] * (dp[j] - delta) / sqrt(DIM);
            dquery[i * DIM + c] += ds * (double)problem->key[j * DIM + c];
            dkey[j * DIM + c] += ds * (double)problem->query[i * DIM + c];
        }
    free(p);
}

static void check_array(const float *got, const double *want, size_t count, const char *what)
{
    for (size_t i = 0; i < count; i++)
        check_near((double)got[i], want[i], 1e-4, what);
}

static void softmax_is_its_formula(void **state)
{
    (void)state;
    static const uint64_t id = 1234567;
    for (int causal = 0; causal < 2; causal++) {
        enum { LONG = 300, D_V = 5 };
        struct subject subject = subject_of(attention_find("softmax"), "", causal);
        struct attention_case problem = case_of(&subject, LONG, D_V);
        problem.drop = rate;
        problem.sample_ids = &id;
        attention_case_fill(&problem, 6, false);
        struct attention_result got = attention_case_run(&problem);
        double *dquery = calloc(LONG * DIM, sizeof *dquery), *dkey = calloc(LONG * DIM, sizeof *dkey),
               *dvalue = calloc(LONG * D_V, sizeof *dvalue);
        uint64_t head = random_key(random_key(9, RANDOM_SAMPLE, id), RANDOM_HEAD, 0);
        for (size_t i = 0; i < LONG; i++)
            check_query(&problem, &got, i, random_key(head, RANDOM_DROPOUT, 0), dquery, dkey, dvalue);
        check_array(got.dquery, dquery, LONG * DIM, "dquery");
        check_array(got.dkey, dkey, LONG * DIM, "dkey");
        check_array(got.dvalue, dvalue, LONG * D_V, "dvalue");
        free(dquery), free(dkey), free(dvalue);
        attention_result_free(&got);
        attention_case_free(&problem);
        free(subject.options);
    }
}

/* ---- the same bits ------------------------------------------------------------------------------------- */

static void check_bits(const struct subject *subject)
{
    const uint64_t ids[] = {40, 7, 19};
    struct attention_case problem = case_of(subject, 130, 9);
    problem.num_sequences = 3;
    problem.num_heads = 2;
    problem.queries[1] = problem.keys[1] = 60;
    problem.queries[2] = problem.keys[2] = 1;
    problem.drop = rate;
    problem.sample_ids = ids;
    attention_case_fill(&problem, 8, false);
    struct attention_result one = attention_case_run(&problem);
    for (int threads = 2; threads <= 5; threads += 3) {
        problem.threads = threads;
        struct attention_result more = attention_case_run(&problem);
        attention_case_same_bits(&one, &more, &problem, subject->mechanism->name);
        attention_result_free(&more);
    }
    struct attention_case alone = case_of(subject, 130, 9);
    alone.num_heads = 2;
    alone.queries[0] = alone.keys[0] = 60;
    alone.drop = rate;
    alone.sample_ids = ids + 1;
    alone.threads = 4; /* the heads have all threads to themselves */
    attention_case_fill(&alone, 1, false);
    attention_case_take_sequence(&alone, 0, &problem, 1);
    struct attention_result result = attention_case_run(&alone);
    check_same_bits(result.out, one.out + 130 * 2 * 9, 60 * 2 * 9 * sizeof(float), subject->mechanism->name);
    check_same_bits(result.dkey, one.dkey + 130 * 2 * DIM, 60 * 2 * DIM * sizeof(float), "dkey alone");
    attention_result_free(&result);
    attention_case_free(&alone);
    attention_result_free(&one);
    attention_case_free(&problem);
}

static void threads_and_packing_change_no_bit(void **state)
{
    (void)state;
    each_subject(check_bits);
}

/* Equal queries have equal rows without dropout, and rows of their own with it: also in other chunks. */
static void queries_of_every_chunk_have_their_own_draws(void **state)
{
    (void)state;
    enum { MANY = 2100 };
    struct subject subject = subject_of(attention_find("linformer"), "rank=64", false);
    struct attention_case problem = case_of(&subject, MANY, 5);
    attention_case_fill(&problem, 3, false);
    for (size_t c = 0; c < DIM; c++) /* scores are small, so all weights count */
        problem.query[c] *= 1e-4f;
    for (size_t i = 1; i < MANY; i++)
        memcpy(problem.query + i * DIM, problem.query, DIM * sizeof(float));
    problem.drop = rate;
    struct attention_result result = attention_case_run(&problem);
    for (size_t i = 1; i < MANY; i++)
        for (size_t before = i % 960; before < i; before += 960)
            assert_true(memcmp(result.out + before * 5, result.out + i * 5, 5 * sizeof(float)) != 0);
    attention_result_free(&result);
    attention_case_free(&problem);
    free(subject.options);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(weights_are_dropped_at_the_rate),
        cmocka_unit_test(gradients_are_those_of_the_same_draws),
        cmocka_unit_test(gradients_are_right_while_the_groups_stay),
        cmocka_unit_test(gradients_inside_groups_are_right),
        cmocka_unit_test(softmax_is_its_formula),
        cmocka_unit_test(queries_of_every_chunk_have_their_own_draws),
        cmocka_unit_test(threads_and_packing_change_no_bit),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
