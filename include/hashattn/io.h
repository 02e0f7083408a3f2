/* Arrays on disk in NumPy's own format. SPDX-License-Identifier: Apache-2.0 */
#ifndef HASHATTN_IO_H
#define HASHATTN_IO_H

#include "hashattn/attention.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef enum hashattn_element { HASHATTN_FLOAT32, HASHATTN_BYTE } hashattn_element; /* BYTE: uint8 or bool */

typedef struct hashattn_npy {
    hashattn_element element;
    int rank; /* 0 to 4 */
    size_t shape[4];
    void *data; /* C order, allocated by the library */
} hashattn_npy;

/* Reads a .npy file ("-": standard input); BAD_FILE, with the place and the numbers, when it is anything but
   a little-endian float32, uint8 or bool array in C order of rank 0 to 4. Free with hashattn_npy_free. */
HASHATTN_API hashattn_status hashattn_npy_read(hashattn_context *context, const char *path,
                                               hashattn_npy *array);
/* NULL data are allowed; the array is empty afterwards. */
HASHATTN_API void hashattn_npy_free(hashattn_context *context, hashattn_npy *array);
/* Writes a float32 array, (shape) in C order, replacing the file in one step ("-": standard output). NO_DISK
   with the system's reason; then an old file is still there. */
HASHATTN_API hashattn_status hashattn_npy_write(hashattn_context *context, const char *path,
                                                const float *data, int rank, const size_t *shape);

#ifdef __cplusplus
}
#endif
#endif
