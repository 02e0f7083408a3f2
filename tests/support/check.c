/* Checks, a failing allocator and guarded buffers for the tests.
   SPDX-License-Identifier: Apache-2.0 */
#include "support/check.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

void check_near(double got, double want, double bound, const char *what)
{
    if (!(fabs(got - want) <= bound))
        fail_msg("%s: got %.9g, want %.9g, difference %.3g, allowed %.3g", what, got, want, fabs(got - want),
                 bound);
}

void check_near_all(const float *got, const double *want, size_t n, double bound, const char *what)
{
    for (size_t i = 0; i < n; i++)
        if (!(fabs((double)got[i] - want[i]) <= bound))
            fail_msg("%s[%zu of %zu]: got %.9g, want %.9g, difference %.3g, allowed %.3g", what, i, n,
                     (double)got[i], want[i], fabs((double)got[i] - want[i]), bound);
}

void check_same_bits(const void *a, const void *b, size_t bytes, const char *what)
{
    if (bytes > 0 && memcmp(a, b, bytes) != 0) {
        size_t i = 0;
        while (((const unsigned char *)a)[i] == ((const unsigned char *)b)[i])
            i++;
        fail_msg("%s: bytes differ, first at %zu of %zu", what, i, bytes);
    }
}

void check_status(const struct host *host, hashattn_status got, hashattn_status want, const char *part)
{
    if (got != want)
        fail_msg("status %s, want %s; message: %s", hashattn_status_name(got), hashattn_status_name(want),
                 host->message);
    if (want != HASHATTN_OK && part != NULL && strstr(host->message, part) == NULL)
        fail_msg("message '%s' lacks '%s'", host->message, part);
}

static const unsigned char canary[16] = "behind the block";

static void *failing_allocate(void *user, size_t alignment, size_t bytes)
{
    struct failing_host *failing = user;
    failing->calls++;
    failing->largest = bytes > failing->largest ? bytes : failing->largest;
    if (failing->until_failure >= 0 && (failing->once ? failing->calls == failing->until_failure + 1
                                                      : failing->calls > failing->until_failure))
        return NULL;
    /* The size before the block and a canary after it. The block is not zeroed. */
    size_t front = alignment < 64 ? 64 : alignment, size = front + bytes + sizeof canary;
    unsigned char *block = aligned_alloc(front, (size + front - 1) / front * front);
    if (block == NULL)
        return NULL;
    failing->outstanding++;
    memset(block, 0xff, front + bytes);
    memcpy(block + front - sizeof bytes, &bytes, sizeof bytes);
    memcpy(block + front - 2 * sizeof bytes, &front, sizeof front);
    memcpy(block + front + bytes, canary, sizeof canary);
    return block + front;
}

static void failing_release(void *user, void *block)
{
    struct failing_host *failing = user;
    if (block == NULL)
        return;
    size_t bytes, front;
    unsigned char *given = block;
    memcpy(&bytes, given - sizeof bytes, sizeof bytes);
    memcpy(&front, given - 2 * sizeof bytes, sizeof front);
    failing->outstanding--;
    if (memcmp(given + bytes, canary, sizeof canary) != 0)
        fail_msg("a write past the end of a block of %zu bytes", bytes);
    free(given - front);
}

void failing_host_init(struct failing_host *failing, long until_failure)
{
    host_init(&failing->host);
    failing->host.allocate = failing_allocate;
    failing->host.release = failing_release;
    failing->host.user = failing;
    failing->until_failure = until_failure;
    failing->outstanding = failing->calls = 0;
    failing->once = false;
    failing->largest = 0;
}

static size_t guarded_bytes(size_t count)
{
    size_t page = (size_t)sysconf(_SC_PAGESIZE);
    return (count * sizeof(float) + page - 1) / page * page;
}

float *guard_floats(size_t count)
{
    size_t page = (size_t)sysconf(_SC_PAGESIZE), bytes = guarded_bytes(count);
    unsigned char *block =
        mmap(NULL, bytes + page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (block == MAP_FAILED || mprotect(block + bytes, page, PROT_NONE) != 0)
        fail_msg("no guarded memory for %zu floats", count);
    return (float *)(void *)(block + bytes) - count;
}

void guard_free(float *floats, size_t count)
{
    size_t page = (size_t)sysconf(_SC_PAGESIZE), bytes = guarded_bytes(count);
    munmap((unsigned char *)(floats + count) - bytes, bytes + page);
}
