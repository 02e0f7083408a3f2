/* What a stored model determines: its architecture, attention and ids; directories that are none; tasks
   whose ids mean something else. Bugs planted and caught: heads, or decoder_layers, not among the options
   that are fixed; pooling among them; a size of a vocabulary that is not marked as learned; the classifier
   fixed for a checkpoint without one; options of the stored mechanism not carried to another, or those of
   the wrong one of two; hashes of a YOSO file lost with another mechanism; the tokenizer freed that the
   facts own; more ids or segments than the stored model accepted; the outputs of a stored list of words left
   as they were; a run without a model accepted.
   SPDX-License-Identifier: Apache-2.0 */
#include "train/start/origin.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "base/memory.h"
#include "models/head_plan.h"
#include "nn/block.h"
#include "support/checkpoint_case.h"
#include "support/trainer_case.h"
#include "tasks/words.h"
#include "text/tokenizer.h"

static bool fixes(const struct origin *origin, const char *option)
{
    return origin_fixes(origin, option_find(model_options, option));
}

/* ---- directories --------------------------------------------------------------------------------------- */

static void check_broken(const struct folder *folder, const char *part)
{
    struct host host;
    struct origin origin;
    host_init(&host);
    check_status(&host, origin_open(&host, folder->path, &origin), HASHATTN_BAD_FILE, part);
    assert_non_null(strstr(host.message, folder->path));
    assert_null(origin.model);
}

static void wrong_directories_are_named(void **state)
{
    const struct folder *folder = *state;
    struct host host;
    struct origin origin;
    host_init(&host);
    check_status(&host, origin_open(&host, "/no/such/place", &origin), HASHATTN_BAD_FILE,
                 "cannot open /no/such/place: No such file");
    check_broken(folder, "has no config.json: it is neither a run nor a stored checkpoint");
    folder_put_text(folder, "config.json", "{}");
    check_broken(folder, "model_type");
    folder_put_text(folder, "config.json", "{\"format\": \"hashattn\"}");
    check_broken(folder, "format is 'hashattn'");
    checkpoint_copy(folder, "bert");
    folder_remove(folder, "model.safetensors");
    check_broken(folder, "model.safetensors");
    checkpoint_copy(folder, "bert");
    checkpoint_edit(folder, "\"intermediate_size\": 12", "\"intermediate_size\": 16");
    check_broken(folder,
                 "6 tensors do not fit config.json: "
                 "'bert.encoder.layer.0.intermediate.dense.weight' is F32 (12, 8), F32, F64, F16 or BF16 "
                 "(16, 8) is needed; ");
    checkpoint_copy(folder, "yoso");
    checkpoint_edit(folder, "\"max_position_embeddings\": 10", "\"max_position_embeddings\": 8");
    check_broken(folder, "is F32 (12, 8), F32, F64, F16 or BF16 (10, 8) is needed");
    checkpoint_copy(folder, "yoso");
    char *bytes = folder_get(folder, "model.safetensors", &(size_t){0});
    folder_put(folder, "model.safetensors", bytes, 100);
    free(bytes);
    check_broken(folder, "model.safetensors");
}

static void a_stopped_run_gives_its_last_parameters(void **state)
{
    (void)state;
    struct small_run small;
    struct origin origin;
    struct watcher watcher = {.stop_at = 2};
    small_run_init(&small, "softmax", 8, 2);
    assert_int_equal(train(&small, small.run, 1, &watcher, false), HASHATTN_INTERRUPTED);
    check_status(&small.host, origin_open(&small.host, small.run, &origin), HASHATTN_OK, NULL);
    assert_int_equal(origin.last_step, 2);
    origin_close(&small.host, &origin);
    small_run_free(&small);
}

/* ---- architecture and attention ------------------------------------------------------------------------ */

static void check_option(const struct head_plan *plan, size_t used, const char *name, const char *want)
{
    char text[40];
    const struct option_row *row = option_find(plan->used[used].mechanism->options, name);
    option_text(row, plan->used[used].options, text, sizeof text);
    assert_string_equal(text, want);
}

static void checkpoints_determine_the_architecture(void **state)
{
    (void)state;
    for (size_t c = 0; checkpoint_types[c] != NULL; c++) {
        struct checkpoint_case files;
        struct host host;
        struct origin origin;
        struct model_config model;
        host_init(&host);
        checkpoint_case_read(checkpoint_types[c], &files);
        check_status(&host, origin_open(&host, files.directory, &origin), HASHATTN_OK, NULL);
        options_preset(model_options, &model);
        model.causal = 1;
        model.dropout = 0.25;
        model.activation = FFN_RELU;
        model.attention_biases = 0;
        origin_architecture(&origin, &model);
        const struct model_config *stored = model_config_of(origin.model);
        assert_true(model.layers == 2 && model.dim == 8 && model.heads == 2 && model.ffn == 12);
        assert_true(model.norm == BLOCK_POST_NORM && model.norm_epsilon == stored->norm_epsilon);
        assert_true(model.position_offset == (c == 1 ? 0 : 2) && model.scale_words == 0);
        assert_true(model.classifier == (c == 0 ? HEAD_GELU : HEAD_TANH));
        assert_true(model.conv_window == stored->conv_window && model.activation == FFN_GELU);
        assert_true(model.attention_biases == 1);
        assert_true(model.pooling == POOL_MEAN && model.causal == 1 && model.dropout == 0.25);
        assert_true(fixes(&origin, "heads") && fixes(&origin, "norm_epsilon"));
        assert_true(fixes(&origin, "classifier") == (c == 1)); /* BERT's pooler */
        assert_false(fixes(&origin, "pooling") || fixes(&origin, "dropout"));
        origin_close(&host, &origin);
    }
}

/* The options that docs/FORMATS.md names; another row of the table says by its flag on which side it is. */
static void the_architecture_is_marked_in_the_table(void **state)
{
    (void)state;
    static const char *const names =
        " layers dim heads ffn activation attention_biases conv_window norm norm_epsilon "
        "positions position_offset scale_words decoder_layers distil cutoffs div_value "
        "classifier ";
    size_t marked = 0, words = 0;
    for (const struct option_row *row = model_options; row->name != NULL; row++) {
        char name[OPTION_TEXT_SIZE];
        snprintf(name, sizeof name, " %s ", row->name);
        if (row->architecture != (strstr(names, name) != NULL))
            fail_msg("%s is %s the architecture", row->name, row->architecture ? "in" : "not in");
        marked += row->architecture;
    }
    for (const char *at = names + 1; *at != '\0'; at++)
        words += *at == ' ';
    assert_int_equal(marked, words);
    for (const struct task *const *task = task_table; *task != NULL; task++)
        for (const struct option_row *row = (*task)->options; row->name != NULL; row++)
            if (row->learning != (strcmp(row->name, "vocab_size") == 0))
                fail_msg("%s of %s %s learned", row->name, (*task)->name, row->learning ? "is" : "is not");
}

static void files_of_type_yoso_have_hashes_for_both(void **state)
{
    const struct folder *folder = *state;
    struct host host;
    struct origin origin;
    struct head_plan plan;
    host_init(&host);
    checkpoint_copy(folder, "yoso");
    checkpoint_edit(folder, "\"hash_code_len\": ", "\"hash_code_len\": 7, \"was\": ");
    checkpoint_edit(folder, "\"num_hash\": ", "\"num_hash\": 24, \"had\": ");
    check_status(&host, origin_open(&host, folder->path, &origin), HASHATTN_OK, NULL);
    check_status(&host, origin_plan(&host, &origin, NULL, &plan), HASHATTN_OK, NULL);
    assert_string_equal(plan.text, "yoso-e");
    check_option(&plan, 0, "hash_bits", "7");
    head_plan_free(&host, &plan);
    check_status(&host, origin_plan(&host, &origin, "yoso", &plan), HASHATTN_OK, NULL);
    check_option(&plan, 0, "hash_bits", "7");
    check_option(&plan, 0, "num_hashes", "24");
    head_plan_free(&host, &plan);
    check_status(&host, origin_plan(&host, &origin, "yosi", &plan), HASHATTN_INVALID, "yosi");
    origin_close(&host, &origin);
}

/* lha and lsh both have num_buckets. */
static void options_in_common_are_carried(void **state)
{
    (void)state;
    struct small_run small;
    struct origin origin;
    struct head_plan plan;
    struct watcher watcher = {.stop_at = 5};
    small_run_init(&small, "yoso/lha/lsh", 8, 2);
    small_run_set(&small, "layers", "3");
    small_run_set(&small, "hash_bits", "5");
    small_run_set(&small, "lha.num_buckets", "4");
    small_run_set(&small, "lsh.num_buckets", "2");
    assert_int_equal(train(&small, small.run, 1, &watcher, false), HASHATTN_INTERRUPTED);
    struct host *host = &small.host;
    check_status(host, origin_open(host, small.run, &origin), HASHATTN_OK, NULL);
    check_status(host, origin_plan(host, &origin, NULL, &plan), HASHATTN_OK, NULL);
    assert_string_equal(plan.text, "yoso/lha/lsh");
    check_option(&plan, 2, "num_buckets", "2");
    head_plan_free(host, &plan);
    check_status(host, origin_plan(host, &origin, "yoso-e", &plan), HASHATTN_OK, NULL);
    check_option(&plan, 0, "hash_bits", "5");
    head_plan_free(host, &plan);
    check_status(host, origin_plan(host, &origin, "lsh,lha", &plan), HASHATTN_OK, NULL);
    check_option(&plan, 0, "num_buckets", "2");
    check_option(&plan, 1, "num_buckets", "4");
    head_plan_free(host, &plan);
    check_status(host, origin_plan(host, &origin, "nothing", &plan), HASHATTN_INVALID, "nothing");
    origin_close(host, &origin);
    small_run_free(&small);
}

/* ---- the meaning of ids -------------------------------------------------------------------------------- */

/* The facts of a task that reads nothing: as given, with the tokenizer if there is one. */
struct told {
    struct task_facts facts;
    bool takes;
};

static hashattn_status tell_facts(struct host *host, const void *options, const char *directory,
                                  struct tokenizer *given, struct task_facts *facts)
{
    (void)directory;
    const struct told *told = options;
    *facts = told->facts;
    if (told->facts.num_words > 0) {
        static const char text[] = "a b c";
        TRY(words_count(host, text, sizeof text - 1, 100, &facts->words));
    }
    if (given != NULL && told->takes) {
        facts->tokenizer = given;
        facts->num_tokens = facts->vocab_size = tokenizer_num_ids(given);
    }
    return HASHATTN_OK;
}
static const struct option_row no_options[] = {{.name = NULL}};
static const struct task task_told = {.options = no_options, .name = "told", .facts = tell_facts};

static void check_facts(struct host *host, const struct origin *origin, const struct told *told,
                        const char *message)
{
    struct task_facts facts;
    hashattn_status status = origin_facts(host, origin, &task_told, told, "", &facts);
    check_status(host, status, message == NULL ? HASHATTN_OK : HASHATTN_INVALID, message);
    if (message != NULL) {
        assert_true(facts.vocab_size == 0 && facts.tokenizer == NULL);
        return;
    }
    const struct model_config *stored = model_config_of(origin->model);
    assert_int_equal(facts.vocab_size, stored->vocab_size);
    assert_int_equal(facts.num_segments, stored->num_segments);
    assert_int_equal(facts.objectives[0].num_outputs, 3);
    assert_int_equal(facts.objectives[1].num_outputs + facts.objectives[1].first_output, stored->vocab_size);
    task_facts_free(host, &facts);
}

static struct told told_of(size_t vocab_size)
{
    struct told told = {.facts = {.vocab_size = vocab_size, .max_len = 8}};
    task_facts_add(&told.facts, "classify", 3, 0);
    task_facts_add(&told.facts, "next_token", vocab_size - 1, 1);
    return told;
}

/* The checkpoint's vocabulary has 24 tokens. */
static void tokens_need_the_stored_tokenizer(void **state)
{
    const struct folder *folder = *state;
    struct host host;
    struct origin origin;
    host_init(&host);
    checkpoint_copy(folder, "bert");
    check_status(&host, origin_open(&host, folder->path, &origin), HASHATTN_OK, NULL);
    struct told told = told_of(24);
    told.takes = true;
    told.facts.num_segments = 1;
    check_facts(&host, &origin, &told, NULL);
    told.facts.num_segments = 3;
    check_facts(&host, &origin, &told, "told needs 3 segments, the model in /");
    assert_non_null(strstr(host.message, "has 2"));
    told.facts.num_segments = 2;
    told.takes = false;
    check_facts(&host, &origin, &told,
                "the sequences of told are ids of the task told, those of the model in ");
    told.facts.bytes = true;
    check_facts(&host, &origin, &told, "the sequences of told are bytes, those of the model in ");
    assert_non_null(strstr(host.message, " tokens of a tokenizer: "));
    told.facts.bytes = false;
    told.facts.row_width = 3;
    check_facts(&host, &origin, &told, "the sequences of told are rows of 3 floats");
    folder_put_text(folder, "vocab.txt",
                    "[PAD]\n[UNK]\n[CLS]\n[SEP]\n[MASK]\na\nb\nc\nd\ne\nf\ng\nh\ni\nj\nk\nl\nm"
                    "\nn\no\np\nq\nr\ns\nt\nu\n");
    told = told_of(24);
    told.takes = true;
    check_facts(&host, &origin, &told, "told needs 26 ids, the model in /");
    assert_non_null(strstr(host.message, "has 24"));
    folder_remove(folder, "vocab.txt");
    struct task_facts facts;
    check_status(&host, origin_facts(&host, &origin, &task_told, &told, "", &facts), HASHATTN_BAD_FILE,
                 "no tokenizer.json, vocab.json with merges.txt, encoder.json with vocab.bpe, or vocab.txt");
    origin_close(&host, &origin);
}

/* A run of bytes and one of words, made by changing the config of a small one. */
static void bytes_and_words_are_those_of_the_run(void **state)
{
    (void)state;
    struct small_run small;
    struct origin origin;
    struct watcher watcher = {.stop_at = 5};
    small_run_init(&small, "softmax", 8, 2);
    struct host *host = &small.host;
    size_t ids = small.config.facts.vocab_size;
    struct words *words;
    char *text = calloc(ids, 4), path[160];
    for (size_t i = 0; i + 3 < ids; i++) /* with <unk> and <eos>: ids - 1 words */
        sprintf(text + strlen(text), "w%c ", (char)('a' + i));
    check_status(host, words_count(host, text, strlen(text), 100, &words), HASHATTN_OK, NULL);
    assert_int_equal(words->count, ids - 1);
    small.config.facts.words = words;
    small.config.facts.num_words = words->count;
    assert_int_equal(train(&small, small.run, 1, &watcher, false), HASHATTN_INTERRUPTED);
    check_status(host, origin_open(host, small.run, &origin), HASHATTN_OK, NULL);
    struct told told = told_of(6);
    told.facts.num_words = 5; /* <unk>, <eos>, a, b, c */
    check_facts(host, &origin, &told, NULL);
    struct task_facts facts;
    check_status(host, origin_facts(host, &origin, &task_told, &told, "", &facts), HASHATTN_OK, NULL);
    assert_int_equal(facts.num_words, ids - 1);
    assert_int_equal(facts.words->count, ids - 1);
    assert_int_equal(words_find(facts.words, (struct piece){"wa", 2}),
                     words_find(words, (struct piece){"wa", 2}));
    task_facts_free(host, &facts);
    told.facts.num_words = 0;
    told.facts.bytes = true;
    check_facts(host, &origin, &told, "the sequences of told are bytes, those of the model in ");
    assert_non_null(strstr(host->message, " words: "));
    origin_close(host, &origin);

    snprintf(path, sizeof path, "%s/bytes", small.folder);
    words_free(host, small.config.facts.words);
    small.config.facts.words = NULL;
    small.config.facts.num_words = 0;
    small.config.facts.bytes = true;
    assert_int_equal(train(&small, path, 1, &watcher, false), HASHATTN_INTERRUPTED);
    check_status(host, origin_open(host, path, &origin), HASHATTN_OK, NULL);
    told = told_of(ids);
    told.facts.bytes = true;
    check_facts(host, &origin, &told, NULL);
    told = told_of(ids + 1);
    told.facts.bytes = true;
    check_facts(host, &origin, &told, "ids, the model in ");
    origin_close(host, &origin);
    free(text);
    small_run_free(&small);
}

static void every_failed_allocation_is_reported(void **state)
{
    const struct folder *folder = *state;
    struct failing_host failing;
    struct origin origin;
    struct head_plan plan;
    struct task_facts facts;
    struct told told = told_of(24);
    told.takes = true;
    checkpoint_copy(folder, "bert");
    for (long n = 0;; n++) {
        failing_host_init(&failing, n);
        struct host *host = &failing.host;
        hashattn_status status = origin_open(host, folder->path, &origin);
        if (status == HASHATTN_OK) {
            status = origin_plan(host, &origin, "yoso", &plan);
            if (status == HASHATTN_OK) {
                status = origin_facts(host, &origin, &task_told, &told, "", &facts);
                task_facts_free(host, &facts);
                head_plan_free(host, &plan);
            }
            origin_close(host, &origin);
        }
        assert_int_equal(failing.outstanding, 0);
        if (status == HASHATTN_OK)
            break;
        check_status(host, status, HASHATTN_NO_MEMORY, NULL);
        assert_true(n < 1000);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(wrong_directories_are_named, folder_enter, folder_leave),
        cmocka_unit_test(a_stopped_run_gives_its_last_parameters),
        cmocka_unit_test(checkpoints_determine_the_architecture),
        cmocka_unit_test(the_architecture_is_marked_in_the_table),
        cmocka_unit_test_setup_teardown(files_of_type_yoso_have_hashes_for_both, folder_enter, folder_leave),
        cmocka_unit_test(options_in_common_are_carried),
        cmocka_unit_test_setup_teardown(tokens_need_the_stored_tokenizer, folder_enter, folder_leave),
        cmocka_unit_test(bytes_and_words_are_those_of_the_run),
        cmocka_unit_test_setup_teardown(every_failed_allocation_is_reported, folder_enter, folder_leave),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
