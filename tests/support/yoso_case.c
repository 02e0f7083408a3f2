/* Building and running one head.
   SPDX-License-Identifier: Apache-2.0 */
#include "support/yoso_case.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/random.h"
#include "support/check.h"

enum { GAP = 3 };
static const float marker = -12345.5f;

struct yoso_options yoso_preset(void)
{
    struct yoso_options options;
    options_preset(yoso_sampled_rows, &options);
    return options;
}

static void *block_of(size_t bytes)
{
    void *block = aligned_alloc(64, (bytes + 64) / 64 * 64);
    assert_non_null(block);
    memset(block, 0xA5, bytes);
    return block;
}

float *case_row(struct view view, size_t row)
{
    return (float *)view.data + row * view.stride;
}

static struct view new_view(size_t rows, size_t cols, uint64_t key)
{
    struct view view = {.rows = rows, .cols = cols, .stride = cols + GAP};
    size_t count = rows * view.stride;
    float *data = view.data = block_of(count * sizeof *data);
    for (size_t i = 0; i < count; i++)
        data[i] = marker;
    for (size_t i = 0; key != 0 && i < rows; i++)
        random_normals(random_key(key, RANDOM_DATA, i), 0, data + i * view.stride, cols);
    for (size_t i = 0; key == 0 && i < rows; i++)
        memset(data + i * view.stride, 0, cols * sizeof *data);
    return view;
}

static void check_gaps(struct view view)
{
    for (size_t i = 0; i < view.rows; i++)
        for (size_t c = view.cols; c < view.stride; c++)
            if (case_row(view, i)[c] != marker)
                fail_msg("gap after row %zu was written", i);
}

static double *doubles(size_t rows, size_t cols)
{
    return block_of(rows * cols * sizeof(double));
}

struct yoso_case *case_new(const struct mechanism *mechanism, const struct kernels *kernels,
                           const struct yoso_options *options, size_t n_q, size_t n_k, size_t d, size_t d_v,
                           uint64_t seed)
{
    struct yoso_case *c = calloc(1, sizeof *c);
    assert_non_null(c);
    c->mechanism = mechanism;
    c->options = *options;
    c->problem = (struct problem){
        .kernels = kernels,
        .shape = {.num_queries = n_q, .num_keys = n_k, .head_dim = d, .value_dim = d_v, .workers = 1},
        .options = &c->options,
        .query = new_view(n_q, d, random_key(seed, RANDOM_DATA, 1)),
        .key = new_view(n_k, d, random_key(seed, RANDOM_DATA, 2)),
        .value = new_view(n_k, d_v, random_key(seed, RANDOM_DATA, 3)),
        .random_key = random_key(seed, RANDOM_HEAD, 0),
    };
    assert_null(mechanism->host.refuse(options, &c->problem.shape));
    c->out = new_view(n_q, d_v, 0);
    c->dout = new_view(n_q, d_v, random_key(seed, RANDOM_DATA, 4));
    c->gradients = (struct problem_gradients){
        .query = new_view(n_q, d, 0), .key = new_view(n_k, d, 0), .value = new_view(n_k, d_v, 0)};
    c->problem.saved = block_of(mechanism->host.saved_size(options, &c->problem.shape));
    c->problem.scratch = block_of(mechanism->host.scratch_size(options, &c->problem.shape));
    if (mechanism->preparation != NULL) {
        c->shared = block_of(mechanism->preparation->shared_size(options, d));
        c->prepare_scratch = block_of(mechanism->preparation->scratch_size(options, d, 1));
    }
    c->problem.shared = c->shared;
    case_prepare(c, seed);
    size_t m = (size_t)options->num_hashes;
    c->query_codes = block_of(n_q * m * sizeof *c->query_codes);
    c->key_codes = block_of(n_k * m * sizeof *c->key_codes);
    c->oracle = (struct oracle_yoso){.n_q = n_q,
                                     .n_k = n_k,
                                     .d = d,
                                     .d_v = d_v,
                                     .hash_bits = (unsigned)options->hash_bits,
                                     .normalize = (enum oracle_normalize)options->normalize,
                                     .q = doubles(n_q, d),
                                     .k = doubles(n_k, d),
                                     .v = doubles(n_k, d_v),
                                     .query_codes = c->query_codes,
                                     .key_codes = c->key_codes};
    c->x = doubles(n_q, d_v);
    c->y = doubles(n_q, d_v);
    c->dy = doubles(n_q, d_v);
    c->dq = doubles(n_q, d);
    c->dk = doubles(n_k, d);
    c->dv = doubles(n_k, d_v);
    return c;
}

void case_free(struct yoso_case *c)
{
    struct view views[] = {c->problem.query, c->problem.key,     c->problem.value, c->out,
                           c->dout,          c->gradients.query, c->gradients.key, c->gradients.value};
    for (size_t i = 0; i < sizeof views / sizeof *views; i++) {
        check_gaps(views[i]);
        free(views[i].data);
    }
    void *blocks[] = {c->problem.saved,
                      c->problem.scratch,
                      c->shared,
                      c->prepare_scratch,
                      c->visible,
                      c->query_codes,
                      c->key_codes,
                      (void *)c->oracle.q,
                      (void *)c->oracle.k,
                      (void *)c->oracle.v,
                      c->x,
                      c->y,
                      c->dy,
                      c->dq,
                      c->dk,
                      c->dv,
                      c};
    for (size_t i = 0; i < sizeof blocks / sizeof *blocks; i++)
        free(blocks[i]);
}

void case_make_causal(struct yoso_case *c, int form)
{
    size_t n_q = c->problem.query.rows, n_k = c->problem.key.rows, seen = 0;
    c->visible = malloc(n_q * sizeof *c->visible);
    for (size_t i = 0; i < n_q; i++) {
        seen += form == 0 ? 1 : i * 7 % 5 * (n_k / n_q + 1) / 2;
        c->visible[i] = seen = seen < n_k ? seen : n_k;
    }
    c->problem.shape.causal = true;
    free(c->problem.scratch);
    c->problem.scratch = block_of(c->mechanism->host.scratch_size(&c->options, &c->problem.shape));
    c->problem.visible = c->oracle.visible = c->visible;
}

void case_prepare(struct yoso_case *c, uint64_t seed)
{
    c->problem.random_key = random_key(seed, RANDOM_HEAD, 0);
    const struct preparation preparation = {.kernels = c->problem.kernels,
                                            .options = &c->options,
                                            .head_dim = c->problem.shape.head_dim,
                                            .call_key = random_key(seed, RANDOM_LAYER, 0),
                                            .shared = c->shared,
                                            .scratch = c->prepare_scratch};
    if (c->mechanism->preparation != NULL)
        c->mechanism->preparation->prepare(&preparation);
}

void case_forward(struct yoso_case *c)
{
    c->mechanism->host.forward(&c->problem, c->out);
}

void case_backward(struct yoso_case *c)
{
    memset(c->problem.scratch, 0x5A, c->mechanism->host.scratch_size(&c->options, &c->problem.shape));
    c->mechanism->host.backward(&c->problem, c->out, c->dout, &c->gradients);
}

void case_clear_gradients(struct yoso_case *c)
{
    struct view views[] = {c->gradients.query, c->gradients.key, c->gradients.value};
    for (size_t v = 0; v < 3; v++)
        for (size_t i = 0; i < views[v].rows; i++)
            memset(case_row(views[v], i), 0, views[v].cols * sizeof(float));
}

void case_read(double *to, struct view from)
{
    for (size_t i = 0; i < from.rows; i++)
        for (size_t c = 0; c < from.cols; c++)
            to[i * from.cols + c] = (double)case_row(from, i)[c];
}

static void read_codes(uint32_t *to, const void *codes, bool wide, size_t count)
{
    for (size_t i = 0; i < count; i++)
        to[i] = wide ? ((const uint32_t *)codes)[i] : ((const uint16_t *)codes)[i];
}

/* The longest row of queries and keys. */
static double longest_row(const struct oracle_yoso *yoso)
{
    double longest = 0;
    for (size_t i = 0; i < yoso->n_q + yoso->n_k; i++) {
        const double *row = i < yoso->n_q ? yoso->q + i * yoso->d : yoso->k + (i - yoso->n_q) * yoso->d;
        double square = 0;
        for (size_t e = 0; e < yoso->d; e++)
            square += row[e] * row[e];
        longest = fmax(longest, sqrt(square));
    }
    return longest;
}

void case_to_oracle(struct yoso_case *c, bool sampled)
{
    case_read((double *)c->oracle.q, c->problem.query);
    case_read((double *)c->oracle.k, c->problem.key);
    case_read((double *)c->oracle.v, c->problem.value);
    case_read(c->dy, c->dout);
    c->oracle.max_norm = c->options.map == YOSO_MAP_L2 ? 0
                         : c->options.max_norm > 0     ? c->options.max_norm
                                                       : longest_row(&c->oracle);
    c->oracle.num_hashes = sampled ? (size_t)c->options.num_hashes : 0;
    if (sampled) { /* saved begins with the codes of queries, then of keys, each cache-line aligned */
        bool wide = c->options.hash_bits > 16;
        size_t m = c->oracle.num_hashes, query_bytes = c->oracle.n_q * m * (wide ? 4 : 2);
        read_codes(c->query_codes, c->problem.saved, wide, c->oracle.n_q * m);
        read_codes(c->key_codes, (char *)c->problem.saved + (query_bytes + 63) / 64 * 64, wide,
                   c->oracle.n_k * m);
    }
}

void case_ask_oracle(struct yoso_case *c, bool sampled)
{
    case_to_oracle(c, sampled);
    oracle_yoso_forward(&c->oracle, c->x, c->y);
    c->oracle.chosen_hashes = (size_t)c->options.num_hashes;
    oracle_yoso_backward(&c->oracle, (enum oracle_gradient)c->options.gradient, c->dy, c->dq, c->dk, c->dv);
}

/* ---- bounds -------------------------------------------------------------------------------------------- */

#define PI  3.14159265358979323846
#define EPS 0x1p-24

static double length(const double *x, size_t n)
{
    double sum = 0;
    for (size_t c = 0; c < n; c++)
        sum += x[c] * x[c];
    return sqrt(sum);
}

struct case_sizes case_sizes_of(const struct yoso_case *c)
{
    const struct oracle_yoso *o = &c->oracle;
    size_t n_q = o->n_q, n_k = o->n_k, d = o->d, d_v = o->d_v;
    struct case_sizes s = {calloc(n_q * d_v, 8), calloc(n_q * d, 8), calloc(n_k * d, 8),
                           calloc(n_k * d_v, 8)};
    for (size_t i = 0; i < n_q; i++) {
        double *x_size = s.y + i * d_v, sum = 0;
        for (size_t j = 0; j < n_k; j++) {
            sum += oracle_weight(o, i, j);
            for (size_t e = 0; e < d_v; e++)
                x_size[e] += oracle_weight(o, i, j) * fabs(o->v[j * d_v + e]);
        }
        if (sum == 0)
            continue; /* no collision: everything is exactly 0 */
        double x_length = length(c->x + i * d_v, d_v), g_length = length(c->dy + i * d_v, d_v);
        double divisor = o->normalize == ORACLE_L2 ? x_length : o->normalize == ORACLE_SUM ? sum : 1;
        double cancelled = length(x_size, d_v) / x_length; /* how much larger X's terms are than X */
        double dx_size = g_length / divisor * (o->normalize == ORACLE_NONE ? 1 : 3 * cancelled);
        for (size_t e = 0; e < d_v; e++)
            x_size[e] = (x_size[e] + cancelled * fabs(c->x[i * d_v + e])) / divisor;
        for (size_t j = 0; j < n_k; j++) {
            double weight = oracle_weight(o, i, j), v_length = length(o->v + j * d_v, d_v), slope;
            double p = oracle_collision(o->q + i * d, o->k + j * d, d), tau = o->hash_bits;
            /* true: the tangent is bounded; an angle error of a few eps costs about 1 / sine of relative
               error */
            slope = c->options.gradient == YOSO_GRADIENT_LOWER
                        ? tau / 2
                        : tau / PI / fmax(p, 1e-3) * (2 + 1 / fmax(sin(PI * (1 - p)), 1e-6));
            double times = weight;
            if (c->options.gradient == YOSO_GRADIENT_RELEASED) {
                /* The largest effect of a relative eps of the cosine at 0.99 of it: its sine is above
                   0.14. */
                double cosine = 0.99 * cos(PI * (1 - p)), sine = sqrt(1 - cosine * cosine);
                double shrunk = 1 - acos(cosine) / PI;
                slope = tau * pow(shrunk, tau - 1) / (PI * sine) *
                        (2 + tau / (shrunk * PI * sine) + 1 / (sine * sine));
                times = weight > 0;
            }
            double size = times * slope * dx_size * (v_length + (o->normalize == ORACLE_SUM));
            for (size_t e = 0; e < d_v; e++)
                s.dv[j * d_v + e] += weight * dx_size;
            for (size_t e = 0; e < d; e++) {
                s.dq[i * d + e] += size / fmax(length(o->q + i * d, d), 1e-12);
                s.dk[j * d + e] += size / fmax(length(o->k + j * d, d), 1e-12);
            }
        }
    }
    return s;
}

static double worst_ratio;

void case_check_view(struct view got, const double *want, const double *size, double factor, const char *what,
                     const struct yoso_case *c)
{
    for (size_t i = 0; i < got.rows; i++)
        for (size_t e = 0; e < got.cols; e++) {
            double is = (double)case_row(got, i)[e], should = want[i * got.cols + e];
            double allowed = factor * EPS * size[i * got.cols + e];
            worst_ratio = fmax(worst_ratio, fabs(is - should) / (allowed + 1e-300));
            if (!(fabs(is - should) <= allowed))
                fail_msg("%s %s[%zu, %zu] (tau %d, normalize %d, gradient %d, causal %d): got %.9g, want "
                         "%.9g, allowed "
                         "%.3g",
                         c->problem.kernels->name, what, i, e, (int)c->options.hash_bits,
                         c->options.normalize, c->options.gradient, c->problem.shape.causal, is, should,
                         allowed);
        }
}

void case_sizes_free(struct case_sizes *sizes)
{
    free(sizes->y), free(sizes->dq), free(sizes->dk), free(sizes->dv);
}

double case_worst_ratio(void)
{
    return worst_ratio;
}
