/* A fuzz target is a file tests/fuzz/fuzz_NAME.c that defines the function below, and a folder corpus/NAME of
   small inputs: good, cut and hostile. `make fuzz` builds it with libFuzzer. The test test_fuzz_NAME replays
   the corpus, its prefixes and random changes to it without a fuzzer. The build finds both by name.
   SPDX-License-Identifier: Apache-2.0 */
#ifndef TESTS_FUZZ_FUZZ_H
#define TESTS_FUZZ_FUZZ_H

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

/* Reads any bytes, terminates and passes all FUZZ_CHECKs. Returns 0. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* Must hold for every input, in every build. */
#define FUZZ_CHECK(condition)                                                                                \
    do {                                                                                                     \
        if (!(condition)) {                                                                                  \
            fprintf(stderr, "%s:%d: does not hold: %s\n", __FILE__, __LINE__, #condition);                   \
            abort();                                                                                         \
        }                                                                                                    \
    } while (0)

#endif
