/* Mechanisms inside a layer: their learned tensors in the model's block, with heads of two groups sharing a
   tensor sized by the longest length, against the formula in double. test_block.c tests what a block computes
   around them. Bugs planted and caught: every tensor started from normals; the constant not used; another
   max_len for the shape, or for the call; weight decay of every tensor with heads; the second group's heads
   at the first one's offset, or a width of a head further on; their gradients a float further on; two tensors
   gathered to one offset; positions added to the first columns of a row instead of those of their heads.
   SPDX-License-Identifier: Apache-2.0 */
#include "nn/attention_layer.h"

#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "support/check.h"
#include "support/layers.h"
#include "support/placed_mechanism.h"
#include "support/test_mix.h"

enum { HEADS = 3, WIDTH = 2, DIM = HEADS * WIDTH, LONGEST = 7, ROWS = 12, SEQUENCES = 3 };
static const size_t offsets[] = {0, 4, 5, ROWS};
enum { FLOATS = ROW_TILE * DIM };

struct mix_test {
    struct layer_test base;
    struct attention_layer attention;
    struct rows rows;
    struct test_mix mix;
    struct attention_space space;
    struct attention_gradients d;
    float arrays[8][FLOATS];
};

static hashattn_status describe(struct layer_test *base, const struct head_group *groups, size_t num_groups,
                                size_t max_len, struct attention_layer *attention)
{
    TRY(attention_layer_describe_enter(&base->host, &base->params, "a", DIM, HEADS, false, attention));
    TRY(attention_layer_describe_mix(&base->host, &base->params, "a", 0, groups, num_groups, max_len,
                                     attention));
    return attention_layer_describe_leave(&base->host, &base->params, "a", attention);
}

static void *new_block(struct mix_test *t, size_t bytes)
{
    void *block;
    check_status(&t->base.host, memory_new(&t->base.host, bytes, 1, "a block", &block), HASHATTN_OK, NULL);
    if (bytes > 0)
        memset(block, 0xff, bytes);
    return block;
}

static void open_mix(struct mix_test *t, const struct head_group *groups, size_t num_groups)
{
    memset(t, 0, sizeof *t);
    layer_test_open(&t->base, 2);
    layer_test_shift(&t->base);
    check_status(&t->base.host, describe(&t->base, groups, num_groups, LONGEST, &t->attention), HASHATTN_OK,
                 NULL);
    layer_test_start(&t->base, 4);
    t->rows = rows_of(t->base.kernels, t->base.pool, SEQUENCES, offsets, NULL);
    float *const inputs[] = {t->arrays[0], t->arrays[1], t->arrays[2], t->arrays[7]};
    for (size_t i = 0; i < 4; i++) {
        float *normals = new_normals(20 + i, ROWS * DIM, 1);
        memcpy(inputs[i], normals, ROWS * DIM * sizeof *normals);
        free(normals);
    }
    t->space = (struct attention_space){.query = t->arrays[0],
                                        .key = t->arrays[1],
                                        .value = t->arrays[2],
                                        .context = t->arrays[3],
                                        .mixed = t->arrays[3]};
    t->d = (struct attention_gradients){t->arrays[4], t->arrays[5], t->arrays[6], t->arrays[7]};
    test_mix_open(&t->mix, &t->base.host, &t->attention, &t->rows);
    t->space.plan = &t->mix.plan;
    t->space.saved = new_block(t, t->mix.plan.saved_bytes);
    t->space.scratch = new_block(t, t->mix.plan.scratch_bytes);
}

static void close_mix(struct mix_test *t)
{
    memory_free(&t->base.host, t->space.saved);
    memory_free(&t->base.host, t->space.scratch);
    free(t->mix.block);
    layer_test_close(&t->base);
}

/* ---- starts -------------------------------------------------------------------------------------------- */

static void check_row(const struct mix_test *t, const char *name, size_t rows, size_t cols, bool decayed)
{
    const struct param *row = param_named(&t->base.params, name);
    assert_int_equal(row->rank, 3);
    assert_int_equal(row->shape[0], HEADS);
    assert_int_equal(row->shape[1], rows);
    assert_int_equal(row->shape[2], cols);
    assert_int_equal(row->decayed, decayed); /* as its row says; all have three dimensions */
}

static void tensors_follow_the_longest_length_and_start_as_they_say(void **state)
{
    (void)state;
    const struct placed_options options = {0};
    const struct head_group group = {&placed_mechanism, &options, HEADS};
    struct mix_test t;
    open_mix(&t, &group, 1);
    check_row(&t, "a.own.place", LONGEST, 1, true);
    check_row(&t, "a.own.level", 1, 1, false);
    check_row(&t, "a.own.offset", 1, WIDTH, false);
    check_row(&t, "a.own.gain", 1, WIDTH, false);
    const float *place = t.base.values + param_named(&t.base.params, "a.own.place")->offset;
    const float *level = t.base.values + param_named(&t.base.params, "a.own.level")->offset;
    const float *offset = t.base.values + param_named(&t.base.params, "a.own.offset")->offset;
    const float *gain = t.base.values + param_named(&t.base.params, "a.own.gain")->offset;
    for (size_t i = 0; i < HEADS * LONGEST; i++)
        assert_true(place[i] >= -0.5f && place[i] < 0.5f && (i == 0 || place[i] != place[i - 1]));
    for (size_t i = 0; i < HEADS; i++)
        assert_true(level[i] == 0.25f);
    for (size_t i = 0; i < HEADS * WIDTH; i++)
        assert_true(offset[i] == 0 && gain[i] == 1);
    close_mix(&t);
}

/* ---- the formula --------------------------------------------------------------------------------------- */

/* Inputs of the formula in double: the parameters, and the values (ROWS, DIM). */
struct oracle {
    const struct mix_test *t;
    const double *params, *value, *g;
    double *out; /* (ROWS, DIM), or NULL */
};

/* The heads with the test mechanism, in the order of its tensors. */
static const size_t placed_heads[] = {0, 2};

static double placed_loss(void *user)
{
    const struct oracle *o = user;
    const struct params *params = &o->t->base.params;
    const double *place = o->params + param_named(params, "a.own.placed.place")->offset;
    const double *level = o->params + param_named(params, "a.own.placed.level")->offset;
    const double *offset = o->params + param_named(params, "a.own.placed.offset")->offset;
    const double *gain = o->params + param_named(params, "a.own.placed.gain")->offset;
    double sum = 0;
    for (size_t h = 0; h < 2; h++)
        for (size_t s = 0; s < SEQUENCES; s++)
            for (size_t c = 0; c < WIDTH; c++) {
                size_t column = placed_heads[h] * WIDTH + c, own = h * WIDTH + c;
                double x = 0;
                for (size_t row = offsets[s]; row < offsets[s + 1]; row++)
                    x += (place[h * LONGEST + row - offsets[s]] + level[h]) *
                         (o->value[row * DIM + column] + offset[own]);
                for (size_t row = offsets[s]; row < offsets[s + 1]; row++) {
                    sum += o->g[row * DIM + column] * gain[own] * x;
                    if (o->out != NULL)
                        o->out[row * DIM + column] = gain[own] * x;
                }
            }
    return sum;
}

static void two_groups_share_the_tensors_of_their_mechanism(void **state)
{
    (void)state;
    const struct placed_options options = {0};
    const struct head_group groups[] = {{&placed_mechanism, &options, 1},
                                        {attention_find("softmax"), NULL, 1},
                                        {&placed_mechanism, &options, 1}};
    struct mix_test t;
    open_mix(&t, groups, 3);
    struct params *params = &t.base.params;
    assert_int_equal(param_named(params, "a.own.placed.place")->shape[0], 2);
    size_t first = param_named(params, "a.own.placed.place")->offset;
    const struct param *last = param_named(params, "a.own.placed.gain");
    size_t count = last->offset + last->count - first;
    for (size_t i = first; i < first + count; i++)
        t.base.exact[i] = (double)(t.base.values[i] += 0.0625f * (float)((i - first) % 5));
    const float *g = t.d.mixed;
    struct oracle o = {&t, t.base.exact, new_doubles(t.space.value, ROWS * DIM), new_doubles(g, ROWS * DIM),
                       calloc(ROWS * DIM, sizeof(double))};
    placed_loss(&o);
    attention_layer_mix(&t.attention, &t.rows, t.base.values, &t.space, 5);
    for (size_t row = 0; row < ROWS; row++)
        for (size_t h = 0; h < 2; h++)
            for (size_t c = placed_heads[h] * WIDTH; c < placed_heads[h] * WIDTH + WIDTH; c++)
                check_near((double)t.space.mixed[row * DIM + c], o.out[row * DIM + c], 1e-5, "out");

    double *out = o.out;
    o.out = NULL;
    attention_layer_mix_backward(&t.attention, &t.rows, t.base.values, whole_gradient(&t.base), &t.space,
                                 &t.d, 5);
    check_derivatives(t.base.gradients + first, t.base.exact + first, count, placed_loss, &o, 1e-4,
                      "own tensors");
    free((void *)o.value), free((void *)o.g), free(out);
    close_mix(&t);
}

/* ---- positions in the layer ---------------------------------------------------------------------------- */

/* The heads of a mechanism that knows distances get none; the others their columns, forward and backward. */
static void positions_are_for_the_heads_that_know_none(void **state)
{
    (void)state;
    const struct mechanism *local = attention_find("local");
    void *relative = calloc(1, local->options_size);
    options_preset(local->options, relative);
    options_take(local->options, relative, "relative=true");
    const struct head_group groups[] = {
        {attention_find("softmax"), NULL, 1}, {local, relative, 1}, {attention_find("softmax"), NULL, 1}};
    enum { N = 5, PLACED = 2 * WIDTH };
    static const size_t columns[] = {0, 1, 4, 5};
    struct layer_test base;
    struct attention_layer attention;
    layer_test_open(&base, 1);
    check_status(&base.host,
                 attention_layer_describe_enter(&base.host, &base.params, "a", DIM, HEADS, false, &attention),
                 HASHATTN_OK, NULL);
    check_status(&base.host,
                 attention_layer_describe_places(&base.host, &base.params, "a", groups, 3, &attention),
                 HASHATTN_OK, NULL);
    layer_test_start(&base, 3);
    assert_int_equal(attention.placed.columns, PLACED);
    size_t weights[] = {param_named(&base.params, "a.query_position.weight")->offset,
                        param_named(&base.params, "a.key_position.weight")->offset};
    float *places = new_normals(1, N * DIM, 1), *rows[] = {new_zeros(N * DIM), new_zeros(N * DIM)},
          *work = new_zeros(N * DIM), *d[] = {new_normals(2, N * DIM, 1), new_normals(3, N * DIM, 1)};
    attention_layer_place(&attention, base.kernels, layer_test_pack(&base, true), rows[0], rows[1], places, N,
                          work, NULL);
    attention_layer_place_backward(&attention, base.kernels, layer_test_pack(&base, true),
                                   whole_gradient(&base), d[0], d[1], places, N, work);
    for (int side = 0; side < 2; side++) {
        const float *weight = base.values + weights[side], *gradient = base.gradients + weights[side];
        for (size_t i = 0; i < N; i++)
            for (size_t c = 0, p = 0; c < DIM; c++) {
                double want = 0;
                bool placed = p < PLACED && columns[p] == c;
                for (size_t k = 0; placed && k < DIM; k++)
                    want += (double)weight[p * DIM + k] * (double)places[i * DIM + k];
                p += placed;
                check_near((double)rows[side][i * DIM + c], want, 1e-5, "placed");
            }
        for (size_t p = 0; p < PLACED; p++)
            for (size_t k = 0; k < DIM; k++) {
                double want = 0;
                for (size_t i = 0; i < N; i++)
                    want += (double)d[side][i * DIM + columns[p]] * (double)places[i * DIM + k];
                check_near((double)gradient[p * DIM + k], want, 1e-5, "gradient");
            }
        free(rows[side]), free(d[side]);
    }
    free(places), free(work), free(relative);
    layer_test_close(&base);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(tensors_follow_the_longest_length_and_start_as_they_say),
        cmocka_unit_test(positions_are_for_the_heads_that_know_none),
        cmocka_unit_test(two_groups_share_the_tensors_of_their_mechanism),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
