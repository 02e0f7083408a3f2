/* Any bytes up to the first NUL as a tokenizer.json, and the rest as a text for it: tokens have ids, their
   bytes lie in the text, a limit keeps the first ones, and ids are decoded.
   SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "base/memory.h"
#include "fuzz/fuzz.h"
#include "io/json.h"
#include "text/files/tokenizer_json.h"

enum { MOST = 1000 };

static void encode(struct host *host, const struct tokenizer *tokenizer, struct piece text)
{
    struct encoder *encoder;
    struct encoding all, first;
    struct encode_options options = {.offsets = true};
    uint32_t ids[MOST];
    FUZZ_CHECK(encoder_new(host, tokenizer, &encoder) == HASHATTN_OK);
    FUZZ_CHECK(encoder_encode(encoder, text, &options, &all) == HASHATTN_OK && !all.truncated);
    size_t count = all.count < MOST ? all.count : MOST;
    for (size_t i = 0; i < all.count; i++) {
        FUZZ_CHECK(tokenizer_token(tokenizer, all.ids[i]).bytes != NULL);
        FUZZ_CHECK(all.begins[i] <= all.ends[i] && all.ends[i] <= text.size);
        if (i < MOST)
            ids[i] = all.ids[i];
    }
    options = (struct encode_options){.max_tokens = count};
    if (count > 0) {
        FUZZ_CHECK(encoder_encode(encoder, text, &options, &first) == HASHATTN_OK && first.count == count);
        FUZZ_CHECK(memcmp(first.ids, ids, count * sizeof *ids) == 0);
    }
    options = (struct encode_options){.special_tokens = true};
    FUZZ_CHECK(encoder_encode_pair(encoder, text, text, &options, &all) == HASHATTN_OK);
    char *decoded;
    size_t size;
    FUZZ_CHECK(tokenizer_decode(host, tokenizer, ids, count, false, &decoded, &size) == HASHATTN_OK);
    FUZZ_CHECK(decoded[size] == '\0');
    memory_free(host, decoded);
    encoder_free(encoder);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct host host;
    host_init(&host);
    const char *bytes = (const char *)data, *end = size > 0 ? memchr(bytes, '\0', size) : NULL;
    size_t json_size = end != NULL ? (size_t)(end - bytes) : size;
    struct json *root;
    struct tokenizer *tokenizer;
    if (json_parse(&host, bytes, json_size, &root) != HASHATTN_OK)
        return 0;
    if (tokenizer_from_json(&host, root, &tokenizer) == HASHATTN_OK) {
        size_t rest = end != NULL ? size - json_size - 1 : 0;
        encode(&host, tokenizer, (struct piece){end != NULL ? end + 1 : bytes, rest});
        tokenizer_free(&host, tokenizer);
    } else {
        FUZZ_CHECK(host.message[0] != '\0');
    }
    json_free(root);
    return 0;
}
