/* Every mechanism of the table on numbers from 1e-30 to 3e38: all arrays, one array, queries and keys, one
   huge row among small ones; forward, backward and the mechanism's own loss, with and without causal, in
   float32 and bf16. A call gives finite numbers, or is refused with the mechanism's name, what was found and
   what is allowed. Where it computes, the results obey laws in double precision, each only if the mechanism
   obeys it on ordinary numbers: out is linear in V and the gradients in dout; <dout, out> = <V, dV>; values
   of 1 give 1; a power of two may move from queries to keys. A new mechanism is included by its row. Bugs
   planted and caught: a mechanism without its range; dout left out of the reach; the own loss, or yoso's
   outputs, not checked; an ordinary call refused.
   SPDX-License-Identifier: Apache-2.0 */
#include <float.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "support/api_context.h"

enum { ROWS = 130, DIM = 16, COUNT = ROWS * DIM, ARRAYS = 4, GRADIENTS = 3 };
enum { QUERY, KEY, VALUE, DOUT };

static const char *const array_names[] = {"query", "key", "value", "dout"};

/* One call: its numbers, and what came of it. */
struct call {
    hashattn_context *context;
    hashattn_attention *attention;
    const char *mechanism;
    int causal, half;
    float in[ARRAYS][COUNT];
    float out[COUNT], gradient[GRADIENTS][COUNT];
    double loss;
    float *dparams;
    size_t num_params;
    int computed, learned; /* forward, and backward, gave numbers */
};

static hashattn_array array_of(const struct call *call, float *floats, uint16_t *halves)
{
    for (size_t i = 0; call->half && i < COUNT; i++) {
        uint32_t bits;
        memcpy(&bits, &floats[i], sizeof bits);
        halves[i] = (uint16_t)(bits >> 16);
    }
    return hashattn_array_of_rows(call->half ? (void *)halves : floats, 1, ROWS, DIM);
}

static void take_back(const struct call *call, float *floats, const uint16_t *halves)
{
    for (size_t i = 0; call->half && i < COUNT; i++) {
        uint32_t bits = (uint32_t)halves[i] << 16;
        memcpy(&floats[i], &bits, sizeof bits);
    }
}

/* True if the call computed; otherwise it must be a refusal by name with numbers. */
static int computes(const struct call *call, hashattn_status status, const char *what)
{
    const char *message = hashattn_context_message(call->context);
    if (status == HASHATTN_OK)
        return 1;
    if (status != HASHATTN_REFUSED || strncmp(message, call->mechanism, strlen(call->mechanism)) != 0 ||
        strstr(message, "allowed") == NULL)
        fail_msg("%s: status %d, %s", what, (int)status, message);
    return 0;
}

static void check_finite(const float *x, size_t count, const char *what, const char *array)
{
    for (size_t i = 0; i < count; i++)
        if (!isfinite(x[i]))
            fail_msg("%s: %s[%zu] is %g", what, array, i, (double)x[i]);
}

static void run(struct call *call, const char *what)
{
    static uint16_t halves[ARRAYS + 1 + GRADIENTS][COUNT];
    hashattn_problem problem;
    hashattn_problem_default(&problem);
    problem.num_queries = problem.num_keys = problem.max_len = ROWS;
    problem.head_dim = problem.value_dim = DIM;
    problem.seed = 5;
    problem.causal = call->causal;
    problem.element = call->half ? HASHATTN_BF16 : HASHATTN_FLOAT32;
    size_t saved_bytes, scratch_bytes;
    check_ok(call->context,
             hashattn_attention_sizes(call->attention, &problem, &saved_bytes, &scratch_bytes));
    void *saved = aligned_alloc(64, saved_bytes / 64 * 64 + 64),
         *scratch = aligned_alloc(64, scratch_bytes / 64 * 64 + 64);
    hashattn_array in[ARRAYS], out, to[GRADIENTS];
    for (size_t a = 0; a < ARRAYS; a++)
        in[a] = array_of(call, call->in[a], halves[a]);
    out = array_of(call, call->out, halves[ARRAYS]);
    for (size_t a = 0; a < GRADIENTS; a++)
        to[a] = array_of(call, call->gradient[a], halves[ARRAYS + 1 + a]);
    call->learned = 0;
    call->loss = 0;
    call->computed = computes(call,
                              hashattn_attention_forward(call->attention, &problem, &in[QUERY], &in[KEY],
                                                         &in[VALUE], &out, saved, scratch),
                              what);
    if (call->computed) {
        take_back(call, call->out, halves[ARRAYS]);
        check_finite(call->out, COUNT, what, "out");
        if (computes(call,
                     hashattn_attention_own_loss(call->attention, &problem, &in[QUERY], &in[KEY], &in[VALUE],
                                                 &call->loss, call->dparams, saved, scratch),
                     what)) {
            if (!isfinite(call->loss))
                fail_msg("%s: the own loss is %g", what, call->loss);
            check_finite(call->dparams, call->num_params, what, "dparams");
        }
        hashattn_status status = hashattn_attention_backward_params(
            call->attention, &problem, &in[QUERY], &in[KEY], &in[VALUE], &out, &in[DOUT], &to[0], &to[1],
            &to[2], call->dparams, saved, scratch);
        if (status == HASHATTN_REFUSED &&
            strstr(hashattn_context_message(call->context), "has no backward pass") != NULL)
            status = HASHATTN_OK;
        else
            call->learned = computes(call, status, what);
        if (call->learned)
            check_finite(call->dparams, call->num_params, what, "dparams of backward");
        for (size_t a = 0; a < GRADIENTS && call->learned; a++) {
            take_back(call, call->gradient[a], halves[ARRAYS + 1 + a]);
            check_finite(call->gradient[a], COUNT, what, array_names[a]);
        }
    }
    free(saved);
    free(scratch);
}

/* ---- numbers ------------------------------------------------------------------------------------------- */

static float scaled(float x, double scale)
{
    double y = (double)x * scale;
    return (float)fmax(-(double)FLT_MAX / 2, fmin((double)FLT_MAX / 2, y));
}

enum pattern { ALL, ONLY_QUERY, ONLY_KEY, ONLY_VALUE, ONLY_DOUT, QUERY_AND_KEY, ONE_ROW, PATTERNS };
static const char *const pattern_names[] = {"all arrays", "query",         "key",           "value",
                                            "dout",       "query and key", "one row of all"};

static int is_scaled(enum pattern pattern, size_t array, size_t row)
{
    switch (pattern) {
    case ALL:
        return 1;
    case QUERY_AND_KEY:
        return array <= KEY;
    case ONE_ROW:
        return row == ROWS / 3;
    default:
        return array == (size_t)pattern - ONLY_QUERY;
    }
}

static void fill(struct call *call, enum pattern pattern, double scale)
{
    for (size_t a = 0; a < ARRAYS; a++) {
        hashattn_fill_normal(7, a, call->in[a], COUNT);
        for (size_t i = 0; i < COUNT; i++)
            if (is_scaled(pattern, a, i / DIM))
                call->in[a][i] = scaled(call->in[a][i], scale);
    }
}

/* ---- mechanisms ---------------------------------------------------------------------------------------- */

/* Options that lead through other code. */
static const struct {
    const char *mechanism, *option, *text, *second, *second_text;
} further[] = {
    {"lha", "targets", "exact", "mode", "paper"},
    {"lha", "targets", "features", "mode", "paper"},
    {"lha", "targets", "sampled", "mode", "paper"},
    {"lha", "targets", "exact", "hash", "mlp"},
    {"lha", "targets", "features", "hash", "shared"},
    {"lha", "targets", "exact", "num_buckets", "40"},
    {"lha", "targets", "features", "num_buckets", "40"},
    {"local", "relative", "true", "wrap", "true"},
    {"clustered", "num_clusters", "9", "top_keys", "5"},
    {"probsparse", "factor", "1", NULL, NULL},
    {"nystrom", "num_landmarks", "8", NULL, NULL},
    {"sparse", "pattern", "strided", "block_size", "7"},
    {"yoso", "normalize", "l2", NULL, NULL},
    {"yoso", "normalize", "sum", NULL, NULL},
    {"yoso", "gradient", "lower", NULL, NULL},
    {"yoso-e", "normalize", "sum", NULL, NULL},
};
enum { FURTHER = sizeof further / sizeof *further };

static void set_further(hashattn_context *context, hashattn_attention *attention, size_t which)
{
    check_ok(context, hashattn_attention_set(attention, further[which].option, further[which].text));
    if (further[which].second != NULL)
        check_ok(context,
                 hashattn_attention_set(attention, further[which].second, further[which].second_text));
}

/* A call of a mechanism, causal or not; NULL if the mechanism has no such form. which: further options, or
   FURTHER for none. */
static struct call *call_new(hashattn_context *context, const char *mechanism, size_t which, int causal,
                             int half)
{
    struct call *call = calloc(1, sizeof *call);
    *call = (struct call){.context = context, .mechanism = mechanism, .causal = causal, .half = half};
    check_ok(context, hashattn_attention_new(context, mechanism, &call->attention));
    if (which < FURTHER)
        set_further(context, call->attention, which);
    hashattn_tensor tensor = {.struct_size = sizeof tensor};
    for (size_t i = 0; hashattn_attention_tensor(call->attention, DIM, DIM, ROWS, i, &tensor); i++)
        call->num_params += tensor.rows * tensor.cols;
    call->dparams = calloc(call->num_params + 1, sizeof *call->dparams);
    hashattn_problem problem;
    hashattn_problem_default(&problem);
    problem.num_queries = problem.num_keys = problem.max_len = ROWS;
    problem.head_dim = problem.value_dim = DIM;
    problem.causal = causal;
    size_t bytes;
    if (hashattn_attention_sizes(call->attention, &problem, &bytes, &bytes) == HASHATTN_OK)
        return call;
    hashattn_attention_free(call->attention);
    free(call->dparams);
    free(call);
    return NULL;
}

static void call_free(struct call *call)
{
    hashattn_attention_free(call->attention);
    free(call->dparams);
    free(call);
}

static void both_forms(void (*check)(struct call *call), hashattn_context *context, const char *mechanism,
                       size_t which, int with_bf16)
{
    for (int causal = 0; causal < 2; causal++)
        for (int half = 0; half <= with_bf16; half++) {
            struct call *call = call_new(context, mechanism, which, causal, half);
            if (call == NULL)
                continue;
            check(call);
            call_free(call);
        }
}

/* Runs `check` on a call of every mechanism in every form. */
static void for_all(void (*check)(struct call *call), int with_bf16)
{
    for (int precision = 0; precision <= with_bf16; precision++) {
        hashattn_context_options options;
        hashattn_context_options_default(&options);
        options.threads = 1;
        options.precision = precision ? "bf16" : "float32";
        hashattn_context *context;
        assert_int_equal(hashattn_context_new(&options, NULL, 0, &context), HASHATTN_OK);
        hashattn_mechanism_info info = {.struct_size = sizeof info};
        for (size_t m = 0; hashattn_mechanism_get(m, &info); m++)
            both_forms(check, context, info.name, FURTHER, with_bf16);
        for (size_t which = 0; which < FURTHER; which++)
            both_forms(check, context, further[which].mechanism, which, with_bf16);
        hashattn_context_free(context);
    }
}

static void check_all_scales(struct call *call)
{
    static const double scales[] = {1e-38, 1e-30, 1e-19, 1e-10, 1,    1e5,  1e9,
                                    1e12,  1e15,  1e19,  1e25,  1e30, 8e37, 3e38};
    for (int pattern = 0; pattern < PATTERNS; pattern++)
        for (size_t s = 0; s < sizeof scales / sizeof *scales; s++) {
            char what[120];
            snprintf(what, sizeof what, "%s%s, %s, %s times %g", call->mechanism,
                     call->causal ? ", causal" : "", call->half ? "bf16" : "float32", pattern_names[pattern],
                     scales[s]);
            fill(call, (enum pattern)pattern, scales[s]);
            run(call, what);
            if (scales[s] <= 1e5 && !call->computed)
                fail_msg("%s: refused", what);
        }
}

static void finite_or_refused_by_name(void **state)
{
    (void)state;
    for_all(check_all_scales, 1);
}

/* ---- laws ---------------------------------------------------------------------------------------------- */

/* The largest difference between x and y 2^exponent, against the largest number of y; numbers beyond float32
   do not count. */
static double difference(const float *x, const float *y, int exponent)
{
    double largest = 0, off = 0;
    for (size_t i = 0; i < COUNT; i++)
        largest = fmax(largest, fabs((double)y[i]));
    for (size_t i = 0; i < COUNT; i++) {
        double want = ldexp((double)y[i], exponent);
        if (fabs(want) < (double)FLT_MAX / 2)
            off = fmax(off, fabs((double)x[i] - want) - 1e-36);
    }
    return off / ldexp(largest > 0 ? largest : 1, exponent);
}

static void scale_array(struct call *call, size_t array, int exponent)
{
    for (size_t i = 0; i < COUNT; i++)
        call->in[array][i] = ldexpf(call->in[array][i], exponent);
}

static double dot(const float *x, const float *y, double *sum)
{
    double total = 0;
    *sum = 0;
    for (size_t i = 0; i < COUNT; i++) {
        total += (double)x[i] * (double)y[i];
        *sum += fabs((double)x[i] * (double)y[i]);
    }
    return total;
}

/* |<dout, out> - <V, dV>| against the sum of terms. */
static double adjoint(const struct call *call)
{
    double of_out, of_value, a = dot(call->in[DOUT], call->out, &of_out),
                             b = dot(call->in[VALUE], call->gradient[VALUE], &of_value);
    return fabs(a - b) / fmax(fmax(of_out, of_value), DBL_MIN);
}

static const double room = 1e-3;

static void check_law(double off, double plain, const char *what)
{
    if (plain < room && off > 4 * room)
        fail_msg("%s: off by %g, on ordinary numbers by %g", what, off, plain);
}

static void check_linear(struct call *call)
{
    static const int exponents[] = {-110, -60, 30, 60, 90, 110, 122};
    struct call *plain = malloc(sizeof *plain);
    fill(call, ALL, 1);
    run(call, call->mechanism);
    *plain = *call;
    double plain_adjoint = adjoint(plain);
    /* Linear on ordinary numbers? */
    scale_array(call, VALUE, 3);
    run(call, call->mechanism);
    double linear = difference(call->out, plain->out, 3);
    for (size_t e = 0; e < sizeof exponents / sizeof *exponents; e++)
        for (size_t array = VALUE; array <= DOUT; array++) {
            char what[120];
            snprintf(what, sizeof what, "%s%s, %s times 2^%d", call->mechanism,
                     call->causal ? ", causal" : "", array_names[array], exponents[e]);
            fill(call, ALL, 1);
            scale_array(call, array, exponents[e]);
            run(call, what);
            if (call->computed)
                check_law(difference(call->out, plain->out, array == VALUE ? exponents[e] : 0), linear, what);
            if (!call->learned)
                continue;
            check_law(
                difference(call->gradient[VALUE], plain->gradient[VALUE], array == DOUT ? exponents[e] : 0),
                linear, what);
            for (size_t a = QUERY; a <= KEY; a++)
                check_law(difference(call->gradient[a], plain->gradient[a], exponents[e]), linear, what);
            check_law(adjoint(call), plain_adjoint, what);
        }
    free(plain);
}

static void results_are_linear_in_values_and_gradients(void **state)
{
    (void)state;
    for_all(check_linear, 0);
}

/* How far values of 1 give other numbers than 1, or than 0 (a query without keys). */
static double not_one(const struct call *call)
{
    double off = 0;
    for (size_t i = 0; i < COUNT; i++)
        off = fmax(off, fmin(fabs((double)call->out[i] - 1), fabs((double)call->out[i])));
    return off;
}

static void check_weights(struct call *call)
{
    static const enum pattern patterns[] = {ONLY_QUERY, ONLY_KEY, QUERY_AND_KEY, ONE_ROW};
    static const double scales[] = {1e-38, 1e-30, 1e-10, 1, 1e5, 1e9, 1e12, 1e15, 1e17, 1e19, 1e30, 3e38};
    double plain = 0, plain_adjoint = 0;
    for (int ordinary = 1; ordinary >= 0; ordinary--)
        for (size_t p = 0; p < 4; p++)
            for (size_t s = 0; s < sizeof scales / sizeof *scales; s++) {
                char what[120];
                double scale = ordinary ? 1 : scales[s];
                snprintf(what, sizeof what, "%s%s, values of 1, %s times %g", call->mechanism,
                         call->causal ? ", causal" : "", pattern_names[patterns[p]], scale);
                fill(call, patterns[p], scale);
                for (size_t i = 0; i < COUNT; i++)
                    call->in[VALUE][i] = 1;
                run(call, what);
                if (ordinary) {
                    plain = not_one(call);
                    plain_adjoint = call->learned ? adjoint(call) : 1;
                    continue;
                }
                if (call->computed)
                    check_law(not_one(call), plain, what);
                if (call->learned)
                    check_law(adjoint(call), plain_adjoint, what);
            }
}

static void weights_sum_to_one(void **state)
{
    (void)state;
    for_all(check_weights, 0);
}

static void check_moved(struct call *call)
{
    static const int exponents[] = {3, -3, 20, -20, 35, -35};
    struct call *plain = malloc(sizeof *plain);
    fill(call, ALL, 1);
    run(call, call->mechanism);
    *plain = *call;
    double moves[2] = {0, 0};
    scale_array(call, QUERY, 3);
    run(call, call->mechanism);
    if (difference(call->out, plain->out, 0) < room) { /* rows are normed, up to an epsilon */
        free(plain);
        return;
    }
    for (size_t e = 0; e < sizeof exponents / sizeof *exponents; e++) {
        char what[120];
        snprintf(what, sizeof what, "%s%s, query times 2^%d, key times 2^%d", call->mechanism,
                 call->causal ? ", causal" : "", exponents[e], -exponents[e]);
        fill(call, ALL, 1);
        scale_array(call, QUERY, exponents[e]);
        scale_array(call, KEY, -exponents[e]);
        run(call, what);
        double off = call->computed ? difference(call->out, plain->out, 0) : 0,
               off_gradient =
                   call->learned
                       ? fmax(difference(call->gradient[QUERY], plain->gradient[QUERY], -exponents[e]),
                              difference(call->gradient[KEY], plain->gradient[KEY], exponents[e]))
                       : 0;
        if (e < 2) {
            moves[0] = fmax(moves[0], off);
            moves[1] = fmax(moves[1], off_gradient);
        }
        check_law(off, moves[0], what);
        check_law(off_gradient, moves[1], what);
    }
    free(plain);
}

static void powers_of_two_move_from_queries_to_keys(void **state)
{
    (void)state;
    for_all(check_moved, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(finite_or_refused_by_name),
        cmocka_unit_test(results_are_linear_in_values_and_gradients),
        cmocka_unit_test(weights_sum_to_one),
        cmocka_unit_test(powers_of_two_move_from_queries_to_keys),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
