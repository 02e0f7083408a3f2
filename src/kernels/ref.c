/* The table "ref": every slot as the plain loop that its contract in kernels.h describes, with no thought of
   speed. It is the truth that the other tables are tested against, and runs on any processor. A slot that is
   EXACT follows the order of its contract with fmaf; a TOLERANT one sums in double.
   SPDX-License-Identifier: Apache-2.0 */
#include "kernels/tables.h"

#include <math.h>
#include <string.h>

#include "base/random.h"
#include "kernels/ref_hadamard.h"
#include "kernels/ref_softmax.h"

#define PI        3.14159265358979323846
#define SQRT_HALF 0.70710678118654752440
#define TINY_NORM 1e-12

static size_t turned(const uint32_t *permutation, size_t c)
{
    return permutation == NULL ? c : permutation[c];
}

static float sign_of(const float *sign, size_t c)
{
    return sign == NULL ? 1.0f : sign[c];
}

static size_t code_at(const void *codes, bool wide, size_t k)
{
    return wide ? ((const uint32_t *)codes)[k] : ((const uint16_t *)codes)[k];
}

/* ---- chance ------------------------------------------------------------------------------------------- */

static void normals(float *out, uint64_t key, size_t n)
{
    random_normals(key, 0, out, n);
}

static void reflect(double *rows, size_t ld, size_t first, const double *axis, size_t dim)
{
    for (size_t l = first; l < ld; l++) {
        double dot = 0;
        for (size_t c = 0; c < dim; c++)
            dot = fma(axis[c], rows[c * ld + l], dot);
        for (size_t c = 0; c < dim; c++)
            rows[c * ld + l] = fma(-dot, axis[c], rows[c * ld + l]);
    }
}

/* ---- hashing ------------------------------------------------------------------------------------------ */

static void unit_rows(float *out, size_t ld_out, float *norm, const float *x, size_t ld_x, size_t n,
                      size_t dim, const uint32_t *permutation, const float *sign)
{
    for (size_t i = 0; i < n; i++) {
        const float *row = x + i * ld_x;
        double sum = 0;
        for (size_t c = 0; c < dim; c++)
            sum += (double)row[c] * (double)row[c];
        double length = sqrt(sum), divisor = length > TINY_NORM ? length : TINY_NORM;
        norm[i] = (float)length;
        for (size_t c = 0; c < ld_out; c++)
            out[i * ld_out + c] =
                c < dim ? (float)((double)(sign_of(sign, c) * row[turned(permutation, c)]) / divisor) : 0.0f;
    }
}

static void unit_rows_backward(float *dx, size_t ld_dx, const float *du, const float *unit, size_t ld_unit,
                               const float *norm, size_t n, size_t dim, const uint32_t *permutation,
                               const float *sign)
{
    for (size_t i = 0; i < n; i++) {
        const float *u = unit + i * ld_unit, *g = du + i * ld_unit;
        if ((double)norm[i] < TINY_NORM)
            continue;
        double dot = 0;
        for (size_t c = 0; c < dim; c++)
            dot += (double)u[c] * (double)g[c];
        for (size_t c = 0; c < dim; c++)
            dx[i * ld_dx + turned(permutation, c)] +=
                sign_of(sign, c) * (float)(((double)g[c] - (double)u[c] * dot) / (double)norm[i]);
    }
}

static void hash_codes(void *codes, bool wide, const float *x, size_t ld_x, size_t n, size_t dim,
                       const float *planes, size_t num_hashes, size_t hash_bits)
{
    size_t groups = (num_hashes + HASH_LANES - 1) / HASH_LANES;
    for (size_t i = 0; i < n; i++)
        for (size_t h = 0; h < num_hashes; h++) {
            uint32_t code = 0;
            for (size_t b = 0; b < hash_bits; b++) {
                const float *plane =
                    planes + (b * groups + h / HASH_LANES) * dim * HASH_LANES + h % HASH_LANES;
                float sum = 0;
                for (size_t c = 0; c < dim; c++)
                    sum = fmaf(x[i * ld_x + c], plane[c * HASH_LANES], sum);
                code |= (uint32_t)(sum > 0) << b;
            }
            if (wide)
                ((uint32_t *)codes)[i * num_hashes + h] = code;
            else
                ((uint16_t *)codes)[i * num_hashes + h] = (uint16_t)code;
        }
}

/* The 16 bits of a number for a projection. */
static uint32_t half_of(enum hash_projection projection, float x)
{
    if (projection == HASH_INT16_DP) {
        float most = 32767.0f;
        return (uint32_t)lrintf(x > most ? most : x < -most ? -most : x) & 0xffff;
    }
    uint32_t bits;
    memcpy(&bits, &x, sizeof bits);
    return (bits + 0x7fff + (bits >> 16 & 1)) >> 16;
}

/* A whole number of at most 127, either sign. */
static int byte_of(float x)
{
    return (int)lrintf(x > 127.0f ? 127.0f : x < -127.0f ? -127.0f : x);
}

/* That turns the largest of `count` numbers into 127. */
static float byte_scale(const float *x, size_t step, size_t count)
{
    float largest = 0;
    for (size_t c = 0; c < count; c++)
        largest = fmaxf(largest, fabsf(x[c * step]));
    return largest > 0 ? 127.0f / largest : 0.0f;
}

static void byte_row(uint32_t *out, const float *row, size_t dim, size_t padded)
{
    float scale = byte_scale(row, 1, dim);
    for (size_t c = 0; c < padded; c++) {
        uint32_t byte = (uint32_t)(128 + (c < dim ? byte_of(row[c] * scale) : 0));
        out[c / 4] = (c % 4 == 0 ? 0 : out[c / 4]) | byte << (8 * (c % 4));
    }
}

static void byte_plane(uint32_t *out, const float *from, size_t dim, const uint32_t *permutation,
                       const float *sign)
{
    float scale = byte_scale(from, HASH_LANES, dim);
    uint32_t *start = out + (dim + 3) / 4 * HASH_LANES;
    int sum = 0;
    for (size_t c = 0; c < dim; c++) {
        int byte = byte_of(from[permutation[c] * HASH_LANES] * (sign[c] * scale));
        uint32_t *word = &out[c / 4 * HASH_LANES];
        *word = (c % 4 == 0 ? 0 : *word) | ((uint32_t)byte & 0xff) << (8 * (c % 4));
        sum += byte;
    }
    *start = (uint32_t)(-128 * sum);
}

static void hash_rows(uint32_t *out, size_t ld_out, float *squares, enum hash_projection projection,
                      const float *x, size_t ld_x, size_t n, size_t dim)
{
    size_t padded = (dim + HASH_LANES - 1) / HASH_LANES * HASH_LANES;
    for (size_t i = 0; i < n; i++) {
        const float *row = x + i * ld_x;
        float sum[HASH_LANES] = {0}, scale = 1;
        for (size_t c = 0; c < dim; c++)
            sum[c % HASH_LANES] = fmaf(row[c], row[c], sum[c % HASH_LANES]);
        for (size_t step = HASH_LANES / 2; step > 0; step /= 2)
            for (size_t l = 0; l < step; l++)
                sum[l] += sum[l + step];
        squares[i] = sum[0];
        if (projection == HASH_INT8_DP) {
            byte_row(out + i * ld_out, row, dim, padded);
            continue;
        }
        if (projection == HASH_INT16_DP)
            scale = sum[0] > 0 ? 32767.0f / sqrtf(sum[0]) : 0.0f;
        for (size_t c = 0; c < padded; c += 2) {
            uint32_t low = c < dim ? half_of(projection, row[c] * scale) : 0;
            uint32_t high = c + 1 < dim ? half_of(projection, row[c + 1] * scale) : 0;
            out[i * ld_out + c / 2] = low | high << 16;
        }
    }
}

static void hash_planes(void *out, enum hash_projection projection, const float *planes, size_t count,
                        size_t dim, const uint32_t *permutation, const float *sign)
{
    size_t pairs = (dim + 1) / 2;
    float *floats = out;
    uint32_t *words = out;
    for (size_t group = 0; group < count; group++)
        for (size_t lane = 0; lane < HASH_LANES; lane++) {
            const float *from = planes + group * dim * HASH_LANES + lane;
            if (projection == HASH_INT8_DP) {
                byte_plane(words + group * ((dim + 3) / 4 + 1) * HASH_LANES + lane, from, dim, permutation,
                           sign);
                continue;
            }
            for (size_t c = 0; c < dim; c++) {
                float value = from[permutation[c] * HASH_LANES] * sign[c];
                if (projection == HASH_F32) {
                    floats[(group * dim + c) * HASH_LANES + lane] = value;
                    continue;
                }
                uint32_t half = half_of(projection, projection == HASH_INT16_DP ? value * 32767.0f : value);
                uint32_t *word = &words[(group * pairs + c / 2) * HASH_LANES + lane];
                *word = c % 2 == 0 ? half : *word | half << 16;
            }
        }
}

/* What vdpbf16ps takes and gives for a number under 2^-126. */
static float flushed(float x)
{
    return fabsf(x) < 0x1p-126f ? copysignf(0, x) : x;
}

/* The bfloat16 in the high half. */
static float high_half(uint32_t word)
{
    float x;
    word &= 0xffff0000u;
    memcpy(&x, &word, sizeof x);
    return flushed(x);
}

static bool dp_bit(enum hash_projection projection, const uint32_t *row, const uint32_t *plane, size_t words)
{
    int32_t whole = projection == HASH_INT8_DP ? (int32_t)plane[words * HASH_LANES] : 0;
    float sum = 0;
    for (size_t w = 0; w < words; w++) {
        uint32_t a = row[w], b = plane[w * HASH_LANES];
        if (projection == HASH_INT8_DP) {
            for (int byte = 0; byte < 32; byte += 8)
                whole += (int32_t)(a >> byte & 0xff) * (int8_t)(b >> byte & 0xff);
        } else if (projection == HASH_INT16_DP) {
            whole += (int16_t)(a & 0xffff) * (int16_t)(b & 0xffff) + (int16_t)(a >> 16) * (int16_t)(b >> 16);
        } else {
            sum = flushed(fmaf(high_half(a), high_half(b), sum));
            sum = flushed(fmaf(high_half(a << 16), high_half(b << 16), sum));
        }
    }
    return whole > 0 || sum > 0;
}

static void hash_codes_dp(void *codes, bool wide, enum hash_projection projection, const uint32_t *rows,
                          size_t ld, size_t n, size_t words, const uint32_t *planes, size_t num_hashes,
                          size_t hash_bits)
{
    size_t groups = (num_hashes + HASH_LANES - 1) / HASH_LANES;
    size_t plane_words = words + (projection == HASH_INT8_DP);
    for (size_t i = 0; i < n; i++)
        for (size_t h = 0; h < num_hashes; h++) {
            uint32_t code = 0;
            for (size_t b = 0; b < hash_bits; b++) {
                const uint32_t *plane =
                    planes + (b * groups + h / HASH_LANES) * plane_words * HASH_LANES + h % HASH_LANES;
                code |= (uint32_t)dp_bit(projection, rows + i * ld, plane, words) << b;
            }
            if (wide)
                ((uint32_t *)codes)[i * num_hashes + h] = code;
            else
                ((uint16_t *)codes)[i * num_hashes + h] = (uint16_t)code;
        }
}

static void table_add(float *tables, size_t buckets, const void *codes, bool wide, size_t num_hashes,
                      size_t first, size_t count, const float *values, size_t ld_values, size_t n, size_t dim)
{
    for (size_t i = 0; i < n; i++)
        for (size_t h = 0; h < count; h++) {
            float *row = tables + (h * buckets + code_at(codes, wide, i * num_hashes + first + h)) * dim;
            for (size_t c = 0; c < dim; c++)
                row[c] += values[i * ld_values + c];
        }
}

static void table_read(float *out, size_t ld_out, const float *tables, size_t buckets, const void *codes,
                       bool wide, size_t num_hashes, size_t first, size_t count, size_t n, size_t dim)
{
    for (size_t i = 0; i < n; i++)
        for (size_t h = 0; h < count; h++) {
            const float *row =
                tables + (h * buckets + code_at(codes, wide, i * num_hashes + first + h)) * dim;
            for (size_t c = 0; c < dim; c++)
                out[i * ld_out + c] += row[c];
        }
}

static void table_scan(const struct table_scan *scan)
{
    size_t bytes = scan->num_hashes * (scan->wide ? sizeof(uint32_t) : sizeof(uint16_t));
    for (size_t step = 0; step < scan->n; step++) {
        size_t i = scan->backwards ? scan->n - 1 - step : step;
        table_add(scan->tables, scan->buckets, (const char *)scan->from + i * bytes, scan->wide,
                  scan->num_hashes, scan->first, scan->count, scan->values + i * scan->ld_values,
                  scan->ld_values, 1, scan->dim);
        table_read(scan->out + i * scan->ld_out, scan->ld_out, scan->tables, scan->buckets,
                   (const char *)scan->to + i * bytes, scan->wide, scan->num_hashes, scan->first, scan->count,
                   1, scan->dim);
    }
}

/* hash_bits / (p pi s) from the differences, and the sign of the dot product. */
static double tangent_weight(const float *q, const float *k, size_t dim, unsigned hash_bits,
                             double least_sine, double *sigma)
{
    double u2 = 0, v2 = 0;
    for (size_t c = 0; c < dim; c++) {
        u2 += ((double)q[c] - (double)k[c]) * ((double)q[c] - (double)k[c]);
        v2 += ((double)q[c] + (double)k[c]) * ((double)q[c] + (double)k[c]);
    }
    double u = sqrt(u2), v = sqrt(v2), p = 1 - 2 * atan2(u, v) / PI, s = u * v / 2;
    *sigma = v >= u ? 1 : -1;
    s = fmax(s, least_sine);
    return s > 0 && p > 0 ? hash_bits / (p * PI * s) : 0;
}

/* hash_bits p^(hash_bits - 1) / (pi s) at PAIR_SHRINK times the cosine. */
static double shrunk_weight(const float *q, const float *k, size_t dim, unsigned hash_bits)
{
    double dot = 0;
    for (size_t c = 0; c < dim; c++)
        dot += (double)q[c] * (double)k[c];
    double x = (double)PAIR_SHRINK * dot, p = 1 - acos(x) / PI;
    return hash_bits * pow(p, hash_bits - 1.0) / (PI * sqrt(1 - x * x));
}

static void meetings(float *times, size_t ld, const void *query_codes, const void *key_codes, bool wide,
                     size_t num_hashes, const float *of_count, const uint32_t *queries, size_t num_queries,
                     const uint32_t *keys, size_t num_keys)
{
    for (size_t i = 0; i < num_queries; i++)
        for (size_t j = 0; j < num_keys; j++) {
            size_t count = 0;
            for (size_t h = 0; h < num_hashes; h++)
                count += code_at(query_codes, wide, queries[i] * num_hashes + h) ==
                         code_at(key_codes, wide, keys[j] * num_hashes + h);
            times[i * ld + j] = of_count[count];
        }
}

static void bucket_pairs(const struct bucket_pairs *bucket)
{
    for (size_t i = 0; i < bucket->num_queries; i++) {
        size_t row = bucket->queries[i];
        const float *q = bucket->query + row * bucket->ld_query, *g = bucket->dout + row * bucket->ld_dout;
        float *dq = bucket->dquery + row * bucket->ld_query;
        for (size_t j = 0; j < bucket->num_keys; j++) {
            size_t column = bucket->keys[j];
            const float *k = bucket->key + column * bucket->ld_key;
            const float *value = bucket->value + column * bucket->ld_value;
            float *dk = bucket->dkey + column * bucket->ld_key;
            double score = bucket->bias == NULL ? 0 : (double)bucket->bias[row], sigma = 0;
            for (size_t c = 0; c < bucket->value_dim; c++)
                score += (double)g[c] * (double)value[c];
            double w = (double)bucket->scale * score;
            if (bucket->times != NULL)
                w *= (double)bucket->times[i * bucket->ld_times + j];
            if (bucket->weight == PAIR_TANGENT)
                w *= tangent_weight(q, k, bucket->dim, bucket->hash_bits, 0, &sigma);
            if (bucket->weight == PAIR_FLOORED) {
                w *= tangent_weight(q, k, bucket->dim, bucket->hash_bits, (double)PAIR_LEAST_SINE, &sigma);
                sigma = 0;
            }
            if (bucket->weight == PAIR_SHRUNK)
                w *= shrunk_weight(q, k, bucket->dim, bucket->hash_bits);
            for (size_t c = 0; c < bucket->dim; c++) {
                dq[c] += (float)(w * ((double)k[c] - sigma * (double)q[c]));
                dk[c] += (float)(w * ((double)q[c] - sigma * (double)k[c]));
            }
        }
    }
}

static void bucket_list_pairs(const struct bucket_pairs *rows, const struct bucket *list, size_t count)
{
    struct bucket_pairs bucket = *rows;
    bucket.times = NULL;
    for (const struct bucket *b = list; b < list + count; b++) {
        bucket.queries = rows->queries + b->first_query;
        bucket.num_queries = b->num_queries;
        bucket.keys = rows->keys + b->first_key;
        bucket.num_keys = b->num_keys;
        bucket_pairs(&bucket);
    }
}

/* What row `to` of a bucket gets in column c; backwards over the givers where some do not meet it. */
static float bucket_sum(const struct bucket_carry *carry, const struct bucket *b, uint32_t to, size_t c)
{
    const uint32_t *from = carry->to_queries ? carry->keys + b->first_key : carry->queries + b->first_query;
    size_t givers = carry->to_queries ? b->num_keys : b->num_queries;
    bool backwards = carry->visible != NULL && !carry->to_queries;
    float sum = 0;
    for (size_t k = 0; k < givers; k++) {
        uint32_t row = from[backwards ? givers - 1 - k : k];
        if (carry->visible == NULL ||
            (carry->to_queries ? row < carry->visible[to] : to < carry->visible[row]))
            sum += carry->values[row * carry->ld_values + c];
    }
    return sum;
}

static void bucket_carry(const struct bucket_carry *carry)
{
    for (const struct bucket *b = carry->buckets; b < carry->buckets + carry->count; b++) {
        const uint32_t *to = carry->to_queries ? carry->queries + b->first_query : carry->keys + b->first_key;
        for (size_t k = 0; k < (carry->to_queries ? b->num_queries : b->num_keys); k++)
            for (size_t c = 0; c < carry->dim; c++)
                carry->out[to[k] * carry->ld_out + c] += bucket_sum(carry, b, to[k], c);
    }
}

/* ---- tiles of the exact mechanisms -------------------------------------------------------------------- */

static void tile_product(float *c, size_t ld_c, const float *a, size_t a_row, size_t a_col, const float *b,
                         size_t ld_b, size_t rows, size_t cols, size_t depth, bool add)
{
    for (size_t i = 0; i < rows; i++)
        for (size_t j = 0; j < cols; j++) {
            double sum = add ? (double)c[i * ld_c + j] : 0;
            for (size_t k = 0; k < depth; k++)
                sum += (double)a[i * a_row + k * a_col] * (double)b[k * ld_b + j];
            c[i * ld_c + j] = (float)sum;
        }
}

static void tile_transpose(float *out, size_t ld_out, const float *in, size_t ld_in, size_t rows, size_t cols)
{
    for (size_t i = 0; i < rows; i++)
        for (size_t j = 0; j < cols; j++)
            out[j * ld_out + i] = in[i * ld_in + j];
}

static float widened(bf16 a)
{
    uint32_t bits = (uint32_t)a << 16;
    float number;
    memcpy(&number, &bits, sizeof number);
    return number;
}

static bf16 rounded(float a)
{
    uint32_t bits;
    memcpy(&bits, &a, sizeof bits);
    if (isnan(a))
        return (bf16)((bits | 0x400000) >> 16);
    return (bf16)((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
}

static void bf16_product(float *c, size_t ld_c, const bf16 *a, size_t ld_a, const bf16 *b, size_t ld_b,
                         size_t rows, size_t cols, size_t pairs, bool add)
{
    for (size_t i = 0; i < rows; i++)
        for (size_t j = 0; j < cols; j++) {
            double sum = add ? (double)c[i * ld_c + j] : 0;
            for (size_t k = 0; k < 2 * pairs; k++)
                sum += (double)widened(a[i * ld_a + k]) * (double)widened(b[k / 2 * ld_b + 2 * j + k % 2]);
            c[i * ld_c + j] = (float)sum;
        }
}

static void bf16_round(bf16 *out, size_t ld_out, const float *in, size_t ld_in, size_t rows, size_t cols)
{
    for (size_t i = 0; i < rows; i++)
        for (size_t c = 0; c < cols; c++)
            out[i * ld_out + c] = rounded(in[i * ld_in + c]);
}

static void bf16_widen(float *out, size_t ld_out, const bf16 *in, size_t ld_in, size_t rows, size_t cols)
{
    for (size_t i = 0; i < rows; i++)
        for (size_t c = 0; c < cols; c++)
            out[i * ld_out + c] = widened(in[i * ld_in + c]);
}

static void bf16_interleave(bf16 *out, size_t ld_out, const float *in, size_t ld_in, size_t rows, size_t cols)
{
    for (size_t k = 0; k < rows + rows % 2; k++)
        for (size_t j = 0; j < cols; j++)
            out[k / 2 * ld_out + 2 * j + k % 2] = k < rows ? rounded(in[k * ld_in + j]) : 0;
}

static void scale_rows(float *x, size_t ld_x, const float *factor, size_t rows, size_t cols)
{
    for (size_t i = 0; i < rows; i++)
        for (size_t c = 0; c < cols; c++)
            x[i * ld_x + c] *= factor[i];
}

static void scale_both(float *x, size_t ld_x, const float *of_row, const float *of_col, size_t rows,
                       size_t cols)
{
    for (size_t i = 0; i < rows; i++)
        for (size_t c = 0; c < cols; c++)
            x[i * ld_x + c] = x[i * ld_x + c] * of_row[i] * of_col[c];
}

static void row_dots(float *out, const float *a, size_t ld_a, const float *b, size_t ld_b, size_t rows,
                     size_t cols)
{
    for (size_t i = 0; i < rows; i++) {
        double sum = 0;
        for (size_t c = 0; c < cols; c++)
            sum += (double)a[i * ld_a + c] * (double)b[i * ld_b + c];
        out[i] = (float)sum;
    }
}

static size_t collision_tile(float *power, float *slope, const float *x, size_t ld, size_t rows, size_t cols,
                             const float *norm2_query, const float *norm2_key, unsigned hash_bits)
{
    size_t near = 0;
    for (size_t i = 0; i < rows; i++)
        for (size_t j = 0; j < cols; j++) {
            /* In float32, so that every table counts the same pairs. */
            float norms = norm2_query[i] + norm2_key[j], dot = x[i * ld + j];
            float u2 = fmaxf(norms - 2 * dot, 0), v2 = fmaxf(norms + 2 * dot, 0);
            bool is_near = u2 < COLLISION_NEAR || v2 < COLLISION_NEAR;
            double p = 1 - 2 * atan2(sqrt((double)u2), sqrt((double)v2)) / PI;
            power[i * ld + j] = (float)pow(p, hash_bits);
            if (slope != NULL)
                slope[i * ld + j] = is_near ? 0
                                            : (float)(hash_bits * pow(p, hash_bits - 1.0) /
                                                      (PI * sqrt((double)u2 * (double)v2) / 2));
            near += is_near;
        }
    return near;
}

/* ---- rows of the layers ------------------------------------------------------------------------------- */

static size_t count_above(const float *x, size_t n, float bound)
{
    size_t count = 0;
    for (size_t i = 0; i < n; i++)
        count += x[i] > bound;
    return count;
}

static void list_above(uint32_t *out, const float *x, size_t n, float bound)
{
    for (size_t i = 0; i < n; i++)
        if (x[i] > bound)
            *out++ = (uint32_t)i;
}

static void layer_norm(float *y, float *mean_rstd, const float *x, const float *gain, const float *bias,
                       size_t n, size_t dim, float epsilon)
{
    for (size_t i = 0; i < n; i++) {
        const float *row = x + i * dim;
        double mean = 0, variance = 0;
        for (size_t c = 0; c < dim; c++)
            mean += (double)row[c] / (double)dim;
        for (size_t c = 0; c < dim; c++)
            variance += ((double)row[c] - mean) * ((double)row[c] - mean) / (double)dim;
        double rstd = 1 / sqrt(variance + (double)epsilon);
        mean_rstd[2 * i] = (float)mean;
        mean_rstd[2 * i + 1] = (float)rstd;
        for (size_t c = 0; c < dim; c++)
            y[i * dim + c] = (float)(((double)row[c] - mean) * rstd * (double)gain[c] + (double)bias[c]);
    }
}

static void layer_norm_backward(float *dx, float *dgain, float *dbias, const float *dy, const float *x,
                                const float *mean_rstd, const float *gain, size_t n, size_t dim)
{
    for (size_t i = 0; i < n; i++) {
        const float *row = x + i * dim, *d = dy + i * dim;
        double mean = (double)mean_rstd[2 * i], rstd = (double)mean_rstd[2 * i + 1];
        double sum = 0, sum_hat = 0; /* of g = dy * gain, and of g times the normalised x */
        for (size_t c = 0; c < dim; c++) {
            double hat = ((double)row[c] - mean) * rstd, g = (double)d[c] * (double)gain[c];
            sum += g;
            sum_hat += g * hat;
            dgain[c] += (float)((double)d[c] * hat);
            dbias[c] += d[c];
        }
        for (size_t c = 0; c < dim; c++) {
            double hat = ((double)row[c] - mean) * rstd, g = (double)d[c] * (double)gain[c];
            dx[i * dim + c] += (float)(rstd * (g - sum / (double)dim - hat * (sum_hat / (double)dim)));
        }
    }
}

static void gelu(float *y, const float *x, size_t n)
{
    for (size_t i = 0; i < n; i++)
        y[i] = (float)((double)x[i] * 0.5 * erfc(-(double)x[i] * SQRT_HALF));
}

static void multiply(float *y, const float *x, size_t n)
{
    for (size_t i = 0; i < n; i++)
        y[i] *= x[i];
}

static void gate_rows(float *y, const float *x, const float *gate, size_t n)
{
    for (size_t i = 0; i < n; i++)
        y[i] = gate[i] <= 0 ? 0 : x[i];
}

static void axpy(float *y, float a, const float *x, size_t n)
{
    for (size_t i = 0; i < n; i++)
        y[i] = fmaf(a, x[i], y[i]);
}

static void add_bias(float *y, size_t ld_y, const float *bias, size_t n, size_t dim)
{
    for (size_t i = 0; i < n; i++)
        for (size_t c = 0; c < dim; c++)
            y[i * ld_y + c] += bias[c];
}

static void add_bias_backward(float *dbias, const float *dy, size_t n, size_t dim)
{
    for (size_t i = 0; i < n; i++)
        for (size_t c = 0; c < dim; c++)
            dbias[c] += dy[i * dim + c];
}

static void convolve(float *y, size_t ld_y, const float *x, size_t ld_x, const float *filter, size_t taps,
                     size_t n, size_t dim)
{
    for (size_t i = 0; i < n; i++)
        for (size_t t = 0; t < taps; t++) {
            if (i + t < taps / 2 || i + t - taps / 2 >= n)
                continue;
            const float *row = x + (i + t - taps / 2) * ld_x;
            for (size_t c = 0; c < dim; c++)
                y[i * ld_y + c] = fmaf(filter[t], row[c], y[i * ld_y + c]);
        }
}

static bool all_finite(const float *x, size_t ld, size_t rows, size_t cols)
{
    for (size_t i = 0; i < rows; i++)
        for (size_t c = 0; c < cols; c++)
            if (!isfinite(x[i * ld + c]))
                return false;
    return true;
}

static double sum_squares(const float *x, size_t n)
{
    double total = 0;
    for (size_t first = 0; first < n; first += 4096) {
        double sum = 0;
        for (size_t i = first; i < n && i < first + 4096; i++)
            sum += (double)x[i] * (double)x[i];
        total += sum;
    }
    return total;
}

static void dropout(float *y, const float *residual, const float *x, size_t n, uint64_t key, uint64_t first,
                    unsigned threshold, float scale)
{
    uint32_t words[4] = {0};
    for (size_t i = 0; i < n; i++) {
        if (i % 8 == 0)
            random_words(key, first + i / 8, words);
        uint32_t draw = words[i % 8 / 2] >> (i % 2 * 16) & 0xffff;
        float kept = (draw >= threshold ? scale : 0.0f) * x[i];
        y[i] = residual == NULL ? kept : residual[i] + kept;
    }
}

static void gelu_again(float *y, float *slope, const float *x, size_t n, uint64_t key, uint64_t first,
                       unsigned threshold, float scale)
{
    for (size_t i = 0; i < n; i++) {
        double t = (double)x[i], phi = exp(-0.5 * t * t) * SQRT_HALF / sqrt(PI);
        slope[i] = (float)(0.5 * erfc(-t * SQRT_HALF) + t * phi);
    }
    gelu(y, x, n);
    if (threshold == 0)
        return;
    dropout(y, NULL, y, n, key, first, threshold, scale);
    dropout(slope, NULL, slope, n, key, first, threshold, scale);
}

static void adamw_step(float *w, float *m, float *v, const float *g, size_t n, const struct adamw *step)
{
    double beta1 = (double)step->beta1, beta2 = (double)step->beta2, rate = (double)step->rate;
    for (size_t i = 0; i < n; i++) {
        double gradient = (double)g[i] * (double)step->gradient_scale;
        m[i] = (float)(beta1 * (double)m[i] + (1 - beta1) * gradient);
        v[i] = (float)(beta2 * (double)v[i] + (1 - beta2) * gradient * gradient);
        double first = (double)m[i] / (double)step->correction1;
        double second = (double)v[i] / (double)step->correction2;
        w[i] = (float)((double)w[i] * (1 - rate * (double)step->decay) -
                       rate * first / (sqrt(second) + (double)step->epsilon));
    }
}

static float fused_loop(size_t rounds)
{
    float sum = 0;
    for (size_t i = 0; i < rounds * FUSED_LOOP_OPERATIONS / 2; i++)
        sum = fmaf(sum, 0.5f, 1.0f);
    return sum;
}

static float bf16_loop(size_t rounds)
{
    float sum = 0;
    for (size_t i = 0; i < rounds * FUSED_LOOP_OPERATIONS / 4; i++)
        sum = fmaf(widened(0x3f00), 0.5f, fmaf(widened(0x3f00), 0.5f, sum));
    return sum;
}

const struct kernels kernels_ref = {
    .name = "ref",
    .bf16 = "by widening",
    .normals = normals,
    .reflect = reflect,
    .unit_rows = unit_rows,
    .unit_rows_backward = unit_rows_backward,
    .hash_codes = hash_codes,
    .hash_rows = hash_rows,
    .hash_planes = hash_planes,
    .hash_codes_dp = hash_codes_dp,
    .hadamard_codes = hadamard_codes,
    .table_add = table_add,
    .table_read = table_read,
    .table_scan = table_scan,
    .meetings = meetings,
    .bucket_pairs = bucket_pairs,
    .bucket_carry = bucket_carry,
    .bucket_list_pairs = bucket_list_pairs,
    .tile_product = tile_product,
    .tile_transpose = tile_transpose,
    .bf16_product = bf16_product,
    .bf16_round = bf16_round,
    .bf16_widen = bf16_widen,
    .bf16_interleave = bf16_interleave,
    .softmax_step = softmax_step,
    .softmax_again = softmax_again,
    .row_largest = row_largest,
    .exp_rows = exp_rows,
    .softmax_gradient = softmax_gradient,
    .divergence = divergence,
    .below_largest = below_largest,
    .scale_rows = scale_rows,
    .scale_both = scale_both,
    .row_dots = row_dots,
    .collision_tile = collision_tile,
    .count_above = count_above,
    .list_above = list_above,
    .layer_norm = layer_norm,
    .layer_norm_backward = layer_norm_backward,
    .gelu = gelu,
    .gelu_again = gelu_again,
    .multiply = multiply,
    .gate = gate_rows,
    .axpy = axpy,
    .add_bias = add_bias,
    .add_bias_backward = add_bias_backward,
    .convolve = convolve,
    .dropout = dropout,
    .all_finite = all_finite,
    .sum_squares = sum_squares,
    .adamw_step = adamw_step,
    .fused_loop = fused_loop,
    .bf16_loop = bf16_loop,
};
