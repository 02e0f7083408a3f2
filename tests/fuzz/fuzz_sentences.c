/* Any bytes up to the first NUL as modules.json, up to the next ones as the config.json of a pooling in the
   same directory and as sentence_bert_config.json, and the rest as config_sentence_transformers.json:
   settings that are read are of known kinds, and a refusal names the directory.
   SPDX-License-Identifier: Apache-2.0 */
#include "fuzz/fuzz_file.h"
#include "models/sentences/sentence_settings.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const char *const names[] = {"modules.json", "config.json", "sentence_bert_config.json",
                                        "config_sentence_transformers.json"};
    struct host host;
    struct sentence_settings settings;
    const char *prompt;
    host_init(&host);
    for (size_t i = 0, at = 0; i < 4; i++) {
        const uint8_t *nul = i == 3 ? NULL : memchr(data + at, '\0', size - at);
        size_t end = nul == NULL ? size : (size_t)(nul - data);
        fuzz_file(names[i], data + at, end - at);
        at = nul == NULL ? size : end + 1;
    }
    hashattn_status status = sentence_settings_read(&host, fuzz_directory, &settings);
    FUZZ_CHECK(status == HASHATTN_OK || status == HASHATTN_BAD_FILE);
    FUZZ_CHECK(status == HASHATTN_OK || strstr(host.message, fuzz_directory) == host.message);
    if (status != HASHATTN_OK)
        return 0;
    FUZZ_CHECK(settings.pooling == SENTENCE_MEAN || settings.pooling == SENTENCE_FIRST ||
               settings.pooling == SENTENCE_MAX);
    FUZZ_CHECK(strstr(settings.encoder, fuzz_directory) == settings.encoder && settings.max_len < 1 << 30);
    status = sentence_prompt(&host, &settings, NULL, &prompt);
    FUZZ_CHECK(status == HASHATTN_INVALID || (status == HASHATTN_OK && prompt != NULL));
    sentence_settings_free(&settings);
    return 0;
}
