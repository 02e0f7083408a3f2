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
    void *saved[NUM_INSPECTED];  /* lists; of own: those that forward saved */
    void *scorer[NUM_INSPECTED]; /* of lsh and smyrf */
    float *query, *key;          /* (n, d + 2): asymmetric rows */
    uint32_t *counts;            /* (n) of the longer side */
    void *attending, *catching;
    size_t bytes;
};

static struct catching catching_of(const struct problem_shape *shape, const struct grouped *b)
{
    return (struct catching){.num_caught = NUM_INSPECTED, .places = grouped_places(b, shape->num_queries)};
}

static struct memory memory_on(const struct problem_shape *shape, const struct grouped *b, void *block)
{
    struct memory memory = {0};
    struct arena arena = arena_on(block);
    struct catching catching = catching_of(shape, b);
    size_t wide = size_sum(shape->head_dim, 2), n_q = shape->num_queries, n_k = shape->num_keys;
    for (size_t p = INSPECTED_LSH; p < NUM_INSPECTED; p++) {
        memory.saved[p] = arena_take(&arena, grouped_saved_on(shape, b, NULL).bytes, 1);
        memory.scorer[p] = arena_take(&arena, lsh_size(p == INSPECTED_LSH ? shape->head_dim : wide, b), 1);
    }
    memory.query = arena_take(&arena, size_product(n_q, wide), sizeof(float));
    memory.key = arena_take(&arena, size_product(n_k, wide), sizeof(float));
    memory.counts = arena_take(&arena, size_max(n_q, n_k), sizeof *memory.counts);
    memory.attending = arena_take(&arena, grouped_attending_size(shape, b), 1);
    memory.catching = arena_take(&arena, attention_caught_size(shape, &catching), 1);
    memory.bytes = arena.used;
    return memory;
}

size_t inspection_size(const struct problem_shape *shape, const struct grouped *grouped)
{
    return memory_on(shape, grouped, NULL).bytes;
}

/* ---- the hashes that are compared ---------------------------------------------------------------------- */

static double square_of(const float *row, size_t dim)
{
    double sum = 0;
    for (size_t c = 0; c < dim; c++)
        sum += (double)row[c] * (double)row[c];
    return sum;
}

static double largest_square(struct view rows)
{
    double largest = 0;
    for (size_t i = 0; i < rows.rows; i++)
        largest = fmax(largest, square_of(view_row(rows, i), rows.cols));
    return largest;
}

/* to (n, d + 2) = [row; 0; r], for keys [row; r; 0], with r^2 = square - |row|^2. */
static struct view make_asymmetric(float *to, struct view rows, double square, bool keys)
{
    size_t d = rows.cols;
    struct view made = view_of(to, rows.rows, d + 2);
    for (size_t i = 0; i < rows.rows; i++, to += d + 2) {
        const float *row = view_row(rows, i);
        float rest = (float)sqrt(fmax(square - square_of(row, d), 0));
        memcpy(to, row, d * sizeof *to);
        to[d] = keys ? rest : 0;
        to[d + 1] = keys ? 0 : rest;
    }
    return made;
}

/* The rows that the hash of smyrf scores. */
static struct problem asymmetric(const struct problem *attending, const struct memory *memory)
{
    double square = largest_square(attending->query) + largest_square(attending->key);
    return problem_of_rows(attending, make_asymmetric(memory->query, attending->query, square, false),
                           make_asymmetric(memory->key, attending->key, square, true), attending->value);
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

/* Counts in the lists of a membership, and by its scores. */
static void count(const struct problem *problem, const struct grouped *b, const struct caught *caught,
                  struct inspected_membership *membership, uint32_t *counts)
{
    grouped_count_best(problem, b, SIDE_QUERIES, membership->best_queries, problem->scratch);
    grouped_count_best(problem, b, SIDE_KEYS, membership->best_keys, problem->scratch);
    count_in(membership->queries_in, &caught->queries, counts, problem->shape.num_queries);
    count_in(membership->keys_in, &caught->keys, counts, problem->shape.num_keys);
}

void inspection_of(const struct problem *problem, const struct grouped *own, struct inspection *inspection,
                   void *behind)
{
    const struct problem_shape *shape = &problem->shape;
    struct memory memory = memory_on(shape, own, behind);
    struct caught caught[NUM_INSPECTED];
    struct problem attending = *problem;
    grouped_attending(problem, own, &attending.query, &attending.key, memory.attending);
    const struct problem wide = asymmetric(&attending, &memory);
    for (size_t p = 0; p < NUM_INSPECTED; p++) {
        struct problem saving = *problem;
        struct grouped b = *own;
        if (p != INSPECTED_OWN) {
            saving.saved = memory.saved[p];
            b.scorer = lsh_open(p == INSPECTED_LSH ? problem : &wide, own,
                                random_key(problem->random_key, RANDOM_INSPECTION, p), memory.scorer[p]);
            b.score = lsh_score;
            grouped_members(&saving, &b, problem->scratch);
        }
        struct grouped_saved saved = grouped_saved_on(shape, own, saving.saved);
        caught[p] = (struct caught){.queries = saved.queries,
                                    .keys = saved.keys,
                                    .sight = grouped_sight(shape, own),
                                    .window = own->capacity};
        count(problem, &b, &caught[p], &inspection->memberships[p], memory.counts);
    }
    struct catching catching = catching_of(shape, own);
    catching.caught = caught;
    attention_caught(&attending, &catching, memory.catching);
    for (size_t p = 0; p < NUM_INSPECTED; p++) {
        inspection->memberships[p].utility = caught[p].utility;
        inspection->memberships[p].bound = caught[p].bound;
        inspection->memberships[p].pairs = caught[p].pairs;
    }
}

/* ---- slots --------------------------------------------------------------------------------------------- */

size_t inspection_scratch_size(const void *options, const struct problem_shape *shape,
                               const struct score_source *source)
{
    struct arena arena = arena_on(NULL);
    struct grouped grouped = grouping_of(options, shape);
    arena_take(&arena, grouping_scratch_size(options, shape, source), 1);
    arena_take(&arena, inspection_size(shape, &grouped), 1);
    return arena.used;
}

void inspection_inspect(const struct problem *problem, const struct score_source *source,
                        struct inspection *inspection)
{
    struct arena arena = arena_on(problem->scratch);
    struct grouped grouped = grouping_open(problem, source);
    arena_take(&arena, grouping_scratch_size(problem->options, &problem->shape, source), 1);
    inspection_of(problem, &grouped, inspection,
                  arena_take(&arena, inspection_size(&problem->shape, &grouped), 1));
}
