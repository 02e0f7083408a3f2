/* Any bytes up to the first NUL as a tokenizer_config.json, up to the next as a special_tokens_map.json, up
   to the next as an added_tokens.json, and the rest as a text: tokens that are added have ids, and the text
   is encoded.
   SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "fuzz/fuzz.h"
#include "io/json.h"
#include "text/files/tokenizer_settings.h"

static struct piece part(const char **at, const char *end)
{
    const char *begin = *at, *nul = begin < end ? memchr(begin, '\0', (size_t)(end - begin)) : NULL;
    *at = nul != NULL ? nul + 1 : end;
    return (struct piece){begin, (size_t)((nul != NULL ? nul : end) - begin)};
}

static void apply(struct host *host, const struct tokenizer_settings *settings, bool read, struct piece text)
{
    static const struct default_token defaults[] = {
        {"cls_token", "a", false}, {"mask_token", "b", true}, {0}};
    struct tokenizer *tokenizer;
    enum tokenizer_family family;
    FUZZ_CHECK(tokenizer_new(host, &tokenizer) == HASHATTN_OK);
    tokenizer->kind = TOKENIZER_BYTE_BPE;
    FUZZ_CHECK(vocabulary_add(host, &tokenizer->vocabulary, (struct piece){"a", 1}, 0) == HASHATTN_OK);
    FUZZ_CHECK(vocabulary_add(host, &tokenizer->vocabulary, (struct piece){"b", 1}, 1) == HASHATTN_OK);
    FUZZ_CHECK(bpe_init(host, &tokenizer->bpe, &tokenizer->vocabulary, 0) == HASHATTN_OK);
    hashattn_status status = settings_family(host, settings, TOKENIZER_BYTE_BPE, &family);
    if (status == HASHATTN_OK)
        status = read ? settings_adjust(host, settings, tokenizer)
                      : settings_add_tokens(host, settings, defaults, tokenizer);
    if (status == HASHATTN_OK) {
        struct encoder *encoder;
        struct encoding all;
        const struct encode_options options = {.offsets = true};
        uint32_t id;
        FUZZ_CHECK(encoder_new(host, tokenizer, &encoder) == HASHATTN_OK);
        FUZZ_CHECK(encoder_encode(encoder, text, &options, &all) == HASHATTN_OK);
        for (size_t i = 0; i < all.count; i++)
            FUZZ_CHECK(tokenizer_token(tokenizer, all.ids[i]).bytes != NULL && all.ends[i] <= text.size);
        for (int role = 0; role < TOKEN_ROLES; role++)
            FUZZ_CHECK(!tokenizer_role(tokenizer, (enum token_role)role, &id) ||
                       tokenizer_token(tokenizer, id).bytes != NULL);
        encoder_free(encoder);
    } else {
        FUZZ_CHECK(host->message[0] != '\0');
    }
    tokenizer_free(host, tokenizer);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct host host;
    host_init(&host);
    const char *at = (const char *)data, *end = at + size;
    struct tokenizer_settings settings = {.config = NULL};
    struct json **roots[] = {&settings.config, &settings.map, &settings.added};
    for (size_t i = 0; i < 3; i++) {
        struct piece text = part(&at, end);
        const struct json *object;
        if (json_parse(&host, text.bytes, text.size, roots[i]) == HASHATTN_OK &&
            json_get_object(&host, *roots[i], "", &object) != HASHATTN_OK) {
            json_free(*roots[i]);
            *roots[i] = NULL;
        }
    }
    const struct piece text = part(&at, end);
    for (int read = 0; read < 2; read++)
        apply(&host, &settings, read, text);
    settings_free(&settings);
    return 0;
}
