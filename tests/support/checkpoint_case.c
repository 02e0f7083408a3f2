/* Reads the expected numbers as floats.
   SPDX-License-Identifier: Apache-2.0 */
#include "support/checkpoint_case.h"

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "base/memory.h"
#include "io/weights/safetensors.h"

const char *const checkpoint_types[] = {"yoso", "bert", "roberta", NULL};
const char *const checkpoint_kin[] = {"distilbert", "electra", "camembert", NULL};

void checkpoint_case_read(const char *type, struct checkpoint_case *c)
{
    enum { T = CHECKPOINT_TOKENS };
    struct host host;
    struct safetensors file;
    char path[120];
    float ids[T], segments[T];
    host_init(&host);
    snprintf(c->directory, sizeof c->directory, "tests/models/checkpoints/%s", type);
    snprintf(path, sizeof path, "%s/expected.safetensors", c->directory);
    check_status(&host, safetensors_read(&host, path, 1 << 20, &file), HASHATTN_OK, NULL);
    const struct {
        const char *name;
        float *to;
        int rank;
        size_t width;
    } arrays[] = {{"ids", ids, 1, 0},
                  {"segments", segments, 1, 0},
                  {"hidden", c->hidden, 2, CHECKPOINT_DIM},
                  {"logits", c->logits, 2, CHECKPOINT_VOCAB}};
    for (size_t i = 0; i < 4; i++)
        check_status(&host,
                     safetensors_copy(&host, &file, arrays[i].name, arrays[i].rank,
                                      (size_t[]){T, arrays[i].width}, arrays[i].to),
                     HASHATTN_OK, NULL);
    for (size_t i = 0; i < T; i++) {
        c->ids[i] = (uint32_t)ids[i];
        c->segments[i] = (uint8_t)segments[i];
    }
    c->offsets[0] = 0;
    c->offsets[1] = T;
    safetensors_free(&host, &file);
}

void checkpoint_copy(const struct folder *folder, const char *type)
{
    struct host host;
    char path[400], *bytes;
    size_t size;
    host_init(&host);
    snprintf(path, sizeof path, "tests/models/checkpoints/%s", type);
    DIR *directory = opendir(path);
    assert_non_null(directory);
    for (struct dirent *entry; (entry = readdir(directory)) != NULL;) {
        if (entry->d_name[0] == '.')
            continue;
        snprintf(path, sizeof path, "tests/models/checkpoints/%s/%s", type, entry->d_name);
        check_status(&host, file_read_regular(&host, path, 1 << 20, &bytes, &size), HASHATTN_OK, NULL);
        folder_put(folder, entry->d_name, bytes, size);
        memory_free(&host, bytes);
    }
    closedir(directory);
}

void checkpoint_edit(const struct folder *folder, const char *from, const char *to)
{
    size_t size;
    char *text = folder_get(folder, "config.json", &size), *at = strstr(text, from);
    char *edited = malloc(size + strlen(to) + 1);
    assert_non_null(at);
    sprintf(edited, "%.*s%s%s", (int)(at - text), text, to, at + strlen(from));
    folder_put_text(folder, "config.json", edited);
    free(edited);
    free(text);
}
