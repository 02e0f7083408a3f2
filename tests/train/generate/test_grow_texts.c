/* Texts of a model whose numbers are random: a text depends on the seed and its index, not on the texts
   beside it or on threads; more texts than grow together; a context longer than in training; scores that are
   not finite. Bugs planted and caught: the key of a text by its place in the group; the second group without
   a prompt of its own; a text that grows after its end.
   SPDX-License-Identifier: Apache-2.0 */
#include "train/generate/grow_texts.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "nn/few_rows.h"
#include "support/check.h"
#include "support/layers.h"
#include "tasks/running_text.h"

enum { TEXTS = 2 * FEW_ROWS + 3, TOKENS = 24, ROOM = 4 * TOKENS };

struct grow_case {
    struct layer_test base;
    struct run_config config;
    struct model *model;
    struct session session;
};

static void open_case(struct grow_case *c, int positions, int threads)
{
    memset(c, 0, sizeof *c);
    layer_test_open(&c->base, threads);
    c->config.task = task_find("lm");
    c->config.facts = (struct task_facts){.vocab_size = RUNNING_BYTES_VOCAB, .max_len = 16, .bytes = true};
    c->config.model = (struct model_config){.vocab_size = RUNNING_BYTES_VOCAB,
                                            .num_objectives = 1,
                                            .objectives = {{.objective = objective_find("next_token"),
                                                            .weight = 1,
                                                            .num_outputs = 256,
                                                            .first_output = RUNNING_FIRST_ID}},
                                            .max_len = 16,
                                            .layers = 1,
                                            .dim = 16,
                                            .heads = 2,
                                            .decoder_layers = 1,
                                            .div_value = 2,
                                            .norm_epsilon = 1e-5,
                                            .ffn = 16,
                                            .causal = 1,
                                            .positions = positions};
    struct host *host = &c->base.host;
    check_status(host, head_plan_new(host, "softmax", &c->config.model.plan), HASHATTN_OK, NULL);
    check_status(host, model_new(host, &c->config.model, &c->model), HASHATTN_OK, NULL);
    c->base.params = *model_params(c->model);
    layer_test_start(&c->base, 5);
    check_status(host, session_open(host, c->model, &c->session), HASHATTN_OK, NULL);
    session_pack(&c->session, c->base.kernels, c->base.pool, c->base.values);
}

static void close_case(struct grow_case *c)
{
    struct host *host = &c->base.host;
    session_close(host, &c->session);
    memset(&c->base.params, 0, sizeof c->base.params); /* the model's */
    model_free(host, c->model);
    head_plan_free(host, &c->config.model.plan);
    layer_test_close(&c->base);
}

struct texts {
    char bytes[TEXTS][ROOM];
    size_t sizes[TEXTS], tokens[TEXTS], done;
};

static bool keep(void *user, const struct grown_token *grown)
{
    struct texts *texts = user;
    size_t *size = &texts->sizes[grown->text];
    assert_true(*size + grown->added.size <= ROOM);
    memcpy(texts->bytes[grown->text] + *size, grown->added.bytes, grown->added.size);
    *size += grown->added.size;
    texts->tokens[grown->text] = grown->tokens;
    texts->done += grown->done;
    return false;
}

static void grow(struct grow_case *c, size_t num, size_t tokens, struct piece stop, struct texts *texts)
{
    const struct train_setup setup = {.kernels = c->base.kernels, .pool = c->base.pool};
    const struct grow_options options = {.num_texts = num,
                                         .max_tokens = tokens,
                                         .rules = {8, 0, 1},
                                         .seed = 4,
                                         .stops = &stop,
                                         .num_stops = stop.size > 0};
    memset(texts, 0, sizeof *texts);
    check_status(&c->base.host, grow_texts_check(&c->base.host, &c->config, &options), HASHATTN_OK, NULL);
    check_status(&c->base.host,
                 grow_texts(&c->base.host, &setup, &c->config, &c->session, (struct piece){"ab", 2}, &options,
                            keep, texts),
                 HASHATTN_OK, NULL);
}

static void texts_do_not_depend_on_their_company(void **state)
{
    (void)state;
    static struct texts many, few;
    const struct piece none = {"", 0};
    struct grow_case c;
    open_case(&c, POSITIONS_SINUSOIDAL, 3);
    grow(&c, TEXTS, TOKENS, none, &many); /* longer than in training */
    assert_int_equal(many.done, TEXTS);
    for (size_t i = 0; i < TEXTS; i++) {
        assert_int_equal(many.tokens[i], TOKENS);
        for (size_t k = 0; k < i; k++)
            assert_true(many.sizes[i] != many.sizes[k] ||
                        memcmp(many.bytes[i], many.bytes[k], many.sizes[i]) != 0);
    }
    grow(&c, TEXTS, TOKENS, none, &few);
    check_same_bits(&few, &many, sizeof few, "the same call");
    close_case(&c);
    for (size_t num = 1; num < TEXTS; num += 7) {
        open_case(&c, POSITIONS_SINUSOIDAL, 1);
        grow(&c, num, TOKENS, none, &few);
        check_same_bits(few.bytes, many.bytes, num * ROOM, "fewer texts, fewer threads");
        close_case(&c);
    }
}

/* A stopped text is the beginning of the one that is not stopped; others go on. */
static void a_stopped_text_leaves_others_alone(void **state)
{
    (void)state;
    static struct texts whole, stopped;
    struct grow_case c;
    open_case(&c, POSITIONS_NONE, 1);
    grow(&c, TEXTS, TOKENS, (struct piece){"", 0}, &whole);
    char at = 0; /* an ASCII byte of a text, not its first */
    for (size_t k = 1; k < whole.sizes[2] && at == 0; k++)
        at = (unsigned char)whole.bytes[2][k] < 0x80 ? whole.bytes[2][k] : 0;
    assert_true(at != 0);
    grow(&c, TEXTS, TOKENS, (struct piece){&at, 1}, &stopped);
    assert_int_equal(stopped.done, TEXTS);
    assert_true(stopped.tokens[2] < TOKENS);
    for (size_t i = 0; i < TEXTS; i++) {
        const char *end = memchr(whole.bytes[i], at, whole.sizes[i]);
        size_t size = end == NULL ? whole.sizes[i] : (size_t)(end - whole.bytes[i]);
        assert_true(stopped.sizes[i] == size && memcmp(stopped.bytes[i], whole.bytes[i], size) == 0);
    }
    close_case(&c);
}

static void scores_must_be_finite(void **state)
{
    (void)state;
    static struct texts texts;
    struct grow_case c;
    open_case(&c, POSITIONS_NONE, 1);
    float *bias = c.base.values + param_named(&c.base.params, "lm_head.bias")->offset;
    bias[7] = NAN;
    session_pack(&c.session, c.base.kernels, c.base.pool, c.base.values);
    const struct train_setup setup = {.kernels = c.base.kernels, .pool = c.base.pool};
    const struct grow_options options = {.num_texts = 1, .max_tokens = 3, .rules = {0, 0, 1}};
    memset(&texts, 0, sizeof texts);
    check_status(&c.base.host,
                 grow_texts(&c.base.host, &setup, &c.config, &c.session, (struct piece){"ab", 2}, &options,
                            keep, &texts),
                 HASHATTN_FAILED, "the score of id 8 after 2 tokens is not finite");
    close_case(&c);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(texts_do_not_depend_on_their_company),
        cmocka_unit_test(a_stopped_text_leaves_others_alone),
        cmocka_unit_test(scores_must_be_finite),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
