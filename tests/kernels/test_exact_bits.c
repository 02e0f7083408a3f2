/* EXACT slots give the same bits on every machine: a hash of each slot's results over many widths, on every
   table, is a constant below. The constants were computed on x86-64; ref, avx2, avx512, avx512bf16, amx and
   neon give them. The tests of the slots compare a table with the machine's own arithmetic; this one also
   sees a difference between machines. A slot whose contract changes has a new constant, which the failure
   names. Bugs planted and caught: the largest magnitude by an instruction that returns NaN; ties of bfloat16
   rounded up; neighbouring lanes added first in the squares of hash.pack_rows; denormals still flushed after
   bf16-dp.
   SPDX-License-Identifier: Apache-2.0 */
#include <inttypes.h>
#include <stdlib.h>

#include "kernels/slots.h"

enum { ROWS = 21, HASHES = 37, BITS = 5, MOST = (WIDEST + 3) * 64 };

/* FNV-1a, 64 bits (Fowler, Noll, Vo). */
static uint64_t add_bytes(uint64_t hash, const void *bytes, size_t count)
{
    for (size_t i = 0; i < count; i++)
        hash = (hash ^ ((const unsigned char *)bytes)[i]) * 0x100000001b3u;
    return hash;
}

/* Arrays that the cases of one width share: inputs are drawn, outputs begin with noise. */
struct scene {
    const struct kernels *kernels;
    size_t dim, ld;
    float x[MOST], y[MOST], z[MOST]; /* rows of numbers; z: odd ones */
    uint32_t words[MOST], more[MOST];
    uint16_t codes[ROWS * HASHES], others[ROWS * HASHES];
    uint32_t permutation[WIDEST];
    float sign[WIDEST];
    uint64_t hash;
};

static void give(struct scene *s, const void *bytes, size_t count)
{
    s->hash = add_bytes(s->hash, bytes, count);
}

static void give_rows(struct scene *s, const float *x)
{
    for (size_t i = 0; i < ROWS; i++)
        give(s, x + i * s->ld, s->dim * sizeof *x);
}

static void draw(struct scene *s, const struct kernels *kernels, size_t dim)
{
    struct random random = random_open(dim);
    s->kernels = kernels;
    s->dim = dim;
    s->ld = dim + 3;
    random_normals(dim + 1, 0, s->x, MOST);
    random_normals(dim + 2, 0, s->y, MOST);
    float *odd = oddities(dim, MOST);
    memcpy(s->z, odd, sizeof s->z);
    guard_free(odd, MOST);
    memset(s->words, 0, sizeof s->words);
    memset(s->more, 0, sizeof s->more);
    for (size_t i = 0; i < ROWS * HASHES; i++) {
        s->codes[i] = (uint16_t)random_below(&random, 1 << BITS);
        s->others[i] = i % 3 == 0 ? s->codes[i] : (uint16_t)random_below(&random, 1 << BITS);
    }
    random_permutation(dim, s->permutation, dim);
    random_signs(dim, s->sign, dim);
}

/* ---- one function per slot ----------------------------------------------------------------------------- */

/* Every second number lies half-way between two of bfloat16. */
static void draw_ties(struct scene *s)
{
    for (size_t i = 0; i < MOST; i += 2) {
        uint32_t bits;
        memcpy(&bits, &s->x[i], sizeof bits);
        bits = (bits & 0xffff0000u) | 0x8000;
        memcpy(&s->z[i], &bits, sizeof bits);
    }
}

static void bf16_round(struct scene *s)
{
    draw_ties(s);
    s->kernels->bf16.round((bf16 *)(void *)s->words, s->ld, s->z, s->ld, ROWS, s->dim);
    give(s, s->words, sizeof s->words);
}

static void bf16_widen(struct scene *s)
{
    s->kernels->bf16.widen(s->y, s->ld, (const bf16 *)(const void *)s->z, s->ld, ROWS, s->dim);
    give_rows(s, s->y);
}

static void bf16_interleave(struct scene *s)
{
    draw_ties(s);
    s->kernels->bf16.interleave((bf16 *)(void *)s->words, 2 * s->ld, s->z, s->ld, ROWS, s->dim);
    give(s, s->words, sizeof s->words);
}

static void normals_of_key(struct scene *s)
{
    s->kernels->chance.normals(s->x, s->dim, ROWS * s->dim);
    give(s, s->x, ROWS * s->dim * sizeof *s->x);
}

static void reflect(struct scene *s)
{
    enum { LD = 32, DEPTH = 24 };
    double rows[DEPTH * LD], axis[DEPTH];
    for (size_t i = 0; i < DEPTH * LD; i++)
        rows[i] = (double)s->x[i] / 3;
    for (size_t c = 0; c < DEPTH; c++)
        axis[c] = (double)s->y[c] / 7;
    s->kernels->chance.reflect(rows, LD, s->dim % LD, axis, DEPTH);
    give(s, rows, sizeof rows);
}

/* Planes in groups of 16 hashes. */
static size_t plane_words(const struct scene *s, enum hash_projection projection)
{
    size_t dim = s->dim;
    return projection == HASH_F32 ? dim : projection == HASH_INT8_DP ? (dim + 3) / 4 + 1 : (dim + 1) / 2;
}

/* Rows of x and planes drawn from y; both are hashed. */
static void pack(struct scene *s, enum hash_projection projection, uint32_t *planes, size_t groups)
{
    float squares[ROWS], *floats = malloc(groups * s->dim * HASH_LANES * sizeof *floats);
    for (size_t i = 0; i < groups * s->dim * HASH_LANES; i++)
        floats[i] = s->y[i % MOST] / (8 * sqrtf((float)s->dim)); /* shorter than 1 */
    size_t group = plane_words(s, projection) * HASH_LANES;
    s->kernels->hash.pack_planes(planes, projection, floats, groups, s->dim, s->permutation, s->sign);
    give(s, planes, groups * group * sizeof *planes);
    free(floats);
    if (projection == HASH_F32)
        return;
    s->kernels->hash.pack_rows(s->words, WIDEST, squares, projection, s->x, s->ld, ROWS, s->dim);
    give(s, s->words, sizeof s->words);
    give(s, squares, sizeof squares);
}

/* Packing, and codes in both layouts of the planes. */
static void codes_of(struct scene *s, enum hash_projection projection)
{
    const struct hash_slots *hash = &s->kernels->hash;
    const size_t groups = (HASHES + HASH_LANES - 1) / HASH_LANES * BITS, words = plane_words(s, projection);
    uint32_t *planes = malloc(groups * words * HASH_LANES * sizeof *planes), wide[ROWS * HASHES];
    const size_t depth = words - (projection == HASH_INT8_DP);
    pack(s, projection, planes, groups);
    if (projection == HASH_F32) {
        const float *floats = (const float *)(const void *)planes;
        hash->codes(s->codes, false, s->x, s->ld, ROWS, s->dim, floats, HASHES, BITS);
        hash->codes(wide, true, s->x, s->ld, ROWS, s->dim, floats, HASHES, BITS);
        hash->codes_dense(s->others, false, projection, s->x, s->ld, ROWS, depth, planes, HASHES, BITS);
    } else {
        hash->codes_dp(s->codes, false, projection, s->words, WIDEST, ROWS, depth, planes, HASHES, BITS);
        hash->codes_dp(wide, true, projection, s->words, WIDEST, ROWS, depth, planes, HASHES, BITS);
        hash->codes_dense(s->others, false, projection, s->words, WIDEST, ROWS, depth, planes, HASHES, BITS);
    }
    give(s, s->codes, sizeof s->codes);
    give(s, wide, sizeof wide);
    give(s, s->others, sizeof s->others);
    free(planes);
}

static void codes_f32(struct scene *s)
{
    codes_of(s, HASH_F32);
}

static void codes_int16(struct scene *s)
{
    codes_of(s, HASH_INT16_DP);
}

static void codes_bf16(struct scene *s)
{
    codes_of(s, HASH_BF16_DP);
}

static void codes_int8(struct scene *s)
{
    codes_of(s, HASH_INT8_DP);
}

static void share(struct scene *s)
{
    enum { POOL = 13 };
    uint32_t *work = malloc(2 * POOL_ROWS * (POOL + HASH_LANES) * sizeof *work);
    s->kernels->hash.pooled_codes(s->others, false, s->codes, ROWS, POOL, HASHES, BITS, work);
    give(s, s->others, sizeof s->others);
    free(work);
}

static void codes_hadamard(struct scene *s)
{
    enum { STAGES = 8, WIDTH = 1 << STAGES, WORDS = 2 * (WIDTH + HASHES) * HASH_LANES };
    static uint32_t signs[2][BITS * 3 * WIDTH], place[WIDTH], work[WORDS];
    float squares[ROWS];
    random_permutation(s->dim, place, WIDTH);
    for (size_t i = 0; i < BITS * 3 * WIDTH; i++) {
        bool negative = s->x[i % MOST] < 0;
        signs[0][i] = negative ? 0x80000000u : 0;
        signs[1][i] = ((negative ? 0u - 4055u : 4055u) & 0xffff) * 0x10001u;
    }
    struct hadamard planes = {.dim = s->dim,
                              .stages = STAGES,
                              .num_hashes = HASHES,
                              .hash_bits = BITS,
                              .bits_of_block = 1,
                              .place = place,
                              .signs = signs[0]};
    s->kernels->hash.codes_hadamard(s->codes, false, HASH_F32, s->z, s->ld, ROWS, &planes, work);
    give(s, s->codes, sizeof s->codes);
    s->kernels->hash.pack_rows(s->words, WIDEST, squares, HASH_INT16_DP, s->x, s->ld, ROWS, s->dim);
    planes.signs = signs[1];
    planes.scale = 11469 * 0x10001u;
    planes.widest_scale = 16220 * 0x10001u;
    s->kernels->hash.codes_hadamard(s->codes, false, HASH_INT16_DP, s->words, WIDEST, ROWS, &planes, work);
    give(s, s->codes, sizeof s->codes);
}

static void add_bias(struct scene *s)
{
    s->kernels->layers.add_bias(s->x, s->ld, s->z, ROWS, s->dim);
    give_rows(s, s->x);
}

static void add_bias_backward(struct scene *s)
{
    s->kernels->layers.add_bias_backward(s->x, s->y, ROWS, s->dim);
    give(s, s->x, s->dim * sizeof *s->x);
}

static void convolve(struct scene *s)
{
    s->kernels->layers.convolve(s->x, s->ld, s->y, s->ld, s->z, 9, ROWS, s->dim);
    give_rows(s, s->x);
}

static void dropout(struct scene *s)
{
    size_t n = ROWS * s->dim;
    s->kernels->layers.dropout(s->x, NULL, s->x, n, 5, UINT32_MAX - 3, 7000, 1.25f);
    s->kernels->layers.dropout(s->y, s->x, s->z, n, 6, 1, 30000, 1.75f);
    give(s, s->y, n * sizeof *s->y);
}

static void meetings(struct scene *s)
{
    uint32_t rows[ROWS];
    for (uint32_t i = 0; i < ROWS; i++)
        rows[i] = ROWS - 1 - i;
    s->kernels->pairs.equal_codes(s->x, ROWS, s->codes, s->others, false, HASHES, s->y, rows, ROWS, rows,
                                  ROWS);
    give(s, s->x, ROWS * ROWS * sizeof *s->x);
}

static void carry(struct scene *s)
{
    static const struct bucket list[] = {{0, 1, 0, 4}, {1, 9, 4, 1}, {10, 11, 5, 16}};
    uint32_t rows[ROWS];
    size_t visible[ROWS];
    for (uint32_t i = 0; i < ROWS; i++) {
        rows[i] = i;
        visible[i] = i / 3 * 3;
    }
    for (int side = 0; side < 4; side++)
        s->kernels->pairs.bucket_sums(&(struct bucket_sums){.buckets = list,
                                                            .count = 3,
                                                            .queries = rows,
                                                            .keys = rows,
                                                            .visible = side / 2 ? visible : NULL,
                                                            .to_queries = side % 2,
                                                            .values = s->z,
                                                            .out = s->x,
                                                            .ld_values = s->ld,
                                                            .ld_out = s->ld,
                                                            .dim = s->dim});
    give_rows(s, s->x);
}

static void rows_scaled(struct scene *s)
{
    s->kernels->rows.scale(s->z, s->ld, s->x, ROWS, s->dim);
    s->kernels->rows.scale_both(s->z, s->ld, s->x, s->y, ROWS, s->dim);
    s->kernels->rows.multiply(s->z, s->y, ROWS * s->ld);
    give_rows(s, s->z);
}

static void rows_counted(struct scene *s)
{
    size_t n = ROWS * s->dim, count = s->kernels->rows.count_above(s->z, n, 0.25f);
    s->kernels->rows.list_above(s->words, s->z, n, 0.25f);
    give(s, s->words, count * sizeof *s->words);
    float largest = s->kernels->rows.largest_size(s->z, s->ld, ROWS, s->dim);
    give(s, &largest, sizeof largest);
    s->z[s->dim / 2] = NAN;
    largest = s->kernels->rows.largest_size(s->z, s->ld, ROWS, s->dim);
    give(s, &largest, sizeof largest);
    bool finite = s->kernels->rows.all_finite(s->z, s->ld, ROWS, s->dim);
    give(s, &finite, sizeof finite);
}

static void rows_gated(struct scene *s)
{
    s->kernels->rows.gate(s->x, s->y, s->z, ROWS * s->dim);
    s->kernels->rows.axpy(s->x, 0.3f, s->z, ROWS * s->dim);
    give(s, s->x, ROWS * s->dim * sizeof *s->x);
}

static void row_largest(struct scene *s)
{
    s->kernels->softmax.largest(s->y, s->z, s->ld, ROWS, s->dim);
    give(s, s->y, ROWS * sizeof *s->y);
}

static void tables(struct scene *s)
{
    enum { COUNT = 3, BUCKETS = 1 << BITS };
    float *sums = calloc(COUNT * BUCKETS * s->dim, sizeof *sums);
    const struct tables_slots *slots = &s->kernels->tables;
    const struct table_hashes from = {s->codes, false, HASHES, 2, COUNT, BUCKETS},
                              to = {s->others, false, HASHES, 2, COUNT, BUCKETS};
    slots->add(sums, &from, s->z, s->ld, ROWS, s->dim);
    slots->read(s->x, s->ld, sums, &to, ROWS, s->dim);
    slots->scan(&(struct table_scan){.tables = sums,
                                     .buckets = BUCKETS,
                                     .from = s->others,
                                     .to = s->codes,
                                     .backwards = s->dim % 2,
                                     .num_hashes = HASHES,
                                     .first = 4,
                                     .count = COUNT,
                                     .values = s->y,
                                     .ld_values = s->ld,
                                     .out = s->x,
                                     .ld_out = s->ld,
                                     .n = ROWS,
                                     .dim = s->dim});
    give(s, sums, COUNT * BUCKETS * s->dim * sizeof *sums);
    give_rows(s, s->x);
    free(sums);
}

static void listed_tables(struct scene *s)
{
    enum { LISTED = 3 };
    static const uint32_t rows[LISTED] = {2, 0, 1};
    static const uint16_t codes[LISTED] = {1, 0, 1};
    s->kernels->tables.add_rows(s->y, codes, rows, LISTED, s->z, s->ld, s->dim);
    s->kernels->tables.read_rows(s->x, s->ld, s->y, codes, rows, LISTED, s->dim);
    give_rows(s, s->x);
}

/* The order of columns in a 16-bit table is that of the table of slots, so only what is read counts. */
static void fixed_tables(struct scene *s)
{
    enum { COUNT = 3, BUCKETS = 1 << BITS };
    size_t width = (s->dim + FIXED_BLOCK - 1) / FIXED_BLOCK * FIXED_BLOCK;
    int16_t *sums = calloc(COUNT * BUCKETS * width, sizeof *sums),
            *values = malloc(ROWS * width * sizeof *values);
    int32_t *read = (int32_t *)s->words;
    const struct tables_slots *slots = &s->kernels->tables;
    slots->fixed_round(values, width, s->x, s->ld, ROWS, s->dim, 250.0f);
    const struct table_hashes from = {s->codes, false, HASHES, 1, COUNT, BUCKETS},
                              to = {s->others, false, HASHES, 1, COUNT, BUCKETS};
    slots->fixed_add(sums, width, &from, values, width, ROWS);
    slots->fixed_read(read, s->ld, sums, width, &to, ROWS, s->dim);
    slots->fixed_finish((float *)(void *)read, s->ld, ROWS, s->dim, 0.004f);
    give_rows(s, (const float *)(const void *)read);
    free(sums), free(values);
}

static void transpose(struct scene *s)
{
    s->kernels->tiles.transpose(s->x, ROWS + 1, s->z, s->ld, ROWS, s->dim);
    for (size_t c = 0; c < s->dim; c++)
        give(s, s->x + c * (ROWS + 1), ROWS * sizeof *s->x);
}

/* ---- the constants ------------------------------------------------------------------------------------- */

static const struct {
    const char *slots;
    void (*run)(struct scene *s);
    uint64_t hash;
} cases[] = {
    {"bf16.round", bf16_round, 0xfee9d6487b0355beu},
    {"bf16.widen", bf16_widen, 0x4d428a7ecd46414fu},
    {"bf16.interleave", bf16_interleave, 0x2d316d83a9d07156u},
    {"chance.normals", normals_of_key, 0x8c4f27d55e9337a5u},
    {"chance.reflect", reflect, 0x2e5c7ed25c4decabu},
    {"hash.pack_planes, codes, codes_dense", codes_f32, 0x538d240138c7e9f4u},
    {"hash.pack_*, codes_dp, codes_dense of int16-dp", codes_int16, 0x6d3c4d509ea2ad50u},
    {"hash.pack_*, codes_dp, codes_dense of bf16-dp", codes_bf16, 0xae16eadbe375d2d3u},
    {"hash.pack_*, codes_dp, codes_dense of int8-dp", codes_int8, 0xdff85e03acc99208u},
    {"hash.pooled_codes", share, 0x3ec1681c7ea71e6fu},
    {"hash.codes_hadamard", codes_hadamard, 0xa2bd009e58b0c338u},
    {"layers.add_bias", add_bias, 0xe218c7a5b13cf011u},
    {"layers.add_bias_backward", add_bias_backward, 0x075490f5bc2c0599u},
    {"layers.convolve", convolve, 0xbdd66140b20f774bu},
    {"layers.dropout", dropout, 0xf9fd732da64b5edau},
    {"pairs.equal_codes", meetings, 0x2a6eadeca7529300u},
    {"pairs.bucket_sums", carry, 0x50aa3be394bc6d6cu},
    {"rows.scale, scale_both, multiply", rows_scaled, 0xe2b49cf77657381cu},
    {"rows.count_above, list_above, largest_size, all_finite", rows_counted, 0x53dd0f48479487f6u},
    {"rows.gate, axpy", rows_gated, 0x928256c373b88b39u},
    {"softmax.largest", row_largest, 0xed4982602783ef4eu},
    {"tables.add, read, scan", tables, 0x9e5485de26737d1bu},
    {"tables.add_rows, read_rows", listed_tables, 0xde03845a72a8de76u},
    {"tables.fixed_*", fixed_tables, 0x5736e55e0eef3dfeu},
    {"tiles.transpose", transpose, 0x96367a97fe6932d2u},
};

static void exact_slots_have_their_bits(void **state)
{
    (void)state;
    struct scene *scene = calloc(1, sizeof *scene);
    size_t differ = 0;
    FOR_EACH_TABLE(kernels)
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        scene->hash = 0xcbf29ce484222325u;
        for (size_t w = 0; w < NUM_WIDTHS; w++) {
            draw(scene, kernels, widths[w]);
            cases[i].run(scene);
        }
        if (scene->hash != cases[i].hash) {
            print_error("%s of %s: the hash is 0x%016" PRIx64 "u, want 0x%016" PRIx64 "u\n", cases[i].slots,
                        kernels->name, scene->hash, cases[i].hash);
            differ++;
        }
    }
    free(scene);
    assert_int_equal(differ, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(exact_slots_have_their_bits)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
