/* Hyperplanes: frames are orthonormal and uniform, bits and blocks are independent, and the collision
   probability of both kinds is (1 - angle / pi)^hash_bits with every projection, by chi-square over
   angles.
   Bugs planted and caught: the bits of one hash taken from one block, the reflections applied in the wrong
   order, a row reflected by its own axis, the sign of the axis fixed, the same key for two bits, rotated
   rows not permuted, lanes without a hash not cleared, one key for all blocks of a bit, an axis read from
   the wrong coordinate on; in the dense layout, planes numbered by bit first, or runs of adjacent lanes.
   SPDX-License-Identifier: Apache-2.0 */
#include "parts/hashing/planes.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/pool.h"
#include "base/random.h"
#include "kernels/kernels.h"
#include "parts/hashing/codes.h"
#include "support/check.h"

#define PI 3.14159265358979323846

struct shape {
    size_t num_hashes, hash_bits, dim;
    bool dense;
};

static void *block_of(size_t bytes)
{
    void *block = aligned_alloc(64, (bytes + 64) / 64 * 64);
    assert_non_null(block);
    memset(block, 0xA5, bytes);
    return block;
}

static struct planes_form form_of(int kind, const struct shape *shape)
{
    return (struct planes_form){.kind = kind,
                                .num_hashes = shape->num_hashes,
                                .hash_bits = shape->hash_bits,
                                .dim = shape->dim,
                                .dense = shape->dense};
}

static float *draw_with(const struct kernels *kernels, struct pool *pool, int kind, const struct shape *shape,
                        uint64_t key)
{
    const struct planes_form form = form_of(kind, shape);
    float *planes = block_of(planes_count(&form) * sizeof *planes);
    void *work = block_of(planes_work_size(&form, (size_t)pool_threads(pool)));
    planes_draw(kernels, pool, &form, key, planes, work);
    free(work);
    return planes;
}

static float *draw(int kind, const struct shape *shape, uint64_t key)
{
    return draw_with(kernels_named(NULL, &(const char *){0}), NULL, kind, shape, key);
}

static double plane_at(const float *planes, const struct shape *shape, size_t bit, size_t hash, size_t c)
{
    size_t groups = (shape->num_hashes + HASH_LANES - 1) / HASH_LANES;
    size_t plane = shape->dense ? hash * shape->hash_bits + bit : bit * groups * HASH_LANES + hash;
    return (double)planes[(plane / HASH_LANES * shape->dim + c) * HASH_LANES + plane % HASH_LANES];
}

static double dot_of(const float *planes, const struct shape *shape, size_t bit, size_t a, size_t b)
{
    double sum = 0;
    for (size_t c = 0; c < shape->dim; c++)
        sum += plane_at(planes, shape, bit, a, c) * plane_at(planes, shape, bit, b, c);
    return sum;
}

static const struct shape shapes[] = {{32, 9, 64, false}, {1, 1, 1, false},   {7, 3, 1, false},
                                      {20, 2, 3, false},  {33, 2, 17, false}, {50, 1, 48, false},
                                      {17, 9, 64, true},  {20, 2, 3, true},   {37, 7, 17, true}};

static void blocks_are_orthonormal(void **state)
{
    (void)state;
    for (size_t s = 0; s < sizeof shapes / sizeof *shapes; s++) {
        const struct shape *shape = &shapes[s];
        float *planes = draw(PLANES_ORTHOGONAL, shape, 5);
        for (size_t bit = 0; bit < shape->hash_bits; bit++)
            for (size_t a = 0; a < shape->num_hashes; a++)
                for (size_t b = 0; b <= a; b++)
                    if (a / shape->dim == b / shape->dim) /* the same block; in float: 2 roundings per term */
                        check_near(dot_of(planes, shape, bit, a, b), a == b, 2e-7, "product of planes");
        free(planes);
    }
}

static void gaussian_planes_have_length_1(void **state)
{
    (void)state;
    for (size_t s = 4; s < sizeof shapes / sizeof *shapes; s++) {
        float *planes = draw(PLANES_GAUSSIAN, &shapes[s], 5);
        for (size_t bit = 0; bit < shapes[s].hash_bits; bit++)
            for (size_t a = 0; a < shapes[s].num_hashes; a++)
                check_near(dot_of(planes, &shapes[s], bit, a, a), 1, 2e-7, "square of a plane");
        free(planes);
    }
}

static void unused_lanes_are_zero(void **state)
{
    (void)state;
    static const struct shape shape = {5, 2, 3, false}, dense = {5, 2, 3, true};
    for (int kind = 0; kind < 2; kind++) {
        float *planes = draw(kind, &shape, 5);
        for (size_t bit = 0; bit < 2; bit++)
            for (size_t lane = 0; lane < HASH_LANES; lane++)
                for (size_t c = 0; c < 3; c++)
                    assert_true((plane_at(planes, &shape, bit, lane, c) == 0) == (lane >= 5));
        free(planes);
        planes = draw(kind, &dense, 5); /* 10 planes in 16 lanes */
        for (size_t lane = 0; lane < HASH_LANES; lane++)
            for (size_t c = 0; c < 3; c++)
                assert_true((planes[c * HASH_LANES + lane] == 0) == (lane >= 10));
        free(planes);
    }
}

/* A row of a uniform frame has moments E[x_c] = 0, E[x_c^2] = 1/d, E[x_c^4] = 3 / (d (d + 2)), for every row
   of the frame; rows of different bits and blocks are independent: E[<a, b>^2] = 1/d. */
static void frames_are_uniform(void **state)
{
    (void)state;
    enum { DRAWS = 4000, D = 4, M = 6 };
    static const struct shape shape = {M, 2, D, false};
    double first[M][D] = {{0}}, second[M][D] = {{0}}, fourth[M][D] = {{0}}, across_bits = 0,
           across_blocks = 0;
    for (int i = 0; i < DRAWS; i++) {
        float *planes = draw(PLANES_ORTHOGONAL, &shape, (uint64_t)i);
        double bits = 0;
        for (size_t c = 0; c < D; c++)
            bits += plane_at(planes, &shape, 0, 2, c) * plane_at(planes, &shape, 1, 2, c);
        across_bits += bits * bits / DRAWS;
        across_blocks += pow(dot_of(planes, &shape, 1, 1, 5), 2) / DRAWS;
        for (size_t h = 0; h < M; h++)
            for (size_t c = 0; c < D; c++) {
                double x = plane_at(planes, &shape, 1, h, c);
                first[h][c] += x / DRAWS;
                second[h][c] += x * x / DRAWS;
                fourth[h][c] += pow(x, 4) / DRAWS;
            }
        free(planes);
    }
    /* d = 4: var x = 1/4, var x^2 = 1/8 - 1/16 = 1/16, E x^8 = 7/128 so var x^4 = 0.0391 */
    const double five = 5 / sqrt(DRAWS);
    for (size_t h = 0; h < M; h++)
        for (size_t c = 0; c < D; c++) {
            check_near(first[h][c], 0, five * 0.5, "mean of a coordinate");
            check_near(second[h][c], 0.25, five * 0.25, "second moment");
            check_near(fourth[h][c], 0.125, five * 0.2, "fourth moment");
        }
    check_near(across_bits, 0.25, five * 0.25, "planes of two bits");
    check_near(across_blocks, 0.25, five * 0.25, "planes of two blocks");
}

/* Mean and variance, over draws, of the share of hashes in which two vectors at this angle collide. */
static void measure(int kind, enum hash_projection projection, const struct shape *shape, double angle,
                    int draws, uint64_t seed, double *mean, double *variance)
{
    enum { MOST_DIM = 64, MOST_HASHES = 64 };
    const struct kernels *kernels = kernels_named(NULL, &(const char *){0});
    const struct hashing hashing = {
        .num_hashes = shape->num_hashes, .hash_bits = shape->hash_bits, .projection = projection};
    size_t dim = shape->dim;
    float pair[2 * MOST_DIM] = {0}, rows[CODES_ROWS * MOST_DIM], squares[CODES_ROWS], sign[MOST_DIM];
    uint32_t permutation[MOST_DIM];
    uint16_t codes[2 * MOST_HASHES];
    double sum = 0, sum_squares = 0;
    assert_true(shape->num_hashes <= MOST_HASHES && dim <= MOST_DIM);
    const struct planes_form form = form_of(kind, shape);
    float *rotated = malloc(planes_count(&form) * sizeof *rotated);
    for (int i = 0; i < draws; i++) {
        uint64_t key = random_key(seed, RANDOM_BENCH, (uint64_t)i);
        float *planes = draw(kind, shape, key);
        planes_rotate(kernels, projection, rotated, planes, &form, key, permutation, sign);
        pair[0] = 1;
        pair[dim] = (float)cos(angle);
        pair[dim + 1] = (float)sin(angle);
        codes_hash(kernels, codes, &hashing, pair, dim, 2, dim, rotated, rows, unit_padded(dim), squares);
        double meet = 0;
        for (size_t h = 0; h < shape->num_hashes; h++)
            meet += codes[h] == codes[shape->num_hashes + h];
        sum += meet / (double)shape->num_hashes;
        sum_squares += pow(meet / (double)shape->num_hashes, 2);
        free(planes);
    }
    free(rotated);
    *mean = sum / draws;
    *variance = sum_squares / draws - *mean * *mean;
}

static void collision_law(void **state)
{
    (void)state;
    enum { DRAWS = 1500, ANGLES = 12 };
    static const struct shape tried[] = {
        {16, 4, 8, false}, {16, 2, 3, false}, {8, 6, 16, false}, {10, 3, 2, false}};
    for (int form = 0; form < 8; form++)
        for (size_t s = 0; s < sizeof tried / sizeof *tried; s++) {
            int kind = form % 2;
            enum hash_projection projection = (enum hash_projection)(HASH_F32 + form / 2);
            double chi = 0;
            for (int a = 1; a <= ANGLES; a++) {
                double angle = PI * a / (ANGLES + 4), mean,
                       variance; /* to 0.75 pi: enough collisions there */
                uint64_t seed = 1000 * s + 100 * (uint64_t)form + (uint64_t)a;
                measure(kind, projection, &tried[s], angle, DRAWS, seed, &mean, &variance);
                double want = pow(1 - angle / PI, (double)tried[s].hash_bits);
                /* The variance of the formula (independent hashes) is a lower limit where there are few or
                   no collisions. */
                double least = want * (1 - want) / (double)tried[s].num_hashes;
                chi += pow(mean - want, 2) / (fmax(variance, least * 0.5) / DRAWS);
            }
            /* 12 degrees of freedom: above 50 with probability 1e-6. */
            if (chi > 50)
                fail_msg("kind %d projection %d, m %zu tau %zu d %zu: chi-square %.1f of 12 angles", kind,
                         projection, tried[s].num_hashes, tried[s].hash_bits, tried[s].dim, chi);
        }
}

/* The purpose of orthogonal hyperplanes: hashes repel, so their mean varies less. */
static void orthogonal_planes_vary_less(void **state)
{
    (void)state;
    static const struct shape shape = {16, 2, 16, false};
    double mean, gaussian, orthogonal;
    measure(PLANES_GAUSSIAN, HASH_AUTO, &shape, PI / 6, 4000, 1, &mean, &gaussian);
    measure(PLANES_ORTHOGONAL, HASH_AUTO, &shape, PI / 6, 4000, 2, &mean, &orthogonal);
    check_near(gaussian, mean * (1 - mean) / 16, 0.1 * gaussian, "variance of independent hashes");
    assert_true(orthogonal < 0.92 * gaussian);
}

/* A rotated hyperplane at a rotated vector gives the same product as before rotation, for all hyperplanes
   of a head; heads rotate differently, and every coordinate moves to every place with both signs. */
static void heads_turn_planes(void **state)
{
    (void)state;
    enum { HEADS = 300, D = 5, M = 18, BITS = 2 };
    static const struct shape shape = {M, BITS, D, false};
    static uint32_t permutation[HEADS][D];
    static float sign[HEADS][D];
    float *planes = draw(PLANES_GAUSSIAN, &shape, 1);
    const struct planes_form form = form_of(PLANES_GAUSSIAN, &shape);
    float *rotated = malloc(planes_count(&form) * sizeof *rotated);
    const struct kernels *kernels = kernels_named(NULL, &(const char *){0});
    int same = 0, went[D][D][2] = {{{0}}};
    for (size_t head = 0; head < HEADS; head++) {
        planes_rotate(kernels, HASH_F32, rotated, planes, &form, head, permutation[head], sign[head]);
        for (size_t bit = 0; bit < BITS; bit++)
            for (size_t h = 0; h < M; h++)
                for (size_t c = 0; c < D; c++)
                    check_near(plane_at(rotated, &shape, bit, h, c),
                               (double)sign[head][c] * plane_at(planes, &shape, bit, h, permutation[head][c]),
                               0, "rotated plane");
        for (size_t c = 0; c < D; c++)
            went[c][permutation[head][c]][sign[head][c] > 0]++;
        for (size_t other = 0; other < head; other++)
            same += memcmp(permutation[other], permutation[head], sizeof *permutation) == 0 &&
                    memcmp(sign[other], sign[head], sizeof *sign) == 0;
    }
    assert_true(same < 40); /* 44850 pairs of heads / (5! 2^5 = 3840 rotations) = 11.7 expected */
    for (size_t c = 0; c < D; c++)
        for (size_t to = 0; to < D; to++)
            assert_true(went[c][to][0] > 8 && went[c][to][1] > 8); /* 30 expected */
    free(planes), free(rotated);
}

static const struct shape wide[] = {
    {32, 9, 64, false}, {40, 3, 32, false}, {20, 5, 48, false}, {17, 9, 64, true}};

/* The bits do not depend on threads or on the table of kernels. */
static void threads_and_tables_draw_the_same_bits(void **state)
{
    (void)state;
    struct host host;
    struct pool *pool;
    host_init(&host);
    assert_int_equal(pool_new(&host, 3, &pool), HASHATTN_OK);
    const struct kernels *const *tables = kernels_all();
    for (int kind = PLANES_GAUSSIAN; kind <= PLANES_ORTHOGONAL; kind++)
        for (size_t s = 0; s < sizeof wide / sizeof *wide; s++) {
            const struct shape *shape = &wide[s];
            const struct planes_form form = form_of(kind, shape);
            size_t bytes = planes_count(&form) * sizeof(float);
            float *want = draw_with(tables[0], NULL, kind, shape, 7);
            for (size_t t = 0; tables[t] != NULL; t++) {
                float *got = draw_with(tables[t], pool, kind, shape, 7);
                check_same_bits(got, want, bytes, tables[t]->name);
                free(got);
            }
            free(want);
        }
    pool_free(&host, pool);
}

static void sizes_do_not_wrap(void **state)
{
    (void)state;
    const struct planes_form widest = form_of(PLANES_ORTHOGONAL, &(struct shape){4096, 24, SIZE_MAX, false});
    const struct planes_form wide_one =
        form_of(PLANES_ORTHOGONAL, &(struct shape){4096, 24, SIZE_MAX / 8, false});
    const struct planes_form usual = form_of(PLANES_ORTHOGONAL, &(struct shape){32, 9, 64, false});
    const struct planes_form pool = form_of(PLANES_ORTHOGONAL, &(struct shape){17, 9, 64, true});
    const struct planes_form normal = form_of(PLANES_GAUSSIAN, &(struct shape){4096, 24, SIZE_MAX, false});
    assert_true(planes_count(&wide_one) == SIZE_MAX);
    assert_true(planes_count(&usual) == 32 * 9 * 64);
    assert_true(planes_count(&pool) == 160 * 64); /* 153 planes */
    assert_true(planes_work_size(&widest, 2) == SIZE_MAX);
    assert_true(planes_work_size(&wide_one, 2) == SIZE_MAX);
    assert_true(planes_work_size(&normal, 2) == 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(blocks_are_orthonormal), cmocka_unit_test(gaussian_planes_have_length_1),
        cmocka_unit_test(unused_lanes_are_zero),  cmocka_unit_test(frames_are_uniform),
        cmocka_unit_test(collision_law),          cmocka_unit_test(orthogonal_planes_vary_less),
        cmocka_unit_test(heads_turn_planes),      cmocka_unit_test(threads_and_tables_draw_the_same_bits),
        cmocka_unit_test(sizes_do_not_wrap),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
