/* Layouts, masks and lengths of rows.
   SPDX-License-Identifier: Apache-2.0 */
#include "api/operator/operands.h"

#include <math.h>
#include <string.h>

#include "parts/rows/elements.h"
#include "parts/rows/overlap.h"
#include "parts/rows/row_squares.h"

static size_t longest(const size_t *offsets, size_t count)
{
    size_t rows = 0;
    for (size_t s = 0; s < count; s++)
        if (offsets[s + 1] - offsets[s] > rows)
            rows = offsets[s + 1] - offsets[s];
    return rows;
}

hashattn_status operand_check_apart(struct host *host, const char *name, size_t width,
                                    struct operand_step *steps, size_t num_steps)
{
    for (size_t i = 1; i < num_steps; i++)
        for (size_t j = i; j > 0 && steps[j].stride < steps[j - 1].stride; j--) {
            struct operand_step swap = steps[j];
            steps[j] = steps[j - 1];
            steps[j - 1] = swap;
        }
    size_t extent = width; /* a stride must not be below the extent of the smaller ones */
    for (size_t i = 0; i < num_steps; i++) {
        if (steps[i].count < 2)
            continue;
        FAIL_IF(steps[i].stride < extent, host, HASHATTN_INVALID,
                "%s: %s is %zu, at least %zu is needed, or elements would overlap", name, steps[i].name,
                steps[i].stride, extent);
        extent += steps[i].stride * (steps[i].count - 1);
    }
    return HASHATTN_OK;
}

hashattn_status operand_check(struct host *host, const struct attention_call *call, bool packed_rows,
                              struct operand *array)
{
    const struct attention_shape *shape = &call->plan->shape;
    const size_t *offsets = array->of_keys ? shape->key_offsets : shape->query_offsets;
    size_t total = offsets[shape->num_sequences];
    FAIL_IF(array->given == NULL, host, HASHATTN_INVALID, "%s is NULL", array->name);
    hashattn_array given = *array->given;
    array->packed = (struct packed){.width = array->width};
    if (total == 0)
        return HASHATTN_OK;
    FAIL_IF(given.data == NULL, host, HASHATTN_INVALID, "%s.data is NULL", array->name);
    /* A misaligned read breaks the GPU context of the whole process. */
    size_t bytes = element_bytes(shape->dtype);
    FAIL_IF(shape->device != NULL && (uintptr_t)given.data % bytes != 0, host, HASHATTN_INVALID,
            "%s.data is not aligned to %zu bytes, the size of an element", array->name, bytes);
    size_t sequences = packed_rows ? 1 : shape->num_sequences;
    size_t rows = packed_rows ? total : longest(offsets, sequences); /* lengths differ in a padded batch */
    struct operand_step steps[] = {{"row_stride", rows, given.row_stride},
                                   {"head_stride", shape->num_heads, given.head_stride},
                                   {"sequence_stride", sequences, given.sequence_stride}};
    for (size_t i = 0; i < 3; i++)
        FAIL_IF(steps[i].count > 1 && steps[i].stride > operand_most / steps[i].count, host, HASHATTN_INVALID,
                "%s: %s is %zu, too large for %zu positions", array->name, steps[i].name, steps[i].stride,
                steps[i].count);
    /* Rows must not overlap, but heads and sequences of an input may share them. */
    FAIL_IF(rows > 1 && given.row_stride < array->width, host, HASHATTN_INVALID,
            "%s: row_stride is %zu, at least %zu is needed", array->name, given.row_stride, array->width);
    if (array->written)
        TRY(operand_check_apart(host, array->name, array->width, steps, 3));
    array->packed.data = given.data;
    array->packed.row_stride = given.row_stride;
    array->packed.head_stride = given.head_stride;
    array->packed.sequence_stride = given.sequence_stride;
    array->packed.padded = !packed_rows;
    return HASHATTN_OK;
}

/* The bytes of an array. */
static struct spread bytes_of(const struct attention_call *call, const struct operand *array)
{
    const struct attention_shape *shape = &call->plan->shape;
    const struct packed *rows = &array->packed;
    const size_t *offsets = array->of_keys ? shape->key_offsets : shape->query_offsets;
    size_t bytes = element_bytes(shape->dtype), sequences = rows->padded ? shape->num_sequences : 1;
    size_t count = rows->padded ? longest(offsets, sequences) : offsets[shape->num_sequences];
    if (rows->data == NULL)
        return (struct spread){.width = 0};
    return (struct spread){.start = (uintptr_t)rows->data,
                           .width = array->width * bytes,
                           .num_steps = SPREAD_STEPS,
                           .step = {{count, rows->row_stride * bytes},
                                    {shape->num_heads, rows->head_stride * bytes},
                                    {sequences, rows->sequence_stride * bytes}}};
}

hashattn_status operands_check_separate(struct host *host, const struct attention_call *call,
                                        const struct operand *operands, size_t count)
{
    const struct attention_shape *shape = &call->plan->shape;
    const struct spread mask = {.start = (uintptr_t)call->key_mask,
                                .width =
                                    call->key_mask == NULL ? 0 : shape->key_offsets[shape->num_sequences]};
    for (size_t i = 0; i < count; i++) {
        if (!operands[i].written)
            continue;
        const struct spread bytes = bytes_of(call, &operands[i]);
        for (size_t j = 0; j < count; j++)
            FAIL_IF(j != i && spread_overlap(bytes, bytes_of(call, &operands[j])), host, HASHATTN_INVALID,
                    "%s overlaps %s: an output must not share memory with another array", operands[i].name,
                    operands[j].name);
        FAIL_IF(spread_overlap(bytes, mask), host, HASHATTN_INVALID,
                "%s overlaps key_mask: an output must not share memory with another array", operands[i].name);
    }
    return HASHATTN_OK;
}

hashattn_status operands_check_outside(struct host *host, const struct attention_call *call,
                                       const struct operand *operands, size_t count, const char *name,
                                       const void *written, size_t bytes)
{
    const struct spread block = {.start = (uintptr_t)written, .width = written == NULL ? 0 : bytes};
    for (size_t j = 0; j < count; j++)
        FAIL_IF(spread_overlap(block, bytes_of(call, &operands[j])), host, HASHATTN_INVALID,
                "%s overlaps %s: an output must not share memory with another array", name, operands[j].name);
    return HASHATTN_OK;
}

/* Row r of a view of either element type. */
static void *row_of(struct view rows, size_t r)
{
    return (unsigned char *)rows.data + r * rows.stride * element_bytes(rows.dtype);
}

/* True for a masked key, whose rows are never read. */
static bool is_absent(const struct attention_call *call, const struct operand *array, size_t s, size_t r)
{
    const struct attention_shape *shape = &call->plan->shape;
    return array->of_keys && call->key_mask != NULL && call->key_mask[shape->key_offsets[s] + r] == 0;
}

double operand_norm_limit(const struct attention_call *call)
{
    const struct attention_shape *shape = &call->plan->shape;
    return shape->mechanism->norm_limit == NULL ? 0 : shape->mechanism->norm_limit(shape->options);
}

/* Accepts lengths that exceed the limit only by rounding. */
hashattn_status operand_check_lengths(struct host *host, const struct attention_call *call,
                                      const struct operand *array)
{
    const struct attention_shape *shape = &call->plan->shape;
    double limit = operand_norm_limit(call);
    const size_t *offsets = array->of_keys ? shape->key_offsets : shape->query_offsets;
    for (size_t i = 0; limit > 0 && i < shape->num_sequences * shape->num_heads; i++) {
        size_t s = i / shape->num_heads, h = i % shape->num_heads;
        struct view rows = call_head(shape, &array->packed, offsets, s, h);
        for (size_t r = 0; r < rows.rows; r++) {
            if (is_absent(call, array, s, r))
                continue;
            double length = sqrt(row_squares(shape->kernels, rows, NULL, r, r + 1));
            FAIL_IF(length > limit * (1 + 1e-6), host, HASHATTN_INVALID,
                    "%s has length %g at sequence %zu, head %zu, row %zu; `max_norm` is %g", array->name,
                    length, s, h, r, limit);
        }
    }
    return HASHATTN_OK;
}

/* Arrays to clear. */
struct pass {
    const struct attention_call *call;
    const struct operand *operands;
    size_t count;
};

static void write_zeros(void *argument, size_t index, int worker)
{
    (void)worker;
    const struct pass *pass = argument;
    const struct attention_call *call = pass->call;
    const struct attention_shape *shape = &call->plan->shape;
    size_t s = index / shape->num_heads, h = index % shape->num_heads;
    for (size_t a = 0; a < pass->count; a++) {
        const struct operand *array = &pass->operands[a];
        const size_t *offsets = array->of_keys ? shape->key_offsets : shape->query_offsets;
        struct view rows = call_head(shape, &array->packed, offsets, s, h);
        for (size_t r = 0; r < rows.rows; r++)
            memset(row_of(rows, r), 0, rows.cols * element_bytes(rows.dtype));
    }
}

hashattn_status operands_check_mask(struct host *host, const struct attention_call *call)
{
    const struct attention_shape *shape = &call->plan->shape;
    for (size_t j = 0; call->key_mask != NULL && j < shape->key_offsets[shape->num_sequences]; j++)
        FAIL_IF(call->key_mask[j] > 1, host, HASHATTN_INVALID, "key_mask[%zu] is %u, allowed are 0 and 1", j,
                call->key_mask[j]);
    return HASHATTN_OK;
}

void operands_clear(const struct attention_call *call, const struct operand *operands, size_t count)
{
    const struct attention_shape *shape = &call->plan->shape;
    struct pass zeros = {.call = call, .operands = operands, .count = count};
    pool_run(shape->pool, write_zeros, &zeros, shape->num_sequences * shape->num_heads);
}
