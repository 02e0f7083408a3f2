/* The table of mechanisms, in the order of lists. A new mechanism is a row here and a file in this folder.
   SPDX-License-Identifier: Apache-2.0 */
#include "attention/mechanism.h"

/* clang-format off */
#define MECHANISMS(row) \
    row(softmax) \
    row(none) \
    row(yoso) \
    row(yoso_e) \
    row(lha) \
    row(lsh) \
    row(random) \
    row(local) \
    row(linear) \
    row(smyrf) \
    row(reformer) \
    row(routing) \
    row(probsparse) \
    row(nystrom) \
    row(linformer) \
    row(clustered) \
    row(synthesizer) \
    row(longformer) \
    row(bigbird) \
    row(sparse) \
    row(sinkhorn) \
    row(race) \
    row(lss) \
    row(hbe) \
    row(performer) \
    row(rfa)
/* clang-format on */

#define DECLARE(name) extern const struct mechanism mechanism_##name;
#define ADDRESS(name) &mechanism_##name,

MECHANISMS(DECLARE)

const struct mechanism *const mechanism_table[] = {MECHANISMS(ADDRESS) NULL};
