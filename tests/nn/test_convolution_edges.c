/* A convolution of sequences that ranks share against that of one process, forward and backward, for filters
   up to spans as short as half a filter. test_convolution.c compares one process with double. Bugs planted
   and caught: edges that are not exchanged; the neighbours' rows in the wrong order, or taps shifted by one;
   the first rows sent to the rank after; edges of the first sequence for all; no edges in dx, or in the
   gradient of the filter; the ends of a sequence not zero.
   SPDX-License-Identifier: Apache-2.0 */
#include "nn/convolution_edges.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/random.h"
#include "nn/convolution.h"
#include "support/check.h"
#include "support/thread_ranks.h"

enum { SEQUENCES = 2, HEADS = 3, WIDTH = 5, DIM = HEADS * WIDTH, MOST_TAPS = 33 };
static const size_t totals[SEQUENCES] = {67, 49};

struct arrays {
    float x[(67 + 49) * DIM], base[(67 + 49) * DIM], dy[(67 + 49) * DIM], y[(67 + 49) * DIM],
        dx[(67 + 49) * DIM];
    float filters[HEADS * MOST_TAPS], dfilters[HEADS * MOST_TAPS];
};

struct work {
    size_t taps;
    struct arrays whole; /* inputs; results of the ranks */
    float dfilters[MOST_RANKS][HEADS * MOST_TAPS];
};

/* Computes the rows that `rows` has, from the arrays at these rows, in place. */
static void convolve(const struct rows *rows, size_t taps, struct arrays *a, float *dfilters)
{
    const struct convolution convolution = {.heads = HEADS, .head_dim = WIDTH, .taps = taps, .filters = 0};
    size_t bytes = convolution_scratch_size(&convolution, rows);
    void *scratch = malloc(bytes + 1);
    memset(scratch, 0xff, bytes);
    convolution_forward(&convolution, rows, a->filters, a->y, a->base, a->x, scratch);
    memset(scratch, 0xff, bytes);
    memset(a->dx, 0, sizeof a->dx);
    memset(dfilters, 0, HEADS * MOST_TAPS * sizeof *dfilters);
    convolution_backward(&convolution, rows, a->filters, (struct slice){dfilters, 0}, a->dx, a->dy, a->x,
                         scratch);
    free(scratch);
}

/* Copies this rank's rows of a sequence between the whole and its own arrays. */
static void move(float *to, size_t at, const float *from, size_t first, size_t count)
{
    memcpy(to + at * DIM, from + first * DIM, count * DIM * sizeof *to);
}

static void compute(struct comm *comm, void *argument)
{
    struct work *work = argument;
    struct arrays *own = calloc(1, sizeof *own);
    struct host host;
    size_t offsets[SEQUENCES + 1] = {0}, starts[SEQUENCES], begin = 0;
    host_init(&host);
    struct row_ranks ranks = {.host = &host, .comm = comm};
    memcpy(own->filters, work->whole.filters, sizeof own->filters);
    for (size_t s = 0; s < SEQUENCES; begin += totals[s++]) {
        size_t end, at = offsets[s];
        comm_span(comm, totals[s], &starts[s], &end);
        offsets[s + 1] = at + end - starts[s];
        move(own->x, at, work->whole.x, begin + starts[s], end - starts[s]);
        move(own->base, at, work->whole.base, begin + starts[s], end - starts[s]);
        move(own->dy, at, work->whole.dy, begin + starts[s], end - starts[s]);
    }
    const struct rows_cut cut = {&ranks, totals, starts};
    struct rows rows = rows_of(kernels_all()[0], NULL, SEQUENCES, offsets, NULL);
    rows.cut = &cut;
    convolve(&rows, work->taps, own, work->dfilters[comm_rank(comm)]);
    rank_require(ranks.status == HASHATTN_OK);
    begin = 0;
    for (size_t s = 0; s < SEQUENCES; begin += totals[s++]) {
        move(work->whole.y, begin + starts[s], own->y, offsets[s], offsets[s + 1] - offsets[s]);
        move(work->whole.dx, begin + starts[s], own->dx, offsets[s], offsets[s + 1] - offsets[s]);
    }
    free(own);
}

static void check_near_floats(const float *got, const float *want, size_t count, const char *what)
{
    for (size_t i = 0; i < count; i++)
        check_near((double)got[i], (double)want[i], 1e-4, what);
}

static void ranks_convolve_as_one_process(void **state)
{
    (void)state;
    static const size_t offsets[] = {0, 67, 67 + 49};
    for (size_t taps = 1; taps <= MOST_TAPS; taps += 8)
        for (int size = 2; size <= 4 && 49 / (size_t)size >= taps / 2; size++) {
            struct work *work = calloc(1, sizeof *work);
            struct arrays *one = calloc(1, sizeof *one);
            float sum[HEADS * MOST_TAPS] = {0}, dfilters[HEADS * MOST_TAPS];
            random_normals(1, 0, one->x, sizeof one->x / sizeof *one->x);
            random_normals(2, 0, one->base, sizeof one->base / sizeof *one->base);
            random_normals(3, 0, one->dy, sizeof one->dy / sizeof *one->dy);
            random_normals(4, 0, one->filters, HEADS * MOST_TAPS);
            work->taps = taps;
            work->whole = *one;
            struct rows rows = rows_of(kernels_all()[0], NULL, SEQUENCES, offsets, NULL);
            convolve(&rows, taps, one, dfilters);
            assert_string_equal(run_ranks(size, 60, compute, work), "");
            check_near_floats(work->whole.y, one->y, sizeof one->y / sizeof *one->y, "y");
            check_near_floats(work->whole.dx, one->dx, sizeof one->dx / sizeof *one->dx, "dx");
            for (int rank = 0; rank < size; rank++)
                for (size_t i = 0; i < HEADS * taps; i++)
                    sum[i] += work->dfilters[rank][i];
            check_near_floats(sum, dfilters, HEADS * taps, "dfilter");
            free(one), free(work);
        }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(ranks_convolve_as_one_process)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
