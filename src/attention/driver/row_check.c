/* Pieces of the rows on the pool. Their number is fixed, so the sums do not depend on the threads.
   SPDX-License-Identifier: Apache-2.0 */
#include "attention/driver/row_check.h"

#include <math.h>

#include "attention/driver/call_shape.h"
#include "base/pool.h"
#include "parts/rows/row_squares.h"
#include "parts/tiles/double_attention.h"

enum { ARRAYS = 3, PIECES = 16 };

struct checking {
    const struct kernels *kernels;
    struct view rows[ARRAYS];
    const uint8_t *mask[ARRAYS];
    double squares[ARRAYS][PIECES];
};

static void check_piece(void *argument, size_t index, int worker)
{
    (void)worker;
    struct checking *checking = argument;
    size_t array = index / PIECES, piece = index % PIECES;
    struct view rows = checking->rows[array];
    size_t first = rows.rows * piece / PIECES, end = rows.rows * (piece + 1) / PIECES;
    checking->squares[array][piece] = row_squares(checking->kernels, rows, checking->mask[array], first, end);
}

struct row_check row_check(const struct attention_call *call, size_t sequence, size_t head, struct pool *pool)
{
    const uint8_t *mask = call_mask(call, sequence);
    struct checking checking = {
        .kernels = call->kernels,
        .rows = {call_head(call, &call->query, call->query_offsets, sequence, head),
                 call_head(call, &call->key, call->key_offsets, sequence, head),
                 call_head(call, &call->value, call->key_offsets, sequence, head)},
        .mask = {NULL, mask, mask},
    };
    pool_run(pool, check_piece, &checking, ARRAYS * PIECES);
    struct row_check found = {.finite = true};
    for (size_t array = 0; array < ARRAYS; array++) {
        double squares = 0;
        for (size_t piece = 0; piece < PIECES; piece++)
            squares += checking.squares[array][piece];
        found.finite &= isfinite(squares);
        found.large |= squares >= DOUBLE_SQUARES;
    }
    return found;
}
