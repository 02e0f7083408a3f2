/* Three memberships by the same code, then one pass over all pairs.
   SPDX-License-Identifier: Apache-2.0 */
#include "parts/inspect/inspection.h"

#include <math.h>
#include <string.h>

#include "base/random.h"
#include "parts/groups/lsh_hash.h"
#include "parts/inspect/attention_caught.h"

const char *const inspected_names[] = {"own", "lsh", "smyrf", NULL};

void inspection_take(struct inspection *inspection, struct arena *arena, size_t num_groups)
{
    for (size_t p = 0; p < NUM_INSPECTED; p++) {
        uint32_t *queries = arena_take(arena, num_groups, sizeof *queries);
        uint32_t *keys = arena_take(arena, num_groups, sizeof *keys);
        if (arena->block == NULL)
            continue;
        inspection->memberships[p].best_queries = queries;
        inspection->memberships[p].best_keys = keys;
    }
}

void inspection_clear(struct inspection *inspection, size_t num_groups)
{
    for (size_t p = 0; p < NUM_INSPECTED; p++) {
        struct inspected_membership *membership = &inspection->memberships[p];
        memset(membership->best_queries, 0, num_groups * sizeof *membership->best_queries);
        memset(membership->best_keys, 0, num_groups * sizeof *membership->best_keys);
        *membership = (struct inspected_membership){.best_queries = membership->best_queries,
                                                    .best_keys = membership->best_keys};
    }
}

/* ---- memory -------------------------------------------------------------------------------------------- */

struct memory {
    void *saved[NUM_INSPECTED]; /* lists; of own: those that forward saved */
    float *query, *key;         /* (n, d + 2): asymmetric rows */
    float *lsh, *smyrf;         /* directions */
    uint32_t *counts;           /* (n) of the longer side */
    void *attending, *catching;
    size_t bytes;
};

static struct catching catching_of(const struct grouped *b)
{
    return (struct catching){.kernels = b->kernels,
                             .pool = b->pool,
                             .workers = b->workers,
                             .num_queries = b->num_queries,
                             .num_keys = b->num_keys,
                             .dim = b->dim,
                             .causal = b->causal,
                             .num_caught = NUM_INSPECTED,
                             .places = grouped_places(b, b->num_queries)};
}

static struct memory memory_on(const struct grouped *b, void *block)
{
    struct memory memory = {.saved = {b->saved}};
    struct arena arena = arena_on(block);
    struct catching catching = catching_of(b);
    size_t wide = size_sum(b->dim, 2), most = b->num_queries > b->num_keys ? b->num_queries : b->num_keys;
    for (size_t p = INSPECTED_LSH; p < NUM_INSPECTED; p++)
        memory.saved[p] = arena_take(&arena, grouped_saved_size(b), 1);
    memory.query = arena_take(&arena, size_product(b->num_queries, wide), sizeof(float));
    memory.key = arena_take(&arena, size_product(b->num_keys, wide), sizeof(float));
    memory.lsh = arena_take(&arena, lsh_count(b->dim, b->capacity.num_groups, b->rounds), sizeof(float));
    memory.smyrf = arena_take(&arena, lsh_count(wide, b->capacity.num_groups, b->rounds), sizeof(float));
    memory.counts = arena_take(&arena, most, sizeof *memory.counts);
    memory.attending = arena_take(&arena, grouped_attending_size(b), 1);
    memory.catching = arena_take(&arena, attention_caught_size(&catching), 1);
    memory.bytes = arena.used;
    return memory;
}

size_t inspection_size(const struct grouped *grouped)
{
    return memory_on(grouped, NULL).bytes;
}

/* ---- the hashes that are compared ---------------------------------------------------------------------- */

struct comparison {
    struct lsh_hash hash;
    struct view query, key;
    bool joint;
};

static void score(const void *argument, enum grouped_side side, size_t first, size_t count, float *z,
                  int worker)
{
    (void)worker;
    const struct comparison *c = argument;
    struct view rows = side == SIDE_QUERIES ? c->query : c->key;
    lsh_scores(&c->hash, view_row(rows, first), rows.stride, count, z, false);
    if (c->joint)
        lsh_scores(&c->hash, view_row(c->key, first), c->key.stride, count, z, true);
}

static double square_of(const float *row, size_t dim)
{
    double sum = 0;
    for (size_t c = 0; c < dim; c++)
        sum += (double)row[c] * (double)row[c];
    return sum;
}

static double largest_square(struct view rows, size_t n, size_t dim)
{
    double largest = 0;
    for (size_t i = 0; i < n; i++)
        largest = fmax(largest, square_of(view_row(rows, i), dim));
    return largest;
}

/* to (n, dim + 2) = [row; 0; r], for keys [row; r; 0], with r^2 = square - |row|^2. */
static void make_asymmetric(float *to, struct view rows, size_t n, size_t dim, double square, bool keys)
{
    for (size_t i = 0; i < n; i++, to += dim + 2) {
        const float *row = view_row(rows, i);
        float rest = (float)sqrt(fmax(square - square_of(row, dim), 0));
        memcpy(to, row, dim * sizeof *to);
        to[dim] = keys ? rest : 0;
        to[dim + 1] = keys ? 0 : rest;
    }
}

static struct comparison compare_lsh(const struct grouped *b, const struct memory *memory, uint64_t key)
{
    lsh_draw(key, b->dim, b->capacity.num_groups, b->rounds, memory->lsh);
    return (struct comparison){
        {b->kernels, b->dim, b->capacity.num_groups, b->rounds, memory->lsh}, b->query, b->key, b->joint};
}

static struct comparison compare_smyrf(const struct grouped *b, const struct memory *memory, uint64_t key,
                                       struct view query, struct view keys)
{
    size_t dim = b->dim, wide = dim + 2;
    double square = largest_square(query, b->num_queries, dim) + largest_square(keys, b->num_keys, dim);
    lsh_draw(key, wide, b->capacity.num_groups, b->rounds, memory->smyrf);
    make_asymmetric(memory->query, query, b->num_queries, dim, square, false);
    make_asymmetric(memory->key, keys, b->num_keys, dim, square, true);
    return (struct comparison){{b->kernels, wide, b->capacity.num_groups, b->rounds, memory->smyrf},
                               view_of(memory->query, b->num_queries, wide),
                               view_of(memory->key, b->num_keys, wide),
                               b->joint};
}

/* ---- counting ------------------------------------------------------------------------------------------ */

static void count_in(size_t in[IN_GROUPS], const struct members *members, uint32_t *counts, size_t n)
{
    memset(counts, 0, n * sizeof *counts);
    memset(in, 0, IN_GROUPS * sizeof *in);
    for (size_t p = 0; p < members->start[members->num_groups]; p++)
        counts[members->list[p]]++;
    for (size_t i = 0; i < n; i++)
        in[counts[i] < IN_GROUPS ? counts[i] : IN_GROUPS - 1]++;
}

static void count(const struct grouped *b, struct inspected_membership *membership, uint32_t *counts)
{
    struct grouped_saved saved = grouped_saved(b);
    grouped_count_best(b, SIDE_QUERIES, membership->best_queries);
    grouped_count_best(b, SIDE_KEYS, membership->best_keys);
    count_in(membership->queries_in, &saved.queries, counts, b->num_queries);
    count_in(membership->keys_in, &saved.keys, counts, b->num_keys);
}

void inspection_of(const struct grouped *own, uint64_t chance, struct inspection *inspection, void *scratch)
{
    struct memory memory = memory_on(own, scratch);
    struct catching catching = catching_of(own);
    struct caught caught[NUM_INSPECTED];
    grouped_attending(own, &catching.query, &catching.key, memory.attending);
    const struct comparison comparisons[NUM_INSPECTED] = {
        [INSPECTED_LSH] = compare_lsh(own, &memory, random_key(chance, RANDOM_INSPECTION, INSPECTED_LSH)),
        [INSPECTED_SMYRF] =
            compare_smyrf(own, &memory, random_key(chance, RANDOM_INSPECTION, INSPECTED_SMYRF),
                          catching.query, catching.key),
    };
    for (size_t p = 0; p < NUM_INSPECTED; p++) {
        struct grouped b = *own;
        b.saved = memory.saved[p];
        if (p != INSPECTED_OWN) {
            b.score = score;
            b.argument = &comparisons[p];
            grouped_members(&b);
        }
        struct grouped_saved saved = grouped_saved(&b);
        count(&b, &inspection->memberships[p], memory.counts);
        caught[p] = (struct caught){.queries = saved.queries,
                                    .keys = saved.keys,
                                    .sight = grouped_sight(own),
                                    .window = own->capacity};
    }
    catching.caught = caught;
    attention_caught(&catching, memory.catching);
    for (size_t p = 0; p < NUM_INSPECTED; p++) {
        inspection->memberships[p].utility = caught[p].utility;
        inspection->memberships[p].bound = caught[p].bound;
        inspection->memberships[p].pairs = caught[p].pairs;
    }
}
