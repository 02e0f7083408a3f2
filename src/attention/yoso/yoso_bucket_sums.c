/* Rows are sorted by code, a group of hashes at a time. K V^T is summed by bucket and added over the ranks;
   then queries use it and are summed themselves, in one pass over their rows; then keys use those sums. So
   every row is read as often as in one process. Rows get gradients hash by hash, because a row is in one
   bucket of each.
   SPDX-License-Identifier: Apache-2.0 */
#include "attention/yoso/yoso_bucket_sums.h"

#include <string.h>

#include "base/memory.h"
#include "comm/row_ranks.h"

enum {
    GROUP_FLOATS = 1 << 22, /* of the sums of a group of hashes, unless one has more */
    PARTS = 64              /* of the buckets of a hash: units of work */
};

static size_t buckets_of(const struct hashing *hashing)
{
    return (size_t)1 << hashing->hash_bits;
}

/* Floats of both sums of a bucket. */
static size_t bucket_floats(size_t dim, size_t value_dim, bool bias)
{
    return 2 * size_product(value_dim + bias, unit_padded(dim));
}

double yoso_bucket_sums_bytes(const struct hashing *hashing, size_t ranks, size_t dim, size_t value_dim,
                              bool bias)
{
    double floats = (double)hashing->num_hashes * (double)buckets_of(hashing) *
                    (double)bucket_floats(dim, value_dim, bias);
    return 8 * floats * (double)(ranks - 1) / (double)ranks;
}

void yoso_bucket_sums_init(struct yoso_bucket_sums *sums, struct arena *arena, const struct hashing *hashing,
                           const struct problem_shape *shape, size_t dim, bool bias)
{
    size_t one = size_product(buckets_of(hashing), bucket_floats(dim, shape->value_dim, bias));
    *sums =
        (struct yoso_bucket_sums){.hashing = *hashing,
                                  .width = shape->value_dim + bias,
                                  .ld = unit_padded(dim),
                                  .at_once = size_min(size_max(GROUP_FLOATS / one, 1), hashing->num_hashes)};
    for (int side = 0; side < 2; side++) {
        size_t n = side == 0 ? shape->num_queries : shape->num_keys;
        sums->rows[side] = arena_take(arena, size_product(sums->at_once, n), sizeof(uint32_t));
        sums->ends[side] =
            arena_take(arena, size_product(sums->at_once, buckets_of(hashing) + 1), sizeof(uint32_t));
    }
    sums->sums = arena_take(arena, size_product(sums->at_once, one), sizeof(float));
    sums->sum_scratch =
        arena_take(arena, row_ranks_sum_scratch(shape->ranks, size_product(sums->at_once, one / 2)), 1);
}

struct work {
    const struct problem *problem;
    const struct yoso_bucket_sums *sums;
    const struct pairs *pairs;
    const struct dense_scratch *dense;
    const struct codes *codes[2];
    size_t first, count; /* hashes of the group */
    size_t hash;         /* that is used, counted from the first */
};

static size_t code_of(const struct codes *codes, size_t row, size_t hash)
{
    size_t at = row * codes->num_hashes + hash;
    return codes->wide ? ((const uint32_t *)codes->data)[at] : ((const uint16_t *)codes->data)[at];
}

/* Sorts one side's rows by their codes of one hash: counting sort. */
static void sort_unit(void *argument, size_t index, int worker)
{
    (void)worker;
    const struct work *work = argument;
    size_t side = index % 2, hash = index / 2, buckets = buckets_of(&work->sums->hashing);
    const struct codes *codes = work->codes[side];
    uint32_t *rows = work->sums->rows[side] + hash * codes->n,
             *ends = work->sums->ends[side] + hash * (buckets + 1);
    memset(ends, 0, (buckets + 1) * sizeof *ends);
    for (size_t i = 0; i < codes->n; i++)
        ends[code_of(codes, i, work->first + hash) + 1]++;
    for (size_t b = 0; b < buckets; b++)
        ends[b + 1] += ends[b];
    for (size_t i = codes->n; i-- > 0;) /* moves each bucket's end to its first row */
        rows[--ends[code_of(codes, i, work->first + hash) + 1]] = (uint32_t)i;
    memmove(ends, ends + 1, buckets * sizeof *ends);
    ends[buckets] = (uint32_t)codes->n;
}

/* One side of a bucket; 0: queries with G and bias, 1: keys with V. */
static struct dense_side side_of(const struct work *work, size_t side, size_t hash, size_t bucket)
{
    const struct pair_rows *rows = side == 0 ? &work->pairs->queries : &work->pairs->keys;
    const uint32_t *ends = work->sums->ends[side] + hash * (buckets_of(&work->sums->hashing) + 1) + bucket;
    return (struct dense_side){
        .rows = work->sums->rows[side] + hash * work->codes[side]->n + ends[0],
        .count = ends[1] - ends[0],
        .ld = rows->ld,
        .ld_value = rows->ld,
        .unit = rows->unit,
        .value = rows->value,
        .bias = side == 0 ? work->pairs->bias : NULL,
        .scale = side == 0 ? work->pairs->scale : 1,
        .gradient = rows->gradient,
    };
}

/* Floats of the sums of one side, of the hashes of the group. */
static size_t side_floats(const struct work *work)
{
    const struct yoso_bucket_sums *sums = work->sums;
    return work->count * buckets_of(&sums->hashing) * sums->width * sums->ld;
}

/* The sum of one side of a bucket. */
static float *sum_of(const struct work *work, size_t side, size_t hash, size_t bucket)
{
    const struct yoso_bucket_sums *sums = work->sums;
    size_t at = hash * buckets_of(&sums->hashing) + bucket;
    return sums->sums + side * side_floats(work) + at * sums->width * sums->ld;
}

/* The buckets of a part. */
static void part_of(const struct work *work, size_t part, size_t *first, size_t *end)
{
    comm_span_of((int)part, PARTS, buckets_of(&work->sums->hashing), first, end);
}

/* Sums of the keys, of any hash. */
static void sum_keys(void *argument, size_t index, int worker)
{
    const struct work *work = argument;
    size_t hash = index / PARTS, bucket, end;
    for (part_of(work, index % PARTS, &bucket, &end); bucket < end; bucket++) {
        const struct dense_side keys = side_of(work, 1, hash, bucket);
        dense_sum(work->problem->kernels, &work->dense[worker], &keys, sum_of(work, 1, hash, bucket), NULL,
                  work->pairs->dim, work->pairs->value_dim, work->sums->width);
    }
}

/* Gradients and sums of the queries, of one hash. */
static void use_and_sum_queries(void *argument, size_t index, int worker)
{
    const struct work *work = argument;
    size_t bucket, end;
    for (part_of(work, index, &bucket, &end); bucket < end; bucket++) {
        const struct dense_side queries = side_of(work, 0, work->hash, bucket);
        dense_sum(work->problem->kernels, &work->dense[worker], &queries, sum_of(work, 0, work->hash, bucket),
                  sum_of(work, 1, work->hash, bucket), work->pairs->dim, work->pairs->value_dim,
                  work->sums->width);
    }
}

static void use_keys(void *argument, size_t index, int worker)
{
    const struct work *work = argument;
    size_t bucket, end;
    for (part_of(work, index, &bucket, &end); bucket < end; bucket++) {
        const struct dense_side keys = side_of(work, 1, work->hash, bucket);
        dense_use(work->problem->kernels, &work->dense[worker], &keys, sum_of(work, 0, work->hash, bucket),
                  work->pairs->dim, work->pairs->value_dim, work->sums->width);
    }
}

static void hash_by_hash(struct work *work, void (*unit)(void *argument, size_t index, int worker))
{
    for (work->hash = 0; work->hash < work->count; work->hash++)
        pool_run(work->problem->pool, unit, work, PARTS);
}

void yoso_bucket_sums_add(const struct problem *problem, const struct yoso_bucket_sums *sums,
                          const struct pairs *pairs, const struct pair_work *pair_work,
                          const struct codes *queries, const struct codes *keys)
{
    struct work work = {.problem = problem,
                        .sums = sums,
                        .pairs = pairs,
                        .dense = pair_work->dense,
                        .codes = {queries, keys}};
    size_t num_hashes = sums->hashing.num_hashes;
    for (; work.first < num_hashes; work.first += work.count) {
        work.count = size_min(sums->at_once, num_hashes - work.first);
        size_t floats = side_floats(&work);
        pool_run(problem->pool, sort_unit, &work, 2 * work.count);
        pool_run(problem->pool, sum_keys, &work, PARTS * work.count);
        row_ranks_sum(problem->ranks, problem->pool, sum_of(&work, 1, 0, 0), floats, sums->sum_scratch);
        hash_by_hash(&work, use_and_sum_queries);
        row_ranks_sum(problem->ranks, problem->pool, sum_of(&work, 0, 0, 0), floats, sums->sum_scratch);
        hash_by_hash(&work, use_keys);
    }
}
