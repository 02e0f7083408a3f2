/* The form of the least error among digits of 1, 2 and 4 bits.
   SPDX-License-Identifier: Apache-2.0 */
#include "decoding/kv_code_form.h"

#include <math.h>

#include "base/memory.h"
#include "kernels/kernels.h"

/* Digits of a normal number with equal steps that err least (Max 1960). */
static const struct digit {
    size_t bits;
    double step;  /* relative to the root mean square */
    double error; /* 1 / rho^2 - 1 */
} digits[] = {{1, 1, 0.5708}, {2, 0.9957, 0.1348}, {4, 0.3352, 0.01168}};
enum { DIGITS = sizeof digits / sizeof *digits };

/* The variance of <R q, R x>, relative to its mean, for planes R in whole orthogonal sets and a part of one:
   directions in that part count once more than the others. */
static double error_of_part(double planes, double d)
{
    double sets = floor(planes / d), more = planes - sets * d;
    double squares = (sets + 1) * (sets + 1) * more + sets * sets * (d - more);
    return squares * d / (planes * planes) - 1;
}

struct kv_code_form kv_code_form_of(size_t bits, size_t head_dim, bool signs)
{
    struct kv_code_form best = {.error = INFINITY};
    for (size_t i = 0; i < (signs ? 1 : DIGITS); i++) {
        size_t planes = bits / digits[i].bits;
        double d = (double)head_dim, all = (double)planes;
        struct kv_code_form form = {digits[i].bits, planes, digits[i].error * d / all + error_of_part(all, d),
                                    digits[i].step};
        if (bits % (digits[i].bits * HASH_LANES) == 0 && form.error < best.error)
            best = form;
    }
    return best;
}

size_t kv_code_bits(size_t head_dim)
{
    enum { FEWEST = 128, TWO_LANES = 2 * HASH_LANES };
    return size_max(FEWEST, (2 * head_dim + TWO_LANES - 1) / TWO_LANES * TWO_LANES);
}

double kv_code_sharpness(size_t bits, size_t head_dim)
{
    return 1 / (1 + kv_code_form_of(bits, head_dim, false).error);
}
