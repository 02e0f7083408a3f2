/* The plan of attention of one layer, for tests of layers.
   SPDX-License-Identifier: Apache-2.0 */
#ifndef TESTS_SUPPORT_TEST_MIX_H
#define TESTS_SUPPORT_TEST_MIX_H

#include "nn/attention_layer.h"

/* The plan of attention over these rows, in memory of exactly its size; free its block. */
struct test_mix {
    struct mix_plan plan;
    void *block;
};
void test_mix_open(struct test_mix *made, struct host *host, const struct attention_layer *attention,
                   const struct rows *rows);

#endif
