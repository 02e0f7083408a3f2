/* Any bytes as UTF-8: the text before the first error is valid, and the position of the error does not depend
   on that text.
   SPDX-License-Identifier: Apache-2.0 */
#include "io/utf8.h"

#include <string.h>

#include "fuzz/fuzz.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    const char *text = (const char *)data;
    size_t error = utf8_first_error(text, size);
    FUZZ_CHECK(error <= size);
    FUZZ_CHECK(utf8_first_error(text, error) == error);
    if (error < size)
        FUZZ_CHECK((data[error] & 0x80) != 0 && utf8_first_error(text + error, size - error) == 0);
    char *shifted = malloc(size + 1);
    FUZZ_CHECK(shifted != NULL);
    shifted[0] = 'a';
    memcpy(shifted + 1, text, size);
    FUZZ_CHECK(utf8_first_error(shifted, size + 1) == error + 1);
    free(shifted);
    return 0;
}
