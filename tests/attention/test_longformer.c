/* Longformer against its definition in double precision, on every instruction set: windows and global tokens
   of any size, causal and not, cross attention, both precisions. Bugs planted and caught: a window one key
   wider on either side; a global key in the window met twice; a causal window or a causal global query that
   looks ahead; memory of the part measured without the window's span.
   SPDX-License-Identifier: Apache-2.0 */
#include <stdlib.h>
#include <string.h>

#include "support/check.h"
#include "support/pair_case.h"

/* Filled from longformer's options. */
struct longformer_options {
    int64_t window, global_tokens;
};

struct setting {
    size_t window, global;
    bool causal;
};

static struct longformer_options options_of(const struct setting *setting)
{
    assert_int_equal(attention_find("longformer")->options_size, sizeof(struct longformer_options));
    return (struct longformer_options){(int64_t)setting->window, (int64_t)setting->global};
}

static size_t meets(const void *argument, size_t query, size_t key)
{
    const struct setting *s = argument;
    size_t distance = query > key ? query - key : key - query;
    if (s->causal && key > query)
        return 0;
    return 2 * distance <= s->window || query < s->global || key < s->global;
}

/* Window, global tokens, queries, keys, d, d_v: windows of one key, shorter than, as long as and longer than
   tiles (128 keys), blocks of 96 queries and the sequence; odd ones; global tokens inside the window, none,
   all; more queries or keys than the other side. */
static const size_t shapes[][6] = {
    {0, 0, 40, 40, 5, 3},       {0, 1, 40, 40, 5, 3},
    {1, 1, 40, 40, 5, 3},       {6, 2, 100, 100, 4, 2},
    {7, 3, 203, 150, 8, 5},     {7, 3, 20, 203, 3, 4},
    {7, 3, 203, 20, 3, 4},      {7, 0, 203, 20, 3, 4},
    {64, 9, 300, 300, 4, 4},    {256, 1, 700, 700, 3, 2},
    {256, 130, 500, 500, 3, 2}, {100, 97, 400, 90, 3, 2},
    {300, 5, 1250, 1250, 2, 2}, {1000, 2, 300, 300, 4, 4},
    {512, 400, 300, 300, 3, 3}, {1 << 30, 1 << 30, 50, 60, 3, 3},
    {4, 1, 1, 1, 1, 1},
};

static void check_shapes(enum precision precision)
{
    for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++)
        for (int causal = 0; causal < 2; causal++) {
            const size_t *shape = shapes[i];
            struct setting setting = {shape[0], shape[1], causal != 0};
            struct longformer_options options = options_of(&setting);
            struct attention_case problem =
                pair_case_new("longformer", &options, shape[2], causal ? shape[2] : shape[3], shape[4],
                              shape[5], causal != 0, precision, i);
            pair_case_check(&problem, meets, &setting);
            attention_case_free(&problem);
        }
}

static void every_shape_is_the_definition(void **state)
{
    (void)state;
    check_shapes(PRECISION_FLOAT32);
}

static void every_shape_is_the_definition_in_bf16(void **state)
{
    (void)state;
    check_shapes(PRECISION_BF16);
}

/* The global key dominates some queries, keys of the window the others, by up to exp(3000). */
static void both_sides_of_the_merge_may_dominate(void **state)
{
    (void)state;
    for (int causal = 0; causal < 2; causal++) {
        struct setting setting = {20, 2, causal != 0};
        struct longformer_options options = options_of(&setting);
        struct attention_case problem =
            pair_case_new("longformer", &options, 300, 300, 4, 3, causal != 0, PRECISION_FLOAT32, 11);
        for (size_t i = 0; i < 300; i++) {
            problem.query[4 * i] = i % 2 == 0 ? 3 : -3;
            problem.key[4 * i] = 1000 * ((float)(i / 5 % 7) - 3);
        }
        pair_case_check(&problem, meets, &setting);
        attention_case_free(&problem);
    }
}

/* A window over all, or global tokens only. */
static void a_window_over_all_is_plain_attention(void **state)
{
    (void)state;
    static const size_t exact[][2] = {{600, 0}, {598, 1}, {100000, 7}, {0, 300}, {10, 1000}};
    for (size_t i = 0; i < sizeof exact / sizeof *exact; i++)
        for (int causal = 0; causal < 2; causal++) {
            struct setting setting = {exact[i][0], exact[i][1], causal != 0};
            struct longformer_options options = options_of(&setting);
            struct attention_case problem =
                pair_case_new("longformer", &options, 300, 300, 16, 8, causal != 0, PRECISION_FLOAT32, 13);
            pair_case_equals_softmax(&problem);
            attention_case_free(&problem);
        }
}

/* With threads, parts are cut into groups of keys and queries. */
static void threads_do_not_change_a_bit(void **state)
{
    (void)state;
    static const size_t settings[][2] = {{33, 2}, {512, 1}, {700, 150}};
    for (size_t k = 0; k < 3; k++)
        for (int causal = 0; causal < 2; causal++) {
            struct setting setting = {settings[k][0], settings[k][1], causal != 0};
            struct longformer_options options = options_of(&setting);
            struct attention_case problem = pair_case_new("longformer", &options, 4500, causal ? 4500 : 5003,
                                                          19, 41, causal != 0, PRECISION_FLOAT32, 17);
            pair_case_check_threads(&problem);
            attention_case_free(&problem);
        }
}

static void memory_is_linear_and_small(void **state)
{
    (void)state;
    const struct mechanism *longformer = attention_find("longformer");
    struct longformer_options options = {512, 1};
    struct problem_shape shape = {
        .num_queries = 4096, .num_keys = 4096, .head_dim = 64, .value_dim = 64, .workers = 1};
    assert_int_equal(longformer->host.saved_size(&options, &shape), 2 * 4096 * sizeof(float));
    size_t scratch = longformer->host.scratch_size(&options, &shape);
    shape.num_queries = shape.num_keys = 8192;
    assert_int_equal(longformer->host.scratch_size(&options, &shape),
                     scratch + 4096 * (64 + 3) * sizeof(float));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_shape_is_the_definition),
        cmocka_unit_test(every_shape_is_the_definition_in_bf16),
        cmocka_unit_test(both_sides_of_the_merge_may_dominate),
        cmocka_unit_test(a_window_over_all_is_plain_attention),
        cmocka_unit_test(threads_do_not_change_a_bit),
        cmocka_unit_test(memory_is_linear_and_small),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
