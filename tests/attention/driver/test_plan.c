/* A plan says where every sequence's saved memory begins, in which order units run, and how large both blocks
   are; a set has one plan for each different shape. Planted and caught: sequences that share saved memory;
   the scratch of spread units left out; the order of another batch; two plans for one shape; one plan for
   heads that begin elsewhere, and for causal and not.
   Covers: plan_set.c.
   SPDX-License-Identifier: Apache-2.0 */
#include "attention/driver/plan.h"

#include <stdlib.h>
#include <string.h>

#include "attention/driver/attention.h"
#include "attention/driver/plan_set.h"
#include "base/memory.h"
#include "kernels/kernels.h"
#include "support/check.h"

enum { SEQUENCES = 4, HEADS = 3 };

static const size_t offsets[SEQUENCES + 1] = {0, 7, 7, 107, 140};

struct fixture {
    struct host host;
    struct pool *pool;
    void *options;
    struct attention_shape shape;
};

static void open_fixture(struct fixture *f, const char *mechanism, int threads)
{
    void *block;
    host_init(&f->host);
    check_status(&f->host, pool_new(&f->host, threads, &f->pool), HASHATTN_OK, NULL);
    const struct mechanism *found = attention_find(mechanism);
    check_status(&f->host, memory_new_zeroed(&f->host, found->options_size + 1, 1, "options", &block),
                 HASHATTN_OK, NULL);
    options_preset(found->options, block);
    f->options = block;
    f->shape = (struct attention_shape){.kernels = kernels_all()[0],
                                        .pool = f->pool,
                                        .mechanism = found,
                                        .options = block,
                                        .num_sequences = SEQUENCES,
                                        .num_heads = HEADS,
                                        .head_dim = 8,
                                        .value_dim = 8,
                                        .query_offsets = offsets,
                                        .key_offsets = offsets};
}

static void close_fixture(struct fixture *f)
{
    memory_free(&f->host, f->options);
    pool_free(&f->host, f->pool);
}

static void places_are_apart_and_in_order(void **state)
{
    (void)state;
    static const char *const mechanisms[] = {"softmax", "yoso"};
    for (size_t m = 0; m < 2; m++) {
        struct fixture f;
        struct attention_plan plan;
        open_fixture(&f, mechanisms[m], 2);
        void *block = aligned_alloc(64, attention_plan_bytes(SEQUENCES));
        check_status(&f.host, attention_plan_make(&f.host, &f.shape, NULL, block, &plan), HASHATTN_OK, NULL);
        static const size_t by_cost[] = {2, 3, 0, 1};
        for (size_t s = 0; s < SEQUENCES; s++) {
            assert_int_equal(plan.order[s], by_cost[s]);
            struct problem_shape of = {.num_queries = offsets[s + 1] - offsets[s],
                                       .num_keys = offsets[s + 1] - offsets[s],
                                       .head_dim = 8,
                                       .value_dim = 8,
                                       .workers = 1};
            size_t bytes = f.shape.mechanism->host.saved_size(f.options, &of);
            assert_true(plan.start[s + 1] - plan.start[s] >= HEADS * bytes);
            assert_int_equal((plan.start[s + 1] - plan.start[s]) % HEADS, 0);
            assert_true(plan.scratch_bytes >= f.shape.mechanism->host.scratch_size(f.options, &of));
        }
        assert_true(plan.start[0] >= plan.shared_bytes);
        assert_int_equal(plan.start[SEQUENCES], plan.saved_bytes);
        assert_true((plan.shared_bytes > 0) == (m == 1)); /* yoso's planes */
        free(block);
        close_fixture(&f);
    }
}

/* One long head uses all threads, and needs the scratch of one unit on all of them. */
static void spread_units_have_their_scratch(void **state)
{
    (void)state;
    struct fixture f;
    struct attention_plan plan;
    static const size_t one[] = {0, 9000};
    open_fixture(&f, "yoso", 3);
    f.shape.num_sequences = f.shape.num_heads = 1;
    f.shape.query_offsets = f.shape.key_offsets = one;
    void *block = aligned_alloc(64, attention_plan_bytes(1));
    check_status(&f.host, attention_plan_make(&f.host, &f.shape, NULL, block, &plan), HASHATTN_OK, NULL);
    struct problem_shape of = {
        .num_queries = 9000, .num_keys = 9000, .head_dim = 8, .value_dim = 8, .workers = 3};
    assert_int_equal(plan.num_spread, 1);
    assert_true(plan.scratch_bytes >= f.shape.mechanism->host.scratch_size(f.options, &of));
    free(block);
    close_fixture(&f);
}

static void equal_shapes_share_a_plan(void **state)
{
    (void)state;
    enum { ROOM = 8 };
    struct fixture f;
    const struct attention_plan *first, *again, *other;
    open_fixture(&f, "softmax", 1);
    void *block = aligned_alloc(64, plan_set_bytes(ROOM, SEQUENCES));
    struct plan_set set = plan_set_on(block, ROOM, SEQUENCES);
    check_status(&f.host, plan_set_get(&f.host, &set, &f.shape, &first), HASHATTN_OK, NULL);
    check_status(&f.host, plan_set_get(&f.host, &set, &f.shape, &again), HASHATTN_OK, NULL);
    assert_true(first == again && set.count == 1);
    struct attention_shape shapes[5];
    for (size_t i = 0; i < 5; i++)
        shapes[i] = f.shape;
    size_t elsewhere[SEQUENCES + 1];
    memcpy(elsewhere, offsets, sizeof elsewhere);
    shapes[0].first_head = 1;
    shapes[1].causal = true;
    shapes[2].num_heads = 1;
    shapes[3].query_offsets = shapes[3].key_offsets = elsewhere; /* they may become others */
    shapes[4].max_len = 200;
    for (size_t i = 0; i < 5; i++) {
        check_status(&f.host, plan_set_get(&f.host, &set, &shapes[i], &other), HASHATTN_OK, NULL);
        assert_int_equal(set.count, i + 2);
        assert_true(other != first && other->order != first->order);
    }
    check_status(&f.host, plan_set_get(&f.host, &set, &shapes[1], &again), HASHATTN_OK, NULL);
    assert_true(again->shape.causal && set.count == 6);
    free(block);
    close_fixture(&f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(places_are_apart_and_in_order),
        cmocka_unit_test(spread_units_have_their_scratch),
        cmocka_unit_test(equal_shapes_share_a_plan),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
