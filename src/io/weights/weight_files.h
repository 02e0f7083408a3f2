/* The weights of a stored checkpoint: one mapped file model.safetensors, or several with an index
   (model.safetensors.index.json: "weight_map" says which file has which tensor).
   SPDX-License-Identifier: Apache-2.0 */
#ifndef IO_WEIGHT_FILES_H
#define IO_WEIGHT_FILES_H

#include "io/weights/safetensors.h"

enum { WEIGHT_FILES_MOST = 1024 };

struct weight_files {
    struct safetensors *files; /* (num_files) mapped */
    size_t num_files;
};

/* BAD_FILE: there are no such files, a file is broken, or the index and the files disagree; the message has
   the path. A directory with only PyTorch's pickled archive is refused with the command that converts it:
   unpickling can run any code. On failure *weights is empty. */
hashattn_status weight_files_open(struct host *host, const char *directory, struct weight_files *weights);
/* The one file at `path`, as it is. */
hashattn_status weight_files_open_one(struct host *host, const char *path, struct weight_files *weights);
void weight_files_close(struct host *host, struct weight_files *weights);

/* The tensor of that name and the file that has it; NULL if there is none. file may be NULL. */
const struct tensor *weight_files_find(const struct weight_files *weights, const char *name,
                                       const struct safetensors **file);
/* The tensors of all files, and the number of one among them, from 0. */
size_t weight_files_tensors(const struct weight_files *weights);
size_t weight_files_number(const struct weight_files *weights, const struct safetensors *file,
                           const struct tensor *tensor);

#endif
