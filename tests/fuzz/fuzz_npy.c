/* Any bytes as an .npy file: an accepted array fills the file exactly.
   SPDX-License-Identifier: Apache-2.0 */
#include "io/npy.h"

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
    return 0;
}
