/* Sketches in files: written and read with counts of every width, any changed byte and any cut noticed, and
   damage under a right checksum too; a small file takes little memory, whatever its header says.

   Planted and caught: the checksum not compared; counts of 256 rows in one byte; the sums of counts not
   checked; the scale of a map not checked; the seed not written; planes drawn when a sketch is loaded; any
   number of columns taken; scratch for a whole block made for one row.
   SPDX-License-Identifier: Apache-2.0 */
#include "density/sketch_file.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/random.h"
#include "support/folder.h"

enum { DIM = 3 };

static const struct kernels *widest(void)
{
    return kernels_named(NULL, &(const char *){0});
}

static struct sketch *sketch_of(struct host *host, enum density_map map, size_t n)
{
    const struct sketch_options options = {.num_hashes = 3, .hash_bits = 4, .map = map, .seed = 77};
    struct sketch *sketch;
    float *x = malloc((n + 1) * DIM * sizeof *x);
    random_normals(1, 0, x, n * DIM);
    check_status(host, sketch_new(host, widest(), NULL, &options, DIM, &sketch), HASHATTN_OK, NULL);
    check_status(host, sketch_add(host, sketch, x, n), HASHATTN_OK, NULL);
    free(x);
    return sketch;
}

static void written_sketches_are_read(void **state)
{
    struct folder *folder = *state;
    struct host *host = &folder->host;
    char path[100];
    snprintf(path, sizeof path, "%s/sketch", folder->path);
    static const struct {
        uint64_t rows;
        size_t size;
    } cases[] = {{255, 1}, {256, 2}, {65535, 2}, {65536, 4}, {(uint64_t)1 << 32, 8}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        for (int map = 0; map < 2; map++) {
            struct sketch *sketch = sketch_of(host, (enum density_map)map, 200), *read;
            for (size_t h = 0; h < 3; h++)
                sketch->counts[h * 16 + 5] += cases[i].rows - sketch->rows;
            sketch->rows = cases[i].rows;
            check_status(host, sketch_save(host, sketch, path), HASHATTN_OK, NULL);
            size_t size;
            free(folder_get(folder, "sketch", &size));
            assert_int_equal(size, 48 + (map == 0 ? 0u : 8u * DIM) + 48 * cases[i].size + 8);
            check_status(host, sketch_load(host, widest(), NULL, path, &read), HASHATTN_OK, NULL);
            check_status(host, sketch_check_alike(host, sketch, read), HASHATTN_OK, NULL);
            assert_true(read->rows == cases[i].rows && read->mapped);
            check_same_bits(read->counts, sketch->counts, sketch_counts(sketch) * 8, "counts");
            sketch_free(host, read);
            sketch_free(host, sketch);
        }
}

static void check_damaged(struct host *host, const char *bytes, size_t size, const char *part)
{
    struct sketch *sketch;
    check_status(host, sketch_parse(host, widest(), NULL, bytes, size, &sketch), HASHATTN_BAD_FILE, part);
    assert_null(sketch);
}

static void sign(char *bytes, size_t size)
{
    uint64_t hash = 14695981039346656037u;
    for (size_t i = 0; i + 8 < size; i++)
        hash = (hash ^ (unsigned char)bytes[i]) * 1099511628211u;
    memcpy(bytes + size - 8, &hash, 8);
}

static void damage_is_noticed(void **state)
{
    struct folder *folder = *state;
    struct host *host = &folder->host;
    char path[100];
    size_t size;
    snprintf(path, sizeof path, "%s/sketch", folder->path);
    struct sketch *sketch = sketch_of(host, DENSITY_MAP_EUCLIDEAN, 200);
    check_status(host, sketch_save(host, sketch, path), HASHATTN_OK, NULL);
    sketch_free(host, sketch);
    char *bytes = folder_get(folder, "sketch", &size);
    for (size_t i = 0; i < size; i++) {
        bytes[i] ^= 4;
        check_damaged(host, bytes, size, "sketch");
        bytes[i] ^= 4;
        char *cut = malloc(i + 1); /* an exact block, so that ASan sees a read past the end */
        memcpy(cut, bytes, i);
        check_damaged(host, cut, i, "sketch");
        free(cut);
    }
    /* The counts begin behind header and map; a signed file is damaged by whoever wrote it. */
    size_t counts = 48 + 8 * DIM;
    size_t from = counts;
    while (bytes[from] == 0)
        from++;
    bytes[from]--;
    sign(bytes, size);
    check_damaged(host, bytes, size, "the counts of hash 0 do not add up to 200 rows");
    bytes[from] = (char)(bytes[from] + 1);
    const float scales[] = {0, -1, 1e-40f};
    for (size_t i = 0; i < 3; i++) {
        char kept[4];
        memcpy(kept, bytes + 48 + 4 * DIM, 4);
        memcpy(bytes + 48 + 4 * DIM, &scales[i], 4);
        sign(bytes, size);
        check_damaged(host, bytes, size, "centre or scale of column 0");
        memcpy(bytes + 48 + 4 * DIM, kept, 4);
    }
    memset(bytes + 8, 0, 8);
    check_damaged(host, bytes, size, "its header has 0 columns");
    memcpy(bytes, "{\"a\": 1}", 8);
    check_damaged(host, bytes, size, "not a sketch of a density");
    folder_put(folder, "sketch", bytes, size);
    check_status(host, sketch_load(host, widest(), NULL, path, &sketch), HASHATTN_BAD_FILE, path);
    free(bytes);
    const struct sketch_options options = {.num_hashes = 3, .hash_bits = 4, .map = DENSITY_MAP_EUCLIDEAN};
    check_status(host, sketch_new(host, widest(), NULL, &options, DIM, &sketch), HASHATTN_OK, NULL);
    check_status(host, sketch_save(host, sketch, path), HASHATTN_INVALID, "rows must be added");
    sketch_free(host, sketch);
}

/* Writes a file of 1 row of `dim` columns, without a map, under a right checksum, and returns its size. */
static size_t small_file(char *bytes, uint64_t dim, uint32_t num_hashes)
{
    const uint64_t numbers[] = {dim, 1, 77};
    const uint32_t options[] = {num_hashes, 1, DENSITY_MAP_NONE, 0};
    size_t size = 48 + 2 * num_hashes + 8;
    memset(bytes, 0, size);
    memcpy(bytes, "HADENSE1", 8);
    memcpy(bytes + 8, numbers, sizeof numbers);
    memcpy(bytes + 32, options, sizeof options);
    for (size_t h = 0; h < num_hashes; h++)
        bytes[48 + 2 * h] = 1;
    sign(bytes, size);
    return size;
}

static void a_small_file_takes_little(void **state)
{
    (void)state;
    enum { MOST_SIZE = 48 + 2 * SKETCH_MOST_HASHES + 8, ITSELF = 2048, WIDE = 4096 };
    struct failing_host failing;
    struct sketch *sketch;
    char *bytes = malloc(MOST_SIZE);
    failing_host_init(&failing, -1);
    size_t size = small_file(bytes, SKETCH_MOST_DIM, 1);
    assert_int_equal(size, 58);
    check_status(&failing.host, sketch_parse(&failing.host, widest(), NULL, bytes, size, &sketch),
                 HASHATTN_OK, NULL);
    assert_true(failing.largest < 8 * size + ITSELF);
    sketch_free(&failing.host, sketch);
    size = small_file(bytes, SKETCH_MOST_DIM + 1, 1);
    check_damaged(&failing.host, bytes, size, "1048577 columns, allowed are 1 to 1048576");
    size = small_file(bytes, SKETCH_MOST_DIM, SKETCH_MOST_HASHES);
    check_damaged(&failing.host, bytes, size,
                  "1048576 columns, 4096 hashes and 1 bits: the planes have over");
    assert_true(failing.largest < 8 * size + ITSELF);

    /* One row takes the planes, room for as many rows as a thread hashes at a time, and no block of rows. */
    float row[WIDE] = {1}, density;
    struct pool *pool;
    check_status(&failing.host, pool_new(&failing.host, 2, &pool), HASHATTN_OK, NULL);
    size = small_file(bytes, WIDE, 1);
    check_status(&failing.host, sketch_parse(&failing.host, widest(), pool, bytes, size, &sketch),
                 HASHATTN_OK, NULL);
    check_status(&failing.host, sketch_score(&failing.host, sketch, row, 1, &density, NULL), HASHATTN_OK,
                 NULL);
    assert_true(density == 0 || density == 1);
    assert_true(failing.largest < 2 * (CODES_ROWS + 2) * sizeof row);
    sketch_free(&failing.host, sketch);
    pool_free(&failing.host, pool);
    assert_int_equal(failing.outstanding, 0);
    free(bytes);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(written_sketches_are_read, folder_enter, folder_leave),
        cmocka_unit_test_setup_teardown(damage_is_noticed, folder_enter, folder_leave),
        cmocka_unit_test(a_small_file_takes_little),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
