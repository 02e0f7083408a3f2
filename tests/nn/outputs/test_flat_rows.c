/* Rows of sequences as one row each, over several tiles of rows, and their gradients.
   Bugs planted and caught: a short sequence at the beginning of its row; nothing before it cleared; the
   gradient written instead of added; rows after the last not cleared; the position counted from the tile.
   SPDX-License-Identifier: Apache-2.0 */
#include "nn/outputs/flat_rows.h"

#include <stdlib.h>
#include <string.h>

#include "support/check.h"
#include "support/layers.h"

enum { DIM = 3, LONGEST = 150, SEQUENCES = 4 };

static void rows_become_one(void **state)
{
    (void)state;
    const size_t offsets[SEQUENCES + 1] = {0, 150, 151, 301, 381};
    struct layer_test base;
    layer_test_open(&base, 2);
    const struct rows rows = rows_of(base.kernels, base.pool, SEQUENCES, offsets, NULL);
    size_t floats = rows.padded * DIM, wide = (size_t)LONGEST * DIM;
    float *x = new_normals(1, floats, 1), *y = guard_floats(SEQUENCES * wide), *dx = guard_floats(floats),
          *dy = new_normals(2, SEQUENCES * wide, 1);
    memset(y, 0xff, SEQUENCES * wide * sizeof *y);
    flat_rows_forward(&rows, LONGEST, y, x, DIM);
    for (int add = 0; add < 2; add++) {
        for (size_t i = 0; i < floats; i++)
            dx[i] = 2;
        flat_rows_backward(&rows, LONGEST, dx, add != 0, dy, DIM);
        for (size_t s = 0; s < SEQUENCES; s++) {
            size_t length = offsets[s + 1] - offsets[s], before = (LONGEST - length) * DIM;
            for (size_t i = 0; i < wide; i++) {
                size_t at = offsets[s] * DIM + i - before;
                check_near((double)y[s * wide + i], i < before ? 0 : (double)x[at], 0, "a flat row");
                if (i >= before)
                    check_near((double)dx[at], (double)dy[s * wide + i] + (add ? 2 : 0), 1e-6, "a gradient");
            }
        }
        for (size_t i = rows.count * DIM; i < floats; i++)
            check_near((double)dx[i], add ? 2 : 0, 0, "after the last row");
    }
    free(x), free(dy);
    guard_free(y, SEQUENCES * wide);
    guard_free(dx, floats);
    layer_test_close(&base);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(rows_become_one),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
