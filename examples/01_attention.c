/* The operator: one forward and one backward pass of attention by hashing on our own arrays.
     cc 01_attention.c $(pkg-config --cflags --libs hashattn) -o attention && ./attention
   SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>
#include <stdlib.h>

#include <hashattn/attention.h>

enum { HEADS = 4, ROWS = 2048, WIDTH = 64, COUNT = HEADS * ROWS * WIDTH };

static void *block(size_t bytes)
{
    return aligned_alloc(64, (bytes + 63) / 64 * 64 + 64);
}

static int fail(const hashattn_context *context, hashattn_status status)
{
    fprintf(stderr, "%s: %s\n", hashattn_status_text(status), hashattn_context_message(context));
    return 1;
}

int main(void)
{
    /* A context has the threads, the instruction set and the message of the last failure. */
    hashattn_context *context;
    char message[512];
    if (hashattn_context_new(NULL, message, sizeof message, &context) != HASHATTN_OK) {
        fprintf(stderr, "%s\n", message);
        return 1;
    }

    /* A mechanism, by name, with its options, by name. `hashattn info --attention yoso` lists them. */
    hashattn_attention *attention;
    hashattn_status status = hashattn_attention_new(context, "yoso", &attention);
    if (status == HASHATTN_OK)
        status = hashattn_attention_set(attention, "num_hashes", "64");

    /* The problem: shapes, masks and the seed, but no data. */
    hashattn_problem problem;
    hashattn_problem_default(&problem);
    problem.num_heads = HEADS;
    problem.num_queries = problem.num_keys = ROWS;
    problem.head_dim = problem.value_dim = WIDTH;
    problem.seed = 1;

    /* The caller provides the memory, so it can be reused from call to call. */
    size_t saved_bytes, scratch_bytes;
    if (status == HASHATTN_OK)
        status = hashattn_attention_sizes(attention, &problem, &saved_bytes, &scratch_bytes);
    if (status != HASHATTN_OK)
        return fail(context, status);
    void *saved = block(saved_bytes), *scratch = block(scratch_bytes);

    /* Our arrays are (heads, rows, width). Any strides are allowed: see hashattn_array. */
    enum { QUERY, KEY, VALUE, OUT, DOUT, DQUERY, DKEY, DVALUE, NUM_ARRAYS };
    hashattn_array a[NUM_ARRAYS];
    for (int i = 0; i < NUM_ARRAYS; i++)
        a[i] = hashattn_array_of_heads(block(COUNT * sizeof(float)), HEADS, ROWS, WIDTH);
    for (int i = QUERY; i <= DOUT; i++)
        hashattn_fill_normal(1, (uint64_t)i, a[i].data, COUNT);

    status = hashattn_attention_forward(attention, &problem, &a[QUERY], &a[KEY], &a[VALUE], &a[OUT], saved,
                                        scratch);
    if (status == HASHATTN_OK)
        status = hashattn_attention_backward(attention, &problem, &a[QUERY], &a[KEY], &a[VALUE], &a[OUT],
                                             &a[DOUT], &a[DQUERY], &a[DKEY], &a[DVALUE], saved, scratch);
    if (status != HASHATTN_OK)
        return fail(context, status);

    double sum = 0, gradient = 0;
    const float *out = a[OUT].data, *dquery = a[DQUERY].data;
    for (int i = 0; i < COUNT; i++) {
        sum += (double)out[i] * out[i];
        gradient += (double)dquery[i] * dquery[i];
    }
    printf("%d rows of %d heads: mean square of the output %.4f, of the gradient of queries %.3g\n", ROWS,
           HEADS, sum / COUNT, gradient / COUNT);
    printf("kept for backward: %.1f KiB a head; an n x n matrix would be %.1f KiB\n",
           (double)saved_bytes / HEADS / 1024, (double)ROWS * ROWS * sizeof(float) / 1024);

    for (int i = 0; i < NUM_ARRAYS; i++)
        free(a[i].data);
    free(saved);
    free(scratch);
    hashattn_attention_free(attention);
    hashattn_context_free(context);
    return 0;
}
