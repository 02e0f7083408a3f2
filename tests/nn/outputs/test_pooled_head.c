/* Pooled heads against their parts, called one after another with memory of their own: pooling, pairs and
   head are tested by themselves. Single sequences and pairs, one example, and a full tile of them. Bugs
   planted and caught: pairs read as single sequences; the rows that pad a tile not cleared; dx overwritten
   instead of added; the gradient of the features given to pooling.
   SPDX-License-Identifier: Apache-2.0 */
#include "nn/outputs/pooled_head.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "nn/outputs/pair.h"
#include "support/check.h"
#include "support/layers.h"

enum { DIM = 6, OUTPUTS = 3, MOST = 2 * HEAD_TILE };

static void check(bool pairs, size_t sequences)
{
    struct layer_test base;
    struct pooled_head p = {.pooling = POOL_MEAN, .pairs = pairs, .dim = DIM, .max_len = 4};
    size_t offsets[MOST + 1] = {0}, examples = sequences / (pairs ? 2 : 1);
    layer_test_open(&base, 2);
    for (size_t s = 0; s < sequences; s++)
        offsets[s + 1] = offsets[s] + 1 + s % 4;
    const struct rows rows = rows_of(base.kernels, base.pool, sequences, offsets, NULL);
    check_status(&base.host, pooled_head_describe(&base.host, &base.params, HEAD_GELU, OUTPUTS, &p),
                 HASHATTN_OK, NULL);
    layer_test_start(&base, 3);
    assert_true(pooled_head_outputs(&p) == OUTPUTS && pooled_head_examples(&p, &rows) == examples);
    const float *values = layer_test_pack(&base, true);
    size_t floats = rows.padded * DIM, width = p.head.first.in, padded = head_rows(examples);
    assert_int_equal(width, pairs ? 4 * DIM : DIM);
    float *x = new_normals(1, floats, 1), *dx = new_zeros(floats), *want = new_zeros(floats);
    memset(x + rows.count * DIM, 0, (floats - rows.count * DIM) * sizeof *x);

    size_t bytes = pooled_head_lay(&p, &rows, true, NULL).bytes;
    assert_true(pooled_head_lay(&p, &rows, false, NULL).bytes < bytes);
    float *memory = guard_floats(bytes / sizeof(float));
    memset(memory, 0xff, bytes);
    const struct pooled_space s = pooled_head_lay(&p, &rows, true, memory);
    assert_int_equal((const char *)memory + bytes - (const char *)s.dlogits,
                     padded * OUTPUTS * sizeof(float));
    pooled_head_forward(&p, &rows, values, &s, x);

    float *pooled = new_zeros(head_rows(sequences) * DIM), *partial = new_zeros(head_rows(sequences) * DIM);
    float *features = new_zeros(padded * width), *hidden = new_zeros(padded * head_kept(&p.head));
    float *logits = new_zeros(padded * OUTPUTS), *dlogits = new_normals(2, padded * OUTPUTS, 1);
    pooling_forward(p.pooling, p.max_len, &rows, pooled, partial, x, DIM);
    if (pairs)
        pair_forward(features, pooled, examples, DIM);
    else
        memcpy(features, pooled, examples * DIM * sizeof *features);
    head_forward(&p.head, base.kernels, values, logits, hidden, features, examples);
    check_same_bits(s.logits, logits, examples * OUTPUTS * sizeof(float), "logits");

    memcpy(s.dlogits, dlogits, examples * OUTPUTS * sizeof(float));
    memset(dlogits + examples * OUTPUTS, 0, (padded - examples) * OUTPUTS * sizeof(float));
    struct slice got = whole_gradient(&base);
    float *gradients = new_zeros(base.params.total), *dfeatures = new_zeros(padded * width);
    float *dhidden = new_zeros(padded * p.head.first.out), *dpooled = new_zeros(head_rows(sequences) * DIM);
    for (size_t i = 0; i < floats; i++)
        dx[i] = want[i] = 0.5f;
    pooled_head_backward(&p, &rows, values, got, &s, dx, true);
    head_backward(&p.head, base.kernels, values, (struct slice){gradients, 0}, dfeatures, dhidden, dlogits,
                  hidden, features, examples);
    if (pairs)
        pair_backward(dpooled, dfeatures, pooled, examples, DIM);
    pooling_backward(p.pooling, p.max_len, &rows, want, true, pairs ? dpooled : dfeatures, DIM);
    check_same_bits(dx, want, floats * sizeof *dx, "dx");
    check_same_bits(base.gradients, gradients, base.params.total * sizeof(float), "gradients");
    free(x), free(dx), free(want), free(pooled), free(partial), free(features), free(hidden), free(logits);
    free(dlogits), free(gradients), free(dfeatures), free(dhidden), free(dpooled);
    guard_free(memory, bytes / sizeof(float));
    layer_test_close(&base);
}

static void it_is_the_sum_of_its_parts(void **state)
{
    (void)state;
    check(false, 1);
    check(false, 5);
    check(false, HEAD_TILE);
    check(true, 2);
    check(true, 10);
    check(true, 2 * HEAD_TILE);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(it_is_the_sum_of_its_parts),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
