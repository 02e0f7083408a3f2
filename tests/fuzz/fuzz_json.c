/* Any bytes as JSON: an accepted value, written in any style and parsed again, gives the same text.
   SPDX-License-Identifier: Apache-2.0 */
#include "io/json.h"

#include <string.h>

#include "base/memory.h"
#include "fuzz/fuzz.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct host host;
    struct json *root, *again;
    host_init(&host);
    hashattn_status status = json_parse(&host, (const char *)data, size, &root);
    if (status != HASHATTN_OK) {
        FUZZ_CHECK(status == HASHATTN_BAD_FILE && host.message[0] != '\0' && root == NULL);
        return 0;
    }
    for (int style = JSON_LINE; style <= (JSON_PAGE | JSON_SORTED); style++) {
        char *text, *second;
        size_t length, second_length;
        FUZZ_CHECK(json_to_text(&host, root, style, &text, &length) == HASHATTN_OK);
        FUZZ_CHECK(json_parse(&host, text, length, &again) == HASHATTN_OK);
        FUZZ_CHECK(json_to_text(&host, again, style, &second, &second_length) == HASHATTN_OK);
        FUZZ_CHECK(length == second_length && memcmp(text, second, length) == 0);
        json_free(again);
        memory_free(&host, second);
        memory_free(&host, text);
    }
    json_free(root);
    return 0;
}
