/* Softmax attention over all rows of the cache. The query rows of all heads of a group form a tile of up to
   64 rows, so every key and value is read once for a tile. Keys of a page lie in four blocks of 64 rows, a
   dimension after the other (bfloat16: pairs of dimensions), values row after row (bfloat16: pairs of rows):
   both are right operands of tiles.product and bf16.product, and are read from first to last byte.
   A long sequence is cut into spans of 4,096 rows, whose sums are merged in order (Milakov and Gimelshein
   2018). In a bfloat16 cache, queries and weights are rounded to bfloat16, sums are float32.
   Cost: for a query row 2 n d multiply-adds and n exponentials; memory read: 2 n d elements for each tile.
   Slower on Zen 4: rows fetched early, 2 to 16 KiB ahead in the products (1.1 to 1.2 times the time) or 64
   rows before each product (1.35).
   SPDX-License-Identifier: Apache-2.0 */
#include <math.h>
#include <string.h>

#include "base/memory.h"
#include "decoding/kv_cache_mechanism.h"

enum { BLOCK = 64, TILE = 64, SPAN_PAGES = 16 };

/* ---- pages --------------------------------------------------------------------------------------------- */

/* Elements of the keys of one row: bfloat16 keys have pairs of dimensions. */
static size_t key_width(const struct kv_options *options)
{
    return options->dtype == DTYPE_BFLOAT16 ? options->head_dim + options->head_dim % 2 : options->head_dim;
}

static size_t element_size(const struct kv_options *options)
{
    return options->dtype == DTYPE_BFLOAT16 ? sizeof(bf16) : sizeof(float);
}

static size_t values_at(const struct kv_options *options)
{
    return KV_PAGE_ROWS * key_width(options) * element_size(options);
}

static size_t exact_head_bytes(const struct kv_options *options)
{
    return values_at(options) + KV_PAGE_ROWS * options->head_dim * element_size(options);
}

static void write_floats(unsigned char *page, const struct kv_options *options, size_t row, const float *key,
                         const float *value)
{
    size_t d = options->head_dim;
    float *keys = (float *)(void *)page + row / BLOCK * BLOCK * d + row % BLOCK;
    for (size_t c = 0; c < d; c++)
        keys[c * BLOCK] = key[c];
    memcpy((float *)(void *)(page + values_at(options)) + row * d, value, d * sizeof *value);
}

static void write_halves(const struct kernels *kernels, unsigned char *page, const struct kv_options *options,
                         size_t row, const float *key, const float *value)
{
    size_t d = options->head_dim;
    bf16 rounded[KV_WIDEST];
    bf16 *keys = (bf16 *)(void *)page + row / BLOCK * BLOCK * key_width(options) + 2 * (row % BLOCK);
    bf16 *values = (bf16 *)(void *)(page + values_at(options)) + row / 2 * 2 * d + row % 2;
    kernels->bf16.round(rounded, d, key, d, 1, d);
    for (size_t c = 0; c < d; c++)
        keys[c / 2 * 2 * BLOCK + c % 2] = rounded[c];
    kernels->bf16.round(rounded, d, value, d, 1, d);
    for (size_t c = 0; c < d; c++)
        values[2 * c] = rounded[c];
}

static void exact_write(const struct kv_cache *cache, size_t sequence, size_t kv_head, size_t position,
                        const float *key, const float *value)
{
    unsigned char *page = kv_head_page(cache, sequence, kv_head, position / KV_PAGE_ROWS);
    if (cache->options.dtype == DTYPE_BFLOAT16)
        write_halves(cache->kernels, page, &cache->options, position % KV_PAGE_ROWS, key, value);
    else
        write_floats(page, &cache->options, position % KV_PAGE_ROWS, key, value);
}

static void exact_read(const struct kv_cache *cache, size_t sequence, size_t kv_head, size_t position,
                       float *key, float *value)
{
    const struct kv_options *options = &cache->options;
    size_t d = options->head_dim, row = position % KV_PAGE_ROWS;
    const unsigned char *page = kv_head_page(cache, sequence, kv_head, position / KV_PAGE_ROWS);
    const unsigned char *keys = page + row / BLOCK * BLOCK * key_width(options) * element_size(options);
    const unsigned char *values = page + values_at(options);
    for (size_t c = 0; c < d; c++)
        if (options->dtype == DTYPE_BFLOAT16) {
            const bf16 *of_keys = (const void *)keys, *of_values = (const void *)values;
            cache->kernels->bf16.widen(&key[c], 1, &of_keys[c / 2 * 2 * BLOCK + 2 * (row % BLOCK) + c % 2], 1,
                                       1, 1);
            cache->kernels->bf16.widen(&value[c], 1, &of_values[row / 2 * 2 * d + 2 * c + row % 2], 1, 1, 1);
        } else {
            key[c] = ((const float *)(const void *)keys)[c * BLOCK + row % BLOCK];
            value[c] = ((const float *)(const void *)values)[row * d + c];
        }
}

/* ---- memory of a call ---------------------------------------------------------------------------------- */

/* Of one worker. */
struct work {
    float *query; /* (TILE, d) */
    bf16 *query_rounded;
    float *scores; /* (TILE, KV_PAGE_ROWS) */
    bf16 *weights;
    float *factor; /* (TILE) */
};

/* The sums of every span. */
struct layout {
    size_t spans, tile_rows;  /* most rows of a tile */
    float *out;               /* (sequences, kv_heads, spans, tile_rows, d) */
    float *row_max, *row_sum; /* (sequences, kv_heads, spans, tile_rows) */
    struct work *work;        /* (threads) */
};

static struct layout lay_out(struct arena *arena, const struct kv_cache *cache, size_t rows)
{
    const struct kv_options *options = &cache->options;
    size_t d = options->head_dim, wide = key_width(options), threads = (size_t)pool_threads(cache->pool);
    size_t span_rows = SPAN_PAGES * KV_PAGE_ROWS, longest = kv_pages_longest(&cache->pages);
    struct layout l = {.spans = longest / span_rows + (longest % span_rows != 0),
                       .tile_rows = size_min(TILE, rows * kv_group(options))};
    size_t sums = cache->pages.num_sequences * options->kv_heads * l.spans * l.tile_rows;
    l.out = arena_take(arena, sums * d, sizeof(float));
    l.row_max = arena_take(arena, sums, sizeof(float));
    l.row_sum = arena_take(arena, sums, sizeof(float));
    l.work = arena_take(arena, threads, sizeof *l.work);
    for (size_t t = 0; t < threads; t++) {
        const struct work work = {
            .query = arena_take(arena, l.tile_rows * d, sizeof(float)),
            .query_rounded = arena_take(arena, l.tile_rows * wide, sizeof(bf16)),
            .scores = arena_take(arena, l.tile_rows * KV_PAGE_ROWS, sizeof(float)),
            .weights = arena_take(arena, l.tile_rows * KV_PAGE_ROWS, sizeof(bf16)),
            .factor = arena_take(arena, l.tile_rows, sizeof(float)),
        };
        if (l.work != NULL)
            l.work[t] = work;
    }
    return l;
}

static size_t exact_scratch_bytes(const struct kv_cache *cache, size_t rows)
{
    struct arena arena = arena_on(NULL);
    lay_out(&arena, cache, rows);
    return arena.used;
}

/* ---- one tile of query rows over one span -------------------------------------------------------------- */

struct pass {
    const struct kv_attend *call;
    struct layout layout;
    size_t first, count; /* the tile: rows (query row, head of the group), counted from the first query row */
};

/* Where a unit finds its rows. */
struct span {
    size_t sequence, kv_head, first_page, end; /* end: rows */
    size_t at;                                 /* of its sums: a row of row_max */
};

/* The position of row i of the tile; negative: it sees nothing. */
static ptrdiff_t position_of(const struct pass *pass, size_t sequence, size_t i)
{
    const struct kv_cache *cache = pass->call->cache;
    size_t query_row = (pass->first + i) / kv_group(&cache->options);
    return (ptrdiff_t)(cache->pages.sequences[sequence].length + query_row) - (ptrdiff_t)pass->call->rows;
}

/* The rows of the tile that see a row of [begin, end): [*from, *to), because positions ascend. */
static void rows_that_see(const struct pass *pass, size_t sequence, size_t begin, size_t end, size_t *from,
                          size_t *to)
{
    const struct kv_options *options = &pass->call->cache->options;
    *from = 0;
    while (*from < pass->count && position_of(pass, sequence, *from) < (ptrdiff_t)begin)
        ++*from;
    *to = *from;
    while (*to < pass->count && kv_first_seen(options, (size_t)position_of(pass, sequence, *to)) < end)
        ++*to;
}

/* Scores of pairs that do not see each other become -inf. */
static void hide(const struct pass *pass, size_t sequence, float *scores, size_t from, size_t to,
                 size_t begin, size_t end)
{
    const struct kv_options *options = &pass->call->cache->options;
    for (size_t i = from; i < to; i++) {
        size_t position = (size_t)position_of(pass, sequence, i);
        size_t first = kv_first_seen(options, position);
        float *row = scores + i * KV_PAGE_ROWS;
        for (size_t j = begin; j < first; j++)
            row[j - begin] = -INFINITY;
        for (size_t j = size_max(position + 1, begin); j < end; j++)
            row[j - begin] = -INFINITY;
    }
}

static void score(const struct kv_cache *cache, const struct work *work, const unsigned char *page,
                  size_t from, size_t to, size_t rows)
{
    size_t d = cache->options.head_dim, wide = key_width(&cache->options);
    for (size_t j = 0; j < rows; j += BLOCK) {
        float *scores = work->scores + from * KV_PAGE_ROWS + j;
        size_t cols = size_min(BLOCK, rows - j);
        if (cache->options.dtype == DTYPE_BFLOAT16)
            cache->kernels->bf16.product(scores, KV_PAGE_ROWS, work->query_rounded + from * wide, wide,
                                         (const bf16 *)(const void *)page + j * wide, 2 * BLOCK, to - from,
                                         cols, wide / 2, false);
        else
            cache->kernels->tiles.product(scores, KV_PAGE_ROWS, work->query + from * d, d, 1,
                                          (const float *)(const void *)page + j * d, BLOCK, to - from, cols,
                                          d, false);
    }
}

static void add_values(const struct kv_cache *cache, const struct work *work, const unsigned char *page,
                       float *out, size_t from, size_t to, size_t rows)
{
    size_t d = cache->options.head_dim;
    float *weights = work->scores + from * KV_PAGE_ROWS;
    if (cache->options.dtype == DTYPE_BFLOAT16) {
        size_t even = rows + rows % 2;
        for (size_t i = 0; i < to - from && even > rows; i++)
            weights[i * KV_PAGE_ROWS + rows] = 0;
        cache->kernels->bf16.round(work->weights, KV_PAGE_ROWS, weights, KV_PAGE_ROWS, to - from, even);
        cache->kernels->bf16.product(out, d, work->weights, KV_PAGE_ROWS, (const bf16 *)(const void *)page,
                                     2 * d, to - from, d, even / 2, true);
    } else
        cache->kernels->tiles.product(out, d, weights, KV_PAGE_ROWS, 1, (const float *)(const void *)page, d,
                                      to - from, d, rows, true);
}

static void take_page(const struct pass *pass, const struct work *work, const struct span *span, size_t page)
{
    const struct kv_cache *cache = pass->call->cache;
    size_t begin = page * KV_PAGE_ROWS, end = size_min(begin + KV_PAGE_ROWS, span->end), from, to;
    size_t d = cache->options.head_dim, rows = end - begin;
    const unsigned char *bytes = kv_head_page(cache, span->sequence, span->kv_head, page);
    float *out = pass->layout.out + span->at * d;
    rows_that_see(pass, span->sequence, begin, end, &from, &to);
    if (from == to)
        return;
    score(cache, work, bytes, from, to, rows);
    hide(pass, span->sequence, work->scores, from, to, begin, end);
    cache->kernels->softmax.step(work->scores + from * KV_PAGE_ROWS, KV_PAGE_ROWS, to - from, rows,
                                 cache->options.scale, pass->layout.row_max + span->at + from,
                                 pass->layout.row_sum + span->at + from, work->factor);
    cache->kernels->rows.scale(out + from * d, d, work->factor, to - from, d);
    add_values(cache, work, bytes + values_at(&cache->options), out + from * d, from, to, rows);
}

static void load_tile(const struct pass *pass, const struct work *work, size_t sequence, size_t kv_head)
{
    const struct kv_cache *cache = pass->call->cache;
    size_t d = cache->options.head_dim, wide = key_width(&cache->options), group = kv_group(&cache->options);
    for (size_t i = 0; i < pass->count; i++) {
        size_t row = (pass->first + i) / group, head = kv_head * group + (pass->first + i) % group;
        kv_load_row(cache, work->query + i * d, pass->call->query, sequence, row, head);
    }
    if (cache->options.dtype != DTYPE_BFLOAT16)
        return;
    memset(work->query_rounded, 0, pass->count * wide * sizeof(bf16));
    cache->kernels->bf16.round(work->query_rounded, wide, work->query, d, pass->count, d);
}

/* Unit: one span of one key-value head of one sequence. */
static void attend_span(void *argument, size_t unit, int worker)
{
    const struct pass *pass = argument;
    const struct kv_cache *cache = pass->call->cache;
    const struct layout *l = &pass->layout;
    const struct work *work = &l->work[worker];
    size_t head = unit / l->spans, first_page = unit % l->spans * SPAN_PAGES;
    struct span span = {.sequence = head / cache->options.kv_heads,
                        .kv_head = head % cache->options.kv_heads,
                        .first_page = first_page,
                        .at = unit * l->tile_rows};
    span.end =
        size_min(cache->pages.sequences[span.sequence].length, (first_page + SPAN_PAGES) * KV_PAGE_ROWS);
    for (size_t i = 0; i < pass->count; i++) {
        l->row_max[span.at + i] = -INFINITY;
        l->row_sum[span.at + i] = 0;
    }
    memset(l->out + span.at * cache->options.head_dim, 0,
           pass->count * cache->options.head_dim * sizeof(float));
    load_tile(pass, work, span.sequence, span.kv_head);
    for (size_t page = first_page; page * KV_PAGE_ROWS < span.end; page++)
        take_page(pass, work, &span, page);
}

/* ---- all spans of a row -------------------------------------------------------------------------------- */

/* out = the sums of all spans in order, divided by that of the weights; 0 without any. */
static void merge_row(const struct pass *pass, size_t head, size_t i, float *out)
{
    const struct layout *l = &pass->layout;
    const struct kv_options *options = &pass->call->cache->options;
    float most = -INFINITY, sum = 0;
    memset(out, 0, options->head_dim * sizeof *out);
    for (size_t span = 0; span < l->spans; span++)
        most = fmaxf(most, l->row_max[(head * l->spans + span) * l->tile_rows + i]);
    for (size_t span = 0; span < l->spans; span++) {
        size_t at = (head * l->spans + span) * l->tile_rows + i;
        if (l->row_sum[at] == 0)
            continue;
        float factor = expf(options->scale * (l->row_max[at] - most));
        sum += factor * l->row_sum[at];
        pass->call->cache->kernels->rows.axpy(out, factor, l->out + at * options->head_dim,
                                              options->head_dim);
    }
    for (size_t c = 0; c < options->head_dim && sum > 0; c++)
        out[c] /= sum;
}

/* Unit: one key-value head of one sequence. */
static void merge_head(void *argument, size_t unit, int worker)
{
    (void)worker;
    const struct pass *pass = argument;
    const struct kv_options *options = &pass->call->cache->options;
    size_t sequence = unit / options->kv_heads, kv_head = unit % options->kv_heads;
    size_t group = kv_group(options);
    float out[KV_WIDEST];
    for (size_t i = 0; i < pass->count; i++) {
        merge_row(pass, unit, i, out);
        kv_store_row(pass->call->cache, pass->call->out, sequence, (pass->first + i) / group,
                     kv_head * group + (pass->first + i) % group, out);
    }
}

/* Rows that a query row sees, on average. */
static double mean_seen(const struct kv_attend *call)
{
    const struct kv_cache *cache = call->cache;
    double seen = 0;
    for (size_t s = 0; s < cache->pages.num_sequences; s++)
        for (size_t r = 0, length = cache->pages.sequences[s].length; r < call->rows; r++)
            if (length + r >= call->rows) {
                size_t position = length + r - call->rows;
                seen += (double)(position + 1 - kv_first_seen(&cache->options, position));
            }
    return seen / (double)(call->rows * cache->pages.num_sequences);
}

static void exact_attend(const struct kv_attend *call)
{
    const struct kv_cache *cache = call->cache;
    struct arena arena = arena_on(call->scratch);
    struct pass pass = {.call = call, .layout = lay_out(&arena, cache, call->rows)};
    size_t heads = cache->pages.num_sequences * cache->options.kv_heads;
    size_t all = call->rows * kv_group(&cache->options);
    for (pass.first = 0; pass.first < all; pass.first += TILE) {
        pass.count = size_min(TILE, all - pass.first);
        pool_run(cache->pool, attend_span, &pass, heads * pass.layout.spans);
        pool_run(cache->pool, merge_head, &pass, heads);
    }
    *call->report = (struct kv_report){.rows_read = mean_seen(call)};
}

const struct kv_mechanism kv_mechanism_softmax = {
    .name = "softmax",
    .prepare = NULL,
    .head_bytes = exact_head_bytes,
    .write = exact_write,
    .read = exact_read,
    .scratch_bytes = exact_scratch_bytes,
    .attend = exact_attend,
};
