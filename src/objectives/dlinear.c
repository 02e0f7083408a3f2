/* DLinear (Zeng et al. 2023, "Are Transformers effective for time series forecasting?"): the window is
   divided into its trend, a moving average over 25 values with the ends repeated, and the rest; a linear map
   of each is the forecast. Bare: it reads the values of the window themselves. Initial weights are those of
   the released code, PyTorch's. The maps are shared by all columns, its default. Cost: 4 values outputs
   operations per example forward and twice that backward, on the calling thread.
   SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "nn/outputs/flat_rows.h"
#include "objectives/squares.h"

enum { AVERAGED = 25 };

struct dlinear {
    struct squares squares;
    size_t dim, max_len;
    struct dense trend, rest; /* "dlinear.trend", "dlinear.rest" */
};

static hashattn_status describe(struct host *host, struct params *params, const struct objective_facts *facts,
                                void *self)
{
    struct dlinear *d = self;
    size_t width = size_product(facts->max_len, facts->dim);
    *d = (struct dlinear){.squares = squares_of(facts), .dim = facts->dim, .max_len = facts->max_len};
    TRY(dense_describe(host, params, "dlinear.trend", width, squares_width(&d->squares), &d->trend));
    return dense_describe(host, params, "dlinear.rest", width, squares_width(&d->squares), &d->rest);
}

/* Arrays of head_rows of sequences, so that products have full tiles (nn/outputs/head.h). */
struct space {
    float *y, *other;    /* the forecast, and the part of it that comes from `rest` */
    float *trend, *rest; /* parts of the windows */
    float *dy;           /* only in training */
    size_t bytes;
};

static struct space lay(const struct dlinear *d, const struct rows *rows, bool training, void *memory)
{
    struct arena arena = arena_on(memory);
    size_t count = head_rows(rows->num_sequences), wide = size_product(count, d->trend.in),
           out = size_product(count, d->trend.out);
    struct space s = {.y = NULL};
    s.y = arena_take(&arena, out, sizeof(float));
    s.other = arena_take(&arena, out, sizeof(float));
    s.trend = arena_take(&arena, wide, sizeof(float));
    s.rest = arena_take(&arena, wide, sizeof(float));
    s.dy = training ? arena_take(&arena, out, sizeof(float)) : NULL;
    s.bytes = arena.used;
    return s;
}

static size_t memory_size(const void *self, const struct rows *rows, bool training)
{
    return lay(self, rows, training, NULL).bytes;
}

static struct space space_of(const struct objective_pass *pass)
{
    return lay(pass->self, pass->rows, pass->training, pass->memory);
}

/* Value i of a window whose ends are repeated. */
static double repeated(const float *x, size_t n, ptrdiff_t i)
{
    return (double)x[i < 0 ? 0 : (size_t)i >= n ? n - 1 : (size_t)i];
}

/* Writes the moving average of x (n) to trend, and leaves the rest in x. */
static void divide(float *x, float *trend, size_t n)
{
    const ptrdiff_t half = AVERAGED / 2;
    double sum = 0;
    for (ptrdiff_t i = -half; i <= half; i++)
        sum += repeated(x, n, i);
    for (size_t i = 0; i < n; i++) {
        trend[i] = (float)(sum / AVERAGED);
        sum += repeated(x, n, (ptrdiff_t)i + half + 1) - repeated(x, n, (ptrdiff_t)i - half);
    }
    for (size_t i = 0; i < n; i++)
        x[i] -= trend[i];
}

static double forward(const struct objective_pass *pass)
{
    const struct dlinear *d = pass->self;
    const struct kernels *kernels = pass->rows->kernels;
    const struct space s = space_of(pass);
    size_t n = pass->rows->num_sequences, count = head_rows(n), in = d->trend.in, out = d->trend.out;
    flat_rows_forward(pass->rows, d->max_len, s.rest, pass->x, d->dim);
    for (size_t i = 0; i < n; i++)
        divide(s.rest + i * in, s.trend + i * in, in);
    memset(s.trend + n * in, 0, (count - n) * in * sizeof *s.trend);
    memset(s.rest + n * in, 0, (count - n) * in * sizeof *s.rest);
    for (size_t row = 0; row < count; row += HEAD_TILE) {
        dense_forward(&d->trend, kernels, pass->values, s.y + row * out, s.trend + row * in, HEAD_TILE);
        dense_forward(&d->rest, kernels, pass->values, s.other + row * out, s.rest + row * in, HEAD_TILE);
    }
    kernels->rows.axpy(s.y, 1, s.other, count * out);
    return squares_loss(pass);
}

static void backward(const struct objective_pass *pass, struct slice gradients, float *dx, bool add)
{
    const struct dlinear *d = pass->self;
    const struct kernels *kernels = pass->rows->kernels;
    const struct space s = space_of(pass);
    size_t n = pass->rows->num_sequences, count = head_rows(n), in = d->trend.in, out = d->trend.out;
    (void)dx, (void)add; /* bare */
    squares_gradient(pass, s.dy);
    memset(s.dy + n * out, 0, (count - n) * out * sizeof *s.dy);
    for (size_t row = 0; row < count; row += HEAD_TILE) {
        const float *dy = s.dy + row * out;
        dense_backward(&d->trend, kernels, pass->values, gradients, NULL, false, dy, s.trend + row * in,
                       HEAD_TILE);
        dense_backward(&d->rest, kernels, pass->values, gradients, NULL, false, dy, s.rest + row * in,
                       HEAD_TILE);
    }
}

const struct objective objective_dlinear = {
    .name = "dlinear",
    .last_layer = "dlinear.",
    .summary = "the values after a window, linear in its trend and in the rest",
    SQUARES_OF_EXAMPLES,
    .bare = true,
    .whole = true,
    .refuse = squares_refuse,
    .size = sizeof(struct dlinear),
    .describe = describe,
    .memory_size = memory_size,
    .forward = forward,
    .backward = backward,
};
