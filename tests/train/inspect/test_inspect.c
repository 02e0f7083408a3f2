/* Inspecting a model: every head of every sequence once and in order, the same numbers for any number of
   threads, invariants of every model (one bucket catches all; no utility above 1), stopping, refusals, and
   every n-th allocation failing; the buckets of a probe for heads that have none. Planted and caught: a probe
   with another random key than the mechanism in its place; hashes that are not fitted.
   SPDX-License-Identifier: Apache-2.0 */
#include "train/inspect/inspect.h"

#include <string.h>

#include "base/memory.h"
#include "support/check.h"
#include "support/small_run.h"

enum { EXAMPLES = 3, LAYERS = 2, HEADS = 2 };

struct heard {
    size_t count, stop_at;
    double utility[EXAMPLES * LAYERS * HEADS * NUM_INSPECTED], least, least_pairs;
};

static bool hear(void *user, const struct inspected_head *head)
{
    struct heard *heard = user;
    size_t at = heard->count++;
    assert_int_equal(head->sequence, at / (LAYERS * HEADS));
    assert_int_equal(head->layer, at / HEADS % LAYERS);
    assert_int_equal(head->head, at % HEADS);
    for (size_t p = 0; p < NUM_INSPECTED; p++) {
        const struct inspected_membership *m = &head->inspection->memberships[p];
        size_t in = 0, best = 0;
        for (size_t i = 0; i < IN_GROUPS; i++)
            in += m->queries_in[i];
        for (size_t b = 0; b < head->num_groups; b++)
            best += m->best_queries[b];
        assert_int_equal(in, head->num_tokens);
        assert_int_equal(best, head->num_tokens);
        assert_true(m->utility >= 0 && m->utility < 1 + 1e-9 && m->pairs > 0 && m->pairs <= 1);
        heard->utility[at * NUM_INSPECTED + p] = m->utility;
        heard->least = m->utility < heard->least ? m->utility : heard->least;
        heard->least_pairs = m->pairs < heard->least_pairs ? m->pairs : heard->least_pairs;
    }
    return heard->count == heard->stop_at;
}

/* The same with a probe, or NULL. scale: of the initial values; large ones make attention uneven. */
static hashattn_status look_with(struct small_run *small, struct host *host, int threads,
                                 const struct probe *probe, float scale, struct heard *heard)
{
    const char *why;
    struct train_setup setup = {.kernels = kernels_named("auto", &why)};
    struct model *model;
    struct dataset dataset, training;
    void *values;
    small_run_load(small, SPLIT_VALID, &dataset);
    small_run_load(small, SPLIT_TRAIN, &training);
    check_status(&small->host, pool_new(&small->host, threads, &setup.pool), HASHATTN_OK, NULL);
    check_status(&small->host, model_new(&small->host, &small->config.model, &model), HASHATTN_OK, NULL);
    const struct params *params = model_params(model);
    check_status(&small->host,
                 memory_new_zeroed(&small->host, params->total, sizeof(float), "values", &values),
                 HASHATTN_OK, NULL);
    params_start(params, 1, values);
    for (size_t i = 0; i < params->total; i++)
        ((float *)values)[i] *= scale;
    heard->count = 0;
    heard->least = heard->least_pairs = 1;
    hashattn_status status = inspect_check(host, model, probe);
    if (status == HASHATTN_OK)
        status = inspect(host, &setup, model, values, &dataset, EXAMPLES, 5, probe, &training, hear, heard);
    memory_free(&small->host, values);
    model_free(&small->host, model);
    pool_free(&small->host, setup.pool);
    dataset_free(&small->host, &training);
    dataset_free(&small->host, &dataset);
    return status;
}

/* Inspects an untrained model on `threads`, with allocations of `host`. */
static hashattn_status look(struct small_run *small, struct host *host, int threads, struct heard *heard)
{
    return look_with(small, host, threads, NULL, 1, heard);
}

static void begin(struct small_run *small, const char *mechanism)
{
    small_run_init(small, mechanism, 40, 3);
    small_run_set(small, "layers", "2");
}

static void every_head_is_seen(void **state)
{
    (void)state;
    static const char *const mechanisms[] = {"lha", "lsh", "random"};
    for (size_t i = 0; i < 3; i++) {
        struct small_run small;
        struct heard one = {0}, three = {0};
        begin(&small, mechanisms[i]);
        small_run_set(&small, "num_buckets", "4");
        check_status(&small.host, look(&small, &small.host, 1, &one), HASHATTN_OK, NULL);
        check_status(&small.host, look(&small, &small.host, 3, &three), HASHATTN_OK, NULL);
        assert_int_equal(one.count, EXAMPLES * LAYERS * HEADS);
        check_same_bits(one.utility, three.utility, sizeof one.utility, "utility on three threads");
        assert_true(one.least < 0.9 && one.least_pairs < 0.7);
        small_run_set(&small, "num_buckets", "1");
        check_status(&small.host, look(&small, &small.host, 1, &one), HASHATTN_OK, NULL);
        check_near(one.least, 1, 1e-9, "utility of one bucket");
        check_near(one.least_pairs, 1, 0, "pairs of one bucket");
        small_run_free(&small);
    }
}

static void stopping_and_refusals(void **state)
{
    (void)state;
    struct small_run small;
    struct heard heard = {.stop_at = 5};
    begin(&small, "lha");
    check_status(&small.host, look(&small, &small.host, 2, &heard), HASHATTN_INTERRUPTED,
                 "stopped in example 1");
    assert_int_equal(heard.count, 5);
    small_run_free(&small);
    begin(&small, "yoso");
    check_status(&small.host, look(&small, &small.host, 1, &heard), HASHATTN_REFUSED,
                 "the model has attention yoso, which has no buckets of tokens; those that can be inspected: "
                 "lha, lsh, random");
    small_run_free(&small);
}

/* The sequences that an inspection visits, in their order. */
static bool count_sequences(void *user, const struct inspected_head *head)
{
    size_t *count = user;
    assert_true(head->sequence == *count || head->sequence + 1 == *count);
    *count = head->sequence + 1;
    return false;
}

/* Of pairs both sequences are visited; 0, or more examples than there are, means all. One of two mechanisms
   with buckets is enough. */
static void all_sequences_are_visited(void **state)
{
    (void)state;
    static const size_t counts[] = {0, 1, 4, 6, 100};
    for (int pairs = 0; pairs < 2; pairs++) {
        struct small_run small;
        struct dataset dataset;
        struct model *model;
        const char *why;
        struct train_setup setup = {.kernels = kernels_named("auto", &why)};
        void *values;
        small_run_init(&small, "lha*1,softmax*1", 40, 3);
        small_run_load(&small, SPLIT_VALID, &dataset);
        struct host *host = &small.host;
        small.config.model.pairs = dataset.pairs = pairs != 0;
        dataset.count = 6;
        check_status(host, pool_new(host, 1, &setup.pool), HASHATTN_OK, NULL);
        check_status(host, model_new(host, &small.config.model, &model), HASHATTN_OK, NULL);
        check_status(host,
                     memory_new_zeroed(host, model_params(model)->total, sizeof(float), "values", &values),
                     HASHATTN_OK, NULL);
        params_start(model_params(model), 1, values);
        for (size_t i = 0; i < sizeof counts / sizeof *counts; i++) {
            size_t seen = 0, want = counts[i] == 0 || counts[i] > 6 ? 6 : counts[i];
            check_status(host,
                         inspect(host, &setup, model, values, &dataset, counts[i], 5, NULL, NULL,
                                 count_sequences, &seen),
                         HASHATTN_OK, NULL);
            assert_int_equal(seen, want * (pairs ? 2 : 1));
        }
        memory_free(host, values);
        model_free(host, model);
        pool_free(host, setup.pool);
        dataset_free(host, &dataset);
        small_run_free(&small);
    }
}

/* The first layer of a model with softmax has the rows of that of a model with lsh and the same values. */
static void a_probe_finds_what_the_mechanism_would(void **state)
{
    (void)state;
    static const char *const mechanisms[] = {"lsh", "random"};
    for (size_t i = 0; i < 2; i++) {
        struct small_run own, other;
        struct heard own_heard = {0}, probed = {0};
        begin(&own, mechanisms[i]);
        small_run_set(&own, "num_buckets", "4");
        begin(&other, "softmax");
        const struct probe probe = {.mechanism = attention_find(mechanisms[i]),
                                    .options = own.config.model.plan.used[0].options,
                                    .steps = 3,
                                    .seed = 5};
        check_status(&own.host, look_with(&own, &own.host, 2, NULL, 3, &own_heard), HASHATTN_OK, NULL);
        check_status(&other.host, look_with(&other, &other.host, 2, &probe, 3, &probed), HASHATTN_OK, NULL);
        assert_int_equal(probed.count, EXAMPLES * LAYERS * HEADS);
        for (size_t e = 0; e < EXAMPLES; e++)
            check_same_bits(own_heard.utility + e * LAYERS * HEADS * NUM_INSPECTED,
                            probed.utility + e * LAYERS * HEADS * NUM_INSPECTED,
                            HEADS * NUM_INSPECTED * sizeof *probed.utility, "utilities of the first layer");
        small_run_free(&own);
        small_run_free(&other);
    }
}

/* Learned hashes capture more than those that they started from, in every layer, with the same bits on any
   number of threads; lsh and smyrf beside them stay the same. */
static void hashes_are_fitted(void **state)
{
    (void)state;
    struct small_run small, with_lha;
    struct heard before = {0}, after = {0}, threads = {0};
    begin(&with_lha, "lha");
    small_run_set(&with_lha, "num_buckets", "4");
    begin(&small, "softmax");
    struct probe probe = {
        .mechanism = attention_find("lha"), .options = with_lha.config.model.plan.used[0].options, .seed = 5};
    check_status(&small.host, look_with(&small, &small.host, 1, &probe, 6, &before), HASHATTN_OK, NULL);
    probe.steps = 4;
    check_status(&small.host, look_with(&small, &small.host, 1, &probe, 6, &after), HASHATTN_OK, NULL);
    check_status(&small.host, look_with(&small, &small.host, 3, &probe, 6, &threads), HASHATTN_OK, NULL);
    check_same_bits(after.utility, threads.utility, sizeof after.utility, "utility on three threads");
    for (size_t i = 0; i < EXAMPLES * LAYERS * HEADS; i++)
        assert_true(after.utility[i * NUM_INSPECTED] != before.utility[i * NUM_INSPECTED]);
    for (size_t i = 0; i < EXAMPLES * LAYERS * HEADS; i++)
        for (size_t p = INSPECTED_LSH; p < NUM_INSPECTED; p++)
            check_near(after.utility[i * NUM_INSPECTED + p], before.utility[i * NUM_INSPECTED + p], 0,
                       "lsh, smyrf");
    probe.mechanism = attention_find("softmax");
    check_status(&small.host, look_with(&small, &small.host, 1, &probe, 6, &before), HASHATTN_REFUSED,
                 "softmax has no buckets of tokens; mechanisms that have: lha, lsh, random");
    small_run_free(&small);
    small_run_free(&with_lha);
}

static void allocations_fail(void **state)
{
    (void)state;
    struct small_run small, other;
    begin(&small, "lha");
    begin(&other, "softmax");
    const struct probe probe = {.mechanism = attention_find("lha"),
                                .options = small.config.model.plan.used[0].options,
                                .steps = 2,
                                .seed = 5};
    for (int probed = 0; probed < 2; probed++)
        for (long n = 0;; n++) {
            struct failing_host failing;
            struct heard heard = {0};
            failing_host_init(&failing, n);
            hashattn_status status =
                look_with(probed ? &other : &small, &failing.host, 1, probed ? &probe : NULL, 1, &heard);
            assert_int_equal(failing.outstanding, 0);
            if (status == HASHATTN_OK) {
                assert_true(n > 3);
                break;
            }
            check_status(&failing.host, status, HASHATTN_NO_MEMORY, NULL);
        }
    small_run_free(&other);
    small_run_free(&small);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_head_is_seen),        cmocka_unit_test(stopping_and_refusals),
        cmocka_unit_test(all_sequences_are_visited), cmocka_unit_test(a_probe_finds_what_the_mechanism_would),
        cmocka_unit_test(hashes_are_fitted),         cmocka_unit_test(allocations_fail),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
