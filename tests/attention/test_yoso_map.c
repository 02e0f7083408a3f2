/* yoso and yoso-e with the maps that keep dot products, against the oracle, which finite differences have
   checked: M given and computed from the rows, all normalisations, both gradients, causal, the coinciding
   pair at the pole; the mean of yoso over hashes; and what is refused. Bounds: every pair's term times its
   number of roundings; an angle's error grows as 1 / sine and the slope's as its square. Bugs planted and
   caught: keys mapped as queries; M of one side only; 1 / M applied once; the tangent form; no lower limit
   on the sine; gradients of width d + 2 written over the next row.
   SPDX-License-Identifier: Apache-2.0 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "support/check.h"
#include "support/yoso_case.h"

#define PI  3.14159265358979323846
#define EPS 0x1p-24

static double length(const double *x, size_t n)
{
    double sum = 0;
    for (size_t c = 0; c < n; c++)
        sum += x[c] * x[c];
    return sqrt(sum);
}

static void check_view(struct view got, const double *want, const double *bound, const char *what,
                       const struct yoso_case *c)
{
    for (size_t i = 0; i < got.rows; i++)
        for (size_t e = 0; e < got.cols; e++) {
            size_t at = i * got.cols + e;
            double is = (double)case_row(got, i)[e];
            if (!(fabs(is - want[at]) <= bound[at] + 1e-30))
                fail_msg("%s %s %s[%zu, %zu] (normalize %d, gradient %d): got %.9g, want %.9g, allowed %.3g",
                         c->mechanism->name, c->problem.kernels->name, what, i, e, c->options.normalize,
                         c->options.gradient, is, want[at], bound[at]);
        }
}

struct bounds {
    double *y, *dq, *dk, *dv;
};

static struct bounds bounds_of(const struct yoso_case *c)
{
    const struct oracle_yoso *o = &c->oracle;
    size_t n_q = o->n_q, n_k = o->n_k, d = o->d, d_v = o->d_v;
    double terms = 4 * EPS * (double)(n_q + n_k + d + d_v + 40), m2 = o->max_norm * o->max_norm,
           tau = o->hash_bits;
    struct bounds b = {calloc(n_q * d_v, 8), calloc(n_q * d, 8), calloc(n_k * d, 8), calloc(n_k * d_v, 8)};
    double *dx = malloc(n_q * d_v * 8), *dsum = malloc(n_q * 8);
    oracle_yoso_dx(o, c->dy, dx, dsum);
    for (size_t i = 0; i < n_q; i++) {
        double size = 0, sum = 0, x_length = length(c->x + i * d_v, d_v);
        for (size_t j = 0; j < n_k; j++) {
            size += oracle_weight(o, i, j) * length(o->v + j * d_v, d_v);
            sum += oracle_weight(o, i, j);
        }
        if (sum <= 0)
            continue;
        double divisor = o->normalize == ORACLE_L2 ? x_length : o->normalize == ORACLE_SUM ? sum : 1;
        double cancelled = 1 + size / x_length, g = length(c->dy + i * d_v, d_v);
        double dx_size = g / divisor * (o->normalize == ORACLE_NONE ? 1 : 4 * cancelled);
        for (size_t j = 0; j < n_k; j++) {
            double weight = oracle_weight(o, i, j), p = oracle_pair_collision(o, i, j);
            double sine = fmax(sin(PI * (1 - p)), 0.01), v = length(o->v + j * d_v, d_v);
            double slope = c->options.gradient == YOSO_GRADIENT_LOWER ? tau / 2 : tau / (p * PI * sine);
            /* an error of the angle, which in yoso-e enters the weight too */
            double lost = tau / sine / fmax(p, 1e-3) + 1 / (sine * sine);
            double at = terms * lost * weight * slope * dx_size * (v + 2 * size / sum + 1);
            for (size_t e = 0; e < d_v; e++) {
                b.y[i * d_v + e] += terms * lost * weight * v * (1 + cancelled) / divisor;
                b.dv[j * d_v + e] += terms * lost * weight * dx_size;
            }
            for (size_t e = 0; e < d; e++) {
                b.dq[i * d + e] += at * (fabs(o->k[j * d + e]) + 1e-3 * o->max_norm) / m2;
                b.dk[j * d + e] += at * (fabs(o->q[i * d + e]) + 1e-3 * o->max_norm) / m2;
            }
        }
    }
    free(dx), free(dsum);
    return b;
}

static void check_case(struct yoso_case *c, bool sampled)
{
    for (const struct kernels *const *kernels = kernels_all(); *kernels != NULL; kernels++) {
        c->problem.kernels = *kernels;
        case_forward(c);
        case_clear_gradients(c);
        case_backward(c);
        case_ask_oracle(c, sampled);
        struct bounds b = bounds_of(c);
        check_view(c->out, c->y, b.y, "y", c);
        check_view(c->gradients.value, c->dv, b.dv, "dv", c);
        check_view(c->gradients.query, c->dq, b.dq, "dq", c);
        check_view(c->gradients.key, c->dk, b.dk, "dk", c);
        free(b.y), free(b.dq), free(b.dk), free(b.dv);
    }
}

static void equals_the_oracle(void **state)
{
    (void)state;
    static const size_t sizes[][4] = {{1, 1, 1, 1}, {9, 7, 3, 2}, {70, 70, 14, 5}, {33, 140, 17, 20}};
    for (int form = 0; form < 48; form++)
        for (size_t s = 0; s < sizeof sizes / sizeof *sizes; s++) {
            bool sampled = form % 2;
            struct yoso_options options = yoso_preset();
            options.map = YOSO_MAP_NEYSHABUR;
            options.num_hashes = 7;
            options.hash_bits = 4;
            options.gradient = form / 2 % 2;
            options.normalize = form / 4 % 3;
            options.max_norm = form / 12 % 2 ? 60 : 0; /* longer than every row, or the longest */
            struct yoso_case *c =
                case_new(sampled ? &mechanism_yoso : &mechanism_yoso_e, kernels_all()[0], &options,
                         sizes[s][0], sizes[s][1], sizes[s][2], sizes[s][3], 5 + s);
            for (size_t e = 0; e < sizes[s][2]; e++) { /* the longest pair, which coincides; a zero row */
                case_row(c->problem.query, 0)[e] *= 3;
                case_row(c->problem.key, sizes[s][1] / 2)[e] = case_row(c->problem.query, 0)[e];
                if (sizes[s][0] > 1)
                    case_row(c->problem.query, 1)[e] = 0;
            }
            for (size_t e = 0; e < sizes[s][2] && form >= 24 && s > 0;
                 e++) /* or one side has the longest row */
                *(case_row(s == 2 ? c->problem.query : c->problem.key, 2) + e) *= 5;
            if (form >= 24 && options.max_norm > 0)
                case_make_causal(c, form / 2 % 2);
            check_case(c, sampled);
            case_free(c);
        }
}

/* The un-normalised output over 2,000 draws of hyperplanes against the exact one: one scalar within 5
   standard errors, which detects 2 % (the same draws, scaled, are rejected). */
static void the_mean_is_exact(void **state)
{
    (void)state;
    struct yoso_options options = yoso_preset();
    options.map = YOSO_MAP_NEYSHABUR;
    options.num_hashes = 16;
    options.hash_bits = 3;
    options.normalize = YOSO_NORMALIZE_NONE;
    struct yoso_case *c =
        case_new(&mechanism_yoso, kernels_named(NULL, &(const char *){0}), &options, 9, 11, 8, 4, 3);
    case_ask_oracle(c, false);
    double sum = 0, squares = 0, size = 0;
    for (size_t e = 0; e < 36; e++)
        size += c->x[e] * c->x[e];
    enum { DRAWS = 2000 };
    for (uint64_t seed = 0; seed < DRAWS; seed++) {
        double along = 0;
        case_prepare(c, 100 + seed);
        case_forward(c);
        for (size_t e = 0; e < 36; e++)
            along += (double)case_row(c->out, e / 4)[e % 4] * c->x[e] / size;
        sum += along;
        squares += along * along;
    }
    double mean = sum / DRAWS, error = sqrt((squares / DRAWS - mean * mean) / DRAWS);
    assert_true(fabs(mean - 1) < 5 * error);
    assert_true(fabs(1.02 * mean - 1) > 5 * error);
    case_free(c);
}

static void later_rows_need_m(void **state)
{
    (void)state;
    struct yoso_options options = yoso_preset();
    options.map = YOSO_MAP_NEYSHABUR;
    const struct mechanism *both[] = {&mechanism_yoso, &mechanism_yoso_e};
    for (size_t m = 0; m < 2; m++)
        for (int streamed = 0; streamed < 2; streamed++) {
            struct problem_shape shape = {.num_queries = 4,
                                          .num_keys = 4,
                                          .head_dim = 2,
                                          .value_dim = 2,
                                          .workers = 1,
                                          .causal = !streamed,
                                          .streamed = streamed != 0};
            options.max_norm = 0;
            assert_non_null(strstr(both[m]->host.refuse(&options, &shape), "needs `max_norm`"));
            options.max_norm = 3;
            assert_null(both[m]->host.refuse(&options, &shape));
        }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(equals_the_oracle),
        cmocka_unit_test(the_mean_is_exact),
        cmocka_unit_test(later_rows_need_m),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
