/* The handle of a sketch, for the files of this floor.
   SPDX-License-Identifier: Apache-2.0 */
#ifndef API_DENSITIES_H
#define API_DENSITIES_H

#include "api/handles.h"
#include "density/sketch.h"
#include "hashattn/density.h"

struct hashattn_density {
    hashattn_context *context;
    struct sketch *sketch;
};

#endif
