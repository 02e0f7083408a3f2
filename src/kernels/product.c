/* product() through oneDNN: dnnl_sgemm, which versions 2 and 3 both have. oneDNN takes its number of threads
   from OpenMP's setting of the calling thread, so that is 1 during the call and then put back; a product it
   refuses (it allocates, so it may) is done by our own tiles. SPDX-License-Identifier: Apache-2.0 */
#include "kernels/product.h"

#include <stdio.h>

#include <omp.h>
#include <oneapi/dnnl/dnnl.h>

#include "kernels/product_tiles.h"

void product(const struct kernels *kernels, float *c, size_t ld_c, const float *a, size_t ld_a,
             bool transpose_a, const float *b, size_t ld_b, bool transpose_b, size_t m, size_t n, size_t k,
             bool add)
{
    if (m > 0 && n > 0 && k > 0) {
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

void product_library(char *text, size_t size)
{
    const dnnl_version_t *version = dnnl_version();
    snprintf(text, size, "oneDNN %d.%d.%d", version->major, version->minor, version->patch);
}
