/* What all kinds of bench share.
   SPDX-License-Identifier: Apache-2.0 */
#include "cli/bench/bench.h"

#include <math.h>
#include <stdlib.h>
#include <time.h>

#include "cli/shared/tool/halves.h"

/* ---- time ---------------------------------------------------------------------------------------------- */

double bench_seconds(void)
{
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (double)time.tv_sec + (double)time.tv_nsec * 1e-9;
}

static int smaller(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

double bench_median(double *values, size_t count)
{
    if (count == 0)
        return NAN;
    qsort(values, count, sizeof *values, smaller);
    return count % 2 == 1 ? values[count / 2] : 0.5 * (values[count / 2 - 1] + values[count / 2]);
}

int bench_measure(bench_run *once, void *user, size_t repeats, size_t parts, double *median_ms,
                  size_t *measured)
{
    double times[BENCH_MOST_PARTS][BENCH_MOST_REPEATS], part_ms[BENCH_MOST_PARTS] = {0},
                                                        begun = bench_seconds();
    int code = once(user, part_ms);
    if (repeats == 0) {
        double fit = 2 / (bench_seconds() - begun);
        repeats = fit < 3 ? 3 : fit > 25 ? 25 : (size_t)fit;
    }
    for (size_t i = 0; i < repeats && code == EXIT_GOOD; i++) {
        code = once(user, part_ms);
        for (size_t part = 0; part < parts; part++)
            times[part][i] = part_ms[part];
    }
    if (code != EXIT_GOOD)
        return code;
    for (size_t part = 0; part < parts; part++)
        median_ms[part] = bench_median(times[part], repeats);
    *measured = repeats;
    return EXIT_GOOD;
}

void bench_add_repeats(struct options *options, size_t *repeats)
{
    options_add_count(options, "repeats", repeats, "N",
                      "runs; the median is reported (default: as many as fit into 2 seconds, 3 to 25)", 1,
                      BENCH_MOST_REPEATS);
}

/* ---- mechanisms and their errors --------------------------------------------------------------------- */

hashattn_status bench_new_mechanism(hashattn_context *context, const char *name,
                                    const struct options *options, hashattn_attention **attention)
{
    hashattn_status status = hashattn_attention_new(context, name, attention);
    char text[64];
    for (size_t i = 0; i < options->num_settings && status == HASHATTN_OK; i++) {
        const struct setting *setting = &options->settings[i];
        if (hashattn_attention_get(*attention, setting->name, text, sizeof text) == HASHATTN_OK)
            status = hashattn_attention_set(*attention, setting->name, setting->text);
    }
    return status;
}

static hashattn_status set_count(hashattn_setup *setup, const char *name, uint64_t count)
{
    char text[32];
    snprintf(text, sizeof text, "%llu", (unsigned long long)count);
    return hashattn_setup_set(setup, name, text);
}

hashattn_status bench_new_setup(hashattn_context *context, const char *mechanism, const size_t widths[3],
                                const struct options *options, hashattn_setup **setup)
{
    static const char *const names[] = {"dim", "heads", "ffn"};
    hashattn_task_info task = {.struct_size = sizeof task};
    hashattn_task_get(0, &task);
    char text[64];
    hashattn_status status = hashattn_setup_new(context, task.name, setup);
    if (status == HASHATTN_OK)
        status = hashattn_setup_mechanism(*setup, mechanism);
    for (int i = 0; i < 3 && status == HASHATTN_OK; i++)
        status = set_count(*setup, names[i], widths[i]);
    if (status == HASHATTN_OK)
        status = set_count(*setup, "seed", options->common.seed);
    for (size_t i = 0; i < options->num_settings && status == HASHATTN_OK; i++)
        if (hashattn_setup_get(*setup, options->settings[i].name, text, sizeof text) == HASHATTN_OK)
            status = hashattn_setup_set(*setup, options->settings[i].name, options->settings[i].text);
    return status;
}

int bench_plane_pool(hashattn_context *context, const struct options *options, size_t *plane_pool)
{
    hashattn_attention *attention = NULL;
    char text[32] = "";
    hashattn_status status = bench_new_mechanism(context, "yoso", options, &attention);
    if (status == HASHATTN_OK)
        status = hashattn_attention_get(attention, "plane_pool", text, sizeof text);
    *plane_pool = strtoull(text, NULL, 10);
    hashattn_attention_free(attention);
    return status == HASHATTN_OK ? EXIT_GOOD : tool_fail_status(context, status);
}

/* One forward pass, and one backward pass if t->backward. */
static int run_once(void *user, double *part_ms)
{
    struct bench_timed *t = user;
    const hashattn_problem *p = &t->run.problem;
    hashattn_array out = hashattn_array_of_heads(t->out, p->num_heads, p->num_queries, p->value_dim),
                   dout = hashattn_array_of_heads(t->dout, p->num_heads, p->num_queries, p->value_dim),
                   dquery = hashattn_array_of_heads(t->dquery, p->num_heads, p->num_queries, p->head_dim),
                   dkey = hashattn_array_of_heads(t->dkey, p->num_heads, p->num_keys, p->head_dim),
                   dvalue = hashattn_array_of_heads(t->dvalue, p->num_heads, p->num_keys, p->value_dim);
    hashattn_array *const all[] = {&t->run.query, &t->run.key, &t->run.value, &out,
                                   &dout,         &dquery,     &dkey,         &dvalue};
    for (size_t i = 0; p->element == HASHATTN_BF16 && i < 8; i++)
        all[i]->data = t->halves[i];
    for (size_t i = 0; t->on_device && i < 8; i++)
        all[i]->data = t->device[i];
    double start = bench_seconds();
    hashattn_status status = hashattn_attention_forward(t->attention, p, &t->run.query, &t->run.key,
                                                        &t->run.value, &out, t->saved, t->scratch);
    status = status == HASHATTN_OK ? hashattn_context_wait(t->context) : status;
    part_ms[0] = (bench_seconds() - start) * 1e3;
    start = bench_seconds();
    if (status == HASHATTN_OK && t->backward)
        status = hashattn_attention_backward(t->attention, p, &t->run.query, &t->run.key, &t->run.value, &out,
                                             &dout, &dquery, &dkey, &dvalue, t->saved, t->scratch);
    if (status == HASHATTN_OK && t->dparams != NULL)
        status = hashattn_attention_own_loss(t->attention, p, &t->run.query, &t->run.key, &t->run.value,
                                             &t->own_loss, t->dparams, t->saved, t->scratch);
    status = status == HASHATTN_OK ? hashattn_context_wait(t->context) : status;
    part_ms[1] = (bench_seconds() - start) * 1e3;
    return status == HASHATTN_OK ? EXIT_GOOD : tool_fail_status(t->context, status);
}

/* saved and scratch, and on a device copies of the arrays, given as floats. */
static int new_blocks(struct bench_timed *t, const float *const given[8], const size_t counts[8])
{
    bool half = t->run.problem.element == HASHATTN_BF16;
    if (!t->on_device) {
        t->saved = bench_block(t->saved_bytes);
        t->scratch = bench_block(t->scratch_bytes);
        return t->saved != NULL && t->scratch != NULL
                   ? EXIT_GOOD
                   : tool_fail(EXIT_RESOURCE, "no memory for %zu bytes saved and %zu bytes of scratch",
                               t->saved_bytes, t->scratch_bytes);
    }
    int code = device_block(&t->blocks, t->context, NULL, t->saved_bytes, &t->saved);
    code =
        code != EXIT_GOOD ? code : device_block(&t->blocks, t->context, NULL, t->scratch_bytes, &t->scratch);
    for (size_t i = 0; i < (t->backward ? 8u : 4u) && code == EXIT_GOOD; i++)
        code = device_block(&t->blocks, t->context, half ? (const void *)t->halves[i] : given[i],
                            counts[i] * (half ? sizeof(uint16_t) : sizeof(float)), &t->device[i]);
    return code;
}

/* Brings the output back from the device, and widens bfloat16. */
static int bring_back(struct bench_timed *t, size_t outs)
{
    bool half = t->run.problem.element == HASHATTN_BF16;
    void *stored = half ? (void *)t->halves[3] : t->out;
    hashattn_status status = HASHATTN_OK;
    if (t->on_device)
        status = hashattn_device_read(t->context, stored, t->device[3],
                                      outs * (half ? sizeof(uint16_t) : sizeof(float)));
    if (status == HASHATTN_OK && half)
        hashattn_bf16_widen(t->context, stored, t->out, outs);
    return status == HASHATTN_OK ? EXIT_GOOD : tool_fail_status(t->context, status);
}

int bench_time(struct bench_timed *t, hashattn_context *context, const struct bench_arrays *arrays,
               uint64_t seed, size_t repeats)
{
    t->context = context;
    t->run = bench_problem_of(arrays, arrays->queries, seed);
    t->run.problem.causal = t->causal;
    if (halves_wanted(context))
        t->run.problem.element = HASHATTN_BF16;
    hashattn_status status =
        hashattn_attention_sizes(t->attention, &t->run.problem, &t->saved_bytes, &t->scratch_bytes);
    if (status != HASHATTN_OK)
        return tool_fail_status(context, status);
    size_t outs = arrays->heads * arrays->queries * arrays->value_dim,
           queries = arrays->heads * arrays->queries * arrays->head_dim,
           keys = arrays->heads * arrays->keys * arrays->head_dim,
           values = arrays->heads * arrays->keys * arrays->value_dim;
    const struct {
        float **block;
        size_t count;
    } arrays_of[] = {
        {&t->out, outs}, {&t->dout, outs}, {&t->dquery, queries}, {&t->dkey, keys}, {&t->dvalue, values}};
    for (size_t i = 0; i < (t->backward ? 5u : 1u); i++)
        if ((*arrays_of[i].block = bench_block(arrays_of[i].count * sizeof(float))) == NULL)
            return tool_fail(EXIT_RESOURCE, "no memory for an array of %zu numbers", arrays_of[i].count);
    if (t->backward)
        hashattn_fill_normal(seed, 3, t->dout, outs);
    hashattn_tensor tensor = {.struct_size = sizeof tensor};
    size_t params = 0;
    for (size_t i = 0; hashattn_attention_tensor(t->attention, arrays->head_dim, arrays->value_dim,
                                                 t->run.problem.max_len, i, &tensor);
         i++)
        params += arrays->heads * tensor.rows * tensor.cols;
    if (t->backward && params > 0 && (t->dparams = bench_block(params * sizeof(float))) == NULL)
        return tool_fail(EXIT_RESOURCE, "no memory for the gradients of %zu parameters", params);
    const float *const given[8] = {arrays->query, arrays->key, arrays->value, NULL,
                                   t->dout,       NULL,        NULL,          NULL};
    const size_t counts[8] = {queries, keys, values, outs, outs, queries, keys, values};
    for (size_t i = 0; t->run.problem.element == HASHATTN_BF16 && i < (t->backward ? 8u : 4u); i++)
        if ((t->halves[i] = halves_new(context, given[i], counts[i])) == NULL)
            return tool_fail(EXIT_RESOURCE, "no memory for %zu numbers as bfloat16", counts[i]);
    double median_ms[2];
    int code = new_blocks(t, given, counts);
    code = code != EXIT_GOOD ? code : bench_measure(run_once, t, repeats, 2, median_ms, &t->measured);
    if (code == EXIT_GOOD && t->profiled) {
        double part_ms[2];
        status = hashattn_profile_start(context);
        code = status == HASHATTN_OK ? run_once(t, part_ms) : tool_fail_status(context, status);
    }
    code = code != EXIT_GOOD ? code : bring_back(t, outs);
    if (code == EXIT_GOOD) {
        t->forward_ms = median_ms[0];
        t->backward_ms = t->backward ? median_ms[1] : NAN;
    }
    return code;
}

void bench_free_timed(struct bench_timed *t)
{
    if (t->on_device) {
        device_blocks_free(&t->blocks, t->context);
        t->saved = t->scratch = NULL;
    }
    void *const blocks[] = {t->out, t->dout, t->dquery, t->dkey, t->dvalue, t->dparams, t->saved, t->scratch};
    for (size_t i = 0; i < sizeof blocks / sizeof blocks[0]; i++)
        free(blocks[i]);
    for (size_t i = 0; i < sizeof t->halves / sizeof t->halves[0]; i++)
        free(t->halves[i]);
    hashattn_attention_free(t->attention);
}

double bench_angle(const float *a, const float *b, size_t width)
{
    double aa = 0, bb = 0, near = 0, far = 0;
    for (size_t c = 0; c < width; c++) {
        aa += (double)a[c] * a[c];
        bb += (double)b[c] * b[c];
    }
    if (!(aa > 0 && bb > 0))
        return M_PI_2;
    for (size_t c = 0; c < width;
         c++) { /* from the chord of the unit vectors, which is accurate for small angles too */
        double u = a[c] / sqrt(aa), v = b[c] / sqrt(bb);
        near += (u - v) * (u - v);
        far += (u + v) * (u + v);
    }
    return 2 * atan2(sqrt(near), sqrt(far));
}
