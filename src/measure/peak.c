/* Three jobs for every thread: products, memory, hashing.
   SPDX-License-Identifier: Apache-2.0 */
#include "measure/peak.h"

#include "base/clock.h"
#include "base/memory.h"
#include "base/random.h"
#include "kernels/product.h"
#include "parts/hashing/codes.h"
#include "parts/hashing/planes.h"

enum { MEMORY_FLOATS = 32 << 20, MOST_THREADS = 1024 };
/* Hashing is measured at the default m and tau, on a typical number of rows per head. */
enum { HASH_DIM = 64, HASH_ROWS = 4096, NUM_HASHES = 32, HASH_BITS = 9 };
static const struct planes_form hash_form = {
    .kind = PLANES_ORTHOGONAL, .num_hashes = NUM_HASHES, .hash_bits = HASH_BITS, .dim = HASH_DIM};

struct peak_job {
    const struct kernels *kernels;
    double seconds;
    float *space;                                           /* (threads, PRODUCT_PEAK_FLOATS) */
    double gflops[MOST_THREADS], bf16_gflops[MOST_THREADS]; /* of each index */
};

static void measure_product(void *argument, size_t index, int worker)
{
    (void)worker;
    struct peak_job *job = argument;
    float *space = job->space + index * PRODUCT_PEAK_FLOATS;
    job->gflops[index] = product_peak(job->kernels, job->seconds, space);
    job->bf16_gflops[index] = product_peak_bf16(job->kernels, job->seconds, space);
}

struct hash_job {
    const struct kernels *kernels;
    struct hashing hashing;
    double seconds;
    double gflops[MOST_THREADS]; /* of each index */
    const float *x, *planes;     /* (HASH_ROWS, HASH_DIM); rotated for a head */
    float *rows, *squares;       /* (threads, CODES_ROWS, unit_padded(HASH_DIM)); (threads, CODES_ROWS) */
    char *codes;                 /* of each thread */
    void *work;                  /* of planes_draw */
};

static void measure_hashing(void *argument, size_t index, int worker)
{
    (void)worker;
    struct hash_job *job = argument;
    size_t ld = unit_padded(HASH_DIM), repeats = 0;
    double start = clock_seconds(), spent;
    do {
        codes_hash(job->kernels, job->codes + index * codes_size(&job->hashing, HASH_ROWS), &job->hashing,
                   job->x, HASH_DIM, HASH_ROWS, HASH_DIM, job->planes, job->rows + index * CODES_ROWS * ld,
                   ld, job->squares + index * CODES_ROWS);
        repeats++;
        spent = clock_seconds() - start;
    } while (spent < job->seconds);
    job->gflops[index] = 2.0 * HASH_ROWS * HASH_DIM * NUM_HASHES * HASH_BITS * (double)repeats / spent * 1e-9;
}

/* Cuts `block` into the arrays; on NULL it only counts bytes. */
static size_t lay_out(struct hash_job *job, void *block, size_t threads, float **x, float **drawn,
                      float **rotated, uint32_t **permutation, float **sign)
{
    struct arena arena = arena_on(block);
    *x = arena_take(&arena, HASH_ROWS * HASH_DIM, sizeof(float));
    *drawn = arena_take(&arena, planes_count(&hash_form), sizeof(float));
    *rotated = arena_take(&arena, planes_count(&hash_form), sizeof(float));
    job->work = arena_take(&arena, planes_work_size(&hash_form, threads), 1);
    *permutation = arena_take(&arena, HASH_DIM, sizeof(uint32_t));
    *sign = arena_take(&arena, HASH_DIM, sizeof(float));
    job->rows = arena_take(&arena, threads * CODES_ROWS * unit_padded(HASH_DIM), sizeof(float));
    job->squares = arena_take(&arena, threads * CODES_ROWS, sizeof(float));
    job->codes = arena_take(&arena, threads * codes_size(&job->hashing, HASH_ROWS), 1);
    return arena.used;
}

/* All threads hash at the same time, each the same rows into codes of its own. */
static hashattn_status hash_rate(struct host *host, struct pool *pool, struct hash_job *job, double *gflops)
{
    size_t threads = (size_t)pool_threads(pool);
    float *x, *drawn, *rotated, *sign;
    uint32_t *permutation;
    void *block;
    TRY(memory_new(host, lay_out(job, NULL, threads, &x, &drawn, &rotated, &permutation, &sign), 1,
                   "rows to hash", &block));
    lay_out(job, block, threads, &x, &drawn, &rotated, &permutation, &sign);
    uint64_t key = random_key(0, RANDOM_BENCH, 0);
    random_normals(key, 0, x, HASH_ROWS * HASH_DIM);
    planes_draw(job->kernels, pool, &hash_form, key, drawn, job->work);
    planes_rotate(job->kernels, job->hashing.projection, rotated, drawn, &hash_form, key, permutation, sign);
    job->x = x;
    job->planes = rotated;
    pool_run(pool, measure_hashing, job, threads);
    *gflops = 0;
    for (size_t i = 0; i < threads; i++)
        *gflops += job->gflops[i];
    memory_free(host, block);
    return HASHATTN_OK;
}

struct memory_job {
    float *sum, *a, *b;
    size_t slices;
};

static void add_slice(void *argument, size_t index, int worker)
{
    (void)worker;
    struct memory_job *job = argument;
    size_t end = MEMORY_FLOATS / job->slices * (index + 1);
    for (size_t i = MEMORY_FLOATS / job->slices * index; i < end; i++)
        job->sum[i] = job->a[i] + job->b[i];
}

static double memory_rate(struct pool *pool, struct memory_job *job, double seconds)
{
    job->slices = (size_t)pool_threads(pool);
    for (size_t i = 0; i < MEMORY_FLOATS; i++)
        job->sum[i] = job->a[i] = job->b[i] = 1.0f; /* the system maps pages at the first write */
    double bytes = 0, start = clock_seconds(), spent;
    do {
        pool_run(pool, add_slice, job, job->slices);
        bytes += 3.0 * sizeof(float) * (double)(MEMORY_FLOATS / job->slices * job->slices);
        spent = clock_seconds() - start;
    } while (spent < seconds);
    return bytes / spent;
}

hashattn_status peak_measure(struct host *host, const struct kernels *kernels, struct pool *pool,
                             double seconds, struct peak *peak)
{
    struct peak_job products = {.kernels = kernels, .seconds = seconds};
    void *block;
    TRY(memory_new(host, 3 * (size_t)MEMORY_FLOATS, sizeof(float), "three arrays to add", &block));
    float *floats = block;
    struct memory_job memory = {.a = floats, .b = floats + MEMORY_FLOATS, .sum = floats + 2 * MEMORY_FLOATS};
    struct peak own = {0};
    own.memory_gbytes_per_s = memory_rate(pool, &memory, seconds) * 1e-9;
    memory_free(host, block);
    size_t threads = (size_t)pool_threads(pool);
    TRY(memory_new(host, threads * PRODUCT_PEAK_FLOATS, sizeof(float), "products to measure", &block));
    products.space = block;
    pool_run(pool, measure_product, &products, threads);
    memory_free(host, block);
    for (size_t i = 0; i < threads; i++) {
        own.float32_gflops += products.gflops[i];
        own.bf16_gflops += products.bf16_gflops[i];
    }
    struct hash_job hash = {
        .kernels = kernels,
        .hashing = {.num_hashes = NUM_HASHES,
                    .hash_bits = HASH_BITS,
                    .projection = hash_projection_of(kernels, HASH_AUTO)},
        .seconds = seconds,
    };
    TRY(hash_rate(host, pool, &hash, &own.hash_gflops));
    *peak = own;
    return HASHATTN_OK;
}
