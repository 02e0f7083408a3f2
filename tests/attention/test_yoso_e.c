/* yoso-e against the double-precision oracle, on every instruction set: forward, gradients lower and true,
   all normalisations, sizes around the tile, cross attention, and the edges: zero, equal, nearly equal and
   opposite vectors. The bound of each element is a first-order propagation of rounding, derived beside it.
   Bugs planted and caught: close pairs not recomputed, their slope kept in the tile as well, tau for tau /
   2, bias of the sum left out in backward, saved lengths of the first block used for all, the last tile of
   keys dropped, a zero key given length 1; causal: the query's own key hidden, unseen pairs left in the
   slope, tiles skipped by the first query of a block; rows too long for float treated as zeros.
   SPDX-License-Identifier: Apache-2.0 */
#include <math.h>
#include <stdlib.h>

#include "base/random.h"
#include "support/check.h"
#include "support/yoso_case.h"

#define PI  3.14159265358979323846
#define EPS 0x1p-24

/* First-order bounds of every element of y, dq, dk, dv, in the layout of the case's results. */
struct bounds {
    double *y, *dq, *dk, *dv;
};

/* The effect of rounding on one pair: on its power, on its weight w = power * slope, and on the direction
   of the tangent. */
struct pair_bound {
    double power, d_power, weight, d_weight, d_direction;
};

static struct pair_bound bound_pair(const struct yoso_case *c, size_t i, size_t j)
{
    size_t d = c->oracle.d;
    double tau = c->oracle.hash_bits, p = oracle_collision(c->oracle.q + i * d, c->oracle.k + j * d, d);
    double angle = PI * (1 - p), s = fmax(sin(angle), 0), u = 2 * sin(angle / 2), v = 2 * cos(angle / 2);
    /* Close pairs compute the angle from differences of vectors rounded by an eps each; the rest from a
       dot product of d terms that sum to at most 1, so the angle loses 1 / s. */
    bool near = u * u < 0.98 * (double)COLLISION_NEAR || v * v < 0.98 * (double)COLLISION_NEAR;
    double d_angle = near ? 8 * EPS : ((double)d + 6) * EPS / s, d_p = d_angle / PI + 4 * EPS;
    double relative = (4 * tau + 16) * EPS; /* the slot's own angle and power */
    struct pair_bound b = {.power = pow(p, tau)};
    b.d_power = tau * pow(p, tau - 1) * d_p + relative * b.power;
    if (c->options.gradient == YOSO_GRADIENT_LOWER) {
        b.weight = tau / 2 * b.power;
        b.d_weight = tau / 2 * b.d_power + 4 * EPS * b.weight;
        return b;
    }
    /* w times the tangential part of the other vector, which has length s: both are bounded together. */
    double bounded = tau / PI * pow(p, tau - 1);
    b.weight = near ? bounded / fmax(s, 1e-30) : bounded / s;
    b.d_direction = near ? bounded * fmin(2, 8 * EPS / fmax(s, 1e-30)) : 0;
    b.d_weight = near ? 0 : b.weight * (d_angle / s + relative);
    if (p > 1e-12 && tau > 1)
        b.d_weight += (near ? 0 : b.weight) * (tau - 1) * d_p / p;
    b.d_direction += near ? bounded * (relative + (p > 1e-12 ? (tau - 1) * d_p / p : 0)) : 0;
    if (near)
        b.weight = 0; /* no large numbers are added: see d_direction */
    return b;
}

static double length(const double *x, size_t n)
{
    double sum = 0;
    for (size_t c = 0; c < n; c++)
        sum += x[c] * x[c];
    return sqrt(sum);
}

/* Adds the bound of one side of a pair: each component of the other unit vector at most |other_c|. */
static void add_pair(double *bound, const double *other, size_t d, double weight, double d_weight,
                     double d_direction, double terms)
{
    double other_length = length(other, d);
    for (size_t c = 0; c < d; c++) {
        double unit = other_length > 0 ? fabs(other[c]) / other_length : 0;
        bound[c] += unit * (d_weight + weight * (terms + 4) * EPS) + d_direction;
    }
}

/* Bound of the backward pass through the normalization to unit length: (g - u <u, g>) / |x|. */
static void project(double *bound, const double *x, double *size, size_t d)
{
    double x_length = fmax(length(x, d), 1e-30), along = 0, along_size = 0;
    for (size_t c = 0; c < d; c++) {
        if (x_length < 1e-12)
            bound[c] = size[c] = 0;
        along += fabs(x[c]) / x_length * bound[c];
        along_size += fabs(x[c]) / x_length * size[c];
    }
    for (size_t c = 0; c < d; c++)
        bound[c] = (bound[c] + fabs(x[c]) / x_length * (along + ((double)d + 6) * EPS * along_size) +
                    6 * EPS * size[c]) /
                   x_length;
}

static struct bounds bounds_of(const struct yoso_case *c)
{
    const struct oracle_yoso *o = &c->oracle;
    size_t n_q = o->n_q, n_k = o->n_k, d = o->d, d_v = o->d_v;
    struct bounds b = {calloc(n_q * d_v, 8), calloc(n_q * d, 8), calloc(n_k * d, 8), calloc(n_k * d_v, 8)};
    double *dx = malloc(n_q * d_v * 8), *dsum = malloc(n_q * 8), *x_bound = calloc(n_q * d_v, 8),
           *q_size = calloc(n_q * d, 8), *k_size = calloc(n_k * d, 8);
    oracle_yoso_dx(o, c->dy, dx, dsum);
    for (size_t i = 0; i < n_q; i++) {
        double sum = 0, d_sum = 0;
        for (size_t j = 0; j < (o->visible == NULL ? n_k : o->visible[i]); j++) {
            struct pair_bound pair = bound_pair(c, i, j);
            double step = pair.d_power + ((double)n_k + 4) * EPS * pair.power;
            sum += pair.power;
            d_sum += step;
            for (size_t e = 0; e < d_v; e++)
                x_bound[i * d_v + e] += step * fabs(o->v[j * d_v + e]);
        }
        /* y = x / divisor */
        const double *x = c->x + i * d_v, *g = c->dy + i * d_v;
        double x_length = length(x, d_v), dx_length = length(x_bound + i * d_v, d_v), relative = 8 * EPS;
        double divisor = o->normalize == ORACLE_L2 ? x_length : o->normalize == ORACLE_SUM ? sum : 1;
        if (o->normalize == ORACLE_L2 && x_length > 0)
            relative += dx_length / x_length + (double)d_v * EPS;
        else if (o->normalize == ORACLE_SUM)
            relative += d_sum / sum;
        for (size_t e = 0; e < d_v && divisor > 0; e++)
            b.y[i * d_v + e] = (x_bound[i * d_v + e] + relative * fabs(x[e])) / divisor;
        /* dX = (G - Y <Y, G>) / divisor: every factor has the error `relative`, and Y twice that. */
        double g_length = length(g, d_v), y_length = divisor > 0 ? x_length / divisor : 0;
        double d_dx = 0, d_dsum = 0;
        if (o->normalize != ORACLE_NONE && divisor > 0) {
            relative += length(b.y + i * d_v, d_v) + ((double)d_v + 4) * EPS;
            d_dx = 4 * relative * g_length * (1 + (o->normalize == ORACLE_L2)) / divisor;
            d_dsum = o->normalize == ORACLE_SUM ? 4 * relative * g_length * (y_length + 1) / divisor : 0;
        }
        for (size_t j = 0; j < (o->visible == NULL ? n_k : o->visible[i]); j++) {
            struct pair_bound pair = bound_pair(c, i, j);
            double score = dsum[i], d_score = d_dsum, size = fabs(dsum[i]);
            for (size_t e = 0; e < d_v; e++) {
                double term = dx[i * d_v + e] * o->v[j * d_v + e];
                score += term;
                size += fabs(term);
                d_score += d_dx * fabs(o->v[j * d_v + e]);
                b.dv[j * d_v + e] +=
                    pair.power * d_dx +
                    fabs(dx[i * d_v + e]) * (pair.d_power + ((double)n_q + 4) * EPS * pair.power);
            }
            d_score += ((double)d_v + 4) * EPS * size;
            double weight = pair.weight * fabs(score), direction = pair.d_direction * (fabs(score) + d_score);
            double d_weight = pair.d_weight * fabs(score) + pair.weight * d_score;
            if (pair.weight == 0 && c->options.gradient == YOSO_GRADIENT_TRUE)
                direction += o->hash_bits / PI * d_score;
            add_pair(b.dq + i * d, o->k + j * d, d, weight, d_weight, direction, (double)n_k);
            add_pair(b.dk + j * d, o->q + i * d, d, weight, d_weight, direction, (double)n_q);
            for (size_t e = 0; e < d; e++) {
                q_size[i * d + e] += weight + direction + o->hash_bits * fabs(score) * pair.power;
                k_size[j * d + e] += weight + direction + o->hash_bits * fabs(score) * pair.power;
            }
        }
    }
    for (size_t i = 0; i < n_q; i++)
        project(b.dq + i * d, o->q + i * d, q_size + i * d, d);
    for (size_t j = 0; j < n_k; j++)
        project(b.dk + j * d, o->k + j * d, k_size + j * d, d);
    free(dx), free(dsum), free(x_bound), free(q_size), free(k_size);
    return b;
}

static double worst_ratio;

static void check_view(struct view got, const double *want, const double *bound, const char *what,
                       const char *isa)
{
    for (size_t i = 0; i < got.rows; i++)
        for (size_t c = 0; c < got.cols; c++) {
            double is = (double)case_row(got, i)[c], should = want[i * got.cols + c];
            double allowed = bound[i * got.cols + c] + 1e-30;
            worst_ratio = fmax(worst_ratio, fabs(is - should) / allowed);
            if (!(fabs(is - should) <= allowed))
                fail_msg("%s %s[%zu, %zu]: got %.9g, want %.9g, difference %.3g, allowed %.3g", isa, what, i,
                         c, is, should, fabs(is - should), allowed);
        }
}

/* Forward and backward of the case as it stands, on every instruction set, against the oracle. */
static void check_case(struct yoso_case *c)
{
    case_ask_oracle(c, false);
    struct bounds b = bounds_of(c);
    for (const struct kernels *const *kernels = kernels_all(); *kernels != NULL; kernels++) {
        c->problem.kernels = *kernels;
        case_forward(c);
        case_clear_gradients(c);
        case_backward(c);
        check_view(c->out, c->y, b.y, "y", (*kernels)->name);
        check_view(c->gradients.value, c->dv, b.dv, "dv", (*kernels)->name);
        check_view(c->gradients.query, c->dq, b.dq, "dq", (*kernels)->name);
        check_view(c->gradients.key, c->dk, b.dk, "dk", (*kernels)->name);
    }
    free(b.y), free(b.dq), free(b.dk), free(b.dv);
}

struct size {
    size_t n_q, n_k, d, d_v;
    int64_t hash_bits;
};

static void each_form(const struct size *size, void (*change)(struct yoso_case *))
{
    for (int form = 0; form < 18; form++) {
        struct yoso_options options = yoso_preset();
        options.hash_bits = size->hash_bits;
        options.normalize = form / 2 % 3;
        options.gradient = form % 2;
        struct yoso_case *c = case_new(&mechanism_yoso_e, kernels_named(NULL, &(const char *){0}), &options,
                                       size->n_q, size->n_k, size->d, size->d_v, 7 * size->n_q + size->d);
        if (change != NULL)
            change(c);
        if (form >= 6)
            case_make_causal(c, form / 6 - 1);
        check_case(c);
        case_free(c);
    }
}

static void agrees_with_the_oracle(void **state)
{
    (void)state;
    static const struct size sizes[] = {{1, 1, 1, 1, 1},    {1, 5, 3, 2, 2},     {7, 1, 2, 5, 9},
                                        {5, 7, 33, 3, 24},  {63, 65, 8, 16, 9},  {65, 64, 64, 64, 9},
                                        {2, 130, 17, 1, 4}, {130, 3, 16, 31, 12}};
    for (size_t s = 0; s < sizeof sizes / sizeof *sizes; s++)
        each_form(&sizes[s], NULL);
}

/* Plants equal, parallel, nearly equal, opposite, nearly opposite, zero and tiny rows among ordinary ones. */
static void plant_edges(struct yoso_case *c)
{
    size_t d = c->problem.shape.head_dim;
    for (size_t e = 0; e < d; e++) {
        float *q[8], *k[8];
        for (size_t i = 0; i < 8; i++) {
            q[i] = case_row(c->problem.query, i) + e;
            k[i] = case_row(c->problem.key, i) + e;
        }
        *k[0] = *q[0];
        *k[1] = 4 * *q[1];
        *k[2] = *q[2] * (1 + (e == 0 ? 1e-3f : 0));
        *k[3] = -*q[3];
        *k[4] = -*q[4] + (e == 1 ? 3e-3f : 0);
        *k[5] = 0;
        *q[5] = 0;
        *q[6] = 0;
        *k[7] *= 1e-18f;
        /* Just outside what the slot treats as close, and inside what is recomputed. */
        double angle = 2 * asin(sqrt(1.005 * (double)COLLISION_NEAR) / 2);
        *q[7] = e == 0;
        *k[6] = (float)(e == 0 ? cos(angle) : e == 1 ? sin(angle) : 0);
    }
}

static void edges_agree_with_the_oracle(void **state)
{
    (void)state;
    static const struct size sizes[] = {{8, 8, 3, 4, 9}, {70, 66, 16, 5, 2}, {9, 8, 64, 64, 1}};
    for (size_t s = 0; s < sizeof sizes / sizeof *sizes; s++)
        each_form(&sizes[s], plant_edges);
}

/* A query collides with itself with weight 1 to a few eps, not to the 1e-4 that a dot product would leave. */
static void equal_vectors_meet_surely(void **state)
{
    (void)state;
    for (const struct kernels *const *kernels = kernels_all(); *kernels != NULL; kernels++) {
        struct yoso_options options = yoso_preset();
        options.normalize = YOSO_NORMALIZE_NONE;
        struct yoso_case *c = case_new(&mechanism_yoso_e, *kernels, &options, 1, 1, 64, 1, 3);
        for (int trial = 0; trial < 50; trial++) {
            random_normals((uint64_t)trial, 0, case_row(c->problem.query, 0), 64);
            random_normals((uint64_t)trial, 0, case_row(c->problem.key, 0), 64);
            case_row(c->problem.value, 0)[0] = 1;
            case_forward(c);
            check_near((double)case_row(c->out, 0)[0], 1, 4 * EPS, "weight of equal vectors");
        }
        case_free(c);
    }
}

/* Rows of +-1 and rows of +-2^127, whose length overflows float, are the same vectors: out and dv are
   equal, and the remaining gradients of such rows vanish. */
static void rows_longer_than_any_float_are_rows(void **state)
{
    (void)state;
    enum { N = 70, WIDTH = 8 };
    for (const struct kernels *const *kernels = kernels_all(); *kernels != NULL; kernels++)
        for (int gradient = YOSO_GRADIENT_LOWER; gradient <= YOSO_GRADIENT_TRUE; gradient++) {
            struct yoso_options options = yoso_preset();
            options.normalize = YOSO_NORMALIZE_NONE;
            options.gradient = gradient;
            struct yoso_case *c = case_new(&mechanism_yoso_e, *kernels, &options, N, N, WIDTH, 2, 3);
            float y[2][N][2], dv[2][N][2];
            for (int large = 0; large < 2; large++) {
                for (size_t i = 0; i < N; i++)
                    for (size_t k = 0; k < WIDTH; k++) {
                        float *q = case_row(c->problem.query, i) + k, *key = case_row(c->problem.key, i) + k;
                        *q = copysignf(large ? 0x1p127f : 1, *q);
                        *key = copysignf(large && i % 3 != 1 ? 0x1p127f : 1, *key);
                    }
                case_clear_gradients(c);
                case_forward(c);
                case_backward(c);
                for (size_t i = 0; i < N; i++)
                    for (size_t k = 0; k < 2; k++) {
                        y[large][i][k] = case_row(c->out, i)[k];
                        dv[large][i][k] = case_row(c->gradients.value, i)[k];
                    }
            }
            for (size_t i = 0; i < N; i++) {
                for (size_t k = 0; k < 2; k++) {
                    check_near((double)y[1][i][k], (double)y[0][i][k], 1e-4, "out");
                    check_near((double)dv[1][i][k], (double)dv[0][i][k], 1e-4, "dv");
                }
                for (size_t k = 0; k < WIDTH; k++)
                    assert_true(fabsf(case_row(c->gradients.query, i)[k]) < 1e-36f);
            }
            case_free(c);
        }
}

static void gradients_are_added(void **state)
{
    (void)state;
    struct yoso_options options = yoso_preset();
    options.gradient = YOSO_GRADIENT_TRUE;
    struct yoso_case *c =
        case_new(&mechanism_yoso_e, kernels_named(NULL, &(const char *){0}), &options, 70, 66, 5, 3, 11);
    case_forward(c);
    case_backward(c);
    float once[3] = {*case_row(c->gradients.query, 69), *case_row(c->gradients.key, 65),
                     *case_row(c->gradients.value, 65)};
    case_backward(c);
    check_near((double)*case_row(c->gradients.query, 69), 2 * (double)once[0],
               fabs((double)once[0]) * 4 * EPS, "dq twice");
    check_near((double)*case_row(c->gradients.key, 65), 2 * (double)once[1], fabs((double)once[1]) * 4 * EPS,
               "dk twice");
    check_near((double)*case_row(c->gradients.value, 65), 2 * (double)once[2],
               fabs((double)once[2]) * 1000 * EPS, "dv twice");
    case_free(c);
}

static void says_what_it_refuses(void **state)
{
    (void)state;
    struct yoso_options options = yoso_preset();
    struct problem_shape shape = {
        .num_queries = 4, .num_keys = 4, .head_dim = 2, .value_dim = 2, .workers = 1};
    assert_null(mechanism_yoso_e.host.refuse(&options, &shape));
    shape.num_keys = (size_t)1 << 40;
    assert_non_null(mechanism_yoso_e.host.refuse(&options, &shape));
    assert_true(mechanism_yoso_e.host.scratch_size(&options, &shape) > (size_t)1 << 40);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(agrees_with_the_oracle),
        cmocka_unit_test(edges_agree_with_the_oracle),
        cmocka_unit_test(equal_vectors_meet_surely),
        cmocka_unit_test(gradients_are_added),
        cmocka_unit_test(rows_longer_than_any_float_are_rows),
        cmocka_unit_test(says_what_it_refuses),
    };
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    print_message("largest error over its bound: %.2f\n", worst_ratio);
    return failed;
}
