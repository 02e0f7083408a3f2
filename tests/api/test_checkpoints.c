/* The public functions of stored checkpoints: rows and scores as in the files beside them, options of the
   mechanism, saving, arguments that are wrong, and failing allocations. Bugs planted and caught: weights not
   prepared again after an option; the precision of the context ignored; places that fall accepted; the model
   changed by a refused option; the tokenizer not saved; the roles of its tokens exchanged; config.json not
   written last; an output that the saved file does not tie; a number that is not finite without the path.
   SPDX-License-Identifier: Apache-2.0 */
#include <fcntl.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "hashattn/hashattn.h"
#include "support/api_context.h"
#include "support/checkpoint_case.h"

enum { T = CHECKPOINT_TOKENS, DIM = CHECKPOINT_DIM, VOCAB = CHECKPOINT_VOCAB };

static hashattn_sequences sequences_of(const struct checkpoint_case *c)
{
    return (hashattn_sequences){.struct_size = sizeof(hashattn_sequences),
                                .num_sequences = 1,
                                .offsets = c->offsets,
                                .ids = c->ids,
                                .segments = c->segments};
}

static void rows_and_scores_are_those_of_the_files(void **state)
{
    (void)state;
    hashattn_context *context = context_with(2, NULL);
    for (size_t i = 0; checkpoint_types[i] != NULL; i++) {
        struct checkpoint_case c;
        hashattn_pretrained *p;
        checkpoint_case_read(checkpoint_types[i], &c);
        const hashattn_sequences sequences = sequences_of(&c);
        check_ok(context, hashattn_pretrained_load(context, c.directory, NULL, &p));
        hashattn_pretrained_info info = {.struct_size = sizeof info};
        hashattn_pretrained_describe(p, &info);
        assert_string_equal(info.type, checkpoint_types[i]);
        assert_string_equal(info.mechanism, i == 0 ? "yoso-e" : "softmax");
        assert_true(info.layers == 2 && info.dim == DIM && info.vocab_size == VOCAB && info.max_len == T);
        assert_true(info.num_scores == VOCAB && info.num_segments == (i == 1 ? 2 : 1) &&
                    info.num_params > 1000);
        float rows[T * DIM], scores[2 * VOCAB];
        const size_t places[] = {3, 9};
        check_ok(context, hashattn_pretrained_rows(p, &sequences, 1, rows));
        check_ok(context, hashattn_pretrained_scores(p, &sequences, 1, places, 2, scores));
        for (size_t k = 0; k < T * DIM; k++)
            check_near((double)rows[k], (double)c.hidden[k], 5e-6, "row");
        for (size_t k = 0; k < VOCAB; k++) {
            check_near((double)scores[k], (double)c.logits[3 * VOCAB + k], 5e-6, "score");
            check_near((double)scores[VOCAB + k], (double)c.logits[9 * VOCAB + k], 5e-6, "score");
        }
        hashattn_pretrained_free(p);
    }
    hashattn_pretrained_free(NULL);
    hashattn_context_free(context);
}

static double gap(const float *a, const float *b, size_t n)
{
    double most = 0;
    for (size_t i = 0; i < n; i++)
        most = fmax(most, fabs((double)a[i] - (double)b[i]));
    return most;
}

/* With more hashes the sampled rows come closer to the expectation. */
static void options_change_the_mechanism(void **state)
{
    (void)state;
    struct checkpoint_case c;
    hashattn_pretrained *p;
    float few[T * DIM], many[T * DIM];
    checkpoint_case_read("yoso", &c);
    const hashattn_sequences sequences = sequences_of(&c);
    hashattn_context *context = context_with(1, NULL);
    check_ok(context, hashattn_pretrained_load(context, c.directory, "yoso", &p));
    check_ok(context, hashattn_pretrained_set(p, "planes", "gaussian"));
    check_ok(context, hashattn_pretrained_set(p, "num_hashes", "2"));
    check_ok(context, hashattn_pretrained_rows(p, &sequences, 1, few));
    check_ok(context, hashattn_pretrained_set(p, "num_hashes", "4096"));
    check_ok(context, hashattn_pretrained_rows(p, &sequences, 1, many));
    assert_true(4 * gap(many, c.hidden, T * DIM) < gap(few, c.hidden, T * DIM));
    check_call(context, hashattn_pretrained_set(p, "num_hashes", "0"), HASHATTN_INVALID, "num_hashes");
    check_call(context, hashattn_pretrained_set(p, "num_buckets", "2"), HASHATTN_INVALID, "no option");
    check_call(context, hashattn_pretrained_set(p, NULL, "2"), HASHATTN_INVALID, "NULL");
    check_ok(context, hashattn_pretrained_rows(p, &sequences, 1, few));
    check_same_bits(few, many, sizeof few, "rows after a refused option");
    hashattn_pretrained_free(p);
    hashattn_context_free(context);
}

static void wrong_arguments_are_refused(void **state)
{
    (void)state;
    struct checkpoint_case c;
    hashattn_pretrained *p;
    float rows[T * DIM], scores[2 * VOCAB];
    size_t places[] = {3, 2};
    checkpoint_case_read("bert", &c);
    hashattn_context *context = context_with(1, NULL);
    check_call(context, hashattn_pretrained_load(context, "tests/nowhere", NULL, &p), HASHATTN_BAD_FILE,
               "cannot open tests/nowhere: No such file");
    assert_null(p);
    check_call(context, hashattn_pretrained_load(context, NULL, NULL, &p), HASHATTN_INVALID,
               "directory is NULL");
    check_call(context, hashattn_pretrained_load(context, c.directory, "lah", &p), HASHATTN_INVALID, "lah");
    assert_int_equal(hashattn_pretrained_load(NULL, c.directory, NULL, &p), HASHATTN_INVALID);
    check_ok(context, hashattn_pretrained_load(context, c.directory, NULL, &p));
    hashattn_sequences sequences = sequences_of(&c);
    check_call(context, hashattn_pretrained_rows(p, NULL, 1, rows), HASHATTN_INVALID, "sequences is NULL");
    check_call(context, hashattn_pretrained_rows(p, &sequences, 1, NULL), HASHATTN_INVALID, "rows is NULL");
    check_call(context, hashattn_pretrained_scores(p, &sequences, 1, places, 2, scores), HASHATTN_INVALID,
               "place 1 is row 2; places rise");
    places[1] = T;
    check_call(context, hashattn_pretrained_scores(p, &sequences, 1, places, 2, scores), HASHATTN_INVALID,
               "place 1 is row 10");
    check_call(context, hashattn_pretrained_scores(p, &sequences, 1, NULL, 2, scores), HASHATTN_INVALID,
               "places");
    sequences.ids = NULL;
    check_call(context, hashattn_pretrained_rows(p, &sequences, 1, rows), HASHATTN_INVALID, "ids is NULL");
    sequences = sequences_of(&c);
    sequences.struct_size = 8;
    check_call(context, hashattn_pretrained_rows(p, &sequences, 1, rows), HASHATTN_INVALID, "struct_size");
    sequences = sequences_of(&c);
    const size_t late[] = {1, T};
    sequences.offsets = late;
    check_call(context, hashattn_pretrained_rows(p, &sequences, 1, rows), HASHATTN_INVALID,
               "offsets begin with 1");
    check_call(context, hashattn_pretrained_save(p, NULL), HASHATTN_INVALID, "directory is NULL");
    check_call(context, hashattn_pretrained_save(p, "tests"), HASHATTN_INVALID, "exists");
    hashattn_pretrained_free(p);
    hashattn_context_free(context);
}

/* A file of BERT has no place for another mechanism. */
static void what_a_file_cannot_describe_is_not_saved(void **state)
{
    struct folder *folder = *state;
    struct checkpoint_case c;
    hashattn_pretrained *p;
    char path[100];
    checkpoint_case_read("bert", &c);
    hashattn_context *context = context_with(1, NULL);
    snprintf(path, sizeof path, "%s/saved", folder->path);
    check_ok(context, hashattn_pretrained_load(context, c.directory, "yoso", &p));
    check_call(context, hashattn_pretrained_save(p, path), HASHATTN_REFUSED,
               "a file of type bert cannot describe the model: attention is yoso (softmax is needed)");
    hashattn_pretrained_free(p);
    FILE *left = fopen(path, "r");
    assert_null(left);
    hashattn_context_free(context);
}

/* In place of the C library's: the process ends before the killed_at'th file appears. 0: it never does. */
static int renames, killed_at;

int rename(const char *from, const char *to)
{
    if (killed_at > 0 && ++renames == killed_at)
        _exit(9);
    return renameat(AT_FDCWD, from, AT_FDCWD, to);
}

static void a_killed_save_leaves_no_checkpoint(void **state)
{
    struct folder *folder = *state;
    struct checkpoint_case c;
    hashattn_pretrained *p;
    char path[100];
    checkpoint_case_read("bert", &c);
    hashattn_context *context = context_with(1, NULL);
    check_ok(context, hashattn_pretrained_load(context, c.directory, NULL, &p));
    for (int at = 1, ended = 0; !ended; at++) {
        snprintf(path, sizeof path, "%s/saved-%d", folder->path, at);
        pid_t child = fork();
        assert_true(child >= 0);
        if (child == 0) {
            killed_at = at;
            _exit(hashattn_pretrained_save(p, path) == HASHATTN_OK ? 0 : 1);
        }
        int status;
        assert_int_equal(waitpid(child, &status, 0), child);
        assert_true(WIFEXITED(status) && (WEXITSTATUS(status) == 9 || WEXITSTATUS(status) == 0));
        ended = WEXITSTATUS(status) == 0;
        assert_true(!ended || at == 5); /* four files */
        hashattn_pretrained *left;
        hashattn_status loaded = hashattn_pretrained_load(context, path, NULL, &left);
        assert_int_equal(loaded, ended ? HASHATTN_OK : HASHATTN_BAD_FILE);
        hashattn_pretrained_free(left);
    }
    hashattn_pretrained_free(p);
    hashattn_context_free(context);
}

static void remove_saved(const struct folder *folder)
{
    static const char *const files[] = {"config.json", "model.safetensors", "tokenizer.json",
                                        "tokenizer_config.json"};
    char name[160];
    for (size_t i = 0; i < 4; i++) {
        snprintf(name, sizeof name, "saved/%s", files[i]);
        folder_remove(folder, name);
    }
    snprintf(name, sizeof name, "%s/saved", folder->path);
    assert_int_equal(remove(name), 0);
}

/* The tokenizer's files are written in the form that the other library reads without code of ours. */
static void the_tokenizer_is_saved(void **state)
{
    struct folder *folder = *state;
    struct checkpoint_case c;
    hashattn_pretrained *p;
    hashattn_tokenizer *tokenizer;
    char path[100];
    checkpoint_case_read("bert", &c);
    hashattn_context *context = context_with(1, NULL);
    snprintf(path, sizeof path, "%s/saved", folder->path);
    check_ok(context, hashattn_pretrained_load(context, c.directory, NULL, &p));
    check_ok(context, hashattn_pretrained_save(p, path));
    hashattn_pretrained_free(p);
    check_ok(context, hashattn_tokenizer_load(context, path, &tokenizer));
    hashattn_tokenizer_free(tokenizer);
    size_t size;
    char *text = folder_get(folder, "saved/tokenizer_config.json", &size);
    static const char *const parts[] = {"\"tokenizer_class\": \"PreTrainedTokenizerFast\"",
                                        "\"model_max_length\": 10",
                                        "\"cls_token\": \"[CLS]\"",
                                        "\"sep_token\": \"[SEP]\"",
                                        "\"mask_token\": \"[MASK]\"",
                                        "\"pad_token\": \"[PAD]\"",
                                        "\"unk_token\": \"[UNK]\""};
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++)
        assert_non_null(strstr(text, parts[i]));
    free(text);
    remove_saved(folder);
    hashattn_context_free(context);
}

/* A file with the output's table twice may say that they are not tied; the saved one has it once. */
static void a_saved_output_is_tied(void **state)
{
    struct folder *folder = *state;
    hashattn_pretrained *p;
    char path[100];
    size_t size;
    hashattn_context *context = context_with(1, NULL);
    checkpoint_copy(folder, "bert");
    checkpoint_edit(folder, "\"tie_word_embeddings\": true", "\"tie_word_embeddings\": false");
    snprintf(path, sizeof path, "%s/saved", folder->path);
    check_ok(context, hashattn_pretrained_load(context, folder->path, NULL, &p));
    check_ok(context, hashattn_pretrained_save(p, path));
    hashattn_pretrained_free(p);
    char *text = folder_get(folder, "saved/config.json", &size);
    assert_non_null(strstr(text, "\"tie_word_embeddings\": true"));
    free(text);
    remove_saved(folder);
    hashattn_context_free(context);
}

static void a_number_that_is_not_finite_is_told_with_the_path(void **state)
{
    struct folder *folder = *state;
    hashattn_pretrained *p;
    char path[100], wanted[200];
    size_t size;
    hashattn_context *context = context_with(1, NULL);
    checkpoint_copy(folder, "bert");
    char *bytes = folder_get(folder, "model.safetensors", &size);
    uint64_t header;
    memcpy(&header, bytes, sizeof header);
    memset(bytes + sizeof header + header, 0xff, 4);
    folder_put(folder, "model.safetensors", bytes, size);
    free(bytes);
    snprintf(path, sizeof path, "%s/saved", folder->path);
    snprintf(wanted, sizeof wanted, "%s: the tensor of '", folder->path);
    check_ok(context, hashattn_pretrained_load(context, folder->path, NULL, &p));
    check_call(context, hashattn_pretrained_save(p, path), HASHATTN_BAD_FILE, wanted);
    assert_int_not_equal(remove(path), 0); /* nothing is left */
    hashattn_pretrained_free(p);
    hashattn_context_free(context);
}

static hashattn_status load_and_compute(hashattn_context *context, void *user)
{
    const struct checkpoint_case *c = user;
    hashattn_pretrained *p;
    float rows[T * DIM], scores[VOCAB];
    const size_t places[] = {2};
    const hashattn_sequences sequences = sequences_of(c);
    hashattn_status status = hashattn_pretrained_load(context, c->directory, NULL, &p);
    if (status == HASHATTN_OK)
        status = hashattn_pretrained_rows(p, &sequences, 1, rows);
    if (status == HASHATTN_OK)
        status = hashattn_pretrained_scores(p, &sequences, 1, places, 1, scores);
    hashattn_pretrained_free(p);
    return status;
}

static void every_failing_allocation_is_reported(void **state)
{
    (void)state;
    struct checkpoint_case c;
    checkpoint_case_read("roberta", &c); /* several files */
    check_every_failing_allocation(load_and_compute, &c);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(rows_and_scores_are_those_of_the_files),
        cmocka_unit_test(options_change_the_mechanism),
        cmocka_unit_test(wrong_arguments_are_refused),
        cmocka_unit_test_setup_teardown(what_a_file_cannot_describe_is_not_saved, folder_enter, folder_leave),
        cmocka_unit_test_setup_teardown(a_killed_save_leaves_no_checkpoint, folder_enter, folder_leave),
        cmocka_unit_test_setup_teardown(the_tokenizer_is_saved, folder_enter, folder_leave),
        cmocka_unit_test_setup_teardown(a_saved_output_is_tied, folder_enter, folder_leave),
        cmocka_unit_test_setup_teardown(a_number_that_is_not_finite_is_told_with_the_path, folder_enter,
                                        folder_leave),
        cmocka_unit_test(every_failing_allocation_is_reported),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
