/* The streaming half of mechanism yoso.
   SPDX-License-Identifier: Apache-2.0 */
#ifndef ATTENTION_YOSO_STREAM_H
#define ATTENTION_YOSO_STREAM_H

#include "attention/mechanism.h"

extern const struct stream_facet yoso_stream;

#endif
