/* The reader checks the size, then the checksum, then each number, before it makes the sketch; the counts of
   every table must add up to the rows. A sketch takes at most 9 bytes for each of the file; its planes are
   drawn when rows come (sketch.h). The checksum is FNV-1a, which finds every change of one byte: it has
   to detect damage, not attacks.
   SPDX-License-Identifier: Apache-2.0 */
#include "density/sketch_file.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

#include "base/file.h"
#include "base/file_writer.h"

_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "numbers are moved as bytes");

static const char magic[8] = {'H', 'A', 'D', 'E', 'N', 'S', 'E', '1'};
static const uint64_t first_hash = 14695981039346656037u;

struct header {
    char magic[8];
    uint64_t dim, rows, seed;
    uint32_t num_hashes, hash_bits, map, reserved; /* reserved: 0 */
};
_Static_assert(sizeof(struct header) == 48, "no padding");

enum { CHECKSUM = 8 };

static uint64_t mix(uint64_t hash, const void *bytes, size_t size)
{
    for (size_t i = 0; i < size; i++)
        hash = (hash ^ ((const unsigned char *)bytes)[i]) * 1099511628211u;
    return hash;
}

/* Bytes of a count: no count exceeds the rows. */
static size_t count_bytes(uint64_t rows)
{
    return rows <= UINT8_MAX ? 1 : rows <= UINT16_MAX ? 2 : rows <= UINT32_MAX ? 4 : 8;
}

/* ---- writing ------------------------------------------------------------------------------------------- */

struct out {
    struct file_writer file;
    uint64_t hash;
};

static void put(struct out *out, const void *bytes, size_t size)
{
    out->hash = mix(out->hash, bytes, size);
    file_write(&out->file, bytes, size);
}

hashattn_status sketch_save(struct host *host, const struct sketch *sketch, const char *path)
{
    const struct sketch_options *options = &sketch->options;
    FAIL_IF(!sketch->mapped, host, HASHATTN_INVALID,
            "the sketch has no Euclidean map yet: rows must be added before it is saved");
    struct out out = {.hash = first_hash};
    TRY(file_open_writer(host, path, &out.file));
    struct header header = {.dim = sketch->dim,
                            .rows = sketch->rows,
                            .seed = options->seed,
                            .num_hashes = (uint32_t)options->num_hashes,
                            .hash_bits = (uint32_t)options->hash_bits,
                            .map = (uint32_t)options->map};
    memcpy(header.magic, magic, sizeof magic);
    put(&out, &header, sizeof header);
    if (options->map == DENSITY_MAP_EUCLIDEAN) {
        put(&out, sketch->centre, sketch->dim * sizeof *sketch->centre);
        put(&out, sketch->scale, sketch->dim * sizeof *sketch->scale);
    }
    for (size_t i = 0, size = count_bytes(sketch->rows); i < sketch_counts(sketch); i++)
        put(&out, &sketch->counts[i], size);
    file_write(&out.file, &out.hash, CHECKSUM);
    return file_commit(host, &out.file);
}

/* ---- reading ------------------------------------------------------------------------------------------- */

/* Bytes of a file with this header; SIZE_MAX on overflow. */
static size_t size_of(const struct header *header)
{
    size_t floats = header->map == DENSITY_MAP_EUCLIDEAN ? size_product(header->dim, 2) : 0;
    size_t counts = size_product(header->num_hashes, (size_t)1 << header->hash_bits);
    size_t size =
        size_sum(size_product(floats, sizeof(float)), size_product(counts, count_bytes(header->rows)));
    return size_sum(size, sizeof *header + CHECKSUM);
}

static hashattn_status check_header(struct host *host, const struct header *header, size_t size)
{
    FAIL_IF(header->dim < 1 || header->dim > SKETCH_MOST_DIM, host, HASHATTN_BAD_FILE,
            "a damaged sketch: its header has %" PRIu64 " columns, allowed are 1 to %d", header->dim,
            SKETCH_MOST_DIM);
    FAIL_IF(header->rows > SKETCH_MOST_ROWS || header->num_hashes < 1 ||
                header->num_hashes > SKETCH_MOST_HASHES || header->hash_bits < 1 ||
                header->hash_bits > SKETCH_MOST_BITS || header->map > DENSITY_MAP_EUCLIDEAN ||
                header->reserved != 0,
            host, HASHATTN_BAD_FILE,
            "a damaged sketch: its header has %" PRIu64 " columns, %" PRIu64 " rows, %" PRIu32
            " hashes of %" PRIu32 " bits and map %" PRIu32,
            header->dim, header->rows, header->num_hashes, header->hash_bits, header->map);
    size_t wanted = size_of(header);
    FAIL_IF(size != wanted, host, HASHATTN_BAD_FILE, "a damaged sketch: %zu bytes, its header needs %zu",
            size, wanted);
    return HASHATTN_OK;
}

static hashattn_status take_map(struct host *host, struct sketch *sketch, const char *bytes)
{
    size_t size = sketch->dim * sizeof *sketch->centre;
    memcpy(sketch->centre, bytes, size);
    memcpy(sketch->scale, bytes + size, size);
    sketch->mapped = true;
    for (size_t c = 0; c < sketch->dim; c++)
        FAIL_IF(!isfinite(sketch->centre[c]) || !isnormal(sketch->scale[c]) || sketch->scale[c] < 0, host,
                HASHATTN_BAD_FILE, "a damaged sketch: centre or scale of column %zu", c);
    return HASHATTN_OK;
}

static hashattn_status take_counts(struct host *host, struct sketch *sketch, const char *bytes)
{
    size_t size = count_bytes(sketch->rows), buckets = (size_t)1 << sketch->options.hash_bits;
    for (size_t h = 0; h < sketch->options.num_hashes; h++) {
        uint64_t sum = 0, *counts = sketch->counts + h * buckets;
        for (size_t b = 0; b < buckets && sum <= sketch->rows; b++) {
            memcpy(&counts[b], bytes + (h * buckets + b) * size, size);
            sum = counts[b] > sketch->rows ? UINT64_MAX : sum + counts[b];
        }
        FAIL_IF(sum != sketch->rows, host, HASHATTN_BAD_FILE,
                "a damaged sketch: the counts of hash %zu do not add up to %" PRIu64 " rows", h,
                sketch->rows);
    }
    return HASHATTN_OK;
}

hashattn_status sketch_parse(struct host *host, const struct kernels *kernels, struct pool *pool,
                             const char *bytes, size_t size, struct sketch **sketch)
{
    struct header header;
    uint64_t hash;
    *sketch = NULL;
    FAIL_IF(size < sizeof magic || memcmp(bytes, magic, sizeof magic) != 0, host, HASHATTN_BAD_FILE,
            "not a sketch of a density (hashattn density fit writes them)");
    FAIL_IF(size < sizeof header, host, HASHATTN_BAD_FILE,
            "a damaged sketch: %zu bytes, its header needs %zu", size, sizeof header);
    memcpy(&header, bytes, sizeof header);
    TRY(check_header(host, &header, size));
    memcpy(&hash, bytes + size - CHECKSUM, CHECKSUM);
    FAIL_IF(hash != mix(first_hash, bytes, size - CHECKSUM), host, HASHATTN_BAD_FILE,
            "a damaged sketch: the checksum is wrong");
    const struct sketch_options options = {.num_hashes = header.num_hashes,
                                           .hash_bits = header.hash_bits,
                                           .map = (enum density_map)header.map,
                                           .seed = header.seed};
    struct sketch *made;
    hashattn_status status = sketch_new(host, kernels, pool, &options, header.dim, &made);
    if (status == HASHATTN_REFUSED) { /* nothing writes such a sketch */
        host_prefix(host, "a damaged sketch");
        status = HASHATTN_BAD_FILE;
    }
    TRY(status);
    made->rows = header.rows;
    bytes += sizeof header;
    if (options.map == DENSITY_MAP_EUCLIDEAN) {
        status = take_map(host, made, bytes);
        bytes += 2 * made->dim * sizeof(float);
    }
    if (status == HASHATTN_OK)
        status = take_counts(host, made, bytes);
    if (status != HASHATTN_OK)
        sketch_free(host, made);
    else
        *sketch = made;
    return status;
}

hashattn_status sketch_load(struct host *host, const struct kernels *kernels, struct pool *pool,
                            const char *path, struct sketch **sketch)
{
    char *bytes;
    size_t size;
    *sketch = NULL;
    TRY(file_read(host, path, SIZE_MAX / 2, &bytes, &size));
    hashattn_status status = sketch_parse(host, kernels, pool, bytes, size, sketch);
    memory_free(host, bytes);
    if (status != HASHATTN_OK && status != HASHATTN_NO_MEMORY)
        host_prefix(host, path);
    return status;
}
