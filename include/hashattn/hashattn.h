/* All of hashattn.
   SPDX-License-Identifier: Apache-2.0 */
#ifndef HASHATTN_HASHATTN_H
#define HASHATTN_HASHATTN_H

#include "hashattn/attention.h"
#include "hashattn/cache.h"
#include "hashattn/communicator.h"
#include "hashattn/density.h"
#include "hashattn/device.h"
#include "hashattn/forecast.h"
#include "hashattn/generate.h"
#include "hashattn/io.h"
#include "hashattn/measure.h"
#include "hashattn/metric.h"
#include "hashattn/model.h"
#include "hashattn/pretrained.h"
#include "hashattn/record.h"
#include "hashattn/status.h"
#include "hashattn/stream.h"
#include "hashattn/tokenizer.h"
#include "hashattn/train.h"

#define HASHATTN_VERSION "0.1.0"

#endif
