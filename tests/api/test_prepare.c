/* Data from texts through the public header; tests/tasks/mlm tests the data.
   Planted and caught: counts of valid and test exchanged; progress not passed on; options of the data not
   passed on; memory left after a failure; an
   empty directory left.
   SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "support/api_context.h"
#include "support/folder.h"

struct texts {
    char path[100], out[100];
    const char *files[1];
    hashattn_sources sources;
};

static void open_texts(struct texts *texts, const struct folder *folder)
{
    char text[6000] = "";
    for (size_t i = 0; i < 100; i++)
        strcat(text, "the cat sat. the cat sat.\nThe cat\n\n");
    folder_put_text(folder, "a.txt", text);
    snprintf(texts->path, sizeof texts->path, "%s/a.txt", folder->path);
    snprintf(texts->out, sizeof texts->out, "%s/out", folder->path);
    texts->files[0] = texts->path;
    hashattn_sources_default(&texts->sources);
    texts->sources.files = texts->files;
    texts->sources.num_files = 1;
    texts->sources.tokenizer = "tests/models/checkpoints/bert";
}

static void close_texts(const struct folder *folder)
{
    static const char *const names[] = {"out/train.tokens", "out/valid.tokens", "out/test.tokens",
                                        "out/tokenizer.json"};
    char path[200];
    for (size_t i = 0; i < 4; i++) {
        snprintf(path, sizeof path, "%s/%s", folder->path, names[i]);
        unlink(path);
    }
    snprintf(path, sizeof path, "%s/out", folder->path);
    assert_int_equal(rmdir(path), 0);
}

static int stop(void *user, uint64_t done, uint64_t total)
{
    *(int *)user += done > 0 && done == total;
    return 1;
}

static void texts_become_data(void **state)
{
    struct folder *folder = *state;
    struct failing_host counting;
    struct texts texts;
    hashattn_setup *setup;
    int stopped = 0;
    failing_host_init(&counting, -1);
    hashattn_context *context = context_with(2, &counting);
    open_texts(&texts, folder);
    check_ok(context, hashattn_setup_new(context, "mlm", &setup));
    check_ok(context, hashattn_setup_set(setup, "seq_len", "12"));
    check_ok(context, hashattn_setup_set(setup, "valid_share", "0.5"));
    check_ok(context, hashattn_setup_set(setup, "test_share", "0.1"));
    texts.sources.progress = stop;
    texts.sources.user = &stopped;
    check_call(context, hashattn_setup_prepare(setup, &texts.sources, texts.out, NULL), HASHATTN_INTERRUPTED,
               "stopped after 3500 of 3500 bytes of text");
    assert_int_equal(stopped, 1);
    assert_int_equal(access(texts.out, F_OK), -1); /* an empty directory is not left */
    texts.sources.progress = NULL;
    hashattn_prepared prepared = {.struct_size = sizeof prepared};
    check_ok(context, hashattn_setup_prepare(setup, &texts.sources, texts.out, &prepared));
    assert_int_equal(prepared.documents, 100);
    assert_true(prepared.examples[1] > prepared.examples[2] && prepared.examples[2] > 0);
    assert_true(prepared.examples[0] > prepared.examples[2] && prepared.tokens[1] > prepared.examples[1]);
    hashattn_setup_free(setup);
    hashattn_context_free(context);
    assert_int_equal(counting.outstanding, 0);
    close_texts(folder);
}

static void arguments_are_checked(void **state)
{
    struct folder *folder = *state;
    struct texts texts;
    hashattn_setup *setup;
    hashattn_context *context = context_with(1, NULL);
    open_texts(&texts, folder);
    check_ok(context, hashattn_setup_new(context, "lm", &setup));
    check_call(context, hashattn_setup_prepare(setup, &texts.sources, texts.out, NULL), HASHATTN_REFUSED,
               "lm is not made from texts");
    hashattn_setup_free(setup);
    check_ok(context, hashattn_setup_new(context, "mlm", &setup));
    const size_t counts[3] = {1, 1, 1};
    check_call(context, hashattn_setup_generate(setup, texts.out, counts, 1), HASHATTN_REFUSED,
               "mlm cannot be generated: it reads your own texts, see hashattn_setup_prepare");
    check_call(context, hashattn_setup_prepare(setup, NULL, texts.out, NULL), HASHATTN_INVALID,
               "sources is NULL");
    check_call(context, hashattn_setup_prepare(setup, &texts.sources, NULL, NULL), HASHATTN_INVALID,
               "directory is NULL");
    hashattn_sources broken = texts.sources;
    broken.num_files = 0;
    check_call(context, hashattn_setup_prepare(setup, &broken, texts.out, NULL), HASHATTN_INVALID,
               "there are no files of text");
    const char *none[] = {NULL};
    broken.num_files = 1;
    broken.files = none;
    check_call(context, hashattn_setup_prepare(setup, &broken, texts.out, NULL), HASHATTN_INVALID,
               "file 0 is NULL");
    broken = texts.sources;
    broken.tokenizer = NULL;
    check_call(context, hashattn_setup_prepare(setup, &broken, texts.out, NULL), HASHATTN_INVALID,
               "the directory of the tokenizer is NULL");
    broken.struct_size = 8;
    check_call(context, hashattn_setup_prepare(setup, &broken, texts.out, NULL), HASHATTN_INVALID, "sources");
    assert_int_equal(hashattn_setup_prepare(NULL, &texts.sources, texts.out, NULL), HASHATTN_INVALID);
    check_call(context, hashattn_setup_set(setup, "seq_len", "4"), HASHATTN_INVALID,
               "mlm: seq_len is 4, allowed are 5 to 65536");
    hashattn_setup_free(setup);
    hashattn_context_free(context);
}

/* Every failed allocation is reported and leaves nothing; the threads' own memory is not the host's. */
static void failing_allocations_leave_nothing(void **state)
{
    struct folder *folder = *state;
    struct texts texts;
    open_texts(&texts, folder);
    for (long n = 0;; n++) {
        struct failing_host failing;
        hashattn_setup *setup;
        failing_host_init(&failing, -1);
        hashattn_context *context = context_with(1, &failing);
        check_ok(context, hashattn_setup_new(context, "mlm", &setup));
        failing.until_failure = n;
        hashattn_status status = hashattn_setup_prepare(setup, &texts.sources, texts.out, NULL);
        failing.until_failure = -1;
        assert_true(status == HASHATTN_OK || status == HASHATTN_NO_MEMORY);
        hashattn_setup_free(setup);
        hashattn_context_free(context);
        assert_int_equal(failing.outstanding, 0);
        if (status == HASHATTN_OK)
            break;
        assert_int_equal(access(texts.out, F_OK), -1); /* not even a temporary file is left */
    }
    close_texts(folder);
}

#define IN_FOLDER(test) cmocka_unit_test_setup_teardown(test, folder_enter, folder_leave)

int main(void)
{
    const struct CMUnitTest tests[] = {
        IN_FOLDER(texts_become_data),
        IN_FOLDER(arguments_are_checked),
        IN_FOLDER(failing_allocations_leave_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
