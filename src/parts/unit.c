/* Unit rows over slot unit_rows. Cost: 3 n d operations. SPDX-License-Identifier: Apache-2.0 */
#include "parts/unit.h"

#include <string.h>

#include "base/random.h"

void turn_draw(const struct turn *turn, uint64_t random_key_of_head, size_t dim)
{
    random_permutation(random_key(random_key_of_head, RANDOM_TURN, 0), turn->permutation, dim);
    random_signs(random_key(random_key_of_head, RANDOM_TURN, 1), turn->sign, dim);
}

void unit_take(const struct kernels *kernels, float *unit, size_t ld, float *norm, const float *x,
               size_t ld_x, size_t n, size_t dim, const struct turn *turn)
{
    kernels->unit_rows(unit, ld, norm, x, ld_x, n, dim, turn->permutation, turn->sign);
    for (size_t i = 0; i < n; i++)
        if (norm[i] < UNIT_SHORTEST)
            memset(unit + i * ld, 0, ld * sizeof *unit);
}
