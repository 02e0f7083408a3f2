/* Contexts: defaults, every refusal with its numbers, the caller's allocator, the description. Planted and
   caught: threads 1025 accepted; allocate without release accepted; the context's block freed by the default
   allocator; no NUL in a short message buffer; a pool not freed by hashattn_context_free; the refusal of
   another instruction set returned; ranks of other instruction sets accepted.
   SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "support/api_context.h"
#include "support/thread_ranks.h"

static void defaults_make_a_context(void **state)
{
    (void)state;
    hashattn_context *context = NULL;
    char message[100] = "old";
    assert_int_equal(hashattn_context_new(NULL, message, sizeof message, &context), HASHATTN_OK);
    assert_string_equal(message, "");
    assert_string_equal(hashattn_context_message(context), "");
    hashattn_description is = {.struct_size = sizeof is};
    hashattn_context_describe(context, &is);
    assert_true(is.threads >= 1);
    assert_string_equal(is.version, HASHATTN_VERSION);
    assert_string_equal(is.projection, "int16-dp");
    assert_string_equal(is.precision, "float32");
    assert_true(is.products[0] != '\0');
    unsigned major, minor;
    assert_int_equal(sscanf(is.libraries, "jansson %u.%u", &major, &minor), 2);
    assert_non_null(strstr(is.libraries, ", utf8proc "));
    assert_int_equal(sscanf(is.caches, "L1 %u", &major), is.caches[0] == '\0' ? 0 : 1);
    hashattn_context_free(context);
    hashattn_context_free(NULL);
}

static void check_refusal(hashattn_context_options *options, const char *part)
{
    char message[512] = "";
    hashattn_context *context = (void *)options;
    assert_int_equal(hashattn_context_new(options, message, sizeof message, &context), HASHATTN_INVALID);
    assert_null(context);
    if (strstr(message, part) == NULL)
        fail_msg("message '%s' lacks '%s'", message, part);
}

static void *never(void *user, size_t alignment, size_t bytes)
{
    (void)user;
    (void)alignment;
    (void)bytes;
    return NULL;
}

static void refusals_have_numbers(void **state)
{
    (void)state;
    hashattn_context_options options;
    hashattn_context_options_default(&options);
    options.threads = 1025;
    check_refusal(&options, "threads is 1025, allowed are 0 to 1024");
    options.threads = -1;
    check_refusal(&options, "threads is -1");
    hashattn_context_options_default(&options);
    options.isa = "sse9";
    check_refusal(&options, "isa 'sse9': ");
    hashattn_context_options_default(&options);
    options.allocate = never;
    check_refusal(&options, "allocate and release");
    hashattn_context_options_default(&options);
    options.struct_size = 3;
    check_refusal(&options, "struct_size is 3");
    char message[9];
    assert_int_equal(hashattn_context_new(NULL, message, sizeof message, NULL), HASHATTN_INVALID);
    assert_string_equal(message, "context ");
    assert_int_equal(hashattn_context_new(NULL, NULL, 0, NULL), HASHATTN_INVALID);
}

static void every_failing_allocation_is_survived(void **state)
{
    (void)state;
    for (long n = 0; n < 100; n++) {
        struct failing_host failing;
        failing_host_init(&failing, n);
        hashattn_context_options options;
        hashattn_context_options_default(&options);
        options.threads = 2;
        options.allocate = failing.host.allocate;
        options.release = failing.host.release;
        options.user = &failing;
        char message[512];
        hashattn_context *context;
        hashattn_status status = hashattn_context_new(&options, message, sizeof message, &context);
        if (status == HASHATTN_OK) {
            assert_true(n > 0);
            hashattn_context_free(context);
            assert_int_equal(failing.outstanding, 0);
            return;
        }
        assert_int_equal(status, HASHATTN_NO_MEMORY);
        assert_non_null(strstr(message, "no memory for"));
        assert_null(context);
        assert_int_equal(failing.outstanding, 0);
    }
    fail_msg("100 allocations are not enough");
}

static void instruction_sets_are_listed(void **state)
{
    (void)state;
    const char *const *names = hashattn_isa_names();
    assert_string_equal(names[0], "ref");
    assert_null(hashattn_isa_refusal("ref"));
    assert_non_null(hashattn_isa_refusal("sse9"));
    for (; *names != NULL; names++) {
        hashattn_context_options options;
        hashattn_context_options_default(&options);
        options.isa = *names;
        options.threads = 1;
        hashattn_context *context;
        hashattn_status status = hashattn_context_new(&options, NULL, 0, &context);
        assert_int_equal(status == HASHATTN_OK, hashattn_isa_refusal(*names) == NULL);
        if (status != HASHATTN_OK)
            continue;
        hashattn_description is = {.struct_size = sizeof is};
        hashattn_context_describe(context, &is);
        assert_string_equal(is.isa, *names);
        assert_int_equal(is.threads, 1);
        hashattn_context_free(context);
    }
}

static void cap_of_the_environment_holds(void **state)
{
    (void)state;
    const char *before = getenv("HASHATTN_ISA");
    char *kept = before == NULL ? NULL : strdup(before);
    setenv("HASHATTN_ISA", "ref", 1);
    hashattn_context *context = context_with(1, NULL);
    hashattn_description is = {.struct_size = sizeof is};
    hashattn_context_describe(context, &is);
    assert_string_equal(is.isa, "ref");
    hashattn_context_free(context);
    if (kept == NULL)
        unsetenv("HASHATTN_ISA");
    else
        setenv("HASHATTN_ISA", kept, 1);
    free(kept);
}

static void two_contexts_are_independent(void **state)
{
    (void)state;
    hashattn_context *a = context_with(1, NULL), *b = context_with(3, NULL);
    hashattn_attention *attention;
    check_call(a, hashattn_attention_new(a, "sofmax", &attention), HASHATTN_INVALID, "sofmax");
    assert_string_equal(hashattn_context_message(b), "");
    hashattn_context_free(a);
    hashattn_description is = {.struct_size = sizeof is};
    hashattn_context_describe(b, &is);
    assert_int_equal(is.threads, 3);
    hashattn_context_free(b);
}

static void statuses_have_names(void **state)
{
    (void)state;
    assert_string_equal(hashattn_status_name(HASHATTN_BAD_FILE), "BAD_FILE");
    assert_string_equal(hashattn_status_text(HASHATTN_NO_DISK), "cannot write");
    assert_int_equal(hashattn_status_exit_code(HASHATTN_INTERRUPTED), 130);
    assert_string_equal(hashattn_status_name((hashattn_status)99), "FAILED");
    assert_string_equal(hashattn_context_message(NULL), "context is NULL");
}

/* Capping the library of products changes no result, so a cap is only called here. */
static void products_are_capped(void **state)
{
    (void)state;
    hashattn_context *context = context_with(1, NULL);
    hashattn_context_cap_products(NULL);
    hashattn_context_cap_products(context);
    hashattn_context_free(context);
}

/* Each rank makes a context; the last one of `argument`'s instruction set. */
static void join_ranks(struct comm *comm, void *argument)
{
    char message[512] = "";
    hashattn_context *context;
    hashattn_context_options options;
    hashattn_context_options_default(&options);
    options.threads = 1;
    options.communicator = &comm->peer;
    bool other = argument != NULL && comm_rank(comm) == comm_size(comm) - 1;
    options.isa = other ? argument : "auto";
    hashattn_status status = hashattn_context_new(&options, message, sizeof message, &context);
    if (argument != NULL) {
        rank_require(status == HASHATTN_INVALID && context == NULL);
        rank_require(strstr(message, "rank 2: it differs from rank 0: 'instruction set: ref' here") != NULL);
        return;
    }
    hashattn_description is = {.struct_size = sizeof is};
    rank_require(status == HASHATTN_OK);
    hashattn_context_describe(context, &is);
    rank_require(is.rank == comm_rank(comm) && is.ranks == 3 && (is.bytes_sent > 0));
    rank_require(hashattn_context_failed_together(context) == 0);
    hashattn_context_free(context);
}

static void ranks_join_if_they_are_alike(void **state)
{
    (void)state;
    static char other[] = "ref";
    assert_string_equal(run_ranks(3, 60, join_ranks, NULL), "");
    if (getenv("HASHATTN_ISA") == NULL || strcmp(getenv("HASHATTN_ISA"), "ref") != 0)
        assert_string_equal(run_ranks(3, 60, join_ranks, other), "");
    hashattn_context_options options;
    hashattn_context_options_default(&options);
    hashattn_communicator peer = {.struct_size = sizeof peer, .rank = 3, .size = 3};
    options.communicator = &peer;
    check_refusal(&options, "communicator: rank is 3 and size 3");
    peer.struct_size = 5;
    check_refusal(&options, "communicator: struct_size is 5");
    assert_int_equal(hashattn_context_failed_together(NULL), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(defaults_make_a_context),
        cmocka_unit_test(refusals_have_numbers),
        cmocka_unit_test(products_are_capped),
        cmocka_unit_test(every_failing_allocation_is_survived),
        cmocka_unit_test(instruction_sets_are_listed),
        cmocka_unit_test(cap_of_the_environment_holds),
        cmocka_unit_test(two_contexts_are_independent),
        cmocka_unit_test(ranks_join_if_they_are_alike),
        cmocka_unit_test(statuses_have_names),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
