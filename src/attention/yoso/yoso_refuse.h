/* What yoso refuses.
   SPDX-License-Identifier: Apache-2.0 */
#ifndef ATTENTION_YOSO_REFUSE_H
#define ATTENTION_YOSO_REFUSE_H

#include "attention/mechanism.h"

/* A slot of the mechanism. */
const char *yoso_refuse(const void *of, const struct problem_shape *shape);

#endif
