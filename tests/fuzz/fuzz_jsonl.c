/* Any bytes as JSONL: reading terminates, line numbers increase, and it continues after a bad line.
   SPDX-License-Identifier: Apache-2.0 */
#include "io/jsonl.h"

#include <string.h>

#include "fuzz/fuzz.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct host host;
    struct lines lines = lines_open((const char *)data, size);
    host_init(&host);
    for (;;) {
        struct json *object;
        size_t before = lines.number;
        hashattn_status status = jsonl_next(&host, &lines, &object);
        if (status == HASHATTN_OK && object == NULL)
            break;
        FUZZ_CHECK(lines.number > before);
        FUZZ_CHECK(status == HASHATTN_OK || status == HASHATTN_BAD_FILE);
        FUZZ_CHECK(status == HASHATTN_OK || strncmp(host.message, "line ", 5) == 0);
        for (struct json_member m = json_first(object); m.key != NULL; m = json_next(m))
            FUZZ_CHECK(json_at(object, m.key) == m.value);
        json_free(object);
    }
    FUZZ_CHECK(lines.at == lines.end);
    return 0;
}
