/* Any bytes as lines of fields: the joined pieces are the text, apart from line endings.
   SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "fuzz/fuzz.h"
#include "io/lines.h"

enum { MOST = 3 };

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    const char *at = (const char *)data, *end = at + size;
    struct lines lines = lines_open(at, size);
    struct piece line;
    at = lines.at;
    while (lines_next(&lines, &line)) {
        FUZZ_CHECK(line.bytes == at && line.size <= (size_t)(end - at));
        FUZZ_CHECK(line.size == 0 || memchr(line.bytes, '\n', line.size) == NULL);
        struct piece fields[MOST];
        size_t count = lines_split(line, fields, MOST);
        FUZZ_CHECK(count >= 1 && count <= MOST);
        for (size_t i = 0; i < count; i++) {
            FUZZ_CHECK(fields[i].bytes == at);
            at += fields[i].size;
            if (i + 1 < count)
                FUZZ_CHECK(*at++ == '\t');
        }
        FUZZ_CHECK(at == line.bytes + line.size);
        if (at < end && *at == '\r')
            at++;
        if (at < end)
            FUZZ_CHECK(*at++ == '\n');
    }
    FUZZ_CHECK(at == end);
    return 0;
}
