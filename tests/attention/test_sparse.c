/* The Sparse Transformer's patterns against their definitions in double precision, on every instruction set:
   fixed and strided, causal and not, cross attention, both precisions. Bugs planted and
   caught: a summary one key wider; summaries of a started block not counted; a block's own summary met twice;
   the key at distance s or the query's own key met twice; a row that looks ahead; no keys after the query;
   the last row of a stride missing; the summary of a short last block taken by place.
   SPDX-License-Identifier: Apache-2.0 */
#include <stdlib.h>
#include <string.h>

#include "support/check.h"
#include "support/pair_case.h"

/* Filled from sparse's options. */
struct sparse_options {
    int64_t block_size, summary_width;
    int pattern;
};
enum { FIXED, STRIDED };

struct setting {
    size_t s, c;
    int pattern;
    bool causal;
    size_t keys;
};

static struct sparse_options options_of(const struct setting *setting)
{
    assert_int_equal(attention_find("sparse")->options_size, sizeof(struct sparse_options));
    return (struct sparse_options){(int64_t)setting->s, (int64_t)setting->c, setting->pattern};
}

static size_t meets(const void *argument, size_t query, size_t key)
{
    const struct setting *setting = argument;
    size_t s = setting->s, distance = query > key ? query - key : key - query;
    if (setting->causal && key > query)
        return 0;
    if (setting->pattern == STRIDED)
        return distance < s || distance % s == 0;
    size_t end = (key / s + 1) * s < setting->keys ? (key / s + 1) * s : setting->keys;
    return query / s == key / s || key + setting->c >= end;
}

/* s, c, queries, keys, d, d_v: blocks of one, shorter than, as long as and longer than tiles and the
   sequence, summaries of all of a block and beyond it, last blocks shorter and longer than a summary. */
static const size_t shapes[][6] = {
    {1, 1, 1, 1, 1, 1},         {1, 1, 40, 40, 5, 3},       {5, 1, 40, 40, 5, 3},
    {5, 2, 43, 43, 5, 3},       {5, 5, 43, 43, 5, 3},       {5, 9, 43, 43, 5, 3},
    {7, 2, 203, 150, 8, 5},     {7, 3, 20, 203, 3, 4},      {7, 3, 203, 20, 3, 4},
    {20, 6, 300, 300, 4, 4},    {50, 10, 333, 333, 4, 4},   {64, 8, 700, 700, 3, 2},
    {130, 40, 700, 700, 3, 2},  {250, 3, 1200, 1200, 2, 2}, {1000, 10, 300, 300, 4, 4},
    {1 << 20, 1, 90, 80, 3, 3},
};

static void check_shapes(enum precision precision)
{
    for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++)
        for (int kind = 0; kind < 4; kind++) {
            const size_t *shape = shapes[i];
            bool causal = kind % 2 == 1;
            struct setting setting = {shape[0], shape[1], kind / 2, causal, causal ? shape[2] : shape[3]};
            struct sparse_options options = options_of(&setting);
            struct attention_case problem = pair_case_new("sparse", &options, shape[2], setting.keys,
                                                          shape[4], shape[5], setting.causal, precision, i);
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

/* Blocks over all, blocks of one key, and summaries of whole blocks. */
static void blocks_over_all_are_plain_attention(void **state)
{
    (void)state;
    static const size_t exact[][3] = {{300, 1, FIXED},   {1000, 8, FIXED},   {30, 30, FIXED}, {1, 1, FIXED},
                                      {300, 1, STRIDED}, {1000, 1, STRIDED}, {1, 1, STRIDED}};
    for (size_t i = 0; i < sizeof exact / sizeof *exact; i++)
        for (int causal = 0; causal < 2; causal++) {
            struct setting setting = {exact[i][0], exact[i][1], (int)exact[i][2], causal != 0, 300};
            struct sparse_options options = options_of(&setting);
            struct attention_case problem =
                pair_case_new("sparse", &options, 300, 300, 16, 8, causal != 0, PRECISION_FLOAT32, 13);
            pair_case_equals_softmax(&problem);
            attention_case_free(&problem);
        }
}

static void threads_do_not_change_a_bit(void **state)
{
    (void)state;
    static const size_t settings[][2] = {{64, 8}, {33, 5}, {300, 100}};
    for (size_t k = 0; k < 3; k++)
        for (int kind = 0; kind < 4; kind++) {
            struct setting setting = {settings[k][0], settings[k][1], kind / 2, kind % 2 == 1, 0};
            struct sparse_options options = options_of(&setting);
            struct attention_case problem =
                pair_case_new("sparse", &options, 4500, setting.causal ? 4500 : 5003, 19, 41, setting.causal,
                              PRECISION_FLOAT32, 17);
            pair_case_check_threads(&problem);
            attention_case_free(&problem);
        }
}

static void memory_is_linear(void **state)
{
    (void)state;
    const struct mechanism *sparse = attention_find("sparse");
    for (int pattern = FIXED; pattern <= STRIDED; pattern++) {
        struct sparse_options options = {64, 8, pattern};
        struct problem_shape shape = {
            .num_queries = 4096, .num_keys = 4096, .head_dim = 64, .value_dim = 64, .workers = 1};
        assert_int_equal(sparse->host.saved_size(&options, &shape), 2 * 4096 * sizeof(float));
        size_t scratch = sparse->host.scratch_size(&options, &shape);
        shape.num_queries = shape.num_keys = 8192;
        size_t more = sparse->host.scratch_size(&options, &shape) - scratch;
        shape.num_queries = shape.num_keys = 12288;
        assert_int_equal(sparse->host.scratch_size(&options, &shape), scratch + 2 * more);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_shape_is_the_definition),
        cmocka_unit_test(every_shape_is_the_definition_in_bf16),
        cmocka_unit_test(blocks_over_all_are_plain_attention),
        cmocka_unit_test(threads_do_not_change_a_bit),
        cmocka_unit_test(memory_is_linear),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
