/* Gradients of learned tensors by the public operator, for every mechanism that has some: differences along
   random directions of every tensor of every head, in plain, masked, packed, padded and causal problems; the
   sum over sequences, bit for bit, with any number of threads; bfloat16; what is written if there is nothing
   to learn, no row, or an error; a regression that rfa and sinkhorn learn; the file of the tensors. Bugs
   planted and caught: dparams added to old contents; not written without rows; not passed down; cleared
   before the last check; slices of sequences added in another order; the first tensor of a file written
   for the second, or heads exchanged in it.
   SPDX-License-Identifier: Apache-2.0 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "support/api_context.h"
#include "support/folder.h"

enum { SEQUENCES = 3, HEADS = 2, N = 24, D = 6, MAX_LEN = 28, SIZE = SEQUENCES * HEADS * N * D };

struct setting {
    const char *mechanism, *options; /* "name=value name=value" */
    int causal;                      /* only so */
    int by_loss;                     /* learns from the own loss only */
    float
        spread; /* added to the start, times normals; large behind a relu, so that few steps cross its bend */
};

static const struct setting settings[] = {
    {"rfa", "num_features=64", 0, 0, 0.2f},
    {"rfa", "num_features=64 gate=true", 1, 0, 0.2f},
    {"rfa", "num_features=64", 1, 0, 0.2f},
    {"sinkhorn", "block_size=5", 0, 0, 1},
    {"linformer", "rank=7", 0, 0, 0.2f},
    {"synthesizer", "kind=dense", 0, 0, 1},
    {"synthesizer", "kind=random", 1, 0, 1},
    {"synthesizer", "kind=factorised rank=3", 0, 0, 1},
    {"local", "relative=true block_size=5", 0, 0, 0.2f},
    {"local", "relative=true block_size=5", 1, 0, 0.2f},
    {"local", "relative=true wrap=true block_size=4", 0, 0, 0.2f},
    {"routing", "num_clusters=3", 0, 1, 0.2f},
    {"lha", "num_buckets=3", 0, 1, 0.2f},
};
enum { SETTINGS = sizeof settings / sizeof *settings };

static const size_t offsets[SEQUENCES + 1] = {0, 7, 24, 44}; /* lengths 7, 17 and 20 */

enum form { PLAIN, MASKED, PACKED, PADDED, FORMS };
static const char *const form_names[FORMS] = {"plain", "masked", "packed", "padded"};

struct call {
    hashattn_context *context;
    hashattn_attention *attention;
    hashattn_problem problem;
    uint8_t mask[SEQUENCES * N];
    float q[SIZE], k[SIZE], v[SIZE], out[SIZE], dout[SIZE], dq[SIZE], dk[SIZE], dv[SIZE];
    size_t count; /* learned floats of a head */
    float *params, *dparams;
};

static void set_options(struct call *c, const char *options)
{
    char text[100], *rest = text;
    snprintf(text, sizeof text, "%s", options);
    for (char *name; (name = strtok_r(rest, "= ", &rest)) != NULL;)
        check_ok(c->context, hashattn_attention_set(c->attention, name, strtok_r(rest, "= ", &rest)));
}

static size_t count_floats(const struct call *c)
{
    hashattn_tensor tensor = {.struct_size = sizeof tensor};
    size_t count = 0;
    for (size_t i = 0; hashattn_attention_tensor(c->attention, D, D, MAX_LEN, i, &tensor); i++)
        count += tensor.rows * tensor.cols;
    return count;
}

static void open_call(struct call *c, const struct setting *setting, enum form form, int threads)
{
    c->context = context_with(threads, NULL);
    check_ok(c->context, hashattn_attention_new(c->context, setting->mechanism, &c->attention));
    set_options(c, setting->options);
    hashattn_problem_default(&c->problem);
    c->problem.num_sequences = SEQUENCES;
    c->problem.num_heads = HEADS;
    c->problem.num_queries = c->problem.num_keys = N;
    c->problem.head_dim = c->problem.value_dim = D;
    c->problem.max_len = MAX_LEN;
    c->problem.causal = setting->causal;
    c->problem.seed = 3;
    for (size_t i = 0; i < sizeof c->mask; i++)
        c->mask[i] = i % 5 != 2;
    if (form != PLAIN)
        c->problem.key_mask = c->mask;
    if (form == PACKED || form == PADDED)
        c->problem.query_offsets = c->problem.key_offsets = offsets;
    c->problem.padded = form == PADDED;
    float *const filled[] = {c->q, c->k, c->v, c->dout};
    for (size_t i = 0; i < 4; i++)
        hashattn_fill_normal(2, i, filled[i], SIZE);
    c->count = count_floats(c);
    c->params = malloc((HEADS * c->count + 1) * sizeof(float));
    c->dparams = malloc((HEADS * c->count + 1) * sizeof(float));
    if (c->count == 0)
        return;
    check_ok(c->context, hashattn_attention_get_params(c->attention, &c->problem, c->params));
    for (size_t i = 0; i < HEADS * c->count; i++) {
        float noise;
        hashattn_fill_normal(4, i, &noise, 1);
        c->params[i] += setting->spread * noise;
    }
}

static void close_call(struct call *c)
{
    free(c->params);
    free(c->dparams);
    hashattn_attention_free(c->attention);
    hashattn_context_free(c->context);
}

/* The layout of an array of the call that starts at `data`. */
static hashattn_array array_of(const struct call *c, void *data)
{
    return c->problem.query_offsets != NULL && c->problem.padded == 0
               ? hashattn_array_of_rows(data, HEADS, offsets[SEQUENCES], D)
               : hashattn_array_of_heads(data, HEADS, N, D);
}

static void *new_block(size_t bytes)
{
    void *block = aligned_alloc(64, bytes / 64 * 64 + 64);
    assert_non_null(block);
    return block;
}

enum { Q, K, V, OUT, DOUT, DQ, DK, DV, ARRAYS };

static void arrays_of(struct call *c, size_t first, hashattn_array arrays[ARRAYS])
{
    float *const data[ARRAYS] = {c->q, c->k, c->v, c->out, c->dout, c->dq, c->dk, c->dv};
    for (size_t i = 0; i < ARRAYS; i++)
        arrays[i] = array_of(c, data[i] + first);
}

/* Forward and backward of the arrays from number `first` on, with dparams or without. */
static void run(struct call *c, size_t first, float *dparams)
{
    hashattn_array a[ARRAYS];
    arrays_of(c, first, a);
    size_t saved_bytes, scratch_bytes;
    check_ok(c->context, hashattn_attention_sizes(c->attention, &c->problem, &saved_bytes, &scratch_bytes));
    void *saved = new_block(saved_bytes), *scratch = new_block(scratch_bytes);
    memset(scratch, 0xff, scratch_bytes);
    check_ok(c->context, hashattn_attention_forward(c->attention, &c->problem, &a[Q], &a[K], &a[V], &a[OUT],
                                                    saved, scratch));
    memset(scratch, 0xff, scratch_bytes);
    check_ok(c->context,
             hashattn_attention_backward_params(c->attention, &c->problem, &a[Q], &a[K], &a[V], &a[OUT],
                                                &a[DOUT], &a[DQ], &a[DK], &a[DV], dparams, saved, scratch));
    free(scratch);
    free(saved);
}

static void fill_nan(float *numbers, size_t count)
{
    for (size_t i = 0; i < count; i++)
        numbers[i] = NAN;
}

/* sum(out * dout) over the rows of the problem with these parameters. *size: the root of the sum of its
   terms' squares, which times 2^-24 is the size of its rounding error. */
static double loss_of(struct call *c, const float *params, double *size)
{
    hashattn_array a[ARRAYS];
    arrays_of(c, 0, a);
    memset(c->out, 0, sizeof c->out);
    check_ok(c->context, hashattn_attention_set_params(c->attention, params, HEADS, D, D, MAX_LEN));
    check_ok(c->context,
             hashattn_attention_forward(c->attention, &c->problem, &a[Q], &a[K], &a[V], &a[OUT], NULL, NULL));
    double sum = 0, squares = 0;
    for (size_t i = 0; i < SIZE; i++) {
        double term = (double)c->out[i] * (double)c->dout[i];
        sum += term;
        squares += term * term;
    }
    *size = sqrt(squares);
    return sum;
}

/* The slope of the loss along `direction`, by five points, which leave an error of order step^4. */
static double slope_of(struct call *c, const float *direction, double step, double *size)
{
    static const struct {
        double at, factor;
    } points[] = {{-2, 1}, {-1, -8}, {1, 8}, {2, -1}};
    float *moved = malloc(HEADS * c->count * sizeof *moved);
    double slope = 0;
    for (size_t p = 0; p < 4; p++) {
        for (size_t i = 0; i < HEADS * c->count; i++)
            moved[i] = c->params[i] + (float)(points[p].at * step * (double)direction[i]);
        slope += points[p].factor * loss_of(c, moved, size) / (12 * step);
    }
    free(moved);
    return slope;
}

/* One tensor of one head, `size` numbers from number `at` on. Rows of a mechanism may bend inside a step
   (relu, a least denominator), which spoils a direction: three of eight must agree. */
static void check_slope(struct call *c, size_t at, size_t size, const char *what)
{
    enum { DIRECTIONS = 8, NEEDED = 3 };
    float *direction = calloc(HEADS * c->count, sizeof *direction);
    double length = 0, step = 5e-4, slope = 0, want = 0, bound = 0;
    for (size_t j = 0; j < size; j++)
        length += (double)c->dparams[at + j] * (double)c->dparams[at + j];
    length = sqrt(length);
    int agree = 0;
    for (uint64_t d = 0; d < DIRECTIONS && agree < NEEDED; d++) {
        double rounding;
        hashattn_fill_normal(5, DIRECTIONS * at + d, direction + at, size);
        want = 0;
        for (size_t j = 0; j < size; j++)
            want += (double)direction[at + j] * (double)c->dparams[at + j];
        slope = slope_of(c, direction, step, &rounding);
        rounding *= 0x1p-22 / step;
        assert_true(length > 10 * rounding); /* large enough to be told from none */
        bound = rounding + 1e-3 * length;
        agree += fabs(slope - want) <= bound;
    }
    if (agree < NEEDED)
        check_near(slope, want, bound, what);
    assert_int_equal(agree, NEEDED);
    free(direction);
}

static void check_slopes(struct call *c, const char *what)
{
    hashattn_tensor tensor = {.struct_size = sizeof tensor};
    size_t at = 0;
    for (size_t i = 0; hashattn_attention_tensor(c->attention, D, D, MAX_LEN, i, &tensor); i++) {
        for (size_t h = 0; h < HEADS; h++) {
            char name[200];
            snprintf(name, sizeof name, "%s: slope of %s of head %zu", what, tensor.name, h);
            check_slope(c, h * c->count + at, tensor.rows * tensor.cols, name);
        }
        at += tensor.rows * tensor.cols;
    }
}

static void gradients_are_slopes(void **state)
{
    (void)state;
    static struct call c;
    for (size_t s = 0; s < SETTINGS; s++)
        for (enum form form = PLAIN; form < FORMS && !settings[s].by_loss; form++) {
            char what[100];
            snprintf(what, sizeof what, "%s %s%s, %s", settings[s].mechanism, settings[s].options,
                     settings[s].causal ? " causal" : "", form_names[form]);
            open_call(&c, &settings[s], form, 2);
            assert_true(c.count > 0);
            check_ok(c.context, hashattn_attention_set_params(c.attention, c.params, HEADS, D, D, MAX_LEN));
            fill_nan(c.dparams, HEADS * c.count);
            run(&c, 0, c.dparams);
            check_slopes(&c, what);
            close_call(&c);
        }
}

/* dparams of the whole call are those of its sequences, added in their order from 0; with any number of
   threads; and the other gradients are those of backward. */
static void sequences_are_added_in_order(void **state)
{
    (void)state;
    static struct call whole, other;
    for (size_t s = 0; s < SETTINGS; s++) {
        open_call(&whole, &settings[s], PADDED, 1);
        size_t total = HEADS * whole.count;
        check_ok(whole.context,
                 hashattn_attention_set_params(whole.attention, whole.params, HEADS, D, D, MAX_LEN));
        fill_nan(whole.dparams, total);
        run(&whole, 0, whole.dparams);
        for (size_t i = 0; i < total && settings[s].by_loss; i++)
            assert_true(whole.dparams[i] == 0);
        float *sum = calloc(total, sizeof *sum);
        for (size_t sequence = 0; sequence < SEQUENCES; sequence++) {
            open_call(&other, &settings[s], PLAIN, 1);
            other.problem.num_sequences = 1;
            other.problem.num_queries = other.problem.num_keys = offsets[sequence + 1] - offsets[sequence];
            other.problem.query_offsets = other.problem.key_offsets =
                (const size_t[]){0, other.problem.num_queries};
            other.problem.padded = 1;
            other.problem.key_mask = whole.mask + offsets[sequence];
            check_ok(other.context,
                     hashattn_attention_set_params(other.attention, whole.params, HEADS, D, D, MAX_LEN));
            fill_nan(other.dparams, total);
            run(&other, sequence * HEADS * N * D, other.dparams);
            for (size_t i = 0; i < total; i++)
                sum[i] += other.dparams[i];
            close_call(&other);
        }
        check_same_bits(whole.dparams, sum, total * sizeof *sum, settings[s].mechanism);
        for (int threads = 1; threads <= 4; threads++) {
            open_call(&other, &settings[s], PADDED, threads);
            check_ok(other.context,
                     hashattn_attention_set_params(other.attention, whole.params, HEADS, D, D, MAX_LEN));
            run(&other, 0, threads == 2 ? NULL : other.dparams);
            if (threads != 2)
                check_same_bits(other.dparams, sum, total * sizeof *sum, "threads");
            check_same_bits(other.dq, whole.dq, sizeof whole.dq, "dq");
            check_same_bits(other.dk, whole.dk, sizeof whole.dk, "dk");
            check_same_bits(other.dv, whole.dv, sizeof whole.dv, "dv");
            close_call(&other);
        }
        free(sum);
        close_call(&whole);
    }
}

/* A call on bfloat16 arrays gives the bits of one on the same numbers, with the output rounded. */
static void bfloat16_arrays(void **state)
{
    (void)state;
    static struct call c;
    static uint16_t half[ARRAYS][SIZE];
    for (size_t s = 0; s < SETTINGS; s++) {
        open_call(&c, &settings[s], MASKED, 2);
        check_ok(c.context, hashattn_attention_set_params(c.attention, c.params, HEADS, D, D, MAX_LEN));
        float *const wide[ARRAYS] = {c.q, c.k, c.v, c.out, c.dout, c.dq, c.dk, c.dv};
        hashattn_array a[ARRAYS], b[ARRAYS];
        arrays_of(&c, 0, a);
        for (size_t i = 0; i < ARRAYS; i++) {
            b[i] = array_of(&c, half[i]);
            hashattn_bf16_round(c.context, wide[i], half[i], SIZE);
            hashattn_bf16_widen(c.context, half[i], wide[i], SIZE);
        }
        float *dparams = malloc(HEADS * c.count * sizeof *dparams);
        size_t saved_bytes, scratch_bytes;
        c.problem.element = HASHATTN_BF16;
        check_ok(c.context, hashattn_attention_sizes(c.attention, &c.problem, &saved_bytes, &scratch_bytes));
        void *saved = new_block(saved_bytes);
        check_ok(c.context, hashattn_attention_forward(c.attention, &c.problem, &b[Q], &b[K], &b[V], &b[OUT],
                                                       saved, NULL));
        check_ok(c.context, hashattn_attention_backward_params(c.attention, &c.problem, &b[Q], &b[K], &b[V],
                                                               &b[OUT], &b[DOUT], &b[DQ], &b[DK], &b[DV],
                                                               c.dparams, saved, NULL));
        c.problem.element = HASHATTN_FLOAT32;
        check_ok(c.context, hashattn_attention_forward(c.attention, &c.problem, &a[Q], &a[K], &a[V], &a[OUT],
                                                       saved, NULL));
        hashattn_bf16_widen(c.context, half[OUT], c.out, SIZE);
        check_ok(c.context,
                 hashattn_attention_backward_params(c.attention, &c.problem, &a[Q], &a[K], &a[V], &a[OUT],
                                                    &a[DOUT], &a[DQ], &a[DK], &a[DV], dparams, saved, NULL));
        check_same_bits(c.dparams, dparams, HEADS * c.count * sizeof *dparams, settings[s].mechanism);
        free(saved);
        free(dparams);
        close_call(&c);
    }
}

/* ---- nothing to learn, no row, errors ---- */

static hashattn_status backward(struct call *c, void *saved)
{
    hashattn_array a[ARRAYS];
    arrays_of(c, 0, a);
    return hashattn_attention_backward_params(c->attention, &c->problem, &a[Q], &a[K], &a[V], &a[OUT],
                                              &a[DOUT], &a[DQ], &a[DK], &a[DV], c->dparams, saved, NULL);
}

static void nothing_to_learn(void **state)
{
    (void)state;
    static struct call c;
    static const struct setting without[] = {{.mechanism = "softmax", .options = ""},
                                             {.mechanism = "local", .options = "block_size=8"},
                                             {.mechanism = "yoso", .options = "num_hashes=8"}};
    for (size_t s = 0; s < sizeof without / sizeof *without; s++) {
        open_call(&c, &without[s], PLAIN, 1);
        assert_int_equal(c.count, 0);
        c.dparams[0] = 7;
        run(&c, 0, c.dparams);
        assert_true(c.dparams[0] == 7);
        close_call(&c);
    }
    static const struct setting forward_only = {.mechanism = "lss", .options = ""};
    open_call(&c, &forward_only, PLAIN, 1);
    check_call(c.context, backward(&c, NULL), HASHATTN_REFUSED, "lss has no backward pass");
    close_call(&c);
    assert_int_equal(hashattn_attention_backward_params(NULL, &c.problem, NULL, NULL, NULL, NULL, NULL, NULL,
                                                        NULL, NULL, NULL, NULL, NULL),
                     HASHATTN_INVALID);
}

static void no_row_gives_zeros(void **state)
{
    (void)state;
    static struct call c;
    static uint8_t none[SEQUENCES * N];
    open_call(&c, &settings[3], MASKED, 2);
    c.problem.key_mask = none;
    fill_nan(c.dparams, HEADS * c.count);
    run(&c, 0, c.dparams);
    for (size_t i = 0; i < HEADS * c.count; i++)
        assert_true(c.dparams[i] == 0);
    c.problem.key_mask = NULL;
    c.problem.num_queries = c.problem.num_keys = 0;
    fill_nan(c.dparams, HEADS * c.count);
    check_ok(c.context, backward(&c, NULL));
    for (size_t i = 0; i < HEADS * c.count; i++)
        assert_true(c.dparams[i] == 0);
    close_call(&c);
}

static void an_error_changes_nothing(void **state)
{
    (void)state;
    static struct call c;
    open_call(&c, &settings[0], PLAIN, 2);
    run(&c, 0, c.dparams);
    float kept = c.dparams[1];
    size_t saved_bytes, scratch_bytes;
    check_ok(c.context, hashattn_attention_sizes(c.attention, &c.problem, &saved_bytes, &scratch_bytes));
    void *saved = new_block(saved_bytes);
    hashattn_array a[ARRAYS];
    arrays_of(&c, 0, a);
    check_ok(c.context,
             hashattn_attention_forward(c.attention, &c.problem, &a[Q], &a[K], &a[V], &a[OUT], saved, NULL));
    check_call(c.context, backward(&c, NULL), HASHATTN_INVALID, "backward needs what forward saved");
    c.dout[5] = NAN;
    check_call(c.context, backward(&c, saved), HASHATTN_INVALID, "dout is nan");
    assert_true(c.dparams[1] == kept);
    free(saved);
    close_call(&c);
}

/* ---- learning ---- */

/* Half the mean square of out - target; dout = its gradient. */
static double error_of(struct call *c, const float *target)
{
    double sum = 0;
    for (size_t i = 0; i < SIZE; i++) {
        double difference = (double)c->out[i] - (double)target[i];
        c->dout[i] = (float)(difference / SIZE);
        sum += difference * difference / (2 * SIZE);
    }
    return sum;
}

/* A program that sees only the operator finds parameters that give the output of others, by gradient descent.
 */
static void they_learn(void **state)
{
    (void)state;
    static struct call c;
    static float target[SIZE];
    static const struct {
        size_t setting;
        float rate;
    } runs[] = {{0, 200}, {3, 5}};
    for (size_t r = 0; r < sizeof runs / sizeof *runs; r++) {
        open_call(&c, &settings[runs[r].setting], PLAIN, 2);
        size_t total = HEADS * c.count;
        double first = 0, error = 0, size;
        loss_of(&c, c.params, &size); /* writes out */
        memcpy(target, c.out, sizeof target);
        for (size_t i = 0; i < total; i++) { /* elsewhere */
            float noise;
            hashattn_fill_normal(6, i, &noise, 1);
            c.params[i] += 0.3f * noise;
        }
        hashattn_array a[ARRAYS];
        arrays_of(&c, 0, a);
        size_t saved_bytes, scratch_bytes;
        check_ok(c.context, hashattn_attention_sizes(c.attention, &c.problem, &saved_bytes, &scratch_bytes));
        void *saved = new_block(saved_bytes);
        for (int step = 0; step < 200; step++) {
            check_ok(c.context, hashattn_attention_set_params(c.attention, c.params, HEADS, D, D, MAX_LEN));
            check_ok(c.context, hashattn_attention_forward(c.attention, &c.problem, &a[Q], &a[K], &a[V],
                                                           &a[OUT], saved, NULL));
            error = error_of(&c, target);
            first = step == 0 ? error : first;
            check_ok(c.context, backward(&c, saved));
            for (size_t i = 0; i < total; i++)
                c.params[i] -= runs[r].rate * c.dparams[i];
        }
        assert_true(error < first / 10);
        free(saved);
        close_call(&c);
    }
}

/* ---- the file ---- */

static void the_file_has_every_tensor(void **state)
{
    const struct folder *folder = *state;
    static struct call c;
    char path[200];
    snprintf(path, sizeof path, "%s/p.safetensors", folder->path);
    for (size_t s = 0; s < SETTINGS; s++) {
        open_call(&c, &settings[s], PLAIN, 1);
        check_ok(c.context,
                 hashattn_attention_write_params(c.attention, path, c.params, HEADS, D, D, MAX_LEN));
        check_ok(c.context, hashattn_attention_read_params(c.attention, path, HEADS, D, D, MAX_LEN));
        check_ok(c.context, hashattn_attention_get_params(c.attention, &c.problem, c.dparams));
        check_same_bits(c.dparams, c.params, HEADS * c.count * sizeof *c.params, settings[s].mechanism);
        close_call(&c);
    }
    open_call(&c, &settings[0], PLAIN, 1);
    check_call(c.context, hashattn_attention_write_params(c.attention, NULL, c.params, HEADS, D, D, 0),
               HASHATTN_INVALID, "path is NULL");
    check_call(c.context, hashattn_attention_write_params(c.attention, path, NULL, HEADS, D, D, 0),
               HASHATTN_INVALID, "params is NULL");
    check_call(c.context, hashattn_attention_write_params(c.attention, path, c.params, 0, D, D, 0),
               HASHATTN_INVALID, "num_heads is 0");
    check_call(c.context, hashattn_attention_write_params(c.attention, "nowhere/p", c.params, HEADS, D, D, 0),
               HASHATTN_NO_DISK, "nowhere");
    hashattn_attention *softmax;
    check_ok(c.context, hashattn_attention_new(c.context, "softmax", &softmax));
    check_call(c.context, hashattn_attention_write_params(softmax, path, c.params, HEADS, D, D, 0),
               HASHATTN_INVALID, "softmax has no learned parameters");
    hashattn_attention_free(softmax);
    assert_int_equal(hashattn_attention_write_params(NULL, path, c.params, HEADS, D, D, 0), HASHATTN_INVALID);
    close_call(&c);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(gradients_are_slopes),
        cmocka_unit_test(sequences_are_added_in_order),
        cmocka_unit_test(bfloat16_arrays),
        cmocka_unit_test(nothing_to_learn),
        cmocka_unit_test(no_row_gives_zeros),
        cmocka_unit_test(an_error_changes_nothing),
        cmocka_unit_test(they_learn),
        cmocka_unit_test_setup_teardown(the_file_has_every_tensor, folder_enter, folder_leave),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
