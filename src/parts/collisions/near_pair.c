/* The angle of unit vectors is 2 atan2(|q - k|, |q + k|) (Kahan).
   SPDX-License-Identifier: Apache-2.0 */
#include "parts/collisions/near_pair.h"

#include <math.h>

#define PI 3.14159265358979323846

float near_pair_chance(const float *query, const float *key, size_t dim, size_t hash_bits)
{
    double u2 = 0, v2 = 0;
    for (size_t c = 0; c < dim; c++) {
        double difference = (double)query[c] - (double)key[c], sum = (double)query[c] + (double)key[c];
        u2 += difference * difference;
        v2 += sum * sum;
    }
    double p = 1 - 2 / PI * atan2(sqrt(u2), sqrt(v2));
    return (float)pow(p > 0 ? p : 0, (double)hash_bits);
}
