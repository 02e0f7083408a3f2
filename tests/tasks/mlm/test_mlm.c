/* From texts to data sets: the same files for any number of threads, splits, orders, facts, and what is
   refused. Bugs planted and caught: a key with the number of the thread; no split among few documents;
   duplicates with the same draws; validation packed as often as training; special tokens that may be hidden;
   the mask's id taken from the end token; the tokenizer of a failed call freed twice; the tokenizer's hash
   not compared; long with order auto refused; a file overwritten; the progress ignored; temporary files left;
   nsp refused if a block has one document; a block without tokens that takes the place of the one before;
   a document that waited for another lost; B from the files of another split.
   Covers: mlm.c mlm_data.c block_encoding.c block_packing.c.
   SPDX-License-Identifier: Apache-2.0 */
#include "tasks/mlm/mlm_data.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/pool.h"
#include "support/folder.h"
#include "tasks/dataset.h"
#include "tasks/mlm/token_file.h"
#include "text/tokenizer.h"

enum { CLS = 2, SEP = 3, MASK = 4, SPECIAL = 5, DOCUMENTS = 400 };
static const char vocabulary[] =
    "[PAD]\n[UNK]\n[CLS]\n[SEP]\n[MASK]\n.\nthe\ncat\ndog\nsat\nran\non\nmat\nlog\n";
enum { IDS = 14 };

struct data {
    struct folder *folder;
    char text[120], tokens[120], out[120], out2[120];
    struct mlm_data_options options;
    struct task_sources sources;
    const char *files[1];
};

static const struct task *mlm(void)
{
    return task_find("mlm");
}

/* Documents of one to five sentences, separated by blank lines. */
static void open_data(struct data *data, struct folder *folder)
{
    static const char *const nouns[] = {"cat", "dog", "mat", "log"};
    char *text = malloc(DOCUMENTS * 400), *at = text;
    assert_non_null(text);
    for (size_t i = 0; i < DOCUMENTS; i++) {
        for (size_t k = 0; k <= i % 5; k++)
            at +=
                sprintf(at, "The %s %s on the %s. ", nouns[(i + k) % 4], k % 2 ? "sat" : "ran", nouns[i % 3]);
        at += sprintf(at, "\n\n");
    }
    *data = (struct data){.folder = folder};
    snprintf(data->text, sizeof data->text, "%s/text.txt", folder->path);
    snprintf(data->tokens, sizeof data->tokens, "%s/tokens", folder->path);
    snprintf(data->out, sizeof data->out, "%s/out", folder->path);
    snprintf(data->out2, sizeof data->out2, "%s/out2", folder->path);
    folder_put_text(folder, "text.txt", text);
    free(text);
    assert_true(mkdir(data->tokens, 0777) == 0 && mkdir(data->out, 0777) == 0 &&
                mkdir(data->out2, 0777) == 0);
    folder_put_text(folder, "tokens/vocab.txt", vocabulary);
    options_preset(mlm()->prepare_options, &data->options);
    data->options.seq_len = 24;
    data->files[0] = data->text;
    data->sources =
        (struct task_sources){.files = data->files, .num_files = 1, .tokenizer = data->tokens, .seed = 3};
}

static void clear(const char *directory)
{
    static const char *const names[] = {"train.tokens", "valid.tokens", "test.tokens", "tokenizer.json",
                                        "vocab.txt"};
    char path[200];
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        snprintf(path, sizeof path, "%s/%s", directory, names[i]);
        unlink(path);
    }
}

static void close_data(struct data *data)
{
    const char *const directories[] = {data->out, data->out2, data->tokens};
    for (size_t i = 0; i < 3; i++) {
        clear(directories[i]);
        assert_int_equal(rmdir(directories[i]), 0); /* nothing else is there */
    }
}

static hashattn_status prepare(struct data *data, const char *directory, int threads,
                               struct task_prepared *prepared)
{
    struct host *host = &data->folder->host;
    struct pool *pool;
    TRY(pool_new(host, threads, &pool));
    data->sources.pool = pool;
    hashattn_status status = mlm()->prepare(host, &data->options, &data->sources, directory, prepared);
    pool_free(host, pool);
    return status;
}

static void check_prepared(struct data *data, const char *directory, int threads,
                           struct task_prepared *prepared)
{
    check_status(&data->folder->host, prepare(data, directory, threads, prepared), HASHATTN_OK, NULL);
}

static void check_refused(struct data *data, hashattn_status want, const char *part)
{
    struct task_prepared prepared;
    check_status(&data->folder->host, prepare(data, data->out, 2, &prepared), want, part);
    assert_int_equal(folder_temporaries(data->out), 0);
}

static bool same_files(const struct data *data, const char *name)
{
    char path[200];
    size_t size[2];
    char *bytes[2];
    for (int i = 0; i < 2; i++) {
        snprintf(path, sizeof path, "%s/%s", i == 0 ? "out" : "out2", name);
        bytes[i] = folder_get(data->folder, path, &size[i]);
    }
    bool same = size[0] == size[1] && memcmp(bytes[0], bytes[1], size[0]) == 0;
    free(bytes[0]);
    free(bytes[1]);
    return same;
}

static void the_number_of_threads_changes_nothing(void **state)
{
    struct data data;
    struct task_prepared one, three, other;
    open_data(&data, *state);
    data.options.test_share = 0.1;
    check_prepared(&data, data.out, 1, &one);
    check_prepared(&data, data.out2, 3, &three);
    assert_memory_equal(&one, &three, sizeof one);
    assert_true(one.documents == DOCUMENTS && one.examples[SPLIT_VALID] > 0 && one.examples[SPLIT_TEST] > 0);
    assert_true(same_files(&data, "train.tokens") && same_files(&data, "valid.tokens") &&
                same_files(&data, "test.tokens") && same_files(&data, "tokenizer.json"));
    clear(data.out2);
    data.sources.seed = 4;
    check_prepared(&data, data.out2, 3, &other);
    assert_false(same_files(&data, "train.tokens"));
    /* Exactly 5 % and, but for those that are validation, 10 % of the documents; here of the tokens, whose
       number per document differs by a factor of up to 5. */
    double all = (double)(one.tokens[0] + one.tokens[1] + one.tokens[2]);
    check_near((double)one.tokens[SPLIT_VALID] / all, 0.05, 0.015, "valid");
    check_near((double)one.tokens[SPLIT_TEST] / all, 0.1, 0.03, "test");
    close_data(&data);
}

/* 40 documents are two of 5 %, whatever the seed. */
static void few_documents_are_enough_for_a_split(void **state)
{
    struct data data;
    struct task_prepared prepared;
    open_data(&data, *state);
    char text[40 * 40] = "";
    for (size_t i = 0; i < 40; i++)
        strcat(text, "the cat sat on the mat\n\n");
    folder_put_text(data.folder, "text.txt", text);
    data.options.order = ORDER_NONE;
    data.options.whole = 1; /* an example per document */
    for (uint64_t seed = 0; seed < 30; seed++) {
        data.sources.seed = seed;
        check_prepared(&data, data.out, 2, &prepared);
        assert_true(prepared.documents == 40 && prepared.examples[SPLIT_VALID] == 2 &&
                    prepared.examples[SPLIT_TRAIN] == 38);
        clear(data.out);
    }
    close_data(&data);
}

static void training_documents_are_packed_again(void **state)
{
    struct data data;
    struct task_prepared one, three;
    open_data(&data, *state);
    check_prepared(&data, data.out, 2, &one);
    data.options.duplicates = 3;
    check_prepared(&data, data.out2, 2, &three);
    check_near((double)three.tokens[SPLIT_TRAIN] / (double)one.tokens[SPLIT_TRAIN], 3, 0.05, "tokens");
    assert_true(three.tokens[SPLIT_VALID] == one.tokens[SPLIT_VALID] && three.documents == one.documents);
    /* Other draws: other lengths of the short examples. */
    assert_true(three.tokens[SPLIT_TRAIN] != 3 * one.tokens[SPLIT_TRAIN]);
    close_data(&data);
}

/* Loads a split of `out` with the facts of its training file. */
static void load(struct data *data, enum split split, struct task_facts *facts, struct dataset *dataset)
{
    struct host *host = &data->folder->host;
    double options[1];
    options_preset(mlm()->options, options);
    check_status(host, mlm()->facts(host, options, data->out, NULL, facts), HASHATTN_OK, NULL);
    check_status(host, mlm()->load(host, options, facts, data->out, split, 1, dataset), HASHATTN_OK, NULL);
}

static void data_sets_are_examples_of_bert(void **state)
{
    struct data data;
    struct task_prepared prepared;
    struct task_facts facts;
    struct dataset dataset;
    open_data(&data, *state);
    check_prepared(&data, data.out, 2, &prepared);
    load(&data, SPLIT_TRAIN, &facts, &dataset);
    assert_true(facts.vocab_size == IDS && facts.num_tokens == IDS && facts.max_len == 24 &&
                facts.num_segments == 2 && facts.num_classes == 2 && facts.num_objectives == 2);
    assert_string_equal(facts.labels[0], "in order");
    assert_string_equal(facts.labels[1], "swapped");
    assert_true(strcmp(facts.objectives[0].name, "masked_tokens") == 0 &&
                facts.objectives[0].num_outputs == IDS);
    assert_true(strcmp(facts.objectives[1].name, "classify") == 0 && facts.objectives[1].num_outputs == 2);
    assert_int_equal(dataset.count, prepared.examples[SPLIT_TRAIN]);
    size_t swapped = 0;
    for (size_t i = 0; i < dataset.count; i++) {
        size_t first = dataset.offsets[i], end = dataset.offsets[i + 1], seps = 0;
        assert_true(dataset.ids[first] == CLS && dataset.ids[end - 1] == SEP && end - first <= 24);
        for (size_t k = first; k < end; k++) {
            assert_int_equal(dataset.segments[k], seps);
            seps += dataset.ids[k] == SEP;
        }
        assert_int_equal(seps, 2);
        swapped += dataset.targets[1].ids[i];
    }
    double n = (double)dataset.count;
    check_near(((double)swapped - n / 2) / sqrt(n / 4), 0, 5, "swapped");
    assert_true(dataset.masks.share == 0.15 && dataset.masks.mask_id == MASK && dataset.masks.num_ids == IDS);
    for (size_t id = 0; id < IDS; id++)
        assert_int_equal(dataset.masks.fixed[id], id < SPECIAL);
    dataset_free(&data.folder->host, &dataset);
    task_facts_free(&data.folder->host, &facts);
    close_data(&data);
}

static void other_orders_have_other_labels(void **state)
{
    struct data data;
    struct task_prepared prepared;
    struct task_facts facts;
    struct dataset dataset;
    open_data(&data, *state);
    data.options.order = ORDER_NSP;
    check_prepared(&data, data.out, 2, &prepared);
    load(&data, SPLIT_VALID, &facts, &dataset);
    assert_string_equal(facts.labels[1], "random");
    dataset_free(&data.folder->host, &dataset);
    task_facts_free(&data.folder->host, &facts);
    clear(data.out);
    data.options.order = ORDER_AUTO;
    data.options.whole = 1;
    check_prepared(&data, data.out, 2, &prepared);
    load(&data, SPLIT_TRAIN, &facts, &dataset);
    assert_true(facts.num_segments == 0 && facts.num_objectives == 1 && facts.num_classes == 0);
    assert_true(!dataset.segmented && dataset.num_targets == 1);
    size_t full = 0; /* a document of n tokens is n / 22 pieces of 24, and a rest */
    for (size_t i = 0; i < dataset.count; i++)
        full += dataset.offsets[i + 1] - dataset.offsets[i] == 24;
    assert_true(full > dataset.count / 4);
    dataset_free(&data.folder->host, &dataset);
    /* Files that were made anew in between do not fit the facts. */
    struct host *host = &data.folder->host;
    double options[1] = {0.15};
    clear(data.out);
    data.options.order = ORDER_SOP;
    data.options.whole = 0;
    check_prepared(&data, data.out, 2, &prepared);
    check_status(host, mlm()->load(host, options, &facts, data.out, SPLIT_TRAIN, 1, &dataset),
                 HASHATTN_BAD_FILE, "out/train.tokens has order sop, the model was made for none");
    facts.max_len = 20;
    check_status(host, mlm()->load(host, options, &facts, data.out, SPLIT_TRAIN, 1, &dataset),
                 HASHATTN_BAD_FILE, "has examples of up to 24 tokens, the model takes 20");
    check_status(host, mlm()->load(host, options, &facts, data.out, SPLIT_TEST, 1, &dataset),
                 HASHATTN_BAD_FILE, "out has no test.tokens");
    task_facts_free(host, &facts);
    close_data(&data);
}

/* Appends a document: its words, spaces up to `size` bytes, and a blank line. */
static char *put_document(char *at, const char *words, size_t size)
{
    size_t used = strlen(words);
    memcpy(at, words, used);
    memset(at + used, ' ', size - used);
    memcpy(at + size, "\n\n", 2);
    return at + size + 2;
}

/* The examples that begin in the document of "dog", which has no other word; the other documents are of
   "cat", and `foreign` counts the examples with a B from there. */
static size_t examples_of_dog(const struct dataset *dataset, size_t *foreign)
{
    enum { CAT = 7, DOG = 8 };
    size_t count = 0;
    *foreign = 0;
    for (size_t i = 0; i < dataset->count; i++) {
        const uint32_t *ids = dataset->ids + dataset->offsets[i];
        size_t last = dataset->offsets[i + 1] - dataset->offsets[i] - 2; /* of B */
        if (ids[1] != DOG)
            continue;
        count++;
        assert_int_equal(ids[last], dataset->targets[1].ids[i] == 1 ? CAT : DOG);
        *foreign += ids[last] == CAT;
    }
    return count;
}

/* A block has 8 MiB, here nearly all spaces, and ends with its document. Each way: where the document of
   "dog" is alone in its block. */
static void a_document_alone_in_its_block_is_paired(void **state)
{
    enum { BLOCK = 1 << 23, WAYS = 4 };
    static const char dog[] = "dog dog dog dog dog dog dog dog dog dog", cat[] = "cat cat cat",
                      none[] = "\x01";
    static const struct {
        const char *words[4];
        size_t small, documents;                    /* small: which of them has 100 bytes */
    } ways[WAYS] = {{{cat, cat, dog}, 0, 3},        /* at the end */
                    {{dog, cat, cat}, 1, 3},        /* at the beginning */
                    {{dog, none, none, cat}, 4, 2}, /* with nothing in the next blocks */
                    {{cat, none, dog}, 4, 2}};      /* or in the one before */
    struct data data;
    char *text = malloc(4 * (BLOCK + 100)), valid[140];
    assert_non_null(text);
    open_data(&data, *state);
    snprintf(valid, sizeof valid, "%s/valid.txt", data.folder->path);
    folder_put_text(data.folder, "valid.txt", "cat cat\n\ncat cat\n");
    data.sources.valid = valid;
    data.options.order = ORDER_NSP;
    data.options.duplicates = 20;
    for (size_t way = 0; way < WAYS; way++) {
        struct task_prepared prepared;
        struct task_facts facts;
        struct dataset dataset;
        char *at = text;
        size_t foreign;
        for (size_t i = 0; i < 4 && ways[way].words[i] != NULL; i++)
            at = put_document(at, ways[way].words[i], i == ways[way].small ? 100 : BLOCK);
        *at = '\0';
        folder_put_text(data.folder, "text.txt", text);
        check_prepared(&data, data.out, 2, &prepared);
        assert_int_equal(prepared.documents, ways[way].documents + 2);
        load(&data, SPLIT_TRAIN, &facts, &dataset);
        size_t count = examples_of_dog(&dataset, &foreign);
        assert_true(count >= 20 && foreign > 0 && foreign < count);
        dataset_free(&data.folder->host, &dataset);
        task_facts_free(&data.folder->host, &facts);
        clear(data.out);
    }
    /* A document of validation is not paired with one of training, nor one of training with no other. */
    folder_put_text(data.folder, "valid.txt", "cat cat\n");
    check_refused(&data, HASHATTN_INVALID, "there is one document among 8 bytes of text; two are needed");
    *put_document(put_document(text, dog, BLOCK), none, BLOCK) = '\0';
    folder_put_text(data.folder, "text.txt", text);
    check_refused(&data, HASHATTN_INVALID, "there is one document among 16777220 bytes of text; two are");
    free(text);
    close_data(&data);
}

static void a_given_tokenizer_must_have_made_the_ids(void **state)
{
    struct data data;
    struct task_prepared prepared;
    struct task_facts facts;
    struct tokenizer *given;
    open_data(&data, *state);
    struct host *host = &data.folder->host;
    double options[1] = {0.15};
    check_status(host, mlm()->facts(host, options, data.out, NULL, &facts), HASHATTN_BAD_FILE,
                 "out has no train.tokens: make it from texts with hashattn data mlm");
    check_prepared(&data, data.out, 2, &prepared);
    check_status(host, tokenizer_load(host, data.tokens, &given), HASHATTN_OK, NULL);
    check_status(host, mlm()->facts(host, options, data.out, given, &facts), HASHATTN_OK, NULL);
    assert_ptr_equal(facts.tokenizer, given);
    task_facts_free(host, &facts);
    char other[sizeof vocabulary];
    strcpy(other, vocabulary);
    memcpy(strstr(other, "cat"), "cow", 3);
    folder_put_text(data.folder, "tokens/vocab.txt", other);
    check_status(host, tokenizer_load(host, data.tokens, &given), HASHATTN_OK, NULL);
    check_status(host, mlm()->facts(host, options, data.out, given, &facts), HASHATTN_BAD_FILE,
                 "train.tokens was made with another tokenizer: the hash of its tokens is");
    assert_null(facts.tokenizer);
    tokenizer_free(host, given); /* still the caller's */
    check_refused(&data, HASHATTN_INVALID, "out/train.tokens exists already and is not overwritten");
    char path[200];
    snprintf(path, sizeof path, "%s/train.tokens", data.out);
    assert_int_equal(unlink(path), 0);
    snprintf(path, sizeof path, "%s/valid.tokens", data.out);
    assert_int_equal(unlink(path), 0);
    check_refused(&data, HASHATTN_INVALID, "out/tokenizer.json is another tokenizer, and is not overwritten");
    folder_put_text(data.folder, "tokens/vocab.txt", vocabulary);
    check_prepared(&data, data.out, 2, &prepared); /* the same one is kept */
    close_data(&data);
}

static bool stop(void *user, uint64_t done, uint64_t total)
{
    uint64_t *seen = user;
    seen[0] = done;
    seen[1] = total;
    return true;
}

static void bad_input_is_named(void **state)
{
    struct data data;
    uint64_t seen[2];
    open_data(&data, *state);
    data.options.order = ORDER_SOP;
    data.options.whole = 1;
    check_refused(&data, HASHATTN_INVALID, "order is sop, it must be none");
    data.options.whole = 0;
    data.options.valid_share = 0;
    check_refused(&data, HASHATTN_INVALID, "there is no validation set: valid_share is 0");
    data.options.valid_share = 0.05;
    data.sources.progress = stop;
    data.sources.user = seen;
    check_refused(&data, HASHATTN_INTERRUPTED, "stopped after");
    assert_true(seen[0] == seen[1] && seen[0] > 1000);
    data.sources.progress = NULL;
    folder_put_text(data.folder, "tokens/vocab.txt", "[PAD]\n[UNK]\n[CLS]\n[SEP]\na\n");
    check_refused(&data, HASHATTN_INVALID,
                  "tokens: the tokenizer has no token [MASK] or <mask>, which pretraining needs");
    folder_put_text(data.folder, "tokens/vocab.txt", vocabulary);
    folder_put_text(data.folder, "text.txt", " \n\n\t\n");
    check_refused(&data, HASHATTN_BAD_FILE, "text.txt: no document has two tokens");
    folder_put_text(data.folder, "text.txt", "the\n\n.\n\ncat\n");
    check_refused(&data, HASHATTN_BAD_FILE, "text.txt: no document has two tokens");
    folder_put_text(data.folder, "text.txt", "the cat sat\n");
    check_refused(&data, HASHATTN_INVALID,
                  "none of the 1 documents was drawn for valid, with a share of 0.05: give a file for it");
    char valid[140];
    snprintf(valid, sizeof valid, "%s/valid.txt", data.folder->path);
    data.sources.valid = valid;
    check_refused(&data, HASHATTN_BAD_FILE, "valid.txt: cannot open");
    folder_put_text(data.folder, "valid.txt", "");
    check_refused(&data, HASHATTN_BAD_FILE, "valid.txt: no document has two tokens");
    folder_put_text(data.folder, "valid.txt", "the dog ran\n");
    data.options.order = ORDER_NSP;
    check_refused(
        &data, HASHATTN_INVALID,
        "order nsp takes texts from other documents, and there is one document among 12 bytes of text; two");
    data.options.order = ORDER_SOP;
    struct task_prepared prepared;
    check_prepared(&data, data.out, 2, &prepared); /* one sentence each: divided at a token */
    assert_true(prepared.examples[0] >= 1 && prepared.examples[1] >= 1 && prepared.examples[2] == 0);
    close_data(&data);
}

#define IN_FOLDER(test) cmocka_unit_test_setup_teardown(test, folder_enter, folder_leave)

int main(void)
{
    const struct CMUnitTest tests[] = {
        IN_FOLDER(the_number_of_threads_changes_nothing),
        IN_FOLDER(few_documents_are_enough_for_a_split),
        IN_FOLDER(training_documents_are_packed_again),
        IN_FOLDER(data_sets_are_examples_of_bert),
        IN_FOLDER(other_orders_have_other_labels),
        IN_FOLDER(a_document_alone_in_its_block_is_paired),
        IN_FOLDER(a_given_tokenizer_must_have_made_the_ids),
        IN_FOLDER(bad_input_is_named),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
