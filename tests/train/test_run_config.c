/* config.json: every option of every task and mechanism comes back, and nothing else is accepted.
   Bugs planted and caught: the defaults of the model not set before its options; a failing range passed over;
   unknown keys of a section or of an option list accepted; a flag written as a number; labels counted but not
   copied; warmup not compared with steps; a foreign projection accepted; the recorded projection read and not
   used; words not written, or lost if the vocabulary has another size; labels beside next tokens, or fewer
   than classes; with mixed heads only the options of the first read; an objective's weight, its first output
   or all objectives but the first lost; an unknown objective passed over; a width of rows, segments, columns
   or bytes lost; a deviation of 0; version 3 read; `from`, `freeze` or `extended_at` written and not read, or
   unbounded; the size of a vocabulary written beside a stored model, or left out without one. Of version 1:
   not read; next tokens that begin at 0, are not causal, or not of bytes; one class whatever the labels.
   Covers: run_facts.c.
   SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/memory.h"
#include "support/check.h"
#include "support/small_run.h"
#include "tasks/words.h"
#include "text/learning/learn_bpe.h"

/* A legal value other than the default, as text. */
static void other_value(const struct option_row *row, char text[64])
{
    switch (row->type) {
    case OPTION_INT:
        snprintf(text, 64, "%.0f", row->preset < row->maximum ? row->preset + 1 : row->minimum);
        if (strcmp(row->name, "plane_pool") == 0) /* not every number is a pool */
            strcpy(text, "31");
        break;
    case OPTION_REAL: /* thirds have no short decimal form */
        snprintf(text, 64, "%.17g", row->minimum + (row->maximum - row->minimum) / 3);
        break;
    case OPTION_CHOICE:
        snprintf(text, 64, "%s", row->choices[row->preset == 0 && row->choices[1] != NULL ? 1 : 0]);
        break;
    case OPTION_FLAG:
        snprintf(text, 64, "%s", row->preset == 0 ? "true" : "false");
        break;
    case OPTION_TEXT:
        snprintf(text, 64, "another %s", row->choices[0]);
        break;
    }
}

static void change_all(struct host *host, const struct option_row *rows, void *values)
{
    for (const struct option_row *row = rows; row->name != NULL; row++) {
        char text[64];
        other_value(row, text);
        check_status(host, option_set(host, rows, "test", values, row->name, text), HASHATTN_OK, NULL);
    }
}

static void check_same_options(const struct option_row *rows, const void *a, const void *b)
{
    for (const struct option_row *row = rows; row->name != NULL; row++) {
        char left[64], right[64];
        option_text(row, a, left, sizeof left);
        option_text(row, b, right, sizeof right);
        if (strcmp(left, right) != 0)
            fail_msg("%s was %s and is %s", row->name, left, right);
    }
}

/* A config of this task and mechanism, with changed options and three labels. */
static void make_config(struct host *host, const struct task *task, const struct mechanism *mechanism,
                        struct run_config *config)
{
    static const char *const labels[] = {"plain", "", "with \"quotes\", \xc3\xa4 and \\"};
    void *block;
    memset(config, 0, sizeof *config);
    config->task = task;
    check_status(host, memory_new_zeroed(host, task->options_size, 1, "o", &config->task_options),
                 HASHATTN_OK, NULL);
    options_preset(task->options, config->task_options);
    change_all(host, task->options, config->task_options);
    check_status(host, memory_new_zeroed(host, 3, sizeof(char *), "l", &block), HASHATTN_OK, NULL);
    config->facts = (struct task_facts){.vocab_size = 300, .num_classes = 3, .max_len = 77, .labels = block};
    task_facts_add(&config->facts, "classify", 3, 0);
    for (size_t i = 0; i < 3; i++) {
        check_status(host, memory_new_zeroed(host, strlen(labels[i]) + 1, 1, "l", &block), HASHATTN_OK, NULL);
        strcpy(block, labels[i]);
        config->facts.labels[i] = block;
    }
    options_preset(model_options, &config->model);
    change_all(host, model_options, &config->model);
    config->model.dim = 5 * config->model.heads; /* each is in its range; together they must fit */
    config->model.conv_window = 3;
    config->model.cutoffs[0] = '\0'; /* of ids, which not every test has */
    config->model.causal = 0;        /* a convolution reads later rows */
    config->model.distil = 0;        /* it needs a decoder */
    if (!mechanism->drops_weights)
        config->model.attention_dropout = 0;
    check_status(host, head_plan_new(host, mechanism->name, &config->model.plan), HASHATTN_OK, NULL);
    void *options = config->model.plan.used[0].options;
    change_all(host, mechanism->options, options);
    if (mechanism_refuses(mechanism, options,
                          &(struct problem_shape){.head_dim = 5, .value_dim = 5, .max_len = 77}) != NULL)
        options_preset(mechanism->options, options); /* changed ones need causal attention */
    options_preset(train_rows, &config->training);
    change_all(host, train_rows, &config->training);
    strcpy(config->data, "some/where else");
}

/* Objective `index` of the facts and of the model. */
static void check_objective(const struct run_config *config, size_t index, const char *name, double weight,
                            size_t num_outputs, size_t first_output)
{
    const struct task_objective *fact = &config->facts.objectives[index];
    const struct model_objective *entry = &config->model.objectives[index];
    assert_true(index < config->facts.num_objectives && index < config->model.num_objectives);
    assert_string_equal(fact->name, name);
    assert_string_equal(entry->objective->name, name);
    assert_true(fact->weight == weight && entry->weight == weight);
    assert_int_equal(fact->num_outputs, num_outputs);
    assert_int_equal(entry->num_outputs, num_outputs);
    assert_int_equal(fact->first_output, first_output);
    assert_int_equal(entry->first_output, first_output);
}

static void every_option_comes_back(void **state)
{
    (void)state;
    struct host host;
    host_init(&host);
    char run[] = "/tmp/hashattn_config_XXXXXX";
    assert_non_null(mkdtemp(run));
    int pairs = 0;
    for (const struct task *const *task = task_table; *task != NULL; task++) {
        for (const struct mechanism *const *m = attention_mechanisms(); *m != NULL; m++, pairs++) {
            struct run_config config, loaded;
            make_config(&host, *task, *m, &config);
            strcpy(config.model.cutoffs, "7");
            strcpy(pairs % 2 == 0 ? config.from : config.freeze,
                   pairs % 2 == 0 ? "/a/model" : "trunk,classifier.dense");
            config.extended_at = pairs % 3;
            check_status(&host, run_config_save(&host, run, &config), HASHATTN_OK, NULL);
            check_status(&host, run_config_load(&host, run, &loaded), HASHATTN_OK, NULL);
            assert_ptr_equal(loaded.task, *task);
            assert_ptr_equal(loaded.model.plan.used[0].mechanism, *m);
            for (const struct option_row *row = (*task)->options; row->name != NULL; row++)
                if (row->learning && config.from[0] != '\0') /* of no use with the ids of a stored model */
                    *(int64_t *)((char *)config.task_options + row->offset) = (int64_t)row->preset;
            check_same_options((*task)->options, config.task_options, loaded.task_options);
            check_same_options(model_options, &config.model, &loaded.model);
            check_same_options((*m)->options, config.model.plan.used[0].options,
                               loaded.model.plan.used[0].options);
            check_same_options(train_rows, &config.training, &loaded.training);
            assert_string_equal(loaded.data, config.data);
            assert_string_equal(loaded.from, pairs % 2 == 0 ? "/a/model" : "");
            assert_string_equal(loaded.freeze, pairs % 2 == 0 ? "" : "trunk,classifier.dense");
            assert_true(loaded.training.settled && loaded.extended_at == pairs % 3);
            assert_int_equal(loaded.facts.vocab_size, 300);
            assert_int_equal(loaded.facts.max_len, 77);
            assert_int_equal(loaded.facts.num_classes, 3);
            for (size_t i = 0; i < 3; i++)
                assert_string_equal(loaded.facts.labels[i], config.facts.labels[i]);
            assert_int_equal(loaded.model.vocab_size, 300);
            assert_int_equal(loaded.model.max_len, 77);
            check_objective(&loaded, 0, "classify", 1, 3, 0);
            assert_int_equal(loaded.model.num_objectives, 1);
            run_config_free(&host, &config);
            run_config_free(&host, &loaded);
        }
    }
    assert_true(pairs >= 3 * 4);
    small_run_remove(run);
}

static const char good[] =
    "{\"format\": \"hashattn run\", \"version\": 1, \"task\": {\"name\": \"needle\", \"options\": "
    "{\"marks\": 8}, "
    "\"facts\": {\"vocab_size\": 34, \"max_len\": 16, \"labels\": [\"a\", \"b\"]}}, \"model\": {\"layers\": "
    "1, "
    "\"pooling\": \"first\", \"dropout\": 0.25}, \"attention\": {\"name\": \"yoso\", \"projection\": "
    "\"f32\", \"options\": "
    "{\"num_hashes\": "
    "4}}, \"training\": {\"steps\": 50, \"warmup\": 20, \"cycle_momentum\": true}, \"data\": \"there\"}";

static hashattn_status parse_changed(struct host *host, const char *from, const char *to,
                                     struct run_config *config)
{
    char text[2048];
    const char *at = strstr(good, from);
    assert_non_null(at);
    snprintf(text, sizeof text, "%.*s%s%s", (int)(at - good), good, to, at + strlen(from));
    return run_config_parse(host, text, strlen(text), config);
}

/* The classes of version 1 are its labels. */
static void what_is_not_named_has_its_default(void **state)
{
    (void)state;
    struct host host;
    host_init(&host);
    struct run_config config;
    check_status(&host, parse_changed(&host, "", "", &config), HASHATTN_OK, NULL);
    assert_true(config.facts.num_objectives == 1 && config.model.num_objectives == 1);
    check_objective(&config, 0, "classify", 1, 2, 0);
    assert_true(!config.model.bytes && !config.model.pairs && !config.model.causal);
    assert_int_equal(config.model.layers, 1);
    assert_true(config.model.dropout == 0.25 && config.model.pooling == POOL_FIRST);
    assert_int_equal(config.model.dim, option_find(model_options, "dim")->preset);
    struct {
        int64_t seq_len, marks;
    } *needle = config.task_options;
    assert_true(needle->seq_len == 1024 && needle->marks == 8);
    assert_int_equal(config.training.steps, 50);
    assert_int_equal(config.training.cycle_momentum, 1);
    assert_int_equal(config.training.batch, option_find(train_rows, "batch")->preset);
    const struct option_row *tau = option_find(config.model.plan.used[0].mechanism->options, "hash_bits");
    char text[64], want[64];
    option_text(tau, config.model.plan.used[0].options, text, sizeof text);
    snprintf(want, sizeof want, "%.0f", tau->preset);
    assert_string_equal(text, want);
    run_config_free(&host, &config);
}

static void what_is_wrong_is_refused_with_its_name(void **state)
{
    (void)state;
    static const struct {
        const char *from, *to, *part;
    } cases[] = {
        {"hashattn run", "another", "format is 'another'"},
        {"\"format\"", "\"formal\"", "format"},
        {"\"version\": 1", "\"version\": 3", "'version' is 3, allowed are 1 to 2"},
        {"\"version\": 1", "\"version\": 0", "'version' is 0, allowed are 1 to 2"},
        {"\"version\": 1", "\"version\": true", "version"},
        {"\"data\"", "\"extra\": 1, \"data\"", "unknown key 'extra'"},
        {"\"data\": \"there\"", "\"data\": 7", "data"},
        {"\"data\"", "\"extended_at\": 51, \"data\"", "'extended_at' is 51, allowed are 1 to 50"},
        {"\"needle\"", "\"haystack\"", "task.name is 'haystack'"},
        {"\"needle\"", "[]", "task.name"},
        {"\"marks\": 8", "\"marks\": -1", "marks is -1"},
        {"\"marks\": 8", "\"marks\": 1e99", "marks"},
        {"\"marks\": 8", "\"marks\": \"8\"", "task.options.marks is a word"},
        {"\"marks\": 8", "\"pins\": 8", "task.options has the unknown key 'pins'"},
        {"\"options\": {\"marks\": 8}", "\"options\": 8", "task.options"},
        {"\"options\": {\"marks\": 8}, ", "", "task.options"},
        {"\"vocab_size\": 34", "\"vocab_size\": 0", "vocab_size"},
        {"\"vocab_size\": 34", "\"vocab_size\": -1",
         "'task.facts.vocab_size' is -1, allowed are 0 to 1048576"},
        {"\"vocab_size\": 34", "\"vocab_size\": 1048577",
         "'task.facts.vocab_size' is 1048577, allowed are 0 to 1048576"},
        {"\"max_len\": 16", "\"max_len\": 0", "'task.facts.max_len' is 0, allowed are 1 to 16777216"},
        {"\"max_len\": 16", "\"max_len\": 16777217", "'task.facts.max_len' is 16777217, allowed are 1"},
        {"\"max_len\": 16", "\"max_len\": 16, \"min_len\": 1", "task.facts has the unknown key 'min_len'"},
        {"[\"a\", \"b\"]", "[]", "classify: there are no classes"},
        {"[\"a\", \"b\"]", "[\"a\", 2]", "labels"},
        {"[\"a\", \"b\"]", "\"a\"", "labels"},
        {"\"layers\": 1", "\"layers\": 0", "layers is 0"},
        {"\"layers\": 1", "\"layers\": 999999999", "layers is 999999999"},
        {"\"layers\": 1", "\"layers\": 1.5", "layers"},
        {"\"layers\": 1", "\"layers\": null", "layers"},
        {"\"layers\": 1", "\"layers\": 1, \"layers\": 2", "layers"},
        {"\"first\"", "\"last\"", "pooling is 'last'"},
        {"\"first\"", "1", "model.pooling is not a word"},
        {"\"dropout\": 0.25", "\"dropout\": -0.25", "dropout is -0.25"},
        {"\"model\"", "\"modal\"", "'modal'"},
        {"\"projection\": \"f32\"", "\"projector\": \"f32\"", "attention has the unknown key 'projector'"},
        {"\"name\": \"needle\"", "\"name\": \"needle\", \"extra\": 1", "task has the unknown key 'extra'"},
        {"\"name\": \"yoso\"", "\"name\": \"yosemite\"", "attention.name is 'yosemite'"},
        {"\"f32\"", "\"bf16-amx\"", "attention: projection is 'bf16-amx', allowed are auto, f32"},
        {"\"f32\"", "\"auto\"", "attention.options.projection is not settled"},
        {"\"num_hashes\": 4", "\"projection\": \"int16-dp\"",
         "attention.projection is 'f32' and attention.options.projection 'int16-dp'"},
        {"\"num_hashes\": 4", "\"num_hashes\": 1000000000", "num_hashes is 1000000000"},
        {"\"num_hashes\": 4", "\"hashes\": 4", "attention.options has the unknown key 'hashes'"},
        {"\"warmup\": 20", "\"warmup\": 51", "warmup is 51, at most the 50"},
        {"\"layers\": 1", "\"heads\": 3", "not a multiple of heads, 3"},
        {"\"layers\": 1", "\"conv_window\": 2", "conv_window is 2"},
        {"\"cycle_momentum\": true", "\"cycle_momentum\": 1", "cycle_momentum"},
        {"\"cycle_momentum\": true", "\"cycle_momentum\": \"true\"", "cycle_momentum is a word"},
        {"\"steps\": 50", "\"steps\": {}", "steps"},
        {"\"there\"}", "\"there\"", ""},
        {"{\"format\"", "[\"format\"", ""},
    };
    struct host host;
    host_init(&host);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct run_config config;
        check_status(&host, parse_changed(&host, cases[i].from, cases[i].to, &config), HASHATTN_BAD_FILE,
                     cases[i].part);
        assert_true(config.task == NULL && config.task_options == NULL && config.facts.labels == NULL &&
                    config.model.plan.num_used == 0);
    }
    char text[8192];
    snprintf(text, sizeof text, "\"%05000d\"", 0);
    struct run_config config;
    char *wide = malloc(sizeof good + sizeof text + 30);
    assert_non_null(wide);
    const char *at = strstr(good, "\"there\"");
    int length = sprintf(wide, "%.*s%s}", (int)(at - good), good, text);
    check_status(&host, run_config_parse(&host, wide, (size_t)length, &config), HASHATTN_BAD_FILE,
                 "data is 5000 bytes long, at most 4095 fit");
    static const char *const keys[] = {"from", "freeze"}, *const messages[] = {
                                                              "from is 5000 bytes long, at most 4095 fit",
                                                              "freeze is 5000 bytes long, at most 1023"};
    for (size_t i = 0; i < 2; i++) {
        length = sprintf(wide, "%.*s\"there\", \"%s\": %s}", (int)(at - good), good, keys[i], text);
        check_status(&host, run_config_parse(&host, wide, (size_t)length, &config), HASHATTN_BAD_FILE,
                     messages[i]);
        length = sprintf(wide, "%.*s\"there\", \"%s\": 1}", (int)(at - good), good, keys[i]);
        check_status(&host, run_config_parse(&host, wide, (size_t)length, &config), HASHATTN_BAD_FILE,
                     keys[i]);
    }
    free(wide);
}

/* As many labels as are allowed, and one more. */
static void labels_are_bounded(void **state)
{
    (void)state;
    enum { MOST = 65536, EACH = 4 };
    struct host host;
    struct run_config config;
    host_init(&host);
    char *text = malloc(sizeof good + (size_t)(MOST + 1) * EACH), *labels = strstr(good, "[\"a\", \"b\"]");
    if (text == NULL || labels == NULL) {
        fail_msg("no memory, or no labels in the text");
        return;
    }
    for (int count = MOST; count <= MOST + 1; count++) {
        char *at = text + sprintf(text, "%.*s[", (int)(labels - good), good);
        for (int i = 0; i < count; i++)
            at += sprintf(at, i == 0 ? "\"a\"" : ",\"a\"");
        strcpy(at, labels + strlen("[\"a\", \"b\""));
        check_status(&host, run_config_parse(&host, text, strlen(text), &config),
                     count > MOST ? HASHATTN_BAD_FILE : HASHATTN_OK,
                     "task.facts.labels has 65537 labels, at most 65536 are allowed");
        assert_int_equal(config.facts.num_classes, count > MOST ? 0 : MOST);
        run_config_free(&host, &config);
    }
    free(text);
}

static int projection_of(const struct run_config *config)
{
    const struct option_row *row = option_find(config->model.plan.used[0].mechanism->options, "projection");
    return *(int *)(void *)((char *)config->model.plan.used[0].options + row->offset);
}

/* The words of a language model are a file of the run; the facts hold their number. */
static void words_are_kept_beside_it(void **state)
{
    (void)state;
    struct host host;
    struct run_config config, loaded;
    host_init(&host);
    char run[] = "/tmp/hashattn_config_XXXXXX", path[64];
    assert_non_null(mkdtemp(run));
    snprintf(path, sizeof path, "%s/vocab.txt", run);
    make_config(&host, task_find("lm"), attention_find("softmax"), &config);
    config.model.conv_window = 0;
    config.model.causal = true;
    task_facts_free(&host, &config.facts);
    config.facts = (struct task_facts){.vocab_size = 5, .max_len = 77, .num_words = 4};
    task_facts_add(&config.facts, "next_token", 4, 1);
    check_status(&host, words_count(&host, "b b a", 5, 10, &config.facts.words), HASHATTN_OK, NULL);
    check_status(&host, run_config_save(&host, run, &config), HASHATTN_OK, NULL);
    check_status(&host, run_config_load(&host, run, &loaded), HASHATTN_OK, NULL);
    check_objective(&loaded, 0, "next_token", 1, 4, 1);
    assert_true(loaded.model.causal && !loaded.model.bytes && loaded.facts.num_words == 4);
    assert_true(loaded.facts.num_classes == 0 && loaded.facts.vocab_size == 5);
    assert_int_equal(words_find(loaded.facts.words, (struct piece){"a", 1}), 4);
    run_config_free(&host, &loaded);
    remove(path);
    check_status(&host, run_config_load(&host, run, &loaded), HASHATTN_BAD_FILE, "vocab.txt");
    run_config_free(&host, &config);
    small_run_remove(run);
}

/* A tokenizer is a file of the run; the facts hold the number of its ids. */
static void a_tokenizer_is_kept_beside_it(void **state)
{
    (void)state;
    static const char bytes[] = "low lower lowest";
    struct host host;
    struct run_config config, loaded;
    struct word_counts counts = {0};
    const struct learn_options learn = {.vocab_size = LEARN_LEAST + 2, .min_frequency = 1};
    const struct task_facts plain = {.vocab_size = LEARN_LEAST + 10, .max_len = 77};
    host_init(&host);
    char run[] = "/tmp/hashattn_config_XXXXXX", path[64];
    assert_non_null(mkdtemp(run));
    snprintf(path, sizeof path, "%s/tokenizer.json", run);
    make_config(&host, task_find("lm"), attention_find("softmax"), &config);
    config.model.conv_window = 0;
    config.model.causal = true;
    task_facts_free(&host, &config.facts);
    config.facts = plain;
    task_facts_add(&config.facts, "next_token", plain.vocab_size, 0);
    check_status(&host, word_counts_add(&host, &counts, (struct piece){bytes, strlen(bytes)}), HASHATTN_OK,
                 NULL);
    check_status(&host, learn_bpe(&host, &counts, &learn, &config.facts.tokenizer), HASHATTN_OK, NULL);
    word_counts_free(&host, &counts);
    config.facts.num_tokens = tokenizer_num_ids(config.facts.tokenizer);
    assert_int_equal(config.facts.num_tokens, LEARN_LEAST + 2);
    check_status(&host, run_config_save(&host, run, &config), HASHATTN_OK, NULL);
    check_status(&host, run_config_load(&host, run, &loaded), HASHATTN_OK, NULL);
    assert_int_equal(loaded.facts.num_tokens, LEARN_LEAST + 2);
    assert_int_equal(tokenizer_num_ids(loaded.facts.tokenizer), LEARN_LEAST + 2);
    run_config_free(&host, &loaded);
    config.facts.num_tokens++;
    check_status(&host, run_config_save(&host, run, &config), HASHATTN_OK, NULL);
    check_status(&host, run_config_load(&host, run, &loaded), HASHATTN_BAD_FILE,
                 "tokenizer.json has 263 tokens, config.json says 264");
    config.facts.num_tokens = plain.vocab_size + 1;
    check_status(&host, run_config_save(&host, run, &config), HASHATTN_OK, NULL);
    check_status(&host, run_config_load(&host, run, &loaded), HASHATTN_BAD_FILE,
                 "task.facts.tokens is 272, more than the vocab_size of 271");
    remove(path);
    run_config_free(&host, &config);
    small_run_remove(run);
}

/* Version 1 had a flag instead of a list of objectives; its models were causal without an option. */
static void next_tokens_of_version_1_are_read(void **state)
{
    (void)state;
    struct host host;
    struct run_config config;
    host_init(&host);
    static const struct {
        const char *to, *part; /* NULL: accepted */
        bool bytes;
    } cases[] = {
        {"\"vocab_size\": 34, \"next_token\": true, \"labels\": []", NULL, true},
        {"\"vocab_size\": 34, \"next_token\": true, \"words\": 33, \"labels\": []", NULL, false},
        {"\"vocab_size\": 34, \"next_token\": true, \"words\": 34, \"labels\": []",
         "words is 34 with a vocab", false},
        {"\"vocab_size\": 34, \"next_token\": true, \"words\": 1, \"labels\": []",
         "'task.facts.words' is 1, allowed are 2 to 1048575", false},
        {"\"vocab_size\": 34, \"next_token\": true, \"labels\": [\"a\"]",
         "task.facts.labels has 1 labels, the model has 0 classes", false},
        {"\"vocab_size\": 34, \"next_token\": 1, \"labels\": []", "next_token", false},
        {"\"vocab_size\": 34, \"next_token\": true, \"pairs\": true, \"labels\": []", "two sequences", false},
        {"\"vocab_size\": 34, \"next_token\": false, \"labels\": []", "there are no classes", false},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        char facts[200];
        snprintf(facts, sizeof facts, "%s, \"max_len\": 16", cases[i].to);
        hashattn_status status = parse_changed(
            &host, "\"vocab_size\": 34, \"max_len\": 16, \"labels\": [\"a\", \"b\"]", facts, &config);
        check_status(&host, status, cases[i].part == NULL ? HASHATTN_OK : HASHATTN_BAD_FILE, cases[i].part);
        if (status != HASHATTN_OK)
            continue;
        check_objective(&config, 0, "next_token", 1, 33, 1);
        assert_true(config.model.causal == 1 && config.facts.bytes == cases[i].bytes &&
                    config.model.bytes == cases[i].bytes);
        assert_int_equal(config.facts.num_classes, 0);
        run_config_free(&host, &config);
    }
    /* Classes with the flag present but not set. */
    check_status(&host,
                 parse_changed(&host, "\"max_len\": 16", "\"max_len\": 16, \"next_token\": false", &config),
                 HASHATTN_OK, NULL);
    check_objective(&config, 0, "classify", 1, 2, 0);
    run_config_free(&host, &config);
}

/* Rows of floats with segments; and ids with two objectives, in this order and with these weights. */
static void facts_of_every_kind_come_back(void **state)
{
    (void)state;
    struct host host;
    struct run_config config, loaded;
    host_init(&host);
    char run[] = "/tmp/hashattn_config_XXXXXX";
    assert_non_null(mkdtemp(run));
    make_config(&host, task_find("needle"), attention_find("yoso"), &config);
    struct task_facts *facts = &config.facts;
    facts->vocab_size = 0;
    facts->row_width = 40;
    facts->num_segments = 3;
    facts->pairs = true;
    facts->objectives[0].weight = 1.0 / 3;
    check_status(&host, run_config_save(&host, run, &config), HASHATTN_OK, NULL);
    check_status(&host, run_config_load(&host, run, &loaded), HASHATTN_OK, NULL);
    check_objective(&loaded, 0, "classify", 1.0 / 3, 3, 0);
    assert_true(loaded.facts.vocab_size == 0 && loaded.facts.row_width == 40 &&
                loaded.facts.num_segments == 3);
    assert_true(loaded.model.vocab_size == 0 && loaded.model.row_width == 40 &&
                loaded.model.num_segments == 3);
    assert_true(loaded.facts.pairs && loaded.model.pairs && !loaded.facts.bytes);
    run_config_free(&host, &loaded);
    facts->row_width = facts->num_segments = 1; /* the least that is written */
    check_status(&host, run_config_save(&host, run, &config), HASHATTN_OK, NULL);
    check_status(&host, run_config_load(&host, run, &loaded), HASHATTN_OK, NULL);
    assert_true(loaded.facts.row_width == 1 && loaded.facts.num_segments == 1);
    run_config_free(&host, &loaded);

    facts->vocab_size = 300;
    facts->row_width = facts->num_segments = facts->num_objectives = 0;
    facts->pairs = false;
    facts->bytes = true;
    task_facts_add(facts, "next_token", 298, 2);
    task_facts_add(facts, "classify", 3, 0);
    facts->objectives[0].weight = 0.1;
    config.model.causal = true;
    config.model.conv_window = 0;
    check_status(&host, run_config_save(&host, run, &config), HASHATTN_OK, NULL);
    check_status(&host, run_config_load(&host, run, &loaded), HASHATTN_OK, NULL);
    assert_true(loaded.facts.num_objectives == 2 && loaded.model.num_objectives == 2);
    check_objective(&loaded, 0, "next_token", 0.1, 298, 2);
    check_objective(&loaded, 1, "classify", 1, 3, 0);
    assert_true(loaded.facts.bytes && loaded.model.bytes && loaded.facts.num_segments == 0);
    run_config_free(&host, &loaded);
    run_config_free(&host, &config);
    small_run_remove(run);
}

static void columns_come_back(void **state)
{
    (void)state;
    static const struct {
        const char *name;
        double mean, deviation, scale;
    } columns[] = {{"OT", 1.0 / 3, 1e-300, 0}, {"with \"quotes\"", -1e300, 1, 0.1}};
    struct host host;
    struct run_config config, loaded;
    void *block;
    host_init(&host);
    char run[] = "/tmp/hashattn_config_XXXXXX";
    assert_non_null(mkdtemp(run));
    make_config(&host, task_find("needle"), attention_find("yoso"), &config);
    check_status(&host, memory_new(&host, 2, sizeof *config.facts.columns, "c", &block), HASHATTN_OK, NULL);
    config.facts.columns = block;
    config.facts.num_columns = 2;
    for (size_t i = 0; i < 2; i++) {
        check_status(&host, memory_new(&host, strlen(columns[i].name) + 1, 1, "c", &block), HASHATTN_OK,
                     NULL);
        strcpy(block, columns[i].name);
        config.facts.columns[i] =
            (struct task_column){block, columns[i].mean, columns[i].deviation, columns[i].scale};
    }
    check_status(&host, memory_new_zeroed(&host, 2, sizeof *config.facts.series, "s", &block), HASHATTN_OK,
                 NULL);
    config.facts.series = block;
    config.facts.num_series = 2;
    for (size_t i = 0; i < 2; i++) {
        check_status(&host, memory_new(&host, 8, 1, "s", &block), HASHATTN_OK, NULL);
        config.facts.series[i] = strcpy(block, i == 0 ? "north" : "south");
    }
    config.facts.dates = (struct task_dates){"when", "15min", "day-first"};
    check_status(&host, run_config_save(&host, run, &config), HASHATTN_OK, NULL);
    check_status(&host, run_config_load(&host, run, &loaded), HASHATTN_OK, NULL);
    assert_int_equal(loaded.facts.num_columns, 2);
    assert_true(loaded.facts.num_series == 2 && strcmp(loaded.facts.series[1], "south") == 0);
    assert_string_equal(loaded.facts.dates.column, "when");
    assert_string_equal(loaded.facts.dates.freq, "15min");
    assert_string_equal(loaded.facts.dates.format, "day-first");
    for (size_t i = 0; i < 2; i++) {
        assert_string_equal(loaded.facts.columns[i].name, columns[i].name);
        check_near(loaded.facts.columns[i].mean, columns[i].mean, 0, "mean");
        check_near(loaded.facts.columns[i].deviation, columns[i].deviation, 0, "deviation");
        check_near(loaded.facts.columns[i].scale, columns[i].scale, 0, "scale");
    }
    run_config_free(&host, &loaded);
    run_config_free(&host, &config);
    small_run_remove(run);
}

static void what_is_wrong_in_facts_is_refused(void **state)
{
    (void)state;
#define COLUMN(mean, deviation) "{\"name\": \"x\", \"mean\": " mean ", \"deviation\": " deviation "}"
#define FACTS(given)            "{" given ", \"max_len\": 16, \"labels\": [\"a\", \"b\"]}"
#define OBJECTIVE(text)         FACTS("\"vocab_size\": 34, \"objectives\": [" text "]")
#define CLASSIFY(weight, outputs)                                                                            \
    "{\"name\": \"classify\", \"weight\": " weight ", \"outputs\": " outputs ", \"first_output\": 0}"
    static const struct {
        const char *facts, *part; /* NULL: accepted */
    } cases[] = {
        {OBJECTIVE(CLASSIFY("0.5", "2")), NULL},
        {OBJECTIVE("{\"weight\": 1, \"outputs\": 2, \"first_output\": 0}"), "name"},
        {OBJECTIVE("{\"name\": \"guess\", \"weight\": 1, \"outputs\": 2, \"first_output\": 0}"),
         "unknown objective 'guess'"},
        {OBJECTIVE("{\"name\": \"classify\", \"outputs\": 2, \"first_output\": 0}"), "weight"},
        {OBJECTIVE("{\"name\": \"classify\", \"weight\": 1, \"extra\": 2}"),
         "task.facts.objectives.0 has the unknown key 'extra'"},
        {OBJECTIVE(CLASSIFY("0", "2")), "classify has weight 0"},
        {OBJECTIVE(CLASSIFY("null", "2")), "classify has weight"},
        {OBJECTIVE(CLASSIFY("1", "-2")), "'outputs' is -2, allowed are 0 to 1048576"},
        {OBJECTIVE("{\"name\": \"classify\", \"weight\": 1, \"outputs\": 2, \"first_output\": -1}"),
         "'first_output' is -1, allowed are 0 to 1048576"},
        {OBJECTIVE(CLASSIFY("1", "3")), "task.facts.labels has 2 labels, the model has 3 classes"},
        {OBJECTIVE(CLASSIFY("1", "1")), "task.facts.labels has 2 labels, the model has 1 classes"},
        {FACTS("\"vocab_size\": 0, \"row_width\": 3, \"objectives\": [{\"name\": \"horizon\", \"weight\": 1, "
               "\"outputs\": 2, \"first_output\": 0, \"quantiles\": [0.25, 0.75]}]"),
         "task.facts.labels has 2 labels"},
        {FACTS("\"vocab_size\": 0, \"row_width\": 3, \"objectives\": [{\"name\": \"horizon\", \"weight\": 1, "
               "\"outputs\": 2, \"first_output\": 0, \"quantiles\": [1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1]}]"),
         "task.facts.objectives.0.quantiles has 17 levels, at most 16 are allowed"},
        {OBJECTIVE("7"), "objectives.0"},
        {OBJECTIVE("1, 2, 3, 4, 5"), "task.facts.objectives has 5 entries, at most 4"},
        {FACTS("\"vocab_size\": 34, \"objectives\": {}"), "objectives"},
        {FACTS("\"vocab_size\": 0, \"row_width\": 3, \"segments\": 2"), NULL},
        {FACTS("\"vocab_size\": 34, \"row_width\": 3"), "vocab_size is 34 and row_width 3"},
        {FACTS("\"vocab_size\": 0, \"row_width\": 65537"), "row_width' is 65537, allowed are 1 to 65536"},
        {FACTS("\"vocab_size\": 0, \"row_width\": 0"), "row_width' is 0, allowed are 1 to 65536"},
        {FACTS("\"vocab_size\": 34, \"segments\": 257"), "segments' is 257, allowed are 1 to 256"},
        {FACTS("\"vocab_size\": 34, \"segments\": 0"), "segments' is 0, allowed are 1 to 256"},
        {FACTS("\"vocab_size\": 34, \"bytes\": 1"), "bytes"},
        {FACTS("\"vocab_size\": 34, \"columns\": []"),
         "task.facts.columns has 0 entries, allowed are 1 to 65536"},
        {FACTS("\"vocab_size\": 34, \"columns\": {}"), "columns"},
        {FACTS("\"vocab_size\": 34, \"columns\": [" COLUMN("1", "2") "]"), NULL},
        {FACTS("\"vocab_size\": 34, \"columns\": [" COLUMN("1", "0") "]"),
         "task.facts.columns.0 has mean 1 and deviation 0"},
        {FACTS("\"vocab_size\": 34, \"columns\": [" COLUMN("1", "2") ", " COLUMN("null", "2") "]"),
         "task.facts.columns.1 has mean nan"},
        {FACTS("\"vocab_size\": 34, \"columns\": [{\"name\": \"x\", \"mean\": 1}]"), "deviation"},
        {FACTS("\"vocab_size\": 34, \"columns\": [{\"name\": \"x\", \"sum\": 1}]"), "unknown key 'sum'"},
        {FACTS("\"vocab_size\": 34, \"columns\": [{\"name\": \"x\", \"mean\": 1, \"deviation\": 2, "
               "\"scale\": -1}]"),
         "task.facts.columns.0 has scale -1"},
        {FACTS("\"vocab_size\": 34, \"columns\": [" COLUMN("1", "2") "], \"series\": [\"a\", \"b\"]"),
         "task.facts.series has 2 names, which do not divide the 1 columns"},
        {FACTS("\"vocab_size\": 34, \"columns\": [" COLUMN("1", "2") "], \"series\": []"),
         "task.facts.series has 0 names"},
        {FACTS("\"vocab_size\": 34, \"dates\": {\"column\": \"a\", \"freq\": \"h\"}"), "format"},
    };
    struct host host;
    host_init(&host);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct run_config config;
        hashattn_status status =
            parse_changed(&host, "{\"vocab_size\": 34, \"max_len\": 16, \"labels\": [\"a\", \"b\"]}",
                          cases[i].facts, &config);
        check_status(&host, status, cases[i].part == NULL ? HASHATTN_OK : HASHATTN_BAD_FILE, cases[i].part);
        if (i == 0)
            check_objective(&config, 0, "classify", 0.5, 2, 0);
        run_config_free(&host, &config);
    }
}

/* The recorded word decides, whatever this machine would choose; and auto is settled before anything is
   saved. */
static void a_model_hashes_as_it_was_trained(void **state)
{
    (void)state;
    static const char *const words[] = {"\"f32\"", "\"int16-dp\"", "\"bf16-dp\"", "\"int8-dp\""};
    struct host host;
    struct run_config config;
    host_init(&host);
    for (int w = 0; w < 4; w++) {
        check_status(&host, parse_changed(&host, words[0], words[w], &config), HASHATTN_OK, NULL);
        assert_int_equal(projection_of(&config), HASH_F32 + w);
        run_config_settle(kernels_all()[0], &config);
        assert_int_equal(projection_of(&config), HASH_F32 + w);
        run_config_free(&host, &config);
    }
    for (const struct kernels *const *kernels = kernels_all(); *kernels != NULL; kernels++) {
        check_status(&host, run_config_parse(&host, good, sizeof good - 1, &config), HASHATTN_OK, NULL);
        option_set(&host, config.model.plan.used[0].mechanism->options, "yoso",
                   config.model.plan.used[0].options, "projection", "auto");
        run_config_settle(*kernels, &config);
        assert_int_equal(projection_of(&config), hash_projection_of(*kernels, HASH_AUTO));
        assert_int_not_equal(projection_of(&config), HASH_AUTO);
        run_config_free(&host, &config);
    }
    /* A mechanism that does not hash has nothing to settle. */
    check_status(&host,
                 parse_changed(&host, "\"yoso\", \"projection\": \"f32\", \"options\": {\"num_hashes\": 4}",
                               "\"none\", \"projection\": \"f32\", \"options\": {}", &config),
                 HASHATTN_OK, NULL);
    run_config_settle(kernels_all()[0], &config);
    run_config_free(&host, &config);
}

static const char mixed[] =
    "{\"format\": \"hashattn run\", \"version\": 1, \"task\": {\"name\": \"needle\", \"options\": {}, "
    "\"facts\": {\"vocab_size\": 34, \"max_len\": 16, \"labels\": [\"a\", \"b\"]}}, "
    "\"model\": {\"heads\": 2}, \"attention\": {\"name\": \"local*1,lha*1/yoso\", \"options\": {\"lha\": "
    "{\"num_buckets\": 3}, \"yoso\": {\"projection\": \"f32\"}}}, \"training\": {}, \"data\": \"there\"}";

/* The plan, and the options of each of its mechanisms. */
static void mixed_heads_come_back(void **state)
{
    (void)state;
    struct host host;
    struct run_config config, loaded;
    host_init(&host);
    char run[] = "/tmp/hashattn_config_XXXXXX";
    assert_non_null(mkdtemp(run));
    make_config(&host, task_find("needle"), attention_find("softmax"), &config);
    head_plan_free(&host, &config.model.plan);
    check_status(&host, head_plan_new(&host, "softmax/local*2,lha,yoso*1", &config.model.plan), HASHATTN_OK,
                 NULL);
    config.model.layers = 3;
    config.model.heads = 6;
    config.model.dim = 30;
    config.model.attention_dropout = 0; /* yoso has none */
    struct head_plan *plan = &config.model.plan;
    for (size_t i = 0; i < plan->num_used; i++)
        change_all(&host, plan->used[i].mechanism->options, plan->used[i].options);
    check_status(&host, run_config_save(&host, run, &config), HASHATTN_OK, NULL);
    check_status(&host, run_config_load(&host, run, &loaded), HASHATTN_OK, NULL);
    assert_string_equal(loaded.model.plan.text, plan->text);
    assert_int_equal(loaded.model.plan.num_used, 4);
    for (size_t i = 0; i < 4; i++) {
        const struct mechanism *mechanism = plan->used[i].mechanism;
        assert_ptr_equal(loaded.model.plan.used[i].mechanism, mechanism);
        check_same_options(mechanism->options, plan->used[i].options, loaded.model.plan.used[i].options);
    }
    run_config_free(&host, &config);
    run_config_free(&host, &loaded);
    small_run_remove(run);

    static const struct {
        const char *from, *to, *part; /* NULL: accepted */
    } cases[] = {
        {"", "", NULL},
        {"\"lha\": {\"num_buckets\": 3}, ", "", NULL},
        {"local*1,lha*1/yoso", "local*1,lha*1/yosso",
         "attention.name is 'local*1,lha*1/yosso': no mechanism 'yosso'"},
        {"local*1,lha*1/yoso", "local*1,lha*2/yoso", "does not fit 2 heads in layer 0"},
        {"local*1,lha*1/yoso", "local*1,lha*1", "attention.options has the unknown key 'yoso'"},
        {"\"num_buckets\": 3", "\"num_buckets\": 0", "num_buckets is 0"},
        {"\"num_buckets\": 3", "\"block_size\": 3", "attention.options.lha has the unknown key 'block_size'"},
        {"\"lha\": {\"num_buckets\": 3}", "\"lha\": 3", "attention.options.lha"},
        {"\"projection\": \"f32\"", "\"num_hashes\": 4", "attention.options.yoso.projection is not settled"},
        {"\"name\": \"local", "\"projection\": \"f32\", \"name\": \"local",
         "attention has the unknown key 'projection'"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char text[2048];
        const char *at = strstr(mixed, cases[i].from);
        assert_non_null(at);
        snprintf(text, sizeof text, "%.*s%s%s", (int)(at - mixed), mixed, cases[i].to,
                 at + strlen(cases[i].from));
        hashattn_status status = run_config_parse(&host, text, strlen(text), &loaded);
        check_status(&host, status, cases[i].part == NULL ? HASHATTN_OK : HASHATTN_BAD_FILE, cases[i].part);
        run_config_free(&host, &loaded);
    }
    check_status(&host, run_config_parse(&host, mixed, sizeof mixed - 1, &loaded), HASHATTN_OK, NULL);
    assert_int_equal(*(int64_t *)loaded.model.plan.used[1].options, 3);
    run_config_free(&host, &loaded);
}

static void every_cut_is_refused(void **state)
{
    (void)state;
    struct host host;
    host_init(&host);
    for (size_t size = 0; size + 1 < sizeof good; size++) {
        struct run_config config;
        check_status(&host, run_config_parse(&host, good, size, &config), HASHATTN_BAD_FILE, NULL);
    }
    struct run_config config;
    check_status(&host, run_config_load(&host, "/nowhere", &config), HASHATTN_BAD_FILE,
                 "/nowhere/config.json");
}

static void failing_allocations_leave_nothing(void **state)
{
    (void)state;
    struct host host;
    host_init(&host);
    hashattn_status status = HASHATTN_NO_MEMORY;
    long n = 0;
    for (; status != HASHATTN_OK; n++) {
        struct failing_host failing;
        struct run_config config;
        failing_host_init(&failing, n);
        status = run_config_parse(&failing.host, good, sizeof good - 1, &config);
        if (status == HASHATTN_OK)
            run_config_free(&failing.host, &config);
        else
            check_status(&failing.host, status, HASHATTN_NO_MEMORY, "memory");
        assert_int_equal(failing.outstanding, 0);
    }
    assert_true(n > 5);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_option_comes_back),
        cmocka_unit_test(what_is_not_named_has_its_default),
        cmocka_unit_test(what_is_wrong_is_refused_with_its_name),
        cmocka_unit_test(labels_are_bounded),
        cmocka_unit_test(a_model_hashes_as_it_was_trained),
        cmocka_unit_test(words_are_kept_beside_it),
        cmocka_unit_test(a_tokenizer_is_kept_beside_it),
        cmocka_unit_test(next_tokens_of_version_1_are_read),
        cmocka_unit_test(facts_of_every_kind_come_back),
        cmocka_unit_test(columns_come_back),
        cmocka_unit_test(what_is_wrong_in_facts_is_refused),
        cmocka_unit_test(mixed_heads_come_back),
        cmocka_unit_test(every_cut_is_refused),
        cmocka_unit_test(failing_allocations_leave_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
