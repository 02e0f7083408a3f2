/* Many queries and few keys against softmax attention in double precision, for numbers of queries around the
   chunks, on every instruction set, with and without threads. Bugs planted and caught: what
   forward kept of the first chunk's queries used for all; the sums of the last chunk lost; those of dV not
   begun at zero; one scratch for all threads.
   SPDX-License-Identifier: Apache-2.0 */
#include "parts/landmarks/few_keys.h"

#include <float.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/random.h"
#include "oracle/oracle_softmax.h"
#include "support/check.h"

enum { WIDER = 3 }; /* more floats from row to row than a row has */

static struct view normals(uint64_t seed, size_t rows, size_t cols)
{
    struct view view = view_of(guard_floats(rows * (cols + WIDER)), rows, cols);
    view.stride = cols + WIDER;
    random_normals(random_key(seed, 1, 0), 0, view.data, rows * view.stride);
    return view;
}

static struct view constants(float value, size_t rows, size_t cols)
{
    struct view view = view_of(guard_floats(rows * cols), rows, cols);
    for (size_t i = 0; i < rows * cols; i++)
        ((float *)view.data)[i] = value;
    return view;
}

static void view_free(struct view view)
{
    guard_free(view.data, view.rows * view.stride);
}

static void to_double(double *to, struct view rows)
{
    for (size_t i = 0; i < rows.rows; i++)
        for (size_t c = 0; c < rows.cols; c++)
            to[i * rows.cols + c] = (double)view_row(rows, i)[c];
}

static void check_view(struct view got, const double *want, const double *bound, double start,
                       const char *what)
{
    for (size_t i = 0; i < got.rows * got.cols; i++)
        check_near((double)view_row(got, i / got.cols)[i % got.cols], start + want[i],
                   bound[i] + 4 * (double)FLT_EPSILON * (fabs(start) + fabs(want[i])), what);
}

/* Three chunks at most; the sums of dK and dV of a chunk are rounded once more each. */
static void check_shape(const struct kernels *kernels, struct pool *pool, size_t n_q, size_t n_k, size_t d,
                        size_t d_v)
{
    struct view query = normals(1, n_q, d), key = normals(2, n_k, d), value = normals(3, n_k, d_v),
                dout = normals(4, n_q, d_v), out = constants(NAN, n_q, d_v), dquery = constants(0.5f, n_q, d),
                dkey = constants(0.5f, n_k, d), dvalue = constants(0.5f, n_k, d_v);
    const struct problem problem = {.kernels = kernels,
                                    .pool = pool,
                                    .shape = {.num_queries = n_q,
                                              .num_keys = n_k,
                                              .head_dim = d,
                                              .value_dim = d_v,
                                              .workers = (size_t)pool_threads(pool)},
                                    .query = query,
                                    .key = key,
                                    .value = value};
    size_t bytes = few_keys_scratch_size(&problem.shape),
           kept = softmax_rows_size(NULL, &problem.shape) / sizeof(float);
    struct arena arena = arena_on(guard_floats(kept));
    float *scratch = guard_floats(bytes / 4 + 1);
    memset(scratch, 0xff, bytes);
    struct softmax_rows rows = softmax_rows_take(&arena, n_q);
    few_keys_forward(&problem, rows, out, scratch);
    memset(scratch, 0xff, bytes);
    few_keys_backward(&problem, rows, out, dout,
                      &(struct problem_gradients){.query = dquery, .key = dkey, .value = dvalue}, scratch);

    struct oracle_softmax o = oracle_softmax_new(n_q, n_k, d, d_v);
    to_double(o.query, query);
    to_double(o.key, key);
    to_double(o.value, value);
    to_double(o.dout, dout);
    oracle_softmax_run(&o);
    check_view(out, o.out, o.out_bound, 0, "out");
    check_view(dquery, o.dquery, o.dquery_bound, 0.5, "dquery");
    check_view(dkey, o.dkey, o.dkey_bound, 0.5, "dkey");
    check_view(dvalue, o.dvalue, o.dvalue_bound, 0.5, "dvalue");
    oracle_softmax_free(&o);
    guard_free(scratch, bytes / 4 + 1);
    guard_free((float *)arena.block, kept);
    struct view all[] = {query, key, value, dout, out, dquery, dkey, dvalue};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        view_free(all[i]);
}

static const size_t shapes[][4] = {
    {1, 1, 1, 1},    {5, 3, 4, 7},    {FEW_KEYS_CHUNK, 2, 3, 4},           {FEW_KEYS_CHUNK + 1, 130, 5, 3},
    {300, 64, 8, 8}, {50, 600, 6, 2}, {2 * FEW_KEYS_CHUNK + 37, 33, 4, 5},
};

static void every_shape_is_softmax(void **state)
{
    (void)state;
    struct host host;
    struct pool *pool;
    host_init(&host);
    check_status(&host, pool_new(&host, 3, &pool), HASHATTN_OK, NULL);
    for (const struct kernels *const *kernels = kernels_all(); *kernels != NULL; kernels++)
        for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++) {
            check_shape(*kernels, NULL, shapes[i][0], shapes[i][1], shapes[i][2], shapes[i][3]);
            check_shape(*kernels, pool, shapes[i][0], shapes[i][1], shapes[i][2], shapes[i][3]);
        }
    pool_free(&host, pool);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_shape_is_softmax),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
