/* Any bytes as a token file: what is accepted is a data set whose arrays lie in the file and whose ids,
   segments and labels are in range; a refusal names the file.
   SPDX-License-Identifier: Apache-2.0 */
#include "fuzz/fuzz_file.h"
#include "tasks/dataset.h"
#include "tasks/mlm/token_file.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct host host;
    host_init(&host);
    const char *path = fuzz_file("train.tokens", data, size);
    struct token_header header, same;
    struct dataset dataset;
    hashattn_status status = token_file_map(&host, path, &header, &dataset);
    FUZZ_CHECK(status == HASHATTN_OK || status == HASHATTN_BAD_FILE);
    if (status == HASHATTN_OK) {
        size_t at = 0;
        FUZZ_CHECK(token_file_header(&host, path, &same) == HASHATTN_OK &&
                   same.num_tokens == header.num_tokens);
        FUZZ_CHECK(dataset.count == header.num_examples && dataset.offsets[0] == 0);
        for (size_t i = 0; i < dataset.count; i++) {
            FUZZ_CHECK(dataset.offsets[i + 1] > at && dataset.offsets[i + 1] - at <= header.seq_len);
            FUZZ_CHECK(dataset.num_targets == 1 || dataset.targets[1].ids[i] <= 1);
            for (; at < dataset.offsets[i + 1]; at++)
                FUZZ_CHECK(dataset.ids[at] < header.num_ids &&
                           (!dataset.segmented || dataset.segments[at] <= 1));
        }
        FUZZ_CHECK(at == header.num_tokens);
    } else {
        FUZZ_CHECK(strstr(host.message, "train.tokens") != NULL);
    }
    dataset_free(&host, &dataset);
    fuzz_remove(path);
    return 0;
}
