/* The compiled kernels (src/gpu/kernels/yoso.cu). `make GPU=1` compiles them with tools/gpu_images.py;
   without that, images_none.c stands in for them.
   SPDX-License-Identifier: Apache-2.0 */
#ifndef GPU_IMAGES_H
#define GPU_IMAGES_H

struct gpu_image {
    const char *name; /* "sm_90" */
    int major;        /* of the compute capability of GPUs that run it; 0: PTX, for all later ones */
    const void *data;
};

extern const struct gpu_image gpu_images[]; /* ended by a row with name NULL; the last one is PTX */

#endif
