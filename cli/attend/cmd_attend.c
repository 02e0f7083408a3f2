/* `attend`: runs any mechanism on arrays from .npy files, (n, d), (heads, n, d) or (batch, heads, n, d), with
   gradients if the gradient of the output is given. Hashing is as in evaluation: the same for every batch
   element. Under mpirun, ranks share the rows of every sequence: each reads its span of the arrays and writes
   its rows to files of its own.
   SPDX-License-Identifier: Apache-2.0 */
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "cli/attend/attend.h"
#include "cli/shared/options/arguments.h"
#include "cli/shared/output/json_out.h"
#include "cli/shared/tool/halves.h"
#include "cli/shared/tool/outputs.h"

static int read_params(struct attend *a)
{
    const hashattn_problem *p = &a->problem;
    hashattn_status status = hashattn_attention_read_params(a->attention, a->params, p->num_heads,
                                                            p->head_dim, p->value_dim, p->max_len);
    return status == HASHATTN_OK ? EXIT_GOOD : tool_fail_status(a->context, status);
}

/* The inputs of the call: the arrays that were read, or the spans of this rank. */
static int take_inputs(struct attend *a)
{
    if (attend_is_shared(a))
        return attend_ranks_read(a);
    a->inputs[0] = a->query.data, a->inputs[1] = a->key.data, a->inputs[2] = a->value.data;
    a->inputs[3] = a->dout.data;
    return EXIT_GOOD;
}

/* ---- computing ----------------------------------------------------------------------------------------- */

static double milliseconds(void)
{
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (double)time.tv_sec * 1e3 + (double)time.tv_nsec * 1e-6;
}

static void *new_block(size_t bytes)
{
    return aligned_alloc(64, bytes / 64 * 64 + 64);
}

static float *new_floats(size_t count)
{
    return count > SIZE_MAX / 8 ? NULL : new_block(count * sizeof(float));
}

/* SIZE_MAX on overflow; no allocation of that size succeeds. */
static size_t product_of(size_t a, size_t b)
{
    size_t product;
    return __builtin_mul_overflow(a, b, &product) ? SIZE_MAX : product;
}

/* Bytes of an array of the call. */
static size_t bytes_of(const hashattn_problem *p, size_t rows, size_t width)
{
    size_t count = product_of(product_of(p->num_sequences, p->num_heads), product_of(rows, width));
    return product_of(count, p->element == HASHATTN_BF16 ? sizeof(uint16_t) : sizeof(float));
}

/* The array of one argument of the call: the floats, or in bf16 a rounded copy of them, or a copy of either
   on the device. */
static int whole(struct attend *a, size_t argument, float *data, size_t rows, size_t width,
                 hashattn_array *array)
{
    const hashattn_problem *p = &a->problem;
    enum { OUT = 3, DOUT = 4 };
    bool given = argument < OUT || argument == DOUT;
    *array = hashattn_array_of_heads(data, p->num_heads, rows, width);
    if (p->element == HASHATTN_FLOAT32 && a->on_device)
        return device_block(&a->blocks, a->context, given ? data : NULL, bytes_of(p, rows, width),
                            &array->data);
    if (p->element == HASHATTN_FLOAT32)
        return EXIT_GOOD;
    size_t count = p->num_sequences * p->num_heads * rows * width;
    free(a->halves[argument]);
    array->data = a->halves[argument] = halves_new(a->context, given ? data : NULL, count);
    if (array->data == NULL)
        return tool_fail(EXIT_RESOURCE, "no memory for %zu numbers as bfloat16", count);
    return a->on_device
               ? device_block(&a->blocks, a->context, array->data, bytes_of(p, rows, width), &array->data)
               : EXIT_GOOD;
}

/* Brings results back from the device, and widens bfloat16 into the floats. */
static int bring_back(const struct attend *a, size_t argument, const hashattn_array *array, float *data,
                      size_t rows, size_t width)
{
    const hashattn_problem *p = &a->problem;
    bool half = p->element == HASHATTN_BF16;
    void *stored = half ? (void *)a->halves[argument] : data;
    hashattn_status status = HASHATTN_OK;
    if (a->on_device)
        status = hashattn_device_read(a->context, stored, array->data, bytes_of(p, rows, width));
    if (status != HASHATTN_OK)
        return tool_fail_status(a->context, status);
    if (half)
        hashattn_bf16_widen(a->context, stored, data, p->num_sequences * p->num_heads * rows * width);
    return EXIT_GOOD;
}

/* saved and scratch. */
static int new_blocks(struct attend *a)
{
    if (a->on_device) {
        int code = device_block(&a->blocks, a->context, NULL, a->saved_bytes, &a->saved);
        return code != EXIT_GOOD ? code
                                 : device_block(&a->blocks, a->context, NULL, a->scratch_bytes, &a->scratch);
    }
    a->saved = new_block(a->saved_bytes);
    a->scratch = new_block(a->scratch_bytes);
    return a->saved != NULL && a->scratch != NULL
               ? EXIT_GOOD
               : tool_fail(EXIT_RESOURCE, "no memory for %zu bytes saved and %zu bytes of scratch",
                           a->saved_bytes, a->scratch_bytes);
}

static struct attend_paths paths_of(const struct attend *a)
{
    return (struct attend_paths){a->q, a->k, a->v, a->mask, a->grad_out};
}

static int fail_data(const struct attend *a, hashattn_status status)
{
    const struct attend_paths paths = paths_of(a);
    return attend_fail_data(&paths, a->context, status);
}

/* Makes room for the gradients of what the mechanism learns. */
static int make_dparams(struct attend *a)
{
    const hashattn_problem *p = &a->problem;
    hashattn_tensor tensor = {.struct_size = sizeof tensor};
    size_t count = 0;
    for (size_t i = 0;
         hashattn_attention_tensor(a->attention, p->head_dim, p->value_dim, p->max_len, i, &tensor); i++)
        count += tensor.rows * tensor.cols;
    if (count == 0)
        return EXIT_GOOD;
    a->dparams = new_floats(product_of(p->num_heads, count));
    return a->dparams != NULL
               ? EXIT_GOOD
               : tool_fail(EXIT_RESOURCE, "no memory for gradients of %zu x %zu learned numbers",
                           p->num_heads, count);
}

static int compute(struct attend *a)
{
    const hashattn_problem *p = &a->problem;
    a->problem.element = halves_wanted(a->context) ? HASHATTN_BF16 : HASHATTN_FLOAT32;
    hashattn_status status = hashattn_attention_sizes(a->attention, p, &a->saved_bytes, &a->scratch_bytes);
    if (status != HASHATTN_OK)
        return tool_fail_status(a->context, status);
    size_t rows = product_of(product_of(p->num_sequences, p->num_heads), p->num_queries);
    size_t outputs = product_of(rows, p->value_dim);
    a->output = new_floats(outputs);
    if (a->output == NULL)
        return tool_fail(EXIT_RESOURCE, "no memory for an output of %zu numbers", outputs);
    size_t n_q = p->num_queries, n_k = p->num_keys, d = p->head_dim, d_v = p->value_dim;
    hashattn_array query, key, value, out, dout, dquery, dkey, dvalue;
    int code = new_blocks(a);
    code = code != EXIT_GOOD ? code : whole(a, 0, a->inputs[0], n_q, d, &query);
    code = code != EXIT_GOOD ? code : whole(a, 1, a->inputs[1], n_k, d, &key);
    code = code != EXIT_GOOD ? code : whole(a, 2, a->inputs[2], n_k, d_v, &value);
    code = code != EXIT_GOOD ? code : whole(a, 3, a->output, n_q, d_v, &out);
    if (code != EXIT_GOOD)
        return code;
    double start = milliseconds();
    status = hashattn_attention_forward(a->attention, p, &query, &key, &value, &out, a->saved, a->scratch);
    status = status == HASHATTN_OK ? hashattn_context_wait(a->context) : status;
    a->forward_ms = milliseconds() - start;
    if (status != HASHATTN_OK)
        return fail_data(a, status);
    code = bring_back(a, 3, &out, a->output, n_q, d_v);
    if (code != EXIT_GOOD || a->grad_out == NULL)
        return code;
    size_t all = product_of(p->num_sequences, p->num_heads);
    a->dquery = new_floats(product_of(all, product_of(n_q, d)));
    a->dkey = new_floats(product_of(all, product_of(n_k, d)));
    a->dvalue = new_floats(product_of(all, product_of(n_k, d_v)));
    if (a->dquery == NULL || a->dkey == NULL || a->dvalue == NULL)
        return tool_fail(EXIT_RESOURCE, "no memory for the gradients, as large as q, k and v");
    code = make_dparams(a);
    code = code != EXIT_GOOD ? code : whole(a, 4, a->inputs[3], n_q, d_v, &dout);
    code = code != EXIT_GOOD ? code : whole(a, 5, a->dquery, n_q, d, &dquery);
    code = code != EXIT_GOOD ? code : whole(a, 6, a->dkey, n_k, d, &dkey);
    code = code != EXIT_GOOD ? code : whole(a, 7, a->dvalue, n_k, d_v, &dvalue);
    if (code != EXIT_GOOD)
        return code;
    start = milliseconds();
    status = hashattn_attention_backward_params(a->attention, p, &query, &key, &value, &out, &dout, &dquery,
                                                &dkey, &dvalue, a->dparams, a->saved, a->scratch);
    status = status == HASHATTN_OK ? hashattn_context_wait(a->context) : status;
    a->backward_ms = milliseconds() - start;
    if (status != HASHATTN_OK)
        return fail_data(a, status);
    code = bring_back(a, 5, &dquery, a->dquery, n_q, d);
    code = code != EXIT_GOOD ? code : bring_back(a, 6, &dkey, a->dkey, n_k, d);
    return code != EXIT_GOOD ? code : bring_back(a, 7, &dvalue, a->dvalue, n_k, d_v);
}

/* --chunk, but no more than the longer of queries and keys, and at least 1, as a stream needs. */
static size_t rows_of_chunk(const struct attend *a)
{
    size_t queries = a->problem.num_queries, keys = a->problem.num_keys;
    size_t longest = queries > keys ? queries : keys;
    return a->chunk_rows < longest ? a->chunk_rows : longest > 0 ? longest : 1;
}

static int compute_in_chunks(struct attend *a)
{
    const hashattn_problem *p = &a->problem;
    if (p->causal && p->num_queries != p->num_keys)
        return tool_fail(EXIT_USAGE, "%s has %zu rows and %s has %zu; --causal needs equal numbers", a->q,
                         p->num_queries, a->k, p->num_keys);
    size_t shape[4];
    memcpy(shape, a->query.shape, sizeof shape);
    shape[a->query.rank - 1] = p->value_dim;
    hashattn_status status = hashattn_npy_begin(a->files, a->out, a->query.rank, shape, &a->chunks.out);
    if (status != HASHATTN_OK)
        return tool_fail_status(a->files, status);
    a->chunks.context = a->context;
    a->chunks.files = a->files;
    a->chunks.attention = a->attention;
    a->chunks.problem = p;
    a->chunks.paths = paths_of(a);
    a->chunks.chunk_rows = rows_of_chunk(a);
    double start = milliseconds();
    int code = attend_in_chunks(&a->chunks);
    a->forward_ms = milliseconds() - start;
    a->scratch_bytes = a->chunks.stream_bytes;
    if (code != EXIT_GOOD)
        return code;
    status = hashattn_npy_commit(a->chunks.out);
    a->chunks.out = NULL;
    return status == HASHATTN_OK ? EXIT_GOOD : tool_fail_status(a->files, status);
}

static int report(const struct attend *a, const struct options *options)
{
    if (!options->common.json)
        return EXIT_GOOD;
    hashattn_description is = {.struct_size = sizeof is};
    hashattn_context_describe(a->context, &is);
    /* If the output goes to stdout, the JSON goes to stderr. */
    struct json_out json = json_out_to(strcmp(a->out, "-") == 0 ? stderr : stdout);
    json_out_object(&json, NULL);
    json_out_text(&json, "attention", a->mechanism);
    json_out_count(&json, "batch", a->problem.num_sequences);
    json_out_count(&json, "heads", a->problem.num_heads);
    json_out_count(&json, "queries", attend_is_shared(a) ? a->total_rows : a->problem.num_queries);
    json_out_count(&json, "keys", attend_is_shared(a) ? a->total_rows : a->problem.num_keys);
    json_out_count(&json, "saved_bytes", a->saved_bytes);
    json_out_count(&json, "scratch_bytes", a->scratch_bytes);
    json_out_count(&json, "peak_rss_bytes", hashattn_peak_resident_bytes());
    json_out_number(&json, "forward_ms", a->forward_ms);
    if (a->grad_out != NULL)
        json_out_number(&json, "backward_ms", a->backward_ms);
    json_out_text(&json, "isa", is.isa);
    json_out_text(&json, "precision", is.precision);
    json_out_count(&json, "threads", (uint64_t)is.threads);
    if (a->on_device)
        json_out_text(&json, "device", options->common.device);
    json_out_end_object(&json);
    return tool_finish();
}

/* ---- the command --------------------------------------------------------------------------------------- */

static int open_mechanism(struct attend *a, const struct options *options)
{
    struct common for_files = options->common;
    for_files.threads = 1;
    for_files.joins = false;
    for_files.device = NULL;
    a->on_device = device_wanted(&options->common);
    int code = tool_open(&options->common, &a->context);
    code = code != EXIT_GOOD ? code : tool_open(&for_files, &a->files);
    if (code != EXIT_GOOD)
        return code;
    hashattn_description is = {.struct_size = sizeof is};
    hashattn_context_describe(a->context, &is);
    a->rank = is.rank;
    a->ranks = is.ranks;
    code = attend_is_shared(a) ? attend_ranks_refuse(a) : EXIT_GOOD;
    if (code != EXIT_GOOD)
        return code;
    hashattn_status status = options_mechanism(options, a->context, a->mechanism, &a->attention);
    return status == HASHATTN_OK ? EXIT_GOOD : tool_fail_status(a->context, status);
}

static void close_all(struct attend *a)
{
    if (a->on_device) {
        device_blocks_free(&a->blocks, a->context);
        a->saved = a->scratch = NULL;
    }
    void *const blocks[] = {a->saved, a->scratch, a->output,  a->dquery,
                            a->dkey,  a->dvalue,  a->dparams, a->whole_mask};
    for (size_t i = 0; i < sizeof blocks / sizeof blocks[0]; i++)
        free(blocks[i]);
    for (size_t i = 0; i < sizeof a->halves / sizeof a->halves[0]; i++)
        free(a->halves[i]);
    for (size_t i = 0; i < 4 && attend_is_shared(a); i++)
        free(a->inputs[i]);
    hashattn_npy *const arrays[] = {&a->query, &a->key, &a->value, &a->key_mask, &a->dout};
    for (size_t i = 0; i < sizeof arrays / sizeof arrays[0]; i++)
        hashattn_npy_free(a->files, arrays[i]);
    hashattn_npy_reader *const readers[] = {a->chunks.query, a->chunks.key, a->chunks.value, a->chunks.mask,
                                            a->dout_reader};
    for (size_t i = 0; i < sizeof readers / sizeof readers[0]; i++)
        hashattn_npy_close(readers[i]);
    hashattn_npy_drop(a->chunks.out);
    hashattn_attention_free(a->attention);
    tool_close(a->files);
    tool_close(a->context);
}

/* Standard input can be read once, from its beginning to its end. */
static int check_standard_input(const struct attend *a, const struct options *options)
{
    const struct {
        const char *name, *text;
    } inputs[] = {{"q", a->q},       {"k", a->k},           {"v", a->v},
                  {"mask", a->mask}, {"params", a->params}, {"grad-out", a->grad_out}};
    const char *first = NULL;
    for (size_t i = 0; i < sizeof inputs / sizeof inputs[0]; i++) {
        if (inputs[i].text == NULL || strcmp(inputs[i].text, "-") != 0)
            continue;
        if (a->chunk_rows > 0)
            return options_fail(options, "--chunk needs files, but --%s is -, standard input",
                                inputs[i].name);
        if (first != NULL)
            return options_fail(options, "--%s and --%s are both -, standard input", first, inputs[i].name);
        first = inputs[i].name;
    }
    return EXIT_GOOD;
}

static int check_usage(const struct attend *a, const struct options *options)
{
    const struct {
        const char *name, *text;
    } needed[] = {{"q", a->q}, {"k", a->k}, {"v", a->v}, {"out", a->out}};
    if (options->num_operands > 0)
        return options_fail(options, "attend takes no operand, got '%.60s'", options->operands[0]);
    for (size_t i = 0; i < sizeof needed / sizeof needed[0]; i++)
        if (needed[i].text == NULL)
            return options_fail(options, "attend needs --%s FILE", needed[i].name);
    if ((a->grad_out == NULL) != (a->grad_dir == NULL))
        return options_fail(options, "--grad-out and --grad-dir must be given together");
    if (a->chunk_rows > 0 && a->grad_out != NULL)
        return options_fail(options, "--chunk computes no gradients, but --grad-out is given");
    if (a->chunk_rows > 0 && device_wanted(&options->common))
        return options_fail(options, "--chunk computes on the processor, but --device is %.40s",
                            options->common.device);
    if (a->chunk_rows > 0 && options->common.precision != NULL &&
        strcmp(options->common.precision, "bf16") == 0)
        return options_fail(options, "--chunk computes on float32 arrays, but --precision is bf16");
    return check_standard_input(a, options);
}

/* Is the output none of the inputs? Of several ranks each has files of its own. */
static int check_output(const struct attend *a, const char *option, const char *path, const char *suffix)
{
    const char *const inputs[] = {a->q, a->k, a->v, a->mask, a->params, a->grad_out};
    char own[ATTEND_PATH];
    int code = attend_is_shared(a) ? attend_ranks_path(a, path, suffix, own) : EXIT_GOOD;
    return code != EXIT_GOOD ? code
                             : outputs_check_inputs(option, attend_is_shared(a) ? own : path, inputs,
                                                    sizeof inputs / sizeof inputs[0]);
}

static int check_outputs(const struct attend *a)
{
    static const char *const made[][2] = {
        {"dq", ".npy"}, {"dk", ".npy"}, {"dv", ".npy"}, {"dparams", ".safetensors"}};
    int code = check_output(a, "out", a->out, ".npy");
    code = code != EXIT_GOOD ? code : outputs_check_file(a->out);
    for (size_t i = 0; a->grad_dir != NULL && i < 4 && code == EXIT_GOOD; i++) {
        char path[ATTEND_PATH]; /* a longer one is no file */
        if (snprintf(path, sizeof path, "%s/%s%s", a->grad_dir, made[i][0], made[i][1]) >= (int)sizeof path)
            continue;
        code = check_output(a, "grad-dir", path, made[i][1]);
        if (code == EXIT_GOOD)
            code = outputs_check_two("grad-dir", path, "out", a->out);
    }
    return code != EXIT_GOOD || a->grad_dir == NULL ? code : outputs_check_directory(a->grad_dir);
}

static int run(const struct command *self, int argc, char **argv)
{
    struct attend a = {.mechanism = "yoso"};
    struct options options;
    hashattn_problem_default(&a.problem);
    options_begin(&options, self);
    options_add_text(&options, "attention", &a.mechanism, "NAME", "mechanism, see info (default yoso)");
    options_add_text(&options, "q", &a.q, "Q.npy",
                     "queries, float32 (n, d), (heads, n, d) or (batch, heads, n, d)");
    options_add_text(&options, "k", &a.k, "K.npy", "keys, with the same number of axes");
    options_add_text(&options, "v", &a.v, "V.npy", "values, one row per key");
    options_add_text(&options, "mask", &a.mask, "M.npy",
                     "key mask, bool or uint8, (n_k) or (batch, n_k): 1 = the key takes part");
    options_add_text(
        &options, "params", &a.params, "P.safetensors",
        "learned parameters of the mechanism, each (heads, rows, cols); info --attention NAME with the same "
        "options and --head-dim lists them (default: drawn from the seed)");
    options_add_switch(&options, "causal", &a.causal, "query i sees keys 0 to i");
    options_add_count(
        &options, "chunk", &a.chunk_rows, "N",
        "read the arrays N rows at a time, so that memory does not depend on n; for mechanisms with a state "
        "of constant size, such as yoso",
        1, 1e9);
    options_add_text(&options, "out", &a.out, "Y.npy",
                     "output file; - for stdout; under mpirun, rank R writes its rows to Y.R.npy");
    options_add_text(&options, "grad-out", &a.grad_out, "G.npy",
                     "gradient with respect to the output, with its shape");
    options_add_text(&options, "grad-dir", &a.grad_dir, "DIR",
                     "directory for dq.npy, dk.npy and dv.npy, the gradients with respect to q, k and v, and "
                     "dparams.safetensors, those of the mechanism's learned parameters, if it has any, named "
                     "and shaped as --params; under mpirun, rank R writes its part to dparams.R.safetensors");
    options_add_device(&options);
    options_add_ranks(&options);
    options_add_mechanisms(&options);
    int code;
    if (!options_parse(&options, argc, argv, &code))
        return code;
    a.problem.seed = options.common.seed;
    code = check_usage(&a, &options);
    code = code != EXIT_GOOD ? code : open_mechanism(&a, &options);
    code = code != EXIT_GOOD ? code : check_outputs(&a);
    code = code != EXIT_GOOD ? code : attend_read_arrays(&a);
    if (a.mask != NULL)
        code = code != EXIT_GOOD ? code : attend_read_mask(&a);
    if (a.params != NULL)
        code = code != EXIT_GOOD ? code : read_params(&a);
    if (a.grad_out != NULL)
        code = code != EXIT_GOOD ? code : attend_read_gradient(&a);
    if (code == EXIT_GOOD && a.chunk_rows > 0) {
        code = compute_in_chunks(&a);
    } else {
        code = code != EXIT_GOOD ? code : take_inputs(&a);
        code = code != EXIT_GOOD ? code : compute(&a);
        code = code != EXIT_GOOD ? code : attend_write_arrays(&a);
    }
    code = code != EXIT_GOOD ? code : report(&a, &options);
    close_all(&a);
    return code;
}

const struct command command_attend = {
    .name = "attend",
    .operands = "",
    .summary = "Runs a mechanism on arrays from .npy files, optionally with gradients",
    .example =
        "  python3 -c 'import numpy as np; [np.save(x, np.random.randn(12, 4096, 64).astype(\"f\")) "
        "for x in \"qkv\"]'\n"
        "  hashattn attend --attention yoso --q q.npy --k k.npy --v v.npy --num-hashes 64 --out y.npy\n"
        "  hashattn attend --chunk 65536 --q q.npy --k k.npy --v v.npy --out y.npy\n",
    .run = run,
};
