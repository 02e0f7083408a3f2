/* safetensors: named arrays with a few words of metadata in one file. An 8-byte length, a JSON header, then
   the arrays without gaps. A file is checked by the rules of the format before anything in it is used.
   Source: the README of huggingface/safetensors, "Format".
   SPDX-License-Identifier: Apache-2.0 */
#ifndef IO_SAFETENSORS_H
#define IO_SAFETENSORS_H

#include <stdint.h>

#include "base/file_map.h"
#include "base/tables/index_table.h"

enum {
    TENSOR_RANK = 8,                    /* our limit; the format has none */
    SAFETENSORS_MAX_HEADER = 100000000, /* bytes; the format's own limit */
};

/* X(name as in the header, bytes of an element) */
#define TENSOR_TYPE_LIST(X)                                                                                  \
    X(BOOL, 1)                                                                                               \
    X(U8, 1)                                                                                                 \
    X(I8, 1)                                                                                                 \
    X(F8_E5M2, 1)                                                                                            \
    X(F8_E4M3, 1)                                                                                            \
    X(F8_E8M0, 1)                                                                                            \
    X(F8_E4M3FNUZ, 1)                                                                                        \
    X(F8_E5M2FNUZ, 1)                                                                                        \
    X(U16, 2)                                                                                                \
    X(I16, 2)                                                                                                \
    X(F16, 2)                                                                                                \
    X(BF16, 2)                                                                                               \
    X(U32, 4)                                                                                                \
    X(I32, 4)                                                                                                \
    X(F32, 4)                                                                                                \
    X(U64, 8)                                                                                                \
    X(I64, 8)                                                                                                \
    X(F64, 8)                                                                                                \
    X(C64, 8)

enum tensor_type {
#define TENSOR_TYPE_ENUM(name, bytes) TENSOR_##name,
    TENSOR_TYPE_LIST(TENSOR_TYPE_ENUM)
#undef TENSOR_TYPE_ENUM
};
const char *tensor_type_name(enum tensor_type type); /* "F32" */
size_t tensor_type_size(enum tensor_type type);

struct tensor {
    const char *name;
    enum tensor_type type;
    int rank; /* 0: one element */
    size_t shape[TENSOR_RANK];
    const void *data;    /* (shape) in C order, little endian; may be unaligned in a file that was read */
    size_t bytes, begin; /* size of the data, and their offset after the header; ignored by the writer */
};

struct tensor_word {
    const char *key, *text;
};

struct safetensors {
    struct tensor *tensors; /* (count) in the order of the file */
    size_t count;
    struct index_table names; /* indices of tensors */
    struct json *header;
    char *bytes;         /* the whole file, if safetensors_read read it */
    struct file_map map; /* the file, if safetensors_map mapped it */
};

/* Checks a whole file in memory, which must outlive `file`. */
hashattn_status safetensors_parse(struct host *host, const char *bytes, size_t size,
                                  struct safetensors *file);
/* Reads a regular file of at most `limit` bytes. Names and data are valid as long as `file`. */
hashattn_status safetensors_read(struct host *host, const char *path, size_t limit, struct safetensors *file);
/* The same for a file that the user names: "-" is standard input, and a pipe works too. */
hashattn_status safetensors_read_given(struct host *host, const char *path, size_t limit,
                                       struct safetensors *file);
/* Maps a regular file: its data are read when they are first used. Checks the header only. */
hashattn_status safetensors_map(struct host *host, const char *path, struct safetensors *file);
/* Reads and checks only the header of a regular file; its tensors have no data. */
hashattn_status safetensors_read_header(struct host *host, const char *path, struct safetensors *file);
void safetensors_free(struct host *host, struct safetensors *file);

/* NULL: none. A name that __metadata__ maps to that of a tensor is another name of it:
   safetensors.torch.save_model stores tensors that share memory once, and says so there. */
const struct tensor *safetensors_find(const struct safetensors *file, const char *name);
/* A value of __metadata__; NULL if there is none. */
const char *safetensors_word(const struct safetensors *file, const char *key);
/* BAD_FILE, with what was found instead, unless there is an F32 tensor of exactly this shape. */
hashattn_status safetensors_check(struct host *host, const struct safetensors *file, const char *name,
                                  int rank, const size_t *shape);
/* Copies such a tensor to `out`. */
hashattn_status safetensors_copy(struct host *host, const struct safetensors *file, const char *name,
                                 int rank, const size_t *shape, float *out);

/* Replaces a file atomically. Wider types come first, so that all data are aligned. */
hashattn_status safetensors_write(struct host *host, const char *path, const struct tensor *tensors,
                                  size_t count, const struct tensor_word *words, size_t num_words);

#endif
