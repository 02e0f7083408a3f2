/* Cross-entropy against its formula and central differences; logits of any size; weights.
   Bugs planted and caught: largest logit not subtracted (1e4 overflows); mean over classes; gradient not
   divided by mean_over; the loss divided by it; label off by one; a weight left out of the loss, or of the
   gradient; the weight of another row; the label read, or the gradient kept, for weight 0.
   SPDX-License-Identifier: Apache-2.0 */
#include "nn/outputs/loss.h"

#include <math.h>
#include <stdlib.h>

#include "oracle/oracle_layers.h"
#include "support/check.h"
#include "support/layers.h"

enum { N = 6, CLASSES = 5 };
static const uint32_t labels[N] = {0, 4, 2, 2, 1, 3};
static const float ones[N] = {1, 1, 1, 1, 1, 1}, weights[N] = {0.5f, 1, 0, 3, 0.125f, 0};

struct weighted {
    const double *logits;
    const float *weights;
    double mean_over;
};

/* The weighted sum of the losses, divided by mean_over. */
static double exact_loss(void *user)
{
    const struct weighted *w = user;
    double sum = 0;
    for (size_t i = 0; i < N; i++) {
        int32_t label = (int32_t)labels[i];
        sum += (double)w->weights[i] * oracle_cross_entropy(w->logits + i * CLASSES, &label, 1, CLASSES);
    }
    return sum / w->mean_over;
}

static void loss_and_gradient_agree_with_double(void **state)
{
    (void)state;
    float *logits = new_normals(1, N * CLASSES, 2), dlogits[N * CLASSES];
    double *x = new_doubles(logits, N * CLASSES);
    struct weighted mean = {x, ones, N}, sum = {x, ones, 1};
    double loss = loss_cross_entropy(logits, labels, NULL, N, CLASSES, N, dlogits);
    check_near(loss, exact_loss(&sum), 1e-13 * (1 + loss), "loss");                    /* both are double */
    check_derivatives(dlogits, x, N * CLASSES, exact_loss, &mean, EPSILON, "dlogits"); /* one rounding */
    check_near(loss_cross_entropy(logits, labels, NULL, N, CLASSES, N, NULL), loss, 0, "loss alone");
    check_near(loss_cross_entropy(logits, labels, ones, N, CLASSES, 3 * N, NULL), loss, 0, "weights of 1");
    float third[N * CLASSES];
    loss_cross_entropy(logits, labels, NULL, N, CLASSES, 3 * N, third);
    for (size_t i = 0; i < N * CLASSES; i++)
        check_near(3 * (double)third[i], (double)dlogits[i], 3 * EPSILON, "a third of a step");
    free(logits);
    free(x);
}

static void weights_multiply_losses_and_gradients(void **state)
{
    (void)state;
    float *logits = new_normals(2, N * CLASSES, 2), *dlogits = new_normals(3, N * CLASSES, 1);
    double *x = new_doubles(logits, N * CLASSES);
    uint32_t ids[N];
    for (size_t i = 0; i < N; i++)
        ids[i] = weights[i] == 0 ? UINT32_MAX : labels[i]; /* without weight any label is ignored */
    struct weighted part = {x, weights, 7}, sum = {x, weights, 1};
    double loss = loss_cross_entropy(logits, ids, weights, N, CLASSES, 7, dlogits);
    check_near(loss, exact_loss(&sum), 1e-13 * (1 + loss), "loss");
    check_derivatives(dlogits, x, N * CLASSES, exact_loss, &part, EPSILON, "dlogits");
    for (size_t i = 0; i < N * CLASSES; i++)
        assert_true(weights[i / CLASSES] != 0 || dlogits[i] == 0);
    check_near(loss_cross_entropy(logits, ids, weights, N, CLASSES, 7, NULL), loss, 0, "loss alone");
    free(logits), free(dlogits);
    free(x);
}

static void huge_logits_do_not_overflow(void **state)
{
    (void)state;
    const float logits[2 * 3] = {1e4f, -1e4f, 0, 3e38f, -3e38f, 0};
    const uint32_t twice[2] = {1, 0};
    float d[6];
    check_near(loss_cross_entropy(logits, twice, NULL, 2, 3, 2, d), 2e4, 1e-9, "loss");
    const double want[6] = {0.5, -0.5, 0, 0, 0, 0};
    check_near_all(d, want, 6, EPSILON, "dlogits");
}

static void no_rows_no_loss(void **state)
{
    (void)state;
    check_near(loss_cross_entropy(NULL, NULL, NULL, 0, 3, 0, NULL), 0, 0, "loss");
}

static void equal_logits_cost_log_classes(void **state)
{
    (void)state;
    float logits[10] = {0};
    const uint32_t label = 7;
    check_near(loss_cross_entropy(logits, &label, NULL, 1, 10, 1, NULL), log(10), 1e-14, "loss");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(loss_and_gradient_agree_with_double),
        cmocka_unit_test(weights_multiply_losses_and_gradients),
        cmocka_unit_test(huge_logits_do_not_overflow),
        cmocka_unit_test(no_rows_no_loss),
        cmocka_unit_test(equal_logits_cost_log_classes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
