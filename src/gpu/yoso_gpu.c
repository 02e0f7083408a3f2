/* YOSO (attention/yoso/yoso.c) on a GPU: the launches of a call, wave by wave. attention/yoso has the
   formulas; the files of kernels/ say how each step is computed. Forward: rows are copied to device memory
   without masked keys; hashed; V summed in tables and read by the queries' codes; the mean
   normalised and written. Causal, V walks along the sorted rows of each hash. Backward: dV as forward from
   queries to keys; dQ and dK from pairs, sorted for ORDERED_HASHES hashes at a time. Same bits: codes and
   table sums are integers, and every other number has one owner that adds in a fixed order, so results do
   not depend on the launch, on other work of the GPU or on the rest of the batch. Differences from the host:
   table sums are rounded as kernels/tables.cuh says, and pairs of bfloat16 rows are products of tf32.
   SPDX-License-Identifier: Apache-2.0 */
#include "gpu/yoso_gpu.h"

#include <string.h>

#include "base/memory.h"
#include "gpu/driver.h"
#include "gpu/yoso_gpu_memory.h"
#include "parts/hashing/planes.h"

enum { LEAST_WIDTH = 16, MOST_WIDTH = 128, MOST_HASHES = 256, MOST_BITS = 12, MOST_UNITS = 1 << 24 };

static const char *refuse(const void *of, const struct problem_shape *shape)
{
    const struct yoso_options *options = of;
    if (shape->head_dim < LEAST_WIDTH || shape->head_dim > MOST_WIDTH || shape->value_dim > MOST_WIDTH)
        return "a device computes a head_dim of 16 to 128 and a value_dim of 1 to 128";
    if (options->num_hashes > MOST_HASHES)
        return "`num_hashes` is {num_hashes}; a device computes 1 to 256";
    if (options->hash_bits > MOST_BITS)
        return "`hash_bits` is {hash_bits}; a device computes 1 to 12";
    if (options->planes != PLANES_ORTHOGONAL && options->planes != PLANES_GAUSSIAN)
        return "`planes` is {planes}; a device computes orthogonal and gaussian";
    if (options->plane_pool > 0 && options->plane_pool < options->num_hashes)
        return "`plane_pool` is {plane_pool}; a device computes hashes with planes of their own, "
               "`plane_pool` 0";
    if (options->map != YOSO_MAP_L2)
        return "`map` is {map}; a device computes l2";
    if (options->projection != HASH_AUTO && options->projection != HASH_INT16_DP)
        return "`projection` is {projection}; a device computes int16-dp, which auto means there";
    if (options->tables == YOSO_TABLES_INT16)
        return "`tables` is {tables}; a device adds in 32 bits, auto or f32";
    if (options->max_partners > 0)
        return "`max_partners` is {max_partners}; a device uses all partners of a row, `max_partners` 0";
    return NULL;
}

static struct device_sizes sizes(const struct device_batch *batch)
{
    struct yoso_gpu_layout layout = yoso_gpu_lay_out(batch);
    return (struct device_sizes){layout.saved_bytes, layout.scratch_bytes, layout.staging_bytes};
}

/* ---- a wave -------------------------------------------------------------------------------------------- */

/* A call while it runs. */
struct wave {
    struct host *host;
    const struct device_call *call;
    const struct yoso_options *options;
    struct device *device;
    struct yoso_gpu_layout layout;
    size_t count;                       /* of units */
    uint64_t units, kept, drawn, found; /* addresses; drawn 0: all hashes */
    uint64_t codes, saved;              /* blocks that units point into */
    struct gpu_array query, key, value, dx;
    uint64_t dquery, dkey, bias;
};

static uint64_t in_scratch(const struct wave *w, size_t offset)
{
    return w->call->scratch + offset;
}

static struct gpu_rows rows_of(const struct wave *w, const struct device_rows *rows)
{
    return (struct gpu_rows){.data = rows->data,
                             .sequence_stride = rows->sequence_stride,
                             .row_stride = rows->row_stride,
                             .head_stride = rows->head_stride,
                             .width = (unsigned)rows->width,
                             .half = w->call->batch->dtype == DTYPE_BFLOAT16,
                             .padded = rows->padded};
}

static unsigned blocks_of(size_t count, size_t per_block)
{
    return (unsigned)((count + per_block - 1) / per_block);
}

/* `grid_x` blocks for each unit. */
static hashattn_status run(const struct wave *w, enum gpu_kernel kernel, unsigned grid_x, unsigned threads,
                           size_t shared_bytes, void **arguments)
{
    const struct gpu_launch launch = {.kernel = kernel,
                                      .width = w->layout.sizes.width,
                                      .grid = {grid_x, (unsigned)w->count, 1},
                                      .threads = threads,
                                      .shared_bytes = shared_bytes};
    return device_launch(w->host, w->device, &launch, arguments);
}

/* Kernels that move rows: a warp a row, 8 in a block. */
static hashattn_status run_rows(const struct wave *w, enum gpu_kernel kernel, void **arguments)
{
    return run(w, kernel, blocks_of(w->layout.sizes.longest, 8), 256, 0, arguments);
}

static hashattn_status take(struct wave *w, struct gpu_array to, const struct device_rows *from, int side,
                            unsigned finding)
{
    struct gpu_rows rows = rows_of(w, from);
    unsigned longest = (unsigned)w->layout.sizes.longest;
    return run_rows(w, KERNEL_TAKE,
                    (void *[]){&to, &w->found, &rows, &w->units, &w->kept, &side, &finding, &longest});
}

/* ---- codes --------------------------------------------------------------------------------------------- */

static hashattn_status pack_planes(struct wave *w)
{
    const struct yoso_gpu_sizes *s = &w->layout.sizes;
    uint64_t packed = in_scratch(w, w->layout.packed), planes = in_scratch(w, w->layout.planes);
    uint64_t permutation = in_scratch(w, w->layout.permutation), sign = in_scratch(w, w->layout.sign);
    int width = (int)w->call->batch->head_dim, m = (int)s->hashes, tau = (int)s->bits;
    return run(w, KERNEL_PACK_PLANES, blocks_of(s->hashes, 8) * (unsigned)s->bits, 32, 0,
               (void *[]){&packed, &planes, &permutation, &sign, &w->units, &width, &m, &tau});
}

static hashattn_status hash(struct wave *w, struct gpu_array rows, int side)
{
    enum { ROWS = 256 };
    const struct yoso_gpu_sizes *s = &w->layout.sizes;
    uint64_t packed = in_scratch(w, w->layout.packed);
    size_t octets = (s->hashes + 7) / 8, of_rows = ROWS * (2 * s->width + 16),
           octet = s->bits * s->width * 16;
    /* Half of the shared memory leaves room for a second block, if at least one octet fits. */
    size_t most = device_shared_bytes(w->device), half = most / 2 - 1024;
    size_t at_once = ((half >= of_rows + octet ? half : most) - of_rows) / octet;
    unsigned longest = (unsigned)s->longest;
    int m = (int)s->hashes, tau = (int)s->bits, tiles = (int)size_min(at_once, octets);
    return run(w, KERNEL_HASH, blocks_of(s->longest, ROWS), ROWS, of_rows + (size_t)tiles * octet,
               (void *[]){&w->codes, &rows, &packed, &w->units, &side, &longest, &m, &tau, &tiles});
}

/* Copies and hashes queries and keys. */
static hashattn_status hash_rows(struct wave *w)
{
    TRY(pack_planes(w));
    TRY(hash(w, w->query, GPU_QUERIES));
    return hash(w, w->key, GPU_KEYS);
}

/* ---- tables -------------------------------------------------------------------------------------------- */

/* The widest part of tables that fits in shared memory. */
static hashattn_status build(struct wave *w, uint64_t table, struct gpu_array from, int side)
{
    static const struct {
        enum gpu_kernel kernel;
        unsigned columns, hashes;
    } forms[] = {{KERNEL_BUILD_32_3, 32, 3},
                 {KERNEL_BUILD_32_1, 32, 1},
                 {KERNEL_BUILD_16_1, 16, 1},
                 {KERNEL_BUILD_8_1, 8, 1},
                 {KERNEL_BUILD_4_1, 4, 1}};
    enum { FORMS = sizeof forms / sizeof *forms };
    const struct yoso_gpu_sizes *s = &w->layout.sizes;
    uint64_t most = in_scratch(w, w->layout.most), fullest = in_scratch(w, w->layout.fullest);
    unsigned longest = (unsigned)s->longest;
    int m = (int)s->hashes, tau = (int)s->bits, form = 0;
    size_t shared = 0;
    for (; form < FORMS - 1; form++) {
        shared = (size_t)4 * forms[form].columns * forms[form].hashes << s->bits;
        if (shared <= device_shared_bytes(w->device) && forms[form].hashes <= s->hashes)
            break;
    }
    shared = (size_t)4 * forms[form].columns * forms[form].hashes << s->bits;
    const struct gpu_launch launch = {.kernel = forms[form].kernel,
                                      .width = s->width,
                                      .grid = {s->width / forms[form].columns,
                                               blocks_of(s->hashes, forms[form].hashes), (unsigned)w->count},
                                      .threads = 512,
                                      .shared_bytes = shared};
    return device_launch(
        w->host, w->device, &launch,
        (void *[]){&table, &from, &w->codes, &most, &fullest, &w->units, &side, &longest, &m, &tau});
}

/* out = 1 / m of the sums of `from`, rows of side `side`, by the codes of the other side; sums: of ones, 0:
   not wanted. */
static hashattn_status carry_by_tables(struct wave *w, uint64_t out, uint64_t sums, struct gpu_array from,
                                       int side)
{
    enum { READ_ROWS = 64 };
    const struct yoso_gpu_sizes *s = &w->layout.sizes;
    uint64_t most = in_scratch(w, w->layout.most), fullest = in_scratch(w, w->layout.fullest);
    uint64_t table = in_scratch(w, w->layout.table), counts = sums == 0 ? 0 : in_scratch(w, w->layout.counts);
    unsigned longest = (unsigned)s->longest;
    int m = (int)s->hashes, tau = (int)s->bits, other = 1 - side;
    TRY(device_clear(w->host, w->device, most, 2 * s->wave * sizeof(uint32_t)));
    TRY(run(w, KERNEL_LARGEST, (unsigned)size_min(blocks_of(s->longest * s->width, 16384), 256), 256, 0,
            (void *[]){&most, &from, &w->units, &side, &longest}));
    TRY(run(w, KERNEL_COUNT, (unsigned)s->hashes, 256, (size_t)4 << s->bits,
            (void *[]){&fullest, &counts, &w->codes, &w->units, &side, &tau}));
    TRY(build(w, table, from, side));
    return run(w, KERNEL_READ, blocks_of(s->longest, READ_ROWS), 256, 2 * READ_ROWS * s->hashes,
               (void *[]){&out, &sums, &table, &counts, &w->codes, &w->units, &other, &longest, &m, &tau});
}

/* ---- orders -------------------------------------------------------------------------------------------- */

static struct gpu_order order_of(const struct wave *w, int side)
{
    const size_t *at = w->layout.order[side];
    return (struct gpu_order){in_scratch(w, at[0]), in_scratch(w, at[1]), in_scratch(w, at[2])};
}

/* Sorts both sides by hashes [first, first + count), of all or of the drawn ones. */
static hashattn_status sort(struct wave *w, bool of_drawn, size_t first, size_t count)
{
    const struct yoso_gpu_sizes *s = &w->layout.sizes;
    uint64_t drawn = of_drawn ? w->drawn : 0;
    size_t warps = 8;
    while (warps > 1 && (4 * warps << s->bits) > device_shared_bytes(w->device))
        warps /= 2;
    int num_drawn = (int)s->drawn, from = (int)first, ld = (int)s->ld, tau = (int)s->bits;
    for (int side = 0; side < GPU_SIDES; side++) {
        struct gpu_order order = order_of(w, side);
        TRY(run(w, KERNEL_SORT, (unsigned)count, (unsigned)(32 * warps), 4 * warps << s->bits,
                (void *[]){&order, &w->codes, &w->units, &drawn, &num_drawn, &side, &from, &ld, &tau}));
    }
    return HASHATTN_OK;
}

/* As carry_by_tables, for keys that precede their queries or are the same token. */
static hashattn_status carry_causal(struct wave *w, uint64_t out, uint64_t sums, struct gpu_array from,
                                    int side)
{
    enum { WARPS = 8 };
    const struct yoso_gpu_sizes *s = &w->layout.sizes;
    size_t rows = w->count * s->longest;
    unsigned longest = (unsigned)s->longest;
    int ld = (int)s->ld, tau = (int)s->bits;
    float share = 1 / (float)s->hashes;
    struct gpu_order own = order_of(w, side), other = order_of(w, 1 - side);
    TRY(device_clear(w->host, w->device, out, rows * s->width * sizeof(float)));
    if (sums != 0)
        TRY(device_clear(w->host, w->device, sums, rows * sizeof(float)));
    for (size_t first = 0; first < s->hashes; first += s->ordered) {
        int count = (int)size_min(s->ordered, s->hashes - first);
        TRY(sort(w, false, first, (size_t)count));
        for (int hash = 0; hash < count; hash++)
            TRY(run(w, KERNEL_WALK, blocks_of((size_t)1 << s->bits, WARPS), 32 * WARPS, 0,
                    (void *[]){&out, &sums, &from, &own, &other, &w->units, &w->kept, &side, &longest, &ld,
                               &tau, &count, &hash, &share}));
    }
    return HASHATTN_OK;
}

static hashattn_status carry(struct wave *w, uint64_t out, uint64_t sums, struct gpu_array from, int side)
{
    return (w->call->batch->causal ? carry_causal : carry_by_tables)(w, out, sums, from, side);
}

/* ---- forward ------------------------------------------------------------------------------------------- */

static uint64_t sums_of(const struct wave *w)
{
    return w->options->normalize == YOSO_NORMALIZE_SUM ? w->bias : 0;
}

static hashattn_status forward_wave(struct wave *w)
{
    const struct device_call *call = w->call;
    struct gpu_rows out = rows_of(w, &call->out);
    uint64_t x = w->dx.data, sums = sums_of(w);
    unsigned longest = (unsigned)w->layout.sizes.longest;
    int normalize = w->options->normalize;
    TRY(take(w, w->query, &call->query, GPU_QUERIES, GPU_QUERY));
    TRY(take(w, w->key, &call->key, GPU_KEYS, GPU_KEY));
    TRY(hash_rows(w));
    TRY(take(w, w->value, &call->value, GPU_KEYS, GPU_VALUE));
    TRY(carry(w, x, sums, w->value, GPU_KEYS));
    return run_rows(w, KERNEL_GIVE_OUTPUT,
                    (void *[]){&out, &w->saved, &x, &sums, &w->found, &w->units, &longest, &normalize});
}

/* ---- backward ------------------------------------------------------------------------------------------ */

static hashattn_status take_gradient(struct wave *w)
{
    struct gpu_rows out = rows_of(w, &w->call->out), dout = rows_of(w, &w->call->dout);
    unsigned longest = (unsigned)w->layout.sizes.longest;
    int normalize = w->options->normalize;
    return run_rows(w, KERNEL_TAKE_GRADIENT,
                    (void *[]){&w->dx.data, &w->bias, &out, &dout, &w->saved, &w->found, &w->units, &longest,
                               &normalize});
}

/* Gradients of masked keys are 0. */
static hashattn_status clear_keys(struct wave *w, struct gpu_rows *rows)
{
    return w->call->key_mask == NULL ? HASHATTN_OK
                                     : run_rows(w, KERNEL_CLEAR_KEYS, (void *[]){rows, &w->units});
}

static hashattn_status give_value(struct wave *w)
{
    struct gpu_rows rows = rows_of(w, &w->call->dvalue);
    uint64_t from = w->dkey; /* free until dK is added */
    unsigned longest = (unsigned)w->layout.sizes.longest;
    int side = GPU_KEYS;
    TRY(carry(w, from, 0, w->dx, GPU_QUERIES));
    TRY(clear_keys(w, &rows));
    return run_rows(w, KERNEL_GIVE,
                    (void *[]){&rows, &from, &w->found, &w->units, &w->kept, &side, &longest});
}

/* Buckets above this are cheaper by their matrix. A causal one has half of the pairs. */
static unsigned dense_factor(const struct wave *w)
{
    return (w->call->batch->causal ? 4 : 2) * w->layout.sizes.width;
}

/* The pairs of one sorted hash, for the rows of one side. */
static hashattn_status add_pairs(struct wave *w, int own, unsigned hashes, unsigned hash)
{
    const struct yoso_gpu_sizes *s = &w->layout.sizes;
    enum { TILE_ROWS = 64, DENSE_TILE = 8, WEIGHED_ROWS = 8 };
    bool of_queries = own == GPU_QUERIES;
    struct gpu_pairs pairs = {.out = of_queries ? w->dquery : w->dkey,
                              .a = of_queries ? w->dx : w->value,
                              .b = of_queries ? w->value : w->dx,
                              .c = of_queries ? w->key : w->query,
                              .codes = w->codes,
                              .own_bias = of_queries ? sums_of(w) : 0,
                              .other_bias = of_queries ? 0 : sums_of(w),
                              .kept = w->kept,
                              .order = {order_of(w, GPU_QUERIES), order_of(w, GPU_KEYS)},
                              .own_rows = of_queries ? w->query : w->key,
                              .own = (unsigned)own,
                              .longest = (unsigned)s->longest,
                              .ld = (unsigned)s->ld,
                              .hash_bits = (unsigned)s->bits,
                              .hashes = hashes,
                              .hash = hash,
                              .causal = w->call->batch->causal,
                              .dense = dense_factor(w),
                              .num_hashes = (unsigned)s->hashes,
                              .released = w->options->gradient == YOSO_GRADIENT_RELEASED};
    /* One product of tf32 is more precise than bfloat16 rows. */
    enum gpu_kernel kernel = w->call->batch->dtype == DTYPE_BFLOAT16 ? KERNEL_PAIRS_TF32 : KERNEL_PAIRS_F32;
    void *arguments[] = {&pairs, &w->units};
    if (w->options->gradient != YOSO_GRADIENT_LOWER)
        return run(w, KERNEL_WEIGH, blocks_of(s->longest, WEIGHED_ROWS), 32 * WEIGHED_ROWS, 0, arguments);
    size_t shared = ((s->width + 1) * s->width + 2 * DENSE_TILE * s->width + DENSE_TILE) * sizeof(float);
    TRY(run(w, kernel, blocks_of(s->longest, TILE_ROWS), 128, 0, arguments));
    if (s->longest > pairs.dense) /* a bucket below that cannot be dense */
        TRY(run(w, KERNEL_DENSE, 1u << s->bits, 256, shared, arguments));
    return HASHATTN_OK;
}

/* Through the unit length: dQ or dK. */
static hashattn_status give_unit_gradient(struct wave *w, int side)
{
    const struct device_call *call = w->call;
    bool of_queries = side == GPU_QUERIES;
    struct gpu_rows rows = rows_of(w, of_queries ? &call->dquery : &call->dkey);
    uint64_t gradient = of_queries ? w->dquery : w->dkey;
    struct gpu_array unit = of_queries ? w->query : w->key;
    int kind = w->options->gradient;
    float weight = kind == YOSO_GRADIENT_RELEASED ? 1 : 1 / (float)w->layout.sizes.drawn;
    if (kind == YOSO_GRADIENT_LOWER)
        weight *= 0.5f * (float)w->layout.sizes.bits;
    unsigned longest = (unsigned)w->layout.sizes.longest;
    if (!of_queries)
        TRY(clear_keys(w, &rows));
    return run_rows(w, KERNEL_GIVE_UNIT_GRADIENT,
                    (void *[]){&rows, &gradient, &unit, &w->codes, &weight, &w->found, &w->units, &w->kept,
                               &side, &longest});
}

static hashattn_status backward_wave(struct wave *w)
{
    const struct device_call *call = w->call;
    const struct yoso_gpu_sizes *s = &w->layout.sizes;
    size_t bytes = w->count * s->longest * s->width * sizeof(float);
    TRY(take(w, w->query, &call->query, GPU_QUERIES, GPU_QUERY));
    TRY(take(w, w->key, &call->key, GPU_KEYS, GPU_KEY));
    if (w->options->recompute)
        TRY(hash_rows(w));
    TRY(take(w, w->value, &call->value, GPU_KEYS, GPU_VALUE));
    TRY(take_gradient(w));
    TRY(give_value(w));
    TRY(device_clear(w->host, w->device, w->dquery, bytes));
    TRY(device_clear(w->host, w->device, w->dkey, bytes));
    for (size_t first = 0; first < s->drawn; first += s->ordered) {
        unsigned count = (unsigned)size_min(s->ordered, s->drawn - first);
        TRY(sort(w, s->some, first, count));
        for (unsigned hash = 0; hash < count; hash++) {
            TRY(add_pairs(w, GPU_QUERIES, count, hash));
            TRY(add_pairs(w, GPU_KEYS, count, hash));
        }
    }
    TRY(give_unit_gradient(w, GPU_QUERIES));
    return give_unit_gradient(w, GPU_KEYS);
}

/* ---- a call -------------------------------------------------------------------------------------------- */

static hashattn_status check_saved(struct wave *w)
{
    uint64_t tag = w->call->tag, mark = w->call->tag_words[0], fingerprint = w->call->tag_words[1];
    const struct gpu_launch launch = {.kernel = KERNEL_CHECK_SAVED, .grid = {1, 1, 1}, .threads = 32};
    return device_launch(w->host, w->device, &launch, (void *[]){&w->found, &tag, &mark, &fingerprint});
}

static hashattn_status run_waves(struct host *host, const struct device_call *call, bool backward)
{
    const struct device_batch *batch = call->batch;
    struct wave w = {.host = host, .call = call, .options = batch->options, .device = batch->device};
    w.layout = yoso_gpu_lay_out(batch);
    const struct yoso_gpu_sizes *s = &w.layout.sizes;
    FAIL_IF(s->units > MOST_UNITS, host, HASHATTN_REFUSED,
            "%zu sequences of %zu heads are too many for a device", batch->num_sequences, batch->num_heads);
    yoso_gpu_fill(call, &w.layout, backward);
    TRY(device_write(host, w.device, call->scratch, call->staging, w.layout.uploaded_bytes));
    unsigned half = batch->dtype == DTYPE_BFLOAT16;
    w.query = (struct gpu_array){in_scratch(&w, w.layout.query), half, 0};
    w.key = (struct gpu_array){in_scratch(&w, w.layout.key), half, 0};
    w.value = (struct gpu_array){in_scratch(&w, w.layout.value), half, 0};
    w.dx = (struct gpu_array){in_scratch(&w, w.layout.dx), 0, 0};
    w.dquery = in_scratch(&w, w.layout.dquery);
    w.dkey = in_scratch(&w, w.layout.dkey);
    w.bias = in_scratch(&w, w.layout.bias);
    w.kept = in_scratch(&w, w.layout.kept);
    w.found = device_found(w.device);
    w.saved = call->saved;
    w.codes = w.options->recompute ? in_scratch(&w, w.layout.codes) : call->saved;
    if (backward && call->tag != 0)
        TRY(check_saved(&w));
    for (size_t first = 0; first < s->units; first += s->wave) {
        w.count = size_min(s->wave, s->units - first);
        w.units = in_scratch(&w, w.layout.units) + first * sizeof(struct gpu_unit);
        w.drawn = in_scratch(&w, w.layout.drawn) + first * s->drawn * sizeof(uint32_t);
        if (!s->some)
            w.drawn = 0;
        TRY((backward ? backward_wave : forward_wave)(&w));
    }
    return backward || call->tag == 0
               ? HASHATTN_OK
               : device_write(host, w.device, call->tag, call->tag_words, sizeof call->tag_words);
}

static hashattn_status forward(struct host *host, const struct device_call *call)
{
    return run_waves(host, call, false);
}

static hashattn_status backward(struct host *host, const struct device_call *call)
{
    return run_waves(host, call, true);
}

const struct device_implementation yoso_gpu = {refuse, sizes, forward, backward};
