/* Central differences of the pass, one number at a time.
   SPDX-License-Identifier: Apache-2.0 */
#include "oracle/oracle_differences.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/random.h"
#include "support/check.h"

enum { QUERY, KEY, VALUE, PARAMS, ARRAYS };
static const char *const names[] = {"dquery", "dkey", "dvalue", "dparams"};

struct inputs {
    struct oracle_inputs given;
    double *x[ARRAYS], *out, *dout;
    size_t count[ARRAYS], outputs;
    oracle_pass *pass;
};

static double *doubles(const float *from, size_t count)
{
    double *to = malloc((count + 1) * sizeof *to);
    assert_non_null(to);
    for (size_t i = 0; i < count; i++)
        to[i] = (double)from[i];
    return to;
}

static struct inputs inputs_new(const struct attention_case *problem, oracle_pass *pass)
{
    size_t n_q = problem->queries[0], n_k = problem->keys[0], d = problem->head_dim, d_v = problem->value_dim;
    const float *arrays[] = {problem->query, problem->key, problem->value, problem->params};
    struct inputs in = {.given = {.n_q = n_q,
                                  .n_k = n_k,
                                  .d = d,
                                  .d_v = d_v,
                                  .max_len = problem->max_len,
                                  .options = problem->options},
                        .count = {n_q * d, n_k * d, n_k * d_v, attention_case_params(problem)},
                        .outputs = n_q * d_v,
                        .pass = pass};
    assert_true(problem->num_sequences == 1 && problem->num_heads == 1 && problem->key_mask == NULL);
    for (size_t a = 0; a < ARRAYS; a++)
        in.x[a] = doubles(arrays[a], in.count[a]);
    in.dout = doubles(problem->dout, in.outputs);
    in.out = calloc(in.outputs + 1, sizeof *in.out);
    assert_non_null(in.out);
    in.given.query = in.x[QUERY];
    in.given.key = in.x[KEY];
    in.given.value = in.x[VALUE];
    in.given.params = in.x[PARAMS];
    return in;
}

static void inputs_free(struct inputs *in)
{
    for (size_t a = 0; a < ARRAYS; a++)
        free(in->x[a]);
    free(in->out);
    free(in->dout);
}

/* Every number times 1 + u 2^-20, u uniform in -1 .. 1. */
static void shake(struct inputs *in)
{
    struct random random = random_open(random_key(77, 1, 2));
    for (size_t a = 0; a < ARRAYS; a++)
        for (size_t i = 0; i < in->count[a]; i++)
            in->x[a][i] *= 1 + ldexp(2 * (double)random_unit(&random) - 1, -20);
}

static double loss(struct inputs *in)
{
    double sum = 0;
    in->pass(&in->given, in->out);
    for (size_t i = 0; i < in->outputs; i++)
        sum += in->out[i] * in->dout[i];
    return sum;
}

static double slope(struct inputs *in, size_t array, size_t index)
{
    double *x = &in->x[array][index], before = *x, step = 1e-3, at[4];
    for (int i = 0; i < 4; i++) {
        *x = before + step * (i < 2 ? i - 2 : i - 1);
        at[i] = loss(in);
    }
    *x = before;
    return (8 * (at[2] - at[1]) - (at[3] - at[0])) / (12 * step);
}

/* The tolerance of an array, from its numbers and those of the changed inputs. */
static double tolerance(const double *want, const double *changed, size_t count)
{
    double change = 0, largest = 1;
    for (size_t i = 0; i < count; i++) {
        change = fmax(change, fabs(want[i] - changed[i]));
        largest = fmax(largest, fabs(want[i]));
    }
    return change + ldexp(largest, -19);
}

/* The slopes to check of one array. */
struct slopes {
    size_t count, *index;
    double *want, bound;
};

static struct slopes slopes_new(struct inputs *in, struct inputs *changed, size_t array, size_t samples)
{
    struct random random = random_open(random_key(78, array, 0));
    struct slopes s = {.count = in->count[array] < samples ? in->count[array] : samples};
    double *other = calloc(s.count + 1, sizeof *other);
    s.index = calloc(s.count + 1, sizeof *s.index);
    s.want = calloc(s.count + 1, sizeof *s.want);
    assert_true(other != NULL && s.index != NULL && s.want != NULL);
    for (size_t i = 0; i < s.count; i++) {
        s.index[i] = s.count == in->count[array] ? i : random_below(&random, (uint32_t)in->count[array]);
        s.want[i] = slope(in, array, s.index[i]);
        other[i] = slope(changed, array, s.index[i]);
    }
    s.bound = tolerance(s.want, other, s.count);
    free(other);
    return s;
}

void oracle_differences_check(struct attention_case *problem, oracle_pass *pass, size_t samples,
                              const char *what)
{
    struct inputs in = inputs_new(problem, pass), changed = inputs_new(problem, pass);
    struct slopes slopes[ARRAYS];
    char place[200];
    shake(&changed);
    for (size_t a = 0; a < ARRAYS; a++)
        slopes[a] = slopes_new(&in, &changed, a, samples);
    loss(&in);
    loss(&changed);
    double bound = tolerance(in.out, changed.out, in.outputs);
    for (const struct kernels *const *kernels = kernels_all(); *kernels != NULL; kernels++) {
        problem->kernels = *kernels;
        struct attention_result result = attention_case_run(problem);
        const float *got[] = {result.dquery, result.dkey, result.dvalue, result.dparams};
        snprintf(place, sizeof place, "out, %s, %s", what, (*kernels)->name);
        check_near_all(result.out, in.out, in.outputs, bound, place);
        for (size_t a = 0; a < ARRAYS; a++)
            for (size_t i = 0; i < slopes[a].count; i++) {
                snprintf(place, sizeof place, "%s[%zu], %s, %s", names[a], slopes[a].index[i], what,
                         (*kernels)->name);
                check_near((double)got[a][slopes[a].index[i]], (double)problem->start + slopes[a].want[i],
                           slopes[a].bound + ldexp(fabs((double)problem->start), -22), place);
            }
        attention_result_free(&result);
    }
    for (size_t a = 0; a < ARRAYS; a++) {
        free(slopes[a].index);
        free(slopes[a].want);
    }
    inputs_free(&in);
    inputs_free(&changed);
}
