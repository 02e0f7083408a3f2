/* One pass over the bytes; each pixel costs a division, because the largest value of a file need not be 255.
   SPDX-License-Identifier: Apache-2.0 */
#include "io/pgm.h"

#include <stdint.h>
#include <stdio.h>

enum { LARGEST_NUMBER = 1000000, LARGEST_VALUE = 255 };

struct pgm pgm_open(const char *bytes, size_t size)
{
    return (struct pgm){.at = bytes, .end = bytes + size};
}

static bool is_space(char c)
{
    return c == ' ' || (c >= '\t' && c <= '\r');
}

static void skip_space(struct pgm *pgm)
{
    while (pgm->at < pgm->end && is_space(*pgm->at))
        pgm->at++;
}

/* Skips white space and comments; the last comment is kept. */
static void skip_comments(struct pgm *pgm)
{
    for (skip_space(pgm); pgm->at < pgm->end && *pgm->at == '#'; skip_space(pgm)) {
        const char *start = ++pgm->at;
        while (pgm->at < pgm->end && *pgm->at != '\n' && *pgm->at != '\r')
            pgm->at++;
        pgm->comment = (struct piece){start, (size_t)(pgm->at - start)};
    }
}

/* Reads digits, at least one. */
static hashattn_status read_number(struct host *host, struct pgm *pgm, const char *what, unsigned largest,
                                   unsigned *number)
{
    const char *start = pgm->at;
    *number = 0;
    for (; pgm->at < pgm->end && *pgm->at >= '0' && *pgm->at <= '9'; pgm->at++) {
        *number = *number * 10 + (unsigned)(*pgm->at - '0');
        FAIL_IF(*number > largest, host, HASHATTN_BAD_FILE, "%s is above %u", what, largest);
    }
    FAIL_IF(pgm->at == start && pgm->at == pgm->end, host, HASHATTN_BAD_FILE, "the file ends before %s",
            what);
    FAIL_IF(pgm->at == start, host, HASHATTN_BAD_FILE, "%s is not a number: it begins with byte 0x%02x", what,
            (unsigned)(unsigned char)*start);
    return HASHATTN_OK;
}

/* largest: the value that is white. */
static hashattn_status read_header(struct host *host, struct pgm *pgm, bool *text, unsigned *largest)
{
    unsigned width, height;
    size_t left = (size_t)(pgm->end - pgm->at);
    FAIL_IF(left < 2, host, HASHATTN_BAD_FILE, "%zu byte%s, a header begins with P5 or P2", left,
            left == 1 ? "" : "s");
    FAIL_IF(pgm->at[0] != 'P' || (pgm->at[1] != '5' && pgm->at[1] != '2'), host, HASHATTN_BAD_FILE,
            "begins with bytes 0x%02x 0x%02x, not with P5 or P2", (unsigned)(unsigned char)pgm->at[0],
            (unsigned)(unsigned char)pgm->at[1]);
    *text = pgm->at[1] == '2';
    pgm->at += 2;
    pgm->comment = (struct piece){pgm->at, 0};
    skip_comments(pgm);
    TRY(read_number(host, pgm, "the width", LARGEST_NUMBER, &width));
    skip_comments(pgm);
    TRY(read_number(host, pgm, "the height", LARGEST_NUMBER, &height));
    FAIL_IF(width == 0 || height == 0, host, HASHATTN_BAD_FILE, "%u x %u pixels", height, width);
    FAIL_IF((uint64_t)width * height > PGM_PIXELS, host, HASHATTN_BAD_FILE,
            "%u x %u pixels, at most %d are read", height, width, PGM_PIXELS);
    skip_comments(pgm);
    TRY(read_number(host, pgm, "the largest value", 65535, largest));
    FAIL_IF(*largest == 0 || *largest > LARGEST_VALUE, host, HASHATTN_BAD_FILE,
            "the largest value is %u, allowed are 1 to %d", *largest, LARGEST_VALUE);
    pgm->width = width;
    pgm->height = height;
    return HASHATTN_OK;
}

static hashattn_status read_pixels(struct host *host, struct pgm *pgm, bool text, unsigned largest,
                                   unsigned char *pixels)
{
    size_t count = pgm->width * pgm->height;
    if (!text) {
        FAIL_IF(pgm->at == pgm->end || !is_space(*pgm->at), host, HASHATTN_BAD_FILE,
                "no white space between the largest value and the pixels");
        pgm->at++;
        size_t left = (size_t)(pgm->end - pgm->at);
        FAIL_IF(left < count, host, HASHATTN_BAD_FILE, "%zu x %zu pixels, the file has %zu", pgm->height,
                pgm->width, left);
    }
    for (size_t i = 0; i < count; i++) {
        unsigned value;
        if (text) {
            skip_space(pgm);
            TRY(read_number(host, pgm, "a pixel", 65535, &value));
        } else {
            value = (unsigned char)*pgm->at++;
        }
        FAIL_IF(value > largest, host, HASHATTN_BAD_FILE, "pixel %zu is %u, the largest value is %u", i,
                value, largest);
        pixels[i] = (unsigned char)((value * LARGEST_VALUE + largest / 2) / largest);
    }
    return HASHATTN_OK;
}

hashattn_status pgm_next(struct host *host, struct pgm *pgm, unsigned char *pixels, bool *more)
{
    bool text = false;
    unsigned largest = 1;
    skip_space(pgm); /* some programs end a picture with a line feed */
    *more = pgm->at < pgm->end;
    if (!*more)
        return HASHATTN_OK;
    pgm->count++;
    hashattn_status status = read_header(host, pgm, &text, &largest);
    if (status == HASHATTN_OK)
        status = read_pixels(host, pgm, text, largest, pixels);
    if (status != HASHATTN_OK) {
        char prefix[40];
        snprintf(prefix, sizeof prefix, "picture %zu", pgm->count);
        host_prefix(host, prefix);
    }
    return status;
}
