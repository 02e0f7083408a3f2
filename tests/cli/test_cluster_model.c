/* The model of `bench cluster` against what the program sends (comm/comm_sum.h) and the formulas of
   docs/guide/9-several-machines.md. Planted and caught: nodes of a rank counted as one; a piece of the rank
   itself sent; the ring one step short; the way that sends less chosen; the smallest share of a batch; bytes
   of float32 gradients with bf16; more hidden than there is; a byte that counts as 80 operations; sums of
   rows that are not padded. Covers: cluster_model.c.
   SPDX-License-Identifier: Apache-2.0 */
#include <math.h>

#include "attention/driver/attention.h"
#include "cli/bench/cluster_model.c"
#include "comm/row_ranks.h"
#include "comm/sum_stream.h"
#include "parts/hashing/yoso_options.h"
#include "support/check.h"

/* Of one head, by the library. */
static double by_library(const struct cluster *c, size_t ranks, size_t *exchanges)
{
    struct yoso_options options;
    const struct mechanism *yoso = attention_find("yoso");
    size_t rows = row_ranks_most(ranks, c->seq_len);
    const struct problem_shape shape = {.num_queries = rows,
                                        .num_keys = rows,
                                        .head_dim = c->head_dim,
                                        .value_dim = c->head_dim,
                                        .workers = 1,
                                        .ranks = ranks,
                                        .total_rows = c->seq_len};
    options_preset(yoso->options, &options);
    options.num_hashes = (int64_t)c->num_hashes;
    options.hash_bits = (int64_t)c->hash_bits;
    return yoso->ranks_gradient_bytes(&options, &shape, exchanges);
}

static const struct cluster small = {.bandwidth = 1e9,
                                     .latency = 1e-4,
                                     .token_s = 1e-6,
                                     .memory = 1e10,
                                     .params = 1 << 20,
                                     .layers = 3,
                                     .heads = 2,
                                     .head_dim = 64,
                                     .num_hashes = 32,
                                     .hash_bits = 5,
                                     .seq_len = 65536,
                                     .batch = 16,
                                     .shards = 8,
                                     .gradient_bytes = 4,
                                     .exchange = by_library};

/* Of the rank that sends most. Pieces of the program are whole cache lines. */
static double bytes_of_program(size_t shards, size_t ranks, size_t n, enum tree_precision precision)
{
    double most = 0;
    for (size_t rank = 0; rank < ranks; rank++) {
        struct comm comm = {.peer = {.rank = (int)rank, .size = (int)ranks}};
        const struct comm_sum sum = {.comm = &comm, .leaves = shards, .precision = precision};
        most = fmax(most, (double)sum_stream_bytes(&sum, n));
    }
    return most;
}

static void gradients_are_those_that_are_sent(void **state)
{
    (void)state;
    for (size_t ranks = 2; ranks <= 16; ranks++)
        for (size_t bytes = 2; bytes <= 4; bytes += 2) {
            struct cluster c = small;
            c.gradient_bytes = bytes;
            size_t shards = ranks > 8 ? ranks : 8;
            double want = bytes_of_program(shards, ranks, c.params, bytes == 2 ? TREE_BF16 : TREE_F32);
            assert_true(fabs(cluster_data(&c, ranks).bytes / want - 1) < 2e-3);
            if (ranks <= 8 && (ranks & (ranks - 1)) == 0)
                assert_true(cluster_data(&c, ranks).bytes ==
                            2 * (double)bytes * (double)c.params * ((double)ranks - 1) / (double)ranks);
        }
}

/* The guide's figures at 65,536 tokens, 2 ranks, d 64 and m 32: 17 MB at tau 4, 34 at tau 5, 44 at tau 9; at
   95,000 and more 545 at tau 9. */
static void sequences_cost_what_the_guide_says(void **state)
{
    (void)state;
    static const struct {
        size_t bits;
        double megabytes;
        size_t length;
    } guide[] = {{4, 17, 65536}, {5, 34, 65536}, {9, 44, 65536}, {9, 545, 96000}};
    for (size_t i = 0; i < 4; i++) {
        struct cluster c = small;
        c.layers = c.heads = c.batch = 1;
        c.params = 0;
        c.hash_bits = guide[i].bits;
        c.seq_len = guide[i].length;
        assert_true(fabs(cluster_sequence(&c, 2).bytes * 1e-6 - guide[i].megabytes) < 0.7);
        assert_true(fabs(cluster_ring_bytes(&c, 2) * 65536 / (double)c.seq_len * 1e-6 - 67) < 0.7);
    }
    struct cluster c = small;
    double parameters = 8.0 * (double)c.params * 3 / 4, rows = 65536.0 / 4, heads = 3 * 2 * 16;
    double tables = 8.0 * 3 / 4 * 32 * 32 * 64, sums = 16.0 * 3 / 4 * 32 * 32 * 64 * 64;
    double ring = 3 * rows * (8 * 64 + 2 * 32) + 4 * 4 * rows * 64;
    assert_true(ring < sums); /* the ring sends less, and takes more time */
    assert_true(cluster_sequence(&c, 4).bytes == heads * (2 * tables + sums) + parameters);
    c.hash_bits = 9;
    assert_true(cluster_sequence(&c, 4).bytes == heads * (2 * 16 * tables + ring) + parameters);
    assert_true(cluster_ring_bytes(&c, 4) == heads * 8 * 10 * rows * 64);
}

/* Operations of a rank's queries with the keys of one rank, in the cheaper of two ways in each bucket. */
static double block_operations(const struct cluster *c, double rows, bool by_sums)
{
    double buckets = ldexp(1, (int)c->hash_bits), each = rows / buckets, d = (double)c->head_dim;
    double sums = 8 * each * (d + 1) * d, pairs = each * each * 6 * d;
    return (double)c->num_hashes * buckets * (by_sums || sums < pairs ? sums : pairs);
}

/* A ring of rows, or sums by bucket if these take less time, where a byte counts as 100 operations. */
static double bytes_by_formula(const struct cluster *c, size_t ranks, size_t *exchanges)
{
    double r = (double)ranks, rows = (double)up(c->seq_len, ranks), d = (double)c->head_dim;
    double tables = (double)c->num_hashes * ldexp(1, (int)c->hash_bits), code = c->hash_bits > 16 ? 4 : 2;
    double ring = (r - 1) * rows * (8 * d + code * (double)c->num_hashes) + r * rows * 4 * d;
    double sums = 16 * (r - 1) / r * tables * d * (double)(up(c->head_dim, 16) * 16); /* rows are padded */
    bool less =
        100 * sums + block_operations(c, rows, true) < 100 * ring + r * block_operations(c, rows, false);
    *exchanges = less ? 4 : 2 * ranks - 1;
    return less ? sums : ring;
}

static void the_ring_and_the_sums_are_chosen_by_the_formula(void **state)
{
    (void)state;
    static const size_t all_ranks[] = {2, 3, 8, 64}, lengths[] = {1000, 6000, 20000, 65536, 300000},
                        dims[] = {8, 24, 64, 100}, hashes[] = {8, 32}, bits[] = {2, 5, 9, 17};
    size_t chosen[2] = {0, 0};
    for (size_t i = 0; i < 4 * 5 * 4 * 2 * 4; i++) {
        struct cluster c = small;
        size_t ranks = all_ranks[i % 4], exchanges, wanted;
        c.seq_len = lengths[i / 4 % 5];
        c.head_dim = dims[i / 20 % 4];
        c.num_hashes = hashes[i / 80 % 2];
        c.hash_bits = bits[i / 160];
        double want = bytes_by_formula(&c, ranks, &wanted), got = c.exchange(&c, ranks, &exchanges);
        /* Three arrays of a visit are whole cache lines. */
        if (fabs(got - want) > 3 * 64 * (double)ranks || exchanges != wanted)
            fail_msg("%zu ranks, n %zu, d %zu, m %zu, tau %zu: %g bytes in %zu exchanges, wanted %g in %zu",
                     ranks, c.seq_len, c.head_dim, c.num_hashes, c.hash_bits, got, exchanges, want, wanted);
        chosen[exchanges == 4]++;
    }
    assert_true(chosen[0] > 50 && chosen[1] > 50);
}

static void times_are_sums_of_their_parts(void **state)
{
    (void)state;
    struct cluster c = small;
    double batch = 16 * 65536 * 1e-6, state_s = 28.0 * (double)c.params / c.memory;
    struct cluster_cost one = cluster_one(&c), two = cluster_data(&c, 2), row = cluster_sequence(&c, 2);
    check_near(one.step_s, batch + state_s, 1e-12, "one rank");
    check_near(two.compute_s, batch / 2, 1e-12, "two ranks");
    check_near(two.network_s, 4.0 * (double)c.params / c.bandwidth + 5e-4, 1e-12, "network");
    /* 16 ranges, all but one inside a third of a quarter of the batch */
    check_near(two.hidden_s, 4.0 * (double)c.params / c.bandwidth * 15 / 16, 1e-12, "hidden");
    check_near(two.step_s, two.compute_s + two.update_s + two.network_s - two.hidden_s, 1e-12, "step");
    check_near(row.network_s, row.bytes / c.bandwidth + row.exchanges * c.latency, 1e-12, "row");
    assert_true(row.hidden_s == 0 && cluster_data(&c, 1).bytes == 0 && cluster_sequence(&c, 1).bytes == 0);
    /* 3 ranks: 3, 3 and 2 shards; 32 ranks: a sequence for 16 of them */
    check_near(cluster_data(&c, 3).compute_s, batch * 3 / 8, 1e-12, "three ranks");
    check_near(cluster_data(&c, 32).compute_s, batch / 16, 1e-12, "more ranks than sequences");
    c.bandwidth = 1e3; /* the network is never done in time */
    two = cluster_data(&c, 2);
    check_near(two.hidden_s, batch / 8 * 2 / 3, 1e-12, "backward of the last shard");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(gradients_are_those_that_are_sent),
        cmocka_unit_test(sequences_cost_what_the_guide_says),
        cmocka_unit_test(the_ring_and_the_sums_are_chosen_by_the_formula),
        cmocka_unit_test(times_are_sums_of_their_parts),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
