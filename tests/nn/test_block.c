/* One Transformer block against its definition in double precision: output, gradient of the input and of
   every parameter, with convolution and dropout, in evaluation in place, and with a mechanism's own
   parameters.
   Bugs planted and caught: residual left out; the key of another site in backward; gradients of values not
   cleared; normalised rows of x taken for those of m; dense gradient from the rows before the convolution;
   dkey's part overwriting dquery's; convolution's gradient into keys; one head for all; keys taken for
   queries; own parameters and their gradients at the first head, not cleared, not weighted; post-LN with the
   residual of x instead of m, with dropout inside its ffn, with statistics of other rows, without the
   gradient that bypasses the ffn; the second tile's rows from the first; time of products charged to the
   norm.
   SPDX-License-Identifier: Apache-2.0 */
#include "nn/block.h"

#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/memory.h"
#include "base/random.h"
#include "oracle/oracle_encoder.h"
#include "support/check.h"
#include "support/layers.h"
#include "support/linear_mechanism.h"
#include "support/test_mix.h"

enum { DIM = 6, HEADS = 2, WIDE = 7, TAPS = 3, SEQUENCES = 3, ROWS = 9, NARROW = 2 * ROW_TILE * DIM };
static const size_t offsets[] = {0, 4, 5, ROWS};
static const uint64_t samples[] = {8, 3, 5};
enum { KEY = 31 };

struct block_test {
    struct layer_test base;
    struct block block;
    struct rows rows;
    struct block_pass pass;
    struct test_mix mix;
    struct block_space space;
    struct block_scratch scratch;
    struct block_gradients d;
    float *arrays[24], *g, *y;
    size_t used;
    void *saved, *mix_scratch;
    /* oracle */
    struct oracle_block oracle;
    double *x, *exact_y;
};

static float *array(struct block_test *t, size_t n)
{
    assert_true(t->used < 24);
    float *floats = new_zeros(n);
    memset(floats, 0xff, n * sizeof *floats);
    return t->arrays[t->used++] = floats;
}

static float *mask_of(struct block_test *t, uint64_t site, size_t width)
{
    float *mask = array(t, ROWS * width);
    for (size_t i = 0; i < ROWS * width; i++)
        mask[i] = 1;
    dropout_rows(&t->pass.dropout, random_key(KEY, RANDOM_DROPOUT, site), &t->rows, mask, mask, 0, ROWS,
                 width);
    return mask;
}

static void open_block(struct block_test *t, const struct mechanism *mechanism, const void *options,
                       size_t taps, double rate, bool training, enum block_norm norm)
{
    memset(t, 0, sizeof *t);
    struct layer_test *base = &t->base;
    layer_test_open(base, 2);
    layer_test_shift(base);
    const struct head_group group = {mechanism, options, HEADS};
    const struct block_shape shape = {.dim = DIM,
                                      .heads = HEADS,
                                      .wide = WIDE,
                                      .taps = taps,
                                      .norm = norm,
                                      .norm_epsilon = NORM_EPSILON,
                                      .groups = &group,
                                      .num_groups = 1,
                                      .activation = FFN_GELU};
    check_status(&base->host, block_describe(&base->host, &base->params, "b", &shape, &t->block), HASHATTN_OK,
                 NULL);
    layer_test_start(base, 2);
    t->rows = rows_of(base->kernels, base->pool, SEQUENCES, offsets, samples);
    t->pass = (struct block_pass){
        .rows = &t->rows, .values = base->values, .dropout = dropout_of(rate), .random_key = KEY};
    struct attention_space *a = &t->space.attention;
    t->space.x = array(t, NARROW);
    float *x = new_normals(1, ROWS * DIM, 1);
    memset(t->space.x, 0, NARROW * sizeof *x);
    memcpy(t->space.x, x, ROWS * DIM * sizeof *x);
    t->x = new_doubles(x, ROWS * DIM);
    free(x);
    a->query = array(t, NARROW), a->key = array(t, NARROW), a->value = array(t, NARROW);
    a->context = array(t, NARROW);
    a->mixed = training && taps > 0 ? array(t, NARROW) : a->context;
    t->space.middle = training ? array(t, NARROW) : t->space.x;
    t->space.sum = training && norm == BLOCK_POST_NORM ? array(t, NARROW) : NULL;
    t->space.before = training ? array(t, 2 * ROW_TILE * WIDE) : NULL;
    t->scratch =
        block_scratch_on(&t->block, training, array(t, block_scratch_size(&t->block, training)), NULL);
    t->d.attention.query = array(t, NARROW), t->d.attention.key = array(t, NARROW),
    t->d.attention.value = array(t, NARROW);
    t->d.attention.mixed = array(t, NARROW);
    void *block;
    test_mix_open(&t->mix, &base->host, &t->block.attention, &t->rows);
    a->plan = &t->mix.plan;
    check_status(&base->host, memory_new(&base->host, a->plan->saved_bytes, 1, "saved", &block), HASHATTN_OK,
                 NULL);
    a->saved = block;
    check_status(&base->host, memory_new(&base->host, a->plan->scratch_bytes, 1, "scratch", &block),
                 HASHATTN_OK, NULL);
    a->scratch = block;
    t->y = training ? new_zeros(NARROW) : t->space.x;
    t->g = new_zeros(NARROW);
    t->exact_y = calloc(ROWS * DIM, sizeof(double));
    random_normals(6, 0, t->g, ROWS * DIM);
    t->oracle = (struct oracle_block){
        .dim = DIM,
        .heads = HEADS,
        .wide = WIDE,
        .taps = taps,
        .post = norm == BLOCK_POST_NORM,
        .softmax = mechanism == attention_find("softmax"),
        .params = &base->params,
        .values = base->exact,
        .name = "b",
    };
}

static void close_block(struct block_test *t)
{
    memory_free(&t->base.host, t->space.attention.saved);
    memory_free(&t->base.host, t->space.attention.scratch);
    free(t->mix.block);
    if (t->y != t->space.x)
        free(t->y);
    for (size_t i = 0; i < t->used; i++)
        free(t->arrays[i]);
    free(t->g), free(t->x), free(t->exact_y);
    layer_test_close(&t->base);
}

static void run_forward(struct block_test *t)
{
    block_enter(&t->block, &t->pass, &t->space, &t->scratch, 0);
    block_mix(&t->block, &t->pass, &t->space);
    block_leave(&t->block, &t->pass, &t->space, &t->scratch, t->y, 0);
}

/* The gradient of <g, y>; t->g becomes that of x. */
static void run_backward(struct block_test *t)
{
    struct slice gradients = whole_gradient(&t->base);
    block_leave_backward(&t->block, &t->pass, &t->space, &t->scratch, gradients, t->g, &t->d, 0);
    block_mix_backward(&t->block, &t->pass, &t->space, gradients, &t->d);
    block_enter_backward(&t->block, &t->pass, &t->space, &t->scratch, gradients, t->g, &t->d, 0);
}

struct weighed_block {
    struct block_test *test;
    const float *g;
};

static double weighed(void *user)
{
    struct weighed_block *w = user;
    oracle_block(&w->test->oracle, w->test->exact_y, w->test->x, SEQUENCES, offsets);
    return inner(w->g, w->test->exact_y, ROWS * DIM);
}

/* A gradient passes about ten sums of up to WIDE or ROWS terms, of numbers no larger than its largest
   element. */
static double bound_of(const float *gradient, size_t n)
{
    return 10 * (WIDE + ROWS) * EPSILON * (1 + largest(gradient, n));
}

static void check_block(const char *mechanism, size_t taps, double rate, enum block_norm norm)
{
    struct block_test t;
    open_block(&t, attention_find(mechanism), NULL, taps, rate, true, norm);
    t.oracle.attention_mask = rate == 0 ? NULL : mask_of(&t, 0, DIM);
    t.oracle.wide_mask = rate == 0 ? NULL : mask_of(&t, 1, WIDE);
    float *ffn_mask = NULL;
    if (rate > 0) {
        ffn_mask = new_zeros(ROWS * DIM);
        for (size_t i = 0; i < ROWS * DIM; i++)
            ffn_mask[i] = 1;
        dropout_rows(&t.pass.dropout, random_key(KEY, RANDOM_DROPOUT, 2), &t.rows, ffn_mask, ffn_mask, 0,
                     ROWS, DIM);
    }
    t.oracle.ffn_mask = ffn_mask;
    float g[ROWS * DIM];
    memcpy(g, t.g, sizeof g);
    struct weighed_block user = {&t, g};
    run_forward(&t);
    weighed(&user);
    check_near_all(t.y, t.exact_y, ROWS * DIM, bound_of(t.y, ROWS * DIM), "y");
    run_backward(&t);
    check_derivatives(t.g, t.x, ROWS * DIM, weighed, &user, bound_of(t.g, ROWS * DIM), "dx");
    for (size_t i = 0; i < t.base.params.num_rows; i++) {
        const struct param *row = &t.base.params.rows[i];
        const float *gradient = t.base.gradients + row->offset;
        check_derivatives(gradient, t.base.exact + row->offset, row->count, weighed, &user,
                          bound_of(gradient, row->count), row->name);
    }
    free(ffn_mask);
    close_block(&t);
}

static void block_agrees_with_double(void **state)
{
    (void)state;
    for (int norm = BLOCK_PRE_NORM; norm <= BLOCK_POST_NORM; norm++) {
        check_block("softmax", 0, 0, (enum block_norm)norm);
        check_block("softmax", TAPS, 0.4, (enum block_norm)norm);
        check_block("none", TAPS, 0, (enum block_norm)norm);
    }
}

static void in_place_is_the_same(void **state)
{
    (void)state;
    for (int norm = BLOCK_PRE_NORM; norm <= BLOCK_POST_NORM; norm++) {
        struct block_test kept, place;
        open_block(&kept, attention_find("softmax"), NULL, TAPS, 0, true, (enum block_norm)norm);
        open_block(&place, attention_find("softmax"), NULL, TAPS, 0, false, (enum block_norm)norm);
        run_forward(&kept);
        run_forward(&place);
        check_same_bits(kept.y, place.y, ROWS * DIM * sizeof(float), "evaluation in place");
        close_block(&kept);
        close_block(&place);
    }
}

/* Rows in the second tile of a batch have the same bits as in the first. */
static void check_tiles(enum block_norm norm)
{
    struct block_test t;
    enum { HALF = NARROW / 2, BYTES = HALF * sizeof(float) };
    open_block(&t, attention_find("softmax"), NULL, 0, 0, true, norm);
    t.rows.padded = 2 * ROW_TILE;
    struct attention_space *a = &t.space.attention;
    struct slice gradients = whole_gradient(&t.base);
    memcpy(t.space.x + HALF, t.space.x, BYTES);
    memcpy(t.g + HALF, t.g, BYTES);
    block_enter(&t.block, &t.pass, &t.space, &t.scratch, 0);
    block_enter(&t.block, &t.pass, &t.space, &t.scratch, ROW_TILE);
    check_same_bits(a->query, a->query + HALF, BYTES, "queries");
    check_same_bits(a->key, a->key + HALF, BYTES, "keys");
    check_same_bits(a->value, a->value + HALF, BYTES, "values");
    memset(a->mixed, 0, NARROW * sizeof(float));
    block_mix(&t.block, &t.pass, &t.space);
    memcpy(a->mixed + HALF, a->mixed, BYTES);
    block_leave(&t.block, &t.pass, &t.space, &t.scratch, t.y, 0);
    block_leave(&t.block, &t.pass, &t.space, &t.scratch, t.y, ROW_TILE);
    check_same_bits(t.y, t.y + HALF, BYTES, "output");
    block_leave_backward(&t.block, &t.pass, &t.space, &t.scratch, gradients, t.g, &t.d, 0);
    block_leave_backward(&t.block, &t.pass, &t.space, &t.scratch, gradients, t.g, &t.d, ROW_TILE);
    check_same_bits(t.g, t.g + HALF, BYTES, "gradient beside attention");
    check_same_bits(t.d.attention.mixed, t.d.attention.mixed + HALF, BYTES, "gradient of what was mixed");
    block_mix_backward(&t.block, &t.pass, &t.space, gradients, &t.d);
    float *d[] = {t.d.attention.query, t.d.attention.key, t.d.attention.value};
    for (size_t i = 0; i < 3; i++) {
        memset(d[i] + ROWS * DIM, 0, (HALF - ROWS * DIM) * sizeof(float));
        memcpy(d[i] + HALF, d[i], BYTES);
    }
    block_enter_backward(&t.block, &t.pass, &t.space, &t.scratch, gradients, t.g, &t.d, 0);
    block_enter_backward(&t.block, &t.pass, &t.space, &t.scratch, gradients, t.g, &t.d, ROW_TILE);
    check_same_bits(t.g, t.g + HALF, BYTES, "gradient of the input");
    close_block(&t);
}

static void every_tile_is_the_first(void **state)
{
    (void)state;
    check_tiles(BLOCK_PRE_NORM);
    check_tiles(BLOCK_POST_NORM);
}

/* The time of a pass over one tile is charged to the parts that computed, in the order of the enum, and to no
   other. */
static void check_parts(struct watch *watch, const char *want)
{
    char got[PROFILE_PARTS * 24] = "";
    for (int p = 0; p < PROFILE_PARTS; p++)
        if (watch->seconds[p] > 0)
            strcat(strcat(got, got[0] == '\0' ? "" : ", "), profile_names[p]);
    assert_string_equal(got, want);
    memset(watch->seconds, 0, sizeof watch->seconds);
    watch->last = clock_seconds();
}

static void time_goes_to_the_parts_that_compute(void **state)
{
    (void)state;
    for (int norm = BLOCK_PRE_NORM; norm <= BLOCK_POST_NORM; norm++) {
        struct block_test t;
        bool post = norm == BLOCK_POST_NORM;
        open_block(&t, attention_find("softmax"), NULL, 0, 0.4, true, (enum block_norm)norm);
        struct slice gradients = whole_gradient(&t.base);
        struct watch watch = {.last = clock_seconds()};
        t.scratch.watch = &watch;
        double start = clock_seconds();
        block_enter(&t.block, &t.pass, &t.space, &t.scratch, 0);
        assert_true(watch.last > start);
        check_parts(&watch, post ? "products" : "layer norm, products");
        block_mix(&t.block, &t.pass, &t.space);
        watch.last = clock_seconds();
        block_leave(&t.block, &t.pass, &t.space, &t.scratch, t.y, 0);
        check_parts(&watch, "layer norm, products, gelu, dropout");
        block_leave_backward(&t.block, &t.pass, &t.space, &t.scratch, gradients, t.g, &t.d, 0);
        check_parts(&watch, "layer norm, products, gelu, dropout, sums");
        block_mix_backward(&t.block, &t.pass, &t.space, gradients, &t.d);
        watch.last = clock_seconds();
        block_enter_backward(&t.block, &t.pass, &t.space, &t.scratch, gradients, t.g, &t.d, 0);
        check_parts(&watch, "layer norm, products");
        close_block(&t);
    }
}

/* enter, mix and leave each use one range of the parameters, and write gradients only there. */
static void check_stretches(enum block_norm norm)
{
    struct block_test t;
    open_block(&t, attention_find("softmax"), NULL, TAPS, 0, true, norm);
    const struct block *b = &t.block;
    const float *gradient = t.base.gradients;
    assert_true(b->first > 0 && b->first < b->mix && b->mix < b->leave && b->leave < b->end);
    assert_int_equal(b->end, t.base.params.total);
    run_forward(&t);
    block_leave_backward(b, &t.pass, &t.space, &t.scratch, whole_gradient(&t.base), t.g, &t.d, 0);
    for (size_t i = b->first; i < b->leave; i++)
        assert_true(gradient[i] == 0);
    memset(t.base.gradients, 0, t.base.params.total * sizeof *gradient);
    block_mix_backward(b, &t.pass, &t.space, whole_gradient(&t.base), &t.d);
    for (size_t i = 0; i < b->end; i++)
        assert_true(gradient[i] == 0 || (i >= b->mix && i < b->leave));
    memset(t.base.gradients, 0, t.base.params.total * sizeof *gradient);
    block_enter_backward(b, &t.pass, &t.space, &t.scratch, whole_gradient(&t.base), t.g, &t.d, 0);
    for (size_t i = b->mix; i < b->end; i++)
        assert_true(gradient[i] == 0);
    close_block(&t);
}

static void parts_stay_in_their_stretch(void **state)
{
    (void)state;
    check_stretches(BLOCK_PRE_NORM);
    check_stretches(BLOCK_POST_NORM);
}

/* The output of the linear test mechanism is its gain, by columns of a head, times its output with gain 1. So
   the model's (heads, 1, width) tensor must arrive at its own head and column, and its gradient must return
   there: d <g, mixed> / d gain[h][c] * gain[h][c] = sum over rows of g mixed in that column. */
static void own_parameters_reach_their_heads(void **state)
{
    (void)state;
    struct linear_options options;
    struct block_test t, one;
    options_preset(linear_mechanism.options, &options);
    open_block(&t, &linear_mechanism, &options, 0, 0, true, BLOCK_PRE_NORM);
    open_block(&one, &linear_mechanism, &options, 0, 0, true, BLOCK_PRE_NORM);
    const struct param *gain = param_named(&t.base.params, "b.attention.own.gain");
    assert_int_equal(gain->count, DIM);
    for (size_t c = 0; c < DIM; c++) {
        t.base.values[gain->offset + c] = (float)(1 + c);
        one.base.values[gain->offset + c] = 1;
    }
    run_forward(&t);
    run_forward(&one);
    const float *mixed = t.space.attention.mixed, *plain = one.space.attention.mixed;
    float *g = new_normals(9, NARROW, 1);
    for (size_t i = 0; i < ROWS * DIM; i++)
        check_near((double)mixed[i], (double)(plain[i] * (float)(1 + i % DIM)),
                   2 * EPSILON * largest(mixed, ROWS * DIM), "gain of the column");
    memset(t.d.attention.query, 0, NARROW * sizeof *g);
    memset(t.d.attention.key, 0, NARROW * sizeof *g);
    memset(t.d.attention.value, 0, NARROW * sizeof *g);
    memcpy(t.d.attention.mixed, g, NARROW * sizeof *g);
    block_mix_backward(&t.block, &t.pass, &t.space, whole_gradient(&t.base), &t.d);
    for (size_t c = 0; c < DIM; c++) {
        double sum = 0;
        for (size_t i = 0; i < ROWS; i++)
            sum += (double)g[i * DIM + c] * (double)plain[i * DIM + c];
        check_near((double)t.base.gradients[gain->offset + c], sum,
                   2 * ROWS * EPSILON * 4 * largest(plain, ROWS * DIM), "gradient of the gain");
    }

    /* The own loss: half of it from the gradient of a quadratic form, by Euler: <p, dp> = 2 loss. */
    struct slice gradients = whole_gradient(&t.base);
    const struct param *project = param_named(&t.base.params, "b.attention.own.project");
    memset(t.base.gradients, 0, t.base.params.total * sizeof *g);
    double loss = block_auxiliary(&t.block, &t.pass, &t.space, &linear_mechanism, (struct slice){NULL, 0}, 0);
    double euler = 0;
    check_near(block_auxiliary(&t.block, &t.pass, &t.space, &linear_mechanism, gradients, 0.25), loss, 0,
               "own loss again");
    for (size_t i = 0; i < project->count; i++)
        euler += (double)t.base.values[project->offset + i] * (double)t.base.gradients[project->offset + i];
    assert_true(loss > 0);
    check_near(euler, 0.25 * 2 * loss, 100 * EPSILON * loss, "weighted gradient of the own loss");
    free(g);
    close_block(&t);
    close_block(&one);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(block_agrees_with_double),    cmocka_unit_test(in_place_is_the_same),
        cmocka_unit_test(every_tile_is_the_first),     cmocka_unit_test(time_goes_to_the_parts_that_compute),
        cmocka_unit_test(parts_stay_in_their_stretch), cmocka_unit_test(own_parameters_reach_their_heads),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
