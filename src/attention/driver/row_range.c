/* Pieces of the rows on the pool. Their number is fixed, so the sums do not depend on the threads.
   SPDX-License-Identifier: Apache-2.0 */
#include "attention/driver/row_range.h"

#include <math.h>
#include <stdio.h>

#include "base/memory.h"
#include "base/pool.h"
#include "parts/rows/row_squares.h"
#include "parts/tiles/double_attention.h"

enum { QUERY, KEY, VALUE, DOUT, ARRAYS };
enum { PIECES = 16 };

static const char *const names[ARRAYS] = {"query", "key", "value", "dout"};

/* The arrays of a call that are looked at, and the mechanism's range for them. */
struct arrays {
    const struct attention_call *call;
    const struct packed *array[ARRAYS]; /* NULL: not looked at */
    struct number_range range;
};

static struct arrays arrays_of(const struct attention_call *call, const struct packed *dout)
{
    const struct attention_shape *shape = &call->plan->shape;
    bool all = dout == NULL || shape->mechanism->range.bounded;
    const struct packed *array[ARRAYS] = {&call->query, &call->key, &call->value, dout};
    struct arrays arrays = {.call = call, .range = shape->mechanism->range};
    for (size_t a = 0; a < ARRAYS; a++)
        if (array[a] != NULL && array[a]->data != NULL && (all || a == DOUT))
            arrays.array[a] = array[a];
    return arrays;
}

/* The mechanism's own loss reads queries and keys, in float32 always. */
static struct arrays arrays_of_loss(const struct attention_call *call)
{
    const struct attention_shape *shape = &call->plan->shape;
    unsigned power = shape->mechanism->range.power;
    struct arrays arrays = arrays_of(call, NULL);
    arrays.array[VALUE] = NULL;
    arrays.range = (struct number_range){.bounded = true, .power = power > 1 ? power : 1};
    return arrays;
}

static bool of_keys(size_t array)
{
    return array == KEY || array == VALUE;
}

static struct view rows_of(const struct arrays *arrays, size_t array, size_t sequence, size_t head)
{
    const struct attention_shape *shape = &arrays->call->plan->shape;
    return call_head(shape, arrays->array[array], of_keys(array) ? shape->key_offsets : shape->query_offsets,
                     sequence, head);
}

/* ---- sums of squares ----------------------------------------------------------------------------------- */

/* One unit. */
struct looking {
    const struct arrays *arrays;
    size_t sequence, head;
    double squares[ARRAYS][PIECES];
};

static void look_at_piece(void *argument, size_t index, int worker)
{
    (void)worker;
    struct looking *looking = argument;
    const struct attention_call *call = looking->arrays->call;
    const struct attention_shape *shape = &call->plan->shape;
    size_t array = index / PIECES, piece = index % PIECES;
    if (looking->arrays->array[array] == NULL)
        return;
    struct view rows = rows_of(looking->arrays, array, looking->sequence, looking->head);
    size_t first = rows.rows * piece / PIECES, end = rows.rows * (piece + 1) / PIECES;
    looking->squares[array][piece] = row_squares(
        shape->kernels, rows, of_keys(array) ? call_mask(call, looking->sequence) : NULL, first, end);
}

/* What a unit holds. */
struct found {
    bool finite, large;
    double reach;
};

static struct found look(const struct arrays *arrays, size_t sequence, size_t head, struct pool *pool)
{
    struct looking looking = {.arrays = arrays, .sequence = sequence, .head = head};
    struct found found = {.finite = true};
    double size[ARRAYS];
    pool_run(pool, look_at_piece, &looking, (size_t)ARRAYS * PIECES);
    for (size_t array = 0; array < ARRAYS; array++) {
        double squares = 0;
        for (size_t piece = 0; piece < PIECES; piece++)
            squares += looking.squares[array][piece];
        found.finite &= isfinite(squares);
        found.large |= squares >= DOUBLE_SQUARES;
        size[array] = sqrt(1 + squares);
    }
    const struct attention_shape *shape = &arrays->call->plan->shape;
    const size_t *queries = shape->query_offsets + sequence, *keys = shape->key_offsets + sequence;
    found.reach = pow(fmax(size[QUERY], size[KEY]), arrays->range.power) * size[VALUE] * size[DOUT] *
                  (double)size_max(1, size_max(queries[1] - queries[0], keys[1] - keys[0]));
    return found;
}

static bool is_allowed(const struct arrays *arrays, const struct found *found)
{
    return found->finite && !(arrays->range.bounded && found->reach >= REACH_LIMIT);
}

struct row_range row_range_unit(const struct attention_call *call, size_t sequence, size_t head,
                                struct pool *pool)
{
    struct arrays arrays = arrays_of(call, NULL);
    struct found found = look(&arrays, sequence, head, pool);
    return (struct row_range){is_allowed(&arrays, &found), found.large};
}

/* ---- all units ----------------------------------------------------------------------------------------- */

struct pass {
    struct arrays arrays;
    atomic_bool forbidden, large; /* in any unit */
};

static void look_at_unit(void *argument, size_t index, int worker)
{
    (void)worker;
    struct pass *pass = argument;
    const struct attention_shape *shape = &pass->arrays.call->plan->shape;
    struct found found = look(&pass->arrays, index / shape->num_heads, index % shape->num_heads, NULL);
    if (!is_allowed(&pass->arrays, &found))
        atomic_store_explicit(&pass->forbidden, true, memory_order_relaxed);
    if (found.large)
        atomic_store_explicit(&pass->large, true, memory_order_relaxed);
}

/* ---- reports ------------------------------------------------------------------------------------------- */

static double element_of(const struct attention_call *call, struct view rows, size_t row, size_t column)
{
    const struct attention_shape *shape = &call->plan->shape;
    const unsigned char *at =
        (const unsigned char *)rows.data + row * rows.stride * element_bytes(rows.dtype);
    float number;
    if (rows.dtype == DTYPE_FLOAT32)
        return (double)((const float *)(const void *)at)[column];
    shape->kernels->bf16.widen(&number, 1, (const bf16 *)(const void *)at + column, 1, 1, 1);
    return (double)number;
}

/* Fails if row r of a unit has a NaN or infinity. */
static hashattn_status check_row(struct host *host, const struct arrays *arrays, size_t array, size_t s,
                                 size_t h, size_t r, const size_t *first_row)
{
    struct view rows = rows_of(arrays, array, s, h);
    for (size_t c = 0; c < rows.cols; c++) {
        double number = element_of(arrays->call, rows, r, c);
        FAIL_IF(!isfinite(number) && first_row != NULL, host, HASHATTN_INVALID,
                "%s is %g at row %zu of the sequence, head %zu, column %zu", names[array], number,
                *first_row + r, h, c);
        FAIL_IF(!isfinite(number), host, HASHATTN_INVALID,
                "%s is %g at sequence %zu, head %zu, row %zu, column %zu", names[array], number, s, h, r, c);
    }
    return HASHATTN_OK;
}

static hashattn_status check_reach(struct host *host, const struct arrays *arrays, size_t s, size_t h,
                                   const size_t *first_row)
{
    const struct attention_shape *shape = &arrays->call->plan->shape;
    struct found found = look(arrays, s, h, NULL);
    char place[80], rows[80] = "";
    if (first_row != NULL)
        snprintf(place, sizeof place, "from row %zu of the sequence on", *first_row);
    else
        snprintf(place, sizeof place, "at sequence %zu", s);
    if (arrays->range.power > 0)
        snprintf(rows, sizeof rows, "length of query or key to the power %u, ", arrays->range.power);
    FAIL_IF(!is_allowed(arrays, &found), host, HASHATTN_REFUSED,
            "%s: numbers are too large for float32: %s, head %zu, the product of %s%s%sthe number of rows is "
            "%g, allowed is less than %g",
            shape->mechanism->name, place, h, rows, arrays->array[VALUE] == NULL ? "" : "length of value, ",
            arrays->array[DOUT] == NULL ? "" : "length of dout, ", found.reach, REACH_LIMIT);
    return HASHATTN_OK;
}

static hashattn_status fail(struct host *host, const struct arrays *arrays, const size_t *first_row)
{
    const struct attention_call *call = arrays->call;
    const struct attention_shape *shape = &call->plan->shape;
    size_t units = shape->num_sequences * shape->num_heads, heads = shape->num_heads;
    for (size_t a = 0; a < ARRAYS; a++)
        for (size_t i = 0; arrays->array[a] != NULL && i < units; i++) {
            const uint8_t *mask = of_keys(a) ? call_mask(call, i / heads) : NULL;
            size_t count = rows_of(arrays, a, i / heads, i % heads).rows;
            for (size_t r = 0; r < count; r++)
                if (mask == NULL || mask[r] != 0)
                    TRY(check_row(host, arrays, a, i / heads, i % heads, r, first_row));
        }
    for (size_t i = 0; i < units; i++)
        TRY(check_reach(host, arrays, i / heads, i % heads, first_row));
    return host_fail(host, HASHATTN_REFUSED, "%s: an output is beyond float32", shape->mechanism->name);
}

/* *large: whether any unit is. */
static hashattn_status check(struct host *host, const struct arrays *arrays, const size_t *first_row,
                             bool *large)
{
    const struct attention_shape *shape = &arrays->call->plan->shape;
    struct pass pass = {.arrays = *arrays};
    pool_run(shape->pool, look_at_unit, &pass, shape->num_sequences * shape->num_heads);
    *large = atomic_load(&pass.large);
    return atomic_load(&pass.forbidden) ? fail(host, arrays, first_row) : HASHATTN_OK;
}

hashattn_status row_range_check(struct host *host, struct attention_call *call, const struct packed *dout,
                                const size_t *first_row)
{
    struct arrays arrays = arrays_of(call, dout);
    return check(host, &arrays, first_row, &call->large);
}

hashattn_status row_range_check_loss(struct host *host, const struct attention_call *call)
{
    bool large;
    struct arrays arrays = arrays_of_loss(call);
    return check(host, &arrays, NULL, &large);
}

hashattn_status row_range_fail(struct host *host, const struct attention_call *call)
{
    struct arrays arrays = arrays_of(call, NULL);
    return fail(host, &arrays, NULL);
}
