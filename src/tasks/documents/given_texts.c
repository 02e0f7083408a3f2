/* Checks every text, then visits them.
   SPDX-License-Identifier: Apache-2.0 */
#include "tasks/documents/given_texts.h"

#include <stdio.h>
#include <string.h>

#include "io/utf8.h"

/* Names the text of a failure. What is wrong with a file is here wrong with an argument. */
static hashattn_status of_text(struct host *host, hashattn_status status, const char *array, size_t index)
{
    char name[40];
    if (status == HASHATTN_OK || status == HASHATTN_INTERRUPTED)
        return status;
    snprintf(name, sizeof name, "%s[%zu]", array, index);
    host_prefix(host, name);
    return status == HASHATTN_BAD_FILE ? HASHATTN_INVALID : status;
}

static hashattn_status check_text(struct host *host, const char *text)
{
    FAIL_IF(text == NULL, host, HASHATTN_INVALID, "the text is NULL");
    return utf8_check(host, text, strlen(text));
}

static struct piece piece_of(const char *text)
{
    return (struct piece){text, strlen(text)};
}

hashattn_status given_texts_visit(struct host *host, const struct given_texts *given, bool pairs,
                                  document_visitor *visit, void *context)
{
    FAIL_IF(pairs && given->seconds == NULL, host, HASHATTN_INVALID,
            "the model reads pairs of texts, and single ones were given");
    FAIL_IF(!pairs && given->seconds != NULL, host, HASHATTN_INVALID,
            "the model reads single texts, and pairs were given");
    for (size_t i = 0; i < given->count; i++) {
        TRY(of_text(host, check_text(host, given->texts[i]), "texts", i));
        if (pairs)
            TRY(of_text(host, check_text(host, given->seconds[i]), "seconds", i));
    }
    for (size_t i = 0; i < given->count; i++) {
        struct document document = {.texts = {piece_of(given->texts[i])}};
        if (pairs)
            document.texts[1] = piece_of(given->seconds[i]);
        TRY(of_text(host, visit(host, context, &document), "texts", i));
    }
    return HASHATTN_OK;
}
