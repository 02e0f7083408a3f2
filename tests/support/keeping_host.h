/* A host that keeps released blocks, so that a test sees what a function left in its memory.
   SPDX-License-Identifier: Apache-2.0 */
#ifndef TESTS_SUPPORT_KEEPING_HOST_H
#define TESTS_SUPPORT_KEEPING_HOST_H

#include <stdbool.h>

#include "base/host.h"

struct keeping_host {
    struct host host;
    struct kept_block {
        void *block;
        size_t bytes;
        bool released;
    } blocks[100]; /* in the order of their allocation */
    size_t count;
};

void keeping_host_init(struct keeping_host *keeping);
/* Frees the blocks. Fails the test if one was not released or written past its end. */
void keeping_host_free(struct keeping_host *keeping);

/* `count` zero floats, aligned as blocks of a host. Free with free(). */
void *aligned_zeros(size_t count);

#endif
