/* product() and its tiles against double precision: every transposition, odd sizes, leading dimensions,
   adding, no write outside C's columns; rows that do not depend on their number; the caller's OpenMP setting
   unchanged; the peak, and the library's best rate.
   Covers: product.c product_own.c (whichever is built) product_tiles.c product_peak.c
   Bugs planted and caught: later panels of the depth overwrite C; the depth of a transposed A or B ignored;
   the steps of A exchanged; transpose_b or add not passed to the library; k = 0 leaving C as it was; the
   number of rows deciding who computes (row alone); OpenMP's setting not restored, in either place; the peak
   or the library's rate in the wrong unit; a cap of the library that does nothing, in all or
   for one instruction set; AVX2's products of few
   rows in the library; a copied strip from the wrong rows or columns of B, or one
   too far; a copied tile of A from the wrong rows or the wrong depth.
   SPDX-License-Identifier: Apache-2.0 */
#include "kernels/product.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <float.h>

#include "base/clock.h"
#include "base/memory.h"
#include "base/random.h"
#include "kernels/product_tiles.h"
#include "support/check.h"

/* Weak, so that the test also links without OpenMP. */
extern int omp_get_max_threads(void) __attribute__((weak));
extern void omp_set_num_threads(int threads) __attribute__((weak));

typedef void product_function(const struct kernels *, float *, size_t, const float *, size_t, bool,
                              const float *, size_t, bool, size_t, size_t, size_t, bool);

static const size_t shapes[][3] = {
    {0, 5, 5},       {5, 0, 5},     {5, 5, 0},      {1, 1, 1},       {3, 17, 5},   {64, 64, 64},
    {65, 63, 66},    {128, 96, 7},  {7, 130, 129},  {130, 1, 300},   {1, 200, 64}, {200, 192, 192},
    {9, 300, 20},    {40, 20, 400}, {64, 1023, 20}, {70, 1023, 140}, /* rows of B a page apart */
    {200, 383, 140},                                                 /* 384 floats */
};

static void check_shape(product_function *multiply, const struct kernels *kernels, size_t m, size_t n,
                        size_t k, int bits)
{
    bool transpose_a = bits & 1, transpose_b = bits & 2, add = bits & 4;
    size_t ld_a = (transpose_a ? m : k) + 3, ld_b = (transpose_b ? k : n) + 1, ld_c = n + 2;
    size_t size_a = (transpose_a ? k : m) * ld_a, size_b = (transpose_b ? n : k) * ld_b, size_c = m * ld_c;
    float *a = calloc(size_a + 1, sizeof *a), *b = calloc(size_b + 1, sizeof *b);
    float *c = calloc(size_c + 1, sizeof *c), *before = calloc(size_c + 1, sizeof *before);
    random_normals(1, 0, a, size_a);
    random_normals(2, 0, b, size_b);
    random_normals(3, 0, c, size_c);
    memcpy(before, c, size_c * sizeof *c);
    multiply(kernels, c, ld_c, a, ld_a, transpose_a, b, ld_b, transpose_b, m, n, k, add);
    for (size_t i = 0; i < m; i++)
        for (size_t j = 0; j < ld_c; j++) {
            if (j >= n) {
                check_same_bits(&c[i * ld_c + j], &before[i * ld_c + j], sizeof *c, "beside C");
                continue;
            }
            double sum = add ? (double)before[i * ld_c + j] : 0, size = fabs(sum);
            for (size_t l = 0; l < k; l++) {
                double term = (double)(transpose_a ? a[l * ld_a + i] : a[i * ld_a + l]) *
                              (double)(transpose_b ? b[j * ld_b + l] : b[l * ld_b + j]);
                sum += term;
                size += fabs(term);
            }
            /* One rounding per term and one for C, whatever the order. */
            check_near((double)c[i * ld_c + j], sum, (double)(k + 1) * (double)FLT_EPSILON * size, "product");
        }
    free(a);
    free(b);
    free(c);
    free(before);
}

static void product_is_the_sum_of_products(void **state)
{
    (void)state;
    for (const struct kernels *const *all = kernels_all(); *all != NULL; all++)
        for (size_t s = 0; s < sizeof shapes / sizeof shapes[0]; s++)
            for (int bits = 0; bits < 8; bits++) {
                check_shape(product, *all, shapes[s][0], shapes[s][1], shapes[s][2], bits);
                check_shape(product_tiles, *all, shapes[s][0], shapes[s][1], shapes[s][2], bits);
            }
}

static void a_row_of_a_small_product_stands_alone(void **state)
{
    (void)state;
    enum { M = 131, N = 96, K = 130 };
    static float a[M * K], b[K * N], all[M * N], alone[N];
    random_normals(1, 0, a, M * K);
    random_normals(2, 0, b, K * N);
    for (const struct kernels *const *table = kernels_all(); *table != NULL; table++)
        for (int transpose = 0; transpose < 2; transpose++) {
            product(*table, all, N, a, K, false, b, transpose ? K : N, transpose, M, N, K, false);
            for (size_t i = 0; i < M; i += 7) {
                product(*table, alone, N, a + i * K, K, false, b, transpose ? K : N, transpose, 1, N, K,
                        false);
                check_same_bits(alone, all + i * N, sizeof alone, "a row alone");
            }
        }
}

/* Few columns of an A transposed and a B with odd rows are read in place; otherwise product_tiles copies. */
static void copies_change_no_bit(void **state)
{
    (void)state;
    enum { M = 130, N = 256, K = 150, PIECE = 64 };
    static float a[M * K], b[K * N], odd[K * (N + 1)], here[M * N], copied[M * N];
    random_normals(1, 0, a, M * K);
    random_normals(2, 0, b, K * N);
    for (size_t k = 0; k < K; k++)
        memcpy(odd + k * (N + 1), b + k * N, N * sizeof *b);
    for (const struct kernels *const *table = kernels_all(); *table != NULL; table++)
        for (int transpose = 0; transpose < 2; transpose++) {
            size_t ld_a = transpose ? M : K;
            for (size_t j = 0; j < N; j += PIECE)
                product_tiles(*table, here + j, N, a, ld_a, transpose, odd + j, N + 1, false, M, PIECE, K,
                              false);
            product_tiles(*table, copied, N, a, ld_a, transpose, b, N, false, M, N, K, false);
            check_same_bits(copied, here, sizeof here, "copied");
        }
}

/* Products with few rows or few results have the bits of our tiles; the library sums another way. */
static void small_products_with_avx2_are_ours(void **state)
{
    (void)state;
    enum { M = 512, N = 500, K = 900 };
    static float a[M * K], b[K * N], c[M * N], tiles[M * N];
    char library[64];
    product_library(library, sizeof library);
    random_normals(1, 0, a, M * K);
    random_normals(2, 0, b, K * N);
    for (const struct kernels *const *table = kernels_all(); *table != NULL; table++) {
        bool avx2 = strcmp((*table)->name, "avx2") == 0, own = strcmp(library, "own") == 0;
        const size_t rows[] = {1, 192, M};
        for (size_t i = 0; i < 3; i++) {
            product(*table, c, N, a, K, false, b, N, false, rows[i], N, K, false);
            product_tiles(*table, tiles, N, a, K, false, b, N, false, rows[i], N, K, false);
            if (own || avx2)
                check_same_bits(c, tiles, rows[i] * N * sizeof *c, "ours");
        }
    }
}

static void openmp_is_left_as_it_was(void **state)
{
    (void)state;
    if (omp_get_max_threads == NULL)
        return;
    enum { SIZE = 300 };
    static float a[SIZE * SIZE], c[SIZE * SIZE];
    int before = omp_get_max_threads();
    omp_set_num_threads(3);
    product(kernels_all()[0], c, SIZE, a, SIZE, false, a, SIZE, false, SIZE, SIZE, SIZE, false);
    assert_int_equal(omp_get_max_threads(), 3);
    omp_set_num_threads(before);
}

static float space[PRODUCT_PEAK_FLOATS];

/* true if the peak is within a factor of 30 below and 300 above a plain loop of the same set. */
static bool peak_agrees(const struct kernels *kernels,
                        double (*peak_of)(const struct kernels *, double, float *))
{
    double start = clock_seconds();
    volatile float sink = kernels->peak.fused_loop(2000);
    (void)sink;
    double rate = 2000.0 * FUSED_LOOP_OPERATIONS / (clock_seconds() - start) * 1e-9;
    double peak = peak_of(kernels, 0.002, space);
    return peak > rate / 30 && peak < rate * 300;
}

/* Under load either may be interrupted, so one of 20 attempts must agree; a wrong unit would be a factor of a
   thousand in all of them. */
static void the_peak_is_in_gigaflops(void **state)
{
    (void)state;
    double (*const peaks[])(const struct kernels *, double, float *) = {product_peak, product_peak_bf16};
    for (const struct kernels *const *table = kernels_all(); *table != NULL; table++)
        for (size_t p = 0; p < 2; p++) {
            bool agrees = false;
            for (int attempt = 0; attempt < 20 && !agrees; attempt++)
                agrees = peak_agrees(*table, peaks[p]);
            assert_true(agrees);
        }
}

/* The library's rate is comparable to the peak, or 0 if there is no library. The peak of `ref` is sixty times
   smaller than the library's; a wrong unit would be a factor of a thousand. */
static void the_library_alone_is_in_gigaflops(void **state)
{
    (void)state;
    enum { M = 50, N = 70, K = 90 };
    char library[64];
    product_library(library, sizeof library);
    bool own = strcmp(library, "own") == 0;
    void *block = aligned_alloc(64, (product_library_size(M, N, K) + 127) / 64 * 64);
    assert_true(own || product_library_size(M, N, K) >= (M * N + M * K + N * K) * sizeof(float));
    if (omp_set_num_threads != NULL)
        omp_set_num_threads(3);
    const struct kernels *best = kernels_named(NULL, NULL);
    double peak = product_peak(best, 0.002, space), rate[PRECISION_COUNT];
    for (int precision = 0; precision < PRECISION_COUNT; precision++)
        rate[precision] = product_library_rate((enum precision)precision, M, N, K, 0.002, block);
    if (omp_get_max_threads != NULL)
        assert_int_equal(omp_get_max_threads(), 3);
    if (own)
        assert_true(rate[PRECISION_FLOAT32] == 0 && rate[PRECISION_BF16] == 0);
    else
        assert_true(rate[PRECISION_FLOAT32] > peak / 1000 && rate[PRECISION_FLOAT32] < peak * 300);
    assert_true(rate[PRECISION_BF16] >= 0 && rate[PRECISION_BF16] < peak * 600);
    free(block);
}

/* Large enough that the library computes it for every table. */
enum { CAPPED = 520, CAPPED_DEPTH = 64 };

/* C = A B in a child process that caps its library to `cap` before its first product. c is shared memory. A
   cap of the environment would hide that of product_cap, so the child has none. */
static void product_in_a_capped_child(const struct kernels *cap, const struct kernels *table, float *c)
{
    int status;
    pid_t child = fork();
    if (child == 0) {
        static float a[CAPPED * CAPPED_DEPTH], b[CAPPED_DEPTH * CAPPED];
        random_normals(1, 0, a, CAPPED * CAPPED_DEPTH);
        random_normals(2, 0, b, CAPPED_DEPTH * CAPPED);
        unsetenv("ONEDNN_MAX_CPU_ISA");
        unsetenv("DNNL_MAX_CPU_ISA");
        product_cap(cap);
        product(table, c, CAPPED, a, CAPPED_DEPTH, false, b, CAPPED, false, CAPPED, CAPPED, CAPPED_DEPTH,
                false);
        _exit(0);
    }
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);
}

/* The same table throughout, so only the library can give other bits: it sums in another order with wider
   vectors, and without fused multiply-adds if capped to `ref`. Only caps of `ref` and `avx2` exist. */
static void a_cap_holds_the_library(void **state)
{
    (void)state;
    const size_t size = CAPPED * CAPPED;
    const struct kernels *const *all = kernels_all();
    size_t count = 0;
    while (all[count] != NULL)
        count++;
    float *c =
        mmap(NULL, count * size * sizeof *c, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    assert_true(c != MAP_FAILED);
    for (size_t i = 0; i < count; i++) {
        product_in_a_capped_child(all[i], all[count - 1], c + i * size);
        for (size_t j = 0; j < size; j++)
            check_near((double)c[i * size + j], (double)c[j], 1e-3, "capped product");
    }
    char library[64];
    product_library(library, sizeof library);
    if (count == 1 || strcmp(library, "own") == 0 || strcmp(all[1]->name, "avx2") != 0)
        print_message("SKIPPED: cap of products (one instruction set, no library, or not x86)\n");
    else
        for (size_t j = 1; j < count; j++)
            for (size_t i = 0; i < size_min(j, 2); i++)
                assert_true(memcmp(c + i * size, c + j * size, size * sizeof *c) != 0);
    munmap(c, count * size * sizeof *c);
}

static void the_library_has_a_name(void **state)
{
    (void)state;
    char text[64];
    product_library(text, sizeof text);
    assert_true(strlen(text) >= 3);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_cap_holds_the_library), /* first: before any product of this process */
        cmocka_unit_test(product_is_the_sum_of_products),
        cmocka_unit_test(a_row_of_a_small_product_stands_alone),
        cmocka_unit_test(copies_change_no_bit),
        cmocka_unit_test(small_products_with_avx2_are_ours),
        cmocka_unit_test(openmp_is_left_as_it_was),
        cmocka_unit_test(the_peak_is_in_gigaflops),
        cmocka_unit_test(the_library_alone_is_in_gigaflops),
        cmocka_unit_test(the_library_has_a_name),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
