/* product() through oneDNN: dnnl_sgemm, which versions 2 and 3 both have. oneDNN takes its number of threads
   from OpenMP's setting of the calling thread, so that is 1 during the call and then put back; a product it
   refuses (it allocates, so it may) is done by our own tiles.
   So are products with few columns and a short depth, whatever their number of rows: our tiles were measured
   at least as fast there, and their rows do not depend on how many there are. On Zen 5, GF/s of oneDNN 2.6.3
   and of our tiles: 64x64x64 (rows, columns, depth) 209 and 247, B transposed 126 and 217; 2048x64x64 B
   transposed 216 and 247; 2048x256x256 228 and 223, B transposed 233 and 223; but 512x768x768 227 and 204,
   512x3072x768 211 and 170, 256x256x2048 A transposed 234 and 204. Primitives made once for each shape
   (matmul) gave 236 at 2048x64x64, 221 at 512x768x768 and 186 at 512x3072x768: no reason to keep a cache.
   SPDX-License-Identifier: Apache-2.0 */
#include "kernels/product.h"

#include <stdio.h>
#include <string.h>

#include <oneapi/dnnl/dnnl.h>

#include "kernels/product_tiles.h"

/* Of every OpenMP runtime; its header comes with one compiler alone. */
extern int omp_get_max_threads(void);
extern void omp_set_num_threads(int threads);

enum { OWN_COLUMNS = 256, OWN_DEPTH = 256 };

void product(const struct kernels *kernels, float *c, size_t ld_c, const float *a, size_t ld_a,
             bool transpose_a, const float *b, size_t ld_b, bool transpose_b, size_t m, size_t n, size_t k,
             bool add)
{
    bool own = n <= OWN_COLUMNS && k <= OWN_DEPTH;
    if (!own && m > 0) {
        int threads = omp_get_max_threads();
        omp_set_num_threads(1);
        dnnl_status_t status = dnnl_sgemm(transpose_a ? 'T' : 'N', transpose_b ? 'T' : 'N', (dnnl_dim_t)m,
                                          (dnnl_dim_t)n, (dnnl_dim_t)k, 1.0f, a, (dnnl_dim_t)ld_a, b,
                                          (dnnl_dim_t)ld_b, add ? 1.0f : 0.0f, c, (dnnl_dim_t)ld_c);
        omp_set_num_threads(threads);
        if (status == dnnl_success)
            return;
    }
    product_tiles(kernels, c, ld_c, a, ld_a, transpose_a, b, ld_b, transpose_b, m, n, k, add);
}

void product_cap(const struct kernels *kernels)
{
    if (strcmp(kernels->name, "ref") == 0)
        dnnl_set_max_cpu_isa(dnnl_cpu_isa_sse41);
    else if (strcmp(kernels->name, "avx2") == 0)
        dnnl_set_max_cpu_isa(dnnl_cpu_isa_avx2);
}

void product_library(char *text, size_t size)
{
    const dnnl_version_t *version = dnnl_version();
    snprintf(text, size, "oneDNN %d.%d.%d", version->major, version->minor, version->patch);
}
