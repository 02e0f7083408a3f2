/* Codes of blocks of keys, and their scores.
   SPDX-License-Identifier: Apache-2.0 */
#include "decoding/kv_codes.h"

#include <math.h>
#include <string.h>

#include "base/memory.h"
#include "base/random.h"
#include "parts/hashing/planes.h"

enum { STRIP = 16 }; /* rows coded at a time */

static hashattn_status prepare(struct kv_cache *cache, bool signs)
{
    const struct kv_options *options = &cache->options;
    cache->code_form = kv_code_form_of(options->bits, options->head_dim, signs);
    const struct planes_form form = {.kind = PLANES_ORTHOGONAL,
                                     .num_hashes = cache->code_form.planes,
                                     .hash_bits = 1,
                                     .dim = options->head_dim,
                                     .dense = true};
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

hashattn_status kv_codes_prepare(struct kv_cache *cache)
{
    return prepare(cache, false);
}

hashattn_status kv_codes_prepare_signs(struct kv_cache *cache)
{
    return prepare(cache, true);
}

/* turned (rows, planes) = x (rows, head_dim) times the planes. */
static void turn(const struct kv_cache *cache, float *turned, const float *x, size_t rows)
{
    size_t d = cache->options.head_dim, planes = cache->code_form.planes;
    for (size_t g = 0; g < planes / HASH_LANES; g++)
        cache->kernels->tiles.product(turned + g * HASH_LANES, planes, x, d, 1,
                                      cache->planes + g * d * HASH_LANES, HASH_LANES, rows, HASH_LANES, d,
                                      false);
}

/* ---- keys ---------------------------------------------------------------------------------------------- */

/* The step of the digits of a row. */
static float step_of(const struct kv_code_form *form, const float *turned)
{
    double squares = 0;
    for (size_t p = 0; p < form->planes; p++)
        squares += (double)turned[p] * turned[p];
    return (float)(form->step * sqrt(squares / (double)form->planes));
}

/* Digits count from 0 to `most`, and stand for the odd whole numbers -most, -most + 2, ..., most. */
static unsigned digit_of(float x, float step, unsigned most)
{
    float above = step > 0 ? floorf(x / step) + (float)(most / 2 + 1) : (float)(x > 0);
    return (unsigned)fminf(fmaxf(above, 0), (float)most);
}

static void code_row(const struct kv_cache *cache, const struct kv_codes *codes, size_t block, size_t r,
                     const float *x, const float *turned, bool centred)
{
    const struct kv_code_form *form = &cache->code_form;
    size_t bytes = cache->options.bits / 8, in_byte = 8 / form->digit_bits;
    unsigned most = (1U << form->digit_bits) - 1;
    uint8_t *place = codes->codes + block * bytes * KV_BLOCK + decode_place(r);
    float step = step_of(form, turned);
    double length = 0, product = 0;
    for (size_t b = 0; b < bytes; b++) {
        unsigned byte = 0;
        for (size_t i = 0; i < in_byte; i++) {
            float each = turned[b * in_byte + i];
            unsigned digit = digit_of(each, step, most);
            byte |= digit << i * form->digit_bits;
            product += (2 * (double)digit - most) * (double)each;
        }
        place[b * KV_BLOCK] = (uint8_t)byte;
    }
    for (size_t c = 0; c < cache->options.head_dim; c++)
        length += (double)x[c] * x[c];
    float scale = !centred ? 1 : product > 0 ? (float)(length / product) : 0;
    cache->kernels->bf16.round(&codes->scale[block * KV_BLOCK + r], 1, &scale, 1, 1, 1);
}

void kv_codes_write(const struct kv_cache *cache, const struct kv_codes *codes, size_t block, bool centred,
                    const float *(*row)(const void *rows, size_t r, float *room), const void *rows)
{
    size_t d = cache->options.head_dim, planes = cache->code_form.planes;
    bf16 *rounded = codes->mean + block * d;
    float mean[KV_WIDEST] = {0}, room[KV_WIDEST], x[STRIP * KV_WIDEST], turned[STRIP * KV_MOST_BITS];
    for (size_t r = 0; centred && r < KV_BLOCK; r++)
        cache->kernels->rows.axpy(mean, 1.0f / KV_BLOCK, row(rows, r, room), d);
    cache->kernels->bf16.round(rounded, d, mean, d, 1, d);
    cache->kernels->bf16.widen(mean, d, rounded, d, 1, d);
    for (size_t first = 0; first < KV_BLOCK; first += STRIP) {
        for (size_t r = 0; r < STRIP; r++) {
            memcpy(x + r * d, row(rows, first + r, room), d * sizeof *x);
            cache->kernels->rows.axpy(x + r * d, -1, mean, d);
        }
        turn(cache, turned, x, STRIP);
        for (size_t r = 0; r < STRIP; r++)
            code_row(cache, codes, block, first + r, x + r * d, turned + r * planes, centred);
    }
}

/* ---- queries ------------------------------------------------------------------------------------------- */

/* The sums of the products that the digits in 4 bits stand for, above the least of them, in steps; several
   times. turned: as many numbers as there are digits. */
static void fill_table(uint8_t *table, const float *turned, size_t digit_bits, float steps)
{
    unsigned most = (1U << digit_bits) - 1;
    float above[16] = {0};
    for (size_t i = 0, known = 1; i < 4 / digit_bits; i++, known <<= digit_bits) {
        float each = 2 * steps * turned[i], first = fmaxf(0, -each * (float)most);
        for (unsigned digit = most + 1; digit-- > 0;)
            for (size_t code = 0; code < known; code++)
                above[digit * known + code] = above[code] + (first + each * (float)digit);
    }
    for (size_t code = 0; code < 16; code++)
        table[code] = (uint8_t)(above[code] + 0.5f);
    for (size_t again = 16; again < DECODE_TABLE; again += 16)
        memcpy(table + again, table, 16);
}

static void query_tables(const struct kv_cache *cache, const float *turned, uint8_t *tables,
                         struct decode_query *known)
{
    size_t digit_bits = cache->code_form.digit_bits, in_table = 4 / digit_bits;
    float most = (float)((1U << digit_bits) - 1), widest = 0, least = 0;
    for (size_t p = 0; p < cache->code_form.planes; p += in_table) {
        float size = 0;
        for (size_t i = 0; i < in_table; i++)
            size += most * fabsf(turned[p + i]);
        widest = fmaxf(widest, 2 * size);
        least -= size;
    }
    *known = (struct decode_query){.tables = tables, .step = widest / DECODE_LARGEST_ENTRY, .least = least};
    float steps = widest > 1e-30f ? DECODE_LARGEST_ENTRY / widest : 0;
    for (size_t g = 0; g < cache->options.bits / 4; g++)
        fill_table(tables + g * DECODE_TABLE, turned + g * in_table, digit_bits, steps);
}

void kv_codes_query(const struct kv_cache *cache, const struct kv_code_queries *queries, bool signs)
{
    size_t planes = cache->code_form.planes, tables = cache->options.bits / 4 * DECODE_TABLE;
    turn(cache, queries->turned, queries->query, queries->count);
    for (size_t i = 0; i < queries->count; i++) {
        float *turned = queries->turned + i * planes;
        for (size_t p = 0; signs && p < planes; p++)
            turned[p] = turned[p] > 0 ? 1 : -1;
        query_tables(cache, turned, queries->tables + i * tables, &queries->known[i]);
    }
}

void kv_codes_bases(const struct kv_cache *cache, const struct kv_code_queries *queries,
                    const struct kv_codes *codes, float *base)
{
    const unsigned char *mean[KV_PAGE_BLOCKS];
    for (size_t b = 0; b < KV_PAGE_BLOCKS; b++)
        mean[b] = (const unsigned char *)(codes->mean + b * cache->options.head_dim);
    const struct decode_rows rows = {
        .row = mean, .count = KV_PAGE_BLOCKS, .cols = cache->options.head_dim, .dtype = DTYPE_BFLOAT16};
    cache->kernels->decode.row_dots(base, KV_PAGE_BLOCKS, &rows, queries->query, queries->count);
}

void kv_codes_scores(const struct kv_cache *cache, const struct kv_code_queries *queries,
                     const struct kv_codes *codes, const float *base, size_t block, float *scores, size_t ld)
{
    size_t bytes = cache->options.bits / 8;
    for (size_t i = 0; i < queries->count; i++)
        queries->known[i].base = base[i * KV_PAGE_BLOCKS + block];
    cache->kernels->decode.scores(scores, ld, codes->codes + block * bytes * KV_BLOCK,
                                  codes->scale + block * KV_BLOCK, bytes, queries->known, queries->count);
}
