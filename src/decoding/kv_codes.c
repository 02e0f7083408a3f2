/* Codes of blocks of keys, and their scores.
   SPDX-License-Identifier: Apache-2.0 */
#include "decoding/kv_codes.h"

#include <math.h>
#include <string.h>

#include "base/memory.h"
#include "base/random.h"
#include "parts/hashing/planes.h"

enum { STRIP = 16 }; /* rows coded at a time */

static struct planes_form form_of(const struct kv_options *options)
{
    return (struct planes_form){.kind = PLANES_ORTHOGONAL,
                                .num_hashes = options->bits,
                                .hash_bits = 1,
                                .dim = options->head_dim,
                                .dense = true};
}

size_t kv_codes_bits(size_t head_dim)
{
    enum { FEWEST = 128 };
    return size_min(KV_MOST_BITS, size_max(FEWEST, (head_dim + HASH_LANES - 1) / HASH_LANES * HASH_LANES));
}

double kv_codes_sharpness(size_t bits, size_t head_dim)
{
    const double half_pi = acos(-1) / 2, ratio = (double)head_dim / (double)bits;
    double error = ratio >= 1 ? half_pi * ratio - 1 : (half_pi - 1) * ratio;
    return 1 / (1 + error);
}

hashattn_status kv_codes_prepare(struct kv_cache *cache)
{
    const struct planes_form form = form_of(&cache->options);
    void *planes, *work;
    size_t threads = (size_t)pool_threads(cache->pool);
    size_t bytes = planes_count(&form) * sizeof(float);
    TRY(memory_new(cache->host, 1, bytes, "the planes of a cache", &planes));
    cache->planes = planes;
    cache->planes_bytes = bytes;
    TRY(memory_new(cache->host, 1, planes_work_size(&form, threads), "the planes of a cache", &work));
    planes_draw(cache->kernels, cache->pool, &form, random_key(cache->options.seed, RANDOM_PLANES, 0), planes,
                work);
    memory_free(cache->host, work);
    return HASHATTN_OK;
}

/* turned (rows, bits) = x (rows, head_dim) times the planes. */
static void turn(const struct kv_cache *cache, float *turned, const float *x, size_t rows)
{
    size_t d = cache->options.head_dim, bits = cache->options.bits;
    for (size_t g = 0; g < bits / HASH_LANES; g++)
        cache->kernels->tiles.product(turned + g * HASH_LANES, bits, x, d, 1,
                                      cache->planes + g * d * HASH_LANES, HASH_LANES, rows, HASH_LANES, d,
                                      false);
}

/* ---- keys ---------------------------------------------------------------------------------------------- */

static void code_row(const struct kv_options *options, const struct kv_codes *codes, size_t block, size_t r,
                     const float *x, const float *turned, bool centred)
{
    uint8_t *place = codes->codes + block * options->bits / 8 * KV_BLOCK + decode_place(r);
    double length = 0, size = 0;
    for (size_t b = 0; b < options->bits / 8; b++) {
        unsigned byte = 0;
        for (size_t i = 0; i < 8; i++)
            byte |= (unsigned)(turned[8 * b + i] > 0) << i;
        place[b * KV_BLOCK] = (uint8_t)byte;
    }
    for (size_t c = 0; c < options->head_dim; c++)
        length += (double)x[c] * x[c];
    for (size_t b = 0; b < options->bits; b++)
        size += fabs((double)turned[b]);
    codes->scale[block * KV_BLOCK + r] = !centred ? 1 : size > 0 ? (float)(length / size) : 0;
}

void kv_codes_write(const struct kv_cache *cache, const struct kv_codes *codes, size_t block, bool centred,
                    const float *(*row)(const void *rows, size_t r, float *room), const void *rows)
{
    size_t d = cache->options.head_dim, bits = cache->options.bits;
    float *mean = codes->mean + block * d, room[KV_WIDEST], x[STRIP * KV_WIDEST],
          turned[STRIP * KV_MOST_BITS];
    memset(mean, 0, d * sizeof *mean);
    for (size_t r = 0; centred && r < KV_BLOCK; r++)
        cache->kernels->rows.axpy(mean, 1.0f / KV_BLOCK, row(rows, r, room), d);
    for (size_t first = 0; first < KV_BLOCK; first += STRIP) {
        for (size_t r = 0; r < STRIP; r++) {
            memcpy(x + r * d, row(rows, first + r, room), d * sizeof *x);
            cache->kernels->rows.axpy(x + r * d, -1, mean, d);
        }
        turn(cache, turned, x, STRIP);
        for (size_t r = 0; r < STRIP; r++)
            code_row(&cache->options, codes, block, first + r, x + r * d, turned + r * bits, centred);
    }
}

/* ---- queries ------------------------------------------------------------------------------------------- */

/* The 16 sums of four numbers with signs, above the least of them, in steps; several times. */
static void fill_table(uint8_t *table, const float *turned, float steps)
{
    float above[16] = {0};
    for (unsigned b = 0; b < 4; b++) {
        float set = turned[b] > 0 ? 2 * turned[b] : 0, clear = turned[b] > 0 ? 0 : -2 * turned[b];
        for (unsigned code = 0; code < 16; code++)
            above[code] += code >> b & 1 ? set : clear;
    }
    for (unsigned code = 0; code < 16; code++)
        table[code] = (uint8_t)(above[code] * steps + 0.5f);
    for (size_t again = 16; again < DECODE_TABLE; again += 16)
        memcpy(table + again, table, 16);
}

static void query_tables(const struct kv_options *options, const float *turned, uint8_t *tables,
                         struct decode_query *known)
{
    float widest = 0, least = 0;
    for (size_t g = 0; g < options->bits; g += 4) {
        float size = fabsf(turned[g]) + fabsf(turned[g + 1]) + fabsf(turned[g + 2]) + fabsf(turned[g + 3]);
        widest = fmaxf(widest, 2 * size);
        least -= size;
    }
    *known = (struct decode_query){.tables = tables, .step = widest / DECODE_LARGEST_ENTRY, .least = least};
    float steps = widest > 1e-30f ? DECODE_LARGEST_ENTRY / widest : 0;
    for (size_t g = 0; g < options->bits / 4; g++)
        fill_table(tables + g * DECODE_TABLE, turned + 4 * g, steps);
}

void kv_codes_query(const struct kv_cache *cache, const struct kv_code_queries *queries, bool signs)
{
    size_t bits = cache->options.bits;
    turn(cache, queries->turned, queries->query, queries->count);
    for (size_t i = 0; i < queries->count; i++) {
        float *turned = queries->turned + i * bits;
        for (size_t b = 0; signs && b < bits; b++)
            turned[b] = turned[b] > 0 ? 1 : -1;
        query_tables(&cache->options, turned, queries->tables + i * bits / 4 * DECODE_TABLE,
                     &queries->known[i]);
    }
}

void kv_codes_scores(const struct kv_cache *cache, const struct kv_code_queries *queries,
                     const struct kv_codes *codes, size_t block, float *scores, size_t ld)
{
    size_t d = cache->options.head_dim, bytes = cache->options.bits / 8;
    float base[8];
    for (size_t first = 0; first < queries->count; first += 8) {
        size_t count = size_min(8, queries->count - first);
        cache->kernels->rows.dots(base, queries->query + first * d, d, codes->mean + block * d, 0, count, d);
        for (size_t i = 0; i < count; i++)
            queries->known[first + i].base = base[i];
    }
    cache->kernels->decode.scores(scores, ld, codes->codes + block * bytes * KV_BLOCK,
                                  codes->scale + block * KV_BLOCK, bytes, queries->known, queries->count);
}
