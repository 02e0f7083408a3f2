/* Any bytes as a sketch, as they are and under a right checksum: reading takes memory in proportion to the
   bytes; an accepted one is written back to the same bytes, and scores.
   SPDX-License-Identifier: Apache-2.0 */
#include "density/sketch_file.h"

#include <string.h>

#include "base/file.h"
#include "base/memory.h"
#include "fuzz/fuzz_file.h"

enum {
    MOST_PLANES = 1 << 16, /* numbers of planes to score with, so that an input takes little time */
    BYTES_OF_ONE = 8,      /* of a sketch for each of the input */
    OF_ITSELF = 1 << 11    /* of an empty sketch */
};

static size_t asked; /* bytes */

static void *count_and_allocate(void *user, size_t alignment, size_t bytes)
{
    struct host plain;
    (void)user;
    host_init(&plain);
    asked += bytes;
    return plain.allocate(plain.user, alignment, bytes);
}

static void score(struct host *host, struct sketch *sketch)
{
    float density, *zeros = calloc(sketch->dim, sizeof *zeros);
    FUZZ_CHECK(zeros != NULL);
    hashattn_status status = sketch_score(host, sketch, zeros, 1, &density, NULL);
    FUZZ_CHECK(status == (sketch->rows > 0 ? HASHATTN_OK : HASHATTN_INVALID));
    FUZZ_CHECK(status != HASHATTN_OK || (density >= 0 && density <= 1));
    free(zeros);
}

static void try_bytes(const uint8_t *data, size_t size)
{
    struct host host;
    struct sketch *sketch;
    host_init(&host);
    host.allocate = count_and_allocate;
    asked = 0;
    const struct kernels *kernels = kernels_named(NULL, &(const char *){0});
    hashattn_status status = sketch_parse(&host, kernels, NULL, (const char *)data, size, &sketch);
    FUZZ_CHECK(asked <= BYTES_OF_ONE * size + OF_ITSELF);
    if (status != HASHATTN_OK) {
        FUZZ_CHECK(status == HASHATTN_BAD_FILE && sketch == NULL && host.message[0] != '\0');
        return;
    }
    char path[FUZZ_PATH], *bytes;
    size_t written;
    fuzz_file("none", "", 0); /* makes the directory */
    snprintf(path, sizeof path, "%s/sketch", fuzz_directory);
    FUZZ_CHECK(sketch_save(&host, sketch, path) == HASHATTN_OK);
    FUZZ_CHECK(file_read(&host, path, SIZE_MAX / 2, &bytes, &written) == HASHATTN_OK);
    fuzz_remove(path);
    FUZZ_CHECK(written == size && memcmp(bytes, data, size) == 0);
    memory_free(&host, bytes);
    if (sketch->dim * sketch->options.num_hashes * sketch->options.hash_bits <= MOST_PLANES)
        score(&host, sketch);
    sketch_free(&host, sketch);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    try_bytes(data, size);
    if (size < 8)
        return 0;
    uint8_t *copy = malloc(size);
    FUZZ_CHECK(copy != NULL);
    memcpy(copy, data, size);
    uint64_t hash = 14695981039346656037u;
    for (size_t i = 0; i < size - 8; i++)
        hash = (hash ^ copy[i]) * 1099511628211u;
    memcpy(copy + size - 8, &hash, sizeof hash);
    try_bytes(copy, size);
    free(copy);
    return 0;
}
