/* BigBird against its definition in double precision, on every instruction set. A probe reads which keys each
   query meets: with queries of 0 and the identity as values, the output shows them. The test checks them
   against the definition, and that the random blocks are different ones, uniform and of their own for each
   block, head and sequence; output and gradients are then checked for these pairs. Bugs planted and caught:
   one neighbour only; neighbours drawn again; the same draw for all blocks of queries, or for all heads; a
   block drawn twice; draws that are not uniform; a last block that is not global; global keys left out; a
   random block without its last key.
   SPDX-License-Identifier: Apache-2.0 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "support/check.h"
#include "support/pair_case.h"

/* Filled from bigbird's options. */
struct bigbird_options {
    int64_t block_size, random_blocks, global_blocks;
};

struct setting {
    size_t s, r, global, n_q, n_k;
    uint8_t *met; /* (n_q, n_k), of the probe */
};

static struct bigbird_options options_of(const struct setting *setting)
{
    assert_int_equal(attention_find("bigbird")->options_size, sizeof(struct bigbird_options));
    return (struct bigbird_options){(int64_t)setting->s, (int64_t)setting->r, (int64_t)setting->global};
}

/* Which keys the queries of one head meet. */
static void probe(struct setting *setting, uint64_t call_key)
{
    struct bigbird_options options = options_of(setting);
    size_t n_q = setting->n_q, n_k = setting->n_k;
    struct attention_case problem =
        pair_case_new("bigbird", &options, n_q, n_k, 1, n_k, false, PRECISION_FLOAT32, 1);
    problem.call_key = call_key;
    for (size_t i = 0; i < n_q; i++)
        problem.query[i] = 0;
    for (size_t i = 0; i < n_k * n_k; i++)
        problem.value[i] = i % n_k == i / n_k;
    struct attention_result result = attention_case_run(&problem);
    setting->met = malloc(n_q * n_k);
    for (size_t i = 0; i < n_q * n_k; i++)
        setting->met[i] = result.out[i] > 0;
    attention_result_free(&result);
    attention_case_free(&problem);
}

static bool is_global(const struct setting *setting, size_t block, size_t blocks)
{
    return block < setting->global || block + setting->global >= blocks;
}

/* Keys that a query meets by rule. */
static bool by_rule(const struct setting *setting, size_t query, size_t key)
{
    size_t s = setting->s, q = query / s, k = key / s, query_blocks = (setting->n_q + s - 1) / s,
           key_blocks = (setting->n_k + s - 1) / s;
    return is_global(setting, q, query_blocks) || is_global(setting, k, key_blocks) ||
           (q > k ? q - k : k - q) <= 1;
}

/* The probed keys are those by rule and r whole blocks of the others, the same for a block of queries. Adds
   the blocks' counts to `drawn` (key blocks). */
static void check_probe(const struct setting *setting, size_t *drawn)
{
    size_t s = setting->s, n_k = setting->n_k, key_blocks = (n_k + s - 1) / s;
    for (size_t i = 0; i < setting->n_q; i++) {
        size_t others = 0, met = 0;
        for (size_t b = 0; b < key_blocks; b++) {
            const uint8_t *row = setting->met + i * n_k;
            for (size_t j = b * s; j < n_k && j < (b + 1) * s; j++) {
                assert_true(!by_rule(setting, i, j) || row[j] == 1);
                assert_int_equal(row[j], row[b * s]);
                if (i % s > 0)
                    assert_int_equal(row[j], setting->met[(i - 1) * n_k + j]);
            }
            if (by_rule(setting, i, b * s))
                continue;
            others++;
            met += row[b * s];
            if (drawn != NULL && i % s == 0)
                drawn[b] += row[b * s];
        }
        assert_int_equal(met, others < setting->r ? others : setting->r);
    }
}

static size_t was_met(const void *argument, size_t query, size_t key)
{
    const struct setting *setting = argument;
    return setting->met[query * setting->n_k + key];
}

/* s, r, G, queries, keys, d, d_v: one block, two, and so few that nothing is left to draw from; last blocks
   that are short, global or not; more queries or keys than the other side; blocks longer than tiles. */
static const size_t shapes[][7] = {
    {4, 1, 1, 1, 1, 1, 1},         {4, 2, 1, 7, 7, 3, 2},         {4, 2, 1, 12, 12, 3, 2},
    {4, 2, 1, 17, 17, 3, 2},       {4, 2, 1, 21, 21, 3, 2},       {4, 1, 1, 25, 25, 3, 2},
    {4, 3, 0, 50, 50, 3, 2},       {8, 3, 1, 203, 203, 4, 3},     {8, 2, 2, 203, 150, 4, 3},
    {8, 2, 1, 60, 203, 4, 3},      {8, 2, 1, 203, 60, 4, 3},      {8, 2, 1, 203, 9, 4, 3},
    {1, 5, 3, 100, 100, 2, 2},     {16, 3, 1, 600, 600, 3, 2},    {64, 1, 1, 700, 700, 2, 2},
    {101, 2, 1, 1100, 1100, 2, 2}, {130, 1, 0, 900, 900, 2, 2},   {16, 100, 1, 333, 333, 4, 4},
    {8, 3, 100, 90, 90, 3, 2},     {1 << 20, 3, 1, 90, 90, 3, 2},
};

static void check_shapes(enum precision precision, size_t most)
{
    for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++) {
        const size_t *shape = shapes[i];
        if (shape[3] > most)
            continue;
        struct setting setting = {
            .s = shape[0], .r = shape[1], .global = shape[2], .n_q = shape[3], .n_k = shape[4]};
        struct bigbird_options options = options_of(&setting);
        probe(&setting, i);
        check_probe(&setting, NULL);
        struct attention_case problem = pair_case_new("bigbird", &options, setting.n_q, setting.n_k, shape[5],
                                                      shape[6], false, precision, i);
        problem.call_key = i;
        pair_case_check(&problem, was_met, &setting);
        attention_case_free(&problem);
        free(setting.met);
    }
}

static void every_shape_is_the_definition(void **state)
{
    (void)state;
    check_shapes(PRECISION_FLOAT32, 2000);
}

static void every_shape_is_the_definition_in_bf16(void **state)
{
    (void)state;
    check_shapes(PRECISION_BF16, 300);
}

/* 600 draws for each of 30 blocks of queries. The blocks that a row may draw differ by its neighbours, so
   block b is expected in row q with probability r / (candidates of q). */
static void every_block_is_drawn_equally_often(void **state)
{
    (void)state;
    enum { S = 2, R = 3, BLOCKS = 32, DRAWS = 600 };
    size_t drawn[BLOCKS] = {0};
    for (uint64_t key = 0; key < DRAWS; key++) {
        struct setting setting = {.s = S, .r = R, .global = 1, .n_q = S * BLOCKS, .n_k = S * BLOCKS};
        probe(&setting, 1000 + key);
        check_probe(&setting, drawn);
        free(setting.met);
    }
    for (size_t b = 1; b + 1 < BLOCKS; b++) {
        double expected = 0, variance = 0;
        for (size_t q = 1; q + 1 < BLOCKS; q++) {
            size_t near = 1 + (size_t)(q > 1) + (size_t)(q + 2 < BLOCKS);
            double p = R / (double)(BLOCKS - 2 - near);
            if ((q > b ? q - b : b - q) <= 1)
                continue;
            expected += DRAWS * p;
            variance += DRAWS * p * (1 - p);
        }
        check_near((double)drawn[b], expected, 4.5 * sqrt(variance), "draws of a block");
    }
}

/* The pairs differ between calls, heads, sequences and blocks of queries. */
static void each_draw_is_its_own(void **state)
{
    (void)state;
    enum { S = 4, N = 400, BLOCKS = N / S };
    struct setting setting = {.s = S, .r = 3, .global = 1, .n_q = N, .n_k = N};
    struct bigbird_options options = options_of(&setting);
    struct attention_case problem = {.mechanism = attention_find("bigbird"),
                                     .options = &options,
                                     .num_sequences = 2,
                                     .num_heads = 2,
                                     .head_dim = 1,
                                     .value_dim = N,
                                     .queries = {N, N},
                                     .keys = {N, N},
                                     .sample_ids = (const uint64_t[]){3, 8}};
    attention_case_fill(&problem, 1, false);
    memset(problem.query, 0, 2 * N * 2 * sizeof *problem.query);
    for (size_t row = 0; row < 2 * N; row++)
        for (size_t h = 0; h < 2; h++)
            for (size_t c = 0; c < N; c++)
                problem.value[(row * 2 + h) * N + c] = c == row % N;
    struct attention_result result = attention_case_run(&problem);
    problem.call_key = 1;
    struct attention_result next = attention_case_run(&problem);
    size_t same_head = 0, same_sequence = 0, same_call = 0, same_block = 0, row = 2 * N;
    for (size_t i = S; i + S < N; i += S) {
        const float *one = result.out + i * row;
        same_head += memcmp(one, one + N, N * sizeof(float)) == 0;
        same_sequence += memcmp(one, one + N * row, N * sizeof(float)) == 0;
        same_call += memcmp(one, next.out + i * row, N * sizeof(float)) == 0;
        same_block += memcmp(one, one + S * row, N * sizeof(float)) == 0;
    }
    assert_true(same_head < 2 && same_sequence < 2 && same_call < 2 && same_block == 0);
    attention_result_free(&result);
    attention_result_free(&next);
    attention_case_free(&problem);
}

/* Enough random or global blocks, a block over all, or so few blocks that all are neighbours or global. */
static void all_blocks_are_plain_attention(void **state)
{
    (void)state;
    static const size_t exact[][3] = {{16, 100, 1}, {16, 0, 10}, {16, 5, 8},
                                      {300, 0, 0},  {100, 1, 0}, {75, 0, 1}};
    for (size_t i = 0; i < sizeof exact / sizeof *exact; i++) {
        struct setting setting = {.s = exact[i][0], .r = exact[i][1], .global = exact[i][2]};
        struct bigbird_options options = options_of(&setting);
        struct attention_case problem =
            pair_case_new("bigbird", &options, 300, 300, 16, 8, false, PRECISION_FLOAT32, 13);
        pair_case_equals_softmax(&problem);
        attention_case_free(&problem);
    }
}

static void threads_do_not_change_a_bit(void **state)
{
    (void)state;
    static const size_t settings[][3] = {{64, 3, 1}, {30, 5, 0}, {200, 2, 2}};
    for (size_t k = 0; k < 3; k++) {
        struct setting setting = {.s = settings[k][0], .r = settings[k][1], .global = settings[k][2]};
        struct bigbird_options options = options_of(&setting);
        struct attention_case problem =
            pair_case_new("bigbird", &options, 4500, 5003, 19, 41, false, PRECISION_FLOAT32, 17);
        pair_case_check_threads(&problem);
        attention_case_free(&problem);
    }
}

static void memory_is_linear_and_causal_is_refused(void **state)
{
    (void)state;
    const struct mechanism *bigbird = attention_find("bigbird");
    struct bigbird_options options = {64, 3, 1};
    struct problem_shape shape = {
        .num_queries = 4096, .num_keys = 4096, .head_dim = 64, .value_dim = 64, .workers = 1};
    size_t saved = bigbird->host.saved_size(&options, &shape),
           scratch = bigbird->host.scratch_size(&options, &shape);
    shape.num_queries = shape.num_keys = 8192;
    size_t more = bigbird->host.scratch_size(&options, &shape) - scratch;
    assert_true(bigbird->host.saved_size(&options, &shape) <= 2 * saved);
    shape.num_queries = shape.num_keys = 12288;
    assert_int_equal(bigbird->host.scratch_size(&options, &shape), scratch + 2 * more);
    shape.causal = true;
    assert_string_equal(mechanism_refuses(bigbird, &options, &shape),
                        "it has no causal form: the paper's decoder has full attention");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_shape_is_the_definition),
        cmocka_unit_test(every_shape_is_the_definition_in_bf16),
        cmocka_unit_test(every_block_is_drawn_equally_often),
        cmocka_unit_test(each_draw_is_its_own),
        cmocka_unit_test(all_blocks_are_plain_attention),
        cmocka_unit_test(threads_do_not_change_a_bit),
        cmocka_unit_test(memory_is_linear_and_causal_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
