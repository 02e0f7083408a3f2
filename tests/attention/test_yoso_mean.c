/* The mean over hash functions: un-normalised X, dV, and dQ, dK for a fixed gradient G of X, with both
   gradients and both kinds of hyperplanes, against the exact partner in double precision. Compared per
   entry by z-scores, and as one scalar, <A, B> / <B, B> with B the exact array, which detects a small bias
   common to all entries. The test also checks on the same samples that a bias of 2 % is detected.
   Bugs planted and caught: the bits of one hash from one block of hyperplanes, one key for two bits, keys
   hashed from the rows of queries, 2 % too much in X, 2 % too much in the weights of pairs; in a pool, one
   key for all bits, the bits of a hash from one block. Each call has its own hyperplanes and rotation, so
   samples are independent.
   SPDX-License-Identifier: Apache-2.0 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/random.h"
#include "support/check.h"
#include "support/yoso_case.h"

/* Statistics of one array of n entries, over seeds. */
struct tally {
    const double *exact;
    double *sum, *squares;
    size_t n, samples;
    double scalar_sum, scalar_squares;
};

static struct tally tally_new(const double *exact, size_t n)
{
    return (struct tally){.exact = exact, .sum = calloc(n, 8), .squares = calloc(n, 8), .n = n};
}

static void tally_add(struct tally *t, struct view view, double factor)
{
    double along = 0, size = 0;
    for (size_t i = 0; i < t->n; i++) {
        double x = factor * (double)case_row(view, i / view.cols)[i % view.cols];
        t->sum[i] += x;
        t->squares[i] += x * x;
        along += x * t->exact[i];
        size += t->exact[i] * t->exact[i];
    }
    t->scalar_sum += along / size;
    t->scalar_squares += along / size * (along / size);
    t->samples++;
}

static double z_of(double sum, double squares, double samples, double want)
{
    double mean = sum / samples, variance = squares / samples - mean * mean;
    return (mean - want) / (sqrt(fmax(variance, 0) / samples) + 1e-7 * fabs(want) + 1e-12);
}

static double scalar_z(const struct tally *t)
{
    return z_of(t->scalar_sum, t->scalar_squares, (double)t->samples, 1);
}

/* Entries: none beyond 5.5 (false alarm 4e-8 each), and no wider than normal together: the mean of z^2 is
   1 within 5 standard errors for correlated entries (rows share hyperplanes, so an entry counts as a
   tenth). The scalar: within 5. */
static void check_tally(const struct tally *t, const char *what)
{
    double total = 0, worst = 0;
    for (size_t i = 0; i < t->n; i++) {
        double z = z_of(t->sum[i], t->squares[i], (double)t->samples, t->exact[i]);
        total += z * z / (double)t->n;
        worst = fmax(worst, fabs(z));
    }
    if (getenv("HASHATTN_TEST_VERBOSE") != NULL)
        print_message("%s: worst z %.2f, mean z^2 %.2f, scalar %.4f z %.2f\n", what, worst, total,
                      t->scalar_sum / (double)t->samples, scalar_z(t));
    if (!(worst < 5.5) || !(total < 1 + 5 * sqrt(2.0 / ((double)t->n / 10 + 1))) || !(fabs(scalar_z(t)) < 5))
        fail_msg("%s: worst z %.2f, mean z^2 %.2f, scalar %.5f with z %.2f", what, worst, total,
                 t->scalar_sum / (double)t->samples, scalar_z(t));
}

static void tally_free(struct tally *t)
{
    free(t->sum);
    free(t->squares);
}

struct setting {
    size_t n_q, n_k, d, d_v;
    int64_t num_hashes, hash_bits, plane_pool;
    int planes, gradient, projection;
    int64_t max_partners, gradient_hashes;
    int samples;
    bool causal;
};

/* Correlated inputs, as in attention: keys lean towards queries, values towards 1. */
static void lean(struct yoso_case *c)
{
    for (size_t j = 0; j < c->problem.key.rows; j++) {
        for (size_t e = 0; e < c->problem.key.cols; e++)
            case_row(c->problem.key, j)[e] += case_row(c->problem.query, j % c->problem.query.rows)[e];
        for (size_t e = 0; e < c->problem.value.cols; e++)
            case_row(c->problem.value, j)[e] += 1;
    }
    for (size_t i = 0; i < c->dout.rows; i++)
        for (size_t e = 0; e < c->dout.cols; e++)
            case_row(c->dout, i)[e] += 1;
}

static struct yoso_case *leaning(const struct setting *s)
{
    struct yoso_options options = yoso_preset();
    options.num_hashes = s->num_hashes;
    options.hash_bits = s->hash_bits;
    options.planes = s->planes;
    options.plane_pool = s->plane_pool;
    options.gradient = s->gradient;
    options.projection = s->projection;
    options.max_partners = s->max_partners;
    options.gradient_hashes = s->gradient_hashes;
    options.normalize = YOSO_NORMALIZE_NONE; /* G is dout, the same for every sample */
    struct yoso_case *c = case_new(&mechanism_yoso, kernels_named(NULL, &(const char *){0}), &options, s->n_q,
                                   s->n_k, s->d, s->d_v, 3);
    lean(c);
    if (s->causal)
        case_make_causal(c, 0);
    case_ask_oracle(c, false);
    return c;
}

static void check_mean(const struct setting *s)
{
    struct yoso_case *c = leaning(s);
    struct tally x = tally_new(c->x, s->n_q * s->d_v), dv = tally_new(c->dv, s->n_k * s->d_v),
                 dq = tally_new(c->dq, s->n_q * s->d), dk = tally_new(c->dk, s->n_k * s->d);
    struct tally *tallies[] = {&x, &dv, &dq, &dk};
    struct view views[] = {c->out, c->gradients.value, c->gradients.query, c->gradients.key};
    static const char *const names[] = {"X", "dV", "dQ", "dK"};
    for (int sample = 0; sample < s->samples; sample++) {
        case_prepare(c, 1000 + (uint64_t)sample);
        case_clear_gradients(c);
        case_forward(c);
        c->mechanism->host.backward(&c->problem, c->out, c->dout, &c->gradients);
        for (int t = 0; t < 4; t++)
            tally_add(tallies[t], views[t], 1);
    }
    for (int t = 0; t < 4; t++) {
        char what[160];
        snprintf(
            what, sizeof what,
            "%s of n %zu %zu d %zu %zu m %d tau %d planes %d pool %d gradient %d projection %d partners %d",
            names[t], s->n_q, s->n_k, s->d, s->d_v, (int)s->num_hashes, (int)s->hash_bits, s->planes,
            (int)s->plane_pool, s->gradient, s->projection, (int)s->max_partners);
        check_tally(tallies[t], what);
        tally_free(tallies[t]);
    }
    case_free(c);
}

static void means_are_exact(void **state)
{
    (void)state;
    static const struct setting shapes[] = {
        {.n_q = 9, .n_k = 7, .d = 4, .d_v = 3, .num_hashes = 8, .hash_bits = 2, .samples = 4000},
        {.n_q = 5, .n_k = 12, .d = 16, .d_v = 4, .num_hashes = 16, .hash_bits = 5, .samples = 3000},
        {.n_q = 12, .n_k = 12, .d = 8, .d_v = 5, .num_hashes = 20, .hash_bits = 9, .samples = 3000},
        {.n_q = 6, .n_k = 6, .d = 2, .d_v = 1, .num_hashes = 5, .hash_bits = 3, .samples = 4000},
        {.n_q = 4, .n_k = 30, .d = 32, .d_v = 2, .num_hashes = 4, .hash_bits = 3, .samples = 2000},
    };
    for (size_t s = 0; s < sizeof shapes / sizeof *shapes; s++)
        for (int form = 0; form < 6; form++) {
            struct setting setting = shapes[s];
            setting.planes = form % 2;
            setting.gradient = form / 2 % 2;
            setting.causal = form >= 4;
            check_mean(&setting);
        }
}

/* Every projection: fixed point and bfloat16 move a vector by at most 2^-13 and 2^-8 of a right angle, far
   less than z-scores detect. (auto is one of them, and the one that the other tests use.) */
static void means_are_exact_with_any_projection(void **state)
{
    (void)state;
    for (int projection = HASH_F32; hash_projection_names[projection] != NULL; projection++)
        check_mean(&(struct setting){.n_q = 9,
                                     .n_k = 9,
                                     .d = 16,
                                     .d_v = 3,
                                     .num_hashes = 16,
                                     .hash_bits = 6,
                                     .planes = PLANES_ORTHOGONAL,
                                     .projection = projection,
                                     .samples = 3000});
}

/* Hyperplanes by Hadamard matrices, for vectors with many coordinates: their collision probability is
   closer to that of independent hyperplanes than these samples resolve. */
static void hadamard_means_are_as_good_as_exact(void **state)
{
    (void)state;
    for (int form = 0; form < 4; form++)
        check_mean(&(struct setting){.n_q = 9,
                                     .n_k = 12,
                                     .d = form & 1 ? 40 : 64,
                                     .d_v = 3,
                                     .num_hashes = 16,
                                     .hash_bits = form & 1 ? 3 : 6,
                                     .planes = PLANES_HADAMARD,
                                     .gradient = form & 2 ? YOSO_GRADIENT_TRUE : YOSO_GRADIENT_LOWER,
                                     .projection = form & 2 ? HASH_F32 : HASH_AUTO,
                                     .samples = 3000,
                                     .causal = form == 3});
}

/* Hashes that share planes: each by itself has the law of the others, so the means are the same. */
static void shared_planes_keep_the_mean(void **state)
{
    (void)state;
    static const struct setting shapes[] = {
        {.n_q = 9,
         .n_k = 7,
         .d = 4,
         .d_v = 3,
         .num_hashes = 25,
         .hash_bits = 2,
         .plane_pool = 5,
         .samples = 4000},
        {.n_q = 5,
         .n_k = 12,
         .d = 16,
         .d_v = 4,
         .num_hashes = 49,
         .hash_bits = 5,
         .plane_pool = 7,
         .samples = 3000},
        {.n_q = 8,
         .n_k = 8,
         .d = 32,
         .d_v = 5,
         .num_hashes = 30,
         .hash_bits = 9,
         .plane_pool = 11,
         .samples = 3000},
    };
    for (size_t s = 0; s < sizeof shapes / sizeof *shapes; s++)
        for (int form = 0; form < 8; form++) {
            struct setting setting = shapes[s];
            setting.planes = form % 2;
            setting.gradient = form / 2 % 2;
            setting.causal = form >= 4 && setting.n_q == setting.n_k;
            if (form >= 4 && setting.d == 32)
                setting.planes = PLANES_HADAMARD;
            if (form < 4 || setting.planes == PLANES_HADAMARD)
                check_mean(&setting);
        }
}

/* One bit, where `true` is refused: X, dV and `lower`. */
static void one_bit(void **state)
{
    (void)state;
    for (int planes = 0; planes < 2; planes++)
        check_mean(&(struct setting){.n_q = 7,
                                     .n_k = 9,
                                     .d = 5,
                                     .d_v = 3,
                                     .num_hashes = 8,
                                     .hash_bits = 1,
                                     .planes = planes,
                                     .samples = 3000});
}

/* The set of pairs that collide at all, if hashes are independent: planes `gaussian`. */
static void released_has_its_own_mean(void **state)
{
    (void)state;
    static const struct setting shapes[] = {
        {.n_q = 9, .n_k = 7, .d = 4, .d_v = 3, .num_hashes = 8, .hash_bits = 2, .samples = 4000},
        {.n_q = 5, .n_k = 12, .d = 16, .d_v = 4, .num_hashes = 6, .hash_bits = 5, .samples = 3000},
        {.n_q = 12, .n_k = 12, .d = 8, .d_v = 5, .num_hashes = 20, .hash_bits = 9, .samples = 3000},
        {.n_q = 8, .n_k = 8, .d = 6, .d_v = 2, .num_hashes = 3, .hash_bits = 1, .samples = 3000},
    };
    for (size_t s = 0; s < sizeof shapes / sizeof *shapes; s++)
        for (int causal = 0; causal < 2; causal++) {
            struct setting setting = shapes[s];
            setting.planes = PLANES_GAUSSIAN;
            setting.gradient = YOSO_GRADIENT_RELEASED;
            setting.causal = causal;
            check_mean(&setting);
        }
}

/* Sampled partners have the same means as all partners. Buckets hold about 12 keys here, and the pairs of
   all hashes stay fewer than n_q n_k, so that a sample is drawn. */
static void partners_keep_the_mean(void **state)
{
    (void)state;
    for (int64_t partners = 1; partners < 4; partners += 2)
        for (int form = 0; form < 4; form++)
            check_mean(&(struct setting){.n_q = 10,
                                         .n_k = 48,
                                         .d = 8,
                                         .d_v = 4,
                                         .num_hashes = 5,
                                         .hash_bits = 2,
                                         .planes = PLANES_GAUSSIAN,
                                         .gradient = form & 1 ? YOSO_GRADIENT_RELEASED : YOSO_GRADIENT_TRUE,
                                         .max_partners = partners,
                                         .samples = 4000,
                                         .causal = form & 2});
}

/* Hashes drawn for the gradient keep the mean, in buckets, in causal attention, and where all pairs of a head
   are cheaper (the last form). */
static void gradient_hashes_keep_the_mean(void **state)
{
    (void)state;
    for (int64_t hashes = 1; hashes < 6; hashes += 2)
        for (int form = 0; form < 5; form++)
            check_mean(&(struct setting){.n_q = 12,
                                         .n_k = 10,
                                         .d = 8,
                                         .d_v = 4,
                                         .num_hashes = 6,
                                         .hash_bits = form == 4 ? 2 : 4,
                                         .planes = PLANES_ORTHOGONAL,
                                         .gradient =
                                             form & 1 || form == 4 ? YOSO_GRADIENT_TRUE : YOSO_GRADIENT_LOWER,
                                         .gradient_hashes = hashes,
                                         .samples = 4000,
                                         .causal = form & 2});
}

/* The same tally detects a bias of 2 % in each of the four arrays. */
static void a_bias_of_two_percent_is_seen(void **state)
{
    (void)state;
    const struct setting s = {
        .n_q = 9, .n_k = 9, .d = 8, .d_v = 4, .num_hashes = 32, .hash_bits = 3, .planes = 1, .samples = 3000};
    struct yoso_case *c = leaning(&s);
    struct view views[] = {c->out, c->gradients.value, c->gradients.query, c->gradients.key};
    const double *exact[] = {c->x, c->dv, c->dq, c->dk};
    struct tally right[4], biased[4];
    for (int t = 0; t < 4; t++) {
        right[t] = tally_new(exact[t], views[t].rows * views[t].cols);
        biased[t] = tally_new(exact[t], views[t].rows * views[t].cols);
    }
    for (int sample = 0; sample < s.samples; sample++) {
        case_prepare(c, 77000 + (uint64_t)sample);
        case_clear_gradients(c);
        case_forward(c);
        c->mechanism->host.backward(&c->problem, c->out, c->dout, &c->gradients);
        for (int t = 0; t < 4; t++) {
            tally_add(&right[t], views[t], 1);
            tally_add(&biased[t], views[t], 1.02);
        }
    }
    for (int t = 0; t < 4; t++) {
        check_tally(&right[t], "unscaled");
        if (!(scalar_z(&biased[t]) > 5))
            fail_msg("array %d: a bias of 2 %% has z %.2f only", t, scalar_z(&biased[t]));
        tally_free(&right[t]);
        tally_free(&biased[t]);
    }
    case_free(c);
}

/* The variance of X decreases as 1 / m. */
static void variance_falls_with_hashes(void **state)
{
    (void)state;
    double variance[2];
    for (int large = 0; large < 2; large++) {
        const struct setting s = {.n_q = 6,
                                  .n_k = 6,
                                  .d = 8,
                                  .d_v = 3,
                                  .num_hashes = large ? 32 : 4,
                                  .hash_bits = 3,
                                  .planes = PLANES_GAUSSIAN};
        struct yoso_case *c = leaning(&s);
        struct tally x = tally_new(c->x, 18);
        for (uint64_t sample = 0; sample < 3000; sample++) {
            case_prepare(c, sample);
            case_forward(c);
            tally_add(&x, c->out, 1);
        }
        variance[large] = 0;
        for (size_t i = 0; i < 18; i++)
            variance[large] += x.squares[i] / 3000 - pow(x.sum[i] / 3000, 2);
        tally_free(&x);
        case_free(c);
    }
    check_near(variance[0] / variance[1], 8, 0.4, "variance at 4 over 32 hashes"); /* 5 % */
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(means_are_exact),
        cmocka_unit_test(means_are_exact_with_any_projection),
        cmocka_unit_test(hadamard_means_are_as_good_as_exact),
        cmocka_unit_test(shared_planes_keep_the_mean),
        cmocka_unit_test(one_bit),
        cmocka_unit_test(released_has_its_own_mean),
        cmocka_unit_test(partners_keep_the_mean),
        cmocka_unit_test(gradient_hashes_keep_the_mean),
        cmocka_unit_test(a_bias_of_two_percent_is_seen),
        cmocka_unit_test(variance_falls_with_hashes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
