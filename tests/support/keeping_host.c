/* An allocator whose release only marks.
   SPDX-License-Identifier: Apache-2.0 */
#include "support/keeping_host.h"

#include <stdlib.h>
#include <string.h>

#include "support/check.h"

static const char canary[64] = "behind the block";

static void *keep_allocate(void *user, size_t alignment, size_t bytes)
{
    struct keeping_host *keeping = user;
    assert_true(keeping->count < sizeof keeping->blocks / sizeof *keeping->blocks);
    size_t size = bytes + sizeof canary;
    char *block = aligned_alloc(alignment, (size + alignment - 1) / alignment * alignment);
    assert_non_null(block);
    memcpy(block + bytes, canary, sizeof canary);
    keeping->blocks[keeping->count++] = (struct kept_block){.block = block, .bytes = bytes};
    return block;
}

static void keep_release(void *user, void *block)
{
    struct keeping_host *keeping = user;
    for (size_t i = 0; i < keeping->count; i++)
        if (keeping->blocks[i].block == block)
            keeping->blocks[i].released = true;
}

void keeping_host_init(struct keeping_host *keeping)
{
    host_init(&keeping->host);
    keeping->host.allocate = keep_allocate;
    keeping->host.release = keep_release;
    keeping->host.user = keeping;
    keeping->count = 0;
}

void keeping_host_free(struct keeping_host *keeping)
{
    for (size_t i = 0; i < keeping->count; i++) {
        const struct kept_block *kept = &keeping->blocks[i];
        assert_true(kept->released);
        assert_memory_equal((const char *)kept->block + kept->bytes, canary, sizeof canary);
        free(keeping->blocks[i].block);
    }
}

void *aligned_zeros(size_t count)
{
    size_t bytes = (count * sizeof(float) + 64) / 64 * 64;
    void *block = aligned_alloc(64, bytes);
    assert_non_null(block);
    return memset(block, 0, bytes);
}
