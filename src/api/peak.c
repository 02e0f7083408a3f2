/* What the machine can do: the limits that every ratio is measured against. Each thread of the pool measures
   products by itself at the same time as the others, so shared clocks and caches count as they do in the
   work; memory is one loop over arrays that no cache holds, a slice for each thread.
   SPDX-License-Identifier: Apache-2.0 */
#include "api/handles.h"
#include "api/versions.h"
#include "base/clock.h"
#include "base/memory.h"
#include "base/random.h"
#include "kernels/product.h"

enum { MEMORY_FLOATS = 32 << 20, MOST_THREADS = 1024 };

struct peak_job {
    const struct kernels *kernels;
    double seconds;
    double gflops[MOST_THREADS], bf16_gflops[MOST_THREADS]; /* of each index */
};

static void measure_product(void *argument, size_t index, int worker)
{
    (void)worker;
    struct peak_job *job = argument;
    job->gflops[index] = product_peak(job->kernels, job->seconds);
    job->bf16_gflops[index] = product_peak_bf16(job->kernels, job->seconds);
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
        job->sum[i] = job->a[i] = job->b[i] = 1.0f; /* the system gives pages at the first write */
    double bytes = 0, start = clock_seconds(), spent;
    do {
        pool_run(pool, add_slice, job, job->slices);
        bytes += 3.0 * sizeof(float) * (double)(MEMORY_FLOATS / job->slices * job->slices);
        spent = clock_seconds() - start;
    } while (spent < seconds);
    return bytes / spent;
}

hashattn_status hashattn_measure_peak(hashattn_context *context, double seconds, hashattn_peak *peak)
{
    if (context == NULL)
        return HASHATTN_INVALID;
    struct host *host = &context->host;
    FAIL_IF(peak == NULL, host, HASHATTN_INVALID, "peak is NULL");
    FAIL_IF(!(seconds >= 0.01 && seconds <= 60), host, HASHATTN_INVALID,
            "seconds is %g, allowed are 0.01 to 60", seconds);
    struct peak_job products = {.kernels = context->kernels, .seconds = seconds};
    void *block;
    TRY(memory_new(host, 3 * (size_t)MEMORY_FLOATS, sizeof(float), "three arrays to add", &block));
    float *floats = block;
    struct memory_job memory = {.a = floats, .b = floats + MEMORY_FLOATS, .sum = floats + 2 * MEMORY_FLOATS};
    hashattn_peak own = {0};
    own.memory_gbytes_per_s = memory_rate(context->pool, &memory, seconds) * 1e-9;
    memory_free(host, block);
    size_t threads = (size_t)pool_threads(context->pool);
    pool_run(context->pool, measure_product, &products, threads);
    for (size_t i = 0; i < threads; i++) {
        own.float32_gflops += products.gflops[i];
        own.bf16_gflops += products.bf16_gflops[i];
    }
    version_give(peak, &own, sizeof own);
    return HASHATTN_OK;
}

size_t hashattn_peak_resident_bytes(void)
{
    return clock_peak_resident();
}

void hashattn_fill_normal(uint64_t seed, uint64_t stream, float *out, size_t count)
{
    random_normals(random_key(seed, RANDOM_BENCH, stream), 0, out, count);
}
