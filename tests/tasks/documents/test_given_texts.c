/* Texts in memory: visited in order, alone or in pairs, and named in messages. Planted and caught: texts
   visited before a later one is checked; the second text of the first pair for all; a place counted from 1; a
   stop named as a failure.
   SPDX-License-Identifier: Apache-2.0 */
#include "tasks/documents/given_texts.h"

#include <stdio.h>
#include <string.h>

#include "support/check.h"

struct seen {
    char text[100];
    size_t calls, fails_at;
    hashattn_status status;
};

static hashattn_status see(struct host *host, void *context, const struct document *document)
{
    struct seen *seen = context;
    size_t used = strlen(seen->text);
    assert_true(document->label.bytes == NULL && document->id.bytes == NULL && document->file == NULL);
    snprintf(seen->text + used, sizeof seen->text - used, "%.*s+%.*s,", (int)document->texts[0].size,
             document->texts[0].bytes, (int)document->texts[1].size,
             document->texts[1].size == 0 ? "" : document->texts[1].bytes);
    return ++seen->calls == seen->fails_at ? host_fail(host, seen->status, "enough") : HASHATTN_OK;
}

static void check(const struct given_texts *given, bool pairs, size_t fails_at, hashattn_status fails,
                  hashattn_status want, const char *message, const char *text)
{
    struct host host;
    struct seen seen = {.fails_at = fails_at, .status = fails};
    host_init(&host);
    check_status(&host, given_texts_visit(&host, given, pairs, see, &seen), want, message);
    assert_string_equal(seen.text, text);
}

static void texts_are_visited_in_order(void **state)
{
    (void)state;
    static const char *const texts[] = {"one", "", "three"}, *const seconds[] = {"1", "2", ""};
    const struct given_texts alone = {texts, NULL, 3}, paired = {texts, seconds, 3}, none = {texts, NULL, 0};
    check(&alone, false, 0, HASHATTN_OK, HASHATTN_OK, NULL, "one+,+,three+,");
    check(&paired, true, 0, HASHATTN_OK, HASHATTN_OK, NULL, "one+1,+2,three+,");
    check(&none, false, 0, HASHATTN_OK, HASHATTN_OK, NULL, "");
    check(&alone, true, 0, HASHATTN_OK, HASHATTN_INVALID, "reads pairs of texts, and single ones were given",
          "");
    check(&paired, false, 0, HASHATTN_OK, HASHATTN_INVALID, "reads single texts, and pairs were given", "");
}

static void failures_name_the_text(void **state)
{
    (void)state;
    static const char *const texts[] = {"one", "two", "three"}, *const missing[] = {"one", "two", NULL};
    static const char *const latin[] = {"one", "t\xe9"};
    const struct given_texts good = {texts, NULL, 3}, null = {missing, NULL, 3}, bytes = {latin, NULL, 2};
    const struct given_texts second = {texts, latin, 2};
    check(&null, false, 0, HASHATTN_OK, HASHATTN_INVALID, "texts[2]: the text is NULL", "");
    check(&bytes, false, 0, HASHATTN_OK, HASHATTN_INVALID, "texts[1]: ", "");
    check(&second, true, 0, HASHATTN_OK, HASHATTN_INVALID, "seconds[1]: ", "");
    check(&good, false, 2, HASHATTN_BAD_FILE, HASHATTN_INVALID, "texts[1]: enough", "one+,two+,");
    check(&good, false, 2, HASHATTN_NO_MEMORY, HASHATTN_NO_MEMORY, "texts[1]: enough", "one+,two+,");
    struct host host;
    struct seen seen = {.fails_at = 1, .status = HASHATTN_INTERRUPTED};
    host_init(&host);
    assert_int_equal(given_texts_visit(&host, &good, false, see, &seen), HASHATTN_INTERRUPTED);
    assert_string_equal(host.message, "enough");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(texts_are_visited_in_order),
        cmocka_unit_test(failures_name_the_text),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
