/* Copies structs that grow from and to callers.
   SPDX-License-Identifier: Apache-2.0 */
#include "api/versions/versions.h"

#include <string.h>

#include "hashattn/hashattn.h"

/* The end of the last field that the first version had. */
#define FIRST_SIZE(type, last) (offsetof(type, last) + sizeof(((type *)NULL)->last))

const struct first_sizes first_sizes = {
    .context_options = FIRST_SIZE(hashattn_context_options, communicator),
    .communicator = FIRST_SIZE(hashattn_communicator, end),
    .problem = FIRST_SIZE(hashattn_problem, total_rows),
    .stream_options = FIRST_SIZE(hashattn_stream_options, seed),
    .chunk = FIRST_SIZE(hashattn_chunk, key_mask),
    .stream_source = FIRST_SIZE(hashattn_stream_source, done),
    .encode_options = FIRST_SIZE(hashattn_encode_options, offsets),
    .learn_options = FIRST_SIZE(hashattn_learn_options, user),
    .text_options = FIRST_SIZE(hashattn_text_options, seed),
    .sequences = FIRST_SIZE(hashattn_sequences, segments),
    .sources = FIRST_SIZE(hashattn_sources, user),
    .npy = FIRST_SIZE(hashattn_npy, data),
    .density_options = FIRST_SIZE(hashattn_density_options, seed),
    .cache_options = FIRST_SIZE(hashattn_cache_options, seed),
    .generate_options = FIRST_SIZE(hashattn_generate_options, num_texts),
    .predict_options = FIRST_SIZE(hashattn_predict_options, skip),
};

hashattn_status version_take(struct host *host, void *own, size_t known, const void *given, size_t least,
                             const char *what)
{
    size_t size;
    FAIL_IF(given == NULL, host, HASHATTN_INVALID, "%s is NULL", what);
    memcpy(&size, given, sizeof size);
    FAIL_IF(size < least, host, HASHATTN_INVALID,
            "%s: struct_size is %zu, at least %zu is needed (its sizeof, which its _default function sets if "
            "it has one)",
            what, size, least);
    for (size_t i = known; i < size; i++)
        FAIL_IF(((const unsigned char *)given)[i] != 0, host, HASHATTN_INVALID,
                "%s: struct_size is %zu and byte %zu is set; this library knows %zu", what, size, i, known);
    memcpy(own, given, size < known ? size : known);
    return HASHATTN_OK;
}

void version_give(void *given, const void *own, size_t known)
{
    size_t size;
    memcpy(&size, given, sizeof size);
    if (size > known)
        size = known;
    if (size > sizeof size)
        memcpy((unsigned char *)given + sizeof size, (const unsigned char *)own + sizeof size,
               size - sizeof size);
}

void version_fill(void *given, size_t size, const void *own, size_t known)
{
    if (given == NULL)
        return;
    memset(given, 0, size);
    memcpy(given, own, size < known ? size : known);
}

void version_fill_options(void *given, size_t size, const void *own, size_t known)
{
    if (given == NULL || size < sizeof size)
        return;
    version_fill(given, size, own, known);
    memcpy(given, &size, sizeof size);
}
