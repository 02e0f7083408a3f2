/* Any bytes as trainer.json: what is taken makes sense of its steps.
   SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "fuzz/fuzz.h"
#include "train/checkpoint.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct host host;
    struct train_state state;
    host_init(&host);
    hashattn_status status = train_state_parse(&host, (const char *)data, size, &state);
    if (status != HASHATTN_OK) {
        FUZZ_CHECK(status == HASHATTN_BAD_FILE && host.message[0] != '\0');
        return 0;
    }
    FUZZ_CHECK(state.step >= 0 && state.evaluated >= -1 && state.evaluated <= state.step);
    FUZZ_CHECK(state.best_step >= -1 && state.best_step <= state.step);
    FUZZ_CHECK(memchr(state.kernels, '\0', sizeof state.kernels) != NULL);
    FUZZ_CHECK(memchr(state.product, '\0', sizeof state.product) != NULL);
    return 0;
}
