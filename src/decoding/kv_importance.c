/* Importance of rows: a pilot over some pages, then all pages.
   SPDX-License-Identifier: Apache-2.0 */
#include "decoding/kv_importance.h"

#include <math.h>
#include <string.h>

enum { PILOT_STEP = 8, LEAST_PILOT = 4, MOST_PILOT = 16 }; /* pages */

struct kv_importance_scratch kv_importance_scratch_lay_out(struct arena *arena, size_t group)
{
    return (struct kv_importance_scratch){
        .scores = arena_take(arena, group * KV_PAGE_ROWS, sizeof(float)),
        .base = arena_take(arena, group * KV_PAGE_BLOCKS, sizeof(float)),
        .known = arena_take(arena, group, sizeof(struct decode_query)),
    };
}

/* 1 for rows of which a byte equals the query's, else 0. */
static void collide(const struct kv_importance *of, const struct kv_codes *codes, size_t block, float *equal)
{
    size_t bits = of->cache->options.bits;
    const float *turned = of->queries.turned;
    memset(equal, 0, KV_BLOCK * sizeof *equal);
    for (size_t b = 0; b < bits / 8; b++) {
        unsigned byte = 0;
        for (size_t k = 0; k < 8; k++)
            byte |= (unsigned)(turned[8 * b + k] > 0) << k;
        for (size_t r = 0; r < KV_BLOCK; r++)
            if (codes->codes[(block * bits / 8 + b) * KV_BLOCK + decode_place(r)] == byte)
                equal[r] = 1;
    }
}

/* Asks for a block's share of what a page has for scores: codes, scales and means lie side by side. They go
   to the second-level cache, because the first one's misses are soon used up: 0.85 of the time of a row. */
static void fetch_codes(const struct kv_importance *of, size_t page, size_t block)
{
    enum { LINE = 64 };
    size_t share = of->at->rows / KV_PAGE_BLOCKS;
    if (page >= of->pages)
        return;
    const unsigned char *from =
        kv_head_page(of->cache, of->sequence, of->kv_head, of->page + page) + block * share;
    for (size_t c = 0; c < share; c += LINE)
        __builtin_prefetch(from + c, 0, 2);
}

/* scores (queries.count, KV_PAGE_ROWS) of the rows of a page; `none` for those that are no candidates.
   `next`: the page after it, which is fetched meanwhile. */
static void score_page(const struct kv_importance *of, size_t page, size_t next,
                       const struct kv_importance_scratch *scratch, float *scores, float none)
{
    size_t begin = (of->page + page) * KV_PAGE_ROWS;
    const struct kv_codes codes =
        kv_hashed_codes(of->cache, of->at, of->sequence, of->kv_head, of->page + page);
    struct kv_code_queries queries = of->queries;
    queries.known = scratch->known;
    memcpy(scratch->known, of->queries.known, queries.count * sizeof *scratch->known);
    if (!of->collides)
        kv_codes_bases(of->cache, &queries, &codes, scratch->base);
    for (size_t b = 0; b < KV_PAGE_BLOCKS; b++) {
        size_t block = begin / KV_BLOCK + b;
        fetch_codes(of, next, b);
        if (block < of->first_block || block >= of->last_block)
            continue;
        if (of->collides)
            collide(of, &codes, b, scores + b * KV_BLOCK);
        else
            kv_codes_scores(of->cache, &queries, &codes, scratch->base, b, scores + b * KV_BLOCK,
                            KV_PAGE_ROWS);
    }
    size_t first = size_max(begin, of->first), last = size_min(begin + KV_PAGE_ROWS, of->last);
    for (size_t i = 0; i < queries.count && last - first < KV_PAGE_ROWS; i++)
        for (size_t j = 0; j < KV_PAGE_ROWS; j++)
            if (begin + j < first || begin + j >= last)
                scores[i * KV_PAGE_ROWS + j] = none;
}

/* Importance is 2^(exponent score + shift). */
static float exponent_of(const struct kv_options *options)
{
    return (float)(1.4426950408889634 * (double)options->scale * (double)options->sharpness);
}

static size_t pilot_step(const struct kv_importance *of)
{
    size_t step = size_min(PILOT_STEP, of->pages / LEAST_PILOT);
    return size_max(1, size_max(step, of->pages / MOST_PILOT));
}

/* Unit: a page of the pilot. Its largest scores, and the sums of the importance below them. */
static void pilot_page(void *argument, size_t unit, int worker)
{
    const struct kv_importance *of = argument;
    const struct kernels *kernels = of->cache->kernels;
    const struct kv_importance_scratch *scratch = &of->scratch[worker];
    size_t count = of->queries.count, step = pilot_step(of);
    float exponent = exponent_of(&of->cache->options), *most = of->most + unit * count;
    score_page(of, unit * step, (unit + 1) * step, scratch, scratch->scores, -INFINITY);
    kernels->softmax.largest(most, scratch->scores, KV_PAGE_ROWS, count, KV_PAGE_ROWS);
    for (size_t i = 0; i < count; i++) {
        float *scores = scratch->scores + i * KV_PAGE_ROWS;
        float shift = most[i] > -INFINITY ? -most[i] * exponent : 0;
        of->sum[unit * count + i] = (float)kernels->decode.importance(scores, scores, KV_PAGE_ROWS, 1,
                                                                      KV_PAGE_ROWS, exponent, &shift);
    }
}

/* shift: minus the logarithm of the pilot's sum. */
static void run_pilot(struct kv_importance *of)
{
    size_t count = of->queries.count, step = pilot_step(of), pages = (of->pages + step - 1) / step;
    float exponent = exponent_of(&of->cache->options);
    pool_run(of->pool, pilot_page, of, pages);
    for (size_t i = 0; i < count; i++) {
        const float *most = of->most + i, *sum = of->sum + i;
        float all = 0, largest = -INFINITY;
        for (size_t p = 0; p < pages; p++)
            largest = fmaxf(largest, most[p * count]);
        for (size_t p = 0; p < pages && largest > -INFINITY; p++)
            all += exp2f(exponent * (most[p * count] - largest)) * sum[p * count];
        of->shift[i] = largest > -INFINITY ? -exponent * largest - log2f(all) : 0;
    }
}

/* Unit: the importance of the rows of a page. */
static void importance_page(void *argument, size_t page, int worker)
{
    const struct kv_importance *of = argument;
    const struct kv_importance_scratch *scratch = &of->scratch[worker];
    float *importance = of->importance + page * KV_PAGE_ROWS;
    if (of->collides) {
        score_page(of, page, page + 1, scratch, importance, 0);
        return;
    }
    score_page(of, page, page + 1, scratch, scratch->scores, -INFINITY);
    of->cache->kernels->decode.importance(importance, scratch->scores, KV_PAGE_ROWS, of->queries.count,
                                          KV_PAGE_ROWS, exponent_of(&of->cache->options), of->shift);
}

void kv_importance_find(struct kv_importance *of)
{
    if (!of->collides)
        run_pilot(of);
    pool_run(of->pool, importance_page, of, of->pages);
}
