/* Tiles: codes bit for bit as `ref` computes them, threads and processes that use tiles, and a process that
   the system refuses them. The tests of the slots run over the table as over all others; here the sizes are
   those around tiles. Covers: isa_amx.c
   Bugs planted and caught: the low bytes taken as signed; a mixed product left out; the low sums shifted by 9
   or ignored; rows not negated; the second half of a row read whole; the sums
   read after the next ones; the bits of an earlier run of planes lost; dense planes of a second run over the
   first; the last word of a plane left out; a row past the last written; the start of int8-dp of another
   plane; the high sums times 128; the first tokens' tiles for all; a table given that the system refuses.
   SPDX-License-Identifier: Apache-2.0 */
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include "kernels/cpu.h"
#include "kernels/cpu_x86.h"
#include "kernels/isa.h"
#include "kernels/slots.h"

extern const struct isa isa_amx;

static const struct kernels *ref(void)
{
    return &isa_ref.kernels;
}

/* NULL, with the reason, where tiles do not run. */
static const struct kernels *tiles(void)
{
    const char *why;
    const struct kernels *kernels = kernels_named("amx", &why);
    if (kernels == NULL)
        print_message("SKIPPED: amx: %s\n", why);
    return kernels;
}

/* ---- rows and planes of HASH_INT16_DP and HASH_INT8_DP ------------------------------------------------- */

enum kind {
    NOISE,  /* any bytes, halves short enough that rows and planes have length 32767 */
    EDGES,  /* halves at the edges of their two bytes */
    LONG,   /* one coordinate of 32767 of either sign */
    CANCEL, /* products that cancel up to -1, 0 or 1 */
    KINDS
};

static int16_t half_of(enum kind kind, struct random *random, size_t dim)
{
    static const int edges[] = {0, 1, -1, 255, -255, 256, -256, 257, -257, 127, 128, -128, 511, -512, 2047};
    int most = (int)(32767 / sqrt((double)dim));
    int value = kind == EDGES ? edges[random_below(random, 15)]
                              : (int)random_below(random, (uint32_t)(2 * most + 1)) - most;
    return (int16_t)(value > most ? most : value < -most ? -most : value);
}

struct halves {
    int16_t *rows, *planes; /* (n, 2 words) and (num_planes, 2 words) */
    size_t n, dim, words, num_planes;
};

static struct halves halves_new(enum kind kind, size_t n, size_t dim, size_t num_planes)
{
    struct halves h = {.n = n, .dim = dim, .words = (dim + 1) / 2, .num_planes = num_planes};
    struct random random = random_open(dim * 31 + n);
    h.rows = calloc(n * 2 * h.words, sizeof *h.rows);
    h.planes = calloc(num_planes * 2 * h.words, sizeof *h.planes);
    for (size_t i = 0; i < n + num_planes; i++) {
        bool row = i < n;
        int16_t *x = row ? h.rows + i * 2 * h.words : h.planes + (i - n) * 2 * h.words;
        int sign = random_below(&random, 2) == 0 ? 1 : -1;
        struct random same = random_open(dim);
        for (size_t c = 0; c < dim; c += 2) {
            int16_t a = half_of(kind, kind == CANCEL ? &same : &random, dim);
            int16_t b = half_of(kind, kind == CANCEL ? &same : &random, dim);
            x[c] = (int16_t)(sign * (row || kind != CANCEL ? a : b));
            x[c + 1] = (int16_t)(sign * (row || kind != CANCEL ? b : -a));
        }
        if (kind == LONG) {
            memset(x, 0, 2 * h.words * sizeof *x);
            x[random_below(&random, 2) == 0 ? i % dim : dim - 1] = (int16_t)(sign * 32767);
        }
        if (kind == CANCEL) {
            x[2 * h.words - 2] = (int16_t)(row ? 1 : (int)random_below(&random, 3) - 1);
            x[2 * h.words - 1] = 0;
        }
        if (dim % 2 == 1)
            x[dim] = 0;
    }
    return h;
}

static void halves_free(struct halves *h)
{
    free(h->rows);
    free(h->planes);
}

/* Planes by group of 16, in the layout of hash.codes_dp or of hash.codes_dense. */
static uint32_t *group_planes(const struct halves *h, enum hash_projection projection, size_t m, size_t bits,
                              bool dense, size_t *floats)
{
    const bool bytes = projection == HASH_INT8_DP;
    size_t words = bytes ? (h->dim + 3) / 4 : h->words, groups = (m + 15) / 16;
    size_t blocks = dense ? (m * bits + 15) / 16 : bits * groups, block = (words + bytes) * 16;
    *floats = blocks * block;
    uint32_t *out = (uint32_t *)(void *)guard_floats(*floats);
    memset(out, 0, *floats * sizeof *out);
    for (size_t hash = 0; hash < m; hash++)
        for (size_t b = 0; b < bits; b++) {
            const int16_t *from = h->planes + (hash * bits + b) * 2 * h->words;
            size_t plane = hash * bits + b;
            uint32_t *to = dense ? out + plane / 16 * block + plane % 16
                                 : out + (b * groups + hash / 16) * block + hash % 16;
            int sum = 0;
            for (size_t c = 0; c < h->dim; c++) {
                int8_t byte = (int8_t)(from[c] % 127);
                sum += byte;
                if (bytes)
                    to[c / 4 * 16] |= (uint32_t)(uint8_t)byte << (8 * (c % 4));
                else
                    to[c / 2 * 16] |= (uint32_t)(uint16_t)from[c] << (16 * (c % 2));
            }
            if (bytes)
                to[words * 16] = (uint32_t)(-128 * sum);
        }
    return out;
}

/* Rows that end at an unmapped page, ld words apart. */
static uint32_t *pack_rows(const struct halves *h, enum hash_projection projection, size_t ld, size_t *floats)
{
    const bool bytes = projection == HASH_INT8_DP;
    size_t words = bytes ? (h->dim + 3) / 4 : h->words;
    *floats = (h->n - 1) * ld + words;
    uint32_t *out = (uint32_t *)(void *)guard_floats(*floats);
    memset(out, 0x5a, *floats * sizeof *out);
    for (size_t i = 0; i < h->n; i++)
        for (size_t w = 0; w < words; w++) {
            const int16_t *from = h->rows + i * 2 * h->words;
            uint32_t word = 0;
            for (size_t j = 0; j < 4 && bytes; j++) {
                int byte = 4 * w + j < h->dim ? from[4 * w + j] % 127 : 0;
                word |= (uint32_t)(byte + 128) << (8 * j);
            }
            for (size_t j = 0; j < 2 && !bytes; j++)
                word |= (uint32_t)(uint16_t)from[2 * w + j] << (16 * j);
            out[i * ld + w] = word;
        }
    return out;
}

/* Returns false at the first code that differs. It asserts nothing, so that threads may call it. */
static bool codes_agree(const struct kernels *kernels, enum hash_projection projection, enum kind kind,
                        size_t n, size_t dim, size_t m, size_t bits)
{
    const bool wide = bits > 16;
    struct halves h = halves_new(kind, n, dim, m * bits);
    size_t words = projection == HASH_INT8_DP ? (dim + 3) / 4 : (dim + 1) / 2, ld = words + 1 + n % 3;
    size_t size = wide ? sizeof(uint32_t) : sizeof(uint16_t), bytes = n * m * size;
    size_t of_rows, of_usual, of_dense, floats = (bytes + 3) / 4, pad = 4 * floats - bytes;
    uint32_t *rows = pack_rows(&h, projection, ld, &of_rows);
    uint32_t *usual = group_planes(&h, projection, m, bits, false, &of_usual);
    uint32_t *dense = group_planes(&h, projection, m, bits, true, &of_dense);
    float *got = guard_floats(floats), *want = guard_floats(floats);
    bool agree = true;
    memset(got, 0x5a, floats * sizeof *got);
    ref()->hash.codes_dp((char *)want + pad, wide, projection, rows, ld, n, words, usual, m, bits);
    kernels->hash.codes_dp((char *)got + pad, wide, projection, rows, ld, n, words, usual, m, bits);
    agree &= memcmp((char *)got + pad, (char *)want + pad, bytes) == 0;
    memset(got, 0x5a, floats * sizeof *got);
    kernels->hash.codes_dense((char *)got + pad, wide, projection, rows, ld, n, words, dense, m, bits);
    agree &= memcmp((char *)got + pad, (char *)want + pad, bytes) == 0;
    guard_free((float *)(void *)rows, of_rows);
    guard_free((float *)(void *)usual, of_usual);
    guard_free((float *)(void *)dense, of_dense);
    guard_free(got, floats);
    guard_free(want, floats);
    halves_free(&h);
    return agree;
}

static void check_codes(const struct kernels *kernels, size_t n, size_t dim, size_t m, size_t bits)
{
    static const enum hash_projection projections[] = {HASH_INT16_DP, HASH_INT8_DP};
    for (int p = 0; p < 2; p++)
        for (int kind = NOISE; kind < KINDS; kind++)
            if (!codes_agree(kernels, projections[p], (enum kind)kind, n, dim, m, bits))
                fail_msg("projection %d, kind %d, n %zu dim %zu m %zu bits %zu: other codes than ref",
                         (int)projections[p], kind, n, dim, m, bits);
}

static void codes_are_those_of_ref(void **state)
{
    (void)state;
    static const size_t hashes[] = {1, 15, 16, 17, 33}, tokens[] = {32, 47, 48, 49, 64, 65, 130};
    const struct kernels *kernels = tiles();
    if (kernels == NULL)
        return;
    for (size_t dim = 1; dim <= 200; dim++)
        check_codes(kernels, tokens[dim % 7], dim, hashes[dim % 5], 1 + dim % 11);
    for (size_t bits = 1; bits <= 24; bits++)
        check_codes(kernels, 33, 70, hashes[bits % 5], bits);
    for (size_t n = 1; n <= 50; n++)
        check_codes(kernels, n, 66, 18, 3);
    check_codes(kernels, 300, 64, 33, 9);   /* two chunks */
    check_codes(kernels, 300, 128, 17, 24); /* two runs of planes */
    check_codes(kernels, 70, 512, 16, 9);   /* the deepest in tiles, */
    check_codes(kernels, 40, 514, 16, 5);   /* and one that is not */
}

/* ---- threads and processes ----------------------------------------------------------------------------- */

static void *codes_in_a_thread(void *argument)
{
    const struct kernels *kernels = argument;
    bool good = true;
    for (size_t round = 0; round < 20; round++)
        good &= codes_agree(kernels, HASH_INT16_DP, NOISE, 64 + round, 64, 32, 9);
    return good ? argument : NULL;
}

static void threads_compute_at_the_same_time(void **state)
{
    (void)state;
    enum { THREADS = 4 };
    pthread_t threads[THREADS];
    void *good[THREADS];
    const struct kernels *kernels = tiles();
    if (kernels == NULL)
        return;
    for (int t = 0; t < THREADS; t++)
        assert_int_equal(pthread_create(&threads[t], NULL, codes_in_a_thread, (void *)(uintptr_t)kernels), 0);
    for (int t = 0; t < THREADS; t++) {
        assert_int_equal(pthread_join(threads[t], &good[t]), 0);
        assert_non_null(good[t]);
    }
}

static int exit_of(pid_t child)
{
    int status;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFEXITED(status));
    return WEXITSTATUS(status);
}

static void a_child_goes_on(void **state)
{
    (void)state;
    const struct kernels *kernels = tiles();
    if (kernels == NULL)
        return;
    assert_true(codes_agree(kernels, HASH_INT16_DP, NOISE, 64, 64, 16, 9));
    pid_t child = fork();
    if (child == 0)
        _exit(codes_agree(kernels, HASH_INT16_DP, NOISE, 64, 64, 16, 9) ? 0 : 1);
    assert_int_equal(exit_of(child), 0);
    assert_true(codes_agree(kernels, HASH_INT16_DP, NOISE, 64, 64, 16, 9));
}

/* Linux refuses tiles to a process with an alternate signal stack that cannot hold their state. This test
   comes first: its child must not inherit the grant. */
static void a_process_without_the_grant_takes_the_next_table(void **state)
{
    (void)state;
    enum { SMALL = 4096 };
    static char small[SMALL];
    const char *cap = getenv("HASHATTN_ISA");
    bool capped = cap != NULL && cap[0] != '\0' && strcmp(cap, "auto") != 0 && strcmp(cap, "amx") != 0;
    if ((isa_amx.needs & ~cpu_features()) != 0 || capped) {
        print_message("SKIPPED: amx does not run here\n");
        return;
    }
    pid_t child = fork();
    if (child == 0) {
        const char *why = NULL;
        const stack_t stack = {.ss_sp = small, .ss_size = sizeof small};
        if (sigaltstack(&stack, NULL) != 0)
            _exit(77);
        if (kernels_named("amx", &why) != NULL)
            _exit(1);
        _exit(why == NULL || strcmp(kernels_named(NULL, &why)->name, "avx512bf16") != 0 ? 2 : 0);
    }
    int status = exit_of(child);
    if (status == 77)
        print_message("SKIPPED: this system has no alternate signal stacks of %d bytes\n", SMALL);
    else
        assert_int_equal(status, 0);
}

/* Waits for the table, which the main thread asks for. */
struct early {
    pthread_barrier_t asked;
    const struct kernels *kernels;
};

static void *early_thread(void *argument)
{
    struct early *early = argument;
    pthread_barrier_wait(&early->asked);
    return early->kernels == NULL ? NULL : codes_in_a_thread((void *)(uintptr_t)early->kernels);
}

/* The second of the tests whose child must not inherit the grant. */
static void a_thread_older_than_the_grant_has_it(void **state)
{
    (void)state;
    pid_t child = fork();
    if (child == 0) {
        struct early early;
        pthread_t thread;
        void *good = NULL;
        const char *why;
        pthread_barrier_init(&early.asked, NULL, 2);
        if (pthread_create(&thread, NULL, early_thread, &early) != 0)
            _exit(1);
        early.kernels = kernels_named("amx", &why);
        pthread_barrier_wait(&early.asked);
        pthread_join(thread, &good);
        _exit(early.kernels == NULL ? 77 : good == NULL ? 2 : 0);
    }
    int status = exit_of(child);
    if (status == 77)
        print_message("SKIPPED: amx does not run here\n");
    else
        assert_int_equal(status, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_process_without_the_grant_takes_the_next_table),
        cmocka_unit_test(a_thread_older_than_the_grant_has_it),
        cmocka_unit_test(codes_are_those_of_ref),
        cmocka_unit_test(threads_compute_at_the_same_time),
        cmocka_unit_test(a_child_goes_on),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
