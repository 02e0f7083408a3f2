/* Bytes that a rank of R sends for a head of n rows, with N = n / R rounded up and c bytes per code (2, and 4
   from 17 bits on); arrays are rounded up to cache lines:
     a sum of tables: 8 (R - 1) / R m 2^tau d_v (comm_sum.h), in forward and once more in backward, and one
       column more in forward with normalize sum; causal: 4 m 2^tau d_v for each of the two scans, except on
       the last rank of each;
     the ring: (R - 1) N (4 d + 4 d_v + c m), and R N 4 d for the gradients, which return to their rank;
     or, for lower if that takes less time, sums of K V^T and Q G^T by bucket (yoso_bucket_sums.c):
       16 (R - 1) / R m 2^tau d d_v, with d a multiple of 16, and d_v + 1 with normalize sum.
   The ring sums every crowded bucket again for each rank that visits, R times the operations: at n 65,536, d
   32, tau 8 and 2 ranks 18 instead of 9 10^9 a head and rank, for 19 instead of 69 MB sent. At d 64
   and m 32 the sums take less time from n 5,900 (2 ranks) or 12,000 (8) on at tau 5, and from 95,000 or
   190,000 on at tau 9.
   SPDX-License-Identifier: Apache-2.0 */
#include "attention/yoso/yoso_ranks.h"

#include <math.h>
#include <string.h>

#include "base/memory.h"
#include "comm/row_ranks.h"
#include "parts/hashing/hasher.h"
#include "parts/hashing/unit_map.h"

static struct yoso_visit visit_on(struct arena *arena, const struct yoso_ranks *ranks, size_t value_dim)
{
    size_t start = arena->used;
    struct yoso_visit visit = {
        .unit = arena_take(arena, ranks->most, size_product(ranks->width, sizeof(float))),
        .value = arena_take(arena, ranks->most, size_product(value_dim, sizeof(float))),
        .codes = arena_take(arena, codes_size(&ranks->hashing, ranks->most), 1),
    };
    visit.bytes = arena->used - start;
    return visit;
}

/* Operations that take as long as sending a byte: at 10^11 operations a second, 10^9 bytes a second. */
#define OPERATIONS_PER_BYTE 100.0

/* Operations of one block: a rank's queries and the keys of a rank, if codes are uniform, the cheaper
   way of pairs.h in each bucket; by_sums: from sums. */
static double block_operations(const struct yoso_ranks *ranks, size_t value_dim, bool by_sums)
{
    double buckets = ldexp(1, (int)ranks->hashing.hash_bits), rows = (double)ranks->most / buckets,
           d = (double)ranks->width, d_v = (double)value_dim;
    double sums = 8 * rows * (d_v + 1) * d, pairs = rows * rows * (2 * d_v + 4 * d);
    return (double)ranks->hashing.num_hashes * buckets * (by_sums || sums < pairs ? sums : pairs);
}

static double ring_bytes(const struct yoso_ranks *ranks, const struct problem_shape *shape)
{
    struct arena arena = arena_on(NULL);
    double count = (double)shape->ranks, visit = (double)visit_on(&arena, ranks, shape->value_dim).bytes;
    return (count - 1) * visit + count * (double)ranks->most * (double)ranks->width * sizeof(float);
}

static double sums_bytes(const struct yoso_ranks *ranks, const struct yoso_options *options,
                         const struct problem_shape *shape)
{
    return yoso_bucket_sums_bytes(&ranks->hashing, shape->ranks, ranks->width, shape->value_dim,
                                  options->normalize == YOSO_NORMALIZE_SUM);
}

/* true if sums by bucket take less time than the ring, which sends other bytes, and in which crowded buckets
   are summed anew for every rank that visits. The shape decides, so all ranks do the same. */
static bool sums_are_less(const struct yoso_ranks *ranks, const struct yoso_options *options,
                          const struct problem_shape *shape)
{
    if (options->gradient != YOSO_GRADIENT_LOWER || options->gradient_hashes != 0 || shape->causal)
        return false;
    double ring_operations = (double)shape->ranks * block_operations(ranks, shape->value_dim, false);
    return OPERATIONS_PER_BYTE * sums_bytes(ranks, options, shape) +
               block_operations(ranks, shape->value_dim, true) <
           OPERATIONS_PER_BYTE * ring_bytes(ranks, shape) + ring_operations;
}

void yoso_ranks_init(struct yoso_ranks *ranks, struct arena *arena, const struct yoso_options *options,
                     const struct problem_shape *shape, bool weighted, bool backward)
{
    struct hashing hashing = hashing_of(options);
    size_t value_floats = table_state_floats(&hashing, shape->value_dim);
    size_t weight_floats = table_state_floats(&hashing, weighted ? 1 : 0);
    *ranks = (struct yoso_ranks){.hashing = hashing,
                                 .most = row_ranks_most(shape->ranks, shape->total_rows),
                                 .width = unit_map_width(options, shape->head_dim),
                                 .values = {.hashing = hashing, .dim = shape->value_dim},
                                 .weights = {.hashing = hashing, .dim = weighted ? 1 : 0}};
    ranks->values.tables = arena_take(arena, size_sum(value_floats, weight_floats), sizeof(float));
    ranks->weights.tables = ranks->values.tables == NULL ? NULL : ranks->values.tables + value_floats;
    if (shape->causal)
        ranks->others = arena_take(arena, size_sum(value_floats, weight_floats), sizeof(float));
    ranks->sum_scratch =
        arena_take(arena, row_ranks_sum_scratch(shape->ranks, size_sum(value_floats, weight_floats)), 1);
    if (!backward)
        return;
    ranks->by_sums = sums_are_less(ranks, options, shape);
    if (ranks->by_sums) {
        yoso_bucket_sums_init(&ranks->sums, arena, &hashing, shape, ranks->width,
                              options->normalize == YOSO_NORMALIZE_SUM);
        return;
    }
    ranks->here = visit_on(arena, ranks, shape->value_dim);
    ranks->next = visit_on(arena, ranks, shape->value_dim);
    ranks->gradient = arena_take(arena, ranks->most, size_product(ranks->width, sizeof(float)));
    ranks->next_gradient = arena_take(arena, ranks->most, size_product(ranks->width, sizeof(float)));
    pair_rows_init(&ranks->visitors, arena, ranks->most, ranks->width, shape->value_dim, true, false);
}

void yoso_ranks_carry(const struct problem *problem, const struct yoso_ranks *ranks,
                      const struct table_sums *rows, float *sums)
{
    const struct codes *from = rows->to_queries ? rows->keys : rows->queries,
                       *to = rows->to_queries ? rows->queries : rows->keys;
    const struct kernels *kernels = problem->kernels;
    const float per_hash = 1 / (float)ranks->hashing.num_hashes;
    struct table_state values = ranks->values, weights = ranks->weights;
    weights.dim = sums == NULL ? 0 : weights.dim;
    size_t floats = table_state_floats(&ranks->hashing, values.dim + weights.dim);
    memset(values.tables, 0, floats * sizeof(float));
    const struct table_rows given = {.codes = from, .values = rows->values, .ld_values = rows->ld_values};
    const struct table_rows ones = {.codes = from, .values = &per_hash};
    table_state_add(kernels, problem->pool, &values, &given);
    table_state_add(kernels, problem->pool, &weights, &ones);
    if (problem->shape.causal) {
        row_ranks_scan(problem->ranks, values.tables, ranks->others, floats, !rows->to_queries);
        values.tables = ranks->others;
        weights.tables = ranks->others + (ranks->weights.tables - ranks->values.tables);
    } else {
        row_ranks_sum(problem->ranks, problem->pool, values.tables, floats, ranks->sum_scratch);
    }
    const struct table_rows taken = {.codes = to, .out = rows->out, .ld_out = rows->ld_out};
    const struct table_rows counted = {.codes = to, .out = sums, .ld_out = 1};
    table_state_read(kernels, problem->pool, &values, &taken);
    table_state_read(kernels, problem->pool, &weights, &counted);
}

/* ---- the ring ------------------------------------------------------------------------------------------ */

/* Copies rows between arrays of another stride. */
static void copy_rows(float *to, size_t ld_to, const float *from, size_t ld_from, size_t rows, size_t cols)
{
    for (size_t i = 0; i < rows; i++)
        memcpy(to + i * ld_to, from + i * ld_from, cols * sizeof *to);
}

/* Adds the pairs of this rank's queries and the `n` keys that visit it. */
static void add_visitors(const struct problem *problem, struct yoso_ranks *ranks, struct pairs pairs,
                         struct pair_work *work, const struct codes *queries, size_t n)
{
    const struct pair_rows *visitors = &ranks->visitors;
    size_t width = ranks->width, d_v = problem->shape.value_dim;
    const struct codes codes = codes_at(&ranks->hashing, ranks->here.codes, n);
    copy_rows(visitors->unit, visitors->ld, ranks->here.unit, width, n, width);
    copy_rows(visitors->value, visitors->ld, ranks->here.value, d_v, n, d_v);
    copy_rows(visitors->gradient, visitors->ld, ranks->gradient, width, n, width);
    pairs.keys = *visitors;
    pairs_add(problem->kernels, problem->pool, &pairs, work, queries, &codes);
    copy_rows(ranks->gradient, width, visitors->gradient, visitors->ld, n, width);
}

static void swap(float **a, float **b)
{
    float *first = *a;
    *a = *b;
    *b = first;
}

void yoso_ranks_pairs(const struct problem *problem, struct yoso_ranks *ranks, const struct pairs *pairs,
                      struct pair_work *work, const struct codes *queries, const struct codes *keys)
{
    struct row_ranks *across = problem->ranks;
    const struct pair_rows *own = &pairs->keys;
    size_t width = ranks->width, d_v = problem->shape.value_dim, count = problem->shape.ranks;
    size_t gradient_bytes = ranks->most * width * sizeof(float);
    if (ranks->by_sums) {
        yoso_bucket_sums_add(problem, &ranks->sums, pairs, work, queries, keys);
        return;
    }
    copy_rows(ranks->here.unit, width, own->unit, own->ld, keys->n, width);
    copy_rows(ranks->here.value, d_v, own->value, own->ld, keys->n, d_v);
    memcpy(ranks->here.codes, keys->data, codes_size(&ranks->hashing, keys->n));
    memset(ranks->gradient, 0, gradient_bytes);
    for (size_t step = 0; step < count; step++) {
        int owner = row_ranks_owner(across, step);
        struct pairs visiting = *pairs;
        visiting.visible = step == 0 ? pairs->visible : NULL;
        if (!problem->shape.causal || owner <= comm_rank(across->comm))
            add_visitors(problem, ranks, visiting, work, queries,
                         row_ranks_rows(across, owner, problem->shape.total_rows));
        row_ranks_ring(across, ranks->gradient, ranks->next_gradient, gradient_bytes);
        swap(&ranks->gradient, &ranks->next_gradient);
        if (step + 1 == count)
            break;
        row_ranks_ring(across, ranks->here.unit, ranks->next.unit, ranks->here.bytes);
        struct yoso_visit gone = ranks->here;
        ranks->here = ranks->next;
        ranks->next = gone;
    }
    copy_rows(own->gradient, own->ld, ranks->gradient, width, keys->n, width);
}

double yoso_ranks_gradient_bytes(const void *options, const struct problem_shape *shape, size_t *exchanges)
{
    struct yoso_ranks ranks;
    struct arena arena = arena_on(NULL);
    yoso_ranks_init(&ranks, &arena, options, shape, false, true);
    *exchanges = ranks.by_sums ? 4 : 2 * shape->ranks - 1;
    return ranks.by_sums ? sums_bytes(&ranks, options, shape) : ring_bytes(&ranks, shape);
}

const char *yoso_ranks_refuse(const void *of, const struct problem_shape *shape)
{
    const struct yoso_options *options = of;
    (void)shape;
    if (options->max_partners > 0)
        return "`max_partners` is {max_partners}; it must be 0 if ranks share a sequence, because keys come "
               "in parts";
    if (!unit_map_is_l2(options) && options->max_norm <= 0)
        return "`map` neyshabur needs `max_norm` if ranks share a sequence, because a rank sees its own rows "
               "only";
    return NULL;
}
