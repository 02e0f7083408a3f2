/* Any bytes as a safetensors file: in an accepted file every byte of the data belongs to one tensor, and
   every tensor is found by its name.
   SPDX-License-Identifier: Apache-2.0 */
#include "io/weights/safetensors.h"

#include "base/memory.h"
#include "fuzz/fuzz.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct host host;
    struct safetensors file;
    host_init(&host);
    hashattn_status status = safetensors_parse(&host, (const char *)data, size, &file);
    if (status != HASHATTN_OK) {
        FUZZ_CHECK(status == HASHATTN_BAD_FILE && host.message[0] != '\0' && file.header == NULL);
        return 0;
    }
    const char *at = NULL, *end = (const char *)data + size;
    for (size_t i = 0; i < file.count; i++) {
        const struct tensor *tensor = &file.tensors[i];
        FUZZ_CHECK(safetensors_find(&file, tensor->name) == tensor);
        FUZZ_CHECK(at == NULL || at == tensor->data);
        size_t bytes = tensor_type_size(tensor->type);
        for (int k = 0; k < tensor->rank; k++)
            bytes = size_product(bytes, tensor->shape[k]);
        FUZZ_CHECK(bytes == tensor->bytes);
        at = (const char *)tensor->data + bytes;
        FUZZ_CHECK(at <= end);
    }
    FUZZ_CHECK(at == NULL || at == end);
    const struct tensor *other = safetensors_find(&file, "b");
    FUZZ_CHECK(other == NULL || (other >= file.tensors && other < file.tensors + file.count));
    safetensors_word(&file, "format");
    safetensors_free(&host, &file);
    return 0;
}
