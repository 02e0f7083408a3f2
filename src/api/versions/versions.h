/* Structs that grow: every public struct that a caller fills or receives has the size that its caller was
   compiled with, in struct_size or as an argument, and new fields are added only at the end. So an older
   caller's struct is a prefix of ours, and ours is a prefix of a newer caller's.
   SPDX-License-Identifier: Apache-2.0 */
#ifndef API_VERSIONS_H
#define API_VERSIONS_H

#include "base/host.h"

/* The sizes of the structs in the first version of the ABI. The functions of first_version.c do not receive
   the sizes of their callers, so these never change. They are also the least struct_size that is accepted;
   context_options had one field less before. */
struct first_sizes {
    size_t context_options, communicator, problem, stream_options, chunk, stream_source, encode_options,
        learn_options, text_options, sequences, sources, npy, density_options, cache_options,
        generate_options, predict_options;
};
extern const struct first_sizes first_sizes;

/* Copies the fields that a caller's struct has to our own (`known` bytes), which holds the defaults. `least`
   is its size in the first version. INVALID: struct_size is below `least`, as after a forgotten `_default`,
   or the caller's struct is longer than ours with anything but zeros in the rest. */
hashattn_status version_take(struct host *host, void *own, size_t known, const void *given, size_t least,
                             const char *what);

/* Copies our struct (`known` bytes) to a caller's, as far as it fits; keeps its struct_size. */
void version_give(void *given, const void *own, size_t known);

/* Fills a caller's struct of `size` bytes with ours: the fields that both have, then zeros. NULL is allowed.
   version_fill_options also sets its struct_size. */
void version_fill(void *given, size_t size, const void *own, size_t known);
void version_fill_options(void *given, size_t size, const void *own, size_t known);

#endif
