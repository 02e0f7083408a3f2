/* Copies into guarded blocks, the calls, and copies back.
   SPDX-License-Identifier: Apache-2.0 */
#include "support/attention_case.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/random.h"
#include "parts/tiles/double_attention.h"
#include "support/check.h"

struct attention_case attention_case_of_head(const char *mechanism, const void *options, size_t options_size,
                                             size_t n_q, size_t n_k, size_t head_dim, size_t value_dim)
{
    struct attention_case problem = {.mechanism = attention_find(mechanism),
                                     .options = options,
                                     .num_sequences = 1,
                                     .num_heads = 1,
                                     .head_dim = head_dim,
                                     .value_dim = value_dim,
                                     .queries = {n_q},
                                     .keys = {n_k}};
    assert_int_equal(problem.mechanism->options_size, options_size);
    return problem;
}

size_t attention_case_params(const struct attention_case *problem)
{
    const struct parameter_sizes sizes = {problem->head_dim, problem->value_dim, problem->max_len};
    return attention_param_count(problem->mechanism, problem->options, &sizes);
}

size_t attention_case_rows(const size_t *lengths, size_t count)
{
    size_t rows = 0;
    for (size_t s = 0; s < count; s++)
        rows += lengths[s];
    return rows;
}

static float *normals(uint64_t seed, uint64_t array, size_t count)
{
    float *x = calloc(count + 1, sizeof *x);
    assert_non_null(x);
    random_normals(random_key(seed, RANDOM_DATA, array), 0, x, count);
    return x;
}

void attention_case_fill(struct attention_case *problem, uint64_t seed, bool mask)
{
    size_t heads = problem->num_heads;
    size_t queries = attention_case_rows(problem->queries, problem->num_sequences) * heads;
    size_t keys = attention_case_rows(problem->keys, problem->num_sequences) * heads;
    problem->query = normals(seed, 0, queries * problem->head_dim);
    problem->key = normals(seed, 1, keys * problem->head_dim);
    problem->value = normals(seed, 2, keys * problem->value_dim);
    problem->dout = normals(seed, 3, queries * problem->value_dim);
    problem->params = normals(seed, 4, heads * attention_case_params(problem));
    problem->key_mask = NULL;
    if (mask) {
        problem->key_mask = malloc(keys / heads + 1);
        assert_non_null(problem->key_mask);
        memset(problem->key_mask, 1, keys / heads + 1);
    }
}

void attention_case_free(struct attention_case *problem)
{
    free(problem->query);
    free(problem->key);
    free(problem->value);
    free(problem->dout);
    free(problem->params);
    free(problem->key_mask);
}

void attention_case_take_rows(float *to, size_t first_to, const float *from, size_t first_from, size_t count,
                              size_t row)
{
    if (count > 0)
        memcpy(to + first_to * row, from + first_from * row, count * row * sizeof *to);
}

void attention_case_take_sequence(struct attention_case *other, size_t t,
                                  const struct attention_case *problem, size_t s)
{
    size_t query_to = attention_case_rows(other->queries, t),
           query_from = attention_case_rows(problem->queries, s);
    size_t key_to = attention_case_rows(other->keys, t), key_from = attention_case_rows(problem->keys, s);
    size_t d = problem->num_heads * problem->head_dim, d_v = problem->num_heads * problem->value_dim;
    attention_case_take_rows(other->query, query_to, problem->query, query_from, problem->queries[s], d);
    attention_case_take_rows(other->dout, query_to, problem->dout, query_from, problem->queries[s], d_v);
    attention_case_take_rows(other->key, key_to, problem->key, key_from, problem->keys[s], d);
    attention_case_take_rows(other->value, key_to, problem->value, key_from, problem->keys[s], d_v);
    attention_case_take_rows(other->params, 0, problem->params, 0, problem->num_heads,
                             attention_case_params(problem));
}

/* ---- layouts ------------------------------------------------------------------------------------------- */

struct rows {
    struct packed packed;
    float *block;
    size_t floats;
};

static struct rows rows_new(const struct attention_case *problem, const size_t *lengths, size_t width)
{
    size_t heads = problem->num_heads, count = attention_case_rows(lengths, problem->num_sequences),
           longest = 0;
    for (size_t s = 0; s < problem->num_sequences; s++)
        longest = lengths[s] > longest ? lengths[s] : longest;
    struct rows rows = {.packed = {.width = width}};
    struct packed *packed = &rows.packed;
    switch (problem->layout) {
    case LAYOUT_PACKED:
        packed->row_stride = heads * width;
        packed->head_stride = width;
        rows.floats = count * heads * width;
        break;
    case LAYOUT_INSIDE:
        packed->row_stride = heads * (width + 3) + 5;
        packed->head_stride = width + 3;
        rows.floats = count == 0 ? 0 : (count - 1) * packed->row_stride + (heads - 1) * (width + 3) + width;
        break;
    case LAYOUT_OUTSIDE:
        packed->row_stride = width;
        packed->head_stride = count * width;
        rows.floats = count * heads * width;
        break;
    case LAYOUT_APART:
        packed->row_stride = width;
        packed->head_stride = longest * width;
        packed->sequence_stride = heads * longest * width;
        packed->padded = true;
        rows.floats = problem->num_sequences * packed->sequence_stride;
        break;
    }
    rows.block = guard_floats(rows.floats);
    memset(rows.block, 0xff, rows.floats * sizeof(float));
    packed->data = rows.block;
    return rows;
}

/* Copies between a plain array (rows, heads, width) and the layout; or fills the layout with one number. */
enum way { INTO, OUT_OF, FILL };

static void move(const struct attention_case *problem, const size_t *lengths, const struct rows *rows,
                 enum way way, float *plain, float number)
{
    const struct packed *packed = &rows->packed;
    size_t heads = problem->num_heads, row = 0;
    for (size_t s = 0; s < problem->num_sequences; s++)
        for (size_t i = 0; i < lengths[s]; i++, row++)
            for (size_t h = 0; h < heads; h++) {
                size_t first = packed->sequence_stride != 0
                                   ? s * packed->sequence_stride + i * packed->row_stride
                                   : row * packed->row_stride;
                float *there = rows->block + first + h * packed->head_stride;
                float *here = plain == NULL ? NULL : plain + (row * heads + h) * packed->width;
                for (size_t c = 0; c < packed->width; c++) {
                    if (way == INTO)
                        there[c] = here[c];
                    else if (way == OUT_OF)
                        here[c] = there[c];
                    else
                        there[c] = number;
                }
            }
}

static struct rows rows_from(const struct attention_case *problem, const size_t *lengths, size_t width,
                             float *plain)
{
    struct rows rows = rows_new(problem, lengths, width);
    move(problem, lengths, &rows, INTO, plain, 0);
    return rows;
}

static struct rows rows_of(const struct attention_case *problem, const size_t *lengths, size_t width,
                           float number)
{
    struct rows rows = rows_new(problem, lengths, width);
    move(problem, lengths, &rows, FILL, NULL, number);
    return rows;
}

/* Returns the plain array of a layout and frees the layout. Gaps between the rows must be as rows_new left
   them. */
static float *rows_end(const struct attention_case *problem, const size_t *lengths, struct rows *rows)
{
    float *plain = calloc(
        attention_case_rows(lengths, problem->num_sequences) * problem->num_heads * rows->packed.width + 1,
        sizeof *plain);
    assert_non_null(plain);
    move(problem, lengths, rows, OUT_OF, plain, 0);
    float untouched;
    memset(&untouched, 0xff, sizeof untouched);
    move(problem, lengths, rows, FILL, NULL, untouched);
    for (size_t i = 0; i < rows->floats; i++)
        check_same_bits(rows->block + i, &untouched, sizeof untouched, "a gap between rows");
    guard_free(rows->block, rows->floats);
    return plain;
}

/* ---- running ------------------------------------------------------------------------------------------- */

static struct packed plain_rows(const struct attention_case *problem, float *data, size_t width)
{
    return (struct packed){
        .data = data, .width = width, .row_stride = problem->num_heads * width, .head_stride = width};
}

struct case_call attention_case_call(const struct attention_case *problem, struct pool *pool, size_t *offsets)
{
    size_t *query_offsets = offsets, *key_offsets = offsets + CASE_SEQUENCES + 1;
    query_offsets[0] = key_offsets[0] = 0;
    for (size_t s = 0; s < problem->num_sequences; s++) {
        query_offsets[s + 1] = query_offsets[s] + problem->queries[s];
        key_offsets[s + 1] = key_offsets[s] + problem->keys[s];
    }
    return (struct case_call){
        .shape = {.kernels = problem->kernels != NULL ? problem->kernels : kernels_all()[0],
                  .pool = pool,
                  .mechanism = problem->mechanism,
                  .options = problem->options,
                  .num_sequences = problem->num_sequences,
                  .num_heads = problem->num_heads,
                  .head_dim = problem->head_dim,
                  .value_dim = problem->value_dim,
                  .max_len = problem->max_len,
                  .query_offsets = query_offsets,
                  .key_offsets = key_offsets,
                  .precision = problem->precision,
                  .masked = problem->key_mask != NULL,
                  .causal = problem->causal},
        .call = {.query = plain_rows(problem, problem->query, problem->head_dim),
                 .key = plain_rows(problem, problem->key, problem->head_dim),
                 .value = plain_rows(problem, problem->value, problem->value_dim),
                 .key_mask = problem->key_mask,
                 .call_key = problem->call_key,
                 .sample_ids = problem->sample_ids,
                 .params = problem->params,
                 .drop_threshold = (unsigned)lround(problem->drop * 65536),
                 .drop_scale = (float)(1 / (1 - problem->drop))},
    };
}

hashattn_status case_plan(struct host *host, struct case_call *made)
{
    assert_true(attention_plan_bytes(made->shape.num_sequences) <= sizeof made->arrays);
    TRY(attention_plan_make(host, &made->shape, made->call.key_mask, made->arrays, &made->plan));
    made->call.plan = &made->plan;
    return attention_check(host, &made->call);
}

static float *filled(size_t count, float number)
{
    float *x = calloc(count + 1, sizeof *x);
    assert_non_null(x);
    for (size_t i = 0; i < count; i++)
        x[i] = number;
    return x;
}

/* True if the squares add up to DOUBLE_SQUARES or more, as the API reports it in call->large. */
static bool is_large(const struct attention_case *problem, const float *rows, const size_t *lengths,
                     size_t width)
{
    double squares = 0;
    for (size_t i = 0; i < attention_case_rows(lengths, problem->num_sequences) * problem->num_heads * width;
         i++)
        squares += (double)rows[i] * (double)rows[i];
    return squares >= DOUBLE_SQUARES;
}

struct attention_result attention_case_run(const struct attention_case *problem)
{
    struct host host;
    struct pool *pool;
    host_init(&host);
    check_status(&host, pool_new(&host, problem->threads > 0 ? problem->threads : 1, &pool), HASHATTN_OK,
                 NULL);
    size_t offsets[2 * (CASE_SEQUENCES + 1)], d = problem->head_dim, d_v = problem->value_dim;
    const size_t *queries = problem->queries, *keys = problem->keys;
    struct case_call made = attention_case_call(problem, pool, offsets);
    struct attention_call *call = &made.call;
    struct rows query = rows_from(problem, queries, d, problem->query);
    struct rows key = rows_from(problem, keys, d, problem->key);
    struct rows value = rows_from(problem, keys, d_v, problem->value);
    struct rows dout = rows_from(problem, queries, d_v, problem->dout);
    struct rows out = rows_new(problem, queries, d_v);
    struct rows dquery = rows_of(problem, queries, d, problem->start);
    struct rows dkey = rows_of(problem, keys, d, problem->start);
    struct rows dvalue = rows_of(problem, keys, d_v, problem->start);
    call->large = is_large(problem, problem->query, queries, d) || is_large(problem, problem->key, keys, d) ||
                  is_large(problem, problem->value, keys, d_v);
    call->query = query.packed;
    call->key = key.packed;
    call->value = value.packed;
    check_status(&host, case_plan(&host, &made), HASHATTN_OK, NULL);

    struct attention_result result = {
        .query_rows = offsets[problem->num_sequences],
        .key_rows = offsets[CASE_SEQUENCES + 1 + problem->num_sequences],
        .param_count = attention_case_params(problem),
        .saved_bytes = made.plan.saved_bytes,
        .scratch_bytes = made.plan.scratch_bytes,
    };
    size_t params = problem->num_heads * result.param_count;
    size_t saved_floats = result.saved_bytes / sizeof(float);
    size_t scratch_floats = result.scratch_bytes / sizeof(float);
    float *saved = guard_floats(saved_floats), *scratch = guard_floats(scratch_floats);
    result.dparams = filled(params, problem->start);
    result.auxiliary_dparams = filled(params, 0);
    call->saved = saved;
    call->scratch = scratch;
    memset(saved, 0xff, result.saved_bytes);
    memset(scratch, 0xff, result.scratch_bytes);
    attention_forward(call, out.packed);
    memset(scratch, 0xff, result.scratch_bytes);
    result.auxiliary = attention_auxiliary(call, result.auxiliary_dparams);
    memset(scratch, 0xff, result.scratch_bytes);
    double alone = attention_auxiliary(call, NULL);
    check_same_bits(&alone, &result.auxiliary, sizeof alone, "the loss alone");
    memset(scratch, 0xff, result.scratch_bytes);
    call->large = is_large(problem, problem->dout, queries, d_v);
    if (problem->mechanism->host.backward != NULL)
        attention_backward(call, out.packed, dout.packed, dquery.packed, dkey.packed, dvalue.packed,
                           result.param_count == 0 ? NULL : result.dparams);

    guard_free(saved, saved_floats);
    guard_free(scratch, scratch_floats);
    guard_free(query.block, query.floats);
    guard_free(key.block, key.floats);
    guard_free(value.block, value.floats);
    guard_free(dout.block, dout.floats);
    result.out = rows_end(problem, queries, &out);
    result.dquery = rows_end(problem, queries, &dquery);
    result.dkey = rows_end(problem, keys, &dkey);
    result.dvalue = rows_end(problem, keys, &dvalue);
    pool_free(&host, pool);
    return result;
}

void attention_result_free(struct attention_result *result)
{
    free(result->out);
    free(result->dquery);
    free(result->dkey);
    free(result->dvalue);
    free(result->dparams);
    free(result->auxiliary_dparams);
}

void attention_case_same_bits(const struct attention_result *a, const struct attention_result *b,
                              const struct attention_case *problem, const char *what)
{
    size_t queries = a->query_rows * problem->num_heads * sizeof(float);
    size_t keys = a->key_rows * problem->num_heads * sizeof(float);
    size_t params = a->param_count * problem->num_heads * sizeof(float);
    assert_int_equal(a->query_rows, b->query_rows);
    assert_int_equal(a->key_rows, b->key_rows);
    check_same_bits(a->out, b->out, queries * problem->value_dim, what);
    check_same_bits(a->dquery, b->dquery, queries * problem->head_dim, what);
    check_same_bits(a->dkey, b->dkey, keys * problem->head_dim, what);
    check_same_bits(a->dvalue, b->dvalue, keys * problem->value_dim, what);
    check_same_bits(a->dparams, b->dparams, params, what);
    check_same_bits(a->auxiliary_dparams, b->auxiliary_dparams, params, what);
    check_same_bits(&a->auxiliary, &b->auxiliary, sizeof a->auxiliary, what);
}

static void near_all(const float *a, const float *b, size_t count, double bound, const char *what)
{
    for (size_t i = 0; i < count; i++)
        check_near((double)a[i], (double)b[i], bound, what);
}

void attention_case_near_softmax(const struct attention_case *problem, double bound)
{
    struct attention_case other = *problem;
    other.mechanism = attention_find("softmax");
    struct attention_result ours = attention_case_run(problem), exact = attention_case_run(&other);
    size_t d = problem->num_heads * problem->head_dim, d_v = problem->num_heads * problem->value_dim;
    near_all(ours.out, exact.out, ours.query_rows * d_v, bound, "out beside softmax");
    near_all(ours.dquery, exact.dquery, ours.query_rows * d, bound, "dquery beside softmax");
    near_all(ours.dkey, exact.dkey, ours.key_rows * d, bound, "dkey beside softmax");
    near_all(ours.dvalue, exact.dvalue, ours.key_rows * d_v, bound, "dvalue beside softmax");
    attention_result_free(&ours);
    attention_result_free(&exact);
}
