/* The functions that programs compiled with the headers of the first version call, and programs that load the
   library by name: their structs have the sizes of that version. Today's headers have inline functions of the
   same names instead, which pass the caller's size on; so the headers are not included here.
   SPDX-License-Identifier: Apache-2.0 */
#include "api/versions/versions.h"

#define FILLED_BY_DEFAULT(name)                                                                              \
    struct hashattn_##name;                                                                                  \
    HASHATTN_API void hashattn_##name##_default_sized(struct hashattn_##name *options, size_t struct_size);  \
    HASHATTN_API void hashattn_##name##_default(struct hashattn_##name *options);                            \
    void hashattn_##name##_default(struct hashattn_##name *options)                                          \
    {                                                                                                        \
        hashattn_##name##_default_sized(options, first_sizes.name);                                          \
    }

FILLED_BY_DEFAULT(context_options)
FILLED_BY_DEFAULT(problem)
FILLED_BY_DEFAULT(stream_options)
FILLED_BY_DEFAULT(encode_options)
FILLED_BY_DEFAULT(learn_options)
FILLED_BY_DEFAULT(text_options)
FILLED_BY_DEFAULT(sources)
FILLED_BY_DEFAULT(cache_options)
FILLED_BY_DEFAULT(generate_options)
FILLED_BY_DEFAULT(predict_options)
FILLED_BY_DEFAULT(density_options)

struct hashattn_context;
struct hashattn_npy;
struct hashattn_npy_reader;
HASHATTN_API hashattn_status hashattn_npy_read_sized(struct hashattn_context *context, const char *path,
                                                     struct hashattn_npy *array, size_t array_bytes);
HASHATTN_API void hashattn_npy_free_sized(struct hashattn_context *context, struct hashattn_npy *array,
                                          size_t array_bytes);
HASHATTN_API hashattn_status hashattn_npy_open_sized(struct hashattn_context *context, const char *path,
                                                     struct hashattn_npy *array,
                                                     struct hashattn_npy_reader **reader, size_t array_bytes);
HASHATTN_API hashattn_status hashattn_npy_read(struct hashattn_context *context, const char *path,
                                               struct hashattn_npy *array);
HASHATTN_API void hashattn_npy_free(struct hashattn_context *context, struct hashattn_npy *array);
HASHATTN_API hashattn_status hashattn_npy_open(struct hashattn_context *context, const char *path,
                                               struct hashattn_npy *array,
                                               struct hashattn_npy_reader **reader);

hashattn_status hashattn_npy_read(struct hashattn_context *context, const char *path,
                                  struct hashattn_npy *array)
{
    return hashattn_npy_read_sized(context, path, array, first_sizes.npy);
}

void hashattn_npy_free(struct hashattn_context *context, struct hashattn_npy *array)
{
    hashattn_npy_free_sized(context, array, first_sizes.npy);
}

hashattn_status hashattn_npy_open(struct hashattn_context *context, const char *path,
                                  struct hashattn_npy *array, struct hashattn_npy_reader **reader)
{
    return hashattn_npy_open_sized(context, path, array, reader, first_sizes.npy);
}
