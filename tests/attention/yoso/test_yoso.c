/* yoso given its codes equals the brute force over hashes and pairs, forward and backward, on every
   instruction set, including the edge cases of hashing; and the exact symmetries of the mechanism.
   test_yoso_mean.c tests the means over codes.
   Bugs planted and caught: keys hashed from the rows of queries, 1/m left out in dV, tau for tau / 2,
   tau - 1 for tau, the bias of `sum` left out, its sums not cleared, gradients written instead of added,
   the last hash dropped, V not read again in backward, >= for > in the sign of a projection, |q - k| and
   |q + k| swapped; causal: a query read before its own key was added, keys of later rows of the same block
   read, later queries added to dV only once, pairs of the later half with all keys, the half of the keys
   that only later queries see left out; a limit of partners ignored, hyperplanes not rotated again by
   recompute; a pool that is no prime accepted (121); short tables for all precisions or for none.
   Covers: yoso_memory.c yoso_refuse.c.
   SPDX-License-Identifier: Apache-2.0 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/random.h"
#include "support/check.h"
#include "support/yoso_case.h"

#define EPS 0x1p-24

static const struct kernels *best(void)
{
    return kernels_named(NULL, &(const char *){0});
}

/* On every instruction set; all must agree on the codes to the bit. The factor counts additions in a sum:
   rows, hashes and columns. */
static void check_case(struct yoso_case *c)
{
    const struct oracle_yoso *o = &c->oracle;
    size_t bytes = c->mechanism->host.saved_size(&c->options, &c->problem.shape);
    size_t code_bytes = o->n_q * (size_t)c->options.num_hashes * (c->options.hash_bits > 16 ? 4 : 2);
    void *first = malloc(bytes);
    struct case_sizes s = {NULL, NULL, NULL, NULL};
    double terms = (double)(o->n_q + o->n_k + (size_t)c->options.num_hashes + o->d_v + o->d) + 20;
    for (const struct kernels *const *kernels = kernels_all(); *kernels != NULL; kernels++) {
        c->problem.kernels = *kernels;
        case_forward(c);
        case_clear_gradients(c);
        case_backward(c);
        if (s.y == NULL) {
            memcpy(first, c->problem.saved, bytes);
            case_ask_oracle(c, true);
            s = case_sizes_of(c);
        }
        check_same_bits(c->problem.saved, first, code_bytes, "codes on two instruction sets");
        case_check_view(c->out, c->y, s.y, terms, "y", c);
        case_check_view(c->gradients.value, c->dv, s.dv, terms, "dv", c);
        case_check_view(c->gradients.query, c->dq, s.dq, 2 * terms, "dq", c);
        case_check_view(c->gradients.key, c->dk, s.dk, 2 * terms, "dk", c);
    }
    free(first);
    case_sizes_free(&s);
}

struct size {
    size_t n_q, n_k, d, d_v;
    int64_t num_hashes, hash_bits, plane_pool;
};

/* Every combination of options, not causal and causal in two ways. */
static void each_form(const struct size *size, void (*change)(struct yoso_case *))
{
    for (int form = 0; form < 54; form++) {
        struct yoso_options options = yoso_preset();
        options.num_hashes = size->num_hashes;
        options.hash_bits = size->hash_bits;
        options.normalize = form / 6 % 3;
        options.gradient = form / 2 % 3;
        options.planes = form % 2;
        options.plane_pool = size->plane_pool;
        if (options.gradient == YOSO_GRADIENT_TRUE && options.hash_bits == 1)
            continue;
        struct yoso_case *c = case_new(&mechanism_yoso, best(), &options, size->n_q, size->n_k, size->d,
                                       size->d_v, 5 * size->n_q + size->d);
        if (change != NULL)
            change(c);
        if (form >= 18)
            case_make_causal(c, form / 18 - 1);
        check_case(c);
        case_free(c);
    }
}

static void equals_brute_force(void **state)
{
    (void)state;
    static const struct size sizes[] = {
        {1, 1, 1, 1, 1, 1, 0},     {5, 9, 1, 2, 7, 2, 0},      {9, 5, 3, 1, 16, 3, 0},
        {40, 33, 8, 16, 17, 2, 0}, {33, 70, 64, 64, 5, 5, 0},  {150, 20, 17, 5, 4, 6, 0},
        {12, 9, 4, 20, 3, 16, 0},  {9, 12, 5, 3, 33, 17, 0},   {20, 20, 6, 7, 2, 24, 0},
        {40, 33, 8, 16, 17, 2, 5}, {20, 20, 6, 7, 33, 17, 19},
    };
    for (size_t s = 0; s < sizeof sizes / sizeof *sizes; s++)
        each_form(&sizes[s], NULL);
}

/* Plants equal, parallel, opposite, zero and tiny vectors among ordinary ones. */
static void plant_edges(struct yoso_case *c)
{
    for (size_t e = 0; e < c->problem.shape.head_dim; e++) {
        float *q[6], *k[6];
        for (size_t i = 0; i < 6; i++) {
            q[i] = case_row(c->problem.query, i) + e;
            k[i] = case_row(c->problem.key, i) + e;
        }
        *k[0] = *q[0];
        *k[1] = 4 * *q[1];
        *k[2] = -*q[2];
        *k[3] = *q[3] = 0;
        *q[4] = 0;
        *k[5] *= 1e-20f;
    }
}

static void edges_equal_brute_force(void **state)
{
    (void)state;
    static const struct size sizes[] = {
        {6, 6, 4, 3, 20, 2, 0}, {30, 20, 16, 16, 8, 4, 0}, {30, 20, 16, 16, 18, 4, 5}};
    for (size_t s = 0; s < sizeof sizes / sizeof *sizes; s++)
        each_form(&sizes[s], plant_edges);
}

static void all_one(struct yoso_case *c)
{
    for (size_t i = 1; i < c->problem.query.rows; i++)
        memcpy(case_row(c->problem.query, i), case_row(c->problem.query, 0), c->problem.query.cols * 4);
    for (size_t i = 0; i < c->problem.key.rows; i++)
        memcpy(case_row(c->problem.key, i), case_row(c->problem.query, 0), c->problem.key.cols * 4);
}

/* Every hash has one bucket with all rows: the long lists of backward. */
static void one_bucket_equals_brute_force(void **state)
{
    (void)state;
    static const struct size sizes[] = {
        {130, 150, 8, 8, 3, 3, 0}, {3, 200, 4, 2, 2, 9, 0}, {200, 1, 4, 2, 2, 9, 0}};
    for (size_t s = 0; s < sizeof sizes / sizeof *sizes; s++)
        each_form(&sizes[s], all_one);
}

/* ---- exact statements ---------------------------------------------------------------------------------- */

static struct yoso_case *ordinary(int normalize, size_t n_q, size_t n_k, uint64_t seed)
{
    struct yoso_options options = yoso_preset();
    options.normalize = normalize;
    options.hash_bits = 4;
    options.num_hashes = 18;
    return case_new(&mechanism_yoso, best(), &options, n_q, n_k, 8, 6, seed);
}

static void equal_vectors_always_meet(void **state)
{
    (void)state;
    struct yoso_case *c = ordinary(YOSO_NORMALIZE_NONE, 5, 1, 2);
    all_one(c);
    case_forward(c);
    for (size_t i = 0; i < 5; i++) /* 18 times v / 18 */
        for (size_t e = 0; e < 6; e++)
            check_near((double)case_row(c->out, i)[e], (double)case_row(c->problem.value, 0)[e], 1e-5, "v");
    case_free(c);
}

static void opposite_vectors_never_meet(void **state)
{
    (void)state;
    for (int normalize = 0; normalize < 3; normalize++) {
        struct yoso_case *c = ordinary(normalize, 4, 4, 2);
        all_one(c);
        for (size_t i = 0; i < 4; i++)
            for (size_t e = 0; e < 8; e++)
                case_row(c->problem.query, i)[e] *= -1;
        case_forward(c);
        case_backward(c);
        for (size_t i = 0; i < 4; i++)
            for (size_t e = 0; e < 6; e++)
                assert_true(case_row(c->out, i)[e] == 0 && case_row(c->gradients.value, i)[e] == 0 &&
                            case_row(c->gradients.query, i)[e] == 0 && case_row(c->gradients.key, i)[e] == 0);
        case_free(c);
    }
}

static void zero_vectors_have_code_0_and_no_gradient(void **state)
{
    (void)state;
    struct yoso_case *c = ordinary(YOSO_NORMALIZE_NONE, 3, 2, 4);
    for (size_t e = 0; e < 8; e++) {
        case_row(c->problem.query, 1)[e] = e == 0 ? -0.0f : 0;
        case_row(c->problem.key, 0)[e] = 1e-13f * case_row(c->problem.key, 0)[e];
    }
    case_forward(c);
    case_backward(c);
    case_to_oracle(c, true);
    for (size_t h = 0; h < 18; h++) {
        assert_int_equal(c->query_codes[18 + h], 0);
        assert_int_equal(c->key_codes[h], 0);
    }
    for (size_t e = 0; e < 8; e++)
        assert_true(case_row(c->gradients.query, 1)[e] == 0 && case_row(c->gradients.key, 0)[e] == 0);
    case_free(c);
}

static void codes_ignore_powers_of_two(void **state)
{
    (void)state;
    struct yoso_case *c = ordinary(YOSO_NORMALIZE_L2, 40, 1, 6);
    size_t bytes = 40 * 18 * sizeof(uint16_t);
    case_forward(c);
    void *before = malloc(bytes);
    memcpy(before, c->problem.saved, bytes);
    for (size_t i = 0; i < 40; i++)
        for (size_t e = 0; e < 8; e++)
            case_row(c->problem.query, i)[e] = ldexpf(case_row(c->problem.query, i)[e], (int)i - 20);
    case_forward(c);
    check_same_bits(c->problem.saved, before, bytes, "codes");
    free(before);
    case_free(c);
}

static void output_is_linear_in_values(void **state)
{
    (void)state;
    struct yoso_case *c = ordinary(YOSO_NORMALIZE_NONE, 30, 30, 8);
    double first[30 * 6], second[30 * 6], sum[30 * 6];
    float kept[30][6], other[30][6];
    case_forward(c);
    case_read(first, c->out);
    for (size_t j = 0; j < 30; j++) {
        memcpy(kept[j], case_row(c->problem.value, j), sizeof kept[j]);
        random_normals(100 + j, 0, other[j], 6);
        memcpy(case_row(c->problem.value, j), other[j], sizeof other[j]);
    }
    case_forward(c);
    case_read(second, c->out);
    for (size_t j = 0; j < 30; j++)
        for (size_t e = 0; e < 6; e++)
            case_row(c->problem.value, j)[e] = 2 * kept[j][e] - 3 * other[j][e];
    case_forward(c);
    case_read(sum, c->out);
    for (size_t i = 0; i < 30 * 6; i++) /* 48 roundings of terms that add up to 5 */
        check_near(sum[i], 2 * first[i] - 3 * second[i], 48 * EPS * 5 * 30, "linear");
    case_free(c);
}

static void swap_rows(struct view view, size_t a, size_t b)
{
    for (size_t e = 0; e < view.cols; e++) {
        float kept = case_row(view, a)[e];
        case_row(view, a)[e] = case_row(view, b)[e];
        case_row(view, b)[e] = kept;
    }
}

/* 58 additions of terms up to 4 make up X, which is never shorter than 0.1 here; a gradient consists of a
   few such factors. */
static void order_of_keys_does_not_matter(void **state)
{
    (void)state;
    const double y_bound = 58 * EPS * 4 / 0.1, bound = 8 * y_bound;
    for (int normalize = 0; normalize < 3; normalize++) {
        struct yoso_case *c = ordinary(normalize, 30, 40, 9);
        double y[30 * 6], dq[30 * 8], dk[40 * 8], again[40 * 8];
        case_forward(c);
        case_backward(c);
        case_read(y, c->out), case_read(dq, c->gradients.query), case_read(dk, c->gradients.key);
        for (size_t j = 0; j < 20; j++) {
            swap_rows(c->problem.key, j, 39 - j);
            swap_rows(c->problem.value, j, 39 - j);
        }
        case_clear_gradients(c);
        case_forward(c);
        case_backward(c);
        case_read(again, c->out);
        for (size_t i = 0; i < 30 * 6; i++)
            check_near(again[i], y[i], y_bound, "y");
        case_read(again, c->gradients.query);
        for (size_t i = 0; i < 30 * 8; i++)
            check_near(again[i], dq[i], bound * (1 + fabs(dq[i])), "dq");
        case_read(again, c->gradients.key);
        for (size_t j = 0; j < 40; j++)
            for (size_t e = 0; e < 8; e++)
                check_near(again[(39 - j) * 8 + e], dk[j * 8 + e], bound * (1 + fabs(dk[j * 8 + e])), "dk");
        case_free(c);
    }
}

static void gradients_are_added_and_repeat(void **state)
{
    (void)state;
    struct yoso_case *c = ordinary(YOSO_NORMALIZE_L2, 30, 40, 10);
    case_forward(c);
    case_backward(c);
    struct view views[3] = {c->gradients.query, c->gradients.key, c->gradients.value};
    double once[3][40 * 8], twice[40 * 8];
    for (int v = 0; v < 3; v++)
        case_read(once[v], views[v]);
    case_backward(c);
    for (int v = 0; v < 3; v++) {
        case_read(twice, views[v]);
        for (size_t i = 0; i < views[v].rows * views[v].cols; i++) /* x + x is exact */
            check_near(twice[i], 2 * once[v][i], 0, "gradient twice");
    }
    case_free(c);
}

/* Heads and calls hash differently; the same keys give the same codes. */
static void chance_is_addressed_by_keys(void **state)
{
    (void)state;
    struct yoso_case *c = ordinary(YOSO_NORMALIZE_NONE, 60, 60, 11);
    size_t bytes = 60 * 18 * sizeof(uint16_t);
    uint16_t *first = malloc(bytes), *other = malloc(bytes);
    case_forward(c);
    memcpy(first, c->problem.saved, bytes);
    uint64_t head = c->problem.random_key;
    for (int what = 0; what < 3; what++) {
        if (what == 0)
            c->problem.random_key++; /* another head, the same hyperplanes */
        else if (what == 1)
            case_prepare(c, 12345); /* another call */
        else
            case_prepare(c, 11);
        case_forward(c);
        memcpy(other, c->problem.saved, bytes);
        size_t same = 0;
        for (size_t i = 0; i < 60 * 18; i++)
            same += first[i] == other[i];
        if (what < 2)
            assert_true(same < 60 * 18 / 5); /* 1 / 16 expected */
        else
            assert_int_equal(same, 60 * 18);
    }
    assert_true(c->problem.random_key == head);
    free(first), free(other);
    case_free(c);
}

/* A limit that no bucket reaches changes no bit; one that every bucket reaches changes dq and dk, but
   neither y nor dv. The bits do not depend on the number of threads. */
static void partners_are_limited(void **state)
{
    (void)state;
    static const int64_t limits[] = {0, 60, 2000000000, 2, 2};
    struct host host;
    struct pool *pool;
    host_init(&host);
    check_status(&host, pool_new(&host, 3, &pool), HASHATTN_OK, NULL);
    for (int gradient = YOSO_GRADIENT_TRUE; gradient <= YOSO_GRADIENT_RELEASED; gradient++) {
        float dq[5][60 * 8], dk[5][60 * 8], dv[5][60 * 6];
        for (int l = 0; l < 5; l++) {
            struct yoso_options options = yoso_preset();
            options.gradient = gradient;
            options.hash_bits = 3;
            options.num_hashes = 7;
            options.max_partners = limits[l];
            struct yoso_case *c = case_new(&mechanism_yoso, best(), &options, 60, 60, 8, 6, 31);
            if (l == 4) {
                c->problem.pool = pool;
                c->problem.shape.workers = 3;
                free(c->problem.scratch);
                c->problem.scratch = aligned_alloc(
                    64, (mechanism_yoso.host.scratch_size(&options, &c->problem.shape) + 63) / 64 * 64);
            }
            case_forward(c);
            case_backward(c);
            for (size_t i = 0; i < 60; i++) {
                memcpy(dq[l] + i * 8, case_row(c->gradients.query, i), 32);
                memcpy(dk[l] + i * 8, case_row(c->gradients.key, i), 32);
                memcpy(dv[l] + i * 6, case_row(c->gradients.value, i), 24);
            }
            case_free(c);
        }
        for (int l = 1; l < 5; l++) {
            bool same = limits[l] >= 60;
            assert_int_equal(memcmp(dq[0], dq[l], sizeof *dq) == 0, same);
            assert_int_equal(memcmp(dk[0], dk[l], sizeof *dk) == 0, same);
            check_same_bits(dv[0], dv[l], sizeof *dv, "dv with a limit");
        }
        check_same_bits(dq[3], dq[4], sizeof *dq, "dq on three threads");
        check_same_bits(dk[3], dk[4], sizeof *dk, "dk on three threads");
    }
    pool_free(&host, pool);
}

/* The bits are the same if codes are hashed again and only a float per query is kept. */
static void hashing_again_changes_nothing(void **state)
{
    (void)state;
    for (int form = 0; form < 12; form++) {
        float results[2][40 * 6 + 40 * 8 + 33 * 8 + 33 * 6];
        for (int again = 0; again < 2; again++) {
            struct yoso_options options = yoso_preset();
            options.normalize = form % 3;
            options.gradient = form / 3 % 3;
            options.hash_bits = form % 2 == 0 ? 3 : 18; /* narrow and wide codes */
            options.recompute = again;
            struct yoso_case *c =
                case_new(&mechanism_yoso, best(), &options, 40, form < 9 ? 33 : 40, 8, 6, (uint64_t)form);
            size_t saved = mechanism_yoso.host.saved_size(&options, &c->problem.shape);
            if (again)
                assert_int_equal(saved,
                                 options.normalize == YOSO_NORMALIZE_NONE ? 0 : (40 * 4 + 63) / 64 * 64);
            if (form >= 9)
                case_make_causal(c, 0);
            case_forward(c);
            case_backward(c);
            struct view views[] = {c->out, c->gradients.query, c->gradients.key, c->gradients.value};
            float *to = results[again];
            for (size_t v = 0; v < 4; v++)
                for (size_t i = 0; i < (v < 2 ? 40 : 33); i++, to += views[v].cols)
                    memcpy(to, case_row(views[v], i), views[v].cols * sizeof *to);
            case_free(c);
        }
        check_same_bits(results[0], results[1], sizeof results[0], "results with recompute");
    }
}

enum { SHORT_Q = 150, SHORT_V = 40 };

/* ones: values are 1, so that outputs give the number of collisions of a query. */
static void forward_with_tables(float *out, int tables, enum precision precision, bool causal, bool ones)
{
    struct yoso_options options = yoso_preset();
    options.normalize = YOSO_NORMALIZE_NONE;
    options.hash_bits = 5;
    options.num_hashes = 9;
    options.tables = tables;
    struct yoso_case *c = case_new(&mechanism_yoso, best(), &options, SHORT_Q, SHORT_Q, 8, SHORT_V, 7);
    size_t scratch = mechanism_yoso.host.scratch_size(&options, &c->problem.shape);
    c->problem.shape.precision = precision;
    assert_int_equal(mechanism_yoso.host.scratch_size(&options, &c->problem.shape), scratch);
    if (causal)
        case_make_causal(c, 0);
    for (size_t j = 0; j < SHORT_Q && ones; j++)
        for (size_t e = 0; e < SHORT_V; e++)
            case_row(c->problem.value, j)[e] = 1;
    case_forward(c);
    for (size_t i = 0; i < SHORT_Q; i++)
        memcpy(out + i * SHORT_V, case_row(c->out, i), SHORT_V * sizeof(float));
    case_free(c);
}

/* Values rounded by at most half a step move an output by at most that much for each collision. auto is
   int16 if products may round, and f32 if queries see part of the keys. */
static void short_tables_round_values(void **state)
{
    (void)state;
    static float want[SHORT_Q * SHORT_V], got[SHORT_Q * SHORT_V], met[SHORT_Q * SHORT_V];
    for (int i = 0; i < 2; i++) {
        const enum precision precision = i == 0 ? PRECISION_FLOAT32 : PRECISION_BF16;
        double moved = 0;
        forward_with_tables(want, YOSO_TABLES_F32, precision, false, false);
        forward_with_tables(met, YOSO_TABLES_F32, precision, false, true);
        forward_with_tables(got, YOSO_TABLES_INT16, precision, false, false);
        for (size_t k = 0; k < SHORT_Q * SHORT_V; k++) { /* the root mean square is 1, within 2 % */
            check_near((double)got[k], (double)want[k], (double)met[k] * 1.02 / 128 + 1e-5, "rounded values");
            moved += fabs((double)got[k] - (double)want[k]);
        }
        assert_true(moved > 0);
        forward_with_tables(met, YOSO_TABLES_AUTO, precision, false, false);
        check_same_bits(met, precision == PRECISION_BF16 ? got : want, sizeof met, "tables of auto");
        forward_with_tables(want, YOSO_TABLES_F32, precision, true, false);
        forward_with_tables(got, YOSO_TABLES_INT16, precision, true, false);
        check_same_bits(got, want, sizeof got, "tables of causal attention");
    }
}

static void says_what_it_refuses(void **state)
{
    (void)state;
    struct yoso_options options = yoso_preset();
    const struct problem_shape good = {
        .num_queries = 4096, .num_keys = 4096, .head_dim = 64, .value_dim = 64};
    struct problem_shape shape = good;
    assert_null(mechanism_yoso.host.refuse(&options, &shape));
    assert_true(mechanism_yoso.host.saved_size(&options, &shape) < 1 << 20);
    shape.num_keys = (size_t)1 << 33;
    assert_non_null(strstr(mechanism_yoso.host.refuse(&options, &shape), "32 bits"));
    shape = good;
    shape.value_dim = (size_t)1 << 50;
    assert_non_null(strstr(mechanism_yoso.host.refuse(&options, &shape), "bytes"));
    shape = good;
    shape.value_dim = SIZE_MAX;
    assert_non_null(strstr(mechanism_yoso.host.refuse(&options, &shape), "bytes"));
    shape = good;
    shape.head_dim = (size_t)1 << 60;
    assert_non_null(strstr(mechanism_yoso.host.refuse(&options, &shape), "bytes"));
    shape = good;
    options.planes = PLANES_HADAMARD;
    assert_null(mechanism_yoso.host.refuse(&options, &shape));
    for (int side = 0; side < 2; side++) {
        shape.head_dim = side ? 4097 : 31;
        assert_non_null(strstr(mechanism_yoso.host.refuse(&options, &shape), "head_dim of 32 to 4096"));
        shape.head_dim = side ? 4096 : 32;
        assert_null(mechanism_yoso.host.refuse(&options, &shape));
    }
    options.projection = HASH_BF16_DP;
    assert_non_null(
        strstr(mechanism_yoso.host.refuse(&options, &shape), "`projection` f32, int16-dp or auto"));
    options.projection = HASH_INT8_DP; /* limits the hashed width; neyshabur's map adds two numbers */
    options.planes = PLANES_ORTHOGONAL;
    shape.head_dim = 32768;
    assert_null(mechanism_yoso.host.refuse(&options, &shape));
    shape.head_dim = 32769;
    assert_non_null(strstr(mechanism_yoso.host.refuse(&options, &shape), "at most 32768 numbers"));
    shape.head_dim = 64;
    shape.value_dim = 32769;
    assert_null(mechanism_yoso.host.refuse(&options, &shape));
    shape = good;
    options.projection = HASH_AUTO;
    shape = good;
    options.hash_bits = 24;
    options.num_hashes = 4096;
    assert_null(mechanism_yoso.host.refuse(&options, &shape));
    options.hash_bits = 1;
    options.gradient = YOSO_GRADIENT_TRUE;
    assert_non_null(strstr(mechanism_yoso.host.refuse(&options, &shape), "hash_bits"));
    options.gradient = YOSO_GRADIENT_LOWER;
    options.max_partners = 5;
    assert_non_null(strstr(mechanism_yoso.host.refuse(&options, &shape), "max_partners"));
    options.max_partners = 0;
    options.gradient_hashes = options.num_hashes;
    assert_null(mechanism_yoso.host.refuse(&options, &shape));
    options.gradient_hashes++;
    assert_non_null(strstr(mechanism_yoso.host.refuse(&options, &shape), "at most `num_hashes`"));
    options.gradient_hashes = 1;
    options.gradient = YOSO_GRADIENT_RELEASED;
    assert_non_null(strstr(mechanism_yoso.host.refuse(&options, &shape), "gradient_hashes"));
    options.gradient_hashes = 0;
    options.gradient = YOSO_GRADIENT_LOWER;
    options.max_partners = 5;
    options.gradient = YOSO_GRADIENT_RELEASED;
    assert_null(mechanism_yoso.host.refuse(&options, &shape));
}

static void says_which_pools_it_refuses(void **state)
{
    (void)state;
    struct yoso_options options = yoso_preset();
    const struct problem_shape shape = {
        .num_queries = 4096, .num_keys = 4096, .head_dim = 64, .value_dim = 64};
    static const int64_t composite[] = {1, 4, 9, 15, 25, 121, 169, 2047};
    options.num_hashes = 121;
    for (size_t i = 0; i < sizeof composite / sizeof *composite; i++) {
        options.plane_pool = composite[i];
        assert_non_null(strstr(mechanism_yoso.host.refuse(&options, &shape), "must be a prime number"));
    }
    options.plane_pool = 7;
    assert_non_null(strstr(mechanism_yoso.host.refuse(&options, &shape), "at least `hash_bits`"));
    options.hash_bits = 7;
    assert_non_null(strstr(mechanism_yoso.host.refuse(&options, &shape), "too small for `num_hashes`"));
    options.num_hashes = 49;
    assert_null(mechanism_yoso.host.refuse(&options, &shape));
    options.planes = PLANES_HADAMARD_PAPER;
    assert_non_null(strstr(mechanism_yoso.host.refuse(&options, &shape), "hadamard-paper cannot be shared"));
    options.planes = PLANES_HADAMARD;
    assert_null(mechanism_yoso.host.refuse(&options, &shape));
    options.hash_bits = options.plane_pool = 2;
    options.num_hashes = 4;
    assert_null(mechanism_yoso.host.refuse(&options, &shape));
    options.plane_pool = 4093;
    assert_null(mechanism_yoso.host.refuse(&options, &shape));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(equals_brute_force),
        cmocka_unit_test(edges_equal_brute_force),
        cmocka_unit_test(one_bucket_equals_brute_force),
        cmocka_unit_test(equal_vectors_always_meet),
        cmocka_unit_test(opposite_vectors_never_meet),
        cmocka_unit_test(zero_vectors_have_code_0_and_no_gradient),
        cmocka_unit_test(codes_ignore_powers_of_two),
        cmocka_unit_test(output_is_linear_in_values),
        cmocka_unit_test(order_of_keys_does_not_matter),
        cmocka_unit_test(gradients_are_added_and_repeat),
        cmocka_unit_test(chance_is_addressed_by_keys),
        cmocka_unit_test(partners_are_limited),
        cmocka_unit_test(hashing_again_changes_nothing),
        cmocka_unit_test(short_tables_round_values),
        cmocka_unit_test(says_what_it_refuses),
        cmocka_unit_test(says_which_pools_it_refuses),
    };
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    print_message("largest error over its bound: %.2f\n", case_worst_ratio());
    return failed;
}
