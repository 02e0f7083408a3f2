/* Names of tensors in the files of other programs. A checkpoint with other names than ours needs a table of
   rules and no code: model_save and model_load translate with it.
   SPDX-License-Identifier: Apache-2.0 */
#ifndef MODELS_NAME_MAP_H
#define MODELS_NAME_MAP_H

#include <stdbool.h>
#include <stddef.h>

/* One `*` in both names stands for the same number: "encoder.layer.*.norm.weight", "layers.*.ln.weight". */
struct name_rule {
    const char *ours, *theirs;
};

struct name_map {
    const struct name_rule *rules; /* ended by a rule of NULL; a name without a rule is the same in both */
    const char *const
        *ignored; /* patterns of tensors that the file may have besides, ended by NULL; or NULL */
};

/* Writes the file's name for our name `ours` into theirs[size]. map may be NULL: both are the same. False if
   the name is cut. */
bool name_map_theirs(const struct name_map *map, const char *ours, char *theirs, size_t size);
/* True if the file may have a tensor `theirs` that the model does not have. */
bool name_map_ignores(const struct name_map *map, const char *theirs);

#endif
