/* Memberships, then one softmax for every query, forward and backward.
   SPDX-License-Identifier: Apache-2.0 */
#include "oracle/oracle_groups.h"

#include <float.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

static double *zeros(size_t rows, size_t cols)
{
    double *x = calloc(rows * cols + 1, sizeof *x);
    if (x == NULL)
        abort();
    return x;
}

struct oracle_groups oracle_groups_new(size_t n_q, size_t n_k, size_t d, size_t d_v, size_t groups,
                                       size_t rounds)
{
    struct oracle_groups o = {.n_q = n_q, .n_k = n_k, .d = d, .d_v = d_v, .groups = groups, .rounds = rounds};
    o.z_query = zeros(n_q, rounds * groups);
    o.z_key = zeros(n_k, rounds * groups);
    o.query = zeros(n_q, d);
    o.key = zeros(n_k, d);
    o.enlargement = sqrt(2);
    o.softmax = oracle_softmax_new(n_q, n_k, d, d_v);
    o.softmax.times = zeros(n_q, n_k);
    return o;
}

void oracle_groups_free(struct oracle_groups *o)
{
    free(o->z_query);
    free(o->z_key);
    free(o->query);
    free(o->key);
    oracle_softmax_free(&o->softmax);
}

double *oracle_round(const struct oracle_groups *o, const double *z, size_t n, size_t round)
{
    double *own = zeros(n, o->groups);
    for (size_t i = 0; i < n; i++)
        for (size_t b = 0; b < o->groups; b++)
            own[i * o->groups + b] = z[(i * o->rounds + round) * o->groups + b];
    return own;
}

size_t oracle_capacity(const struct oracle_groups *o, size_t n)
{
    double share = (double)n / (double)o->groups;
    double count = floor(o->enlargement * (o->whole ? ceil(share) : share));
    return (size_t)fmin(fmax(count, 1), (double)n);
}

/* In place, of p with columns that sum to 1: Sinkhorn and Knopp (1967). */
static void balance(double *p, size_t n, size_t groups, size_t rounds)
{
    for (size_t round = 0; round < rounds; round++) {
        for (size_t b = 0; b < groups; b++) {
            double sum = 0;
            for (size_t i = 0; i < n; i++)
                sum += p[i * groups + b];
            for (size_t i = 0; i < n; i++)
                p[i * groups + b] *= (double)n / (double)groups / sum;
        }
        for (size_t i = 0; i < n; i++) {
            double sum = 0;
            for (size_t b = 0; b < groups; b++)
                sum += p[i * groups + b];
            for (size_t b = 0; b < groups; b++)
                p[i * groups + b] /= sum;
        }
    }
}

/* 1; with balancing, 3 over the root mean square deviation of scores from the mean of their token. */
static double sharpness(const struct oracle_groups *o, const double *z, size_t n)
{
    double squares = 0;
    for (size_t i = 0; i < n; i++) {
        double mean = 0;
        for (size_t b = 0; b < o->groups; b++)
            mean += z[i * o->groups + b] / (double)o->groups;
        for (size_t b = 0; b < o->groups; b++)
            squares += pow(z[i * o->groups + b] - mean, 2);
    }
    return o->balance > 0 && squares > 0 ? 3 / sqrt(squares / (double)n / (double)o->groups) : 1;
}

double *oracle_shares(const struct oracle_groups *o, const double *z, size_t n)
{
    double *p = zeros(n, o->groups), scale = sharpness(o, z, n);
    for (size_t i = 0; i < n; i++)
        for (size_t b = 0; b < o->groups; b++) {
            double sum = 0;
            for (size_t c = 0; c < o->groups; c++)
                sum += exp(scale * (z[i * o->groups + c] - z[i * o->groups + b]));
            p[i * o->groups + b] = 1 / sum;
        }
    balance(p, n, o->groups, o->balance);
    return p;
}

bool oracle_is_best(const struct oracle_groups *o, const double *shares, size_t i, size_t b)
{
    const double *row = shares + i * o->groups;
    for (size_t c = 0; c < o->groups; c++)
        if (row[c] > row[b] || (c < b && row[c] == row[b]))
            return false;
    return true;
}

bool oracle_is_taken(const struct oracle_groups *o, const double *shares, size_t n, size_t i, size_t b)
{
    size_t rank = 0;
    double own = shares[i * o->groups + b];
    for (size_t j = 0; j < n; j++) {
        double other = shares[j * o->groups + b];
        rank += other > own || (other == own && j < i);
    }
    return rank < oracle_capacity(o, n);
}

/* The best pair of a free token and a group with room, n times. */
static void take_best_pairs(const struct oracle_groups *o, const double *shares, size_t n, bool *in)
{
    size_t *sizes = calloc(o->groups, sizeof *sizes), full = n / o->groups, more = n % o->groups;
    bool *taken = calloc(n + 1, 1);
    for (size_t pairs = 0; pairs < n; pairs++) {
        size_t token = n, group = 0;
        for (size_t i = 0; i < n; i++)
            for (size_t b = 0; b < o->groups && !taken[i]; b++)
                if ((sizes[b] < full || (sizes[b] == full && more > 0)) &&
                    (token == n || shares[i * o->groups + b] > shares[token * o->groups + group])) {
                    token = i;
                    group = b;
                }
        more -= sizes[group]++ == full;
        taken[token] = in[token * o->groups + group] = true;
    }
    free(taken);
    free(sizes);
}

bool *oracle_members(const struct oracle_groups *o, const double *z, size_t n)
{
    bool *in = calloc(n * o->groups + 1, 1);
    double *shares = oracle_shares(o, z, n);
    if (o->partition)
        take_best_pairs(o, shares, n, in);
    for (size_t b = 0; b < o->groups && !o->partition; b++)
        for (size_t i = 0; i < n; i++)
            in[i * o->groups + b] =
                o->by_token ? oracle_is_best(o, z, i, b) : oracle_is_taken(o, shares, n, i, b);
    free(shares);
    return in;
}

static bool sees(const struct oracle_groups *o, const bool *in, size_t i, size_t j, size_t b)
{
    if (o->causal && j > i)
        return false;
    if (!o->causal || !o->by_token)
        return true;
    size_t after = 0; /* members of the group from j on, up to i */
    for (size_t t = j; t <= i; t++)
        after += in[t * o->groups + b];
    return after <= oracle_capacity(o, i + 1);
}

/* Adds the groups of one round that a pair shares. */
static void add_times(struct oracle_groups *o, size_t round)
{
    double *z_query = oracle_round(o, o->z_query, o->n_q, round),
           *z_key = o->joint ? z_query : oracle_round(o, o->z_key, o->n_k, round);
    bool *query = oracle_members(o, z_query, o->n_q);
    bool *key = o->joint ? query : oracle_members(o, z_key, o->n_k);
    for (size_t i = 0; i < o->n_q; i++)
        for (size_t j = 0; j < o->n_k; j++)
            for (size_t b = 0; b < o->groups; b++)
                o->softmax.times[i * o->n_k + j] +=
                    query[i * o->groups + b] && key[j * o->groups + b] && sees(o, key, i, j, b);
    if (!o->joint) {
        free(key);
        free(z_key);
    }
    free(query);
    free(z_query);
}

static void find_times(struct oracle_groups *o)
{
    memset(o->softmax.times, 0, o->n_q * o->n_k * sizeof(double));
    for (size_t round = 0; round < o->rounds; round++)
        add_times(o, round);
}

/* Writes x^ of a row; returns 1 / sigma. */
static double norm_row(double *hat, const double *x, size_t d)
{
    double mean = 0, variance = 0;
    for (size_t c = 0; c < d; c++)
        mean += x[c] / (double)d;
    for (size_t c = 0; c < d; c++)
        variance += (x[c] - mean) * (x[c] - mean) / (double)d;
    double rstd = 1 / sqrt(variance + 1e-6);
    for (size_t c = 0; c < d; c++)
        hat[c] = (x[c] - mean) * rstd;
    return rstd;
}

/* Converts gradients of normed rows, and their bounds, to those of the rows: dx = (g - mean g - x^ mean(g
   x^)) / sigma. */
static void norm_back(const double *x, double *gradient, double *bound, size_t n, size_t d)
{
    double *hat = zeros(1, d);
    for (size_t i = 0; i < n; i++, gradient += d, bound += d) {
        double rstd = norm_row(hat, x + i * d, d), mean = 0, along = 0, off = 0, off_along = 0;
        for (size_t c = 0; c < d; c++) {
            mean += gradient[c] / (double)d;
            along += gradient[c] * hat[c] / (double)d;
            double error = bound[c] + ((double)d + 8) * FLT_EPSILON * fabs(gradient[c]);
            off += error / (double)d;
            off_along += error * (fabs(hat[c]) + 1) / (double)d;
        }
        for (size_t c = 0; c < d; c++) {
            gradient[c] = rstd * (gradient[c] - mean - hat[c] * along);
            bound[c] = rstd * (bound[c] + off + (fabs(hat[c]) + 1) * off_along) +
                       8 * FLT_EPSILON * fabs(gradient[c]) +
                       ((double)d + 8) * FLT_EPSILON * rstd * (fabs(mean) + (fabs(hat[c]) + 1) * fabs(along));
        }
    }
    free(hat);
}

double oracle_groups_run(struct oracle_groups *o)
{
    find_times(o);
    return oracle_groups_attend(o);
}

double oracle_groups_attend(struct oracle_groups *o)
{
    struct oracle_softmax *s = &o->softmax;
    memcpy(s->query, o->query, o->n_q * o->d * sizeof(double));
    memcpy(s->key, o->key, o->n_k * o->d * sizeof(double));
    if (!o->norm)
        return oracle_softmax_run(s);
    for (size_t i = 0; i < o->n_q; i++)
        norm_row(s->query + i * o->d, o->query + i * o->d, o->d);
    for (size_t j = 0; j < o->n_k; j++)
        norm_row(s->key + j * o->d, o->key + j * o->d, o->d);
    s->input_error = 0.5 * ((double)o->d + 8) * FLT_EPSILON; /* of the mean, in units of sigma */
    double total = oracle_softmax_run(s);
    norm_back(o->query, s->dquery, s->dquery_bound, o->n_q, o->d);
    norm_back(o->key, s->dkey, s->dkey_bound, o->n_k, o->d);
    return total;
}
