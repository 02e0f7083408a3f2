/* A byte that repeats is a copy of the byte before it: of length 258 or 3 to 10, whose codes need no further
   bits.
   SPDX-License-Identifier: Apache-2.0 */
#include "cli/shared/pictures/png.h"

#include <string.h>

enum { COPY = 258, SHORT_COPY = 10, LEAST_COPY = 3, END_OF_BLOCK = 256, FIRST_LENGTH = 257, LONGEST = 285 };

/* A chunk that is written: its bytes are counted beforehand, so it is made twice. */
struct chunk {
    FILE *file; /* NULL: bytes are only counted */
    size_t bytes;
    uint32_t crc;
    uint32_t bits; /* that are no byte yet */
    int num_bits;
};

static void put(struct chunk *chunk, uint8_t byte)
{
    chunk->bytes++;
    if (chunk->file == NULL)
        return;
    chunk->crc ^= byte;
    for (int i = 0; i < 8; i++)
        chunk->crc = chunk->crc >> 1 ^ (chunk->crc & 1 ? 0xedb88320u : 0);
    fputc(byte, chunk->file);
}

static void put_long(struct chunk *chunk, uint32_t number)
{
    for (int shift = 24; shift >= 0; shift -= 8)
        put(chunk, (uint8_t)(number >> shift));
}

static void raw_long(FILE *file, uint32_t number)
{
    for (int shift = 24; shift >= 0; shift -= 8)
        fputc((int)(number >> shift & 255), file);
}

static struct chunk chunk_begin(FILE *file, const char *type, size_t bytes)
{
    struct chunk chunk = {.file = file, .crc = 0xffffffffu};
    if (file != NULL)
        raw_long(file, (uint32_t)bytes);
    for (int i = 0; i < 4; i++)
        put(&chunk, (uint8_t)type[i]);
    chunk.bytes = 0;
    return chunk;
}

static void chunk_end(struct chunk *chunk)
{
    if (chunk->file != NULL)
        raw_long(chunk->file, ~chunk->crc);
}

static void put_bit(struct chunk *chunk, uint32_t bit)
{
    chunk->bits |= bit << chunk->num_bits;
    if (++chunk->num_bits < 8)
        return;
    put(chunk, (uint8_t)chunk->bits);
    chunk->bits = 0;
    chunk->num_bits = 0;
}

/* A code of the fixed tree, the highest bit first. */
static void put_code(struct chunk *chunk, uint32_t symbol)
{
    uint32_t code = symbol < 144   ? 0x30 + symbol
                    : symbol < 256 ? 0x190 + symbol - 144
                    : symbol < 280 ? symbol - 256
                                   : 0xc0 + symbol - 280;
    int size = symbol < 144 || symbol >= 280 ? 8 : symbol < 256 ? 9 : 7;
    while (size-- > 0)
        put_bit(chunk, code >> size & 1);
}

/* `run` times the byte before. */
static void put_run(struct chunk *chunk, uint8_t byte, size_t run)
{
    while (run > 0) {
        size_t length = run >= COPY ? COPY : run > SHORT_COPY ? SHORT_COPY : run;
        if (length < LEAST_COPY) {
            put_code(chunk, byte);
            run--;
            continue;
        }
        put_code(chunk, length == COPY ? LONGEST : FIRST_LENGTH + (uint32_t)length - LEAST_COPY);
        for (int i = 0; i < 5; i++)
            put_bit(chunk, 0); /* distance 1 */
        run -= length;
    }
}

/* The compressed rows, each after a 0: it is not filtered. */
static struct chunk put_rows(FILE *file, size_t bytes, const uint8_t *pixels, size_t width, size_t height)
{
    struct chunk chunk = chunk_begin(file, "IDAT", bytes);
    uint32_t low = 1, high = 0; /* Adler-32 */
    size_t run = 0;
    int before = -1;
    put(&chunk, 0x78);
    put(&chunk, 0x01);
    put_bit(&chunk, 1); /* the last block */
    put_bit(&chunk, 1); /* of fixed codes */
    put_bit(&chunk, 0);
    for (size_t i = 0; i < height * (width + 1); i++) {
        size_t x = i % (width + 1);
        uint8_t byte = x == 0 ? 0 : pixels[i / (width + 1) * width + x - 1];
        low = (low + byte) % 65521;
        high = (high + low) % 65521;
        if (byte == before) {
            run++;
            continue;
        }
        put_run(&chunk, (uint8_t)before, run);
        put_code(&chunk, byte);
        before = byte;
        run = 0;
    }
    put_run(&chunk, (uint8_t)before, run);
    put_code(&chunk, END_OF_BLOCK);
    while (chunk.num_bits > 0)
        put_bit(&chunk, 0);
    put_long(&chunk, high << 16 | low);
    return chunk;
}

void png_write(FILE *file, const uint8_t *pixels, size_t width, size_t height, const uint8_t colours[256][3])
{
    static const uint8_t signature[] = {0x89, 'P', 'N', 'G', '\r', '\n', 0x1a, '\n'};
    fwrite(signature, 1, sizeof signature, file);
    struct chunk chunk = chunk_begin(file, "IHDR", 13);
    put_long(&chunk, (uint32_t)width);
    put_long(&chunk, (uint32_t)height);
    put(&chunk, 8); /* bits */
    put(&chunk, 3); /* a palette */
    for (int i = 0; i < 3; i++)
        put(&chunk, 0);
    chunk_end(&chunk);
    chunk = chunk_begin(file, "PLTE", 3 * 256);
    for (int i = 0; i < 3 * 256; i++)
        put(&chunk, colours[i / 3][i % 3]);
    chunk_end(&chunk);
    size_t bytes = put_rows(NULL, 0, pixels, width, height).bytes;
    chunk = put_rows(file, bytes, pixels, width, height);
    chunk_end(&chunk);
    chunk = chunk_begin(file, "IEND", 0);
    chunk_end(&chunk);
}
