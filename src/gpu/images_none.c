/* A library without kernels for GPUs: a module that every driver loads and in which no kernel is found, so
   the driver file says what is missing when a device is opened.
   SPDX-License-Identifier: Apache-2.0 */
#include "gpu/images.h"

const struct gpu_image gpu_images[] = {
    {"none", 0, ".version 7.0\n.target sm_80\n.address_size 64\n"},
    {0, 0, 0},
};
