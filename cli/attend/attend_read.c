/* Reads the arrays of `attend` and checks that their shapes agree.
   SPDX-License-Identifier: Apache-2.0 */
#include <stdlib.h>
#include <string.h>

#include "cli/attend/attend.h"

enum { LONE_WIDTH = 4096 }; /* greatest width of values without rows; the output is as wide */

/* "(2, 3) float32" */
static const char *shape_text(const hashattn_npy *array, char text[120])
{
    size_t used = (size_t)snprintf(text, 120, "(");
    for (int i = 0; i < array->rank; i++)
        used += (size_t)snprintf(text + used, 120 - used, "%s%zu", i == 0 ? "" : ", ", array->shape[i]);
    snprintf(text + used, 120 - used, ") %s", array->element == HASHATTN_FLOAT32 ? "float32" : "bytes");
    return text;
}

/* Length of an axis counted from the right: width, rows, heads, batch. 1 if the array has fewer axes. */
static size_t axis(const hashattn_npy *array, int from_right)
{
    return from_right < array->rank ? array->shape[array->rank - 1 - from_right] : 1;
}

/* Reads the whole array, or with --chunk or several ranks only its shape, and opens a reader. */
static hashattn_status read_or_open(struct attend *a, const char *path, hashattn_npy *array,
                                    hashattn_npy_reader **reader)
{
    return a->chunk_rows > 0 || attend_is_shared(a) ? hashattn_npy_open(a->files, path, array, reader)
                                                    : hashattn_npy_read(a->files, path, array);
}

static int read_array(struct attend *a, const char *path, hashattn_npy *array, hashattn_npy_reader **reader)
{
    hashattn_status status = read_or_open(a, path, array, reader);
    if (status != HASHATTN_OK)
        return tool_fail_status(a->files, status);
    char text[120];
    if (array->element != HASHATTN_FLOAT32 || array->rank < 2)
        return tool_fail(EXIT_FILE,
                         "%s: is %s; it must be (n, d), (heads, n, d) or (batch, heads, n, d) float32", path,
                         shape_text(array, text));
    return EXIT_GOOD;
}

/* Fails unless the two arrays agree in axis `from_right` and in rank. */
static int agree(const char *path, const hashattn_npy *array, const char *other_path,
                 const hashattn_npy *other, int from_right)
{
    char text[120], other_text[120];
    if (array->rank == other->rank && axis(array, from_right) == axis(other, from_right))
        return EXIT_GOOD;
    return tool_fail(EXIT_FILE, "%s is %s and %s is %s: axis %d from the right must agree", path,
                     shape_text(array, text), other_path, shape_text(other, other_text), from_right + 1);
}

int attend_read_arrays(struct attend *a)
{
    int code = read_array(a, a->q, &a->query, &a->chunks.query);
    code = code != EXIT_GOOD ? code : read_array(a, a->k, &a->key, &a->chunks.key);
    code = code != EXIT_GOOD ? code : read_array(a, a->v, &a->value, &a->chunks.value);
    for (int i = 0; i < 4 && code == EXIT_GOOD; i++) {
        if (i != 1) /* n_q and n_k may differ */
            code = agree(a->q, &a->query, a->k, &a->key, i);
        if (i != 0 && code == EXIT_GOOD) /* d and d_v may differ */
            code = agree(a->k, &a->key, a->v, &a->value, i);
    }
    if (code != EXIT_GOOD)
        return code;
    a->problem.num_sequences = axis(&a->query, 3);
    a->problem.num_heads = axis(&a->query, 2);
    a->problem.num_queries = axis(&a->query, 1);
    a->problem.num_keys = axis(&a->key, 1);
    a->problem.head_dim = axis(&a->query, 0);
    a->problem.value_dim = axis(&a->value, 0);
    a->problem.max_len =
        a->problem.num_queries > a->problem.num_keys ? a->problem.num_queries : a->problem.num_keys;
    a->problem.causal = a->causal;
    /* Bounds the one length of the output that no array with elements confirms. */
    char text[120];
    if (a->problem.num_keys == 0 && a->problem.num_queries > 0 && a->problem.value_dim > LONE_WIDTH)
        return tool_fail(EXIT_FILE, "%s is %s: values without rows may be at most %d wide", a->v,
                         shape_text(&a->value, text), LONE_WIDTH);
    if (a->problem.num_heads == 0 || a->problem.head_dim == 0 || a->problem.value_dim == 0)
        return tool_fail(EXIT_FILE, "%s or %s has an axis of 0; only n and batch may be 0", a->q, a->v);
    return EXIT_GOOD;
}

int attend_read_mask(struct attend *a)
{
    hashattn_status status = read_or_open(a, a->mask, &a->key_mask, &a->chunks.mask);
    if (status != HASHATTN_OK)
        return tool_fail_status(a->files, status);
    const hashattn_npy *mask = &a->key_mask;
    size_t batch = a->problem.num_sequences, keys = a->problem.num_keys;
    char text[120];
    if (mask->element != HASHATTN_BYTE || mask->rank < 1 || mask->rank > 2 || axis(mask, 0) != keys ||
        (mask->rank == 2 && axis(mask, 1) != batch))
        return tool_fail(EXIT_FILE, "%s: is %s; it must be (%zu) or (%zu, %zu) of bool or uint8", a->mask,
                         shape_text(mask, text), keys, batch, keys);
    a->chunks.mask_of_each = mask->rank == 2;
    if (a->chunk_rows > 0)
        return EXIT_GOOD;
    a->whole_mask = malloc(batch * keys + 1);
    if (a->whole_mask == NULL)
        return tool_fail(EXIT_RESOURCE, "no memory for a mask of %zu x %zu", batch, keys);
    for (size_t s = 0; s < batch && keys > 0; s++)
        memcpy(a->whole_mask + s * keys, (uint8_t *)mask->data + (mask->rank == 2 ? s * keys : 0), keys);
    a->problem.key_mask = a->whole_mask;
    return EXIT_GOOD;
}

int attend_read_gradient(struct attend *a)
{
    int code = read_array(a, a->grad_out, &a->dout, &a->dout_reader);
    for (int i = 0; i < 4 && code == EXIT_GOOD; i++) {
        if (i == 0)
            code = agree(a->grad_out, &a->dout, a->v, &a->value, i);
        else
            code = agree(a->grad_out, &a->dout, a->q, &a->query, i);
    }
    return code;
}
