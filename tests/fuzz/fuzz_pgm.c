/* Any bytes as PGM pictures: sizes are within limits, the reader advances, and each picture, written as
   binary PGM, is read as the same.
   SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "fuzz/fuzz.h"
#include "io/pgm.h"

static unsigned char pixels[PGM_PIXELS], again[PGM_PIXELS];
static char copy[40 + PGM_PIXELS];

static void check_copy(struct host *host, const struct pgm *pgm)
{
    size_t count = pgm->width * pgm->height;
    int header = snprintf(copy, 40, "P5\n%zu %zu\n255\n", pgm->width, pgm->height);
    memcpy(copy + header, pixels, count);
    struct pgm second = pgm_open(copy, (size_t)header + count);
    bool more;
    FUZZ_CHECK(pgm_next(host, &second, again, &more) == HASHATTN_OK && more);
    FUZZ_CHECK(second.width == pgm->width && second.height == pgm->height);
    FUZZ_CHECK(memcmp(pixels, again, count) == 0 && second.at == second.end);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct host host;
    struct pgm pgm = pgm_open((const char *)data, size);
    bool more = true;
    host_init(&host);
    while (more) {
        const char *before = pgm.at;
        hashattn_status status = pgm_next(&host, &pgm, pixels, &more);
        FUZZ_CHECK(status == HASHATTN_OK || status == HASHATTN_BAD_FILE);
        FUZZ_CHECK(pgm.at >= before && pgm.at <= pgm.end);
        if (status != HASHATTN_OK) {
            FUZZ_CHECK(strncmp(host.message, "picture ", 8) == 0);
            return 0;
        }
        if (!more)
            break;
        FUZZ_CHECK(pgm.at > before && pgm.width >= 1 && pgm.height >= 1);
        FUZZ_CHECK(pgm.width * pgm.height <= PGM_PIXELS);
        check_copy(&host, &pgm);
    }
    FUZZ_CHECK(pgm.at == pgm.end);
    return 0;
}
