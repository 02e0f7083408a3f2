/* The table of mechanisms, in the order of lists. A new mechanism is a row here and a file in this folder.
   SPDX-License-Identifier: Apache-2.0 */
#include "attention/mechanism.h"

extern const struct mechanism mechanism_softmax, mechanism_none, mechanism_yoso, mechanism_yoso_e,
    mechanism_lha, mechanism_lsh, mechanism_random, mechanism_local, mechanism_linear, mechanism_race;

const struct mechanism *const mechanism_table[] = {
    &mechanism_softmax,
    &mechanism_none,
    &mechanism_yoso,
    &mechanism_yoso_e,
    &mechanism_lha,
    &mechanism_lsh,
    &mechanism_random,
    &mechanism_local,
    &mechanism_linear,
    &mechanism_race,
    NULL,
};
