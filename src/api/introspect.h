/* Option rows of the floors below as the public struct.
   SPDX-License-Identifier: Apache-2.0 */
#ifndef API_INTROSPECT_H
#define API_INTROSPECT_H

#include "attention/driver/attention.h"
#include "base/options.h"
#include "hashattn/attention.h"

/* Fills *given from a row; its text is the value in `values`, or the default if that is NULL. */
void option_give(hashattn_option *given, const struct option_row *row, const char *owner, const void *values);

#endif
