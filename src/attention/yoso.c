/* YOSO: attention by Bernoulli sampling through hash collisions (Zeng et al. 2021, You Only Sample (Almost)
   Once), for one head.
     Q, K to unit length; m = num_hashes codes of tau = hash_bits sign bits each; c_ij = number of hashes in
     which query i and key j have the same code; X_i = sum_j (c_ij / m) V_j; Y = X normalised.
     E[c_ij / m] = (1 - angle_ij / pi)^tau: the exact partner is yoso-e.
   The sum is never taken over pairs: V rows are added into a table row per code and read by the queries'
   codes. Backward, for G the gradient of X and the same codes:
     dV_j = sum_i (c_ij / m) G_i                       (the same tables, from queries to keys)
     dQ_i = sum_j (c_ij / m) <G_i, V_j> w_ij K_j       (pairs within buckets), dK alike, then through the
   unit length. w = tau / 2 (lower, Eq. 4 of the paper) or tau / (p pi) times the unit tangent (true: Eq. 3
   without bias; docs/MATH.md).
   Random: the planes (once per call) and the turn of each head. Saved: codes, and one float per query.
   Cost: 2 (n_q + n_k) d m tau operations to hash, 2 (n_q + n_k) d_v m table words, and in backward the same
   tables again and 6 d operations per colliding pair. SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "attention/mechanism.h"
#include "base/memory.h"
#include "parts/codes.h"
#include "parts/hash_tables.h"
#include "parts/normalize.h"
#include "parts/pairs.h"
#include "parts/planes.h"
#include "parts/yoso_options.h"

static const float *floats(struct view view)
{
    return view.data;
}

static struct hashing hashing_of(const struct yoso_options *options)
{
    return (struct hashing){.num_hashes = (size_t)options->num_hashes,
                            .hash_bits = (size_t)options->hash_bits};
}

/* ---- memory -------------------------------------------------------------------------------------------- */

struct saved {
    void *query_codes, *key_codes;
    float *kept; /* (n_q) what the normalisation keeps */
};

static size_t lay_out_saved(struct saved *saved, const struct yoso_options *options,
                            const struct problem_shape *shape, void *block)
{
    struct arena arena = arena_on(block);
    struct hashing hashing = hashing_of(options);
    saved->query_codes = arena_take(&arena, codes_size(&hashing, shape->num_queries), 1);
    saved->key_codes = arena_take(&arena, codes_size(&hashing, shape->num_keys), 1);
    saved->kept = arena_take(&arena, options->normalize == YOSO_NORMALIZE_NONE ? 0 : shape->num_queries,
                             sizeof *saved->kept);
    return arena.used;
}

struct scratch {
    size_t ld, ld_value; /* of unit rows and of value rows */
    struct buckets buckets;
    struct tables tables;
    union {
        struct {
            float *planes, *sign; /* of this head; signs and order of its coordinates */
            uint32_t *permutation;
            float *rows, *squares; /* (CODES_ROWS, ld), (CODES_ROWS) */
            float *value, *x;      /* (n_k, ld_value), (n_q, ld_value) */
        } forward;
        struct {
            struct pair_rows queries, keys; /* unit rows, their gradients, and rows of dX or V */
            float *query_norm, *key_norm, *bias;
            struct crowd crowd;
        } backward;
    };
};

static size_t lay_out_scratch(struct scratch *scratch, const struct yoso_options *options,
                              const struct problem_shape *shape, bool backward, void *block)
{
    struct arena arena = arena_on(block);
    struct hashing hashing = hashing_of(options);
    size_t n_q = shape->num_queries, n_k = shape->num_keys, float_size = sizeof(float);
    size_t ld = scratch->ld = unit_padded(shape->head_dim),
           ld_value = scratch->ld_value = unit_padded(shape->value_dim);
    buckets_lay_out(&scratch->buckets, &arena, n_q, n_k);
    tables_lay_out(&scratch->tables, &arena, &hashing, n_q, n_k, shape->value_dim);
    if (!backward) {
        scratch->forward.planes = arena_take(
            &arena, planes_count(hashing.num_hashes, hashing.hash_bits, shape->head_dim), float_size);
        scratch->forward.sign = arena_take(&arena, shape->head_dim, float_size);
        scratch->forward.permutation = arena_take(&arena, shape->head_dim, sizeof(uint32_t));
        scratch->forward.rows = arena_take(&arena, CODES_ROWS, size_product(ld, float_size));
        scratch->forward.squares = arena_take(&arena, CODES_ROWS, float_size);
        scratch->forward.value = arena_take(&arena, n_k, size_product(ld_value, float_size));
        scratch->forward.x = arena_take(&arena, n_q, size_product(ld_value, float_size));
        return arena.used;
    }
    pair_rows_lay_out(&scratch->backward.queries, &arena, n_q, shape->head_dim, shape->value_dim);
    pair_rows_lay_out(&scratch->backward.keys, &arena, n_k, shape->head_dim, shape->value_dim);
    crowd_lay_out(&scratch->backward.crowd, &arena, shape->head_dim, shape->value_dim);
    scratch->backward.query_norm = arena_take(&arena, n_q, float_size);
    scratch->backward.key_norm = arena_take(&arena, n_k, float_size);
    scratch->backward.bias = arena_take(&arena, n_q, float_size);
    return arena.used;
}

static size_t saved_size(const void *options, const struct problem_shape *shape)
{
    struct saved saved;
    return lay_out_saved(&saved, options, shape, NULL);
}

static size_t scratch_size(const void *options, const struct problem_shape *shape)
{
    struct scratch scratch;
    size_t forward = lay_out_scratch(&scratch, options, shape, false, NULL);
    size_t backward = lay_out_scratch(&scratch, options, shape, true, NULL);
    return forward > backward ? forward : backward;
}

static const char *refuse(const void *of, const struct problem_shape *shape)
{
    const struct yoso_options *options = of;
    const size_t most_bytes = (size_t)1 << 40;
    if (shape->causal)
        return "yoso has no causal form yet";
    if (shape->dtype != DTYPE_FLOAT32)
        return "yoso takes float32 alone so far";
    if (options->gradient == YOSO_GRADIENT_TRUE && options->hash_bits < 2)
        return "gradient true needs hash_bits of at least 2: with 1 its second moment has no bound";
    if (shape->num_queries > UINT32_MAX / 2 || shape->num_keys > UINT32_MAX / 2)
        return "yoso numbers rows with 32 bits: at most 2147483647 queries and keys";
    if (saved_size(options, shape) > most_bytes || scratch_size(options, shape) > most_bytes ||
        planes_size(options->planes, (size_t)options->num_hashes, (size_t)options->hash_bits,
                    shape->head_dim) > most_bytes)
        return "yoso would need more than 1099511627776 bytes for one head";
    return NULL;
}

/* ---- planes: once per call ----------------------------------------------------------------------------- */

static size_t shared_size(const void *of, size_t head_dim)
{
    const struct yoso_options *options = of;
    return planes_size(options->planes, (size_t)options->num_hashes, (size_t)options->hash_bits, head_dim);
}

static void prepare(const void *of, size_t head_dim, uint64_t call_key, void *shared, struct pool *pool)
{
    (void)pool;
    const struct yoso_options *options = of;
    planes_draw(options->planes, (size_t)options->num_hashes, (size_t)options->hash_bits, head_dim, call_key,
                shared);
}

/* ---- one head ------------------------------------------------------------------------------------------ */

/* Rows of V next to each other. */
static void take_values(const struct problem *problem, float *rows, size_t ld)
{
    for (size_t j = 0; j < problem->shape.num_keys; j++)
        memcpy(rows + j * ld, floats(problem->value) + j * problem->value.stride,
               problem->shape.value_dim * sizeof *rows);
}

static void forward(const struct problem *problem, struct view out)
{
    const struct yoso_options *options = problem->options;
    const struct kernels *kernels = problem->kernels;
    size_t n_q = problem->shape.num_queries, n_k = problem->shape.num_keys;
    size_t head_dim = problem->shape.head_dim, value_dim = problem->shape.value_dim;
    struct hashing hashing = hashing_of(options);
    struct saved saved;
    struct scratch scratch;
    lay_out_saved(&saved, options, &problem->shape, problem->saved);
    lay_out_scratch(&scratch, options, &problem->shape, false, problem->scratch);
    float *rows = scratch.forward.rows, *squares = scratch.forward.squares, *x = scratch.forward.x;

    planes_turn(scratch.forward.planes, problem->shared, hashing.num_hashes, hashing.hash_bits, head_dim,
                problem->random_key, scratch.forward.permutation, scratch.forward.sign);
    codes_hash(kernels, saved.query_codes, &hashing, floats(problem->query), problem->query.stride, n_q,
               head_dim, scratch.forward.planes, rows, scratch.ld, squares);
    codes_hash(kernels, saved.key_codes, &hashing, floats(problem->key), problem->key.stride, n_k, head_dim,
               scratch.forward.planes, rows, scratch.ld, squares);
    struct codes queries = codes_at(&hashing, saved.query_codes, n_q);
    struct codes keys = codes_at(&hashing, saved.key_codes, n_k);

    const float per_hash = 1 / (float)hashing.num_hashes;
    take_values(problem, scratch.forward.value, scratch.ld_value);
    memset(x, 0, n_q * scratch.ld_value * sizeof *x);
    tables_carry(kernels, &scratch.tables, &scratch.buckets, &queries, &keys, KEYS_TO_QUERIES,
                 scratch.forward.value, scratch.ld_value, x, scratch.ld_value, value_dim);
    if (options->normalize == YOSO_NORMALIZE_SUM) {
        memset(saved.kept, 0, n_q * sizeof *saved.kept);
        tables_carry(kernels, &scratch.tables, &scratch.buckets, &queries, &keys, KEYS_TO_QUERIES, &per_hash,
                     0, saved.kept, 1, 1);
    }
    normalize_rows(kernels, options->normalize, out.data, out.stride, x, scratch.ld_value, per_hash,
                   saved.kept, n_q, value_dim);
}

static void add_dvalue(const struct problem *problem, struct scratch *scratch, const struct codes *queries,
                       const struct codes *keys, struct view dvalue)
{
    const struct pair_rows *from = &scratch->backward.queries, *to = &scratch->backward.keys;
    size_t n_k = problem->shape.num_keys, dim = problem->shape.value_dim;
    /* The place of V, which comes after this and is 0 so far, holds m dV until it is added. */
    tables_carry(problem->kernels, &scratch->tables, &scratch->buckets, queries, keys, QUERIES_TO_KEYS,
                 from->value, from->ld, to->value, to->ld, dim);
    for (size_t j = 0; j < n_k; j++)
        problem->kernels->axpy((float *)dvalue.data + j * dvalue.stride, 1 / (float)queries->num_hashes,
                               to->value + j * to->ld, dim);
}

static void backward(const struct problem *problem, struct view out, struct view dout,
                     const struct problem_gradients *gradients)
{
    const struct yoso_options *options = problem->options;
    const struct kernels *kernels = problem->kernels;
    size_t n_q = problem->shape.num_queries, n_k = problem->shape.num_keys;
    size_t head_dim = problem->shape.head_dim, value_dim = problem->shape.value_dim;
    struct hashing hashing = hashing_of(options);
    struct saved saved;
    struct scratch scratch;
    lay_out_saved(&saved, options, &problem->shape, problem->saved);
    lay_out_scratch(&scratch, options, &problem->shape, true, problem->scratch);
    struct codes queries = codes_at(&hashing, saved.query_codes, n_q);
    struct codes keys = codes_at(&hashing, saved.key_codes, n_k);
    struct pair_rows *query_rows = &scratch.backward.queries, *key_rows = &scratch.backward.keys;
    float *query_norm = scratch.backward.query_norm, *key_norm = scratch.backward.key_norm;
    bool tangent = options->gradient == YOSO_GRADIENT_TRUE;

    /* unit_take clears the rest of a row: its gradient, and the place of dX or V. */
    unit_take(kernels, query_rows->unit, query_rows->ld, query_norm, floats(problem->query),
              problem->query.stride, n_q, head_dim);
    unit_take(kernels, key_rows->unit, key_rows->ld, key_norm, floats(problem->key), problem->key.stride, n_k,
              head_dim);
    normalize_rows_backward(kernels, options->normalize, query_rows->value, query_rows->ld,
                            scratch.backward.bias, floats(out), out.stride, floats(dout), dout.stride,
                            saved.kept, n_q, value_dim);
    add_dvalue(problem, &scratch, &queries, &keys, gradients->value);
    take_values(problem, key_rows->value, key_rows->ld);
    pairs_add(kernels,
              &(struct pairs){
                  .queries = *query_rows,
                  .keys = *key_rows,
                  .dim = head_dim,
                  .value_dim = value_dim,
                  .bias = options->normalize == YOSO_NORMALIZE_SUM ? scratch.backward.bias : NULL,
                  .scale = (tangent ? 1.0f : 0.5f * (float)hashing.hash_bits) / (float)hashing.num_hashes,
                  .tangent = tangent,
                  .hash_bits = hashing.hash_bits,
              },
              &scratch.buckets, &scratch.backward.crowd, &queries, &keys);
    kernels->unit_rows_backward(gradients->query.data, gradients->query.stride, query_rows->gradient,
                                query_rows->unit, query_rows->ld, query_norm, n_q, head_dim, NULL, NULL);
    kernels->unit_rows_backward(gradients->key.data, gradients->key.stride, key_rows->gradient,
                                key_rows->unit, key_rows->ld, key_norm, n_k, head_dim, NULL, NULL);
}

const struct mechanism mechanism_yoso = {
    .name = "yoso",
    .summary = "attention by hash collisions, linear in the length (Zeng et al. 2021)",
    .options = yoso_sampled_rows,
    .options_size = sizeof(struct yoso_options),
    .exact = false,
    .mixes = true,
    .refuse = refuse,
    .saved_size = saved_size,
    .scratch_size = scratch_size,
    .shared_size = shared_size,
    .prepare = prepare,
    .forward = forward,
    .backward = backward,
};
