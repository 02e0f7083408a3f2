/* Fingerprints of data sets: a run is resumed with the data it began with, and two runs are compared on the
   same examples.
   SPDX-License-Identifier: Apache-2.0 */
#ifndef TRAIN_FINGERPRINT_H
#define TRAIN_FINGERPRINT_H

#include "tasks/task.h"

/* tokens: rows, and ids that are targets only. hash: of everything that a model reads or is trained for. */
struct fingerprint {
    uint64_t examples, tokens, hash;
};
struct fingerprint fingerprint_of(const struct dataset *dataset);
/* The hash of numbers, such as the parameters of a model. */
uint64_t fingerprint_of_floats(const float *floats, size_t count);

/* The hash of the targets. Models that read the same examples differently, such as cut to different lengths,
   have the same targets if there is one per example. */
uint64_t fingerprint_of_targets(const struct dataset *dataset);

#endif
