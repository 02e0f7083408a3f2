/* Rows to codes, a block of rows at a time: rows are copied to a dense block, as floats, pairs of 16 bits or
   groups of four 8-bit numbers, and projected. Cost: 2 n d num_hashes hash_bits operations in slot
   hash.codes or hash.codes_dp, which run near the product peak, or the transforms of slot
   hash.codes_hadamard.
   SPDX-License-Identifier: Apache-2.0 */
#include "parts/hashing/codes.h"

#include <math.h>
#include <string.h>

#include "base/memory.h"
#include "parts/hashing/hadamard.h"

static size_t code_bytes(const struct hashing *hashing)
{
    return hashing->hash_bits > 16 ? sizeof(uint32_t) : sizeof(uint16_t);
}

size_t codes_size(const struct hashing *hashing, size_t n)
{
    return size_product(n, hashing->num_hashes * code_bytes(hashing));
}

struct codes codes_at(const struct hashing *hashing, const void *data, size_t n)
{
    return (struct codes){
        .data = data, .wide = hashing->hash_bits > 16, .num_hashes = hashing->num_hashes, .n = n};
}

/* Rows with a sum of squares outside this range, near the limits of float, are checked again in double. */
static bool is_safe(float square)
{
    return square > 1e-20f && square < 1e30f;
}

/* Clears a short row, and scales a huge one by a power of two, which changes no sign. Returns false if a
   number is NaN or infinite: squares of floats cannot overflow a double. */
static bool mend_row(float *row, size_t dim)
{
    double square = 0;
    for (size_t c = 0; c < dim; c++)
        square += (double)row[c] * (double)row[c];
    double shortest = (double)UNIT_SHORTEST;
    for (size_t c = 0; c < dim; c++)
        row[c] = square < shortest * shortest ? 0 : square > 1e30 ? row[c] * 0x1p-96f : row[c];
    return isfinite(square);
}

/* Copies rows as float32, dense. Returns false if one is not finite. */
static bool take_rows(const struct kernels *kernels, float *rows, size_t ld, float *squares, const float *x,
                      size_t ld_x, size_t n, size_t dim)
{
    for (size_t i = 0; i < n; i++)
        memcpy(rows + i * ld, x + i * ld_x, dim * sizeof *rows);
    kernels->rows.dots(squares, rows, ld, rows, ld, n, dim);
    bool finite = true;
    for (size_t i = 0; i < n; i++)
        finite &= is_safe(squares[i]) || mend_row(rows + i * ld, dim);
    return finite;
}

/* Packs rows as pairs of 16 bits or fours of 8, in half the space; the other half holds a row to be mended.
   Returns false if one is not finite. */
static bool take_pairs(const struct kernels *kernels, enum hash_projection projection, uint32_t *pairs,
                       size_t ld, float *mended, float *squares, const float *x, size_t ld_x, size_t n,
                       size_t dim)
{
    bool finite = true;
    kernels->hash.pack_rows(pairs, ld, squares, projection, x, ld_x, n, dim);
    for (size_t i = 0; i < n; i++) {
        if (is_safe(squares[i]))
            continue;
        memcpy(mended, x + i * ld_x, dim * sizeof *mended);
        finite &= mend_row(mended, dim);
        kernels->hash.pack_rows(pairs + i * ld, ld, squares + i, projection, mended, dim, 1, dim);
    }
    return finite;
}

enum hash_projection codes_projection(const struct kernels *kernels, const struct hashing *hashing)
{
    if (hadamard_is(hashing->planes) && hashing->projection == HASH_AUTO)
        return HASH_INT16_DP;
    return hash_projection_of(kernels, hashing->projection);
}

/* Work space of codes_hash, in words. */
struct work {
    uint32_t *rows;      /* (CODES_ROWS, ld) */
    uint32_t *transform; /* of slot hash.codes_hadamard */
    uint32_t *pool;      /* (CODES_ROWS, pool) codes */
    uint32_t *share;     /* of slot hash.pooled_codes */
    size_t words;
};

static struct work work_at(const struct hashing *hashing, size_t dim, float *block)
{
    size_t rows = size_product(unit_padded(dim), CODES_ROWS), pool = hashing->pool;
    size_t transform = hadamard_is(hashing->planes) ? hadamard_work(hashing, dim) : 0;
    struct work work = {.rows = (uint32_t *)(void *)block};
    work.words = size_sum(rows, transform);
    if (pool > 0)
        work.words = size_sum(work.words, CODES_ROWS * pool + 2 * POOL_ROWS * (pool + HASH_LANES));
    if (block != NULL) {
        work.transform = work.rows + rows;
        work.pool = work.transform + transform;
        work.share = work.pool + CODES_ROWS * pool;
    }
    return work;
}

size_t codes_work(const struct hashing *hashing, size_t dim)
{
    return work_at(hashing, dim, NULL).words;
}

/* The products or transforms of `count` rows with all planes: codes, or those of the pool. */
static void project(const struct kernels *kernels, void *codes, const struct hashing *hashing,
                    enum hash_projection projection, const struct work *work, size_t ld, size_t count,
                    size_t dim, const void *planes)
{
    bool wide = hashing->hash_bits > 16;
    size_t drawn = hashing_drawn(hashing), bits = hashing->hash_bits;
    size_t words = projection == HASH_F32 ? dim : projection == HASH_INT8_DP ? (dim + 3) / 4 : (dim + 1) / 2;
    if (hadamard_is(hashing->planes)) {
        const struct hadamard hadamard = hadamard_at(hashing, dim, planes);
        kernels->hash.codes_hadamard(codes, wide, projection, work->rows, ld, count, &hadamard,
                                     work->transform);
    } else if (hashing->pool > 0) {
        kernels->hash.codes_dense(codes, wide, projection, work->rows, ld, count, words, planes, drawn, bits);
    } else if (projection == HASH_F32) {
        kernels->hash.codes(codes, wide, (const float *)(const void *)work->rows, ld, count, dim, planes,
                            drawn, bits);
    } else {
        kernels->hash.codes_dp(codes, wide, projection, work->rows, ld, count, words, planes, drawn, bits);
    }
}

bool codes_hash(const struct kernels *kernels, void *data, const struct hashing *hashing, const float *x,
                size_t ld_x, size_t n, size_t dim, const void *planes, float *rows, size_t ld, float *squares)
{
    size_t row_bytes = hashing->num_hashes * code_bytes(hashing), half = ld / 2;
    bool finite = true;
    enum hash_projection projection = codes_projection(kernels, hashing);
    const struct work work = work_at(hashing, dim, rows);
    for (size_t first = 0; first < n; first += CODES_ROWS) {
        size_t count = n - first < CODES_ROWS ? n - first : CODES_ROWS;
        char *codes = (char *)data + first * row_bytes;
        if (projection == HASH_F32)
            finite &= take_rows(kernels, rows, ld, squares, x + first * ld_x, ld_x, count, dim);
        else
            finite &= take_pairs(kernels, projection, work.rows, half, rows + CODES_ROWS * half, squares,
                                 x + first * ld_x, ld_x, count, dim);
        project(kernels, hashing->pool > 0 ? (void *)work.pool : codes, hashing, projection, &work,
                projection == HASH_F32 ? ld : half, count, dim, planes);
        if (hashing->pool > 0)
            kernels->hash.pooled_codes(codes, hashing->hash_bits > 16, work.pool, count, hashing->pool,
                                       hashing->num_hashes, hashing->hash_bits, work.share);
    }
    return finite;
}
