/* The operator at the border: a problem and its arrays are checked, every number with its limit in the
   message, turned into offsets and handed down in one call. NaN and infinity are looked for by forward itself
   where its mechanism checks rows while it reads them, else in one pass over every input, on the pool, at the
   speed of memory: 0.7 ms for 12 heads of 4,096 x 64. Equal lengths become offsets that lie at the head of
   the scratch block. SPDX-License-Identifier: Apache-2.0 */
#include <math.h>
#include <stdatomic.h>
#include <string.h>

#include "api/handles.h"
#include "api/own_params.h"
#include "api/versions.h"
#include "base/memory.h"
#include "base/random.h"
#include "parts/elements.h"

hashattn_array hashattn_array_of_heads(void *data, size_t heads, size_t rows, size_t width)
{
    return (hashattn_array){data, heads * rows * width, width, rows * width};
}

hashattn_array hashattn_array_of_rows(void *data, size_t heads, size_t rows, size_t width)
{
    return (hashattn_array){data, rows * heads * width, heads * width, width};
}

void hashattn_bf16_round(const hashattn_context *context, const float *from, uint16_t *to, size_t count)
{
    context->kernels->bf16_round(to, count, from, count, 1, count);
}

void hashattn_bf16_widen(const hashattn_context *context, const uint16_t *from, float *to, size_t count)
{
    context->kernels->bf16_widen(to, count, from, count, 1, count);
}

void hashattn_problem_default(hashattn_problem *problem)
{
    memset(problem, 0, sizeof *problem);
    problem->struct_size = sizeof *problem;
    problem->num_sequences = problem->num_heads = 1;
}

/* ---- from a problem to a call ------------------------------------------------------------------------ */

/* The largest product of sizes that is still a number of rows or elements. */
static const size_t most = SIZE_MAX / 64;

static hashattn_status check_offsets(struct host *host, const char *what, const size_t *offsets, size_t count)
{
    FAIL_IF(offsets[0] != 0, host, HASHATTN_INVALID, "%s[0] is %zu, it must be 0", what, offsets[0]);
    for (size_t s = 0; s < count; s++)
        FAIL_IF(offsets[s + 1] < offsets[s], host, HASHATTN_INVALID,
                "%s[%zu] is %zu, below %s[%zu] which is %zu", what, s + 1, offsets[s + 1], what, s,
                offsets[s]);
    FAIL_IF(offsets[count] > most, host, HASHATTN_INVALID, "%s end at %zu, too many rows", what,
            offsets[count]);
    return HASHATTN_OK;
}

static hashattn_status check_problem(struct host *host, const hashattn_problem *p)
{
    FAIL_IF(p->element != HASHATTN_FLOAT32 && p->element != HASHATTN_BF16, host, HASHATTN_INVALID,
            "element is %d, allowed are HASHATTN_FLOAT32 and HASHATTN_BF16", (int)p->element);
    FAIL_IF(p->num_heads == 0, host, HASHATTN_INVALID, "num_heads is 0, at least 1 is needed");
    FAIL_IF(p->head_dim == 0, host, HASHATTN_INVALID, "head_dim is 0, at least 1 is needed");
    FAIL_IF(p->value_dim == 0, host, HASHATTN_INVALID, "value_dim is 0, at least 1 is needed");
    FAIL_IF((p->query_offsets == NULL) != (p->key_offsets == NULL), host, HASHATTN_INVALID,
            "query_offsets and key_offsets are given together or not at all");
    FAIL_IF(p->num_sequences > most, host, HASHATTN_INVALID, "num_sequences is %zu, too many",
            p->num_sequences);
    if (p->query_offsets != NULL) {
        TRY(check_offsets(host, "query_offsets", p->query_offsets, p->num_sequences));
        TRY(check_offsets(host, "key_offsets", p->key_offsets, p->num_sequences));
    } else {
        FAIL_IF(size_product(p->num_sequences, p->num_queries) > most, host, HASHATTN_INVALID,
                "%zu sequences of %zu queries are too many rows", p->num_sequences, p->num_queries);
        FAIL_IF(size_product(p->num_sequences, p->num_keys) > most, host, HASHATTN_INVALID,
                "%zu sequences of %zu keys are too many rows", p->num_sequences, p->num_keys);
    }
    return HASHATTN_OK;
}

/* The two arrays of offsets that equal lengths need, at the head of the scratch block. */
struct made_offsets {
    size_t *query, *key;
    size_t bytes;
};

static struct made_offsets make_offsets(const hashattn_problem *p, void *block)
{
    struct made_offsets made = {NULL, NULL, 0};
    if (p->query_offsets != NULL)
        return made;
    struct arena arena = arena_on(block);
    made.query = arena_take(&arena, p->num_sequences + 1, sizeof *made.query);
    made.key = arena_take(&arena, p->num_sequences + 1, sizeof *made.key);
    made.bytes = arena.used;
    for (size_t s = 0; block != NULL && s <= p->num_sequences; s++) {
        made.query[s] = s * p->num_queries;
        made.key[s] = s * p->num_keys;
    }
    return made;
}

/* The call with contiguous arrays of no data: all that sizes and refusals depend on. */
static hashattn_status describe(hashattn_attention *attention, const hashattn_problem *p,
                                const struct made_offsets *made, struct attention_call *call)
{
    TRY(own_params_for(attention, p));
    *call = (struct attention_call){
        .kernels = attention->context->kernels,
        .pool = attention->context->pool,
        .mechanism = attention->mechanism,
        .options = attention->options,
        .num_sequences = p->num_sequences,
        .num_heads = p->num_heads,
        .head_dim = p->head_dim,
        .value_dim = p->value_dim,
        .query_offsets = p->query_offsets != NULL ? p->query_offsets : made->query,
        .key_offsets = p->key_offsets != NULL ? p->key_offsets : made->key,
        .dtype = p->element == HASHATTN_BF16 ? DTYPE_BFLOAT16 : DTYPE_FLOAT32,
        .precision = attention->context->precision,
        .query = {.width = p->head_dim, .row_stride = p->head_dim},
        .key = {.width = p->head_dim, .row_stride = p->head_dim},
        .value = {.width = p->value_dim, .row_stride = p->value_dim},
        .key_mask = p->key_mask,
        .causal = p->causal != 0,
        .call_key = random_key(p->seed, RANDOM_EVALUATION, 0),
        .sample_ids = p->sample_ids,
        .params = attention->params,
    };
    return attention_check(&attention->context->host, call);
}

static hashattn_status measure(struct host *host, const struct attention_call *call, size_t offsets_bytes,
                               size_t *saved_bytes, size_t *scratch_bytes)
{
    *saved_bytes = attention_saved_size(call);
    *scratch_bytes = size_sum(offsets_bytes, attention_scratch_size(call));
    FAIL_IF(*saved_bytes == SIZE_MAX || *scratch_bytes == SIZE_MAX, host, HASHATTN_NO_MEMORY,
            "%zu sequences, %zu heads, %zu query rows and %zu key rows need more memory than can be counted",
            call->num_sequences, call->num_heads, call->query_offsets[call->num_sequences],
            call->key_offsets[call->num_sequences]);
    return HASHATTN_OK;
}

hashattn_status hashattn_attention_sizes(hashattn_attention *attention, const hashattn_problem *problem,
                                         size_t *saved_bytes, size_t *scratch_bytes)
{
    if (attention == NULL)
        return HASHATTN_INVALID;
    struct host *host = &attention->context->host;
    FAIL_IF(saved_bytes == NULL || scratch_bytes == NULL, host, HASHATTN_INVALID, "%s is NULL",
            saved_bytes == NULL ? "saved_bytes" : "scratch_bytes");
    hashattn_problem own;
    TRY(version_take(host, &own, sizeof own, problem, sizeof own, "problem"));
    TRY(check_problem(host, &own));
    void *block;
    struct made_offsets made = make_offsets(&own, NULL);
    TRY(memory_new(host, 1, made.bytes, "offsets", &block));
    made = make_offsets(&own, block);
    struct attention_call call;
    hashattn_status status = describe(attention, &own, &made, &call);
    if (status == HASHATTN_OK)
        status = measure(host, &call, made.bytes, saved_bytes, scratch_bytes);
    memory_free(host, block);
    return status;
}

/* ---- arrays ------------------------------------------------------------------------------------------ */

/* One array of a call beside what must hold for it. */
struct checked_array {
    const char *name;
    const hashattn_array *given;
    bool of_keys, written;
    size_t width;
    struct packed packed;
};

static size_t longest(const size_t *offsets, size_t count)
{
    size_t rows = 0;
    for (size_t s = 0; s < count; s++)
        if (offsets[s + 1] - offsets[s] > rows)
            rows = offsets[s + 1] - offsets[s];
    return rows;
}

/* One step of an array: `count` places, `stride` elements apart. */
struct step {
    const char *name;
    size_t count, stride;
};

/* No two elements of an array that is written may meet: from the smallest stride to the largest, each must
   clear all that lies within it. */
static hashattn_status check_apart(struct host *host, const struct checked_array *array, struct step *steps,
                                   size_t num_steps)
{
    for (size_t i = 1; i < num_steps; i++)
        for (size_t j = i; j > 0 && steps[j].stride < steps[j - 1].stride; j--) {
            struct step swap = steps[j];
            steps[j] = steps[j - 1];
            steps[j - 1] = swap;
        }
    size_t extent = array->width;
    for (size_t i = 0; i < num_steps; i++) {
        if (steps[i].count < 2)
            continue;
        FAIL_IF(steps[i].stride < extent, host, HASHATTN_INVALID,
                "%s: %s is %zu, at least %zu is needed, or elements would meet", array->name, steps[i].name,
                steps[i].stride, extent);
        extent += steps[i].stride * (steps[i].count - 1);
    }
    return HASHATTN_OK;
}

static hashattn_status check_array(struct host *host, const struct attention_call *call, bool packed_rows,
                                   struct checked_array *array)
{
    const size_t *offsets = array->of_keys ? call->key_offsets : call->query_offsets;
    size_t total = offsets[call->num_sequences];
    size_t rows = packed_rows ? total : longest(offsets, call->num_sequences);
    FAIL_IF(array->given == NULL, host, HASHATTN_INVALID, "%s is NULL", array->name);
    hashattn_array given = *array->given;
    array->packed = (struct packed){.width = array->width};
    if (total == 0)
        return HASHATTN_OK;
    FAIL_IF(given.data == NULL, host, HASHATTN_INVALID, "%s.data is NULL", array->name);
    size_t sequences = packed_rows ? 1 : call->num_sequences;
    struct step steps[] = {{"row_stride", rows, given.row_stride},
                           {"head_stride", call->num_heads, given.head_stride},
                           {"sequence_stride", sequences, given.sequence_stride}};
    for (size_t i = 0; i < 3; i++)
        FAIL_IF(steps[i].count > 1 && steps[i].stride > most / steps[i].count, host, HASHATTN_INVALID,
                "%s: %s is %zu, too far for %zu places", array->name, steps[i].name, steps[i].stride,
                steps[i].count);
    /* Rows are rows; but an input may show one head to all. */
    FAIL_IF(rows > 1 && given.row_stride < array->width, host, HASHATTN_INVALID,
            "%s: row_stride is %zu, at least %zu is needed", array->name, given.row_stride, array->width);
    FAIL_IF(sequences > 1 && given.sequence_stride == 0, host, HASHATTN_INVALID,
            "%s: sequence_stride is 0 for %zu sequences", array->name, sequences);
    if (array->written)
        TRY(check_apart(host, array, steps, 3));
    array->packed.data = given.data;
    array->packed.row_stride = given.row_stride;
    array->packed.head_stride = given.head_stride;
    array->packed.sequence_stride = sequences > 1 ? given.sequence_stride : 0;
    return HASHATTN_OK;
}

/* Row r of sequence s and head h. */
static void *row_of(const struct attention_call *call, const struct packed *array, const size_t *offsets,
                    size_t s, size_t h, size_t r)
{
    size_t sequence =
        array->sequence_stride != 0 ? s * array->sequence_stride : offsets[s] * array->row_stride;
    size_t element = sequence + r * array->row_stride + h * array->head_stride;
    return (unsigned char *)array->data + element * element_bytes(call->dtype);
}

/* ---- one pass over the rows of every array, on the pool -------------------------------------------------
 */

/* A unit is one head of one sequence, as for the mechanisms. */
struct pass {
    const struct attention_call *call;
    const struct checked_array *arrays;
    size_t num_arrays;
    bool unread;       /* only of units whose rows no mechanism reads */
    atomic_bool found; /* NaN or infinity */
};

/* A masked key is absent: nobody reads its rows. */
static bool is_absent(const struct attention_call *call, const struct checked_array *array, size_t s,
                      size_t r)
{
    return array->of_keys && call->key_mask != NULL && call->key_mask[call->key_offsets[s] + r] == 0;
}

/* Whether the mechanism is given this sequence: it has queries and kept keys. */
static bool is_read(const struct attention_call *call, size_t s)
{
    const size_t *queries = call->query_offsets + s, *keys = call->key_offsets + s;
    size_t kept = keys[0];
    while (call->key_mask != NULL && kept < keys[1] && call->key_mask[kept] == 0)
        kept++;
    return queries[1] > queries[0] && keys[1] > kept;
}

/* Squares of floats cannot overflow a double, so their sum is finite exactly when all of them are. */
static double squares_of(const struct attention_call *call, const void *elements, size_t count)
{
    enum { PIECE = 1024 };
    float piece[PIECE];
    double sum = 0;
    if (call->dtype == DTYPE_FLOAT32)
        return call->kernels->sum_squares(elements, count);
    for (size_t i = 0; i < count; i += PIECE) {
        size_t n = count - i < PIECE ? count - i : PIECE;
        call->kernels->bf16_widen(piece, n, (const bf16 *)elements + i, n, 1, n);
        sum += call->kernels->sum_squares(piece, n);
    }
    return sum;
}

static void look_for_nan(void *argument, size_t index, int worker)
{
    (void)worker;
    struct pass *pass = argument;
    const struct attention_call *call = pass->call;
    size_t s = index / call->num_heads, h = index % call->num_heads;
    if (pass->unread && is_read(call, s))
        return;
    for (size_t a = 0; a < pass->num_arrays; a++) {
        const struct checked_array *array = &pass->arrays[a];
        const size_t *offsets = array->of_keys ? call->key_offsets : call->query_offsets;
        bool masked = array->of_keys && call->key_mask != NULL;
        bool together = array->packed.row_stride == array->width && !masked;
        size_t rows = offsets[s + 1] - offsets[s], step = together ? rows : 1;
        for (size_t r = 0; r < rows; r += step)
            if (!is_absent(call, array, s, r) &&
                !isfinite(
                    squares_of(call, row_of(call, &array->packed, offsets, s, h, r), step * array->width)))
                atomic_store_explicit(&pass->found, true, memory_order_relaxed);
    }
}

static double element_of(const struct attention_call *call, const void *row, size_t column)
{
    float number;
    if (call->dtype == DTYPE_FLOAT32)
        return (double)((const float *)row)[column];
    call->kernels->bf16_widen(&number, 1, (const bf16 *)row + column, 1, 1, 1);
    return (double)number;
}

/* The place of the first NaN or infinity; there is one. */
static hashattn_status fail_nan(struct host *host, const struct pass *pass)
{
    const struct attention_call *call = pass->call;
    for (size_t a = 0; a < pass->num_arrays; a++) {
        const struct checked_array *array = &pass->arrays[a];
        const size_t *offsets = array->of_keys ? call->key_offsets : call->query_offsets;
        for (size_t i = 0; i < call->num_sequences * call->num_heads; i++) {
            size_t s = i / call->num_heads, h = i % call->num_heads;
            for (size_t r = 0; r < offsets[s + 1] - offsets[s]; r++) {
                const void *row = row_of(call, &array->packed, offsets, s, h, r);
                for (size_t c = 0; c < array->width; c++) {
                    double number = element_of(call, row, c);
                    FAIL_IF(!isfinite(number) && !is_absent(call, array, s, r), host, HASHATTN_INVALID,
                            "%s is %g at sequence %zu, head %zu, row %zu, column %zu", array->name, number, s,
                            h, r, c);
                }
            }
        }
    }
    return host_fail(host, HASHATTN_INVALID, "an input holds NaN or infinity");
}

/* unread: the mechanism looks for itself at all that it is given. */
static hashattn_status check_finite(struct host *host, const struct attention_call *call,
                                    const struct checked_array *arrays, size_t num_arrays, bool unread)
{
    struct pass pass = {.call = call, .arrays = arrays, .num_arrays = num_arrays, .unread = unread};
    size_t read = 0;
    while (unread && read < call->num_sequences && is_read(call, read))
        read++;
    if (unread && read == call->num_sequences)
        return HASHATTN_OK;
    pool_run(call->pool, look_for_nan, &pass, call->num_sequences * call->num_heads);
    return atomic_load(&pass.found) ? fail_nan(host, &pass) : HASHATTN_OK;
}

static double norm_limit(const struct attention_call *call)
{
    return call->mechanism->norm_limit == NULL ? 0 : call->mechanism->norm_limit(call->options);
}

/* Rows that may not be longer than the mechanism says; a rounding over is not told. They are finite. */
static hashattn_status check_lengths(struct host *host, const struct attention_call *call,
                                     const struct checked_array *array)
{
    double limit = norm_limit(call);
    const size_t *offsets = array->of_keys ? call->key_offsets : call->query_offsets;
    for (size_t i = 0; limit > 0 && i < call->num_sequences * call->num_heads; i++) {
        size_t s = i / call->num_heads, h = i % call->num_heads;
        for (size_t r = 0; r < offsets[s + 1] - offsets[s]; r++) {
            if (is_absent(call, array, s, r))
                continue;
            double length =
                sqrt(squares_of(call, row_of(call, &array->packed, offsets, s, h, r), array->width));
            FAIL_IF(length > limit * (1 + 1e-6), host, HASHATTN_INVALID,
                    "%s has length %g at sequence %zu, head %zu, row %zu; max_norm is %g", array->name,
                    length, s, h, r, limit);
        }
    }
    return HASHATTN_OK;
}

static void write_zeros(void *argument, size_t index, int worker)
{
    (void)worker;
    const struct pass *pass = argument;
    const struct attention_call *call = pass->call;
    size_t s = index / call->num_heads, h = index % call->num_heads;
    for (size_t a = 0; a < pass->num_arrays; a++) {
        const struct checked_array *array = &pass->arrays[a];
        const size_t *offsets = array->of_keys ? call->key_offsets : call->query_offsets;
        for (size_t r = 0; r < offsets[s + 1] - offsets[s]; r++)
            memset(row_of(call, &array->packed, offsets, s, h, r), 0,
                   array->width * element_bytes(call->dtype));
    }
}

static hashattn_status check_mask(struct host *host, const struct attention_call *call)
{
    for (size_t j = 0; call->key_mask != NULL && j < call->key_offsets[call->num_sequences]; j++)
        FAIL_IF(call->key_mask[j] > 1, host, HASHATTN_INVALID, "key_mask[%zu] is %u, allowed are 0 and 1", j,
                call->key_mask[j]);
    return HASHATTN_OK;
}

/* ---- forward and backward -------------------------------------------------------------------------------
 */

/* What a call owns: blocks that were not given. */
struct blocks {
    void *saved, *scratch, *own_saved, *own_scratch;
};

static hashattn_status check_block(struct host *host, const char *name, const void *block)
{
    FAIL_IF((uintptr_t)block % MEMORY_ALIGNMENT != 0, host, HASHATTN_INVALID, "%s is not aligned to %d bytes",
            name, MEMORY_ALIGNMENT);
    return HASHATTN_OK;
}

/* Checks the problem, finds the blocks and describes the call. */
static hashattn_status open_call(hashattn_attention *attention, const hashattn_problem *problem,
                                 hashattn_problem *own, struct blocks *blocks, struct attention_call *call)
{
    struct host *host = &attention->context->host;
    TRY(version_take(host, own, sizeof *own, problem, sizeof *own, "problem"));
    TRY(check_problem(host, own));
    TRY(check_block(host, "saved", blocks->saved));
    TRY(check_block(host, "scratch", blocks->scratch));
    if (blocks->saved == NULL || blocks->scratch == NULL) {
        size_t saved_bytes, scratch_bytes;
        TRY(hashattn_attention_sizes(attention, problem, &saved_bytes, &scratch_bytes));
        if (blocks->saved == NULL) {
            TRY(memory_new(host, 1, saved_bytes, "what attention saves", &blocks->own_saved));
            blocks->saved = blocks->own_saved;
        }
        if (blocks->scratch == NULL) {
            TRY(memory_new(host, 1, scratch_bytes, "attention's scratch", &blocks->own_scratch));
            blocks->scratch = blocks->own_scratch;
        }
    }
    struct made_offsets made = make_offsets(own, blocks->scratch);
    if (blocks->scratch != NULL)
        blocks->scratch = (unsigned char *)blocks->scratch + made.bytes;
    return describe(attention, own, &made, call);
}

static void close_call(struct host *host, const struct blocks *blocks)
{
    memory_free(host, blocks->own_scratch);
    memory_free(host, blocks->own_saved);
}

hashattn_status hashattn_attention_forward(hashattn_attention *attention, const hashattn_problem *problem,
                                           const hashattn_array *query, const hashattn_array *key,
                                           const hashattn_array *value, const hashattn_array *out,
                                           void *saved, void *scratch)
{
    if (attention == NULL)
        return HASHATTN_INVALID;
    struct host *host = &attention->context->host;
    struct blocks blocks = {.saved = saved, .scratch = scratch};
    hashattn_problem own;
    struct attention_call call;
    hashattn_status status;
    TRY_DONE(open_call(attention, problem, &own, &blocks, &call));
    enum { INPUTS = 3 };
    struct checked_array arrays[INPUTS + 1] = {
        {.name = "query", .given = query, .width = own.head_dim},
        {.name = "key", .given = key, .width = own.head_dim, .of_keys = true},
        {.name = "value", .given = value, .width = own.value_dim, .of_keys = true},
        {.name = "out", .given = out, .width = own.value_dim, .written = true},
    };
    for (size_t a = 0; a < INPUTS + 1; a++)
        TRY_DONE(check_array(host, &call, own.query_offsets != NULL, &arrays[a]));
    TRY_DONE(check_mask(host, &call));
    TRY_DONE(
        check_finite(host, &call, arrays, INPUTS, call.mechanism->checks_rows && norm_limit(&call) == 0));
    TRY_DONE(check_lengths(host, &call, &arrays[0]));
    TRY_DONE(check_lengths(host, &call, &arrays[1]));
    call.query = arrays[0].packed;
    call.key = arrays[1].packed;
    call.value = arrays[2].packed;
    atomic_bool not_finite = false;
    call.not_finite = &not_finite;
    attention_forward(&call, arrays[INPUTS].packed, blocks.saved, blocks.scratch);
    if (atomic_load(&not_finite)) {
        const struct pass pass = {.call = &call, .arrays = arrays, .num_arrays = INPUTS};
        status = fail_nan(host, &pass);
    }
done:
    close_call(host, &blocks);
    return status;
}

hashattn_status hashattn_attention_backward(hashattn_attention *attention, const hashattn_problem *problem,
                                            const hashattn_array *query, const hashattn_array *key,
                                            const hashattn_array *value, const hashattn_array *out,
                                            const hashattn_array *dout, const hashattn_array *dquery,
                                            const hashattn_array *dkey, const hashattn_array *dvalue,
                                            void *saved, void *scratch)
{
    if (attention == NULL)
        return HASHATTN_INVALID;
    struct host *host = &attention->context->host;
    struct blocks blocks = {.saved = saved, .scratch = scratch};
    hashattn_problem own;
    struct attention_call call;
    hashattn_status status;
    TRY_DONE(open_call(attention, problem, &own, &blocks, &call));
    if (blocks.own_saved != NULL) {
        status = host_fail(host, HASHATTN_INVALID, "saved is NULL: backward needs what forward left there");
        goto done;
    }
    struct checked_array arrays[] = {
        {.name = "dout", .given = dout, .width = own.value_dim},
        {.name = "query", .given = query, .width = own.head_dim},
        {.name = "key", .given = key, .width = own.head_dim, .of_keys = true},
        {.name = "value", .given = value, .width = own.value_dim, .of_keys = true},
        {.name = "out", .given = out, .width = own.value_dim},
        {.name = "dquery", .given = dquery, .width = own.head_dim, .written = true},
        {.name = "dkey", .given = dkey, .width = own.head_dim, .of_keys = true, .written = true},
        {.name = "dvalue", .given = dvalue, .width = own.value_dim, .of_keys = true, .written = true},
    };
    for (size_t a = 0; a < 8; a++)
        TRY_DONE(check_array(host, &call, own.query_offsets != NULL, &arrays[a]));
    TRY_DONE(check_finite(host, &call, arrays, 1, false)); /* the others were checked by forward */
    struct pass zeros = {.call = &call, .arrays = &arrays[5], .num_arrays = 3};
    pool_run(call.pool, write_zeros, &zeros, call.num_sequences * call.num_heads);
    call.query = arrays[1].packed;
    call.key = arrays[2].packed;
    call.value = arrays[3].packed;
    attention_backward(&call, arrays[4].packed, arrays[0].packed, arrays[5].packed, arrays[6].packed,
                       arrays[7].packed, NULL, blocks.saved, blocks.scratch);
done:
    close_call(host, &blocks);
    return status;
}

hashattn_status hashattn_attention_own_loss(hashattn_attention *attention, const hashattn_problem *problem,
                                            const hashattn_array *query, const hashattn_array *key,
                                            const hashattn_array *value, double *loss, float *dparams,
                                            void *saved, void *scratch)
{
    if (attention == NULL)
        return HASHATTN_INVALID;
    struct host *host = &attention->context->host;
    struct blocks blocks = {.saved = saved, .scratch = scratch};
    hashattn_problem own;
    struct attention_call call;
    hashattn_status status;
    TRY_DONE(open_call(attention, problem, &own, &blocks, &call));
    if (blocks.own_saved != NULL || loss == NULL) {
        status = host_fail(host, HASHATTN_INVALID, "%s is NULL%s", loss == NULL ? "loss" : "saved",
                           loss == NULL ? "" : ": the loss needs what forward left there");
        goto done;
    }
    struct checked_array arrays[] = {
        {.name = "query", .given = query, .width = own.head_dim},
        {.name = "key", .given = key, .width = own.head_dim, .of_keys = true},
        {.name = "value", .given = value, .width = own.value_dim, .of_keys = true},
    };
    for (size_t a = 0; a < 3; a++)
        TRY_DONE(check_array(host, &call, own.query_offsets != NULL, &arrays[a]));
    call.query = arrays[0].packed;
    call.key = arrays[1].packed;
    call.value = arrays[2].packed;
    size_t count = attention_param_count(call.mechanism, call.options, call.head_dim, call.value_dim);
    if (dparams != NULL && count > 0)
        memset(dparams, 0, call.num_heads * count * sizeof *dparams);
    *loss = attention_auxiliary(&call, dparams, blocks.saved, blocks.scratch);
done:
    close_call(host, &blocks);
    return status;
}
