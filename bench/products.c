/* GF/s of float32 products of the shapes that layers have: by the library, by our tiles, and with B packed
   once (weights), in a cache if it fits there, and from memory, where the weights of a whole model are.
   src/kernels/product.c chooses by them, so measure again for a new instruction set.

     make -C build bench_products && build/bench_products [INSTRUCTION SET]

   One thread, in its processor time, all ways of a shape in turn: the eleventh of 15 rates in order, each
   over 8 ms, because the machine may be busy. For the ratio of two builds run both in turn.
   SPDX-License-Identifier: Apache-2.0 */
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "kernels/kernels.h"
#include "kernels/product.h"
#include "kernels/product_tiles.h"

enum {
    ROUNDS = 15,
    WAYS = 4,
    MOST = 768 * 3072,
    PACKED = 1 << 24 /* floats of packed copies, more than a third-level cache has */
};
static const double round_seconds = 0.008;

struct shape {
    size_t m, n, k;
    bool transpose_a, transpose_b;
};

/* Forward through weights, backward to the weights (A transposed), scores of a tile (B transposed). */
static const struct shape shapes[] = {
    {192, 64, 64, false, false},    {192, 256, 256, false, false},  {192, 384, 384, false, false},
    {192, 1536, 384, false, false}, {192, 384, 1536, false, false}, {192, 512, 512, false, false},
    {192, 1024, 256, false, false}, {192, 768, 768, false, false},  {192, 3072, 768, false, false},
    {192, 768, 3072, false, false}, {16, 1536, 384, false, false},  {16, 384, 1536, false, false},
    {32, 1536, 384, false, false},  {48, 1536, 384, false, false},  {96, 1536, 384, false, false},
    {64, 384, 384, false, false},   {512, 768, 768, false, false},  {512, 3072, 768, false, false},
    {384, 384, 192, true, false},   {512, 512, 192, true, false},   {768, 768, 192, true, false},
    {768, 3072, 192, true, false},  {2048, 64, 64, false, true},    {2048, 256, 256, false, true},
};

struct operands {
    const struct kernels *kernels;
    float *a, *b, *c, *packed;
};

/* Returns false if this way has no such product. turn: which copy of the weights is read from memory. */
static bool multiply(const struct operands *o, const struct shape *s, int way, size_t turn)
{
    size_t size = weights_size(PRECISION_FLOAT32, s->k, s->n), copy = way == 3 ? turn % (PACKED / size) : 0;
    size_t ld_a = s->transpose_a ? s->m : s->k, ld_b = s->transpose_b ? s->k : s->n;
    if (way == 0)
        return product_by_library(o->c, s->n, o->a, ld_a, s->transpose_a, o->b, ld_b, s->transpose_b, s->m,
                                  s->n, s->k, true);
    if (way == 1)
        product_tiles(o->kernels, o->c, s->n, o->a, ld_a, s->transpose_a, o->b, ld_b, s->transpose_b, s->m,
                      s->n, s->k, true);
    else if (!s->transpose_a && !s->transpose_b)
        product_weights(o->kernels, PRECISION_FLOAT32, o->c, s->n, o->a, ld_a, o->packed + copy * size, s->m,
                        s->n, s->k, true);
    return way == 1 || (!s->transpose_a && !s->transpose_b);
}

static double seconds(void)
{
    struct timespec now;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

static double rate(const struct operands *o, const struct shape *s, int way)
{
    static size_t turn;
    double begin = seconds(), spent = 0, products = 0;
    for (; spent < round_seconds; spent = seconds() - begin, products++)
        multiply(o, s, way, turn++);
    return 2e-9 * (double)s->m * (double)s->n * (double)s->k * products / spent;
}

static int compare(const void *x, const void *y)
{
    double a = *(const double *)x, b = *(const double *)y;
    return (a > b) - (a < b);
}

static void measure(const struct operands *o, const struct shape *s)
{
    double rates[WAYS][ROUNDS];
    bool has[WAYS];
    if (!s->transpose_b)
        for (size_t size = weights_size(PRECISION_FLOAT32, s->k, s->n), at = 0; at + size <= PACKED;
             at += size)
            weights_pack(o->kernels, PRECISION_FLOAT32, o->packed + at, o->b, s->n, false, s->k, s->n);
    for (int way = 0; way < WAYS; way++)
        has[way] = multiply(o, s, way, 0);
    for (int i = 0; i < ROUNDS; i++)
        for (int way = 0; way < WAYS; way++)
            rates[way][i] = has[way] ? rate(o, s, way) : 0;
    printf("| %zux%zux%zu%s%s |", s->m, s->n, s->k, s->transpose_a ? ", A transposed" : "",
           s->transpose_b ? ", B transposed" : "");
    for (int way = 0; way < WAYS; way++) {
        qsort(rates[way], ROUNDS, sizeof *rates[way], compare);
        if (has[way])
            printf(" %.0f |", rates[way][ROUNDS * 2 / 3]);
        else
            printf(" - |");
    }
    printf("\n");
}

static float *numbers(size_t count)
{
    float *block = aligned_alloc(64, (count * sizeof *block + 63) / 64 * 64);
    for (size_t i = 0; block != NULL && i < count; i++)
        block[i] = 1 / (float)(i + 1);
    return block;
}

int main(int count, char **words)
{
    const char *why, *name = count > 1 ? words[1] : "auto";
    char library[40];
    struct operands o = {.kernels = kernels_named(name, &why)};
    if (o.kernels == NULL) {
        fprintf(stderr, "bench_products: %s: %s\n", name, why);
        return 2;
    }
    o.a = numbers(MOST), o.b = numbers(MOST), o.c = numbers(MOST);
    o.packed = numbers(PACKED);
    if (o.a == NULL || o.b == NULL || o.c == NULL || o.packed == NULL) {
        fprintf(stderr, "bench_products: no memory\n");
        return 1;
    }
    product_library(library, sizeof library);
    printf(
        "| rows x columns x depth | %s | our tiles (%s) | B packed | from memory |\n|---|---|---|---|---|\n",
        library, o.kernels->name);
    for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++)
        measure(&o, &shapes[i]);
    free(o.a), free(o.b), free(o.c), free(o.packed);
    return 0;
}
