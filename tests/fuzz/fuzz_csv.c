/* Any bytes as comma-separated values: written back with every field in quotes, the records read again are
   the same; a refusal has a line of the text.
   SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "fuzz/fuzz.h"
#include "io/csv.h"

/* Reads all records and writes them in quotes. */
static hashattn_status quote_all(struct host *host, const char *bytes, size_t size, FILE *out)
{
    struct csv csv = csv_of(bytes, size);
    hashattn_status status;
    for (;;) {
        status = csv_next(host, &csv);
        if (status != HASHATTN_OK || csv.count == 0)
            break;
        for (size_t i = 0; i < csv.count; i++) {
            fputs(i == 0 ? "\"" : ",\"", out);
            for (size_t k = 0; k < csv.fields[i].size; k++) {
                char c = csv.fields[i].bytes[k];
                if (c == '"')
                    fputc('"', out);
                fputc(c, out);
            }
            fputc('"', out);
        }
        fputc('\n', out);
    }
    csv_close(host, &csv);
    return status;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct host host;
    char *first = NULL, *second = NULL;
    size_t first_size, second_size, line;
    host_init(&host);
    FILE *out = open_memstream(&first, &first_size);
    hashattn_status status = quote_all(&host, (const char *)data, size, out);
    fclose(out);
    FUZZ_CHECK(status == HASHATTN_OK || status == HASHATTN_BAD_FILE);
    if (status != HASHATTN_OK) {
        size_t lines = 1;
        for (size_t i = 0; i < size; i++)
            lines += data[i] == '\n';
        FUZZ_CHECK(sscanf(host.message, "line %zu: ", &line) == 1 && line >= 1 && line <= lines);
    }
    /* What was read before the damage is a file of its own. */
    out = open_memstream(&second, &second_size);
    FUZZ_CHECK(quote_all(&host, first, first_size, out) == HASHATTN_OK);
    fclose(out);
    FUZZ_CHECK(first_size == second_size && memcmp(first, second, first_size) == 0);
    free(first);
    free(second);
    return 0;
}
