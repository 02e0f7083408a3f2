/* The options are compared as the text of config.json.
   SPDX-License-Identifier: Apache-2.0 */
#include "train/run_ranks.h"

#include <stdio.h>
#include <string.h>

#include "base/memory.h"

enum { DATA_LINES = 300 };

/* Compares the config and the lines, which follow it. */
static hashattn_status check_lines(struct host *host, struct comm *comm, const struct run_config *config,
                                   const char *lines)
{
    char *text = NULL;
    size_t size = 0;
    void *block = NULL;
    hashattn_status status = run_config_text(host, config, &text, &size);
    if (status == HASHATTN_OK)
        status = memory_new(host, size + strlen(lines) + 1, 1, "the options of a run", &block);
    status = comm_agree(host, comm, status);
    if (status == HASHATTN_OK) {
        char *both = block;
        memcpy(both, text, size);
        memcpy(both + size, lines, strlen(lines) + 1);
        status = comm_same(host, comm, both);
    }
    memory_free(host, block);
    memory_free(host, text);
    return status;
}

hashattn_status ranks_check(struct host *host, struct comm *comm, const struct run_config *config,
                            const struct train_state *state)
{
    char lines[DATA_LINES];
    const struct fingerprint *train = &state->train, *valid = &state->valid;
    if (comm_size(comm) == 1)
        return HASHATTN_OK;
    snprintf(lines, sizeof lines,
             "\ntraining set: %llu examples, %llu tokens, hash %016llx"
             "\nvalidation set: %llu examples, %llu tokens, hash %016llx\n",
             (unsigned long long)train->examples, (unsigned long long)train->tokens,
             (unsigned long long)train->hash, (unsigned long long)valid->examples,
             (unsigned long long)valid->tokens, (unsigned long long)valid->hash);
    return check_lines(host, comm, config, lines);
}

hashattn_status ranks_check_model(struct host *host, struct comm *comm, const struct run_config *config,
                                  const float *values, size_t total, uint64_t seed)
{
    char lines[DATA_LINES];
    if (comm_size(comm) == 1)
        return HASHATTN_OK;
    snprintf(lines, sizeof lines, "\nparameters: %zu, hash %016llx\nseed: %llu\n", total,
             (unsigned long long)fingerprint_of_floats(values, total), (unsigned long long)seed);
    return check_lines(host, comm, config, lines);
}

hashattn_status ranks_check_set(struct host *host, struct comm *comm, const struct dataset *set)
{
    char line[DATA_LINES];
    if (comm_size(comm) == 1)
        return HASHATTN_OK;
    const struct fingerprint found = fingerprint_of(set);
    snprintf(line, sizeof line, "data: %llu examples, %llu tokens, hash %016llx\n",
             (unsigned long long)found.examples, (unsigned long long)found.tokens,
             (unsigned long long)found.hash);
    return comm_same(host, comm, line);
}

hashattn_status ranks_broadcast_state(struct host *host, struct comm *comm, struct train_state *state,
                                      const struct train_blocks *blocks, size_t total)
{
    TRY(comm_broadcast(host, comm, state, sizeof *state));
    TRY(comm_broadcast(host, comm, blocks->values, total * sizeof *blocks->values));
    TRY(comm_broadcast(host, comm, blocks->m, total * sizeof *blocks->m));
    return comm_broadcast(host, comm, blocks->v, total * sizeof *blocks->v);
}
