/* Makes the plan in a block of exactly its size.
   SPDX-License-Identifier: Apache-2.0 */
#include "support/test_mix.h"

#include <stdlib.h>

#include "support/check.h"

void test_mix_open(struct test_mix *made, struct host *host, const struct attention_layer *attention,
                   const struct rows *rows)
{
    made->block = aligned_alloc(64, plan_set_bytes(attention->num_groups, rows->num_sequences));
    assert_non_null(made->block);
    struct plan_set set = plan_set_on(made->block, attention->num_groups, rows->num_sequences);
    check_status(host, attention_layer_plan(host, attention, rows, &set, &made->plan), HASHATTN_OK, NULL);
}
