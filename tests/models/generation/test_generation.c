/* Token by token against the whole sequence: the scores of every causal mechanism, of mixed heads, of pre-LN
   and post-LN, of every kind of positions; several sequences at once; threads; a second prompt; what is
   refused. Bugs planted and caught: position of a token one too low; keys of a prompt absorbed from row 0 of
   each chunk; the first sequence's state for all; other sequences without the prompt; head key without the
   layer's first head; a cache that reads the columns of the first head; local sees one block less; post-LN's
   second norm left out; sinusoids of layers taken from position 0; states or cached keys not forgotten by a
   second prompt; scores without the bias.
   Covers: held.c few_rows.c.
   SPDX-License-Identifier: Apache-2.0 */
#include "models/generation/generation.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "attention/driver/attention.h"
#include "base/random.h"
#include "models/generation/held.h"
#include "support/check.h"
#include "support/layers.h"
#include "support/test_pass.h"

enum { VOCAB = 23, FIRST = 1, DIM = 32, HEADS = 4, WIDE = 320, PROMPT = 301, TOTAL = 340, SEED = 9 };

struct grown {
    struct layer_test base;
    struct model_config config;
    struct model *model;
    const float *values;
    struct inference inference;
    uint32_t ids[FEW_ROWS][TOTAL];
};

static struct model_config usual(void)
{
    return (struct model_config){.vocab_size = VOCAB,
                                 .num_objectives = 1,
                                 .objectives = {{.objective = objective_find("next_token"),
                                                 .weight = 1,
                                                 .num_outputs = VOCAB - FIRST,
                                                 .first_output = FIRST}},
                                 .max_len = TOTAL,
                                 .layers = 2,
                                 .dim = DIM,
                                 .heads = HEADS,
                                 .attention_biases = 1,
                                 .decoder_layers = 1,
                                 .div_value = 2,
                                 .norm_epsilon = 1e-5,
                                 .ffn = WIDE,
                                 .causal = 1,
                                 .initial_std = 0.3};
}

/* False if the mechanisms have no causal form. options: "NAME=VALUE ..." or NULL. */
static bool grown_open(struct grown *t, const struct model_config *config, const char *plan,
                       const char *options, int threads)
{
    layer_test_open(&t->base, threads);
    t->config = *config;
    check_status(&t->base.host, head_plan_new(&t->base.host, plan, &t->config.plan), HASHATTN_OK, NULL);
    check_status(&t->base.host, head_plan_preset(&t->base.host, &t->config.plan, options), HASHATTN_OK, NULL);
    for (size_t i = 0; i < t->config.plan.num_used; i++) {
        const struct planned *used = &t->config.plan.used[i];
        if (used->mechanism->hashing != NULL && used->mechanism->hashing->settle != NULL)
            used->mechanism->hashing->settle(t->base.kernels, used->options);
    }
    if (model_new(&t->base.host, &t->config, &t->model) != HASHATTN_OK) {
        head_plan_free(&t->base.host, &t->config.plan);
        layer_test_close(&t->base);
        return false;
    }
    check_status(&t->base.host, model_fit(&t->base.host, t->model, TOTAL), HASHATTN_OK, NULL);
    t->base.params = *model_params(t->model);
    layer_test_start(&t->base, 5);
    t->values = layer_test_pack(&t->base, false);
    t->inference = (struct inference){.kernels = t->base.kernels,
                                      .pool = t->base.pool,
                                      .model = t->model,
                                      .values = t->values,
                                      .seed = SEED};
    struct random random = random_open(3);
    for (size_t i = 0; i < TOTAL; i++)
        t->ids[0][i] = FIRST + random_below(&random, VOCAB - FIRST);
    for (size_t s = 1; s < FEW_ROWS; s++)
        for (size_t i = 0; i < TOTAL; i++)
            t->ids[s][i] = i < PROMPT ? t->ids[0][i] : FIRST + random_below(&random, VOCAB - FIRST);
    return true;
}

static void grown_close(struct grown *t)
{
    memset(&t->base.params, 0, sizeof t->base.params); /* the model's */
    model_free(&t->base.host, t->model);
    head_plan_free(&t->base.host, &t->config.plan);
    layer_test_close(&t->base);
}

/* logits (VOCAB - FIRST), in double, after the last of n tokens, from a pass over all of them. */
static void whole_logits(struct grown *t, const uint32_t *ids, size_t n, double *logits)
{
    struct test_pass pass = {.pass = NULL};
    const size_t offsets[] = {0, n};
    const struct model_batch batch = {.kernels = t->base.kernels,
                                      .pool = t->base.pool,
                                      .num_sequences = 1,
                                      .offsets = offsets,
                                      .input = {.ids = ids},
                                      .random_key = random_key(SEED, RANDOM_EVALUATION, 0)};
    test_pass_open(&pass, &t->base.host, t->model, &batch, t->values);
    model_forward(pass.pass);
    const float *x = model_rows(pass.pass) + (n - 1) * DIM;
    const float *table =
        t->values + param_named(&t->base.params, "embeddings.word_embeddings.weight")->offset;
    const float *bias = t->values + param_named(&t->base.params, "lm_head.bias")->offset;
    for (size_t w = 0; w < VOCAB - FIRST; w++) {
        logits[w] = (double)bias[w];
        for (size_t c = 0; c < DIM; c++)
            logits[w] += (double)x[c] * (double)table[(w + FIRST) * DIM + c];
    }
    test_pass_close(&pass);
}

/* The largest difference of any score to the whole sequences'. */
static double largest_error(struct grown *t, struct generation *g, size_t sequences, size_t n)
{
    double logits[VOCAB - FIRST], worst = 0;
    for (size_t s = 0; s < sequences; s++) {
        whole_logits(t, t->ids[s], n, logits);
        for (size_t w = 0; w < VOCAB - FIRST; w++) {
            double error = fabs((double)generation_scores(g)[s * (VOCAB - FIRST) + w] - logits[w]);
            worst = error <= worst ? worst : error; /* keeps NaN */
        }
    }
    return worst;
}

static struct generation *new_generation(struct grown *t, size_t sequences, size_t context)
{
    struct generation *g;
    check_status(&t->base.host, generation_new(&t->base.host, &t->inference, sequences, context, &g),
                 HASHATTN_OK, NULL);
    assert_int_equal(generation_count(g), VOCAB - FIRST);
    assert_int_equal(generation_first(g), FIRST);
    return g;
}

static void append(struct grown *t, struct generation *g, size_t sequences, size_t at)
{
    uint32_t ids[FEW_ROWS];
    for (size_t s = 0; s < sequences; s++)
        ids[s] = t->ids[s][at];
    check_status(&t->base.host, generation_append(&t->base.host, g, ids), HASHATTN_OK, NULL);
}

/* Grows from PROMPT to TOTAL tokens and compares after the prompt, the first tokens and the last ones. */
static void check_grown(struct grown *t, size_t sequences, double bound, const char *what)
{
    struct generation *g = new_generation(t, sequences, TOTAL);
    check_status(&t->base.host, generation_read(&t->base.host, g, t->ids[0], PROMPT), HASHATTN_OK, NULL);
    double worst = largest_error(t, g, sequences, PROMPT);
    for (size_t n = PROMPT; n < TOTAL; n++) {
        append(t, g, sequences, n);
        if (n < PROMPT + 3 || n % 16 < 2 || n + 2 > TOTAL)
            worst = fmax(worst, largest_error(t, g, sequences, n + 1));
    }
    check_near(worst, 0, bound, what);
    generation_free(&t->base.host, g);
}

/* ---- mechanisms --------------------------------------------------------------------------------------- */

static void every_causal_mechanism(void **state)
{
    (void)state;
    size_t held[4] = {0};
    for (const struct mechanism *const *m = attention_mechanisms(); *m != NULL; m++) {
        const struct model_config config = usual();
        struct grown t;
        if (!grown_open(&t, &config, (*m)->name, NULL, 2))
            continue;
        enum held_kind kind = held_kind(*m, t.config.plan.used[0].options, DIM / HEADS);
        held[kind]++;
        struct generation *g = new_generation(&t, 1, TOTAL);
        if (kind == HELD_NOTHING)
            assert_string_equal(generation_recomputes(g), (*m)->name);
        else
            assert_null(generation_recomputes(g));
        generation_free(&t.base.host, g);
        check_grown(&t, 1, 1e-4, (*m)->name);
        grown_close(&t);
    }
    assert_int_equal(held[HELD_STATE], 5);
    assert_true(held[HELD_KEYS] == 2 && held[HELD_ROW] == 1);
    assert_true(held[HELD_NOTHING] >= 3);
}

static void options_of_mechanisms(void **state)
{
    (void)state;
    static const struct {
        const char *plan, *options;
        bool recomputes;
    } cases[] = {
        {"rfa", "gate=true", false},
        {"local", "block_size=7", false},
        {"local", "relative=true block_size=16", true},
        {"yoso", "num_hashes=8 hash_bits=4 normalize=sum", false},
        {"performer", "num_features=16", false},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const struct model_config config = usual();
        struct grown t;
        assert_true(grown_open(&t, &config, cases[i].plan, cases[i].options, 1));
        struct generation *g = new_generation(&t, 1, TOTAL);
        assert_int_equal(generation_recomputes(g) != NULL, cases[i].recomputes);
        generation_free(&t.base.host, g);
        check_grown(&t, 1, 1e-4, cases[i].options);
        grown_close(&t);
    }
}

static void mixed_heads(void **state)
{
    (void)state;
    static const char *const plans[] = {"softmax*1,yoso*2,local*1", "linear*2,rfa*2/none*1,yoso*3",
                                        "yoso*1,softmax*2,yoso*1", "softmax*3,lha*1"};
    for (size_t i = 0; i < sizeof plans / sizeof *plans; i++) {
        const struct model_config config = usual();
        struct grown t;
        assert_true(grown_open(&t, &config, plans[i], NULL, 2));
        check_grown(&t, 3, 1e-4, plans[i]);
        grown_close(&t);
    }
}

/* ---- the model ---------------------------------------------------------------------------------------- */

static void kinds_of_models(void **state)
{
    (void)state;
    for (int norm = BLOCK_PRE_NORM; norm <= BLOCK_POST_NORM; norm++)
        for (int positions = POSITIONS_LEARNED; positions <= POSITIONS_LAYERED; positions++) {
            struct model_config config = usual();
            char what[80];
            struct grown t;
            config.norm = norm;
            config.positions = positions;
            config.activation = norm == BLOCK_PRE_NORM ? FFN_GELU : FFN_RELU;
            config.attention_biases = norm == BLOCK_PRE_NORM;
            config.position_offset = positions == POSITIONS_LEARNED ? 2 : 0;
            snprintf(what, sizeof what, "%s, %s", block_norms[norm], position_names[positions]);
            assert_true(grown_open(&t, &config, "softmax*2,yoso*2", NULL, 1));
            check_grown(&t, 2, 1e-4, what);
            grown_close(&t);
        }
}

/* Rounding to bfloat16 has 8 bits: two ways to sum differ by more. */
static void bf16_models(void **state)
{
    (void)state;
    struct model_config config = usual();
    struct grown t;
    config.precision = PRECISION_BF16;
    assert_true(grown_open(&t, &config, "softmax", NULL, 1));
    check_grown(&t, 2, 0.05, "bf16");
    grown_close(&t);
}

/* The scores after every token, of `sequences` sequences. */
static float *all_scores(const struct model_config *config, const char *plan, int threads, size_t sequences)
{
    struct grown t;
    size_t width = sequences * (VOCAB - FIRST);
    float *scores = malloc((TOTAL - PROMPT + 1) * width * sizeof *scores);
    assert_true(grown_open(&t, config, plan, NULL, threads));
    struct generation *g = new_generation(&t, sequences, TOTAL);
    check_status(&t.base.host, generation_read(&t.base.host, g, t.ids[0], PROMPT), HASHATTN_OK, NULL);
    memcpy(scores, generation_scores(g), width * sizeof *scores);
    for (size_t n = PROMPT; n < TOTAL; n++) {
        append(&t, g, sequences, n);
        memcpy(scores + (n - PROMPT + 1) * width, generation_scores(g), width * sizeof *scores);
    }
    generation_free(&t.base.host, g);
    grown_close(&t);
    return scores;
}

/* A sequence has the same bits alone and beside others, with any number of threads. */
static void threads_and_company_change_no_bit(void **state)
{
    (void)state;
    const struct model_config config = usual();
    const char *plan = "softmax*1,yoso*1,performer*1,local*1";
    float *alone = all_scores(&config, plan, 1, 1), *threads = all_scores(&config, plan, 3, 1);
    float *many = all_scores(&config, plan, 3, FEW_ROWS);
    size_t width = VOCAB - FIRST;
    check_same_bits(alone, threads, (TOTAL - PROMPT + 1) * width * sizeof *alone, "threads");
    for (size_t i = 0; i <= TOTAL - PROMPT; i++)
        check_same_bits(alone + i * width, many + i * FEW_ROWS * width, width * sizeof *alone, "company");
    free(alone);
    free(threads);
    free(many);
}

/* A prompt replaces the tokens before it. A prompt of one token. */
static void a_prompt_begins_anew(void **state)
{
    (void)state;
    const struct model_config config = usual();
    struct grown t;
    assert_true(grown_open(&t, &config, "yoso*2,softmax*2", NULL, 1));
    struct generation *g = new_generation(&t, 1, TOTAL);
    check_status(&t.base.host, generation_read(&t.base.host, g, t.ids[1] + PROMPT, 30), HASHATTN_OK, NULL);
    append(&t, g, 1, 0);
    check_status(&t.base.host, generation_read(&t.base.host, g, t.ids[0], 1), HASHATTN_OK, NULL);
    for (size_t n = 1; n < 20; n++) {
        check_near(largest_error(&t, g, 1, n), 0, 1e-4, "after a second prompt");
        append(&t, g, 1, n);
    }
    generation_free(&t.base.host, g);
    grown_close(&t);
}

/* ---- refusals ----------------------------------------------------------------------------------------- */

static void what_is_refused(void **state)
{
    (void)state;
    struct model_config config = usual();
    struct grown t;
    struct generation *g;
    assert_true(grown_open(&t, &config, "softmax", NULL, 1));
    struct host *host = &t.base.host;
    check_status(host, generation_new(host, &t.inference, 1, TOTAL + 1, &g), HASHATTN_INVALID,
                 "a context of 341 tokens is needed, the model has positions for 340");
    g = new_generation(&t, 1, 4);
    check_status(host, generation_read(host, g, t.ids[0], 5), HASHATTN_INVALID,
                 "the prompt has 5 tokens, the context 4");
    check_status(host, generation_read(host, g, (const uint32_t[]){VOCAB}, 1), HASHATTN_INVALID, "has id 23");
    check_status(host, generation_read(host, g, t.ids[0], 4), HASHATTN_OK, NULL);
    check_status(host, generation_append(host, g, t.ids[0]), HASHATTN_INVALID,
                 "the context of 4 tokens is full");
    generation_free(host, g);
    g = new_generation(&t, 1, 4);
    check_status(host, generation_read(host, g, t.ids[0], 3), HASHATTN_OK, NULL);
    check_status(host, generation_append(host, g, (const uint32_t[]){VOCAB}), HASHATTN_INVALID,
                 "token 3 is id 23, ids are 0 to 22");
    generation_free(host, g);
    grown_close(&t);
    config.objectives[0] =
        (struct model_objective){.objective = objective_find("classify"), .weight = 1, .num_outputs = 3};
    assert_true(grown_open(&t, &config, "softmax", NULL, 1));
    check_status(host, generation_new(host, &t.inference, 1, TOTAL, &g), HASHATTN_REFUSED,
                 "does not predict the next token");
    grown_close(&t);
}

/* Failing allocations leave nothing behind. */
static void memory_may_run_out(void **state)
{
    (void)state;
    static const char *const plans[] = {"yoso*2,softmax*2", "lha"};
    for (size_t i = 0; i < 2; i++) {
        const struct model_config config = usual();
        struct grown t;
        hashattn_status status = HASHATTN_NO_MEMORY;
        assert_true(grown_open(&t, &config, plans[i], NULL, 1));
        for (long n = 0; status != HASHATTN_OK; n++) {
            struct failing_host failing;
            struct generation *g;
            failing_host_init(&failing, n);
            status = generation_new(&failing.host, &t.inference, 2, 20, &g);
            if (status == HASHATTN_OK)
                status = generation_read(&failing.host, g, t.ids[0], 10);
            if (status == HASHATTN_OK)
                status = generation_append(&failing.host, g, t.ids[0]);
            assert_true(status == HASHATTN_OK || status == HASHATTN_NO_MEMORY);
            generation_free(&failing.host, g);
            assert_int_equal(failing.outstanding, 0);
        }
        grown_close(&t);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_causal_mechanism),
        cmocka_unit_test(options_of_mechanisms),
        cmocka_unit_test(mixed_heads),
        cmocka_unit_test(kinds_of_models),
        cmocka_unit_test(bf16_models),
        cmocka_unit_test(threads_and_company_change_no_bit),
        cmocka_unit_test(a_prompt_begins_anew),
        cmocka_unit_test(what_is_refused),
        cmocka_unit_test(memory_may_run_out),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
