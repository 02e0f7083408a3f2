/* Any bytes as a text: its words in byte-level form are all of its bytes, and BERT's text is UTF-8 whose
   bytes come from the text, in order. The first byte selects the steps of normalization.
   SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "fuzz/fuzz.h"
#include "io/utf8.h"
#include "text/bert_text.h"
#include "text/byte_level.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct host host;
    host_init(&host);
    if (size == 0)
        return 0;
    const char *begin = (const char *)data + 1, *end = (const char *)data + size;
    for (const char *at = begin; at < end;) {
        const char *next = byte_level_word(at, end);
        FUZZ_CHECK(next > at && next <= end);
        at = next;
    }
    for (const char *at = begin + 1; at < end; at++)
        byte_level_splits(begin, at, end);
    const struct bert_normalizer normalizer = {data[0] & 1, data[0] & 2, data[0] & 4, data[0] & 8};
    struct normal_text normal = {.bytes = NULL};
    const struct piece text = {begin, size - 1};
    FUZZ_CHECK(bert_normalize(&host, &normalizer, text, &normal) == HASHATTN_OK);
    FUZZ_CHECK(utf8_first_error(normal.bytes, normal.size) == normal.size);
    for (size_t i = 0; i < normal.size; i++) {
        FUZZ_CHECK(normal.begins[i] < normal.ends[i] && normal.ends[i] <= text.size);
        FUZZ_CHECK(i == 0 || normal.begins[i] >= normal.begins[i - 1]);
    }
    if (normal.size == 0)
        goto done;
    const char *at = normal.bytes, *last = at + normal.size;
    for (struct piece word = bert_word(&at, last); word.size > 0; word = bert_word(&at, last))
        FUZZ_CHECK(word.bytes >= normal.bytes && word.bytes + word.size <= at && at <= last);
    FUZZ_CHECK(at == last);
done:
    normal_text_free(&host, &normal);
    return 0;
}
