/* One file or the files of an index.
   SPDX-License-Identifier: Apache-2.0 */
#include "io/weights/weight_files.h"

#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "base/file.h"
#include "base/memory.h"
#include "io/json.h"

static const char single_name[] = "model.safetensors", index_name[] = "model.safetensors.index.json";

void weight_files_close(struct host *host, struct weight_files *weights)
{
    for (size_t i = 0; i < weights->num_files; i++)
        safetensors_free(host, &weights->files[i]);
    memory_free(host, weights->files);
    *weights = (struct weight_files){NULL, 0};
}

const struct tensor *weight_files_find(const struct weight_files *weights, const char *name,
                                       const struct safetensors **file)
{
    for (size_t i = 0; i < weights->num_files; i++) {
        const struct tensor *tensor = safetensors_find(&weights->files[i], name);
        if (file != NULL)
            *file = &weights->files[i];
        if (tensor != NULL)
            return tensor;
    }
    return NULL;
}

size_t weight_files_tensors(const struct weight_files *weights)
{
    size_t count = 0;
    for (size_t i = 0; i < weights->num_files; i++)
        count += weights->files[i].count;
    return count;
}

size_t weight_files_number(const struct weight_files *weights, const struct safetensors *file,
                           const struct tensor *tensor)
{
    size_t number = (size_t)(tensor - file->tensors);
    for (const struct safetensors *before = weights->files; before < file; before++)
        number += before->count;
    return number;
}

/* ---- the files of an index ----------------------------------------------------------------------------- */

/* The distinct names of files in the order of the index; they belong to its tree. */
struct shard_names {
    const char *names[WEIGHT_FILES_MOST];
    size_t count;
    struct index_table table; /* indices of names */
};

/* Sets *shard to the index of a name; false: it is not there. */
static bool find_shard(const struct shard_names *shards, const char *name, uint32_t *shard)
{
    uint64_t hash = hash_bytes(&shards->table.key, name, strlen(name));
    uint32_t index;
    for (size_t probes = 0; index_table_next(&shards->table, hash, &probes, &index);)
        if (strcmp(shards->names[index], name) == 0) {
            *shard = index;
            return true;
        }
    return false;
}

static hashattn_status list_shards(struct host *host, const struct json *map, struct shard_names *shards)
{
    uint32_t shard;
    for (struct json_member m = json_first(map); m.key != NULL; m = json_next(m)) {
        const char *name = json_text(m.value);
        FAIL_IF(name == NULL || name[0] == '\0' || name[0] == '.' || strchr(name, '/') != NULL, host,
                HASHATTN_BAD_FILE,
                "weight_map gives tensor '%.100s' the file '%.60s', a name without / is needed", m.key,
                name == NULL ? "" : name);
        TRY(index_table_grow(host, &shards->table));
        if (find_shard(shards, name, &shard))
            continue;
        FAIL_IF(shards->count == WEIGHT_FILES_MOST, host, HASHATTN_BAD_FILE,
                "weight_map names more than %d files", WEIGHT_FILES_MOST);
        index_table_add(&shards->table, hash_bytes(&shards->table.key, name, strlen(name)),
                        (uint32_t)shards->count);
        shards->names[shards->count++] = name;
    }
    FAIL_IF(shards->count == 0, host, HASHATTN_BAD_FILE, "weight_map is empty");
    return HASHATTN_OK;
}

/* Checks that each tensor is in the file that the index names, and in no other. */
static hashattn_status check_index(struct host *host, const struct json *map,
                                   const struct shard_names *shards, const struct weight_files *weights)
{
    size_t count = weight_files_tensors(weights);
    for (struct json_member m = json_first(map); m.key != NULL; m = json_next(m)) {
        const char *name = json_text(m.value);
        uint32_t shard = 0;
        find_shard(shards, name, &shard); /* all names are there */
        FAIL_IF(safetensors_find(&weights->files[shard], m.key) == NULL, host, HASHATTN_BAD_FILE,
                "tensor '%.100s' is not in the file %.60s that weight_map names", m.key, name);
    }
    FAIL_IF(count != json_count(map), host, HASHATTN_BAD_FILE,
            "weight_map has %zu tensors, its files have %zu", json_count(map), count);
    return HASHATTN_OK;
}

static hashattn_status open_shards(struct host *host, const char *directory, const struct json *map,
                                   const struct shard_names *shards, struct weight_files *weights)
{
    char path[FILE_PATH];
    void *block;
    TRY(memory_new_zeroed(host, shards->count, sizeof *weights->files, "the list of files", &block));
    weights->files = block;
    for (; weights->num_files < shards->count; weights->num_files++) {
        TRY(file_join(host, directory, shards->names[weights->num_files], path, sizeof path));
        TRY(safetensors_map(host, path, &weights->files[weights->num_files]));
    }
    hashattn_status status = check_index(host, map, shards, weights);
    if (status != HASHATTN_OK)
        host_prefix(host, directory);
    return status;
}

static hashattn_status open_index(struct host *host, const char *directory, const char *path,
                                  struct weight_files *weights)
{
    struct shard_names shards = {.count = 0};
    struct json *root;
    const struct json *map;
    TRY(json_read_file(host, path, &root));
    hashattn_status status = json_get_object(host, root, "weight_map", &map);
    if (status == HASHATTN_OK)
        status = list_shards(host, map, &shards);
    if (status != HASHATTN_OK)
        host_prefix(host, path);
    else
        status = open_shards(host, directory, map, &shards, weights);
    index_table_free(host, &shards.table);
    json_free(root);
    return status;
}

/* ---- what the directory has ---------------------------------------------------------------------------- */

static hashattn_status fail_without_files(struct host *host, const char *directory)
{
    static const char *const archives[] = {"pytorch_model.bin", "pytorch_model.bin.index.json"};
    char path[FILE_PATH];
    for (size_t i = 0; i < sizeof archives / sizeof *archives; i++) {
        TRY(file_join(host, directory, archives[i], path, sizeof path));
        if (!file_exists(path))
            continue;
        host_fail(
            host, HASHATTN_BAD_FILE,
            "a pickled archive can run code, so it is not read; convert it in its directory with: python3 -c "
            "\"import glob, torch, safetensors.torch as s; s.save_file({k: v.clone() for f in "
            "glob.glob('pytorch_model*.bin') for k, v in torch.load(f, weights_only=True).items()}, "
            "'model.safetensors', {'format': 'pt'})\"");
        host_prefix(host, path);
        return HASHATTN_BAD_FILE;
    }
    return host_fail(host, HASHATTN_BAD_FILE, "%.300s has neither %s nor %s", directory, single_name,
                     index_name);
}

hashattn_status weight_files_open_one(struct host *host, const char *path, struct weight_files *weights)
{
    void *block;
    *weights = (struct weight_files){NULL, 0};
    TRY(memory_new_zeroed(host, 1, sizeof *weights->files, "the list of files", &block));
    weights->files = block;
    hashattn_status status = safetensors_map(host, path, weights->files);
    if (status == HASHATTN_OK)
        weights->num_files = 1;
    else
        weight_files_close(host, weights);
    return status;
}

hashattn_status weight_files_open(struct host *host, const char *directory, struct weight_files *weights)
{
    char path[FILE_PATH];
    *weights = (struct weight_files){NULL, 0};
    TRY(file_join(host, directory, single_name, path, sizeof path));
    if (file_exists(path))
        return weight_files_open_one(host, path, weights);
    TRY(file_join(host, directory, index_name, path, sizeof path));
    if (!file_exists(path))
        return fail_without_files(host, directory);
    hashattn_status status = open_index(host, directory, path, weights);
    if (status != HASHATTN_OK)
        weight_files_close(host, weights);
    return status;
}
