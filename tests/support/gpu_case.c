/* Inputs are determined by the seed; arrays are (rows, heads, width), or padded (sequences, longest, heads,
   width).
   SPDX-License-Identifier: Apache-2.0 */
#include "support/gpu_case.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum { QUERY, KEY, VALUE, OUT, DOUT, DQUERY, DKEY, DVALUE, ARRAYS };

struct arrays {
    size_t count[ARRAYS];
    float *host[ARRAYS];
    void *data[ARRAYS]; /* what the operator gets */
    hashattn_array array[ARRAYS];
};

static size_t bytes_of(const struct gpu_case *of, size_t count)
{
    return count * (of->half ? sizeof(uint16_t) : sizeof(float));
}

static size_t longest_of(const size_t *offsets, size_t sequences)
{
    size_t longest = 0;
    for (size_t s = 0; s < sequences; s++)
        if (offsets[s + 1] - offsets[s] > longest)
            longest = offsets[s + 1] - offsets[s];
    return longest;
}

/* Rows that one sequence takes, if all take the same; with offsets of packed rows, all rows. */
static size_t rows_of(const struct gpu_case *of, bool keys)
{
    const size_t *offsets = keys ? of->key_offsets : of->query_offsets;
    if (offsets == NULL)
        return keys ? of->keys : of->queries;
    return of->padded ? longest_of(offsets, of->sequences) : offsets[of->sequences];
}

static void fill(const struct gpu_case *of, float *rows, size_t count, size_t width, uint64_t seed,
                 int argument)
{
    hashattn_fill_normal(seed, (uint64_t)argument, rows, count);
    if (argument != QUERY && argument != KEY)
        return;
    float *shared = malloc((2 * width + 1) * sizeof *shared);
    hashattn_fill_normal(seed, 100, shared, 2 * width);
    for (size_t i = 0; i < count; i++) {
        size_t row = i / width;
        if (of->inputs == GPU_INPUTS_CLUSTERED)
            rows[i] = 0.7071f * rows[i] + 0.7071f * shared[i % width];
        else if (of->inputs == GPU_INPUTS_EQUAL)
            rows[i] = shared[i % width] + (argument == KEY ? 0.3f * shared[width + i % width] : 0.0f);
        else if (of->inputs == GPU_INPUTS_EDGES)
            rows[i] *= row % 5 == 1 ? 0.0f : row % 5 == 2 ? 1e-20f : row % 5 == 3 ? 1e18f : 1.0f;
    }
    free(shared);
}

static void new_arrays(const struct gpu_case *of, hashattn_context *context, bool device, uint64_t seed,
                       struct arrays *all)
{
    for (int a = 0; a < ARRAYS; a++) {
        bool keys = a == KEY || a == VALUE || a == DKEY || a == DVALUE;
        size_t rows = rows_of(of, keys);
        size_t width = a == QUERY || a == KEY || a == DQUERY || a == DKEY ? of->dim : of->value_dim;
        bool packed = of->query_offsets != NULL && !of->padded;
        all->count[a] = (packed ? 1 : of->sequences) * rows * of->heads * width;
        all->host[a] = calloc(all->count[a] + 1, sizeof(float));
        fill(of, all->host[a], all->count[a], width, seed, a);
        size_t bytes = bytes_of(of, all->count[a]);
        void *stored = aligned_alloc(64, bytes / 64 * 64 + 64);
        if (of->half)
            hashattn_bf16_round(context, all->host[a], stored, all->count[a]);
        else
            memcpy(stored, all->host[a], bytes);
        all->data[a] = stored;
        if (device) {
            assert_int_equal(hashattn_device_allocate(context, bytes + 1, &all->data[a]), HASHATTN_OK);
            assert_int_equal(hashattn_device_write(context, all->data[a], stored, bytes), HASHATTN_OK);
            free(stored);
        }
        all->array[a] = hashattn_array_of_rows(all->data[a], of->heads, rows, width);
    }
}

/* Brings an array back as floats. */
static void bring_back(const struct gpu_case *of, hashattn_context *context, bool device,
                       const struct arrays *all, int a, float **rows, size_t *count)
{
    size_t bytes = bytes_of(of, all->count[a]);
    void *stored = malloc(bytes + 1);
    *rows = malloc((all->count[a] + 1) * sizeof(float));
    *count = all->count[a];
    if (device)
        assert_int_equal(hashattn_device_read(context, stored, all->data[a], bytes), HASHATTN_OK);
    else
        memcpy(stored, all->data[a], bytes);
    if (of->half)
        hashattn_bf16_widen(context, stored, *rows, all->count[a]);
    else
        memcpy(*rows, stored, bytes);
    free(stored);
}

static uint8_t *new_mask(const struct gpu_case *of, const size_t *offsets)
{
    size_t keys = offsets != NULL ? offsets[of->sequences] : of->sequences * of->keys;
    size_t of_first = offsets != NULL ? offsets[1] : of->keys;
    uint8_t *mask = malloc(keys + 1);
    for (size_t j = 0; j < keys; j++)
        mask[j] = of->mask == GPU_MASK_ALL_OF_FIRST && j < of_first ? 0 : j % 3 != 1;
    return mask;
}

hashattn_context *gpu_context(const char *device)
{
    hashattn_context_options options;
    hashattn_context_options_default(&options);
    options.device = device;
    options.threads = 1;
    char message[600] = "";
    hashattn_context *context;
    if (hashattn_context_new(&options, message, sizeof message, &context) != HASHATTN_OK)
        fail_msg("%s", message);
    return context;
}

hashattn_attention *gpu_attention(hashattn_context *context, const char *options)
{
    hashattn_attention *attention;
    char text[400], *at = text;
    assert_int_equal(hashattn_attention_new(context, "yoso", &attention), HASHATTN_OK);
    assert_int_equal(hashattn_attention_set(attention, "projection", "int16-dp"), HASHATTN_OK);
    snprintf(text, sizeof text, "%s", options);
    for (char *word; (word = strtok_r(at, " ", &at)) != NULL;) {
        char *value = strchr(word, '=');
        *value = '\0';
        if (hashattn_attention_set(attention, word, value + 1) != HASHATTN_OK)
            fail_msg("%s", hashattn_context_message(context));
    }
    return attention;
}

static void check(hashattn_context *context, const char *name, hashattn_status status)
{
    if (status != HASHATTN_OK)
        fail_msg("%s: %s", name, hashattn_context_message(context));
}

struct gpu_result gpu_case_run(const struct gpu_case *of, const char *device, uint64_t seed, bool backward)
{
    /* The driver's context ends with its last user, and a GPU takes long to make one: this one stays. */
    static hashattn_context *kept;
    if (device != NULL && kept == NULL)
        kept = gpu_context(device);
    hashattn_context *context = gpu_context(device);
    hashattn_attention *attention = gpu_attention(context, of->options);
    struct arrays all;
    new_arrays(of, context, device != NULL, seed, &all);
    hashattn_problem p;
    hashattn_problem_default(&p);
    uint64_t ids[64];
    for (size_t s = 0; s < 64; s++)
        ids[s] = 1000 + s;
    p.num_sequences = of->sequences, p.num_heads = of->heads;
    p.num_queries = of->queries, p.num_keys = of->keys;
    p.head_dim = of->dim, p.value_dim = of->value_dim;
    p.query_offsets = of->query_offsets, p.key_offsets = of->key_offsets;
    p.padded = of->padded, p.causal = of->causal, p.seed = seed;
    p.element = of->half ? HASHATTN_BF16 : HASHATTN_FLOAT32;
    p.sample_ids = of->apart ? ids : NULL;
    uint8_t *mask = of->mask == GPU_MASK_NONE ? NULL : new_mask(of, of->key_offsets);
    p.key_mask = mask;
    size_t saved_bytes, scratch_bytes;
    check(context, of->name, hashattn_attention_sizes(attention, &p, &saved_bytes, &scratch_bytes));
    void *saved = NULL;
    if (saved_bytes > 0 && device != NULL)
        check(context, of->name, hashattn_device_allocate(context, saved_bytes, &saved));
    else if (saved_bytes > 0)
        saved = aligned_alloc(64, saved_bytes / 64 * 64 + 64);
    const hashattn_array *a = all.array;
    check(context, of->name,
          hashattn_attention_forward(attention, &p, &a[QUERY], &a[KEY], &a[VALUE], &a[OUT], saved, NULL));
    if (backward)
        check(context, of->name,
              hashattn_attention_backward(attention, &p, &a[QUERY], &a[KEY], &a[VALUE], &a[OUT], &a[DOUT],
                                          &a[DQUERY], &a[DKEY], &a[DVALUE], saved, NULL));
    check(context, of->name, hashattn_context_wait(context));
    static const int results[GPU_RESULTS] = {OUT, DQUERY, DKEY, DVALUE};
    struct gpu_result result = {.rows = {NULL}};
    for (int r = 0; r < (backward ? GPU_RESULTS : 1); r++)
        bring_back(of, context, device != NULL, &all, results[r], &result.rows[r], &result.count[r]);
    for (int i = 0; i < ARRAYS; i++) {
        free(all.host[i]);
        if (device != NULL)
            hashattn_device_release(context, all.data[i]);
        else
            free(all.data[i]);
    }
    if (device != NULL)
        hashattn_device_release(context, saved);
    else
        free(saved);
    free(mask);
    hashattn_attention_free(attention);
    hashattn_context_free(context);
    return result;
}

void gpu_result_free(struct gpu_result *result)
{
    for (int r = 0; r < GPU_RESULTS; r++)
        free(result->rows[r]);
}

double gpu_error(const float *got, const float *want, size_t count)
{
    double largest = 0, differs = 0;
    for (size_t i = 0; i < count; i++) {
        largest = fmax(largest, fabs((double)want[i]));
        double d = fabs((double)got[i] - (double)want[i]);
        differs = isfinite(d) ? fmax(differs, d) : INFINITY;
    }
    return largest > 0 ? differs / largest : differs;
}
