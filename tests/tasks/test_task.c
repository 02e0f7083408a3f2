/* The table of tasks: complete rows, unique names, presets that a trainer can use.
   Covers: task.c task_table.c
   Bugs planted and caught: the first label everywhere, labels without their NUL, no objective, an objective
   written over the last one, a preset of an option that no mechanism has, numbers of presets one off.
   SPDX-License-Identifier: Apache-2.0 */
#include "tasks/task.h"

#include <string.h>

#include "attention/driver/attention.h"
#include "support/check.h"
#include "support/option_range.h"
#include "tasks/words.h"

/* Each OPTION=VALUE belongs to at least one mechanism, and every mechanism with the option accepts the
   value. */
static void check_attention(const char *text)
{
    char copy[200], *at = copy;
    size_t length;
    assert_true(text == NULL || strlen(text) < sizeof copy);
    strcpy(copy, text == NULL ? "" : text);
    for (; (length = strcspn(at, " ")) > 0; at += strspn(at, " ")) {
        char *name = at, *value = memchr(at, '=', length);
        bool more = at[length] != '\0';
        at += length + more;
        assert_non_null(value);
        name[length] = *value++ = '\0';
        size_t taken = 0;
        for (const struct mechanism *const *all = attention_mechanisms(); *all != NULL; all++) {
            uint64_t options[64];
            struct host host;
            host_init(&host);
            assert_true((*all)->options_size <= sizeof options);
            options_preset((*all)->options, options);
            const struct option_row *row = attention_option(*all, name);
            if (row == NULL)
                continue;
            check_status(&host, option_set(&host, (*all)->options, (*all)->name, options, row->name, value),
                         HASHATTN_OK, NULL);
            taken++;
        }
        assert_true(taken > 0);
    }
}

static void check_preset(const struct task_preset *preset)
{
    assert_true(preset->steps > preset->warmup && preset->warmup > 0);
    assert_true(preset->batch > 0 && preset->eval_every > 0 && preset->eval_every <= preset->steps);
    assert_true(preset->learning_rate > 0 && preset->learning_rate < 0.1);
    assert_true(preset->layers > 0 && preset->heads > 0 && preset->dim % preset->heads == 0);
    assert_true(preset->ffn > 0);
    check_attention(preset->attention);
    assert_true(strcmp(preset->pooling, "mean") == 0 || strcmp(preset->pooling, "mean-padded") == 0 ||
                strcmp(preset->pooling, "first") == 0);
}

static void every_row_is_complete(void **state)
{
    (void)state;
    size_t count = 0;
    for (const struct task *const *task = task_table; *task != NULL; task++, count++) {
        const struct task *one = *task;
        assert_ptr_equal(task_find(one->name), one);
        assert_true(strlen(one->summary) > 10);
        assert_non_null(one->facts);
        assert_non_null(one->load);
        check_preset(&one->preset);
        for (const struct task_preset *row = one->presets; row != NULL && row->name != NULL; row++) {
            check_preset(row);
            assert_ptr_equal(task_preset_find(one, row->name), row);
        }
        assert_null(task_preset_find(one, "none"));
        for (const struct option_row *row = one->options; row->name != NULL; row++) {
            size_t bytes = row->type == OPTION_INT || row->type == OPTION_REAL ? sizeof(int64_t)
                           : row->type == OPTION_TEXT                          ? OPTION_TEXT_SIZE
                                                                               : sizeof(int);
            assert_true(row->offset + bytes <= one->options_size);
            assert_ptr_equal(option_find(one->options, row->name), row);
            assert_true(row->type == OPTION_CHOICE || row->type == OPTION_FLAG || row->type == OPTION_TEXT ||
                        (row->preset >= row->minimum && row->preset <= row->maximum));
            assert_true(strlen(row->help) > 10);
        }
    }
    assert_int_equal(count, 10);
    assert_null(task_find("listop"));
    assert_null(task_find(""));
    static const char *const splits[SPLIT_COUNT] = {"train", "valid", "test"};
    for (enum split split = 0; split < SPLIT_COUNT; split++)
        assert_string_equal(split_name(split), splits[split]);
}

/* BERT's blocks, initial values, pooler and schedule. */
#define BERT_MODEL    "norm=post classifier=tanh scale_words=false initial_std=0.02 dropout=0.1"
#define BERT_TRAINING "schedule=linear weight_decay=0.01"

/* The preset lra-small of all tasks. */
#define SMALL(steps, warmup, rate, pooling, bits, model, task)                                               \
    {                                                                                                        \
        "lra-small", steps, 32, 100, warmup, rate, 2, 64, 2, 128, pooling, false, YOSO_BITS(bits), model,    \
            NULL, task, NULL                                                                                 \
    }

/* Presets and options, which documents, saved runs and measured results refer to. */
static void presets_are_those_of_the_documents(void **state)
{
    (void)state;
    static const struct {
        const char *task;
        struct task_preset preset;
    } want[] = {
        {"glue",
         {NULL, 1000, 32, 100, 100, 5e-4, 2, 128, 2, 512, "first", false, YOSO_BITS(7),
          "norm=post classifier=tanh scale_words=false initial_std=0.02 dropout=0.1",
          "schedule=linear weight_decay=0.01", NULL, NULL}},
        {"forecast",
         {"informer", 1600, 32, 100, 1, 1e-4, 2, 512, 8, 2048, "mean", false, YOSO_BITS(5),
          "norm=post positions=sinusoidal dropout=0.05 distil=true", "schedule=halving clip=0",
          "model=informer split_by=months seq_len=48 label_len=48 horizon=24",
          "probsparse/probsparse/probsparse/softmax"}},
        {"image",
         {NULL, 2000, 32, 100, 100, 1e-3, 2, 64, 2, 128, "mean", false, YOSO_BITS(8), NULL, NULL, NULL,
          NULL}},
        {"image",
         {"lra", 35000, 256, 175, 175, 1e-4, 2, 64, 2, 128, "mean-padded", false, YOSO_BITS(10), LRA_MODEL,
          LRA_TRAINING, NULL, NULL}},
        {"image", SMALL(1200, 50, 2e-3, "mean", 8, NULL, "shrink=2")},
        {"listops", SMALL(5000, 50, 2e-3, "mean", 7, "dropout=0", "max_len=100")},
        {"pathfinder", SMALL(1200, 100, 1e-3, "mean", 8, "dropout=0", NULL)},
        {"retrieval", SMALL(1000, 50, 1e-3, "first", 7, NULL, "tokens=bytes max_len=64")},
        {"text", SMALL(600, 50, 2e-3, "first", 7, NULL, "tokens=bpe vocab_size=4000 max_len=128")},
        {"listops",
         {NULL, 2000, 32, 100, 100, 5e-4, 2, 64, 2, 128, "mean", false, YOSO_BITS(9), NULL, NULL, NULL,
          NULL}},
        {"listops",
         {"lra", 5000, 32, 50, 1000, 1e-4, 2, 64, 2, 128, "mean-padded", false, YOSO_BITS(11), LRA_MODEL,
          LRA_TRAINING, NULL, NULL}},
        {"lm",
         {NULL, 2000, 16, 200, 100, 2e-3, 4, 128, 4, 512, "mean", true, YOSO_BITS(6), NULL, NULL, NULL,
          NULL}},
        {"lm",
         {"lha-lm", 20000, 32, 1000, 2000, 3.5e-4, 16, 410, 10, 2100, "mean", true,
          "local.relative=true local.block_size=128 lha.num_buckets=4 " YOSO_BITS(6),
          "activation=relu attention_biases=false norm=post norm_epsilon=1e-6 positions=layered dropout=0.2 "
          "initial_std=0.02",
          "schedule=cosine", "vocabulary=words max_words=1048575 seq_len=1536", "local,lha"}},
        {"mlm",
         {NULL, 2000, 32, 200, 200, 1e-3, 2, 128, 2, 512, "first", false, YOSO_BITS(7), BERT_MODEL,
          BERT_TRAINING, NULL, NULL}},
        {"mlm",
         {"bert", 1000000, 256, 1000, 10000, 1e-4, 12, 768, 12, 3072, "first", false, YOSO_BITS(9),
          BERT_MODEL, BERT_TRAINING, NULL, NULL}},
        {"needle",
         {NULL, 1000, 32, 100, 50, 1e-3, 2, 64, 2, 128, "first", false, YOSO_BITS(8), NULL, NULL, NULL,
          NULL}},
        {"pathfinder",
         {NULL, 10000, 32, 500, 500, 1e-3, 2, 64, 2, 128, "mean", false, YOSO_BITS(8), NULL, NULL, NULL,
          NULL}},
        {"pathfinder",
         {"lra", 62400, 256, 312, 312, 1e-4, 2, 64, 2, 128, "mean-padded", false, YOSO_BITS(10), LRA_MODEL,
          LRA_TRAINING, NULL, NULL}},
        {"retrieval",
         {NULL, 2000, 8, 100, 100, 1e-3, 2, 64, 2, 128, "mean", false, YOSO_BITS(9), NULL, NULL, NULL, NULL}},
        {"retrieval",
         {"lra", 30000, 32, 300, 800, 1e-4, 2, 64, 2, 128, "mean-padded", false, YOSO_BITS(12), LRA_MODEL,
          LRA_TRAINING, "tokens=bytes", NULL}},
        {"text",
         {NULL, 1000, 32, 100, 100, 3e-3, 1, 64, 2, 128, "mean", false, YOSO_BITS(5),
          "conv_window=3 dropout=0.3", "weight_decay=0.1 beta2=0.98 epsilon=1e-5", NULL, NULL}},
        {"text",
         {"lra", 20000, 32, 500, 8000, 1e-4, 2, 64, 2, 128, "mean-padded", false, YOSO_BITS(12), LRA_MODEL,
          LRA_TRAINING, "tokens=bytes", NULL}},
    };
    size_t named = 0;
    for (const struct task *const *task = task_table; *task != NULL; task++)
        for (const struct task_preset *row = (*task)->presets; row != NULL && row->name != NULL; row++)
            named++;
    assert_int_equal(named, 13);
    for (size_t i = 0; i < sizeof want / sizeof *want; i++) {
        const struct task *task = task_find(want[i].task);
        const struct task_preset *b = &want[i].preset,
                                 *a = b->name == NULL ? &task->preset : task_preset_find(task, b->name);
        assert_true(a->steps == b->steps && a->batch == b->batch && a->eval_every == b->eval_every);
        assert_true(a->warmup == b->warmup && a->learning_rate == b->learning_rate);
        assert_true(a->layers == b->layers && a->dim == b->dim && a->heads == b->heads && a->ffn == b->ffn);
        assert_int_equal(a->causal, b->causal);
        assert_string_equal(a->pooling, b->pooling);
        assert_string_equal(a->attention, b->attention);
        assert_true(b->model == NULL ? a->model == NULL : strcmp(a->model, b->model) == 0);
        assert_true(b->training == NULL ? a->training == NULL : strcmp(a->training, b->training) == 0);
        assert_true(b->task == NULL ? a->task == NULL : strcmp(a->task, b->task) == 0);
        assert_true(b->plan == NULL ? a->plan == NULL : strcmp(a->plan, b->plan) == 0);
    }
}

static void options_have_the_documented_ranges(void **state)
{
    (void)state;
    static const struct {
        const char *task;
        struct option_range rows[16];
    } want[] = {
        {"glue",
         {{"name", OPTION_CHOICE, 0, 0, 0},
          {"max_len", OPTION_INT, 128, 8, 65536},
          {"vocab_size", OPTION_INT, 8192, 261, (1 << 20) - 1}}},
        {"image", {{"input", OPTION_CHOICE, 0, 0, 0}, {"shrink", OPTION_INT, 1, 1, 64}}},
        {"listops",
         {{"min_len", OPTION_INT, 500, 0, 65535},
          {"max_len", OPTION_INT, 2000, 3, 65536},
          {"max_depth", OPTION_INT, 10, 1, 64},
          {"max_args", OPTION_INT, 10, 2, 1000},
          {"check_labels", OPTION_FLAG, 1, 0, 1}}},
        {"lm",
         {{"vocabulary", OPTION_CHOICE, 0, 0, 0},
          {"seq_len", OPTION_INT, 256, 1, 65536},
          {"max_words", OPTION_INT, 65535, 2, WORDS_MOST}}},
        {"mlm", {{"mask_share", OPTION_REAL, 0.15, 0.01, 0.9}}},
        {"needle", {{"seq_len", OPTION_INT, 1024, 2, 1 << 20}, {"marks", OPTION_INT, 0, 0, 1 << 20}}},
        {"pathfinder",
         {{"input", OPTION_CHOICE, 0, 0, 0},
          {"side", OPTION_INT, 32, 16, 128},
          {"contour_length", OPTION_INT, 14, 1, 64},
          {"distractors", OPTION_INT, -1, -1, 1000},
          {"distractor_length", OPTION_INT, 0, 0, 64}}},
        {"retrieval",
         {{"tokens", OPTION_CHOICE, 0, 0, 0},
          {"vocab_size", OPTION_INT, 16000, 261, (1 << 20) - 1},
          {"max_len", OPTION_INT, 0, 0, 65536},
          {"join", OPTION_FLAG, 0, 0, 1},
          {"delimiter", OPTION_TEXT, 0, 1, 63},
          {"encoding", OPTION_CHOICE, 0, 0, 0},
          {"header", OPTION_FLAG, 1, 0, 1}}},
        {"text",
         {{"tokens", OPTION_CHOICE, 0, 0, 0},
          {"vocab_size", OPTION_INT, 16000, 261, (1 << 20) - 1},
          {"max_len", OPTION_INT, 0, 0, 65536},
          {"cut", OPTION_CHOICE, 0, 0, 0},
          {"text_column", OPTION_TEXT, 0, 1, 63},
          {"label_column", OPTION_TEXT, 0, 1, 63},
          {"label_type", OPTION_CHOICE, 0, 0, 0},
          {"multi_label", OPTION_FLAG, 0, 0, 1},
          {"delimiter", OPTION_TEXT, 0, 1, 63},
          {"encoding", OPTION_CHOICE, 0, 0, 0},
          {"header", OPTION_FLAG, 1, 0, 1}}},
    };
    for (size_t i = 0; i < sizeof want / sizeof *want; i++)
        check_option_ranges(task_find(want[i].task)->options, want[i].rows);
    static const struct option_range data[] = {
        {"seq_len", OPTION_INT, 128, 5, 65536}, {"order", OPTION_CHOICE, 3, 0, 0},
        {"long", OPTION_FLAG, 0, 0, 1},         {"documents", OPTION_CHOICE, 0, 0, 0},
        {"duplicates", OPTION_INT, 1, 1, 1000}, {"valid_share", OPTION_REAL, 0.05, 0, 0.5},
        {"test_share", OPTION_REAL, 0, 0, 0.5}, {.name = NULL}};
    check_option_ranges(task_find("mlm")->prepare_options, data);
}

static void facts_are_copied(void **state)
{
    (void)state;
    char first[] = "one label that is the largest block of all", second[] = "";
    const char *const labels[] = {first, second};
    bool done = false;
    for (long n = 0; !done; n++) {
        struct failing_host failing;
        struct task_facts facts;
        failing_host_init(&failing, n);
        hashattn_status status = task_facts_new(&failing.host, 5, 6, labels, 2, &facts);
        done = status == HASHATTN_OK;
        assert_int_equal(status, n < 3 ? HASHATTN_NO_MEMORY : HASHATTN_OK);
        if (done) {
            assert_true(facts.vocab_size == 5 && facts.max_len == 6 && facts.num_classes == 2);
            assert_true(facts.num_objectives == 1 && facts.objectives[0].num_outputs == 2);
            assert_string_equal(facts.objectives[0].name, "classify");
            assert_int_equal(failing.largest, sizeof first);
            first[0] = 'x';
            assert_string_equal(facts.labels[0], "one label that is the largest block of all");
            assert_string_equal(facts.labels[1], "");
            task_facts_free(&failing.host, &facts);
        }
        assert_null(facts.labels);
        assert_int_equal(facts.num_classes, 0);
        assert_int_equal(failing.outstanding, 0);
    }
    struct host host;
    struct task_facts facts;
    host_init(&host);
    check_status(&host, task_facts_new(&host, 5, 6, NULL, 0, &facts), HASHATTN_OK, NULL);
    task_facts_free(&host, &facts);
}

static void objectives_are_listed_in_order(void **state)
{
    (void)state;
    struct task_facts facts = {0};
    static const char *const names[TASK_OBJECTIVES] = {"classify", "next_token", "a", ""};
    for (size_t i = 0; i < TASK_OBJECTIVES; i++)
        task_facts_add(&facts, names[i], 10 + i, i);
    assert_int_equal(facts.num_objectives, TASK_OBJECTIVES);
    for (size_t i = 0; i < TASK_OBJECTIVES; i++) {
        assert_string_equal(facts.objectives[i].name, names[i]);
        assert_true(facts.objectives[i].weight == 1 && facts.objectives[i].num_outputs == 10 + i);
        assert_int_equal(facts.objectives[i].first_output, i);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_row_is_complete),
        cmocka_unit_test(presets_are_those_of_the_documents),
        cmocka_unit_test(options_have_the_documented_ranges),
        cmocka_unit_test(facts_are_copied),
        cmocka_unit_test(objectives_are_listed_in_order),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
