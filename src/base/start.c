/* One loop for each kind of initial value.
   SPDX-License-Identifier: Apache-2.0 */
#include "base/start.h"

#include "base/random.h"

static void fill(float *values, size_t count, float value)
{
    for (size_t i = 0; i < count; i++)
        values[i] = value;
}

void start_fill(enum param_start start, float scale, uint64_t key, float *values, size_t count)
{
    switch (start) {
    case START_ZEROS:
        fill(values, count, 0);
        break;
    case START_ONES:
        fill(values, count, 1);
        break;
    case START_CONSTANT:
        fill(values, count, scale);
        break;
    case START_NORMAL:
        random_normals(key, 0, values, count);
        for (size_t i = 0; i < count; i++)
            values[i] *= scale;
        break;
    case START_UNIFORM: {
        struct random random = random_open(key);
        for (size_t i = 0; i < count; i++)
            values[i] = (2 * random_unit(&random) - 1) * scale;
        break;
    }
    }
}
