/* Precision, recall and F1 of every label, and which classes are taken for which.
   SPDX-License-Identifier: Apache-2.0 */
#ifndef CLI_CLASSES_OUT_H
#define CLI_CLASSES_OUT_H

#include "cli/shared/output/json_out.h"
#include "hashattn/hashattn.h"

/* Tables on stdout; the matrix for at most ten classes. Nothing if no labels were counted. */
void classes_words(const hashattn_model *model, const hashattn_evaluation *result);
/* Members of an open object: "per_class", and of a model with a confusion "labels" and "confusion". */
void classes_json(struct json_out *json, const hashattn_model *model, const hashattn_evaluation *result);

#endif
