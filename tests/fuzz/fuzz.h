/* A fuzz target is one file tests/fuzz/fuzz_NAME.c with the one function below, and a folder corpus/NAME of
   small inputs, good, cut and hostile. `make fuzz` builds it with libFuzzer; the ordinary test test_fuzz_NAME
   replays the corpus, every prefix of it and random changes to it, without a fuzzer. The build finds both by
   their names. SPDX-License-Identifier: Apache-2.0 */
#ifndef TESTS_FUZZ_FUZZ_H
#define TESTS_FUZZ_FUZZ_H

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

/* Reads any bytes, ends, and breaks none of its FUZZ_CHECKs. Gives 0. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* What must hold for every input, in every build. */
#define FUZZ_CHECK(condition)                                                                                \
    do {                                                                                                     \
        if (!(condition)) {                                                                                  \
            fprintf(stderr, "%s:%d: does not hold: %s\n", __FILE__, __LINE__, #condition);                   \
            abort();                                                                                         \
        }                                                                                                    \
    } while (0)

#endif
