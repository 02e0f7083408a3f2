/* Any bytes as an .npy file: an accepted array fills the file exactly, and all of it can be read.
   SPDX-License-Identifier: Apache-2.0 */
#include "io/npy.h"

#include <string.h>

#include "base/memory.h"
#include "fuzz/fuzz.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct host host;
    struct npy array;
    size_t start;
    host_init(&host);
    hashattn_status status = npy_parse(&host, (const char *)data, size, &array, &start);
    if (status != HASHATTN_OK) {
        FUZZ_CHECK(status == HASHATTN_BAD_FILE && host.message[0] != '\0');
        return 0;
    }
    size_t count = 1;
    for (int i = 0; i < array.rank; i++)
        count = size_product(count, array.shape[i]);
    FUZZ_CHECK(array.rank <= NPY_RANK && count == array.count);
    FUZZ_CHECK(start <= size && size - start == size_product(count, npy_type_size(array.type)));
    if (array.type != NPY_FLOAT32 || count == 0)
        return 0;
    void *floats;
    FUZZ_CHECK(memory_new(&host, count, sizeof(float), "floats", &floats) == HASHATTN_OK);
    memcpy(floats, data + start, size - start);
    array.data = floats;
    status = npy_check_finite(&host, &array);
    FUZZ_CHECK(status == HASHATTN_OK || status == HASHATTN_BAD_FILE);
    npy_free(&host, &array);
    return 0;
}
