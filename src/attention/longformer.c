/* Longformer (Beltagy, Peters and Cohan 2020, "The Long-Document Transformer"): softmax attention in a
   sliding window and to global tokens. out_i = sum_j p_ij v_j, p_ij a softmax of q_i k_j / sqrt(d) over the
   keys j with |i - j| <= W / 2 and the first G tokens; the first G tokens are queries of all keys. Causal:
   the same keys up to i, so half the window. A pair counts once, also if a global key is inside the window.
   Global tokens share the projections of all others, as in YOSO's comparison; the paper's model learns
   separate ones for them. Only tokens that take part have positions: masked tokens are skipped. In cross
   attention, query i is aligned with key i; a query beyond all windows meets the global keys only, or gives
   0. The released code wants n to be a multiple of the window, and gives masked keys a weight of exp(-10000);
   here n is free and masked keys are absent.
   Cost: 2 n (W + 2 G) (d + d_v) operations and n (W + 2 G) exponentials forward, 2.5 times that backward;
   half the window's if causal. Nothing is random. Saved: two floats per query.
   SPDX-License-Identifier: Apache-2.0 */
#include "attention/mechanism.h"
#include "base/memory.h"
#include "parts/patterns/pattern_attention.h"

struct longformer_options {
    int64_t window, global_tokens; /* W, G */
};

/* Largest distance in the window. */
static size_t reach(const void *options)
{
    return (size_t)((const struct longformer_options *)options)->window / 2;
}

static size_t global_tokens(const void *options, size_t rows)
{
    return size_min((size_t)((const struct longformer_options *)options)->global_tokens, rows);
}

static struct pattern_sizes sizes_of(const void *options, const struct problem_shape *shape)
{
    return (struct pattern_sizes){
        .block = TILE_ATTENTION_BLOCK,
        .most_span = (shape->causal ? 1 : 2) * reach(options) + TILE_ATTENTION_BLOCK,
    };
}

/* The window of local query number `query`, among the keys that are not global. If there are both, as many
   queries as keys are global. */
static struct sight window(const void *argument, size_t query)
{
    const struct problem *problem = argument;
    size_t far = reach(problem->options), keys = problem->shape.num_keys,
           global = global_tokens(problem->options, keys), i = query + global;
    size_t first = i > far ? i - far : 0, end = problem->shape.causal ? problem->visible[i] : i + far + 1;
    first = size_min(size_max(first, global), keys);
    return (struct sight){first - global, size_max(size_min(end, keys), first) - global};
}

/* The keys that global query number `query` sees. */
static struct sight past(const void *argument, size_t query)
{
    return (struct sight){0, problem_seen(argument, query)};
}

enum { PARTS = 3 };

static struct pattern_attention open(const struct problem *problem, struct pattern_part parts[PARTS])
{
    struct arena saved = arena_on(problem->saved);
    struct pattern_sizes sizes = sizes_of(problem->options, &problem->shape);
    size_t queries = problem->shape.num_queries, keys = problem->shape.num_keys,
           global_queries = global_tokens(problem->options, queries),
           global_keys = global_tokens(problem->options, keys);
    struct pattern_rows local = {global_queries, queries - global_queries, 1};
    parts[0] = (struct pattern_part){.queries = local,
                                     .keys = {global_keys, keys - global_keys, 1},
                                     .sight = window,
                                     .argument = problem,
                                     .span = sizes.most_span};
    parts[1] = (struct pattern_part){.queries = local, .keys = {0, global_keys, 1}};
    parts[2] = (struct pattern_part){.queries = {0, global_queries, 1},
                                     .keys = {0, keys, 1},
                                     .sight = problem->shape.causal ? past : NULL,
                                     .argument = problem};
    return (struct pattern_attention){sizes, parts, PARTS, softmax_rows_take(&saved, queries)};
}

static size_t scratch_size(const void *options, const struct problem_shape *shape)
{
    struct pattern_sizes sizes = sizes_of(options, shape);
    return pattern_attention_size(shape, &sizes);
}

static void forward(const struct problem *problem, struct view out)
{
    struct pattern_part parts[PARTS];
    struct pattern_attention attention = open(problem, parts);
    pattern_attention_forward(problem, &attention, out, problem->scratch);
}

static void backward(const struct problem *problem, struct view out, struct view dout,
                     const struct problem_gradients *gradients)
{
    struct pattern_part parts[PARTS];
    struct pattern_attention attention = open(problem, parts);
    pattern_attention_backward(problem, &attention, out, dout, gradients, problem->scratch);
}

static const struct option_row options[] = {
    OPTION_ROW("window", OPTION_INT, offsetof(struct longformer_options, window), 512, 0, 1 << 30, NULL,
               "each token sees the tokens at a distance of at most window / 2 (causal: only earlier ones)"),
    OPTION_ROW("global_tokens", OPTION_INT, offsetof(struct longformer_options, global_tokens), 1, 0, 1 << 30,
               NULL, "the first global_tokens tokens see all tokens and are seen by all"),
    {.name = NULL},
};

static const char *const departures[] = {
    "Global tokens share the projections of the others.",
    "Every length is computed as it is, and masked keys are absent.",
    "Positions count the tokens that take part, so a key mask in the middle or in front shifts "
    "windows and global tokens.",
    NULL,
};

const struct mechanism mechanism_longformer = {
    .name = "longformer",
    .summary = "softmax attention in a sliding window and to global tokens (Beltagy et al. 2020)",
    .departures = departures,
    .options = options,
    .options_size = sizeof(struct longformer_options),
    .exact = true,
    .mixes = true,
    .drops_weights = true,
    .competes = true,
    .host = {NULL, softmax_rows_size, scratch_size, forward, backward},
};
