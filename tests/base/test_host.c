/* Messages, prefixes and the list of statuses. Bugs tried and caught: message built in place while an
   argument points into it; prefix after the message; a long prefix that leaves no room for the reason; a
   status outside the list read past the table; allocator without alignment; huge pages requested for small
   blocks, for no block, from a small page on, for one page less; numbers in a message with the decimal point
   of the caller's locale; escape sequences, line feeds, C1 controls, marks of direction or broken UTF-8 in a
   message; a character cut by a limit, at either end of a prefix, or taken for a broken one; an
   option's underscores among dashes; --header false; a text between backquotes that is no option.
   SPDX-License-Identifier: Apache-2.0 */
#include "base/host.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/memory.h"
#include "support/check.h"
#include "support/locales.h"

static void failures_leave_their_message(void **state)
{
    (void)state;
    struct host host;
    host_init(&host);
    assert_string_equal(host.message, "");
    assert_int_equal(host_fail(&host, HASHATTN_INVALID, "hash_bits is %d, allowed are %d to %d", 40, 1, 24),
                     HASHATTN_INVALID);
    assert_string_equal(host.message, "hash_bits is 40, allowed are 1 to 24");
    host_fail(&host, HASHATTN_FAILED, "again: %s", host.message);
    assert_string_equal(host.message, "again: hash_bits is 40, allowed are 1 to 24");
    host_prefix(&host, "run/config.json");
    assert_string_equal(host.message, "run/config.json: again: hash_bits is 40, allowed are 1 to 24");
}

static void numbers_of_messages_have_a_dot_in_every_locale(void **state)
{
    (void)state;
    struct host host;
    host_init(&host);
    for (const char *const *locale = foreign_locales; *locale != NULL; locale++) {
        locales_set(*locale);
        host_fail(&host, HASHATTN_INVALID, "seconds is %g, allowed are %.2f to %d", 0.005, 0.01, 60);
        assert_string_equal(host.message, "seconds is 0.005, allowed are 0.01 to 60");
        locales_set("C");
    }
}

static void messages_are_one_line_of_whole_characters(void **state)
{
    (void)state;
    static const char *const pairs[][2] = {
        {"plain ASCII, ~", "plain ASCII, ~"},
        {"\033[2Ja\nhashattn: done\r\t\x7f", "?[2Ja?hashattn: done???"},
        {"na\xc3\xafve \xe2\x82\xac \xf0\x9f\x98\x80", "na\xc3\xafve \xe2\x82\xac \xf0\x9f\x98\x80"},
        {"\xc2\x9b[31m\xc2\x85|\xc2\xa0", "?[31m?|\xc2\xa0"}, /* C1 controls; a space that does not break */
        {"a\xe2\x80\xa8"
         "b\xe2\x80\xae"
         "c\xe2\x81\xa9"
         "d\xe2\x80\xa6",
         "a?b?c?d\xe2\x80\xa6"},
        {"\x9b|\xff|\xc0\xaf|\xed\xa0\x80|", "?|?|??|??|"}, /* no UTF-8; a surrogate */
        {"cut \xe2\x82', \xf0\x9f\x98", "cut ', "},         /* what a limit left is dropped */
        {"", ""},
    };
    struct host host;
    host_init(&host);
    for (size_t i = 0; i < sizeof pairs / sizeof *pairs; i++) {
        char text[100];
        snprintf(text, sizeof text, "%s", pairs[i][0]);
        hashattn_message_clean(text);
        assert_string_equal(text, pairs[i][1]);
        host_fail(&host, HASHATTN_BAD_FILE, "%s", pairs[i][0]);
        assert_string_equal(host.message, pairs[i][1]);
        host_fail(&host, HASHATTN_BAD_FILE, "end");
        host_prefix(&host, pairs[i][0]);
        snprintf(text, sizeof text, "%s: end", pairs[i][1]);
        assert_string_equal(host.message, text);
    }
    host_fail(&host, HASHATTN_BAD_FILE, "'%.4s'", "\xe2\x82\xac\xe2\x82\xac");
    assert_string_equal(host.message, "'\xe2\x82\xac'");
    for (size_t shift = 0; shift < 3; shift++) { /* every place of the limits within a character */
        char longest[900 + 2];
        memset(longest, 'x', shift);
        for (size_t i = 0; i + shift + 3 < 900; i += 3)
            memcpy(longest + shift + i, "\xe2\x82\xac", 4);
        host_fail(&host, HASHATTN_BAD_FILE, "%s", longest);
        assert_null(strchr(host.message, '?'));
        assert_true(strlen(host.message) > sizeof host.message - 4);
        assert_int_equal((strlen(host.message) - shift) % 3, 0);
        host_fail(&host, HASHATTN_BAD_FILE, "%.*s", (int)(510 - shift), longest);
        strcat(longest, &"yy"[shift]); /* moves the place where a long prefix begins */
        host_prefix(&host, longest);
        assert_null(strchr(host.message, '?'));
        assert_memory_equal(host.message, "...\xe2\x82\xac", 6);
    }
}

static void messages_are_cut_and_ended(void **state)
{
    (void)state;
    struct host host;
    host_init(&host);
    char text[2000];
    memset(text, 'x', sizeof text - 1);
    text[sizeof text - 1] = '\0';
    host_fail(&host, HASHATTN_FAILED, "%s", text);
    assert_int_equal(strlen(host.message), sizeof host.message - 1);
    host_fail(&host, HASHATTN_FAILED, "the reason");
    memcpy(text + sizeof text - 6, "/file", 5);
    host_prefix(&host, text);
    const char *end = strstr(host.message, "x/file: the reason");
    assert_non_null(end);
    assert_int_equal(strlen(end), strlen("x/file: the reason"));
    assert_memory_equal(host.message, "...", 3);
    for (int i = 0; i < 10; i++) {
        host_prefix(&host, "again");
        assert_true(strlen(host.message) < sizeof host.message);
    }
    assert_memory_equal(host.message, "again: again: ", 14);
    host_fail(&host, HASHATTN_FAILED, "%s", text); /* a full message */
    host_prefix(&host, "again");
    assert_int_equal(strlen(host.message), sizeof host.message - 1);
    assert_memory_equal(host.message, "again: xxx", 10);
    /* The longest prefix that is kept whole, and one byte more. */
    host_fail(&host, HASHATTN_FAILED, "end");
    host_prefix(&host, text + sizeof text - 1 - 240);
    assert_int_equal(strlen(host.message), 240 + 2 + 3);
    host_fail(&host, HASHATTN_FAILED, "end");
    host_prefix(&host, text + sizeof text - 1 - 241);
    assert_int_equal(strlen(host.message), 3 + 240 + 2 + 3);
}

static hashattn_status tried(struct host *host, int fail, int *reached)
{
    TRY(fail == 1 ? host_fail(host, HASHATTN_BAD_FILE, "first") : HASHATTN_OK);
    ++*reached;
    FAIL_IF(fail == 2, host, HASHATTN_NO_DISK, "second %d", 2);
    ++*reached;
    hashattn_status status;
    TRY_DONE(fail == 3 ? host_fail(host, HASHATTN_NO_MEMORY, "third") : HASHATTN_OK);
    ++*reached;
done:
    *reached += 10;
    return status;
}

static void the_macros_leave_where_they_should(void **state)
{
    (void)state;
    static const struct {
        hashattn_status status;
        int reached;
        const char *message;
    } want[] = {{HASHATTN_OK, 13, ""},
                {HASHATTN_BAD_FILE, 0, "first"},
                {HASHATTN_NO_DISK, 1, "second 2"},
                {HASHATTN_NO_MEMORY, 12, "third"}};
    for (int fail = 0; fail < 4; fail++) {
        struct host host;
        host_init(&host);
        int reached = 0;
        assert_int_equal(tried(&host, fail, &reached), want[fail].status);
        assert_int_equal(reached, want[fail].reached);
        assert_string_equal(host.message, want[fail].message);
    }
}

static void statuses_have_names_texts_and_codes(void **state)
{
    (void)state;
    /* A second copy: values and exit codes never change. */
    static const struct {
        hashattn_status status;
        int value, code;
        const char *name;
    } want[] = {
        {HASHATTN_OK, 0, 0, "OK"},
        {HASHATTN_FAILED, 1, 1, "FAILED"},
        {HASHATTN_INVALID, 2, 2, "INVALID"},
        {HASHATTN_REFUSED, 3, 2, "REFUSED"},
        {HASHATTN_BAD_FILE, 4, 3, "BAD_FILE"},
        {HASHATTN_NO_MEMORY, 5, 4, "NO_MEMORY"},
        {HASHATTN_NO_DISK, 6, 4, "NO_DISK"},
        {HASHATTN_INTERRUPTED, 7, 130, "INTERRUPTED"},
    };
    for (size_t i = 0; i < sizeof want / sizeof want[0]; i++) {
        assert_int_equal(want[i].status, want[i].value);
        assert_string_equal(hashattn_status_name(want[i].status), want[i].name);
        assert_int_equal(hashattn_status_exit_code(want[i].status), want[i].code);
        assert_true(strlen(hashattn_status_text(want[i].status)) > 0);
    }
    for (int i = -3; i < 300; i++)
        if (i < 0 || i > HASHATTN_INTERRUPTED) {
            assert_string_equal(hashattn_status_name((hashattn_status)i), "FAILED");
            assert_string_equal(hashattn_status_text((hashattn_status)i), "the work failed");
            assert_int_equal(hashattn_status_exit_code((hashattn_status)i), 1);
        }
}

static void the_allocator_aligns_and_refuses(void **state)
{
    (void)state;
    struct host host;
    host_init(&host);
    for (size_t bytes = 1; bytes < 300; bytes++) {
        unsigned char *block = host.allocate(host.user, MEMORY_ALIGNMENT, bytes);
        assert_non_null(block);
        assert_int_equal((uintptr_t)block % MEMORY_ALIGNMENT, 0);
        memset(block, 1, bytes);
        host.release(host.user, block);
    }
    assert_null(host.allocate(host.user, MEMORY_ALIGNMENT, SIZE_MAX));
    host.release(host.user, NULL);
}

/* True if huge pages are requested at `address`: its mapping has the flag hg. */
static bool wants_huge_pages(const void *address)
{
    FILE *file = fopen("/proc/self/smaps", "r");
    assert_non_null(file);
    char line[1024];
    bool inside = false, wanted = false;
    while (fgets(line, sizeof line, file) != NULL) {
        uintptr_t from, to;
        if (sscanf(line, "%" SCNxPTR "-%" SCNxPTR " ", &from, &to) == 2)
            inside = (uintptr_t)address >= from && (uintptr_t)address < to;
        else if (inside && strncmp(line, "VmFlags:", 8) == 0)
            wanted = strstr(line, " hg") != NULL;
    }
    fclose(file);
    return wanted;
}

static void large_blocks_ask_for_huge_pages(void **state)
{
    (void)state;
    if (access("/sys/kernel/mm/transparent_hugepage/enabled", F_OK) != 0) {
        printf("SKIPPED: this system has no transparent huge pages\n");
        return;
    }
    enum { HUGE_PAGE = 1 << 21, SMALL = 2 * HUGE_PAGE - 1, LARGE = 5 * HUGE_PAGE + 12345 };
    struct host host;
    host_init(&host);
    unsigned char *small = host.allocate(host.user, MEMORY_ALIGNMENT, SMALL);
    unsigned char *large = host.allocate(host.user, MEMORY_ALIGNMENT, LARGE);
    assert_non_null(small);
    assert_non_null(large);
    assert_int_equal((uintptr_t)large % MEMORY_ALIGNMENT, 0);
    memset(small, 1, SMALL);
    memset(large, 2, LARGE);
    assert_false(wants_huge_pages(small + SMALL / 2));
    /* All whole huge pages, and no part of a page before or after them. */
    size_t skipped = (HUGE_PAGE - (uintptr_t)large % HUGE_PAGE) % HUGE_PAGE;
    unsigned char *first = large + skipped, *end = first + (LARGE - skipped) / HUGE_PAGE * HUGE_PAGE;
    assert_true(wants_huge_pages(first));
    assert_true(wants_huge_pages(end - 1));
    assert_true(first == large || !wants_huge_pages(first - 1));
    assert_true(end == large + LARGE || !wants_huge_pages(end));
    host.release(host.user, small);
    host.release(host.user, large);
}

/* Released memory is reused: allocates blocks of a terabyte in total, one after another, in a gigabyte of
   addresses. */
static void released_blocks_come_back(void **state)
{
    (void)state;
    if (getenv("HASHATTN_SANITIZED") != NULL) {
        print_message("SKIPPED: a limit of addresses (sanitizers need them)\n");
        return;
    }
    pid_t child = fork();
    if (child == 0) {
        struct host host;
        host_init(&host);
        struct rlimit few = {.rlim_cur = (rlim_t)1 << 30, .rlim_max = RLIM_INFINITY};
        setrlimit(RLIMIT_AS, &few);
        for (int i = 0; i < 4096; i++) {
            void *block = host.allocate(host.user, MEMORY_ALIGNMENT, (size_t)256 << 20);
            if (block == NULL)
                _exit(1);
            host.release(host.user, block);
        }
        _exit(0);
    }
    int code;
    waitpid(child, &code, 0);
    assert_true(WIFEXITED(code) && WEXITSTATUS(code) == 0);
}

/* A message names options as C and Python do, or as a person types them; other backquotes stay. */
static void options_are_named_for_the_reader(void **state)
{
    (void)state;
    static const struct {
        const char *text, *plain, *typed;
    } rows[] = {
        {"set `date_format` to day-first", "set date_format to day-first", "set --date-format to day-first"},
        {"`header=false` reads it", "header=false reads it", "--no-header reads it"},
        {"`join=true` or `lha.num_buckets=8`", "join=true or lha.num_buckets=8",
         "--join or --lha.num-buckets 8"},
        {"`Label` and `a b` and ``", "`Label` and `a b` and ``", "`Label` and `a b` and ``"},
        {"an open `name", "an open `name", "an open `name"}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        for (int typed = 0; typed < 2; typed++) {
            struct host host;
            host_init(&host);
            host.option_dashes = typed;
            const char *want = typed ? rows[i].typed : rows[i].plain;
            assert_int_equal(host_fail(&host, HASHATTN_INVALID, "%s", rows[i].text), HASHATTN_INVALID);
            assert_string_equal(host.message, want);
            host_note(&host, 0, "%s", rows[i].text);
            assert_string_equal(host.note, want);
            host.message[0] = '\0';
            host_suffix(&host, rows[i].text);
            assert_string_equal(host.message, want);
        }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(failures_leave_their_message),
        cmocka_unit_test(numbers_of_messages_have_a_dot_in_every_locale),
        cmocka_unit_test(messages_are_one_line_of_whole_characters),
        cmocka_unit_test(messages_are_cut_and_ended),
        cmocka_unit_test(the_macros_leave_where_they_should),
        cmocka_unit_test(statuses_have_names_texts_and_codes),
        cmocka_unit_test(the_allocator_aligns_and_refuses),
        cmocka_unit_test(large_blocks_ask_for_huge_pages),
        cmocka_unit_test(released_blocks_come_back),
        cmocka_unit_test(options_are_named_for_the_reader),
    };
    locales_make();
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    locales_remove();
    return failed;
}
