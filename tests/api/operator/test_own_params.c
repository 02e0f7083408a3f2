/* A mechanism's learned parameters in the public interface, drawn from the seed or read from a file, and its
   own loss. Bugs planted and caught: heads and tensors swapped; parameters kept when an option changes their
   shape; a file for other heads accepted; NaN accepted; parameters from a file drawn again; twice the loss;
   its gradient not written, or added to old contents; partly read tensors kept after a file was refused;
   parameters dropped by a refused file or option; every tensor drawn as normals; max_len not passed down,
   compared although no shape depends on it, or not compared although one does; memory allocated before the
   file was checked; parameters set from memory drawn again.
   SPDX-License-Identifier: Apache-2.0 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "api/operator/operator_plan.h"
#include "api/operator/own_params.h"
#include "base/random.h"
#include "io/weights/safetensors.h"
#include "support/api_context.h"
#include "support/check.h"
#include "support/folder.h"
#include "support/placed_mechanism.h"

enum { HEADS = 3, N = 40, D = 6, BUCKETS = 4, SIZE = D * BUCKETS };

struct case_of {
    hashattn_context *context;
    hashattn_attention *attention;
    hashattn_problem problem;
    float query[HEADS * N * D], out[HEADS * N * D];
};

static struct failing_host counting; /* counts the blocks of a case */

static void open_case(struct case_of *c)
{
    failing_host_init(&counting, -1);
    c->context = context_with(1, &counting);
    check_ok(c->context, hashattn_attention_new(c->context, "lha", &c->attention));
    check_ok(c->context, hashattn_attention_set(c->attention, "num_buckets", "4"));
    check_ok(c->context, hashattn_attention_set(c->attention, "hash", "linear"));
    hashattn_problem_default(&c->problem);
    c->problem.num_heads = HEADS;
    c->problem.num_queries = c->problem.num_keys = N;
    c->problem.head_dim = c->problem.value_dim = D;
    c->problem.seed = 7;
    random_normals(1, 0, c->query, HEADS * N * D);
}

static void close_case(struct case_of *c)
{
    hashattn_attention_free(c->attention);
    hashattn_context_free(c->context);
    assert_int_equal(counting.outstanding, 0);
}

static hashattn_status run_keeping(struct case_of *c, void *saved)
{
    hashattn_array query = hashattn_array_of_heads(c->query, HEADS, N, D),
                   out = hashattn_array_of_heads(c->out, HEADS, N, D);
    return hashattn_attention_forward(c->attention, &c->problem, &query, &query, &query, &out, saved, NULL);
}

static hashattn_status run(struct case_of *c)
{
    return run_keeping(c, NULL);
}

static void they_come_from_the_seed(void **state)
{
    (void)state;
    struct case_of c;
    open_case(&c);
    check_ok(c.context, run(&c));
    float tensor[HEADS * SIZE], first[HEADS * 2 * SIZE];
    for (size_t row = 0; row < 2; row++) { /* query and key, rows 1 and 2 of the mechanism */
        random_normals(random_key(7, RANDOM_INIT, row + 1), 0, tensor, HEADS * SIZE);
        for (size_t h = 0; h < HEADS; h++)
            for (size_t i = 0; i < SIZE; i++)
                assert_true(c.attention->params[(2 * h + row) * SIZE + i] == 0.1f * tensor[h * SIZE + i]);
    }
    memcpy(first, c.attention->params, sizeof first);
    c.problem.seed = 8;
    check_ok(c.context, run(&c));
    assert_memory_not_equal(first, c.attention->params, sizeof first);
    check_ok(c.context, hashattn_attention_set(c.attention, "num_buckets", "5"));
    assert_null(c.attention->params);
    check_ok(c.context, run(&c));
    close_case(&c);
}

static void write_file(struct case_of *c, const char *path, const float *query, const float *key,
                       size_t heads)
{
    struct tensor tensors[2] = {
        {.name = "query", .type = TENSOR_F32, .rank = 3, .shape = {heads, D, BUCKETS}, .data = query},
        {.name = "key", .type = TENSOR_F32, .rank = 3, .shape = {heads, D, BUCKETS}, .data = key}};
    check_status(&c->context->host, safetensors_write(&c->context->host, path, tensors, 2, NULL, 0),
                 HASHATTN_OK, NULL);
}

static void they_are_read(void **state)
{
    const struct folder *folder = *state;
    struct case_of c;
    open_case(&c);
    char path[100];
    snprintf(path, sizeof path, "%s/p.safetensors", folder->path);
    float query[HEADS * SIZE], key[HEADS * SIZE];
    random_normals(5, 0, query, HEADS * SIZE);
    random_normals(6, 0, key, HEADS * SIZE);
    write_file(&c, path, query, key, HEADS);
    check_ok(c.context, hashattn_attention_read_params(c.attention, path, HEADS, D, D, 0));
    check_ok(c.context, run(&c)); /* the seed does not replace them */
    for (size_t h = 0; h < HEADS; h++) {
        check_same_bits(c.attention->params + 2 * h * SIZE, query + h * SIZE, SIZE * sizeof *query, "query");
        check_same_bits(c.attention->params + (2 * h + 1) * SIZE, key + h * SIZE, SIZE * sizeof *key, "key");
    }
    c.problem.num_heads = 2;
    check_call(c.context, run(&c), HASHATTN_INVALID,
               "are for 3 heads of width 6 and values of width 6, the problem has 2, 6 and 6");
    c.problem.num_heads = HEADS;
    check_call(c.context, hashattn_attention_read_params(c.attention, path, 2, D, D, 0), HASHATTN_BAD_FILE,
               "query");
    key[9] = NAN;
    write_file(&c, path, query, key, HEADS);
    check_call(c.context, hashattn_attention_read_params(c.attention, path, HEADS, D, D, 0),
               HASHATTN_BAD_FILE, "tensor 'key' holds nan at element 9 of 72");
    /* The query tensor was read before the refusal. */
    check_call(c.context, hashattn_attention_read_params(c.attention, "none", HEADS, D, D, 0),
               HASHATTN_BAD_FILE, "none: cannot open");
    check_call(c.context, hashattn_attention_set(c.attention, "num_buckets", "0"), HASHATTN_INVALID,
               "num_buckets is 0");
    check_call(c.context, hashattn_attention_set(c.attention, "buckets", "8"), HASHATTN_INVALID,
               "lha has no option 'buckets'");
    check_ok(c.context, run(&c));
    for (size_t h = 0; h < HEADS; h++)
        check_same_bits(c.attention->params + 2 * h * SIZE, query + h * SIZE, SIZE * sizeof *query, "kept");
    check_call(c.context, hashattn_attention_read_params(c.attention, NULL, HEADS, D, D, 0), HASHATTN_INVALID,
               "path");
    check_call(c.context, hashattn_attention_read_params(c.attention, path, 0, D, D, 0), HASHATTN_INVALID,
               "num_heads is 0");
    assert_int_equal(hashattn_attention_read_params(NULL, path, HEADS, D, D, 0), HASHATTN_INVALID);
    /* Numbers of heads or widths that no file can have take no memory. */
    struct failing_host measured;
    failing_host_init(&measured, -1);
    hashattn_context *counted = context_with(1, &measured);
    hashattn_attention *lha;
    check_ok(counted, hashattn_attention_new(counted, "lha", &lha));
    check_ok(counted, hashattn_attention_set(lha, "num_buckets", "4"));
    check_ok(counted, hashattn_attention_set(lha, "hash", "linear"));
    static const size_t absurd[][2] = {{(size_t)1 << 30, D}, {HEADS, (size_t)1 << 28}};
    for (size_t i = 0; i < 2; i++)
        check_call(counted, hashattn_attention_read_params(lha, path, absurd[i][0], absurd[i][1], D, 0),
                   HASHATTN_BAD_FILE, "tensor 'query' is F32 (3, 6, 4), F32 (");
    assert_true(measured.largest < 1 << 20);
    hashattn_attention_free(lha);
    hashattn_context_free(counted);
    hashattn_attention *softmax;
    check_ok(c.context, hashattn_attention_new(c.context, "softmax", &softmax));
    check_call(c.context, hashattn_attention_read_params(softmax, path, HEADS, D, D, 0), HASHATTN_INVALID,
               "softmax has no learned parameters of its own");
    hashattn_attention_free(softmax);
    close_case(&c);
}

/* ---- tensors sized by the longest length ---- */

enum { LONGEST = 50, PLACED = LONGEST + 1 + 2 * D };

/* The attention of the case with the test mechanism instead of its own. */
static hashattn_attention placed_in(const struct case_of *c, const struct placed_options *options)
{
    return (hashattn_attention){
        .context = c->context, .mechanism = &placed_mechanism, .options = (void *)options};
}

static hashattn_status run_placed(struct case_of *c, hashattn_attention *placed)
{
    hashattn_attention *own = c->attention;
    c->attention = placed;
    hashattn_status status = run(c);
    c->attention = own;
    return status;
}

static void they_start_as_their_rows_say(void **state)
{
    (void)state;
    const struct placed_options options = {0};
    struct case_of c;
    open_case(&c);
    hashattn_attention placed = placed_in(&c, &options);
    check_call(
        c.context, run_placed(&c, &placed), HASHATTN_REFUSED,
        "placed: its tensors follow the longest length, which is not known (sequence 0: 40 queries, 40 "
        "keys, head_dim 6, max_len 0)");
    c.problem.max_len = N - 1;
    check_call(
        c.context, run_placed(&c, &placed), HASHATTN_REFUSED,
        "placed: its tensors are made for shorter sequences (sequence 0: 40 queries, 40 keys, head_dim "
        "6, max_len 39)");
    c.problem.max_len = LONGEST;
    check_ok(c.context, run_placed(&c, &placed));
    for (size_t h = 0; h < HEADS; h++) {
        const float *own = placed.params + h * PLACED;
        for (size_t i = 0; i < LONGEST; i++)
            assert_true(own[i] >= -0.5f && own[i] < 0.5f && (i == 0 || own[i] != own[i - 1]));
        assert_true(own[LONGEST] == 0.25f);
        for (size_t i = 0; i < D; i++)
            assert_true(own[LONGEST + 1 + i] == 0 && own[LONGEST + 1 + D + i] == 1);
    }
    hashattn_tensor tensor = {.struct_size = sizeof tensor};
    assert_int_equal(hashattn_attention_tensor(&placed, D, D, 0, 0, &tensor), 1);
    assert_string_equal(tensor.name, "level"); /* the first tensor is left out if the length is unknown */
    assert_int_equal(hashattn_attention_tensor(&placed, D, D, LONGEST, 0, &tensor), 1);
    assert_string_equal(tensor.name, "place");
    assert_int_equal(tensor.rows, LONGEST);
    /* Drawn again if a shape depends on the length, kept otherwise. */
    c.problem.max_len = N;
    check_ok(c.context, run_placed(&c, &placed));
    assert_true(placed.params[N] == 0.25f);
    own_params_drop(&placed);
    operator_plan_free(&placed);
    check_ok(c.context, run(&c));
    const float *kept = c.attention->params;
    c.problem.max_len = LONGEST;
    check_ok(c.context, run(&c));
    assert_ptr_equal(c.attention->params, kept);
    close_case(&c);
}

static void they_are_set_from_memory(void **state)
{
    (void)state;
    struct case_of c;
    open_case(&c);
    float drawn[HEADS * 2 * SIZE], own[HEADS * 2 * SIZE], found[HEADS * 2 * SIZE];
    check_ok(c.context, hashattn_attention_get_params(c.attention, &c.problem, drawn));
    check_ok(c.context, run(&c));
    check_same_bits(drawn, c.attention->params, sizeof drawn, "drawn");
    float before[HEADS * N * D];
    memcpy(before, c.out, sizeof before);
    random_normals(5, 0, own, HEADS * 2 * SIZE);
    check_ok(c.context, hashattn_attention_set_params(c.attention, own, HEADS, D, D, 0));
    c.problem.seed++; /* does not replace them */
    check_ok(c.context, hashattn_attention_get_params(c.attention, &c.problem, found));
    check_same_bits(found, own, sizeof own, "set");
    check_ok(c.context, run(&c));
    assert_memory_not_equal(before, c.out, sizeof before);
    check_ok(c.context, hashattn_attention_set_params(c.attention, drawn, HEADS, D, D, 0));
    check_ok(c.context, run(&c));
    check_same_bits(c.out, before, sizeof before, "out");
    own[2 * SIZE + 5] = INFINITY;
    check_call(c.context, hashattn_attention_set_params(c.attention, own, HEADS, D, D, 0), HASHATTN_INVALID,
               "params holds inf at float 5 of head 1, which has 48");
    check_ok(c.context, hashattn_attention_get_params(c.attention, &c.problem, found));
    check_same_bits(found, drawn, sizeof drawn, "kept");
    check_call(c.context, hashattn_attention_set_params(c.attention, NULL, HEADS, D, D, 0), HASHATTN_INVALID,
               "params is NULL");
    check_call(c.context, hashattn_attention_set_params(c.attention, drawn, 0, D, D, 0), HASHATTN_INVALID,
               "num_heads is 0");
    check_call(c.context, hashattn_attention_set_params(c.attention, drawn, SIZE_MAX / 64, D, D, 0),
               HASHATTN_NO_MEMORY, "no memory for the learned parameters of");
    check_call(c.context, hashattn_attention_get_params(c.attention, &c.problem, NULL), HASHATTN_INVALID,
               "params is NULL");
    c.problem.num_heads = 2;
    check_call(c.context, hashattn_attention_get_params(c.attention, &c.problem, found), HASHATTN_INVALID,
               "are for 3 heads");
    hashattn_attention *yoso;
    check_ok(c.context, hashattn_attention_new(c.context, "yoso", &yoso));
    check_call(c.context, hashattn_attention_set_params(yoso, drawn, HEADS, D, D, 0), HASHATTN_INVALID,
               "yoso has no learned parameters");
    hashattn_attention_free(yoso);
    assert_int_equal(hashattn_attention_set_params(NULL, drawn, HEADS, D, D, 0), HASHATTN_INVALID);
    assert_int_equal(hashattn_attention_get_params(NULL, &c.problem, found), HASHATTN_INVALID);
    close_case(&c);
}

static void they_are_read_for_one_length(void **state)
{
    const struct folder *folder = *state;
    const struct placed_options options = {0};
    struct case_of c;
    open_case(&c);
    hashattn_attention placed = placed_in(&c, &options);
    char path[100];
    float numbers[HEADS * LONGEST];
    random_normals(5, 0, numbers, HEADS * LONGEST);
    snprintf(path, sizeof path, "%s/placed.safetensors", folder->path);
    const struct tensor tensors[4] = {
        {.name = "place", .type = TENSOR_F32, .rank = 3, .shape = {HEADS, LONGEST, 1}, .data = numbers},
        {.name = "level", .type = TENSOR_F32, .rank = 3, .shape = {HEADS, 1, 1}, .data = numbers},
        {.name = "offset", .type = TENSOR_F32, .rank = 3, .shape = {HEADS, 1, D}, .data = numbers},
        {.name = "gain", .type = TENSOR_F32, .rank = 3, .shape = {HEADS, 1, D}, .data = numbers}};
    struct host *host = &c.context->host;
    check_status(host, safetensors_write(host, path, tensors, 4, NULL, 0), HASHATTN_OK, NULL);
    check_call(c.context, hashattn_attention_read_params(&placed, path, HEADS, D, D, LONGEST + 1),
               HASHATTN_BAD_FILE, "place");
    check_ok(c.context, hashattn_attention_read_params(&placed, path, HEADS, D, D, LONGEST));
    c.problem.max_len = N;
    check_call(c.context, run_placed(&c, &placed), HASHATTN_INVALID,
               "the learned parameters are for max_len 50, the problem has max_len 40");
    c.problem.max_len = LONGEST;
    check_ok(c.context, run_placed(&c, &placed));
    check_same_bits(placed.params + PLACED, numbers + LONGEST, LONGEST * sizeof *numbers,
                    "of the second head");
    own_params_drop(&placed);
    operator_plan_free(&placed);
    close_case(&c);
}

/* Forward, then the loss; dparams may be NULL. */
static double loss_of(struct case_of *c, void *saved, float *dparams)
{
    hashattn_array query = hashattn_array_of_heads(c->query, HEADS, N, D);
    double loss = NAN;
    check_ok(c->context, run_keeping(c, saved));
    check_ok(c->context, hashattn_attention_own_loss(c->attention, &c->problem, &query, &query, &query, &loss,
                                                     dparams, saved, NULL));
    return loss;
}

static void the_loss_has_its_slope(void **state)
{
    (void)state;
    struct case_of c;
    open_case(&c);
    check_ok(c.context, hashattn_attention_set(c.attention, "targets", "exact"));
    size_t saved_bytes, scratch_bytes;
    check_ok(c.context, hashattn_attention_sizes(c.attention, &c.problem, &saved_bytes, &scratch_bytes));
    void *saved = aligned_alloc(64, (saved_bytes + 63) / 64 * 64);
    assert_non_null(saved);
    float dparams[HEADS * 2 * SIZE], before[HEADS * N * D];
    for (size_t i = 0; i < HEADS * 2 * SIZE; i++)
        dparams[i] = NAN; /* written, not added to */
    double all = loss_of(&c, saved, dparams), sum = 0;
    assert_true(all > 0);
    assert_true(loss_of(&c, saved, NULL) == all);
    memcpy(before, c.out, sizeof before);
    size_t compared = 0;
    for (size_t i = 0; i < HEADS * 2 * SIZE; i += 5) {
        enum { UP, DOWN };
        double loss[2], step = 2e-3;
        bool same = true; /* the tokens of each bucket, which determine the targets */
        float kept = c.attention->params[i];
        for (int way = UP; way <= DOWN; way++) {
            c.attention->params[i] = kept + (float)(way == UP ? step : -step);
            loss[way] = loss_of(&c, saved, NULL);
            same = same && memcmp(before, c.out, sizeof before) == 0;
        }
        c.attention->params[i] = kept;
        if (!same)
            continue;
        check_near((double)dparams[i], (loss[UP] - loss[DOWN]) / (2 * step), 2e-3, "slope of the loss");
        sum += fabs((double)dparams[i]);
        compared++;
    }
    assert_true(compared >= 10 && sum / (double)compared > 0.02);
    free(saved);
    close_case(&c);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(they_come_from_the_seed),
        cmocka_unit_test(they_are_set_from_memory),
        cmocka_unit_test(the_loss_has_its_slope),
        cmocka_unit_test(they_start_as_their_rows_say),
        cmocka_unit_test_setup_teardown(they_are_read, folder_enter, folder_leave),
        cmocka_unit_test_setup_teardown(they_are_read_for_one_length, folder_enter, folder_leave),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
