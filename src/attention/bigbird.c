/* BigBird (Zaheer et al. 2020, "Big Bird: Transformers for Longer Sequences", section 2 and appendix D):
   softmax attention over global, neighbouring and random blocks of s keys. out_i = sum_j p_ij v_j, p_ij a
   softmax of q_i k_j / sqrt(d) over the keys of query i's own block and its two neighbours, of the first and
   last G blocks, and of r random blocks. Queries of the first and last G blocks attend to all keys. A pair is
   met once. This is the released block pattern with its global blocks at both ends (G = 1 there); the paper's
   global tokens all come first. The last block is shorter if s does not divide n, where the released code
   pads.
   Random: r different blocks for each block of queries, drawn from those that it does not meet otherwise
   (Floyd 1987); all of them if they are fewer. They are drawn anew in each call, for each head and sequence;
   the released code draws once, from a fixed seed. There is no causal form: the paper's decoder has full
   attention. In cross attention, block b of queries is aligned with block b of keys.
   Cost: 2 n s (3 + 4 G + r) (d + d_v) operations and n s (3 + 4 G + r) exponentials forward, 2.5 times that
   backward. Memory: copies of the keys and values of the random blocks, n r (d + d_v) floats, twice that
   backward. Saved: two floats per query, and the random blocks.
   SPDX-License-Identifier: Apache-2.0 */
#include "attention/mechanism.h"
#include "base/memory.h"
#include "base/random.h"
#include "parts/patterns/pattern_attention.h"

struct bigbird_options {
    int64_t block_size, random_blocks, global_blocks; /* s, r, G */
};

static size_t block_size(const void *options)
{
    return (size_t)((const struct bigbird_options *)options)->block_size;
}

static size_t random_blocks(const void *options)
{
    return (size_t)((const struct bigbird_options *)options)->random_blocks;
}

static size_t blocks_of(const void *options, size_t rows)
{
    size_t s = block_size(options);
    return rows / s + (rows % s > 0);
}

/* The rows first .. end - 1 of n, and their blocks, that are not global; none if first = end. */
struct middle {
    size_t first, end, first_block, end_block;
};

static struct middle middle_of(const void *options, size_t rows)
{
    size_t s = block_size(options), blocks = blocks_of(options, rows),
           global = size_min((size_t)((const struct bigbird_options *)options)->global_blocks, blocks),
           end = size_max(blocks - global, global);
    return (struct middle){size_min(global * s, rows), size_min(end * s, rows), global, end};
}

/* ---- memory -------------------------------------------------------------------------------------------- */

struct saved {
    struct softmax_rows rows;
    uint32_t *blocks; /* (query blocks, r): the random key blocks of each, ascending */
    uint32_t *counts; /* (query blocks): how many they are */
    size_t bytes;
};

static struct saved saved_on(const void *options, const struct problem_shape *shape, void *block)
{
    struct saved saved;
    struct arena arena = arena_on(block);
    size_t blocks = blocks_of(options, shape->num_queries);
    saved.rows = softmax_rows_take(&arena, shape->num_queries);
    saved.blocks = arena_take(&arena, size_product(blocks, random_blocks(options)), sizeof *saved.blocks);
    saved.counts = arena_take(&arena, blocks, sizeof *saved.counts);
    saved.bytes = arena.used;
    return saved;
}

/* Upper bound of the tokens in all random blocks. */
static size_t most_listed(const void *options, const struct problem_shape *shape)
{
    size_t per_block = size_min(size_product(random_blocks(options), block_size(options)), shape->num_keys);
    return size_product(blocks_of(options, shape->num_queries), per_block);
}

static struct pattern_sizes sizes_of(const void *options, const struct problem_shape *shape)
{
    size_t s = block_size(options), block = tile_attention_block(s), blocks = s > block ? 2 : block / s,
           window = (2 + blocks) * s, drawn = size_product(blocks * random_blocks(options), s);
    return (struct pattern_sizes){
        .block = block,
        .most_span = size_max(window, drawn),
        .most_listed = size_max(most_listed(options, shape), shape->num_keys),
    };
}

enum { PARTS = 5 };

struct scratch {
    struct pattern_part parts[PARTS];
    struct middle queries, keys;
    size_t *start;    /* (middle query blocks + 1): where the keys of each begin in `listed` */
    uint32_t *listed; /* the tokens of the random blocks */
    uint32_t *global; /* (num_keys): those of the global blocks */
    const struct problem *problem;
    void *pattern;
};

/* Returns the bytes. */
static size_t take_scratch(const void *options, const struct problem_shape *shape, void *block,
                           struct scratch *scratch)
{
    struct arena arena = arena_on(block);
    struct pattern_sizes sizes = sizes_of(options, shape);
    scratch->start =
        arena_take(&arena, size_sum(blocks_of(options, shape->num_queries), 1), sizeof *scratch->start);
    scratch->listed = arena_take(&arena, most_listed(options, shape), sizeof *scratch->listed);
    scratch->global = arena_take(&arena, shape->num_keys, sizeof *scratch->global);
    scratch->pattern = arena_take(&arena, pattern_attention_size(shape, &sizes), 1);
    return arena.used;
}

/* ---- the pattern --------------------------------------------------------------------------------------- */

/* The key blocks that query block `block` attends to beside the global ones: itself and its neighbours. */
static struct sight neighbours(const struct middle *keys, size_t block)
{
    size_t first = size_min(size_max(block - (block > 0), keys->first_block), keys->end_block);
    return (struct sight){first, size_max(first, size_min(block + 2, keys->end_block))};
}

/* Those keys of a query, both counted from the first that is not global. */
static struct sight window(const void *argument, size_t query)
{
    const struct scratch *scratch = argument;
    const struct middle *keys = &scratch->keys;
    size_t s = block_size(scratch->problem->options), first = keys->first_block * s;
    struct sight blocks = neighbours(keys, scratch->queries.first_block + query / s);
    return (struct sight){size_min(blocks.first * s, keys->end) - size_min(first, keys->end),
                          size_min(blocks.end * s, keys->end) - size_min(first, keys->end)};
}

static struct sight drawn(const void *argument, size_t query)
{
    const struct scratch *scratch = argument;
    size_t block = query / block_size(scratch->problem->options);
    return (struct sight){scratch->start[block], scratch->start[block + 1]};
}

/* Inserts `number` into the ascending list, or `otherwise`, which is larger than all, if it is there. */
static void insert(uint32_t *list, size_t count, uint32_t number, uint32_t otherwise)
{
    size_t at = count;
    for (; at > 0 && list[at - 1] >= number; at--)
        if (list[at - 1] == number) {
            list[count] = otherwise;
            return;
        }
    for (size_t i = count; i > at; i--)
        list[i] = list[i - 1];
    list[at] = number;
}

/* Draws the random blocks of query block `block` into list, ascending; returns how many. */
static uint32_t draw(const struct problem *problem, const struct middle *keys, size_t block, uint32_t *list)
{
    struct sight near = neighbours(keys, block);
    size_t others = keys->end_block - keys->first_block - (near.end - near.first),
           count = size_min(random_blocks(problem->options), others);
    uint64_t key = random_key(problem->random_key, RANDOM_BLOCKS, block);
    for (size_t i = 0; i < count; i++) {
        size_t last = others - count + i;
        uint32_t words[4];
        random_words(key, i, words);
        insert(list, i, (uint32_t)((words[0] * (uint64_t)(last + 1)) >> 32), (uint32_t)last);
    }
    for (size_t i = 0; i < count; i++) { /* number among the others -> number of the block */
        size_t number = keys->first_block + list[i];
        list[i] = (uint32_t)(number < near.first ? number : number + (near.end - near.first));
    }
    return (uint32_t)count;
}

static void draw_all(const struct problem *problem)
{
    struct saved saved = saved_on(problem->options, &problem->shape, problem->saved);
    struct middle queries = middle_of(problem->options, problem->shape.num_queries),
                  keys = middle_of(problem->options, problem->shape.num_keys);
    for (size_t b = queries.first_block; b < queries.end_block; b++)
        saved.counts[b] = draw(problem, &keys, b, saved.blocks + b * random_blocks(problem->options));
}

/* Lists the tokens of the random blocks; returns their number. */
static size_t list_drawn(const struct problem *problem, const struct saved *saved, struct scratch *scratch)
{
    size_t s = block_size(problem->options), r = random_blocks(problem->options), count = 0;
    const struct middle *queries = &scratch->queries;
    for (size_t b = queries->first_block; b < queries->end_block; b++) {
        scratch->start[b - queries->first_block] = count;
        for (size_t i = 0; i < saved->counts[b]; i++) {
            size_t first = saved->blocks[b * r + i] * s;
            for (size_t j = first; j < size_min(first + s, problem->shape.num_keys); j++)
                scratch->listed[count++] = (uint32_t)j;
        }
    }
    scratch->start[queries->end_block - queries->first_block] = count;
    return count;
}

static size_t list_global(size_t num_keys, struct scratch *scratch)
{
    size_t count = 0;
    for (size_t j = 0; j < num_keys; j++)
        if (j < scratch->keys.first || j >= scratch->keys.end)
            scratch->global[count++] = (uint32_t)j;
    return count;
}

static struct pattern_attention open(const struct problem *problem, struct scratch *scratch)
{
    const void *options = problem->options;
    size_t num_queries = problem->shape.num_queries, num_keys = problem->shape.num_keys;
    struct saved saved = saved_on(options, &problem->shape, problem->saved);
    struct pattern_sizes sizes = sizes_of(options, &problem->shape);
    take_scratch(options, &problem->shape, problem->scratch, scratch);
    scratch->problem = problem;
    scratch->queries = middle_of(options, num_queries);
    scratch->keys = middle_of(options, num_keys);
    const struct middle *queries = &scratch->queries, *keys = &scratch->keys;
    struct pattern_rows local = {queries->first, queries->end - queries->first, 1}, all = {0, num_keys, 1};
    size_t num_global = list_global(num_keys, scratch), num_drawn = list_drawn(problem, &saved, scratch);
    const struct pattern_part parts[PARTS] = {
        {.queries = {0, queries->first, 1}, .keys = all},
        {.queries = {queries->end, num_queries - queries->end, 1}, .keys = all},
        {.queries = local, .keys = {0, num_global, 1}, .list = scratch->global},
        {.queries = local,
         .keys = {keys->first, keys->end - keys->first, 1},
         .sight = window,
         .argument = scratch,
         .span = sizes.most_span},
        {.queries = local,
         .keys = {0, num_drawn, 1},
         .list = scratch->listed,
         .sight = drawn,
         .argument = scratch,
         .span = sizes.most_span},
    };
    for (size_t i = 0; i < PARTS; i++)
        scratch->parts[i] = parts[i];
    return (struct pattern_attention){sizes, scratch->parts, PARTS, saved.rows};
}

/* ---- the mechanism ------------------------------------------------------------------------------------- */

static size_t saved_size(const void *options, const struct problem_shape *shape)
{
    return saved_on(options, shape, NULL).bytes;
}

static size_t scratch_size(const void *options, const struct problem_shape *shape)
{
    return take_scratch(options, shape, NULL, &(struct scratch){.problem = NULL});
}

static void forward(const struct problem *problem, struct view out)
{
    struct scratch scratch;
    draw_all(problem);
    struct pattern_attention attention = open(problem, &scratch);
    pattern_attention_forward(problem, &attention, out, scratch.pattern);
}

static void backward(const struct problem *problem, struct view out, struct view dout,
                     const struct problem_gradients *gradients)
{
    struct scratch scratch;
    struct pattern_attention attention = open(problem, &scratch);
    pattern_attention_backward(problem, &attention, out, dout, gradients, scratch.pattern);
}

static const struct option_row options[] = {
    OPTION_ROW("block_size", OPTION_INT, offsetof(struct bigbird_options, block_size), 64, 1, 1 << 20, NULL,
               "tokens per block; each token sees its own block and both neighbours"),
    OPTION_ROW("random_blocks", OPTION_INT, offsetof(struct bigbird_options, random_blocks), 3, 0, 1024, NULL,
               "random blocks that each token sees, drawn anew for every head, sequence and step"),
    OPTION_ROW("global_blocks", OPTION_INT, offsetof(struct bigbird_options, global_blocks), 1, 0, 1 << 20,
               NULL, "the first and the last global_blocks blocks see all tokens and are seen by all"),
    {.name = NULL},
};

static const char *const departures[] = {
    "Global blocks are at both ends.",
    "Random blocks are drawn for each head, anew at every training step, and in evaluation from the "
    "seed.",
    "Attention stays sparse at every length.",
    "The last block may be shorter.",
    "Positions count the tokens that take part, so a key mask in the middle or in front shifts the "
    "blocks, the last global block too.",
    NULL,
};

const struct mechanism mechanism_bigbird = {
    .name = "bigbird",
    .summary = "softmax attention over neighbouring, global and random blocks (Zaheer et al. 2020)",
    .departures = departures,
    .options = options,
    .options_size = sizeof(struct bigbird_options),
    .mixes = true,
    .drops_weights = true,
    .competes = true,
    .no_causal = "it has no causal form: the paper's decoder has full attention",
    .host = {NULL, saved_size, scratch_size, forward, backward},
};
