/* Cross-entropy against its formula and central differences; logits of any size.
   Bugs tried and caught: largest logit not taken out (1e4 overflows); mean over classes; gradient not divided
   by n; label off by one. SPDX-License-Identifier: Apache-2.0 */
#include "nn/loss.h"

#include <math.h>
#include <stdlib.h>

#include "oracle/oracle_layers.h"
#include "support/check.h"
#include "support/layers.h"

enum { N = 6, CLASSES = 5 };
static const int32_t labels[N] = {0, 4, 2, 2, 1, 3};

static double exact_loss(void *user)
{
    return oracle_cross_entropy(user, labels, N, CLASSES);
}

static void loss_and_gradient_agree_with_double(void **state)
{
    (void)state;
    float *logits = new_normals(1, N * CLASSES, 2), dlogits[N * CLASSES];
    double *x = new_doubles(logits, N * CLASSES);
    double loss = loss_cross_entropy(logits, labels, N, CLASSES, N, dlogits);
    check_near(loss, exact_loss(x), 1e-13 * (1 + loss), "loss");                   /* both are double */
    check_derivatives(dlogits, x, N * CLASSES, exact_loss, x, EPSILON, "dlogits"); /* one rounding */
    check_near(loss_cross_entropy(logits, labels, N, CLASSES, N, NULL), loss, 0, "loss alone");
    check_near(loss_cross_entropy(logits, labels, N, CLASSES, 3 * N, NULL), loss / 3, 1e-15 * (1 + loss),
               "a third of a step");
    free(logits);
    free(x);
}

static void huge_logits_do_not_overflow(void **state)
{
    (void)state;
    const float logits[2 * 3] = {1e4f, -1e4f, 0, 3e38f, -3e38f, 0};
    const int32_t twice[2] = {1, 0};
    float d[6];
    check_near(loss_cross_entropy(logits, twice, 2, 3, 2, d), 1e4, 1e-9, "loss");
    const double want[6] = {0.5, -0.5, 0, 0, 0, 0};
    check_near_all(d, want, 6, EPSILON, "dlogits");
}

static void no_rows_no_loss(void **state)
{
    (void)state;
    check_near(loss_cross_entropy(NULL, NULL, 0, 3, 0, NULL), 0, 0, "loss");
}

static void equal_logits_cost_log_classes(void **state)
{
    (void)state;
    float logits[10] = {0};
    const int32_t label = 7;
    check_near(loss_cross_entropy(logits, &label, 1, 10, 1, NULL), log(10), 1e-14, "loss");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(loss_and_gradient_agree_with_double),
        cmocka_unit_test(huge_logits_do_not_overflow),
        cmocka_unit_test(no_rows_no_loss),
        cmocka_unit_test(equal_logits_cost_log_classes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
