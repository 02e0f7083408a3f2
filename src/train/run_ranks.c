/* The options are compared as the text of config.json.
   SPDX-License-Identifier: Apache-2.0 */
#include "train/run_ranks.h"

#include <stdio.h>
#include <string.h>

#include "base/memory.h"

enum { DATA_LINES = 300 };

static void write_data(char text[DATA_LINES], const struct train_state *state)
{
    const struct fingerprint *train = &state->train, *valid = &state->valid;
    snprintf(text, DATA_LINES,
             "\ntraining set: %llu examples, %llu tokens, hash %016llx"
             "\nvalidation set: %llu examples, %llu tokens, hash %016llx\n",
             (unsigned long long)train->examples, (unsigned long long)train->tokens,
             (unsigned long long)train->hash, (unsigned long long)valid->examples,
             (unsigned long long)valid->tokens, (unsigned long long)valid->hash);
}

hashattn_status ranks_check(struct host *host, struct comm *comm, const struct run_config *config,
                            const struct train_state *state)
{
    if (comm_size(comm) == 1)
        return HASHATTN_OK;
    char data[DATA_LINES], *text = NULL;
    size_t size = 0;
    void *block = NULL;
    write_data(data, state);
    hashattn_status status = run_config_text(host, config, &text, &size);
    if (status == HASHATTN_OK)
        status = memory_new(host, size + sizeof data, 1, "the options of a run", &block);
    status = comm_agree(host, comm, status);
    if (status == HASHATTN_OK) {
        char *both = block;
        memcpy(both, text, size);
        memcpy(both + size, data, strlen(data) + 1);
        status = comm_same(host, comm, both);
    }
    memory_free(host, block);
    memory_free(host, text);
    return status;
}

hashattn_status ranks_broadcast_state(struct host *host, struct comm *comm, struct train_state *state,
                                      const struct train_blocks *blocks, size_t total)
{
    TRY(comm_broadcast(host, comm, state, sizeof *state));
    TRY(comm_broadcast(host, comm, blocks->values, total * sizeof *blocks->values));
    TRY(comm_broadcast(host, comm, blocks->m, total * sizeof *blocks->m));
    return comm_broadcast(host, comm, blocks->v, total * sizeof *blocks->v);
}
