/* GLUE's files: the eight layouts, labels and scores, sentences and pairs as one sequence with segments,
   names of sets, and bad files with the line. Bugs planted and caught: the columns of CoLA exchanged; the
   header read as a row; the second sentence left out of the learned vocabulary; segments of a pair all 0 with
   a learned tokenizer; an
   incomplete row of QQP refused, or one of MRPC skipped; a score cut to a whole number; MNLI's mismatched
   pairs as validation; the given tokenizer freed after a failure; scores evaluated as classes; a row
   of CoLA to predict read as names of columns; QNLI's columns for RTE; a row of QQP left out of the
   predictions.
   SPDX-License-Identifier: Apache-2.0 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/memory.h"
#include "support/checkpoint_case.h"
#include "support/labels.h"
#include "tasks/task.h"
#include "text/tokenizer.h"

struct options { /* as in glue.c */
    int name;
    int64_t max_len, vocab_size;
};
enum { COLA = 1, SST2, MRPC, QQP, STSB, MNLI, QNLI, RTE };

static struct options options_of(int name)
{
    struct options options;
    options_preset(task_find("glue")->options, &options);
    options.name = name;
    options.vocab_size = 270;
    return options;
}

static hashattn_status facts_of(struct host *host, const struct options *options, const char *directory,
                                struct tokenizer *given, struct task_facts *facts)
{
    return task_find("glue")->facts(host, options, directory, given, facts);
}

static void load(struct host *host, const struct options *options, const struct task_facts *facts,
                 const char *directory, enum split split, struct dataset *dataset)
{
    check_status(host, task_find("glue")->load(host, options, facts, directory, split, 1, dataset),
                 HASHATTN_OK, NULL);
}

/* The text of an example, special tokens as they are. */
static void check_text(struct host *host, const struct task_facts *facts, const struct dataset *dataset,
                       size_t example, const char *want)
{
    char *text;
    size_t size, first = dataset->offsets[example], count = dataset->offsets[example + 1] - first;
    check_status(host,
                 tokenizer_decode(host, facts->tokenizer, dataset->ids + first, count, false, &text, &size),
                 HASHATTN_OK, NULL);
    assert_string_equal(text, want);
    memory_free(host, text);
}

/* A set with rows in its layout, and what becomes of the first two. */
static const struct layout {
    int name;
    const char *train, *texts[2];
    int labels[2]; /* of classes */
    const char *selects, *classes;
} layouts[] = {
    {COLA,
     "gj04\t1\t\tThey left.\r\ngj04\t0\t*\tLeft they.\n",
     {"<s>They left.</s>", "<s>Left they.</s>"},
     {1, 0},
     "matthews",
     "0 1 "},
    {SST2,
     "sentence\tlabel\nfine \t1\n\nbad \t0\n",
     {"<s>fine </s>", "<s>bad </s>"},
     {1, 0},
     "accuracy",
     "0 1 "},
    {MRPC,
     "\xef\xbb\xbfQuality\t#1 ID\t#2 ID\t#1 String\t#2 String\n1\t7\t8\ta \"b\tc d\n0\t9\t9\te\tf\n",
     {"<s>a \"b</s></s>c d</s>", "<s>e</s></s>f</s>"},
     {1, 0},
     "f1",
     "0 1 "},
    {QQP,
     "id\tqid1\tqid2\tquestion1\tquestion2\tis_duplicate\n1\t\t\ta\tb\t1\nbroken\n2\t\t\tc\td\t0\n",
     {"<s>a</s></s>b</s>", "<s>c</s></s>d</s>"},
     {1, 0},
     "f1",
     "0 1 "},
    {MNLI,
     "index\tgenre\tsentence1\tsentence2\tlabel1\tgold_label\n0\tx\ta\tb\tentailment\tneutral\n1\tx\tc\td\t\t"
     "contradiction\n",
     {"<s>a</s></s>b</s>", "<s>c</s></s>d</s>"},
     {2, 0},
     "accuracy",
     "contradiction entailment neutral "},
    {QNLI,
     "index\tquestion\tsentence\tlabel\n0\ta\tb\tentailment\n1\tc\td\tnot_entailment\n",
     {"<s>a</s></s>b</s>", "<s>c</s></s>d</s>"},
     {0, 1},
     "accuracy",
     "entailment not_entailment "},
    {RTE,
     "index\tsentence1\tsentence2\tlabel\n0\ta\t\tnot_entailment\n1\tc\td\tentailment\n",
     {"<s>a</s></s></s>", "<s>c</s></s>d</s>"},
     {1, 0},
     "accuracy",
     "entailment not_entailment "},
};

static void every_layout_is_read(void **state)
{
    const struct folder *folder = *state;
    for (size_t i = 0; i < sizeof layouts / sizeof *layouts; i++) {
        const struct layout *l = &layouts[i];
        struct host host;
        struct task_facts facts;
        struct dataset dataset, valid;
        host_init(&host);
        folder_put_text(folder, "train.tsv", l->train);
        folder_put_text(folder, l->name == MNLI ? "dev_matched.tsv" : "dev.tsv", l->train);
        const struct options options = options_of(l->name);
        check_status(&host, facts_of(&host, &options, folder->path, NULL, &facts), HASHATTN_OK, NULL);
        char classes[60] = "";
        for (size_t k = 0; k < facts.num_classes; k++)
            sprintf(classes + strlen(classes), "%s ", facts.labels[k]);
        assert_string_equal(classes, l->classes);
        assert_true(facts.num_objectives == 1 && facts.objectives[0].num_outputs == facts.num_classes);
        assert_string_equal(facts.objectives[0].name, "classify");
        assert_string_equal(facts.objectives[0].selects, l->selects);
        assert_true(!facts.pairs && facts.max_len == 128 && facts.num_segments == (l->name > SST2 ? 2 : 0));
        assert_true(facts.vocab_size == facts.num_tokens &&
                    facts.num_tokens == tokenizer_num_ids(facts.tokenizer));
        load(&host, &options, &facts, folder->path, SPLIT_TRAIN, &dataset);
        load(&host, &options, &facts, folder->path, SPLIT_VALID, &valid);
        assert_true(dataset.count == 2 && valid.count == 2 && dataset.num_cut == 0);
        assert_true(dataset.segmented == (l->name > SST2));
        for (size_t k = 0; k < 2; k++) {
            check_text(&host, &facts, &dataset, k, l->texts[k]);
            assert_int_equal(label_of(&dataset, k), l->labels[k]);
        }
        for (size_t row = 0, ends = 0; dataset.segmented && row < dataset.offsets[1]; row++) {
            assert_int_equal(dataset.segments[row], ends > 0); /* from the first </s> on */
            ends += dataset.ids[row] == 2;
        }
        dataset_free(&host, &dataset);
        dataset_free(&host, &valid);
        task_facts_free(&host, &facts);
        folder_remove(folder, "train.tsv");
        folder_remove(folder, l->name == MNLI ? "dev_matched.tsv" : "dev.tsv");
    }
}

static const char scores[] =
    "index\tgenre\tfilename\tyear\told_index\tsource1\tsource2\tsentence1\tsentence2\tscore\n"
    "0\tg\tf\t2012\t1\tnone\tnone\tA plane.\tA plane flies.\t4.250\n"
    "1\tg\tf\t2012\t1\tnone\tnone\tA dog.\tA cat.\t0\n";

static void scores_are_floats(void **state)
{
    const struct folder *folder = *state;
    struct host host;
    struct task_facts facts;
    struct dataset dataset;
    host_init(&host);
    folder_put_text(folder, "train.tsv", scores);
    folder_put_text(folder, "dev.tsv", scores);
    struct options options = options_of(STSB);
    check_status(&host, facts_of(&host, &options, folder->path, NULL, &facts), HASHATTN_OK, NULL);
    assert_true(facts.num_classes == 0 && facts.num_objectives == 1 && facts.objectives[0].num_outputs == 1);
    assert_string_equal(facts.objectives[0].name, "regress");
    assert_string_equal(facts.objectives[0].selects, "pearson");
    load(&host, &options, &facts, folder->path, SPLIT_VALID, &dataset);
    assert_true(dataset.count == 2 && dataset.num_targets == 1 && dataset.targets[0].width == 1);
    assert_true(dataset.targets[0].floats[0] == 4.25f && dataset.targets[0].floats[1] == 0);
    check_text(&host, &facts, &dataset, 1, "<s>A dog.</s></s>A cat.</s>");
    dataset_free(&host, &dataset);
    options.name = RTE;
    check_status(&host,
                 task_find("glue")->load(&host, &options, &facts, folder->path, SPLIT_VALID, 1, &dataset),
                 HASHATTN_BAD_FILE, "is RTE, and the model predicts scores");
    task_facts_free(&host, &facts);
}

/* With the tokenizer of a checkpoint: BERT's template has two segments. Long pairs are cut and counted. */
static void a_given_tokenizer_is_used(void **state)
{
    const struct folder *folder = *state;
    struct host host;
    struct task_facts facts;
    struct dataset dataset;
    struct tokenizer *given;
    host_init(&host);
    checkpoint_copy(folder, "bert");
    folder_put_text(folder, "train.tsv",
                    "index\tsentence1\tsentence2\tlabel\n0\tThe cat sat.\tThe dog is in Paris, "
                    "the capital of France\tentailment\n");
    folder_put_text(folder, "dev.tsv", "index\tsentence1\tsentence2\tlabel\n0\tThe\tdog\tnot_entailment\n");
    struct options options = options_of(RTE);
    options.max_len = 9;
    check_status(&host, tokenizer_load(&host, folder->path, &given), HASHATTN_OK, NULL);
    options.name = 0;
    check_status(&host, facts_of(&host, &options, folder->path, given, &facts), HASHATTN_INVALID,
                 "is not the name of a set, so name is needed");
    options.name = MRPC;
    options.max_len = 9;
    check_status(&host, facts_of(&host, &options, "/nowhere", given, &facts), HASHATTN_BAD_FILE,
                 "/nowhere has no train.tsv");
    assert_null(facts.tokenizer);
    options.name = RTE;
    check_status(&host, facts_of(&host, &options, folder->path, given, &facts), HASHATTN_OK, NULL);
    assert_ptr_equal(facts.tokenizer, given);
    assert_true(facts.num_segments == 2 && facts.num_tokens == 24);
    load(&host, &options, &facts, folder->path, SPLIT_TRAIN, &dataset);
    check_text(&host, &facts, &dataset, 0, "[CLS] the cat sat [SEP] the dog is [SEP]");
    static const uint8_t segments[] = {0, 0, 0, 0, 0, 1, 1, 1, 1};
    check_same_bits(dataset.segments, segments, sizeof segments, "segments");
    assert_true(dataset.num_cut == 1 && dataset.offsets[1] == 9);
    dataset_free(&host, &dataset);
    facts.num_segments = 0; /* of a model without segments */
    load(&host, &options, &facts, folder->path, SPLIT_VALID, &dataset);
    assert_true(!dataset.segmented && dataset.segments == NULL);
    dataset_free(&host, &dataset);
    task_facts_free(&host, &facts);
}

static void directories_name_their_set(void **state)
{
    const struct folder *folder = *state;
    static const char *const names[] = {"CoLA", "sst2", "STS-B", "stsb"};
    struct host host;
    struct task_facts facts;
    host_init(&host);
    const struct options options = options_of(0);
    for (size_t i = 0; i < 4; i++) {
        char path[200];
        snprintf(path, sizeof path, "%s/%s", folder->path, names[i]);
        assert_int_equal(mkdir(path, 0777), 0);
        snprintf(path, sizeof path, "%s/train.tsv", names[i]);
        folder_put_text(folder, path, i == 0 ? "a\t1\t\tb c\n" : i == 1 ? "sentence\tlabel\na\t1\n" : scores);
        snprintf(path, sizeof path, "%s/%s%s", folder->path, names[i], i == 3 ? "//" : "");
        check_status(&host, facts_of(&host, &options, path, NULL, &facts), HASHATTN_OK, NULL);
        assert_string_equal(facts.objectives[0].selects, i == 0   ? "matthews"
                                                         : i == 1 ? "accuracy"
                                                                  : "pearson");
        task_facts_free(&host, &facts);
        snprintf(path, sizeof path, "%s/train.tsv", names[i]);
        folder_remove(folder, path);
        snprintf(path, sizeof path, "%s/%s", folder->path, names[i]);
        assert_int_equal(remove(path), 0);
    }
}

/* The file of a split, the set, and what is said about it. */
static void bad_files_are_named(void **state)
{
    const struct folder *folder = *state;
    static const char rte[] = "index\tsentence1\tsentence2\tlabel\n0\ta\tb\tentailment\n";
    static const char cola[] = "s\t1\t\tOne two.\n";
    static const struct {
        int name;
        const char *train, *other, *part;
        enum split split;
    } cases[] = {
        {RTE, rte, "index\tsentence1\tsentence2\tlabel\n0\ta\tb\tentails\n",
         "dev.tsv: line 2: the label is 'entails', allowed are entailment, not_entailment", SPLIT_VALID},
        {RTE, rte, "index\tsentence1\tsentence2\tlabel\n0\ta\tb\n",
         "dev.tsv: line 2: the row has 3 fields, 4 are needed", SPLIT_VALID},
        {RTE, rte, "index\tsentence1\tsentence\tlabel\n", "dev.tsv: line 1: no column is called 'sentence2'",
         SPLIT_VALID},
        {RTE, rte, "index\tsentence1\tsentence2\n0\ta\tb\n",
         "test.tsv: line 1: no column is called 'label'; the labels of GLUE's test sets are not public",
         SPLIT_TEST},
        {RTE, rte, "index\tsentence1\tsentence2\tlabel\n", "dev.tsv has no examples", SPLIT_VALID},
        {RTE, rte, "", "dev.tsv has no examples", SPLIT_VALID},
        {COLA, cola, "index\tsentence\n0\tOne.\n",
         "test.tsv: line 1: the row has 2 fields, CoLA has 4; the labels of", SPLIT_TEST},
        {COLA, cola, "s\t1\tOne.\n", "dev.tsv: line 1: the row has 3 fields, 4 are needed", SPLIT_VALID},
        {STSB, scores, "sentence1\tsentence2\tscore\na\tb\thigh\n", "dev.tsv: line 2: STS-B: score is 'high'",
         SPLIT_VALID},
        {STSB, scores, "sentence1\tsentence2\tscore\na\tb\tnan\n", "dev.tsv: line 2: STS-B: score is 'nan'",
         SPLIT_VALID},
        {STSB, scores, "sentence1\tsentence2\tscore\na\tb\t1e9\n", "dev.tsv: line 2: STS-B: score is",
         SPLIT_VALID},
        {STSB, scores, "sentence1\tsentence2\tscore\na\tb\t\n", "dev.tsv: line 2: STS-B: score is ''",
         SPLIT_VALID},
        {STSB, scores,
         "sentence1\tsentence2\tscore\na\tb\t0000000000000000000000000000000000000000000000001\n",
         "dev.tsv: line 2: the score is '", SPLIT_VALID},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct host host;
        struct task_facts facts;
        struct dataset dataset;
        host_init(&host);
        folder_put_text(folder, "train.tsv", cases[i].train);
        const char *name = cases[i].split == SPLIT_TEST ? "test.tsv" : "dev.tsv";
        folder_put_text(folder, name, cases[i].other);
        const struct options options = options_of(cases[i].name);
        check_status(&host, facts_of(&host, &options, folder->path, NULL, &facts), HASHATTN_OK, NULL);
        check_status(
            &host,
            task_find("glue")->load(&host, &options, &facts, folder->path, cases[i].split, 1, &dataset),
            HASHATTN_BAD_FILE, cases[i].part);
        assert_int_equal(dataset.count, 0);
        task_facts_free(&host, &facts);
        folder_remove(folder, name);
    }
}

static void every_failed_allocation_is_reported(void **state)
{
    const struct folder *folder = *state;
    const struct options options = options_of(STSB);
    folder_put_text(folder, "train.tsv", scores);
    folder_put_text(folder, "dev.tsv", scores);
    for (long n = 0;; n++) {
        struct failing_host failing;
        struct task_facts facts;
        struct dataset dataset = {0};
        failing_host_init(&failing, n);
        hashattn_status status = facts_of(&failing.host, &options, folder->path, NULL, &facts);
        if (status == HASHATTN_OK) {
            status = task_find("glue")->load(&failing.host, &options, &facts, folder->path, SPLIT_TRAIN, 1,
                                             &dataset);
            dataset_free(&failing.host, &dataset);
            task_facts_free(&failing.host, &facts);
        }
        assert_int_equal(failing.outstanding, 0);
        if (status == HASHATTN_OK)
            break;
        check_status(&failing.host, status, HASHATTN_NO_MEMORY, NULL);
        assert_true(n < 2000);
    }
}

/* A failure leaves the given tokenizer to the caller. */
static void a_failure_leaves_the_given_tokenizer(void **state)
{
    const struct folder *folder = *state;
    const struct options options = options_of(STSB);
    struct host host;
    struct tokenizer *given;
    host_init(&host);
    checkpoint_copy(folder, "bert");
    folder_put_text(folder, "train.tsv", scores);
    check_status(&host, tokenizer_load(&host, folder->path, &given), HASHATTN_OK, NULL);
    for (long n = 0;; n++) {
        struct failing_host failing;
        struct task_facts facts;
        failing_host_init(&failing, n);
        hashattn_status status = facts_of(&failing.host, &options, folder->path, given, &facts);
        assert_int_equal(tokenizer_num_ids(given), 24);
        if (status == HASHATTN_OK) {
            facts.tokenizer = NULL;
            task_facts_free(&failing.host, &facts);
            break;
        }
        check_status(&failing.host, status, HASHATTN_NO_MEMORY, NULL);
        assert_true(failing.outstanding == 0 && facts.tokenizer == NULL);
    }
    tokenizer_free(&host, given);
}

/* Both sentences of a pair are learned from: "zq" occurs in the second only. */
static void both_sentences_are_learned(void **state)
{
    const struct folder *folder = *state;
    const struct options options = options_of(RTE);
    struct host host;
    struct task_facts facts;
    uint32_t id;
    host_init(&host);
    folder_put_text(folder, "train.tsv",
                    "sentence1\tsentence2\tlabel\na\tzqzq zqzq zqzq\tentailment\nb\tzqzq\tentailment\n");
    check_status(&host, facts_of(&host, &options, folder->path, NULL, &facts), HASHATTN_OK, NULL);
    assert_true(tokenizer_find(facts.tokenizer, (struct piece){"zq", 2}, &id));
    task_facts_free(&host, &facts);
}

/* Official test files, without labels, and those of the other splits, whose labels are not read. The columns
   say which set of the model they are of. */
struct texts {
    const struct task_facts *facts;
    char text[200];
    size_t parts;
};

static hashattn_status append_texts(struct host *host, void *context, struct dataset *part)
{
    struct texts *texts = context;
    assert_true(part->count >= 1 && part->count <= 2);
    for (size_t i = 0; i < part->count; i++) {
        char *text;
        size_t size, first = part->offsets[i], count = part->offsets[i + 1] - first;
        check_status(
            host,
            tokenizer_decode(host, texts->facts->tokenizer, part->ids + first, count, true, &text, &size),
            HASHATTN_OK, NULL);
        strcat(strcat(texts->text, text), ";");
        memory_free(host, text);
        assert_true(texts->facts->num_classes == 0 || label_of(part, i) == -1);
    }
    texts->parts++;
    return HASHATTN_OK;
}

static hashattn_status stream(const struct folder *folder, struct host *host, const struct options *options,
                              const struct task_facts *facts, const char *file, struct texts *texts)
{
    char path[100];
    const struct dataset_stream stream = {.batch = 2, .visit = append_texts, .context = texts};
    *texts = (struct texts){.facts = facts};
    folder_put_text(folder, "given.tsv", file);
    snprintf(path, sizeof path, "%s/given.tsv", folder->path);
    return task_find("glue")->stream_file(host, options, facts, path, &stream);
}

static void files_to_predict_need_no_labels(void **state)
{
    const struct folder *folder = *state;
    static const char *const tests[] = {
        [COLA] = "index\tsentence\n0\tOne.\n1\tTwo\n2\tx\n",
        [SST2] = "index\tsentence\n0\tOne.\n1\tTwo\n2\tx\n",
        [MRPC] = "index\t#1 ID\t#2 ID\t#1 String\t#2 String\n0\t1\t2\tOne\t.\n1\t1\t2\tT\two\n2\t\t\t\tx\n",
        [QQP] = "id\tquestion1\tquestion2\n0\tOne\t.\n1\tT\two\n2\t\tx\n",
        [MNLI] = "index\tpairID\tsentence1\tsentence2\n0\t1\tOne\t.\n1\t1\tT\two\n2\t1\t\tx\n",
        [QNLI] = "index\tquestion\tsentence\n0\tOne\t.\n1\tT\two\n2\t\tx\n",
        [RTE] = "index\tsentence1\tsentence2\n0\tOne\t.\n1\tT\two\n2\t\tx\n",
    };
    const struct options automatic = options_of(0);
    struct host host;
    struct texts texts;
    host_init(&host);
    for (size_t i = 0; i < sizeof layouts / sizeof *layouts; i++) {
        const struct layout *l = &layouts[i];
        const struct options options = options_of(l->name);
        struct task_facts facts;
        folder_put_text(folder, "train.tsv", l->train);
        check_status(&host, facts_of(&host, &options, folder->path, NULL, &facts), HASHATTN_OK, NULL);
        for (int given = 0; given < 2; given++) {
            check_status(&host,
                         stream(folder, &host, given ? &options : &automatic, &facts, tests[l->name], &texts),
                         HASHATTN_OK, NULL);
            assert_string_equal(texts.text, "One.;Two;x;");
            assert_int_equal(texts.parts, 2);
        }
        hashattn_status status = stream(folder, &host, &automatic, &facts, l->train, &texts);
        check_status(&host, status, l->name == QQP ? HASHATTN_BAD_FILE : HASHATTN_OK,
                     l->name == QQP ? "given.tsv: line 3: the row has 1 field, 5 are needed" : NULL);
        assert_int_equal(texts.parts, 1); /* of QQP, the line before the bad one */
        check_status(&host, stream(folder, &host, &automatic, &facts, "index\tx\n0\ta\n", &texts),
                     HASHATTN_BAD_FILE, "given.tsv: line 1: no column is called '");
        check_status(&host, stream(folder, &host, &automatic, &facts, "", &texts), HASHATTN_BAD_FILE,
                     "given.tsv has no sentences");
        task_facts_free(&host, &facts);
    }
}

static void scores_are_predicted_without_scores(void **state)
{
    const struct folder *folder = *state;
    const struct options options = options_of(STSB), automatic = options_of(0);
    struct host host;
    struct task_facts facts;
    struct texts texts;
    host_init(&host);
    folder_put_text(folder, "train.tsv", scores);
    check_status(&host, facts_of(&host, &options, folder->path, NULL, &facts), HASHATTN_OK, NULL);
    check_status(
        &host, stream(folder, &host, &automatic, &facts, "index\tsentence1\tsentence2\n0\tOne\t.\n", &texts),
        HASHATTN_OK, NULL);
    assert_string_equal(texts.text, "One.;");
    facts.objectives[0].selects[0] = 'x';
    check_status(&host, stream(folder, &host, &automatic, &facts, scores, &texts), HASHATTN_BAD_FILE,
                 "the model was trained on no set of GLUE");
    task_facts_free(&host, &facts);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(every_layout_is_read, folder_enter, folder_leave),
        cmocka_unit_test_setup_teardown(scores_are_floats, folder_enter, folder_leave),
        cmocka_unit_test_setup_teardown(a_given_tokenizer_is_used, folder_enter, folder_leave),
        cmocka_unit_test_setup_teardown(directories_name_their_set, folder_enter, folder_leave),
        cmocka_unit_test_setup_teardown(bad_files_are_named, folder_enter, folder_leave),
        cmocka_unit_test_setup_teardown(every_failed_allocation_is_reported, folder_enter, folder_leave),
        cmocka_unit_test_setup_teardown(a_failure_leaves_the_given_tokenizer, folder_enter, folder_leave),
        cmocka_unit_test_setup_teardown(both_sentences_are_learned, folder_enter, folder_leave),
        cmocka_unit_test_setup_teardown(files_to_predict_need_no_labels, folder_enter, folder_leave),
        cmocka_unit_test_setup_teardown(scores_are_predicted_without_scores, folder_enter, folder_leave),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
