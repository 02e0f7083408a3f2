/* Block-local attention against its definition in double precision, on every instruction set. The test
   decides by counting blocks, independently of the library, which keys a query sees. Bugs planted and
   caught: one block before instead of two; none after; masked tokens keeping a place; a span that lets
   groups of keys share queries; one distance too many in the relative terms, or one of them too few; u in
   place of v; dQ without the part through r; du left out; the gradients of r of the first group of keys
   for all; bf16: a strip rounded into the memory of a tile; on a ring, the gradients of the copies lost,
   their distances not wrapped, a last whole block treated as empty; distances of three blocks and fewer
   measured along the line, one of half the ring negated, the gradient of q of one turn overwritten by the
   next.
   SPDX-License-Identifier: Apache-2.0 */
#include <float.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "attention/driver/attention.h"
#include "base/random.h"
#include "oracle/oracle_softmax.h"
#include "support/attention_case.h"
#include "support/check.h"

/* Filled from local's options. */
struct local_options {
    int64_t block_size;
    int relative, wrap;
};

static struct local_options block_size_of(size_t s)
{
    assert_int_equal(attention_find("local")->options_size, sizeof(struct local_options));
    return (struct local_options){.block_size = (int64_t)s};
}

static struct attention_case one_head(const struct local_options *options, size_t queries, size_t keys,
                                      size_t head_dim, size_t value_dim)
{
    return (struct attention_case){.mechanism = attention_find("local"),
                                   .options = options,
                                   .num_sequences = 1,
                                   .num_heads = 1,
                                   .head_dim = head_dim,
                                   .value_dim = value_dim,
                                   .queries = {queries},
                                   .keys = {keys}};
}

/* Blocks of s: the query's own and one on each side; causal: two before and nothing later. */
static bool sees(size_t s, bool causal, size_t query, size_t key)
{
    long distance = (long)(query / s) - (long)(key / s);
    return causal ? distance <= 2 && key <= query : distance >= -1 && distance <= 1;
}

/* On a ring the first and the last block see each other; each key counts once. */
static bool sees_round(size_t s, size_t n, size_t query, size_t key)
{
    size_t blocks = (n + s - 1) / s, ahead = (key / s + blocks - query / s) % blocks;
    return ahead <= 1 || ahead == blocks - 1;
}

static void to_double(double *to, const float *from, size_t count)
{
    for (size_t i = 0; i < count; i++)
        to[i] = (double)from[i];
}

static struct oracle_softmax oracle_of(const struct attention_case *problem, size_t s)
{
    size_t n_q = problem->queries[0], n_k = problem->keys[0], d = problem->head_dim, d_v = problem->value_dim;
    struct oracle_softmax o = oracle_softmax_new(n_q, n_k, d, d_v);
    o.rounding = problem->precision == PRECISION_BF16 ? ldexp(1, -8) : 0; /* 8 bits, to nearest */
    o.times = malloc(n_q * n_k * sizeof *o.times);
    for (size_t i = 0; i < n_q; i++)
        for (size_t j = 0; j < n_k; j++)
            o.times[i * n_k + j] = ((const struct local_options *)problem->options)->wrap && !problem->causal
                                       ? sees_round(s, n_k, i, j)
                                       : sees(s, problem->causal, i, j);
    to_double(o.query, problem->query, n_q * d);
    to_double(o.key, problem->key, n_k * d);
    to_double(o.value, problem->value, n_k * d_v);
    to_double(o.dout, problem->dout, n_q * d_v);
    oracle_softmax_run(&o);
    return o;
}

static void check_array(const float *got, const double *want, const double *bound, size_t count, double start,
                        const char *what)
{
    for (size_t i = 0; i < count; i++)
        check_near((double)got[i], start + want[i],
                   bound[i] + 2 * FLT_EPSILON * (fabs(start) + fabs(want[i])), what);
}

static void check_against_oracle(struct attention_case *problem, size_t s)
{
    struct oracle_softmax o = oracle_of(problem, s);
    problem->start = 0.25f;
    for (const struct kernels *const *kernels = kernels_all(); *kernels != NULL; kernels++) {
        problem->kernels = *kernels;
        struct attention_result result = attention_case_run(problem);
        check_array(result.out, o.out, o.out_bound, o.n_q * o.d_v, 0, "out");
        check_array(result.dquery, o.dquery, o.dquery_bound, o.n_q * o.d, 0.25, "dquery");
        check_array(result.dkey, o.dkey, o.dkey_bound, o.n_k * o.d, 0.25, "dkey");
        check_array(result.dvalue, o.dvalue, o.dvalue_bound, o.n_k * o.d_v, 0.25, "dvalue");
        attention_result_free(&result);
    }
    oracle_softmax_free(&o);
}

/* Normals; if operands are rounded, normals that rounding does not change. */
static void fill(struct attention_case *problem, uint64_t seed)
{
    attention_case_fill(problem, seed, false);
    const struct kernels *kernels = kernels_all()[0];
    size_t n_q = problem->queries[0], n_k = problem->keys[0], d = problem->head_dim, d_v = problem->value_dim;
    float *arrays[] = {problem->query, problem->key, problem->value, problem->dout};
    size_t counts[] = {n_q * d, n_k * d, n_k * d_v, n_q * d_v};
    for (size_t a = 0; a < 4 && problem->precision == PRECISION_BF16; a++) {
        bf16 *half = malloc(counts[a] * sizeof *half);
        kernels->bf16.round(half, counts[a], arrays[a], counts[a], 1, counts[a]);
        kernels->bf16.widen(arrays[a], counts[a], half, counts[a], 1, counts[a]);
        free(half);
    }
}

/* Blocks shorter than, equal to and longer than the units of computation (96 queries, tiles of 128 keys,
   groups of 512 keys and 960 queries), lengths that are multiples of the block and not, less than one
   block, and more queries or keys than the other side. */
static const size_t shapes[][5] = {
    {1, 1, 1, 1, 1},       {1, 40, 40, 5, 3},       {3, 100, 100, 6, 2},     {7, 203, 150, 8, 5},
    {7, 20, 203, 3, 4},    {7, 203, 20, 3, 4},      {16, 128, 128, 4, 4},    {64, 64, 64, 3, 2},
    {64, 30, 30, 3, 2},    {64, 1283, 1283, 4, 3},  {96, 385, 385, 5, 2},    {101, 777, 777, 3, 5},
    {128, 700, 900, 2, 3}, {250, 1600, 1600, 3, 2}, {500, 1203, 1300, 2, 2}, {5000, 300, 300, 4, 4},
};

static void check_shapes(enum precision precision)
{
    for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++)
        for (int causal = 0; causal < 2; causal++) {
            const size_t *shape = shapes[i];
            struct local_options options = block_size_of(shape[0]);
            struct attention_case problem =
                one_head(&options, shape[1], causal ? shape[1] : shape[2], shape[3], shape[4]);
            problem.precision = precision;
            problem.causal = causal != 0;
            fill(&problem, i);
            check_against_oracle(&problem, shape[0]);
            attention_case_free(&problem);
        }
}

static void every_shape_is_the_definition(void **state)
{
    (void)state;
    check_shapes(PRECISION_FLOAT32);
}

static void every_shape_is_the_definition_in_bf16(void **state)
{
    (void)state;
    check_shapes(PRECISION_BF16);
}

/* Unseen keys with large scores lie in the same tiles, and only the first queries of a tile see its first
   keys. */
static void unseen_keys_weigh_nothing_however_large(void **state)
{
    (void)state;
    for (int causal = 0; causal < 2; causal++) {
        struct local_options options = block_size_of(5);
        struct attention_case problem = one_head(&options, 300, 300, 4, 3);
        problem.causal = causal != 0;
        attention_case_fill(&problem, 11, false);
        for (size_t i = 0; i < 300; i++) {
            problem.query[4 * i] = 3;
            problem.key[4 * i] = 1000 * ((float)(i / 5 % 7) - 3);
        }
        check_against_oracle(&problem, 5);
        attention_case_free(&problem);
    }
}

/* Rows three blocks away, and with causal later rows, do not change a bit: nothing wraps. */
static void what_is_far_away_changes_no_bit(void **state)
{
    (void)state;
    enum { N = 400, S = 30, D = 8 };
    const struct kernels *best = kernels_named(NULL, &(const char *){0});
    for (int causal = 0; causal < 2; causal++)
        for (size_t changed = 0; changed < N; changed += 57) {
            struct local_options options = block_size_of(S);
            struct attention_case problem = one_head(&options, N, N, D, D);
            problem.causal = causal != 0;
            problem.kernels = best;
            attention_case_fill(&problem, 12, false);
            struct attention_result before = attention_case_run(&problem);
            for (size_t c = 0; c < D; c++) {
                problem.key[changed * D + c] += 1;
                problem.value[changed * D + c] -= 2;
            }
            struct attention_result after = attention_case_run(&problem);
            for (size_t i = 0; i < N; i++) {
                bool same = memcmp(before.out + i * D, after.out + i * D, D * sizeof(float)) == 0;
                if (same == sees(S, problem.causal, i, changed))
                    fail_msg("query %zu %s key %zu", i, same ? "does not see" : "sees", changed);
            }
            attention_result_free(&before);
            attention_result_free(&after);
            attention_case_free(&problem);
        }
}

/* A masked token is absent, and later tokens move up: blocks count only present tokens. */
static void a_masked_token_has_no_place(void **state)
{
    (void)state;
    enum { N = 90, S = 7, D = 4 };
    for (int causal = 0; causal < 2; causal++) {
        struct local_options options = block_size_of(S);
        struct attention_case masked = one_head(&options, N, N, D, D);
        masked.causal = causal != 0;
        attention_case_fill(&masked, 14, true);
        size_t kept[N], count = 0;
        for (size_t i = 0; i < N; i++)
            if ((masked.key_mask[i] = i % 3 != 1))
                kept[count++] = i;
        struct attention_case absent = one_head(&options, count, count, D, D);
        absent.causal = causal != 0;
        attention_case_fill(&absent, 14, false);
        for (size_t i = 0; i < count; i++) {
            attention_case_take_rows(absent.query, i, masked.query, kept[i], 1, D);
            attention_case_take_rows(absent.key, i, masked.key, kept[i], 1, D);
            attention_case_take_rows(absent.value, i, masked.value, kept[i], 1, D);
            attention_case_take_rows(absent.dout, i, masked.dout, kept[i], 1, D);
        }
        struct attention_result a = attention_case_run(&masked), b = attention_case_run(&absent);
        for (size_t i = 0; i < count; i++) {
            check_same_bits(a.out + kept[i] * D, b.out + i * D, D * sizeof(float), "out");
            check_same_bits(a.dquery + kept[i] * D, b.dquery + i * D, D * sizeof(float), "dquery");
            check_same_bits(a.dkey + kept[i] * D, b.dkey + i * D, D * sizeof(float), "dkey");
            check_same_bits(a.dvalue + kept[i] * D, b.dvalue + i * D, D * sizeof(float), "dvalue");
        }
        attention_result_free(&a);
        attention_result_free(&b);
        attention_case_free(&masked);
        attention_case_free(&absent);
    }
}

/* Blocks of at least half the length see everything. */
static void long_blocks_are_plain_attention(void **state)
{
    (void)state;
    struct local_options options = block_size_of(150);
    struct attention_case problem = one_head(&options, 300, 300, 16, 8);
    attention_case_fill(&problem, 13, false);
    struct attention_result local = attention_case_run(&problem);
    problem.mechanism = attention_find("softmax");
    struct oracle_softmax o = oracle_of(&problem, 150);
    struct attention_result whole = attention_case_run(&problem);
    for (size_t i = 0; i < 300 * 8; i++)
        check_near((double)local.out[i], (double)whole.out[i], 2 * o.out_bound[i], "out");
    for (size_t i = 0; i < 300 * 16; i++)
        check_near((double)local.dkey[i], (double)whole.dkey[i], 2 * o.dkey_bound[i], "dkey");
    oracle_softmax_free(&o);
    attention_result_free(&local);
    attention_result_free(&whole);
    attention_case_free(&problem);
}

/* With threads: groups of keys in parallel, each thread with its own tiles. Parts of blocks of 600 drift
   across block ends; a span too short for them changed no bit here and was found only by TSan. */
static void threads_do_not_change_a_bit(void **state)
{
    (void)state;
    static const size_t blocks[] = {16, 101, 600};
    for (int causal = 0; causal < 2; causal++)
        for (int half = 0; half < 2; half++)
            for (size_t b = 0; b < 3; b++) {
                struct local_options options = block_size_of(blocks[b]);
                options.relative = b != 1;
                options.wrap = b == 1 && !causal;
                struct attention_case problem =
                    one_head(&options, 4500, causal || b == 1 ? 4500 : 5003, 19, 41);
                problem.kernels = kernels_named(NULL, &(const char *){0});
                problem.precision = half ? PRECISION_BF16 : PRECISION_FLOAT32;
                problem.causal = causal != 0;
                attention_case_fill(&problem, 17, false);
                struct attention_result one = attention_case_run(&problem);
                for (problem.threads = 2; problem.threads < 16; problem.threads += 3) {
                    struct attention_result many = attention_case_run(&problem);
                    attention_case_same_bits(&one, &many, &problem, "local");
                    attention_result_free(&many);
                }
                attention_result_free(&one);
                attention_case_free(&problem);
            }
}

/* ---- relative terms ------------------------------------------------------------------------------------ */

enum { WIDTH = 64 };

/* The sinusoids of a distance (WIDTH). */
static void sinusoids(double *to, double distance)
{
    for (size_t c = 0; c < WIDTH; c++) {
        double angle = distance * pow(10000, -(double)(c / 2 * 2) / WIDTH);
        to[c] = c % 2 == 0 ? sin(angle) : cos(angle);
    }
}

/* Relative attention in double: r_t for every distance, terms of scores, and the backward pass from their
   gradients to queries, biases and W. */
struct relative {
    size_t n_q, n_k, d;
    bool ring;
    const float *weight, *content_bias, *position_bias;
    double *r, *r_error;  /* (n_q + n_k - 1, d): for distances n_q - 1 down to 1 - n_k */
    double *dw, *du, *dv; /* gradients, followed by their bounds */
};

static double *zeros(size_t count)
{
    return calloc(count, sizeof(double));
}

static struct relative relative_open(const struct attention_case *problem)
{
    struct relative r = {.n_q = problem->queries[0], .n_k = problem->keys[0], .d = problem->head_dim};
    size_t count = r.n_q + r.n_k - 1;
    r.weight = problem->params;
    r.content_bias = r.weight + WIDTH * r.d;
    r.position_bias = r.content_bias + r.d;
    r.r = zeros(count * r.d);
    r.r_error = zeros(count * r.d);
    r.dw = zeros(2 * WIDTH * r.d);
    r.du = zeros(2 * r.d);
    r.dv = zeros(2 * r.d);
    for (size_t t = 0; t < count; t++) {
        double wave[WIDTH];
        sinusoids(wave, (double)r.n_q - 1 - (double)t);
        for (size_t c = 0; c < r.d; c++)
            for (size_t k = 0; k < WIDTH; k++) {
                r.r[t * r.d + c] += wave[k] * (double)r.weight[k * r.d + c];
                r.r_error[t * r.d + c] +=
                    (WIDTH + 2) * FLT_EPSILON * fabs(wave[k] * (double)r.weight[k * r.d + c]);
            }
    }
    return r;
}

static void relative_close(struct relative *r)
{
    double *arrays[] = {r->r, r->r_error, r->dw, r->du, r->dv};
    for (size_t i = 0; i < 5; i++)
        free(arrays[i]);
}

/* i - j; on a ring the shortest way round, and of two equal ones that on which the key comes first. */
static long distance(const struct relative *r, size_t i, size_t j)
{
    long plain = (long)i - (long)j, n = (long)r->n_k, best = plain;
    if (!r->ring)
        return plain;
    for (long way = plain - n; way <= plain + n; way += n)
        if (labs(way) < labs(best) || (labs(way) == labs(best) && way > best))
            best = way;
    return best;
}

/* The row of r for query i and key j. */
static size_t term(const struct relative *r, size_t i, size_t j)
{
    return (size_t)((long)r->n_q - 1 - distance(r, i, j));
}

/* Fills o->query with q + u, the extra scores and their errors; half: relative error of operands. */
static void relative_scores(const struct relative *r, struct oracle_softmax *o, const float *query,
                            double half)
{
    o->extra = zeros(o->n_q * o->n_k);
    o->extra_error = zeros(o->n_q * o->n_k);
    o->dextra = zeros(o->n_q * o->n_k);
    o->dextra_bound = zeros(o->n_q * o->n_k);
    double most = 0;
    for (size_t i = 0; i < o->n_q; i++)
        for (size_t c = 0; c < r->d; c++) {
            o->query[i * r->d + c] = (double)query[i * r->d + c] + (double)r->content_bias[c];
            most = fmax(most, fabs(o->query[i * r->d + c]));
        }
    o->input_error = most * fmax(FLT_EPSILON, half);
    for (size_t i = 0; i < o->n_q; i++)
        for (size_t j = 0; j < o->n_k; j++)
            for (size_t c = 0; c < r->d; c++) {
                double qv = (double)query[i * r->d + c] + (double)r->position_bias[c],
                       rt = r->r[term(r, i, j) * r->d + c], error = r->r_error[term(r, i, j) * r->d + c];
                o->extra[i * o->n_k + j] += qv * rt;
                o->extra_error[i * o->n_k + j] +=
                    fabs(qv) * error + (((double)r->d + 4) * FLT_EPSILON + 2.1 * half) * fabs(qv * rt);
            }
}

/* From o's dquery (of q + u) and dextra: dquery of q and the gradients of the parameters. */
static void relative_gradients(struct relative *r, struct oracle_softmax *o, const float *query, double half)
{
    double relative = ((double)(o->n_q + o->n_k + r->d + WIDTH) + 8) * FLT_EPSILON + 2.1 * half;
    for (size_t i = 0; i < o->n_q; i++) {
        for (size_t c = 0; c < r->d; c++) {
            r->du[c] += o->dquery[i * r->d + c];
            r->du[r->d + c] += o->dquery_bound[i * r->d + c] + relative * fabs(o->dquery[i * r->d + c]);
        }
        for (size_t j = 0; j < o->n_k; j++) {
            double ds = o->dextra[i * o->n_k + j], bound = o->dextra_bound[i * o->n_k + j], wave[WIDTH];
            if (ds == 0 && bound == 0)
                continue;
            bound += relative * fabs(ds);
            sinusoids(wave, (double)distance(r, i, j));
            for (size_t c = 0; c < r->d; c++) {
                double qv = (double)query[i * r->d + c] + (double)r->position_bias[c],
                       rt = r->r[term(r, i, j) * r->d + c];
                o->dquery[i * r->d + c] += ds * rt;
                o->dquery_bound[i * r->d + c] +=
                    bound * fabs(rt) + fabs(ds) * r->r_error[term(r, i, j) * r->d + c];
                r->dv[c] += ds * rt;
                r->dv[r->d + c] += bound * fabs(rt) + fabs(ds) * r->r_error[term(r, i, j) * r->d + c];
                for (size_t k = 0; k < WIDTH; k++) {
                    r->dw[k * r->d + c] += ds * qv * wave[k];
                    r->dw[(WIDTH + k) * r->d + c] += (bound + FLT_EPSILON * fabs(ds)) * fabs(qv);
                }
            }
        }
    }
}

static struct oracle_softmax relative_oracle(const struct attention_case *problem, size_t s,
                                             struct relative *r)
{
    double half = problem->precision == PRECISION_BF16 ? ldexp(1, -8) : 0;
    struct oracle_softmax o = oracle_of(problem, s);
    *r = relative_open(problem);
    r->ring = ((const struct local_options *)problem->options)->wrap && !problem->causal;
    relative_scores(r, &o, problem->query, half);
    oracle_softmax_run(&o);
    relative_gradients(r, &o, problem->query, half);
    return o;
}

static void relative_oracle_free(struct oracle_softmax *o, struct relative *r)
{
    free(o->extra);
    free(o->extra_error);
    free(o->dextra);
    free(o->dextra_bound);
    relative_close(r);
    oracle_softmax_free(o);
}

static void check_relative(const size_t shape[5], uint64_t seed, bool causal, bool wrap,
                           enum precision precision)
{
    struct local_options options = block_size_of(shape[0]);
    options.relative = 1;
    options.wrap = wrap;
    struct attention_case problem =
        one_head(&options, shape[1], causal || wrap ? shape[1] : shape[2], shape[3], shape[4]);
    problem.precision = precision;
    problem.causal = causal;
    fill(&problem, seed);
    for (size_t i = 0; i < WIDTH * shape[3]; i++)
        problem.params[i] *= 0.3f; /* r about as long as keys */
    struct relative r;
    struct oracle_softmax o = relative_oracle(&problem, shape[0], &r);
    problem.start = 0.25f;
    for (const struct kernels *const *kernels = kernels_all(); *kernels != NULL; kernels++) {
        problem.kernels = *kernels;
        struct attention_result result = attention_case_run(&problem);
        check_array(result.out, o.out, o.out_bound, o.n_q * o.d_v, 0, "out");
        check_array(result.dquery, o.dquery, o.dquery_bound, o.n_q * o.d, 0.25, "dquery");
        check_array(result.dkey, o.dkey, o.dkey_bound, o.n_k * o.d, 0.25, "dkey");
        check_array(result.dvalue, o.dvalue, o.dvalue_bound, o.n_k * o.d_v, 0.25, "dvalue");
        check_array(result.dparams, r.dw, r.dw + WIDTH * o.d, WIDTH * o.d, 0.25, "dW");
        check_array(result.dparams + WIDTH * o.d, r.du, r.du + o.d, o.d, 0.25, "du");
        check_array(result.dparams + (WIDTH + 1) * o.d, r.dv, r.dv + o.d, o.d, 0.25, "dv");
        attention_result_free(&result);
    }
    relative_oracle_free(&o, &r);
    attention_case_free(&problem);
}

static void relative_terms_are_the_definition(void **state)
{
    (void)state;
    static const size_t few[][5] = {
        {1, 1, 1, 1, 1},       {1, 40, 40, 5, 3},     {3, 100, 100, 6, 2},    {7, 103, 150, 4, 5},
        {7, 20, 203, 3, 4},    {7, 203, 20, 3, 4},    {64, 30, 30, 3, 2},     {64, 583, 583, 4, 3},
        {101, 377, 377, 3, 2}, {128, 600, 700, 2, 3}, {5000, 200, 200, 4, 4},
    };
    /* On a ring: one to five blocks, and lengths of which half lies among the neighbours. */
    static const size_t rings[][2] = {
        {1, 2},    {1, 3},    {1, 4},    {2, 5},    {5, 5},    {5, 10},    {5, 12},
        {5, 15},   {5, 16},   {5, 18},   {5, 19},   {5, 20},   {5, 25},    {50, 100},
        {50, 150}, {50, 151}, {50, 197}, {50, 198}, {50, 199}, {130, 389}, {130, 500},
    };
    for (size_t i = 0; i < sizeof rings / sizeof *rings; i++) {
        const size_t shape[] = {rings[i][0], rings[i][1], rings[i][1], 3, 2};
        check_relative(shape, 40 + i, false, true, PRECISION_FLOAT32);
    }
    for (size_t i = 0; i < sizeof few / sizeof *few; i++)
        for (int causal = 0; causal < 2; causal++) {
            check_relative(few[i], i, causal != 0, false, PRECISION_FLOAT32);
            if (few[i][1] < 300)
                check_relative(few[i], i, causal != 0, false, PRECISION_BF16);
            if (!causal)
                check_relative(few[i], i, false, true, PRECISION_FLOAT32);
        }
}

/* sum <dout, out> in double, with one input changed. */
static double relative_loss(const struct attention_case *problem, size_t s)
{
    struct relative r = relative_open(problem);
    struct oracle_softmax o = oracle_of(problem, s);
    relative_scores(&r, &o, problem->query, 0);
    double loss = oracle_softmax_run(&o);
    relative_oracle_free(&o, &r);
    return loss;
}

/* The closed forms above are the derivatives of that loss; the step and the changed inputs are powers of
   two. */
static void the_relative_oracle_is_its_own_derivative(void **state)
{
    (void)state;
    struct local_options options = block_size_of(2);
    options.relative = 1;
    struct attention_case problem = one_head(&options, 7, 7, 3, 2);
    attention_case_fill(&problem, 3, false);
    for (size_t i = 0; i < (WIDTH + 2) * 3; i++)
        problem.params[i] = ldexpf(roundf(ldexpf(problem.params[i] * 0.3f, 8)), -8);
    for (size_t i = 0; i < 7 * 3; i++)
        problem.query[i] = ldexpf(roundf(ldexpf(problem.query[i], 8)), -8);
    struct relative r;
    struct oracle_softmax o = relative_oracle(&problem, 2, &r);
    const double *gradients[] = {r.dw, r.du, r.dv, o.dquery};
    float *inputs[] = {problem.params, problem.params + WIDTH * 3, problem.params + (WIDTH + 1) * 3,
                       problem.query};
    size_t counts[] = {WIDTH * 3, 3, 3, 7 * 3};
    for (size_t a = 0; a < 4; a++)
        for (size_t i = 0; i < counts[a]; i++) {
            float before = inputs[a][i], step = ldexpf(1, -12);
            inputs[a][i] = before + step;
            double want = relative_loss(&problem, 2);
            inputs[a][i] = before - step;
            want = (want - relative_loss(&problem, 2)) / (2 * (double)step);
            inputs[a][i] = before;
            check_near(gradients[a][i], want, 1e-6, "gradient of the oracle");
        }
    relative_oracle_free(&o, &r);
    attention_case_free(&problem);
}

/* ---- rings --------------------------------------------------------------------------------------------- */

static void the_ends_see_each_other_where_asked(void **state)
{
    (void)state;
    static const size_t settings[][2] = {{1, 1},    {5, 4},     {5, 9},     {5, 14},  {5, 15},
                                         {5, 16},   {5, 19},    {5, 20},    {7, 300}, {64, 193},
                                         {64, 700}, {101, 911}, {160, 1300}};
    for (size_t k = 0; k < sizeof settings / sizeof *settings; k++) {
        size_t s = settings[k][0], n = settings[k][1];
        struct local_options options = block_size_of(s);
        options.wrap = 1;
        struct attention_case problem = one_head(&options, n, n, 4, 3);
        attention_case_fill(&problem, 20 + k, false);
        struct oracle_softmax o = oracle_of(&problem, s);
        problem.start = 0.25f;
        for (const struct kernels *const *kernels = kernels_all(); *kernels != NULL; kernels++) {
            problem.kernels = *kernels;
            struct attention_result result = attention_case_run(&problem);
            check_array(result.out, o.out, o.out_bound, o.n_q * o.d_v, 0, "out");
            check_array(result.dquery, o.dquery, o.dquery_bound, o.n_q * o.d, 0.25, "dquery");
            check_array(result.dkey, o.dkey, o.dkey_bound, o.n_k * o.d, 0.25, "dkey");
            check_array(result.dvalue, o.dvalue, o.dvalue_bound, o.n_k * o.d_v, 0.25, "dvalue");
            attention_result_free(&result);
        }
        oracle_softmax_free(&o);
        attention_case_free(&problem);
    }
}

/* Causal attention cannot wrap; cross attention is refused. */
static void where_nothing_can_go_round(void **state)
{
    (void)state;
    const struct mechanism *local = attention_find("local");
    struct local_options options = block_size_of(5);
    struct attention_case problem = one_head(&options, 70, 70, 4, 3);
    problem.causal = true;
    attention_case_fill(&problem, 31, false);
    struct attention_result plain = attention_case_run(&problem);
    options.wrap = 1;
    struct attention_result asked = attention_case_run(&problem);
    attention_case_same_bits(&plain, &asked, &problem, "causal");
    attention_result_free(&plain);
    attention_result_free(&asked);
    attention_case_free(&problem);
    struct problem_shape shape = {
        .num_queries = 70, .num_keys = 70, .head_dim = 4, .value_dim = 3, .workers = 1};
    assert_null(local->host.refuse(&options, &shape));
    shape.num_keys = 69;
    assert_string_equal(local->host.refuse(&options, &shape), "`wrap` needs as many queries as keys");
    shape.causal = true;
    assert_null(local->host.refuse(&options, &shape));
}

static void memory_is_linear_and_small(void **state)
{
    (void)state;
    const struct mechanism *local = attention_find("local");
    struct local_options options = block_size_of(64);
    struct problem_shape shape = {
        .num_queries = 4096, .num_keys = 4096, .head_dim = 64, .value_dim = 64, .workers = 1};
    assert_int_equal(local->host.saved_size(&options, &shape), 2 * 4096 * sizeof(float));
    size_t scratch = local->host.scratch_size(&options, &shape);
    shape.num_queries = shape.num_keys = 8192;
    assert_int_equal(local->host.scratch_size(&options, &shape), scratch + 4096 * sizeof(float));
    assert_true(scratch < 1 << 20);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_shape_is_the_definition),
        cmocka_unit_test(every_shape_is_the_definition_in_bf16),
        cmocka_unit_test(unseen_keys_weigh_nothing_however_large),
        cmocka_unit_test(what_is_far_away_changes_no_bit),
        cmocka_unit_test(a_masked_token_has_no_place),
        cmocka_unit_test(long_blocks_are_plain_attention),
        cmocka_unit_test(threads_do_not_change_a_bit),
        cmocka_unit_test(the_relative_oracle_is_its_own_derivative),
        cmocka_unit_test(relative_terms_are_the_definition),
        cmocka_unit_test(the_ends_see_each_other_where_asked),
        cmocka_unit_test(where_nothing_can_go_round),
        cmocka_unit_test(memory_is_linear_and_small),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
