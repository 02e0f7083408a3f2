/* Sums in ranges against a recursion over the whole tree, bit for bit, in float32 and bfloat16, on 2 to 8
   ranks, with polls between and without.
   Bugs planted and caught: a range that turns before its pieces have arrived; a node that is packed from the
   first range; sums or nodes of other ranks that are not widened; bytes counted as if all were floats; ranges
   that nobody ends; polls of the newest exchange first.
   SPDX-License-Identifier: Apache-2.0 */
#include "comm/sum_stream.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "support/check.h"
#include "support/thread_ranks.h"

struct stream_case {
    size_t leaves, n;
    enum tree_precision precision;
    bool polls;
    float *want; /* (n) */
};

/* The nearest number with 8 bits, ties to even. */
static float nearest(float x, enum tree_precision precision)
{
    int exponent;
    double fraction = frexp((double)x, &exponent);
    return precision == TREE_F32 ? x : (float)ldexp(nearbyint(ldexp(fraction, 8)), exponent - 8);
}

static float sum_of(const struct stream_case *c, size_t first, size_t count, size_t i)
{
    if (count == 1)
        return nearest(1.0f / (float)(1 + (first * 7919 + i * 104729) % 1000), c->precision);
    size_t left = 1;
    while (2 * left < count)
        left *= 2;
    return nearest(sum_of(c, first, left, i) + sum_of(c, first + left, count - left, i), c->precision);
}

static void sum(struct comm *comm, void *argument)
{
    const struct stream_case *c = argument;
    struct host host;
    struct pool *pool;
    struct tree_node nodes[TREE_NODES];
    float *arrays[TREE_NODES];
    struct sum_stream stream;
    size_t first, end, n, known = c->n;
    host_init(&host);
    rank_require(pool_new(&host, 2, &pool) == HASHATTN_OK);
    comm_span(comm, c->leaves, &first, &end);
    size_t count = tree_nodes(c->leaves, first, end, nodes);
    for (size_t k = 0; k < count; k++) {
        arrays[k] = malloc(c->n * sizeof *arrays[k]);
        for (size_t i = 0; i < c->n; i++)
            arrays[k][i] = NAN;
    }
    const struct comm_sum job = {.comm = comm,
                                 .pool = pool,
                                 .leaves = c->leaves,
                                 .precision = c->precision,
                                 .nodes = arrays,
                                 .sum = arrays[0]};
    void *room = malloc(sum_stream_scratch(&job, c->n));
    uint64_t before = comm->bytes_sent;
    sum_stream_open(&host, &job, c->n, room, &stream);
    while (sum_stream_next(&stream, &first, &n)) {
        rank_require(first + n == known && n > 0);
        known = first;
        for (size_t k = 0; k < count; k++)
            for (size_t i = first; i < first + n; i++)
                arrays[k][i] = sum_of(c, nodes[k].first, nodes[k].count, i);
        sum_stream_begin(&stream);
        for (int i = 0; i < (c->polls ? 3 + comm_rank(comm) : 0); i++)
            sum_stream_poll(&stream);
    }
    rank_require(known == 0);
    rank_require(sum_stream_end(&stream) == HASHATTN_OK);
    rank_require(comm->bytes_sent - before == sum_stream_bytes(&job, c->n));
    rank_require(memcmp(arrays[0], c->want, c->n * sizeof(float)) == 0);
    for (size_t k = 0; k < count; k++)
        free(arrays[k]);
    free(room);
    pool_free(&host, pool);
}

static void ranges_have_the_bits_of_the_tree(void **state)
{
    (void)state;
    static const int sizes[] = {2, 3, 4, 8};
    static const size_t lengths[] = {1, 1000, SUM_LEAST, 3 * SUM_LEAST + 17, 5 * SUM_LEAST};
    for (size_t k = 0; k < sizeof lengths / sizeof *lengths; k++)
        for (int precision = 0; precision < 2; precision++) {
            struct stream_case c = {
                .leaves = 8, .n = lengths[k], .precision = (enum tree_precision)precision};
            c.want = malloc(c.n * sizeof *c.want);
            for (size_t i = 0; i < c.n; i++)
                c.want[i] = sum_of(&c, 0, c.leaves, i);
            for (size_t s = 0; s < sizeof sizes / sizeof *sizes; s++) {
                c.polls = s % 2 == k % 2;
                assert_string_equal(run_ranks(sizes[s], 60, sum, &c), "");
            }
            free(c.want);
        }
}

/* 40 times the least length is cut into 32 ranges; half of the bytes with bfloat16. */
static void ranges_are_few_and_shorts_are_half(void **state)
{
    (void)state;
    struct host host;
    host_init(&host);
    struct comm comm = {.peer = {.rank = 1, .size = 4}};
    struct comm_sum job = {.comm = &comm, .leaves = 8};
    size_t n = (size_t)40 * SUM_LEAST, ranges = 0;
    struct sum_stream stream;
    void *room = malloc(sum_stream_scratch(&job, n));
    sum_stream_open(&host, &job, n, room, &stream);
    for (; ranges < stream.count; ranges++)
        assert_true(stream.ranges[ranges].n == n / SUM_RANGES);
    assert_int_equal(ranges, SUM_RANGES);
    assert_true(sum_stream_bytes(&job, n) == 8 * (uint64_t)n * 3 / 4);
    job.precision = TREE_BF16;
    assert_true(sum_stream_bytes(&job, n) == 4 * (uint64_t)n * 3 / 4);
    free(room);
}

/* A rank that is gone ends the others with its number. */
static void leave_early(struct comm *comm, void *argument)
{
    struct stream_case *c = argument;
    struct host host;
    struct sum_stream stream;
    host_init(&host);
    if (comm_rank(comm) == 1)
        return;
    float *arrays[] = {calloc(c->n, sizeof(float))};
    const struct comm_sum job = {.comm = comm, .leaves = 2, .nodes = arrays, .sum = arrays[0]};
    void *room = malloc(sum_stream_scratch(&job, c->n));
    size_t first, n;
    sum_stream_open(&host, &job, c->n, room, &stream);
    while (sum_stream_next(&stream, &first, &n))
        sum_stream_begin(&stream);
    rank_require(sum_stream_end(&stream) == HASHATTN_FAILED);
    free(room), free(arrays[0]);
}

static void a_missing_rank_is_named(void **state)
{
    (void)state;
    struct stream_case c = {.n = 4 * SUM_LEAST};
    assert_non_null(strstr(run_ranks(2, 0.2, leave_early, &c), "rank 1 has not answered rank 0 for"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(ranges_have_the_bits_of_the_tree),
        cmocka_unit_test(ranges_are_few_and_shorts_are_half),
        cmocka_unit_test(a_missing_rank_is_named),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
