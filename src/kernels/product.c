/* product() by oneDNN: dnnl_sgemm, which versions 2 and 3 both have. oneDNN reads its number of threads from
   the OpenMP setting of the calling thread, so the setting is 1 during the call and is restored afterwards.
   If oneDNN refuses a product (it allocates, so it may), our own tiles compute it.
   Our tiles also compute products with few columns and a short depth, for any number of rows: they measured
   at least as fast there, and their rows do not depend on the number of rows. On Zen 5, GF/s of oneDNN 2.6.3
   and of our tiles: 64x64x64 (rows, columns, depth) 209 and 247, B transposed 126 and 217; 2048x64x64 B
   transposed 216 and 247; 2048x256x256 228 and 223, B transposed 233 and 223; but 512x768x768 227 and 204,
   512x3072x768 211 and 170, 256x256x2048 A transposed 234 and 204. Primitives created once per shape (matmul)
   reached 236 at 2048x64x64, 221 at 512x768x768 and 186 at 512x3072x768, which does not justify a cache of
   them.
   With AVX2 the library is slow for few rows of A and a B with rows a multiple of 512 floats apart. GF/s of
   the library and of our tiles on Zen 3: 192x512x512 56 and 81, 192x1024x256 41 and 74, 192x3072x768 37 and
   66, A transposed 512x512x192 52 and 76; but A transposed 768x768x192 84 and 75, 768x3072x192 75 and 62.
   bench/products.c measures both. Only the measurement of the library's best rate creates a primitive; that
   is the only code in which versions 2 and 3 differ.
   SPDX-License-Identifier: Apache-2.0 */
#include "kernels/product.h"

#include <stdio.h>
#include <string.h>

#include <oneapi/dnnl/dnnl.h>

#include "base/clock.h"
#include "base/memory.h"
#include "kernels/product_tiles.h"

/* Every OpenMP runtime has these; the header comes with only one compiler. */
extern int omp_get_max_threads(void);
extern void omp_set_num_threads(int threads);

enum { OWN_COLUMNS = 256, OWN_DEPTH = 256, AVX2_ROWS = 256, AVX2_RESULTS = 512 * 512 };

bool product_by_library(float *c, size_t ld_c, const float *a, size_t ld_a, bool transpose_a, const float *b,
                        size_t ld_b, bool transpose_b, size_t m, size_t n, size_t k, bool add)
{
    int threads = omp_get_max_threads();
    omp_set_num_threads(1);
    dnnl_status_t status = dnnl_sgemm(transpose_a ? 'T' : 'N', transpose_b ? 'T' : 'N', (dnnl_dim_t)m,
                                      (dnnl_dim_t)n, (dnnl_dim_t)k, 1.0f, a, (dnnl_dim_t)ld_a, b,
                                      (dnnl_dim_t)ld_b, add ? 1.0f : 0.0f, c, (dnnl_dim_t)ld_c);
    omp_set_num_threads(threads);
    return status == dnnl_success;
}

/* true if our tiles are at least as fast; see above. */
static bool own_is_faster(const struct kernels *kernels, size_t m, size_t n, size_t k)
{
    if (n <= OWN_COLUMNS && k <= OWN_DEPTH)
        return true;
    return strcmp(kernels->name, "avx2") == 0 && (m <= AVX2_ROWS || n <= AVX2_RESULTS / m);
}

void product(const struct kernels *kernels, float *c, size_t ld_c, const float *a, size_t ld_a,
             bool transpose_a, const float *b, size_t ld_b, bool transpose_b, size_t m, size_t n, size_t k,
             bool add)
{
    if (m > 0 && !own_is_faster(kernels, m, n, k) &&
        product_by_library(c, ld_c, a, ld_a, transpose_a, b, ld_b, transpose_b, m, n, k, add))
        return;
    product_tiles(kernels, c, ld_c, a, ld_a, transpose_a, b, ld_b, transpose_b, m, n, k, add);
}

/* The library supports caps only on x86 and refuses them elsewhere. */
static const struct {
    const char *isa;
    dnnl_cpu_isa_t cap;
} caps[] = {{"ref", dnnl_cpu_isa_sse41}, {"avx2", dnnl_cpu_isa_avx2}};

void product_cap(const struct kernels *kernels)
{
    for (size_t i = 0; i < sizeof caps / sizeof caps[0]; i++)
        if (strcmp(kernels->name, caps[i].isa) == 0)
            dnnl_set_max_cpu_isa(caps[i].cap);
}

void product_library(char *text, size_t size)
{
    const dnnl_version_t *version = dnnl_version();
    snprintf(text, size, "oneDNN %d.%d.%d", version->major, version->minor, version->patch);
}

/* ---- the library's best rate -------------------------------------------------------------------------- */

enum { SOME_NUMBER = 0x3f }; /* in every byte: about 0.75 in either precision */

/* A primitive for A (m, k) and C (m, n) by rows, and B in the library's preferred layout. */
struct made {
    dnnl_engine_t engine;
    dnnl_stream_t stream;
    dnnl_primitive_desc_t description;
    dnnl_primitive_t primitive;
    dnnl_memory_t a, b, c;
};

static bool good(dnnl_status_t status)
{
    return status == dnnl_success;
}

#if DNNL_VERSION_MAJOR >= 3
static bool describe(struct made *made, dnnl_data_type_t type, const dnnl_dims_t a, const dnnl_dims_t b,
                     const dnnl_dims_t c)
{
    dnnl_memory_desc_t left = NULL, right = NULL, sum = NULL;
    bool fine = good(dnnl_memory_desc_create_with_tag(&left, 2, a, type, dnnl_ab)) &&
                good(dnnl_memory_desc_create_with_tag(&right, 2, b, type, dnnl_format_tag_any)) &&
                good(dnnl_memory_desc_create_with_tag(&sum, 2, c, dnnl_f32, dnnl_ab)) &&
                good(dnnl_matmul_primitive_desc_create(&made->description, made->engine, left, right, NULL,
                                                       sum, NULL));
    dnnl_memory_desc_destroy(left);
    dnnl_memory_desc_destroy(right);
    dnnl_memory_desc_destroy(sum);
    return fine;
}
#else
static bool describe(struct made *made, dnnl_data_type_t type, const dnnl_dims_t a, const dnnl_dims_t b,
                     const dnnl_dims_t c)
{
    dnnl_memory_desc_t left, right, sum;
    dnnl_matmul_desc_t matmul;
    return good(dnnl_memory_desc_init_by_tag(&left, 2, a, type, dnnl_ab)) &&
           good(dnnl_memory_desc_init_by_tag(&right, 2, b, type, dnnl_format_tag_any)) &&
           good(dnnl_memory_desc_init_by_tag(&sum, 2, c, dnnl_f32, dnnl_ab)) &&
           good(dnnl_matmul_desc_init(&matmul, &left, &right, NULL, &sum)) &&
           good(dnnl_primitive_desc_create(&made->description, &matmul, NULL, made->engine, NULL));
}
#endif

static bool remember(struct made *made, dnnl_memory_t *memory, dnnl_query_t what, void *floats)
{
    return good(dnnl_memory_create(memory, dnnl_primitive_desc_query_md(made->description, what, 0),
                                   made->engine, floats));
}

static bool fill(const struct made *made)
{
    void *floats;
    size_t size =
        dnnl_memory_desc_get_size(dnnl_primitive_desc_query_md(made->description, dnnl_query_weights_md, 0));
    if (!good(dnnl_memory_get_data_handle(made->b, &floats)))
        return false;
    memset(floats, SOME_NUMBER, size);
    return true;
}

static bool make(struct made *made, enum precision precision, const size_t shape[3], float *const operands[3])
{
    dnnl_dim_t m = (dnnl_dim_t)shape[0], n = (dnnl_dim_t)shape[1], k = (dnnl_dim_t)shape[2];
    return good(dnnl_engine_create(&made->engine, dnnl_cpu, 0)) &&
           good(dnnl_stream_create(&made->stream, made->engine, dnnl_stream_default_flags)) &&
           describe(made, precision == PRECISION_BF16 ? dnnl_bf16 : dnnl_f32, (dnnl_dims_t){m, k},
                    (dnnl_dims_t){k, n}, (dnnl_dims_t){m, n}) &&
           good(dnnl_primitive_create(&made->primitive, made->description)) &&
           remember(made, &made->a, dnnl_query_src_md, operands[0]) &&
           remember(made, &made->b, dnnl_query_weights_md, DNNL_MEMORY_ALLOCATE) && fill(made) &&
           remember(made, &made->c, dnnl_query_dst_md, operands[2]);
}

static bool run_made(void *argument)
{
    const struct made *made = argument;
    const dnnl_exec_arg_t operands[] = {
        {DNNL_ARG_SRC, made->a}, {DNNL_ARG_WEIGHTS, made->b}, {DNNL_ARG_DST, made->c}};
    return good(dnnl_primitive_execute(made->primitive, made->stream, 3, operands)) &&
           good(dnnl_stream_wait(made->stream));
}

static void unmake(struct made *made)
{
    dnnl_memory_destroy(made->a);
    dnnl_memory_destroy(made->b);
    dnnl_memory_destroy(made->c);
    dnnl_primitive_destroy(made->primitive);
    dnnl_primitive_desc_destroy(made->description);
    dnnl_stream_destroy(made->stream);
    dnnl_engine_destroy(made->engine);
}

static size_t lay_operands(void *block, size_t m, size_t n, size_t k, float *operands[3])
{
    struct arena arena = arena_on(block);
    operands[0] = arena_take(&arena, size_product(m, k), sizeof(float));
    operands[1] = arena_take(&arena, size_product(k, n), sizeof(float));
    operands[2] = arena_take(&arena, size_product(m, n), sizeof(float));
    return arena.used;
}

size_t product_library_size(size_t m, size_t n, size_t k)
{
    float *operands[3];
    return lay_operands(NULL, m, n, k, operands);
}

/* Operations per second of `once`, repeated; 0 if it fails. */
static double rate_of(bool (*once)(void *), void *argument, double operations, double seconds)
{
    if (!once(argument)) /* the first call does the setup */
        return 0;
    double done = 0, start = clock_seconds(), spent;
    do {
        if (!once(argument))
            return 0;
        done += operations;
        spent = clock_seconds() - start;
    } while (spent < seconds);
    return done / spent * 1e-9;
}

struct plain {
    dnnl_dim_t m, n, k;
    float *const *operands;
};

static bool run_plain(void *argument)
{
    const struct plain *p = argument;
    return good(dnnl_sgemm('N', 'N', p->m, p->n, p->k, 1.0f, p->operands[0], p->k, p->operands[1], p->n, 0.0f,
                           p->operands[2], p->n));
}

double product_library_rate(enum precision precision, size_t m, size_t n, size_t k, double seconds,
                            void *block)
{
    float *operands[3];
    memset(block, SOME_NUMBER, lay_operands(block, m, n, k, operands));
    struct made made = {0};
    double operations = 2.0 * (double)m * (double)n * (double)k, best = 0;
    int threads = omp_get_max_threads();
    omp_set_num_threads(1);
    if (make(&made, precision, (const size_t[]){m, n, k}, operands))
        best = rate_of(run_made, &made, operations, seconds);
    unmake(&made);
    if (precision == PRECISION_FLOAT32) {
        struct plain plain = {(dnnl_dim_t)m, (dnnl_dim_t)n, (dnnl_dim_t)k, operands};
        double rate = rate_of(run_plain, &plain, operations, seconds);
        best = rate > best ? rate : best;
    }
    omp_set_num_threads(threads);
    return best;
}
