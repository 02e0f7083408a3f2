/* The value of the polynomial is mixed, so that names whose values lie side by side are
   scattered over a table.
   SPDX-License-Identifier: Apache-2.0 */
#include "base/tables/hash_key.h"

#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#ifdef __linux__
#include <sys/random.h>
#endif

__extension__ typedef unsigned __int128 wide;

static const uint64_t prime = ((uint64_t)1 << 61) - 1;
enum { BLOCK = 7 }; /* bytes of a coefficient */

/* Fills the bytes from the system; false if it has no random numbers. */
static bool draw(void *bytes, size_t size)
{
#ifdef __linux__
    if (getrandom(bytes, size, GRND_NONBLOCK) == (ssize_t)size)
        return true;
#endif
    FILE *file = fopen("/dev/urandom", "rb");
    if (file == NULL)
        return false;
    bool whole = fread(bytes, 1, size, file) == size;
    fclose(file);
    return whole;
}

struct hash_key hash_key_new(void)
{
    struct hash_key key = {0, 0};
    if (!draw(&key, sizeof key)) {
        struct timespec now = {0, 0};
        clock_gettime(CLOCK_REALTIME, &now);
        key.point = (uint64_t)now.tv_nsec * 0x9e3779b97f4a7c15u ^ (uint64_t)now.tv_sec;
        key.mask = (uint64_t)(uintptr_t)&key;
    }
    key.point %= prime;
    return key;
}

/* value * point + next, modulo the prime; value < prime, next < 2^61. */
static uint64_t step(uint64_t value, uint64_t point, uint64_t next)
{
    wide product = (wide)value * point + next;
    uint64_t sum = ((uint64_t)product & prime) + (uint64_t)(product >> 61);
    return sum >= prime ? sum - prime : sum;
}

static uint64_t mix(const struct hash_key *key, uint64_t value)
{
    value = (value ^ key->mask) * 0x9e3779b97f4a7c15u;
    value = (value ^ value >> 32) * 0xd6e8feb86659fd93u;
    return value ^ value >> 32;
}

uint64_t hash_bytes(const struct hash_key *key, const void *bytes, size_t size)
{
    /* A bit after its last byte makes every coefficient positive, so texts of different sizes differ. */
    const unsigned char *at = bytes;
    const uint64_t end = (uint64_t)1 << (8 * BLOCK);
    uint64_t value = 0, block;
    for (; size > BLOCK; size -= BLOCK, at += BLOCK) {
        memcpy(&block, at, sizeof block);
        value = step(value, key->point, (block & (end - 1)) | end);
    }
    block = (uint64_t)1 << (8 * size);
    for (size_t i = 0; i < size; i++)
        block |= (uint64_t)at[i] << (8 * i);
    return mix(key, step(value, key->point, block));
}

uint64_t hash_pair(const struct hash_key *key, uint32_t first, uint32_t second)
{
    return mix(key, step(first, key->point, second));
}
