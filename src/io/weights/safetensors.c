/* Checking, reading and writing safetensors files. Checking costs one pass over the header and one sort of
   its entries; it does not touch the data. Values of types other than F32 are returned as bytes.
   SPDX-License-Identifier: Apache-2.0 */
#include "io/weights/safetensors.h"

#include <assert.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "base/file_writer.h"
#include "base/memory.h"
#include "io/json.h"
#include "io/shape_text.h"

_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "arrays are moved as bytes");

enum { LENGTH_BYTES = 8, DATA_ALIGNMENT = 8 };

static const char metadata_key[] = "__metadata__";

static const struct {
    const char *name;
    size_t size;
} types[] = {
#define TENSOR_TYPE_ROW(name, bytes) {#name, bytes},
    TENSOR_TYPE_LIST(TENSOR_TYPE_ROW)
#undef TENSOR_TYPE_ROW
};
enum { TYPES = sizeof types / sizeof types[0] };

const char *tensor_type_name(enum tensor_type type)
{
    return types[type].name;
}

size_t tensor_type_size(enum tensor_type type)
{
    return types[type].size;
}

/* ---- checking ------------------------------------------------------------------------------------------ */

static hashattn_status parse_type(struct host *host, const struct json *entry, enum tensor_type *type)
{
    const char *name;
    TRY(json_get_string(host, entry, "dtype", &name));
    for (int i = 0; i < TYPES; i++)
        if (strcmp(types[i].name, name) == 0) {
            *type = (enum tensor_type)i;
            return HASHATTN_OK;
        }
    return host_fail(host, HASHATTN_BAD_FILE, "the dtype '%.40s' is unknown", name);
}

/* Fills everything but the name. data: the file after the header, `size` bytes; NULL if only the header was
   read. */
static hashattn_status parse_tensor(struct host *host, const struct json *entry, const char *data,
                                    size_t size, struct tensor *tensor)
{
    const struct json *found;
    TRY(json_get_object(host, entry, "", &found));
    TRY(parse_type(host, entry, &tensor->type));
    TRY(json_get_array(host, entry, "shape", &found));
    size_t rank = json_count(found);
    FAIL_IF(rank > TENSOR_RANK, host, HASHATTN_BAD_FILE, "%zu dimensions, at most %d are allowed", rank,
            TENSOR_RANK);
    tensor->rank = (int)rank;
    size_t wanted = tensor_type_size(tensor->type);
    for (int i = 0; i < tensor->rank; i++) {
        char path[] = {'s', 'h', 'a', 'p', 'e', '.', (char)('0' + i), '\0'};
        int64_t length;
        TRY(json_get_int(host, entry, path, 0, INT64_MAX, &length));
        tensor->shape[i] = (size_t)length;
        wanted = size_product(wanted, tensor->shape[i]);
        FAIL_IF(wanted == SIZE_MAX, host, HASHATTN_BAD_FILE, "its shape is too large");
    }
    TRY(json_get_array(host, entry, "data_offsets", &found));
    FAIL_IF(json_count(found) != 2, host, HASHATTN_BAD_FILE, "%zu data_offsets, begin and end are needed",
            json_count(found));
    int64_t begin, end;
    TRY(json_get_int(host, entry, "data_offsets.0", 0, INT64_MAX, &begin));
    TRY(json_get_int(host, entry, "data_offsets.1", 0, INT64_MAX, &end));
    FAIL_IF(begin > end || (size_t)end > size, host, HASHATTN_BAD_FILE,
            "data_offsets are %lld to %lld, the file has %zu bytes of data", (long long)begin, (long long)end,
            size);
    FAIL_IF((size_t)(end - begin) != wanted, host, HASHATTN_BAD_FILE,
            "data_offsets hold %lld bytes, its shape and dtype need %zu", (long long)(end - begin), wanted);
    tensor->begin = (size_t)begin;
    tensor->bytes = wanted;
    tensor->data = data == NULL ? NULL : data + begin;
    return HASHATTN_OK;
}

static hashattn_status check_words(struct host *host, const struct json *words)
{
    const struct json *found;
    if (json_is_absent(words, "")) /* null */
        return HASHATTN_OK;
    TRY(json_get_object(host, words, "", &found));
    for (struct json_member m = json_first(words); m.key != NULL; m = json_next(m))
        FAIL_IF(json_text(m.value) == NULL, host, HASHATTN_BAD_FILE, "'%.60s' is not a string", m.key);
    return HASHATTN_OK;
}

static int by_place(const void *left, const void *right)
{
    const struct tensor *a = left, *b = right;
    if (a->begin != b->begin)
        return a->begin < b->begin ? -1 : 1;
    return (a->bytes > b->bytes) - (a->bytes < b->bytes);
}

/* Checks that every byte of the data belongs to exactly one tensor. */
static hashattn_status check_cover(struct host *host, const struct safetensors *file, size_t size)
{
    size_t covered = 0;
    for (size_t i = 0; i < file->count; i++) {
        const struct tensor *tensor = &file->tensors[i];
        FAIL_IF(tensor->begin != covered, host, HASHATTN_BAD_FILE,
                "tensor '%.100s' begins at byte %zu of the data, %s %zu", tensor->name, tensor->begin,
                tensor->begin > covered ? "a hole begins at" : "another ends at", covered);
        covered += tensor->bytes;
    }
    FAIL_IF(covered != size, host, HASHATTN_BAD_FILE,
            "the tensors end at byte %zu of the data, the file has %zu", covered, size);
    return HASHATTN_OK;
}

static hashattn_status index_names(struct host *host, struct safetensors *file)
{
    for (size_t i = 0; i < file->count; i++) {
        TRY(index_table_grow(host, &file->names));
        const char *name = file->tensors[i].name;
        index_table_add(&file->names, hash_bytes(&file->names.key, name, strlen(name)), (uint32_t)i);
    }
    return HASHATTN_OK;
}

/* Finds the header and its length; `there` bytes of the file are in memory. */
static hashattn_status find_header(struct host *host, const char *bytes, size_t there, size_t size,
                                   const char **header, size_t *length)
{
    static const char pointer[] = "version https://git-lfs";
    *header = NULL;
    *length = 0;
    FAIL_IF(size_min(there, size) < LENGTH_BYTES, host, HASHATTN_BAD_FILE,
            "not a safetensors file: %zu bytes, the length alone needs %d", size, (int)LENGTH_BYTES);
    uint64_t stated;
    memcpy(&stated, bytes, sizeof stated);
    FAIL_IF(size_min(there, size) >= sizeof pointer - 1 && memcmp(bytes, pointer, sizeof pointer - 1) == 0,
            host, HASHATTN_BAD_FILE,
            "a pointer of Git LFS to the file, not the file itself, which `git lfs pull` fetches");
    FAIL_IF(stated > SAFETENSORS_MAX_HEADER, host, HASHATTN_BAD_FILE,
            "the header has %llu bytes, at most %d are allowed", (unsigned long long)stated,
            (int)SAFETENSORS_MAX_HEADER);
    FAIL_IF(stated > size_min(there, size) - LENGTH_BYTES, host, HASHATTN_BAD_FILE,
            "cut short: %zu bytes, length and header alone need %llu", size,
            (unsigned long long)stated + LENGTH_BYTES);
    *header = bytes + LENGTH_BYTES;
    *length = (size_t)stated;
    FAIL_IF(stated == 0 || **header != '{', host, HASHATTN_BAD_FILE, "the header does not begin with '{'");
    return HASHATTN_OK;
}

/* Parses a file of `size` bytes whose first `there` are in memory: all of them, or at least the header. */
static hashattn_status parse(struct host *host, const char *bytes, size_t there, size_t size,
                             struct safetensors *file)
{
    *file = (struct safetensors){.tensors = NULL};
    const char *header;
    size_t length;
    TRY(find_header(host, bytes, there, size, &header, &length));
    const char *data = there < size ? NULL : header + length;
    size_t data_size = size - LENGTH_BYTES - length;

    hashattn_status status = json_parse(host, header, length, &file->header);
    if (status != HASHATTN_OK) {
        host_prefix(host, "header");
        return status;
    }
    void *block;
    TRY_DONE(
        memory_new(host, json_count(file->header), sizeof *file->tensors, "the list of tensors", &block));
    file->tensors = block;
    for (struct json_member m = json_first(file->header); m.key != NULL; m = json_next(m)) {
        if (strcmp(m.key, metadata_key) == 0) {
            status = check_words(host, m.value);
        } else {
            struct tensor *tensor = &file->tensors[file->count++];
            *tensor = (struct tensor){.name = m.key};
            status = parse_tensor(host, m.value, data, data_size, tensor);
        }
        if (status != HASHATTN_OK) {
            char name[120];
            snprintf(name, sizeof name, "tensor '%.100s'", m.key);
            host_prefix(host, name);
            goto done;
        }
    }
    if (file->count > 0)
        qsort(file->tensors, file->count, sizeof *file->tensors, by_place);
    TRY_DONE(check_cover(host, file, data_size));
    status = index_names(host, file);
done:
    if (status != HASHATTN_OK)
        safetensors_free(host, file);
    return status;
}

hashattn_status safetensors_parse(struct host *host, const char *bytes, size_t size, struct safetensors *file)
{
    return parse(host, bytes, size, size, file);
}

/* ---- reading ------------------------------------------------------------------------------------------- */

/* Parses the bytes of a file and takes ownership of them; frees them now if they are bad. */
static hashattn_status take(struct host *host, const char *path, char *bytes, size_t there, size_t size,
                            struct safetensors *file)
{
    hashattn_status status = parse(host, bytes, there, size, file);
    if (status != HASHATTN_OK) {
        memory_free(host, bytes);
        host_prefix(host, path);
        return status;
    }
    file->bytes = bytes;
    return HASHATTN_OK;
}

hashattn_status safetensors_read(struct host *host, const char *path, size_t limit, struct safetensors *file)
{
    char *bytes;
    size_t size;
    *file = (struct safetensors){.tensors = NULL};
    TRY(file_read_regular(host, path, limit, &bytes, &size));
    return take(host, path, bytes, size, size, file);
}

hashattn_status safetensors_read_given(struct host *host, const char *path, size_t limit,
                                       struct safetensors *file)
{
    char *bytes;
    size_t size;
    *file = (struct safetensors){.tensors = NULL};
    TRY(file_read(host, path, limit, &bytes, &size));
    return take(host, path, bytes, size, size, file);
}

hashattn_status safetensors_map(struct host *host, const char *path, struct safetensors *file)
{
    struct file_map map;
    *file = (struct safetensors){.tensors = NULL};
    TRY(file_map_open(host, path, &map));
    hashattn_status status = parse(host, map.bytes, map.size, map.size, file);
    if (status != HASHATTN_OK) {
        host_prefix(host, path);
        file_map_close(&map);
    }
    file->map = map;
    return status;
}

hashattn_status safetensors_read_header(struct host *host, const char *path, struct safetensors *file)
{
    char *bytes;
    size_t count, size;
    uint64_t stated = 0;
    *file = (struct safetensors){.tensors = NULL};
    TRY(file_read_start(host, path, LENGTH_BYTES, &bytes, &count, &size));
    memcpy(&stated, bytes, count);
    memory_free(host, bytes);
    size_t most = LENGTH_BYTES + (size_t)(stated < SAFETENSORS_MAX_HEADER ? stated : SAFETENSORS_MAX_HEADER);
    TRY(file_read_start(host, path, most, &bytes, &count, &size));
    return take(host, path, bytes, count, size, file);
}

void safetensors_free(struct host *host, struct safetensors *file)
{
    memory_free(host, file->tensors);
    index_table_free(host, &file->names);
    json_free(file->header);
    memory_free(host, file->bytes);
    file_map_close(&file->map);
    *file = (struct safetensors){.tensors = NULL};
}

static const struct tensor *find_stored(const struct safetensors *file, const char *name)
{
    uint32_t index;
    uint64_t hash = hash_bytes(&file->names.key, name, strlen(name));
    for (size_t probes = 0; index_table_next(&file->names, hash, &probes, &index);)
        if (strcmp(file->tensors[index].name, name) == 0)
            return &file->tensors[index];
    return NULL;
}

const struct tensor *safetensors_find(const struct safetensors *file, const char *name)
{
    const struct tensor *tensor = find_stored(file, name);
    const char *stored = tensor == NULL ? safetensors_word(file, name) : NULL;
    return stored == NULL ? tensor : find_stored(file, stored);
}

const char *safetensors_word(const struct safetensors *file, const char *key)
{
    return json_text(json_at(json_at(file->header, metadata_key), key));
}

hashattn_status safetensors_check(struct host *host, const struct safetensors *file, const char *name,
                                  int rank, const size_t *shape)
{
    const struct tensor *tensor = safetensors_find(file, name);
    FAIL_IF(tensor == NULL, host, HASHATTN_BAD_FILE, "tensor '%.100s' is missing", name);
    if (tensor->type != TENSOR_F32 || tensor->rank != rank ||
        (rank > 0 && memcmp(tensor->shape, shape, (size_t)rank * sizeof *shape) != 0)) {
        char is[SHAPE_TEXT(TENSOR_RANK)], wanted[SHAPE_TEXT(TENSOR_RANK)];
        shape_text(tensor->rank, tensor->shape, is, sizeof is);
        shape_text(rank, shape, wanted, sizeof wanted);
        return host_fail(host, HASHATTN_BAD_FILE, "tensor '%.100s' is %s %s, F32 %s is needed", name,
                         tensor_type_name(tensor->type), is, wanted);
    }
    return HASHATTN_OK;
}

hashattn_status safetensors_copy(struct host *host, const struct safetensors *file, const char *name,
                                 int rank, const size_t *shape, float *out)
{
    TRY(safetensors_check(host, file, name, rank, shape));
    const struct tensor *tensor = safetensors_find(file, name);
    assert(tensor->bytes == 0 || tensor->data != NULL);
    if (tensor->bytes > 0)
        memcpy(out, tensor->data, tensor->bytes);
    return HASHATTN_OK;
}

/* ---- writing ------------------------------------------------------------------------------------------- */

static hashattn_status put_words(struct host *host, struct json *header, const struct tensor_word *words,
                                 size_t count)
{
    struct json *object;
    TRY(json_new_object(host, &object));
    for (size_t i = 0; i < count; i++) {
        hashattn_status status = json_put_string(host, object, words[i].key, words[i].text);
        if (status != HASHATTN_OK) {
            json_free(object);
            return status;
        }
    }
    return json_put(host, header, metadata_key, object);
}

static hashattn_status put_numbers(struct host *host, struct json *entry, const char *key, size_t count,
                                   const size_t *numbers)
{
    struct json *array;
    TRY(json_new_array(host, &array));
    for (size_t i = 0; i < count; i++) {
        hashattn_status status = json_put_int(host, array, NULL, (int64_t)numbers[i]);
        if (status != HASHATTN_OK) {
            json_free(array);
            return status;
        }
    }
    return json_put(host, entry, key, array);
}

/* SIZE_MAX on overflow. */
static size_t tensor_bytes(const struct tensor *tensor)
{
    size_t bytes = tensor_type_size(tensor->type);
    for (int i = 0; i < tensor->rank; i++)
        bytes = size_product(bytes, tensor->shape[i]);
    return bytes;
}

/* Adds the entry of a tensor whose data begin at *offset, and moves *offset past them. */
static hashattn_status put_tensor(struct host *host, struct json *header, const struct tensor *tensor,
                                  size_t *offset)
{
    FAIL_IF(strcmp(tensor->name, metadata_key) == 0 || json_at(header, tensor->name) != NULL, host,
            HASHATTN_INVALID, "the tensor name '%.100s' is reserved or used twice", tensor->name);
    size_t bytes = tensor_bytes(tensor), offsets[2] = {*offset, size_sum(*offset, bytes)};
    FAIL_IF(offsets[1] > INT64_MAX, host, HASHATTN_INVALID, "tensor '%.100s' is too large", tensor->name);
    *offset = offsets[1];
    struct json *entry;
    TRY(json_new_object(host, &entry));
    hashattn_status status;
    TRY_DONE(json_put_string(host, entry, "dtype", tensor_type_name(tensor->type)));
    TRY_DONE(put_numbers(host, entry, "shape", (size_t)tensor->rank, tensor->shape));
    TRY_DONE(put_numbers(host, entry, "data_offsets", 2, offsets));
    return json_put(host, header, tensor->name, entry);
done:
    json_free(entry);
    return status;
}

/* Bytes of the widest element. Writing the widest types first aligns every array to its elements. */
enum { WIDEST = 8 };

static hashattn_status build_header(struct host *host, const struct tensor *tensors, size_t count,
                                    const struct tensor_word *words, size_t num_words, char **text,
                                    size_t *size)
{
    struct json *header;
    size_t offset = 0;
    hashattn_status status;
    TRY(json_new_object(host, &header));
    if (num_words > 0)
        TRY_DONE(put_words(host, header, words, num_words));
    for (size_t width = WIDEST; width > 0; width /= 2)
        for (size_t i = 0; i < count; i++)
            if (tensor_type_size(tensors[i].type) == width)
                TRY_DONE(put_tensor(host, header, &tensors[i], &offset));
    status = json_to_text(host, header, JSON_LINE, text, size);
done:
    json_free(header);
    return status;
}

hashattn_status safetensors_write(struct host *host, const char *path, const struct tensor *tensors,
                                  size_t count, const struct tensor_word *words, size_t num_words)
{
    char *text;
    size_t size;
    hashattn_status status = build_header(host, tensors, count, words, num_words, &text, &size);
    if (status != HASHATTN_OK) {
        host_prefix(host, path);
        return status;
    }
    size_t padding = (DATA_ALIGNMENT - size % DATA_ALIGNMENT) % DATA_ALIGNMENT;
    uint64_t stated = size + padding;
    struct file_writer writer;
    if (stated > SAFETENSORS_MAX_HEADER)
        status = host_fail(host, HASHATTN_INVALID, "%s: the header has %zu bytes, at most %d are allowed",
                           path, size + padding, (int)SAFETENSORS_MAX_HEADER);
    else
        status = file_open_replacement(host, path, &writer);
    if (status == HASHATTN_OK) {
        file_write(&writer, &stated, sizeof stated);
        file_write(&writer, text, size);
        file_write(&writer, "       ", padding);
        for (size_t width = WIDEST; width > 0; width /= 2)
            for (size_t i = 0; i < count; i++)
                if (tensor_type_size(tensors[i].type) == width)
                    file_write(&writer, tensors[i].data, tensor_bytes(&tensors[i]));
        status = file_commit(host, &writer);
    }
    memory_free(host, text);
    return status;
}
