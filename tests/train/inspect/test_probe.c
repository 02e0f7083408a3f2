/* Buckets of a probe on given rows: learned hashes find clusters that random ones miss, the loss falls, and
   each layer has hashes of its own. Planted and caught: gradients not cleared between steps; a step against
   the direction of the gradient; hashes of two layers shared.
   SPDX-License-Identifier: Apache-2.0 */
#include "train/inspect/probe.h"

#include <math.h>
#include <string.h>

#include "base/memory.h"
#include "base/random.h"
#include "support/check.h"

enum { N = 64, HEADS = 2, DIM = 8, BUCKETS = 4, STEPS = 300 };

struct fixture {
    struct host host;
    const struct kernels *kernels;
    struct pool *pool;
    void *options;
    float query[N * HEADS * DIM], key[N * HEADS * DIM];
    size_t offsets[2];
    struct attention_plan plan; /* of the model's own attention */
    struct probe probe;
    struct probes probes;
};

/* Token i belongs to cluster (i * step) mod BUCKETS; each head has centres of its own. Attention within a
   cluster is exp(16 - 0 +- noise) times that between clusters, so nearly all of it can be captured. */
static void fill_rows(struct fixture *f, uint64_t seed)
{
    float centres[HEADS * BUCKETS * DIM] = {0}, noise[2 * N * HEADS * DIM];
    random_normals(random_key(seed, RANDOM_BENCH, 1), 0, noise, 2 * N * HEADS * DIM);
    for (size_t h = 0; h < HEADS; h++)
        for (size_t b = 0; b < BUCKETS; b++)
            centres[(h * BUCKETS + b) * DIM + (h + 2 * b) % DIM] = 7;
    for (size_t i = 0; i < N; i++)
        for (size_t h = 0; h < HEADS; h++)
            for (size_t d = 0; d < DIM; d++) {
                size_t at = (i * HEADS + h) * DIM + d;
                float centre = centres[(h * BUCKETS + i * 5 % BUCKETS) * DIM + d];
                f->query[at] = centre + 0.3f * noise[at];
                f->key[at] = centre + 0.3f * noise[N * HEADS * DIM + at];
            }
}

static struct attention_call call_of(struct fixture *f, uint64_t key)
{
    struct packed rows = {.width = DIM, .row_stride = HEADS * DIM, .head_stride = DIM}, query = rows,
                  keys = rows;
    query.data = f->query;
    keys.data = f->key;
    f->plan.shape = (struct attention_shape){.kernels = f->kernels,
                                             .pool = f->pool,
                                             .mechanism = attention_find("softmax"),
                                             .num_sequences = 1,
                                             .num_heads = HEADS,
                                             .head_dim = DIM,
                                             .value_dim = DIM,
                                             .max_len = N,
                                             .query_offsets = f->offsets,
                                             .key_offsets = f->offsets};
    return (struct attention_call){
        .plan = &f->plan, .query = query, .key = keys, .value = keys, .call_key = key};
}

static void fixture_init(struct fixture *f)
{
    const char *why;
    void *block;
    memset(f, 0, sizeof *f);
    host_init(&f->host);
    f->kernels = kernels_named("auto", &why);
    f->offsets[1] = N;
    check_status(&f->host, pool_new(&f->host, 1, &f->pool), HASHATTN_OK, NULL);
    const struct mechanism *lha = attention_find("lha");
    check_status(&f->host, memory_new(&f->host, lha->options_size, 1, "options", &block), HASHATTN_OK, NULL);
    f->options = block;
    options_preset(lha->options, f->options);
    check_status(&f->host, option_set(&f->host, lha->options, "lha", f->options, "num_buckets", "4"),
                 HASHATTN_OK, NULL);
    f->probe = (struct probe){.mechanism = lha, .options = f->options, .steps = STEPS, .seed = 3};
    f->probes = (struct probes){.host = &f->host, .probe = &f->probe};
}

static void fixture_free(struct fixture *f)
{
    probes_free(&f->probes);
    memory_free(&f->host, f->options);
    pool_free(&f->host, f->pool);
}

/* Utility of each head's own buckets on the rows of fill_rows(seed 99), which no fitting sees. */
static void measure(struct fixture *f, size_t layer, double utility[HEADS])
{
    fill_rows(f, 99);
    struct attention_call call = call_of(f, 7), probing;
    struct inspection inspections[HEADS];
    void *block = NULL;
    check_status(&f->host, probes_open(&f->probes, layer, &call, &probing), HASHATTN_OK, NULL);
    for (int pass = 0; pass < 2; pass++) {
        struct arena arena = arena_on(pass == 0 ? NULL : block);
        for (size_t h = 0; h < HEADS; h++)
            inspection_take(pass == 0 ? NULL : &inspections[h], &arena, BUCKETS);
        if (pass == 0)
            check_status(&f->host, memory_new(&f->host, arena.used, 1, "inspections", &block), HASHATTN_OK,
                         NULL);
    }
    attention_inspect(&probing, inspections);
    for (size_t h = 0; h < HEADS; h++)
        utility[h] = inspections[h].memberships[INSPECTED_OWN].utility;
    memory_free(&f->host, block);
}

static void fit(struct fixture *f, size_t layer)
{
    for (size_t step = 0; step < STEPS; step++) {
        fill_rows(f, step);
        const struct attention_call call = call_of(f, random_key(1, RANDOM_STEP, step));
        check_status(&f->host, probes_fit(&f->probes, layer, &call), HASHATTN_OK, NULL);
    }
}

static void learned_hashes_find_clusters(void **state)
{
    (void)state;
    struct fixture f;
    double before[HEADS], after[HEADS], other[HEADS], again[HEADS];
    fixture_init(&f);
    measure(&f, 0, before);
    measure(&f, 1, other);
    fit(&f, 0);
    measure(&f, 0, after);
    for (size_t h = 0; h < HEADS; h++)
        assert_true(before[h] < 0.85 && after[h] > before[h] + 0.07);
    measure(&f, 1, again); /* the other layer has learned nothing */
    check_same_bits(other, again, sizeof other, "another layer");
    assert_int_equal(f.probes.num_hashes, 2);
    fixture_free(&f);
}

/* Learns from the loss that training reports: it falls. */
static void the_loss_falls(void **state)
{
    (void)state;
    struct fixture f;
    fixture_init(&f);
    fill_rows(&f, 0);
    const struct attention_call call = call_of(&f, 1);
    check_status(&f.host, probes_fit(&f.probes, 0, &call), HASHATTN_OK, NULL);
    double first = f.probes.loss;
    fit(&f, 0);
    assert_true(first > 0.1 && f.probes.loss < first / 2);
    fixture_free(&f);
}

static void shapes_that_the_probe_refuses_are_named(void **state)
{
    (void)state;
    struct fixture f;
    fixture_init(&f);
    fill_rows(&f, 0);
    const struct attention_call call = call_of(&f, 1);
    struct attention_call probing;
    size_t keys[2] = {0, N / 2};
    f.plan.shape.key_offsets = keys;
    check_status(&f.host, option_set(&f.host, f.probe.mechanism->options, "lha", f.options, "joint", "true"),
                 HASHATTN_OK, NULL);
    check_status(&f.host, probes_open(&f.probes, 0, &call, &probing), HASHATTN_REFUSED, "joint");
    fixture_free(&f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(learned_hashes_find_clusters),
        cmocka_unit_test(the_loss_falls),
        cmocka_unit_test(shapes_that_the_probe_refuses_are_named),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
