/* Reformer's attention by locality-sensitive hashing (Kitaev, Kaiser and Levskaya 2020, "Reformer: The
   efficient Transformer"). Queries and keys are one vector per token, the query; the keys given are not used
   and have no gradient. So there must be as many queries as keys, the same tokens. Key i is query i normed,
   k_i = q_i / sqrt(mean(q_i^2) + 1e-6), and the score of a pair is q_i k_j / sqrt(d): the query times a unit
   vector, as in the transformers library, whose layer divides by sqrt(d) only once.
   In each round, tokens are hashed into B buckets, h(x) = argmax [x R; -x R] with R (d, B / 2) standard
   normal, sorted by (bucket, position) and cut into chunks of at most chunk_size. A query attends to the
   tokens of its own chunk and of the chunk before it (the paper's P~). As in the published code, keys of
   other buckets in these chunks count, and keys found in two rounds count twice. Unlike there, the first
   chunk has none before it, and chunks are equally long up to 1, so n need not be a multiple. B is the
   largest power of two up to twice the number of chunks. One softmax runs over all pairs (round, key) met,
   which equals merging the rounds by their log-sum-exps. A token attends to itself only if it attends to no
   other token: its output is then its value. In one chunk, attention is exact among the other tokens. Causal:
   a query attends to earlier tokens only. Sorting all tokens would let later ones decide the chunks, so
   buckets are cut into chunks one by one: a token's chunk depends only on earlier tokens. B must not depend
   on n either: queries chunk_size 2^l to chunk_size 2^(l + 1) - 1 (level l) meet tokens hashed into 2^l
   buckets, which then hold about two chunks; level 0 also has the queries before. The R of a level begins
   that of the next. Hashes have no gradient. Random: R per round and head. Saved: lists of tokens, up to 3 n
   per round (causal 7 n), and two floats per query. Cost: n d B operations per round to hash, then 2
   chunk_size n pairs of 2 (d + d_v) operations, 2.5 times that backward.
   SPDX-License-Identifier: Apache-2.0 */
#include <math.h>
#include <string.h>

#include "attention/mechanism.h"
#include "base/memory.h"
#include "base/random.h"
#include "parts/groups/group_attention.h"
#include "parts/rows/bounded.h"

struct reformer_options {
    int64_t rounds, chunk_size;
};

enum { TILE = 64, DIRECTIONS = 64 }; /* tokens and directions hashed at a time */

static size_t rounds_of(const void *options)
{
    return (size_t)((const struct reformer_options *)options)->rounds;
}

static size_t chunk_of(const void *options)
{
    return (size_t)((const struct reformer_options *)options)->chunk_size;
}

/* ---- levels -------------------------------------------------------------------------------------------- */

/* Queries first .. end - 1 among tokens 0 .. end - 1 in `buckets` buckets. Not causal: one level. */
struct level {
    size_t first, end, buckets;
};

static size_t levels_of(const void *options, size_t n, bool causal)
{
    size_t levels = 1;
    while (causal && chunk_of(options) << levels < n)
        levels++;
    return levels;
}

static struct level level_of(const void *options, size_t n, bool causal, size_t number)
{
    size_t chunk = chunk_of(options), chunks = (n + chunk - 1) / chunk;
    struct level level = {0, n, 2};
    if (causal)
        return (struct level){number == 0 ? 0 : chunk << number, size_min(chunk << (number + 1), n),
                              (size_t)1 << number};
    while (2 * level.buckets <= 2 * chunks)
        level.buckets *= 2;
    return level;
}

/* Directions of a round: half the buckets of the last level. */
static size_t directions_of(const void *options, size_t n, bool causal)
{
    return level_of(options, n, causal, levels_of(options, n, causal) - 1).buckets / 2;
}

/* Upper bounds of the groups and of the keys in them, per round. */
static void bound_lists(const void *options, size_t n, bool causal, size_t *groups, size_t *keys)
{
    size_t chunk = chunk_of(options);
    *groups = *keys = 0;
    for (size_t l = 0; l < levels_of(options, n, causal); l++) {
        struct level level = level_of(options, n, causal, l);
        *groups = size_sum(*groups, (level.end + chunk - 1) / chunk + (causal ? level.buckets : 0));
        *keys = size_sum(*keys, size_product(2, level.end));
    }
}

/* Of the tokens, which are queries and keys. */
static struct problem_shape shape_of_tokens(const struct problem_shape *shape)
{
    size_t n = size_max(shape->num_queries, shape->num_keys);
    return shape_of_rows(shape, n, n);
}

static struct group_sizes sizes_of(const void *options, const struct problem_shape *shape)
{
    size_t n = size_max(shape->num_queries, shape->num_keys), rounds = rounds_of(options), groups, keys;
    bound_lists(options, n, shape->causal, &groups, &keys);
    return (struct group_sizes){
        .query_places = size_product(rounds, n),
        .key_places = size_product(rounds, keys),
        .longest_key = size_min(size_product(2, chunk_of(options)), n),
    };
}

/* ---- memory -------------------------------------------------------------------------------------------- */

struct saved {
    struct members queries, keys; /* a group per chunk with queries; groups that are left over are empty */
    struct softmax_rows rows;
    size_t bytes;
};

static struct saved saved_on(const void *options, const struct problem_shape *shape, void *block)
{
    struct saved saved;
    struct arena arena = arena_on(block);
    struct group_sizes sizes = sizes_of(options, shape);
    size_t groups, keys, n = shape_of_tokens(shape).num_keys;
    bound_lists(options, n, shape->causal, &groups, &keys);
    groups = size_product(groups, rounds_of(options));
    saved.queries = members_take(&arena, groups, sizes.query_places);
    saved.keys = members_take(&arena, groups, sizes.key_places);
    saved.rows = softmax_rows_take(&arena, n);
    saved.bytes = arena.used;
    return saved;
}

struct scratch {
    float *key, *dkey; /* (n, d): normed queries; backward: their gradient */
    void *rest;        /* hashing, then the memory of group_attention */
    size_t bytes;
};

static struct scratch scratch_on(const struct problem_shape *shape, size_t rest, bool backward, void *block)
{
    struct scratch scratch = {0};
    struct arena arena = arena_on(block);
    size_t numbers = size_product(shape_of_tokens(shape).num_keys, shape->head_dim);
    scratch.key = arena_take(&arena, numbers, sizeof(float));
    if (backward)
        scratch.dkey = arena_take(&arena, numbers, sizeof(float));
    scratch.rest = arena_take(&arena, rest, 1);
    scratch.bytes = arena.used;
    return scratch;
}

/* Memory of hashing. */
struct hashing {
    float *directions;     /* (rounds, directions, d) */
    uint32_t *codes;       /* (rounds, levels, n) */
    struct members sorted; /* the tokens of one level by bucket */
    float *columns, *z;    /* of one thread: (d, TILE), (DIRECTIONS, TILE) */
    size_t bytes;
};

static struct hashing hashing_on(const void *options, const struct problem_shape *shape, void *block,
                                 size_t worker)
{
    struct hashing hashing = {0};
    struct arena arena = arena_on(block), own;
    size_t n = size_max(shape->num_queries, shape->num_keys), rounds = rounds_of(options), bytes = 0,
           directions = directions_of(options, n, shape->causal);
    hashing.directions =
        arena_take(&arena, size_product(size_product(rounds, directions), shape->head_dim), sizeof(float));
    hashing.codes =
        arena_take(&arena, size_product(size_product(rounds, levels_of(options, n, shape->causal)), n),
                   sizeof(uint32_t));
    hashing.sorted = members_take(&arena, size_max(2 * directions, 1), n);
    for (int pass = 0; pass < 2; pass++) { /* the first pass measures */
        unsigned char *workers = pass == 0 ? NULL : arena_take(&arena, shape->workers, bytes);
        own = arena_on(workers == NULL ? NULL : workers + worker * bytes);
        hashing.columns = arena_take(&own, size_product(shape->head_dim, TILE), sizeof(float));
        hashing.z = arena_take(&own, DIRECTIONS * TILE, sizeof(float));
        bytes = own.used;
    }
    hashing.bytes = arena.used;
    return hashing;
}

static size_t saved_size(const void *options, const struct problem_shape *shape)
{
    return saved_on(options, shape, NULL).bytes;
}

static size_t scratch_size(const void *options, const struct problem_shape *shape)
{
    struct group_sizes sizes = sizes_of(options, shape);
    struct problem_shape tokens = shape_of_tokens(shape);
    size_t forward = size_max(group_forward_size(&tokens, &sizes), hashing_on(options, shape, NULL, 0).bytes);
    return size_max(scratch_on(shape, forward, false, NULL).bytes,
                    scratch_on(shape, group_backward_size(&tokens, &sizes), true, NULL).bytes);
}

static const char *refuse(const void *options, const struct problem_shape *shape)
{
    size_t n = size_max(shape->num_queries, shape->num_keys);
    if (shape->num_queries != shape->num_keys)
        return "queries and keys are the same vectors, so there must be as many queries as keys";
    if (n > UINT32_MAX || size_product(rounds_of(options), 6 * n) > UINT32_MAX)
        return "`rounds` is {rounds}; `rounds` times the length must be below 2^32 / 6";
    return NULL;
}

/* ---- normed queries ------------------------------------------------------------------------------------ */

/* sqrt(mean x^2 + 1e-6) */
static double size_of_row(const struct kernels *kernels, const float *x, size_t d)
{
    return sqrt(kernels->rows.sum_squares(x, d) / (double)d + 1e-6);
}

/* A pass over tiles of tokens. */
struct pass {
    const struct problem *problem;
    float *key;  /* (n, d) */
    void *block; /* of struct hashing */
};

static void norm_tile(void *argument, size_t tile, int worker)
{
    (void)worker;
    const struct pass *pass = argument;
    struct view query = pass->problem->query;
    size_t d = query.cols;
    for (size_t i = tile * TILE; i < size_min((tile + 1) * TILE, query.rows); i++) {
        const float *x = view_row(query, i);
        float size = (float)size_of_row(pass->problem->kernels, x, d);
        for (size_t c = 0; c < d; c++)
            pass->key[i * d + c] = x[c] / size;
    }
}

static void norm_queries(struct pass *pass)
{
    pool_run(pass->problem->pool, norm_tile, pass, (pass->problem->query.rows + TILE - 1) / TILE);
}

/* dquery += the gradient through the norm: (dk - k <k, dk> / d) / size. In double: with large inputs dk may
   be as large as float32 gets. */
static void add_norm_gradient(const struct problem *problem, const float *key, const float *dkey,
                              struct view dquery)
{
    size_t d = dquery.cols;
    for (size_t i = 0; i < dquery.rows; i++, key += d, dkey += d) {
        double size = size_of_row(problem->kernels, view_row(problem->query, i), d), along = 0;
        float *dx = view_row(dquery, i);
        for (size_t c = 0; c < d; c++)
            along += (double)key[c] * (double)dkey[c];
        along /= (double)d;
        for (size_t c = 0; c < d; c++)
            dx[c] = double_bounded((double)dx[c] + ((double)dkey[c] - (double)key[c] * along) / size);
    }
}

/* ---- buckets ------------------------------------------------------------------------------------------- */

/* The largest |<direction, token>| so far of each token of a tile; code: twice its direction, plus 1 if the
   product is negative. */
struct best {
    float size[TILE];
    uint32_t code[TILE];
};

static void improve(struct best *best, const float *z, uint32_t direction)
{
    for (size_t i = 0; i < TILE; i++) {
        float size = fabsf(z[i]);
        bool more = size > best->size[i];
        best->size[i] = more ? size : best->size[i];
        best->code[i] = more ? 2 * direction + (z[i] < 0) : best->code[i];
    }
}

/* The buckets of a tile of tokens in a level: negative products have the second half. */
static void take_codes(const struct best *best, size_t buckets, uint32_t *codes, size_t count)
{
    for (size_t i = 0; i < count; i++)
        codes[i] =
            buckets == 1 ? 0 : best->code[i] / 2 + (best->code[i] % 2 == 1 ? (uint32_t)buckets / 2 : 0);
}

static void hash_tile(void *argument, size_t tile, int worker)
{
    const struct pass *pass = argument;
    const struct problem *problem = pass->problem;
    struct hashing h = hashing_on(problem->options, &problem->shape, pass->block, (size_t)worker);
    bool causal = problem->shape.causal;
    size_t n = problem->query.rows, d = problem->query.cols, first = tile * TILE,
           count = size_min(TILE, n - first), levels = levels_of(problem->options, n, causal),
           directions = directions_of(problem->options, n, causal);
    memset(h.columns, 0, d * TILE * sizeof(float));
    problem->kernels->tiles.transpose(h.columns, TILE, pass->key + first * d, d, count, d);
    for (size_t round = 0; round < rounds_of(problem->options); round++) {
        struct best best = {{0}, {0}};
        size_t c = 0;
        for (size_t l = 0; l < levels; l++) {
            size_t buckets = level_of(problem->options, n, causal, l).buckets;
            for (; c < buckets / 2; c++) {
                if (c % DIRECTIONS == 0)
                    problem->kernels->tiles.product(h.z, TILE, h.directions + (round * directions + c) * d, d,
                                                    1, h.columns, TILE, size_min(DIRECTIONS, directions - c),
                                                    TILE, d, false);
                improve(&best, h.z + c % DIRECTIONS * TILE, (uint32_t)c);
            }
            take_codes(&best, buckets, h.codes + (round * levels + l) * n + first, count);
        }
    }
}

/* ---- chunks -------------------------------------------------------------------------------------------- */

/* Appends groups to the lists. */
struct listing {
    const struct saved *saved;
    size_t group;
};

static void append(const struct members *members, size_t group, const uint32_t *tokens, size_t count)
{
    memcpy(members->list + members->start[group], tokens, count * sizeof *tokens);
    members->start[group + 1] = members->start[group] + (uint32_t)count;
}

/* Sorted tokens first .. end - 1 are a chunk, those from `before` on the chunk before it and it. Those with
   a number of least or more are queries. */
static void add_chunk(struct listing *listing, const uint32_t *sorted, size_t before, size_t first,
                      size_t end, size_t least)
{
    size_t keys = end - before;
    while (first < end && sorted[first] < least) /* only causal, where they rise */
        first++;
    if (first == end)
        return;
    append(&listing->saved->queries, listing->group, sorted + first, end - first);
    append(&listing->saved->keys, listing->group, sorted + before, keys);
    listing->group++;
}

/* All tokens in chunks of equal length. */
static void add_sequence(struct listing *listing, const uint32_t *sorted, size_t n, size_t chunk)
{
    size_t chunks = (n + chunk - 1) / chunk;
    for (size_t t = 0; t < chunks; t++)
        add_chunk(listing, sorted, (t - (t > 0)) * n / chunks, t * n / chunks, (t + 1) * n / chunks, 0);
}

/* Each bucket in chunks of its own. */
static void add_buckets(struct listing *listing, const struct members *sorted, size_t chunk, size_t least)
{
    for (size_t b = 0; b < sorted->num_groups; b++)
        for (size_t first = sorted->start[b]; first < sorted->start[b + 1]; first += chunk)
            add_chunk(listing, sorted->list, first > sorted->start[b] ? first - chunk : first, first,
                      size_min(first + chunk, sorted->start[b + 1]), least);
}

static void find_chunks(struct pass *pass, const struct saved *saved)
{
    const struct problem *problem = pass->problem;
    struct hashing h = hashing_on(problem->options, &problem->shape, pass->block, 0);
    struct listing listing = {saved, 0};
    bool causal = problem->shape.causal;
    size_t n = problem->query.rows, levels = levels_of(problem->options, n, causal),
           per_round = directions_of(problem->options, n, causal) * problem->query.cols;
    for (size_t round = 0; round < rounds_of(problem->options); round++)
        random_normals(random_key(problem->random_key, RANDOM_GROUPS, round), 0,
                       h.directions + round * per_round, per_round);
    pool_run(problem->pool, hash_tile, pass, (n + TILE - 1) / TILE);
    saved->queries.start[0] = saved->keys.start[0] = 0;
    for (size_t round = 0; round < rounds_of(problem->options); round++)
        for (size_t l = 0; l < levels; l++) {
            struct level level = level_of(problem->options, n, causal, l);
            h.sorted.num_groups = level.buckets;
            members_by_token(&h.sorted, h.codes + (round * levels + l) * n, level.end, 1);
            if (causal)
                add_buckets(&listing, &h.sorted, chunk_of(problem->options), level.first);
            else
                add_sequence(&listing, h.sorted.list, n, chunk_of(problem->options));
        }
    for (; listing.group < saved->queries.num_groups; listing.group++) {
        append(&saved->queries, listing.group, saved->queries.list, 0);
        append(&saved->keys, listing.group, saved->keys.list, 0);
    }
}

/* ---- the mechanism ------------------------------------------------------------------------------------- */

static struct group_lists lists_of(const struct problem *problem, const struct saved *saved)
{
    return (struct group_lists){
        .sizes = sizes_of(problem->options, &problem->shape),
        .sight = problem->shape.causal ? SIGHT_EARLIER : SIGHT_OTHERS,
        .queries = saved->queries,
        .keys = saved->keys,
        .rows = saved->rows,
    };
}

/* Queries attend to normed queries. */
static struct problem with_keys(const struct problem *problem, const float *key)
{
    return problem_of_rows(problem, problem->query, view_of(key, problem->query.rows, problem->query.cols),
                           problem->value);
}

static void forward(const struct problem *problem, struct view out)
{
    struct saved saved = saved_on(problem->options, &problem->shape, problem->saved);
    struct scratch scratch = scratch_on(&problem->shape, 0, false, problem->scratch);
    struct group_lists lists = lists_of(problem, &saved);
    struct problem attending = with_keys(problem, scratch.key);
    struct pass pass = {problem, scratch.key, scratch.rest};
    norm_queries(&pass);
    find_chunks(&pass, &saved);
    group_forward(&attending, &lists, out, scratch.rest);
}

static void backward(const struct problem *problem, struct view out, struct view dout,
                     const struct problem_gradients *gradients)
{
    struct saved saved = saved_on(problem->options, &problem->shape, problem->saved);
    struct scratch scratch = scratch_on(&problem->shape, 0, true, problem->scratch);
    struct group_lists lists = lists_of(problem, &saved);
    struct problem attending = with_keys(problem, scratch.key);
    struct problem_gradients normed = *gradients;
    size_t n = problem->query.rows, d = problem->query.cols;
    norm_queries(&(struct pass){.problem = problem, .key = scratch.key});
    memset(scratch.dkey, 0, n * d * sizeof(float));
    normed.key = view_of(scratch.dkey, n, d);
    group_backward(&attending, &lists, out, dout, &normed, scratch.rest);
    add_norm_gradient(problem, scratch.key, scratch.dkey, gradients->query);
}

static const struct option_row options[] = {
    OPTION_ROW(
        "rounds", OPTION_INT, offsetof(struct reformer_options, rounds), 2, 1, 1024, NULL,
        "hashings, each with new rotations; a token attends to the tokens that it meets in any of them"),
    OPTION_ROW("chunk_size", OPTION_INT, offsetof(struct reformer_options, chunk_size), 64, 1, 1 << 20, NULL,
               "tokens per chunk of the tokens sorted by bucket, at most; a token attends to its own chunk "
               "and the one before it"),
    {.name = NULL},
};

static const char *const departures[] = {
    "Queries are the keys too: the keys given are not read, and their gradient dK is 0.",
    "Keys of other buckets in the two chunks count, and a pair that meets in two rounds counts twice.",
    "The first chunk has no chunk before it.",
    "Chunks differ in length by at most one, so n need not be a multiple.",
    "Causal attention is another algorithm: each bucket is cut into chunks by itself, and the number "
    "of buckets grows with the position.",
    NULL,
};

const struct mechanism mechanism_reformer = {
    .name = "reformer",
    .summary = "softmax attention inside chunks of tokens sorted by a random hash (Kitaev et al. 2020)",
    .departures = departures,
    .options = options,
    .options_size = sizeof(struct reformer_options),
    .exact = false,
    .mixes = true,
    .drops_weights = true,
    .competes = true,
    .host = {refuse, saved_size, scratch_size, forward, backward},
};
