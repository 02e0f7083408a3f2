/* The oracle against itself: its gradients are the derivatives of its forward (true) and of the lower bound's
   own partner (lower), by central differences in double, for every normalisation. Bugs tried and caught: tau
   instead of tau / 2 in lower; the sine left out; the projection on the tangent left out; the gradient of the
   sum of weights left out.
   SPDX-License-Identifier: Apache-2.0 */
#include "oracle/oracle_yoso.h"

#include <math.h>

#include "base/random.h"
#include "support/check.h"

enum { N_Q = 3, N_K = 4, D = 3, D_V = 2, HASH_BITS = 5 };

struct point {
    double q[N_Q * D], k[N_K * D], v[N_K * D_V], dy[N_Q * D_V];
    struct oracle_yoso yoso;
};

static void draw(double *x, size_t n, uint64_t key)
{
    float normal[64];
    random_normals(key, 0, normal, n);
    for (size_t i = 0; i < n; i++)
        x[i] = (double)normal[i];
}

static void new_point(struct point *p, enum oracle_normalize normalize, uint64_t seed)
{
    draw(p->q, N_Q * D, 4 * seed);
    draw(p->k, N_K * D, 4 * seed + 1);
    draw(p->v, N_K * D_V, 4 * seed + 2);
    draw(p->dy, N_Q * D_V, 4 * seed + 3);
    p->yoso = (struct oracle_yoso){.n_q = N_Q,
                                   .n_k = N_K,
                                   .d = D,
                                   .d_v = D_V,
                                   .hash_bits = HASH_BITS,
                                   .normalize = normalize,
                                   .q = p->q,
                                   .k = p->k,
                                   .v = p->v};
}

static double loss(const struct point *p)
{
    double y[N_Q * D_V], sum = 0;
    oracle_yoso_forward(&p->yoso, NULL, y);
    for (size_t i = 0; i < N_Q * D_V; i++)
        sum += y[i] * p->dy[i];
    return sum;
}

struct fixed {
    double dx[N_Q * D_V], dsum[N_Q];
};

static double partner(const struct point *p, const struct fixed *fixed)
{
    return oracle_yoso_lower_partner(&p->yoso, fixed->dx, fixed->dsum);
}

/* fixed NULL: differences of the loss; otherwise of the lower partner. */
static void check_differences(struct point *p, double *x, const double *gradient, size_t n,
                              const struct fixed *fixed, const char *what)
{
    /* Four points: truncation step^4 f^(5) / 30, rounding about 1e-15 / step. */
    const double step = 1e-4;
    for (size_t i = 0; i < n; i++) {
        double kept = x[i], value[4];
        for (int at = 0; at < 4; at++) {
            x[i] = kept + step * (at < 2 ? at - 2 : at - 1);
            value[at] = fixed == NULL ? loss(p) : partner(p, fixed);
        }
        x[i] = kept;
        double difference = (8 * (value[2] - value[1]) - (value[3] - value[0])) / (12 * step);
        check_near(difference, gradient[i], 1e-9 * (1 + fabs(gradient[i])), what);
    }
}

static void gradients_are_derivatives(void **state)
{
    (void)state;
    static const size_t visible[N_Q] = {0, 1, 2}; /* for the last two of the five seeds */
    for (int normalize = ORACLE_L2; normalize <= ORACLE_NONE; normalize++)
        for (uint64_t seed = 1; seed <= 5; seed++) {
            struct point p;
            struct fixed fixed;
            double dq[N_Q * D], dk[N_K * D], dv[N_K * D_V];
            new_point(&p, (enum oracle_normalize)normalize, seed);
            p.yoso.visible = seed > 3 ? visible : NULL;
            p.yoso.max_norm = seed % 2 ? 0 : 20; /* keeps away from the pole */
            oracle_yoso_backward(&p.yoso, ORACLE_TRUE, p.dy, dq, dk, dv);
            check_differences(&p, p.q, dq, N_Q * D, NULL, "true dq");
            check_differences(&p, p.k, dk, N_K * D, NULL, "true dk");
            check_differences(&p, p.v, dv, N_K * D_V, NULL, "dv");
            oracle_yoso_dx(&p.yoso, p.dy, fixed.dx, fixed.dsum);
            oracle_yoso_backward(&p.yoso, ORACLE_LOWER, p.dy, dq, dk, dv);
            check_differences(&p, p.q, dq, N_Q * D, &fixed, "lower dq");
            check_differences(&p, p.k, dk, N_K * D, &fixed, "lower dk");
        }
}

/* phi, phi' and the lower bound at known cosines (two-dimensional unit vectors). */
static void known_values(void **state)
{
    (void)state;
    static const double row[][4] = {{0, .001953125, .01119, .00879},
                                    {.5, .026012, .12907, .11706},
                                    {.9, .247881, 1.90224, 1.11547},
                                    {.99, .660407, 14.0443, 2.97183}};
    for (size_t r = 0; r < sizeof row / sizeof *row; r++) {
        double x = row[r][0], q[2] = {1, 0}, k[2] = {x, sqrt(1 - x * x)}, v = 1, dy = 1, dq[2], dk[2], dv;
        struct oracle_yoso yoso = {.n_q = 1,
                                   .n_k = 1,
                                   .d = 2,
                                   .d_v = 1,
                                   .hash_bits = 9,
                                   .normalize = ORACLE_NONE,
                                   .q = q,
                                   .k = k,
                                   .v = &v};
        double weight = oracle_weight(&yoso, 0, 0);
        check_near(weight, row[r][1], 1e-6, "phi");
        /* the gradient of q is w (k - x q); its second component is w sqrt(1 - x^2) */
        oracle_yoso_backward(&yoso, ORACLE_TRUE, &dy, dq, dk, &dv);
        check_near(dq[1] / k[1], row[r][2], 1e-4 * row[r][2] + 1e-5, "phi'");
        oracle_yoso_backward(&yoso, ORACLE_LOWER, &dy, dq, dk, &dv);
        check_near(dq[1] / k[1], row[r][3], 1e-5, "lower");
        check_near(dv, weight, 1e-15, "dv");
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(gradients_are_derivatives),
        cmocka_unit_test(known_values),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
