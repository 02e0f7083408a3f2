/* pairs.bucket on every table, every weight, against double precision; each row alone gives the same bits.
   Bugs planted and caught: rows of weights that overlap; bias forgotten, or that of the row beside; scale
   squared; weights not transposed for dkey; a block that begins at the first row again, or steps too far;
   keys beyond the first block dropped; u and v exchanged; the factor 2 of the sine; p where pi p is wanted; a
   coinciding pair that weighs; nearly opposite pairs taken from 4 - u^2; sigma forgotten in dkey; a wrong
   coefficient of the angle; times of the row before, or taken from the first row in every block; 1 for
   PAIR_SHRUNK; p^hash_bits there; no least sine, or sigma used beside it; a key's sum added up for another;
   weights of a block with the wrong row length; blocks of keys that overlap.
   SPDX-License-Identifier: Apache-2.0 */
#include "kernels/slots.h"

#define PI 3.14159265358979323846

enum { ROWS = 80, LONGEST = WIDEST + 3 };

struct fixture {
    float *query, *key, *value, *dout, *bias, *times, *dquery, *dkey;
    uint32_t queries[ROWS], keys[ROWS];
    struct bucket_pairs bucket;
};

static void unit(float *row, size_t dim)
{
    double sum = 0;
    for (size_t c = 0; c < dim; c++)
        sum += (double)row[c] * (double)row[c];
    for (size_t c = 0; c < dim; c++)
        row[c] = (float)((double)row[c] / sqrt(sum));
}

static void set_up(struct fixture *f, size_t a, size_t b, size_t dim, size_t value_dim,
                   enum pair_weight weight)
{
    size_t ld = dim + 1, ld_value = value_dim + 2, ld_dout = value_dim + 3;
    f->query = normals(1, ROWS * ld);
    f->key = normals(2, ROWS * ld);
    f->value = normals(3, ROWS * ld_value);
    f->dout = normals(4, ROWS * ld_dout);
    f->bias = normals(5, ROWS);
    f->times = normals(10, ROWS * (ROWS + 1));
    f->dquery = normals(6, ROWS * ld);
    f->dkey = normals(7, ROWS * ld);
    random_permutation(8, f->queries, ROWS);
    random_permutation(9, f->keys, ROWS);
    for (size_t i = 0; i < ROWS; i++) {
        /* Every fourth key is close to a query or to its opposite, at distances from 2 to 1e-6. */
        float *q = f->query + i * ld, *k = f->key + i * ld;
        unit(q, dim);
        float near = i % 4 == 0 ? powf(10, -(float)(i % 7)) : 1.0f;
        for (size_t c = 0; c < dim; c++)
            k[c] =
                near * k[c] + (near < 1 ? (i % 8 == 0 ? 1.0f : -1.0f) * f->query[f->queries[0] * ld + c] : 0);
        unit(k, dim);
    }
    f->bucket = (struct bucket_pairs){.queries = f->queries,
                                      .keys = f->keys,
                                      .num_queries = a,
                                      .num_keys = b,
                                      .query = f->query,
                                      .key = f->key,
                                      .value = f->value,
                                      .dout = f->dout,
                                      .ld_query = ld,
                                      .ld_key = ld,
                                      .ld_value = ld_value,
                                      .ld_dout = ld_dout,
                                      .dim = dim,
                                      .value_dim = value_dim,
                                      .bias = f->bias,
                                      .dquery = f->dquery,
                                      .dkey = f->dkey,
                                      .scale = 0.37f,
                                      .times = f->times,
                                      .ld_times = ROWS + 1,
                                      .weight = weight,
                                      .hash_bits = 9};
}

static void tear_down(struct fixture *f)
{
    const struct bucket_pairs *b = &f->bucket;
    guard_free(f->query, ROWS * b->ld_query);
    guard_free(f->key, ROWS * b->ld_key);
    guard_free(f->value, ROWS * b->ld_value);
    guard_free(f->dout, ROWS * b->ld_dout);
    guard_free(f->bias, ROWS);
    guard_free(f->times, ROWS * (ROWS + 1));
    guard_free(f->dquery, ROWS * b->ld_query);
    guard_free(f->dkey, ROWS * b->ld_key);
}

/* The weight of the pair of the i-th query and the j-th key, and an upper bound of its rounding error. */
static double weight_of(const struct fixture *f, size_t i, size_t j, double *sigma, double *error)
{
    const struct bucket_pairs *b = &f->bucket;
    size_t q = b->queries[i], k = b->keys[j];
    double score = b->bias == NULL ? 0 : (double)b->bias[q], size = fabs(score), u2 = 0, v2 = 0;
    double scale = (double)b->scale * (b->times == NULL ? 1 : (double)b->times[i * b->ld_times + j]);
    for (size_t c = 0; c < b->value_dim; c++) {
        double term = (double)b->dout[q * b->ld_dout + c] * (double)b->value[k * b->ld_value + c];
        score += term;
        size += fabs(term);
    }
    *sigma = 0;
    *error = ((double)b->value_dim + 4) * ROUNDING * size * fabs(scale);
    if (b->weight == PAIR_CONSTANT)
        return score * scale;
    for (size_t c = 0; c < b->dim; c++) {
        double x = (double)b->query[q * b->ld_query + c], y = (double)b->key[k * b->ld_key + c];
        u2 += (x - y) * (x - y);
        v2 += (x + y) * (x + y);
    }
    if (b->weight == PAIR_SHRUNK) {
        double x = (double)PAIR_SHRINK * (v2 - u2) / 4, sine = sqrt(1 - x * x), share = 1 - acos(x) / PI;
        double steep = (double)b->hash_bits * pow(share, (double)b->hash_bits - 1) / (PI * sine);
        /* The effect of the relative error of a dot product of unit rows on each factor. */
        double worth = (double)b->hash_bits / (share * PI * sine) + 2 / (sine * sine) + 3 * b->hash_bits + 20;
        *error = *error * steep + ((double)b->dim + 3) * worth * ROUNDING * size * steep * fabs(scale);
        return score * scale * steep;
    }
    double p = 1 - 2 * atan2(sqrt(u2), sqrt(v2)) / PI, s = sqrt(u2 * v2) / 2;
    if (b->weight == PAIR_FLOORED)
        s = fmax(s, (double)PAIR_LEAST_SINE);
    double steep = s > 0 && p > 0 ? (double)b->hash_bits / (p * PI * s) : 0;
    *sigma = b->weight == PAIR_FLOORED ? 0 : v2 >= u2 ? 1 : -1;
    /* Squared differences, their sums, and about ten operations for the angle and its weight. */
    *error =
        *error * steep + ((double)b->value_dim + (double)b->dim + 20) * ROUNDING * size * steep * fabs(scale);
    return score * scale * steep;
}

static void check_pairs(const struct kernels *kernels, size_t a, size_t b, size_t dim, size_t value_dim,
                        enum pair_weight weight, bool bias, bool times)
{
    static double want_q[ROWS * LONGEST], want_k[ROWS * LONGEST], room_q[ROWS * LONGEST],
        room_k[ROWS * LONGEST];
    struct fixture f;
    set_up(&f, a, b, dim, value_dim, weight);
    size_t ld = f.bucket.ld_query;
    if (!bias)
        f.bucket.bias = NULL;
    if (!times)
        f.bucket.times = NULL;
    for (size_t i = 0; i < ROWS * ld; i++) {
        want_q[i] = (double)f.dquery[i];
        want_k[i] = (double)f.dkey[i];
        room_q[i] = room_k[i] = 0;
    }
    for (size_t i = 0; i < a; i++)
        for (size_t j = 0; j < b; j++) {
            size_t q = f.queries[i] * ld, k = f.keys[j] * ld;
            double sigma, error, w = weight_of(&f, i, j, &sigma, &error);
            for (size_t c = 0; c < dim; c++) {
                double x = (double)f.query[q + c], y = (double)f.key[k + c];
                want_q[q + c] += w * (y - sigma * x);
                want_k[k + c] += w * (x - sigma * y);
                /* The weight's own error, and one rounding per running sum and difference. */
                room_q[q + c] += (error + 3 * ROUNDING * fabs(w)) * fabs(y - sigma * x) + ROUNDING * 8;
                room_k[k + c] += (error + 3 * ROUNDING * fabs(w)) * fabs(x - sigma * y) + ROUNDING * 8;
            }
        }
    float *dquery = copy_of(f.dquery, ROWS * ld), *dkey = copy_of(f.dkey, ROWS * ld);
    kernels->pairs.bucket(&f.bucket);
    char text[128];
    of(text, "pairs.bucket", kernels, a * 1000 + b, dim);
    for (size_t i = 0; i < ROWS * ld; i++) {
        check_near((double)f.dquery[i], want_q[i], room_q[i] * (1 + fabs(want_q[i])), text);
        check_near((double)f.dkey[i], want_k[i], room_k[i] * (1 + fabs(want_k[i])), text);
    }
    /* Each query alone gets the same bits; so does each key. */
    float *whole_q = copy_of(f.dquery, ROWS * ld), *whole_k = copy_of(f.dkey, ROWS * ld);
    memcpy(f.dquery, dquery, ROWS * ld * sizeof(float));
    struct bucket_pairs all = f.bucket;
    f.bucket.num_queries = 1;
    for (size_t i = 0; i < a; i++, f.bucket.queries++) {
        f.bucket.times = times ? f.times + i * f.bucket.ld_times : NULL;
        kernels->pairs.bucket(&f.bucket);
    }
    check_same_bits(f.dquery, whole_q, ROWS * ld * sizeof(float), text);
    memcpy(f.dkey, dkey, ROWS * ld * sizeof(float));
    f.bucket = all;
    f.bucket.num_keys = 1;
    for (size_t j = 0; j < b; j++, f.bucket.keys++) {
        f.bucket.times = times ? f.times + j : NULL;
        kernels->pairs.bucket(&f.bucket);
    }
    check_same_bits(f.dkey, whole_k, ROWS * ld * sizeof(float), text);
    guard_free(dquery, ROWS * ld);
    guard_free(dkey, ROWS * ld);
    guard_free(whole_q, ROWS * ld);
    guard_free(whole_k, ROWS * ld);
    tear_down(&f);
}

static void pairs_add_up(void **state)
{
    (void)state;
    static const size_t sizes[] = {0, 1, 2, 3, 4, 5, 8, 17, 35, 70};
    FOR_EACH_TABLE(kernels)
    for (int weight = PAIR_CONSTANT; weight <= PAIR_SHRUNK; weight++) {
        for (size_t a = 0; a < 10; a++)
            for (size_t b = 0; b < 10; b++)
                check_pairs(kernels, sizes[a], sizes[b], 9, 5, (enum pair_weight)weight, (a + b) % 2 == 0,
                            b % 2 == 0);
        for (size_t w = 1; w < NUM_WIDTHS; w++)
            check_pairs(kernels, 7, 6, widths[w], widths[NUM_WIDTHS - 1 - w], (enum pair_weight)weight, true,
                        w % 2 == 0);
    }
    /* Rows of two and of four whole vectors: keys in registers if the weight is constant. */
    FOR_EACH_TABLE(kernels)
    for (size_t dim = 16; dim <= 64; dim *= 2) {
        for (size_t a = 1; a < 10; a++)
            for (size_t b = 1; b < 10; b++)
                check_pairs(kernels, sizes[a], sizes[b], dim, dim, PAIR_CONSTANT, (a + b) % 2 == 0, false);
        for (int weight = PAIR_TANGENT; weight <= PAIR_SHRUNK; weight++)
            check_pairs(kernels, 7, 2, dim, dim, (enum pair_weight)weight, true, false);
    }
}

/* Buckets of a list, with and without prefetch, get the bits of separate calls. */
static void lists_are_buckets_one_by_one(void **state)
{
    (void)state;
    static const struct bucket list[] = {{0, 1, 0, 1}, {1, 3, 1, 1}, {5, 2, 2, 9}, {10, 30, 20, 40}};
    FOR_EACH_TABLE(kernels)
    for (size_t dim = 16; dim <= 64; dim *= 2)
        for (int weight = PAIR_CONSTANT; weight <= PAIR_SHRUNK; weight++)
            for (int far = 0; far < 2; far++) {
                struct fixture f;
                set_up(&f, ROWS, ROWS, dim, dim, (enum pair_weight)weight);
                size_t size = ROWS * f.bucket.ld_query;
                float *dquery = copy_of(f.dquery, size), *dkey = copy_of(f.dkey, size);
                struct bucket_pairs rows = f.bucket, one = f.bucket;
                rows.far = far;
                one.times = NULL;
                kernels->pairs.bucket_list(&rows, list, 4);
                one.dquery = dquery;
                one.dkey = dkey;
                for (size_t b = 0; b < 4; b++) {
                    one.queries = f.queries + list[b].first_query;
                    one.num_queries = list[b].num_queries;
                    one.keys = f.keys + list[b].first_key;
                    one.num_keys = list[b].num_keys;
                    kernels->pairs.bucket(&one);
                }
                check_same_bits(f.dquery, dquery, size * sizeof *dquery, "dquery");
                check_same_bits(f.dkey, dkey, size * sizeof *dkey, "dkey");
                guard_free(dquery, size);
                guard_free(dkey, size);
                tear_down(&f);
            }
}

static void coinciding_and_opposite_pairs_weigh_nothing(void **state)
{
    (void)state;
    FOR_EACH_TABLE(kernels)
    {
        struct fixture f;
        set_up(&f, 1, 2, 20, 7, PAIR_TANGENT);
        const size_t ld = f.bucket.ld_query;
        for (size_t c = 0; c < 20; c++) {
            f.key[f.keys[0] * ld + c] = f.query[f.queries[0] * ld + c];
            f.key[f.keys[1] * ld + c] = -f.query[f.queries[0] * ld + c];
        }
        float *dquery = copy_of(f.dquery, ROWS * ld), *dkey = copy_of(f.dkey, ROWS * ld);
        kernels->pairs.bucket(&f.bucket);
        check_same_bits(f.dquery, dquery, ROWS * ld * sizeof(float), "dquery");
        check_same_bits(f.dkey, dkey, ROWS * ld * sizeof(float), "dkey");
        guard_free(dquery, ROWS * ld);
        guard_free(dkey, ROWS * ld);
        tear_down(&f);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(pairs_add_up),
        cmocka_unit_test(lists_are_buckets_one_by_one),
        cmocka_unit_test(coinciding_and_opposite_pairs_weigh_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
