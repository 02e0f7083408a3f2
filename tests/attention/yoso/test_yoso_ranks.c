/* yoso whose rows ranks share, on 1 to 5 threads with a communicator of their own: equals the brute force
   over hashes and pairs of the whole sequence, with the bounds of one process, and the codes of one process
   to the bit; and sends the bytes of the formula. Bugs planted and caught: tables that are not summed; the
   sums of 1 / m left out; keys that do not move; gradients that stay a rank behind; a visitor's gradient not
   taken along; the codes of the own keys for all visitors; the number of the own rows for all visitors;
   causal: tables of all ranks; those before for dV; keys of a rank before cut as the own; keys of later ranks
   met; sums by bucket: not added over the ranks; of queries for those of keys; an empty bucket's left as it
   was; rows of the bucket after; the ring for
   crowded buckets, by its bytes alone. Covers: yoso_bucket_sums.c.
   SPDX-License-Identifier: Apache-2.0 */
#include "attention/yoso/yoso_ranks.h"

#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "parts/hashing/unit_map.h"
#include "support/check.h"
#include "support/thread_ranks.h"
#include "support/yoso_case.h"

struct work {
    struct yoso_case *whole;
    bool codes_differ;
    uint64_t bytes_sent, bytes_expected; /* of rank 0 */
};

static struct view rows_from(struct view whole, size_t first, size_t count)
{
    whole.data = case_row(whole, first);
    whole.rows = count;
    return whole;
}

static size_t lines(size_t bytes)
{
    return (bytes + MEMORY_ALIGNMENT - 1) / MEMORY_ALIGNMENT * MEMORY_ALIGNMENT;
}

static bool by_sums(const struct yoso_options *options, const struct problem_shape *shape)
{
    struct yoso_ranks ranks;
    struct arena arena = arena_on(NULL);
    yoso_ranks_init(&ranks, &arena, options, shape, false, true);
    return ranks.by_sums;
}

/* The formula in the head of yoso_ranks.c, with arrays rounded up to cache lines. */
static uint64_t bytes_of(const struct comm *comm, const struct yoso_options *options,
                         const struct problem_shape *shape)
{
    size_t size = (size_t)comm_size(comm), m = (size_t)options->num_hashes,
           n = row_ranks_most(size, shape->total_rows);
    size_t width = unit_map_width(options, shape->head_dim);
    size_t buckets = m << options->hash_bits, code = options->hash_bits > 16 ? 4 : 2;
    bool sums = options->normalize == YOSO_NORMALIZE_SUM;
    uint64_t bytes = comm_sum_bytes(comm, size, buckets * (shape->value_dim + sums)) +
                     comm_sum_bytes(comm, size, buckets * shape->value_dim);
    if (shape->causal) /* rank 0 is the first of the scan forward, and the last of the one backward */
        bytes = buckets * (shape->value_dim + sums) * sizeof(float);
    size_t wide = shape->value_dim + sums, sum_floats = buckets * 2 * wide * unit_padded(width);
    uint64_t ring =
        (size - 1) * (lines(n * 4 * width) + lines(n * 4 * shape->value_dim) + lines(n * m * code)) +
        size * n * 4 * width;
    if (by_sums(options, shape))
        return bytes + 2 * comm_sum_bytes(comm, size, sum_floats / 2);
    return bytes + ring;
}

/* Computes this rank's rows, in place of those of the whole. */
static void compute(struct comm *comm, void *argument)
{
    struct work *work = argument;
    struct yoso_case *whole = work->whole;
    const struct implementation *facet = mechanism_yoso.ranks;
    struct problem problem = whole->problem;
    struct host host;
    struct pool *pool;
    size_t first, end, total = problem.shape.num_keys;
    host_init(&host);
    rank_require(pool_new(&host, 1 + comm_rank(comm) % 2, &pool) == HASHATTN_OK);
    comm_span(comm, total, &first, &end);
    struct row_ranks ranks = {.host = &host, .comm = comm};
    problem.shape.num_queries = problem.shape.num_keys = end - first;
    problem.shape.total_rows = total;
    problem.shape.ranks = (size_t)comm_size(comm);
    problem.shape.workers = (size_t)pool_threads(pool);
    problem.pool = pool;
    problem.ranks = &ranks;
    problem.query = rows_from(problem.query, first, end - first);
    problem.key = rows_from(problem.key, first, end - first);
    problem.value = rows_from(problem.value, first, end - first);
    size_t *visible = malloc((end - first) * sizeof *visible);
    for (size_t i = 0; i < end - first; i++)
        visible[i] = i + 1;
    problem.visible = problem.shape.causal ? visible : NULL;
    struct view out = rows_from(whole->out, first, end - first),
                dout = rows_from(whole->dout, first, end - first);
    const struct problem_gradients gradients = {
        .query = rows_from(whole->gradients.query, first, end - first),
        .key = rows_from(whole->gradients.key, first, end - first),
        .value = rows_from(whole->gradients.value, first, end - first)};
    rank_require(facet->refuse(problem.options, &problem.shape) == NULL);
    size_t saved = facet->saved_size(problem.options, &problem.shape),
           scratch = facet->scratch_size(problem.options, &problem.shape);
    problem.saved = guard_floats(saved / sizeof(float));
    problem.scratch = guard_floats(scratch / sizeof(float));
    memset(problem.saved, 0xff, saved);
    memset(problem.scratch, 0xff, scratch);
    facet->forward(&problem, out);
    memset(problem.scratch, 0xff, scratch);
    facet->backward(&problem, out, dout, &gradients);
    rank_require(ranks.status == HASHATTN_OK);
    size_t code = whole->options.hash_bits > 16 ? 4 : 2, row = (size_t)whole->options.num_hashes * code;
    if (!whole->options.recompute &&
        memcmp(problem.saved, (const char *)whole->problem.saved + first * row, (end - first) * row) != 0)
        work->codes_differ = true;
    if (comm_rank(comm) == 0) {
        work->bytes_sent = comm->bytes_sent;
        work->bytes_expected = bytes_of(comm, &whole->options, &problem.shape);
    }
    free(visible);
    guard_free(problem.saved, saved / sizeof(float));
    guard_free(problem.scratch, scratch / sizeof(float));
    pool_free(&host, pool);
}

static void check_ranks(const struct yoso_options *options, bool recompute, bool causal, size_t n, size_t d,
                        size_t d_v)
{
    static const int sizes[] = {2, 3, 5};
    const char *why;
    struct yoso_case *c =
        case_new(&mechanism_yoso, kernels_named(NULL, &why), options, n, n, d, d_v, 3 * n + d);
    if (causal)
        case_make_causal(c, 0);
    double terms = (double)(2 * n + (size_t)options->num_hashes + d + d_v) + 20;
    case_forward(c);
    case_ask_oracle(c, true);
    struct case_sizes s = case_sizes_of(c);
    c->options.recompute = recompute; /* the oracle needs the codes that forward saves */
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes && (size_t)sizes[i] <= n; i++) {
        struct work work = {.whole = c};
        case_clear_gradients(c);
        assert_string_equal(run_ranks(sizes[i], 60, compute, &work), "");
        assert_false(work.codes_differ);
        assert_true(work.bytes_sent > 0 && work.bytes_sent == work.bytes_expected);
        case_check_view(c->out, c->y, s.y, terms, "y", c);
        case_check_view(c->gradients.value, c->dv, s.dv, terms, "dv", c);
        case_check_view(c->gradients.query, c->dq, s.dq, 2 * terms, "dq", c);
        case_check_view(c->gradients.key, c->dk, s.dk, 2 * terms, "dk", c);
    }
    case_sizes_free(&s);
    case_free(c);
}

static void equals_brute_force(void **state)
{
    (void)state;
    for (int form = 0; form < 9; form++) {
        struct yoso_options options = yoso_preset();
        options.num_hashes = 5;
        options.hash_bits = 3;
        options.normalize = form % 3;
        options.gradient = form / 3;
        check_ranks(&options, false, false, 2, 3, 2);
        check_ranks(&options, false, false, 7, 1, 2);
        check_ranks(&options, false, false, 50, 8, 17);
        options.num_hashes = 17;
        options.hash_bits = 2; /* full buckets */
        check_ranks(&options, false, false, 203, 64, 64);
    }
}

static void causal_equals_brute_force(void **state)
{
    (void)state;
    for (int form = 0; form < 9; form++) {
        struct yoso_options options = yoso_preset();
        options.num_hashes = 5;
        options.hash_bits = 3;
        options.normalize = form % 3;
        options.gradient = form / 3;
        check_ranks(&options, false, true, 2, 3, 2);
        check_ranks(&options, false, true, 50, 8, 17);
        options.hash_bits = 2; /* full buckets */
        check_ranks(&options, form % 2 == 0, true, 150, 32, 16);
    }
}

/* Few buckets: sums by bucket take less time than the ring. */
static void so_do_sums_by_bucket(void **state)
{
    (void)state;
    for (int form = 0; form < 6; form++) {
        struct yoso_options options = yoso_preset();
        options.num_hashes = form < 3 ? 3 : 1;
        options.hash_bits = form < 3 ? 1 : 4;
        options.normalize = form % 3;
        check_ranks(&options, false, false, 300, 16, 5);
        check_ranks(&options, true, false, 257, 17, 16);
    }
}

/* Bytes and operations choose: many rows to a bucket need sums, few the ring. */
static void buckets_choose(void **state)
{
    (void)state;
    struct yoso_options options = yoso_preset();
    struct problem_shape shape = {.num_queries = 32768,
                                  .num_keys = 32768,
                                  .head_dim = 32,
                                  .value_dim = 32,
                                  .workers = 1,
                                  .ranks = 2,
                                  .total_rows = 65536};
    for (int bits = 5; bits <= 12; bits++) {
        options.hash_bits = bits;
        assert_int_equal(by_sums(&options, &shape), bits <= 8);
    }
    options.hash_bits = 5;
    options.gradient = YOSO_GRADIENT_TRUE;
    assert_false(by_sums(&options, &shape));
    options.gradient = YOSO_GRADIENT_LOWER;
    options.gradient_hashes = 4;
    assert_false(by_sums(&options, &shape));
    options.gradient_hashes = 0;
    shape.causal = true;
    assert_false(by_sums(&options, &shape));
    shape.causal = false;
    shape.num_queries = shape.num_keys = 1024;
    shape.total_rows = 2048;
    options.hash_bits = 9;
    assert_false(by_sums(&options, &shape));
}

static void other_options_do_too(void **state)
{
    (void)state;
    struct yoso_options options = yoso_preset();
    options.num_hashes = 6;
    options.hash_bits = 17;
    check_ranks(&options, false, false, 40, 4, 1);
    options.hash_bits = 2;
    check_ranks(&options, true, false, 61, 9, 5);
    options = yoso_preset();
    options.num_hashes = 8;
    options.hash_bits = 4;
    options.map = YOSO_MAP_NEYSHABUR;
    options.max_norm = 9;
    check_ranks(&options, false, false, 61, 9, 5);
}

/* The same hashes of all parts, so the ranks choose those that one process chooses. */
static void some_hashes_are_the_same_on_all_ranks(void **state)
{
    (void)state;
    struct yoso_options options = yoso_preset();
    const char *why;
    options.num_hashes = 12;
    options.hash_bits = 3;
    options.gradient_hashes = 5;
    struct yoso_case *c = case_new(&mechanism_yoso, kernels_named(NULL, &why), &options, 90, 90, 16, 16, 8);
    float one[90 * 16];
    double wanted[90 * 16];
    struct work work = {.whole = c};
    case_forward(c);
    case_backward(c);
    case_read(wanted, c->gradients.key);
    case_clear_gradients(c);
    assert_string_equal(run_ranks(4, 60, compute, &work), "");
    for (size_t i = 0; i < 90; i++)
        memcpy(one + i * 16, case_row(c->gradients.key, i), 16 * sizeof(float));
    check_near_all(one, wanted, 90 * 16, 1e-4, "dk of some hashes");
    case_free(c);
}

static void says_what_it_cannot_do(void **state)
{
    (void)state;
    struct yoso_options options = yoso_preset();
    struct problem_shape shape = {.head_dim = 4, .value_dim = 4, .workers = 1, .ranks = 2, .total_rows = 8};
    assert_null(yoso_ranks_refuse(&options, &shape));
    options.max_partners = 3;
    assert_non_null(strstr(yoso_ranks_refuse(&options, &shape), "{max_partners}"));
    options.max_partners = 0;
    options.map = YOSO_MAP_NEYSHABUR;
    assert_non_null(strstr(yoso_ranks_refuse(&options, &shape), "max_norm"));
    options.max_norm = 2;
    assert_null(yoso_ranks_refuse(&options, &shape));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(equals_brute_force),     cmocka_unit_test(causal_equals_brute_force),
        cmocka_unit_test(so_do_sums_by_bucket),   cmocka_unit_test(buckets_choose),
        cmocka_unit_test(other_options_do_too),   cmocka_unit_test(some_hashes_are_the_same_on_all_ranks),
        cmocka_unit_test(says_what_it_cannot_do),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
