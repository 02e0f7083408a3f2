/* Softmax attention that reads few rows of the cache exactly: the first, the last, and a choice of the others
   by estimated scores (kv_codes.h, kv_choice.h). Mechanisms differ in how they choose:
   - hashed: a sample by importance, weighted by the inverse of its probabilities, so that the numerator and
   the denominator of softmax are unbiased;
   - top: the best scores without weights; top-uniform: half the best, half uniform (vAttention);
   - hamming: the best by equal signs of key and query (HATA, without its learned planes);
   - lsh: rows of which a byte of the code equals the query's, weighted by the inverse of the probability of
     that for the angle of key and query (MagicPIG, with one table for each byte);
   - window: none.
   A query that sees few rows reads all. Its error is estimated from the sample: with a_i = w_i^2 (1 - p_i) /
   p_i^2, the variance of the output is about sum_i a_i |v_i - out|^2 over the square of the denominator.
   Cost for a query row: 2 bits / 8 lookups and an exponential for each row seen, 2 d multiply-adds and two
   rows of memory for each row read; memory read otherwise: bits / 8 + 4 bytes and 1 / 16 of d for each row.
   SPDX-License-Identifier: Apache-2.0 */
#include <math.h>
#include <string.h>

#include "base/memory.h"
#include "base/random.h"
#include "decoding/kv_cache_mechanism.h"
#include "decoding/kv_choice.h"
#include "decoding/kv_codes.h"
#include "parts/rows/elements.h"

enum { TILE = 64, LEAST_SAMPLE = 16, MOST_ROUNDS = 5 };

/* What a mechanism of this kind has. */
struct choosing {
    bool signs, collides; /* scores count equal signs, or find equal bytes; else they estimate <q, k> */
    void (*choose)(const struct kv_candidates *candidates, size_t wanted, struct kv_choice *choice);
};

/* ---- pages --------------------------------------------------------------------------------------------- */

struct page {
    struct kv_codes codes;
    unsigned char *key, *value; /* (rows, head_dim) */
    size_t bytes;
};

static struct page page_on(const struct kv_options *options, unsigned char *bytes)
{
    struct arena arena = arena_on(bytes);
    size_t d = options->head_dim, size = element_bytes(options->dtype);
    struct page page;
    page.codes.codes = arena_take(&arena, KV_PAGE_ROWS, options->bits / 8);
    page.codes.scale = arena_take(&arena, KV_PAGE_ROWS, sizeof(float));
    page.codes.mean = arena_take(&arena, KV_PAGE_BLOCKS * d, sizeof(float));
    page.key = arena_take(&arena, KV_PAGE_ROWS * d, size);
    page.value = arena_take(&arena, KV_PAGE_ROWS * d, size);
    page.bytes = (arena.used + MEMORY_ALIGNMENT - 1) / MEMORY_ALIGNMENT * MEMORY_ALIGNMENT;
    return page;
}

static size_t hashed_head_bytes(const struct kv_options *options)
{
    return page_on(options, NULL).bytes;
}

struct block_rows {
    const struct kv_cache *cache;
    const unsigned char *key;
};

static const float *row_of_block(const void *rows, size_t r, float *room)
{
    const struct block_rows *of = rows;
    size_t d = of->cache->options.head_dim;
    enum dtype dtype = of->cache->options.dtype;
    elements_load(of->cache->kernels, room, d, of->key + r * d * element_bytes(dtype), d, dtype, 1, d);
    return room;
}

static void write_row(const struct kv_cache *cache, size_t sequence, size_t kv_head, size_t position,
                      const float *key, const float *value, bool centred)
{
    size_t d = cache->options.head_dim, size = d * element_bytes(cache->options.dtype);
    size_t row = position % KV_PAGE_ROWS, block = row / KV_BLOCK;
    struct page page =
        page_on(&cache->options, kv_head_page(cache, sequence, kv_head, position / KV_PAGE_ROWS));
    elements_store(cache->kernels, page.key + row * size, d, cache->options.dtype, key, d, 1, d);
    elements_store(cache->kernels, page.value + row * size, d, cache->options.dtype, value, d, 1, d);
    const struct block_rows rows = {cache, page.key + block * KV_BLOCK * size};
    if (row % KV_BLOCK == KV_BLOCK - 1)
        kv_codes_write(cache, &page.codes, block, centred, row_of_block, &rows);
}

static void write_centred(const struct kv_cache *cache, size_t sequence, size_t kv_head, size_t position,
                          const float *key, const float *value)
{
    write_row(cache, sequence, kv_head, position, key, value, true);
}

static void write_plain(const struct kv_cache *cache, size_t sequence, size_t kv_head, size_t position,
                        const float *key, const float *value)
{
    write_row(cache, sequence, kv_head, position, key, value, false);
}

static void read_row(const struct kv_cache *cache, size_t sequence, size_t kv_head, size_t position,
                     float *key, float *value)
{
    size_t d = cache->options.head_dim,
           at = position % KV_PAGE_ROWS * d * element_bytes(cache->options.dtype);
    struct page page =
        page_on(&cache->options, kv_head_page(cache, sequence, kv_head, position / KV_PAGE_ROWS));
    elements_load(cache->kernels, key, d, page.key + at, d, cache->options.dtype, 1, d);
    elements_load(cache->kernels, value, d, page.value + at, d, cache->options.dtype, 1, d);
}

/* ---- memory of a call ---------------------------------------------------------------------------------- */

/* Of one worker; n: rows of the longest sequence, rounded up. */
struct work {
    float *query;                   /* (group, d) */
    struct kv_code_queries queries; /* of the group */
    float *scores;                  /* (group, n) */
    struct kv_candidates candidates;
    struct kv_choice choice; /* room for n rows */
    float *logit;            /* (n) */
    float *key, *value;      /* (TILE, d) */
    float *weights;          /* (2, TILE) */
    float *sums;             /* (2, d) */
    size_t rows;             /* n */
};

struct layout {
    struct work *work;         /* (threads) */
    struct kv_report *reports; /* (sequences, kv_heads) */
};

static struct work lay_out_work(struct arena *arena, const struct kv_cache *cache)
{
    const struct kv_options *options = &cache->options;
    size_t d = options->head_dim, group = kv_group(options), bits = options->bits;
    size_t n = kv_pages_longest(&cache->pages) / KV_BLOCK * KV_BLOCK + 2 * KV_BLOCK;
    struct work work = {.rows = n};
    work.query = arena_take(arena, group * d, sizeof(float));
    work.queries = (struct kv_code_queries){
        .count = group,
        .query = work.query,
        .turned = arena_take(arena, group * bits, sizeof(float)),
        .tables = arena_take(arena, group * bits / 4, 16),
        .known = arena_take(arena, group, sizeof(struct decode_query)),
        .base = arena_take(arena, group, sizeof(float)),
    };
    work.scores = arena_take(arena, group * n, sizeof(float));
    work.candidates = (struct kv_candidates){.kernels = cache->kernels,
                                             .room = arena_take(arena, n, sizeof(float)),
                                             .parts = arena_take(arena, n / DECODE_PART, sizeof(float)),
                                             .exponent = options->scale * options->sharpness};
    work.choice.row = arena_take(arena, n, sizeof(uint32_t));
    work.choice.weight = arena_take(arena, n, sizeof(float));
    work.logit = arena_take(arena, n, sizeof(float));
    work.key = arena_take(arena, TILE * d, sizeof(float));
    work.value = arena_take(arena, TILE * d, sizeof(float));
    work.weights = arena_take(arena, 2 * TILE, sizeof(float));
    work.sums = arena_take(arena, 2 * d, sizeof(float));
    return work;
}

static struct layout lay_out(struct arena *arena, const struct kv_cache *cache)
{
    size_t threads = (size_t)pool_threads(cache->pool);
    struct layout l = {
        .work = arena_take(arena, threads, sizeof *l.work),
        .reports = arena_take(arena, cache->pages.num_sequences * cache->options.kv_heads, sizeof *l.reports),
    };
    for (size_t t = 0; t < threads; t++) {
        struct work work = lay_out_work(arena, cache);
        if (l.work != NULL)
            l.work[t] = work;
    }
    return l;
}

static size_t hashed_scratch_bytes(const struct kv_cache *cache, size_t rows)
{
    (void)rows;
    struct arena arena = arena_on(NULL);
    lay_out(&arena, cache);
    return arena.used;
}

/* ---- one query row of one key-value head --------------------------------------------------------------- */

struct pass {
    const struct kv_attend *call;
    struct layout layout;
    const struct choosing *choosing;
};

/* What a query row sees: rows [begin, end), of which those of blocks [first_block, last_block) are
   candidates, except rows before `first` and from `last` on. Rows outside of the blocks are always read. */
struct seen {
    size_t sequence, kv_head, begin, end, first_block, last_block, first, last;
    size_t always, wanted; /* rows always read; candidates wanted */
};

static double budget_of(const struct kv_options *options, size_t rows)
{
    return options->budget < 1 ? options->budget * (double)rows : options->budget;
}

static struct seen what_is_seen(const struct pass *pass, size_t sequence, size_t kv_head, size_t position)
{
    const struct kv_options *options = &pass->call->cache->options;
    struct seen seen = {.sequence = sequence, .kv_head = kv_head, .end = position + 1};
    seen.begin = kv_first_seen(options, position);
    size_t rows = seen.end - seen.begin, last = options->last_rows;
    double budget = budget_of(options, rows);
    if (pass->choosing->choose == NULL) /* only first and last rows */
        last = (size_t)fmax((double)last, budget - (double)options->first_rows);
    seen.first_block = (seen.begin + KV_BLOCK - 1) / KV_BLOCK;
    seen.last_block = size_max(seen.first_block, seen.end / KV_BLOCK);
    seen.first = size_max(seen.first_block * KV_BLOCK, seen.begin == 0 ? options->first_rows : 0);
    seen.last = size_min(seen.last_block * KV_BLOCK, rows > last ? seen.end - last : seen.begin);
    seen.first = size_min(seen.first, seen.end);
    seen.last = size_min(seen.end, size_max(seen.first, seen.last));
    seen.always = seen.first - seen.begin + seen.end - seen.last;
    if (pass->choosing->choose == NULL)
        return seen;
    double left = options->tolerance > 0 ? TILE : rint(budget) - (double)seen.always;
    seen.wanted = (size_t)fmax(LEAST_SAMPLE, fmin(left, (double)rows));
    if (seen.always + seen.wanted >= rows) { /* all of them */
        seen.last = seen.first = seen.end;
        seen.always = rows;
        seen.wanted = 0;
    }
    return seen;
}

static struct page page_of(const struct kv_cache *cache, const struct seen *seen, size_t row)
{
    return page_on(&cache->options, kv_head_page(cache, seen->sequence, seen->kv_head, row / KV_PAGE_ROWS));
}

/* Scores of lsh: 1 for a row of which a byte equals the query's, else -1. */
static void collide(const struct kv_cache *cache, const struct work *work, const struct kv_codes *codes,
                    size_t block, float *scores)
{
    size_t bytes = cache->options.bits / 8;
    for (size_t i = 0; i < work->queries.count; i++) {
        float *score = scores + i * work->rows;
        const float *turned = work->queries.turned + i * cache->options.bits;
        for (size_t r = 0; r < KV_BLOCK; r++)
            score[r] = -1;
        for (size_t b = 0; b < bytes; b++) {
            unsigned byte = 0;
            for (size_t k = 0; k < 8; k++)
                byte |= (unsigned)(turned[8 * b + k] > 0) << k;
            for (size_t r = 0; r < KV_BLOCK; r++)
                if (codes->codes[(block * bytes + b) * KV_BLOCK + decode_place(r)] == byte)
                    score[r] = 1;
        }
    }
}

/* Scores of all candidates for the queries of the group; -inf for rows that are read anyway. */
static void score_candidates(const struct pass *pass, struct work *work, const struct seen *seen)
{
    const struct kv_cache *cache = pass->call->cache;
    kv_codes_query(cache, &work->queries, pass->choosing->signs);
    for (size_t block = seen->first_block; block < seen->last_block; block++) {
        struct page page = page_of(cache, seen, block * KV_BLOCK);
        float *scores = work->scores + (block - seen->first_block) * KV_BLOCK;
        if (pass->choosing->collides)
            collide(cache, work, &page.codes, block % KV_PAGE_BLOCKS, scores);
        else
            kv_codes_scores(cache, &work->queries, &page.codes, block % KV_PAGE_BLOCKS, scores, work->rows);
    }
    size_t from = seen->first_block * KV_BLOCK, to = seen->last_block * KV_BLOCK;
    for (size_t i = 0; i < work->queries.count; i++) {
        float *scores = work->scores + i * work->rows;
        for (size_t j = from; j < seen->first; j++)
            scores[j - from] = -INFINITY;
        for (size_t j = seen->last; j < to; j++)
            scores[j - from] = -INFINITY;
    }
}

static void append_rows(struct kv_choice *choice, size_t begin, size_t end)
{
    for (size_t j = begin; j < end; j++) {
        choice->row[choice->count] = (uint32_t)j;
        choice->weight[choice->count++] = 1;
    }
}

static void always_read(const struct seen *seen, struct kv_choice *choice)
{
    choice->count = 0;
    append_rows(choice, seen->begin, seen->first);
    append_rows(choice, seen->last, seen->end);
}

/* ---- exact attention over the rows of a choice --------------------------------------------------------- */

static void prefetch(const struct kv_cache *cache, const struct seen *seen, const struct kv_choice *choice,
                     size_t first, bool values)
{
    size_t size = cache->options.head_dim * element_bytes(cache->options.dtype);
    for (size_t i = first; i < size_min(choice->count, first + TILE); i++) {
        struct page page = page_of(cache, seen, choice->row[i]);
        const unsigned char *row = (values ? page.value : page.key) + choice->row[i] % KV_PAGE_ROWS * size;
        for (size_t c = 0; c < size; c += 64)
            __builtin_prefetch(row + c);
    }
}

static void gather(const struct kv_cache *cache, const struct seen *seen, const struct kv_choice *choice,
                   size_t first, size_t count, bool values, float *to)
{
    size_t d = cache->options.head_dim, size = d * element_bytes(cache->options.dtype);
    for (size_t i = 0; i < count; i++) {
        size_t row = choice->row[first + i];
        struct page page = page_of(cache, seen, row);
        const unsigned char *from = (values ? page.value : page.key) + row % KV_PAGE_ROWS * size;
        elements_load(cache->kernels, to + i * d, d, from, d, cache->options.dtype, 1, d);
    }
}

/* The probability that a byte of the codes of x and q is equal in any of `tables` bytes, for their angle. */
static float collision_probability(const float *q, const float *key, const float *mean, size_t d,
                                   size_t tables)
{
    double dot = 0, of_q = 0, of_x = 0;
    for (size_t c = 0; c < d; c++) {
        double x = (double)key[c] - mean[c];
        dot += q[c] * x;
        of_q += (double)q[c] * q[c];
        of_x += x * x;
    }
    double length = sqrt(of_q * of_x), cosine = length > 0 ? fmax(-1, fmin(1, dot / length)) : 0;
    double equal = pow(1 - acos(cosine) / acos(-1), 8);
    return (float)fmax(1e-6, 1 - pow(1 - equal, (double)tables));
}

/* logit = the scaled scores of the choice; for lsh, the weights of the sampled rows too. */
static void exact_scores(const struct pass *pass, struct work *work, const struct seen *seen,
                         const float *query)
{
    const struct kv_cache *cache = pass->call->cache;
    struct kv_choice *choice = &work->choice;
    size_t d = cache->options.head_dim;
    prefetch(cache, seen, choice, 0, false);
    for (size_t first = 0; first < choice->count; first += TILE) {
        size_t count = size_min(TILE, choice->count - first);
        prefetch(cache, seen, choice, first + TILE, false);
        prefetch(cache, seen, choice, first, true);
        gather(cache, seen, choice, first, count, false, work->key);
        cache->kernels->rows.dots(work->logit + first, work->key, d, query, 0, count, d);
        for (size_t i = first; pass->choosing->collides && i < first + count; i++)
            if (i >= seen->always) {
                size_t row = choice->row[i], block = row % KV_PAGE_ROWS / KV_BLOCK;
                struct page page = page_of(cache, seen, row);
                choice->weight[i] /=
                    collision_probability(query, work->key + (i - first) * d, page.codes.mean + block * d, d,
                                          cache->options.bits / 8);
            }
    }
    for (size_t i = 0; i < choice->count; i++)
        work->logit[i] *= cache->options.scale;
}

/* out = attention over the choice; returns the relative error that the sample shows. */
static double attend_choice(const struct pass *pass, struct work *work, const struct seen *seen,
                            const float *query, float *out)
{
    const struct kv_cache *cache = pass->call->cache;
    const struct kv_choice *choice = &work->choice;
    size_t d = cache->options.head_dim;
    float most;
    double sum = 0, spread = 0, squares = 0, of_out = 0, across = 0;
    exact_scores(pass, work, seen, query);
    cache->kernels->softmax.largest(&most, work->logit, choice->count, 1, choice->count);
    cache->kernels->softmax.exp(work->logit, choice->count, work->logit, choice->count, 1, choice->count, 1,
                                &most, 0);
    memset(work->sums, 0, 2 * d * sizeof *work->sums);
    for (size_t first = 0; first < choice->count; first += TILE) {
        size_t count = size_min(TILE, choice->count - first);
        float lengths[TILE];
        prefetch(cache, seen, choice, first + TILE, true);
        gather(cache, seen, choice, first, count, true, work->value);
        cache->kernels->rows.dots(lengths, work->value, d, work->value, d, count, d);
        for (size_t i = 0; i < count; i++) {
            float inverse = choice->weight[first + i], weight = work->logit[first + i];
            float variance = weight * weight * inverse * (inverse - 1);
            work->weights[i] = weight * inverse;
            work->weights[TILE + i] = variance;
            sum += (double)(weight * inverse);
            spread += (double)variance;
            squares += (double)variance * lengths[i];
        }
        cache->kernels->tiles.product(work->sums, d, work->weights, TILE, 1, work->value, d, 2, d, count,
                                      true);
    }
    for (size_t c = 0; c < d; c++) {
        out[c] = (float)(work->sums[c] / sum);
        of_out += (double)out[c] * out[c];
        across += (double)out[c] * work->sums[d + c];
    }
    double variance = (squares - 2 * across + of_out * spread) / (sum * sum);
    return of_out > 0 ? sqrt(fmax(0, variance) / of_out) : 0;
}

/* ---- units --------------------------------------------------------------------------------------------- */

/* In [0, 1), for a query row of a head: it depends on its place alone. */
static double start_of(const struct kv_options *options, size_t head, size_t position, size_t round)
{
    uint32_t words[4];
    uint64_t key = random_key(random_key(options->seed, RANDOM_HEAD, head), RANDOM_DRAWS, position);
    random_words(key, round, words);
    return words[0] * 0x1p-32;
}

/* One head: chooses and attends, again with more rows while the error is above the tolerance. */
static void attend_head(const struct pass *pass, struct work *work, const struct seen *seen, size_t i,
                        float *out, struct kv_report *report)
{
    const struct kv_options *options = &pass->call->cache->options;
    size_t head = seen->kv_head * kv_group(options) + i, wanted = seen->wanted;
    size_t count = (seen->last_block - seen->first_block) * KV_BLOCK;
    double error = 0;
    for (size_t round = 0; round < MOST_ROUNDS; round++) {
        always_read(seen, &work->choice);
        work->candidates.count = count;
        work->candidates.score = work->scores + i * work->rows;
        work->candidates.first = (uint32_t)(seen->first_block * KV_BLOCK);
        work->candidates.start = start_of(options, head, seen->end - 1, round);
        if (wanted > 0)
            pass->choosing->choose(&work->candidates, wanted, &work->choice);
        error = attend_choice(pass, work, seen, work->query + i * options->head_dim, out);
        report->rows_read += (double)work->choice.count;
        if (options->tolerance == 0 || error <= options->tolerance || wanted == 0 || wanted >= count)
            break;
        double more = fmin(16, 1.2 * error * error / (options->tolerance * options->tolerance));
        wanted = (size_t)fmin((double)count, ceil((double)wanted * fmax(1.5, more)));
    }
    report->error += error;
}

/* Unit: all query rows of one key-value head of one sequence. */
static void attend_unit(void *argument, size_t unit, int worker)
{
    const struct pass *pass = argument;
    const struct kv_attend *call = pass->call;
    const struct kv_cache *cache = call->cache;
    struct work *work = &pass->layout.work[worker];
    size_t sequence = unit / cache->options.kv_heads, kv_head = unit % cache->options.kv_heads;
    size_t group = kv_group(&cache->options), length = cache->pages.sequences[sequence].length;
    float out[KV_WIDEST];
    pass->layout.reports[unit] = (struct kv_report){0, 0};
    for (size_t r = 0; r < call->rows; r++) {
        struct seen seen = {.wanted = 0};
        bool sees = length + r >= call->rows;
        for (size_t i = 0; i < group && sees; i++)
            kv_load_row(cache, work->query + i * cache->options.head_dim, call->query, sequence, r,
                        kv_head * group + i);
        if (sees)
            seen = what_is_seen(pass, sequence, kv_head, length + r - call->rows);
        if (seen.wanted > 0)
            score_candidates(pass, work, &seen);
        for (size_t i = 0; i < group; i++) {
            memset(out, 0, sizeof out);
            if (sees)
                attend_head(pass, work, &seen, i, out, &pass->layout.reports[unit]);
            kv_store_row(cache, call->out, sequence, r, kv_head * group + i, out);
        }
    }
}

static void attend(const struct kv_attend *call, const struct choosing *choosing)
{
    const struct kv_cache *cache = call->cache;
    struct arena arena = arena_on(call->scratch);
    struct pass pass = {.call = call, .layout = lay_out(&arena, cache), .choosing = choosing};
    size_t units = cache->pages.num_sequences * cache->options.kv_heads;
    double rows = (double)(cache->pages.num_sequences * cache->options.num_heads * call->rows);
    pool_run(cache->pool, attend_unit, &pass, units);
    *call->report = (struct kv_report){0, 0};
    for (size_t u = 0; u < units; u++) {
        call->report->rows_read += pass.layout.reports[u].rows_read / rows;
        call->report->error += pass.layout.reports[u].error / rows;
    }
}

#define CHOOSING(name_, symbol, write_, ...)                                                                 \
    static void symbol##_attend(const struct kv_attend *call)                                                \
    {                                                                                                        \
        static const struct choosing choosing = {__VA_ARGS__};                                               \
        attend(call, &choosing);                                                                             \
    }                                                                                                        \
    const struct kv_mechanism kv_mechanism_##symbol = {                                                      \
        .name = name_,                                                                                       \
        .prepare = kv_codes_prepare,                                                                         \
        .head_bytes = hashed_head_bytes,                                                                     \
        .write = write_,                                                                                     \
        .read = read_row,                                                                                    \
        .scratch_bytes = hashed_scratch_bytes,                                                               \
        .attend = symbol##_attend,                                                                           \
    }

CHOOSING("hashed", hashed, write_centred, .choose = kv_choose_sample);
CHOOSING("top", top, write_centred, .choose = kv_choose_top);
CHOOSING("top-uniform", top_uniform, write_centred, .choose = kv_choose_top_uniform);
CHOOSING("hamming", hamming, write_plain, .signs = true, .choose = kv_choose_top);
CHOOSING("lsh", lsh, write_centred, .collides = true, .choose = kv_choose_positive);
CHOOSING("window", window, write_plain, .choose = NULL);
