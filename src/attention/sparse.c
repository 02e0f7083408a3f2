/* The Sparse Transformer (Child, Gray, Radford and Sutskever 2019, "Generating Long Sequences with Sparse
   Transformers", section 4): softmax attention over about sqrt(n) keys per query. out_i = sum_j p_ij v_j,
   p_ij a softmax of q_i k_j / sqrt(d) over the keys of a pattern with blocks of s:
     fixed     keys in query i's own block of s, and the last c of every block, its summary; a shorter last
               block has its own last c;
     strided   keys at a distance of less than s, or of a multiple of s.
   Causal: of these, the keys up to i, as in the paper; otherwise those on both sides. One softmax runs over
   both kinds of keys, which the paper calls a merged head, and a pair counts once.
   The keys of the fixed pattern that a query does not see in its own block are summaries, so the two parts of
   a causal head are ranges of two lists. For the strided pattern the rows i, i + s, i + 2 s, ... are dense
   attention of their own.
   Long Range Arena's version is causal in the encoder too, with s = 50 and c = 10, and adds the first key of
   each block. In cross attention, query i is aligned with key i; one beyond all blocks may meet no key and
   then gives 0.
   Cost: 2 n (s + c n / s) (d + d_v) operations forward if fixed, 2 n (2 s + n / s) (d + d_v) if strided, half
   of it if causal, and 2.5 times that backward: O(n sqrt n) for s about sqrt n. Nothing is random. Saved: two
   floats per query.
   SPDX-License-Identifier: Apache-2.0 */
#include "attention/mechanism.h"
#include "base/memory.h"
#include "parts/patterns/pattern_attention.h"

enum pattern { PATTERN_FIXED, PATTERN_STRIDED };

struct sparse_options {
    int64_t block_size, summary_width; /* s, c */
    int pattern;
};

static size_t block_size(const void *options)
{
    return (size_t)((const struct sparse_options *)options)->block_size;
}

static bool is_strided(const void *options)
{
    return ((const struct sparse_options *)options)->pattern == PATTERN_STRIDED;
}

static size_t summary_width(const void *options)
{
    return size_min((size_t)((const struct sparse_options *)options)->summary_width, block_size(options));
}

/* The first key of the summary of the block that begins at `first`. Causal, a last block of any length has
   the summary of a whole one: only its own queries could see it, and their bits may not depend on later
   tokens. */
static size_t summary_of(const void *options, const struct problem_shape *shape, size_t first)
{
    size_t end = first + block_size(options);
    if (!shape->causal)
        end = size_max(first, size_min(end, shape->num_keys));
    return end - size_min(summary_width(options), end - first);
}

/* Summary keys among the first `keys`. */
static size_t summaries(const void *options, const struct problem_shape *shape, size_t keys)
{
    size_t s = block_size(options), start = summary_of(options, shape, keys / s * s);
    return keys / s * summary_width(options) + (keys > start ? keys - start : 0);
}

static struct pattern_sizes sizes_of(const void *options, const struct problem_shape *shape)
{
    size_t s = block_size(options),
           block = is_strided(options) ? TILE_ATTENTION_BLOCK : tile_attention_block(s);
    return (struct pattern_sizes){
        .block = block,
        .most_span = s + size_max(s, block),
        .most_listed = is_strided(options) ? 0 : summaries(options, shape, shape->num_keys),
    };
}

static size_t most_parts(const void *options, const struct problem_shape *shape)
{
    return size_sum(size_min(is_strided(options) ? block_size(options) : 0, shape->num_queries), 2);
}

/* ---- memory -------------------------------------------------------------------------------------------- */

struct scratch {
    struct pattern_part *parts;
    uint32_t *summary; /* (most_listed) */
    void *pattern;
    size_t bytes;
};

static struct scratch scratch_on(const void *options, const struct problem_shape *shape, void *block)
{
    struct scratch scratch;
    struct arena arena = arena_on(block);
    struct pattern_sizes sizes = sizes_of(options, shape);
    scratch.parts = arena_take(&arena, most_parts(options, shape), sizeof *scratch.parts);
    scratch.summary = arena_take(&arena, sizes.most_listed, sizeof *scratch.summary);
    scratch.pattern = arena_take(&arena, pattern_attention_size(shape, &sizes), 1);
    scratch.bytes = arena.used;
    return scratch;
}

/* ---- the patterns -------------------------------------------------------------------------------------- */

/* Fixed: the keys of the own block that are not in its summary. */
static struct sight own_block(const void *argument, size_t query)
{
    const struct problem *problem = argument;
    size_t s = block_size(problem->options), first = query / s * s,
           end = size_min(summary_of(problem->options, &problem->shape, first), problem->shape.num_keys);
    if (problem->shape.causal)
        end = size_min(end, problem->visible[query]);
    first = size_min(first, problem->shape.num_keys);
    return (struct sight){first, size_max(first, end)};
}

/* Fixed and causal: the summary keys up to the query. */
static struct sight earlier_summaries(const void *argument, size_t query)
{
    const struct problem *problem = argument;
    return (struct sight){0, summaries(problem->options, &problem->shape, problem->visible[query])};
}

static size_t fixed_parts(const struct problem *problem, struct scratch *scratch)
{
    size_t s = block_size(problem->options), num_keys = problem->shape.num_keys, count = 0;
    struct pattern_rows queries = {0, problem->shape.num_queries, 1};
    for (size_t first = 0; first < num_keys; first += s)
        for (size_t j = summary_of(problem->options, &problem->shape, first);
             j < size_min(first + s, num_keys); j++)
            scratch->summary[count++] = (uint32_t)j;
    scratch->parts[0] = (struct pattern_part){
        .queries = queries,
        .keys = {0, num_keys, 1},
        .sight = own_block,
        .argument = problem,
        .span = sizes_of(problem->options, &problem->shape).most_span,
    };
    scratch->parts[1] = (struct pattern_part){
        .queries = queries,
        .keys = {0, count, 1},
        .list = scratch->summary,
        .sight = problem->shape.causal ? earlier_summaries : NULL,
        .argument = problem,
    };
    return 2;
}

/* Strided: the keys less than s before the query, and after it; the query's own key belongs to its row. */
static struct sight shortly_before(const void *argument, size_t query)
{
    const struct problem *problem = argument;
    size_t s = block_size(problem->options), first = query + 1 > s ? query + 1 - s : 0,
           keys = problem->shape.num_keys;
    return (struct sight){size_min(first, keys), size_min(query, keys)};
}

static struct sight shortly_after(const void *argument, size_t query)
{
    const struct problem *problem = argument;
    size_t s = block_size(problem->options), keys = problem->shape.num_keys;
    return (struct sight){size_min(query + 1, keys), size_min(query + s, keys)};
}

/* Strided and causal: the keys of a row up to the query. */
static struct sight up_to_itself(const void *argument, size_t query)
{
    (void)argument;
    return (struct sight){0, query + 1};
}

static struct pattern_rows row_of(size_t first, size_t s, size_t rows)
{
    return (struct pattern_rows){first, first < rows ? (rows - first - 1) / s + 1 : 0, s};
}

static size_t strided_parts(const struct problem *problem, struct scratch *scratch)
{
    size_t s = block_size(problem->options), num_queries = problem->shape.num_queries,
           num_keys = problem->shape.num_keys, count = 0;
    bool causal = problem->shape.causal;
    for (int after = 0; after < (causal ? 1 : 2); after++)
        scratch->parts[count++] = (struct pattern_part){
            .queries = {0, num_queries, 1},
            .keys = {0, num_keys, 1},
            .sight = after ? shortly_after : shortly_before,
            .argument = problem,
            .span = sizes_of(problem->options, &problem->shape).most_span,
        };
    for (size_t first = 0; first < size_min(s, num_queries); first++)
        scratch->parts[count++] = (struct pattern_part){
            .queries = row_of(first, s, num_queries),
            .keys = row_of(first, s, num_keys),
            .sight = causal ? up_to_itself : NULL,
        };
    return count;
}

/* ---- the mechanism ------------------------------------------------------------------------------------- */

static struct pattern_attention open(const struct problem *problem, struct scratch *scratch)
{
    struct arena saved = arena_on(problem->saved);
    return (struct pattern_attention){
        .sizes = sizes_of(problem->options, &problem->shape),
        .parts = scratch->parts,
        .num_parts =
            is_strided(problem->options) ? strided_parts(problem, scratch) : fixed_parts(problem, scratch),
        .rows = softmax_rows_take(&saved, problem->shape.num_queries),
    };
}

static size_t scratch_size(const void *options, const struct problem_shape *shape)
{
    return scratch_on(options, shape, NULL).bytes;
}

static void forward(const struct problem *problem, struct view out)
{
    struct scratch scratch = scratch_on(problem->options, &problem->shape, problem->scratch);
    struct pattern_attention attention = open(problem, &scratch);
    pattern_attention_forward(problem, &attention, out, scratch.pattern);
}

static void backward(const struct problem *problem, struct view out, struct view dout,
                     const struct problem_gradients *gradients)
{
    struct scratch scratch = scratch_on(problem->options, &problem->shape, problem->scratch);
    struct pattern_attention attention = open(problem, &scratch);
    pattern_attention_backward(problem, &attention, out, dout, gradients, scratch.pattern);
}

static const char *const patterns[] = {"fixed", "strided", NULL};

static const struct option_row options[] = {
    OPTION_ROW("block_size", OPTION_INT, offsetof(struct sparse_options, block_size), 64, 1, 1 << 20, NULL,
               "tokens per block, and the stride; about the root of the length makes the cost smallest"),
    OPTION_ROW("pattern", OPTION_CHOICE, offsetof(struct sparse_options, pattern), PATTERN_FIXED, 0, 0,
               patterns,
               "fixed: the own block and the last tokens of every block; strided: tokens less than "
               "block_size away, or a multiple of it"),
    OPTION_ROW("summary_width", OPTION_INT, offsetof(struct sparse_options, summary_width), 8, 1, 1 << 20,
               NULL, "fixed pattern: the last summary_width tokens of every block are seen by all"),
    {.name = NULL},
};

static const char *const departures[] = {
    "One softmax covers a query's own block and the summaries, or its neighbours and the stride.",
    "Without causal, the patterns reach to both sides.",
    "Positions count the tokens that take part, so a key mask in the middle or in front shifts "
    "blocks and strides.",
    NULL,
};

const struct mechanism mechanism_sparse = {
    .name = "sparse",
    .summary = "softmax attention over about sqrt(n) keys, fixed or strided (Child et al. 2019)",
    .departures = departures,
    .options = options,
    .options_size = sizeof(struct sparse_options),
    .exact = true,
    .mixes = true,
    .drops_weights = true,
    .competes = true,
    .host = {NULL, softmax_rows_size, scratch_size, forward, backward},
};
