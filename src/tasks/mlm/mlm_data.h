/* The data step of `mlm`: from texts to token files.
   SPDX-License-Identifier: Apache-2.0 */
#ifndef TASKS_MLM_DATA_H
#define TASKS_MLM_DATA_H

#include "base/options.h"
#include "tasks/mlm/pair_packing.h"
#include "tasks/task.h"

enum { ORDER_AUTO = ORDER_NSP + 1 }; /* none with --long, otherwise sop */

struct mlm_data_options {
    int64_t seq_len, duplicates;
    int order;     /* enum pair_order or ORDER_AUTO */
    int whole;     /* --long */
    int documents; /* enum document_rule */
    double valid_share, test_share;
};
extern const struct option_row mlm_data_rows[];

extern const char *const mlm_orders[]; /* by enum pair_order, ended by NULL */

hashattn_status mlm_prepare(struct host *host, const void *options, const struct task_sources *sources,
                            const char *directory, struct task_prepared *prepared);

/* "DIR/train.tokens" */
hashattn_status mlm_path(struct host *host, const char *directory, enum split split, char *path, size_t size);
/* The tokens that pretraining needs. INVALID names those that the tokenizer lacks. */
struct mlm_tokens {
    uint32_t start, end, mask;
};
hashattn_status mlm_tokens_find(struct host *host, const struct tokenizer *tokenizer,
                                struct mlm_tokens *tokens);

#endif
