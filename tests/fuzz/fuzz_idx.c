/* Any bytes as an idx file of each rank: accepted sizes multiply to the bytes that are there.
   SPDX-License-Identifier: Apache-2.0 */
#include "fuzz/fuzz.h"
#include "io/idx.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    for (size_t rank = 1; rank <= IDX_RANK; rank++) {
        struct host host;
        struct idx idx;
        host_init(&host);
        hashattn_status status = idx_parse(&host, data, size, rank, &idx);
        FUZZ_CHECK(status == HASHATTN_OK || status == HASHATTN_BAD_FILE);
        if (status != HASHATTN_OK)
            continue;
        size_t left = size - idx.header;
        FUZZ_CHECK(idx.rank == rank && idx.header == 4 + 4 * rank && idx.header <= size);
        for (size_t i = 0; i < rank; i++) {
            FUZZ_CHECK(left == 0 || (idx.shape[i] > 0 && left % idx.shape[i] == 0));
            left = left == 0 ? 0 : left / idx.shape[i];
        }
        FUZZ_CHECK(left <= 1);
    }
    return 0;
}
