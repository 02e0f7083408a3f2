/* Softmax attention that reads few rows of the cache exactly: the first, the last, and a choice of the others
   by importance (kv_choice.h). The query heads of a key-value head share the choice, so
   that a row is read from memory once for all of them. Mechanisms differ in how they choose:
   - hashed: a sample by importance (kv_importance.h), weighted by the inverse of its probabilities, so that
     the numerator and the denominator of softmax are unbiased;
   - top: the most important rows without weights; top-uniform: half of them, half uniform (vAttention);
   - hamming: as top, by equal signs of key and query (HATA, without its learned planes);
   - lsh: rows of which a byte of the code equals the query's, weighted by the inverse of the probability of
     that for the angle of key and query (MagicPIG, with one table for each byte); every head has its own;
   - window: none.
   A query that sees few rows reads all.
   Cost beside that of importance, in operations on 16 lanes: the choice takes 30 for 16 rows of all heads,
   and a row that is read 50 for four heads, d 64. Memory: 2 d elements for each row read, from random places.
   With everything in cache the scores are half of the time; from memory, the bytes are. Heads are units of
   work if there are enough of them; otherwise the pages and parts of one head are.
   SPDX-License-Identifier: Apache-2.0 */
#include <math.h>

#include "base/memory.h"
#include "base/random.h"
#include "decoding/kv_cache_mechanism.h"
#include "decoding/kv_choice.h"
#include "decoding/kv_importance.h"
#include "decoding/kv_read.h"

enum { FIRST_SAMPLE = 64, LEAST_SAMPLE = 16, MOST_ROUNDS = 5 };

/* What a mechanism of this kind has. */
struct choosing {
    bool signs, collides; /* scores count equal signs, or find equal bytes; else they estimate <q, k> */
    void (*choose)(const struct kv_candidates *candidates, size_t wanted, struct kv_choice *choice);
};

/* ---- memory of a call ---------------------------------------------------------------------------------- */

/* Of the query row of a key-value head; n: rows of the longest sequence, rounded up. */
struct work {
    float *query;                   /* (group, d) */
    struct kv_code_queries queries; /* of the group */
    float *importance;              /* (n) */
    float *most, *sum;              /* (pages, group), of pages of the pilot */
    float *shift;                   /* (group) */
    struct kv_choice choice;        /* scratch for n rows */
    struct kv_read_sums *sums;      /* (parts of a choice of n rows) */
};

struct layout {
    struct work *work;                     /* (threads) */
    struct kv_importance_scratch *scoring; /* (threads) */
    struct kv_read_scratch *reading;       /* (threads) */
    struct kv_report *reports;             /* (sequences, kv_heads) */
};

static struct work lay_out_work(struct arena *arena, const struct kv_cache *cache)
{
    const struct kv_options *options = &cache->options;
    size_t d = options->head_dim, group = kv_group(options), planes = cache->code_form.planes;
    size_t pages = kv_pages_longest(&cache->pages) / KV_PAGE_ROWS + 1, n = pages * KV_PAGE_ROWS;
    struct work work;
    work.query = arena_take(arena, group * d, sizeof(float));
    work.queries = (struct kv_code_queries){
        .count = group,
        .query = work.query,
        .turned = arena_take(arena, group * planes, sizeof(float)),
        .tables = arena_take(arena, group * options->bits / 4, DECODE_TABLE),
        .known = arena_take(arena, group, sizeof(struct decode_query)),
    };
    work.importance = arena_take(arena, n, sizeof(float));
    work.most = arena_take(arena, pages * group, sizeof(float));
    work.sum = arena_take(arena, pages * group, sizeof(float));
    work.shift = arena_take(arena, group, sizeof(float));
    work.choice.row = arena_take(arena, n, sizeof(uint32_t));
    work.choice.weight = arena_take(arena, n, sizeof(float));
    work.sums = arena_take(arena, kv_read_parts(n), sizeof *work.sums);
    for (size_t p = 0; p < kv_read_parts(n); p++) {
        struct kv_read_sums sums = kv_read_sums_lay_out(arena, group, d);
        if (work.sums != NULL)
            work.sums[p] = sums;
    }
    return work;
}

static struct layout lay_out(struct arena *arena, const struct kv_cache *cache)
{
    size_t threads = (size_t)pool_threads(cache->pool), group = kv_group(&cache->options);
    struct layout l = {
        .work = arena_take(arena, threads, sizeof *l.work),
        .scoring = arena_take(arena, threads, sizeof *l.scoring),
        .reading = arena_take(arena, threads, sizeof *l.reading),
        .reports = arena_take(arena, cache->pages.num_sequences * cache->options.kv_heads, sizeof *l.reports),
    };
    for (size_t t = 0; t < threads; t++) {
        struct work work = lay_out_work(arena, cache);
        const struct kv_importance_scratch scoring = kv_importance_scratch_lay_out(arena, group);
        const struct kv_read_scratch reading = kv_read_scratch_lay_out(arena, group);
        if (l.work != NULL) {
            l.work[t] = work;
            l.scoring[t] = scoring;
            l.reading[t] = reading;
        }
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

/* ---- what a query row sees ----------------------------------------------------------------------------- */

struct pass {
    const struct kv_attend *call;
    struct layout layout;
    const struct choosing *choosing;
    struct kv_hashed_page at;
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
    double left = options->tolerance > 0 ? FIRST_SAMPLE : rint(budget) - (double)seen.always;
    seen.wanted = (size_t)fmax(LEAST_SAMPLE, fmin(left, (double)rows));
    if (seen.always + seen.wanted >= rows) { /* all of them */
        seen.last = seen.first = seen.end;
        seen.always = rows;
        seen.wanted = 0;
    }
    return seen;
}

/* ---- a choice and attention over it -------------------------------------------------------------------- */

/* A query row of a key-value head, with its memory, in which the heads [head, head + count) of the group
   share a choice. */
struct row {
    const struct pass *pass;
    struct work *work;
    const struct kv_read_scratch *reading; /* (threads) */
    struct pool *pool;                     /* NULL: one thread computes the row */
    struct seen seen;
    size_t head, count;
    struct kv_importance importance;
    struct kv_read read;
};

static void append_rows(struct kv_choice *choice, size_t begin, size_t end)
{
    for (size_t j = begin; j < end; j++) {
        choice->row[choice->count] = (uint32_t)j;
        choice->weight[choice->count++] = 1;
    }
}

static void choose(const struct row *row, size_t wanted, size_t round)
{
    const struct kv_cache *cache = row->pass->call->cache;
    const struct seen *seen = &row->seen;
    uint32_t words[4];
    size_t head = seen->kv_head * kv_group(&cache->options) + row->head;
    /* What is drawn depends on the place of the row alone. */
    uint64_t key =
        random_key(random_key(cache->options.seed, RANDOM_HEAD, head), RANDOM_DRAWS, seen->end - 1);
    random_words(key, round, words);
    const struct kv_candidates candidates = {.kernels = cache->kernels,
                                             .count = row->importance.pages * KV_PAGE_ROWS,
                                             .importance = row->importance.importance,
                                             .start = words[0],
                                             .first = (uint32_t)(row->importance.page * KV_PAGE_ROWS)};
    row->work->choice.count = 0;
    append_rows(&row->work->choice, seen->begin, seen->first);
    append_rows(&row->work->choice, seen->last, seen->end);
    if (wanted > 0)
        row->pass->choosing->choose(&candidates, wanted, &row->work->choice);
}

/* The probability that a byte of the codes of a key and the query is equal, for their angle. */
static float collision_probability(const struct kv_read *read, size_t query, size_t position)
{
    const struct row *row = read->of_chance;
    const struct kv_cache *cache = read->cache;
    size_t d = cache->options.head_dim, block = position % KV_PAGE_ROWS / KV_BLOCK;
    const float *q = read->query + query * d;
    const struct kv_codes codes =
        kv_hashed_codes(cache, &row->pass->at, read->sequence, read->kv_head, position / KV_PAGE_ROWS);
    float key[KV_WIDEST], value[KV_WIDEST], mean[KV_WIDEST];
    double dot = 0, of_q = 0, of_x = 0;
    cache->kernels->bf16.widen(mean, d, codes.mean + block * d, d, 1, d);
    kv_hashed_read(cache, read->sequence, read->kv_head, position, key, value);
    for (size_t c = 0; c < d; c++) {
        double x = (double)key[c] - (double)mean[c];
        dot += (double)q[c] * x;
        of_q += (double)q[c] * (double)q[c];
        of_x += x * x;
    }
    double length = sqrt(of_q * of_x), cosine = length > 0 ? fmax(-1, fmin(1, dot / length)) : 0;
    double equal = pow(1 - acos(cosine) / acos(-1), 8);
    return (float)fmax(1e-6, 1 - pow(1 - equal, (double)cache->options.bits / 8));
}

/* Unit: a part of the choice. */
static void read_part(void *argument, size_t part, int worker)
{
    const struct row *row = argument;
    kv_read_part(&row->read, part, &row->reading[worker], &row->work->sums[part]);
}

/* Chooses and attends, again with more rows while the error of a head is above the tolerance. */
static void attend_choice(struct row *row, size_t query_row, struct kv_report *report)
{
    const struct kv_cache *cache = row->pass->call->cache;
    const struct kv_options *options = &cache->options;
    size_t wanted = row->seen.wanted, most = row->importance.pages * KV_PAGE_ROWS;
    float out[KV_WIDEST];
    if (wanted > 0)
        kv_importance_find(&row->importance);
    for (size_t round = 0; round < MOST_ROUNDS; round++) {
        double errors = 0, largest = 0;
        choose(row, wanted, round);
        size_t parts = kv_read_parts(row->work->choice.count);
        pool_run(row->pool, read_part, row, parts);
        for (size_t i = 0; i < row->count; i++) {
            double error = kv_read_merge(&row->read, i, row->work->sums, parts, out);
            errors += error;
            largest = fmax(largest, error);
            kv_store_row(cache, row->pass->call->out, row->seen.sequence, query_row,
                         row->seen.kv_head * kv_group(options) + row->head + i, out);
        }
        report->rows_read += (double)(row->work->choice.count * row->count);
        if (options->tolerance == 0 || largest <= options->tolerance || wanted == 0 || wanted >= most ||
            round == MOST_ROUNDS - 1) {
            report->error += errors;
            return;
        }
        double more = fmin(16, 1.2 * largest * largest / (options->tolerance * options->tolerance));
        wanted = (size_t)fmin((double)most, ceil((double)wanted * fmax(1.5, more)));
    }
}

/* ---- units --------------------------------------------------------------------------------------------- */

/* The heads [head, head + count) of a key-value head. */
static struct row row_of(const struct pass *pass, struct work *work, struct pool *pool,
                         const struct seen *seen, size_t head, size_t count)
{
    const struct kv_options *options = &pass->call->cache->options;
    size_t thread = pool == NULL ? (size_t)(work - pass->layout.work) : 0;
    struct row row = {.pass = pass,
                      .work = work,
                      .reading = pass->layout.reading + thread,
                      .pool = pool,
                      .seen = *seen,
                      .head = head,
                      .count = count};
    size_t page = seen->first_block / KV_PAGE_BLOCKS;
    size_t end = (seen->last_block + KV_PAGE_BLOCKS - 1) / KV_PAGE_BLOCKS;
    row.importance = (struct kv_importance){.cache = pass->call->cache,
                                            .at = &pass->at,
                                            .sequence = seen->sequence,
                                            .kv_head = seen->kv_head,
                                            .first_block = seen->first_block,
                                            .last_block = seen->last_block,
                                            .first = seen->first,
                                            .last = seen->last,
                                            .page = page,
                                            .pages = end > page ? end - page : 0,
                                            .collides = pass->choosing->collides,
                                            .queries = work->queries,
                                            .pool = pool,
                                            .scratch = pass->layout.scoring + thread,
                                            .importance = work->importance,
                                            .most = work->most,
                                            .sum = work->sum,
                                            .shift = work->shift};
    row.importance.queries.count = count;
    row.importance.queries.turned += head * pass->call->cache->code_form.planes;
    row.read = (struct kv_read){.cache = pass->call->cache,
                                .sequence = seen->sequence,
                                .kv_head = seen->kv_head,
                                .rows_at = pass->at.rows,
                                .choice = &work->choice,
                                .queries = count,
                                .query = work->query + head * options->head_dim,
                                .chance = pass->choosing->collides ? collision_probability : NULL,
                                .certain = seen->always};
    return row;
}

/* All query rows of one key-value head of one sequence. */
static void attend_head(const struct pass *pass, size_t unit, struct work *work, struct pool *pool)
{
    const struct kv_attend *call = pass->call;
    const struct kv_cache *cache = call->cache;
    size_t sequence = unit / cache->options.kv_heads, kv_head = unit % cache->options.kv_heads;
    size_t group = kv_group(&cache->options), length = cache->pages.sequences[sequence].length;
    size_t together = pass->choosing->collides ? 1 : group;
    static const float nothing[KV_WIDEST];
    pass->layout.reports[unit] = (struct kv_report){0, 0};
    for (size_t r = 0; r < call->rows; r++) {
        bool sees = length + r >= call->rows;
        for (size_t i = 0; i < group; i++)
            if (sees)
                kv_load_row(cache, work->query + i * cache->options.head_dim, call->query, sequence, r,
                            kv_head * group + i);
            else
                kv_store_row(cache, call->out, sequence, r, kv_head * group + i, nothing);
        if (!sees)
            continue;
        const struct seen seen = what_is_seen(pass, sequence, kv_head, length + r - call->rows);
        if (seen.wanted > 0)
            kv_codes_query(cache, &work->queries, pass->choosing->signs);
        for (size_t i = 0; i < group; i += together) {
            struct row row = row_of(pass, work, pool, &seen, i, together);
            row.read.of_chance = &row;
            attend_choice(&row, r, &pass->layout.reports[unit]);
        }
    }
}

static void attend_unit(void *argument, size_t unit, int worker)
{
    const struct pass *pass = argument;
    attend_head(pass, unit, &pass->layout.work[worker], NULL);
}

static void attend(const struct kv_attend *call, const struct choosing *choosing)
{
    const struct kv_cache *cache = call->cache;
    struct arena arena = arena_on(call->scratch);
    struct pass pass = {.call = call,
                        .layout = lay_out(&arena, cache),
                        .choosing = choosing,
                        .at = kv_hashed_page_of(&cache->options)};
    size_t units = cache->pages.num_sequences * cache->options.kv_heads;
    size_t threads = (size_t)pool_threads(cache->pool);
    double rows = (double)(cache->pages.num_sequences * cache->options.num_heads * call->rows);
    if (units % threads == 0 || units >= 4 * threads)
        pool_run(cache->pool, attend_unit, &pass, units);
    else
        for (size_t u = 0; u < units; u++)
            attend_head(&pass, u, pass.layout.work, cache->pool);
    *call->report = (struct kv_report){0, 0};
    for (size_t u = 0; u < units; u++) {
        call->report->rows_read += pass.layout.reports[u].rows_read / rows;
        call->report->error += pass.layout.reports[u].error / rows;
    }
}

#define CHOOSING(name_, symbol, prepare_, write_, ...)                                                       \
    static void symbol##_attend(const struct kv_attend *call)                                                \
    {                                                                                                        \
        static const struct choosing choosing = {__VA_ARGS__};                                               \
        attend(call, &choosing);                                                                             \
    }                                                                                                        \
    const struct kv_mechanism kv_mechanism_##symbol = {                                                      \
        .name = name_,                                                                                       \
        .prepare = prepare_,                                                                                 \
        .head_bytes = kv_hashed_head_bytes,                                                                  \
        .write = write_,                                                                                     \
        .read = kv_hashed_read,                                                                              \
        .scratch_bytes = hashed_scratch_bytes,                                                               \
        .attend = symbol##_attend,                                                                           \
    }

CHOOSING("hashed", hashed, kv_codes_prepare, kv_hashed_write_centred, .choose = kv_choose_sample);
CHOOSING("top", top, kv_codes_prepare, kv_hashed_write_centred, .choose = kv_choose_top);
CHOOSING("top-uniform", top_uniform, kv_codes_prepare, kv_hashed_write_centred,
         .choose = kv_choose_top_uniform);
CHOOSING("hamming", hamming, kv_codes_prepare_signs, kv_hashed_write_plain, .signs = true,
         .choose = kv_choose_top);
CHOOSING("lsh", lsh, kv_codes_prepare_signs, kv_hashed_write_centred, .collides = true,
         .choose = kv_choose_uniform);
CHOOSING("window", window, kv_codes_prepare_signs, kv_hashed_write_plain, .choose = NULL);
